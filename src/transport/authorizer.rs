//! What a transport over HTTP asks of whoever holds tokens. The transport knows no OAuth: it presents what it is
//! given, tells when it was refused, and repeats once when told so.

use std::fmt;

use http::header::{HeaderName, HeaderValue};
use url::Url;

use super::BoxFuture;
use crate::error::McpError;

/// Headers of one request, and which token they present.
#[derive(Clone, Debug, Default)]
pub struct Presented {
    /// They replace configured ones of their names.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Ordinal of the token; 0 where there is none.
    pub serial: u64,
}

/// A request that was refused with 401 or 403.
#[derive(Clone, Debug, Default)]
pub struct AuthRefusal {
    /// 401 or 403.
    pub status: u16,
    /// Values of `WWW-Authenticate`, bounded.
    pub challenges: Vec<String>,
    /// Value of `DPoP-Nonce`.
    pub nonce: Option<String>,
    /// Which token was presented.
    pub serial: u64,
}

/// Holds the tokens for one server.
pub trait Authorizer: Send + Sync + fmt::Debug {
    /// Headers for a request to `url`; renews a token that is about to expire.
    fn present<'a>(&'a self, method: &'a str, url: &'a Url) -> BoxFuture<'a, Result<Presented, McpError>>;
    /// Hears of a refusal and mends it without asking anybody, if it can: `true` means *send it again*.
    fn refused(&self, refusal: AuthRefusal) -> BoxFuture<'_, Result<bool, McpError>>;
    /// Has a person log in after a refusal that could not be mended; `cause` is its error.
    ///
    /// # Errors
    /// `cause` where nobody can be asked; otherwise why the login failed.
    fn log_in(&self, cause: McpError) -> BoxFuture<'_, Result<(), McpError>>;
}
