//! Files that several processes write: one writer at a time, and readers see the old or the new content.
//!
//! Owns the lock and the replacement; what stands in a file is the caller's business.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::runtime;

/// Longest wait for another writer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at the lock.
const PAUSE: Duration = Duration::from_millis(2);

/// Longest wait for a reader that keeps Windows from replacing a file.
const IN_THE_WAY: Duration = Duration::from_secs(1);

/// Held while a file is read, changed and replaced. Ends with the value, and with the process.
#[derive(Debug)]
pub struct WriteLock {
    _file: File,
}

/// Waits until nobody else writes `path`, at most ten seconds. Blocks the task that calls, and no other (Q5).
///
/// # Errors
/// `TimedOut`, or why the directory cannot be opened.
pub fn lock(path: &Path) -> io::Result<WriteLock> {
    let directory = parent(path);
    // The directory itself carries the lock where the system allows it, so that no lock file is left behind.
    if cfg!(unix) {
        match wait_for(File::open(directory)?) {
            // Some systems lock no directories.
            Err(error) if error.kind() != io::ErrorKind::TimedOut => {}
            outcome => return outcome,
        }
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".lock");
    wait_for(OpenOptions::new().create(true).truncate(false).write(true).open(directory.join(name))?)
}

fn wait_for(file: File) -> io::Result<WriteLock> {
    let end = Instant::now() + PATIENCE;
    let mut outcome = file.try_lock();
    if matches!(outcome, Err(TryLockError::WouldBlock)) {
        runtime::beside_others(|| {
            while matches!(outcome, Err(TryLockError::WouldBlock)) && Instant::now() < end {
                std::thread::sleep(PAUSE);
                outcome = file.try_lock();
            }
        });
    }
    match outcome {
        Ok(()) => Ok(WriteLock { _file: file }),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::TimedOut.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Replaces the content of `path`. The last part of the path is never followed: a link there becomes a file
/// (B-008). The file keeps its permission bits; a new one gets `mode` on Unix.
///
/// # Errors
/// Whatever the file system says; the old content then stays.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    runtime::beside_others(|| replace_at_once(path, content, mode))
}

fn replace_at_once(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let directory = parent(path);
    let (temporary, mut file) = create_beside(path, existing_mode(path).unwrap_or(mode))?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    drop(file);
    let outcome = written.and_then(|()| rename(&temporary, path));
    if outcome.is_err() {
        let _ = std::fs::remove_file(&temporary);
    } else if cfg!(unix) {
        // The name is durable only when the directory is; a system that cannot do that loses no content.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
    }
    outcome
}

/// On Windows whoever has just opened the old file (a search index, a virus scanner) may be in the way for a moment.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let end = Instant::now() + if cfg!(windows) { IN_THE_WAY } else { Duration::ZERO };
    loop {
        match std::fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && Instant::now() < end => {
                std::thread::sleep(PAUSE);
            }
            outcome => return outcome,
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn create_beside(path: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
    for _ in 0..100 {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = parent(path).join(format!(".{name}.{}-{count}.tmp", std::process::id()));
        match creation(mode).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(unix)]
fn creation(mode: u32) -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    options
}

#[cfg(not(unix))]
fn creation(_mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    options
}

#[cfg(unix)]
fn existing_mode(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::symlink_metadata(path).ok()?;
    metadata.is_file().then(|| metadata.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn existing_mode(_path: &Path) -> Option<u32> {
    None
}

/// Creates a directory and what is missing above it, for the owner alone where it is new.
///
/// # Errors
/// Whatever the file system says.
#[cfg(unix)]
pub fn private_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let metadata = std::fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Creates a directory and what is missing above it. On Windows it inherits who may read it, which below a person's
/// own directory is that person.
///
/// # Errors
/// Whatever the file system says.
#[cfg(not(unix))]
pub fn private_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q5_pro_06_who_waits_for_a_file_holds_up_no_other_task() {
        let directory = std::env::temp_dir().join(format!("mcp-switchboard-lock-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("file");
        let held = lock(&path).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let waiting = runtime.spawn(async move { lock(&path).map(drop) });
        let began = Instant::now();
        let tick = runtime.spawn(async {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(5), tick).await })
            .unwrap()
            .unwrap();
        assert!(began.elapsed() < Duration::from_secs(5) && !waiting.is_finished());
        drop(held);
        runtime.block_on(waiting).unwrap().unwrap();
        std::fs::remove_dir_all(directory).unwrap();
    }
}
