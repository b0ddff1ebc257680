//! How a process ended, and learning of it without reaping.
//!
//! Owns the translation of a wait status and the wait itself. A process that is only *seen* to have ended
//! keeps its number, so that its group can still be signalled without hitting a stranger.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use tokio::sync::oneshot;

use crate::error::ExitFact;

/// Stack of the thread that waits where the platform has no process descriptors.
const WAITER_STACK: usize = 128 * 1024;

/// Exit code or signal of a wait status.
pub(super) fn exit_fact(status: &WaitIdStatus) -> ExitFact {
    ExitFact { code: status.exit_status(), signal: status.terminating_signal().map(signal_name) }
}

/// The usual name of a signal, `SIG<number>` for one without.
pub(super) fn signal_name(number: i32) -> String {
    const NAMES: [(Signal, &str); 21] = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::VTALARM, "SIGVTALRM"),
        (Signal::PROF, "SIGPROF"),
        (Signal::IO, "SIGIO"),
        (Signal::SYS, "SIGSYS"),
    ];
    NAMES
        .iter()
        .find(|(signal, _)| signal.as_raw() == number)
        .map_or_else(|| format!("SIG{number}"), |(_, name)| (*name).to_owned())
}

/// What is known of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It runs.
    Running,
    /// It has ended and waits to be reaped.
    Ended(ExitFact),
    /// Somebody else reaped it; nobody knows how it ended, and its number may be a stranger's by now.
    Lost,
}

/// Looks at a child without reaping it.
pub(super) fn peek(child: Pid) -> Fate {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(child), options) {
        Ok(Some(status)) => Fate::Ended(exit_fact(&status)),
        Err(rustix::io::Errno::CHILD) => Fate::Lost,
        Ok(None) | Err(_) => Fate::Running,
    }
}

/// Blocks until a child has ended, without reaping it.
pub(super) fn block_until_ended(child: Pid) {
    while let Err(rustix::io::Errno::INTR) =
        waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
    {}
}

/// Tells once that a child has ended; it does not reap it and installs no signal handler.
pub(super) enum ExitWatch {
    /// Readable once the process has ended.
    #[cfg(target_os = "linux")]
    Descriptor(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>),
    /// A thread that waits.
    Thread(oneshot::Receiver<()>),
}

impl ExitWatch {
    /// Watches a child of this process; must be called inside a runtime.
    pub(super) fn new(child: Pid) -> Self {
        #[cfg(target_os = "linux")]
        if let Some(watch) = Self::by_descriptor(child) {
            return watch;
        }
        Self::by_thread(child)
    }

    #[cfg(target_os = "linux")]
    #[expect(
        deprecated,
        reason = "an owned descriptor keeps what the unsafe successor asks its caller to promise"
    )]
    fn by_descriptor(child: Pid) -> Option<Self> {
        use rustix::process::{PidfdFlags, pidfd_open};
        use tokio::io::{Interest, unix::AsyncFd};

        let descriptor = pidfd_open(child, PidfdFlags::empty()).ok()?;
        AsyncFd::with_interest(descriptor, Interest::READABLE).ok().map(Self::Descriptor)
    }

    pub(super) fn by_thread(child: Pid) -> Self {
        let (told, receiver) = oneshot::channel();
        // Without a thread the sender is dropped at once; the caller then looks for itself from time to time.
        let _ = std::thread::Builder::new().name("mcp-exit".to_owned()).stack_size(WAITER_STACK).spawn(
            move || {
                block_until_ended(child);
                let _ = told.send(());
            },
        );
        Self::Thread(receiver)
    }

    /// Resolves when the child has ended or can no longer be watched; the caller looks with [`peek`].
    pub(super) async fn ended(&mut self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Descriptor(descriptor) => {
                let _ = descriptor.readable().await;
            }
            Self::Thread(receiver) => {
                let _ = receiver.await;
            }
        }
    }
}
