//! The supervised life of one configured server, over as many clients as it takes.
//!
//! [`Connection`] is the cheap handle; the state is owned by one task (`supervisor`), which decides with the
//! pure function in `state` and publishes what others may see.

pub mod attempt;
mod authorization;
pub mod backoff;
pub mod catalog;
mod leftovers;
pub mod lists;
pub mod liveness;
mod log_event;
pub mod login_wish;
pub mod manifest;
pub mod pool;
pub mod predecessors;
mod recording;
mod remote;
pub mod request;
pub mod settings;
pub mod skill_shelf;
mod socket;
pub mod state;
pub mod status;
mod subscriptions;
mod supervisor;
mod task_listening;
pub mod task_news;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::auth::{ServerAuth, TokenStore};
use crate::client::Client;
use crate::client::inbound::{ListKind, ServerListener};
use crate::client::verdict::VerdictStore;
use crate::config::spec::{ServerSpec, StartPolicy};
use crate::deadline::Deadline;
use crate::diagnostic::Diagnostic;
use crate::error::{Delivery, ErrorCode, McpError};
use crate::host::{Host, HostEvent};
use crate::jsonrpc::write::push_string;
use crate::protocol::definition::WIRE_NAME_LIMIT;
use crate::protocol::prompt::PromptDefinition;
use crate::protocol::resource::ResourceDefinition;
use crate::protocol::skill::SkillDefinition;
use crate::protocol::tool::ToolDefinition;
use crate::runtime::{read, unix_millis, write};
use crate::secret::Redactor;
use crate::transport::CloseMode;
use crate::transport::authorizer::Authorizers;
use authorization::Access;
use catalog::Catalog;
use manifest::Manifest;
use settings::ConnectionSettings;
use skill_shelf::SkillShelf;
use status::{Snapshot, StateView};
use subscriptions::Subscriptions;

/// A client and the ordinal of its connection.
#[derive(Clone, Debug)]
pub struct Live {
    /// The client.
    pub client: Arc<Client>,
    /// Counts the clients of this connection from 1.
    pub generation: u64,
}

/// What a caller who needs the server has to know.
#[derive(Clone, Debug)]
pub enum Readiness {
    /// Nobody has asked for it yet.
    Idle,
    /// It is being made, or the next attempt is due.
    Coming,
    /// Here it is.
    Ready(Live),
    /// Not now; from `retry_at` on use may try again.
    Unavailable {
        /// Why not.
        error: McpError,
        /// Earliest next attempt, where use may start one.
        retry_at: Option<Instant>,
    },
    /// Never again.
    Closed {
        /// Why it was ended.
        reason: McpError,
    },
}

/// What others ask the supervisor to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Somebody needs the server.
    Use,
    /// Be connected. Answered when the attempt and the first fetch of the lists have ended.
    Connect { wish: Wish, reply: oneshot::Sender<Result<(), McpError>> },
    /// Let go until the next use.
    Release { reply: oneshot::Sender<()> },
    /// Switch on or off.
    Enable { enabled: bool, reply: oneshot::Sender<()> },
    /// End for good.
    Close { mode: CloseMode, reason: McpError, reply: oneshot::Sender<()> },
    /// The client of a generation has lost its connection.
    Lost { generation: u64, error: McpError },
    /// Requests of a generation fail on their way again and again.
    Tripped { generation: u64, error: McpError },
    /// The machine has slept.
    Wake,
    /// The lists of a generation were read for the first time.
    Listed { generation: u64 },
}

/// How much a connection is wished for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// With all others; a server that lately asked for a login in vain is left alone (L5).
    Start,
    /// By name.
    Connected,
    /// Anew, even when it is there.
    Fresh,
}

/// What the manager wants to hear of a connection.
pub trait ConnectionListener: Send + Sync {
    /// The tools or prompts known of a server have changed, or its state has: names may have to be given anew.
    fn catalog_changed(&self);
    /// Something about this machine was found that is told once, whichever server it came up with.
    fn found(&self, finding: &Diagnostic);
}

/// What all parts of one connection share.
pub(crate) struct Shared {
    pub(crate) spec: Arc<ServerSpec>,
    pub(crate) settings: Arc<ConnectionSettings>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) listener: Arc<dyn ConnectionListener>,
    pub(crate) roots: Arc<RwLock<Vec<String>>>,
    /// Finds the secrets of the definition.
    redactor: Redactor,
    /// The login, if one is possible.
    access: Access,
    /// Who proves who we are, as of the last attempt.
    proofs: RwLock<Authorizers>,
    pub(crate) catalog: Catalog,
    pub(crate) subscriptions: Subscriptions,
    /// Skills that were loaded.
    skills: SkillShelf,
    /// Updates of resources that were left out for their length.
    long_uris: AtomicU64,
    /// Who waits for news of which task.
    pub(crate) task_news: task_news::TaskNews,
    /// Where the lists of a server that starts late are kept.
    pub(crate) manifest: Option<Manifest>,
    /// Which era the server was found to speak, and which way.
    pub(crate) verdicts: Arc<dyn VerdictStore>,
    /// Whether the server lately asked for a login in vain.
    pub(crate) login_wish: Arc<dyn login_wish::LoginWish>,
    pub(crate) health: request::Health,
    pub(crate) view: RwLock<StateView>,
    pub(crate) commands: mpsc::Sender<Command>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("server", &self.spec.name).finish_non_exhaustive()
    }
}

/// What a connection is made of.
pub struct Parts {
    /// The server.
    pub spec: Arc<ServerSpec>,
    /// Settings of the manager with those of the server applied.
    pub settings: Arc<ConnectionSettings>,
    /// The embedding program.
    pub host: Arc<dyn Host>,
    /// The manager.
    pub listener: Arc<dyn ConnectionListener>,
    /// Roots, shared by all connections of a manager.
    pub roots: Arc<RwLock<Vec<String>>>,
    /// What is remembered of the server.
    pub verdicts: Arc<dyn VerdictStore>,
    /// Whether the server lately asked for a login in vain.
    pub login_wish: Arc<dyn login_wish::LoginWish>,
    /// Where the lists are kept, for a server that starts late (LIF-09).
    pub manifest: Option<Manifest>,
    /// Where logins are kept.
    pub tokens: Arc<TokenStore>,
}

/// Handle of one configured server.
#[derive(Clone, Debug)]
pub struct Connection {
    shared: Arc<Shared>,
    readiness: watch::Receiver<Readiness>,
}

/// Commands that may wait for the supervisor.
const COMMANDS: usize = 64;

impl Connection {
    /// Starts the supervisor; nothing is connected yet.
    pub fn start(parts: Parts) -> Self {
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let enabled = !parts.spec.disabled;
        let shared = Arc::new(Shared {
            redactor: parts.spec.redactor(),
            proofs: RwLock::default(),
            catalog: Catalog::recalled(parts.manifest.as_ref(), &parts.spec, &parts.settings.classifier),
            access: Access::of(&parts.spec, &parts.settings, &parts.host, &parts.tokens),
            subscriptions: Subscriptions::default(),
            skills: SkillShelf::default(),
            long_uris: AtomicU64::new(0),
            task_news: task_news::TaskNews::default(),
            manifest: parts.manifest,
            verdicts: parts.verdicts,
            login_wish: parts.login_wish,
            health: request::Health::default(),
            view: RwLock::new(StateView::initial(enabled)),
            commands,
            spec: parts.spec,
            settings: parts.settings,
            host: parts.host,
            listener: parts.listener,
            roots: parts.roots,
        });
        let (publish, readiness) = watch::channel(Readiness::Idle);
        supervisor::start(Arc::clone(&shared), inbox, publish, enabled);
        Self { shared, readiness }
    }

    /// The server's name.
    pub fn name(&self) -> &str {
        &self.shared.spec.name
    }

    /// The server's definition.
    pub fn spec(&self) -> &Arc<ServerSpec> {
        &self.shared.spec
    }

    /// Settings in force for this server.
    pub fn settings(&self) -> &Arc<ConnectionSettings> {
        &self.shared.settings
    }

    /// The login at the server, where one is possible.
    pub fn login(&self) -> Option<&Arc<ServerAuth>> {
        self.shared.access.login.as_ref()
    }

    /// What the server offers.
    pub fn catalog(&self) -> &Catalog {
        &self.shared.catalog
    }

    /// Whether its lists are shown though it is not connected: a server that starts late and has run before.
    pub fn lists_without_connection(&self) -> bool {
        self.shared.settings.start == StartPolicy::Lazy
            && self.shared.catalog.tools.ever_read()
            && self.snapshot().state() == status::PublicState::Pending
    }

    /// The current client, if connected.
    pub fn live(&self) -> Option<Live> {
        match &*self.readiness.borrow() {
            Readiness::Ready(live) => Some(live.clone()),
            _ => None,
        }
    }

    /// The client, connecting if need be, within the deadline. A client of the generation `gone` is known to
    /// be lost, though the news may still be on its way.
    ///
    /// # Errors
    /// Why the server is not available, or the deadline's error with the last failure as its cause.
    pub async fn ready(&self, deadline: &Deadline, gone: Option<u64>) -> Result<Live, McpError> {
        if let Some(live) = self.live()
            && Some(live.generation) != gone
        {
            return Ok(live);
        }
        let mut readiness = self.readiness.clone();
        let mut asked = false;
        loop {
            let now = readiness.borrow_and_update().clone();
            match now {
                Readiness::Ready(live) if Some(live.generation) != gone => return Ok(live),
                Readiness::Unavailable { error, retry_at } => {
                    let due = retry_at.is_some_and(|at| at <= Instant::now());
                    if !due || asked {
                        let next = retry_at.map(status::wall_clock);
                        return Err(error.on(self.name()).with(|facts| facts.next_retry_at = next));
                    }
                    asked = true;
                    self.send(Command::Use).await?;
                }
                Readiness::Idle => self.send(Command::Use).await?,
                // Whoever still waits has sent nothing.
                Readiness::Closed { reason } => {
                    return Err(reason.with(|facts| facts.delivered = Some(Delivery::No)));
                }
                Readiness::Coming | Readiness::Ready(_) => {}
            }
            tokio::select! {
                biased;
                changed = readiness.changed() => if changed.is_err() { return Err(self.gone()) },
                kind = deadline.expired() => return Err(self.too_late(deadline, kind)),
            }
        }
    }

    fn too_late(&self, deadline: &Deadline, kind: crate::error::TimeoutKind) -> McpError {
        let error = deadline.error(kind, "waiting for the connection").on(self.name());
        match read(&self.shared.view).error.clone() {
            Some(cause) => error.caused_by(cause),
            None => error,
        }
    }

    /// Connects, or connects anew; resolves when the attempt has ended and the lists were read.
    pub async fn connect(&self, wish: Wish) -> Result<(), McpError> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Connect { wish, reply }).await?;
        answer.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Ends the current connection; the next use connects again.
    pub async fn release(&self) -> Result<(), McpError> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Release { reply }).await?;
        answer.await.map_err(|_| self.gone())
    }

    /// Switches the server on or off.
    pub async fn enable(&self, enabled: bool) -> Result<(), McpError> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Enable { enabled, reply }).await?;
        answer.await.map_err(|_| self.gone())
    }

    /// Ends the connection for good; open requests fail with `reason`. Resolves when nothing is left of it. To ask
    /// again for a fast end hastens one that is under way.
    pub async fn close(&self, mode: CloseMode, reason: McpError) {
        if let Some(login) = self.login() {
            login.end_logins();
        }
        let (reply, answer) = oneshot::channel();
        if self.send(Command::Close { mode, reason, reply }).await.is_ok() {
            let _ = answer.await;
        }
    }

    async fn send(&self, command: Command) -> Result<(), McpError> {
        self.shared.commands.send(command).await.map_err(|_| self.gone())
    }

    /// Completes when the connection is ended for good, with the error of what is still under way.
    pub async fn closed(&self) -> McpError {
        let mut readiness = self.readiness.clone();
        let _ = readiness.wait_for(|now| matches!(now, Readiness::Closed { .. })).await;
        self.gone()
    }

    /// Whether both handles are of the same connection.
    pub fn is(&self, other: &Connection) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Reports a finding about this server.
    pub fn diagnose(&self, finding: Diagnostic) {
        self.shared.diagnose(finding);
    }

    /// Why the connection was ended.
    fn gone(&self) -> McpError {
        match &*self.readiness.borrow() {
            Readiness::Closed { reason } => reason.clone(),
            _ => McpError::new(ErrorCode::ConnectionLost, "the connection was ended").on(self.name()),
        }
    }

    /// What people see.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::new(&self.shared)
    }

    /// The tools of a live connection, fresh enough.
    pub async fn tools(&self, live: &Live) -> Result<Arc<Vec<ToolDefinition>>, McpError> {
        lists::tools(&self.shared, live).await
    }

    /// The prompts of a live connection, fresh enough.
    pub async fn prompts(&self, live: &Live) -> Result<Arc<Vec<PromptDefinition>>, McpError> {
        lists::prompts(&self.shared, live).await
    }

    /// The resources of a live connection, fresh enough.
    pub async fn resources(&self, live: &Live) -> Result<Arc<Vec<ResourceDefinition>>, McpError> {
        lists::resources(&self.shared, live).await
    }

    /// The resource templates of a live connection, fresh enough.
    pub async fn templates(&self, live: &Live) -> Result<Arc<Vec<ResourceDefinition>>, McpError> {
        lists::templates(&self.shared, live).await
    }

    /// The skills of a live connection, fresh enough.
    pub async fn skills(&self, live: &Live) -> Result<Arc<Vec<SkillDefinition>>, McpError> {
        lists::skills(&self.shared, live).await
    }

    /// The skills of this server that were loaded.
    pub fn skill_shelf(&self) -> &SkillShelf {
        &self.shared.skills
    }

    /// Subscribes to a resource, or ends the subscription; it outlives reconnects (RES-02).
    ///
    /// # Errors
    /// `CAPABILITY_MISSING`, `RPC_ERROR`, and those of any request.
    pub async fn subscribe(
        &self,
        live: &Live,
        uri: &str,
        on: bool,
        deadline: &Arc<Deadline>,
    ) -> Result<(), McpError> {
        subscriptions::subscribe(&self.shared, live, (uri, on), deadline).await
    }

    /// Sets the least severe level of log messages that the server sends; it outlives reconnects (PRO-11).
    ///
    /// # Errors
    /// `CAPABILITY_MISSING`, `RPC_ERROR`, and those of any request.
    pub async fn set_log_level(
        &self,
        live: &Live,
        level: &str,
        deadline: &Arc<Deadline>,
    ) -> Result<(), McpError> {
        subscriptions::set_log_level(&self.shared, live, level, deadline).await
    }

    /// What takes this server's secrets out of text.
    pub fn redactor(&self) -> Cow<'_, Redactor> {
        self.shared.secrets()
    }

    /// The machine has slept, or the clock jumped: looks whether the other end is still there (LIF-07).
    pub fn wake(&self) {
        if liveness::is_remote(&self.shared.spec.transport) {
            self.shared.tell(Command::Wake);
        }
    }

    /// Asks the server whether it is there; gives the time it took.
    ///
    /// # Errors
    /// Those of any request.
    pub async fn ping(&self, deadline: &Arc<Deadline>) -> Result<std::time::Duration, McpError> {
        let live = self.ready(deadline, None).await?;
        let since = Instant::now();
        let outcome = live.client.ping(deadline).await;
        self.shared.judge(&live, since, outcome.as_ref().err());
        outcome.map(|()| since.elapsed())
    }

    /// The process behind the connection, if there is one.
    pub fn process(&self) -> Option<Arc<crate::transport::stdio::ServerProcess>> {
        self.shared.current_process()
    }
}

impl Shared {
    /// Emits an event whose body is built from members.
    pub(crate) fn emit(&self, name: &'static str, members: &str, key: Option<String>) {
        let mut body = String::from("{\"server\":");
        push_string(&mut body, &self.spec.name);
        if !members.is_empty() {
            body.push(',');
            body.push_str(members);
        }
        body.push('}');
        self.host.emit(HostEvent { name, body, key });
    }

    /// Reports a finding about this server, without secrets.
    pub(crate) fn diagnose(&self, mut diagnostic: Diagnostic) {
        diagnostic.message = self.secrets().redact(&diagnostic.message).into_owned();
        let diagnostic = diagnostic.on(&self.spec.name);
        if let Ok(body) = serde_json::to_string(&diagnostic) {
            self.host.emit(HostEvent { name: "diagnostic", body, key: None });
        }
    }

    /// Tells of characters that were removed; a flood of such news is one until the host has taken it.
    pub(crate) fn tell_hidden(&self, place: &str, removed: usize) {
        if removed == 0 {
            return;
        }
        let note = Diagnostic::hidden(place, removed).on(&self.spec.name);
        if let Ok(body) = serde_json::to_string(&note) {
            let key = Some(format!("hidden {} {place}", self.spec.name));
            self.host.emit(HostEvent { name: "diagnostic", body, key });
        }
    }

    /// Tells how many updates were left out: of the first, the second, the fourth …, since news of a flood are no flood
    /// (F-059).
    fn tell_long_uri(&self) {
        let count = self.long_uris.fetch_add(1, Ordering::Relaxed) + 1;
        if !count.is_power_of_two() {
            return;
        }
        let message = format!(
            "{count} updates of resources were left out: their URIs are longer than {WIRE_NAME_LIMIT} bytes"
        );
        self.diagnose(Diagnostic::warning("RESOURCE_URI_TOO_LONG", message));
    }

    pub(crate) fn current_process(&self) -> Option<Arc<crate::transport::stdio::ServerProcess>> {
        read(&self.view).transport.as_ref().and_then(|transport| transport.process())
    }

    /// A proof of life.
    pub(crate) fn heard(&self) {
        self.health.hear();
        write(&self.view).last_contact = Some(unix_millis());
    }

    /// Leaves a command for the supervisor; never waits.
    pub(crate) fn tell(&self, command: Command) {
        if let Err(mpsc::error::TrySendError::Full(command)) = self.commands.try_send(command) {
            let commands = self.commands.clone();
            crate::runtime::spawn(async move { commands.send(command).await });
        }
    }
}

/// The listener of one client: everything it reports is about one generation.
pub(crate) struct ClientListener {
    pub(crate) shared: Arc<Shared>,
    pub(crate) generation: u64,
}

impl ServerListener for ClientListener {
    fn list_changed(&self, kind: ListKind) {
        self.shared.catalog.mark_stale(kind);
        let name = match kind {
            ListKind::Tools => "toolsChanged",
            ListKind::Prompts => "promptsChanged",
            ListKind::Resources => "resourcesChanged",
        };
        // A flood of changes is one event until the host has taken it (F-030).
        self.shared.emit(name, "", Some(format!("{name} {}", self.shared.spec.name)));
    }

    fn task_changed(&self, task: &str) {
        self.shared.task_news.tell(task);
    }

    fn resource_updated(&self, uri: &str) {
        // No list has such a resource, so nobody knows it.
        if uri.len() > WIRE_NAME_LIMIT {
            return self.shared.tell_long_uri();
        }
        // As the list shows it, which is how the host knows it.
        let uri = crate::unicode::clean_str_lossy(uri);
        let mut members = String::from("\"uri\":");
        push_string(&mut members, &uri);
        self.shared.emit(
            "resourceUpdated",
            &members,
            Some(format!("resourceUpdated {} {uri}", self.shared.spec.name)),
        );
    }

    fn log(&self, level: &str, logger: Option<&str>, data: &str) {
        let (members, removed) =
            log_event::log_members("protocol", level, logger, data, &self.shared.secrets());
        self.shared.emit("log", &members, None);
        self.shared.tell_hidden("a log message", removed);
    }

    fn stderr(&self, line: &str) {
        let mut data = String::new();
        push_string(&mut data, line);
        // What terminals do with escapes is no secret: nothing is told of those.
        let (members, _) = log_event::log_members("stderr", "info", None, &data, &self.shared.secrets());
        self.shared.emit("log", &members, None);
    }

    fn misbehaved(&self, code: &'static str, message: String) {
        self.shared.diagnose(Diagnostic::warning(code, message));
    }

    fn hidden(&self, place: &'static str, removed: usize) {
        self.shared.tell_hidden(place, removed);
    }

    fn roots(&self) -> String {
        roots_json(&read(&self.shared.roots))
    }

    fn closed(&self, error: McpError) {
        // Never waits: the reading task ends here.
        self.shared.tell(Command::Lost { generation: self.generation, error });
    }
}

/// JSON text of the `roots` array (PRO-10).
fn roots_json(roots: &[String]) -> String {
    let items: Vec<serde_json::Value> = roots.iter().map(|uri| serde_json::json!({ "uri": uri })).collect();
    serde_json::Value::from(items).to_string()
}
