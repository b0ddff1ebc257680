//! Fixtures for tests with real processes: servers are `/bin/sh` programs.

mod death;
mod environment_rules;
mod failures;
mod lifecycle;
mod managers;
mod pure;
mod stderr;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader};

use super::process_table::{is_living, state_and_group};
use super::{Inherit, Spawned, StdioRecipe, spawn};
use crate::environment::Environment;

/// A server that is one shell program; `$1` and so on are `args`.
fn shell(program: &str) -> StdioRecipe {
    StdioRecipe {
        server: "fixture".to_owned(),
        command: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), program.to_owned(), "fixture".to_owned()],
        env: Vec::new(),
        cwd: None,
        default_cwd: PathBuf::from("/"),
        inherit: Inherit::Safe,
        inherit_stderr: false,
    }
}

fn run(recipe: &StdioRecipe) -> Spawned {
    spawn(recipe, &Environment::capture(), Box::new(|_| {})).expect("the fixture starts")
}

/// Lines of a server's output.
struct Output(tokio::io::Lines<BufReader<tokio::process::ChildStdout>>);

impl Output {
    fn of(stdout: tokio::process::ChildStdout) -> Self {
        Self(BufReader::new(stdout).lines())
    }

    async fn line(&mut self) -> String {
        tokio::time::timeout(Duration::from_secs(10), self.0.next_line())
            .await
            .expect("a line in time")
            .expect("readable")
            .expect("a line before the end")
    }

    async fn number(&mut self) -> u32 {
        self.line().await.trim().parse().expect("a process number")
    }
}

/// Whether a process can still do something; a zombie cannot.
fn alive(process: u32) -> bool {
    state_and_group(process).is_some_and(|(state, _)| is_living(state))
}

/// Waits until none of the processes lives; gives those that do at the end.
async fn survivors(processes: &[u32], within: Duration) -> Vec<u32> {
    let began = Instant::now();
    loop {
        let living: Vec<u32> = processes.iter().copied().filter(|process| alive(*process)).collect();
        if living.is_empty() || began.elapsed() > within {
            return living;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Runs a test in a process of its own, so that what other tests allocate and open is not counted: `true` there,
/// `false` in the test run itself once it has passed there.
fn alone(test: &str) -> bool {
    const ALONE: &str = "MCP_SWITCHBOARD_TEST_ALONE";
    if std::env::var(ALONE).is_ok_and(|name| name == test) {
        return true;
    }
    let output = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", &format!("transport::stdio::tests::{test}"), "--nocapture"])
        .env(ALONE, test)
        .output()
        .expect("it runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// A directory of its own for one test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcp-stdio-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Self(path)
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
