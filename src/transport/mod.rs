//! How messages reach a server.
//!
//! Owns the transports. What the messages mean is the client's matter.

pub mod stdio;
