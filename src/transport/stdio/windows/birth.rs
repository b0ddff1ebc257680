//! The call that makes a server's process on Windows, and its pipes.
//!
//! The process is started asleep, put into its job and only then let run: nothing that it starts is outside of the
//! job. It gets no window. The pipes are named ones, which alone can be waited for without a thread each.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};
use tokio::process::{Child, Command};
use windows_sys::Win32::System::Threading::{CREATE_NO_WINDOW, CREATE_SUSPENDED};

use super::job::{self, Job};
use super::process_group::{ExitWatch, ProcessGroup};
use super::{program, search};
use crate::config::windows_command::windows_command;
use crate::transport::stdio::environment::MARKER;
use crate::transport::stdio::spawn::Launch;
use crate::transport::stdio::spawn_failure::SpawnFailure;

/// Bytes a pipe holds.
const PIPE: u32 = 64 * 1024;

/// The writing end of a server's standard input.
pub(crate) type Input = NamedPipeServer;
/// The reading end of a server's standard output.
pub(crate) type Output = NamedPipeServer;

/// A process that was just made.
pub(in crate::transport::stdio) struct Born {
    pub(in crate::transport::stdio) group: ProcessGroup,
    pub(in crate::transport::stdio) watch: ExitWatch,
    pub(in crate::transport::stdio) pipes: io::Result<Pipes>,
}

/// Our ends.
pub(in crate::transport::stdio) struct Pipes {
    pub(in crate::transport::stdio) stdin: Input,
    pub(in crate::transport::stdio) stdout: Output,
    pub(in crate::transport::stdio) stderr: Option<NamedPipeServer>,
}

/// Makes the process, in a job of its own.
pub(in crate::transport::stdio) fn bear(launch: &Launch<'_>) -> Result<Born, SpawnFailure> {
    let mut command = command(launch)?;
    let (pipes, theirs) = pipes(launch.inherit_stderr).map_err(|error| said("its pipes", &error))?;
    let job = Job::new().map_err(|error| said("its job", &error))?;
    let mut child = command
        .env_clear()
        .envs(launch.variables)
        .env(MARKER, launch.marker)
        .current_dir(launch.cwd)
        .creation_flags(CREATE_NO_WINDOW | CREATE_SUSPENDED)
        .stdin(theirs.stdin)
        .stdout(theirs.stdout)
        .stderr(theirs.stderr.map_or_else(Stdio::inherit, Stdio::from))
        .spawn()
        .map_err(|error| SpawnFailure::of(&error, launch.program))?;
    match own(&child, job) {
        Ok(group) => Ok(Born { group, watch: ExitWatch(child), pipes: Ok(pipes) }),
        Err(error) => {
            // It has not run yet.
            let _ = child.start_kill();
            Err(said("its job", &error))
        }
    }
}

fn said(what: &str, error: &io::Error) -> SpawnFailure {
    SpawnFailure::Other { said: format!("{what}: {error}") }
}

/// Takes the sleeping process into the job and wakes it.
fn own(child: &Child, job: Job) -> io::Result<ProcessGroup> {
    let gone = || io::Error::other("the process is gone");
    let number = child.id().ok_or_else(gone)?;
    let process = handle(child).ok_or_else(gone)?.try_clone_to_owned()?;
    job.add(process.as_handle())?;
    job::resume(number)?;
    Ok(ProcessGroup::of(job, process, number))
}

fn handle(child: &Child) -> Option<BorrowedHandle<'_>> {
    child.raw_handle().map(|handle| job::borrow(child, handle))
}

/// A program gets its arguments by the standard library's quoting, a batch file by its shell and ours (CFG-06).
fn command(launch: &Launch<'_>) -> Result<Command, SpawnFailure> {
    let file = launch.program.to_string_lossy();
    if !search::is_batch(&file) {
        let mut command = Command::new(launch.program);
        command.args(launch.args);
        return Ok(command);
    }
    let unsafe_argument = |what: &str| SpawnFailure::UnsafeArgument { what: what.to_owned() };
    let args: Option<Vec<String>> =
        launch.args.iter().map(|argument| argument.to_str().map(str::to_owned)).collect();
    let args = args.ok_or_else(|| unsafe_argument("an argument is not Unicode"))?;
    let (_, words) = windows_command(&file, &args).map_err(|error| unsafe_argument(error.message()))?;
    let shell: PathBuf = program::system_directory(launch.variables).join("cmd.exe");
    let mut command = Command::new(shell);
    // Neither what a person has it run at each start, nor `!name!` as a variable.
    for word in ["/d", "/v:off"].into_iter().map(OsString::from).chain(words.into_iter().map(OsString::from))
    {
        command.raw_arg(word);
    }
    Ok(command)
}

struct Theirs {
    stdin: File,
    stdout: File,
    stderr: Option<File>,
}

fn pipes(inherit_stderr: bool) -> io::Result<(Pipes, Theirs)> {
    let (stdin, their_stdin) = pipe(true)?;
    let (stdout, their_stdout) = pipe(false)?;
    let (stderr, their_stderr) = if inherit_stderr { None } else { Some(pipe(false)?) }.unzip();
    let theirs = Theirs { stdin: their_stdin, stdout: their_stdout, stderr: their_stderr };
    Ok((Pipes { stdin, stdout, stderr }, theirs))
}

/// A pipe: our end, and a file for the other one. Nobody else gets in: there is one instance, taken at once.
fn pipe(we_write: bool) -> io::Result<(NamedPipeServer, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let random = RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed));
    let name = format!(r"\\.\pipe\mcp-switchboard-{}-{random:016x}", std::process::id());
    let ours = ServerOptions::new()
        .access_inbound(!we_write)
        .access_outbound(we_write)
        .first_pipe_instance(true)
        .max_instances(1)
        .in_buffer_size(PIPE)
        .out_buffer_size(PIPE)
        .create(&name)?;
    let theirs = OpenOptions::new().read(we_write).write(!we_write).open(&name)?;
    // The other end is there, so this is done at once.
    ours.connect().now_or_never().ok_or(io::ErrorKind::NotConnected)??;
    Ok((ours, theirs))
}

/// The input as what the writer's queue writes to.
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(in crate::transport::stdio) fn sending_end(input: Input) -> io::Result<NamedPipeServer> {
    Ok(input)
}
