//! From a transport to a client: which era is spoken, and its opening (PRO-02, PRO-03).
//!
//! What an answer means is judged by `protocol::negotiation`; here it is asked, in the order of the era choice.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde_json::value::RawValue;

use super::login::Logins;
use super::verdict::VerdictStore;
use super::{Client, Negotiated, Tables, rpc_error};
use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError, TimeoutKind};
use crate::jsonrpc::write::{self, Params};
use crate::jsonrpc::{RawText, RpcError};
use crate::protocol::capability::{self, ClientFeatures, ClientIdentity};
use crate::protocol::negotiation::{Channel, ProbeOutcome, UNSUPPORTED_VERSION, Verdict, judge};
use crate::protocol::stateless::{self, Discovery};
use crate::protocol::version::{Era, ProtocolVersion};
use crate::transport::{Mirrored, Outgoing, RequestFailure, Transport};

/// What the host says of itself.
#[derive(Clone, Debug)]
pub struct Introduction {
    /// Name and version.
    pub identity: ClientIdentity,
    /// Capabilities; only what somebody serves.
    pub features: ClientFeatures,
}

impl Introduction {
    /// Members of `_meta` of every request; empty in the handshake era.
    ///
    /// `tasks`: the server has the tasks extension too (mcp:TASK-01, TASK-17).
    pub(super) fn envelope(&self, version: ProtocolVersion, log_level: Option<&str>, tasks: bool) -> String {
        let features = ClientFeatures { tasks: self.features.tasks && tasks, ..self.features };
        match version.era() {
            Era::Legacy => String::new(),
            Era::Modern => stateless::envelope(version, features, &self.identity, log_level),
        }
    }
}

/// Which era to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EraChoice {
    /// Found out.
    #[default]
    Auto,
    /// The handshake era and no other.
    Legacy,
    /// The stateless era and no other.
    Modern,
}

/// Everything that an opening needs.
pub struct Opening<'a> {
    /// Name of the server.
    pub server: &'a Arc<str>,
    /// The way to it.
    pub transport: &'a Arc<dyn Transport>,
    /// What client and receiving side share.
    pub tables: &'a Tables,
    /// What the host says of itself.
    pub introduction: &'a Introduction,
    /// Limit of the whole opening.
    pub deadline: &'a Deadline,
    /// Limit of one probe; default 10 s.
    pub probe: Duration,
    /// How the server is reached.
    pub channel: Channel,
    /// Which era is wanted.
    pub choice: EraChoice,
    /// What is remembered of this server.
    pub verdicts: &'a dyn VerdictStore,
}

/// Opens a conversation. The caller closes the transport when this fails.
///
/// # Errors
/// `CONNECT_TIMEOUT`, `VERSION_UNSUPPORTED` naming both sides' versions, `CONNECT_FAILED` when the server
/// refuses, `MESSAGE_INVALID`, and whatever the transport says.
pub async fn open(opening: Opening<'_>) -> Result<Client, McpError> {
    let talk = Talk { opening, next_id: AtomicU64::new(0) };
    let negotiated = match (talk.opening.choice, talk.opening.channel) {
        (EraChoice::Legacy, _) => talk.shake_hands().await.map_err(Refused::into_error)?,
        (EraChoice::Modern, _) => talk.discover_only().await?,
        (EraChoice::Auto, Channel::Stdio) => talk.auto_on_stdio().await?,
        (EraChoice::Auto, Channel::Http) => talk.auto_on_http().await?,
    };
    talk.opening.verdicts.remember(negotiated.version);
    talk.opening.transport.negotiated(negotiated.version);
    if negotiated.version.era() == Era::Legacy {
        talk.confirm().await?;
    }
    Ok(talk.into_client(negotiated))
}

/// Why a handshake failed.
enum Refused {
    /// The server answered it with an error.
    Rpc(RpcError),
    /// The server answered it with a version of the stateless era.
    WantsModern(McpError),
    /// Anything else.
    Other(McpError),
}

impl Refused {
    /// The error where nothing else is tried; what the server said stands in it (mcp:ERA-19).
    fn into_error(self) -> McpError {
        let error = match self {
            Refused::Rpc(error) => error,
            Refused::WantsModern(error) | Refused::Other(error) => return error,
        };
        let cause = rpc_error(&error, "initialize");
        let facts = cause.facts().clone();
        let message = format!("the server refused the handshake: {}", cause.message());
        McpError::new(ErrorCode::ConnectFailed, message).with(|target| *target = facts).caused_by(cause)
    }
}

/// What a probe has told.
enum Probed {
    Modern(Negotiated),
    Legacy,
}

struct Talk<'a> {
    opening: Opening<'a>,
    next_id: AtomicU64,
}

impl Talk<'_> {
    fn into_client(self, negotiated: Negotiated) -> Client {
        let Opening { server, transport, tables, introduction, .. } = self.opening;
        tables.input.agreed(negotiated.version);
        Client {
            server: Arc::clone(server),
            transport: Arc::clone(transport),
            envelope: RwLock::new(Arc::from(introduction.envelope(
                negotiated.version,
                None,
                negotiated.introduction.capabilities.tasks,
            ))),
            negotiated,
            next_id: self.next_id,
            tables: tables.clone(),
            introduction: introduction.clone(),
            mirrors: RwLock::new(HashMap::new()),
        }
    }

    /// The handshake first: a server of both eras is spoken to in the old one, and nothing boots twice (D4).
    async fn auto_on_stdio(&self) -> Result<Negotiated, McpError> {
        if self.remembers_modern() {
            match self.probe().await {
                Ok(Probed::Modern(negotiated)) => return Ok(negotiated),
                Ok(Probed::Legacy) => self.opening.verdicts.forget(),
                Err(error) => {
                    // Contradicted: the next attempt starts from nothing (mcp:ERA-14).
                    self.opening.verdicts.forget();
                    return Err(error);
                }
            }
        }
        let refused = match self.shake_hands().await {
            Ok(negotiated) => return Ok(negotiated),
            Err(Refused::Other(error)) => return Err(error),
            Err(refused) => refused,
        };
        match self.probe().await {
            Ok(Probed::Modern(negotiated)) => Ok(negotiated),
            // The server speaks neither era: what it said to the handshake is the better explanation.
            Ok(Probed::Legacy) => Err(refused.into_error()),
            Err(error) => Err(error.caused_by(refused.into_error())),
        }
    }

    /// Discovery first; only an answer selects the old era (D11).
    async fn auto_on_http(&self) -> Result<Negotiated, McpError> {
        let known = self.opening.verdicts.recall();
        if known.is_some_and(|verdict| verdict.version.era() == Era::Legacy) {
            match self.shake_hands().await {
                Err(Refused::Rpc(_) | Refused::WantsModern(_)) => self.opening.verdicts.forget(),
                outcome => return outcome.map_err(Refused::into_error),
            }
        }
        match self.probe().await? {
            Probed::Modern(negotiated) => Ok(negotiated),
            Probed::Legacy => self.shake_hands().await.map_err(Refused::into_error),
        }
    }

    fn remembers_modern(&self) -> bool {
        self.opening.verdicts.recall().is_some_and(|verdict| verdict.version.era() == Era::Modern)
    }

    /// A server that does not speak the era that was asked for is told apart from one that fails (mcp:ERA-18).
    async fn discover_only(&self) -> Result<Negotiated, McpError> {
        match self.probe().await? {
            Probed::Modern(negotiated) => Ok(negotiated),
            Probed::Legacy => {
                let version = ProtocolVersion::MODERN[0];
                let message = format!(
                    "the server does not speak protocol version {version}, which protocol: \"modern\" asks for; \
                     protocol: \"auto\" allows the handshake too"
                );
                Err(McpError::new(ErrorCode::VersionUnsupported, message))
            }
        }
    }

    /// Asks with `server/discover`, once more where the server names another version (mcp:ERA-08).
    async fn probe(&self) -> Result<Probed, McpError> {
        let mut version = ProtocolVersion::MODERN[0];
        let mut retried = false;
        loop {
            let (outcome, answer) = self.ask(version).await?;
            match judge(self.opening.channel, &outcome, retried) {
                Verdict::Legacy => return Ok(Probed::Legacy),
                Verdict::RetryAt(other) => (version, retried) = (other, true),
                Verdict::Unsupported(theirs) => return Err(stateless::versions_differ(&theirs)),
                Verdict::Modern(version) => {
                    if let Ok(discovery) = answer {
                        let introduction = discovery.introduction(version);
                        return Ok(Probed::Modern(Negotiated { version, introduction }));
                    }
                    return Err(McpError::new(ErrorCode::Internal, "a verdict without an answer"));
                }
                Verdict::Surface => match answer {
                    Err(Some(error)) => return Err(error),
                    _ => return Err(self.silence()),
                },
            }
        }
    }

    /// One probe: how it ended, and what it said or failed with.
    async fn ask(
        &self,
        version: ProtocolVersion,
    ) -> Result<(ProbeOutcome, Result<Discovery, Option<McpError>>), McpError> {
        let envelope = self.opening.introduction.envelope(version, None, false);
        let mut logins = Logins::default();
        let reply = loop {
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            let frame = write::enveloped_request(id, "server/discover", &Params::default(), &envelope);
            let mirrored = Mirrored { version: Some(version), ..mirrored("server/discover") };
            let request = Outgoing { id, frame, mirrored, ..Outgoing::default() };
            let reply = tokio::select! {
                biased;
                reply = self.opening.transport.request(request) => reply,
                () = tokio::time::sleep(self.opening.probe) => return Ok((ProbeOutcome::Silence, Err(None))),
                kind = self.opening.deadline.expired() => {
                    return Err(self.opening.deadline.error(kind, "the handshake"));
                }
            };
            let transport = self.opening.transport.as_ref();
            if let ControlFlow::Break(reply) = logins.mend(transport, reply, self.opening.deadline).await {
                break reply;
            }
        };
        Ok(match reply {
            Ok(text) => match Discovery::read(text.as_str()) {
                Some(discovery) => (ProbeOutcome::Discovered(discovery.supported.clone()), Ok(discovery)),
                None => (ProbeOutcome::Unreadable, Err(None)),
            },
            Err(RequestFailure::Rpc(error)) => {
                let supported = stateless::supported_versions(&error);
                let typed = stateless::typed_error(&error, "server/discover")
                    .unwrap_or_else(|| rpc_error(&error, "server/discover"));
                (ProbeOutcome::Refused { code: error.code, supported }, Err(Some(typed)))
            }
            Err(RequestFailure::Transport(error)) => (outcome_of(&error), Err(Some(error))),
        })
    }

    fn silence(&self) -> McpError {
        let limit = self.opening.probe.as_millis();
        let message = format!("server/discover was not answered within {limit} ms (probeTimeoutMs)");
        McpError::new(ErrorCode::ConnectTimeout, message)
            .with(|facts| facts.kind = Some(TimeoutKind::Connect))
    }

    /// The last word of the handshake; once more after a login.
    async fn confirm(&self) -> Result<(), McpError> {
        let Opening { transport, deadline, .. } = &self.opening;
        let mut logins = Logins::default();
        while let Err(error) = transport.send(write::notification("notifications/initialized", None)).await {
            logins.after(transport.as_ref(), error, || deadline.hold()).await?;
        }
        Ok(())
    }

    /// Once more at an older version, where the server refuses with the list of its own (mcp:LIFE-11).
    async fn shake_hands(&self) -> Result<Negotiated, Refused> {
        let newest = ProtocolVersion::LEGACY[0];
        let refused = match self.greet(newest).await {
            Err(Refused::Rpc(error)) => error,
            outcome => return outcome,
        };
        match older_version(&refused) {
            Some(older) => self.greet(older).await,
            None => Err(Refused::Rpc(refused)),
        }
    }

    async fn greet(&self, version: ProtocolVersion) -> Result<Negotiated, Refused> {
        let Opening { transport, introduction, deadline, .. } = &self.opening;
        let params = capability::initialize_params(version, introduction.features, &introduction.identity);
        let mut logins = Logins::default();
        let answer = loop {
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            let frame = write::plain_request(id, "initialize", Some(&params));
            // Never cancelled: a server that does not answer is closed instead (mcp:LIFE-09).
            let request = Outgoing { id, frame, mirrored: mirrored("initialize"), ..Outgoing::default() };
            let answer = tokio::select! {
                biased;
                answer = transport.request(request) => answer,
                kind = deadline.expired() => return Err(Refused::Other(deadline.error(kind, "the handshake"))),
            };
            if let ControlFlow::Break(answer) = logins.mend(transport.as_ref(), answer, deadline).await {
                break answer;
            }
        };
        read_answer(answer, version)
    }
}

/// What a failure on the way says about the era.
fn outcome_of(error: &McpError) -> ProbeOutcome {
    match (error.code(), error.facts().status) {
        (
            ErrorCode::AuthRequired
            | ErrorCode::AuthFailed
            | ErrorCode::AuthIssuerMismatch
            | ErrorCode::AuthScopeInsufficient
            | ErrorCode::AuthStoreFailed
            | ErrorCode::UrlRefused,
            _,
        ) => ProbeOutcome::Unreached,
        (ErrorCode::MessageInvalid, _) => ProbeOutcome::Unreadable,
        (_, Some(status)) => ProbeOutcome::Status(status),
        (ErrorCode::ServerExited | ErrorCode::ConnectionLost, None) => ProbeOutcome::Ended,
        _ => ProbeOutcome::Unreached,
    }
}

/// The version to ask for after a refusal. A server of both eras is asked for the other one instead.
fn older_version(refusal: &RpcError) -> Option<ProtocolVersion> {
    let theirs = stateless::supported_versions(refusal);
    let known = |version: &ProtocolVersion| theirs.iter().any(|name| name == version.as_str());
    let modern = refusal.code == UNSUPPORTED_VERSION || ProtocolVersion::MODERN.iter().any(known);
    ProtocolVersion::LEGACY.into_iter().skip(1).find(known).filter(|_| !modern)
}

fn mirrored(method: &str) -> Mirrored {
    Mirrored { method: method.to_owned(), ..Mirrored::default() }
}

fn read_answer(
    answer: Result<RawText, RequestFailure>,
    asked: ProtocolVersion,
) -> Result<Negotiated, Refused> {
    let text = match answer {
        Ok(text) => text.into_string(),
        Err(RequestFailure::Transport(error)) => return Err(Refused::Other(error)),
        Err(RequestFailure::Rpc(error)) => return Err(Refused::Rpc(error)),
    };
    let raw: &RawValue =
        serde_json::from_str(&text).map_err(|_| Refused::Other(invalid("is not an object")))?;
    let introduction = capability::read_introduction(raw).map_err(Refused::Other)?;
    match ProtocolVersion::parse(&introduction.protocol_version) {
        Some(version) if version.era() == Era::Legacy => Ok(Negotiated { version, introduction }),
        Some(_) => Err(Refused::WantsModern(unsupported(&introduction.protocol_version, asked))),
        None => Err(Refused::Other(unsupported(&introduction.protocol_version, asked))),
    }
}

fn invalid(why: &str) -> McpError {
    McpError::new(ErrorCode::MessageInvalid, format!("the answer to initialize {why}"))
}

fn unsupported(theirs: &str, asked: ProtocolVersion) -> McpError {
    let theirs = super::excerpt(&crate::unicode::clean_str_lossy(theirs), 50);
    let ours: Vec<&str> = ProtocolVersion::LEGACY.iter().map(|version| version.as_str()).collect();
    McpError::new(
        ErrorCode::VersionUnsupported,
        format!(
            "the server speaks protocol version \"{theirs}\", this host asked for {} and speaks {}",
            asked.as_str(),
            ours.join(", ")
        ),
    )
}
