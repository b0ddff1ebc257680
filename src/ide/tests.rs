use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::folders::{Folders, in_linux};
use super::lock::Lock;
use super::{Search, choose};
use crate::environment::{Environment, Platform};

#[test]
fn ide_01_paths_of_windows_seen_from_a_distribution_beside_it() {
    for (path, expected) in [
        (r"C:\Users\me\project", Some("/mnt/c/Users/me/project")),
        ("d:/x/", Some("/mnt/d/x")),
        (r"C:\", Some("/mnt/c")),
        (r"\\wsl$\Ubuntu\home\me", Some("/home/me")),
        (r"\\wsl.localhost\ubuntu\home\me", Some("/home/me")),
        (r"\\WSL.LOCALHOST\Ubuntu", Some("/")),
        (r"\\wsl$\Debian\home\me", None),
        (r"\\server\share", None),
        ("/home/me", Some("/home/me")),
        ("relative", None),
        ("", None),
    ] {
        assert_eq!(in_linux(path, "Ubuntu").as_deref(), expected, "{path}");
    }
}

#[test]
fn ide_01_lock_files() {
    let lock = Lock::read(
        5,
        r#"{"pid":1,"workspaceFolders":["/a"],"ideName":"E","transport":"ws","runningInWindows":true,"authToken":"t","x":1}"#,
    )
    .unwrap();
    assert_eq!(
        (lock.url().as_str(), lock.name.as_str(), lock.token.as_deref()),
        ("ws://127.0.0.1:5", "E", Some("t"))
    );
    assert!(lock.in_windows);
    let plain = Lock::read(5, r#"{"workspaceFolders":[],"ideName":" ","authToken":""}"#).unwrap();
    assert_eq!(
        (plain.url().as_str(), plain.name.as_str(), plain.token),
        ("http://127.0.0.1:5/sse", "IDE", None)
    );
    for text in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"workspaceFolders":"/a"}"#,
        r#"{"workspaceFolders":["secret"],"transport":"x"}"#,
    ] {
        let why = Lock::read(5, text).unwrap_err();
        assert!(!why.contains("secret"), "{why}");
    }
}

fn search(cwd: &str, vars: &[(&str, &str)]) -> Search {
    let vars: BTreeMap<String, String> =
        vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let environment = Environment { vars, cwd: PathBuf::from(cwd), home: None, platform: Platform::Unix };
    Search { cwd: PathBuf::from(cwd), home: None, config_dir: ".claude".to_owned(), environment }
}

fn lock(port: u16, folders: &[&str], windows: bool) -> Lock {
    let text = serde_json::json!({ "workspaceFolders": folders, "runningInWindows": windows });
    Lock::read(port, &text.to_string()).unwrap()
}

fn ports(search: &Search, locks: &[Lock]) -> (Vec<String>, usize) {
    let mut findings = Vec::new();
    let written = |at: usize| SystemTime::UNIX_EPOCH + Duration::from_secs(at as u64);
    let locks: Vec<_> = locks.iter().enumerate().map(|(at, lock)| (lock.clone(), written(at))).collect();
    let chosen = choose(&search.environment, &Folders::new(search), &locks, &mut findings);
    (chosen.into_iter().map(|candidate| candidate.url).collect(), findings.len())
}

#[cfg(unix)]
#[test]
fn ide_01_the_terminals_own_editor_first_then_the_deepest_folder_then_the_youngest_file() {
    let locks = [
        lock(1, &["/nowhere/a", "/elsewhere"], false),
        lock(2, &["/nowhere/a/b"], false),
        lock(3, &["/nowhere/a"], false),
        lock(4, &["/nowhere/ab", "/nowhere/a/b/c/d", "nowhere"], false),
        lock(5, &["/other"], false),
    ];
    let of = |port: u16| format!("http://127.0.0.1:{port}/sse");
    let here = "/nowhere/a/b/c";
    assert_eq!(ports(&search(here, &[]), &locks), (vec![of(2), of(3), of(1)], 0));
    let with = |name: &str, value: &str| ports(&search(here, &[(name, value)]), &locks);
    assert_eq!(with("CLAUDE_CODE_SSE_PORT", "5").0, [of(5), of(2), of(3), of(1)]);
    assert_eq!(with("CLAUDE_CODE_SSE_PORT", "3").0, [of(3), of(2), of(1)]);
    assert_eq!(with("CLAUDE_CODE_SSE_PORT", "99").0[0], of(99));
    for wrong in ["0", "x", "70000"] {
        assert_eq!(with("CLAUDE_CODE_SSE_PORT", wrong), (vec![of(2), of(3), of(1)], 1), "{wrong}");
    }
    let url = "ws://127.0.0.1:2/x";
    assert_eq!(with("CLAUDE_CODE_IDE_MCP_URL", url).0, [url.to_owned(), of(3), of(1)]);
    assert_eq!(with("CLAUDE_CODE_IDE_MCP_URL", "file:///x").1, 1);
    let windows = [lock(7, &[r"\\wsl$\Ubuntu\nowhere"], true), lock(8, &[r"C:\x"], true)];
    assert_eq!(ports(&search(here, &[("WSL_DISTRO_NAME", "Ubuntu")]), &windows).0, [of(7)]);
    assert_eq!(ports(&search(here, &[]), &windows).0, Vec::<String>::new());
}
