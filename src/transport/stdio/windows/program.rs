//! Where a server's program and working directory are on Windows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::search;
use crate::environment::Platform;
use crate::transport::stdio::environment::lookup;
use crate::transport::stdio::spawn_failure::{SearchPath, SpawnFailure};

/// Where Windows keeps its own programs.
pub(in crate::transport::stdio) fn system_directory(variables: &BTreeMap<String, String>) -> PathBuf {
    let root = lookup(variables, "SYSTEMROOT", Platform::Windows).unwrap_or(r"C:\Windows");
    Path::new(root).join("System32")
}

/// What is searched where there is no `PATH`.
pub(in crate::transport::stdio) fn default_path(variables: &BTreeMap<String, String>) -> String {
    system_directory(variables).to_string_lossy().into_owned()
}

/// The absolute path of a command.
pub(in crate::transport::stdio) fn find(
    command: &str,
    path: SearchPath<'_>,
    variables: &BTreeMap<String, String>,
    cwd: &Path,
) -> Result<PathBuf, SpawnFailure> {
    let extensions = lookup(variables, "PATHEXT", Platform::Windows);
    let candidates = search::candidates(command, path.value, extensions, &cwd.to_string_lossy());
    if let Some(file) = candidates.iter().map(Path::new).find(|file| file.is_file()) {
        return Ok(file.to_owned());
    }
    if !command.contains(['/', '\\', ':']) {
        return Err(SpawnFailure::NotFound {
            searched: path.value.to_owned(),
            origin: path.origin,
            managers: Vec::new(),
        });
    }
    let file = cwd.join(command);
    Err(if file.is_dir() {
        SpawnFailure::IsDirectory { file }
    } else if file.is_file() {
        SpawnFailure::NotAProgram { file }
    } else {
        SpawnFailure::FileMissing { file }
    })
}

/// The working directory of a server; a relative one is relative to `default`.
pub(in crate::transport::stdio) fn working_directory(
    cwd: Option<&Path>,
    default: &Path,
) -> Result<PathBuf, SpawnFailure> {
    let directory = cwd.map_or_else(|| default.to_owned(), |cwd| default.join(cwd));
    let configured = cwd.is_some();
    match std::fs::metadata(&directory) {
        Ok(entry) if !entry.is_dir() => Err(SpawnFailure::CwdNotDirectory { directory, configured }),
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
