//! The optional stream for what the server says unasked (mcp:HTTPL-09).
//!
//! It may be missing, break and never come back: requests do not depend on it (E4, E5).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::Shared;
use super::answer::{self, Content};
use super::sending::asked_pause;
use super::stream::EventReader;
use crate::jsonrpc::{Incoming, read};
use crate::runtime::{self, lock};
use crate::transport::frame_events::Event;

/// A stream that lived shorter counts as a failure, however politely it ended (E10).
const PROVEN_AFTER: Duration = Duration::from_secs(10);
/// Delay once the tries are used up: no endless hammering, and no stream lost for ever.
const RESIGNED: Duration = Duration::from_secs(300);

/// How a stream ended.
enum End {
    /// The server has none.
    Missing,
    /// It broke, or could not be had now.
    Broken,
}

#[derive(Default)]
struct Position {
    /// Whether there was a stream before.
    known: bool,
    last_id: Vec<u8>,
    retry: Option<Duration>,
    /// How long a busy server wants to be left alone. This stream alone waits for that: calls do not depend on it (E5).
    busy: Option<Duration>,
}

impl Shared {
    /// Starts listening; later calls change nothing.
    pub(super) fn listen_once(self: &Arc<Self>) {
        if self.is_modern() || self.listening.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(self);
        runtime::spawn(async move {
            tokio::select! {
                () = shared.listen() => {}
                _ = shared.end() => {}
            }
        });
    }

    async fn listen(&self) {
        let mut position = Position::default();
        let mut short_lived = 0;
        loop {
            let started = Instant::now();
            let before = position.last_id.clone();
            if matches!(self.listen_to_one(&mut position).await, End::Missing) {
                return;
            }
            short_lived = if started.elapsed() >= PROVEN_AFTER {
                1
            } else if position.last_id != before {
                // A server that has its clients poll gives a new id each time (mcp:HTTPL-21).
                2
            } else {
                short_lived + 1
            };
            let own = self.limits.delay(short_lived);
            let delay = if short_lived > self.limits.retries {
                RESIGNED
            } else {
                // What the server asks for counts, but never makes failures cheap.
                position.retry.map_or(own, |asked| if short_lived > 1 { asked.max(own) } else { asked })
            };
            let busy = position.busy.take().unwrap_or_default();
            tokio::time::sleep(delay.max(busy)).await;
        }
    }

    async fn listen_to_one(&self, position: &mut Position) -> End {
        let Ok(response) = self.open_stream(&position.last_id).await else {
            return End::Broken;
        };
        let status = response.status();
        // Where there was a stream, only the session can be what is not found (mcp:HTTPL-17).
        if status.as_u16() == 404 && position.known && lock(&self.session).id.is_some() {
            self.expire(&answer::session_expired());
            return End::Missing;
        }
        // A login that is wanted says nothing about the stream (E4); one for a call serves it, too.
        if status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 429) {
            // 405 is the usual answer; whatever is wrong with the rest shows with the next request.
            return End::Missing;
        }
        if !status.is_success() {
            position.busy = asked_pause(&response);
            return End::Broken;
        }
        if answer::content(response.headers()) != Content::Events {
            return End::Missing;
        }
        position.known = true;
        let mut reader = EventReader::new(response, self.limits.message, &position.last_id);
        while let Some(event) = reader.next().await {
            self.take_unasked(event);
            if reader.is_stuck() {
                break;
            }
            position.last_id = reader.last_id().to_vec();
        }
        position.last_id = reader.last_id().to_vec();
        position.retry = reader.retry().or(position.retry);
        End::Broken
    }

    fn take_unasked(&self, event: Event) {
        match event {
            Event::Message { kind, data } if kind == "message" => {
                let head: String = data.chars().take(200).collect();
                match read::read(data) {
                    Ok(messages) => messages.into_iter().for_each(|message| self.take_one(message)),
                    Err(not) => self.receiver.noise(&answer::shown(head.as_bytes()), not.0),
                }
            }
            Event::Message { .. } => {}
            Event::TooLong { length, .. } => {
                self.receiver.noise(&format!("{length} bytes"), "a message above maxMessageBytes");
            }
        }
    }

    fn take_one(&self, message: Incoming) {
        match message {
            // Answers never come here (mcp:HTTPL-12).
            Incoming::Response { id, answer } => {
                self.receiver.response(id, &answer);
                self.receiver.stray(id);
            }
            other => self.receiver.message(other),
        }
    }
}
