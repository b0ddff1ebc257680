//! The process of a stdio server: started, watched, ended (STD-01, STD-02, STD-04, STD-05, STD-06).
//!
//! Owns a server's process group from its start to its last member's end, and its standard error. What goes
//! through its standard input and output belongs to the caller.
//!
//! Three nets catch a server, each for another end of its host. `ServerProcess::close` and the task behind it
//! end the group in order. `close_all_now` does the same on the last thread of an exiting host. The death-link
//! kills what a host left that could not do either. On Linux a marker in the environment also finds
//! descendants that left the group; elsewhere these are out of reach. A container is none of these: the engine is
//! asked to stop it.
//!
//! What slips through all of them (death-link and host were killed together) the next host ends: `host_record`.
//!
//! On Windows a job object takes the place of group, death-link and marker: `windows` has the counterparts.

pub mod channel;
mod container;
mod environment;
mod server_process;
mod shutdown;
mod spawn;
mod spawn_failure;
mod stderr_tail;
mod strays;
mod supervision;
mod version_managers;

#[cfg(unix)]
mod birth;
#[cfg(unix)]
mod death_link;
#[cfg(unix)]
mod engine;
#[cfg(unix)]
mod exit;
#[cfg(target_os = "linux")]
pub mod host_record;
#[cfg(unix)]
mod intake;
#[cfg(unix)]
pub mod login_shell;
#[cfg(unix)]
mod nearness;
#[cfg(unix)]
mod process_group;
#[cfg(target_os = "linux")]
mod process_table;
#[cfg(unix)]
mod program;
#[cfg(unix)]
mod session;

#[cfg(any(windows, test))]
mod windows;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use crate::error::ExitFact;

#[cfg(windows)]
pub use windows::login_shell;
#[cfg(windows)]
use windows::{birth, engine, exit, intake, process_group, program};

pub(in crate::transport) use environment::child_environment;
pub(in crate::transport) use spawn::find_program;

#[cfg(unix)]
pub use death_link::death_link_available;
pub use server_process::ServerProcess;
pub use shutdown::{ExitLot, close_all_now};
pub use spawn::{Spawned, spawn};
#[cfg(windows)]
pub use windows::death_link_available;

/// What a server inherits of the host's environment (STD-02).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Inherit {
    /// The platform's safe list.
    #[default]
    Safe,
    /// The safe list and these names.
    Named(Vec<String>),
    /// Everything but shell functions.
    All,
}

/// All that is needed to start a stdio server, again and again.
#[derive(Clone, Debug)]
pub struct StdioRecipe {
    /// Name of the server, for errors.
    pub server: String,
    /// The program: searched in the child's `PATH`, or with a slash relative to the working directory.
    pub command: String,
    /// Arguments, passed byte for byte; there is no shell in between.
    pub args: Vec<String>,
    /// Variables of the definition; they win over inherited ones.
    pub env: Vec<(String, String)>,
    /// Working directory of the definition; a relative one is relative to `default_cwd`.
    pub cwd: Option<PathBuf>,
    /// Working directory without one in the definition.
    pub default_cwd: PathBuf,
    /// What is inherited of the host's environment.
    pub inherit: Inherit,
    /// Standard error goes where the host's goes, and nothing of it is kept.
    pub inherit_stderr: bool,
}

/// How a server is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloseMode {
    /// The end of its input first, then SIGTERM (Windows: the end of its job), then SIGKILL.
    Graceful,
    /// SIGINT at once (not on Windows), then SIGTERM (Windows: the end of its job), then SIGKILL.
    Fast,
}

/// The times of STD-04.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownTimes {
    /// Graceful: from the end of input to SIGTERM; 2 s.
    pub grace: Duration,
    /// Graceful: from SIGTERM to SIGKILL; 2 s.
    pub term: Duration,
    /// Fast: from SIGINT to SIGTERM; 500 ms.
    pub fast_int: Duration,
    /// Fast: from SIGINT to SIGKILL; 1000 ms.
    pub fast_term: Duration,
}

impl Default for ShutdownTimes {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(2),
            term: Duration::from_secs(2),
            fast_int: Duration::from_millis(500),
            fast_term: Duration::from_secs(1),
        }
    }
}

/// Which step ended a server, in the order of force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CloseStep {
    /// None: it had ended before.
    AlreadyExited,
    /// The end of its input.
    InputEnd,
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// What came of closing a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReport {
    /// The strongest step that was taken, on the server or on what it left behind.
    pub step: CloseStep,
    /// How the server ended; `None` when it has not.
    pub exit: Option<ExitFact>,
    /// Descendants outside the group that were found by their marker and ended (Linux).
    pub strays: Vec<u32>,
    /// Processes that could not be ended in time, as far as they are known.
    pub survivors: Vec<u32>,
    /// Whether everything that is known of the server has ended.
    pub complete: bool,
}
