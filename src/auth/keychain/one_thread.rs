//! Work that blocks and cannot be ended: a thread of its own, and never a second one beside it. One that hangs makes
//! all later work late at once instead of piling up threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use super::Trouble;

/// The thread, while there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct OneThread {
    busy: Arc<AtomicBool>,
}

struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl OneThread {
    /// Does the work; whoever stops waiting leaves the thread to itself.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        if self.busy.swap(true, Ordering::Acquire) {
            return Err(Trouble::Late);
        }
        let busy = Busy(Arc::clone(&self.busy));
        let (done, outcome) = oneshot::channel();
        let body = move || {
            let result = work();
            drop(busy);
            let _ = done.send(result);
        };
        let started = std::thread::Builder::new().name("mcp-keychain".into()).spawn(body);
        started.map_err(|error| Trouble::Failed(format!("no thread can be started: {}", error.kind())))?;
        outcome.await.unwrap_or_else(|_| Err(Trouble::Failed("it broke off".into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[tokio::test]
    async fn f_065_a_keychain_that_hangs_costs_one_thread() {
        let thread = OneThread::default();
        let (release, hanging) = mpsc::channel::<()>();
        let hang = thread.run(move || hanging.recv().map_err(|_| Trouble::Absent));
        assert!(tokio::time::timeout(Duration::from_millis(50), hang).await.is_err());
        for _ in 0..100 {
            assert_eq!(thread.run(|| Ok(1)).await, Err(Trouble::Late), "nothing piles up behind it");
        }
        release.send(()).unwrap();
        while thread.run(|| Ok(1)).await != Ok(1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(thread.run(|| Ok(2)).await, Ok(2));
    }
}
