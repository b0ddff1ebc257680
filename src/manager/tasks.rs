//! Calls in the background: tasks of servers that have such, calls of ours where they have none; one handle for both
//! (BEY-13). Owns the table of what was started; each call is run by a task of its own until it has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::Manager;
use super::finding::{ToolTarget, shown};
use super::registry::ToolKind;
use super::span::End;
use super::tools::{Call, CallOptions, CallOutcome, Called, Prepared, timed};
use super::view::View;
use crate::call::output::MappedResult;
use crate::call::task::{Following, Stop, TaskView, ask_once, cancelled, follow};
use crate::client::pages::read_all;
use crate::client::progress::Lingering;
use crate::connection::{Connection, Live};
use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError};
use crate::host::{Host, HostEvent};
use crate::json_scan;
use crate::jsonrpc::write::push_member;
use crate::protocol::task::{Created, TaskState, TaskStatus};
use crate::protocol::tool::TaskSupport;
use crate::protocol::version::Era;
use crate::runtime::{self, lock};

/// Calls in the background that may be known at a time.
const MOST_TASKS: usize = 1_000;
/// A server that takes longer to say whether a call becomes a task gets a handle of ours meanwhile.
const PROMPTLY: Duration = Duration::from_secs(5);

/// Calls in the background, by handle.
#[derive(Default)]
pub(super) struct Tasks {
    next: u32,
    known: HashMap<u32, Arc<Running>>,
}

type Outcome = Result<CallOutcome, McpError>;

/// A call in the background.
struct Running {
    handle: u32,
    server: Arc<str>,
    of: Called,
    view: Mutex<TaskView>,
    /// What the server says that the model may be given meanwhile.
    immediate: Mutex<Option<String>>,
    /// Whether it is settled who runs it.
    begun: watch::Sender<bool>,
    outcome: watch::Sender<Option<Arc<Outcome>>>,
    stop: Stop,
}

impl Running {
    fn names(&self) -> (&str, &str) {
        match &self.of {
            Called::Tool(entry) => (&entry.definition().wire_name, &entry.full_name),
            Called::Unknown(_) => ("", ""),
        }
    }

    /// JSON text for the handle.
    fn describe(&self) -> String {
        let (tool, full_name) = self.names();
        let view = lock(&self.view).clone();
        let mut members = String::new();
        push_member(&mut members, "handle", &self.handle.to_string());
        for (name, value) in [
            ("server", &*self.server),
            ("tool", tool),
            ("fullName", full_name),
            ("taskId", &view.id),
            ("status", view.status.as_str()),
        ] {
            push_member(&mut members, name, &json_scan::quote(value));
        }
        for (name, value) in
            [("statusMessage", view.message), ("immediateResponse", lock(&self.immediate).clone())]
        {
            if let Some(value) = value {
                push_member(&mut members, name, &json_scan::quote(&value));
            }
        }
        push_member(&mut members, "done", if self.outcome.borrow().is_some() { "true" } else { "false" });
        format!("{{{members}}}")
    }

    /// Waits for the outcome.
    async fn outcome(&self) -> Arc<Outcome> {
        let mut outcome = self.outcome.subscribe();
        let found = outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        // The sender lives in this very value.
        found.unwrap_or_else(|| Arc::new(Err(cancelled())))
    }
}

/// Ends a call in the background when whoever started it gives up.
struct StopOnDrop(Option<Arc<Running>>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(running) = &self.0 {
            running.stop.ask();
        }
    }
}

/// Ends a call whose run ends without a word (a defect): nobody waits for ever.
struct Ending<'a> {
    manager: &'a Manager,
    running: &'a Running,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if self.running.outcome.borrow().is_none() {
            let error =
                McpError::new(ErrorCode::Internal, "a call in the background ended without an answer");
            self.manager.settle_task(self.running, Err(error));
        }
    }
}

impl Manager {
    /// Starts a call in the background: as a task where the server can, else as a call of this process. JSON text of
    /// its description.
    ///
    /// # Errors
    /// As [`Manager::call_tool`] until it has begun; `LIST_LIMIT` for too many of them.
    pub async fn start_tool(
        &self,
        target: &ToolTarget,
        arguments: String,
        options: CallOptions,
        ttl: Option<Duration>,
    ) -> Result<String, McpError> {
        let span = options.span.clone();
        let refused = |error: &McpError| {
            if let Some(span) = &span {
                span.end(End::Error(error));
            }
        };
        let call = self.prepare(target, arguments, options).await.inspect_err(refused)?;
        let server = Arc::from(call.entry.connection.name());
        let running = self.add_task(server, Called::Tool(Arc::clone(&call.entry)), None)?;
        let mut guard = StopOnDrop(Some(Arc::clone(&running)));
        self.run_in_background(call, &running, ttl);
        let mut begun = running.begun.subscribe();
        let _ = tokio::time::timeout(PROMPTLY, begun.wait_for(|begun| *begun)).await;
        guard.0 = None;
        if !*running.begun.borrow()
            && let Some(outcome) = running.outcome.borrow().clone()
            && let Err(error) = &*outcome
        {
            self.forget_task(running.handle);
            return Err(error.clone());
        }
        Ok(running.describe())
    }

    /// Whether a plain call of the tool has to be made as a task (mcp:TASKL-03, TASKL-05).
    pub(super) async fn must_be_a_task(&self, call: &Prepared) -> Result<bool, McpError> {
        if call.entry.kind != ToolKind::OfServer
            || call.entry.definition().task_support != TaskSupport::Required
        {
            return Ok(false);
        }
        let live = call.entry.connection.ready(&call.deadline, None).await?;
        Ok(augments(&live.client, TaskSupport::Required))
    }

    /// A plain call that is a task at the server: the caller waits for its end (mcp:TASK-21).
    pub(super) async fn call_as_task(&self, call: Prepared) -> Result<CallOutcome, McpError> {
        let server = Arc::from(call.entry.connection.name());
        let running = Arc::new(new_running(0, server, Called::Tool(Arc::clone(&call.entry)), None));
        let mut guard = StopOnDrop(Some(Arc::clone(&running)));
        self.run_in_background(call, &running, None);
        let outcome = running.outcome().await;
        guard.0 = None;
        (*outcome).clone()
    }

    fn run_in_background(&self, call: Prepared, running: &Arc<Running>, ttl: Option<Duration>) {
        let (manager, running) = (self.this.upgrade(), Arc::clone(running));
        runtime::spawn(async move {
            let Some(manager) = manager else { return };
            let _ending = Ending { manager: &manager, running: &running };
            let outcome = manager.run_task(&call, &running, ttl).await;
            let outcome = manager.finish(call, outcome);
            manager.settle_task(&running, outcome);
        });
    }

    async fn run_task(
        &self,
        call: &Prepared,
        running: &Running,
        ttl: Option<Duration>,
    ) -> Result<MappedResult, McpError> {
        let entry = &call.entry;
        let outcome = self.task_reply(call, running, ttl).await;
        let reply = outcome.map_err(|error| timed(error, &call.deadline))?;
        runtime::at_length(reply.len(), || self.map_tool_result(Some(entry), &entry.connection, reply))
    }

    /// The wire result of a call in the background, however it is run.
    async fn task_reply(
        &self,
        call: &Prepared,
        running: &Running,
        ttl: Option<Duration>,
    ) -> Result<String, McpError> {
        let entry = &call.entry;
        if entry.kind != ToolKind::OfServer {
            running.begun.send_replace(true);
            return stoppable(&running.stop, self.run_resource_tool(&call.call(), call.sent())).await;
        }
        let ready = entry.connection.ready(&call.deadline, None);
        let live = stoppable(&running.stop, ready).await?;
        let augmented = augments(&live.client, entry.definition().task_support);
        let may_be_a_task = augmented || (live.client.era() == Era::Modern && live.client.offers_tasks());
        if !may_be_a_task {
            // Nothing the server says will make a task of it: it runs here.
            running.begun.send_replace(true);
        }
        let lingering = Lingering::default();
        let mut request = call.call();
        let mut params = self.tool_params(entry, call.sent(), call.options.meta.as_deref());
        if augmented {
            request.lingering = Some(&lingering);
            params = params.and(&task_member(ttl));
        }
        let reply = self.send_tool_call(&request, &params);
        // What may already be a task is not taken back but cancelled by its id, once that is known (mcp:CAN-06).
        let (reply, live) = if augmented { reply.await? } else { stoppable(&running.stop, reply).await? };
        let reply = reply.into_string();
        let Some(created) = created(&reply, &live, augmented)? else {
            running.begun.send_replace(true);
            return Ok(reply);
        };
        lingering.name(&created.state.id);
        self.task_begun(running, &created);
        let reply = self.follow_task(&request, running, created.state).await?;
        lingering.answered();
        Ok(reply)
    }

    async fn follow_task(
        &self,
        call: &Call<'_>,
        running: &Running,
        state: TaskState,
    ) -> Result<String, McpError> {
        let host = View::host(call.view);
        let tell = |view: TaskView| self.task_told(running, view);
        let following = Following {
            connection: &call.entry.connection,
            deadline: call.deadline,
            host: host.as_ref(),
            stop: &running.stop,
            tell: &tell,
        };
        tokio::select! {
            biased;
            outcome = follow(&following, state) => outcome,
            never = self.report_long_call(call.entry, call.deadline) => match never {},
        }
    }

    /// The reply to a plain call, or what the task came to that the server made of it (mcp:TASK-21).
    pub(super) async fn waited_for(
        &self,
        call: &Call<'_>,
        reply: String,
        live: &Live,
    ) -> Result<String, McpError> {
        let connection = &call.entry.connection;
        let Some(created) = created(&reply, live, false)? else { return Ok(reply) };
        let server = Arc::from(connection.name());
        let running = Arc::new(new_running(0, Arc::clone(&server), Called::Unknown(server), None));
        let (connection, deadline) = (connection.clone(), Arc::clone(call.deadline));
        let host = View::host(call.view);
        let followed = Arc::clone(&running);
        let mut guard = StopOnDrop(Some(Arc::clone(&running)));
        // A task of its own, so that it can still be cancelled when the caller is gone.
        let task = runtime::spawn(async move {
            let following = Following {
                connection: &connection,
                deadline: &deadline,
                host: host.as_ref(),
                stop: &followed.stop,
                tell: &|_| {},
            };
            follow(&following, created.state).await
        });
        let broken = || McpError::new(ErrorCode::Internal, "a task of this package broke");
        let Some(task) = task else { return Err(broken()) };
        let outcome = tokio::select! {
            biased;
            outcome = task => outcome.unwrap_or_else(|_| Err(broken())),
            never = self.report_long_call(call.entry, call.deadline) => match never {},
        };
        guard.0 = None;
        outcome
    }

    fn add_task(&self, server: Arc<str>, of: Called, id: Option<TaskView>) -> Result<Arc<Running>, McpError> {
        let mut tasks = lock(&self.tasks);
        if tasks.known.len() >= MOST_TASKS {
            let message = format!("more than {MOST_TASKS} calls in the background are known");
            return Err(McpError::new(ErrorCode::ListLimit, message));
        }
        tasks.next = tasks.next.wrapping_add(1).max(1);
        let handle = tasks.next;
        let running = Arc::new(new_running(handle, server, of, id));
        tasks.known.insert(handle, Arc::clone(&running));
        Ok(running)
    }

    fn task_begun(&self, running: &Running, created: &Created) {
        lock(&running.immediate).clone_from(&created.immediate);
        let state = &created.state;
        let status = state.status.filter(|status| !status.is_terminal()).unwrap_or(TaskStatus::Working);
        let view = TaskView { id: state.id.clone(), status, message: state.message.clone() };
        let late = *running.begun.borrow();
        *lock(&running.view) = view;
        running.begun.send_replace(true);
        if late {
            self.emit_task(running);
        }
    }

    fn task_told(&self, running: &Running, view: TaskView) {
        let changed = {
            let mut now = lock(&running.view);
            let changed = *now != view;
            *now = view;
            changed
        };
        if changed {
            self.emit_task(running);
        }
    }

    /// The latest that is known of a call in the background goes to its handle.
    fn emit_task(&self, running: &Running) {
        if running.handle == 0 {
            return;
        }
        let key = Some(format!("taskStatus {}", running.handle));
        self.post.emit(HostEvent { name: "taskStatus", body: running.describe(), key });
    }

    fn settle_task(&self, running: &Running, outcome: Outcome) {
        let status = match &outcome {
            Ok(outcome) if outcome.result.is_error => TaskStatus::Failed,
            Ok(_) => TaskStatus::Completed,
            Err(error) if error.code() == ErrorCode::TaskCancelled => TaskStatus::Cancelled,
            Err(_) => TaskStatus::Failed,
        };
        {
            let mut view = lock(&running.view);
            view.status = status;
            view.message = None;
        }
        running.outcome.send_replace(Some(Arc::new(outcome)));
        running.begun.send_if_modified(|_| true);
        self.emit_task(running);
    }

    fn known_task(&self, handle: u32) -> Result<Arc<Running>, McpError> {
        lock(&self.tasks)
            .known
            .get(&handle)
            .cloned()
            .ok_or_else(|| McpError::new(ErrorCode::InvalidArgument, "the handle does not exist any more"))
    }

    /// What is known of a call in the background: JSON text.
    pub fn task_state(&self, handle: u32) -> Option<String> {
        self.known_task(handle).ok().map(|running| running.describe())
    }

    /// The result of a call in the background; as often as it is asked for.
    ///
    /// # Errors
    /// What it ended with: `TASK_CANCELLED`, `TASK_LOST`, and those of [`Manager::call_tool`].
    pub async fn task_result(&self, handle: u32) -> Result<CallOutcome, McpError> {
        let outcome = self.known_task(handle)?.outcome().await;
        (*outcome).clone()
    }

    /// Asks for the end of a call in the background and waits for it; one that has ended stays as it is.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a handle that was forgotten.
    pub async fn cancel_task(&self, handle: u32) -> Result<(), McpError> {
        let running = self.known_task(handle)?;
        running.stop.ask();
        running.outcome().await;
        Ok(())
    }

    /// Nobody will ask for it again; it goes on to its end.
    pub fn forget_task(&self, handle: u32) {
        lock(&self.tasks).known.remove(&handle);
    }

    /// Follows a task that was started before, by this process or another; `tool` (full or own name) says what its
    /// result is a result of. JSON text of its description.
    ///
    /// # Errors
    /// `SERVER_UNKNOWN`, `CAPABILITY_MISSING`, `TASK_LOST`, `TOOL_UNKNOWN`, and those of any request.
    pub async fn resume_task(
        &self,
        server: &str,
        id: &str,
        tool: Option<String>,
        options: CallOptions,
    ) -> Result<String, McpError> {
        self.open_for_use()?;
        let same = |running: &&Arc<Running>| &*running.server == server && lock(&running.view).id == id;
        let known = lock(&self.tasks).known.values().find(same).cloned();
        if let Some(running) = known {
            return Ok(running.describe());
        }
        if id.starts_with(LOCAL) {
            let message = format!("\"{}\" is a call of another process, which ended with it", shown(id));
            return Err(McpError::new(ErrorCode::TaskLost, message).on(server));
        }
        let view = self.view(options.view)?;
        if view.as_ref().is_some_and(|view| !view.has_server(server)) {
            return Err(McpError::new(ErrorCode::ServerUnknown, "this view has no such server").on(server));
        }
        let connection = self.connection(server).await?;
        let entry = match tool {
            Some(tool) => Some(self.tool_of_task(server, tool, &options, view.as_ref()).await?),
            None => None,
        };
        let state = ask_once(&connection, id).await.map_err(|error| error.on(server))?;
        let status = state.status.filter(|status| !status.is_terminal()).unwrap_or(TaskStatus::Working);
        let seen = TaskView { id: state.id.clone(), status, message: state.message.clone() };
        let server: Arc<str> = Arc::from(server);
        let of = entry.map_or_else(|| Called::Unknown(Arc::clone(&server)), Called::Tool);
        let running = self.add_task(server, of, Some(seen))?;
        running.begun.send_replace(true);
        let deadline = Deadline::start(connection.settings().clocks.tool(options.timeout, options.total));
        self.resume_in_background(&running, connection, deadline, (view, state));
        Ok(running.describe())
    }

    async fn tool_of_task(
        &self,
        server: &str,
        tool: String,
        options: &CallOptions,
        view: Option<&Arc<View>>,
    ) -> Result<Arc<super::registry::ToolEntry>, McpError> {
        let target = match self.registry().tool(&tool) {
            Some(entry) if entry.connection.name() == server => return Ok(Arc::clone(entry)),
            _ => ToolTarget::Pair { server: server.to_owned(), tool },
        };
        match self.known_tool(&target) {
            Some(entry) => Ok(entry),
            None => self.find_tool(&target, options, view).await.map(|(entry, _)| entry),
        }
    }

    fn resume_in_background(
        &self,
        running: &Arc<Running>,
        connection: Connection,
        deadline: Deadline,
        (view, state): (Option<Arc<View>>, TaskState),
    ) {
        let (manager, running) = (self.this.upgrade(), Arc::clone(running));
        runtime::spawn(async move {
            let Some(manager) = manager else { return };
            let _ending = Ending { manager: &manager, running: &running };
            let deadline = Arc::new(deadline);
            let host = View::host(view.as_ref());
            let tell = |view: TaskView| manager.task_told(&running, view);
            let following = Following {
                connection: &connection,
                deadline: &deadline,
                host: host.as_ref(),
                stop: &running.stop,
                tell: &tell,
            };
            let entry = match &running.of {
                Called::Tool(entry) => Some(&**entry),
                Called::Unknown(_) => None,
            };
            let outcome = follow(&following, state).await.and_then(|reply| {
                runtime::at_length(reply.len(), || manager.map_tool_result(entry, &connection, reply))
            });
            let outcome = outcome.map_err(|error| timed(error, &deadline)).map(|result| CallOutcome {
                of: running.of.clone(),
                result,
                elapsed: deadline.elapsed(),
                input: None,
            });
            manager.settle_task(&running, outcome);
        });
    }

    /// JSON text of the tasks that a server of the handshake era knows of.
    ///
    /// # Errors
    /// `CAPABILITY_MISSING`; those of any list.
    pub async fn list_tasks(&self, server: &str) -> Result<String, McpError> {
        let connection = self.connection(server).await?;
        let settings = connection.settings();
        let deadline = Arc::new(Deadline::start(settings.clocks.request(None, None)));
        let live = connection.ready(&deadline, None).await?;
        let pages = read_all(&live.client, "tasks/list", "tasks", &deadline, settings.lists).await?;
        let states = pages.items("tasks").into_iter().filter_map(|task| TaskState::read(task.get()));
        let items: Vec<String> = states.map(|state| task_json(server, &state)).collect();
        Ok(format!("[{}]", items.join(",")))
    }
}

fn new_running(handle: u32, server: Arc<str>, of: Called, id: Option<TaskView>) -> Running {
    let view = id.unwrap_or_else(|| TaskView { id: local_id(), status: TaskStatus::Working, message: None });
    Running {
        handle,
        server,
        of,
        view: Mutex::new(view),
        immediate: Mutex::default(),
        begun: watch::Sender::new(false),
        outcome: watch::Sender::new(None),
        stop: Stop::default(),
    }
}

/// Beginning of the ids of calls that run in this process.
const LOCAL: &str = "local-";

/// An id that no other call of any process has.
fn local_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    let half = || RandomState::new().hash_one(runtime::unix_millis());
    format!("{LOCAL}{:016x}{:016x}", half(), half())
}

/// Whether a call of such a tool is sent as a task of the handshake era (mcp:TASKL-02 to 05).
fn augments(client: &crate::client::Client, support: TaskSupport) -> bool {
    client.era() == Era::Legacy
        && client.negotiated().introduction.capabilities.tasks_tool_calls
        && support != TaskSupport::Forbidden
}

/// The task that a call was answered with, by the client that was answered; in the handshake era nothing becomes a task
/// that was not `augmented`.
fn created(reply: &str, live: &Live, augmented: bool) -> Result<Option<Created>, McpError> {
    let era = live.client.era();
    if era == Era::Legacy && !augmented {
        return Ok(None);
    }
    Created::read(reply, era).map_err(|why| {
        let message = format!("the answer to tools/call {why}");
        McpError::new(ErrorCode::ResultInvalid, message).on(live.client.server())
    })
}

fn task_member(ttl: Option<Duration>) -> String {
    match ttl {
        Some(ttl) => format!("\"task\":{{\"ttl\":{}}}", ttl.as_millis()),
        None => "\"task\":{}".to_owned(),
    }
}

/// The work, unless its end is asked for first.
async fn stoppable<T>(stop: &Stop, work: impl Future<Output = Result<T, McpError>>) -> Result<T, McpError> {
    tokio::select! {
        biased;
        outcome = work => outcome,
        () = stop.asked() => Err(cancelled()),
    }
}

fn task_json(server: &str, state: &TaskState) -> String {
    let mut members = String::new();
    push_member(&mut members, "server", &json_scan::quote(server));
    push_member(&mut members, "taskId", &json_scan::quote(&state.id));
    let status = state.status.unwrap_or(TaskStatus::Working);
    push_member(&mut members, "status", &json_scan::quote(status.as_str()));
    if let Some(message) = &state.message {
        push_member(&mut members, "statusMessage", &json_scan::quote(message));
    }
    if let Some(ttl) = state.ttl {
        push_member(&mut members, "ttlMs", &ttl.as_millis().to_string());
    }
    format!("{{{members}}}")
}
