//! The process group of one server.
//!
//! Owns the signals sent to it, the reaping of its leader and the answer to "does any member live". The
//! leader stays unreaped until the group is empty: as long as it is there, the kernel gives its number to
//! nobody else, and a signal to the group cannot hit a stranger.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::exit::{self, Fate};
use super::{CloseStep, death_link};
use crate::error::ExitFact;

/// Starts the death-link for a group that is about to be born, and keeps it until the value is dropped.
pub(super) fn expect_birth() -> death_link::Expectation {
    death_link::expect_birth()
}

/// Whether members of a group live; a zombie does not live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// No member lives.
    Gone,
    /// These do; the list is empty where the platform does not tell which.
    Living(Vec<u32>),
    /// The platform does not tell.
    Unknown,
}

/// A group led by a child of this process.
pub(super) struct ProcessGroup {
    leader: Pid,
    reaped: Mutex<bool>,
}

impl ProcessGroup {
    /// The group of a child that was started as its leader.
    pub(super) fn of(leader: Pid) -> Self {
        Self { leader, reaped: Mutex::new(false) }
    }

    /// Number of the leader and of the group.
    pub(super) fn number(&self) -> u32 {
        self.leader.as_raw_nonzero().get().unsigned_abs()
    }

    fn reaped(&self) -> MutexGuard<'_, bool> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the leader was reaped; from then on the number means nothing.
    pub(super) fn is_reaped(&self) -> bool {
        *self.reaped()
    }

    /// From now on the group dies with this process.
    pub(super) fn dies_with_the_host(&self) {
        death_link::remember(self.number());
    }

    /// Carries out a step of its end; does nothing once the leader was reaped.
    pub(super) fn take(&self, step: CloseStep) {
        if let Some(signal) = signal_of(step) {
            self.signal(signal);
        }
    }

    fn signal(&self, signal: Signal) {
        let reaped = self.reaped();
        if *reaped {
            return;
        }
        // A failure means that nobody is left or that the member belongs to someone else: `presence` tells.
        let _ = kill_process_group(self.leader, signal);
        if signal == Signal::TERM || signal == Signal::INT {
            // A stopped process would only see the signal once somebody continues it.
            let _ = kill_process_group(self.leader, Signal::CONT);
        }
    }

    /// How the leader ended, if it did; it is not reaped.
    pub(super) fn leader_exit(&self) -> Option<ExitFact> {
        let mut reaped = self.reaped();
        if *reaped {
            return Some(ExitFact::default());
        }
        match exit::peek(self.leader) {
            Fate::Running => None,
            Fate::Ended(fact) => Some(fact),
            Fate::Lost => {
                *reaped = true;
                Some(ExitFact::default())
            }
        }
    }

    /// Blocks until the leader has ended.
    pub(super) fn block_until_leader_ends(&self) {
        exit::block_until_ended(self.leader);
    }

    /// Kills what may have been born during the last look, then reaps a leader that has ended. The death-link
    /// forgets the number while it still is the leader's.
    pub(super) fn reap(&self) {
        death_link::forget(self.number());
        let mut reaped = self.reaped();
        if *reaped {
            return;
        }
        match exit::peek(self.leader) {
            Fate::Running => return,
            Fate::Ended(_) => {
                let _ = kill_process_group(self.leader, Signal::KILL);
                let _ = waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
            Fate::Lost => {}
        }
        *reaped = true;
    }

    /// Whether members live, in a look at the system taken after `not_before`.
    pub(super) fn presence(&self, not_before: Instant) -> Presence {
        if self.is_reaped() {
            return Presence::Gone;
        }
        self.look(not_before)
    }

    #[cfg(target_os = "linux")]
    fn look(&self, not_before: Instant) -> Presence {
        match super::process_table::living_groups(not_before) {
            None => Presence::Unknown,
            Some(groups) => match groups.get(&self.number()) {
                Some(members) => Presence::Living(members.clone()),
                None if self.leader_exit().is_none() => Presence::Living(vec![self.number()]),
                None => Presence::Gone,
            },
        }
    }

    /// Elsewhere a signal to a group of zombies alone is refused.
    #[cfg(not(target_os = "linux"))]
    fn look(&self, _not_before: Instant) -> Presence {
        use rustix::io::Errno;

        match rustix::process::test_kill_process_group(self.leader) {
            Ok(()) => Presence::Living(Vec::new()),
            Err(_) if self.leader_exit().is_none() => Presence::Living(vec![self.number()]),
            Err(Errno::SRCH | Errno::PERM) => Presence::Gone,
            Err(_) => Presence::Unknown,
        }
    }
}

/// The signal of a step.
pub(super) fn signal_of(step: CloseStep) -> Option<Signal> {
    match step {
        CloseStep::AlreadyExited | CloseStep::InputEnd => None,
        CloseStep::Interrupt => Some(Signal::INT),
        CloseStep::Terminate => Some(Signal::TERM),
        CloseStep::Kill => Some(Signal::KILL),
    }
}
