//! Whether the other end is still there: pings for connections that are quiet, and after sleep (LIF-07, BEY-04).
//!
//! A process ends audibly and a WebSocket has frames of its own. What goes over HTTP in the handshake era is a
//! promise that nobody checks while nothing is asked, so that is asked here. The stateless era has no ping: there
//! the last proof of contact counts, until the machine has slept.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Live, Shared};
use crate::config::spec::TransportSpec;
use crate::deadline::{Deadline, Limits};
use crate::error::{ErrorCode, McpError, TimeoutKind};
use crate::protocol::version::Era;

/// When a connection is asked whether it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Quiet for so long, it is pinged; 30 s.
    pub quiet: Duration,
    /// Without an answer for so long, it is lost; 10 s.
    pub patience: Duration,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { quiet: Duration::from_secs(30), patience: Duration::from_secs(10) }
    }
}

/// Whether the other end can vanish without a sound.
pub(super) fn is_remote(transport: &TransportSpec) -> bool {
    !matches!(transport, TransportSpec::Stdio(_) | TransportSpec::Sdk { .. })
}

/// Whether a quiet connection is pinged.
pub(super) fn needs_pings(transport: &TransportSpec, era: Era) -> bool {
    let frames_of_its_own = matches!(transport, TransportSpec::WebSocket(_) | TransportSpec::WsIde(_));
    is_remote(transport) && !frames_of_its_own && era == Era::Legacy
}

/// Asks the server whether it is there; the error where it is not.
///
/// A server with requests under way may be at work and answer nothing else: its silence is none, unless
/// `silence_counts`. A way that is broken shows all the same.
pub(super) async fn probe(shared: Arc<Shared>, live: Live, silence_counts: bool) -> Result<(), McpError> {
    let was_busy = live.client.is_busy();
    let patience = shared.settings.pulse.patience;
    let limits = Limits { idle: patience, total: patience, idle_kind: TimeoutKind::Request };
    let since = Instant::now();
    let outcome = live.client.ping(&Arc::new(Deadline::start(limits))).await;
    shared.judge(&live, since, outcome.as_ref().err());
    let busy = was_busy || live.client.is_busy();
    match outcome {
        Err(error) if error.code() == ErrorCode::Timeout && busy && !silence_counts => Ok(()),
        // It was answered, if only with the wish to be left alone: now it waits here.
        Err(error)
            if error.code() == ErrorCode::Timeout && live.client.transport().paused_until().is_some() =>
        {
            Ok(())
        }
        Err(error) if error.code() == ErrorCode::Timeout => Err(McpError::new(
            ErrorCode::ConnectionLost,
            format!("the server did not answer a ping within {} ms", patience.as_millis()),
        )),
        Err(error) if error.code() == ErrorCode::AuthRequired => Err(error),
        // An answer, or the end of the connection, which is told elsewhere.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lif_07_who_is_pinged() {
        let sdk = TransportSpec::Sdk { name: "s".to_owned() };
        assert!(!is_remote(&sdk) && !needs_pings(&sdk, Era::Legacy));
        let connector = TransportSpec::ConnectorProxy(crate::config::spec::ConnectorSpec {
            url: crate::secret::SafeUrl::new("https://example.com/mcp"),
            id: "c".to_owned(),
            original: None,
        });
        assert!(is_remote(&connector) && needs_pings(&connector, Era::Legacy));
        assert!(!needs_pings(&connector, Era::Modern), "there is no ping in the stateless era");
    }
}
