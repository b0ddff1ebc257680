//! The host side of MCP (Model Context Protocol).
//!
//! The map of the crate; ranks, flows and invariants stand in `ARCHITECTURE.md`.

pub mod atomic_file;
pub mod auth;
#[cfg(feature = "binding")]
mod binding;
pub mod bridge;
pub mod call;
pub mod client;
pub mod config;
pub mod connection;
pub mod deadline;
pub mod diagnostic;
pub mod environment;
pub mod error;
pub mod host;
pub mod ide;
pub mod json_scan;
pub mod jsonrpc;
pub mod manager;
pub mod name;
pub mod official;
pub mod permission;
pub mod protocol;
pub mod recorder;
pub mod runtime;
pub mod secret;
pub mod state_dir;
#[cfg(test)]
mod testing;
pub mod tool_search;
pub mod transport;
pub mod unicode;
pub mod url_guard;
pub mod words;
