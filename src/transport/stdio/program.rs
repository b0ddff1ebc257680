//! Where a server's program and working directory are on Unix.
//!
//! Owns the search along the child's own `PATH`, done here rather than by the system so that a failure can
//! say what was searched (STD-06). It only reads the file system.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::spawn_failure::{SearchPath, SpawnFailure};

/// Searched where neither the host nor the definition has a `PATH`.
pub(super) const DEFAULT_PATH: &str = "/usr/bin:/bin";

/// What is searched where there is no `PATH`.
pub(super) fn default_path(_variables: &BTreeMap<String, String>) -> String {
    DEFAULT_PATH.to_owned()
}

/// The absolute path of a command: one with a slash is relative to `cwd`, any other is searched.
///
/// Empty and relative elements of the path are passed over: they would mean the working directory, which may be a
/// stranger's repository (B-012).
pub(super) fn find(
    command: &str,
    path: SearchPath<'_>,
    _variables: &BTreeMap<String, String>,
    cwd: &Path,
) -> Result<PathBuf, SpawnFailure> {
    if command.contains('/') {
        let file = cwd.join(command);
        return check(&file).map(|()| file);
    }
    let mut refused = None;
    for directory in path.value.split(':').map(Path::new).filter(|directory| directory.is_absolute()) {
        let file = directory.join(command);
        match check(&file) {
            Ok(()) => return Ok(file),
            Err(failure @ (SpawnFailure::NotExecutable { .. } | SpawnFailure::IsDirectory { .. })) => {
                refused.get_or_insert(failure);
            }
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| SpawnFailure::NotFound {
        searched: path.value.to_owned(),
        origin: path.origin,
        managers: Vec::new(),
    }))
}

fn check(file: &Path) -> Result<(), SpawnFailure> {
    let entry = std::fs::metadata(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => SpawnFailure::NotExecutable { file: file.to_owned() },
        _ => SpawnFailure::FileMissing { file: file.to_owned() },
    })?;
    if entry.is_dir() {
        return Err(SpawnFailure::IsDirectory { file: file.to_owned() });
    }
    if !entry.is_file() || rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_err() {
        return Err(SpawnFailure::NotExecutable { file: file.to_owned() });
    }
    Ok(())
}

/// The working directory of a server; a relative one is relative to `default`.
pub(super) fn working_directory(cwd: Option<&Path>, default: &Path) -> Result<PathBuf, SpawnFailure> {
    let directory = cwd.map_or_else(|| default.to_owned(), |cwd| default.join(cwd));
    let configured = cwd.is_some();
    match std::fs::metadata(&directory) {
        Ok(entry) if !entry.is_dir() => Err(SpawnFailure::CwdNotDirectory { directory, configured }),
        Ok(_) if rustix::fs::access(&directory, rustix::fs::Access::EXEC_OK).is_err() => {
            Err(SpawnFailure::CwdDenied { directory, configured })
        }
        Ok(_) => Ok(directory),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(SpawnFailure::CwdDenied { directory, configured })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            Err(SpawnFailure::CwdNotDirectory { directory, configured })
        }
        Err(_) => Err(SpawnFailure::CwdMissing { directory, configured }),
    }
}
