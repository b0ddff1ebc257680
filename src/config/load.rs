//! Stage `load`: the only reader of configuration files.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use crate::config::draft::RawLayer;
use crate::config::scope::Scope;
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

/// Reads `.mcp.json` of a directory.
pub fn load_project_file(directory: &Path) -> Loaded {
    load_file(&directory.join(".mcp.json"), Scope::Project)
}

/// Reads one file. A missing one is fine; one that cannot be read, or is no regular file, is a warning
/// `CONFIG_UNREADABLE`; one above [`MAX_FILE_BYTES`] is an error `CONFIG_INVALID`. Never blocks on a pipe
/// or device.
pub fn load_file(path: &Path, scope: Scope) -> Loaded {
    let shown = path.to_string_lossy();
    match read_regular(path) {
        Ok(Content::Bytes(bytes)) => {
            Loaded { layer: Some(RawLayer::file(scope, &shown, bytes)), diagnostic: None }
        }
        Ok(Content::TooLarge) => {
            let message = format!("The file is larger than {MAX_FILE_BYTES} bytes and is not read");
            found(Diagnostic::error("CONFIG_INVALID", message), &shown)
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
    NotAFile,
    TooLarge,
}

fn read_regular(path: &Path) -> io::Result<Content> {
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
