//! The remembered answer to "which era does this server speak, and which way" (mcp:ERA-13 to 15).

use std::sync::Mutex;
use std::time::Duration;

use crate::protocol::version::{Era, ProtocolVersion};
use crate::runtime::{lock, unix_millis};

/// How long a verdict is believed: a week from when it was found. An old one never disproves itself, so using it
/// does not renew it (mcp:ERA-15).
pub const VERDICT_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Remembers the verdict about one server definition; a changed definition has another store.
pub trait VerdictStore: Send + Sync + std::fmt::Debug {
    /// What is still believed.
    fn recall(&self) -> Option<Verdict>;
    /// Remembers an agreement.
    fn remember(&self, version: ProtocolVersion);
    /// A server behind a URL was found to speak only the older way of HTTP (mcp:ERA-11).
    fn remember_older_way(&self);
    /// The verdict was contradicted.
    fn forget(&self);
}

/// What was found out about a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The version that was agreed on.
    pub version: ProtocolVersion,
    /// Whether it speaks only the older way of HTTP, with one stream of events.
    pub older_way: bool,
    /// When that was found out, in milliseconds since the epoch.
    pub since: u64,
}

impl Verdict {
    /// Whether it is believed at a time; one from the future is as little worth as an old one.
    pub fn is_believed(&self, now: u64) -> bool {
        let lifetime = u64::try_from(VERDICT_LIFETIME.as_millis()).unwrap_or(u64::MAX);
        self.since <= now && now - self.since < lifetime
    }
}

/// A verdict in memory.
#[derive(Debug, Default)]
pub struct VerdictCell(Mutex<Option<Verdict>>);

impl VerdictCell {
    /// A cell that knows a verdict from before.
    pub fn with(verdict: Option<Verdict>) -> Self {
        Self(Mutex::new(verdict))
    }

    /// Remembers an agreement; whether that changed anything.
    pub fn note(&self, version: ProtocolVersion, now: u64) -> bool {
        let mut kept = lock(&self.0);
        let believed = kept.filter(|verdict| verdict.is_believed(now));
        if believed.is_some_and(|verdict| verdict.version == version) {
            return false;
        }
        let older_way = believed.is_some_and(|verdict| verdict.older_way) && version.era() == Era::Legacy;
        *kept = Some(Verdict { version, older_way, since: now });
        true
    }

    /// Remembers the older way, once a version is known; whether that changed anything.
    pub fn note_older_way(&self) -> bool {
        let mut kept = lock(&self.0);
        match &mut *kept {
            Some(verdict) if !verdict.older_way => {
                verdict.older_way = true;
                true
            }
            _ => false,
        }
    }

    /// Forgets; whether there was anything to forget.
    pub fn clear(&self) -> bool {
        lock(&self.0).take().is_some()
    }

    /// What is kept, believed or not.
    pub fn kept(&self) -> Option<Verdict> {
        *lock(&self.0)
    }
}

impl VerdictStore for VerdictCell {
    fn recall(&self) -> Option<Verdict> {
        self.kept().filter(|verdict| verdict.is_believed(unix_millis()))
    }

    fn remember(&self, version: ProtocolVersion) {
        self.note(version, unix_millis());
    }

    fn remember_older_way(&self) {
        self.note_older_way();
    }

    fn forget(&self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEEK: u64 = 7 * 24 * 60 * 60 * 1000;
    const OLD: ProtocolVersion = ProtocolVersion::V2025_11_25;
    const NEW: ProtocolVersion = ProtocolVersion::V2026_07_28;

    #[test]
    fn era_15_a_verdict_ends_a_week_after_it_was_found_however_often_it_was_used() {
        let cell = VerdictCell::default();
        assert!(cell.note(OLD, 1_000));
        assert!(!cell.note(OLD, WEEK), "using it does not renew it");
        assert!(cell.kept().is_some_and(|verdict| verdict.is_believed(WEEK + 999)));
        assert!(cell.kept().is_some_and(|verdict| !verdict.is_believed(WEEK + 1_000)));
        assert!(cell.kept().is_some_and(|verdict| !verdict.is_believed(999)), "nor one from the future");
        assert!(cell.note(OLD, WEEK + 1_000), "found again");
        assert!(cell.note(NEW, WEEK + 2_000), "another answer counts at once");
    }

    #[test]
    fn era_11_the_older_way_belongs_to_the_verdict() {
        let cell = VerdictCell::default();
        assert!(!cell.note_older_way(), "nothing was agreed on yet");
        cell.note(OLD, 1_000);
        assert!(cell.note_older_way());
        assert!(!cell.note_older_way());
        cell.note(ProtocolVersion::V2024_11_05, 2_000);
        assert!(cell.kept().unwrap().older_way, "another version of that era");
        cell.note(NEW, 3_000);
        assert!(!cell.kept().unwrap().older_way, "the stateless era has no older way");
        cell.note_older_way();
        cell.note(OLD, 3_000 + WEEK);
        assert!(!cell.kept().unwrap().older_way, "it ends with its verdict");
        assert!(cell.clear() && !cell.clear());
    }
}
