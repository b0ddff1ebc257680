//! What a call cost on the wire, over all its repetitions.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How often a call was sent, and how many bytes went each way.
#[derive(Debug, Default)]
pub struct Tally {
    attempts: AtomicU32,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Tally {
    /// A frame goes out.
    pub(super) fn sent(&self, bytes: usize) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        self.sent.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// A result came in.
    pub(super) fn received(&self, bytes: usize) {
        self.received.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How often it was sent.
    pub fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// Bytes sent, and bytes of results received.
    pub fn bytes(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }
}
