//! Binary parts of results as files: base64 in, a new file with a safe name out (CAL-03, RES-01).
//!
//! The only place of results that touches the file system. A name never leaves the directory, no file is
//! overwritten, and nobody but the owner may read what was saved.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::error::{ErrorCode, McpError, Result};
use crate::protocol::content::SavedBlob;
use crate::protocol::media;

/// Longest name of a saved file in bytes, without a counter.
const NAME_LIMIT: usize = 96;
/// Longest extension in bytes, without the dot.
const EXTENSION_LIMIT: usize = 10;
/// Names with a plain counter that are tried before a unique one is made.
const COUNTED_NAMES: u32 = 16;

/// Decodes base64 with or without padding, line breaks and the URL-safe alphabet.
///
/// Errors: `RESULT_INVALID`.
pub fn decode_base64(text: &str) -> Result<Vec<u8>> {
    media::decode(text)
        .ok_or_else(|| McpError::new(ErrorCode::ResultInvalid, "a blob of the server is not valid base64"))
}

/// Saves bytes as a new file in a directory, which is made where it is missing (0700; the file 0600).
///
/// Errors: `INTERNAL` with the reason of the operating system.
pub fn save(directory: &Path, uri: Option<&str>, mime_type: Option<&str>, bytes: &[u8]) -> Result<SavedBlob> {
    let failed = |error: &io::Error| {
        let message = format!("a file could not be saved in {}: {error}", directory.display());
        McpError::new(ErrorCode::Internal, message)
    };
    make_directory(directory).map_err(|error| failed(&error))?;
    let name = file_name(uri.unwrap_or_default(), mime_type);
    let (path, mut file) = create_new(directory, &name).map_err(|error| failed(&error))?;
    if let Err(error) = file.write_all(bytes) {
        drop(file);
        // Half a file helps nobody; that it cannot be removed either changes nothing.
        let _ = std::fs::remove_file(&path);
        return Err(failed(&error));
    }
    Ok(SavedBlob { path: path.to_string_lossy().into_owned(), bytes: bytes.len() as u64 })
}

fn make_directory(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Where files of results are saved.
pub trait Shelf {
    /// Saves bytes as a new file with a safe name after a URI or name and a media type.
    ///
    /// # Errors
    /// `INTERNAL` with the reason of the operating system.
    fn save(&self, name: Option<&str>, mime_type: Option<&str>, bytes: &[u8]) -> Result<SavedBlob>;
}

/// A directory that is found when something is to be saved.
impl<F: Fn() -> Result<PathBuf>> Shelf for F {
    fn save(&self, name: Option<&str>, mime_type: Option<&str>, bytes: &[u8]) -> Result<SavedBlob> {
        save(&self()?, name, mime_type, bytes)
    }
}

/// How the names of private directories begin.
const PRIVATE: &str = "mcp-switchboard-outputs-";
/// Most entries of a directory for temporary files that are looked at.
const MOST_LOOKED_AT: usize = 10_000;

/// A new directory of our own among the temporary ones (0700).
///
/// Errors: `INTERNAL` with the reason of the operating system.
pub fn private_directory() -> Result<PathBuf> {
    let directory = std::env::temp_dir().join(format!("{PRIVATE}{}", unique_mark()));
    #[cfg_attr(windows, expect(unused_mut))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&directory).map_err(|error| {
        let message = format!("the output directory {} could not be made: {error}", directory.display());
        McpError::new(ErrorCode::Internal, message)
    })?;
    Ok(directory)
}

/// Removes a directory of our own that nothing was saved in.
pub fn remove_if_empty(directory: &Path) {
    // Files in it belong to whoever was given their paths: then it stays.
    let _ = std::fs::remove_dir(directory);
}

/// Removes private directories of this user's earlier processes in which every file is older than `age`.
pub fn remove_forgotten(temporary: &Path, age: Duration) {
    let Ok(entries) = std::fs::read_dir(temporary) else { return };
    for entry in entries.take(MOST_LOOKED_AT).filter_map(std::result::Result::ok) {
        if entry.file_name().to_string_lossy().starts_with(PRIVATE) {
            remove_if_forgotten(&entry.path(), age);
        }
    }
}

fn remove_if_forgotten(directory: &Path, age: Duration) {
    let is_old = |metadata: &Metadata| {
        metadata.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|elapsed| elapsed > age)
    };
    let is_private = std::fs::symlink_metadata(directory)
        .is_ok_and(|metadata| metadata.is_dir() && is_old(&metadata) && is_for_us_alone(&metadata));
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    if !is_private {
        return;
    }
    let mut files = Vec::new();
    for entry in entries {
        let Ok(entry) = entry else { return };
        match std::fs::symlink_metadata(entry.path()) {
            Ok(metadata) if metadata.is_file() && is_old(&metadata) => files.push(entry.path()),
            _ => return,
        }
    }
    for file in files {
        // What cannot be removed keeps its directory.
        let _ = std::fs::remove_file(file);
    }
    remove_if_empty(directory);
}

#[cfg(unix)]
fn is_for_us_alone(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o777 == 0o700
}

#[cfg(not(unix))]
fn is_for_us_alone(_metadata: &Metadata) -> bool {
    true
}

/// Creates `name`, or the same with a counter before the extension; existing files and links are never opened.
fn create_new(directory: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let (stem, extension) = split_extension(name);
    for attempt in 0..COUNTED_NAMES * 2 {
        let path = directory.join(match attempt {
            0 => name.to_owned(),
            1..COUNTED_NAMES => format!("{stem}-{attempt}{extension}"),
            _ => format!("{stem}-{}{extension}", unique_mark()),
        });
        match options.open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (path, file)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// A mark that no other file of this or another process has.
fn unique_mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{now:x}-{:x}-{:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A safe file name from a URI and a media type: ASCII letters, digits, `.`, `-`, `_`; never empty, hidden, reserved on
/// Windows, or longer than a file system takes.
pub fn file_name(uri: &str, mime_type: Option<&str>) -> String {
    let (stem, own_extension) = split_extension_owned(&last_segment(uri));
    let extension = match mime_type.and_then(extension_of) {
        Some(known) if !same_extension(known, &own_extension) => known.to_owned(),
        _ if own_extension.is_empty() => "bin".to_owned(),
        _ => own_extension,
    };
    let stem = if stem.is_empty() { "resource".to_owned() } else { stem };
    let stem = if is_reserved_on_windows(&stem) { format!("_{stem}") } else { stem };
    format!("{stem}.{extension}")
}

/// The last segment of a URI's path, decoded and with every unsafe character replaced.
fn last_segment(uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    let segment = path.rsplit(['/', '\\', ':']).find(|segment| !segment.is_empty()).unwrap_or_default();
    // Only the end counts for a name, and a URI may be very long.
    let bytes = segment.as_bytes();
    let tail = &bytes[bytes.len().saturating_sub(16 * NAME_LIMIT)..];
    let decoded = percent_decode(tail);
    let last = decoded.rsplit(['/', '\\', ':']).find(|part| !part.is_empty()).unwrap_or_default();
    let mut safe = String::with_capacity(last.len());
    for character in last.chars() {
        let fits = character.is_ascii_alphanumeric() || matches!(character, '.' | '-');
        if fits {
            safe.push(character);
        } else if !safe.ends_with('_') {
            safe.push('_');
        }
    }
    safe.trim_matches(['.', '_', '-']).to_owned()
}

/// Text with its `%XX` decoded; bytes that are no UTF-8 become U+FFFD.
pub(super) fn percent_decode(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digit = |place: usize| bytes.get(place).and_then(|byte| char::from(*byte).to_digit(16));
        if let (b'%', Some(high), Some(low)) = (byte, digit(at + 1), digit(at + 2)) {
            out.extend(u8::try_from(high * 16 + low));
            at += 3;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Stem and extension with its dot.
fn split_extension(name: &str) -> (&str, &str) {
    name.rfind('.').map_or((name, ""), |dot| name.split_at(dot))
}

/// Stem, cut to its limit, and extension without the dot; what is no plausible extension stays in the stem.
fn split_extension_owned(name: &str) -> (String, String) {
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension))
            if (1..=EXTENSION_LIMIT).contains(&extension.len())
                && extension.bytes().all(|byte| byte.is_ascii_alphanumeric()) =>
        {
            (stem, extension)
        }
        _ => (name, ""),
    };
    // The text is ASCII by now, so every byte is a boundary.
    let stem = stem.get(..NAME_LIMIT - EXTENSION_LIMIT - 2).unwrap_or(stem);
    (stem.trim_end_matches(['.', '_', '-']).to_owned(), extension.to_ascii_lowercase())
}

fn same_extension(known: &str, own: &str) -> bool {
    let folded = |extension: &str| match extension {
        "jpeg" => "jpg".to_owned(),
        "htm" => "html".to_owned(),
        "tif" => "tiff".to_owned(),
        "yml" => "yaml".to_owned(),
        other => other.to_owned(),
    };
    folded(known) == folded(own)
}

/// Whether Windows takes a name with this stem for a device.
fn is_reserved_on_windows(stem: &str) -> bool {
    let first = stem.split('.').next().unwrap_or_default().to_ascii_uppercase();
    matches!(first.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" | "CLOCK$")
        || ["COM", "LPT"].iter().any(|device| {
            first
                .strip_prefix(device)
                .is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()))
        })
}

/// Usual extension of a media type; `None` where there is none or where it says nothing.
fn extension_of(mime_type: &str) -> Option<&'static str> {
    let name = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    EXTENSIONS.iter().find(|(known, _)| *known == name).map(|(_, extension)| *extension)
}

const EXTENSIONS: [(&str, &str); 43] = [
    ("application/epub+zip", "epub"),
    ("application/gzip", "gz"),
    ("application/json", "json"),
    ("application/msword", "doc"),
    ("application/pdf", "pdf"),
    ("application/rtf", "rtf"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.ms-powerpoint", "ppt"),
    ("application/vnd.oasis.opendocument.spreadsheet", "ods"),
    ("application/vnd.oasis.opendocument.text", "odt"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/wasm", "wasm"),
    ("application/x-7z-compressed", "7z"),
    ("application/x-gzip", "gz"),
    ("application/x-tar", "tar"),
    ("application/xml", "xml"),
    ("application/yaml", "yaml"),
    ("application/zip", "zip"),
    ("audio/flac", "flac"),
    ("audio/mp4", "m4a"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/wav", "wav"),
    ("audio/webm", "weba"),
    ("audio/x-wav", "wav"),
    ("image/bmp", "bmp"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpg"),
    ("image/jpg", "jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/tiff", "tiff"),
    ("image/webp", "webp"),
    ("image/x-icon", "ico"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("text/plain", "txt"),
    ("text/xml", "xml"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
];

#[cfg(test)]
pub(crate) mod tests;
