//! A server behind a WebSocket (WS-01): one JSON-RPC message per text frame.
//!
//! Owns the connection from the first packet to the goodbye. Reconnecting is the business of whoever opens it.

mod closing;
mod upgrade;
mod write_queue;

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use http::header::HeaderMap;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};
use url::Url;

use self::closing::{End, Liveness, Pulse};
use self::upgrade::{Headers, NoUpgrade};
use self::write_queue::WriteQueue;
use super::authorizer::Authorizers;
use super::connector::dial::{Detour, Dialer};
use super::connector::wire::Wire;
use super::duplex::{Duplex, accept_frame};
use super::frame_lines::{EXCERPT, beginning};
use super::stdio::ServerProcess;
use super::{BoxFuture, CloseMode, Evidence, Outgoing, Receiver, RequestFailure, Transport};
use crate::config::spec::{ProxyChoice, TlsSpec};
use crate::environment::Environment;
use crate::error::{Delivery, ErrorCode, McpError};
use crate::jsonrpc::{Incoming, RawText, read};
use crate::protocol::version::ProtocolVersion;
use crate::runtime::{self, lock};
use crate::secret::{SafeUrl, Secret};
use crate::{unicode, url_guard};

/// How long the server's goodbye is waited for after ours, by mode (F-068: closing takes 2 s at most).
const GOODBYE_GRACEFUL: Duration = Duration::from_secs(1);
const GOODBYE_FAST: Duration = Duration::from_millis(250);
/// Longest time that closing takes.
const CLOSING: Duration = Duration::from_secs(2);
/// How long the end of the connection is waited for after the server's goodbye.
const AFTER_GOODBYE: Duration = Duration::from_millis(300);

/// When the other end has to show that it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingTimes {
    /// From one ping to the next; default 30 s.
    pub interval: Duration,
    /// Longest silence after a ping; default 10 s.
    pub timeout: Duration,
}

impl Default for PingTimes {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), timeout: Duration::from_secs(10) }
    }
}

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct WebSocketRecipe {
    /// `ws` or `wss` URL.
    pub url: SafeUrl,
    /// Headers of the upgrade request, names as written.
    pub headers: Vec<(String, Secret<String>)>,
    /// Who proves who we are; what they present wins over the configured headers.
    pub authorizers: Authorizers,
    /// TLS settings of the server.
    pub tls: Option<TlsSpec>,
    /// Proxy settings of the server.
    pub proxy: ProxyChoice,
    /// Environment of the host: proxies and roots of trust.
    pub environment: Arc<Environment>,
    /// Limit of the whole connecting; parts of it get a part of this.
    pub connect: Duration,
}

/// Bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub struct WebSocketLimits {
    /// Longest message in bytes.
    pub message: usize,
    /// Bytes that may wait for a server that does not read.
    pub queued: usize,
    /// When the server has to show that it lives.
    pub ping: PingTimes,
}

#[derive(Debug, Default)]
struct Noise {
    count: u64,
    first: Option<String>,
}

/// A server behind a WebSocket.
#[derive(Debug)]
pub struct WebSocketTransport {
    duplex: Duplex,
    authorizers: Authorizers,
    queue: Arc<WriteQueue>,
    limits: WebSocketLimits,
    noise: Mutex<Noise>,
    /// Set when we end the connection.
    dismissed: watch::Sender<Option<CloseMode>>,
    /// Set when nothing of the connection is left.
    over: watch::Sender<bool>,
}

/// Starts connecting; frames wait until the connection stands. Whether it does shows with the first request:
/// `AUTH_REQUIRED`, `HTTP_STATUS`, `CONNECT_FAILED`, `TLS_FAILED`, `PROXY_FAILED`.
pub fn open(
    recipe: WebSocketRecipe,
    limits: WebSocketLimits,
    receiver: Arc<dyn Receiver>,
) -> Arc<WebSocketTransport> {
    let queue = Arc::new(WriteQueue::new(limits.queued));
    let sink: Arc<WriteQueue> = Arc::clone(&queue);
    let transport = Arc::new(WebSocketTransport {
        duplex: Duplex::new(sink),
        authorizers: recipe.authorizers.clone(),
        queue,
        limits,
        noise: Mutex::default(),
        dismissed: watch::Sender::new(None),
        over: watch::Sender::new(false),
    });
    runtime::spawn(live(Arc::clone(&transport), recipe, receiver));
    transport
}

/// The whole life of a connection.
async fn live(transport: Arc<WebSocketTransport>, recipe: WebSocketRecipe, receiver: Arc<dyn Receiver>) {
    let connected = tokio::select! {
        connected = connect(&recipe, &transport.limits) => connected,
        _ = transport.dismissal() => Err(End::Dismissed.error(&transport.limits.ping)),
    };
    let error = match connected {
        Ok(socket) => transport.converse(socket, receiver.as_ref()).await.error(&transport.limits.ping),
        Err(error) => {
            transport.duplex.close_unsent(&error);
            error
        }
    };
    transport.queue.end(CloseCode::Normal);
    transport.duplex.close(&error);
    receiver.closed(error);
    transport.over.send_replace(true);
}

async fn connect(
    recipe: &WebSocketRecipe,
    limits: &WebSocketLimits,
) -> Result<WebSocketStream<Wire>, McpError> {
    let url = Url::parse(recipe.url.expose())
        .map_err(|_| McpError::new(ErrorCode::ConfigInvalid, "the URL of the server is malformed"))?;
    // Proofs are for the request that it is (mcp:DPOP-01).
    let address = url_guard::web_address(&url);
    let mut attempt = recipe.authorizers.attempt();
    loop {
        let presented = attempt.headers("GET", &address).await?;
        let refused = match connect_with(&overlaid(&recipe.headers, &presented), &url, recipe, limits).await {
            Ok(socket) => return Ok(socket),
            Err(refused) => refused,
        };
        if !attempt.again(refused.status, &refused.headers).await? {
            return Err(hidden(refused.error, &recipe.authorizers));
        }
    }
}

/// An error without what proves who we are: a server may repeat it.
fn hidden(error: McpError, authorizers: &Authorizers) -> McpError {
    error.with(|facts| {
        if let Some(shown) = &mut facts.first_bytes {
            *shown = String::from_utf8_lossy(&authorizers.hide_in(shown.as_bytes())).into_owned();
        }
    })
}

/// Configured headers with others over them.
fn overlaid(configured: &Headers, others: &HeaderMap) -> Vec<(String, Secret<String>)> {
    let kept = configured.iter().filter(|(name, _)| !others.contains_key(name.as_str()));
    let others = others.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), Secret::new(value))
    });
    kept.cloned().chain(others).collect()
}

async fn connect_with(
    headers: &Headers,
    url: &Url,
    recipe: &WebSocketRecipe,
    limits: &WebSocketLimits,
) -> Result<WebSocketStream<Wire>, NoUpgrade> {
    let (tls, proxy) = (recipe.tls.clone(), recipe.proxy.clone());
    let dialer = Dialer::new(tls, proxy, Arc::clone(&recipe.environment), recipe.connect);
    let wire = dialer.connect(url, Detour::Tunnel).await?;
    upgrade::upgrade(wire, url, headers, limits).await
}

impl WebSocketTransport {
    /// Reads and writes until the connection has ended.
    async fn converse(&self, socket: WebSocketStream<Wire>, receiver: &dyn Receiver) -> End {
        let arrived = socket.get_ref().received();
        let (sink, stream) = socket.split();
        let writing = self.queue.write_to(sink);
        let reading = self.read_until_end(stream, &arrived, receiver);
        tokio::pin!(writing, reading);
        let mut said_goodbye = false;
        let end = loop {
            tokio::select! {
                biased;
                end = &mut reading => break end,
                () = self.out_of_patience() => break End::Dismissed,
                written = &mut writing, if !said_goodbye => match written {
                    Ok(()) => said_goodbye = true,
                    // The reading side knows better why: a goodbye may lie unread.
                    Err(error) => break last_words(reading, AFTER_GOODBYE).await.unwrap_or(End::Broken(error)),
                },
            }
        };
        if let Some(code) = goodbye_code(&end)
            && !said_goodbye
        {
            self.queue.end(code);
            // Politeness only: the other end may be past reading.
            let _ = tokio::time::timeout(AFTER_GOODBYE, &mut writing).await;
        }
        end
    }

    async fn read_until_end(
        &self,
        mut stream: SplitStream<WebSocketStream<Wire>>,
        arrived: &AtomicU64,
        receiver: &dyn Receiver,
    ) -> End {
        let mut liveness = Liveness::start(self.limits.ping, Instant::now());
        loop {
            tokio::select! {
                message = stream.next() => match message {
                    Some(Ok(Message::Text(text))) => self.take_text(text.as_str().to_owned(), receiver),
                    Some(Ok(Message::Binary(bytes))) => self.take_binary(&bytes, receiver),
                    Some(Ok(Message::Pong(_))) => liveness.pong(Instant::now()),
                    Some(Ok(Message::Ping(_) | Message::Frame(_))) => {}
                    Some(Ok(Message::Close(frame))) => {
                        // Our answer to the goodbye is written by reading on.
                        let _ = tokio::time::timeout(AFTER_GOODBYE, stream.next()).await;
                        return End::Goodbye(frame);
                    }
                    Some(Err(error)) => return End::Broken(error),
                    None => return End::Broken(tungstenite::Error::ConnectionClosed),
                },
                () = tokio::time::sleep_until(liveness.due()) => {
                    match liveness.beat(Instant::now(), arrived.load(Ordering::Relaxed)) {
                        Pulse::Ping => self.queue.ping(),
                        Pulse::Wait => {}
                        Pulse::Dead => return End::Silent,
                    }
                }
            }
        }
    }

    fn take_text(&self, text: String, receiver: &dyn Receiver) {
        let head = beginning(&text, EXCERPT).to_owned();
        if let Err(why) = accept_frame(&self.duplex, text, receiver) {
            self.take_noise(&head, why, receiver);
        }
    }

    /// Messages are text. An answer that is not fails its request, so that nobody waits for it in vain.
    fn take_binary(&self, bytes: &[u8], receiver: &dyn Receiver) {
        let answered =
            std::str::from_utf8(bytes).ok().and_then(|text| match read::read_one(text.to_owned()) {
                Ok(Incoming::Response { id, .. }) => id,
                _ => None,
            });
        let error = McpError::new(
            ErrorCode::MessageInvalid,
            "the server answered with a binary frame, not with text",
        )
        .with(|facts| facts.delivered = Some(Delivery::Unknown));
        if !answered.is_some_and(|id| self.duplex.fail(id, error)) {
            self.take_noise(&format!("{} bytes", bytes.len()), "a binary frame", receiver);
        }
    }

    fn take_noise(&self, shown: &str, why: &str, receiver: &dyn Receiver) {
        let shown = unicode::clean_str_lossy(shown);
        {
            let mut noise = lock(&self.noise);
            noise.count += 1;
            noise.first.get_or_insert_with(|| shown.clone());
        }
        receiver.noise(&shown, why);
    }

    /// Completes when we end the connection.
    async fn dismissal(&self) -> CloseMode {
        let mut dismissed = self.dismissed.subscribe();
        match dismissed.wait_for(Option::is_some).await {
            Ok(mode) => (*mode).unwrap_or(CloseMode::Fast),
            Err(_) => CloseMode::Fast,
        }
    }

    /// Completes when the server's goodbye has been waited for long enough after ours.
    async fn out_of_patience(&self) {
        let patience = match self.dismissal().await {
            CloseMode::Graceful => GOODBYE_GRACEFUL,
            CloseMode::Fast => GOODBYE_FAST,
        };
        tokio::time::sleep(patience).await;
    }
}

/// The end that a reader comes to within a short time.
async fn last_words(reading: impl Future<Output = End>, patience: Duration) -> Option<End> {
    tokio::time::timeout(patience, reading).await.ok()
}

/// The code to say goodbye with, where the other end may still listen.
fn goodbye_code(end: &End) -> Option<CloseCode> {
    use tungstenite::Error;
    match end {
        End::Broken(Error::Capacity(_)) => Some(CloseCode::Size),
        End::Broken(Error::Utf8(_)) => Some(CloseCode::Invalid),
        End::Broken(Error::Protocol(_)) => Some(CloseCode::Protocol),
        _ => None,
    }
}

impl Transport for WebSocketTransport {
    fn request(&self, request: Outgoing) -> BoxFuture<'_, Result<RawText, RequestFailure>> {
        Box::pin(self.duplex.request(request))
    }

    fn negotiated(&self, _version: ProtocolVersion) {}

    fn send(&self, frame: String) -> BoxFuture<'_, Result<(), McpError>> {
        let sent = self.duplex.send(frame);
        Box::pin(async move { sent })
    }

    fn close(&self, mode: CloseMode, reason: McpError) -> BoxFuture<'_, ()> {
        self.duplex.close(&reason);
        self.dismissed.send_if_modified(|dismissed| dismissed.replace(mode).is_none());
        self.queue.end(CloseCode::Normal);
        Box::pin(async move {
            // The task bounds itself; should it have broken, nobody waits for it.
            let mut over = self.over.subscribe();
            let _ = tokio::time::timeout(CLOSING, over.wait_for(|over| *over)).await;
        })
    }

    fn process(&self) -> Option<Arc<ServerProcess>> {
        None
    }

    fn log_in(&self, cause: McpError) -> BoxFuture<'_, Result<(), McpError>> {
        Box::pin(self.authorizers.log_in(cause))
    }

    fn evidence(&self) -> Evidence {
        let noise = lock(&self.noise);
        Evidence { first_noise: noise.first.clone(), noise_count: noise.count, ..Evidence::default() }
    }
}

#[cfg(test)]
mod tests;
