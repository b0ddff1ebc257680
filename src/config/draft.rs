//! What a person wrote, before anything is made of it, and how the stages hand things on.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::config::report::{Fate, ReportEntry};
use crate::config::scope::{Scope, Voice};
use crate::diagnostic::Diagnostic;

/// A JSON object as written, in its order.
pub type Definition = Map<String, Value>;

/// What stands in a layer's text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LayerShape {
    /// A file: `{"mcpServers": {…}}` or `{"servers": {…}}`.
    File,
    /// The servers themselves, as in the option `servers`: `{name: definition}`.
    Servers,
    /// As `Servers`, for servers the host brings that are off unless enabled. (CFG-13)
    Builtin,
    /// A settings file: servers under `mcpServers` beside policy, rules, approvals.
    Settings,
    /// The settings of one directory inside a file: `{"projects": {path: …}}`.
    Directory(Arc<str>),
}

/// One source of definitions, read but not looked into.
///
/// Among layers of one scope the later one is the stronger.
#[derive(Clone, Debug)]
pub struct RawLayer {
    /// Scope of everything in it.
    pub scope: Scope,
    /// Who wrote it.
    pub voice: Voice,
    /// Name of the plugin or of another source, for layers that are no file.
    pub source: Option<Arc<str>>,
    /// Absolute path of the file; `None` for options.
    pub file: Option<Arc<str>>,
    /// It stands above everything but the organisation's own servers. (CFG-11)
    pub overriding: bool,
    /// What stands in the text.
    pub shape: LayerShape,
    /// The bytes, possibly not even UTF-8; `None` where the file is there and could not be read.
    pub bytes: Option<Vec<u8>>,
}

impl RawLayer {
    /// A file's content.
    pub fn file(scope: Scope, path: &str, bytes: Vec<u8>) -> Self {
        Self { file: Some(Arc::from(path)), shape: LayerShape::File, ..Self::said(scope, Some(bytes)) }
    }

    /// A file that is there and could not be read.
    pub fn unread(scope: Scope, path: &str) -> Self {
        Self { bytes: None, ..Self::file(scope, path, Vec::new()) }
    }

    fn said(scope: Scope, bytes: Option<Vec<u8>>) -> Self {
        Self {
            scope,
            voice: Voice::of(scope),
            source: None,
            file: None,
            overriding: false,
            shape: LayerShape::Servers,
            bytes,
        }
    }

    /// Definitions of the host: JSON text of `{name: definition}`.
    pub fn host(scope: Scope, servers: &str) -> Self {
        Self::said(scope, Some(servers.as_bytes().to_vec()))
    }

    /// The option `servers`: JSON text of `{name: definition}`, scope `dynamic`.
    pub fn options(servers: &str) -> Self {
        Self::host(Scope::Dynamic, servers)
    }
}

/// Where an entry stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Name of the server as written.
    pub name: Arc<str>,
    /// Scope of its layer.
    pub scope: Scope,
    /// Who wrote it.
    pub voice: Voice,
    /// Brought by the host and off unless enabled.
    pub builtin: bool,
    /// It stands above everything but the organisation's own servers.
    pub overriding: bool,
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
    /// Position among entries of one name: the greatest wins. (§2, CFG-11)
    pub fn strength(&self) -> (u8, bool, usize) {
        let place =
            if self.overriding { 2 * Scope::Managed.strength() + 1 } else { 2 * self.scope.strength() };
        (place, !self.builtin, self.order)
    }

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
#[derive(Clone)]
pub struct Draft {
    /// Where it stands.
    pub origin: Arc<Origin>,
    /// What was written.
    pub definition: Arc<Definition>,
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = crate::config::report::redact_definition(&self.definition);
        f.debug_struct("Draft").field("origin", &self.origin).field("definition", &shown).finish()
    }
}

impl Draft {
    /// An entry that was just written to the file of a layer.
    pub fn written(name: &str, layer: &RawLayer, definition: Arc<Definition>) -> Self {
        let origin = Origin {
            name: Arc::from(name),
            scope: layer.scope,
            voice: layer.voice,
            builtin: false,
            overriding: false,
            file: layer.file.clone(),
            line: None,
            column: None,
            pointer: format!("/mcpServers{}", pointer_step(name)),
            order: 0,
        };
        Self { origin: Arc::new(origin), definition }
    }

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
