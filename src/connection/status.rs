//! What people see of a connection: the five public states and the evidence for them (LIF-01, BEY-05).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::state::State;
use super::{Live, Shared};
use crate::client::Client;
use crate::error::McpError;
use crate::jsonrpc::write::push_string;
use crate::protocol::version::Era;
use crate::runtime::{read, unix_millis};
use crate::transport::Transport;

/// A public state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicState {
    /// In use.
    Connected,
    /// Given up for now.
    Failed,
    /// Waits for a login.
    NeedsAuth,
    /// Not tried yet, being made, or waiting for the next attempt.
    Pending,
    /// Switched off.
    Disabled,
}

impl PublicState {
    /// The state as JavaScript sees it.
    pub fn as_str(self) -> &'static str {
        match self {
            PublicState::Connected => "connected",
            PublicState::Failed => "failed",
            PublicState::NeedsAuth => "needs-auth",
            PublicState::Pending => "pending",
            PublicState::Disabled => "disabled",
        }
    }

    pub(super) fn of(state: &State) -> Self {
        match state {
            State::Ready { .. } => PublicState::Connected,
            State::Failed { .. } => PublicState::Failed,
            State::NeedsAuth { .. } => PublicState::NeedsAuth,
            State::Disabled | State::Closed => PublicState::Disabled,
            State::Idle | State::Opening { .. } | State::Waiting { .. } => PublicState::Pending,
        }
    }
}

/// The published part of the state.
#[derive(Debug)]
pub(crate) struct StateView {
    state: PublicState,
    closed: bool,
    pub(crate) error: Option<McpError>,
    attempt: u32,
    next_retry_at: Option<u64>,
    client: Option<Arc<Client>>,
    generation: u64,
    /// The transport of the current or last attempt, for its evidence.
    pub(crate) transport: Option<Arc<dyn Transport>>,
    pub(crate) last_contact: Option<u64>,
}

impl StateView {
    pub(crate) fn initial(enabled: bool) -> Self {
        Self {
            state: if enabled { PublicState::Pending } else { PublicState::Disabled },
            closed: false,
            error: None,
            attempt: 0,
            next_retry_at: None,
            client: None,
            generation: 0,
            transport: None,
            last_contact: None,
        }
    }

    /// Takes the state over; the public state before it, if that has changed (LIF-01: nothing else is an event).
    pub(crate) fn update(&mut self, state: &State, live: Option<&Live>) -> Option<PublicState> {
        let before = self.state;
        self.state = PublicState::of(state);
        self.closed = matches!(state, State::Closed);
        self.client = live.map(|live| Arc::clone(&live.client));
        if let Some(live) = live {
            self.generation = live.generation;
        }
        (self.attempt, self.next_retry_at) = match state {
            State::Opening { tries, .. } => (*tries, None),
            State::Waiting { tries, until, .. } => (*tries, Some(wall_clock(*until))),
            State::Failed { retry_at, .. } => (self.attempt, Some(wall_clock(*retry_at))),
            _ => (0, None),
        };
        match state {
            State::Waiting { error, .. } | State::Failed { error, .. } | State::NeedsAuth { error } => {
                self.error = Some(error.clone());
            }
            // While it is tried again, the reason of the last failure is still news.
            State::Opening { tries, trips } if *tries > 1 || *trips > 0 => {}
            _ => self.error = None,
        }
        if matches!(state, State::Ready { .. }) {
            self.last_contact = Some(unix_millis());
        }
        (!self.closed && before != self.state).then_some(before)
    }
}

/// Wall-clock time of a moment of the monotonic clock, in milliseconds.
pub(super) fn wall_clock(at: Instant) -> u64 {
    let ahead: Duration = at.saturating_duration_since(Instant::now());
    unix_millis() + u64::try_from(ahead.as_millis()).unwrap_or(0)
}

/// A look at a connection.
pub struct Snapshot<'a> {
    shared: &'a Shared,
}

impl<'a> Snapshot<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self { shared }
    }

    /// The public state.
    pub fn state(&self) -> PublicState {
        read(&self.shared.view).state
    }

    /// The generation whose lists count now.
    pub fn generation(&self) -> u64 {
        read(&self.shared.view).generation
    }

    /// The `ServerStatus` of the public contract.
    pub fn to_value(&self) -> Map<String, Value> {
        let spec = &self.shared.spec;
        let view = read(&self.shared.view);
        let mut status = Map::new();
        status.insert("name".into(), json!(&*spec.name));
        status.insert("state".into(), json!(view.state.as_str()));
        status.insert("scope".into(), json!(spec.scope.as_str()));
        status.insert("type".into(), json!(spec.transport.kind()));
        let found = view.transport.as_ref().and_then(|transport| transport.kind());
        status.insert("transport".into(), json!(found.unwrap_or_else(|| way(spec.transport.kind()))));
        if self.shared.skips_verification() {
            status.insert("tlsVerified".into(), json!(false));
        }
        let officials = self.shared.settings.officials.as_ref().and_then(|known| known.get());
        put(&mut status, "official", officials.and_then(|officials| officials.lists(spec)));
        if let Some(error) = &view.error {
            put_error(&mut status, error);
        }
        if view.attempt > 0 {
            status.insert("attempt".into(), json!(view.attempt));
            status.insert("maxAttempts".into(), json!(self.shared.settings.backoff.attempts + 1));
        }
        put(&mut status, "nextRetryAt", view.next_retry_at);
        put(&mut status, "lastContactAt", view.last_contact);
        let storage = self.shared.access.login.as_ref().and_then(|login| login.storage());
        put(&mut status, "tokenStorage", storage);
        if let Some(transport) = &view.transport {
            let evidence = transport.evidence();
            let secrets = self.shared.secrets();
            if view.state == PublicState::Connected {
                put(&mut status, "pid", evidence.pid);
            }
            let tail: Vec<String> =
                evidence.stderr_tail.iter().map(|line| secrets.redact(line).into_owned()).collect();
            if !tail.is_empty() {
                status.entry("stderrTail").or_insert_with(|| json!(tail));
            }
        }
        if let Some(client) = &view.client {
            put_client(&mut status, client);
            self.put_lists(&mut status, view.generation);
        }
        status
    }

    fn put_lists(&self, status: &mut Map<String, Value>, generation: u64) {
        let catalog = &self.shared.catalog;
        put(status, "toolCount", catalog.tools.count(generation));
        put(status, "promptCount", catalog.prompts.count(generation));
        put(status, "resourceCount", catalog.resources.count(generation));
        let errors: Vec<Value> = catalog
            .errors()
            .into_iter()
            .map(|(list, error)| json!({"list": list, "code": error.code().as_str(), "message": error.message()}))
            .collect();
        if !errors.is_empty() {
            status.insert("listErrors".into(), Value::from(errors));
            let hint = "It is connected, yet lists could not be read: see listErrors; reconnect() asks again";
            status.entry("hint").or_insert_with(|| json!(hint));
        }
    }
}

fn put<T: Into<Value>>(status: &mut Map<String, Value>, name: &str, value: Option<T>) {
    if let Some(value) = value {
        status.insert(name.to_owned(), value.into());
    }
}

fn put_error(status: &mut Map<String, Value>, error: &McpError) {
    status.insert("reason".into(), json!(error.message()));
    status.insert("code".into(), json!(error.code().as_str()));
    let facts = error.facts();
    put(status, "exit", facts.exit.as_ref().and_then(|exit| serde_json::to_value(exit).ok()));
    put(status, "stderrTail", facts.stderr_tail.clone());
    put(status, "firstBytes", facts.first_bytes.clone());
    put(status, "httpStatus", facts.status);
    put(status, "hint", Some(hint(error)));
}

/// The transport behind a configured type.
fn way(kind: &'static str) -> &'static str {
    match kind {
        "sse-ide" => "sse",
        "ws-ide" => "ws",
        "claudeai-proxy" => "http",
        other => other,
    }
}

/// What a person can do about it; every failure has an answer (BEY-05).
fn hint(error: &McpError) -> &'static str {
    use crate::error::ErrorCode;
    match error.code() {
        ErrorCode::SpawnFailed => {
            "Check command, PATH (see shellEnv) and working directory of the server's definition"
        }
        ErrorCode::UnsafeArgument => {
            "Have the definition start the program itself instead of a batch file, or change the argument"
        }
        ErrorCode::ConnectTimeout => {
            "Start the command by hand, or open the URL, and see whether it answers; raise connectTimeoutMs for \
             slow servers"
        }
        ErrorCode::ServerExited => "See stderrTail for the server's own words",
        ErrorCode::AuthRequired | ErrorCode::AuthFailed | ErrorCode::AuthIssuerMismatch => {
            "Log in with authenticate(), or add an Authorization header to the server's definition"
        }
        ErrorCode::AuthScopeInsufficient => {
            "Log in again with authenticate(): the server wants a wider scope"
        }
        ErrorCode::HttpStatus => match error.facts().status {
            Some(403) => "Check the credentials in the server's definition, and whether they are allowed in",
            Some(404 | 405) => "Check the path of the URL; many servers answer at /mcp or /sse",
            Some(500..) => "The server has trouble of its own: see its logs, or wait",
            _ => "Check the URL and the headers of the server's definition",
        },
        ErrorCode::ConnectFailed | ErrorCode::ConnectionLost => {
            "Check that the server runs and can be reached at the URL of its definition"
        }
        ErrorCode::MessageInvalid => {
            "See firstBytes: the command or URL does not lead to a server of this protocol, or to another type of it"
        }
        ErrorCode::TlsFailed => "Check the server's certificate; add its authority with tls.ca",
        ErrorCode::ProxyFailed => "Check the proxy option and HTTP_PROXY, HTTPS_PROXY, NO_PROXY",
        ErrorCode::RedirectRefused => {
            "Configure the URL that the server redirects to, if it is the right one"
        }
        ErrorCode::VersionUnsupported => "Update the server or this package",
        ErrorCode::CircuitOpen => "It is tried again at nextRetryAt by itself; reconnect() tries at once",
        ErrorCode::RetriesExhausted => {
            "Its next use after nextRetryAt tries again; reconnect() tries at once"
        }
        ErrorCode::RecordingInvalid => "Mend the recording or make a new one, then reconnect() tries at once",
        ErrorCode::PolicyDenied => "Ask whoever set the policy of this machine",
        _ => "Correct what the reason names, then reconnect() tries at once",
    }
}

fn put_client(status: &mut Map<String, Value>, client: &Client) {
    let negotiated = client.negotiated();
    let introduction = &negotiated.introduction;
    status.insert("protocolVersion".into(), json!(negotiated.version.as_str()));
    let era = match client.era() {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    };
    status.insert("era".into(), json!(era));
    let name = introduction.server_name.clone().unwrap_or_default();
    let version = introduction.server_version.clone().unwrap_or_default();
    status.insert("serverInfo".into(), json!({ "name": name, "version": version }));
    put(status, "instructions", introduction.instructions.clone());
    if let Ok(capabilities) = serde_json::from_str::<Value>(&introduction.capabilities_text) {
        status.insert("capabilities".into(), capabilities);
    }
}

impl Shared {
    /// Whether any certificate is accepted on this connection (TLS-01).
    fn skips_verification(&self) -> bool {
        let remote = !matches!(self.spec.transport.kind(), "stdio" | "sdk");
        let tls = self.spec.tls.as_ref().or(self.settings.tls.as_ref());
        remote && tls.is_some_and(|tls| tls.insecure_skip_verify)
    }

    /// The `authRequired` event.
    pub(crate) fn emit_auth_required(&self, error: &McpError) {
        let mut members = String::from("\"reason\":");
        push_string(&mut members, error.message());
        self.emit("authRequired", &members, Some(format!("authRequired {}", self.spec.name)));
    }

    /// The `status` event: the whole status, where it came from, and when.
    pub(crate) fn emit_status(&self, from: PublicState) {
        let mut status = Snapshot::new(self).to_value();
        status.insert("from".into(), json!(from.as_str()));
        status.insert("time".into(), json!(unix_millis()));
        let body = Value::Object(status).to_string();
        self.host.emit(crate::host::HostEvent { name: "status", body, key: None });
    }
}
