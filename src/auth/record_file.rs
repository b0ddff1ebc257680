//! Files of logins: for their owner alone, read and replaced whole, one renewer at a time (B-145, A-1). What stands in
//! them is not known here.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::atomic_file;

/// Between two looks at a lock.
const PAUSE: Duration = Duration::from_millis(20);
/// Largest file that is read back.
const LONGEST: u64 = 1024 * 1024;

/// A directory of such files.
#[derive(Clone, Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where a file is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The text of a file; what is too long is empty, and so nothing that could be understood.
    pub(super) async fn read(&self, name: &str) -> io::Result<Option<String>> {
        let path = self.path(name);
        blocking(move || match checked(&path)? {
            None => Ok(None),
            Some(length) if length > LONGEST => Ok(Some(String::new())),
            Some(_) => match std::fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                read => read.map(|bytes| Some(String::from_utf8_lossy(&bytes).into_owned())),
            },
        })
        .await
    }

    /// Replaces a file.
    pub(super) async fn write(&self, name: &str, text: String) -> io::Result<()> {
        let (directory, path) = (self.0.clone(), self.path(name));
        blocking(move || {
            atomic_file::private_directory(&directory)?;
            if checked(&path)?.is_some() {
                only_ours(&path)?;
            }
            atomic_file::replace(&path, text.as_bytes(), 0o600)
        })
        .await
    }

    /// Removes a file; one that is not there is no error.
    pub(super) async fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        blocking(move || match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
        .await
    }

    /// Moves a file out of the way, beside those that were moved there before; gives where it is now. Of many the
    /// last place is used again.
    pub(super) async fn put_aside(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path(name);
        blocking(move || {
            let places = (1..=9).map(|count| match count {
                1 => path.with_extension("corrupt"),
                _ => path.with_extension(format!("corrupt-{count}")),
            });
            let mut aside = path.with_extension("corrupt");
            for place in places {
                aside = place;
                if aside.symlink_metadata().is_err() {
                    break;
                }
            }
            std::fs::rename(&path, &aside)?;
            Ok(aside)
        })
        .await
    }

    /// Waits for a lock of the system: it ends with the process that holds it, however that ends (F-067).
    ///
    /// # Errors
    /// `TimedOut`, and whatever the file system says.
    pub(super) async fn lock(&self, name: &str, end: Instant) -> io::Result<File> {
        let (directory, path) = (self.0.clone(), self.path(&format!("{name}.lock")));
        let file = blocking(move || {
            atomic_file::private_directory(&directory)?;
            OpenOptions::new().create(true).truncate(false).write(true).open(path)
        })
        .await?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < end => tokio::time::sleep(PAUSE).await,
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.unwrap_or_else(|_| Err(io::Error::other("the file could not be worked on")))
}

/// The length of a file: a plain one of our own, or an error (B-145).
fn checked(path: &Path) -> io::Result<Option<u64>> {
    let metadata = match std::fs::symlink_metadata(path) {
        // Below something that is no directory nothing can be: a server that needs no login does without (Q8).
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        other => other?,
    };
    if !metadata.is_file() {
        return Err(io::Error::other(format!("{} is no plain file", path.display())));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other(format!("{} belongs to somebody else", path.display())));
        }
    }
    Ok(Some(metadata.len()))
}

#[cfg(unix)]
fn only_ours(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
fn only_ours(_path: &Path) -> io::Result<()> {
    Ok(())
}
