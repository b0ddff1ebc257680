//! The handle of a running server.
//!
//! Owns the state that the handle and the supervising task share: exit, orders, report, tail.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::process_group::{Presence, ProcessGroup};
use super::shutdown::{Order, Urgency};
use super::stderr_tail::Ring;
use super::{CloseMode, CloseReport, CloseStep, ShutdownTimes};
use crate::error::ExitFact;

/// Beyond the limit of an order its caller waits no longer, even if the supervising task is starved.
const OVERTIME: Duration = Duration::from_millis(50);

/// What the handle and the supervising task share.
pub(super) struct Shared {
    pub(super) group: ProcessGroup,
    pub(super) marker: String,
    pub(super) exit: watch::Sender<Option<ExitFact>>,
    pub(super) order: watch::Sender<Option<Order>>,
    pub(super) report: watch::Sender<Option<CloseReport>>,
    pub(super) stderr: Arc<Mutex<Ring>>,
}

impl Shared {
    pub(super) fn new(group: ProcessGroup, marker: String) -> Self {
        Self {
            group,
            marker,
            exit: watch::Sender::new(None),
            order: watch::Sender::new(None),
            report: watch::Sender::new(None),
            stderr: Arc::default(),
        }
    }

    /// Leaves the strongest order for the supervising task.
    fn give(&self, order: Order) {
        self.order.send_if_modified(|present| {
            let stronger = present.is_none_or(|present| present.urgency < order.urgency);
            if stronger {
                *present = Some(order);
            }
            stronger
        });
    }

    /// Living members of the group as of now.
    pub(super) fn members(&self) -> Vec<u32> {
        match self.group.presence(std::time::Instant::now()) {
            Presence::Living(members) => members,
            Presence::Gone | Presence::Unknown => Vec::new(),
        }
    }
}

/// A server's process and its group.
///
/// Dropping the last handle kills the group.
pub struct ServerProcess {
    shared: Arc<Shared>,
}

impl ServerProcess {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(super) fn group(&self) -> &ProcessGroup {
        &self.shared.group
    }

    pub(super) fn marker(&self) -> &str {
        &self.shared.marker
    }

    /// Number of the process, which is also that of its group.
    pub fn pid(&self) -> u32 {
        self.shared.group.number()
    }

    /// The last lines (at most 20) of the last 64 KiB of standard error, cleaned of control characters.
    pub fn stderr_tail(&self) -> Vec<String> {
        self.shared.stderr.lock().unwrap_or_else(PoisonError::into_inner).lines()
    }

    /// How the process ended, if it has.
    pub fn exit(&self) -> Option<ExitFact> {
        self.shared.exit.borrow().clone()
    }

    /// Waits for the end of the process; any number may wait, and waiting may be given up at any time.
    ///
    /// What it wrote to standard error just before is in [`Self::stderr_tail`] by then.
    pub async fn exited(&self) -> ExitFact {
        let mut exit = self.shared.exit.subscribe();
        match exit.wait_for(Option::is_some).await {
            Ok(fact) => fact.clone().unwrap_or_default(),
            Err(_) => ExitFact::default(),
        }
    }

    /// Ends the server, its whole group and (on Linux) descendants that left the group (STD-04).
    ///
    /// The caller has dropped the server's standard input. Takes at most the times of the mode and 900 ms
    /// more, 4.9 s with the default times; what has not ended by then is in the report. Callers share one
    /// closing: the strongest mode counts, everyone gets the same report. It goes on when callers give up.
    pub async fn close(&self, mode: CloseMode, times: &ShutdownTimes) -> CloseReport {
        let order = Order::new(mode.into(), *times);
        self.shared.give(order);
        let mut report = self.shared.report.subscribe();
        let limit = order.limit().saturating_add(OVERTIME);
        let waited = tokio::time::timeout(limit, report.wait_for(Option::is_some)).await;
        match waited {
            Ok(Ok(report)) => report.clone(),
            Ok(Err(_)) | Err(_) => None,
        }
        .unwrap_or_else(|| self.unfinished())
    }

    fn unfinished(&self) -> CloseReport {
        let survivors = self.shared.members();
        CloseReport {
            step: CloseStep::Kill,
            exit: self.exit(),
            strays: Vec::new(),
            survivors,
            complete: false,
        }
    }

    /// Kills the group with SIGKILL (Windows: ends its job); does not wait.
    pub fn kill_now(&self) {
        self.shared.group.take(CloseStep::Kill);
        self.shared.give(Order::new(Urgency::Now, ShutdownTimes::default()));
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill_now();
    }
}

impl std::fmt::Debug for ServerProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerProcess").field("pid", &self.pid()).field("exit", &self.exit()).finish()
    }
}
