//! The death-link: servers do not outlive their host, however it dies (STD-05).
//!
//! Owns one small `/bin/sh` program per host process. It reads `+group` and `-group` lines from a pipe whose
//! other end only this process holds; the kernel closes that end when the process dies, whatever the reason,
//! and the program then kills the groups that are left. On Linux it also looks for processes that carry this
//! host's marker, which finds descendants that left their group.
//!
//! It lives as long as there are servers. If it dies before, it is started anew and told all groups. It ignores
//! hang-up, interrupt and termination, has its own process group, and where the `setsid` program exists its own
//! session, because a host cannot give it one without `unsafe`.

use std::collections::BTreeSet;
use std::io::{PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};

use super::environment::MARKER;
use super::{exit, session, strays};

/// Only built-in commands until the last step: the program needs no search path to kill.
///
/// The built-in `kill` of some shells knows no `--`, hence the bare negative number.
const PROGRAM: &str = r#"
trap '' HUP INT QUIT TERM PIPE TSTP TTIN TTOU
groups=' '
while read -r line; do
  number=${line#[+-]}
  case $line in
    +*) groups="$groups$number " ;;
    -*) case $groups in
          *" $number "*) groups="${groups%%" $number "*} ${groups#*" $number "}" ;;
        esac ;;
    .) exit 0 ;;
  esac
done
for group in $groups; do kill -9 "-$group"; done
[ -r /proc/self/environ ] || exit 0
for entry in $(grep -ls "$1" /proc/[0-9]*/environ); do
  number=${entry#/proc/}
  kill -9 "${number%/environ}"
done
"#;

const SHELL: &str = "/bin/sh";

/// A program that lived shorter than this is not started again at once.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// After so many short lives in a row it counts as not available.
const SHORT_LIVES: u32 = 3;

/// First and longest pause before it is started again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

const WATCHER_STACK: usize = 128 * 1024;

static LINK: LazyLock<Arc<DeathLink>> = LazyLock::new(|| Arc::new(DeathLink::new(PathBuf::from(SHELL))));

/// Whether the last attempt to start the death-link worked; `true` before the first.
///
/// Without it servers still see the end of their input when the host dies, yet one that ignores that stays.
pub fn death_link_available() -> bool {
    LINK.available()
}

/// Starts the death-link for a group that is about to be born, and keeps it until the value is dropped.
pub(super) fn expect_birth() -> Expectation {
    LINK.expect_birth()
}

/// From now on the group dies with this process.
pub(super) fn remember(group: u32) {
    LINK.remember(group);
}

/// The group was reaped; its number may soon belong to a stranger.
pub(super) fn forget(group: u32) {
    LINK.forget(group);
}

/// Number of the running program.
#[cfg(test)]
pub(super) fn program() -> Option<u32> {
    LINK.program()
}

/// The program, its pipe and the groups it has been told.
pub(super) struct DeathLink {
    shell: PathBuf,
    state: Mutex<State>,
}

/// Keeps the death-link running while a group is being born.
pub(super) struct Expectation(Arc<DeathLink>);

impl Drop for Expectation {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.expected = state.expected.saturating_sub(1);
        state.stop_if_idle();
    }
}

#[derive(Default)]
struct State {
    groups: BTreeSet<u32>,
    /// Starts under way: their groups are not born yet.
    expected: usize,
    running: Option<Running>,
    /// Ordinal of the running program; a watcher of an older one has nothing to say.
    generation: u64,
    /// Programs in a row that died young.
    short_lives: u32,
    failed: bool,
}

struct Running {
    pipe: PipeWriter,
    program: Pid,
    since: Instant,
}

impl DeathLink {
    pub(super) fn new(shell: PathBuf) -> Self {
        Self { shell, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn available(&self) -> bool {
        let state = self.state();
        let settled = state.running.as_ref().is_some_and(|running| running.since.elapsed() >= SHORT_LIFE);
        !state.failed && (settled || state.short_lives < SHORT_LIVES)
    }

    /// Number of the running program.
    #[cfg(test)]
    pub(super) fn program(&self) -> Option<u32> {
        let state = self.state();
        state.running.as_ref().map(|running| running.program.as_raw_nonzero().get().unsigned_abs())
    }

    /// Closes the pipe as the death of this process would.
    #[cfg(test)]
    pub(super) fn break_off(&self) {
        let mut state = self.state();
        state.generation += 1;
        state.running = None;
    }

    pub(super) fn expect_birth(self: &Arc<Self>) -> Expectation {
        let mut state = self.state();
        state.expected += 1;
        if state.running.is_none() {
            self.start(&mut state);
        }
        Expectation(Arc::clone(self))
    }

    pub(super) fn remember(self: &Arc<Self>, group: u32) {
        let mut state = self.state();
        state.groups.insert(group);
        if state.running.is_some() {
            state.tell('+', group);
        } else {
            self.start(&mut state);
        }
    }

    pub(super) fn forget(&self, group: u32) {
        let mut state = self.state();
        if state.groups.remove(&group) {
            state.tell('-', group);
            state.stop_if_idle();
        }
    }

    /// Starts the program and tells it all groups.
    fn start(self: &Arc<Self>, state: &mut State) {
        match launch(&self.shell) {
            Ok((child, running)) => {
                state.failed = false;
                state.generation += 1;
                state.running = Some(running);
                for group in state.groups.clone() {
                    state.tell('+', group);
                }
                self.watch(child, state);
            }
            Err(_) => state.failed = true,
        }
    }

    fn watch(self: &Arc<Self>, child: Child, state: &mut State) {
        let link = Arc::clone(self);
        let generation = state.generation;
        let watcher = std::thread::Builder::new()
            .name("mcp-death-link".to_owned())
            .stack_size(WATCHER_STACK)
            .spawn(move || link.attend(child, generation));
        // Unwatched it still does its work; only its own death would go unnoticed until the next group.
        state.failed |= watcher.is_err();
    }

    /// Waits for the program's end; starts another one if it was not wanted.
    fn attend(self: &Arc<Self>, mut child: Child, generation: u64) {
        let began = Instant::now();
        if let Some(program) = pid_of(&child) {
            exit::block_until_ended(program);
        }
        let pause = {
            let mut state = self.state();
            // Reaped under the lock: nobody can signal a number that is no longer the program's.
            let _ = child.wait();
            if state.generation != generation {
                return;
            }
            state.running = None;
            if state.is_idle() {
                return;
            }
            state.pause_after(began.elapsed())
        };
        std::thread::sleep(pause);
        let mut state = self.state();
        if state.generation == generation && !state.is_idle() {
            self.start(&mut state);
        }
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.groups.is_empty() && self.expected == 0
    }

    /// Writes one line; never blocks. A program that does not read is ended, its watcher starts another.
    fn tell(&mut self, sign: char, group: u32) {
        let Some(running) = &mut self.running else { return };
        if running.pipe.write_all(format!("{sign}{group}\n").as_bytes()).is_err() {
            let _ = kill_process(running.program, Signal::KILL);
        }
    }

    /// A full stop tells the program apart from a host that died.
    fn stop_if_idle(&mut self) {
        if !self.is_idle() {
            return;
        }
        if let Some(mut running) = self.running.take() {
            let _ = running.pipe.write_all(b".\n");
            self.generation += 1;
        }
    }

    fn pause_after(&mut self, life: Duration) -> Duration {
        if life >= SHORT_LIFE {
            self.short_lives = 0;
            return Duration::ZERO;
        }
        let pause = PAUSES.0.saturating_mul(1 << self.short_lives.min(10)).min(PAUSES.1);
        self.short_lives = self.short_lives.saturating_add(1);
        pause
    }
}

fn launch(shell: &Path) -> std::io::Result<(Child, Running)> {
    // `setsid` itself would start, and only then miss the shell.
    if !shell.is_file() {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    let (reader, pipe) = std::io::pipe()?;
    fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
    let child = session::own_session(shell)
        .args(["-c", PROGRAM, "mcp-switchboard-death-link"])
        .arg(format!("{MARKER}={}", strays::host_marker()))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::from(reader))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let program = pid_of(&child).ok_or(std::io::ErrorKind::Other)?;
    Ok((child, Running { pipe, program, since: Instant::now() }))
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}
