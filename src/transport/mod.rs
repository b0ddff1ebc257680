//! The way to a server: one trait for every transport, and the pieces that transports share.
//!
//! Owns: moving frames, matching answers to requests, ending. Does not know MCP methods beyond the
//! notification that cancels a request.

pub mod authorizer;
pub mod connector;
pub mod duplex;
pub mod frame_events;
pub mod frame_lines;
pub mod http;
pub mod in_process;
pub mod legacy_sse;
pub mod outbox;
pub mod stdio;
pub mod tap;
pub mod websocket;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use stdio::CloseMode;
use tokio::time::Instant;

use crate::deadline::Deadline;
use crate::error::{ExitFact, McpError, Phase};
use crate::jsonrpc::{Answer, Incoming, RawText, RpcError};
use crate::protocol::version::ProtocolVersion;

/// A boxed future, so that transports can be trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a request has no result.
#[derive(Debug)]
pub enum RequestFailure {
    /// The server answered with an error.
    Rpc(RpcError),
    /// Nobody answered properly; `delivered` tells whether the request may have run.
    Transport(McpError),
}

/// One request on its way.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// Id, unique within the connection.
    pub id: u64,
    /// The whole frame, newline included.
    pub frame: String,
    /// Whether the server is told when nobody waits any more (`initialize` never is, mcp:LIFE-09).
    pub cancellable: bool,
    /// What transports with headers mirror (mcp:HDR-*); others ignore it.
    pub mirrored: Mirrored,
    /// Its clocks, for a transport that has a person log in once the request is with the server: they stand still
    /// meanwhile (PRO-06).
    pub deadline: Option<Arc<Deadline>>,
}

/// Parts of a request that some transports repeat outside of the frame.
#[derive(Clone, Debug, Default)]
pub struct Mirrored {
    /// Method.
    pub method: String,
    /// Name of the tool or prompt, or the resource's URI.
    pub name: Option<String>,
    /// Arguments that the tool's schema asks to mirror (`x-mcp-header`): header name and value, not yet encoded.
    pub arguments: Vec<(String, String)>,
    /// Revision this very request speaks, where each says so; else the negotiated one counts.
    pub version: Option<ProtocolVersion>,
}

/// What is known about a transport, for status and errors.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Process id of the server.
    pub pid: Option<u32>,
    /// How its process ended.
    pub exit: Option<ExitFact>,
    /// Last lines of its standard error.
    pub stderr_tail: Vec<String>,
    /// First line that was not a message, cleaned.
    pub first_noise: Option<String>,
    /// Lines that were not messages.
    pub noise_count: u64,
    /// Processes that its closing could not end, as far as they are known; `None` where nothing is left, or it was not
    /// closed.
    pub survivors: Option<Vec<u32>>,
}

/// A way to one server. Dropping the future of [`Transport::request`] cancels the request.
pub trait Transport: Send + Sync + fmt::Debug {
    /// Sends a request and waits for its answer.
    fn request(&self, request: Outgoing) -> BoxFuture<'_, Result<RawText, RequestFailure>>;
    /// Tells which revision was negotiated; from then on transports with headers say so in each request.
    fn negotiated(&self, version: ProtocolVersion);
    /// Sends a notification, or the answer to a request of the server.
    fn send(&self, frame: String) -> BoxFuture<'_, Result<(), McpError>>;
    /// Ends the connection: open requests fail with `reason`; resolves when nothing of it is left, within a
    /// few seconds.
    fn close(&self, mode: CloseMode, reason: McpError) -> BoxFuture<'_, ()>;
    /// The process behind the transport, if there is one.
    fn process(&self) -> Option<Arc<stdio::ServerProcess>>;
    /// What is known about the other end.
    fn evidence(&self) -> Evidence;
    /// The way that was found to work, where it may differ from the configured one (`http`, `sse`).
    fn kind(&self) -> Option<&'static str> {
        None
    }
    /// How far the youngest exchange over the network has come without an answer.
    fn phase(&self) -> Option<Phase> {
        None
    }
    /// HTTP status of the last answer.
    fn last_status(&self) -> Option<u16> {
        None
    }
    /// Until when a busy server wants to be left alone (F-047): what is sent meanwhile waits.
    fn paused_until(&self) -> Option<Instant> {
        None
    }
    /// Has a person log in after a request was refused with `cause` (OAU-02); fails with `cause` where nobody can.
    fn log_in(&self, cause: McpError) -> BoxFuture<'_, Result<(), McpError>> {
        Box::pin(async { Err(cause) })
    }
}

/// Takes what the server sends unasked. Called by the reading task: must return at once.
pub trait Receiver: Send + Sync {
    /// A request or a notification.
    fn message(&self, message: Incoming);
    /// An answer, whoever waits for it, before anybody hears of it: for who writes down what is said.
    fn response(&self, _id: Option<u64>, _answer: &Answer) {}
    /// A request of ours was answered; its caller hears of it in a moment, of progress no more (mcp:PROG-04).
    fn answered(&self, id: u64);
    /// A line that is no message: its first 200 bytes, cleaned, and why.
    fn noise(&self, excerpt: &str, why: &str);
    /// An answer nobody waits for: late, repeated, or with an unknown id.
    fn stray(&self, id: Option<u64>);
    /// A line of the server's standard error.
    fn stderr(&self, line: &str);
    /// The connection has ended.
    fn closed(&self, error: McpError);
}
