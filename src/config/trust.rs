//! Whether a local file inside a project is the person's own. (§2)
//!
//! It is when its content was written through us (the fingerprint stands in the state directory), or when it
//! lies in a git work tree whose index does not list it. Otherwise it came with the repository.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::config::git_index::{Listing, listing};
use crate::error::Result;
use crate::state_dir::StateDir;

/// File of the state directory with the fingerprints.
const FILE: &str = "trusted-files.json";
/// Largest index that is read.
const MAX_INDEX: u64 = 256 * 1024 * 1024;

/// Whether the file with this content is the person's.
pub fn is_own(path: &Path, content: &[u8], state: &StateDir) -> bool {
    fingerprints(state).get(&key(path)) == Some(&hash(content)) || is_untracked(path)
}

/// Remembers that this content was written through us.
///
/// # Errors
/// `CONFIG_WRITE_FAILED`.
pub fn remember(path: &Path, content: &[u8], state: &StateDir) -> Result<()> {
    state.update(FILE, |now| {
        let mut all: BTreeMap<String, String> =
            now.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        all.insert(key(path), hash(content));
        serde_json::to_vec(&all).unwrap_or_default()
    })
}

fn fingerprints(state: &StateDir) -> BTreeMap<String, String> {
    state.read(FILE).and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn key(path: &Path) -> String {
    real(path).unwrap_or_else(|| path.to_owned()).to_string_lossy().into_owned()
}

fn hash(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn real(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

/// Whether git is known not to track the file, by either of its paths when links lead to it.
fn is_untracked(path: &Path) -> bool {
    let Some(parent) = path.parent().and_then(real) else { return false };
    let Some(name) = path.file_name() else { return false };
    let Some(target) = real(path) else { return false };
    // Where the directory leads to, the name as it is there, and what the name itself leads to.
    let places = [path.to_owned(), parent.join(name), target];
    let mut seen = false;
    for place in &places {
        match tracked(place) {
            Some(Listing::NotListed) => seen = true,
            Some(_) => return false,
            None => {}
        }
    }
    seen
}

/// What the index of the nearest work tree says; `None` where the path is in none.
fn tracked(path: &Path) -> Option<Listing> {
    let root =
        path.ancestors().skip(1).find(|directory| directory.join(".git").symlink_metadata().is_ok())?;
    let relative = path.strip_prefix(root).ok()?;
    let words: Vec<&str> = relative
        .components()
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect::<Option<_>>()?;
    Some(index_of(&root.join(".git")).map_or(Listing::Unknown, |index| listing(&index, &words.join("/"))))
}

/// The bytes of the index; an empty index where a work tree has none yet.
fn index_of(git: &Path) -> Option<Vec<u8>> {
    let directory = git_directory(git)?;
    // Without a HEAD this is no repository of git, whatever its name says.
    directory.join("HEAD").symlink_metadata().ok()?;
    let path = directory.join("index");
    // Asked before opening: opening a pipe waits for its writer.
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(EMPTY_INDEX.to_vec()),
        _ => return None,
    }
    let file = std::fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_INDEX + 1).read_to_end(&mut bytes).ok()?;
    (read as u64 <= MAX_INDEX).then_some(bytes)
}

/// Version 2, no entries, no extensions; the checksum is never looked at.
const EMPTY_INDEX: [u8; 32] = {
    let mut bytes = [0; 32];
    bytes[0] = b'D';
    bytes[1] = b'I';
    bytes[2] = b'R';
    bytes[3] = b'C';
    bytes[7] = 2;
    bytes
};

/// `.git` is a directory, or a file that says where it is.
fn git_directory(git: &Path) -> Option<PathBuf> {
    if git.is_dir() {
        return Some(git.to_owned());
    }
    if !git.is_file() {
        return None;
    }
    let mut text = String::new();
    std::fs::File::open(git).ok()?.take(4096).read_to_string(&mut text).ok()?;
    let target = text.strip_prefix("gitdir:")?.trim();
    Some(git.parent()?.join(target))
}
