//! Something worth telling that is not the error of a call.

use serde::Serialize;

/// How much a diagnostic matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something works, yet not as written.
    Warning,
    /// Good to know.
    Info,
}

/// A finding with a stable code and, where it has one, its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// How much it matters.
    pub level: Level,
    /// Stable code in capitals, such as `NAME_COLLISION`.
    pub code: &'static str,
    /// One line for people: what was seen, where, what to do; no secret.
    pub message: String,
    /// Name of the server concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Absolute path of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column in characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// JSON pointer into the file or option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// How many characters that nobody sees were removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<usize>,
    /// Servers that crowd a list of tools, the fullest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crowding: Vec<ServerTools>,
}

/// How many tools of a server a list has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerTools {
    /// Name of the server.
    pub server: String,
    /// Number of its tools.
    pub tools: usize,
}

impl Diagnostic {
    /// A warning.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Level::Warning, code, message)
    }

    /// An error.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Level::Error, code, message)
    }

    /// A note.
    pub fn info(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Level::Info, code, message)
    }

    /// A note on characters that nobody sees and that were removed from something (I5).
    pub fn hidden(place: &str, removed: usize) -> Self {
        let characters =
            if removed == 1 { "character that nobody sees was" } else { "characters that nobody sees were" };
        let mut note = Self::info("INVISIBLE_REMOVED", format!("{place}: {removed} {characters} removed"));
        note.removed = Some(removed);
        note
    }

    fn new(level: Level, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            level,
            code,
            message: message.into(),
            server: None,
            file: None,
            line: None,
            column: None,
            pointer: None,
            removed: None,
            crowding: Vec::new(),
        }
    }

    /// Names the server concerned.
    #[must_use]
    pub fn on(mut self, server: &str) -> Self {
        self.server = Some(server.to_owned());
        self
    }
}
