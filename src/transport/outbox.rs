//! The bounded queue in front of a server's standard input (STD-07).
//!
//! A frame on an idle connection is written at once by the thread that sends it; on a busy one the writer
//! task joins what has gathered. A server that does not read costs at most `maxQueuedBytes`.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::net::unix::pipe;
use tokio::sync::Notify;

use super::duplex::FrameSink;
use crate::error::{Delivery, ErrorCode, McpError};
use crate::runtime::{self, lock};

/// Room beyond the limit for cancellations, so that a full queue can still be thinned out.
const CONTROL_ROOM: usize = 256 * 1024;

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    /// Bytes the writer task has taken and not yet written.
    writing: usize,
    ended: bool,
}

/// The sending end of a pipe.
#[derive(Debug)]
pub struct Outbox {
    pipe: Mutex<Option<Arc<pipe::Sender>>>,
    queue: Mutex<Queue>,
    wake: Notify,
    broken: Notify,
    limit: usize,
}

impl Outbox {
    /// Starts the writer task of a queue that holds at most `limit` bytes.
    pub fn start(pipe: pipe::Sender, limit: usize) -> Arc<Self> {
        let pipe = Arc::new(pipe);
        let outbox = Arc::new(Self {
            pipe: Mutex::new(Some(Arc::clone(&pipe))),
            queue: Mutex::default(),
            wake: Notify::new(),
            broken: Notify::new(),
            limit,
        });
        let writer = Arc::clone(&outbox);
        runtime::spawn(async move {
            if writer.write_all(&pipe).await.is_err() {
                writer.broken.notify_one();
            }
            writer.end();
        });
        outbox
    }

    /// Ends the stream: nothing more is taken, the pipe closes, the server sees the end of its input.
    pub fn end(&self) {
        lock(&self.queue).ended = true;
        lock(&self.pipe).take();
        self.wake.notify_one();
    }

    /// Completes when the pipe cannot be written any more though nobody ended it.
    pub async fn broken(&self) {
        self.broken.notified().await;
    }

    async fn write_all(&self, pipe: &pipe::Sender) -> io::Result<()> {
        loop {
            let batch = {
                let mut queue = lock(&self.queue);
                if queue.ended {
                    return Ok(());
                }
                queue.writing = queue.bytes.len();
                std::mem::take(&mut queue.bytes)
            };
            if batch.is_empty() {
                self.wake.notified().await;
                continue;
            }
            if !self.write_batch(pipe, &batch).await? {
                return Ok(());
            }
        }
    }

    /// Writes a batch; `false` when the stream was ended meanwhile.
    async fn write_batch(&self, pipe: &pipe::Sender, batch: &[u8]) -> io::Result<bool> {
        let mut rest = batch;
        while !rest.is_empty() {
            match pipe.try_write(rest) {
                Ok(written) => {
                    rest = &rest[written..];
                    lock(&self.queue).writing = rest.len();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::select! {
                        ready = pipe.writable() => ready?,
                        () = self.wake.notified() => if lock(&self.queue).ended { return Ok(false) },
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Writes as much as the pipe takes without waiting; how much that was.
    fn write_now(&self, frame: &[u8]) -> usize {
        let pipe = lock(&self.pipe).clone();
        pipe.and_then(|pipe| pipe.try_write(frame).ok()).unwrap_or(0)
    }

    fn queue_frame(&self, frame: String, alone: bool, room: usize) -> Result<(), McpError> {
        let mut queue = lock(&self.queue);
        if queue.ended {
            return Err(McpError::new(ErrorCode::ConnectionLost, "the server's input is closed")
                .with(|facts| facts.delivered = Some(Delivery::No)));
        }
        let waiting = queue.bytes.len() + queue.writing;
        if waiting == 0 {
            // Holding the lock keeps the order: nobody else can write before the rest is queued.
            let written = if alone { self.write_now(frame.as_bytes()) } else { 0 };
            if written == frame.len() {
                return Ok(());
            }
            queue.bytes = frame.into_bytes();
            queue.bytes.drain(..written);
        } else if waiting + frame.len() > room {
            return Err(McpError::new(
                ErrorCode::TransportBackpressure,
                format!("the server does not read its input: {waiting} bytes wait already (maxQueuedBytes)"),
            )
            .with(|facts| facts.delivered = Some(Delivery::No)));
        } else {
            queue.bytes.extend_from_slice(frame.as_bytes());
        }
        drop(queue);
        self.wake.notify_one();
        Ok(())
    }
}

impl FrameSink for Outbox {
    fn push(&self, frame: String, alone: bool) -> Result<(), McpError> {
        self.queue_frame(frame, alone, self.limit)
    }

    fn push_control(&self, frame: String) {
        // Refused only when the stream has ended or is hopelessly full: then nobody is left to tell.
        let _ = self.queue_frame(frame, true, self.limit.saturating_add(CONTROL_ROOM));
    }
}
