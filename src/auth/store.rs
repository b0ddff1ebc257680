//! Where logins are kept: in memory, in files of the state directory, or with the host (OAU-03).
//!
//! Owns: the lock around *read, renew, save* across tasks and processes. What stands in a record is `record`'s.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::record::{Record, VERSION};
use crate::atomic_file;
use crate::error::{ErrorCode, McpError};
use crate::host::{Host, QuestionKind};
use crate::runtime::{self, lock};

/// Longest wait for somebody else who renews: longer than the requests it takes.
const PATIENCE: Duration = Duration::from_secs(75);
/// Between two looks at a file lock.
const PAUSE: Duration = Duration::from_millis(20);
/// Largest record that is read back.
const LONGEST: u64 = 1024 * 1024;

type Gates = Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>;

/// Keeps the logins of a manager.
pub struct TokenStore {
    place: Place,
    gates: Gates,
}

enum Place {
    Memory(Mutex<HashMap<String, String>>),
    Files(PathBuf),
    Host(Arc<dyn Host>),
}

impl std::fmt::Debug for TokenStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenStore({})", self.kind())
    }
}

/// Held while a record is read, renewed and saved.
pub struct StoreLock {
    _gate: tokio::sync::OwnedMutexGuard<()>,
    file: Option<File>,
    host: Option<(Arc<dyn Host>, String)>,
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        drop(self.file.take());
        if let Some((host, key)) = self.host.take() {
            runtime::spawn(async move {
                let _ = host.ask(QuestionKind::StoreUnlock, json!({ "key": key }).to_string()).await;
            });
        }
    }
}

impl TokenStore {
    /// Logins that last as long as this value.
    pub fn in_memory() -> Self {
        Self { place: Place::Memory(Mutex::default()), gates: Gates::default() }
    }

    /// Logins in files for the owner alone, below the state directory.
    pub fn in_files(state: &Path) -> Self {
        Self { place: Place::Files(state.join("tokens")), gates: Gates::default() }
    }

    /// Logins that the host keeps.
    pub fn with_host(host: Arc<dyn Host>) -> Self {
        Self { place: Place::Host(host), gates: Gates::default() }
    }

    /// `memory`, `file` or `host`, as the status says.
    pub fn kind(&self) -> &'static str {
        match &self.place {
            Place::Memory(_) => "memory",
            Place::Files(_) => "file",
            Place::Host(_) => "host",
        }
    }

    /// Waits until nobody else renews this record.
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED`.
    pub async fn lock(&self, key: &str) -> Result<StoreLock, McpError> {
        let gate = Arc::clone(lock(&self.gates).entry(key.to_owned()).or_default());
        let end = Instant::now() + PATIENCE;
        let held = tokio::time::timeout_at(end, gate.lock_owned()).await;
        let held = held.map_err(|_| failed("another login of this server takes too long"))?;
        let mut taken = StoreLock { _gate: held, file: None, host: None };
        match &self.place {
            Place::Files(directory) => taken.file = Some(lock_file(directory, key, end).await?),
            Place::Host(host) if host.can_answer(QuestionKind::StoreLock) => {
                let asked = host.ask(QuestionKind::StoreLock, json!({ "key": key }).to_string());
                let answer = tokio::time::timeout_at(end, asked).await;
                answer.map_err(|_| failed("tokenStore.lock takes too long"))?.map_err(host_failed)?;
                taken.host = Some((Arc::clone(host), key.to_owned()));
            }
            Place::Memory(_) | Place::Host(_) => {}
        }
        Ok(taken)
    }

    /// The record of a key; one that cannot be read is put aside, one of a later version is left alone.
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED`.
    pub async fn get(&self, key: &str) -> Result<Option<Record>, McpError> {
        let text = match &self.place {
            Place::Memory(map) => lock(map).get(key).cloned(),
            Place::Files(directory) => {
                let path = path(directory, key);
                blocking(move || read_file(&path)).await?
            }
            Place::Host(host) => {
                let answer = host.ask(QuestionKind::StoreGet, json!({ "key": key }).to_string());
                let answer = answer.await.map_err(host_failed)?;
                match serde_json::from_str(&answer) {
                    Ok(Value::String(text)) => Some(text),
                    Ok(Value::Null) => None,
                    _ => return Err(failed("tokenStore.get gave something other than a string or null")),
                }
            }
        };
        let Some(text) = text else { return Ok(None) };
        match serde_json::from_str::<Record>(&text) {
            Ok(record) if record.version > VERSION => {
                Err(failed("the record was written by a later version of this package"))
            }
            Ok(record) if record.version > 0 => Ok(Some(record)),
            _ => {
                self.put_aside(key).await;
                Ok(None)
            }
        }
    }

    /// Keeps a record. The lock is held by the caller.
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED`.
    pub async fn set(&self, key: &str, record: &Record) -> Result<(), McpError> {
        let text = serde_json::to_string(record).map_err(|_| failed("a record could not be written"))?;
        match &self.place {
            Place::Memory(map) => {
                lock(map).insert(key.to_owned(), text);
                Ok(())
            }
            Place::Files(directory) => {
                let (directory, path) = (directory.clone(), path(directory, key));
                blocking(move || write_file(&directory, &path, &text)).await
            }
            Place::Host(host) => {
                let body = json!({ "key": key, "value": text }).to_string();
                host.ask(QuestionKind::StoreSet, body).await.map(|_| ()).map_err(host_failed)
            }
        }
    }

    /// Removes a record. The lock is held by the caller.
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED`.
    pub async fn delete(&self, key: &str) -> Result<(), McpError> {
        match &self.place {
            Place::Memory(map) => {
                lock(map).remove(key);
                Ok(())
            }
            Place::Files(directory) => {
                let path = path(directory, key);
                blocking(move || match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                })
                .await
            }
            Place::Host(host) => {
                let body = json!({ "key": key }).to_string();
                host.ask(QuestionKind::StoreDelete, body).await.map(|_| ()).map_err(host_failed)
            }
        }
    }

    async fn put_aside(&self, key: &str) {
        if let Place::Files(directory) = &self.place {
            let path = path(directory, key);
            // What cannot be put aside is overwritten by the next login.
            let _ = blocking(move || std::fs::rename(&path, path.with_extension("corrupt"))).await;
        }
    }
}

fn path(directory: &Path, key: &str) -> PathBuf {
    directory.join(format!("{key}.json"))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, McpError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome.map_err(|error| failed(&error.to_string())),
        Err(_) => Err(failed("the file could not be worked on")),
    }
}

fn read_file(path: &Path) -> io::Result<Option<String>> {
    match checked(path)? {
        None => Ok(None),
        Some(length) if length > LONGEST => Ok(Some(String::new())),
        Some(_) => std::fs::read(path).map(|bytes| Some(String::from_utf8_lossy(&bytes).into_owned())),
    }
}

/// The length of a record's file: a plain file of our own, or an error (B-145).
fn checked(path: &Path) -> io::Result<Option<u64>> {
    let metadata = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if !metadata.is_file() {
        return Err(io::Error::other(format!("{} is no plain file", path.display())));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other(format!("{} belongs to somebody else", path.display())));
        }
    }
    Ok(Some(metadata.len()))
}

fn write_file(directory: &Path, path: &Path, text: &str) -> io::Result<()> {
    atomic_file::private_directory(directory)?;
    if checked(path)?.is_some() {
        only_ours(path)?;
    }
    atomic_file::replace(path, text.as_bytes(), 0o600)
}

#[cfg(unix)]
fn only_ours(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
fn only_ours(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// A lock of the system: it ends with the process that holds it, however that ends.
async fn lock_file(directory: &Path, key: &str, end: Instant) -> Result<File, McpError> {
    let (own, path) = (directory.to_path_buf(), directory.join(format!("{key}.lock")));
    let file = blocking(move || {
        atomic_file::private_directory(&own)?;
        OpenOptions::new().create(true).truncate(false).write(true).open(path)
    })
    .await?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < end => tokio::time::sleep(PAUSE).await,
            Err(TryLockError::WouldBlock) => {
                return Err(failed("another process that renews the login takes too long"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&error.to_string())),
        }
    }
}

fn failed(why: &str) -> McpError {
    McpError::new(ErrorCode::AuthStoreFailed, format!("the token store failed: {why}"))
}

fn host_failed(cause: McpError) -> McpError {
    failed("the host's tokenStore failed").caused_by(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let unique = format!("mcp-switchboard-tokens-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    fn record(token: &str) -> Record {
        Record { version: VERSION, access_token: Some(token.to_owned()), ..Record::default() }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn b_145_oau_03_files_are_private_and_links_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let state = directory("private");
        let store = TokenStore::in_files(&state);
        store.set("k", &record("t1")).await.unwrap();
        assert_eq!(store.get("k").await.unwrap().unwrap().token(), Some("t1"));
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(state.join("tokens")), mode(state.join("tokens/k.json"))), (0o700, 0o600));
        let target = state.join("target");
        std::fs::write(&target, "untouched").unwrap();
        std::os::unix::fs::symlink(&target, state.join("tokens/l.json")).unwrap();
        let error = store.set("l", &record("t2")).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::AuthStoreFailed);
        assert!(store.get("l").await.is_err());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "untouched");
        store.delete("k").await.unwrap();
        assert!(store.get("k").await.unwrap().is_none());
        let _ = std::fs::remove_dir_all(&state);
    }

    #[tokio::test]
    async fn oau_03_broken_records_are_put_aside_and_later_ones_left_alone() {
        let state = directory("broken");
        let store = TokenStore::in_files(&state);
        store.set("k", &record("t")).await.unwrap();
        let file = state.join("tokens/k.json");
        std::fs::write(&file, "{ not json").unwrap();
        assert!(store.get("k").await.unwrap().is_none());
        assert!(state.join("tokens/k.corrupt").exists() && !file.exists());
        std::fs::write(&file, r#"{"version":99,"accessToken":"x"}"#).unwrap();
        assert_eq!(store.get("k").await.unwrap_err().code(), ErrorCode::AuthStoreFailed);
        assert!(file.exists());
        let _ = std::fs::remove_dir_all(&state);
    }

    #[tokio::test]
    async fn a_1_one_renews_at_a_time_across_stores() {
        let state = directory("lock");
        let (one, other) = (TokenStore::in_files(&state), TokenStore::in_files(&state));
        let held = one.lock("k").await.unwrap();
        let waiting = tokio::spawn(async move {
            drop(other.lock("k").await.unwrap());
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished());
        drop(held);
        waiting.await.unwrap();
        let _ = std::fs::remove_dir_all(&state);
    }
}
