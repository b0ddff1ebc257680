//! One task at a server, followed to its end: asked about at the pace the server wants, its questions answered, its
//! result fetched, in both eras and over reconnects (BEY-13, mcp:TASKL-*, mcp:TASK-*).
//!
//! Everything that is said about a task comes from `tasks/get`; notifications only make it asked sooner, and seldom where
//! the server has agreed to send them (mcp:TASK-15). Whoever follows a task is alone in doing so.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::{Request, rpc_error};
use crate::connection::Connection;
use crate::connection::task_news::TaskWatch;
use crate::deadline::{Deadline, OwnedHold};
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError};
use crate::host::Host;
use crate::json_scan;
use crate::jsonrpc::write::{Params, push_member};
use crate::jsonrpc::{RawText, RpcError};
use crate::protocol::stateless::InputRequest;
use crate::protocol::task::{Report, TaskState, TaskStatus, poll_wait};
use crate::protocol::version::Era;
use crate::runtime;

/// Failures in a row to ask about a task before it is given up.
const MOST_FAILURES: u32 = 8;
/// Longest wait after such a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Shortest time between two questions, however much news there is.
const SHORTEST: Duration = Duration::from_millis(100);
/// How long a server may take to stop a task that is not wanted any more.
const STOPPING: Duration = Duration::from_secs(10);
/// How often a task is asked about that its server tells of by itself: news may be lost, and silence is no sign of life.
const SELDOM: Duration = Duration::from_secs(60);
/// Questions that one task may have in all (mcp:MRTR-13).
const MOST_QUESTIONS: usize = 256;

/// What there is to know of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// Its id.
    pub id: String,
    /// How far it has come.
    pub status: TaskStatus,
    /// For people.
    pub message: Option<String>,
}

/// The wish that a task should end.
#[derive(Debug, Default)]
pub struct Stop(watch::Sender<bool>);

impl Stop {
    /// It should.
    pub fn ask(&self) {
        self.0.send_replace(true);
    }

    /// Whether it should.
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when it should.
    pub async fn asked(&self) {
        // The sender lives in this very value.
        let _ = self.0.subscribe().wait_for(|asked| *asked).await;
    }
}

/// What following a task needs.
pub struct Following<'a> {
    /// The server.
    pub connection: &'a Connection,
    /// Limits of the whole task; an answer about it is a sign of life.
    pub deadline: &'a Arc<Deadline>,
    /// Who answers its questions; `None` is the connection's own host.
    pub host: Option<&'a Arc<dyn Host>>,
    /// Whether it should end.
    pub stop: &'a Stop,
    /// Hears what becomes of it.
    pub tell: &'a (dyn Fn(TaskView) + Send + Sync),
}

/// The wire result of a task, waited for.
///
/// # Errors
/// `TASK_CANCELLED`, `TASK_LOST`, `TIMEOUT` (the server is told), the error that the task ended with, and whatever the
/// connection fails with for good; `data.taskId` is there in all but the task's own.
pub async fn follow(task: &Following<'_>, first: TaskState) -> Result<String, McpError> {
    let id = first.id.clone();
    let outcome = Run::new(task, &first).run(first).await;
    outcome.map_err(|error| with_task(error, &id).on(task.connection.name()))
}

/// What the server says of a task now.
///
/// # Errors
/// `TASK_LOST` where it does not know it; those of any request.
pub async fn ask_once(connection: &Connection, id: &str) -> Result<TaskState, McpError> {
    let outcome = ask(connection, "tasks/get", id, None).await.and_then(|text| report(text.as_str()));
    outcome.map(|report| report.state).map_err(|error| with_task(known_or_lost(error, None), id))
}

fn with_task(error: McpError, id: &str) -> McpError {
    let data = format!("{{\"taskId\":{}}}", json_scan::quote(id));
    error.with(|facts| {
        if facts.data.is_none() {
            facts.data = RawValue::from_string(data).ok().map(Arc::from);
        }
    })
}

/// A request about a task, with a limit of its own.
async fn ask(
    connection: &Connection,
    method: &str,
    id: &str,
    more: Option<(&str, &str)>,
) -> Result<RawText, McpError> {
    let deadline = Arc::new(Deadline::start(connection.settings().clocks.request(None, None)));
    connection.request(Request::new(method, &params_of(id, more), &deadline)).await
}

fn params_of(id: &str, more: Option<(&str, &str)>) -> Params {
    let mut members = String::new();
    push_member(&mut members, "taskId", &json_scan::quote(id));
    if let Some((name, value)) = more {
        push_member(&mut members, name, value);
    }
    Params::from_members(members, String::new())
}

fn report(answer: &str) -> Result<Report, McpError> {
    Report::read(answer)
        .map_err(|why| McpError::new(ErrorCode::ResultInvalid, format!("the answer to tasks/get {why}")))
}

/// Tells the server that nobody wants the task any more; nobody waits for that.
fn cancel_quietly(connection: &Connection, id: &str) {
    let (connection, id) = (connection.clone(), id.to_owned());
    runtime::spawn(async move {
        // A server that is gone is not started again for this.
        let Some(live) = connection.live() else { return };
        let deadline = Arc::new(Deadline::start(connection.settings().clocks.request(None, None)));
        let params = params_of(&id, None);
        let _ = live.client.request(Request::new("tasks/cancel", &params, &deadline)).await;
    });
}

/// What is under way beside the asking.
enum Side {
    /// A question was answered, or not; with its key.
    Answered(String, Result<String, McpError>),
    /// The answer was delivered; with its key.
    Delivered(String, Result<(), McpError>),
    /// `tasks/result` was answered.
    Result(Result<RawText, McpError>),
    /// `tasks/cancel` was answered.
    Cancelled(Result<RawText, McpError>),
}

/// Whether `tasks/result` is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fetching {
    No,
    Yes,
    /// Refused; not again until the status changes.
    Refused,
}

struct Run<'a> {
    task: &'a Following<'a>,
    id: String,
    watch: TaskWatch,
    side: FuturesUnordered<BoxFuture<'a, Side>>,
    /// What was last told.
    told: Option<(TaskStatus, Option<String>)>,
    status: TaskStatus,
    poll: Option<Duration>,
    ttl: Option<(Instant, Duration)>,
    asked: u32,
    failures: u32,
    fetching: Fetching,
    /// Keys of the questions that were asked of people.
    keys: HashSet<String>,
    open: usize,
    /// Keeps the clocks stopped while people think.
    held: Option<OwnedHold>,
    stopping: Option<Instant>,
    modern: bool,
    odd_told: bool,
}

impl<'a> Run<'a> {
    fn new(task: &'a Following<'a>, first: &TaskState) -> Self {
        Self {
            watch: task.connection.watch_task(&first.id),
            id: first.id.clone(),
            task,
            side: FuturesUnordered::new(),
            told: None,
            status: TaskStatus::Working,
            poll: None,
            ttl: first.ttl.map(|ttl| (Instant::now(), ttl)),
            asked: 0,
            failures: 0,
            fetching: Fetching::No,
            keys: HashSet::new(),
            open: 0,
            held: None,
            stopping: None,
            modern: false,
            odd_told: false,
        }
    }

    async fn run(mut self, first: TaskState) -> Result<String, McpError> {
        if self.is_modern() && first.status.is_some_and(TaskStatus::is_terminal) {
            // What it ended with stands in the next answer.
            self.poll = Some(Duration::ZERO);
        } else {
            self.take(Report { state: first, result: None, error: None, inputs: Vec::new() })?;
        }
        let task = self.task;
        let closed = task.connection.closed();
        tokio::pin!(closed);
        loop {
            let waits_for_result = self.status.is_terminal() && self.fetching == Fetching::Yes;
            let (wait, stopped) = (self.wait(), self.stopping.map(|since| since + STOPPING));
            tokio::select! {
                biased;
                error = &mut closed => return Err(error),
                kind = task.deadline.expired() => {
                    cancel_quietly(task.connection, &self.id);
                    return Err(task.deadline.error(kind, &format!("the task {}", self.id)));
                }
                () = task.stop.asked(), if self.stopping.is_none() => self.stop(),
                Some(side) = self.side.next(), if !self.side.is_empty() => {
                    if let Some(outcome) = self.take_side(side)? {
                        return Ok(outcome);
                    }
                }
                () = until(stopped), if stopped.is_some() => return Err(cancelled()),
                polled = ask_after(task.connection, &self.watch, &self.id, wait), if !waits_for_result => {
                    self.asked = self.asked.saturating_add(1);
                    let outcome = match polled.and_then(|text| report(text.as_str())) {
                        Ok(report) => self.take(report)?,
                        Err(error) => self.failed(error)?,
                    };
                    if let Some(outcome) = outcome {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    /// How long to wait before the next question.
    fn wait(&self) -> Duration {
        if self.failures > 0 {
            return Duration::from_secs(1 << self.failures.min(5)).div_f64(2.0).min(LONGEST_PAUSE);
        }
        let wait = poll_wait(self.poll, self.asked);
        if self.stopping.is_some() {
            wait.min(SHORTEST * 5)
        } else if self.watch.is_told() {
            wait.max(SELDOM.min(self.task.deadline.idle_limit() / 3))
        } else {
            wait
        }
    }

    /// Takes what the server says of the task; the wire result, if it is there.
    fn take(&mut self, report: Report) -> Result<Option<String>, McpError> {
        self.failures = 0;
        self.task.deadline.touch();
        let Report { state, result, error, inputs } = report;
        self.poll = state.poll.or(self.poll);
        let Some(status) = state.status else {
            self.tell_odd();
            return Ok(None);
        };
        // What has ended stays so, whatever is said later.
        if self.status.is_terminal() {
            return Ok(None);
        }
        if status != self.status && self.fetching == Fetching::Refused {
            self.fetching = Fetching::No;
        }
        self.status = status;
        self.tell(status, state.message);
        let modern = self.is_modern();
        match status {
            TaskStatus::Working => self.close_questions(),
            TaskStatus::InputRequired if modern => self.ask_people(inputs)?,
            TaskStatus::InputRequired => self.fetch(),
            TaskStatus::Cancelled => return Err(cancelled()),
            TaskStatus::Completed | TaskStatus::Failed if !modern => self.fetch(),
            TaskStatus::Completed => return completed(result).map(Some),
            TaskStatus::Failed => return Err(self.ended_with(error)),
        }
        Ok(None)
    }

    fn ended_with(&self, error: Option<RpcError>) -> McpError {
        match error {
            Some(error) => rpc_error(&error, "tools/call"),
            None => {
                McpError::new(ErrorCode::RpcError, format!("the task {} failed without saying why", self.id))
            }
        }
    }

    /// Whether the conversation is of the stateless era; while there is none, whether the last one was.
    fn is_modern(&mut self) -> bool {
        if let Some(live) = self.task.connection.live() {
            self.modern = live.client.era() == Era::Modern;
        }
        self.modern
    }

    fn tell(&mut self, status: TaskStatus, message: Option<String>) {
        if self.told.as_ref().is_some_and(|told| told.0 == status && told.1 == message) {
            return;
        }
        self.told = Some((status, message.clone()));
        // The end is told together with the outcome.
        if !status.is_terminal() {
            (self.task.tell)(TaskView { id: self.id.clone(), status, message });
        }
    }

    fn tell_odd(&mut self) {
        if !std::mem::replace(&mut self.odd_told, true) {
            let message = format!("the task {} has a status that the protocol does not know", self.id);
            self.task.connection.diagnose(Diagnostic::warning("TASK_ODD", message));
        }
    }

    /// A question about the task was not answered; `Err` where that is final.
    fn failed(&mut self, error: McpError) -> Result<Option<String>, McpError> {
        let error = known_or_lost(error, self.ttl);
        self.failures += 1;
        if passes(&error) && self.failures < MOST_FAILURES { Ok(None) } else { Err(error) }
    }

    /// Fetches the result; in the handshake era this is also how questions of a task reach us (mcp:TASKL-08).
    fn fetch(&mut self) {
        if self.fetching != Fetching::No {
            return;
        }
        self.fetching = Fetching::Yes;
        let (task, id) = (self.task, self.id.clone());
        self.side.push(Box::pin(async move {
            let params = params_of(&id, None);
            let request = Request {
                host: task.host,
                task: Some(&id),
                ..Request::new("tasks/result", &params, task.deadline)
            };
            Side::Result(task.connection.request(request).await)
        }));
    }

    /// Puts the questions to people that were not put before (mcp:TASK-11); each answer goes out as soon as it is there.
    fn ask_people(&mut self, inputs: Vec<InputRequest>) -> Result<(), McpError> {
        let Some(live) = self.task.connection.live() else { return Ok(()) };
        for input in inputs {
            if !self.keys.insert(input.key.clone()) {
                continue;
            }
            if self.keys.len() > MOST_QUESTIONS {
                cancel_quietly(self.task.connection, &self.id);
                let message = format!("the task {} asked more than {MOST_QUESTIONS} questions", self.id);
                return Err(McpError::new(ErrorCode::ElicitationLimit, message));
            }
            self.open += 1;
            self.held.get_or_insert_with(|| self.task.deadline.hold_owned());
            let (client, host, key) = (Arc::clone(&live.client), self.task.host, input.key.clone());
            self.side.push(Box::pin(async move { Side::Answered(key, client.answer(host, &input).await) }));
        }
        Ok(())
    }

    /// The server has gone on without waiting for answers.
    fn close_questions(&mut self) {
        self.held = None;
    }

    fn answered(&mut self) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            self.held = None;
            self.task.deadline.touch();
        }
    }

    fn take_side(&mut self, side: Side) -> Result<Option<String>, McpError> {
        match side {
            Side::Answered(key, Ok(answer)) => {
                self.answered();
                let (connection, id) = (self.task.connection, self.id.clone());
                self.side.push(Box::pin(async move {
                    // The key is a literal already.
                    let inputs = format!("{{{key}:{answer}}}");
                    let outcome =
                        ask(connection, "tasks/update", &id, Some(("inputResponses", &inputs))).await;
                    Side::Delivered(key, outcome.map(drop))
                }));
            }
            Side::Answered(key, Err(error)) if passes(&error) => {
                // The conversation ended before the answer was there: it is asked again in the next one.
                self.answered();
                self.keys.remove(&key);
            }
            Side::Answered(_, Err(error)) => {
                cancel_quietly(self.task.connection, &self.id);
                return Err(error);
            }
            Side::Delivered(_, Ok(())) => {}
            Side::Delivered(key, Err(error)) => {
                let outcome = self.failed(error)?;
                // Not known to have arrived: the server says whether it still asks.
                self.keys.remove(&key);
                return Ok(outcome);
            }
            Side::Result(Ok(result)) => return Ok(Some(result.into_string())),
            Side::Result(Err(error)) => return self.no_result(error),
            Side::Cancelled(outcome) => return self.stopped(outcome),
        }
        Ok(None)
    }

    fn no_result(&mut self, error: McpError) -> Result<Option<String>, McpError> {
        let refused = error.code() == ErrorCode::RpcError;
        match self.status {
            // The result of a failed task is its error (mcp:TASKL-18).
            TaskStatus::Failed if refused => Err(error),
            TaskStatus::Completed if refused => Err(known_or_lost(error, self.ttl)),
            // Asked too early: the status tells when to try again.
            _ if refused => {
                self.fetching = Fetching::Refused;
                Ok(None)
            }
            status => {
                let outcome = self.failed(error)?;
                self.fetching = Fetching::No;
                if status.is_terminal() {
                    self.status = TaskStatus::Working;
                }
                Ok(outcome)
            }
        }
    }

    fn stop(&mut self) {
        self.stopping = Some(Instant::now());
        self.held = None;
        let (connection, id) = (self.task.connection, self.id.clone());
        self.side
            .push(Box::pin(async move { Side::Cancelled(ask(connection, "tasks/cancel", &id, None).await) }));
    }

    fn stopped(&mut self, outcome: Result<RawText, McpError>) -> Result<Option<String>, McpError> {
        match outcome {
            // In the handshake era the answer is the task itself.
            Ok(answer) => match report(answer.as_str()) {
                Ok(report) => self.take(report),
                Err(_) => Ok(None),
            },
            Err(error) if error.code() == ErrorCode::CapabilityMissing => {
                let message = format!("the task {} goes on: the server cannot cancel", self.id);
                self.task.connection.diagnose(Diagnostic::info("TASK_NOT_CANCELLED", message));
                Err(cancelled())
            }
            // It may have ended meanwhile: the next question tells.
            Err(_) => Ok(None),
        }
    }
}

/// Asks about a task after a while, or as soon as there is news of it.
async fn ask_after(
    connection: &Connection,
    watch: &TaskWatch,
    id: &str,
    wait: Duration,
) -> Result<RawText, McpError> {
    let first = wait.min(SHORTEST);
    tokio::time::sleep(first).await;
    tokio::select! {
        () = watch.changed() => {}
        () = tokio::time::sleep(wait.saturating_sub(first)) => {}
    }
    ask(connection, "tasks/get", id, None).await
}

fn completed(result: Option<String>) -> Result<String, McpError> {
    result.ok_or_else(|| McpError::new(ErrorCode::ResultInvalid, "the task is completed but has no result"))
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The error of a task that was given up.
pub fn cancelled() -> McpError {
    McpError::new(ErrorCode::TaskCancelled, "the task was cancelled")
}

/// A server that does not know a task says so by −32602 (mcp:TASK-18).
fn known_or_lost(error: McpError, ttl: Option<(Instant, Duration)>) -> McpError {
    let unknown = error.code() == ErrorCode::RpcError
        && matches!(error.facts().rpc_code, Some(-32602 | -32001 | -32002));
    if !unknown {
        return error;
    }
    let why = match ttl {
        Some((since, ttl)) if since.elapsed() >= ttl => {
            format!("; it was to be kept for {} ms, which are over", ttl.as_millis())
        }
        _ => String::new(),
    };
    McpError::new(ErrorCode::TaskLost, format!("the server does not know the task{why}")).caused_by(error)
}

/// Whether asking again may help.
fn passes(error: &McpError) -> bool {
    match error.code() {
        ErrorCode::RpcError => error.facts().rpc_code != Some(-32601),
        ErrorCode::ConnectFailed
        | ErrorCode::ConnectTimeout
        | ErrorCode::ConnectionLost
        | ErrorCode::ServerExited
        | ErrorCode::SessionExpired
        | ErrorCode::CircuitOpen
        | ErrorCode::HttpStatus
        | ErrorCode::TransportBackpressure
        | ErrorCode::ResultInvalid
        | ErrorCode::Timeout => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rpc(code: i64) -> McpError {
        McpError::new(ErrorCode::RpcError, "").with(|facts| facts.rpc_code = Some(code))
    }

    /// mcp:TASK-18
    #[test]
    fn task_18_an_unknown_task_is_lost_and_says_why() {
        let lost = known_or_lost(rpc(-32602), None);
        assert_eq!(lost.code(), ErrorCode::TaskLost);
        let over = known_or_lost(rpc(-32602), Some((Instant::now(), Duration::ZERO)));
        assert!(over.message().contains("are over"), "{}", over.message());
        assert_eq!(known_or_lost(rpc(-32603), None).code(), ErrorCode::RpcError);
    }

    #[test]
    fn bey_13_which_failures_may_pass() {
        for code in [ErrorCode::ConnectionLost, ErrorCode::ServerExited, ErrorCode::Timeout] {
            assert!(passes(&McpError::new(code, "")), "{code}");
        }
        for code in [
            ErrorCode::RetriesExhausted,
            ErrorCode::ManagerClosed,
            ErrorCode::TaskLost,
            ErrorCode::SpawnFailed,
        ] {
            assert!(!passes(&McpError::new(code, "")), "{code}");
        }
        assert!(passes(&rpc(-32603)) && !passes(&rpc(-32601)));
    }

    #[test]
    fn bey_13_the_id_of_the_task_stands_in_its_errors() {
        let error = with_task(cancelled(), "a\"b");
        assert_eq!(error.facts().data.as_ref().map(|data| data.get()), Some(r#"{"taskId":"a\"b"}"#));
    }
}
