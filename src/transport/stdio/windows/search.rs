//! How Windows finds a program by its name, as a pure function (B1, B-012).
//!
//! Like its shell, along `PATH` with the endings of `PATHEXT`; unlike it, never in the working directory, which may
//! be a stranger's repository.

/// Endings of what can be started: the rest of `PATHEXT` needs a host program of its own.
const RUNNABLE: [&str; 4] = [".com", ".exe", ".bat", ".cmd"];

/// What a command may lead to, the first first; `cwd` serves a command that names a directory.
///
/// A name without an ending of a program gets each of them in the order of `PATHEXT`: what stands beside `npx.cmd`
/// as `npx` is a script for other systems.
pub(super) fn candidates(command: &str, path: &str, extensions: Option<&str>, cwd: &str) -> Vec<String> {
    let names = names(command, extensions);
    if command.contains(['/', '\\', ':']) {
        return names.iter().map(|name| join(cwd, name)).collect();
    }
    let directories = split(path);
    let places = directories.iter().filter(|directory| is_absolute(directory));
    places.flat_map(|directory| names.iter().map(|name| join(directory, name))).collect()
}

/// Whether a file is a batch file, which its shell runs. Windows ignores dots and blanks at the end of a name.
pub(super) fn is_batch(file: &str) -> bool {
    let name = file.trim_end_matches(['.', ' ']).to_ascii_lowercase();
    [".bat", ".cmd"].iter().any(|ending| name.ends_with(ending))
}

fn names(command: &str, extensions: Option<&str>) -> Vec<String> {
    let lower = command.to_ascii_lowercase();
    let mut endings: Vec<String> = extensions
        .unwrap_or_default()
        .split(';')
        .map(|ending| ending.trim().to_ascii_lowercase())
        .filter(|ending| RUNNABLE.contains(&ending.as_str()))
        .collect();
    if endings.is_empty() {
        endings = RUNNABLE.map(str::to_owned).into();
    }
    let whole = RUNNABLE.iter().any(|ending| lower.ends_with(ending));
    let longer = endings.iter().map(|ending| format!("{command}{ending}"));
    whole.then(|| command.to_owned()).into_iter().chain(longer).collect()
}

/// The elements of a search path; quotes hold what a semicolon would split.
fn split(path: &str) -> Vec<String> {
    let mut elements = vec![String::new()];
    let mut quoted = false;
    for character in path.chars() {
        match (character, elements.last_mut()) {
            ('"', _) => quoted = !quoted,
            (';', _) if !quoted => elements.push(String::new()),
            (_, Some(element)) => element.push(character),
            (_, None) => {}
        }
    }
    elements
}

/// `C:\…`, `C:/…` or `\\server\…`; neither `C:here` nor `\here`, which depend on where one is.
fn is_absolute(path: &str) -> bool {
    let separator = |byte: &u8| matches!(byte, b'/' | b'\\');
    match path.as_bytes() {
        [drive, b':', third, ..] => drive.is_ascii_alphabetic() && separator(third),
        [first, second, ..] => separator(first) && separator(second),
        _ => false,
    }
}

fn join(directory: &str, name: &str) -> String {
    if is_absolute(name) || name.contains(':') {
        return name.to_owned();
    }
    let directory = directory.trim_end_matches(['/', '\\']);
    if name.starts_with(['/', '\\']) {
        let drive = directory.get(..2).filter(|drive| drive.ends_with(':')).unwrap_or_default();
        return format!("{drive}{name}");
    }
    format!("{directory}\\{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHEXT: Option<&str> = Some(".COM;.EXE;.BAT;.CMD;.VBS;.JS");

    #[test]
    fn b1_a_name_is_searched_with_the_endings_of_pathext() {
        let found = candidates("npx", r"C:\Program Files\nodejs\;D:\bin", PATHEXT, r"C:\project");
        let expected: Vec<String> = [r"C:\Program Files\nodejs", r"D:\bin"]
            .iter()
            .flat_map(|place| [".com", ".exe", ".bat", ".cmd"].map(|ending| format!(r"{place}\npx{ending}")))
            .collect();
        assert_eq!(found, expected);
        let cmd_first = candidates("npx", r"D:\bin", Some(".CMD;.exe;.py"), "C:\\");
        assert_eq!(cmd_first, [r"D:\bin\npx.cmd", r"D:\bin\npx.exe"]);
        for nothing in [None, Some(""), Some(".py;.js")] {
            assert_eq!(candidates("a", r"D:\b", nothing, "C:\\").len(), 4, "{nothing:?}");
        }
    }

    #[test]
    fn b1_an_ending_of_a_program_is_taken_as_it_stands_first() {
        let first = |command: &str| candidates(command, r"D:\bin", PATHEXT, "C:\\").first().cloned();
        assert_eq!(first("npx.cmd").as_deref(), Some(r"D:\bin\npx.cmd"));
        assert_eq!(first("Node.EXE").as_deref(), Some(r"D:\bin\Node.EXE"));
        assert_eq!(first("python3.11").as_deref(), Some(r"D:\bin\python3.11.com"));
        let scripts = candidates("npx", r"D:\bin", PATHEXT, "C:\\");
        assert!(!scripts.contains(&r"D:\bin\npx".to_owned()), "the script for other systems");
    }

    #[test]
    fn b_012_neither_the_working_directory_nor_relative_places_are_searched() {
        let path = r#";.;bin;C:here;\here;..\x;"E:\with;semicolon";\\share\bin;F:/slash"#;
        let found = candidates("a.exe", path, Some(".EXE"), r"C:\project");
        let files = [r"E:\with;semicolon\a.exe", r"\\share\bin\a.exe", r"F:/slash\a.exe"];
        let expected: Vec<String> =
            files.iter().flat_map(|file| [(*file).to_owned(), format!("{file}.exe")]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn b1_a_command_with_a_directory_is_relative_to_the_servers_own() {
        let first = |command: &str| candidates(command, r"D:\bin", PATHEXT, r"C:\project").first().cloned();
        for (command, expected) in [
            (r".\server.exe", r"C:\project\.\server.exe"),
            ("bin/server.exe", r"C:\project\bin/server.exe"),
            (r"D:\x\server.exe", r"D:\x\server.exe"),
            (r"\\share\server.exe", r"\\share\server.exe"),
            (r"\x\server.exe", r"C:\x\server.exe"),
        ] {
            assert_eq!(first(command).as_deref(), Some(expected), "{command}");
        }
    }

    #[test]
    fn b1_batch_files_are_known_however_they_are_written() {
        for (file, expected) in [
            (r"C:\n\npx.cmd", true),
            ("X.BAT", true),
            ("x.cmd. .", true),
            ("x.exe", false),
            ("cmd", false),
            ("x.cmd.exe", false),
        ] {
            assert_eq!(is_batch(file), expected, "{file}");
        }
    }
}
