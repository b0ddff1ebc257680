//! The conversation over a server's pipes: newline frames on standard input and output.
//!
//! Owns the reading task and what is known of the other end. The process itself belongs to `spawn` and
//! `shutdown`.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::birth;
use super::engine::Container;
use super::intake::{Intake, Watch};
use super::{ServerProcess, ShutdownTimes, StdioRecipe};
use crate::environment::Environment;
use crate::error::{Delivery, ErrorCode, ExitFact, McpError};
use crate::jsonrpc::RawText;
use crate::protocol::version::ProtocolVersion;
use crate::runtime::{self, Near, lock};
use crate::transport::duplex::{Duplex, accept_frame};
use crate::transport::frame_lines::{EXCERPT, Line, LineFramer};
use crate::transport::outbox::Outbox;
use crate::transport::{BoxFuture, CloseMode, Evidence, Outgoing, Receiver, RequestFailure, Transport};
use crate::unicode;

/// How long output is still read after the process has ended: a grandchild may hold the pipe (A6).
const DRAIN: Duration = Duration::from_millis(100);
/// How long the end of the output waits for the end of the process, to tell one from the other.
const EXIT_WAIT: Duration = Duration::from_millis(150);

/// Bounds of a channel.
#[derive(Clone, Copy, Debug)]
pub struct ChannelLimits {
    /// Longest message in bytes.
    pub message: usize,
    /// Bytes that may wait for a server that does not read.
    pub queued: usize,
    /// Times of the closing steps.
    pub shutdown: ShutdownTimes,
}

#[derive(Debug, Default)]
struct Noise {
    count: u64,
    first: Option<String>,
}

/// A server behind its standard input and output.
pub struct StdioTransport {
    duplex: Duplex,
    outbox: Arc<Outbox>,
    intake: Intake,
    /// Weak: the receiver owns what owns this transport.
    receiver: Weak<dyn Receiver>,
    process: Arc<ServerProcess>,
    container: Option<Container>,
    limits: ChannelLimits,
    noise: Mutex<Noise>,
    /// Whether any message of the protocol has come.
    spoken: AtomicBool,
    /// What could not be ended.
    survivors: Mutex<Option<Vec<u32>>>,
}

impl fmt::Debug for StdioTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioTransport").field("process", &self.process).finish_non_exhaustive()
    }
}

/// Starts the server and listens to it. Must run inside the runtime.
///
/// # Errors
/// As `spawn`: `SPAWN_FAILED`, or `CONNECT_FAILED` where the system is short of something.
pub fn open(
    recipe: &StdioRecipe,
    environment: &Environment,
    limits: ChannelLimits,
    receiver: Arc<dyn Receiver>,
) -> Result<Arc<StdioTransport>, McpError> {
    let listener = Arc::clone(&receiver);
    let spawned = super::spawn(recipe, environment, Box::new(move |line| listener.stderr(line)))?;
    let failed = |end: &str, error: io::Error| {
        McpError::new(ErrorCode::ConnectFailed, format!("the server's {end}: {error}"))
    };
    let input = birth::sending_end(spawned.stdin).map_err(|error| failed("input", error))?;
    let intake = Intake::of(spawned.stdout, limits.message).map_err(|error| failed("output", error))?;
    let outbox = Outbox::start(input, limits.queued);
    let sink: Arc<Outbox> = Arc::clone(&outbox);
    let transport = Arc::new(StdioTransport {
        duplex: Duplex::new(sink),
        outbox,
        intake,
        receiver: Arc::downgrade(&receiver),
        process: spawned.process,
        container: spawned.container,
        limits,
        noise: Mutex::default(),
        spoken: AtomicBool::new(false),
        survivors: Mutex::default(),
    });
    let answers: Arc<dyn Near> = Arc::clone(&transport) as _;
    transport.outbox.answered_by(Arc::downgrade(&answers));
    runtime::spawn(read_until_end(Arc::clone(&transport), receiver));
    Ok(transport)
}

/// Reads until the output has ended, or nothing more can be expected of it.
async fn read_all(transport: &StdioTransport, receiver: &dyn Receiver) {
    let mut watch = Watch::new(&transport.intake);
    let exited = transport.process.exited();
    tokio::pin!(exited);
    let mut drained: Option<Instant> = None;
    loop {
        let far = Instant::now() + Duration::from_secs(86_400);
        tokio::select! {
            biased;
            read = watch.next(|| transport.duplex.open(), |framer| transport.take_all(framer, receiver)) => {
                if !matches!(read, Ok(true)) {
                    return;
                }
            }
            _ = &mut exited, if drained.is_none() => drained = Some(Instant::now() + DRAIN),
            () = tokio::time::sleep_until(drained.unwrap_or(far)), if drained.is_some() => return,
            () = transport.outbox.broken() => return,
        }
    }
}

async fn read_until_end(transport: Arc<StdioTransport>, receiver: Arc<dyn Receiver>) {
    read_all(&transport, receiver.as_ref()).await;
    let unfinished = transport.intake.end();
    if unfinished > 0 {
        receiver.noise(&format!("{unfinished} bytes"), "the output ended inside a line");
    }
    let exit = tokio::time::timeout(EXIT_WAIT, transport.process.exited()).await.ok();
    let error = transport.end_error(exit);
    transport.outbox.end();
    transport.duplex.close(&error);
    receiver.closed(error);
}

impl Near for StdioTransport {
    fn expected_at_once(&self) -> bool {
        self.intake.expected_at_once(self.duplex.open())
    }

    fn look(&self) -> bool {
        let Some(receiver) = self.receiver.upgrade() else { return false };
        self.intake.look(|| self.duplex.open(), |framer| self.take_all(framer, receiver.as_ref()))
    }
}

impl StdioTransport {
    /// Queues a frame that has no answer, in this very step.
    ///
    /// # Errors
    /// `TRANSPORT_BACKPRESSURE`; whatever ended the channel.
    pub fn push(&self, frame: String) -> Result<(), McpError> {
        self.duplex.send(frame)
    }

    fn take_all(&self, framer: &mut LineFramer, receiver: &dyn Receiver) {
        runtime::gather(|| self.take_lines(framer, receiver));
    }

    fn take_lines(&self, framer: &mut LineFramer, receiver: &dyn Receiver) {
        while let Some(line) = framer.next_line() {
            match line {
                Line::Text(text) => self.take_text(text, receiver),
                Line::NotUtf8(shown) => self.take_noise(&shown, "not UTF-8", receiver),
                Line::TooLong { length, id } => self.take_oversized(length, id, receiver),
            }
        }
    }

    fn take_text(&self, text: String, receiver: &dyn Receiver) {
        // Only a line that fails is needed again, and then only its beginning.
        let head = text.get(..text.floor_char_boundary(EXCERPT)).unwrap_or_default().to_owned();
        match accept_frame(&self.duplex, text, receiver) {
            Ok(()) => self.spoken.store(true, Ordering::Relaxed),
            Err(why) => self.take_noise(&head, why, receiver),
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
        // Such an answer is an answer: nobody has to wait for another one (D5). An old server may give it to the
        // question for the other era, and speak the protocol after a handshake.
        if let Some(what) = answer_of_the_web(&shown)
            && !self.spoken.load(Ordering::Relaxed)
        {
            let message = format!(
                "the command printed {what} instead of messages of the protocol; a server of this kind wants \
                 type \"http\" and its URL, or another command: {shown}"
            );
            let error = McpError::new(ErrorCode::MessageInvalid, message);
            self.duplex.fail_open(&error.with(|facts| facts.first_bytes = Some(shown)));
        }
    }

    fn take_oversized(&self, length: u64, id: Option<u64>, receiver: &dyn Receiver) {
        let limit = self.limits.message;
        let error = McpError::new(
            ErrorCode::MessageTooLarge,
            format!("the server sent a message of {length} bytes; the limit is {limit} (maxMessageBytes)"),
        )
        .with(|facts| facts.delivered = Some(Delivery::Unknown));
        if !id.is_some_and(|id| self.duplex.fail(id, error)) {
            receiver.noise(&format!("{length} bytes"), "a message above maxMessageBytes");
        }
    }

    /// A container whose server has not ended by itself in time is stopped by its engine, and so is one that its
    /// client has left behind.
    async fn stop_container(&self, mode: CloseMode) {
        let Some(container) = &self.container else { return };
        let times = &self.limits.shutdown;
        let patience = if mode == CloseMode::Fast { times.fast_int } else { times.grace };
        let _ = tokio::time::timeout(patience, self.process.exited()).await;
        container.stop().await;
    }

    fn end_error(&self, exit: Option<ExitFact>) -> McpError {
        let tail = self.process.stderr_tail();
        let error = match &exit {
            Some(exit) => {
                McpError::new(ErrorCode::ServerExited, format!("the server process {}", describe_exit(exit)))
            }
            None => McpError::new(ErrorCode::ConnectionLost, "the server closed its end of the pipe"),
        };
        error.with(|facts| {
            facts.exit = exit;
            facts.stderr_tail = Some(tail);
        })
    }
}

/// What a line is the beginning of, where that is something of the web.
fn answer_of_the_web(line: &str) -> Option<&'static str> {
    let begins = |word: &str| line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    if begins("HTTP/1.") || begins("HTTP/2 ") {
        Some("an HTTP answer")
    } else if begins("<!doctype html") || begins("<html") {
        Some("an HTML page")
    } else {
        None
    }
}

/// "ended with exit code 1", "was ended by SIGKILL".
pub fn describe_exit(exit: &ExitFact) -> String {
    match (&exit.signal, exit.code) {
        (Some(signal), _) => format!("was ended by {signal}"),
        (None, Some(code)) => format!("ended with exit code {code}"),
        (None, None) => "ended".to_owned(),
    }
}

impl Transport for StdioTransport {
    fn request(&self, request: Outgoing) -> BoxFuture<'_, Result<RawText, RequestFailure>> {
        Box::pin(self.duplex.request(request))
    }

    fn negotiated(&self, _version: ProtocolVersion) {}

    fn send(&self, frame: String) -> BoxFuture<'_, Result<(), McpError>> {
        let sent = self.push(frame);
        Box::pin(async move { sent })
    }

    fn close(&self, mode: CloseMode, reason: McpError) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.duplex.close(&reason);
            self.outbox.end();
            let (report, ()) =
                tokio::join!(self.process.close(mode, &self.limits.shutdown), self.stop_container(mode));
            *lock(&self.survivors) = (!report.complete).then_some(report.survivors);
        })
    }

    fn process(&self) -> Option<Arc<ServerProcess>> {
        Some(Arc::clone(&self.process))
    }

    fn evidence(&self) -> Evidence {
        let noise = lock(&self.noise);
        Evidence {
            pid: Some(self.process.pid()),
            exit: self.process.exit(),
            stderr_tail: self.process.stderr_tail(),
            first_noise: noise.first.clone(),
            noise_count: noise.count,
            survivors: lock(&self.survivors).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::answer_of_the_web;

    #[test]
    fn d5_answers_of_the_web_are_known_by_their_beginning() {
        for (line, expected) in [
            ("HTTP/1.1 404 Not Found", Some("an HTTP answer")),
            ("HTTP/2 200", Some("an HTTP answer")),
            ("<!DOCTYPE html>", Some("an HTML page")),
            ("<HTML lang=\"en\">", Some("an HTML page")),
            ("HTTP server listening on port 3000", None),
            ("<3 welcome", None),
            ("é", None),
            ("", None),
        ] {
            assert_eq!(answer_of_the_web(line), expected, "{line}");
        }
    }
}
