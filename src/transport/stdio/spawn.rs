//! The start of a server's process.
//!
//! Owns the checks before it and the handing over of its pipes; the call itself is in `birth`. No shell, a process
//! group (Windows: a job) of its own, an environment from the list (STD-01, STD-02); what fails says why (STD-06).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::birth::{self, Input, Output};
use super::container::{self, Place};
use super::engine::Container;
use super::environment::{child_environment, lookup};
use super::process_group;
use super::program;
use super::server_process::{ServerProcess, Shared};
use super::spawn_failure::{PathOrigin, SearchPath, SpawnFailure};
use super::stderr_tail::{self, OnLine};
use super::supervision::{Owed, Supervisor};
use super::{StdioRecipe, strays};
use crate::environment::{Environment, Platform};
use crate::error::{ErrorCode, McpError};

/// A server that was just started.
#[derive(Debug)]
pub struct Spawned {
    /// Its standard input; dropping it is the first step of a graceful close.
    pub stdin: Input,
    /// Its standard output. A grandchild may hold it open after the server's end: do not wait for its end.
    pub stdout: Output,
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
/// `CONNECT_FAILED` where the same start may work later (a limit of the system, a file being written);
/// `UNSAFE_ARGUMENT` for what a batch file of Windows cannot be given safely (CFG-06).
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
#[derive(Debug)]
pub(super) struct Launch<'a> {
    /// The command as it is configured: what the program is told to be called.
    #[cfg_attr(windows, expect(dead_code, reason = "Windows tells a program its path"))]
    pub(super) name: &'a str,
    /// The file that was found.
    pub(super) program: &'a Path,
    /// Its arguments.
    pub(super) args: &'a [OsString],
    /// Its environment, but for the marker.
    pub(super) variables: &'a BTreeMap<String, String>,
    /// Value of the marker.
    pub(super) marker: &'a str,
    /// Its working directory.
    pub(super) cwd: &'a Path,
    /// Standard error goes where the host's goes.
    pub(super) inherit_stderr: bool,
}

fn start(
    recipe: &StdioRecipe,
    environment: &Environment,
    on_stderr: OnLine,
) -> Result<Spawned, SpawnFailure> {
    check_text(recipe)?;
    let cwd = program::working_directory(recipe.cwd.as_deref(), &recipe.default_cwd)?;
    let variables = child_environment(environment, &recipe.inherit, &recipe.env);
    let program = find(&recipe.command, &recipe.env, environment.platform, &variables, &cwd)
        .map_err(|failure| failure.beside_managers(&recipe.command, environment))?;
    let marker = strays::new_marker();
    let _expectation = process_group::expect_birth();
    let place = Place { program: &program, variables: &variables, cwd: &cwd };
    let container = container::recognise(&recipe.command, &recipe.args)
        .and_then(|run| run.prepare(&recipe.args, &place, &marker));
    let (container, args) = container.unzip();
    let args = args.unwrap_or_else(|| recipe.args.iter().map(OsString::from).collect());
    let born = birth::bear(&Launch {
        name: &recipe.command,
        program: &program,
        args: &args,
        variables: &variables,
        marker: &marker,
        cwd: &cwd,
        inherit_stderr: recipe.inherit_stderr,
    })
    .map_err(|failure| refusal(failure, recipe))?;
    let shared = Arc::new(Shared::new(born.group, marker));
    let owed = Owed::new(&shared);
    let pipes = born.pipes.map_err(|error| SpawnFailure::of(&error, &program))?;
    let stderr = pipes
        .stderr
        .map(|stderr| tokio::spawn(stderr_tail::drain(stderr, Arc::clone(&shared.stderr), on_stderr)));
    tokio::spawn(Supervisor::new(owed, Arc::clone(&shared), born.watch, stderr).run());
    let process = Arc::new(ServerProcess::new(shared));
    Ok(Spawned { stdin: pipes.stdin, stdout: pipes.stdout, process, container })
}

/// Where a program is that runs in a server's name: never one that just lies in the working directory (B-012).
///
/// # Errors
/// Why there is none, for people.
pub(in crate::transport) fn find_program(
    command: &str,
    platform: Platform,
    variables: &BTreeMap<String, String>,
    cwd: &Path,
) -> Result<PathBuf, String> {
    find(command, &[], platform, variables, cwd).map_err(|failure| failure.told_of(command))
}

/// Finds the program along the path of the child, not that of the host; `own` is what the definition sets of it.
fn find(
    command: &str,
    own: &[(String, String)],
    platform: Platform,
    variables: &BTreeMap<String, String>,
    cwd: &Path,
) -> Result<PathBuf, SpawnFailure> {
    let own: BTreeMap<String, String> = own.iter().cloned().collect();
    let default = program::default_path(variables);
    let path = match lookup(variables, "PATH", platform) {
        Some(value) if lookup(&own, "PATH", platform).is_some() => {
            SearchPath { value, origin: PathOrigin::Config }
        }
        Some(value) => SearchPath { value, origin: PathOrigin::Host },
        None => SearchPath { value: &default, origin: PathOrigin::Default },
    };
    program::find(command, path, variables, cwd)
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

/// The directory may have gone since it was looked at, which the system reports like a missing program.
fn refusal(failure: SpawnFailure, recipe: &StdioRecipe) -> SpawnFailure {
    match program::working_directory(recipe.cwd.as_deref(), &recipe.default_cwd) {
        Err(directory) => directory,
        Ok(_) => failure,
    }
}
