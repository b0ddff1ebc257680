//! The bounded queue in front of a server's standard input (STD-07).
//!
//! Frames of one turn of the JavaScript thread are written together at its end, by that thread, without any
//! other waking up; what the pipe does not take at once, and what tasks send, is left to the writer task. A
//! server that does not read costs at most `maxQueuedBytes`.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, Weak};

#[cfg(unix)]
use tokio::net::unix::pipe::Sender as Pipe;
#[cfg(windows)]
use tokio::net::windows::named_pipe::NamedPipeServer as Pipe;
use tokio::sync::Notify;

use super::duplex::FrameSink;
use crate::error::{Delivery, ErrorCode, McpError};
use crate::runtime::{self, Flush, Near, lock};

/// Room beyond the limit for cancellations, so that a full queue can still be thinned out.
const CONTROL_ROOM: usize = 256 * 1024;

/// Most bytes of one write; no pipe takes more at once.
const WRITE: usize = 64 * 1024;

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    /// Bytes the writer task has taken and not yet written.
    writing: usize,
    /// Whether the thread that wrote last will flush at the end of its turn.
    flush_due: bool,
    ended: bool,
}

/// The sending end of a pipe.
#[derive(Debug)]
pub struct Outbox {
    pipe: Mutex<Option<Arc<Pipe>>>,
    queue: Mutex<Queue>,
    wake: Notify,
    broken: Notify,
    limit: usize,
    this: Weak<Outbox>,
    /// The other direction: where answers to what is written here arrive.
    reader: OnceLock<Weak<dyn Near>>,
}

impl Outbox {
    /// Starts the writer task of a queue that holds at most `limit` bytes.
    pub fn start(pipe: Pipe, limit: usize) -> Arc<Self> {
        let pipe = Arc::new(pipe);
        let outbox = Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            pipe: Mutex::new(Some(Arc::clone(&pipe))),
            queue: Mutex::default(),
            wake: Notify::new(),
            broken: Notify::new(),
            limit,
            reader: OnceLock::new(),
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

    /// Where answers arrive; told once.
    pub fn answered_by(&self, reader: Weak<dyn Near>) {
        // A second one would be a mistake without consequence: the first stays.
        let _ = self.reader.set(reader);
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

    async fn write_all(&self, pipe: &Pipe) -> io::Result<()> {
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
    async fn write_batch(&self, pipe: &Pipe, batch: &[u8]) -> io::Result<bool> {
        let mut rest = batch;
        while !rest.is_empty() {
            match pipe.try_write(at_once(rest)) {
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
        pipe.and_then(|pipe| pipe.try_write(at_once(frame)).ok()).unwrap_or(0)
    }

    fn queue_frame(&self, frame: String, room: usize) -> Result<(), McpError> {
        let mut queue = lock(&self.queue);
        if queue.ended {
            return Err(McpError::new(ErrorCode::ConnectionLost, "the server's input is closed")
                .with(|facts| facts.delivered = Some(Delivery::No)));
        }
        let waiting = queue.bytes.len() + queue.writing;
        if waiting > 0 && waiting + frame.len() > room {
            return Err(McpError::new(
                ErrorCode::TransportBackpressure,
                format!("the server does not read its input: {waiting} bytes wait already (maxQueuedBytes)"),
            )
            .with(|facts| facts.delivered = Some(Delivery::No)));
        }
        if queue.bytes.is_empty() {
            queue.bytes = frame.into_bytes();
        } else {
            queue.bytes.extend_from_slice(frame.as_bytes());
        }
        let outside = !runtime::inside();
        let flush_due = queue.flush_due;
        queue.flush_due |= outside;
        drop(queue);
        match self.this.upgrade() {
            Some(this) if outside && !flush_due => runtime::flush_later(this),
            _ if outside => {}
            _ => self.wake.notify_one(),
        }
        Ok(())
    }
}

/// What one write is given: a pipe of Windows keeps all of it, however slowly it is read.
fn at_once(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(WRITE)]
}

impl Flush for Outbox {
    fn flush(&self) {
        let mut queue = lock(&self.queue);
        queue.flush_due = false;
        // While the writer is at it, the order is its business. Holding the lock keeps the order here.
        if queue.writing == 0 && !queue.ended && !queue.bytes.is_empty() {
            let written = self.write_now(&queue.bytes);
            queue.bytes.drain(..written);
        }
        if queue.bytes.is_empty() {
            return;
        }
        drop(queue);
        self.wake.notify_one();
    }

    fn near(&self) -> Option<Arc<dyn Near>> {
        let reader = self.reader.get()?.upgrade()?;
        reader.expected_at_once().then_some(reader)
    }
}

impl FrameSink for Outbox {
    fn push(&self, frame: String) -> Result<(), McpError> {
        self.queue_frame(frame, self.limit)
    }

    fn push_control(&self, frame: String) {
        // Refused only when the stream has ended or is hopelessly full: then nobody is left to tell.
        let _ = self.queue_frame(frame, self.limit.saturating_add(CONTROL_ROOM));
    }
}
