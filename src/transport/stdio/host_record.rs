//! What a host leaves for the next one, so that a later start ends what a dead host could not (A16, BEY-02).
//!
//! Every host with servers keeps a file in the state directory, named by the random mark that its servers carry in
//! their environment, and holds a lock on it that the kernel takes back at its death. Who gets the lock of another
//! host's file knows that this host is dead, whatever became of its process number, and ends the processes that
//! still carry its mark. No recorded number is ever signalled: the mark is looked at again while the process is
//! held, so one that was given its number meanwhile is never hit.
//!
//! Only Linux shows marks; elsewhere the death-link has to do.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, Weak};

use super::strays;
use crate::runtime::lock;

const PREFIX: &str = "host-";

/// Characters of a host's mark.
const MARK: usize = 32;

/// The file of this host in a state directory; removed with the last value.
#[derive(Debug)]
pub struct HostRecord {
    path: PathBuf,
    _locked: File,
}

/// Files of this process by directory: its managers share them.
static RECORDS: LazyLock<Mutex<BTreeMap<PathBuf, Weak<HostRecord>>>> = LazyLock::new(Mutex::default);

impl HostRecord {
    /// Takes this host's file in `directory`, which exists; `None` where it cannot be written. Blocks shortly.
    pub fn hold(directory: &Path) -> Option<Arc<Self>> {
        let mut records = lock(&RECORDS);
        if let Some(record) = records.get(directory).and_then(Weak::upgrade) {
            return Some(record);
        }
        let record = Arc::new(Self::make(directory, strays::host_marker())?);
        records.insert(directory.to_owned(), Arc::downgrade(&record));
        Some(record)
    }

    /// Locked before it gets its name: nobody sees it without an owner.
    fn make(directory: &Path, mark: &str) -> Option<Self> {
        let path = directory.join(format!("{PREFIX}{mark}"));
        let unnamed = directory.join(format!(".{PREFIX}{mark}.tmp"));
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&unnamed).ok()?;
        let named = file.try_lock().is_ok() && std::fs::rename(&unnamed, &path).is_ok();
        if !named {
            // Whatever is left is taken next time.
            let _ = std::fs::remove_file(&unnamed);
            return None;
        }
        Some(Self { path, _locked: file })
    }
}

impl Drop for HostRecord {
    fn drop(&mut self) {
        // Left behind, it costs the next start one look.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Ends what dead hosts have left running that keep their files in `directory`; the numbers of the processes that
/// were killed. Blocks for a second at most.
pub fn end_leftovers(directory: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut ended = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let mark = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).filter(|mark| is_mark(mark));
        let Some(mark) = mark.filter(|mark| *mark != strays::host_marker()) else { continue };
        let Ok(file) = OpenOptions::new().write(true).open(entry.path()) else { continue };
        // A system that locks nothing says nothing of a host's death.
        if file.try_lock().is_err() {
            continue;
        }
        let (killed, complete) = strays::end_host(mark);
        ended.extend(killed);
        if complete {
            // Another start may have been faster.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    ended
}

fn is_mark(text: &str) -> bool {
    text.len() == MARK && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::super::environment::MARKER;
    use super::*;

    struct Sleeper(Child);

    impl Sleeper {
        fn with_mark(mark: &str) -> Self {
            Self(Command::new("sleep").arg("1000").env(MARKER, mark).spawn().unwrap())
        }

        fn runs(&mut self) -> bool {
            self.0.try_wait().unwrap().is_none()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("mcp-host-record-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a16_only_the_processes_of_a_dead_host_are_ended() {
        let place = directory("dead");
        let (dead, living) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
        let mut left = Sleeper::with_mark(&format!("{dead}-1"));
        let mut strangers = [
            Sleeper::with_mark(&format!("{living}-1")),
            Sleeper::with_mark(dead),
            Sleeper::with_mark(&format!("{dead}0-1")),
            Sleeper::with_mark("something else"),
        ];
        let living = HostRecord::make(&place, living).unwrap();
        std::fs::write(place.join(format!("{PREFIX}{dead}")), "").unwrap();
        for (name, text) in [("host-", ""), ("host-zz", ""), ("approvals.json", "{}")] {
            std::fs::write(place.join(name), text).unwrap();
        }
        assert_eq!(end_leftovers(&place), [left.0.id()]);
        assert!(!left.runs());
        assert!(strangers.iter_mut().all(Sleeper::runs), "a living host's, and whose mark only looks alike");
        assert!(!place.join(format!("{PREFIX}{dead}")).exists());
        assert!(living.path.exists());
        assert!(end_leftovers(&place).is_empty());
        drop(living);
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 3, "what is not ours stays");
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a16_managers_of_a_process_share_a_file_that_ends_with_the_last() {
        let place = directory("shared");
        let count = || std::fs::read_dir(&place).unwrap().count();
        let first = HostRecord::hold(&place).unwrap();
        let second = HostRecord::hold(&place).unwrap();
        assert_eq!((Arc::ptr_eq(&first, &second), count()), (true, 1));
        assert!(end_leftovers(&place).is_empty());
        drop(first);
        assert_eq!(count(), 1);
        drop(second);
        assert_eq!(count(), 0);
        assert!(HostRecord::hold(&place).is_some());
        std::fs::remove_dir_all(place).unwrap();
    }
}
