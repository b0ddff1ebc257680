//! What only tests use.

mod layering;
pub(crate) mod scripted_peer;
