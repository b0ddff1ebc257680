//! What is different on Windows: a job object instead of a process group, named pipes, batch files.
//!
//! Each file here has a counterpart of the same purpose for Unix, one directory up; who starts and ends servers is
//! the same on both. A job ends with the last handle to it, and this process holds the only one: so no death-link
//! is needed (STD-05). Windows knows no signals: a server first sees the end of its input, then its job is ended.

#[cfg(windows)]
pub(super) mod birth;
#[cfg(windows)]
pub(super) mod engine;
#[cfg(windows)]
pub(super) mod intake;
#[cfg(windows)]
#[expect(unsafe_code, reason = "jobs and the resumption of a process have no safe interface")]
mod job;
#[cfg(windows)]
pub(super) mod process_group;
#[cfg(windows)]
pub(super) mod program;
mod search;

#[cfg(windows)]
pub(super) use process_group as exit;

/// A job object does the work of the death-link; a server without one is not started.
#[cfg(windows)]
pub fn death_link_available() -> bool {
    true
}

/// There is no login shell on Windows (BEY-03).
#[cfg(windows)]
pub mod login_shell {
    use crate::environment::Environment;

    /// The host's environment as it is.
    ///
    /// # Errors
    /// None.
    #[expect(clippy::unused_async, reason = "as on Unix")]
    pub async fn with_login_shell(host: &Environment) -> Result<Environment, String> {
        Ok(host.clone())
    }
}
