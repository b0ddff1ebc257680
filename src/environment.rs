//! The only reader of process environment, working directory and platform.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Operating system family, as far as decisions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Linux and other Unix systems.
    Unix,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Platform {
    /// The platform this build runs on.
    pub const fn current() -> Self {
        if cfg!(windows) {
            Platform::Windows
        } else if cfg!(target_os = "macos") {
            Platform::MacOs
        } else {
            Platform::Unix
        }
    }
}

/// A snapshot, taken on the thread that creates a manager (nobody else may be writing then).
#[derive(Clone, Debug)]
pub struct Environment {
    /// Variables whose name and value are Unicode.
    pub vars: BTreeMap<String, String>,
    /// Working directory; the file-system root where there is none.
    pub cwd: PathBuf,
    /// Home directory, if any.
    pub home: Option<PathBuf>,
    /// Platform.
    pub platform: Platform,
}

impl Environment {
    /// Reads the environment of this process.
    pub fn capture() -> Self {
        let vars: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        Self { cwd, home: std::env::home_dir(), platform: Platform::current(), vars }
    }

    /// Value of a variable; on Windows names are compared without regard to case.
    pub fn get(&self, name: &str) -> Option<&str> {
        if let Some(value) = self.vars.get(name) {
            return Some(value);
        }
        (self.platform == Platform::Windows)
            .then(|| self.vars.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)))
            .flatten()
            .map(|(_, value)| value.as_str())
    }
}
