//! Noticing that configuration files change. (CFG-12)
//!
//! By looking at their times and sizes, because that works on every disk, network and container alike, also
//! for files that do not exist yet; nothing but the manager's own files is looked at.

use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::{Duration, SystemTime};

use super::Manager;

/// Between two looks. A change counts when two looks in a row agree, so that a half-written file is not read.
const PAUSE: Duration = Duration::from_millis(300);

/// What a look sees of a file.
type Sight = Option<(Option<SystemTime>, u64)>;

impl Manager {
    /// Starts to look, if asked to. Ends with the manager.
    pub(super) fn watch(&self) {
        let Some(places) = self.places.as_ref().filter(|_| self.options.watch) else { return };
        let manager = Weak::clone(&self.this);
        let files = places.files();
        let seen = look(&files);
        crate::runtime::spawn(run(manager, files, seen));
    }
}

async fn run(manager: Weak<Manager>, files: Vec<PathBuf>, mut known: Vec<Sight>) {
    let mut last = known.clone();
    loop {
        tokio::time::sleep(PAUSE).await;
        let now = look(&files);
        let settled = now == last;
        last.clone_from(&now);
        if !settled || now == known {
            if manager.strong_count() == 0 {
                return;
            }
            continue;
        }
        known = now;
        let Some(manager) = manager.upgrade() else { return };
        // What is wrong with a file stands in the report; a closed manager ends the watch.
        if manager.reload().await.is_err() && manager.open_for_use().is_err() {
            return;
        }
    }
}

fn look(files: &[PathBuf]) -> Vec<Sight> {
    files.iter().map(|file| sight(file)).collect()
}

fn sight(file: &Path) -> Sight {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok(), metadata.len()))
}
