use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::Inherit;
use super::super::environment::{MARKER, UNIX_SAFE, WINDOWS_SAFE, child_environment};
use super::{Output, run, shell};
use crate::environment::{Environment, Platform};

fn host(platform: Platform, vars: &[(&str, &str)]) -> Environment {
    let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Environment { vars, cwd: PathBuf::from("/"), home: None, platform }
}

fn own(vars: &[(&str, &str)]) -> Vec<(String, String)> {
    vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn names(variables: &BTreeMap<String, String>) -> Vec<&str> {
    variables.keys().map(String::as_str).collect()
}

#[test]
fn std_02_hands_on_exactly_the_safe_list_of_unix() {
    let expected = "HOME LANG LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER";
    let vars: Vec<(&str, &str)> = expected
        .split(' ')
        .chain([
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "OTEL_EXPORTER",
            "LD_PRELOAD",
            "NODE_OPTIONS",
            "LC",
            "home",
        ])
        .map(|name| (name, "value"))
        .collect();
    for platform in [Platform::Unix, Platform::MacOs] {
        let variables = child_environment(&host(platform, &vars), &Inherit::Safe, &[]);
        assert_eq!(names(&variables).join(" "), expected, "B6: nothing else of the host leaks");
    }
    assert_eq!(UNIX_SAFE.len(), 9);
}

#[test]
fn std_02_hands_on_exactly_the_safe_list_of_windows_in_any_case() {
    let listed = "APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA \
                  PROGRAMFILES SYSTEMDRIVE SYSTEMROOT TEMP TMP USERNAME USERPROFILE WINDIR";
    assert_eq!(WINDOWS_SAFE.join(" "), listed);
    let host = host(Platform::Windows, &[("Path", "C:\\a"), ("SystemRoot", "C:\\b"), ("HOME", "no")]);
    let variables = child_environment(&host, &Inherit::Safe, &[]);
    assert_eq!(names(&variables), ["Path", "SystemRoot"]);
    let variables = child_environment(&host, &Inherit::Safe, &own(&[("PATH", "D:\\mine")]));
    assert_eq!(variables.get("PATH").map(String::as_str), Some("D:\\mine"));
    assert_eq!(names(&variables), ["PATH", "SystemRoot"], "one path, not two");
}

#[test]
fn std_02_skips_shell_functions_however_they_would_be_inherited() {
    let host = host(Platform::Unix, &[("TERM", "() { :; }"), ("EXTRA", "() { :; }"), ("HOME", "/h")]);
    for inherit in [Inherit::Safe, Inherit::All, Inherit::Named(vec!["EXTRA".to_owned()])] {
        assert_eq!(names(&child_environment(&host, &inherit, &[])), ["HOME"], "{inherit:?}");
    }
}

#[test]
fn std_02_the_definition_wins_and_names_add_to_the_safe_list() {
    let host = host(Platform::Unix, &[("PATH", "/host"), ("TOKEN", "t"), ("OTHER", "o"), (MARKER, "outer")]);
    let named = Inherit::Named(vec!["TOKEN".to_owned(), "ABSENT".to_owned(), MARKER.to_owned()]);
    let variables = child_environment(&host, &named, &own(&[("PATH", "/own"), ("F", "() { x; }")]));
    assert_eq!(names(&variables), ["F", "PATH", "TOKEN"]);
    assert_eq!(variables["PATH"], "/own");
    let all = child_environment(&host, &Inherit::All, &[]);
    assert_eq!(names(&all), ["OTHER", "PATH", "TOKEN"], "the marker of an outer host is not handed on");
}

#[tokio::test]
async fn b6_a_real_server_sees_only_what_it_should() {
    let mut recipe = shell("/usr/bin/env; echo END");
    recipe.env = own(&[("OWN", "value with spaces \u{1f600}")]);
    let mut host = host(Platform::Unix, &[("SECRET_TOKEN", "s"), ("HOME", "/home/x")]);
    host.vars.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let spawned = super::super::spawn(&recipe, &host, Box::new(|_| {})).expect("it starts");
    let mut output = Output::of(spawned.stdout);
    let mut seen = Vec::new();
    loop {
        let line = output.line().await;
        if line == "END" {
            break;
        }
        seen.push(line);
    }
    // The shell itself adds these.
    seen.retain(|line| !line.starts_with("PWD=") && !line.starts_with("_=") && !line.starts_with("SHLVL="));
    seen.sort();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert_eq!(seen[0], "HOME=/home/x");
    assert!(seen[1].starts_with("MCP_SWITCHBOARD_PROCESS="), "{seen:?}");
    assert_eq!(seen[2], "OWN=value with spaces \u{1f600}");
    assert_eq!(seen[3], "PATH=/usr/bin:/bin");
}

#[tokio::test]
async fn b5_arguments_arrive_byte_for_byte() {
    let odd = ["a b", "\"q\"", "%PATH%", "&", "^", "", "\u{1f600}", "line\nbreak", "$HOME", "*", "-n"];
    let mut recipe = shell("for a in \"$@\"; do printf '%s\\0' \"$a\"; done");
    recipe.args.extend(odd.iter().map(|argument| (*argument).to_owned()));
    let mut spawned = run(&recipe);
    let mut seen = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut spawned.stdout, &mut seen).await.expect("readable");
    assert_eq!(String::from_utf8(seen).expect("text"), odd.map(|argument| format!("{argument}\0")).concat());
}

#[tokio::test]
async fn std_01_the_server_runs_in_its_directory_group_and_with_three_descriptors() {
    let scratch = super::Scratch::new("cwd");
    let mut recipe = shell("pwd; ls -v /proc/self/fd | tr '\\n' ' '; echo; cat /proc/self/stat; echo \"$0\"");
    recipe.default_cwd.clone_from(&scratch.0);
    recipe.cwd = Some(PathBuf::from("inner"));
    std::fs::create_dir(scratch.0.join("inner")).expect("a directory");
    let spawned = run(&recipe);
    let mut output = Output::of(spawned.stdout);
    assert_eq!(PathBuf::from(output.line().await), scratch.0.join("inner").canonicalize().expect("there"));
    let descriptors = output.line().await;
    let inherited = inheritable();
    let seen: Vec<u32> = descriptors
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .filter(|number| !inherited.contains(number))
        .collect();
    assert_eq!(seen, [0, 1, 2, 3], "F-025: `ls` itself holds one more than 0, 1, 2");
    let stat = output.line().await;
    let (_, group) = super::super::process_table::parse_stat(stat.as_bytes()).expect("a stat line");
    assert_eq!(group, spawned.process.pid(), "own process group");
}

/// Descriptors above 2 that whoever started the test run left inheritable.
fn inheritable() -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc/self/fd").expect("readable");
    numbers
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|number| *number > 2)
        .filter(|number| {
            let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
            let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
            flags.is_some_and(|flags| flags & 0o2_000_000 == 0)
        })
        .collect()
}
