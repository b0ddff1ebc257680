//! The system's keychain: where the key of sealed logins is kept, and nothing else (OAU-03, A-17).
//!
//! Nothing here is contacted before it is asked. Deadlines are those of whoever asks: dropping a future ends the wait.

#[cfg(any(test, windows, target_os = "macos"))]
mod one_thread;

#[cfg(any(windows, target_os = "macos"))]
mod native;
#[cfg(all(unix, not(target_os = "macos")))]
mod secret_service;

use std::sync::Arc;

use crate::environment::Environment;
use crate::secret::Secret;
use crate::transport::BoxFuture;

/// What entries belong to.
const SERVICE: &str = "mcp-switchboard";

/// Why a keychain cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// There is none.
    Absent,
    /// A person would have to unlock it.
    Locked,
    /// It does not answer in time.
    Late,
    /// It refuses, for a reason without secrets.
    Failed(String),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Absent => f.write_str("there is none"),
            Trouble::Locked => f.write_str("it is locked"),
            Trouble::Late => f.write_str("it does not answer in time"),
            Trouble::Failed(why) => f.write_str(why),
        }
    }
}

/// Keeps short secrets of this package by account.
pub trait Keychain: Send + Sync {
    /// The secret of an account; `None` where the keychain answers and has none.
    fn get<'a>(&'a self, account: &'a str) -> BoxFuture<'a, Result<Option<Secret<String>>, Trouble>>;
    /// Keeps a secret.
    fn set<'a>(&'a self, account: &'a str, secret: Secret<String>) -> BoxFuture<'a, Result<(), Trouble>>;
}

/// The keychain of this platform. Nothing is loaded or asked yet.
#[cfg(all(unix, not(target_os = "macos")))]
pub fn system(environment: &Environment) -> Arc<dyn Keychain> {
    Arc::new(secret_service::SecretService::new(environment))
}

/// The keychain of this platform. Nothing is loaded or asked yet.
#[cfg(any(windows, target_os = "macos"))]
pub fn system(_environment: &Environment) -> Arc<dyn Keychain> {
    Arc::new(native::Native)
}
