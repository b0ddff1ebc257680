//! The first transport: a WebSocket to read, HTTP to write. It has neither registration nor epoch; the relay knows an
//! instance by its id, and numbers do the rest.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use url::Url;

use super::options::Options;
use super::queue::Batch;
use super::requests::{Failure, Requests, protocol};
use super::transport::{Inbox, Transport, Word};
use super::v2;
use super::wire::{self, Claim, Registered};
use crate::config::spec::ProxyChoice;
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError};
use crate::json_scan;
use crate::jsonrpc::Incoming;
use crate::runtime::{self, lock};
use crate::secret::{SafeUrl, Secret};
use crate::transport::authorizer::Authorizers;
use crate::transport::websocket::{self, PingTimes, WebSocketLimits, WebSocketRecipe, WebSocketTransport};
use crate::transport::{BoxFuture, CloseMode, Receiver, Transport as _};

/// The sub-protocol of the WebSocket.
const PROTOCOL: &str = "mcp-switchboard.bridge";
/// Code with which a relay closes the socket of an instance whose session another one has taken over.
const TAKEN_OVER: &str = "4409";
/// Words that may wait to be read; beyond, the connection is given up and what was not read is asked for again.
const WAITING: usize = 1_024;

/// The transport.
#[derive(Debug)]
pub(super) struct V1 {
    requests: Arc<Requests>,
    stream: Url,
    messages: Url,
    instance: String,
    recipe: WebSocketRecipe,
    limits: WebSocketLimits,
}

impl V1 {
    /// # Errors
    /// `INVALID_ARGUMENT` for a path that cannot be one.
    pub(super) fn new(
        options: &Options,
        instance: &str,
        requests: Arc<Requests>,
        authorizers: Authorizers,
        environment: Arc<Environment>,
    ) -> Result<Self, McpError> {
        let place = |path: &str| {
            wire::address(&options.base, path, &options.session)
                .map_err(|what| super::options::invalid("options.paths", &format!("expected {what}")))
        };
        let mut stream = place(&options.paths.stream)?;
        let scheme = if stream.scheme() == "http" { "ws" } else { "wss" };
        // Both are of the kind that may be exchanged.
        let _ = stream.set_scheme(scheme);
        let recipe = WebSocketRecipe {
            url: SafeUrl::new(stream.as_str()),
            headers: vec![("Sec-WebSocket-Protocol".to_owned(), Secret::new(PROTOCOL.to_owned()))],
            authorizers,
            tls: None,
            proxy: ProxyChoice::Inherited,
            environment,
            connect: options.connect_limit,
        };
        let ping =
            PingTimes { interval: options.heartbeat, timeout: options.heartbeat.max(Duration::from_secs(1)) };
        let longest = options.max_message + wire::AROUND;
        let limits = WebSocketLimits { message: longest, queued: longest, ping };
        let messages = place(&options.paths.messages)?;
        Ok(Self { requests, stream, messages, instance: instance.to_owned(), recipe, limits })
    }
}

impl Transport for V1 {
    fn register<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Registered, Failure>> {
        let registered = Registered { epoch: 0, acknowledged: claim.next - 1 };
        Box::pin(async move { Ok(registered) })
    }

    fn connect(&self, _epoch: u64, from: u64) -> BoxFuture<'_, Result<Box<dyn Inbox>, Failure>> {
        Box::pin(async move {
            let mut url = self.stream.clone();
            url.query_pairs_mut()
                .append_pair("instance", &self.instance)
                .append_pair("from", &from.to_string());
            let recipe = WebSocketRecipe { url: SafeUrl::new(url.as_str()), ..self.recipe.clone() };
            let (words, receiver) = mpsc::channel(WAITING);
            let mouth = Arc::new(Mouth { words: Mutex::new(Some(words)), end: Mutex::default() });
            let socket = websocket::open(recipe, self.limits, Arc::clone(&mouth) as Arc<dyn Receiver>);
            let mut inbox = Frames { words: receiver, mouth, socket };
            // A relay speaks first: only then does the connection stand.
            let limit = self.recipe.connect;
            match tokio::time::timeout(limit, inbox.next()).await {
                Ok(Ok(Word::Alive)) => {
                    let inbox: Box<dyn Inbox> = Box::new(inbox);
                    Ok(inbox)
                }
                Ok(Ok(_)) => Err(Failure::Fatal(protocol("the relay does not begin with a sign of life"))),
                Ok(Err(failure)) => Err(failure),
                Err(_) => {
                    let message = format!("the relay said nothing within {} ms", limit.as_millis());
                    Err(Failure::Again(McpError::new(ErrorCode::ConnectFailed, message), None))
                }
            }
        })
    }

    fn send<'a>(&'a self, epoch: u64, batch: &'a Batch) -> BoxFuture<'a, Result<u64, Failure>> {
        Box::pin(v2::write(&self.requests, &self.messages, &self.instance, epoch, batch))
    }

    fn beat(&self, _epoch: u64, _sequence: u64) -> BoxFuture<'_, Result<(), Failure>> {
        // The socket pings by itself.
        Box::pin(async { Ok(()) })
    }

    fn disconnect(&self, _epoch: u64) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// What an end of the socket means.
fn failure_of(error: McpError) -> Failure {
    let facts = error.facts();
    let code = facts.data.as_ref().and_then(|data| json_scan::pick(data.get(), ["closeCode"])[0]);
    if code == Some(TAKEN_OVER) {
        return Failure::Superseded(McpError::new(ErrorCode::BridgeEpoch, error.message()));
    }
    match facts.status {
        Some(status) => Failure::of_status(status, error.message(), facts.retry_after),
        None => Failure::of(error),
    }
}

/// Takes the frames of a socket; must return at once, so what cannot wait ends the connection.
struct Mouth {
    words: Mutex<Option<mpsc::Sender<Word>>>,
    end: Mutex<Option<Failure>>,
}

impl Mouth {
    fn say(&self, word: Word) {
        let full = lock(&self.words).as_ref().is_some_and(|words| words.try_send(word).is_err());
        if full {
            let message =
                format!("more than {WAITING} messages wait for the host; the rest is asked for again");
            self.end(Failure::Again(McpError::new(ErrorCode::ConnectionLost, message), None));
        }
    }

    /// The first reason counts.
    fn end(&self, failure: Failure) {
        lock(&self.end).get_or_insert(failure);
        lock(&self.words).take();
    }
}

impl Receiver for Mouth {
    fn message(&self, message: Incoming) {
        match message {
            Incoming::Notification { method, params: Some(params) } if method == "bridge/message" => {
                self.say(Word::Message(params.into_string()));
            }
            Incoming::Notification { .. } => self.say(Word::Alive),
            _ => self.end(Failure::Fatal(protocol("the relay sends requests over the WebSocket"))),
        }
    }

    fn answered(&self, _id: u64) {}

    fn noise(&self, excerpt: &str, why: &str) {
        self.end(Failure::Fatal(protocol(format!(
            "the relay sends something that is no message ({why}): {excerpt}"
        ))));
    }

    fn stray(&self, _id: Option<u64>) {}

    fn stderr(&self, _line: &str) {}

    fn closed(&self, error: McpError) {
        // Nothing can be read behind it; the next connection brings what follows.
        if error.code() == ErrorCode::MessageTooLarge {
            self.say(Word::TooLong { sequence: None, length: None });
        }
        self.end(failure_of(error));
    }
}

/// The frames of one socket.
struct Frames {
    words: mpsc::Receiver<Word>,
    mouth: Arc<Mouth>,
    socket: Arc<WebSocketTransport>,
}

impl Inbox for Frames {
    fn next(&mut self) -> BoxFuture<'_, Result<Word, Failure>> {
        Box::pin(async move {
            match self.words.recv().await {
                Some(word) => Ok(word),
                None => Err(lock(&self.mouth.end).clone().unwrap_or_else(|| {
                    Failure::Again(
                        McpError::new(ErrorCode::ConnectionLost, "the relay ended the connection"),
                        None,
                    )
                })),
            }
        })
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        let socket = Arc::clone(&self.socket);
        let reason = McpError::new(ErrorCode::BridgeClosed, "the bridge gives this connection up");
        runtime::spawn(async move { socket.close(CloseMode::Fast, reason).await });
    }
}
