//! One attempt to connect: start the transport, shake hands, or leave nothing behind and say why.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::state::FailureKind;
use super::{ClientListener, Live, Shared, authorization, leftovers, login_wish, recording, remote, socket};
use crate::client::Tables;
use crate::client::inbound::Inbound;
use crate::client::input::InputDesk;
use crate::client::open::{self, EraChoice, Opening};
use crate::config::spec::{InheritEnv, ProtocolChoice, StdioSpec, TransportSpec};
use crate::deadline::Deadline;
use crate::diagnostic::Diagnostic;
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError, Phase};
use crate::host::Host;
use crate::protocol::negotiation::Channel;
use crate::protocol::version::Era;
use crate::runtime::{read, write};
use crate::secret::Redactor;
use crate::transport::authorizer::Authorizers;
use crate::transport::in_process::{self, InProcessLimits, Script};
use crate::transport::stdio::channel::{self, ChannelLimits};
use crate::transport::stdio::{Inherit, StdioRecipe};
use crate::transport::{CloseMode, Evidence, Receiver, Transport};

/// Why an attempt failed, and what that means for the next one.
pub(crate) type Failure = (FailureKind, McpError);

/// Makes the connection of a generation, once there is a slot for it. `abandon` ends the attempt early; whatever was
/// started is reaped. A `casual` one leaves a server alone that lately asked for a login in vain (L5).
pub(crate) async fn open(
    shared: Arc<Shared>,
    generation: u64,
    casual: bool,
    abandon: oneshot::Receiver<()>,
) -> Result<Live, Failure> {
    if let Some(error) = casual.then(|| login_wish::unanswered(&shared)).flatten() {
        return Err((FailureKind::Challenge, error));
    }
    let outcome = open_when_due(&shared, generation, abandon).await;
    login_wish::learn(&shared, outcome.as_ref().map(drop).map_err(|(_, error)| error));
    outcome
}

async fn open_when_due(
    shared: &Arc<Shared>,
    generation: u64,
    mut abandon: oneshot::Receiver<()>,
) -> Result<Live, Failure> {
    let slot = tokio::select! {
        biased;
        slot = shared.settings.pools.slot(&shared.spec.transport) => slot,
        _ = &mut abandon => {
            return Err((FailureKind::Passing, given_up()));
        }
    };
    // The clock starts with the slot: waiting for others is nobody's fault (L2).
    slot.held_by(open_in_slot(shared, generation, &mut abandon)).await
}

async fn open_in_slot(
    shared: &Arc<Shared>,
    generation: u64,
    abandon: &mut oneshot::Receiver<()>,
) -> Result<Live, Failure> {
    if let (Some(predecessors), TransportSpec::Stdio(_)) =
        (&shared.settings.predecessors, &shared.spec.transport)
    {
        predecessors.settled(shared).await;
    }
    let environment = tokio::select! {
        biased;
        environment = environment_of(shared) => environment,
        _ = &mut *abandon => return Err((FailureKind::Passing, given_up())),
    };
    let deadline = Deadline::start(shared.settings.clocks.connecting());
    // The older way knows the handshake era alone.
    let two_ways = matches!(shared.spec.transport, TransportSpec::Http(_))
        && shared.spec.protocol != Some(ProtocolChoice::Modern);
    let older = two_ways && shared.verdicts.recall().is_some_and(|verdict| verdict.older_way);
    let newer_way = Way { older: false, environment: &environment };
    let older_way = Way { older: true, ..newer_way };
    let way = if older { older_way } else { newer_way };
    let mut first = open_one(shared, generation, way, &deadline, abandon).await;
    // An answer contradicts what was remembered; silence says nothing.
    if older && first.as_ref().is_err_and(remote::contradicts_older_way) {
        shared.verdicts.forget();
        first = open_one(shared, generation, newer_way, &deadline, abandon).await;
    }
    let (failure, error) = match first {
        Ok(live) => return Ok(live),
        Err(refused) if two_ways && !older && remote::speaks_older_way(&refused) => {
            let second = open_one(shared, generation, older_way, &deadline, abandon).await;
            match second {
                Ok(live) => {
                    shared.verdicts.remember_older_way();
                    return Ok(live);
                }
                // What the first way said is what the configuration asked for.
                Err(also) => (refused.kind, refused.error.caused_by(also.error)),
            }
        }
        Err(refused) => (refused.kind, refused.error),
    };
    Err((failure, error))
}

/// How a transport is started.
#[derive(Clone, Copy)]
struct Way<'a> {
    /// Over HTTP: the event stream of 2024-11-05.
    older: bool,
    /// What a process may inherit.
    environment: &'a Environment,
}

/// What a process may inherit: the host's environment, or that of the login shell where the host wants it (BEY-03).
async fn environment_of(shared: &Shared) -> Arc<Environment> {
    let host = &shared.settings.environment;
    match (&shared.settings.shell_env, &shared.spec.transport) {
        (Some(shell), TransportSpec::Stdio(_)) => {
            let report = |why| {
                let message = format!("servers get this program's own environment: the login shell {why}");
                shared.diagnose(Diagnostic::warning("SHELL_ENV_FAILED", message));
            };
            shell.get(host, report).await
        }
        _ => Arc::clone(host),
    }
}

/// Why one way did not lead to a client.
pub(super) struct Refused {
    pub(super) kind: FailureKind,
    pub(super) error: McpError,
    /// HTTP status of the last answer.
    pub(super) status: Option<u16>,
}

/// Opens one way; once more where a login was given for a stream that its refusal had ended (SSE-02, WS-01).
async fn open_one(
    shared: &Arc<Shared>,
    generation: u64,
    way: Way<'_>,
    deadline: &Deadline,
    abandon: &mut oneshot::Receiver<()>,
) -> Result<Live, Refused> {
    let first = open_once(shared, generation, way, deadline, abandon).await;
    match &first {
        Err(refused) if remote::wants_login(&refused.error) && shared.access.is_logged_in() => {
            open_once(shared, generation, way, deadline, abandon).await
        }
        _ => first,
    }
}

async fn open_once(
    shared: &Arc<Shared>,
    generation: u64,
    way: Way<'_>,
    deadline: &Deadline,
    abandon: &mut oneshot::Receiver<()>,
) -> Result<Live, Refused> {
    let server: Arc<str> = Arc::clone(&shared.spec.name);
    let listener = Arc::new(ClientListener { shared: Arc::clone(shared), generation });
    let tables = tables(shared, Arc::clone(&listener));
    let inbound = Arc::new(Inbound::new(listener, tables.clone()));
    // The one gate: whatever led here, the very definition that is connected to passes policy. (H14, B-025)
    let refused = |error: McpError| {
        let error = error.on(&server);
        Refused { kind: kind_of(&error), error, status: None }
    };
    shared.settings.gate.check(&shared.spec).map_err(refused)?;
    let choice = choice_of(&shared.spec.transport, shared.spec.protocol).map_err(refused)?;
    let authorizers = authorization::authorizers(shared).map_err(refused)?;
    write(&shared.proofs).clone_from(&authorizers);
    // That has a clock of its own: what the server is allowed for its answer starts after it.
    let prepared = tokio::select! {
        biased;
        prepared = authorizers.prepare() => prepared,
        kind = deadline.expired() => Err(deadline.error(kind, "what gives its headers")),
        _ = &mut *abandon => Err(given_up()),
    };
    prepared.map_err(refused)?;
    let start = |receiver| start_transport(shared, receiver, way, authorizers);
    let transport =
        recording::tapped(shared, generation, Arc::<Inbound>::clone(&inbound), start).map_err(refused)?;
    inbound.attach(&transport);
    write(&shared.view).transport = Some(Arc::clone(&transport));
    let opening = open::open(Opening {
        server: &server,
        transport: &transport,
        tables: &tables,
        introduction: &shared.settings.introduction,
        deadline,
        probe: shared.settings.probe,
        channel: channel_of(&shared.spec.transport),
        choice: if way.older { EraChoice::Legacy } else { choice },
        verdicts: shared.verdicts.as_ref(),
    });
    let outcome = tokio::select! {
        biased;
        outcome = opening => outcome,
        _ = abandon => Err(given_up()),
    };
    match outcome {
        Ok(client) => {
            if client.era() == Era::Modern {
                inbound.refuse_requests();
            }
            Ok(Live { client: Arc::new(client), generation })
        }
        Err(error) => {
            let kind = kind_of(&error);
            let status = transport.last_status();
            transport.close(CloseMode::Fast, error.clone()).await;
            leftovers::tell_survivors(shared, transport.as_ref());
            let error = explain(&error, &transport.evidence(), transport.phase()).on(&server);
            Err(Refused { kind, error: shared.redact_error(error), status })
        }
    }
}

fn given_up() -> McpError {
    McpError::new(ErrorCode::ConnectFailed, "the attempt was given up")
}

/// What client and receiving side of an attempt share. Who answers questions stands before the first byte is
/// read, so that none comes too early (M2).
fn tables(shared: &Arc<Shared>, listener: Arc<ClientListener>) -> Tables {
    let desk = InputDesk::new(
        Arc::clone(&shared.spec.name),
        Arc::clone(&shared.host),
        listener,
        shared.settings.introduction.features,
        shared.settings.inputs.clone(),
    );
    Tables { progress: Arc::default(), listens: Arc::default(), input: Arc::new(desk) }
}

/// How silence is judged when the era is found out.
fn channel_of(transport: &TransportSpec) -> Channel {
    match transport {
        TransportSpec::Http(_) | TransportSpec::ConnectorProxy(_) => Channel::Http,
        _ => Channel::Stdio,
    }
}

/// Which era is spoken. The older way over HTTP belongs to the handshake era alone.
fn choice_of(transport: &TransportSpec, wanted: Option<ProtocolChoice>) -> Result<EraChoice, McpError> {
    match (transport, wanted) {
        (TransportSpec::Sse(_) | TransportSpec::SseIde(_), Some(ProtocolChoice::Modern)) => {
            let kind = transport.kind();
            let message = format!(
                "a server of type \"{kind}\" is spoken to with the handshake alone, and protocol: \"modern\" asks for \
                 the era without; type \"http\" has both"
            );
            Err(McpError::new(ErrorCode::VersionUnsupported, message))
        }
        (TransportSpec::Sse(_) | TransportSpec::SseIde(_), _) | (_, Some(ProtocolChoice::Legacy)) => {
            Ok(EraChoice::Legacy)
        }
        (_, Some(ProtocolChoice::Modern)) => Ok(EraChoice::Modern),
        (_, Some(ProtocolChoice::Auto) | None) => Ok(EraChoice::Auto),
    }
}

fn start_transport(
    shared: &Shared,
    receiver: Arc<dyn Receiver>,
    way: Way<'_>,
    authorizers: Authorizers,
) -> Result<Arc<dyn Transport>, McpError> {
    match &shared.spec.transport {
        TransportSpec::Stdio(spec) => {
            let limits = ChannelLimits {
                message: shared.settings.max_message,
                queued: shared.settings.max_queued,
                shutdown: shared.settings.shutdown,
            };
            let recipe = stdio_recipe(shared, spec);
            let transport = channel::open(&recipe, way.environment, limits, receiver)?;
            leftovers::tell_without_link(shared);
            Ok(transport)
        }
        TransportSpec::Sdk { name } => {
            let limits =
                InProcessLimits { message: shared.settings.max_message, queued: shared.settings.max_queued };
            let script: Arc<dyn Script> = Arc::<dyn Host>::clone(&shared.host);
            Ok(in_process::open(script, &shared.spec.name, name, limits, receiver))
        }
        TransportSpec::WebSocket(_) | TransportSpec::WsIde(_) => socket::start(shared, receiver, authorizers),
        TransportSpec::Http(_)
        | TransportSpec::Sse(_)
        | TransportSpec::SseIde(_)
        | TransportSpec::ConnectorProxy(_) => remote::start(shared, receiver, way.older, authorizers),
    }
}

fn stdio_recipe(shared: &Shared, spec: &StdioSpec) -> StdioRecipe {
    StdioRecipe {
        server: shared.spec.name.to_string(),
        command: spec.command.clone(),
        args: spec.args.clone(),
        env: spec.env.iter().map(|(name, value)| (name.clone(), value.expose().clone())).collect(),
        cwd: spec.cwd.as_ref().map(|cwd| shared.settings.cwd.join(cwd)),
        default_cwd: shared.settings.cwd.clone(),
        inherit: match &spec.inherit_env {
            InheritEnv::Named(names) => Inherit::Named(names.clone()),
            InheritEnv::All => Inherit::All,
        },
        inherit_stderr: shared.settings.inherit_stderr,
    }
}

/// Whether trying again may help (LIF-04).
fn kind_of(error: &McpError) -> FailureKind {
    match error.code() {
        // Nothing but a person helps, and nobody is asked again and again.
        ErrorCode::AuthRequired
        | ErrorCode::AuthScopeInsufficient
        | ErrorCode::AuthFailed
        | ErrorCode::AuthIssuerMismatch => FailureKind::Challenge,
        ErrorCode::HttpStatus if remote::may_pass(error.facts().status) => FailureKind::Passing,
        ErrorCode::ConnectFailed if error.facts().rpc_code.is_some() => FailureKind::Lasting,
        ErrorCode::ConnectFailed
        | ErrorCode::ConnectTimeout
        | ErrorCode::ConnectionLost
        | ErrorCode::ServerExited
        | ErrorCode::SessionExpired
        | ErrorCode::TransportBackpressure
        | ErrorCode::ProxyFailed => FailureKind::Passing,
        _ => FailureKind::Lasting,
    }
}

/// Adds what is known about the other end: noise instead of messages, the last words on standard error.
fn explain(error: &McpError, evidence: &Evidence, phase: Option<Phase>) -> McpError {
    let mut message = error.message().to_owned();
    match error.code() {
        ErrorCode::ServerExited => message.push_str(" before it finished the handshake"),
        ErrorCode::ConnectTimeout if evidence.noise_count > 0 => {
            message.push_str(&format!(
                "; its standard output had {} lines that are no MCP messages",
                evidence.noise_count
            ));
            if evidence.first_noise.as_deref().is_some_and(|line| line.starts_with("Content-Length")) {
                message.push_str(" and looks like Content-Length framing, which MCP does not use");
            }
        }
        _ => {}
    }
    let late = error.code() == ErrorCode::ConnectTimeout;
    let phase = error.facts().phase.or(phase.filter(|_| late));
    if let Some(phase) = phase.filter(|_| late) {
        message.push_str(&format!("; it was {}", phase.doing()));
    }
    if let Some(line) = evidence.stderr_tail.last() {
        message.push_str(&format!("; last line on stderr: {}", crate::client::excerpt(line, 200)));
    }
    let facts = error.facts().clone();
    McpError::new(error.code(), message).with(|target| {
        *target = facts;
        target.phase = phase;
        if target.stderr_tail.is_none() && evidence.pid.is_some() {
            target.stderr_tail = Some(evidence.stderr_tail.clone());
        }
        if target.first_bytes.is_none() {
            target.first_bytes.clone_from(&evidence.first_noise);
        }
        // A process that we ended ourselves did not exit: its exit is no evidence.
        if error.code() == ErrorCode::ServerExited && target.exit.is_none() {
            target.exit.clone_from(&evidence.exit);
        }
    })
}

impl Shared {
    /// Finds every secret of this server: of its definition, and of whatever proves who we are (SEC-03).
    pub(crate) fn secrets(&self) -> Cow<'_, Redactor> {
        let proofs = read(&self.proofs);
        if proofs.is_empty() {
            return Cow::Borrowed(&self.redactor);
        }
        Cow::Owned(self.redactor.clone().and(proofs.redactor()))
    }

    /// The error without any secret of this server.
    pub(crate) fn redact_error(&self, error: McpError) -> McpError {
        let secrets = self.secrets();
        let text = |text: &str| secrets.redact(text).into_owned();
        let json = |text: &str| secrets.redact_json(text).into_owned();
        error.map_texts(&text, &json).on(&self.spec.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::{OAuthChoice, RemoteSpec};

    #[test]
    fn pro_02_the_older_way_over_http_has_no_stateless_era() {
        use ProtocolChoice::{Auto, Legacy, Modern};
        let remote = || RemoteSpec {
            url: crate::secret::SafeUrl::new("https://a.test/mcp"),
            headers: std::collections::BTreeMap::new(),
            headers_helper: None,
            oauth: OAuthChoice::Off,
        };
        let (sse, http) = (TransportSpec::Sse(remote()), TransportSpec::Http(remote()));
        for (transport, wanted, expected) in [
            (&sse, None, Ok(EraChoice::Legacy)),
            (&sse, Some(Auto), Ok(EraChoice::Legacy)),
            (&sse, Some(Legacy), Ok(EraChoice::Legacy)),
            (&sse, Some(Modern), Err(ErrorCode::VersionUnsupported)),
            (&http, None, Ok(EraChoice::Auto)),
            (&http, Some(Modern), Ok(EraChoice::Modern)),
            (&http, Some(Legacy), Ok(EraChoice::Legacy)),
        ] {
            let choice = choice_of(transport, wanted).map_err(|error| error.code());
            assert_eq!(choice, expected, "{} {wanted:?}", transport.kind());
        }
    }
}
