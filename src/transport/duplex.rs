//! Requests and answers over one shared channel (stdio, WebSocket, in-process, legacy SSE).
//!
//! Owns the table of open requests. An entry leaves it by its answer, by cancellation or by the end of the
//! channel, whichever comes first, and so settles exactly once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::http::answer::invalid_answer;
use super::{Outgoing, Receiver, RequestFailure};
use crate::error::{Delivery, ErrorCode, McpError};
use crate::jsonrpc::{Answer, Incoming, RawText, read, write};
use crate::runtime::{self, lock};

type Reply = Result<RawText, RequestFailure>;

/// Where frames go. Never blocks: what cannot be taken is refused.
pub trait FrameSink: Send + Sync + std::fmt::Debug {
    /// Takes a frame.
    fn push(&self, frame: String) -> Result<(), McpError>;
    /// Takes a short frame even when the queue is full (cancellations).
    fn push_control(&self, frame: String);
}

/// Withdrawn requests whose late answers are still expected; older ones count as strays.
const REMEMBERED: usize = 1_024;

#[derive(Debug)]
enum Pending {
    Open(Table),
    Closed(McpError),
}

#[derive(Debug, Default)]
struct Table {
    waiters: HashMap<u64, oneshot::Sender<Reply>>,
    withdrawn: VecDeque<u64>,
}

impl Table {
    /// Takes a request out whose answer may still come.
    fn withdraw(&mut self, id: u64) -> bool {
        let open = self.waiters.remove(&id).is_some();
        if open {
            if self.withdrawn.len() == REMEMBERED {
                self.withdrawn.pop_front();
            }
            self.withdrawn.push_back(id);
        }
        open
    }

    /// Whether this is the late answer to a withdrawn request; the second one is not.
    fn late(&mut self, id: u64) -> bool {
        match self.withdrawn.iter().position(|withdrawn| *withdrawn == id) {
            Some(at) => self.withdrawn.remove(at).is_some(),
            None => false,
        }
    }
}

/// The sending side and the table of open requests.
#[derive(Debug)]
pub struct Duplex {
    sink: Arc<dyn FrameSink>,
    pending: Mutex<Pending>,
}

fn fail_each(waiters: HashMap<u64, oneshot::Sender<Reply>>, error: &McpError, delivered: Delivery) {
    for waiter in waiters.into_values() {
        let lost = error.clone().with(|facts| facts.delivered = Some(delivered));
        let _ = waiter.send(Err(RequestFailure::Transport(lost)));
    }
}

impl Duplex {
    /// A channel whose frames go to `sink`.
    pub fn new(sink: Arc<dyn FrameSink>) -> Self {
        Self { sink, pending: Mutex::new(Pending::Open(Table::default())) }
    }

    /// Sends a request and waits for its answer; dropping the future cancels it.
    pub async fn request(&self, request: Outgoing) -> Reply {
        self.request_by(request, |frame| self.sink.push(frame)).await
    }

    /// As [`Duplex::request`], for a request whose frame goes a way of its own.
    pub async fn request_by(
        &self,
        request: Outgoing,
        push: impl FnOnce(String) -> Result<(), McpError>,
    ) -> Reply {
        let (reply, answer) = oneshot::channel();
        self.register(request.id, reply)?;
        let ticket = Ticket { duplex: self, id: request.id, cancellable: request.cancellable };
        if let Err(error) = push(request.frame) {
            ticket.withdraw();
            return Err(RequestFailure::Transport(error));
        }
        let reply = answer.await;
        std::mem::forget(ticket);
        reply.unwrap_or_else(|_| Err(RequestFailure::Transport(self.closed_error())))
    }

    /// How many requests wait for their answers.
    pub fn open(&self) -> usize {
        match &*lock(&self.pending) {
            Pending::Open(table) => table.waiters.len(),
            Pending::Closed(_) => 0,
        }
    }

    /// Sends a frame that has no answer.
    pub fn send(&self, frame: String) -> Result<(), McpError> {
        if let Pending::Closed(error) = &*lock(&self.pending) {
            return Err(error.clone());
        }
        self.sink.push(frame)
    }

    /// Takes one message from the peer: answers go to their callers, the rest to `receiver`.
    pub fn accept(&self, message: Incoming, receiver: &dyn Receiver) {
        let Incoming::Response { id, answer } = message else {
            receiver.message(message);
            return;
        };
        receiver.response(id, &answer);
        let Some(waiter) = id.and_then(|id| self.take(id)) else {
            // A late answer is expected after a cancellation and worth no word (PRO-07).
            if !id.is_some_and(|id| self.was_withdrawn(id)) {
                receiver.stray(id);
            }
            return;
        };
        receiver.answered(id.unwrap_or_default());
        let reply = match answer {
            Answer::Result(result) => Ok(result),
            Answer::Error(error) => Err(RequestFailure::Rpc(error)),
            Answer::Invalid { reason, frame } => {
                Err(RequestFailure::Transport(invalid_answer(reason, &frame)))
            }
        };
        // The caller may have given up in this very moment; then nobody waits.
        let _ = waiter.send(reply);
    }

    /// Fails one open request, if it is still open.
    pub fn fail(&self, id: u64, error: McpError) -> bool {
        self.take(id).is_some_and(|waiter| waiter.send(Err(RequestFailure::Transport(error))).is_ok())
    }

    /// Ends the channel: every open request fails with `error`, every later one too. The first call counts.
    pub fn close(&self, error: &McpError) {
        self.end(error, Delivery::Unknown);
    }

    /// As [`Duplex::close`], for a channel that never stood: nothing of any request was sent.
    pub fn close_unsent(&self, error: &McpError) {
        self.end(error, Delivery::No);
    }

    fn end(&self, error: &McpError, delivered: Delivery) {
        let waiters = {
            let mut pending = lock(&self.pending);
            match &mut *pending {
                Pending::Closed(_) => return,
                Pending::Open(table) => {
                    let waiters = std::mem::take(&mut table.waiters);
                    let not_sent = error.clone().with(|facts| facts.delivered = Some(Delivery::No));
                    *pending = Pending::Closed(not_sent);
                    waiters
                }
            }
        };
        fail_each(waiters, error, delivered);
    }

    /// Fails every open request with `error`; the channel goes on.
    pub fn fail_open(&self, error: &McpError) {
        let waiters = match &mut *lock(&self.pending) {
            Pending::Closed(_) => return,
            Pending::Open(table) => std::mem::take(&mut table.waiters),
        };
        fail_each(waiters, error, Delivery::Unknown);
    }

    fn register(&self, id: u64, reply: oneshot::Sender<Reply>) -> Result<(), RequestFailure> {
        match &mut *lock(&self.pending) {
            Pending::Closed(error) => Err(RequestFailure::Transport(error.clone())),
            Pending::Open(table) => {
                table.waiters.insert(id, reply);
                Ok(())
            }
        }
    }

    fn take(&self, id: u64) -> Option<oneshot::Sender<Reply>> {
        match &mut *lock(&self.pending) {
            Pending::Open(table) => table.waiters.remove(&id),
            Pending::Closed(_) => None,
        }
    }

    fn withdraw(&self, id: u64) -> bool {
        match &mut *lock(&self.pending) {
            Pending::Open(table) => table.withdraw(id),
            Pending::Closed(_) => false,
        }
    }

    fn was_withdrawn(&self, id: u64) -> bool {
        match &mut *lock(&self.pending) {
            Pending::Open(table) => table.late(id),
            Pending::Closed(_) => false,
        }
    }

    fn closed_error(&self) -> McpError {
        match &*lock(&self.pending) {
            Pending::Closed(error) => error.clone(),
            Pending::Open(_) => McpError::new(ErrorCode::ConnectionLost, "the request was dropped"),
        }
    }
}

/// Takes a request out of the table when nobody waits for it any more, and tells the server.
struct Ticket<'a> {
    duplex: &'a Duplex,
    id: u64,
    cancellable: bool,
}

impl Ticket<'_> {
    fn withdraw(self) {
        self.duplex.take(self.id);
        std::mem::forget(self);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        // An answered request is no longer in the table, and is not cancelled (F-029).
        if self.duplex.withdraw(self.id) && self.cancellable {
            self.duplex.sink.push_control(cancellation(self.id));
        }
    }
}

/// The notification that a request is no longer waited for.
pub fn cancellation(id: u64) -> String {
    // The reason is neutral: why the host gave up is nobody else's business (F8).
    let params = format!("{{\"requestId\":{id},\"reason\":\"The result is no longer needed\"}}");
    write::notification("notifications/cancelled", Some(&params))
}

/// Reads a frame and accepts all it holds; says why not if it holds no message.
pub fn accept_frame(duplex: &Duplex, frame: String, receiver: &dyn Receiver) -> Result<(), &'static str> {
    let messages = runtime::at_length(frame.len(), || read::read(frame)).map_err(|not| not.0)?;
    for message in messages {
        duplex.accept(message, receiver);
    }
    Ok(())
}
