//! Servers that asked for a login which nobody has given: remembered for a while, so that not every start asks them anew
//! (L5). Only starts that nobody asked for by name go by it.

use std::sync::Arc;

use super::Shared;
use crate::error::{ErrorCode, McpError};
use crate::host::QuestionKind;
use crate::runtime::unix_millis;

/// Remembers that about one server definition; a changed definition has another store.
pub trait LoginWish: Send + Sync + std::fmt::Debug {
    /// When it asked, in milliseconds since the epoch, while that is still believed.
    fn since(&self) -> Option<u64>;
    /// It has asked just now.
    fn note(&self);
    /// It asks no more.
    fn clear(&self);
}

/// Remembers nothing.
#[derive(Debug)]
pub struct NoWish;

impl LoginWish for NoWish {
    fn since(&self) -> Option<u64> {
        None
    }

    fn note(&self) {}

    fn clear(&self) {}
}

/// Why a start need not be tried; `None` where it has to be.
pub(super) fn unanswered(shared: &Arc<Shared>) -> Option<McpError> {
    if !depends_on_a_person(shared) {
        return None;
    }
    let minutes = unix_millis().saturating_sub(shared.login_wish.since()?) / 60_000;
    let message = format!(
        "the server asked for a login {minutes} min ago and nobody has logged in since; authenticate() logs in, and \
         connect() by name asks the server again"
    );
    Some(McpError::new(ErrorCode::AuthRequired, message).on(&shared.spec.name))
}

/// Learns from the end of an attempt.
pub(super) fn learn(shared: &Arc<Shared>, outcome: Result<(), &McpError>) {
    match outcome {
        Ok(()) => shared.login_wish.clear(),
        Err(error) if error.code() == ErrorCode::AuthRequired && depends_on_a_person(shared) => {
            shared.login_wish.note();
        }
        Err(_) => {}
    }
}

/// Whether nothing but a person's login helps, and nobody starts one by itself.
fn depends_on_a_person(shared: &Shared) -> bool {
    shared.access.login.is_some() && !shared.host.can_answer(QuestionKind::AuthorizationUrl)
}
