//! Streamable HTTP in both shapes: with sessions (2025-03-26 to 2025-11-25) and stateless (2026-07-28).
//!
//! Owns: the session id, the pause a busy server asks for, the streams. A connection is a promise only:
//! whether the server is there shows with each request (HTTP-01 to HTTP-04).

pub mod answer;
pub mod challenge;
mod exchange;
pub mod headers;
mod listening;
pub mod pause;
pub mod redirect;
pub mod response_body;
pub(super) mod sending;
pub mod session_id;
pub mod stream;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use http::header::HeaderMap;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use url::Url;

use super::authorizer::Authorizers;
use super::connector::Network;
use super::duplex::cancellation;
use super::{BoxFuture, CloseMode, Evidence, Outgoing, Receiver, RequestFailure, Transport, stdio};
use crate::config::policy::UrlGate;
use crate::config::spec::{ProxyChoice, TlsSpec};
use crate::environment::Environment;
use crate::error::{Delivery, ErrorCode, McpError, Phase};
use crate::jsonrpc::RawText;
use crate::protocol::version::{Era, ProtocolVersion};
use crate::runtime::{self, lock, read};
use crate::secret::Secret;
use pause::Pause;
use session_id::SessionId;

type Reply = Result<RawText, RequestFailure>;

/// How long the end of a session may take to be told (mcp:HTTPL-24).
const GOODBYE: Duration = Duration::from_secs(2);
/// The same in a hurry.
const FAST_GOODBYE: Duration = Duration::from_millis(300);
/// How long requests of an expired session may wait for their own refusal (F-043).
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Requests under way at the same time; others wait for their turn. What a server waits for itself, our answers and
/// notifications, waits for none.
const MOST_REQUESTS: usize = 100;

/// Default of [`HttpLimits::stall`].
const STALL: Duration = Duration::from_secs(30);

/// Bounds of a transport over HTTP.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Longest body and longest event in bytes.
    pub message: usize,
    /// Tries to resume a stream; default 5 (HTTP-02).
    pub retries: u32,
    /// First delay between them, then half as much again each time; default 1 s.
    pub first_delay: Duration,
    /// Making a connection, each stretch of it a third of that (F-055).
    pub connect: Duration,
    /// Silence within a body that has begun; default 30 s. One that has not begun may still be computed: the
    /// clocks of the call bound that.
    pub stall: Duration,
}

impl HttpLimits {
    /// Defaults for messages of at most `message` bytes and connections within `connect`.
    pub fn new(message: usize, connect: Duration) -> Self {
        Self { message, retries: 5, first_delay: Duration::from_secs(1), connect, stall: STALL }
    }

    /// The delay before try `tries` (from 1) to reach a stream again.
    fn delay(&self, tries: u32) -> Duration {
        let factor = 1.5_f64.powi(i32::try_from(tries.saturating_sub(1).min(20)).unwrap_or(20));
        self.first_delay.mul_f64(factor).min(Duration::from_secs(30))
    }
}

/// What a transport over HTTP is made of.
#[derive(Debug)]
pub struct HttpRecipe {
    /// Where the server is.
    pub url: Url,
    /// Headers of every request.
    pub headers: Vec<(String, Secret<String>)>,
    /// Who proves who we are; what they present wins over the configured headers.
    pub authorizers: Authorizers,
    /// Trust.
    pub tls: Option<TlsSpec>,
    /// Detour.
    pub proxy: ProxyChoice,
    /// What every further URL of the server passes.
    pub gate: UrlGate,
    /// Environment of the host.
    pub environment: Arc<Environment>,
    /// Bounds.
    pub limits: HttpLimits,
    /// The revision, where it is known already; otherwise the handshake era until told.
    pub version: Option<ProtocolVersion>,
}

#[derive(Debug, Default)]
struct Session {
    id: Option<SessionId>,
    version: Option<ProtocolVersion>,
    last_status: Option<u16>,
}

/// What all exchanges of a transport share.
pub(super) struct Shared {
    url: RwLock<Url>,
    headers: HeaderMap,
    authorizers: Authorizers,
    gate: UrlGate,
    network: Network,
    limits: HttpLimits,
    receiver: Arc<dyn Receiver>,
    session: Mutex<Session>,
    pause: Pause,
    /// Set once, by whoever ends the transport.
    ended: watch::Sender<Option<McpError>>,
    open: watch::Sender<usize>,
    expired: AtomicBool,
    listening: AtomicBool,
    /// Turns of requests: each needs a connection of its own until its answer has come.
    turns: Semaphore,
}

/// A server behind a URL.
pub struct HttpTransport {
    shared: Arc<Shared>,
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport").finish_non_exhaustive()
    }
}

/// Prepares a transport; nothing is opened before the first request.
///
/// # Errors
/// `CONFIG_INVALID` for a header that cannot be one.
pub fn open(recipe: HttpRecipe, receiver: Arc<dyn Receiver>) -> Result<Arc<HttpTransport>, McpError> {
    share(recipe, receiver).map(|shared| Arc::new(HttpTransport { shared }))
}

/// The part that transports over HTTP have in common.
pub(super) fn share(recipe: HttpRecipe, receiver: Arc<dyn Receiver>) -> Result<Arc<Shared>, McpError> {
    let headers = headers::configured(&recipe.headers)?;
    let session = Session { version: recipe.version, ..Session::default() };
    Ok(Arc::new(Shared {
        url: RwLock::new(recipe.url),
        headers,
        authorizers: recipe.authorizers,
        gate: recipe.gate,
        network: Network::new(
            recipe.tls,
            recipe.proxy,
            recipe.environment,
            recipe.limits.connect,
            recipe.limits.stall,
        ),
        limits: recipe.limits,
        receiver,
        session: Mutex::new(session),
        pause: Pause::default(),
        ended: watch::Sender::new(None),
        open: watch::Sender::new(0),
        expired: AtomicBool::new(false),
        listening: AtomicBool::new(false),
        turns: Semaphore::new(MOST_REQUESTS),
    }))
}

impl Shared {
    fn url(&self) -> Url {
        read(&self.url).clone()
    }

    /// What every further URL of the server passes.
    pub(super) fn gate(&self) -> &UrlGate {
        &self.gate
    }

    pub(super) fn limits(&self) -> &HttpLimits {
        &self.limits
    }

    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        lock(&self.session).version
    }

    pub(super) fn negotiated(&self, version: ProtocolVersion) {
        lock(&self.session).version = Some(version);
    }

    pub(super) fn last_status(&self) -> Option<u16> {
        lock(&self.session).last_status
    }

    pub(super) fn phase(&self) -> Option<Phase> {
        self.network.phase()
    }

    /// Until when the server wants to be left alone; `None` where it does not.
    pub(super) fn paused_until(&self) -> Option<Instant> {
        self.pause.until()
    }

    /// Ends everything under way; the first reason counts.
    pub(super) fn finish(&self, reason: McpError) {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            if first {
                *ended = Some(reason);
            }
            first
        });
    }

    /// Has a person log in.
    pub(super) fn log_in(&self, cause: McpError) -> BoxFuture<'_, Result<(), McpError>> {
        Box::pin(async move {
            let outcome = self.authorizers.log_in(cause).await;
            // Nothing goes through any more until somebody has logged in: the owner is told.
            if let Err(error) = &outcome
                && error.code() == ErrorCode::AuthRequired
            {
                self.receiver.closed(error.clone());
            }
            outcome
        })
    }

    fn is_modern(&self) -> bool {
        self.version().is_some_and(|version| version.era() == Era::Modern)
    }

    /// Completes when the transport ends, with the reason.
    pub(super) async fn end(&self) -> McpError {
        let mut ended = self.ended.subscribe();
        let reason = match ended.wait_for(Option::is_some).await {
            Ok(reason) => (*reason).clone(),
            Err(_) => None,
        };
        reason.unwrap_or_else(|| McpError::new(ErrorCode::ConnectionLost, "the connection was closed"))
    }

    /// The server no longer knows the session: the owner is told once.
    fn expire(&self, error: &McpError) {
        if !self.expired.swap(true, Ordering::AcqRel) {
            self.receiver.closed(error.clone());
        }
    }

    /// The server cannot be reached though it answered before: the owner is told.
    fn unreachable(&self, error: McpError) -> McpError {
        let known = lock(&self.session).last_status.is_some();
        let nothing_sent = error.facts().delivered == Some(Delivery::No);
        let on_the_way = matches!(error.code(), ErrorCode::ConnectFailed | ErrorCode::ProxyFailed);
        if !(known && nothing_sent && on_the_way) {
            return error;
        }
        let lost = McpError::new(ErrorCode::ConnectionLost, error.message())
            .with(|facts| facts.delivered = Some(Delivery::No))
            .caused_by(error);
        self.receiver.closed(lost.clone());
        lost
    }
}

/// Counts the exchanges under way.
struct OpenExchange<'a>(&'a Shared);

impl<'a> OpenExchange<'a> {
    fn count(shared: &'a Shared) -> Self {
        shared.open.send_modify(|open| *open += 1);
        Self(shared)
    }
}

impl Drop for OpenExchange<'_> {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open = open.saturating_sub(1));
    }
}

/// Ends an exchange that nobody waits for any more, and tells the server.
struct Ticket {
    shared: Arc<Shared>,
    task: Option<AbortHandle>,
    id: u64,
    /// Whether a notification tells; in the modern era the end of the stream does (mcp:HTTP-08).
    by_notification: bool,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        task.abort();
        if self.by_notification && self.shared.ended.borrow().is_none() {
            let shared = Arc::clone(&self.shared);
            let frame = cancellation(self.id);
            // Best effort: whoever gave up does not wait for this.
            runtime::spawn(async move { shared.notify(frame).await });
        }
    }
}

async fn request(shared: Arc<Shared>, request: Outgoing) -> Reply {
    let gone = || McpError::new(ErrorCode::ConnectionLost, "the request was dropped");
    if let Some(reason) = shared.ended.borrow().clone() {
        let reason = reason.with(|facts| facts.delivered = Some(Delivery::No));
        return Err(RequestFailure::Transport(reason));
    }
    // Until the owner has heard of it, nothing is sent into a session that is gone.
    if shared.expired.load(Ordering::Acquire) {
        return Err(RequestFailure::Transport(answer::session_expired()));
    }
    let version = request.mirrored.version.or_else(|| shared.version());
    let modern = version.is_some_and(|version| version.era() == Era::Modern);
    let (id, by_notification) = (request.id, request.cancellable && !modern);
    let (reply, answer) = oneshot::channel();
    let own = Arc::clone(&shared);
    // A task of its own: the first poll of this future may happen outside the runtime.
    let task = runtime::spawn(async move {
        let _open = OpenExchange::count(&own);
        let lost = |reason: McpError, delivered| {
            let reason = reason.with(|facts| facts.delivered = Some(delivered));
            (Err(RequestFailure::Transport(reason)), None)
        };
        let (outcome, rest) = tokio::select! {
            biased;
            reason = own.end() => lost(reason, Delivery::No),
            _turn = own.turns.acquire() => tokio::select! {
                biased;
                outcome = exchange::run(&own, request, version) => outcome,
                reason = own.end() => lost(reason, Delivery::Unknown),
            },
        };
        let _ = reply.send(outcome);
        if let Some(rest) = rest {
            response_body::run_out(rest).await;
        }
    });
    let task = task.map(|task| task.abort_handle());
    let mut ticket = Ticket { shared, task, id, by_notification };
    let outcome = answer.await;
    ticket.task = None;
    outcome.unwrap_or_else(|_| Err(RequestFailure::Transport(gone())))
}

async fn send(shared: Arc<Shared>, frame: String) -> Result<(), McpError> {
    // The modern era knows no message of the client that is not a request (mcp:HTTP-04, HTTP-07).
    if shared.is_modern() {
        return Ok(());
    }
    let (reply, answer) = oneshot::channel();
    runtime::spawn(async move {
        let outcome = shared.notify(frame).await;
        if outcome.is_ok() && shared.version().is_some() {
            shared.listen_once();
        }
        let _ = reply.send(outcome);
    });
    let lost = || McpError::new(ErrorCode::ConnectionLost, "the message was dropped");
    answer.await.unwrap_or_else(|_| Err(lost()))
}

async fn close(shared: &Shared, mode: CloseMode, reason: McpError) {
    if shared.expired.load(Ordering::Acquire) {
        let mut open = shared.open.subscribe();
        // Each of them is either refused or lost, and the callers have to know which.
        let _ = tokio::time::timeout(LAST_ANSWERS, open.wait_for(|open| *open == 0)).await;
    }
    shared.finish(reason);
    let patience = if mode == CloseMode::Fast { FAST_GOODBYE } else { GOODBYE };
    if !shared.expired.load(Ordering::Acquire) {
        let _ = tokio::time::timeout(patience, shared.say_goodbye()).await;
    }
}

impl Transport for HttpTransport {
    fn request(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<RawText, RequestFailure>> {
        Box::pin(request(Arc::clone(&self.shared), outgoing))
    }

    fn negotiated(&self, version: ProtocolVersion) {
        self.shared.negotiated(version);
    }

    fn send(&self, frame: String) -> BoxFuture<'_, Result<(), McpError>> {
        Box::pin(send(Arc::clone(&self.shared), frame))
    }

    fn close(&self, mode: CloseMode, reason: McpError) -> BoxFuture<'_, ()> {
        Box::pin(async move { close(&self.shared, mode, reason).await })
    }

    fn process(&self) -> Option<Arc<stdio::ServerProcess>> {
        None
    }

    fn evidence(&self) -> Evidence {
        Evidence::default()
    }

    fn kind(&self) -> Option<&'static str> {
        Some("http")
    }

    fn last_status(&self) -> Option<u16> {
        self.shared.last_status()
    }

    fn phase(&self) -> Option<Phase> {
        self.shared.phase()
    }

    fn paused_until(&self) -> Option<Instant> {
        self.shared.paused_until()
    }

    fn log_in(&self, cause: McpError) -> BoxFuture<'_, Result<(), McpError>> {
        self.shared.log_in(cause)
    }
}

impl Drop for HttpTransport {
    fn drop(&mut self) {
        self.shared.finish(McpError::new(ErrorCode::ConnectionLost, "the connection was given up"));
    }
}

#[cfg(test)]
pub(crate) mod tests;
