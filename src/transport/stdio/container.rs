//! Servers that run in a container: `docker run …`, `podman run …` (BEY-02, A9).
//!
//! The program that was started is only the engine's client: a container survives its end, and its descendants are
//! none of ours. So the container writes its id to a file, gets a label, and is stopped through the engine by a small
//! shell program that waits for the end of its own input. That input is held by this process alone: the same program
//! serves an orderly close and the death of the host.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use tokio::process::{Child, Command};

use super::session;
use crate::runtime::lock;

/// What every container of ours is labelled with; its value names the start.
const LABEL: &str = "mcp-switchboard";

/// Arguments: a directory to remove or nothing, the file with the id, the engine with its global options.
const PROGRAM: &str = r#"
trap '' HUP INT QUIT TERM PIPE TSTP TTIN TTOU
directory=$1 file=$2
shift 2
while read -r _; do :; done
read -r container 2>/dev/null < "$file" || :
[ -n "$container" ] && "$@" stop -t 1 "$container"
[ -n "$directory" ] && rm -rf "$directory"
"#;

/// Longest wait for the engine in an orderly close.
const PATIENCE: Duration = Duration::from_secs(4);

/// Options of an engine, before its command, whose value is the next argument.
const VALUED: [&str; 11] = [
    "-c",
    "--context",
    "-H",
    "--host",
    "--config",
    "-l",
    "--log-level",
    "--connection",
    "--url",
    "--root",
    "--runroot",
];

/// A command line that starts a container.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContainerRun<'a> {
    /// Global options of the engine.
    globals: &'a [String],
    /// Arguments up to and with `run`.
    head: usize,
    /// The definition's own `--cidfile`.
    own_file: Option<&'a str>,
}

/// Reads a command line; `None` where it starts no container.
pub(super) fn recognise<'a>(command: &str, args: &'a [String]) -> Option<ContainerRun<'a>> {
    let program = command.rsplit(['/', '\\']).next()?.trim_end_matches(".exe");
    if !matches!(program, "docker" | "podman") {
        return None;
    }
    let mut at = 0;
    while args.get(at)?.starts_with('-') {
        at += if VALUED.contains(&args[at].as_str()) { 2 } else { 1 };
    }
    let globals = args.get(..at)?;
    if args.get(at)? == "container" {
        at += 1;
    }
    if args.get(at)? != "run" {
        return None;
    }
    let rest = &args[at + 1..];
    // After the image's name an argument is the container's own; a path that stands there is read in vain.
    let own_file = rest.iter().zip(rest.iter().skip(1).map(Some).chain([None])).find_map(|(one, next)| {
        one.strip_prefix("--cidfile=").or_else(|| next.filter(|_| one == "--cidfile").map(String::as_str))
    });
    Some(ContainerRun { globals, head: at + 1, own_file })
}

/// With what the engine runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// Its client.
    pub(super) engine: &'a Path,
    /// Its environment.
    pub(super) variables: &'a BTreeMap<String, String>,
    /// Its working directory.
    pub(super) cwd: &'a Path,
}

/// A container to come, and the program that will stop it.
#[derive(Debug)]
pub(super) struct Container {
    watchdog: Mutex<Option<Child>>,
}

impl ContainerRun<'_> {
    /// Starts the program that stops the container; the arguments to start the engine's client with. `None` where
    /// the system refuses: then the client's end has to do.
    pub(super) fn prepare(
        &self,
        args: &[String],
        place: &Place<'_>,
        marker: &str,
    ) -> Option<(Container, Vec<OsString>)> {
        let Place { engine, variables, cwd } = *place;
        let (head, tail) = args.split_at(self.head);
        let own = self.own_file.map(|file| cwd.join(file));
        let directory = if own.is_none() { Some(private_directory(marker)?) } else { None };
        let mut added = vec![OsString::from("--label"), format!("{LABEL}={marker}").into()];
        let file = match (own, &directory) {
            (Some(own), _) => own,
            (None, Some(directory)) => {
                let file = directory.join("id");
                added.extend(["--cidfile".into(), file.clone().into_os_string()]);
                file
            }
            (None, None) => return None,
        };
        let mut program = Command::from(session::own_session(Path::new("/bin/sh")));
        program
            .args(["-c", PROGRAM, "mcp-switchboard-container"])
            .arg(directory.as_deref().unwrap_or(Path::new("")))
            .arg(file)
            .arg(engine)
            .args(self.globals)
            .env_clear()
            .envs(variables)
            .current_dir(cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if !variables.contains_key("PATH") {
            program.env("PATH", super::program::DEFAULT_PATH);
        }
        let watchdog = program.spawn().ok()?;
        let args = head.iter().map(OsString::from).chain(added).chain(tail.iter().map(OsString::from));
        Some((Container { watchdog: Mutex::new(Some(watchdog)) }, args.collect()))
    }
}

impl Container {
    /// Has the engine stop the container, if there is one; waits for it a few seconds.
    pub(super) async fn stop(&self) {
        let watchdog = lock(&self.watchdog).take();
        if let Some(mut watchdog) = watchdog {
            // `wait` closes its input first, which is what it waits for.
            let _ = tokio::time::timeout(PATIENCE, watchdog.wait()).await;
        }
    }
}

fn private_directory(marker: &str) -> Option<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let directory = std::env::temp_dir().join(format!("mcp-switchboard-container-{marker}"));
    // It must be new: whoever guessed the name has made it before.
    std::fs::DirBuilder::new().mode(0o700).create(&directory).ok()?;
    Some(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(command: &str, args: &[&str]) -> Option<(usize, usize, Option<String>)> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let run = recognise(command, &args)?;
        Some((run.globals.len(), run.head, run.own_file.map(str::to_owned)))
    }

    #[test]
    fn bey_02_a9_which_command_lines_start_a_container() {
        let own = |file: &str| Some(file.to_owned());
        for (command, args, expected) in [
            ("docker", &["run", "-i", "--rm", "image"][..], Some((0, 1, None))),
            ("/usr/bin/podman", &["run", "image"], Some((0, 1, None))),
            ("docker.exe", &["container", "run", "image"], Some((0, 2, None))),
            ("docker", &["--context", "far", "-H=tcp://x", "run", "image"], Some((3, 4, None))),
            ("docker", &["run", "--cidfile", "/a", "image"], Some((0, 1, own("/a")))),
            ("podman", &["run", "--cidfile=/a", "image"], Some((0, 1, own("/a")))),
            ("docker", &["exec", "-i", "it", "server"], None),
            ("docker", &["compose", "run", "it"], None),
            ("docker", &["--context"], None),
            ("docker", &[], None),
            ("docker-server", &["run"], None),
            ("node", &["run", "docker"], None),
        ] {
            assert_eq!(read(command, args), expected, "{command} {args:?}");
        }
    }
}
