//! The host side of MCP (Model Context Protocol).
//!
//! The map of the crate; ranks, flows and invariants stand in `ARCHITECTURE.md`.

pub mod diagnostic;
pub mod environment;
pub mod error;
pub mod transport;
