//! What a server sends unasked: one door for notifications, requests, noise and the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::progress::ProgressTable;
use crate::error::McpError;
use crate::jsonrpc::{Incoming, write};
use crate::runtime::{self, lock};
use crate::transport::{Receiver, Transport};

/// Which list a `list_changed` is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// Tools.
    Tools,
    /// Prompts.
    Prompts,
    /// Resources and their templates.
    Resources,
}

/// What the owner of a client hears of its server. All of it must return at once.
pub trait ServerListener: Send + Sync {
    /// A list is out of date.
    fn list_changed(&self, kind: ListKind);
    /// A subscribed resource was updated.
    fn resource_updated(&self, uri: &str);
    /// A log message: level, logger, and `data` as JSON text.
    fn log(&self, level: &str, logger: Option<&str>, data: &str);
    /// A line of standard error.
    fn stderr(&self, line: &str);
    /// Something the server does wrong, with a stable code.
    fn misbehaved(&self, code: &'static str, message: String);
    /// The roots to answer `roots/list` with: JSON text of the `roots` array.
    fn roots(&self) -> String;
    /// The connection ended by itself.
    fn closed(&self, error: McpError);
}

/// Reports of one kind that a server may cause; the rest is counted.
const MAX_REPORTS: u64 = 20;

/// The receiving side of a client.
pub struct Inbound {
    listener: Arc<dyn ServerListener>,
    progress: Arc<ProgressTable>,
    transport: OnceLock<Weak<dyn Transport>>,
    noise: AtomicU64,
    strays: AtomicU64,
    violations: AtomicU64,
    ended: Mutex<bool>,
}

impl Inbound {
    /// A door to `listener`.
    pub fn new(listener: Arc<dyn ServerListener>, progress: Arc<ProgressTable>) -> Self {
        Self {
            listener,
            progress,
            transport: OnceLock::new(),
            noise: AtomicU64::new(0),
            strays: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            ended: Mutex::new(false),
        }
    }

    /// Tells where answers to the server's requests go.
    pub fn attach(&self, transport: &Arc<dyn Transport>) {
        let _ = self.transport.set(Arc::downgrade(transport));
    }

    fn answer(&self, frame: String) {
        if let Some(transport) = self.transport.get().and_then(Weak::upgrade) {
            runtime::start(async move {
                // Refused when the server does not read: then it does not wait for answers either.
                let _ = transport.send(frame).await;
            });
        }
    }

    fn request(&self, id: &str, method: &str) {
        match method {
            "ping" => self.answer(write::result(id, "{}")),
            "roots/list" => {
                self.answer(write::result(id, &format!("{{\"roots\":{}}}", self.listener.roots())));
            }
            _ => {
                self.report(&self.violations, "REQUEST_REFUSED", || {
                    format!("the server asked for {}, which this host does not offer", quoted(method))
                });
                self.answer(write::error(id, -32601, "Method not found"));
            }
        }
    }

    fn notification(&self, method: &str, params: &str) {
        match method {
            "notifications/progress" => {
                // Progress of a finished call may still be under way: no error (mcp:PROG-02).
                self.progress.notice(params);
            }
            "notifications/tools/list_changed" => self.listener.list_changed(ListKind::Tools),
            "notifications/prompts/list_changed" => self.listener.list_changed(ListKind::Prompts),
            "notifications/resources/list_changed" => self.listener.list_changed(ListKind::Resources),
            "notifications/resources/updated" => {
                if let Ok(updated) = serde_json::from_str::<Updated>(params) {
                    self.listener.resource_updated(&updated.uri);
                }
            }
            "notifications/message" => self.log(params),
            // Cancelling a request of its own: those are answered at once. Others are unknown (mcp:CAN-04).
            _ => {}
        }
    }

    fn log(&self, params: &str) {
        let Ok(message) = serde_json::from_str::<LogMessage>(params) else {
            self.report(&self.violations, "MESSAGE_INVALID", || {
                "a log message without level or data was dropped".to_owned()
            });
            return;
        };
        let data = message.data.map_or("null", RawValue::get);
        self.listener.log(&message.level, message.logger.as_deref(), data);
    }

    /// Reports the first few findings of a kind; the count goes on.
    fn report(&self, count: &AtomicU64, code: &'static str, message: impl FnOnce() -> String) {
        let seen = count.fetch_add(1, Ordering::Relaxed) + 1;
        if seen < MAX_REPORTS {
            self.listener.misbehaved(code, message());
        } else if seen == MAX_REPORTS {
            self.listener.misbehaved(code, format!("{} (further ones are not reported)", message()));
        }
    }
}

#[derive(Deserialize)]
struct Updated {
    uri: String,
}

#[derive(Deserialize)]
struct LogMessage<'a> {
    level: String,
    #[serde(default)]
    logger: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Text of a server inside a message of ours: cleaned, quoted, short.
fn quoted(text: &str) -> String {
    format!("\"{}\"", super::excerpt(&crate::unicode::clean_str_lossy(text), 100))
}

impl Receiver for Inbound {
    fn message(&self, message: Incoming) {
        match message {
            Incoming::Request { id, method, .. } => self.request(&id, &method),
            Incoming::Notification { method, params } => {
                self.notification(&method, params.as_ref().map_or("{}", |params| params.as_str()));
            }
            Incoming::Response { id, .. } => self.stray(id),
        }
    }

    fn answered(&self, id: u64) {
        self.progress.end(id);
    }

    fn noise(&self, excerpt: &str, why: &str) {
        // Once is enough for people; the count stands in the status (C1).
        if self.noise.fetch_add(1, Ordering::Relaxed) == 0 {
            self.listener.misbehaved(
                "STDOUT_NOISE",
                format!("a line that is no MCP message was skipped ({why}): {excerpt}"),
            );
        }
    }

    fn stray(&self, id: Option<u64>) {
        // Answers to cancelled requests are expected; ids that were never used are not, but nothing waits.
        self.report(&self.strays, "STRAY_RESPONSE", || match id {
            Some(id) => {
                format!("an answer to request {id}, which is not open (late or repeated), was dropped")
            }
            None => "an answer whose id is not a number of ours was dropped".to_owned(),
        });
    }

    fn stderr(&self, line: &str) {
        self.listener.stderr(line);
    }

    fn closed(&self, error: McpError) {
        if !std::mem::replace(&mut *lock(&self.ended), true) {
            self.listener.closed(error);
        }
    }
}
