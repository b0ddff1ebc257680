//! What a person wrote, before anything is made of it, and how the stages hand things on.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::config::report::{Fate, ReportEntry};
use crate::config::scope::Scope;
use crate::diagnostic::Diagnostic;

/// A JSON object as written, in its order.
pub type Definition = Map<String, Value>;

/// What stands in a layer's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerShape {
    /// A file: `{"mcpServers": {…}}` or `{"servers": {…}}`.
    File,
    /// The servers themselves, as in the option `servers`: `{name: definition}`.
    Servers,
}

/// One source of definitions, read but not looked into.
///
/// Among layers of one scope the later one is the stronger.
#[derive(Clone, Debug)]
pub struct RawLayer {
    /// Scope of everything in it.
    pub scope: Scope,
    /// Absolute path of the file; `None` for options.
    pub file: Option<Arc<str>>,
    /// What stands in the text.
    pub shape: LayerShape,
    /// The bytes, possibly not even UTF-8.
    pub bytes: Vec<u8>,
}

impl RawLayer {
    /// A file's content.
    pub fn file(scope: Scope, path: &str, bytes: Vec<u8>) -> Self {
        Self { scope, file: Some(Arc::from(path)), shape: LayerShape::File, bytes }
    }

    /// The option `servers`: JSON text of `{name: definition}`, scope `dynamic`.
    pub fn options(servers: &str) -> Self {
        Self {
            scope: Scope::Dynamic,
            file: None,
            shape: LayerShape::Servers,
            bytes: servers.as_bytes().to_vec(),
        }
    }
}

/// Where an entry stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Name of the server as written.
    pub name: Arc<str>,
    /// Scope of its layer.
    pub scope: Scope,
    /// Absolute path of the file; `None` for options.
    pub file: Option<Arc<str>>,
    /// Line of the name, from 1; `None` for options.
    pub line: Option<u32>,
    /// Column of the name in characters, from 1.
    pub column: Option<u32>,
    /// JSON pointer of the entry.
    pub pointer: String,
    /// Ordinal of the layer: among equals in scope the later layer wins.
    pub order: usize,
}

impl Origin {
    /// Puts place and name of the entry on a diagnostic; `field` is a JSON pointer below the entry.
    pub fn place(&self, mut diagnostic: Diagnostic, field: &str) -> Diagnostic {
        diagnostic.server = Some(self.name.to_string());
        diagnostic.file = self.file.as_deref().map(str::to_owned);
        diagnostic.line = self.line;
        diagnostic.column = self.column;
        diagnostic.pointer = Some(format!("{}{field}", self.pointer));
        diagnostic
    }
}

/// An entry as written: not approved, not expanded, not checked.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Where it stands.
    pub origin: Arc<Origin>,
    /// What was written.
    pub definition: Arc<Definition>,
}

impl Draft {
    /// The line of the report for an entry that goes no further.
    pub fn dropped(&self, fate: Fate, reason: impl Into<String>) -> ReportEntry {
        ReportEntry::new(&self.origin, &self.definition, fate).because(reason)
    }
}

/// What a stage leaves: entries for the next one, entries that end here, findings.
#[derive(Clone, Debug)]
pub struct Staged<T> {
    /// Go on.
    pub kept: Vec<T>,
    /// End here, each with its reason.
    pub dropped: Vec<ReportEntry>,
    /// Findings.
    pub diagnostics: Vec<Diagnostic>,
}

impl<T> Default for Staged<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), dropped: Vec::new(), diagnostics: Vec::new() }
    }
}

/// A key as one step of a JSON pointer.
pub fn pointer_step(key: &str) -> String {
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}
