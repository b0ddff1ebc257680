//! The remembered answer to "which era does this server speak" (mcp:ERA-13 to 15).

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::protocol::version::ProtocolVersion;
use crate::runtime::lock;

/// How long a verdict is believed: a week. An old one never disproves itself (mcp:ERA-15).
pub const VERDICT_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Remembers the verdict about one server definition; a changed definition has another store.
pub trait VerdictStore: Send + Sync + std::fmt::Debug {
    /// The version that was agreed on last, if it is still believed.
    fn recall(&self) -> Option<ProtocolVersion>;
    /// Remembers an agreement.
    fn remember(&self, version: ProtocolVersion);
    /// The verdict was contradicted.
    fn forget(&self);
}

/// A verdict for the life of the process.
#[derive(Debug, Default)]
pub struct VerdictCell(Mutex<Option<(ProtocolVersion, Instant)>>);

impl VerdictStore for VerdictCell {
    fn recall(&self) -> Option<ProtocolVersion> {
        let kept = *lock(&self.0);
        kept.filter(|(_, since)| since.elapsed() < VERDICT_LIFETIME).map(|(version, _)| version)
    }

    fn remember(&self, version: ProtocolVersion) {
        *lock(&self.0) = Some((version, Instant::now()));
    }

    fn forget(&self) {
        *lock(&self.0) = None;
    }
}
