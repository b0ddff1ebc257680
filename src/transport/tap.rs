//! A tap on a way to a server: everything that is said on it, in both directions, is told to a listener as well.
//!
//! The one place that every message of every transport passes: requests and notifications on their way out through
//! [`Transport`], everything of the server's through [`Receiver`]. Changes nothing of what it hears.

use std::sync::Arc;

use tokio::time::Instant;

use super::stdio::ServerProcess;
use super::{BoxFuture, CloseMode, Evidence, Outgoing, Receiver, RequestFailure, Transport};
use crate::error::{McpError, Phase};
use crate::jsonrpc::{Answer, Incoming, RawText, write};
use crate::protocol::version::ProtocolVersion;

/// Hears what is said. Called on the way: must return at once.
pub trait Tap: Send + Sync + std::fmt::Debug {
    /// A message to the server, or something that became of one.
    fn sent(&self, frame: &str);
    /// A message of the server: JSON text.
    fn received(&self, message: String);
    /// Nobody waits for the answer to a request any more.
    fn given_up(&self, id: u64);
    /// A request has failed on its way.
    fn failed(&self, id: u64, error: &McpError);
    /// The connection has ended, by itself if there is an error.
    fn closed(&self, error: Option<&McpError>);
}

/// A receiver that `tap` listens to.
pub fn on_receiver(inner: Arc<dyn Receiver>, tap: Arc<dyn Tap>) -> Arc<dyn Receiver> {
    Arc::new(TappedReceiver { inner, tap })
}

/// A transport that `tap` listens to.
pub fn on_transport(inner: Arc<dyn Transport>, tap: Arc<dyn Tap>) -> Arc<dyn Transport> {
    Arc::new(TappedTransport { inner, tap })
}

struct TappedReceiver {
    inner: Arc<dyn Receiver>,
    tap: Arc<dyn Tap>,
}

impl Receiver for TappedReceiver {
    fn message(&self, message: Incoming) {
        if let Some(text) = text_of(&message) {
            self.tap.received(text);
        }
        self.inner.message(message);
    }

    fn response(&self, id: Option<u64>, answer: &Answer) {
        self.tap.received(text_of_answer(id, answer));
        self.inner.response(id, answer);
    }

    fn answered(&self, id: u64) {
        self.inner.answered(id);
    }

    fn noise(&self, excerpt: &str, why: &str) {
        self.inner.noise(excerpt, why);
    }

    fn stray(&self, id: Option<u64>) {
        self.inner.stray(id);
    }

    fn stderr(&self, line: &str) {
        self.inner.stderr(line);
    }

    fn closed(&self, error: McpError) {
        self.tap.closed(Some(&error));
        self.inner.closed(error);
    }
}

/// JSON text of a request or a notification.
fn text_of(message: &Incoming) -> Option<String> {
    let params = |params: &Option<RawText>| params.as_ref().map(|params| params.as_str().to_owned());
    let frame = match message {
        Incoming::Request { id, method, params: given } => {
            write::foreign_request(id, method, params(given).as_deref())
        }
        Incoming::Notification { method, params: given } => {
            write::notification(method, params(given).as_deref())
        }
        Incoming::Response { .. } | Incoming::Unreadable { .. } => return None,
    };
    Some(frame)
}

fn text_of_answer(id: Option<u64>, answer: &Answer) -> String {
    let id = id.map_or_else(|| "null".to_owned(), |id| id.to_string());
    match answer {
        Answer::Result(result) => write::result(&id, result.as_str()),
        Answer::Error(error) => {
            let data = error.data.as_ref().map(|data| data.get());
            write::error_with_data(&id, error.code, &error.message, data)
        }
        Answer::Invalid { frame, .. } => frame.clone(),
    }
}

#[derive(Debug)]
struct TappedTransport {
    inner: Arc<dyn Transport>,
    tap: Arc<dyn Tap>,
}

/// Tells of a request whose future is dropped.
struct Open<'a> {
    tap: &'a dyn Tap,
    id: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.tap.given_up(self.id);
    }
}

impl Transport for TappedTransport {
    fn request(&self, request: Outgoing) -> BoxFuture<'_, Result<RawText, RequestFailure>> {
        Box::pin(async move {
            self.tap.sent(&request.frame);
            let open = Open { tap: self.tap.as_ref(), id: request.id };
            let reply = self.inner.request(request).await;
            if let Err(RequestFailure::Transport(error)) = &reply {
                self.tap.failed(open.id, error);
            }
            std::mem::forget(open);
            reply
        })
    }

    fn send(&self, frame: String) -> BoxFuture<'_, Result<(), McpError>> {
        self.tap.sent(&frame);
        self.inner.send(frame)
    }

    fn close(&self, mode: CloseMode, reason: McpError) -> BoxFuture<'_, ()> {
        self.tap.closed(None);
        self.inner.close(mode, reason)
    }

    fn negotiated(&self, version: ProtocolVersion) {
        self.inner.negotiated(version);
    }

    fn process(&self) -> Option<Arc<ServerProcess>> {
        self.inner.process()
    }

    fn evidence(&self) -> Evidence {
        self.inner.evidence()
    }

    fn kind(&self) -> Option<&'static str> {
        self.inner.kind()
    }

    fn phase(&self) -> Option<Phase> {
        self.inner.phase()
    }

    fn last_status(&self) -> Option<u16> {
        self.inner.last_status()
    }

    fn paused_until(&self) -> Option<Instant> {
        self.inner.paused_until()
    }

    fn log_in(&self, cause: McpError) -> BoxFuture<'_, Result<(), McpError>> {
        self.inner.log_in(cause)
    }
}
