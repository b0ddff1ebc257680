//! Before the first local server of a manager starts: what hosts that died have left running is ended (A16).
//!
//! Only Linux shows whose a process is; elsewhere the death-link has to do.

use std::path::PathBuf;
use std::sync::Arc;

use super::Shared;

/// Whoever kept servers with the same state directory before.
#[derive(Debug)]
pub struct Predecessors {
    directory: PathBuf,
    #[cfg(target_os = "linux")]
    settled: tokio::sync::OnceCell<()>,
    #[cfg(target_os = "linux")]
    record: std::sync::Mutex<Option<Arc<crate::transport::stdio::host_record::HostRecord>>>,
}

impl Predecessors {
    /// Those that used this state directory.
    pub fn of(directory: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            directory,
            #[cfg(target_os = "linux")]
            settled: tokio::sync::OnceCell::new(),
            #[cfg(target_os = "linux")]
            record: std::sync::Mutex::default(),
        })
    }

    /// Waits until their leftovers are ended and this host has its own record; done once.
    #[cfg(target_os = "linux")]
    pub(super) async fn settled(&self, shared: &Shared) {
        use crate::diagnostic::Diagnostic;
        use crate::transport::stdio::host_record::{HostRecord, end_leftovers};

        let settle = async {
            let directory = self.directory.clone();
            let work = move || {
                crate::state_dir::make(&directory).ok()?;
                let ended = end_leftovers(&directory);
                Some((ended, HostRecord::hold(&directory)))
            };
            // Without a record the next host cannot help this one, which still has its death-link.
            let Ok(Some((ended, record))) = tokio::task::spawn_blocking(work).await else { return };
            *crate::runtime::lock(&self.record) = record;
            if !ended.is_empty() {
                let numbers: Vec<String> = ended.iter().map(u32::to_string).collect();
                let message =
                    format!("a host that died had left processes; they were ended: {}", numbers.join(", "));
                shared.diagnose(Diagnostic::warning("LEFTOVERS_ENDED", message));
            }
        };
        self.settled.get_or_init(|| settle).await;
    }

    /// Gives the record back: this host's servers have ended.
    pub fn part(&self) {
        #[cfg(target_os = "linux")]
        drop(crate::runtime::lock(&self.record).take());
    }

    /// There is nothing to wait for.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_async, reason = "as on Linux")]
    pub(super) async fn settled(&self, _shared: &Shared) {
        let _ = &self.directory;
    }
}
