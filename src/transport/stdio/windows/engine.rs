//! A container that will have to be stopped, on Windows (BEY-02).
//!
//! The engine is asked when the server is closed. Where the host dies instead, its client ends with the job, which
//! ends the container's input; there is no program that could outlive the host and do more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use windows_sys::Win32::System::Threading::CREATE_NO_WINDOW;

use crate::transport::stdio::container::{Place, Stop};

/// Longest wait for the engine.
const PATIENCE: Duration = Duration::from_secs(4);

/// A container to come.
#[derive(Debug)]
pub(in crate::transport::stdio) struct Container {
    directory: Option<PathBuf>,
    file: PathBuf,
    program: PathBuf,
    engine: Vec<String>,
    variables: BTreeMap<String, String>,
    cwd: PathBuf,
}

impl Container {
    /// Remembers how to stop it.
    #[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
    pub(in crate::transport::stdio) fn expect(stop: Stop<'_>, place: &Place<'_>) -> Option<Self> {
        Some(Self {
            directory: stop.directory,
            file: stop.file,
            program: place.program.to_owned(),
            engine: stop.engine.to_vec(),
            variables: place.variables.clone(),
            cwd: place.cwd.to_owned(),
        })
    }

    /// Has the engine stop the container, if there is one; waits for it a few seconds.
    pub(in crate::transport::stdio) async fn stop(&self) {
        let id = std::fs::read_to_string(&self.file).unwrap_or_default();
        let id = id.trim();
        if !id.is_empty() {
            let mut command = Command::new(&self.program);
            command
                .args(&self.engine)
                .args(["stop", "-t", "1", id])
                .env_clear()
                .envs(&self.variables)
                .current_dir(&self.cwd)
                .creation_flags(CREATE_NO_WINDOW)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true);
            // An engine that does not answer cannot be helped.
            let _ = tokio::time::timeout(PATIENCE, command.status()).await;
        }
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}
