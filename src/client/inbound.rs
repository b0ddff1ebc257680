//! What a server sends unasked: one door for notifications, requests, noise and the end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::Tables;
use super::input::{CANCEL, Refusal};
use super::login::Logins;
use super::own_tasks::{OwnTasks, wanted_ttl};
use super::progress::Pause;
use crate::error::{Delivery, McpError};
use crate::json_scan;
use crate::jsonrpc::{Incoming, write};
use crate::protocol::task::{of_task, related_task};
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
    /// Something has become of a task.
    fn task_changed(&self, task: &str);
    /// A subscribed resource was updated.
    fn resource_updated(&self, uri: &str);
    /// A log message: level, logger, and `data` as JSON text.
    fn log(&self, level: &str, logger: Option<&str>, data: &str);
    /// A line of standard error.
    fn stderr(&self, line: &str);
    /// Something the server does wrong, with a stable code.
    fn misbehaved(&self, code: &'static str, message: String);
    /// Characters that nobody sees were removed from something of the server's.
    fn hidden(&self, _place: &'static str, _removed: usize) {}
    /// The roots to answer `roots/list` with: JSON text of the `roots` array.
    fn roots(&self) -> String;
    /// The connection ended by itself.
    fn closed(&self, error: McpError);
}

/// Reports of one kind that a server may cause; the rest is counted.
const MAX_REPORTS: u64 = 20;
/// Questions of one server that may be open at a time (B-093).
const MAX_QUESTIONS: usize = 32;
/// Beginning of the keys of tasks of ours among them; no id in JSON begins so.
const TASK: &str = "task ";

/// Requests of the server that are being answered, by id as JSON text.
type Questions = Arc<Mutex<HashMap<String, AbortHandle>>>;

/// The receiving side of a client.
pub struct Inbound {
    listener: Arc<dyn ServerListener>,
    tables: Tables,
    questions: Questions,
    own_tasks: Arc<OwnTasks>,
    stateless: AtomicBool,
    transport: OnceLock<Weak<dyn Transport>>,
    noise: AtomicU64,
    strays: AtomicU64,
    violations: AtomicU64,
    post: AnswerPost,
    ended: Mutex<bool>,
}

/// Delivers answers to what the server asks.
#[derive(Clone)]
struct AnswerPost {
    listener: Arc<dyn ServerListener>,
    tables: Tables,
    lost: Arc<AtomicU64>,
}

impl AnswerPost {
    /// Sends the answer to `method`, logging in where that is asked for. What cannot be delivered is told: whoever waits
    /// for it at the server waits in vain.
    ///
    /// # Errors
    /// Why it could not be delivered.
    async fn deliver(&self, transport: &dyn Transport, method: &str, frame: String) -> Result<(), McpError> {
        let Err(error) = self.send(transport, frame).await else { return Ok(()) };
        let message = format!("the answer to {} could not be delivered: {}", quoted(method), error.message());
        // With the conversation everything of it ends, which is told elsewhere.
        if !self.tables.input.is_over() {
            report(self.listener.as_ref(), &self.lost, "ANSWER_UNDELIVERED", || message.clone());
        }
        let facts = error.facts().clone();
        Err(McpError::new(error.code(), message).caused_by(error).with(|target| {
            *target = facts;
            target.delivered = Some(Delivery::Unknown);
        }))
    }

    /// Once more after a login. No clock of the conversation runs meanwhile: a call may wait for the answer.
    async fn send(&self, transport: &dyn Transport, frame: String) -> Result<(), McpError> {
        let mut logins = Logins::default();
        while let Err(error) = transport.send(frame.clone()).await {
            tokio::select! {
                biased;
                outcome = logins.after(transport, error, || self.tables.progress.pause(None)) => outcome?,
                reason = self.tables.input.ended() => return Err(reason),
            }
            self.tables.input.logged_in();
        }
        Ok(())
    }
}

impl Inbound {
    /// A door to `listener`.
    pub fn new(listener: Arc<dyn ServerListener>, tables: Tables) -> Self {
        let post =
            AnswerPost { listener: Arc::clone(&listener), tables: tables.clone(), lost: Arc::default() };
        Self {
            listener,
            tables,
            post,
            questions: Questions::default(),
            own_tasks: Arc::default(),
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

    /// Answers a request of the server that asks nobody.
    fn answer(&self, method: &str, frame: String) {
        let Some(transport) = self.transport.get().and_then(Weak::upgrade) else { return };
        let (post, method) = (self.post.clone(), method.to_owned());
        runtime::start(async move {
            // Told where it failed.
            let _ = post.deliver(transport.as_ref(), &method, frame).await;
        });
    }

    fn request(&self, id: String, method: &str, params: String) {
        // Nothing is done about it, and no answer written (mcp:BASE-12, mcp:STDIO-05).
        if self.stateless.load(Ordering::Relaxed) {
            return self.report(&self.violations, "REQUEST_REFUSED", || {
                format!("the server asked for {}, though servers of this era ask nothing", quoted(method))
            });
        }
        match method {
            "ping" => self.answer(method, write::result(&id, "{}")),
            "roots/list" => {
                let roots = format!("{{\"roots\":{}}}", self.listener.roots());
                self.answer(method, write::result(&id, &roots));
            }
            "elicitation/create" | "sampling/createMessage" if self.tables.input.serves(method) => {
                match wanted_ttl(&params).filter(|_| self.takes_tasks()) {
                    Some(ttl) => self.question_as_task(&id, method.to_owned(), params, ttl),
                    None => self.question(id, Asked::Host { method: method.to_owned(), params }),
                }
            }
            "tasks/get" | "tasks/result" | "tasks/list" | "tasks/cancel" if self.takes_tasks() => {
                self.question(id, Asked::Task { method: method.to_owned(), params });
            }
            _ => {
                self.report(&self.violations, "REQUEST_REFUSED", || {
                    format!("the server asked for {}, which this host does not offer", quoted(method))
                });
                self.answer(method, write::error(&id, -32601, "Method not found"));
            }
        }
    }

    /// Asks the host in a task of its own; the clocks of open requests stand still meanwhile (F9).
    fn question(&self, id: String, asked: Asked) {
        let mut questions = lock(&self.questions);
        let open = questions.keys().filter(|id| !id.starts_with(TASK)).count();
        if open >= MAX_QUESTIONS || questions.contains_key(&id) {
            drop(questions);
            self.report(&self.violations, "REQUEST_REFUSED", || {
                format!("the server asks too much at once; {} was refused", quoted(asked.method()))
            });
            return self.answer(asked.method(), write::error(&id, -32603, "Too many open requests"));
        }
        let Some(transport) = self.transport.get().cloned() else { return };
        let (post, open, own_id) = (self.post.clone(), Arc::clone(&self.questions), id.clone());
        let own_tasks = Arc::clone(&self.own_tasks);
        let task = runtime::spawn(async move {
            let tables = &post.tables;
            let (frame, askers) = match &asked {
                Asked::Host { method, params } => {
                    let task = related_task(params);
                    let askers = tables.progress.askers(task.as_deref());
                    (answer_question(tables, &own_id, method, (params, task)).await, askers)
                }
                Asked::Task { method, params } => {
                    (own_tasks.answer(&own_id, method, params).await, Vec::new())
                }
            };
            lock(&open).remove(&own_id);
            if let Some(transport) = transport.upgrade()
                && let Err(error) = post.deliver(transport.as_ref(), asked.method(), frame).await
            {
                tables.progress.fail_only(&askers, &error);
            }
        });
        if let Some(task) = task {
            questions.insert(id, task.abort_handle());
        }
    }

    /// Whether requests of the server may run as tasks of ours.
    fn takes_tasks(&self) -> bool {
        self.tables.input.features().takes_tasks()
    }

    /// Asks the host in a task that the server asks about; it hears of the task at once (mcp:TASKL-15).
    fn question_as_task(&self, id: &str, method: String, params: String, ttl: Duration) {
        let Some((task, created)) = self.own_tasks.begin(ttl) else {
            self.report(&self.violations, "REQUEST_REFUSED", || {
                format!("the server has too many tasks of ours; {} was refused", quoted(&method))
            });
            return self.answer(&method, write::error(id, -32603, "Too many tasks"));
        };
        let (tables, own_tasks, own) = (self.tables.clone(), Arc::clone(&self.own_tasks), task.clone());
        // The end of the conversation ends it too, under a key that no request has.
        let (open, key) = (Arc::clone(&self.questions), format!("{TASK}{task}"));
        let (own_key, asked_by) = (key.clone(), method.clone());
        let mut questions = lock(&self.questions);
        let work = runtime::spawn(async move {
            let outcome = outcome_of(&tables, None, &method, &params).await;
            own_tasks.settle(&own, outcome);
            lock(&open).remove(&own_key);
        });
        if let Some(work) = work {
            questions.insert(key, work.abort_handle());
            self.own_tasks.runs_as(&task, work.abort_handle());
        }
        drop(questions);
        self.answer(&asked_by, write::result(id, &created));
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
                if let Some(removed) = self.tables.progress.notice(params).filter(|removed| *removed > 0) {
                    self.listener.hidden("a report of progress", removed);
                }
            }
            "notifications/tools/list_changed" => self.listener.list_changed(ListKind::Tools),
            "notifications/prompts/list_changed" => self.listener.list_changed(ListKind::Prompts),
            "notifications/resources/list_changed" => self.listener.list_changed(ListKind::Resources),
            "notifications/resources/updated" => {
                let [uri] = json_scan::pick(params, ["uri"]);
                if let Some(uri) = uri.and_then(json_scan::decode) {
                    self.listener.resource_updated(&uri);
                }
            }
            "notifications/message" => self.log(params),
            "notifications/tasks/status" | "notifications/tasks" => {
                let [task] = json_scan::pick(params, ["taskId"]);
                if let Some(task) = task.and_then(json_scan::decode) {
                    self.listener.task_changed(&task);
                }
            }
            "notifications/cancelled" => self.cancelled(params),
            "notifications/elicitation/complete" => self.visit_ended(params),
            "notifications/subscriptions/acknowledged" => self.tables.listens.acknowledge(params),
            // Unknown ones mean nothing to us, which is no error.
            _ => {}
        }
    }

    fn log(&self, params: &str) {
        let [level, logger, data] = json_scan::pick(params, ["level", "logger", "data"]);
        let Some(level) = level.and_then(json_scan::decode) else {
            self.report(&self.violations, "MESSAGE_INVALID", || {
                "a log message without a level was dropped".to_owned()
            });
            return;
        };
        let logger = logger.and_then(json_scan::decode);
        self.listener.log(&level, logger.as_deref(), data.unwrap_or("null"));
    }

    fn report(&self, count: &AtomicU64, code: &'static str, message: impl FnOnce() -> String) {
        report(self.listener.as_ref(), count, code, message);
    }
}

/// Reports the first few findings of a kind; the count goes on.
fn report(
    listener: &dyn ServerListener,
    count: &AtomicU64,
    code: &'static str,
    message: impl FnOnce() -> String,
) {
    let seen = count.fetch_add(1, Ordering::Relaxed) + 1;
    if seen < MAX_REPORTS {
        listener.misbehaved(code, message());
    } else if seen == MAX_REPORTS {
        listener.misbehaved(code, format!("{} (further ones are not reported)", message()));
    }
}

/// Completes when nobody needs the answer to a question any more.
async fn moot(tables: &Tables, pause: &Pause) {
    tokio::select! {
        () = pause.abandoned() => {}
        _ = tables.input.ended() => {}
    }
}

/// What the server asks for.
enum Asked {
    /// Something of the host.
    Host { method: String, params: String },
    /// Something about a task of ours.
    Task { method: String, params: String },
}

impl Asked {
    fn method(&self) -> &str {
        match self {
            Asked::Host { method, .. } | Asked::Task { method, .. } => method,
        }
    }
}

/// The frame that answers a request of the server.
async fn answer_question(
    tables: &Tables,
    id: &str,
    method: &str,
    (params, task): (&str, Option<String>),
) -> String {
    match outcome_of(tables, task.as_deref(), method, params).await {
        Ok(result) => match task {
            Some(task) => write::result(id, &of_task(&result, &task)),
            None => write::result(id, &result),
        },
        Err(refusal) => write::error(id, refusal.code(), refusal.message()),
    }
}

/// What the host answers, as long as somebody waits for it.
async fn outcome_of(
    tables: &Tables,
    task: Option<&str>,
    method: &str,
    params: &str,
) -> Result<String, Refusal> {
    let pause = tables.progress.pause(task);
    let host = tables.progress.host(task);
    tokio::select! {
        biased;
        outcome = tables.input.fulfil(host.as_deref(), method, params) => outcome,
        // Every call it may belong to was given up, or the host hangs up: the person need not answer (ELI-04).
        () = moot(tables, &pause) => match method {
            "elicitation/create" => Ok(CANCEL.to_owned()),
            _ => Err(Refusal::Rejected("The request it belongs to was given up".to_owned())),
        },
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
            Incoming::Unreadable { text, reason } => {
                let shown = crate::unicode::clean_str_lossy(&text);
                self.noise(&super::excerpt(&shown, 200), reason);
            }
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
