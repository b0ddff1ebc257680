//! One attempt to connect: start the transport, shake hands, or leave nothing behind and say why.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::state::FailureKind;
use super::{ClientListener, Live, Shared};
use crate::client::inbound::Inbound;
use crate::client::open::shake_hands;
use crate::client::progress::ProgressTable;
use crate::config::spec::{InheritEnv, StdioSpec, TransportSpec};
use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError};
use crate::runtime::write;
use crate::transport::stdio::channel::{self, ChannelLimits};
use crate::transport::stdio::{Inherit, StdioRecipe};
use crate::transport::{CloseMode, Evidence, Transport};

/// Why an attempt failed, and what that means for the next one.
pub(crate) type Failure = (FailureKind, McpError);

/// Makes the connection of a generation. `abandon` ends the attempt early; whatever was started is reaped.
pub(crate) async fn open(
    shared: Arc<Shared>,
    generation: u64,
    mut abandon: oneshot::Receiver<()>,
) -> Result<Live, Failure> {
    let server: Arc<str> = Arc::clone(&shared.spec.name);
    let deadline = Deadline::start(shared.settings.clocks.connecting());
    let progress = Arc::new(ProgressTable::default());
    let listener = Arc::new(ClientListener { shared: Arc::clone(&shared), generation });
    let inbound = Arc::new(Inbound::new(listener, Arc::clone(&progress)));
    // The one gate: whatever led here, the very definition that is connected to passes policy. (H14, B-025)
    let passed = shared.settings.gate.check(&shared.spec);
    let started = passed.and_then(|()| start_transport(&shared, Arc::clone(&inbound)));
    let transport = started.map_err(|error| {
        let error = error.on(&server);
        (kind_of(&error), error)
    })?;
    inbound.attach(&transport);
    write(&shared.view).transport = Some(Arc::clone(&transport));
    let hands = shake_hands(&server, &transport, &progress, &shared.settings.introduction, &deadline);
    let outcome = tokio::select! {
        biased;
        outcome = hands => outcome,
        _ = &mut abandon => Err(McpError::new(ErrorCode::ConnectFailed, "the attempt was given up")),
    };
    match outcome {
        Ok(client) => Ok(Live { client: Arc::new(client), generation }),
        Err(error) => {
            let kind = kind_of(&error);
            transport.close(CloseMode::Fast, error.clone()).await;
            let error = explain(error, &transport.evidence()).on(&server);
            Err((kind, shared.redact_error(error)))
        }
    }
}

fn start_transport(shared: &Shared, inbound: Arc<Inbound>) -> Result<Arc<dyn Transport>, McpError> {
    match &shared.spec.transport {
        TransportSpec::Stdio(spec) => {
            let limits = ChannelLimits {
                message: shared.settings.max_message,
                queued: shared.settings.max_queued,
                shutdown: shared.settings.shutdown,
            };
            let recipe = stdio_recipe(shared, spec);
            let transport = channel::open(&recipe, &shared.settings.environment, limits, inbound)?;
            Ok(transport)
        }
        other => Err(McpError::new(
            ErrorCode::ConfigInvalid,
            format!("servers of type \"{}\" cannot be connected by this version", other.kind()),
        )),
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
        ErrorCode::AuthRequired => FailureKind::Challenge,
        ErrorCode::ConnectFailed if error.facts().rpc_code.is_some() => FailureKind::Lasting,
        ErrorCode::ConnectFailed
        | ErrorCode::ConnectTimeout
        | ErrorCode::ConnectionLost
        | ErrorCode::ServerExited
        | ErrorCode::TransportBackpressure
        | ErrorCode::ProxyFailed => FailureKind::Passing,
        _ => FailureKind::Lasting,
    }
}

/// Adds what is known about the other end: noise instead of messages, the last words on standard error.
fn explain(error: McpError, evidence: &Evidence) -> McpError {
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
    if let Some(line) = evidence.stderr_tail.last() {
        message.push_str(&format!("; last line on stderr: {}", crate::client::excerpt(line, 200)));
    }
    let facts = error.facts().clone();
    McpError::new(error.code(), message).with(|target| {
        *target = facts;
        if target.stderr_tail.is_none() {
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
    /// The error without any secret of this server's definition.
    pub(crate) fn redact_error(&self, error: McpError) -> McpError {
        let message = self.redactor.redact(error.message()).into_owned();
        let facts = error.facts().clone();
        let redacted = McpError::new(error.code(), message).with(|target| {
            *target = facts;
            for line in target.stderr_tail.iter_mut().flatten() {
                *line = self.redactor.redact(line).into_owned();
            }
            if let Some(shown) = &mut target.first_bytes {
                *shown = self.redactor.redact(shown).into_owned();
            }
        });
        redacted.on(&self.spec.name)
    }
}
