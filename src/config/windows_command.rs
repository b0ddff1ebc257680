//! Batch files of Windows run through `cmd /c`, quoted so that no argument becomes a command. (CFG-06)
//!
//! Pure and the same on every platform; the caller decides whether it is on Windows. The arguments it
//! returns are final: they are joined with single spaces and handed over raw.

use crate::error::{ErrorCode, McpError, Result};

/// Programs that are batch files on Windows.
const BATCH_PROGRAMS: [&str; 6] = ["npx", "npm", "pnpm", "yarn", "bunx", "uvx"];

/// The command line for Windows. `npx`, `npm`, `pnpm`, `yarn`, `bunx`, `uvx` and any `.cmd` or `.bat` become
/// `cmd /c …`; everything else comes back unchanged.
///
/// Arguments without a special character stay as they are; others are put in quotes. Errors:
/// `UNSAFE_ARGUMENT` for what quotes cannot hold: line breaks and other control characters, `%NAME%`,
/// and a `"` beside a character that starts a command.
pub fn windows_command(command: &str, args: &[String]) -> Result<(String, Vec<String>)> {
    if !is_batch(command) {
        return Ok((command.to_owned(), args.to_vec()));
    }
    let percents = std::iter::once(command).chain(args.iter().map(String::as_str));
    if percents.flat_map(str::bytes).filter(|&byte| byte == b'%').count() > 1 {
        return Err(unsafe_argument("more than one % would be read as a variable"));
    }
    let mut line = Vec::with_capacity(args.len() + 2);
    line.push("/c".to_owned());
    line.push(quote_command(command)?);
    for argument in args {
        line.push(quote_argument(argument)?);
    }
    Ok(("cmd".to_owned(), line))
}

/// Windows ignores dots and spaces at the end of a file name, so they are ignored here.
fn is_batch(command: &str) -> bool {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command);
    let name = name.trim_end_matches(['.', ' ']).to_ascii_lowercase();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    matches!(extension, Some("cmd" | "bat")) || BATCH_PROGRAMS.contains(&name.as_str())
}

fn unsafe_argument(what: &str) -> McpError {
    McpError::new(
        ErrorCode::UnsafeArgument,
        format!(
            "An argument of a batch file cannot be quoted: {what}; start the program itself instead of the .cmd"
        ),
    )
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '\\' | ':' | '@' | '+' | '#' | '~' | '$')
}

/// `cmd /c` takes the quotes away from a line that begins with one, so the quotes of the command begin
/// after its first character.
fn quote_command(command: &str) -> Result<String> {
    let command = command.trim_end_matches(['.', ' ']).replace('/', "\\");
    if command.chars().all(|c| is_plain(c) && c != '@') {
        return Ok(command);
    }
    refuse_unquotable(&command)?;
    let mut letters = command.chars();
    match letters.next() {
        Some(first) if is_plain(first) && first != '@' && !command.contains('"') => {
            Ok(format!("{first}\"{}\"", letters.as_str()))
        }
        _ => Err(unsafe_argument("the path of the command begins with a special character")),
    }
}

fn quote_argument(argument: &str) -> Result<String> {
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return Ok(argument.to_owned());
    }
    refuse_unquotable(argument)?;
    if argument.contains('"') && argument.contains(['&', '|', '<', '>', '^', '(', ')', '%', '!']) {
        return Err(unsafe_argument("a \" beside a character that starts a command"));
    }
    let mut quoted = String::with_capacity(argument.len() + 2);
    quoted.push('"');
    let mut backslashes = 0;
    for c in argument.chars() {
        if c == '"' {
            // The program reads `\"` as a quote, so backslashes in front of one are doubled.
            quoted.extend(std::iter::repeat_n('\\', backslashes));
            quoted.push('"');
        }
        backslashes = if c == '\\' { backslashes + 1 } else { 0 };
        quoted.push(c);
    }
    quoted.extend(std::iter::repeat_n('\\', backslashes));
    quoted.push('"');
    Ok(quoted)
}

fn refuse_unquotable(text: &str) -> Result<()> {
    if text.contains(['\n', '\r']) {
        return Err(unsafe_argument("it holds a line break"));
    }
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(unsafe_argument("it holds a control character"));
    }
    Ok(())
}
