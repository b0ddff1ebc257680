//! Stage `load`: the only reader of configuration files.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::config::draft::RawLayer;
use crate::config::scope::{Scope, Voice};
use crate::diagnostic::Diagnostic;

/// Largest file that is read.
pub const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// What reading one file gave; neither, where there is no file.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Its content.
    pub layer: Option<RawLayer>,
    /// What went wrong.
    pub diagnostic: Option<Diagnostic>,
}

impl Loaded {
    /// The layer of a file that is there, read or not.
    pub fn into_layer(self, scope: Scope) -> Option<RawLayer> {
        let unread =
            || self.diagnostic.and_then(|found| found.file).map(|file| RawLayer::unread(scope, &file));
        self.layer.or_else(unread)
    }
}

/// The path to show and to keep approvals under: where a link leads, if the file is one. (B-008)
pub fn shown_path(path: &Path) -> PathBuf {
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if is_link { std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()) } else { path.to_owned() }
}

/// Reads one file. A missing one is fine; one that cannot be read, or is no regular file, is a warning
/// `CONFIG_UNREADABLE`, and so is one that belongs to another user (POSIX, but for the organisation's files: their
/// directory is what is protected); one above [`MAX_FILE_BYTES`] is an error `CONFIG_INVALID`. Never blocks on a pipe
/// or device.
pub fn load_file(path: &Path, scope: Scope) -> Loaded {
    let shown = shown_path(path);
    let shown = shown.to_string_lossy();
    let of_organisation = Voice::of(scope) == Voice::Organisation;
    match read_regular(path, of_organisation) {
        Ok(Content::Bytes(bytes)) => {
            Loaded { layer: Some(RawLayer::file(scope, &shown, bytes)), diagnostic: None }
        }
        Ok(Content::TooLarge) => {
            let message = format!("The file is larger than {MAX_FILE_BYTES} bytes and is not read");
            found(Diagnostic::error("CONFIG_INVALID", message), &shown)
        }
        Ok(Content::Foreign) => {
            let message = "The file belongs to another user; it is not read";
            found(Diagnostic::warning("CONFIG_UNREADABLE", message), &shown)
        }
        Ok(Content::NotAFile) => {
            found(Diagnostic::warning("CONFIG_UNREADABLE", "Not a regular file; it is not read"), &shown)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Loaded::default()
        }
        Err(error) => {
            let message = format!("The file cannot be read: {}", error.kind());
            found(Diagnostic::warning("CONFIG_UNREADABLE", message), &shown)
        }
    }
}

fn found(mut diagnostic: Diagnostic, file: &str) -> Loaded {
    diagnostic.file = Some(file.to_owned());
    Loaded { layer: None, diagnostic: Some(diagnostic) }
}

enum Content {
    Bytes(Vec<u8>),
    Foreign,
    NotAFile,
    TooLarge,
}

fn read_regular(path: &Path, any_owner: bool) -> io::Result<Content> {
    // Asked before opening, as opening a device can already do something; and again afterwards on what
    // was opened, as it may have been exchanged in between.
    if !std::fs::metadata(path)?.is_file() {
        return Ok(Content::NotAFile);
    }
    let file = open_without_waiting(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(Content::NotAFile);
    }
    if !any_owner && is_foreign(&metadata) {
        return Ok(Content::Foreign);
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Ok(Content::TooLarge);
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_FILE_BYTES);
    Ok(if fits { Content::Bytes(bytes) } else { Content::TooLarge })
}

#[cfg(unix)]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(not(unix))]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

/// Whether a file belongs to somebody else than this user and the administrator.
#[cfg(unix)]
fn is_foreign(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.uid() != 0 && metadata.uid() != rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_foreign(_metadata: &std::fs::Metadata) -> bool {
    false
}

/// What a command leads to: the path of the program with links resolved, searched for in `search_path` (as the
/// variable `PATH` writes it) where the command names no directory.
pub fn find_program(command: &str, search_path: &str) -> Option<String> {
    let resolve = |path: &Path| {
        let real = std::fs::canonicalize(path).ok()?;
        real.is_file().then(|| real.to_string_lossy().into_owned())
    };
    if command.contains(['/', '\\']) {
        return resolve(Path::new(command));
    }
    std::env::split_paths(search_path).find_map(|directory| resolve(&directory.join(command)))
}
