//! Writes to the state directory that nobody waits for, until the manager closes.

use std::sync::Mutex;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::runtime::lock;

/// Longest wait for writes at the end.
const LAST_WRITES: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct LateWrites(Mutex<Vec<JoinHandle<()>>>);

impl LateWrites {
    /// Does a write on a thread that may block.
    pub(super) fn add(&self, write: impl FnOnce() + Send + 'static) {
        let mut writes = lock(&self.0);
        writes.retain(|write| !write.is_finished());
        if let Some(runtime) = crate::runtime::handle() {
            writes.push(runtime.spawn_blocking(write));
        }
    }

    /// Waits until everything is written, for a moment.
    pub(super) async fn done(&self) {
        let writes = std::mem::take(&mut *lock(&self.0));
        let all = async {
            for write in writes {
                let _ = write.await;
            }
        };
        let _ = tokio::time::timeout(LAST_WRITES, all).await;
    }
}
