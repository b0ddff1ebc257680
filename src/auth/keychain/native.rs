//! The keychains of macOS and Windows. They block, and may ask a person.

use std::collections::HashMap;
use std::sync::LazyLock;

#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain::Store;
use keyring_core::api::CredentialStoreApi;
use keyring_core::{Entry, Error};
#[cfg(windows)]
use windows_native_keyring_store::Store;

use super::one_thread::OneThread;
use super::{Keychain, SERVICE, Trouble};
use crate::secret::Secret;
use crate::transport::BoxFuture;

/// One for the process: managers share the keychain, and what hangs in it.
static THREAD: LazyLock<OneThread> = LazyLock::new(OneThread::default);

/// The keychain of the user.
pub(super) struct Native;

fn entry(account: &str) -> Result<Entry, Error> {
    // The key stays on this machine, as what it seals does.
    let modifiers = cfg!(windows).then(|| HashMap::from([("persistence", "Local")]));
    Store::new()?.build(SERVICE, account, modifiers.as_ref())
}

fn trouble(error: &Error) -> Trouble {
    match error {
        Error::NoStorageAccess(_) => Trouble::Locked,
        Error::NoDefaultStore => Trouble::Absent,
        Error::NoEntry => Trouble::Failed("an entry vanished".into()),
        // What the platform says is not repeated: nobody promises that it holds no secret.
        _ => Trouble::Failed("the platform refuses".into()),
    }
}

impl Keychain for Native {
    fn get<'a>(&'a self, account: &'a str) -> BoxFuture<'a, Result<Option<Secret<String>>, Trouble>> {
        let account = account.to_owned();
        Box::pin(THREAD.run(move || match entry(&account).and_then(|entry| entry.get_password()) {
            Ok(text) => Ok(Some(Secret::new(text))),
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(trouble(&error)),
        }))
    }

    fn set<'a>(&'a self, account: &'a str, secret: Secret<String>) -> BoxFuture<'a, Result<(), Trouble>> {
        let account = account.to_owned();
        Box::pin(THREAD.run(move || {
            entry(&account)
                .and_then(|entry| entry.set_password(secret.expose()))
                .map_err(|error| trouble(&error))
        }))
    }
}
