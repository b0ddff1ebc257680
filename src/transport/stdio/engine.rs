//! A container that will have to be stopped, on Unix (BEY-02).
//!
//! A small shell program waits for the end of its own input and then has the engine stop the container. That input
//! is held by this process alone: the same program serves an orderly close and the death of the host.

use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use tokio::process::{Child, Command};

use super::container::{Place, Stop};
use super::{program, session};
use crate::runtime::lock;

/// Arguments: a directory to remove or nothing, the file with the id, the words that reach the engine. What it calls by
/// name is the system's own, not what lies in the project (B-012).
const PROGRAM: &str = r#"
trap '' HUP INT QUIT TERM PIPE TSTP TTIN TTOU
directory=$1 file=$2
shift 2
while read -r _; do :; done
read -r container 2>/dev/null < "$file" || :
[ -n "$container" ] && "$@" stop -t 1 "$container"
[ -n "$directory" ] && command -p rm -rf "$directory"
"#;

/// Longest wait for the engine in an orderly close.
const PATIENCE: Duration = Duration::from_secs(4);

/// A container to come, and the program that will stop it.
#[derive(Debug)]
pub(super) struct Container {
    watchdog: Mutex<Option<Child>>,
}

impl Container {
    /// Starts the program that stops it; `None` where the system refuses.
    pub(super) fn expect(stop: Stop<'_>, place: &Place<'_>) -> Option<Self> {
        let mut watchdog = Command::from(session::own_session(Path::new("/bin/sh")));
        watchdog
            .args(["-c", PROGRAM, "mcp-switchboard-container"])
            .arg(stop.directory.as_deref().unwrap_or(Path::new("")))
            .arg(stop.file)
            .arg(place.program)
            .args(stop.engine)
            .env_clear()
            .envs(place.variables)
            .current_dir(place.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if !place.variables.contains_key("PATH") {
            watchdog.env("PATH", program::DEFAULT_PATH);
        }
        Some(Self { watchdog: Mutex::new(Some(watchdog.spawn().ok()?)) })
    }

    /// Has the engine stop the container, if there is one; waits for it a few seconds.
    pub(super) async fn stop(&self) {
        let watchdog = lock(&self.watchdog).take();
        if let Some(mut watchdog) = watchdog {
            // `wait` closes its input first, which is what it waits for.
            let _ = tokio::time::timeout(PATIENCE, watchdog.wait()).await;
        }
    }
}
