//! Progress tokens: which request a sign of life belongs to (PRO-08, C5).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use tokio::sync::{Notify, oneshot};

use super::Request;
use crate::deadline::{Deadline, OwnedHold};
use crate::error::McpError;
use crate::host::Host;
use crate::json_scan;
use crate::jsonrpc::read::our_id;
use crate::protocol::stateless;
use crate::runtime::lock;
use crate::unicode;

/// One progress notification as callers see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Progress {
    /// How far; rises within a request.
    pub progress: f64,
    /// Of how much, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done, cleaned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Who hears of progress.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

struct Watched {
    deadline: Arc<Deadline>,
    sink: Option<ProgressSink>,
    last: f64,
    /// Whether a server may have questions because of it.
    may_ask: bool,
    /// Who answers them, if not the connection's own host.
    host: Option<Arc<dyn Host>>,
    /// The task it has become, or waits for.
    task: Option<String>,
    /// Its token outlives its answer.
    lingers: bool,
    /// Fails it.
    fail: Option<oneshot::Sender<McpError>>,
}

impl Watched {
    /// Whether it belongs to the task, where one is meant.
    fn belongs_to(&self, task: Option<&str>) -> bool {
        task.is_none() || self.task.as_deref() == task
    }

    /// Whether a question of the server may be because of it.
    fn asks(&self, task: Option<&str>) -> bool {
        self.belongs_to(task) && (self.may_ask || self.task.is_some())
    }
}

/// The task, if any of the requests belongs to it.
fn known_task<'a>(watched: &HashMap<u64, Watched>, task: Option<&'a str>) -> Option<&'a str> {
    task.filter(|task| watched.values().any(|entry| entry.task.as_deref() == Some(task)))
}

/// The requests that may make progress.
#[derive(Default)]
pub struct ProgressTable {
    watched: Mutex<HashMap<u64, Watched>>,
    pauses: Mutex<Pauses>,
}

/// Questions of the server to people while requests are open.
#[derive(Default)]
struct Pauses {
    next: u64,
    open: HashMap<u64, PauseScope>,
}

/// The requests a question may belong to: the protocol does not say which one it is.
struct PauseScope {
    requests: HashSet<u64>,
    abandoned: Arc<Notify>,
}

impl fmt::Debug for ProgressTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressTable").field("watched", &lock(&self.watched).len()).finish_non_exhaustive()
    }
}

/// `params` of `notifications/progress`, as far as it concerns us.
struct Notice {
    token: u64,
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

impl Notice {
    /// `None` without a token of ours or a number; the rest may be missing or be anything.
    fn read(params: &str) -> Option<Self> {
        let [token, progress, total, message] =
            json_scan::pick(params, ["progressToken", "progress", "total", "message"]);
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        Some(Self {
            token: our_id(token?)?,
            progress: number(progress?)?,
            total: total.and_then(number),
            message: message.and_then(json_scan::decode).map(Cow::into_owned),
        })
    }
}

impl ProgressTable {
    /// Whether no request is under way.
    pub fn is_empty(&self) -> bool {
        lock(&self.watched).is_empty()
    }

    /// Watches a request until the guard is dropped: nothing is delivered after its end (mcp:PROG-04).
    pub fn watch(self: &Arc<Self>, id: u64, request: &Request<'_>) -> WatchGuard {
        let (fail, failed) = oneshot::channel();
        let entry = Watched {
            fail: Some(fail),
            deadline: Arc::clone(request.deadline),
            sink: request.progress.cloned(),
            last: f64::NEG_INFINITY,
            may_ask: stateless::may_ask(request.method),
            host: request.host.cloned(),
            task: request.task.map(str::to_owned),
            lingers: request.lingering.is_some(),
        };
        lock(&self.watched).insert(id, entry);
        WatchGuard { table: Arc::clone(self), id, answered: false, failed }
    }

    /// The requests that a question of the server may belong to.
    pub fn askers(&self, task: Option<&str>) -> Vec<u64> {
        let watched = lock(&self.watched);
        let task = known_task(&watched, task);
        watched.iter().filter(|(_, entry)| entry.asks(task)).map(|(id, _)| *id).collect()
    }

    /// Fails the one of these requests that is still open: it waits for what it will never get. Nothing happens where
    /// there are several, since nobody knows which one does.
    pub fn fail_only(&self, ids: &[u64], error: &McpError) {
        let mut watched = lock(&self.watched);
        let mut open = ids.iter().filter(|id| watched.contains_key(id));
        let only = open.next().filter(|_| open.next().is_none()).and_then(|id| watched.get_mut(id));
        if let Some(fail) = only.and_then(|entry| entry.fail.take()) {
            // It may have been answered in this very moment.
            let _ = fail.send(error.clone());
        }
    }

    /// Who answers a question of the server, if not the connection's own host. Unless it names its task, the protocol
    /// does not say which request it belongs to: only where all that it may belong to have the same host, that one is
    /// asked (BEY-01).
    pub fn host(&self, task: Option<&str>) -> Option<Arc<dyn Host>> {
        let watched = lock(&self.watched);
        let task = known_task(&watched, task);
        let asking = watched.values().filter(|entry| entry.asks(task));
        let mut hosts = asking.map(|entry| entry.host.as_ref());
        let first = hosts.next()??;
        hosts.all(|other| other.is_some_and(|other| Arc::ptr_eq(first, other))).then(|| Arc::clone(first))
    }

    /// Stops the clocks of every open request while a person answers a question of the server (PRO-06, F9); only those
    /// of its task where it names one.
    pub fn pause(self: &Arc<Self>, task: Option<&str>) -> Pause {
        let watched = lock(&self.watched);
        let task = known_task(&watched, task);
        let concerned = || watched.iter().filter(|(_, entry)| entry.belongs_to(task));
        let holds = concerned().map(|(_, entry)| entry.deadline.hold_owned()).collect();
        let requests = concerned().map(|(id, _)| *id).collect();
        let abandoned = Arc::new(Notify::new());
        let mut pauses = lock(&self.pauses);
        let number = pauses.next;
        pauses.next += 1;
        pauses.open.insert(number, PauseScope { requests, abandoned: Arc::clone(&abandoned) });
        // Only now: a request that ends in between must find the question.
        drop(watched);
        Pause { table: Arc::clone(self), number, abandoned, _holds: holds }
    }

    /// A request has ended; a question whose last request was given up is moot (ELI-04).
    fn leave(&self, id: u64, answered: bool) {
        lock(&self.watched).remove(&id);
        for scope in lock(&self.pauses).open.values_mut() {
            if scope.requests.remove(&id) && scope.requests.is_empty() && !answered {
                scope.abandoned.notify_one();
            }
        }
    }

    /// Ends the watching of a request whose answer has come, unless its token outlives that.
    pub fn end(&self, id: u64) {
        if !lock(&self.watched).get(&id).is_some_and(|entry| entry.lingers) {
            self.leave(id, true);
        }
    }

    /// Takes a notification; how many characters were removed from its message, `None` when its token belongs to no
    /// open request.
    pub fn notice(&self, params: &str) -> Option<usize> {
        let notice = Notice::read(params)?;
        let mut watched = lock(&self.watched);
        let entry = watched.get_mut(&notice.token)?;
        entry.deadline.touch();
        // A value that does not rise keeps the call alive but is not shown (mcp:PROG-03).
        if notice.progress <= entry.last {
            return Some(0);
        }
        entry.last = notice.progress;
        let Some(sink) = entry.sink.clone() else { return Some(0) };
        let message = notice.message.map(|text| unicode::clean_counted(&text));
        let removed = message.as_ref().map_or(0, |(_, removed)| *removed);
        // Called under the lock, so that nothing is delivered once the guard is gone.
        sink(Progress {
            progress: notice.progress,
            total: notice.total,
            message: message.map(|(text, _)| text),
        });
        Some(removed)
    }
}

/// Ends the watching of one request.
#[derive(Debug)]
pub struct WatchGuard {
    table: Arc<ProgressTable>,
    id: u64,
    answered: bool,
    failed: oneshot::Receiver<McpError>,
}

impl WatchGuard {
    /// Completes when the server will never hear what it asked because of the request.
    pub async fn unanswerable(&mut self) -> McpError {
        match (&mut self.failed).await {
            Ok(error) => error,
            Err(_) => std::future::pending().await,
        }
    }

    /// The request was answered: it is not given up.
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.table.leave(self.id, self.answered);
    }
}

/// Keeps the progress token of a request that became a task until that has ended (mcp:TASKL-12).
#[derive(Debug, Default)]
pub struct Lingering(Mutex<Option<WatchGuard>>);

impl Lingering {
    pub(super) fn keep(&self, guard: WatchGuard) {
        *lock(&self.0) = Some(guard);
    }

    /// The request has become this task.
    pub fn name(&self, task: &str) {
        if let Some(guard) = &*lock(&self.0)
            && let Some(entry) = lock(&guard.table.watched).get_mut(&guard.id)
        {
            entry.task = Some(task.to_owned());
        }
    }

    /// It was answered once and for all.
    pub fn answered(&self) {
        if let Some(guard) = lock(&self.0).take() {
            guard.answered();
        }
    }
}

/// Keeps the clocks of the requests that were open stopped.
#[derive(Debug)]
pub struct Pause {
    table: Arc<ProgressTable>,
    number: u64,
    abandoned: Arc<Notify>,
    _holds: Vec<OwnedHold>,
}

impl Pause {
    /// Completes when every request that was open was given up. Never, where none was open.
    pub async fn abandoned(&self) {
        self.abandoned.notified().await;
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        lock(&self.table.pauses).open.remove(&self.number);
    }
}
