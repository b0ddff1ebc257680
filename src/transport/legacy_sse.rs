//! HTTP with server-sent events, the way of 2024-11-05: one stream down, POSTs up (SSE-01, SSE-02).
//!
//! The stream is the session: when it ends, everything open fails, and a new connection starts afresh.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::{oneshot, watch};
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
struct Poster {
    shared: Arc<Shared>,
    endpoint: watch::Sender<Option<Url>>,
    duplex: OnceLock<Weak<Duplex>>,
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
    let poster = Arc::new(Poster { shared, endpoint: watch::Sender::new(None), duplex: OnceLock::new() });
    let sink: Arc<Poster> = Arc::clone(&poster);
    let duplex = Arc::new(Duplex::new(sink));
    let _ = poster.duplex.set(Arc::downgrade(&duplex));
    runtime::spawn(read_until_end(Arc::clone(&poster), Arc::clone(&duplex), receiver));
    Ok(Arc::new(SseTransport { duplex, poster }))
}

async fn read_until_end(poster: Arc<Poster>, duplex: Arc<Duplex>, receiver: Arc<dyn Receiver>) {
    let error = tokio::select! {
        biased;
        reason = poster.shared.end() => reason,
        error = poster.read_stream(&duplex, receiver.as_ref()) => error,
    };
    duplex.close(&error);
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

    async fn post(&self, frame: String) -> Result<(), McpError> {
        let mut endpoint = self.endpoint.subscribe();
        let url = tokio::select! {
            biased;
            reason = self.shared.end() => {
                return Err(reason.with(|facts| facts.delivered = Some(Delivery::No)));
            }
            named = endpoint.wait_for(Option::is_some) => named.ok().and_then(|url| (*url).clone()),
        };
        let (mut map, _) = self.shared.base_headers(self.shared.version(), false);
        headers::add_post(&mut map);
        let message = Message::post(map, frame).to(url);
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

    /// Posts in a task; a request whose POST fails has failed (E7).
    fn post_apart(&self, frame: String) {
        let Some(duplex) = self.duplex.get().and_then(Weak::upgrade) else { return };
        let poster = self.own();
        let id = request_id(&frame);
        runtime::spawn(async move {
            if let Err(error) = poster.post(frame).await
                && let Some(id) = id
            {
                duplex.fail(id, error);
            }
        });
    }

    /// The same poster, for a task.
    fn own(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            endpoint: self.endpoint.clone(),
            duplex: self.duplex.clone(),
        }
    }
}

/// The id of a request of ours; `None` for notifications and answers.
fn request_id(frame: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Head {
        id: Option<u64>,
        method: Option<IgnoredAny>,
    }
    let head: Head = serde_json::from_str(frame).ok()?;
    head.method.and(head.id)
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
        Box::pin(self.duplex.request(request))
    }

    fn negotiated(&self, version: ProtocolVersion) {
        self.poster.shared.negotiated(version);
    }

    fn send(&self, frame: String) -> BoxFuture<'_, Result<(), McpError>> {
        let poster = Arc::clone(&self.poster);
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            runtime::spawn(async move {
                let _ = reply.send(poster.post(frame).await);
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
