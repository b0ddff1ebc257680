//! The environment of the person's login shell (BEY-03, option `shellEnv`).
//!
//! A program started from a desktop icon has a short `PATH`; what version managers and package managers add stands in
//! the shell's own files. The shell is run once, with a time limit, in a session of its own so that it finds no
//! terminal to ask. Between two random marks it prints its variables; whatever its files print is outside of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::session;
use crate::environment::{Environment, Platform};

/// Longest run of the shell.
const LIMIT: Duration = Duration::from_secs(8);
/// Most output that is read.
const MOST: u64 = 4 * 1024 * 1024;
/// Variables that are about the shell itself.
const ITS_OWN: [&str; 5] = ["_", "SHLVL", "PWD", "OLDPWD", "SHELL"];

/// The host's environment with what the login shell says on top.
///
/// # Errors
/// Why the shell gave none, for people.
pub async fn with_login_shell(host: &Environment) -> Result<Environment, String> {
    if host.platform == Platform::Windows {
        return Ok(host.clone());
    }
    let shell = host.get("SHELL").filter(|shell| Path::new(shell).is_absolute()).unwrap_or("/bin/sh");
    let variables = ask(Path::new(shell), host, LIMIT).await.map_err(|why| format!("{shell}: {why}"))?;
    let mut merged = host.clone();
    merged.vars.extend(variables);
    Ok(merged)
}

async fn ask(shell: &Path, host: &Environment, limit: Duration) -> Result<BTreeMap<String, String>, String> {
    let mark = mark();
    // `env -0` where it exists: values may hold line breaks.
    let script = format!("printf {mark}; /usr/bin/env -0 2>/dev/null || /usr/bin/env; printf {mark}");
    let name = shell.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let flags: &[&str] = if matches!(name, "csh" | "tcsh") { &["-ic"] } else { &["-i", "-l", "-c"] };
    let mut command = Command::from(session::own_session(shell));
    command
        .args(flags)
        .arg(script)
        .env_clear()
        .envs(&host.vars)
        .current_dir(host.home.as_deref().filter(|home| home.is_dir()).unwrap_or(Path::new("/")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    // Nobody may wait for it any more (the manager is closed): it ends all the same.
    let mut started = Started(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let mut output = Vec::new();
    let read = async {
        if let Some(stdout) = child.stdout.take() {
            let _ = stdout.take(MOST).read_to_end(&mut output).await;
        }
        let _ = child.wait().await;
    };
    let in_time = tokio::time::timeout(limit, read).await.is_ok();
    if in_time {
        started.0 = None;
    } else {
        drop(started);
        let _ = child.wait().await;
    }
    match parse(&output, &mark) {
        Some(variables) => Ok(variables),
        None if in_time => Err("it did not print its variables".to_owned()),
        None => Err(format!("it did not end within {} s", limit.as_secs())),
    }
}

/// A shell that was started and has not ended. Dropped, it is killed with all that it has started; the runtime reaps it.
struct Started(Option<Pid>);

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn mark() -> String {
    use std::hash::{BuildHasher, RandomState};
    let part = |salt: u8| RandomState::new().hash_one(salt);
    format!("mark{:016x}{:016x}", part(0), part(1))
}

/// Reads `NAME=value` entries between two marks, ended by zero bytes or, where there are none, by line breaks.
fn parse(output: &[u8], mark: &str) -> Option<BTreeMap<String, String>> {
    let start = memchr::memmem::find(output, mark.as_bytes())? + mark.len();
    let length = memchr::memmem::rfind(&output[start..], mark.as_bytes())?;
    let block = String::from_utf8_lossy(&output[start..start + length]);
    let mut variables: Vec<(String, String)> = Vec::new();
    if block.contains('\0') {
        let entries = block.split('\0').filter_map(|entry| entry.split_once('='));
        variables.extend(entries.map(|(name, value)| (name.to_owned(), value.to_owned())));
    } else {
        for line in block.lines() {
            match (line.split_once('='), variables.last_mut()) {
                (Some((name, value)), _) if is_name(name) => {
                    variables.push((name.to_owned(), value.to_owned()));
                }
                // A line that begins no variable goes on with the last one.
                (_, Some((_, last))) => {
                    last.push('\n');
                    last.push_str(line);
                }
                (_, None) => {}
            }
        }
    }
    variables.retain(|(name, _)| !name.is_empty() && !ITS_OWN.contains(&name.as_str()));
    (!variables.is_empty()).then(|| variables.into_iter().collect())
}

fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|one| one.is_ascii_alphanumeric() || one == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    #[test]
    fn bey_03_what_the_shell_prints_beside_its_variables_does_not_matter() {
        let parsed = |text: &str| parse(text.as_bytes(), "MARK").unwrap_or_default();
        let zero = parsed("hello\nPATH=no\nMARKPATH=/a:/b\0TEXT=one\ntwo=2\0_=x\0MARKbye");
        assert_eq!(zero.get("PATH").map(String::as_str), Some("/a:/b"));
        assert_eq!(zero.get("TEXT").map(String::as_str), Some("one\ntwo=2"));
        assert_eq!(zero.len(), 2);
        let lines = parsed("MARKPATH=/a\nTEXT=one\n two\nMARK");
        assert_eq!(lines.get("TEXT").map(String::as_str), Some("one\n two"));
        assert!(parsed("PATH=/a").is_empty());
        assert!(parsed("MARKPATH=/a").is_empty(), "it ended half way");
    }

    fn host(shell: &Path) -> Environment {
        let vars = [("SHELL", shell.to_str().unwrap()), ("PATH", "/usr/bin:/bin"), ("KEEP", "host")];
        Environment {
            vars: vars.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            cwd: PathBuf::from("/"),
            home: None,
            platform: Platform::current(),
        }
    }

    fn shell(name: &str, text: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("mcp-switchboard-shell-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    #[tokio::test]
    async fn bey_03_b2_the_path_of_the_shell_wins_over_that_of_the_desktop() {
        let noisy = shell(
            "noisy",
            "#!/bin/sh\necho welcome\nPATH=/from/rc:$PATH\nexport PATH\nexec /bin/sh -c \"$4\"\n",
        );
        let merged = with_login_shell(&host(&noisy)).await.unwrap();
        assert_eq!(merged.get("PATH"), Some("/from/rc:/usr/bin:/bin"));
        assert_eq!(merged.get("KEEP"), Some("host"));
        assert_eq!(merged.get("SHELL"), noisy.to_str());
    }

    #[tokio::test]
    async fn bey_03_a_shell_that_hangs_or_fails_is_ended_and_told() {
        let hangs = shell("hangs", "#!/bin/sh\nsleep 1000\n");
        let begin = std::time::Instant::now();
        let why = ask(&hangs, &host(&hangs), Duration::from_millis(300)).await.unwrap_err();
        assert!(why.contains("did not end"), "{why}");
        assert!(begin.elapsed() < Duration::from_secs(5));
        let fails = shell("fails", "#!/bin/sh\nexit 3\n");
        assert!(with_login_shell(&host(&fails)).await.unwrap_err().contains("did not print"));
    }

    #[tokio::test]
    async fn lif_06_a_shell_that_nobody_waits_for_any_more_is_ended() {
        let tells = shell("tells", "#!/bin/sh\necho $$ > \"$0.pid\"\nexec sleep 1000\n");
        let host = host(&tells);
        let asked = ask(&tells, &host, LIMIT);
        tokio::time::timeout(Duration::from_millis(500), asked).await.unwrap_err();
        let number = std::fs::read_to_string(tells.with_file_name("tells.pid")).unwrap();
        let pid = Pid::from_raw(number.trim().parse().unwrap()).unwrap();
        let begin = std::time::Instant::now();
        while rustix::process::test_kill_process(pid).is_ok() {
            assert!(begin.elapsed() < Duration::from_secs(5));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
