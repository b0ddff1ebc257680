//! The environment of a server's process (STD-02).
//!
//! Owns the list of variables that are safe to hand on and how the definition's own are laid over them.
//! Pure: the host's variables come in as a snapshot.

use std::collections::BTreeMap;

use super::Inherit;
use crate::environment::{Environment, Platform};

/// Names handed on to every server on Unix, beside `LC_*`.
pub(super) const UNIX_SAFE: [&str; 9] =
    ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// Names handed on to every server on Windows.
pub(super) const WINDOWS_SAFE: [&str; 16] = [
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// The variable that marks every descendant of a server, so that those which left its group are found.
pub(super) const MARKER: &str = "MCP_SWITCHBOARD_PROCESS";

/// Variables of a server's process: what may be inherited, under what the definition sets.
///
/// Inherited values that begin with `()` (shell functions) are skipped; a value of the definition always
/// passes. The marker is never inherited. On Windows names are compared without regard to case.
pub(in crate::transport) fn child_environment(
    host: &Environment,
    inherit: &Inherit,
    own: &[(String, String)],
) -> BTreeMap<String, String> {
    let fold = |name: &str| match host.platform {
        Platform::Windows => name.to_ascii_uppercase(),
        Platform::Unix | Platform::MacOs => name.to_owned(),
    };
    let named: Vec<String> = match inherit {
        Inherit::Named(names) => names.iter().map(|name| fold(name)).collect(),
        Inherit::Safe | Inherit::All => Vec::new(),
    };
    let mut variables: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for (name, value) in &host.vars {
        let key = fold(name);
        let wanted = matches!(inherit, Inherit::All) || is_safe(host.platform, &key) || named.contains(&key);
        if wanted && key != MARKER && !value.starts_with("()") {
            variables.insert(key, (name, value));
        }
    }
    for (name, value) in own {
        variables.insert(fold(name), (name, value));
    }
    variables.into_values().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A variable of a server's process; on Windows names are compared without regard to case.
pub(super) fn lookup<'a>(
    variables: &'a BTreeMap<String, String>,
    name: &str,
    platform: Platform,
) -> Option<&'a str> {
    let same = |key: &str| match platform {
        Platform::Windows => key.eq_ignore_ascii_case(name),
        Platform::Unix | Platform::MacOs => key == name,
    };
    variables.iter().find(|(key, _)| same(key)).map(|(_, value)| value.as_str())
}

fn is_safe(platform: Platform, name: &str) -> bool {
    match platform {
        Platform::Windows => WINDOWS_SAFE.contains(&name),
        Platform::Unix | Platform::MacOs => UNIX_SAFE.contains(&name) || name.starts_with("LC_"),
    }
}
