//! What tests need of a whole conversation: a peer that acts a script.

pub(crate) mod scripted_peer;
