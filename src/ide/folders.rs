//! Which folders hold the working directory, also seen from the other side of Windows and WSL.

use std::path::{Path, PathBuf};

use super::Search;
use super::lock::Lock;
use crate::environment::{Environment, Platform};

/// The name of the Linux distribution that runs beside Windows, if this is one.
pub fn distribution(environment: &Environment) -> Option<&str> {
    environment
        .get("WSL_DISTRO_NAME")
        .filter(|name| !name.is_empty() && environment.platform == Platform::Unix)
}

/// A path of Windows as the distribution sees it: drives below `/mnt`, its own files under their own paths. `None` for
/// what it does not see.
pub(super) fn in_linux(path: &str, distribution: &str) -> Option<String> {
    let path = path.replace('\\', "/");
    for share in ["//wsl.localhost/", "//wsl$/"] {
        let Some(head) = path.get(..share.len()).filter(|head| head.eq_ignore_ascii_case(share)) else {
            continue;
        };
        let (name, rest) = path[head.len()..].split_once('/').unwrap_or((&path[head.len()..], ""));
        return name.eq_ignore_ascii_case(distribution).then(|| format!("/{rest}"));
    }
    let mut letters = path.chars();
    match (letters.next(), letters.next()) {
        (Some(drive), Some(':')) if drive.is_ascii_alphabetic() => {
            let rest = letters.as_str().trim_start_matches('/');
            Some(format!("/mnt/{}/{rest}", drive.to_ascii_lowercase()).trim_end_matches('/').to_owned())
        }
        // A path of Linux stays one.
        (Some('/'), next) if next != Some('/') => Some(path),
        _ => None,
    }
}

/// The working directory, in every spelling that counts.
#[derive(Debug)]
pub(super) struct Folders {
    spellings: Vec<PathBuf>,
    distribution: Option<String>,
    any_case: bool,
}

impl Folders {
    /// Blocks: links are followed.
    pub(super) fn new(search: &Search) -> Self {
        let real = search.cwd.canonicalize().ok().filter(|real| *real != search.cwd);
        Self {
            spellings: std::iter::once(search.cwd.clone()).chain(real).collect(),
            distribution: distribution(&search.environment).map(str::to_owned),
            any_case: search.environment.platform == Platform::Windows,
        }
    }

    /// How deep the deepest folder of an editor lies that holds the directory; `None` where none does.
    pub(super) fn depth(&self, lock: &Lock) -> Option<usize> {
        lock.folders.iter().filter_map(|folder| self.depth_of(folder, lock.in_windows)).max()
    }

    fn depth_of(&self, folder: &str, in_windows: bool) -> Option<usize> {
        let folder = match &self.distribution {
            Some(distribution) if in_windows => in_linux(folder, distribution)?,
            _ => folder.to_owned(),
        };
        let folder = PathBuf::from(folder);
        if !folder.is_absolute() {
            return None;
        }
        let real = folder.canonicalize().ok();
        let all = std::iter::once(&folder).chain(&real);
        all.flat_map(|folder| self.spellings.iter().filter_map(|own| self.holds(folder, own))).max()
    }

    fn holds(&self, folder: &Path, directory: &Path) -> Option<usize> {
        let mut inner = directory.components();
        let mut depth = 0;
        for part in folder.components() {
            let own = inner.next()?;
            let (part, own) = (part.as_os_str(), own.as_os_str());
            let same = part == own || (self.any_case && part.eq_ignore_ascii_case(own));
            if !same {
                return None;
            }
            depth += 1;
        }
        Some(depth)
    }
}
