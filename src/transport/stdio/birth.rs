//! The call that makes a server's process on Unix, and its pipes.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::environment::MARKER;
use super::exit::ExitWatch;
use super::process_group::ProcessGroup;
use super::spawn::Launch;
use super::spawn_failure::SpawnFailure;

/// The writing end of a server's standard input.
pub(crate) type Input = ChildStdin;
/// The reading end of a server's standard output.
pub(crate) type Output = ChildStdout;

/// A process that was just made.
pub(super) struct Born {
    pub(super) group: ProcessGroup,
    pub(super) watch: ExitWatch,
    pub(super) pipes: io::Result<Pipes>,
}

/// Our ends.
pub(super) struct Pipes {
    pub(super) stdin: Input,
    pub(super) stdout: Output,
    pub(super) stderr: Option<ChildStderr>,
}

/// Makes the process, as the leader of its own group.
pub(super) fn bear(launch: &Launch<'_>) -> Result<Born, SpawnFailure> {
    let stderr = if launch.inherit_stderr { Stdio::inherit() } else { Stdio::piped() };
    let mut child = Command::new(launch.program)
        .arg0(launch.name)
        .args(launch.args)
        .env_clear()
        .envs(launch.variables)
        .env(MARKER, launch.marker)
        .current_dir(launch.cwd)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .map_err(|error| SpawnFailure::of(&error, launch.program))?;
    let Some(leader) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Err(SpawnFailure::Other { said: "its process number is out of range".to_owned() });
    };
    let pipes = take_pipes(&mut child);
    Ok(Born { group: ProcessGroup::of(leader), watch: ExitWatch::new(leader), pipes })
}

fn take_pipes(child: &mut Child) -> io::Result<Pipes> {
    let missing = io::ErrorKind::BrokenPipe;
    Ok(Pipes {
        stdin: ChildStdin::from_std(child.stdin.take().ok_or(missing)?)?,
        stdout: ChildStdout::from_std(child.stdout.take().ok_or(missing)?)?,
        stderr: child.stderr.take().map(ChildStderr::from_std).transpose()?,
    })
}

/// The input as what the writer's queue writes to.
pub(super) fn sending_end(input: Input) -> io::Result<pipe::Sender> {
    input.into_owned_fd().and_then(pipe::Sender::from_owned_fd)
}
