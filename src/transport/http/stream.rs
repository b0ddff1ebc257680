//! Event streams: the answer to one request, resumed where it was cut (HTTP-02).

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::HeaderValue;

use super::answer::{self, Content, names_lost_session};
use super::exchange::{Exchange, Outcome, too_large};
use super::sending::{Message, Patience};
use super::{Reply, Shared, headers};
use crate::error::{Delivery, ErrorCode, McpError, Phase};
use crate::transport::RequestFailure;
use crate::transport::connector::client::{BodyError, Response};
use crate::transport::frame_events::{Event, EventFramer};
use crate::transport::http::response_body;

/// A stream is never asked for again sooner than this, whatever `retry:` says.
const SHORTEST_DELAY: Duration = Duration::from_millis(100);

/// Reads the events of one response.
pub struct EventReader {
    response: Response,
    framer: EventFramer,
    ready: VecDeque<Event>,
    limit: usize,
    /// How long nothing at all may come, where that has a limit.
    silence: Option<Duration>,
    /// Why the stream ended, where not by its own end.
    failure: Option<BodyError>,
}

impl EventReader {
    /// The events of a response; `last_id` where it goes on from an earlier one.
    pub fn new(response: Response, limit: usize, last_id: &[u8]) -> Self {
        let framer = EventFramer::resumed(limit, last_id);
        Self { response, framer, ready: VecDeque::new(), limit, silence: None, failure: None }
    }

    /// The same, for a stream that ends with whoever is silent for so long. A slow line is not silent.
    #[must_use]
    pub fn lively(self, silence: Duration) -> Self {
        Self { silence: Some(silence), ..self }
    }

    /// The rest of a stream that was cut.
    fn resumed(response: Response, limit: usize, before: &Self) -> Self {
        let framer = EventFramer::resumed(limit, before.last_id()).pausing(before.retry());
        Self { response, framer, ready: VecDeque::new(), limit, silence: before.silence, failure: None }
    }

    /// The next event; `None` at the end of the stream, whether clean or not. Between events a stream may be
    /// silent; an event that has begun goes on in time (F-055). Any byte is a sign of life, comments included.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match self.read_on().await {
                Ok(Some(chunk)) => self.ready.extend(self.framer.push(&chunk)),
                Ok(None) => return None,
                Err(failure) => {
                    self.failure = Some(failure);
                    return None;
                }
            }
            // An event without end is given up, not only bounded (E13).
            if self.is_stuck() {
                return Some(Event::TooLong { length: self.framer.dropped(), id: None });
            }
        }
    }

    async fn read_on(&mut self) -> Result<Option<Bytes>, BodyError> {
        match self.silence {
            Some(silence) => {
                let chunk = tokio::time::timeout(silence, self.response.chunk()).await;
                chunk.unwrap_or(Err(BodyError::Stalled(silence)))
            }
            None if self.framer.is_within_event() => self.response.prompt_chunk().await,
            None => self.response.chunk().await,
        }
    }

    /// Whether an event without end was given up: nothing readable follows.
    pub fn is_stuck(&self) -> bool {
        self.framer.dropped() > 2 * self.limit as u64
    }

    /// Why the stream ended, for people; empty where it just did.
    pub fn why(&self) -> String {
        self.failure.as_ref().map(|failure| format!(" ({failure})")).unwrap_or_default()
    }

    /// The pause the server asked for.
    pub fn retry(&self) -> Option<Duration> {
        self.framer.retry()
    }

    /// Id of the last complete event; empty where there is none.
    pub fn last_id(&self) -> &[u8] {
        self.framer.last_event_id().unwrap_or_default()
    }

    /// Id that the event being read has given itself; empty where it has not, or repeats the last one.
    pub fn own_id(&self) -> &[u8] {
        self.framer.own_id()
    }

    /// The rest of the stream.
    pub fn into_response(self) -> Response {
        self.response
    }
}

/// How the resuming of a call's stream has gone so far.
#[derive(Default)]
struct Resumption {
    /// Tries that brought nothing.
    tries: u32,
    /// Whether a person has logged in for it.
    logged_in: bool,
}

impl Exchange<'_> {
    /// Reads until the answer has come, over as many streams as that takes.
    pub(super) async fn follow_stream(&self, response: Response) -> Outcome {
        let mut reader = EventReader::new(response, self.shared.limits.message, b"");
        let mut so_far = Resumption::default();
        let mut noise = None;
        loop {
            let began_at = reader.last_id().to_vec();
            while let Some(event) = reader.next().await {
                so_far.tries = 0;
                if let Some(reply) = self.take_event(event, &mut noise) {
                    return (reply, Some(reader.into_response()));
                }
            }
            // A server that has its clients poll gives a new id each time, and ends the stream (mcp:HTTPL-21).
            if reader.last_id() != began_at {
                so_far.tries = 0;
            }
            match self.resume(&reader, &mut so_far).await {
                Ok(next) => reader = next,
                Err(error) => return (Err(with_noise(error, noise)), None),
            }
        }
    }

    /// `noise` gets the first event that is no message.
    fn take_event(&self, event: Event, noise: &mut Option<String>) -> Option<Reply> {
        match event {
            Event::Message { kind, data } if kind == "message" => {
                let head: String = data.chars().take(200).collect();
                match self.take_frame(data) {
                    Ok(reply) => reply,
                    Err(_) if self.in_session && names_lost_session(&head) => Some(Err(self.session_lost())),
                    Err(why) => {
                        let shown = answer::shown(head.as_bytes());
                        self.shared.receiver.noise(&shown, why);
                        noise.get_or_insert(shown);
                        None
                    }
                }
            }
            Event::Message { .. } => None,
            Event::TooLong { id: Some(id), length } if id != self.id => {
                self.shared.receiver.noise(&format!("{length} bytes"), "a message above maxMessageBytes");
                None
            }
            Event::TooLong { .. } => Some(Err(too_large(self.shared.limits.message))),
        }
    }

    /// Asks for the rest of a stream that was cut.
    async fn resume(
        &self,
        reader: &EventReader,
        so_far: &mut Resumption,
    ) -> Result<EventReader, RequestFailure> {
        if self.is_modern() || reader.last_id().is_empty() {
            return Err(cut(&format!("the stream ended before the answer came{}", reader.why())));
        }
        let mut why = format!("it ended without an answer{}", reader.why());
        while so_far.tries < self.shared.limits.retries {
            so_far.tries += 1;
            let delay = reader.retry().unwrap_or_else(|| self.shared.limits.delay(so_far.tries));
            tokio::time::sleep(delay.max(SHORTEST_DELAY)).await;
            let error = match self.ask_for_rest(reader).await {
                Ok(rest) => return Ok(rest),
                Err(error) => error,
            };
            error.message().clone_into(&mut why);
            // A pause that is asked for is everybody's; it goes before the next try (F-047).
            if let Some(length) = error.facts().retry_after {
                self.shared.pause.extend(length);
            }
            match (error.code(), error.facts().status) {
                (ErrorCode::AuthRequired | ErrorCode::AuthScopeInsufficient, _) if !so_far.logged_in => {
                    self.log_in(error).await?;
                    *so_far = Resumption { tries: 0, logged_in: true };
                }
                (
                    ErrorCode::AuthRequired | ErrorCode::AuthScopeInsufficient | ErrorCode::SessionExpired,
                    _,
                ) => return Err(taken(error)),
                (_, Some(status)) if status < 500 && status != 429 => break,
                _ => {}
            }
        }
        Err(cut(&format!("the stream ended before the answer came and could not be resumed: {why}")))
    }

    async fn ask_for_rest(&self, before: &EventReader) -> Result<EventReader, McpError> {
        let mut response = self.shared.open_stream(before.last_id()).await?;
        if response.status().is_success() && answer::content(response.headers()) == Content::Events {
            return Ok(EventReader::resumed(response, self.shared.limits.message, before));
        }
        Err(self.shared.refusal(&mut response, self.in_session).await)
    }

    /// Has a person log in for the rest of the stream: the request itself is with the server and is not sent again
    /// (mcp:AUTH-08).
    async fn log_in(&self, cause: McpError) -> Result<(), RequestFailure> {
        let _held = self.deadline.as_ref().map(|deadline| deadline.hold());
        self.shared.log_in(cause).await.map_err(taken)
    }
}

/// The failure of a request that the server had taken.
fn taken(error: McpError) -> RequestFailure {
    RequestFailure::Transport(error.with(|facts| facts.delivered = Some(Delivery::Unknown)))
}

fn cut(message: &str) -> RequestFailure {
    RequestFailure::Transport(McpError::new(ErrorCode::ConnectionLost, message).with(|facts| {
        facts.delivered = Some(Delivery::Unknown);
        facts.phase = Some(Phase::Body);
    }))
}

/// What came instead of the answer is the evidence.
fn with_noise(failure: RequestFailure, noise: Option<String>) -> RequestFailure {
    match (failure, noise) {
        (RequestFailure::Transport(error), Some(noise)) => {
            let facts = error.facts().clone();
            let message = format!("{}; it began with something that is no message: {noise}", error.message());
            RequestFailure::Transport(McpError::new(error.code(), message).with(|target| {
                *target = facts;
                target.first_bytes.get_or_insert(noise);
            }))
        }
        (failure, _) => failure,
    }
}

impl Shared {
    /// GET of a stream; goes on after `last_id` unless that is empty (mcp:HTTPL-13).
    pub(in crate::transport) async fn open_stream(&self, last_id: &[u8]) -> Result<Response, McpError> {
        let (mut map, _) = self.base_headers(self.version(), true);
        headers::add_get(&mut map);
        if !last_id.is_empty()
            && let Ok(value) = HeaderValue::from_bytes(last_id)
        {
            map.insert(headers::LAST_EVENT_ID, value);
        }
        let response = self.deliver(Message::new(Method::GET, map), Patience::None).await?;
        if response_body::is_packed(&response) {
            return Err(McpError::new(ErrorCode::MessageInvalid, "a compressed stream nobody asked for"));
        }
        Ok(response)
    }
}
