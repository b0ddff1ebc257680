//! How many servers may start at the same time (LIF-03, L2).
//!
//! Two pools, so that slow programs keep no server behind a URL waiting. A slot is taken before any clock of the
//! attempt starts, and given on when the attempt ends or has been silent for three seconds: one server that
//! hangs delays nobody for longer.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::spec::TransportSpec;

/// Without an answer for this long an attempt goes on without its slot.
const SILENCE: Duration = Duration::from_secs(3);
/// Default of `remoteConcurrency`.
const REMOTE: usize = 20;
/// Least default of `localConcurrency`.
const LEAST_LOCAL: usize = 3;

/// The pools of one manager.
#[derive(Clone, Debug)]
pub struct StartPools {
    local: Arc<Semaphore>,
    remote: Arc<Semaphore>,
}

impl Default for StartPools {
    fn default() -> Self {
        Self::new(None, None)
    }
}

/// The right to start a server now.
#[derive(Debug)]
pub(super) struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
}

impl StartPools {
    /// Pools of these sizes (options `localConcurrency`, `remoteConcurrency`); by default twice as many local
    /// starts as there are processors, at least 3, and 20 remote ones.
    pub fn new(local: Option<usize>, remote: Option<usize>) -> Self {
        let size = |size: usize| Arc::new(Semaphore::new(size.clamp(1, Semaphore::MAX_PERMITS)));
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            local: size(local.unwrap_or(LEAST_LOCAL.max(2 * processors))),
            remote: size(remote.unwrap_or(REMOTE)),
        }
    }

    /// Waits for a slot; first come, first served. Servers in the host's own program need none.
    pub(super) async fn slot(&self, transport: &TransportSpec) -> Slot {
        let pool = match transport {
            TransportSpec::Sdk { .. } => return Slot { _permit: None },
            TransportSpec::Stdio(_) => &self.local,
            _ => &self.remote,
        };
        // It fails for a closed pool only, and nobody closes one.
        Slot { _permit: Arc::clone(pool).acquire_owned().await.ok() }
    }
}

impl Slot {
    /// Runs an attempt in this slot.
    pub(super) async fn held_by<T>(self, attempt: impl Future<Output = T>) -> T {
        let give_on = async move {
            tokio::time::sleep(SILENCE).await;
            drop(self);
            std::future::pending().await
        };
        tokio::select! {
            biased;
            outcome = attempt => outcome,
            never = give_on => never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::{InheritEnv, StdioSpec};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::Instant;

    fn local() -> TransportSpec {
        TransportSpec::Stdio(StdioSpec {
            command: String::new(),
            args: Vec::new(),
            env: std::collections::BTreeMap::new(),
            cwd: None,
            inherit_env: InheritEnv::All,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn lif_03_l2_a_bounded_number_at_the_same_time() {
        let pools = StartPools::new(Some(2), None);
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let attempts: Vec<_> = (0..10)
            .map(|_| {
                let (pools, running, most) = (pools.clone(), Arc::clone(&running), Arc::clone(&most));
                tokio::spawn(async move {
                    let attempt = async {
                        most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        running.fetch_sub(1, Ordering::Relaxed);
                    };
                    pools.slot(&local()).await.held_by(attempt).await;
                })
            })
            .collect();
        let begin = Instant::now();
        for attempt in attempts {
            attempt.await.unwrap();
        }
        assert_eq!(most.load(Ordering::Relaxed), 2);
        assert_eq!(begin.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn lif_03_l1_a_silent_attempt_gives_its_slot_on_and_goes_on() {
        let pools = StartPools::new(Some(1), None);
        let slot = pools.slot(&local()).await;
        let silent = tokio::spawn(slot.held_by(tokio::time::sleep(Duration::from_secs(30))));
        let begin = Instant::now();
        pools.slot(&local()).await.held_by(async {}).await;
        assert_eq!(begin.elapsed(), SILENCE);
        silent.await.unwrap();
        assert_eq!(begin.elapsed(), Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn lif_03_the_pools_are_apart_and_in_process_servers_need_none() {
        let pools = StartPools::new(Some(1), Some(1));
        let _taken = pools.slot(&local()).await;
        let _free = pools.slot(&TransportSpec::Sdk { name: "s".to_owned() }).await;
        assert_eq!(pools.remote.available_permits(), 1);
        assert_eq!(pools.local.available_permits(), 0);
    }
}
