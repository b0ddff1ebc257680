//! Where logins are kept: in memory, in files of the state directory, plain or sealed, or with the host (OAU-03).
//!
//! Owns the lock around *read, renew, save* across tasks and processes, and the decision where a record goes. A place
//! that cannot be used now is told of and never overwritten: the login of this process then stays in its memory. What
//! stands in a record is `record`'s, how it is sealed `sealing`'s, where the key comes from `vault`'s.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::keychain::{Keychain, Trouble};
use super::record::Record;
use super::record_file::Directory;
use super::sealing::{self, Content};
use super::vault::Vault;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError};
use crate::host::{Host, HostEvent, QuestionKind};
use crate::runtime::{self, lock};

/// Longest wait for somebody else who renews, longer than the requests it takes; and for the host's functions.
const PATIENCE: Duration = Duration::from_secs(75);

type Gates = Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>;

/// Whose record it is.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Opaque.
    pub key: String,
    /// Name of the server, for what is told.
    pub server: Arc<str>,
}

/// What became of a record that was looked for.
#[derive(Debug)]
pub enum Kept {
    /// There is none.
    Nothing,
    /// Here it is.
    Record(Box<Record>),
    /// There is one that this process cannot read now, or somebody else has removed it: what this process knows of the
    /// login may be spent, and is not presented for new tokens.
    TakenOver,
}

impl Kept {
    /// The record, if it could be read.
    pub fn record(self) -> Option<Record> {
        match self {
            Kept::Record(record) => Some(*record),
            Kept::Nothing | Kept::TakenOver => None,
        }
    }
}

/// Whether files are sealed.
pub enum Sealing {
    /// Never: `file`.
    Off,
    /// Where a keychain can be used, and plain where none can: `auto`.
    Wanted(Arc<dyn Keychain>),
    /// Or else in memory: `keychain`.
    Required(Arc<dyn Keychain>),
}

/// Keeps the logins of a manager.
pub struct TokenStore {
    place: Place,
    /// Of this process: everything with `memory`, otherwise what can be kept nowhere else now.
    memory: Mutex<HashMap<String, String>>,
    /// Where records were last found or put.
    kept_in: Mutex<HashMap<String, &'static str>>,
    gates: Gates,
    /// Counts the locks that the host was asked for: each is given back by its number.
    holds: AtomicU64,
    /// Who is told what is odd.
    host: Arc<dyn Host>,
    /// What was told, once each.
    told: Mutex<HashSet<String>>,
}

enum Place {
    Memory,
    Files(Files),
    Host,
}

struct Files {
    directory: Directory,
    /// The keys, where files are sealed.
    vault: Option<Arc<Vault>>,
    /// Whether a plain file is no way out.
    required: bool,
}

/// What a look at a record shows.
enum Seen {
    Nothing,
    Record(Box<Record>, &'static str),
    OutOfReach,
    /// Why nobody can read it any more.
    Spoilt(&'static str),
}

impl std::fmt::Debug for TokenStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenStore({})", self.usual_place())
    }
}

/// Held while a record is read, renewed and saved.
pub struct StoreLock {
    _file: Option<File>,
    _host: Option<HostLock>,
    _gate: tokio::sync::OwnedMutexGuard<()>,
}

/// A lock of the host that was asked for. It is given back however the question ended: the host may have it, or get it
/// when nobody waits for it any more.
struct HostLock {
    host: Arc<dyn Host>,
    hold: u64,
}

impl Drop for HostLock {
    fn drop(&mut self) {
        let (host, body) = (Arc::clone(&self.host), json!({ "hold": self.hold }).to_string());
        runtime::spawn(async move { host.ask(QuestionKind::StoreUnlock, body).await });
    }
}

impl TokenStore {
    /// Logins that last as long as this value.
    pub fn in_memory(host: Arc<dyn Host>) -> Self {
        Self::new(Place::Memory, host)
    }

    /// Logins in files for the owner alone, below the state directory. No keychain is contacted before it is needed.
    pub fn in_files(state: &Path, sealing: Sealing, host: Arc<dyn Host>) -> Self {
        let directory = Directory::at(state.join("tokens"));
        let (keychain, required) = match sealing {
            Sealing::Off => (None, false),
            Sealing::Wanted(keychain) => (Some(keychain), false),
            Sealing::Required(keychain) => (Some(keychain), true),
        };
        let vault = keychain.map(|keychain| Arc::new(Vault::new(directory.clone(), keychain)));
        Self::new(Place::Files(Files { directory, vault, required }), host)
    }

    /// Logins that the host keeps.
    pub fn with_host(host: Arc<dyn Host>) -> Self {
        Self::new(Place::Host, host)
    }

    fn new(place: Place, host: Arc<dyn Host>) -> Self {
        Self {
            place,
            memory: Mutex::default(),
            kept_in: Mutex::default(),
            gates: Gates::default(),
            holds: AtomicU64::default(),
            host,
            told: Mutex::default(),
        }
    }

    fn usual_place(&self) -> &'static str {
        match &self.place {
            Place::Memory => "memory",
            Place::Files(_) => "file",
            Place::Host => "host",
        }
    }

    /// Where a record is: `keychain` (a file sealed with a key from there), `file`, `memory` or `host`, as the status
    /// says.
    pub fn kind(&self, slot: &Slot) -> &'static str {
        lock(&self.kept_in).get(&slot.key).copied().unwrap_or_else(|| self.usual_place())
    }

    /// Waits until nobody else renews this record.
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED`.
    pub async fn lock(&self, slot: &Slot) -> Result<StoreLock, McpError> {
        let gate = Arc::clone(lock(&self.gates).entry(slot.key.clone()).or_default());
        let end = Instant::now() + PATIENCE;
        let held = tokio::time::timeout_at(end, gate.lock_owned()).await;
        let held = held.map_err(|_| failed("another login of this server takes too long"))?;
        let (file, host) = match &self.place {
            Place::Files(files) => {
                let file = files.directory.lock(&slot.key, end).await;
                let file = file.map_err(|error| match error.kind() {
                    io::ErrorKind::TimedOut => failed("another process that renews the login takes too long"),
                    _ => file_failed(&error),
                })?;
                (Some(file), None)
            }
            Place::Host if self.host.can_answer(QuestionKind::StoreLock) => {
                (None, Some(self.lock_at_host(slot).await?))
            }
            Place::Memory | Place::Host => (None, None),
        };
        Ok(StoreLock { _file: file, _host: host, _gate: held })
    }

    async fn lock_at_host(&self, slot: &Slot) -> Result<HostLock, McpError> {
        let hold = self.holds.fetch_add(1, Ordering::Relaxed);
        let taken = HostLock { host: Arc::clone(&self.host), hold };
        self.ask_host(QuestionKind::StoreLock, json!({ "key": slot.key, "hold": hold })).await?;
        Ok(taken)
    }

    /// The record, for the first time and without the lock: what is plain and should be sealed is sealed now.
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED`.
    pub async fn open(&self, slot: &Slot) -> Result<Kept, McpError> {
        let seen = self.look(slot).await?;
        let seals = matches!(seen, Seen::Record(_, "file")) && self.can_seal().await;
        if !seals && !matches!(seen, Seen::Spoilt(_)) {
            return Ok(self.settle(slot, seen));
        }
        let _lock = self.lock(slot).await?;
        let kept = self.get(slot).await?;
        if let Kept::Record(record) = &kept
            && seals
            && self.kind(slot) == "file"
        {
            self.set(slot, record).await?;
            let message = "the kept login was in a plain file; it is sealed now, with a key in the keychain";
            self.tell(&Diagnostic::info("LOGIN_SEALED", message).on(&slot.server));
        }
        Ok(kept)
    }

    /// Whether files can be sealed now.
    async fn can_seal(&self) -> bool {
        let Place::Files(files) = &self.place else { return false };
        let Some(vault) = &files.vault else { return false };
        match vault.current().await {
            Ok(_) => true,
            Err(trouble) => {
                self.tell_of_keychain(files, &trouble);
                false
            }
        }
    }

    /// The record; one that nobody can read is put aside. The lock is held by the caller.
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED`.
    pub async fn get(&self, slot: &Slot) -> Result<Kept, McpError> {
        let seen = self.look(slot).await?;
        if let Seen::Spoilt(why) = &seen {
            self.put_aside(slot, why).await;
        }
        Ok(self.settle(slot, seen))
    }

    fn settle(&self, slot: &Slot, seen: Seen) -> Kept {
        match seen {
            Seen::Nothing => match lock(&self.kept_in).remove(&slot.key) {
                None | Some("memory") => Kept::Nothing,
                Some(_) => Kept::TakenOver,
            },
            Seen::Spoilt(_) => Kept::Nothing,
            Seen::OutOfReach => {
                self.note_place(slot, "memory");
                Kept::TakenOver
            }
            Seen::Record(record, place) => {
                self.note_place(slot, place);
                Kept::Record(record)
            }
        }
    }

    async fn look(&self, slot: &Slot) -> Result<Seen, McpError> {
        let own = lock(&self.memory).get(&slot.key).cloned();
        let (text, place) = match (own, &self.place) {
            (Some(own), _) => (Some(own), "memory"),
            (None, Place::Memory) => (None, "memory"),
            (None, Place::Files(files)) => {
                (files.directory.read(&file_of(slot)).await.map_err(|error| file_failed(&error))?, "file")
            }
            (None, Place::Host) => {
                let answer = self.ask_host(QuestionKind::StoreGet, json!({ "key": slot.key })).await?;
                match serde_json::from_str(&answer) {
                    Ok(Value::String(text)) => (Some(text), "host"),
                    Ok(Value::Null) => (None, "host"),
                    _ => return Err(failed("tokenStore.get gave something other than a string or null")),
                }
            }
        };
        let Some(text) = text else { return Ok(Seen::Nothing) };
        Ok(match sealing::read(&text) {
            Content::Plain(record) => Seen::Record(record, place),
            Content::Later => self.later(slot),
            Content::Broken => Seen::Spoilt("it is no record of a login"),
            Content::Sealed(sealed) => self.unseal(slot, &sealed).await,
        })
    }

    async fn unseal(&self, slot: &Slot, sealed: &sealing::Sealed) -> Seen {
        let Place::Files(files) = &self.place else { return Seen::Spoilt("only files are sealed") };
        let Some(vault) = &files.vault else {
            return Seen::Spoilt("it is sealed with a key in the keychain, and tokenStore is \"file\"");
        };
        let key = match vault.of(&sealed.key).await {
            Ok(Some(key)) => key,
            Ok(None) => return Seen::Spoilt("the keychain has no key for it any more"),
            Err(trouble) => {
                self.tell_of_keychain(files, &trouble);
                let why = format!("it is sealed and the keychain cannot be used ({trouble})");
                return self.out_of_reach(slot, &why);
            }
        };
        match key.open(&slot.key, sealed).as_deref().map(sealing::read) {
            Some(Content::Plain(record)) => Seen::Record(record, "keychain"),
            Some(Content::Later) => self.later(slot),
            _ => Seen::Spoilt("its seal is broken"),
        }
    }

    fn later(&self, slot: &Slot) -> Seen {
        self.out_of_reach(slot, "it was written by a later version of this package")
    }

    fn out_of_reach(&self, slot: &Slot, why: &str) -> Seen {
        let message = format!("the kept login is left alone: {why}; another login is kept in memory");
        self.tell_once(&Diagnostic::warning("LOGIN_OUT_OF_REACH", message).on(&slot.server));
        Seen::OutOfReach
    }

    /// Keeps a record. The lock is held by the caller.
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED`.
    pub async fn set(&self, slot: &Slot, record: &Record) -> Result<(), McpError> {
        let text = serde_json::to_string(record).map_err(|_| failed("a record could not be written"))?;
        let place = match &self.place {
            Place::Memory => self.remember(slot, text),
            Place::Files(files) => self.set_file(files, slot, text).await?,
            // What is kept beside a record of a later version stays beside it.
            Place::Host if self.kind(slot) == "memory" => self.remember(slot, text),
            Place::Host => {
                self.ask_host(QuestionKind::StoreSet, json!({ "key": slot.key, "value": text })).await?;
                "host"
            }
        };
        self.note_place(slot, place);
        Ok(())
    }

    async fn set_file(&self, files: &Files, slot: &Slot, text: String) -> Result<&'static str, McpError> {
        let name = file_of(slot);
        let there = files.directory.read(&name).await.map_err(|error| file_failed(&error))?;
        let there = there.map(|text| sealing::read(&text));
        if matches!(there, Some(Content::Later)) {
            self.later(slot);
            return Ok(self.remember(slot, text));
        }
        let (content, place) = match &files.vault {
            None => (text, "file"),
            Some(vault) => match vault.current().await {
                Ok(key) => (key.seal(&slot.key, &text)?, "keychain"),
                Err(trouble) => {
                    self.tell_of_keychain(files, &trouble);
                    if matches!(there, Some(Content::Sealed(_))) {
                        return Ok(self.remember(slot, text));
                    }
                    if files.required {
                        // An earlier login in a plain file is spent now.
                        files.directory.remove(&name).await.map_err(|error| file_failed(&error))?;
                        return Ok(self.remember(slot, text));
                    }
                    (text, "file")
                }
            },
        };
        files.directory.write(&name, content).await.map_err(|error| file_failed(&error))?;
        lock(&self.memory).remove(&slot.key);
        Ok(place)
    }

    fn remember(&self, slot: &Slot, text: String) -> &'static str {
        lock(&self.memory).insert(slot.key.clone(), text);
        "memory"
    }

    fn note_place(&self, slot: &Slot, place: &'static str) {
        lock(&self.kept_in).insert(slot.key.clone(), place);
    }

    /// Removes a record, whatever stands there. The lock is held by the caller.
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED`.
    pub async fn delete(&self, slot: &Slot) -> Result<(), McpError> {
        lock(&self.memory).remove(&slot.key);
        lock(&self.kept_in).remove(&slot.key);
        match &self.place {
            Place::Memory => Ok(()),
            Place::Files(files) => {
                files.directory.remove(&file_of(slot)).await.map_err(|error| file_failed(&error))
            }
            Place::Host => {
                self.ask_host(QuestionKind::StoreDelete, json!({ "key": slot.key })).await.map(|_| ())
            }
        }
    }

    async fn ask_host(&self, kind: QuestionKind, body: Value) -> Result<String, McpError> {
        let asked = self.host.ask(kind, body.to_string());
        let answer = tokio::time::timeout(PATIENCE, asked).await;
        let answer = answer.map_err(|_| failed(&format!("{} takes too long", kind.callback())))?;
        answer.map_err(|cause| failed("the host's tokenStore failed").caused_by(cause))
    }

    async fn put_aside(&self, slot: &Slot, why: &str) {
        let mut finding = Diagnostic::warning("LOGIN_UNREADABLE", String::new()).on(&slot.server);
        let end = match &self.place {
            Place::Files(files) => match files.directory.put_aside(&file_of(slot)).await {
                Ok(aside) => {
                    finding.file = Some(aside.display().to_string());
                    "its file was moved aside".to_owned()
                }
                Err(error) => format!("the next login replaces it, because it cannot be moved: {error}"),
            },
            Place::Memory | Place::Host => "the next login replaces it".to_owned(),
        };
        finding.message = format!("the kept login cannot be read: {why}; {end}");
        self.tell(&finding);
    }

    fn tell_of_keychain(&self, files: &Files, trouble: &Trouble) {
        let message = |place| format!("the keychain cannot be used: {trouble}; {place}");
        self.tell_once(&if files.required {
            let place = "logins are kept in memory and end with this process";
            Diagnostic::warning("KEYCHAIN_UNAVAILABLE", message(place))
        } else {
            let place = "logins are kept in files that are not encrypted, for this user alone";
            Diagnostic::info("KEYCHAIN_UNAVAILABLE", message(place))
        });
    }

    fn tell_once(&self, finding: &Diagnostic) {
        let key = format!("{:?} {}", finding.server, finding.message);
        if lock(&self.told).insert(key) {
            self.tell(finding);
        }
    }

    fn tell(&self, finding: &Diagnostic) {
        if let Ok(body) = serde_json::to_string(finding) {
            self.host.emit(HostEvent { name: "diagnostic", body, key: None });
        }
    }
}

fn file_of(slot: &Slot) -> String {
    format!("{}.json", slot.key)
}

fn failed(why: &str) -> McpError {
    McpError::new(ErrorCode::AuthStoreFailed, format!("the token store failed: {why}"))
}

fn file_failed(error: &io::Error) -> McpError {
    failed(&error.to_string())
}

#[cfg(test)]
mod tests;
