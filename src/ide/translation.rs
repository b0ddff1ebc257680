//! Paths in calls of an editor on the Windows side, for a host in a distribution beside it (IDE-01).
//!
//! Only members that are places by their name are touched: `uri`, and whatever ends in `path`. Text that people or
//! programs wrote is left alone.

use serde_json::Value;

use super::folders::in_linux;

/// Where the drives of Windows are.
const MOUNTS: &str = "/mnt/";
const FILE: &str = "file://";

/// The arguments of a call (JSON text) with places that the editor knows; `None` where nothing changes.
pub fn arguments_for_windows(arguments: &str, distribution: &str) -> Option<String> {
    rewritten(arguments, |value| places(value, &|place| place_in_windows(place, distribution)))
}

/// A result (JSON text) with places that this side knows, also in texts that are JSON themselves; `None` where nothing
/// changes.
pub fn result_from_windows(result: &str, distribution: &str) -> Option<String> {
    let turn = |place: &str| place_in_linux(place, distribution);
    rewritten(result, |result| {
        let mut changed = result.get_mut("structuredContent").is_some_and(|content| places(content, &turn));
        let blocks = result.get_mut("content").and_then(Value::as_array_mut);
        for block in blocks.into_iter().flatten() {
            let Some(Value::String(text)) = block.get_mut("text") else { continue };
            if let Some(turned) = rewritten(text, |value| places(value, &turn)) {
                *text = turned;
                changed = true;
            }
        }
        changed
    })
}

/// The text after `change`, if it is JSON and something changed.
fn rewritten(text: &str, change: impl FnOnce(&mut Value) -> bool) -> Option<String> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    change(&mut value).then(|| value.to_string())
}

/// Turns every place in a value; whether there was one. The parser has bounded its depth.
fn places(value: &mut Value, turn: &dyn Fn(&str) -> Option<String>) -> bool {
    let mut changed = false;
    match value {
        Value::Array(items) => {
            for item in items {
                changed |= places(item, turn);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(place) if is_place(name) => {
                        if let Some(turned) = turn(place) {
                            *place = turned;
                            changed = true;
                        }
                    }
                    other => changed |= places(other, turn),
                }
            }
        }
        _ => {}
    }
    changed
}

fn is_place(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "uri" || name.ends_with("path")
}

/// `/mnt/c/x` becomes `C:\x`, any other absolute path one of the share; URIs of files stay such.
fn place_in_windows(place: &str, distribution: &str) -> Option<String> {
    if let Some(path) = place.strip_prefix(FILE) {
        return Some(match on_drive(path) {
            Some((drive, rest)) => format!("file:///{drive}:{rest}"),
            None if path.starts_with('/') => format!("file://wsl.localhost/{distribution}{path}"),
            None => return None,
        });
    }
    match on_drive(place) {
        Some((drive, rest)) => Some(format!("{}:{}", drive.to_ascii_uppercase(), rest.replace('/', "\\"))),
        None if place.starts_with('/') => {
            Some(format!("\\\\wsl.localhost\\{distribution}{}", place.replace('/', "\\")))
        }
        None => None,
    }
}

/// The drive of a path below the mounts, and the rest with its separator in front.
fn on_drive(path: &str) -> Option<(char, String)> {
    let rest = path.strip_prefix(MOUNTS)?;
    let (drive, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let mut letters = drive.chars();
    let letter = letters.next().filter(char::is_ascii_alphabetic)?;
    letters.next().is_none().then(|| (letter, format!("/{rest}")))
}

/// The other way; a path that this side does not see stays.
fn place_in_linux(place: &str, distribution: &str) -> Option<String> {
    let Some(path) = place.strip_prefix(FILE) else {
        let from_windows = place.contains('\\') || place.as_bytes().get(1) == Some(&b':');
        return in_linux(place, distribution).filter(|_| from_windows);
    };
    // A drive stands behind a slash and may have its colon encoded; a share is the host of the URI.
    let windows = match path.strip_prefix('/') {
        Some(rest) => {
            let drive = rest.chars().next().filter(char::is_ascii_alphabetic)?;
            let rest = &rest[1..];
            let rest = [":", "%3A", "%3a"].iter().find_map(|colon| rest.strip_prefix(colon))?;
            format!("{drive}:{rest}")
        }
        None => format!("//{}", path.replacen("wsl%24/", "wsl$/", 1)),
    };
    in_linux(&windows, distribution).map(|path| format!("{FILE}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ide_01_places_go_over_and_come_back() {
        for (here, there) in [
            ("/mnt/c/a b/x.ts", r"C:\a b\x.ts"),
            ("/home/me/x", r"\\wsl.localhost\Ubuntu\home\me\x"),
            ("/mnt/cd/x", r"\\wsl.localhost\Ubuntu\mnt\cd\x"),
            ("file:///mnt/c/a%20b/x.ts", "file:///c:/a%20b/x.ts"),
            ("file:///home/me/x", "file://wsl.localhost/Ubuntu/home/me/x"),
        ] {
            assert_eq!(place_in_windows(here, "Ubuntu").as_deref(), Some(there), "{here}");
            assert_eq!(place_in_linux(there, "Ubuntu").as_deref(), Some(here), "{there}");
        }
        for there in ["file:///c%3A/x", "file:///C:/x", r"c:\x", "C:/x"] {
            let here = place_in_linux(there, "Ubuntu").unwrap();
            assert_eq!(here.trim_start_matches("file://"), "/mnt/c/x", "{there}");
        }
        assert_eq!(place_in_linux("file://wsl%24/Ubuntu/x", "Ubuntu").as_deref(), Some("file:///x"));
        for stays in [
            "file://server/x",
            "file:///home/x",
            "/home/x",
            "untitled:Untitled-1",
            "relative",
            "",
            "é",
            "file:///é",
        ] {
            assert_eq!(place_in_linux(stays, "Ubuntu"), None, "{stays}");
        }
        for stays in ["https://x/y", "relative/x", "", "file://server/x", "untitled:1"] {
            assert_eq!(place_in_windows(stays, "Ubuntu"), None, "{stays}");
        }
    }

    #[test]
    fn ide_01_only_places_are_turned() {
        let arguments = r#"{"uri":"file:///mnt/c/x","code":"open('/mnt/c/x')","n":1.50}"#;
        let sent: Value = serde_json::from_str(&arguments_for_windows(arguments, "Ubuntu").unwrap()).unwrap();
        assert_eq!(
            (sent["uri"].as_str(), sent["code"].as_str()),
            (Some("file:///c:/x"), Some("open('/mnt/c/x')"))
        );
        let untouched = r#"{ "code": "file:///mnt/c/x" }"#;
        assert_eq!(arguments_for_windows(untouched, "Ubuntu"), None);
        let result = serde_json::json!({ "content": [
            { "type": "text", "text": r#"[{"uri":"file:///c:/x","diagnostics":[{"message":"file:///c:/x"}]}]"# },
            { "type": "text", "text": r"C:\x is open" },
        ] });
        let read: Value =
            serde_json::from_str(&result_from_windows(&result.to_string(), "Ubuntu").unwrap()).unwrap();
        let list: Value = serde_json::from_str(read["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(list[0]["uri"], "file:///mnt/c/x");
        assert_eq!(list[0]["diagnostics"][0]["message"], "file:///c:/x");
        assert_eq!(read["content"][1], result["content"][1]);
    }
}
