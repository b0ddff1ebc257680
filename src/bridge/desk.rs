//! What the face may ask of each of our things, by name: the one shape that all of them have.

use std::sync::Arc;

use super::session::Bridge;
use crate::error::{ErrorCode, McpError};
use crate::transport::BoxFuture;
use crate::transport::stdio::ExitLot;

/// The answer to come: JSON text.
pub type Answer = BoxFuture<'static, Result<String, McpError>>;

/// Something that takes requests by name.
pub trait Desk: Send + Sync {
    /// Takes a request (`payload` is JSON text) in this very step, so that the order of requests is kept.
    fn take(self: Arc<Self>, verb: &str, payload: &str) -> Answer;
    /// A number that is known without waiting.
    fn number(&self, name: &str) -> Option<u64>;
    /// Ends at once, without a word to anybody; blocks for a moment at most.
    fn abandon(&self);
    /// What has to be ended when the host exits.
    fn exit_lot(&self) -> ExitLot {
        ExitLot::default()
    }
}

/// The answer to a request that there is not.
pub(super) fn unknown(verb: &str) -> Answer {
    let error = McpError::new(ErrorCode::Internal, format!("nobody here can {verb}"));
    Box::pin(async move { Err(error) })
}

/// What is answered where there is nothing to say.
pub(super) fn nothing() -> String {
    "null".to_owned()
}

impl Desk for Bridge {
    fn take(self: Arc<Self>, verb: &str, payload: &str) -> Answer {
        match verb {
            "send" => {
                let sent = self.send(payload);
                Box::pin(async move { sent.await.map(|()| nothing()) })
            }
            "askPermission" => Box::pin(self.ask_permission(payload)),
            "connect" => Box::pin(async move { self.connect().await.map(|()| nothing()) }),
            "close" => Box::pin(async move {
                self.close().await;
                Ok(nothing())
            }),
            _ => unknown(verb),
        }
    }

    fn number(&self, name: &str) -> Option<u64> {
        match name {
            "sequence" => Some(self.sequence()),
            "epoch" => Some(self.epoch()),
            _ => None,
        }
    }

    fn abandon(&self) {
        Bridge::abandon(self);
    }
}
