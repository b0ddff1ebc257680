//! Lock files of editors: `<port>.lock` with what the editor says of itself.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;

use super::Search;
use super::folders::{distribution, in_linux};
use crate::diagnostic::Diagnostic;
use crate::unicode::clean_str_lossy;

/// Most files that are read, the youngest first, and most entries of the directory that are looked at.
const MOST_FILES: usize = 64;
const MOST_ENTRIES: usize = 4_096;
/// Largest file, in bytes.
const LARGEST: u64 = 64 * 1024;
/// Most folders of one editor.
const MOST_FOLDERS: usize = 256;
/// Longest name of an editor, in characters.
const LONGEST_NAME: usize = 100;
/// What an editor without a name is called.
pub(super) const NAMELESS: &str = "IDE";

/// What an editor says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) port: u16,
    pub(super) folders: Vec<String>,
    pub(super) name: String,
    pub(super) token: Option<String>,
    pub(super) in_windows: bool,
    pub(super) web_socket: bool,
    process: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    workspace_folders: Vec<String>,
    #[serde(default)]
    pid: Option<u32>,
    #[serde(default)]
    ide_name: Option<String>,
    #[serde(default)]
    transport: Option<String>,
    #[serde(default)]
    running_in_windows: bool,
    #[serde(default)]
    auth_token: Option<String>,
}

impl Lock {
    /// Reads a file's text.
    ///
    /// # Errors
    /// What is wrong with it; nothing of its content.
    pub(super) fn read(port: u16, text: &str) -> Result<Self, String> {
        let wire: Wire = serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            format!("it is damaged at line {line}, column {column}")
        })?;
        let web_socket = match wire.transport.as_deref() {
            Some("ws") => true,
            None | Some("sse") => false,
            Some(_) => return Err("its transport is neither ws nor sse".to_owned()),
        };
        let name =
            wire.ide_name.map(|name| clean_str_lossy(&name).trim().chars().take(LONGEST_NAME).collect());
        Ok(Self {
            port,
            folders: wire.workspace_folders.into_iter().take(MOST_FOLDERS).collect(),
            name: name.filter(|name: &String| !name.is_empty()).unwrap_or_else(|| NAMELESS.to_owned()),
            token: wire.auth_token.filter(|token| !token.is_empty()),
            in_windows: wire.running_in_windows,
            web_socket,
            process: wire.pid,
        })
    }

    pub(super) fn url(&self) -> String {
        let port = self.port;
        if self.web_socket {
            format!("ws://127.0.0.1:{port}")
        } else {
            format!("http://127.0.0.1:{port}/sse")
        }
    }

    /// Whether its process may still be there. In a distribution beside Windows, the number of a process over there
    /// means nothing; then its port tells.
    fn may_live(&self, beside_windows: bool) -> bool {
        self.process.is_none_or(|process| (self.in_windows && beside_windows) || lives(process))
    }
}

#[cfg(unix)]
fn lives(process: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    // Somebody else's process may not be signalled, and is there.
    pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH)))
}

/// Its port tells.
#[cfg(not(unix))]
fn lives(_process: u32) -> bool {
    true
}

/// All lock files with the time of their last change, the youngest first. Blocks.
pub(super) fn files(search: &Search) -> Vec<(SystemTime, PathBuf)> {
    let mut files: Vec<(SystemTime, PathBuf)> = directories(search)
        .iter()
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flat_map(|entries| entries.take(MOST_ENTRIES))
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let is_lock = path.extension().is_some_and(|extension| extension == "lock");
            is_lock.then_some((std::fs::metadata(&path).ok()?.modified().ok()?, path))
        })
        .collect();
    files.sort_by(|a, b| b.cmp(a));
    files.truncate(MOST_FILES);
    files
}

/// What stands in those of these files whose process may live; and which cannot be used. Blocks.
pub(super) fn read_all(
    search: &Search,
    files: &[(SystemTime, PathBuf)],
) -> (Vec<(Lock, SystemTime)>, Vec<Diagnostic>) {
    let beside_windows = distribution(&search.environment).is_some();
    let (mut locks, mut findings) = (Vec::new(), Vec::new());
    for (written, path) in files {
        match read_one(path) {
            Ok(lock) if lock.may_live(beside_windows) => locks.push((lock, *written)),
            Ok(_) => {}
            Err(why) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let name = clean_str_lossy(&name);
                let message = format!("the file {name} of an editor is not used: {why}");
                let mut finding = Diagnostic::warning("IDE_LOCK_INVALID", message);
                finding.file = Some(path.to_string_lossy().into_owned());
                findings.push(finding);
            }
        }
    }
    (locks, findings)
}

/// Where editors leave their files: in the home directory, and beside Windows in the one there.
fn directories(search: &Search) -> Vec<PathBuf> {
    let below = |home: PathBuf| home.join(&search.config_dir).join("ide");
    let mut all: Vec<PathBuf> = search.home.clone().map(below).into_iter().collect();
    if let Some(distribution) = distribution(&search.environment) {
        let profile = search.environment.get("USERPROFILE");
        let there = profile.and_then(|profile| in_linux(profile, distribution));
        all.extend(there.map(|home| below(PathBuf::from(home))));
    }
    all
}

fn read_one(path: &Path) -> Result<Lock, String> {
    let port = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u16>().ok()).filter(|port| *port > 0);
    let port = port.ok_or("its name is no port")?;
    let file = open(path).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no plain file".to_owned());
    }
    owned(&metadata)?;
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > LARGEST {
        return Err(format!("it is larger than {LARGEST} bytes"));
    }
    Lock::read(port, text.trim_start_matches('\u{feff}'))
}

/// Opens a file; one that is a pipe keeps nobody waiting.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    options.open(path)
}

/// What somebody else wrote leads nowhere.
#[cfg(unix)]
fn owned(metadata: &std::fs::Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let own = [rustix::process::geteuid().as_raw(), 0].contains(&metadata.uid());
    if own { Ok(()) } else { Err("it belongs to another user".to_owned()) }
}

#[cfg(not(unix))]
fn owned(_metadata: &std::fs::Metadata) -> Result<(), String> {
    Ok(())
}
