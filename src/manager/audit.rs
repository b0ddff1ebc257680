//! The audit log: what happened, one JSON object a line, for a file or the host. (SEC-07)
//!
//! Names, sizes, durations and outcomes are written; arguments only where the host asks for them, without secrets.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value};

use super::Manager;
use crate::error::McpError;
use crate::host::post::PostOffice;
use crate::host::{Host, HostEvent, QuestionKind};
use crate::runtime::{lock, rfc3339, unix_millis};
use crate::secret::{REDACTED, Redactor, SafeUrl, names_secret};
use crate::transport::BoxFuture;
use crate::transport::in_process::{Channels, Script, Word};

/// Longest arguments that are written, in bytes.
const LONGEST_ARGUMENTS: usize = 64 * 1024;

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To a file, created for the owner alone.
    File(PathBuf),
    /// To the host's function.
    Host,
}

/// The log of a manager.
#[derive(Debug)]
pub(super) struct AuditLog {
    target: Target,
    file: Mutex<Option<File>>,
}

impl AuditLog {
    /// A log; its file is opened with the first line.
    pub(super) fn new(target: Target) -> Self {
        Self { target, file: Mutex::default() }
    }

    /// Writes a line. A line that cannot be written is the only trace of that: the first failure is returned.
    fn write(&self, post: &PostOffice, line: String) -> std::io::Result<()> {
        match &self.target {
            Target::Host => {
                post.emit(HostEvent { name: "audit", body: line, key: None });
                Ok(())
            }
            Target::File(path) => {
                let mut file = lock(&self.file);
                if file.is_none() {
                    *file = Some(open(path)?);
                }
                // One write a line, so that lines of several processes never mix.
                file.as_mut().map_or(Ok(()), |file| file.write_all(format!("{line}\n").as_bytes()))
            }
        }
    }
}

#[cfg(unix)]
fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl Manager {
    /// Writes an event with details, if there is a log.
    pub(super) fn audit(&self, kind: &str, server: &str, details: Value) {
        let Some(log) = &self.audit_log else { return };
        if let Err(error) = log.write(&self.post, line(kind, server, details)) {
            let message = format!("the audit log cannot be written: {error}");
            self.diagnose_once(&crate::diagnostic::Diagnostic::error("AUDIT_LOG_FAILED", message));
        }
    }

    /// Whether anybody listens; spares making details nobody reads.
    pub(super) fn is_audited(&self) -> bool {
        self.audit_log.is_some()
    }
}

/// JSON text of an `AuditEvent`.
fn line(kind: &str, server: &str, details: Value) -> String {
    let mut event = Map::new();
    event.insert("time".to_owned(), rfc3339(unix_millis()).into());
    event.insert("kind".to_owned(), kind.into());
    event.insert("server".to_owned(), server.into());
    if let Value::Object(details) = details {
        event.extend(details);
    }
    Value::Object(event).to_string()
}

/// Arguments of a call as they may be written: without the server's own secrets, the values of names that name one,
/// and what is in URLs. Long ones are told by their size alone.
pub(super) fn shown_arguments(text: &str, redactor: &Redactor) -> Value {
    if text.len() > LONGEST_ARGUMENTS {
        return serde_json::json!({ "bytes": text.len() });
    }
    let mut value = serde_json::from_str(text).unwrap_or_default();
    hide_secrets(&mut value, redactor);
    value
}

fn hide_secrets(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => {
            let clean = redactor.redact(text);
            *text = if clean.contains("://") { SafeUrl::new(clean).to_string() } else { clean.into_owned() };
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide_secrets(item, redactor)),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if names_secret(name) {
                    *field = REDACTED.into();
                } else {
                    hide_secrets(field, redactor);
                }
            }
        }
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// The host as connections see it where there is an audit log: changes of state are written down on their way.
pub(super) struct AuditingHost {
    pub(super) post: Arc<PostOffice>,
    pub(super) log: Arc<AuditLog>,
}

impl Script for AuditingHost {
    fn channels(&self) -> &Channels {
        self.post.channels()
    }

    fn say(&self, channel: u32, word: Word, room: usize) -> Result<(), usize> {
        self.post.say(channel, word, room)
    }
}

impl Host for AuditingHost {
    fn emit(&self, event: HostEvent) {
        if event.name == "status"
            && let Ok(Value::Object(status)) = serde_json::from_str(&event.body)
            && let Some((kind, server, details)) = transition(&status)
        {
            // A failure shows with the next line the manager writes itself.
            let _ = self.log.write(&self.post, line(kind, server, details));
        }
        self.post.emit(event);
    }

    fn note(&self, kind: &'static str, server: &str, details: Value) {
        let _ = self.log.write(&self.post, line(kind, server, details));
    }

    fn can_answer(&self, kind: QuestionKind) -> bool {
        self.post.can_answer(kind)
    }

    fn ask(&self, kind: QuestionKind, body: String) -> BoxFuture<'_, Result<String, McpError>> {
        self.post.ask(kind, body)
    }
}

fn transition(status: &Map<String, Value>) -> Option<(&'static str, &str, Value)> {
    let text = |key: &str| status.get(key).and_then(Value::as_str);
    let (state, from, server) = (text("state")?, text("from"), text("name")?);
    let kind = match (from, state) {
        (_, "connected") => "connect",
        (Some("connected"), _) => "disconnect",
        (_, "needs-auth") => "auth",
        (_, "failed") => "connect",
        _ => return None,
    };
    let mut details = serde_json::json!({ "state": state, "from": from, "code": text("code") });
    if kind == "auth" {
        details["event"] = "needsAuth".into();
    }
    Some((kind, server, details))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_07_arguments_are_written_without_secrets() {
        let redactor = Redactor::new(["s3cret-of-the-server"]);
        let text = r#"{"path":"/x","apiKey":"abc","list":["say s3cret-of-the-server","https://u:p@a.test/?token=t"],
            "auth":{"user":"me"},"login":{"user":"me","password":["p"]},"count":3}"#;
        assert_eq!(
            shown_arguments(text, &redactor),
            serde_json::json!({
                "path": "/x", "apiKey": "[REDACTED]",
                "list": ["say [REDACTED]", "https://[REDACTED]@a.test/?token=[REDACTED]"],
                "auth": "[REDACTED]", "login": { "user": "me", "password": "[REDACTED]" }, "count": 3,
            })
        );
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(LONGEST_ARGUMENTS));
        assert_eq!(shown_arguments(&long, &redactor), serde_json::json!({ "bytes": long.len() }));
    }

    #[test]
    fn sec_07_only_changes_that_matter() {
        let status = |from: &str, state: &str| {
            let value = serde_json::json!({ "name": "s", "from": from, "state": state });
            value.as_object().cloned().unwrap()
        };
        let kind = |from, state| transition(&status(from, state)).map(|(kind, _, _)| kind);
        assert_eq!(kind("pending", "connected"), Some("connect"));
        assert_eq!(kind("connected", "pending"), Some("disconnect"));
        assert_eq!(kind("pending", "failed"), Some("connect"));
        assert_eq!(kind("failed", "pending"), None);
    }
}
