//! Why a server's program could not be started (STD-06).
//!
//! Owns the kinds of failure, the sentence of each and its facts. Arguments and environment values never
//! stand in a message.

use std::io;
#[cfg(unix)]
use std::io::Read;
use std::path::{Path, PathBuf};

#[cfg(unix)]
use rustix::io::Errno;
use serde::Serialize;

use super::version_managers::{self, VersionManager};
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError};

/// Characters of a command or path shown in a message.
const SHOWN_CHARACTERS: usize = 300;

/// Characters of a search path shown in a message; the facts hold all of it.
const SHOWN_PATH_CHARACTERS: usize = 2_000;

/// Bytes of a script's first line that are looked at.
#[cfg(unix)]
const FIRST_LINE_BYTES: u64 = 512;

/// Who set the search path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PathOrigin {
    /// The server's definition.
    Config,
    /// The environment of the host.
    Host,
    /// Nobody; the default of the platform.
    Default,
}

/// A search path and who set it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchPath<'a> {
    pub(super) value: &'a str,
    pub(super) origin: PathOrigin,
}

/// One kind of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(windows, allow(dead_code, reason = "scripts with an interpreter are a matter of Unix"))]
#[cfg_attr(unix, allow(dead_code, reason = "batch files are a matter of Windows"))]
pub(super) enum SpawnFailure {
    /// The definition names no command.
    CommandEmpty,
    /// A zero byte in the command, an argument or a variable, or a variable name that cannot be one.
    Unspeakable { what: String },
    /// Not in the search path.
    NotFound { searched: String, origin: PathOrigin, managers: Vec<VersionManager> },
    /// Not where the command says.
    FileMissing { file: PathBuf },
    /// There, and not executable.
    NotExecutable { file: PathBuf },
    /// A directory.
    IsDirectory { file: PathBuf },
    /// The working directory is not there.
    CwdMissing { directory: PathBuf, configured: bool },
    /// The working directory is a file.
    CwdNotDirectory { directory: PathBuf, configured: bool },
    /// The working directory may not be entered.
    CwdDenied { directory: PathBuf, configured: bool },
    /// A script whose `#!` line ends in a carriage return.
    CarriageReturn { file: PathBuf },
    /// A script whose interpreter is missing.
    InterpreterMissing { file: PathBuf, interpreter: String },
    /// A program whose loader is missing.
    LoaderMissing { file: PathBuf },
    /// Neither a script with `#!` nor a program for this machine.
    NotAProgram { file: PathBuf },
    /// A batch file cannot be given these arguments safely.
    UnsafeArgument { what: String },
    /// Arguments and environment are too long for the system.
    TooLong,
    /// The program is being written at this moment.
    Busy { file: PathBuf },
    /// A limit of the system is reached, for now.
    Exhausted { limit: &'static str },
    /// Anything else the system said.
    Other { said: String },
}

/// The facts of a failure, in the error's `data`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FailureFacts<'a> {
    reason: &'static str,
    command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    searched_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_from: Option<PathOrigin>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    version_managers: &'a [VersionManager],
}

impl SpawnFailure {
    /// What the system's refusal to start `file` means.
    #[cfg(windows)]
    pub(super) fn of(error: &io::Error, file: &Path) -> Self {
        use windows_sys::Win32::Foundation as code;

        let file = file.to_owned();
        match error.raw_os_error().and_then(|number| u32::try_from(number).ok()) {
            Some(code::ERROR_FILE_NOT_FOUND | code::ERROR_PATH_NOT_FOUND) => Self::FileMissing { file },
            Some(code::ERROR_ACCESS_DENIED | code::ERROR_ELEVATION_REQUIRED) => Self::NotExecutable { file },
            Some(code::ERROR_BAD_EXE_FORMAT | code::ERROR_EXE_MACHINE_TYPE_MISMATCH) => {
                Self::NotAProgram { file }
            }
            Some(code::ERROR_FILENAME_EXCED_RANGE) => Self::TooLong,
            Some(code::ERROR_SHARING_VIOLATION | code::ERROR_LOCK_VIOLATION) => Self::Busy { file },
            Some(code::ERROR_TOO_MANY_OPEN_FILES) => {
                Self::Exhausted { limit: "this program's open files (ERROR_TOO_MANY_OPEN_FILES)" }
            }
            Some(
                code::ERROR_NOT_ENOUGH_MEMORY
                | code::ERROR_OUTOFMEMORY
                | code::ERROR_NO_SYSTEM_RESOURCES
                | code::ERROR_COMMITMENT_LIMIT,
            ) => Self::Exhausted { limit: "memory" },
            _ => Self::Other { said: error.to_string() },
        }
    }

    /// What the system's refusal to start `file` means.
    #[cfg(unix)]
    pub(super) fn of(error: &io::Error, file: &Path) -> Self {
        let file = file.to_owned();
        match Errno::from_io_error(error) {
            Some(Errno::NOENT) => missing_part(file),
            Some(Errno::ACCESS | Errno::PERM) => Self::NotExecutable { file },
            Some(Errno::ISDIR) => Self::IsDirectory { file },
            Some(Errno::NOEXEC) => match shebang(&file) {
                Some(line) if line.ends_with('\r') => Self::CarriageReturn { file },
                _ => Self::NotAProgram { file },
            },
            Some(Errno::TOOBIG) => Self::TooLong,
            Some(Errno::TXTBSY) => Self::Busy { file },
            Some(Errno::MFILE) => Self::Exhausted { limit: "this program's open files (EMFILE)" },
            Some(Errno::NFILE) => Self::Exhausted { limit: "the system's open files (ENFILE)" },
            Some(Errno::AGAIN) => Self::Exhausted { limit: "processes (EAGAIN)" },
            Some(Errno::NOMEM) => Self::Exhausted { limit: "memory (ENOMEM)" },
            _ => Self::Other { said: error.to_string() },
        }
    }

    /// The same with the version managers that may have the command (B3).
    pub(super) fn beside_managers(self, command: &str, environment: &Environment) -> Self {
        match self {
            Self::NotFound { searched, origin, .. } => {
                let managers = version_managers::installed(command, environment);
                Self::NotFound { searched, origin, managers }
            }
            other => other,
        }
    }

    /// Whether the same start may work later without anybody changing anything.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Exhausted { .. })
    }

    /// The error that callers see: `CONNECT_FAILED` for what passes by itself, else `SPAWN_FAILED`.
    pub(super) fn into_error(self, server: &str, command: &str) -> McpError {
        let code = match &self {
            Self::UnsafeArgument { .. } => ErrorCode::UnsafeArgument,
            _ if self.is_transient() => ErrorCode::ConnectFailed,
            _ => ErrorCode::SpawnFailed,
        };
        let facts = serde_json::value::to_raw_value(&self.facts(command)).ok();
        let message = self.told_of(command);
        McpError::new(code, message).on(server).with(|to| to.data = facts.map(Into::into))
    }

    /// The sentence of it, for people.
    pub(super) fn told_of(&self, command: &str) -> String {
        self.sentence(&quoted(command))
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::CommandEmpty => "command-empty",
            Self::Unspeakable { .. } => "not-representable",
            Self::NotFound { .. } | Self::FileMissing { .. } => "not-found",
            Self::NotExecutable { .. } => "not-executable",
            Self::IsDirectory { .. } => "is-directory",
            Self::CwdMissing { .. } => "cwd-missing",
            Self::CwdNotDirectory { .. } => "cwd-not-directory",
            Self::CwdDenied { .. } => "cwd-denied",
            Self::CarriageReturn { .. } => "shebang-carriage-return",
            Self::InterpreterMissing { .. } => "interpreter-missing",
            Self::LoaderMissing { .. } => "loader-missing",
            Self::NotAProgram { .. } => "not-a-program",
            Self::UnsafeArgument { .. } => "unsafe-argument",
            Self::TooLong => "arguments-too-long",
            Self::Busy { .. } => "file-busy",
            Self::Exhausted { .. } => "limit-reached",
            Self::Other { .. } => "other",
        }
    }

    fn facts<'a>(&'a self, command: &'a str) -> FailureFacts<'a> {
        let mut facts = FailureFacts {
            reason: self.reason(),
            command,
            file: None,
            cwd: None,
            searched_path: None,
            path_from: None,
            version_managers: &[],
        };
        match self {
            Self::NotFound { searched, origin, managers } => {
                facts.version_managers = managers;
                facts.searched_path = Some(searched);
                facts.path_from = Some(*origin);
            }
            Self::FileMissing { file }
            | Self::NotExecutable { file }
            | Self::IsDirectory { file }
            | Self::CarriageReturn { file }
            | Self::InterpreterMissing { file, .. }
            | Self::LoaderMissing { file }
            | Self::NotAProgram { file }
            | Self::Busy { file } => facts.file = Some(file.display().to_string()),
            Self::CwdMissing { directory, .. }
            | Self::CwdNotDirectory { directory, .. }
            | Self::CwdDenied { directory, .. } => facts.cwd = Some(directory.display().to_string()),
            Self::CommandEmpty
            | Self::Unspeakable { .. }
            | Self::UnsafeArgument { .. }
            | Self::TooLong
            | Self::Exhausted { .. }
            | Self::Other { .. } => {}
        }
        facts
    }

    fn sentence(&self, command: &str) -> String {
        match self {
            Self::CommandEmpty => "the server's definition has an empty command".to_owned(),
            Self::Unspeakable { what } => format!("{what}; the system cannot pass it to a program"),
            Self::NotFound { searched, origin, managers } => not_found(command, searched, *origin, managers),
            Self::FileMissing { file } => {
                format!("command {command} was not found: there is no file {}", shown(file))
            }
            Self::NotExecutable { file } => format!(
                "command {command} is not executable: {} exists but may not be run; check its mode",
                shown(file)
            ),
            Self::IsDirectory { file } => {
                format!("command {command} is a directory, not a program: {}", shown(file))
            }
            Self::CwdMissing { directory, configured } => {
                cwd_sentence(directory, *configured, "does not exist")
            }
            Self::CwdNotDirectory { directory, configured } => {
                cwd_sentence(directory, *configured, "is not a directory")
            }
            Self::CwdDenied { directory, configured } => {
                cwd_sentence(directory, *configured, "may not be entered")
            }
            Self::CarriageReturn { file } => format!(
                "the first line of {} ends in a carriage return, which makes its interpreter unknown; \
                 save the script with Unix line ends",
                shown(file)
            ),
            Self::InterpreterMissing { file, interpreter } => format!(
                "the interpreter {} named in the first line of {} does not exist",
                quoted(interpreter),
                shown(file)
            ),
            Self::LoaderMissing { file } => format!(
                "{} exists but cannot be loaded: its loader is missing, so it was probably built for another \
                 system or C library",
                shown(file)
            ),
            Self::NotAProgram { file } => format!(
                "{} is not a program this machine can run: it has no #! line and is no executable for this \
                 system",
                shown(file)
            ),
            Self::UnsafeArgument { what } => what.clone(),
            Self::TooLong => {
                format!(
                    "the arguments and environment of command {command} are too long for the system (E2BIG)"
                )
            }
            Self::Busy { file } => {
                format!("{} is being written at this moment (ETXTBSY); try again", shown(file))
            }
            Self::Exhausted { limit } => {
                format!("command {command} could not be started for now: out of {limit}")
            }
            Self::Other { said } => format!("command {command} could not be started: {said}"),
        }
    }
}

fn not_found(command: &str, searched: &str, origin: PathOrigin, managers: &[VersionManager]) -> String {
    let owner = match origin {
        PathOrigin::Config => "the PATH of the server's definition",
        PathOrigin::Host => "the host's PATH",
        PathOrigin::Default => "the default path, as no PATH is set",
    };
    let searched: String = searched.escape_debug().take(SHOWN_PATH_CHARACTERS).collect();
    format!(
        "command {command} was not found in {owner} ({searched}){}; install it, write its full path, or set PATH \
         in the server's env",
        beside(managers)
    )
}

/// What version managers there are, which only interactive shells know of.
fn beside(managers: &[VersionManager]) -> String {
    if let Some((name, file)) =
        managers.iter().find_map(|manager| Some((manager.name, manager.file.as_ref()?)))
    {
        let file = shown(file);
        return format!(
            "; {name} has it at {file}, for interactive shells only: shellEnv 'auto' reads theirs"
        );
    }
    let names: Vec<&str> = managers.iter().map(|manager| manager.name).collect();
    if names.is_empty() { String::new() } else { format!(", nor in {}", names.join(", ")) }
}

fn cwd_sentence(directory: &Path, configured: bool, what: &str) -> String {
    if configured {
        format!("the server's working directory {} {what}; correct cwd", shown(directory))
    } else {
        format!(
            "the host's working directory {} {what}; set cwd in the server's definition",
            shown(directory)
        )
    }
}

fn quoted(text: &str) -> String {
    let shown: String = text.escape_debug().take(SHOWN_CHARACTERS).collect();
    format!("\"{shown}\"")
}

fn shown(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// The file was there when it was looked up, so something it needs is not.
#[cfg(unix)]
fn missing_part(file: PathBuf) -> SpawnFailure {
    match shebang(&file) {
        Some(line) if line.ends_with('\r') => SpawnFailure::CarriageReturn { file },
        Some(line) => {
            let interpreter = line.split_ascii_whitespace().next().unwrap_or_default().to_owned();
            SpawnFailure::InterpreterMissing { file, interpreter }
        }
        None if file.exists() => SpawnFailure::LoaderMissing { file },
        None => SpawnFailure::FileMissing { file },
    }
}

/// What stands after `#!`, up to the line's end.
#[cfg(unix)]
fn shebang(file: &Path) -> Option<String> {
    let mut start = Vec::new();
    std::fs::File::open(file).ok()?.take(FIRST_LINE_BYTES).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}
