//! What became of every entry, in the shape of `ConfigReport`, without secrets. (CFG-09, SEC-03, G20)

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::config::draft::{Definition, Origin};
use crate::config::scope::Scope;
use crate::diagnostic::{Diagnostic, Level};
use crate::secret::{REDACTED, SafeUrl, redact_arguments, redact_value};
use crate::words;

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It runs.
    Active,
    /// A project file's entry that nobody approved yet.
    PendingApproval,
    /// A project file's entry that was rejected.
    Rejected,
    /// Switched off.
    Disabled,
    /// A stronger scope has a working entry of that name.
    Shadowed,
    /// The same server runs under another name.
    Duplicate,
    /// The organisation's policy forbids it.
    Denied,
    /// The organisation's allowlist does not name it.
    NotAllowed,
    /// The name is reserved.
    Reserved,
    /// Only the organisation's servers may exist.
    EnterpriseExclusive,
    /// It is malformed.
    Invalid,
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportEntry {
    /// Name as written.
    pub name: Arc<str>,
    /// Scope of its layer.
    pub scope: Scope,
    /// Absolute path of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Arc<str>>,
    /// Line of the name, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The definition as written, secrets redacted.
    pub config: Definition,
    /// What became of it.
    pub fate: Fate,
    /// The server or rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The definition that was approved, where the present one differs; secrets redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<Definition>,
}

impl ReportEntry {
    /// A line for an entry; redacts the definition.
    pub fn new(origin: &Origin, definition: &Definition, fate: Fate) -> Self {
        Self {
            name: Arc::clone(&origin.name),
            scope: origin.scope,
            file: origin.file.clone(),
            line: origin.line,
            config: redact_definition(definition),
            fate,
            by: None,
            reason: None,
            approved: None,
        }
    }

    /// Adds the reason.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Names the server or rule that decided.
    #[must_use]
    pub fn decided_by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }

    /// Adds the definition that was approved.
    #[must_use]
    pub fn approved_as(mut self, definition: &Definition) -> Self {
        self.approved = Some(redact_definition(definition));
        self
    }
}

#[derive(Serialize)]
struct Report<'a> {
    servers: &'a [ReportEntry],
    errors: Vec<&'a Diagnostic>,
    warnings: Vec<&'a Diagnostic>,
}

/// JSON text of a `ConfigReport`; notes stand among the warnings.
pub fn report_json<'a>(
    servers: &'a [ReportEntry],
    found: impl IntoIterator<Item = &'a Diagnostic>,
) -> String {
    let (errors, warnings) = found.into_iter().partition(|diagnostic| diagnostic.level == Level::Error);
    serde_json::to_string(&Report { servers, errors, warnings })
        .unwrap_or_else(|_| r#"{"servers":[],"errors":[],"warnings":[]}"#.to_owned())
}

/// A definition that may be shown. Only fields known to hold no secret are shown as they are, so a
/// misspelt `headrs` cannot leak.
pub fn redact_definition(definition: &Definition) -> Definition {
    definition.iter().map(|(key, value)| (key.clone(), redact_field(key, value))).collect()
}

fn redact_field(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("url" | "originalUrl" | "proxy", Value::String(text)) => {
            SafeUrl::new(text.as_str()).to_string().into()
        }
        ("args" | "headersHelper", Value::Array(items)) => redact_command(items),
        ("headersHelper", Value::String(line)) => redact_line(line),
        ("oauth", Value::Object(fields)) => redact_known(fields, &SHOWN_OAUTH).into(),
        ("tls", Value::Object(fields)) => redact_known(fields, &SHOWN_TLS).into(),
        ("env" | "headers", Value::Object(fields)) => fields
            .iter()
            .map(|(name, value)| {
                (name.clone(), value.as_str().map_or_else(|| REDACTED.to_owned(), redact_value))
            })
            .collect(),
        ("tools", _) => value.clone(),
        (_, Value::String(_)) if SHOWN_TEXT.contains(&key) => value.clone(),
        (_, Value::Array(items)) if key == "inheritEnv" && items.iter().all(Value::is_string) => {
            value.clone()
        }
        _ => hide(value),
    }
}

/// Fields whose text is no secret.
const SHOWN_TEXT: [&str; 14] = [
    "type",
    "command",
    "cwd",
    "name",
    "id",
    "ideName",
    "start",
    "protocol",
    "inheritEnv",
    "connectTimeoutMs",
    "requestTimeoutMs",
    "toolTimeoutMs",
    "maxTotalTimeoutMs",
    "timeout",
];
/// Fields of `oauth` that are no secret.
const SHOWN_OAUTH: [&str; 10] = [
    "clientId",
    "clientMetadataUrl",
    "scopes",
    "resource",
    "expectedIssuer",
    "authServerMetadataUrl",
    "callbackHost",
    "callbackPath",
    "redirectUri",
    "method",
];
/// Fields of `tls` that are no secret.
const SHOWN_TLS: [&str; 2] = ["ca", "cert"];

fn redact_known(fields: &Map<String, Value>, shown: &[&str]) -> Map<String, Value> {
    fields
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Value::String(text) if shown.contains(&key.as_str()) => {
                    SafeUrl::new(text.as_str()).to_string().into()
                }
                _ if shown.contains(&key.as_str()) => value.clone(),
                _ => hide(value),
            };
            (key.clone(), value)
        })
        .collect()
}

fn redact_command(items: &[Value]) -> Value {
    let texts: Vec<String> =
        items.iter().map(|item| item.as_str().map_or_else(|| REDACTED.to_owned(), str::to_owned)).collect();
    redact_arguments(&texts).into()
}

/// A command in one text: as it is written where nothing in it is secret, else as its words.
fn redact_line(line: &str) -> Value {
    let Some(words) = words::split(line) else { return REDACTED.into() };
    let shown = redact_arguments(&words);
    if shown == words { line.into() } else { shown.into() }
}

/// Keeps the shape and hides every text.
fn hide(value: &Value) -> Value {
    match value {
        Value::String(text) => redact_value(text).into(),
        Value::Array(items) => items.iter().map(hide).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, value)| (key.clone(), hide(value))).collect())
        }
        Value::Number(_) | Value::Bool(_) | Value::Null => value.clone(),
    }
}
