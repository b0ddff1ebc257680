//! The second transport: server-sent events to read, HTTP to write, with registration, heartbeat and epoch (BRG-05).

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde::de::IgnoredAny;
use url::Url;

use super::options::Options;
use super::queue::Batch;
use super::requests::{Failure, Requests, protocol};
use super::transport::{Inbox, Transport, Word};
use super::wire::{self, Acknowledged, Claim, Registered};
use crate::error::{ErrorCode, McpError};
use crate::transport::BoxFuture;
use crate::transport::frame_events::Event;
use crate::transport::http::stream::EventReader;

/// Signs of life that may fail to come before the stream counts as dead.
const SILENT_BEATS: u32 = 3;

/// Addresses of one session.
#[derive(Debug)]
struct Places {
    register: Url,
    stream: Url,
    messages: Url,
    heartbeat: Url,
}

/// The transport.
#[derive(Debug)]
pub(super) struct V2 {
    requests: Arc<Requests>,
    places: Places,
    instance: String,
    longest: usize,
    silence: Duration,
}

impl V2 {
    /// # Errors
    /// `INVALID_ARGUMENT` for a path that cannot be one.
    pub(super) fn new(options: &Options, instance: &str, requests: Arc<Requests>) -> Result<Self, McpError> {
        let place = |path: &str| {
            wire::address(&options.base, path, &options.session)
                .map_err(|what| super::options::invalid("options.paths", &format!("expected {what}")))
        };
        Ok(Self {
            requests,
            places: Places {
                register: place(&options.paths.register)?,
                stream: place(&options.paths.stream)?,
                messages: place(&options.paths.messages)?,
                heartbeat: place(&options.paths.heartbeat)?,
            },
            instance: instance.to_owned(),
            longest: options.max_message + wire::AROUND,
            silence: options.heartbeat * SILENT_BEATS,
        })
    }
}

impl Transport for V2 {
    fn register<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Registered, Failure>> {
        Box::pin(async move {
            let body = wire::registration(claim);
            let registered: Registered =
                self.requests.exchange(Method::POST, &self.places.register, Some(body), None).await?;
            if registered.epoch <= claim.epoch {
                let why = format!("the relay gave epoch {} after {}", registered.epoch, claim.epoch);
                return Err(Failure::Fatal(protocol(why)));
            }
            Ok(registered)
        })
    }

    fn connect(&self, epoch: u64, from: u64) -> BoxFuture<'_, Result<Box<dyn Inbox>, Failure>> {
        Box::pin(async move {
            let mut url = self.places.stream.clone();
            url.query_pairs_mut()
                .append_pair("instance", &self.instance)
                .append_pair("epoch", &epoch.to_string())
                .append_pair("from", &from.to_string());
            let response = self.requests.stream(&url).await?;
            let reader = EventReader::new(response, self.longest, b"").lively(self.silence);
            let inbox: Box<dyn Inbox> = Box::new(Events { reader });
            Ok(inbox)
        })
    }

    fn send<'a>(&'a self, epoch: u64, batch: &'a Batch) -> BoxFuture<'a, Result<u64, Failure>> {
        Box::pin(write(&self.requests, &self.places.messages, &self.instance, epoch, batch))
    }

    fn beat(&self, epoch: u64, sequence: u64) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            let body = wire::heartbeat(&self.instance, epoch, sequence);
            let beat =
                self.requests.exchange::<IgnoredAny>(Method::POST, &self.places.heartbeat, Some(body), None);
            beat.await.map(|_| ())
        })
    }

    fn disconnect(&self, epoch: u64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut url = self.places.register.clone();
            url.query_pairs_mut()
                .append_pair("instance", &self.instance)
                .append_pair("epoch", &epoch.to_string());
            // Politeness: the lease ends by itself.
            let _ = self.requests.exchange::<IgnoredAny>(Method::DELETE, &url, None, None).await;
        })
    }
}

/// Writes messages, as both transports do.
pub(super) async fn write(
    requests: &Requests,
    url: &Url,
    instance: &str,
    epoch: u64,
    batch: &Batch,
) -> Result<u64, Failure> {
    let body = wire::messages(instance, epoch, batch);
    let answer: Acknowledged = requests.exchange(Method::POST, url, Some(body), None).await?;
    Ok(answer.acknowledged)
}

/// The sequence number that the id of an event is.
fn number(id: &[u8]) -> Option<u64> {
    std::str::from_utf8(id).ok()?.parse().ok()
}

/// The events of one stream.
struct Events {
    reader: EventReader,
}

impl Inbox for Events {
    fn next(&mut self) -> BoxFuture<'_, Result<Word, Failure>> {
        Box::pin(async move {
            let lost = |message| McpError::new(ErrorCode::ConnectionLost, message);
            if self.reader.is_stuck() {
                return Err(Failure::Again(lost("the relay sends a message without end".to_owned()), None));
            }
            match self.reader.next().await {
                Some(Event::Message { kind, data }) if kind == "message" => Ok(Word::Message(data)),
                Some(Event::Message { .. }) => Ok(Word::Alive),
                Some(Event::TooLong { .. }) if self.reader.is_stuck() => {
                    Ok(Word::TooLong { sequence: number(self.reader.own_id()), length: None })
                }
                Some(Event::TooLong { length, .. }) => {
                    Ok(Word::TooLong { sequence: number(self.reader.last_id()), length: Some(length) })
                }
                None => {
                    let message = format!("the relay ended the stream{}", self.reader.why());
                    Err(Failure::Again(lost(message), self.reader.retry()))
                }
            }
        })
    }
}
