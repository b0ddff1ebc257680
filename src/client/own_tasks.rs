//! Requests of a server that it wants to run as tasks of ours: a form or a model's words, asked for now and fetched
//! later (2025-11-25 only, mcp:TASKL-15). Owns these tasks; what they ask for is answered where every question is.
//!
//! They belong to one conversation and end with it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::input::Refusal;
use crate::json_scan::{self, Kind};
use crate::jsonrpc::write::{self, push_member};
use crate::protocol::task::{TaskStatus, of_task};
use crate::runtime::{lock, rfc3339, unix_millis};

/// Tasks of one server that may be known at a time.
const MOST: usize = 64;
/// How long a task is kept where the server does not say, and at most.
const TTL: (Duration, Duration) = (Duration::from_secs(5 * 60), Duration::from_secs(60 * 60));
/// How often a server should ask.
const POLL_MILLIS: u64 = 500;

/// What became of a request.
type Outcome = Result<String, Refusal>;

struct OwnTask {
    created: u64,
    changed: u64,
    ttl: Duration,
    since: Instant,
    /// `None` while it works; a task that was cancelled has no outcome but that.
    outcome: watch::Sender<Option<Outcome>>,
    cancelled: bool,
    work: Option<AbortHandle>,
}

impl OwnTask {
    fn status(&self) -> TaskStatus {
        match &*self.outcome.borrow() {
            _ if self.cancelled => TaskStatus::Cancelled,
            None => TaskStatus::Working,
            Some(Ok(_)) => TaskStatus::Completed,
            Some(Err(_)) => TaskStatus::Failed,
        }
    }

    fn describe(&self, id: &str) -> String {
        let quoted = json_scan::quote;
        let mut members = String::new();
        for (name, value) in [
            ("taskId", quoted(id)),
            ("status", quoted(self.status().as_str())),
            ("createdAt", quoted(&rfc3339(self.created))),
            ("lastUpdatedAt", quoted(&rfc3339(self.changed))),
            ("ttl", self.ttl.as_millis().to_string()),
            ("pollInterval", POLL_MILLIS.to_string()),
        ] {
            push_member(&mut members, name, &value);
        }
        format!("{{{members}}}")
    }

    /// Whether its time is over; a task at work is kept however long people take.
    fn is_over(&self) -> bool {
        self.status().is_terminal() && self.since.elapsed() > self.ttl
    }
}

/// The tasks of one conversation.
#[derive(Default)]
pub(super) struct OwnTasks {
    tasks: Mutex<HashMap<String, OwnTask>>,
}

/// How long the server wants a task to be kept, where it wants its request to be one.
pub(super) fn wanted_ttl(params: &str) -> Option<Duration> {
    let [task] = json_scan::pick(params, ["task"]);
    let task = task.filter(|task| json_scan::kind(task) == Kind::Object)?;
    let [ttl] = json_scan::pick(task, ["ttl"]);
    let wanted = ttl.and_then(|ttl| ttl.parse::<f64>().ok()).filter(|ttl| ttl.is_finite() && *ttl >= 0.0);
    Some(wanted.map_or(TTL.0, |ttl| Duration::from_secs_f64((ttl / 1_000.0).min(TTL.1.as_secs_f64()))))
}

impl OwnTasks {
    /// A new task: its id and the JSON text of a `CreateTaskResult`; `None` where there are too many.
    pub(super) fn begin(&self, ttl: Duration) -> Option<(String, String)> {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|_, task| !task.is_over());
        if tasks.len() >= MOST {
            return None;
        }
        let id = random_id()?;
        let now = unix_millis();
        let task = OwnTask {
            created: now,
            changed: now,
            ttl,
            since: Instant::now(),
            outcome: watch::Sender::new(None),
            cancelled: false,
            work: None,
        };
        let created = format!("{{\"task\":{}}}", task.describe(&id));
        tasks.insert(id.clone(), task);
        Some((id, created))
    }

    /// What ends a task when it is cancelled.
    pub(super) fn runs_as(&self, id: &str, work: AbortHandle) {
        if let Some(task) = lock(&self.tasks).get_mut(id) {
            task.work = Some(work);
        }
    }

    /// A task has ended; the first end counts.
    pub(super) fn settle(&self, id: &str, outcome: Outcome) {
        if let Some(task) = lock(&self.tasks).get_mut(id)
            && !task.status().is_terminal()
        {
            task.changed = unix_millis();
            task.outcome.send_replace(Some(outcome));
        }
    }

    /// The answer to a `tasks/*` request of the server: a frame.
    pub(super) async fn answer(&self, request: &str, method: &str, params: &str) -> String {
        if method == "tasks/list" {
            return write::result(request, &self.list());
        }
        let [id] = json_scan::pick(params, ["taskId"]);
        let id = id.and_then(json_scan::decode).unwrap_or_default();
        match method {
            "tasks/get" => {
                let found = lock(&self.tasks).get(&*id).map(|task| task.describe(&id));
                found.map_or_else(|| unknown(request), |task| write::result(request, &task))
            }
            "tasks/cancel" => self.cancel(request, &id),
            _ => self.result(request, &id).await,
        }
    }

    fn list(&self) -> String {
        let tasks = lock(&self.tasks);
        let all: Vec<String> = tasks.iter().map(|(id, task)| task.describe(id)).collect();
        format!("{{\"tasks\":[{}]}}", all.join(","))
    }

    fn cancel(&self, request: &str, id: &str) -> String {
        let mut tasks = lock(&self.tasks);
        let Some(task) = tasks.get_mut(id) else { return unknown(request) };
        if task.status().is_terminal() {
            return write::error(request, -32602, "The task has ended already");
        }
        // Dropped with its question: people are not asked any more (ELI-04).
        if let Some(work) = task.work.take() {
            work.abort();
        }
        task.cancelled = true;
        task.changed = unix_millis();
        let refusal = Refusal::Rejected("The task was cancelled".to_owned());
        task.outcome.send_replace(Some(Err(refusal)));
        write::result(request, &task.describe(id))
    }

    /// Waits for the end of a task: exactly what the request itself would have been answered with.
    async fn result(&self, request: &str, id: &str) -> String {
        let outcome = lock(&self.tasks).get(id).map(|task| task.outcome.subscribe());
        let Some(mut outcome) = outcome else { return unknown(request) };
        let ended = outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        match ended {
            Some(Ok(result)) => write::result(request, &of_task(&result, id)),
            Some(Err(refusal)) => write::error(request, refusal.code(), refusal.message()),
            None => unknown(request),
        }
    }
}

fn unknown(request: &str) -> String {
    write::error(request, -32602, "Task not found")
}

/// Nobody can guess it.
fn random_id() -> Option<String> {
    let mut bytes = [0_u8; 16];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(format!("{:032x}", u128::from_be_bytes(bytes)))
}
