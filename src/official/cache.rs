//! The registry on disk: one file for each address, replaced whole.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::page::Page;
use crate::atomic_file;

/// Form of the file.
const FORM: u32 = 1;
/// Largest file that is read back, in bytes.
const LARGEST: u64 = 128 * 1024 * 1024;

/// All pages, as of a time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Cache {
    form: u32,
    url: String,
    /// When the registry was last asked, in milliseconds since the epoch.
    pub(super) fetched_at: u64,
    pub(super) pages: Vec<Page>,
}

impl Cache {
    pub(super) fn new(url: &str, fetched_at: u64, pages: Vec<Page>) -> Self {
        Self { form: FORM, url: url.to_owned(), fetched_at, pages }
    }

    /// What was kept of a registry; nothing where the file is damaged or of another one. Blocks.
    pub(super) fn read(directory: &Path, url: &str) -> Option<Self> {
        let path = path(directory, url);
        if std::fs::metadata(&path).ok()?.len() > LARGEST {
            return None;
        }
        let cache: Self = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        (cache.form == FORM && cache.url == url && !cache.pages.is_empty()).then_some(cache)
    }

    /// Keeps it. Blocks.
    pub(super) fn write(&self, directory: &Path) -> std::io::Result<()> {
        atomic_file::private_directory(directory)?;
        let path = path(directory, &self.url);
        let _lock = atomic_file::lock(&path)?;
        atomic_file::replace(&path, &serde_json::to_vec(self)?, 0o600)
    }
}

fn path(directory: &Path, url: &str) -> PathBuf {
    let mut hash = [0; 8];
    hash.copy_from_slice(&Sha256::digest(url)[..8]);
    directory.join(format!("official-registry-{:016x}.json", u64::from_be_bytes(hash)))
}
