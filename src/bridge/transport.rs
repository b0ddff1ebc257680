//! The one interface of both transports: register, connect and read, send, keep the lease, disconnect.

use super::queue::Batch;
use super::requests::Failure;
use super::wire::{Claim, Registered};
use crate::transport::BoxFuture;

/// What comes from the other end.
#[derive(Debug)]
pub(super) enum Word {
    /// A message in its envelope (JSON text).
    Message(String),
    /// A sign of life.
    Alive,
    /// A message above the limit; it was dropped.
    TooLong {
        /// Its sequence number, where that could be read.
        sequence: Option<u64>,
        /// Its length in bytes, where it was read to its end.
        length: Option<u64>,
    },
}

/// One connection's messages, as they come. Dropping it ends the connection.
pub(super) trait Inbox: Send {
    /// The next word; the end of a connection is a failure, and so is silence.
    fn next(&mut self) -> BoxFuture<'_, Result<Word, Failure>>;
}

/// A way to the other end. Every wait in it has a limit.
pub(super) trait Transport: Send + Sync {
    /// Makes this instance the one that serves the session.
    fn register<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Registered, Failure>>;
    /// Opens the stream of messages from a sequence number on.
    fn connect(&self, epoch: u64, from: u64) -> BoxFuture<'_, Result<Box<dyn Inbox>, Failure>>;
    /// Sends messages; gives the number up to which everything has arrived.
    fn send<'a>(&'a self, epoch: u64, batch: &'a Batch) -> BoxFuture<'a, Result<u64, Failure>>;
    /// Keeps the lease and acknowledges what was taken.
    fn beat(&self, epoch: u64, sequence: u64) -> BoxFuture<'_, Result<(), Failure>>;
    /// Gives the session up.
    fn disconnect(&self, epoch: u64) -> BoxFuture<'_, ()>;
}
