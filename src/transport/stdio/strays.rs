//! Descendants of a server that left its process group (STD-05).
//!
//! Owns their search by the marker in their environment and their end. Only Linux shows the environment of
//! other processes; elsewhere nothing is found.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::CloseStep;

/// From SIGTERM to SIGKILL, and from SIGKILL to the verdict.
const PATIENCE: Duration = Duration::from_millis(300);

/// Longest look at what a dead host has left.
#[cfg(target_os = "linux")]
const END_OF_HOST: Duration = Duration::from_secs(1);

const POLL: Duration = Duration::from_millis(20);

/// What every marker of this host begins with; random, so that no other host's servers are taken for ours.
static HOST: LazyLock<String> = LazyLock::new(|| {
    use std::hash::BuildHasher;
    let part = |salt: u32| std::hash::RandomState::new().hash_one((std::process::id(), salt));
    format!("{:016x}{:016x}", part(1), part(2))
});

/// The part of the marker that all servers of this host share.
#[cfg(unix)]
pub(super) fn host_marker() -> &'static str {
    &HOST
}

/// A marker for one start of one server.
pub(super) fn new_marker() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    format!("{}-{}", *HOST, COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(target_os = "linux")]
fn find(marker: &str, not_before: Instant) -> Vec<u32> {
    super::process_table::marked(marker, not_before)
}

#[cfg(not(target_os = "linux"))]
fn find(_marker: &str, _not_before: Instant) -> Vec<u32> {
    Vec::new()
}

#[cfg(target_os = "linux")]
fn end(processes: &[u32], marker: &str, step: CloseStep) {
    let Some(signal) = super::process_group::signal_of(step) else { return };
    for process in processes {
        super::process_table::signal_marked(*process, marker, signal);
    }
}

#[cfg(not(target_os = "linux"))]
fn end(_processes: &[u32], _marker: &str, _step: CloseStep) {}

/// Kills all strays of these markers at once, without waiting.
pub(super) fn kill<'a>(markers: impl Iterator<Item = &'a str>) {
    let now = Instant::now();
    for marker in markers {
        end(&find(marker, now), marker, CloseStep::Kill);
    }
}

/// Kills all processes that carry the marker of a host that is dead, but for this one, which that host may have
/// started; their numbers, and whether none is left after a second. Blocks.
#[cfg(target_os = "linux")]
pub(super) fn end_host(host: &str) -> (Vec<u32>, bool) {
    let began = Instant::now();
    let mut killed = Vec::new();
    loop {
        let mut found = super::process_table::marked_by_host(host, Instant::now());
        found.retain(|(_, process)| *process != std::process::id());
        for (marker, process) in &found {
            end(&[*process], marker, CloseStep::Kill);
        }
        killed.extend(found.iter().map(|(_, process)| *process));
        if found.is_empty() || began.elapsed() >= END_OF_HOST {
            killed.sort_unstable();
            killed.dedup();
            return (killed, found.is_empty());
        }
        std::thread::sleep(POLL);
    }
}

/// What became of a server's strays.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// Those that were found and ended.
    pub(super) ended: Vec<u32>,
    /// Those that could not be ended.
    pub(super) survivors: Vec<u32>,
}

/// Ends the strays of a server whose group is gone: SIGTERM first unless `kill_at_once`, SIGKILL after 300 ms,
/// the verdict 300 ms later.
pub(super) async fn sweep(marker: &str, kill_at_once: bool) -> Swept {
    let mut all: Vec<u32> = Vec::new();
    let steps = if kill_at_once { &[CloseStep::Kill][..] } else { &[CloseStep::Terminate, CloseStep::Kill] };
    for step in steps {
        let began = Instant::now();
        loop {
            let found = find(marker, Instant::now());
            if found.is_empty() {
                return Swept { ended: all, survivors: Vec::new() };
            }
            if *step == CloseStep::Kill || began.elapsed() < POLL {
                end(&found, marker, *step);
            }
            all.extend(found.iter().filter(|process| !all.contains(process)).copied().collect::<Vec<_>>());
            if began.elapsed() >= PATIENCE {
                break;
            }
            tokio::time::sleep(POLL).await;
        }
    }
    let survivors = find(marker, Instant::now());
    all.retain(|process| !survivors.contains(process));
    Swept { ended: all, survivors }
}
