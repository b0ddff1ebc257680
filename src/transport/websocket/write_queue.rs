//! The bounded queue in front of a WebSocket (STD-07): whoever sends never waits, a server that does not read
//! costs at most `maxQueuedBytes`.

use std::collections::VecDeque;
use std::sync::Mutex;

use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use tokio::sync::Notify;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::error::{Delivery, ErrorCode, McpError};
use crate::runtime::lock;
use crate::transport::connector::wire::Wire;
use crate::transport::duplex::FrameSink;

/// Room beyond the limit for cancellations, so that a full queue can still be thinned out.
const CONTROL_ROOM: usize = 256 * 1024;

#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<String>,
    bytes: usize,
    /// Bytes the writer has taken and not yet written.
    writing: usize,
    /// A ping is due; it goes first.
    ping: bool,
    /// Nothing more is taken; the code to close with.
    ended: Option<CloseCode>,
}

/// What the writer does next.
enum Next {
    Write(Vec<Message>),
    Close(CloseCode),
    Wait,
}

/// The sending side of a WebSocket.
#[derive(Debug)]
pub(super) struct WriteQueue {
    waiting: Mutex<Waiting>,
    wake: Notify,
    limit: usize,
}

impl WriteQueue {
    /// A queue that holds at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { waiting: Mutex::default(), wake: Notify::new(), limit }
    }

    /// Nothing more is taken, what waits is dropped, and the writer says goodbye with `code`.
    pub(super) fn end(&self, code: CloseCode) {
        {
            let mut waiting = lock(&self.waiting);
            waiting.ended.get_or_insert(code);
            waiting.frames.clear();
            waiting.bytes = 0;
        }
        self.wake.notify_one();
    }

    /// Has a ping sent.
    pub(super) fn ping(&self) {
        lock(&self.waiting).ping = true;
        self.wake.notify_one();
    }

    /// Writes until the end; `Ok` once the goodbye is written.
    pub(super) async fn write_to(
        &self,
        mut sink: SplitSink<WebSocketStream<Wire>, Message>,
    ) -> Result<(), tungstenite::Error> {
        loop {
            match self.next() {
                Next::Wait => self.wake.notified().await,
                Next::Write(messages) => {
                    for message in messages {
                        sink.feed(message).await?;
                    }
                    sink.flush().await?;
                    lock(&self.waiting).writing = 0;
                }
                Next::Close(code) => {
                    return sink.send(Message::Close(Some(CloseFrame { code, reason: "".into() }))).await;
                }
            }
        }
    }

    fn next(&self) -> Next {
        let mut waiting = lock(&self.waiting);
        if let Some(code) = waiting.ended {
            return Next::Close(code);
        }
        let mut messages = Vec::new();
        if std::mem::take(&mut waiting.ping) {
            messages.push(Message::Ping(Vec::new().into()));
        }
        waiting.writing = std::mem::take(&mut waiting.bytes);
        messages.extend(waiting.frames.drain(..).map(Message::text));
        if messages.is_empty() { Next::Wait } else { Next::Write(messages) }
    }

    fn queue_frame(&self, mut frame: String, room: usize) -> Result<(), McpError> {
        // One text frame is one message: the line end of the other transports has no use here.
        frame.truncate(frame.trim_end().len());
        {
            let mut waiting = lock(&self.waiting);
            if waiting.ended.is_some() {
                return Err(McpError::new(ErrorCode::ConnectionLost, "the WebSocket is closed")
                    .with(|facts| facts.delivered = Some(Delivery::No)));
            }
            let held = waiting.bytes + waiting.writing;
            if held > 0 && held + frame.len() > room {
                let message = format!("the server does not read: {held} bytes wait already (maxQueuedBytes)");
                return Err(McpError::new(ErrorCode::TransportBackpressure, message)
                    .with(|facts| facts.delivered = Some(Delivery::No)));
            }
            waiting.bytes += frame.len();
            waiting.frames.push_back(frame);
        }
        self.wake.notify_one();
        Ok(())
    }
}

impl FrameSink for WriteQueue {
    fn push(&self, frame: String) -> Result<(), McpError> {
        self.queue_frame(frame, self.limit)
    }

    fn push_control(&self, frame: String) {
        // Refused only when the connection has ended or is hopelessly full: then nobody is left to tell.
        let _ = self.queue_frame(frame, self.limit.saturating_add(CONTROL_ROOM));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn std_07_the_queue_is_bounded_and_pings_go_first() {
        let queue = WriteQueue::new(10);
        queue.push("{\"a\":123456789}\n".into()).unwrap();
        let refused = queue.push("{}\n".into()).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::TransportBackpressure);
        assert_eq!(refused.facts().delivered, Some(Delivery::No));
        queue.push_control("{\"b\":1}\n".into());
        queue.ping();
        let Next::Write(messages) = queue.next() else { panic!("nothing to write") };
        assert!(messages[0].is_ping());
        assert_eq!(messages[1].to_text().unwrap(), "{\"a\":123456789}");
        assert_eq!(messages.len(), 3);
        assert!(queue.push("{}\n".into()).is_err(), "what is being written still counts");
        lock(&queue.waiting).writing = 0;
        assert!(queue.push("{}\n".into()).is_ok());
        queue.end(CloseCode::Normal);
        assert!(matches!(queue.next(), Next::Close(CloseCode::Normal)));
        assert_eq!(queue.push("{}\n".into()).unwrap_err().code(), ErrorCode::ConnectionLost);
    }
}
