//! The protocol client of one connection: requests out, answers back, everything else to `inbound`.
//!
//! Owns: ids, progress tokens, what was negotiated. A client lives as long as its transport; a new connection
//! means a new client, so no answer ever crosses generations (B-090).

pub mod inbound;
pub mod open;
pub mod pages;
pub mod progress;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError};
use crate::jsonrpc::write::{self, Params};
use crate::jsonrpc::{RawText, RpcError};
use crate::protocol::capability::{self, ServerIntroduction};
use crate::protocol::version::ProtocolVersion;
use crate::transport::{Mirrored, Outgoing, RequestFailure, Transport};
use crate::unicode;
use progress::{ProgressSink, ProgressTable};

/// What the handshake settled.
#[derive(Debug)]
pub struct Negotiated {
    /// Revision both sides speak.
    pub version: ProtocolVersion,
    /// What the server says of itself; shown, never trusted (mcp:META-13).
    pub introduction: ServerIntroduction,
}

/// One conversation with a server.
#[derive(Debug)]
pub struct Client {
    server: Arc<str>,
    transport: Arc<dyn Transport>,
    negotiated: Negotiated,
    next_id: AtomicU64,
    progress: Arc<ProgressTable>,
}

/// A request in the making.
pub struct Request<'a> {
    /// Method.
    pub method: &'a str,
    /// Parameters.
    pub params: &'a Params,
    /// Its limits; progress of this very request resets the idle one.
    pub deadline: &'a Arc<Deadline>,
    /// What transports with headers mirror; the method is filled in.
    pub mirrored: Mirrored,
    /// Who hears of its progress.
    pub progress: Option<ProgressSink>,
}

impl Client {
    /// The server's name.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// What was negotiated.
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// The way to the server.
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// Sends a request and waits for its result within the deadline. Dropping the future cancels it.
    ///
    /// # Errors
    /// `CAPABILITY_MISSING` before anything is sent, `RPC_ERROR` for an error answer, `TIMEOUT`, and whatever
    /// the transport says; all name the server.
    pub async fn request(&self, request: Request<'_>) -> Result<RawText, McpError> {
        capability::check(request.method, &self.negotiated.introduction.capabilities)
            .map_err(|error| error.on(&self.server))?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = write::request(id, request.method, request.params);
        let mirrored = Mirrored { method: request.method.to_owned(), ..request.mirrored };
        let _watched = self.progress.watch(id, Arc::clone(request.deadline), request.progress);
        tokio::select! {
            biased;
            reply = self.transport.request(Outgoing { id, frame, cancellable: true, mirrored }) => {
                reply.map_err(|failure| self.describe(failure, request.method))
            }
            kind = request.deadline.expired() => {
                Err(request.deadline.error(kind, request.method).on(&self.server))
            }
        }
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Option<&str>) -> Result<(), McpError> {
        let frame = write::notification(method, params);
        self.transport.send(frame).await.map_err(|error| error.on(&self.server))
    }

    /// Asks whether the server is there.
    pub async fn ping(&self, deadline: &Arc<Deadline>) -> Result<(), McpError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = write::plain_request(id, "ping", None);
        let mirrored = Mirrored { method: "ping".to_owned(), ..Mirrored::default() };
        let outgoing = Outgoing { id, frame, cancellable: true, mirrored };
        tokio::select! {
            biased;
            reply = self.transport.request(outgoing) => match reply {
                Ok(_) => Ok(()),
                Err(failure) => Err(self.describe(failure, "ping")),
            },
            kind = deadline.expired() => Err(deadline.error(kind, "ping").on(&self.server)),
        }
    }

    fn describe(&self, failure: RequestFailure, method: &str) -> McpError {
        match failure {
            RequestFailure::Transport(error) => error.on(&self.server),
            RequestFailure::Rpc(error) => rpc_error(&error, method).on(&self.server),
        }
    }
}

/// The public form of an error answer; the server's text is cleaned, `data` kept.
pub fn rpc_error(error: &RpcError, method: &str) -> McpError {
    let said = excerpt(&unicode::clean_str_lossy(&error.message), 2_000);
    let said = if said.is_empty() { "no message".to_owned() } else { said };
    McpError::new(ErrorCode::RpcError, format!("{method} was answered with error {}: {said}", error.code))
        .with(|facts| {
            facts.rpc_code = Some(error.code);
            facts.data.clone_from(&error.data);
        })
}

/// The beginning of a text, cut between characters, with a mark where it was cut.
pub fn excerpt(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
