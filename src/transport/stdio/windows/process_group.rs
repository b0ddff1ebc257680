//! The job of one server: the counterpart of a process group.
//!
//! Owns a handle of the server's process, which keeps its number from being given away, and its job.

use std::os::windows::io::{AsHandle, BorrowedHandle, OwnedHandle};
use std::time::Instant;

use tokio::process::Child;

use super::job::{self, Job};
use crate::error::ExitFact;
use crate::transport::stdio::CloseStep;

/// Blocking waits look up this often, in milliseconds.
const WAIT: u32 = 1_000;

/// Whether members of a job live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::transport::stdio) enum Presence {
    /// No member lives.
    Gone,
    /// These do.
    Living(Vec<u32>),
    /// Windows does not tell.
    Unknown,
}

/// Nothing has to be made ready for a job.
pub(in crate::transport::stdio) struct Expectation;

/// Nothing has to be made ready: a job that is about to be born ends with the host.
pub(in crate::transport::stdio) fn expect_birth() -> Expectation {
    Expectation
}

/// The job of a server.
pub(in crate::transport::stdio) struct ProcessGroup {
    job: Job,
    process: OwnedHandle,
    number: u32,
}

impl ProcessGroup {
    pub(super) fn of(job: Job, process: OwnedHandle, number: u32) -> Self {
        Self { job, process, number }
    }

    fn process(&self) -> BorrowedHandle<'_> {
        self.process.as_handle()
    }

    /// Number of the server's process.
    pub(in crate::transport::stdio) fn number(&self) -> u32 {
        self.number
    }

    /// A job does so by itself.
    #[expect(clippy::unused_self, reason = "as on Unix")]
    pub(in crate::transport::stdio) fn dies_with_the_host(&self) {}

    /// Carries out a step of its end. Windows has no request to end: the first step that is more than the end of
    /// input ends the job, the short warning of a fast close passes.
    pub(in crate::transport::stdio) fn take(&self, step: CloseStep) {
        match step {
            CloseStep::AlreadyExited | CloseStep::InputEnd | CloseStep::Interrupt => {}
            CloseStep::Terminate | CloseStep::Kill => self.job.end(),
        }
    }

    /// How the server's process ended, if it did.
    pub(in crate::transport::stdio) fn leader_exit(&self) -> Option<ExitFact> {
        // The upper half of the numbers are faults, which are usually written as negative ones.
        job::exit_code(self.process())
            .map(|code| ExitFact { code: Some(code.cast_signed()), ..ExitFact::default() })
    }

    /// Blocks until the server's process has ended.
    pub(in crate::transport::stdio) fn block_until_leader_ends(&self) {
        while !job::wait(self.process(), WAIT) && self.leader_exit().is_none() {}
    }

    /// Kills what may have been born during the last look.
    pub(in crate::transport::stdio) fn reap(&self) {
        if self.leader_exit().is_some() {
            self.job.end();
        }
    }

    /// Whether members live.
    pub(in crate::transport::stdio) fn presence(&self, _not_before: Instant) -> Presence {
        match self.job.members() {
            Ok(members) if !members.is_empty() => Presence::Living(members),
            Ok(_) if self.leader_exit().is_none() => Presence::Living(vec![self.number]),
            Ok(_) => Presence::Gone,
            Err(_) => Presence::Unknown,
        }
    }
}

/// Tells once that the server's process has ended.
pub(in crate::transport::stdio) struct ExitWatch(pub(super) Child);

impl ExitWatch {
    /// Resolves when the process has ended or can no longer be watched.
    pub(in crate::transport::stdio) async fn ended(&mut self) {
        let _ = self.0.wait().await;
    }
}
