//! What a transport over the network asks of whoever proves who we are: a login, a command that gives headers, the
//! host's account. The transport knows none of them: it presents what it is given, tells when it was refused, and
//! repeats the request when told so.

use std::fmt;
use std::sync::Arc;

use http::header::HeaderMap;
use url::Url;

use super::BoxFuture;
use super::http::answer::challenges;
use crate::error::{Delivery, McpError};
use crate::secret::Redactor;

/// What is presented with one request.
#[derive(Clone, Debug, Default)]
pub struct Presented {
    /// They replace configured ones of their names.
    pub headers: HeaderMap,
    /// Ordinal of the token among those of its authorizer; 0 where there is none.
    pub serial: u64,
}

/// An answer that refuses what was presented: 401 or 403.
#[derive(Clone, Debug, Default)]
pub struct AuthRefusal {
    /// Status.
    pub status: u16,
    /// Values of `WWW-Authenticate`, bounded.
    pub challenges: Vec<String>,
    /// Value of `DPoP-Nonce`.
    pub nonce: Option<String>,
    /// Whether what was refused had just been renewed for this very request (mcp:AUTH-61).
    pub again: bool,
}

impl AuthRefusal {
    /// What an answer says of the refusal; `None` where it is none.
    pub fn of(status: u16, headers: &HeaderMap) -> Option<Self> {
        matches!(status, 401 | 403).then(|| Self {
            status,
            challenges: challenges(headers),
            nonce: nonce_of(headers).map(str::to_owned),
            again: false,
        })
    }
}

/// What could be done about a refusal without asking anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mending {
    /// Nothing: the answer stands.
    Nothing,
    /// There is something better to present.
    Renewed,
    /// The same token, with the nonce that was asked for.
    Nonce,
}

/// Times that one request is sent again with something better: once, and once more where others renewed it meanwhile.
const MOST_RENEWALS: u32 = 2;

/// Proves to one server who we are.
pub trait Authorizer: Send + Sync + fmt::Debug {
    /// Does what may take long before anything can be presented; no clock of the server runs meanwhile.
    ///
    /// # Errors
    /// As [`Authorizer::present`].
    fn prepare(&self) -> BoxFuture<'_, Result<(), McpError>> {
        Box::pin(async { Ok(()) })
    }
    /// What goes with a request to `url`; renews what is about to expire.
    ///
    /// # Errors
    /// `AUTH_REQUIRED` where there is nothing to present, `AUTH_FAILED` where it could not be had; the request is not
    /// sent then.
    fn present<'a>(&'a self, method: &'a str, url: &'a Url) -> BoxFuture<'a, Result<Presented, McpError>>;
    /// Hears of a refusal of what it presented and mends it, if it can.
    ///
    /// # Errors
    /// What kept it from being mended, where that says more than the refusal.
    fn refused<'a>(
        &'a self,
        presented: &'a Presented,
        refusal: &'a AuthRefusal,
    ) -> BoxFuture<'a, Result<Mending, McpError>>;
    /// Has a person log in after a refusal that could not be mended; `cause` is its error.
    ///
    /// # Errors
    /// `cause` where nobody can be asked; otherwise why the login failed.
    fn log_in(&self, cause: McpError) -> BoxFuture<'_, Result<(), McpError>> {
        Box::pin(async { Err(cause) })
    }
    /// Hears of a nonce for the next proof that came with an answer (RFC 9449 §8.2).
    fn hear_nonce(&self, _nonce: &str) {}
    /// Finds what is secret in a text of the server, which may repeat it (SEC-03).
    fn redactor(&self) -> Redactor;
}

/// Everybody who proves to one server who we are; usually one or nobody. What a later one presents replaces what an
/// earlier one does.
#[derive(Clone, Debug, Default)]
pub struct Authorizers(Vec<Arc<dyn Authorizer>>);

impl Authorizers {
    /// In the order in which they win, the strongest last.
    pub fn new(all: impl IntoIterator<Item = Arc<dyn Authorizer>>) -> Self {
        Self(all.into_iter().collect())
    }

    /// Does beforehand what may take long.
    ///
    /// # Errors
    /// Those of [`Authorizer::prepare`].
    pub async fn prepare(&self) -> Result<(), McpError> {
        for one in &self.0 {
            one.prepare().await?;
        }
        Ok(())
    }

    /// What all present with one request, which is sent until it is no longer worth it.
    pub fn attempt(&self) -> Attempt<'_> {
        Attempt { all: self, presented: Vec::new(), renewed: 0, nonce: false }
    }

    /// Has a person log in.
    ///
    /// # Errors
    /// `cause` where nobody can be asked; otherwise why the login failed.
    pub async fn log_in(&self, cause: McpError) -> Result<(), McpError> {
        match self.0.last() {
            Some(strongest) => strongest.log_in(cause).await,
            None => Err(cause),
        }
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds what proves who we are in a text of the server.
    pub fn redactor(&self) -> Redactor {
        self.0.iter().fold(Redactor::default(), |all, one| all.and(one.redactor()))
    }

    /// A text of the server without what proves who we are.
    pub fn hide_in(&self, text: &[u8]) -> Vec<u8> {
        let redactor = self.redactor();
        if redactor.is_empty() {
            return text.to_vec();
        }
        redactor.redact(&String::from_utf8_lossy(text)).into_owned().into_bytes()
    }
}

/// One request with what is presented: sent again with something better, and once with a nonce.
#[derive(Debug)]
pub struct Attempt<'a> {
    all: &'a Authorizers,
    presented: Vec<Presented>,
    renewed: u32,
    nonce: bool,
}

impl Attempt<'_> {
    /// Headers for the next try.
    ///
    /// # Errors
    /// Those of [`Authorizer::present`]: nothing was sent.
    pub async fn headers(&mut self, method: &str, url: &Url) -> Result<HeaderMap, McpError> {
        self.presented.clear();
        let mut headers = HeaderMap::new();
        for one in &self.all.0 {
            let presented = one.present(method, url).await;
            let presented = presented.map_err(|error| told(error, Delivery::No))?;
            // One after the other, so that a name is there once.
            for (name, value) in &presented.headers {
                headers.insert(name, value.clone());
            }
            self.presented.push(presented);
        }
        Ok(headers)
    }

    /// Whether the request is worth sending again after an answer (mcp:AUTH-08, AUTH-61).
    ///
    /// # Errors
    /// Those of [`Authorizer::refused`].
    pub async fn again(&mut self, status: u16, answer: &HeaderMap) -> Result<bool, McpError> {
        if self.all.0.is_empty() {
            return Ok(false);
        }
        let Some(refusal) = AuthRefusal::of(status, answer) else {
            if let Some(nonce) = nonce_of(answer) {
                self.all.0.iter().for_each(|one| one.hear_nonce(nonce));
            }
            return Ok(false);
        };
        let refusal = AuthRefusal { again: self.renewed > 0, ..refusal };
        for (one, presented) in self.all.0.iter().zip(&self.presented).rev() {
            let mending = one.refused(presented, &refusal).await;
            match mending.map_err(|error| told(error, Delivery::Refused))? {
                Mending::Nothing => {}
                Mending::Renewed => {
                    self.renewed += 1;
                    return Ok(self.renewed <= MOST_RENEWALS);
                }
                Mending::Nonce => return Ok(!std::mem::replace(&mut self.nonce, true)),
            }
        }
        Ok(false)
    }
}

fn nonce_of(headers: &HeaderMap) -> Option<&str> {
    headers.get("dpop-nonce").and_then(|value| value.to_str().ok())
}

fn told(error: McpError, delivered: Delivery) -> McpError {
    error.with(|facts| facts.delivered = Some(delivered))
}
