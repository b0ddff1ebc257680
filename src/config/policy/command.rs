//! Commands in policy entries. Allow compares the whole array; deny looks through wrappers. (POL-04)

use std::collections::BTreeSet;

use super::Lookup;
use super::shell::{self, Dialect, is_assignment};

/// Deepest nesting of wrappers that is looked through.
const MAX_DEPTH: usize = 8;
/// Most readings of one command that are compared.
const MAX_READINGS: usize = 256;

/// What a command may come to.
#[derive(Default)]
struct Readings {
    commands: BTreeSet<Vec<String>>,
    /// There is more than can be looked at: what is denied may be behind it.
    beyond: bool,
}

/// A command with all its arguments.
#[derive(Clone, Debug)]
pub struct CommandRule {
    words: Vec<String>,
}

impl CommandRule {
    /// A rule for an array of words; `None` for an empty one.
    pub fn new(words: Vec<String>) -> Option<Self> {
        words.first().is_some_and(|command| !command.trim().is_empty()).then_some(Self { words })
    }

    /// Whether the command is exactly this one, for allow.
    pub fn is(&self, argv: &[String]) -> bool {
        self.words == argv
    }

    /// Whether the command is, starts or leads to this one, for deny; or wraps more than can be looked through.
    pub fn reaches(&self, argv: &[String], lookup: Lookup<'_>) -> bool {
        let mut readings = Readings::default();
        read(argv, 0, &mut readings);
        if readings.beyond {
            return true;
        }
        let Some((wanted, arguments)) = self.words.split_first() else { return false };
        let wanted = spellings(wanted, lookup);
        readings.commands.iter().any(|reading| {
            reading.split_first().is_some_and(|(command, given)| {
                given == arguments && !spellings(command, lookup).is_disjoint(&wanted)
            })
        })
    }
}

/// Every way to spell a command: as written, its base name, where it leads to.
fn spellings(command: &str, lookup: Lookup<'_>) -> BTreeSet<String> {
    let mut all = BTreeSet::from([command.to_owned(), base_name(command)]);
    if let Some(path) = lookup(command) {
        all.insert(base_name(&path));
        all.insert(path);
    }
    all
}

/// Name of a program: no directory, no extension of Windows, in lower case, without the dots and spaces at its
/// end that Windows ignores.
fn base_name(command: &str) -> String {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command);
    let name = name.trim_end_matches(['.', ' ']).to_lowercase();
    match name.rsplit_once('.') {
        Some((stem, "exe" | "cmd" | "bat" | "com" | "ps1")) if !stem.is_empty() => stem.to_owned(),
        _ => name,
    }
}

/// Adds the command and everything it wraps.
fn read(words: &[String], depth: usize, readings: &mut Readings) {
    readings.beyond |= depth > MAX_DEPTH || readings.commands.len() >= MAX_READINGS;
    if readings.beyond || !readings.commands.insert(words.to_vec()) {
        return;
    }
    let Some((command, args)) = words.split_first() else { return };
    match base_name(command).as_str() {
        "env" => read_env(args, depth, readings),
        "sh" | "bash" | "zsh" | "dash" | "ksh" | "ash" | "fish" | "mksh" => read_shell(args, depth, readings),
        "cmd" => read_cmd(args, depth, readings),
        "powershell" | "pwsh" => read_powershell(args, depth, readings),
        "eval" => read_text(&args.join(" "), depth, readings),
        "busybox" | "toybox" | "nohup" | "setsid" | "exec" | "command" | "builtin" | "time" | "sudo"
        | "doas" | "nice" | "ionice" | "stdbuf" | "timeout" | "xargs" | "chronic" | "unbuffer" | "start"
        | "call" => {
            read_later_words(args, depth, readings);
        }
        _ => {}
    }
}

/// Which of these words is the command depends on the wrapper's own options, so every one is tried.
fn read_later_words(args: &[String], depth: usize, readings: &mut Readings) {
    for at in 0..args.len() {
        read(&args[at..], depth + 1, readings);
    }
}

fn read_env(args: &[String], depth: usize, readings: &mut Readings) {
    for (at, word) in args.iter().enumerate() {
        let split = word.strip_prefix("-S").or_else(|| word.strip_prefix("--split-string="));
        match split {
            Some("") => {}
            Some(line) => {
                let mut words = shell::commands(line, Dialect::Posix).concat();
                words.extend(args[at + 1..].iter().cloned());
                read_assigned(&words, depth, readings);
            }
            None if word == "--split-string" => {}
            None => {}
        }
        if matches!(word.as_str(), "-S" | "--split-string" | "-vS" | "-iS") && at + 1 < args.len() {
            let mut words = shell::commands(&args[at + 1], Dialect::Posix).concat();
            words.extend(args[at + 2..].iter().cloned());
            read_assigned(&words, depth, readings);
        }
        if !word.starts_with('-') && !is_assignment(word) {
            read(&args[at..], depth + 1, readings);
        }
    }
}

/// A command behind assignments `NAME=value`.
fn read_assigned(words: &[String], depth: usize, readings: &mut Readings) {
    let start = words.iter().take_while(|word| is_assignment(word)).count();
    if start < words.len() {
        read(&words[start..], depth + 1, readings);
    }
}

/// `-c`, also among other letters as in `-lc`, and the text behind it.
fn read_shell(args: &[String], depth: usize, readings: &mut Readings) {
    let is_command_flag = |word: &String| {
        word == "--command" || (word.starts_with('-') && !word.starts_with("--") && word.contains('c'))
    };
    if let Some(at) = args.iter().position(is_command_flag) {
        for text in args.iter().skip(at + 1) {
            read_text(text, depth, readings);
        }
    }
}

/// A text that a shell runs.
fn read_text(text: &str, depth: usize, readings: &mut Readings) {
    for words in shell::commands(text, Dialect::Posix) {
        read(&words, depth + 1, readings);
    }
}

/// The words behind the switch of `cmd` or PowerShell, also as one text.
fn read_line(args: &[String], dialect: Dialect, depth: usize, readings: &mut Readings) {
    read_later_words(args, depth, readings);
    let line = args.join(" ");
    // The rules of `sh` too: an argument may be meant for the shell that starts this one.
    for dialect in [dialect, Dialect::Posix] {
        for words in shell::commands(&line, dialect) {
            read_assigned(&words, depth, readings);
            read_later_words(&words, depth, readings);
        }
    }
}

/// `cmd /c …`, also with the command or further switches in the same word: `/d/cnpx`.
fn read_cmd(args: &[String], depth: usize, readings: &mut Readings) {
    let glued = args.iter().map(|word| {
        let lower = word.to_ascii_lowercase();
        let switch = ["/c", "/k", "/r"].iter().filter_map(|switch| lower.find(switch)).min();
        switch.filter(|_| word.starts_with('/')).and_then(|start| word.get(start + 2..)).map(str::to_owned)
    });
    let Some((at, glued)) = glued.enumerate().find_map(|(at, glued)| Some((at, glued?))) else { return };
    let glued = Some(glued).filter(|glued| !glued.is_empty());
    let line: Vec<String> = glued.into_iter().chain(args[at + 1..].iter().cloned()).collect();
    read_line(&line, Dialect::Cmd, depth, readings);
}

/// `-Command`, also shortened; without it the words themselves.
fn read_powershell(args: &[String], depth: usize, readings: &mut Readings) {
    let is_switch = |word: &String| {
        let lower = word.to_ascii_lowercase();
        lower.len() > 1 && "-command".starts_with(&lower)
    };
    let start = args.iter().position(is_switch).map_or(0, |at| at + 1);
    read_line(&args[start..], Dialect::PowerShell, depth, readings);
}
