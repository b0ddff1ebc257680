//! Headers that have to be asked for, and asked for anew when a server does not like them.

use std::fmt;

use http::header::HeaderMap;

use super::BoxFuture;
use crate::error::McpError;

/// Where a transport over the network gets the headers that prove who asks. (PXY-01, OAU-04)
pub trait Credentials: fmt::Debug + Send + Sync {
    /// Headers for a request; they win over the configured ones. `refused` are those a server has just turned
    /// down: whoever gives the same again says that there are no better ones.
    ///
    /// # Errors
    /// `AUTH_REQUIRED` where there are none, `AUTH_FAILED` where they could not be had; the request is not sent then.
    fn headers<'a>(&'a self, refused: Option<&'a HeaderMap>) -> BoxFuture<'a, Result<HeaderMap, McpError>>;

    /// Whether an answer with this status turns the headers down.
    fn turned_down(&self, status: u16) -> bool {
        status == 401
    }

    /// A text of the server without the headers' values: it may repeat them in its errors.
    fn hide_in(&self, text: &[u8]) -> Vec<u8> {
        text.to_vec()
    }
}
