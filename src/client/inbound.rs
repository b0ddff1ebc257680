//! What a server sends unasked: one door for notifications, requests, noise and the end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use serde::Deserialize;
use serde_json::value::RawValue;

use tokio::task::AbortHandle;

use super::Tables;
use super::input::{CANCEL, Refusal};
use super::progress::Pause;
use crate::error::McpError;
use crate::json_scan;
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
/// Questions of one server that may be open at a time (B-093).
const MAX_QUESTIONS: usize = 32;

/// Requests of the server that are being answered, by id as JSON text.
type Questions = Arc<Mutex<HashMap<String, AbortHandle>>>;

/// The receiving side of a client.
pub struct Inbound {
    listener: Arc<dyn ServerListener>,
    tables: Tables,
    questions: Questions,
    stateless: AtomicBool,
    transport: OnceLock<Weak<dyn Transport>>,
    noise: AtomicU64,
    strays: AtomicU64,
    violations: AtomicU64,
    ended: Mutex<bool>,
}

impl Inbound {
    /// A door to `listener`.
    pub fn new(listener: Arc<dyn ServerListener>, tables: Tables) -> Self {
        Self {
            listener,
            tables,
            questions: Questions::default(),
            stateless: AtomicBool::new(false),
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

    /// The stateless era was agreed on: the server may not ask anything any more.
    pub fn refuse_requests(&self) {
        self.stateless.store(true, Ordering::Relaxed);
    }

    fn answer(&self, frame: String) {
        if let Some(transport) = self.transport.get().and_then(Weak::upgrade) {
            runtime::start(async move {
                // Refused when the server does not read: then it does not wait for answers either.
                let _ = transport.send(frame).await;
            });
        }
    }

    fn request(&self, id: String, method: &str, params: String) {
        let allowed = !self.stateless.load(Ordering::Relaxed);
        match method {
            "ping" => self.answer(write::result(&id, "{}")),
            "roots/list" if allowed => {
                self.answer(write::result(&id, &format!("{{\"roots\":{}}}", self.listener.roots())));
            }
            "elicitation/create" | "sampling/createMessage"
                if allowed && self.tables.input.serves(method) =>
            {
                self.question(id, method.to_owned(), params);
            }
            _ => {
                self.report(&self.violations, "REQUEST_REFUSED", || {
                    format!("the server asked for {}, which this host does not offer", quoted(method))
                });
                self.answer(write::error(&id, -32601, "Method not found"));
            }
        }
    }

    /// Asks the host in a task of its own; the clocks of open requests stand still meanwhile (F9).
    fn question(&self, id: String, method: String, params: String) {
        let mut questions = lock(&self.questions);
        if questions.len() >= MAX_QUESTIONS || questions.contains_key(&id) {
            drop(questions);
            self.report(&self.violations, "REQUEST_REFUSED", || {
                format!("the server asks too much at once; {} was refused", quoted(&method))
            });
            return self.answer(write::error(&id, -32603, "Too many open requests"));
        }
        let Some(transport) = self.transport.get().cloned() else { return };
        let (tables, open, own_id) = (self.tables.clone(), Arc::clone(&self.questions), id.clone());
        let task = runtime::spawn(async move {
            let frame = answer_question(&tables, &own_id, &method, &params).await;
            lock(&open).remove(&own_id);
            if let Some(transport) = transport.upgrade() {
                // Refused when the server does not read: then it does not wait for answers either.
                let _ = transport.send(frame).await;
            }
        });
        if let Some(task) = task {
            questions.insert(id, task.abort_handle());
        }
    }

    /// The server takes a request of its own back, or ends a listen stream (mcp:CAN-05, mcp:SUB-09).
    fn cancelled(&self, params: &str) {
        let [id] = json_scan::pick(params, ["requestId"]);
        if let Some(task) = id.and_then(|id| lock(&self.questions).remove(id)) {
            task.abort();
            return;
        }
        self.tables.listens.cancel(params);
    }

    fn visit_ended(&self, params: &str) {
        let [id] = json_scan::pick(params, ["elicitationId"]);
        if let Some(id) = id.and_then(json_scan::decode) {
            self.tables.input.visit_ended(&id);
        }
    }

    fn notification(&self, method: &str, params: &str) {
        // News of a stream that is not ours is nobody's (mcp:SUB-04).
        if self.stateless.load(Ordering::Relaxed) && self.tables.listens.is_foreign(params) {
            return;
        }
        match method {
            "notifications/progress" => {
                // Progress of a finished call may still be under way: no error (mcp:PROG-02).
                self.tables.progress.notice(params);
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
            "notifications/cancelled" => self.cancelled(params),
            "notifications/elicitation/complete" => self.visit_ended(params),
            "notifications/subscriptions/acknowledged" => self.tables.listens.acknowledge(params),
            // Unknown ones mean nothing to us, which is no error.
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

/// Completes when nobody needs the answer to a question any more.
async fn moot(tables: &Tables, pause: &Pause) {
    tokio::select! {
        () = pause.abandoned() => {}
        _ = tables.input.ended() => {}
    }
}

/// The frame that answers a request of the server.
async fn answer_question(tables: &Tables, id: &str, method: &str, params: &str) -> String {
    let pause = tables.progress.pause();
    let host = tables.progress.host();
    let outcome = tokio::select! {
        biased;
        outcome = tables.input.fulfil(host.as_deref(), method, params) => outcome,
        // Every call it may belong to was given up, or the host hangs up: the person need not answer (ELI-04).
        () = moot(tables, &pause) => match method {
            "elicitation/create" => Ok(CANCEL.to_owned()),
            _ => Err(Refusal::Rejected("The request it belongs to was given up".to_owned())),
        },
    };
    match outcome {
        Ok(result) => write::result(id, &result),
        Err(refusal) => write::error(id, refusal.code(), refusal.message()),
    }
}

/// Text of a server inside a message of ours: cleaned, quoted, short.
fn quoted(text: &str) -> String {
    format!("\"{}\"", super::excerpt(&crate::unicode::clean_str_lossy(text), 100))
}

impl Receiver for Inbound {
    fn message(&self, message: Incoming) {
        match message {
            Incoming::Request { id, method, params } => {
                let params = params.map_or_else(|| "{}".to_owned(), crate::jsonrpc::RawText::into_string);
                self.request(id, &method, params);
            }
            Incoming::Notification { method, params } => {
                self.notification(&method, params.as_ref().map_or("{}", |params| params.as_str()));
            }
            Incoming::Response { id, .. } => self.stray(id),
        }
    }

    fn answered(&self, id: u64) {
        self.tables.progress.end(id);
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
        self.tables.input.end(&error);
        // Nobody is left to be answered: what people were asked is withdrawn (ELI-04).
        for (_, task) in lock(&self.questions).drain() {
            task.abort();
        }
        if !std::mem::replace(&mut *lock(&self.ended), true) {
            self.listener.closed(error);
        }
    }
}
