//! A server that lives in the host's own program: messages go to JavaScript as letters and come back through
//! a method (SDK-01).
//!
//! Owns the table of channels and the conversation over one of them. How a letter reaches the server is the
//! business of whoever implements [`Script`]; what the server does with it is its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::duplex::{Duplex, FrameSink, accept_frame};
use super::frame_lines::{EXCERPT, beginning};
use super::stdio::ServerProcess;
use super::{BoxFuture, CloseMode, Evidence, Outgoing, Receiver, RequestFailure, Transport};
use crate::error::{Delivery, ErrorCode, McpError};
use crate::jsonrpc::{Incoming, RawText, read};
use crate::protocol::version::ProtocolVersion;
use crate::runtime::lock;
use crate::unicode;

/// Room beyond the limit for cancellations, so that a full queue can still be thinned out.
const CONTROL_ROOM: usize = 256 * 1024;

/// What JavaScript is told about a channel.
#[derive(Debug, PartialEq, Eq)]
pub enum Word {
    /// Connect the server to a new channel.
    Open {
        /// Name of the configured server.
        server: String,
        /// Name under which the host handed it over.
        instance: String,
    },
    /// One message: JSON text.
    Message(String),
    /// The channel has ended.
    Close,
}

/// The program in which in-process servers live.
pub trait Script: Send + Sync {
    /// The channels to it.
    fn channels(&self) -> &Channels;
    /// Says something on a channel; never blocks. Refused, with the bytes that wait already, when they would
    /// be more than `room`; what finds nothing waiting is always taken.
    fn say(&self, channel: u32, word: Word, room: usize) -> Result<(), usize>;
}

/// The open channels by number.
#[derive(Debug, Default)]
pub struct Channels {
    open: Mutex<HashMap<u32, Weak<InProcessTransport>>>,
    last: AtomicU32,
}

impl Channels {
    /// The transport of a channel, while it is open.
    pub fn get(&self, channel: u32) -> Option<Arc<InProcessTransport>> {
        lock(&self.open).get(&channel).and_then(Weak::upgrade)
    }
}

/// A server in the host's own program.
pub struct InProcessTransport {
    channel: u32,
    duplex: Duplex,
    script: Arc<dyn Script>,
    /// Until the end; then nobody is told any more.
    receiver: Mutex<Option<Arc<dyn Receiver>>>,
    limits: InProcessLimits,
}

impl std::fmt::Debug for InProcessTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcessTransport").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// Bounds of a channel.
#[derive(Clone, Copy, Debug)]
pub struct InProcessLimits {
    /// Longest message of the server in bytes.
    pub message: usize,
    /// Bytes that may wait for a server whose thread is busy.
    pub queued: usize,
}

/// Opens a channel to the server that was handed over as `instance`. Whether it connects shows with the
/// answer to the first request.
pub fn open(
    script: Arc<dyn Script>,
    server: &str,
    instance: &str,
    limits: InProcessLimits,
    receiver: Arc<dyn Receiver>,
) -> Arc<InProcessTransport> {
    let channel = script.channels().last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let sink = Arc::new(LetterSink { channel, script: Arc::clone(&script), limit: limits.queued });
    let transport = Arc::new(InProcessTransport {
        channel,
        duplex: Duplex::new(sink),
        receiver: Mutex::new(Some(receiver)),
        limits,
        script,
    });
    lock(&transport.script.channels().open).insert(channel, Arc::downgrade(&transport));
    let word = Word::Open { server: server.to_owned(), instance: instance.to_owned() };
    // A channel without anything waiting takes everything.
    let _ = transport.script.say(channel, word, limits.queued);
    transport
}

impl InProcessTransport {
    /// Takes a message of the server, which is JSON text.
    pub fn take(&self, text: String) {
        let Some(receiver) = lock(&self.receiver).clone() else { return };
        if text.len() > self.limits.message {
            return self.take_oversized(text, receiver.as_ref());
        }
        let head = beginning(&text, EXCERPT).to_owned();
        if let Err(why) = accept_frame(&self.duplex, text, receiver.as_ref()) {
            receiver.noise(&unicode::clean_str_lossy(&head), why);
        }
    }

    fn take_oversized(&self, text: String, receiver: &dyn Receiver) {
        let (length, limit) = (text.len(), self.limits.message);
        let error = McpError::new(
            ErrorCode::MessageTooLarge,
            format!("the server sent a message of {length} bytes; the limit is {limit} (maxMessageBytes)"),
        )
        .with(|facts| facts.delivered = Some(Delivery::Unknown));
        let id = match read::read_one(text) {
            Ok(Incoming::Response { id, .. }) => id,
            _ => None,
        };
        if !id.is_some_and(|id| self.duplex.fail(id, error)) {
            receiver.noise(&format!("{length} bytes"), "a message above maxMessageBytes");
        }
    }

    /// The server said something that JSON cannot hold (a cycle, a `BigInt`, a function): the request it
    /// answers fails, and no other (F-072).
    pub fn take_unwritable(&self, id: Option<u64>, why: &str) {
        let why = unicode::clean_str_lossy(why);
        let message = format!("the server's message cannot be written as JSON: {why}");
        let error = McpError::new(ErrorCode::MessageInvalid, message)
            .with(|facts| facts.delivered = Some(Delivery::Unknown));
        if !id.is_some_and(|id| self.duplex.fail(id, error))
            && let Some(receiver) = lock(&self.receiver).clone()
        {
            receiver.noise(&why, "cannot be written as JSON");
        }
    }

    /// The server did not connect (`failure` says why), or closed its end. A `code` that names a fault of its
    /// configuration is kept: trying again does not mend that (LIF-04).
    pub fn take_end(&self, failure: Option<&str>, code: Option<&str>) {
        let error = match failure {
            Some(why) => {
                let why = unicode::clean_str_lossy(why);
                let code = code.and_then(configuration_fault).unwrap_or(ErrorCode::ConnectFailed);
                McpError::new(code, format!("the in-process server did not connect: {why}"))
            }
            None => McpError::new(ErrorCode::ConnectionLost, "the in-process server closed its transport"),
        };
        if let Some(receiver) = self.end(&error) {
            receiver.closed(error);
        }
    }

    /// Ends the conversation; the receiver, if this was the first end.
    fn end(&self, error: &McpError) -> Option<Arc<dyn Receiver>> {
        lock(&self.script.channels().open).remove(&self.channel);
        let receiver = lock(&self.receiver).take();
        self.duplex.close(error);
        receiver
    }
}

impl Transport for InProcessTransport {
    fn request(&self, request: Outgoing) -> BoxFuture<'_, Result<RawText, RequestFailure>> {
        Box::pin(self.duplex.request(request))
    }

    fn negotiated(&self, _version: ProtocolVersion) {}

    fn send(&self, frame: String) -> BoxFuture<'_, Result<(), McpError>> {
        let sent = self.duplex.send(frame);
        Box::pin(async move { sent })
    }

    fn close(&self, _mode: CloseMode, reason: McpError) -> BoxFuture<'_, ()> {
        if self.end(&reason).is_some() {
            let _ = self.script.say(self.channel, Word::Close, usize::MAX);
        }
        Box::pin(std::future::ready(()))
    }

    fn process(&self) -> Option<Arc<ServerProcess>> {
        None
    }

    fn evidence(&self) -> Evidence {
        Evidence::default()
    }
}

/// The code of that name, where it is one of a faulty configuration.
fn configuration_fault(name: &str) -> Option<ErrorCode> {
    let faults = ErrorCode::ALL.iter().filter(|code| code.class() == ErrorCode::ConfigInvalid.class());
    faults.copied().find(|code| code.as_str() == name)
}

struct LetterSink {
    channel: u32,
    script: Arc<dyn Script>,
    limit: usize,
}

impl std::fmt::Debug for LetterSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LetterSink").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl FrameSink for LetterSink {
    fn push(&self, frame: String) -> Result<(), McpError> {
        self.script.say(self.channel, Word::Message(frame), self.limit).map_err(|waiting| {
            McpError::new(
                ErrorCode::TransportBackpressure,
                format!("the in-process server does not read: {waiting} bytes wait already (maxQueuedBytes)"),
            )
            .with(|facts| facts.delivered = Some(Delivery::No))
        })
    }

    fn push_control(&self, frame: String) {
        // Refused only when hopelessly full: then nobody reads it anyway.
        let _ = self.script.say(self.channel, Word::Message(frame), self.limit.saturating_add(CONTROL_ROOM));
    }
}

#[cfg(test)]
mod tests;
