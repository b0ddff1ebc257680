//! The key of sealed logins: fetched from the keychain when it is first needed, made where there is none, then kept in
//! this process (OAU-03, F-065).
//!
//! One contact at a time, for everybody who waits, with a deadline over all of it; a keychain that could not be used
//! is left alone for a while.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::flight::Flight;
use super::keychain::{Keychain, Trouble};
use super::record_file::Directory;
use super::sealing::{SealingKey, is_key_id};
use crate::error::McpError;
use crate::runtime::lock;

/// Longest contact, with the wait for other processes that make the first key.
const CONTACT: Duration = Duration::from_secs(3);
/// Before a keychain that gave an answer is asked again.
const SOON: Duration = Duration::from_secs(60);
/// Before one that gave none is: each time may cost a whole contact.
const LATER: Duration = Duration::from_secs(600);
/// File with the name of the key in use, beside the records.
const KEY_NAME: &str = "sealing-key";

/// The keys of one directory of records.
pub(super) struct Vault {
    directory: Directory,
    keychain: Arc<dyn Keychain>,
    known: Mutex<Known>,
    contact: Flight<()>,
}

#[derive(Default)]
struct Known {
    /// The key that seals.
    current: Option<Arc<SealingKey>>,
    /// Keys by name.
    keys: HashMap<String, Arc<SealingKey>>,
    /// Names that the keychain knows nothing of.
    gone: HashSet<String>,
    /// Why it is not asked, and until when.
    trouble: Option<(Trouble, Instant)>,
}

impl Vault {
    pub(super) fn new(directory: Directory, keychain: Arc<dyn Keychain>) -> Self {
        Self { directory, keychain, known: Mutex::default(), contact: Flight::default() }
    }

    /// The key that seals; made where there is none yet.
    pub(super) async fn current(self: &Arc<Self>) -> Result<Arc<SealingKey>, Trouble> {
        self.ask(None, |known| known.current.clone()).await
    }

    /// The key of a name; `None` where the keychain answers and has none.
    pub(super) async fn of(self: &Arc<Self>, id: &str) -> Result<Option<Arc<SealingKey>>, Trouble> {
        let look = |known: &Known| match known.keys.get(id) {
            Some(key) => Some(Some(Arc::clone(key))),
            None => known.gone.contains(id).then_some(None),
        };
        self.ask(Some(id), look).await
    }

    async fn ask<T>(
        self: &Arc<Self>,
        id: Option<&str>,
        look: impl Fn(&Known) -> Option<T>,
    ) -> Result<T, Trouble> {
        // The first contact that is joined may be one for another key.
        for _ in 0..3 {
            {
                let known = lock(&self.known);
                if let Some(found) = look(&known) {
                    return Ok(found);
                }
                if let Some((trouble, until)) = &known.trouble
                    && Instant::now() < *until
                {
                    return Err(trouble.clone());
                }
            }
            let (vault, id) = (Arc::clone(self), id.map(str::to_owned));
            let contact = self.contact.join(|_| async move {
                vault.reach(id).await;
                Ok::<(), McpError>(())
            });
            if contact.await.is_err() {
                return Err(Trouble::Failed("the contact broke off".into()));
            }
        }
        look(&lock(&self.known)).ok_or(Trouble::Late)
    }

    async fn reach(&self, id: Option<String>) {
        let end = Instant::now() + CONTACT;
        let outcome = tokio::time::timeout_at(end, self.fetch(id, end)).await;
        let trouble = outcome.unwrap_or(Err(Trouble::Late)).err();
        let pause = if trouble == Some(Trouble::Late) { LATER } else { SOON };
        lock(&self.known).trouble = trouble.map(|trouble| (trouble, Instant::now() + pause));
    }

    /// Fetches the key in use and that of `id`, under a lock: the first key is made once.
    async fn fetch(&self, id: Option<String>, end: Instant) -> Result<(), Trouble> {
        let _lock = self.directory.lock(KEY_NAME, end).await.map_err(|error| unusable(&error))?;
        let in_use = self.directory.read(KEY_NAME).await.map_err(|error| unusable(&error))?;
        let in_use = in_use.map(|text| text.trim().to_owned()).filter(|text| is_key_id(text));
        let wanted = id.filter(|id| in_use.as_ref() != Some(id));
        let mut current = match &in_use {
            Some(id) => self.fetch_one(id).await?,
            None => None,
        };
        if let Some(id) = wanted {
            let key = self.fetch_one(&id).await?;
            // Where the file with the name was lost, the key of a record goes on.
            if current.is_none() && key.is_some() {
                self.directory.write(KEY_NAME, id).await.map_err(|error| unusable(&error))?;
                current = key;
            }
        }
        let key = if let Some(key) = current { key } else { self.make().await? };
        let mut known = lock(&self.known);
        known.keys.insert(key.id.clone(), Arc::clone(&key));
        known.current = Some(key);
        Ok(())
    }

    /// Makes a key, under the lock; its name is known before the keychain has it, so that none is ever lost there.
    async fn make(&self) -> Result<Arc<SealingKey>, Trouble> {
        let (key, text) = SealingKey::generate()
            .ok_or_else(|| Trouble::Failed("the system gives no random numbers".into()))?;
        self.directory.write(KEY_NAME, key.id.clone()).await.map_err(|error| unusable(&error))?;
        self.keychain.set(&key.id, text.clone()).await?;
        // Not every keychain that takes something gives it back.
        if self.keychain.get(&key.id).await? == Some(text) {
            Ok(Arc::new(key))
        } else {
            Err(Trouble::Failed("it does not keep what it is given".into()))
        }
    }

    async fn fetch_one(&self, id: &str) -> Result<Option<Arc<SealingKey>>, Trouble> {
        if let Some(key) = lock(&self.known).keys.get(id) {
            return Ok(Some(Arc::clone(key)));
        }
        let text = self.keychain.get(id).await?;
        let key = text.and_then(|text| SealingKey::restore(id.to_owned(), text.expose())).map(Arc::new);
        let mut known = lock(&self.known);
        match &key {
            Some(key) => drop(known.keys.insert(id.to_owned(), Arc::clone(key))),
            None => drop(known.gone.insert(id.to_owned())),
        }
        Ok(key)
    }
}

fn unusable(error: &io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::TimedOut => Trouble::Late,
        kind => Trouble::Failed(format!("the directory of logins cannot be used: {kind}")),
    }
}
