//! The tasks that write and that keep the lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::control;
use super::ids;
use super::queue::{Batch, WrongAcknowledgement};
use super::reading::{out_of_patience, pause};
use super::requests::{Failure, protocol};
use super::session::{Shared, Waiter};
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError};
use crate::runtime::lock;

/// Messages and bytes of one request.
const BATCH: usize = 100;
const BATCH_BYTES: usize = 1024 * 1024;
/// Signs of life that may fail in a row.
const MISSED_BEATS: u32 = 2;

/// What comes after a request.
enum Next {
    /// The next one.
    GoOn,
    /// The same again, later.
    Again(McpError, Option<Duration>),
    /// Nothing any more.
    End(McpError),
}

impl Shared {
    /// Writes until the bridge ends: one request at a time, so that the order is kept.
    pub(super) async fn write(&self) {
        let mut most = BATCH;
        let mut tries = 0;
        let mut failing_since = None;
        loop {
            let epoch = self.registration().await;
            let batch = lock(&self.core).queue.batch(most, BATCH_BYTES);
            let Some(batch) = batch else {
                self.idle.notify_waiters();
                self.work.notified().await;
                continue;
            };
            let sent = self.transport.send(epoch, &batch).await;
            if sent.is_ok() {
                most = BATCH;
            } else if matches!(sent, Err(Failure::TooLarge(_))) {
                most = (batch.count / 2).max(1);
            }
            let (error, asked) = match self.after(epoch, &batch, sent) {
                Next::GoOn => {
                    (tries, failing_since) = (0, None);
                    continue;
                }
                Next::Again(error, asked) => (error, asked),
                Next::End(error) => return self.fail(&error),
            };
            tries += 1;
            let (limit, delay) = (self.patience(), pause(tries, asked));
            let since: Instant = *failing_since.get_or_insert_with(Instant::now);
            if since.elapsed() + delay > limit {
                return self.fail(&out_of_patience(limit, error));
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// What follows from an answer.
    fn after(&self, epoch: u64, batch: &Batch, sent: Result<u64, Failure>) -> Next {
        match sent {
            Ok(number) => {
                let acknowledged = lock(&self.core).queue.acknowledge(number);
                match settle(acknowledged) {
                    // Not a step further: the other end takes nothing now.
                    Ok(()) if number < batch.first => {
                        let message = "the relay takes no messages";
                        Next::Again(McpError::new(ErrorCode::TransportBackpressure, message), None)
                    }
                    Ok(()) => Next::GoOn,
                    Err(error) => Next::End(error),
                }
            }
            Err(Failure::Again(error, asked)) => Next::Again(error, asked),
            Err(Failure::Lost(_)) => {
                self.lose_registration(epoch);
                Next::GoOn
            }
            Err(Failure::Superseded(error)) if self.is_current(epoch) => Next::End(error),
            Err(Failure::Superseded(_)) => Next::GoOn,
            Err(Failure::TooLarge(error)) => {
                if batch.count == 1 {
                    self.give_up(batch.first, error);
                }
                Next::GoOn
            }
            Err(Failure::Fatal(error)) => Next::End(error),
        }
    }

    /// The other end does not take a message for its size: whoever sent it hears of it, and so does whoever waits for an
    /// answer of ours.
    fn give_up(&self, number: u64, error: McpError) {
        let mut core = lock(&self.core);
        match core.queue.refuse(number) {
            Some((_, Some(waiter))) => {
                let _ = waiter.send(Err(error));
            }
            Some((answer, None)) => {
                if let Some(instead) = self.instead_of(&answer, "the relay takes") {
                    core.queue.put_first(instead);
                }
            }
            None => {}
        }
    }

    /// Tells of an answer that is too large; gives what is sent in its place.
    pub(super) fn instead_of(&self, answer: &str, limit: &str) -> Option<String> {
        let message =
            format!("an answer to the other end was dropped: {} bytes are more than {limit}", answer.len());
        self.callbacks.tell(&Diagnostic::error("BRIDGE_REPLY_DROPPED", message));
        control::in_place_of(&ids::uuid(), answer)
    }

    /// Waits until we are registered; gives the epoch.
    async fn registration(&self) -> u64 {
        let mut registered = self.registered.subscribe();
        let epoch = registered.wait_for(Option::is_some).await.ok().and_then(|epoch| *epoch);
        match epoch {
            Some(epoch) => epoch,
            // The bridge is gone, and with it the task.
            None => std::future::pending().await,
        }
    }

    /// Whether a registration is still ours as far as we know: an answer to an older one says nothing.
    fn is_current(&self, epoch: u64) -> bool {
        lock(&self.core).position.epoch() == epoch
    }

    /// The other end has forgotten our registration; the reader makes a new one.
    fn lose_registration(&self, epoch: u64) {
        self.registered.send_if_modified(|registered| registered.take_if(|known| *known == epoch).is_some());
    }

    /// Gives signs of life while we are registered (BRG-05).
    pub(super) async fn keep_lease(self: &Arc<Self>) {
        let mut missed = Missed::default();
        loop {
            tokio::time::sleep(self.options.heartbeat).await;
            let epoch = self.registration().await;
            let stream = *self.stream.borrow();
            let handled = lock(&self.core).handled();
            let beat = self.transport.beat(epoch, handled);
            match tokio::time::timeout(self.options.heartbeat, beat).await {
                Ok(Ok(())) => missed = Missed::default(),
                Ok(Err(Failure::Lost(_))) => self.lose_registration(epoch),
                Ok(Err(Failure::Superseded(error))) if self.is_current(epoch) => return self.fail(&error),
                Ok(Err(Failure::Fatal(error))) => return self.fail(&error),
                Ok(Err(_)) | Err(_) => {
                    if let Some(dead) = missed.count(stream) {
                        self.stream.send_if_modified(|now| now.take_if(|now| *now == dead).is_some());
                    }
                }
            }
        }
    }
}

/// Signs of life that failed in a row while one stream stood: what failed before it says nothing about it.
#[derive(Debug, Default)]
struct Missed {
    stream: Option<u64>,
    beats: u32,
}

impl Missed {
    /// Counts one more; gives the stream that is dead by now. Without a stream the reader knows already.
    fn count(&mut self, stream: Option<u64>) -> Option<u64> {
        if self.stream != stream {
            *self = Self { stream, beats: 0 };
        }
        self.beats = self.beats.saturating_add(1);
        stream.filter(|_| self.beats >= MISSED_BEATS)
    }
}

/// Answers those whose messages have arrived.
///
/// # Errors
/// `BRIDGE_PROTOCOL` for an acknowledgement that cannot be.
pub(super) fn settle(acknowledged: Result<Vec<Waiter>, WrongAcknowledgement>) -> Result<(), McpError> {
    let waiters = acknowledged.map_err(|wrong| {
        let WrongAcknowledgement { acknowledged, offered } = wrong;
        protocol(format!("the relay acknowledges a number that is not between {acknowledged} and {offered}"))
    })?;
    for waiter in waiters {
        let _ = waiter.send(Ok(()));
    }
    Ok(())
}
