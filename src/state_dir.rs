//! Where the package keeps what it has to remember: approvals, verdicts, manifests. (LIF-09)
//!
//! Owns the directory (0700, files 0600) and the way a file in it is read and changed; in memory where the
//! host wants no directory. Never below a project.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::atomic_file;
use crate::error::{ErrorCode, McpError, Result};
use crate::runtime::lock;

/// Largest file that is read back.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Makes a state directory, for the owner alone, where there is none.
///
/// # Errors
/// Whatever the file system says.
pub fn make(root: &Path) -> io::Result<()> {
    atomic_file::private_directory(root)
}

/// The state directory of a manager.
#[derive(Debug, Default)]
pub struct StateDir {
    root: Option<PathBuf>,
    memory: Mutex<HashMap<String, Vec<u8>>>,
}

impl StateDir {
    /// State below a directory, which is made with the first write.
    pub fn at(root: PathBuf) -> Self {
        Self { root: Some(root), memory: Mutex::default() }
    }

    /// State that lasts as long as this value.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// The directory, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Content of a file; `None` where there is none or it cannot be read. `name` is a plain file name.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let Some(root) = &self.root else { return lock(&self.memory).get(name).cloned() };
        let file = std::fs::File::open(root.join(name)).ok()?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
        (read as u64 <= MAX_BYTES).then_some(bytes)
    }

    /// Moves a file that cannot be understood out of the way, as `<name>.corrupt`; an earlier one there is
    /// replaced.
    pub fn set_aside(&self, name: &str) {
        if let Some(root) = &self.root {
            // Where that fails the file is replaced.
            let _ = std::fs::rename(root.join(name), root.join(format!("{name}.corrupt")));
        }
    }

    /// Changes a file while no other process does: `change` gets what stands there now.
    ///
    /// # Errors
    /// `CONFIG_WRITE_FAILED`.
    pub fn update(&self, name: &str, change: impl FnOnce(Option<Vec<u8>>) -> Vec<u8>) -> Result<()> {
        let Some(root) = &self.root else {
            let mut memory = lock(&self.memory);
            let now = memory.remove(name);
            memory.insert(name.to_owned(), change(now));
            return Ok(());
        };
        let path = root.join(name);
        let write = || -> io::Result<()> {
            atomic_file::private_directory(root)?;
            let _lock = atomic_file::lock(&path)?;
            atomic_file::replace(&path, &change(self.read(name)), 0o600)
        };
        write().map_err(|error| {
            let message = format!("the state file {} cannot be written: {error}", path.display());
            McpError::new(ErrorCode::ConfigWriteFailed, message)
        })
    }

    /// Removes the oldest of the files whose name begins with `prefix`, all but `most`.
    pub fn keep_newest(&self, prefix: &str, most: usize) {
        let Some(entries) = self.root.as_ref().and_then(|root| std::fs::read_dir(root).ok()) else { return };
        let mut files: Vec<_> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                entry.file_name().to_str()?.starts_with(prefix).then_some(())?;
                Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
            })
            .collect();
        if files.len() <= most {
            return;
        }
        files.sort();
        for (_, path) in files.iter().take(files.len() - most) {
            // Another process may have been faster.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lif_09_only_the_newest_of_a_kind_are_kept() {
        let root = std::env::temp_dir().join(format!("mcp-switchboard-newest-{}", std::process::id()));
        let state = StateDir::at(root.clone());
        for name in ["kind-1", "kind-2", "kind-3", "other"] {
            state.update(name, |_| b"x".to_vec()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        state.keep_newest("kind-", 2);
        let left = ["kind-1", "kind-2", "kind-3", "other"].map(|name| state.read(name).is_some());
        assert_eq!(left, [false, true, true, true]);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn lif_09_private_and_shared_between_writers() {
        let unique = format!("mcp-switchboard-state-{}", std::process::id());
        let root = std::env::temp_dir().join(unique).join("deep/state");
        let write = || {
            let state = StateDir::at(root.clone());
            for _ in 0..100 {
                state
                    .update("count", |now| {
                        let now: u32 =
                            now.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap());
                        (now + 1).to_string().into_bytes()
                    })
                    .unwrap();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(write);
            }
        });
        assert_eq!(StateDir::at(root.clone()).read("count").unwrap(), b"300");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&root), mode(&root.join("count"))), (0o700, 0o600));
        }
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn lif_09_in_memory_leaves_nothing_on_disk() {
        let state = StateDir::in_memory();
        state.update("a", |now| now.unwrap_or_else(|| b"x".to_vec())).unwrap();
        assert_eq!((state.read("a").unwrap(), state.path()), (b"x".to_vec(), None));
    }
}
