//! JSON-RPC 2.0 envelopes: ids, errors, and the raw texts inside. Nothing here knows MCP.

pub mod read;
pub mod write;

use std::ops::Range;
use std::sync::Arc;

use serde_json::value::RawValue;

/// A piece of JSON that still lies in the frame it came in; nothing was copied out of it.
#[derive(Debug)]
pub struct RawText {
    frame: String,
    range: Range<usize>,
}

impl RawText {
    /// The part of `frame` at `range`, which must lie on character borders.
    pub(crate) fn new(frame: String, range: Range<usize>) -> Self {
        Self { frame, range }
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.frame.get(self.range.clone()).unwrap_or("null")
    }

    /// The JSON text on its own: the frame's memory, cut to size.
    pub fn into_string(mut self) -> String {
        self.frame.truncate(self.range.end);
        self.frame.drain(..self.range.start);
        self.frame
    }
}

impl From<&str> for RawText {
    fn from(text: &str) -> Self {
        Self { frame: text.to_owned(), range: 0..text.len() }
    }
}

/// The `error` of an answer (mcp:BASE-09).
#[derive(Clone, Debug)]
pub struct RpcError {
    /// Integer code.
    pub code: i64,
    /// Message of the server, as sent.
    pub message: String,
    /// `data` as sent.
    pub data: Option<Arc<RawValue>>,
}

/// What an answer carries.
#[derive(Debug)]
pub enum Answer {
    /// `result`.
    Result(RawText),
    /// `error`.
    Error(RpcError),
    /// Neither, both, or something unreadable.
    Invalid {
        /// What was wrong.
        reason: &'static str,
        /// The whole message.
        frame: String,
    },
}

/// One message from the peer.
#[derive(Debug)]
pub enum Incoming {
    /// The answer to a request of ours; `None` where the id is not one of ours by type.
    Response {
        /// Numeric id.
        id: Option<u64>,
        /// Result, error, or what was wrong.
        answer: Answer,
    },
    /// A request of the peer.
    Request {
        /// The id as JSON text, to be sent back unchanged (mcp:BASE-07).
        id: String,
        /// Method.
        method: String,
        /// `params` as sent.
        params: Option<RawText>,
    },
    /// A notification of the peer.
    Notification {
        /// Method.
        method: String,
        /// `params` as sent.
        params: Option<RawText>,
    },
    /// A member of a batch that is no message; its neighbours may be.
    Unreadable {
        /// The member as JSON text.
        text: String,
        /// What was wrong.
        reason: &'static str,
    },
}
