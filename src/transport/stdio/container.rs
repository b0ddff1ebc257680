//! Servers that run in a container: `docker run …`, `podman run …`, `nerdctl run …` (BEY-02, A9).
//!
//! The program that was started is only the engine's client: a container survives its end, and its descendants are
//! none of ours. So the container writes its id to a file, gets a label, and is stopped through the engine.
//!
//! Owns which command lines these are, and what is added to them. The engine is also known behind `sudo`, `env` and
//! other programs that run their arguments as they are; then the same words stop it. What runs elsewhere (another
//! user, another machine's file system, `wsl`) is left alone: the file with the id could not be written there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::engine::Container;

/// What every container of ours is labelled with; its value names the start.
const LABEL: &str = "mcp-switchboard";

/// Engines with the same `run --cidfile --label` and `stop -t`.
const ENGINES: [&str; 3] = ["docker", "podman", "nerdctl"];

/// Options of an engine, before its command, whose value is the next argument.
const VALUED: [&str; 26] = [
    "-c",
    "--context",
    "-H",
    "--host",
    "--config",
    "-l",
    "--log-level",
    "--tlscacert",
    "--tlscert",
    "--tlskey",
    "--connection",
    "--url",
    "--identity",
    "--module",
    "--root",
    "--runroot",
    "--runtime",
    "--ssh",
    "--storage-driver",
    "--storage-opt",
    "--tmpdir",
    "--cgroup-manager",
    "-n",
    "--namespace",
    "-a",
    "--address",
];

/// Programs that run their arguments as they are: the options (before them) that change nothing for us, and those
/// of them whose value is the next argument. Any other option makes the line one that is not understood.
const WRAPPERS: [(&str, &[&str], &[&str]); 7] = [
    ("env", &["-i", "--ignore-environment", "--"], &["-u", "--unset"]),
    ("sudo", &["-n", "--non-interactive", "-E", "--preserve-env", "-H", "--set-home", "-k", "--"], &[]),
    ("doas", &["-n", "--"], &[]),
    ("nice", &["--"], &["-n", "--adjustment"]),
    ("nohup", &["--"], &[]),
    ("stdbuf", &["--"], &["-i", "-o", "-e"]),
    ("cmd", &["/c", "/d", "/s"], &[]),
];

/// A command line that starts a container.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContainerRun<'a> {
    /// Arguments that, after the program, say how to reach the engine: what precedes it, and its global options.
    engine: &'a [String],
    /// Arguments up to and with `run`.
    head: usize,
    /// The definition's own `--cidfile`.
    own_file: Option<&'a str>,
}

/// Reads a command line; `None` where it starts no container, or not in a way that is understood.
pub(super) fn recognise<'a>(command: &str, args: &'a [String]) -> Option<ContainerRun<'a>> {
    let mut at = 0;
    let mut program = command;
    while !ENGINES.contains(&stem(program).as_str()) {
        at = behind_wrapper(&stem(program), args, at)?;
        program = args.get(at)?;
        at += 1;
    }
    while args.get(at)?.starts_with('-') {
        at += if VALUED.contains(&args[at].as_str()) { 2 } else { 1 };
    }
    let engine = args.get(..at)?;
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
    Some(ContainerRun { engine, head: at + 1, own_file })
}

/// The name of a program without its directory and without what Windows adds to it.
fn stem(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    [".exe", ".cmd"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name).to_owned()
}

/// Where the program stands that a wrapper runs.
fn behind_wrapper(wrapper: &str, args: &[String], mut at: usize) -> Option<usize> {
    let (_, plain, valued) = WRAPPERS.iter().find(|(name, ..)| *name == wrapper)?;
    loop {
        let word = args.get(at)?.as_str();
        let option = word.split_once('=').map_or(word, |(option, _)| option);
        at += match word {
            _ if plain.contains(&option) => 1,
            _ if valued.contains(&word) => 2,
            _ if valued.contains(&option) => 1,
            // `NAME=value` before the program.
            _ if matches!(wrapper, "env" | "sudo") && !word.starts_with('-') && word.contains('=') => 1,
            _ if word.starts_with(['-', '/']) && !word[1..].contains(['/', '\\']) => return None,
            _ => return Some(at),
        };
    }
}

/// With what the engine runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// Its client, or what precedes it.
    pub(super) program: &'a Path,
    /// Its environment.
    pub(super) variables: &'a BTreeMap<String, String>,
    /// Its working directory.
    pub(super) cwd: &'a Path,
}

/// How a container will be stopped.
#[derive(Debug)]
pub(super) struct Stop<'a> {
    /// A directory to remove afterwards.
    pub(super) directory: Option<PathBuf>,
    /// The file with its id.
    pub(super) file: PathBuf,
    /// The words between the program and `stop`.
    pub(super) engine: &'a [String],
}

impl ContainerRun<'_> {
    /// Makes ready to stop the container; the arguments to start the engine's client with. `None` where the system
    /// refuses: then the client's end has to do.
    pub(super) fn prepare(
        &self,
        args: &[String],
        place: &Place<'_>,
        marker: &str,
    ) -> Option<(Container, Vec<OsString>)> {
        let (head, tail) = args.split_at(self.head);
        let mut added = vec![OsString::from("--label"), format!("{LABEL}={marker}").into()];
        let (directory, file) = if let Some(own) = self.own_file {
            (None, place.cwd.join(own))
        } else {
            let directory = private_directory(marker)?;
            let file = directory.join("id");
            added.extend(["--cidfile".into(), file.clone().into_os_string()]);
            (Some(directory), file)
        };
        let container = Container::expect(Stop { directory, file, engine: self.engine }, place)?;
        let args = head.iter().map(OsString::from).chain(added).chain(tail.iter().map(OsString::from));
        Some((container, args.collect()))
    }
}

fn private_directory(marker: &str) -> Option<PathBuf> {
    let directory = std::env::temp_dir().join(format!("mcp-switchboard-container-{marker}"));
    #[cfg_attr(windows, expect(unused_mut))]
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    // It must be new: whoever guessed the name has made it before.
    builder.create(&directory).ok()?;
    Some(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(command: &str, args: &[&str]) -> Option<(usize, usize, Option<String>)> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let run = recognise(command, &args)?;
        Some((run.engine.len(), run.head, run.own_file.map(str::to_owned)))
    }

    #[test]
    fn bey_02_a9_which_command_lines_start_a_container() {
        let own = |file: &str| Some(file.to_owned());
        for (command, args, expected) in [
            ("docker", &["run", "-i", "--rm", "image"][..], Some((0, 1, None))),
            ("/usr/bin/podman", &["run", "image"], Some((0, 1, None))),
            ("nerdctl", &["-n", "k8s.io", "run", "image"], Some((2, 3, None))),
            ("docker.exe", &["container", "run", "image"], Some((0, 2, None))),
            (r"C:\Program Files\Docker\DOCKER.EXE", &["run", "image"], Some((0, 1, None))),
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

    #[test]
    fn bey_02_a9_an_engine_behind_programs_that_run_their_arguments() {
        for (command, args, expected) in [
            ("sudo", &["docker", "run", "image"][..], Some((1, 2, None))),
            ("/usr/bin/sudo", &["-n", "-E", "/usr/bin/docker", "-D", "run", "image"], Some((4, 5, None))),
            ("sudo", &["--preserve-env=HOME", "A=b", "docker", "run", "image"], Some((3, 4, None))),
            ("env", &["-u", "X", "A=b", "podman", "run", "image"], Some((4, 5, None))),
            ("env", &["--unset=X", "nice", "-n", "5", "docker", "run", "image"], Some((5, 6, None))),
            ("cmd", &["/c", "docker", "run", "image"], Some((2, 3, None))),
            ("nohup", &["docker", "run", "image"], Some((1, 2, None))),
            // The container's id could not be written there, or who knows what this means.
            ("sudo", &["-u", "other", "docker", "run", "image"], None),
            ("env", &["-C", "/elsewhere", "docker", "run", "image"], None),
            ("wsl", &["docker", "run", "image"], None),
            ("ssh", &["host", "docker", "run", "image"], None),
            ("sh", &["-c", "docker run image"], None),
            ("sudo", &["-n"], None),
            ("sudo", &["server", "docker", "run"], None),
        ] {
            assert_eq!(read(command, args), expected, "{command} {args:?}");
        }
    }
}
