//! One request on its way back: results mapped, blobs saved, output schemas checked.
//!
//! Owns what a result becomes for the caller. The shapes themselves are mapped by `protocol`.

pub mod blob;
pub mod budget;
pub mod gate;
pub mod hook;
pub mod output;
pub mod resource_contents;
mod schema_cost;
pub mod task;
pub mod tool_schema;
