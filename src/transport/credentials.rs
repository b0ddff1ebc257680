//! Headers that have to be asked for, and asked for anew when a server answers 401.

use std::fmt;

use reqwest::header::HeaderMap;

use super::BoxFuture;
use crate::error::McpError;

/// Where a transport over HTTP gets the headers that prove who asks. (PXY-01)
pub trait Credentials: fmt::Debug + Send + Sync {
    /// Headers for a request. `refused` are those a server has just answered with 401: whoever gives the same
    /// again says that there are no better ones.
    ///
    /// # Errors
    /// `AUTH_REQUIRED` where there are none; the request is not sent then.
    fn headers<'a>(&'a self, refused: Option<&'a HeaderMap>) -> BoxFuture<'a, Result<HeaderMap, McpError>>;
}
