//! Files of results: where they are saved, and which of them go again.
//!
//! What was saved is written down in the state directory. Only a file that stands there, still lies in the present
//! output directory and is still what was saved is ever removed: links are not followed, and whoever writes to such a
//! file or puts another in its place owns it from then on.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::call::blob::{self, Shelf};
use crate::error::McpError;
use crate::protocol::content::SavedBlob;
use crate::runtime::{self, lock, unix_millis};
use crate::state_dir::StateDir;

/// Name of the list of saved files in the state directory.
const LIST: &str = "outputs.json";
/// A file younger than this may be in use, however many there are.
const IN_USE: Duration = Duration::from_secs(3_600);
/// Most files that are kept, whatever their size.
const MOST_FILES: usize = 10_000;

/// How long files of results are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Age from which on a file goes. Default 7 days.
    pub max_age: Duration,
    /// Bytes of all files from which on the oldest go. Default 1 GiB.
    pub max_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { max_age: Duration::from_secs(7 * 24 * 3_600), max_bytes: 1 << 30 }
    }
}

/// A file that was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    directory: PathBuf,
    name: String,
    bytes: u64,
    /// In milliseconds since the epoch.
    saved: u64,
    /// What tells it from another file in its place.
    identity: Identity,
}

/// Number of the file where the system has one, and when it was last written to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    number: u64,
    written: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let number = 0;
        let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let written = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        Self { number, written: u64::try_from(written).unwrap_or(u64::MAX) }
    }
}

/// Where the files of one manager's results go.
#[derive(Debug)]
pub(super) struct Outputs {
    /// The option `outputDir`.
    chosen: Option<PathBuf>,
    /// A private directory of this manager, made when it is needed first.
    own: Mutex<Option<PathBuf>>,
    state: Arc<StateDir>,
    ledger: Option<Arc<Ledger>>,
}

impl Outputs {
    pub(super) fn new(chosen: Option<PathBuf>, state: &Arc<StateDir>, retention: Option<Retention>) -> Self {
        let ledger = |retention| {
            Arc::new(Ledger {
                state: Arc::clone(state),
                retention,
                fresh: Mutex::default(),
                at_work: Mutex::default(),
            })
        };
        Self { chosen, own: Mutex::default(), state: Arc::clone(state), ledger: retention.map(ledger) }
    }

    /// The option, else the state directory, else a private directory that is removed at the end if empty.
    fn directory(&self) -> Result<PathBuf, McpError> {
        if let Some(directory) = &self.chosen {
            return Ok(directory.clone());
        }
        if let Some(state) = self.state.path() {
            return Ok(state.join("outputs"));
        }
        let mut own = lock(&self.own);
        if let Some(directory) = &*own {
            return Ok(directory.clone());
        }
        if let Some(ledger) = &self.ledger {
            blob::remove_forgotten(&std::env::temp_dir(), ledger.retention.max_age);
        }
        let directory = blob::private_directory()?;
        *own = Some(directory.clone());
        Ok(directory)
    }

    /// Ends the work on the list, and the private directory where nothing was saved in it.
    pub(super) async fn close(&self) {
        if let Some(ledger) = self.ledger.clone() {
            let _ = tokio::task::spawn_blocking(move || ledger.work()).await;
        }
        if let Some(directory) = lock(&self.own).take() {
            blob::remove_if_empty(&directory);
        }
    }
}

impl Shelf for Outputs {
    fn save(&self, name: Option<&str>, mime_type: Option<&str>, bytes: &[u8]) -> Result<SavedBlob, McpError> {
        let directory = self.directory()?;
        let saved = blob::save(&directory, name, mime_type, bytes)?;
        if let Some(ledger) = &self.ledger {
            ledger.note(&directory, &saved);
        }
        Ok(saved)
    }
}

/// The list of saved files, and the removal of those that are overdue.
#[derive(Debug)]
struct Ledger {
    state: Arc<StateDir>,
    retention: Retention,
    /// Saved and not yet in the list.
    fresh: Mutex<Vec<Entry>>,
    /// Held while the list is worked on.
    at_work: Mutex<()>,
}

impl Ledger {
    /// Writes a new file down, soon.
    fn note(self: &Arc<Self>, directory: &Path, saved: &SavedBlob) {
        let Some(entry) = entry_of(directory, saved) else { return };
        let mut fresh = lock(&self.fresh);
        fresh.push(entry);
        // Whoever put the first one there has sent for somebody who takes them all.
        if fresh.len() == 1 {
            drop(fresh);
            let ledger = Arc::clone(self);
            runtime::spawn(async move { tokio::task::spawn_blocking(move || ledger.work()).await });
        }
    }

    /// Adds what is new to the list and removes what is overdue. Blocks.
    fn work(&self) {
        let _one = lock(&self.at_work);
        let fresh = std::mem::take(&mut *lock(&self.fresh));
        let Some(directory) = fresh.first().map(|entry| entry.directory.clone()) else { return };
        // A list that cannot be written means files that stay.
        let _ = self.state.update(LIST, |now| {
            let mut entries: Vec<Entry> =
                now.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
            entries.extend(fresh);
            let (here, mut kept): (Vec<Entry>, Vec<Entry>) =
                entries.into_iter().partition(|entry| entry.directory == directory);
            let (still, overdue) = sorted_out(here, unix_millis(), self.retention);
            kept.extend(still);
            kept.extend(overdue.into_iter().filter(|entry| !is_settled(entry)));
            serde_json::to_vec(&kept).unwrap_or_default()
        });
    }
}

fn entry_of(directory: &Path, saved: &SavedBlob) -> Option<Entry> {
    let directory = std::fs::canonicalize(directory).ok()?;
    directory.to_str()?;
    let name = Path::new(&saved.path).file_name()?.to_str()?.to_owned();
    let metadata = std::fs::symlink_metadata(directory.join(&name)).ok()?;
    Some(Entry {
        directory,
        name,
        bytes: saved.bytes,
        saved: unix_millis(),
        identity: Identity::of(&metadata),
    })
}

/// Which files of a directory stay and which are overdue: those above the age, then the oldest above the size, but
/// none that may be in use.
fn sorted_out(mut entries: Vec<Entry>, now: u64, retention: Retention) -> (Vec<Entry>, Vec<Entry>) {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (max_age, in_use) = (millis(retention.max_age), millis(retention.max_age.min(IN_USE)));
    entries.sort_by_key(|entry| entry.saved);
    let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let mut count = entries.len();
    entries.into_iter().partition(|entry| {
        let age = now.saturating_sub(entry.saved);
        let too_much = bytes > retention.max_bytes || count > MOST_FILES;
        let stays = age <= max_age && (!too_much || age <= in_use);
        if !stays {
            bytes = bytes.saturating_sub(entry.bytes);
            count -= 1;
        }
        stays
    })
}

/// Removes a file that is still the one that was saved; `false` where that failed and is to be tried again.
fn is_settled(entry: &Entry) -> bool {
    let is_plain = Path::new(&entry.name).file_name().is_some_and(|name| name == entry.name.as_str());
    let in_place = std::fs::canonicalize(&entry.directory).is_ok_and(|real| real == entry.directory);
    if !is_plain || !in_place {
        return true;
    }
    let path = entry.directory.join(&entry.name);
    let Ok(metadata) = std::fs::symlink_metadata(&path) else { return true };
    let is_ours =
        metadata.is_file() && metadata.len() == entry.bytes && Identity::of(&metadata) == entry.identity;
    !is_ours || std::fs::remove_file(&path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::blob::tests::Scratch;

    const DAY: u64 = 24 * 3_600_000;

    fn entry(name: &str, bytes: u64, saved: u64) -> Entry {
        let identity = Identity { number: 0, written: 0 };
        Entry { directory: PathBuf::from("/x"), name: name.to_owned(), bytes, saved, identity }
    }

    fn left(entries: Vec<Entry>, now: u64, max_bytes: u64) -> Vec<String> {
        let retention = Retention { max_bytes, ..Retention::default() };
        sorted_out(entries, now, retention).0.into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn old_files_go_then_the_oldest_but_none_in_use() {
        let now = 100 * DAY;
        let files = || {
            vec![
                entry("now", 50, now),
                entry("hours", 50, now - 5 * 3_600_000),
                entry("week", 50, now - 7 * DAY - 1),
                entry("days", 50, now - 3 * DAY),
            ]
        };
        assert_eq!(left(files(), now, 1_000), ["days", "hours", "now"]);
        assert_eq!(left(files(), now, 150), ["days", "hours", "now"], "what is too old goes first");
        assert_eq!(left(files(), now, 149), ["hours", "now"]);
        assert_eq!(left(files(), now, 0), ["now"], "younger than an hour");
        let many =
            (0..MOST_FILES as u64 + 5).map(|age| entry(&age.to_string(), 0, now - DAY - age)).collect();
        assert_eq!(left(many, now, 0).len(), MOST_FILES);
    }

    fn shelf(scratch: &Scratch, max_age: Duration) -> Outputs {
        let state = Arc::new(StateDir::at(scratch.0.join("state")));
        Outputs::new(None, &state, Some(Retention { max_age, max_bytes: 1 << 30 }))
    }

    /// Saves a file and waits for the list.
    fn save(outputs: &Outputs, name: &str) -> PathBuf {
        let saved = outputs.save(Some(name), Some("text/plain"), b"words").unwrap();
        outputs.ledger.as_ref().unwrap().work();
        PathBuf::from(saved.path)
    }

    #[test]
    fn only_files_of_ours_go_and_only_from_their_place() {
        let scratch = Scratch::new();
        let outputs = shelf(&scratch, Duration::from_millis(60));
        let names = ["plain", "edited", "replaced", "linked", "moved"];
        let files: Vec<PathBuf> = names.iter().map(|name| save(&outputs, name)).collect();
        let [plain, edited, replaced, linked, moved] = files.try_into().unwrap();
        let directory = plain.parent().unwrap().to_owned();
        let foreign = directory.join("foreign.txt");
        let outside = scratch.0.join("outside.txt");
        for path in [&foreign, &outside, &edited] {
            std::fs::write(path, "longer than before").unwrap();
        }
        std::fs::remove_file(&replaced).unwrap();
        std::fs::write(&replaced, "other").unwrap();
        std::fs::remove_file(&linked).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&outside, &linked).unwrap();
        std::fs::rename(&moved, scratch.0.join("moved.txt")).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let newest = save(&outputs, "newest");
        assert!(!plain.exists() && newest.exists());
        for path in [&edited, &replaced, &foreign, &outside, &scratch.0.join("moved.txt")] {
            assert!(path.exists(), "{}", path.display());
        }
        assert!(std::fs::symlink_metadata(&linked).is_ok() || cfg!(not(unix)));
        let list = outputs.state.read(LIST).unwrap();
        let list: Vec<Entry> = serde_json::from_slice(&list).unwrap();
        assert_eq!(list.len(), 1, "what has gone or is somebody else's is forgotten");
    }

    #[test]
    #[cfg(unix)]
    fn a_directory_that_became_a_link_is_left_alone() {
        let scratch = Scratch::new();
        let outputs = shelf(&scratch, Duration::from_millis(30));
        let file = save(&outputs, "file");
        let directory = file.parent().unwrap().to_owned();
        let elsewhere = scratch.0.join("elsewhere");
        std::fs::rename(&directory, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &directory).unwrap();
        std::thread::sleep(Duration::from_millis(60));
        save(&outputs, "next");
        assert!(elsewhere.join(file.file_name().unwrap()).exists());
    }

    #[test]
    fn a_list_that_lies_harms_nothing_outside() {
        let scratch = Scratch::new();
        let outputs = shelf(&scratch, Duration::from_millis(30));
        let file = save(&outputs, "file");
        let outside = scratch.0.join("outside.txt");
        std::fs::write(&outside, "words").unwrap();
        let mut lie =
            entry_of(&scratch.0, &SavedBlob { path: outside.to_string_lossy().into_owned(), bytes: 5 })
                .unwrap();
        lie.saved = 0;
        let mut other = lie.clone();
        (other.directory, other.name) =
            (file.parent().unwrap().canonicalize().unwrap(), "../../outside.txt".to_owned());
        outputs.state.update(LIST, |_| serde_json::to_vec(&[lie, other]).unwrap()).unwrap();
        save(&outputs, "next");
        assert!(outside.exists());
        outputs.state.update(LIST, |_| b"no list".to_vec()).unwrap();
        save(&outputs, "after");
        assert!(outputs.state.read(LIST).unwrap().starts_with(b"["));
    }
}
