//! From a transport to a client: the handshake of the initialize era (PRO-02).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde_json::value::RawValue;

use super::progress::ProgressTable;
use super::{Client, Negotiated, rpc_error};
use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError};
use crate::jsonrpc::{RawText, write};
use crate::protocol::capability::{self, ClientFeatures, ClientIdentity};
use crate::protocol::version::ProtocolVersion;
use crate::transport::{Mirrored, Outgoing, RequestFailure, Transport};

/// What the host says of itself.
#[derive(Clone, Debug)]
pub struct Introduction {
    /// Name and version.
    pub identity: ClientIdentity,
    /// Capabilities; only what somebody serves.
    pub features: ClientFeatures,
}

/// Id of `initialize`; requests after it count on.
const FIRST_ID: u64 = 0;

/// Shakes hands. The caller closes the transport when this fails.
///
/// # Errors
/// `CONNECT_TIMEOUT`, `VERSION_UNSUPPORTED` naming both sides' versions, `CONNECT_FAILED` when the server
/// refuses, `MESSAGE_INVALID`, and whatever the transport says.
pub async fn shake_hands(
    server: &Arc<str>,
    transport: &Arc<dyn Transport>,
    progress: &Arc<ProgressTable>,
    introduction: &Introduction,
    deadline: &Deadline,
) -> Result<Client, McpError> {
    let version = ProtocolVersion::LEGACY[0];
    let params = capability::initialize_params(version, introduction.features, &introduction.identity);
    let frame = write::plain_request(FIRST_ID, "initialize", Some(&params));
    // Never cancelled: a server that does not answer is closed instead (mcp:LIFE-09).
    let request = Outgoing { id: FIRST_ID, frame, cancellable: false, mirrored: mirrored("initialize") };
    let answer = tokio::select! {
        biased;
        answer = transport.request(request) => answer,
        kind = deadline.expired() => return Err(deadline.error(kind, "the handshake")),
    };
    let negotiated = read_answer(answer, version)?;
    transport.negotiated(negotiated.version);
    transport.send(write::notification("notifications/initialized", None)).await?;
    Ok(Client {
        server: Arc::clone(server),
        transport: Arc::clone(transport),
        negotiated,
        next_id: AtomicU64::new(FIRST_ID + 1),
        progress: Arc::clone(progress),
    })
}

fn mirrored(method: &str) -> Mirrored {
    Mirrored { method: method.to_owned(), ..Mirrored::default() }
}

fn read_answer(
    answer: Result<RawText, RequestFailure>,
    asked: ProtocolVersion,
) -> Result<Negotiated, McpError> {
    let text = match answer {
        Ok(text) => text.into_string(),
        Err(RequestFailure::Transport(error)) => return Err(error),
        Err(RequestFailure::Rpc(error)) => {
            let cause = rpc_error(&error, "initialize");
            let facts = cause.facts().clone();
            let message = format!("the server refused the handshake: {}", cause.message());
            return Err(McpError::new(ErrorCode::ConnectFailed, message)
                .with(|target| *target = facts)
                .caused_by(cause));
        }
    };
    let raw: &RawValue = serde_json::from_str(&text).map_err(|_| invalid("is not an object"))?;
    let introduction = capability::read_introduction(raw)?;
    match ProtocolVersion::parse(&introduction.protocol_version) {
        Some(version) if ProtocolVersion::LEGACY.contains(&version) => {
            Ok(Negotiated { version, introduction })
        }
        _ => Err(unsupported(&introduction.protocol_version, asked)),
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
