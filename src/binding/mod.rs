//! The Node-API surface: convert, deliver, nothing else. Node only.
//!
//! No method is `async fn(&self)`: a worker that ends with calls in flight would free the object under the
//! future. Calls are numbered by JavaScript, run over an `Arc`, and come back as letters.

#![expect(unreachable_pub, reason = "the macros export what is `pub`; Rust code does not reach it")]
#![expect(clippy::too_many_arguments, reason = "the hot path crosses without an object")]
#![expect(clippy::needless_pass_by_value, reason = "values cross from JavaScript by value")]

mod bridge;
mod calls;
mod exit;
mod functions;
mod letters;
mod manager;

use crate::error::McpError;

/// A failure of a synchronous export: its message is the error's JSON text, which the face turns into a class.
fn to_napi(error: &McpError) -> napi::Error {
    napi::Error::from_reason(error.to_json())
}
