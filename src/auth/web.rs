//! HTTP of logins: bounded answers, no cookies, no configured headers; GET follows redirects on its own origin, a
//! POST never does (B-124, A5).

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use serde_json::Value;
use url::Url;

use crate::config::policy::UrlGate;
use crate::error::{ErrorCode, McpError};
use crate::secret::Secret;
use crate::transport::connector::Network;
use crate::transport::connector::client::{Request, Response, place};
use crate::transport::http::redirect::{self, MOST_HOPS, Next};
use crate::transport::http::response_body::{self, End};
use crate::unicode;
use crate::url_guard::Guard;

/// Longest answer.
const LONGEST: usize = 1024 * 1024;
/// Longest exchange.
const PATIENCE: Duration = Duration::from_secs(30);
/// Characters of a server's words that are shown.
const SHOWN: usize = 300;

/// Fields that hold what proves something.
const SECRET_FIELDS: [&str; 8] = [
    "code",
    "code_verifier",
    "refresh_token",
    "client_secret",
    "client_assertion",
    "assertion",
    "subject_token",
    "token",
];

/// The way to authorization servers, and what one server may lead to.
#[derive(Debug)]
pub struct Web {
    network: Network,
    guard: Guard,
    gate: UrlGate,
}

/// A document, or that there is none.
#[derive(Debug)]
pub enum Fetched {
    /// A JSON object.
    Document(Value),
    /// The server says that there is nothing, or gives something that is no document.
    Absent(String),
}

/// An answer to a POST.
#[derive(Debug)]
pub struct Posted {
    /// Status.
    pub status: u16,
    /// The body, if it is JSON.
    pub body: Value,
    /// Value of `DPoP-Nonce`.
    pub nonce: Option<String>,
}

/// A form and what goes with it.
#[derive(Default)]
pub struct Form {
    /// Fields of the body.
    pub fields: Vec<(&'static str, Secret<String>)>,
    /// Value of `Authorization`.
    pub authorization: Option<Secret<String>>,
    /// Value of `DPoP`.
    pub proof: Option<Secret<String>>,
}

impl Form {
    /// Adds a field.
    pub fn push(&mut self, name: &'static str, value: impl Into<String>) {
        self.fields.push((name, Secret::new(value.into())));
    }

    /// What a server may repeat in its answer and nobody else may read, as it is written on the wire.
    pub fn secrets(&self) -> impl Iterator<Item = Secret<String>> + '_ {
        let fields = self.fields.iter().filter(|(name, _)| SECRET_FIELDS.contains(name));
        let credentials = self.authorization.iter().map(|value| {
            let text = value.expose();
            Secret::new(text.split_once(' ').map_or(text.as_str(), |(_, rest)| rest).to_owned())
        });
        fields.map(|(_, value)| value.clone()).chain(credentials).chain(self.proof.iter().cloned())
    }

    fn encoded(&self) -> String {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in &self.fields {
            body.append_pair(name, value.expose());
        }
        body.finish()
    }
}

impl Web {
    /// A way through `network`.
    pub fn new(network: Network, guard: Guard, gate: UrlGate) -> Self {
        Self { network, guard, gate }
    }

    /// Checks a URL that a server named.
    ///
    /// # Errors
    /// `URL_REFUSED`, `POLICY_DENIED`.
    pub fn check(&self, text: &str, what: &str) -> Result<Url, McpError> {
        let url = self.guard.check(text, what)?;
        self.gate.check_login(&url)?;
        Ok(url)
    }

    /// Fetches a document. 4xx means that it is not there; everything that may pass is an error, so that an outage
    /// is never taken for an absence (A1).
    ///
    /// # Errors
    /// `URL_REFUSED`, `REDIRECT_REFUSED`, `HTTP_STATUS` for what may pass, and those of any connection.
    pub async fn get(&self, url: &Url, version: Option<&'static str>) -> Result<Fetched, McpError> {
        let mut url = url.clone();
        for _ in 0..=MOST_HOPS {
            self.check(url.as_str(), "the metadata URL")?;
            let mut headers = HeaderMap::new();
            if let Some(version) = version {
                let name = HeaderName::from_static("mcp-protocol-version");
                headers.insert(name, HeaderValue::from_static(version));
            }
            let request = Request { url: url.clone(), method: Method::GET, headers, body: Bytes::new() };
            let mut response = self.send(request).await?;
            let location = response.headers().get(LOCATION).map(|value| value.as_bytes().to_vec());
            match redirect::next(&url, &Method::GET, response.status(), location.as_deref())? {
                Next::Follow(target) => url = target,
                Next::Here => return self.document(&url, &mut response).await,
            }
        }
        Err(redirect::too_many(&url))
    }

    async fn document(&self, url: &Url, response: &mut Response) -> Result<Fetched, McpError> {
        let status = response.status();
        let code = status.as_u16();
        if status.is_server_error() || matches!(code, 408 | 425 | 429) {
            let message = format!("{} was answered with status {code}; it may work later", place(url));
            return Err(McpError::new(ErrorCode::HttpStatus, message).with(|facts| facts.status = Some(code)));
        }
        if !status.is_success() {
            return Ok(Fetched::Absent(format!("{}: status {code}", place(url))));
        }
        let body = self.body(url, response).await?;
        Ok(match read_json(&body) {
            Some(document) if document.is_object() => Fetched::Document(document),
            _ => Fetched::Absent(format!("{}: no JSON object", place(url))),
        })
    }

    /// Posts a form and gives the answer, whatever its status.
    ///
    /// # Errors
    /// `URL_REFUSED`, `REDIRECT_REFUSED`, and those of any connection.
    pub async fn post_form(&self, url: &Url, form: &Form) -> Result<Posted, McpError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let own = [(AUTHORIZATION, &form.authorization), (HeaderName::from_static("dpop"), &form.proof)];
        for (name, value) in own {
            let Some(value) = value else { continue };
            headers.insert(name, sensitive(value.expose())?);
        }
        self.post(url, headers, form.encoded()).await
    }

    /// Posts JSON and gives the answer, whatever its status.
    ///
    /// # Errors
    /// As [`Web::post_form`].
    pub async fn post_json(&self, url: &Url, body: &Value) -> Result<Posted, McpError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.post(url, headers, body.to_string()).await
    }

    async fn post(&self, url: &Url, headers: HeaderMap, body: String) -> Result<Posted, McpError> {
        self.check(url.as_str(), "the endpoint")?;
        let request = Request { url: url.clone(), method: Method::POST, headers, body: Bytes::from(body) };
        let mut response = self.send(request).await?;
        if response.status().is_redirection() {
            let message = format!("{} is redirected, which no request with secrets follows", place(url));
            return Err(McpError::new(ErrorCode::RedirectRefused, message));
        }
        let nonce = response.headers().get("dpop-nonce").and_then(|value| value.to_str().ok());
        let nonce = nonce.map(str::to_owned);
        let body = self.body(url, &mut response).await?;
        let body = read_json(&body).unwrap_or(Value::Null);
        Ok(Posted { status: response.status().as_u16(), body, nonce })
    }

    async fn send(&self, mut request: Request) -> Result<Response, McpError> {
        let url = request.url.clone();
        request.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        request.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let sent = tokio::time::timeout(PATIENCE, self.network.send(request)).await;
        sent.map_err(|_| too_slow(&url))?
    }

    async fn body(&self, url: &Url, response: &mut Response) -> Result<Vec<u8>, McpError> {
        let read = tokio::time::timeout(PATIENCE, response_body::read(response, LONGEST)).await;
        let (body, end) = read.map_err(|_| too_slow(url))?;
        match end {
            End::Whole => Ok(body),
            End::TooLong => {
                let message = format!("{} was answered with more than {LONGEST} bytes", place(url));
                Err(McpError::new(ErrorCode::AuthFailed, message))
            }
            End::Broken(error) => {
                let message = format!("the answer of {} broke off: {error}", place(url));
                Err(McpError::new(ErrorCode::ConnectionLost, message))
            }
        }
    }
}

/// JSON, as some servers write it: with a mark of its byte order before it.
fn read_json(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)).ok()
}

fn too_slow(url: &Url) -> McpError {
    let message = format!("{} did not answer within {} s", place(url), PATIENCE.as_secs());
    McpError::new(ErrorCode::ConnectFailed, message)
}

fn sensitive(text: &str) -> Result<HeaderValue, McpError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        McpError::new(ErrorCode::AuthFailed, "a credential holds characters no header may hold")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// A server's words as they may be shown: clean, short, in quotes.
pub fn said(text: &str) -> String {
    let text = unicode::clean_str_lossy(text);
    let line = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line: String = line.collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect();
    format!("{line:?}")
}
