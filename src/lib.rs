//! The host side of MCP (Model Context Protocol).
//!
//! The map of the crate; ranks, flows and invariants stand in `ARCHITECTURE.md`.

pub mod deadline;
pub mod diagnostic;
pub mod environment;
pub mod error;
pub mod jsonrpc;
pub mod name;
pub mod runtime;
pub mod unicode;
