//! HTTP with server-sent events, the way of 2024-11-05: one stream down, POSTs up (SSE-01, SSE-02).
//!
//! The stream is the session: when it ends, everything open fails, and a new connection starts afresh.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use url::Url;

use super::connector::client::{Response, place};
use super::duplex::{Duplex, FrameSink, accept_frame};
use super::frame_events::Event;
use super::http::answer::{self, Content};
use super::http::sending::{Message, Patience};
use super::http::stream::EventReader;
use super::http::{HttpRecipe, Shared, headers, response_body};
use super::{BoxFuture, CloseMode, Evidence, Outgoing, Receiver, RequestFailure, Transport, stdio};
use crate::error::{Delivery, ErrorCode, McpError, Phase};
use crate::jsonrpc::RawText;
use crate::protocol::version::ProtocolVersion;
use crate::runtime;
use crate::url_guard::{Astray, lead};

/// Longest `endpoint` that is looked at.
const LONGEST_ENDPOINT: usize = 8 * 1024;
/// How long a POST may go on once its request is answered, so that its connection can be used again.
const AFTER_ANSWER: Duration = Duration::from_millis(500);

/// A server that answers on an event stream.
pub struct SseTransport {
    duplex: Arc<Duplex>,
    poster: Arc<Poster>,
}

impl fmt::Debug for SseTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseTransport").finish_non_exhaustive()
    }
}

/// Sends messages to the endpoint, each in a request of its own.
#[derive(Clone)]
struct Poster {
    shared: Arc<Shared>,
    endpoint: watch::Sender<Option<Url>>,
}

impl fmt::Debug for Poster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poster").finish_non_exhaustive()
    }
}

/// Opens the stream; requests wait until the server has named its endpoint.
///
/// # Errors
/// `CONFIG_INVALID` for a header that cannot be one. Everything else fails the first request.
pub fn open(recipe: HttpRecipe, receiver: Arc<dyn Receiver>) -> Result<Arc<SseTransport>, McpError> {
    let shared = super::http::share(recipe, Arc::clone(&receiver))?;
    let poster = Arc::new(Poster { shared, endpoint: watch::Sender::new(None) });
    let sink: Arc<Poster> = Arc::clone(&poster);
    let duplex = Arc::new(Duplex::new(sink));
    runtime::spawn(read_until_end(Arc::clone(&poster), Arc::clone(&duplex), receiver));
    Ok(Arc::new(SseTransport { duplex, poster }))
}

async fn read_until_end(poster: Arc<Poster>, duplex: Arc<Duplex>, receiver: Arc<dyn Receiver>) {
    let error = tokio::select! {
        biased;
        reason = poster.shared.end() => reason,
        error = poster.read_stream(&duplex, receiver.as_ref()) => error,
    };
    if poster.endpoint.borrow().is_none() {
        duplex.close_unsent(&error);
    } else {
        duplex.close(&error);
    }
    poster.shared.finish(error.clone());
    receiver.closed(error);
}

impl Poster {
    /// Reads the stream to its end and says why it ended.
    async fn read_stream(&self, duplex: &Duplex, receiver: &dyn Receiver) -> McpError {
        let response = match self.open_stream().await {
            Ok(response) => response,
            Err(error) => return error,
        };
        let base = response.url().clone();
        let mut reader = EventReader::new(response, self.shared.limits().message, b"");
        while let Some(event) = reader.next().await {
            match event {
                Event::Message { kind, data } if kind == "endpoint" => {
                    if let Err(error) = self.take_endpoint(&base, &data) {
                        return error;
                    }
                }
                Event::Message { kind, data } if kind == "message" => {
                    let head: String = data.chars().take(200).collect();
                    if let Err(why) = accept_frame(duplex, data, receiver) {
                        receiver.noise(&answer::shown(head.as_bytes()), why);
                    }
                }
                Event::Message { .. } => {}
                Event::TooLong { id: Some(id), .. } if duplex.fail(id, self.too_large()) => {}
                // Without an end there is nothing after it to go on with.
                Event::TooLong { length, .. } if reader.is_stuck() => {
                    receiver.noise(&format!("{length} bytes"), "an event above maxMessageBytes without end");
                    return self.too_large();
                }
                Event::TooLong { length, .. } => {
                    receiver.noise(&format!("{length} bytes"), "a message above maxMessageBytes");
                }
            }
        }
        let when = if self.endpoint.borrow().is_none() { " before it named an endpoint" } else { "" };
        McpError::new(ErrorCode::ConnectionLost, format!("the event stream ended{when}{}", reader.why()))
            .with(|facts| facts.retry_after = reader.retry())
    }

    async fn open_stream(&self) -> Result<Response, McpError> {
        let mut response = self.shared.open_stream(b"").await?;
        if !response.status().is_success() {
            return Err(self.shared.refusal(&mut response, false).await);
        }
        if answer::content(response.headers()) == Content::Events {
            return Ok(response);
        }
        let body = response_body::evidence(&mut response).await;
        Err(self.shared.judge(&response, &body, false, |refusal| {
            answer::not_a_message(refusal, "something that is no event stream")
        }))
    }

    /// The first endpoint counts, on the stream's own origin and passes policy (mcp:SSE-04, B-101, B-102, POL-05).
    fn take_endpoint(&self, base: &Url, data: &str) -> Result<(), McpError> {
        if self.endpoint.borrow().is_some() {
            return Ok(());
        }
        let target = Some(data.trim()).filter(|text| text.len() <= LONGEST_ENDPOINT);
        let target = target.ok_or(Astray::NoUrl).and_then(|text| lead(base, text)).map_err(|astray| {
            let (code, what) = match astray {
                Astray::NoUrl => (ErrorCode::UrlRefused, "that is no URL".to_owned()),
                Astray::Credentials => (ErrorCode::UrlRefused, "with a user name in it".to_owned()),
                Astray::Elsewhere(origin) => {
                    (ErrorCode::EndpointOriginMismatch, format!("elsewhere, at {origin}"))
                }
            };
            McpError::new(code, format!("the event stream of {} names an endpoint {what}", place(base)))
        })?;
        self.shared.gate().check(&target)?;
        self.endpoint.send_replace(Some(target));
        Ok(())
    }

    /// Posts a message, until the transport ends. One that has no answer on the stream is `prompt`: the answer to its
    /// POST is due at once.
    async fn post(&self, frame: String, prompt: bool) -> Result<(), McpError> {
        let ended = |reason: McpError, delivered| reason.with(|facts| facts.delivered = Some(delivered));
        let mut endpoint = self.endpoint.subscribe();
        let url = tokio::select! {
            biased;
            reason = self.shared.end() => return Err(ended(reason, Delivery::No)),
            named = endpoint.wait_for(Option::is_some) => named.ok().and_then(|url| (*url).clone()),
        };
        let (mut map, _) = self.shared.base_headers(self.shared.version(), false);
        headers::add_post(&mut map);
        let message = Message::post(map, frame).to(url);
        let message = if prompt { message.due_within(self.shared.limits().connect) } else { message };
        tokio::select! {
            biased;
            reason = self.shared.end() => Err(ended(reason, Delivery::Unknown)),
            posted = self.deliver(message) => posted,
        }
    }

    async fn deliver(&self, message: Message) -> Result<(), McpError> {
        let mut response = self.shared.deliver(message, Patience::Full).await?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(self.shared.refusal(&mut response, false).await)
    }

    fn too_large(&self) -> McpError {
        let limit = self.shared.limits().message;
        let message = format!("the answer is larger than {limit} bytes (maxMessageBytes)");
        McpError::new(ErrorCode::MessageTooLarge, message)
            .with(|facts| facts.delivered = Some(Delivery::Unknown))
    }

    /// Posts a request in a task; one whose POST fails has failed (E7).
    fn post_request(&self, id: u64, frame: String, duplex: &Arc<Duplex>) -> Posting {
        let (poster, duplex) = (self.clone(), Arc::clone(duplex));
        let task = runtime::spawn(async move {
            if let Err(error) = poster.post(frame, false).await {
                duplex.fail(id, error);
            }
        });
        Posting(task.map(|task| task.abort_handle()))
    }

    /// Posts what nobody waits for.
    fn post_apart(&self, frame: String) {
        let poster = self.clone();
        runtime::spawn(async move { poster.post(frame, true).await });
    }
}

/// The POST of a request: it ends when nobody waits for that any more, so that nothing is sent late (PRO-07).
#[derive(Default)]
struct Posting(Option<AbortHandle>);

impl Posting {
    /// The answer has come. A POST that waits for its turn has no purpose any more; one under way is about to end.
    fn answered(mut self, shared: &Shared) {
        if shared.paused_until().is_none()
            && let Some(post) = self.0.take().filter(|post| !post.is_finished())
        {
            runtime::spawn(async move {
                tokio::time::sleep(AFTER_ANSWER).await;
                post.abort();
            });
        }
    }
}

impl Drop for Posting {
    fn drop(&mut self) {
        if let Some(post) = &self.0 {
            post.abort();
        }
    }
}

impl FrameSink for Poster {
    fn push(&self, frame: String) -> Result<(), McpError> {
        self.post_apart(frame);
        Ok(())
    }

    fn push_control(&self, frame: String) {
        self.post_apart(frame);
    }
}

impl Transport for SseTransport {
    fn request(&self, request: Outgoing) -> BoxFuture<'_, Result<RawText, RequestFailure>> {
        Box::pin(async move {
            let mut posting = Posting::default();
            let id = request.id;
            let post = |frame| {
                posting = self.poster.post_request(id, frame, &self.duplex);
                Ok(())
            };
            let reply = self.duplex.request_by(request, post).await;
            posting.answered(&self.poster.shared);
            reply
        })
    }

    fn negotiated(&self, version: ProtocolVersion) {
        self.poster.shared.negotiated(version);
    }

    fn send(&self, frame: String) -> BoxFuture<'_, Result<(), McpError>> {
        let poster = Arc::clone(&self.poster);
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            runtime::spawn(async move {
                let _ = reply.send(poster.post(frame, true).await);
            });
            let lost = || McpError::new(ErrorCode::ConnectionLost, "the message was dropped");
            answer.await.unwrap_or_else(|_| Err(lost()))
        })
    }

    fn close(&self, _mode: CloseMode, reason: McpError) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.duplex.close(&reason);
            self.poster.shared.finish(reason);
        })
    }

    fn process(&self) -> Option<Arc<stdio::ServerProcess>> {
        None
    }

    fn evidence(&self) -> Evidence {
        Evidence::default()
    }

    fn kind(&self) -> Option<&'static str> {
        Some("sse")
    }

    fn last_status(&self) -> Option<u16> {
        self.poster.shared.last_status()
    }

    fn phase(&self) -> Option<Phase> {
        self.poster.shared.phase()
    }

    fn paused_until(&self) -> Option<Instant> {
        self.poster.shared.paused_until()
    }

    fn log_in(&self, cause: McpError) -> BoxFuture<'_, Result<(), McpError>> {
        self.poster.shared.log_in(cause)
    }
}

impl Drop for SseTransport {
    fn drop(&mut self) {
        self.poster.shared.finish(McpError::new(ErrorCode::ConnectionLost, "the connection was given up"));
    }
}

#[cfg(test)]
mod tests;
