//! The start of a server's process.
//!
//! Owns the checks before it, the call itself and the handing over of its pipes. No shell, a process group of
//! its own, an environment from the list (STD-01, STD-02); what fails says why (STD-06).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::process::Pid;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::container::{self, Container, Place};
use super::environment::{MARKER, child_environment};
use super::process_group::ProcessGroup;
use super::program::{self, DEFAULT_PATH, SearchPath};
use super::server_process::{ServerProcess, Shared};
use super::spawn_failure::{PathOrigin, SpawnFailure};
use super::stderr_tail::{self, OnLine};
use super::supervision::{Owed, Supervisor};
use super::{StdioRecipe, death_link, strays};
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError};

/// A server that was just started.
#[derive(Debug)]
pub struct Spawned {
    /// Its standard input; dropping it is the first step of a graceful close.
    pub stdin: ChildStdin,
    /// Its standard output. A grandchild may hold it open after the server's end: do not wait for its end.
    pub stdout: ChildStdout,
    /// The process itself.
    pub process: Arc<ServerProcess>,
    /// The container that the process is only the client of.
    pub(super) container: Option<Container>,
}

/// Starts a server; must be called inside a runtime with timers and IO.
///
/// `on_stderr` gets one line of standard error at a time, cleaned and at most 8 KiB long, at most 1,000 a
/// second and then how many were left out.
///
/// Errors: `SPAWN_FAILED` with the reason, file, working directory or searched path in `data`;
/// `CONNECT_FAILED` where the same start may work later (a limit of the system, a file being written).
pub fn spawn(
    recipe: &StdioRecipe,
    environment: &Environment,
    on_stderr: OnLine,
) -> Result<Spawned, McpError> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(McpError::new(ErrorCode::Internal, "a server was started outside a runtime"));
    }
    start(recipe, environment, on_stderr)
        .map_err(|failure| failure.into_error(&recipe.server, &recipe.command))
}

/// Everything the system needs to know.
struct Launch {
    program: PathBuf,
    cwd: PathBuf,
    variables: BTreeMap<String, String>,
}

fn start(
    recipe: &StdioRecipe,
    environment: &Environment,
    on_stderr: OnLine,
) -> Result<Spawned, SpawnFailure> {
    let launch = prepare(recipe, environment)?;
    let marker = strays::new_marker();
    let expectation = death_link::expect_birth();
    let place = Place { engine: &launch.program, variables: &launch.variables, cwd: &launch.cwd };
    let container = container::recognise(&recipe.command, &recipe.args)
        .and_then(|run| run.prepare(&recipe.args, &place, &marker));
    let (container, args) = container.unzip();
    let args = args.unwrap_or_else(|| recipe.args.iter().map(OsString::from).collect());
    let mut child = command(recipe, &launch, &args, &marker)
        .spawn()
        .map_err(|error| refusal(&error, recipe, &launch.program))?;
    let Some(leader) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Err(SpawnFailure::Other { said: "its process number is out of range".to_owned() });
    };
    let shared = Arc::new(Shared::new(ProcessGroup::of(leader), marker));
    let owed = Owed::new(&shared);
    drop(expectation);
    let pipes = take_pipes(&mut child).map_err(|error| SpawnFailure::of(&error, &launch.program))?;
    let stderr = pipes
        .stderr
        .map(|stderr| tokio::spawn(stderr_tail::drain(stderr, Arc::clone(&shared.stderr), on_stderr)));
    tokio::spawn(Supervisor::new(owed, Arc::clone(&shared), stderr).run());
    let process = Arc::new(ServerProcess::new(shared));
    Ok(Spawned { stdin: pipes.stdin, stdout: pipes.stdout, process, container })
}

fn prepare(recipe: &StdioRecipe, environment: &Environment) -> Result<Launch, SpawnFailure> {
    check_text(recipe)?;
    let cwd = program::working_directory(recipe.cwd.as_deref(), &recipe.default_cwd)?;
    let variables = child_environment(environment, &recipe.inherit, &recipe.env);
    let program = program::find(&recipe.command, search_path(recipe, &variables), &cwd)?;
    Ok(Launch { program, cwd, variables })
}

/// The path of the child, not that of the host.
fn search_path<'a>(recipe: &StdioRecipe, variables: &'a BTreeMap<String, String>) -> SearchPath<'a> {
    let configured = recipe.env.iter().any(|(name, _)| name == "PATH");
    match variables.get("PATH") {
        Some(value) if configured => SearchPath { value, origin: PathOrigin::Config },
        Some(value) => SearchPath { value, origin: PathOrigin::Host },
        None => SearchPath { value: DEFAULT_PATH, origin: PathOrigin::Default },
    }
}

fn check_text(recipe: &StdioRecipe) -> Result<(), SpawnFailure> {
    let unspeakable = |what: String| Err(SpawnFailure::Unspeakable { what });
    if recipe.command.is_empty() {
        return Err(SpawnFailure::CommandEmpty);
    }
    if recipe.command.contains('\0') {
        return unspeakable("the command contains a zero character".to_owned());
    }
    if let Some(index) = recipe.args.iter().position(|argument| argument.contains('\0')) {
        return unspeakable(format!("args[{index}] contains a zero character"));
    }
    for (name, value) in &recipe.env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return unspeakable(format!("env has a name that no variable can have: {name:?}"));
        }
        if value.contains('\0') {
            return unspeakable(format!("the value of {name:?} in env contains a zero character"));
        }
    }
    Ok(())
}

fn command(recipe: &StdioRecipe, launch: &Launch, args: &[OsString], marker: &str) -> Command {
    let stderr = if recipe.inherit_stderr { Stdio::inherit() } else { Stdio::piped() };
    let mut command = Command::new(&launch.program);
    command
        .arg0(&recipe.command)
        .args(args)
        .env_clear()
        .envs(&launch.variables)
        .env(MARKER, marker)
        .current_dir(&launch.cwd)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr);
    command
}

/// The directory may have gone since it was looked at, which the system reports like a missing program.
fn refusal(error: &std::io::Error, recipe: &StdioRecipe, program: &Path) -> SpawnFailure {
    match program::working_directory(recipe.cwd.as_deref(), &recipe.default_cwd) {
        Err(failure) => failure,
        Ok(_) => SpawnFailure::of(error, program),
    }
}

struct Pipes {
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: Option<ChildStderr>,
}

fn take_pipes(child: &mut Child) -> std::io::Result<Pipes> {
    let missing = std::io::ErrorKind::BrokenPipe;
    Ok(Pipes {
        stdin: ChildStdin::from_std(child.stdin.take().ok_or(missing)?)?,
        stdout: ChildStdout::from_std(child.stdout.take().ok_or(missing)?)?,
        stderr: child.stderr.take().map(ChildStderr::from_std).transpose()?,
    })
}
