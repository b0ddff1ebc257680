//! HTTP of a bridge: one request, its authorization, and what its answer means.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::de::DeserializeOwned;
use url::Url;

use crate::config::spec::ProxyChoice;
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError};
use crate::transport::authorizer::Authorizers;
use crate::transport::connector::Network;
use crate::transport::connector::client::{Request, Response, place};
use crate::transport::http::response_body::{self, End};
use crate::transport::http::{answer, pause};

/// Longest answer to a request that writes.
const LONGEST: usize = 1024 * 1024;
/// Names a request that may be sent twice and shall count once.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Why something did not work.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// It may work later; how long the other end wants to be left alone.
    Again(McpError, Option<Duration>),
    /// The other end no longer knows our registration (410).
    Lost(McpError),
    /// Another registration has taken the place of the one that was used (409).
    Superseded(McpError),
    /// The message is too large for the other end (413).
    TooLarge(McpError),
    /// It never will.
    Fatal(McpError),
}

impl Failure {
    /// A failure of the way, or of what has to be presented on it.
    pub(super) fn of(error: McpError) -> Self {
        match error.code() {
            ErrorCode::BridgeAuthFailed | ErrorCode::ConfigInvalid => Failure::Fatal(error),
            _ => Failure::Again(error, None),
        }
    }

    /// What a status other than 2xx means (BRG-05, BRG-06).
    pub(super) fn of_status(status: u16, message: &str, retry_after: Option<Duration>) -> Self {
        let error = |code| McpError::new(code, message).with(|facts| facts.status = Some(status));
        match status {
            401 | 403 => Failure::Fatal(error(ErrorCode::BridgeAuthFailed)),
            409 => Failure::Superseded(error(ErrorCode::BridgeEpoch)),
            410 => Failure::Lost(error(ErrorCode::ConnectionLost)),
            413 => Failure::TooLarge(error(ErrorCode::MessageTooLarge)),
            408 | 425 | 429 | 500..=599 => Failure::Again(error(ErrorCode::HttpStatus), retry_after),
            _ => Failure::Fatal(error(ErrorCode::BridgeProtocol)),
        }
    }
}

/// The error for an answer that breaks the protocol.
pub(super) fn protocol(why: impl Into<String>) -> McpError {
    McpError::new(ErrorCode::BridgeProtocol, why)
}

/// The way to a relay.
#[derive(Debug)]
pub(super) struct Requests {
    network: Network,
    authorizers: Authorizers,
    limit: Duration,
}

impl Requests {
    /// `limit` is that of one request up to the head of its answer, and of silence within a body.
    pub(super) fn new(environment: Arc<Environment>, authorizers: Authorizers, limit: Duration) -> Self {
        let network = Network::new(None, ProxyChoice::Inherited, environment, limit, limit);
        Self { network, authorizers, limit }
    }

    /// Sends a JSON body, or none, and reads the answer.
    pub(super) async fn exchange<T: DeserializeOwned>(
        &self,
        method: Method,
        url: &Url,
        body: Option<String>,
        key: Option<&str>,
    ) -> Result<T, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = key.and_then(|key| HeaderValue::from_str(key).ok()) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let mut response = self.send(method, url, headers, body).await?;
        let (body, end) = response_body::read(&mut response, LONGEST).await;
        match end {
            End::Whole => {}
            End::TooLong => {
                let why = format!("{} answered with more than {LONGEST} bytes", asked(url));
                return Err(Failure::Fatal(protocol(why)));
            }
            End::Broken(error) => {
                let message = format!("the answer of {} broke off: {error}", place(url));
                return Err(Failure::Again(McpError::new(ErrorCode::ConnectionLost, message), None));
            }
        }
        // An empty answer says nothing, which is enough where nothing is asked.
        let text: &[u8] = if body.trim_ascii().is_empty() { b"null" } else { &body };
        serde_json::from_slice(text).map_err(|error| {
            let shown = answer::shown(&self.authorizers.hide_in(&body[..body.len().min(200)]));
            let why =
                format!("{} answered with something that is no answer to it ({error}): {shown}", asked(url));
            Failure::Fatal(protocol(why))
        })
    }

    /// Asks for server-sent events.
    pub(super) async fn stream(&self, url: &Url) -> Result<Response, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let response = self.send(Method::GET, url, headers, None).await?;
        if answer::content(response.headers()) == answer::Content::Events
            && !response_body::is_packed(&response)
        {
            return Ok(response);
        }
        Err(Failure::Fatal(protocol(format!(
            "{} is answered with something that is no event stream",
            asked(url)
        ))))
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Option<String>,
    ) -> Result<Response, Failure> {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let body = body.map(Bytes::from).unwrap_or_default();
        let mut attempt = self.authorizers.attempt();
        loop {
            let presented = attempt.headers(method.as_str(), url).await.map_err(Failure::of)?;
            let mut headers = headers.clone();
            headers.extend(presented);
            let request = Request { url: url.clone(), method: method.clone(), headers, body: body.clone() };
            let sent = tokio::time::timeout(self.limit, self.network.send(request)).await;
            let Ok(sent) = sent else {
                let message = format!("{} was not answered within {} ms", asked(url), self.limit.as_millis());
                return Err(Failure::Again(McpError::new(ErrorCode::ConnectionLost, message), None));
            };
            let mut response = sent.map_err(Failure::of)?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            if attempt.again(status.as_u16(), response.headers()).await.map_err(Failure::of)? {
                continue;
            }
            let retry_after = pause::read(response.headers(), SystemTime::now());
            let body = response_body::evidence(&mut response).await;
            let shown = answer::shown(&self.authorizers.hide_in(&body));
            let colon = if shown.is_empty() { "" } else { ": " };
            let message =
                format!("{} was answered with status {}{colon}{shown}", asked(url), status.as_u16());
            return Err(Failure::of_status(status.as_u16(), &message, retry_after));
        }
    }
}

fn asked(url: &Url) -> String {
    format!("the request to {}", place(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brg_05_brg_06_what_statuses_mean() {
        let name = |status| match Failure::of_status(status, "", None) {
            Failure::Again(..) => "again",
            Failure::Lost(_) => "lost",
            Failure::Superseded(_) => "superseded",
            Failure::TooLarge(_) => "too large",
            Failure::Fatal(error) => error.code().as_str(),
        };
        for (status, expected) in [
            (401, "BRIDGE_AUTH_FAILED"),
            (403, "BRIDGE_AUTH_FAILED"),
            (409, "superseded"),
            (410, "lost"),
            (413, "too large"),
            (408, "again"),
            (425, "again"),
            (429, "again"),
            (500, "again"),
            (503, "again"),
            (301, "BRIDGE_PROTOCOL"),
            (400, "BRIDGE_PROTOCOL"),
            (404, "BRIDGE_PROTOCOL"),
            (422, "BRIDGE_PROTOCOL"),
        ] {
            assert_eq!(name(status), expected, "{status}");
        }
        let superseded = Failure::of_status(409, "x", None);
        assert!(matches!(superseded, Failure::Superseded(error) if error.code() == ErrorCode::BridgeEpoch));
    }
}
