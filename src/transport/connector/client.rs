//! HTTP over the shared rules of trust and detour: requests out, answers in, and what their failures mean.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Method, StatusCode, Uri, response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tower_service::Service;
use url::Url;

use super::dial::{Detour, Dialer};
use super::tls;
use super::wire::Wire;
use crate::config::spec::{ProxyChoice, TlsSpec};
use crate::environment::Environment;
use crate::error::{Delivery, ErrorCode, McpError, Phase};
use crate::secret::SafeUrl;
use crate::unicode;
use crate::url_guard::Guard;

/// Connections that lie idle are closed before servers with the usual five seconds close them: a request
/// written into a connection that just closes cannot be repeated safely.
const IDLE: Duration = Duration::from_secs(4);
/// Longest head of an answer in bytes, and most headers in it (SEC-04).
const MAX_HEAD: usize = 256 * 1024;
const MAX_HEADERS: usize = 128;

/// One request; the client adds what HTTP needs.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where to.
    pub url: Url,
    /// Method.
    pub method: Method,
    /// Headers.
    pub headers: HeaderMap,
    /// Body; empty where there is none.
    pub body: Bytes,
}

/// How to reach the network by HTTP.
#[derive(Debug)]
pub struct Network {
    dialer: Arc<Dialer>,
    client: Client<Dial, Full<Bytes>>,
    stall: Duration,
}

impl Network {
    /// Nothing is read or opened before the first request. `limit` is that of making a connection, `stall` that
    /// of silence within a body.
    pub fn new(
        tls: Option<TlsSpec>,
        proxy: ProxyChoice,
        environment: Arc<Environment>,
        limit: Duration,
        stall: Duration,
    ) -> Self {
        Self::with(Dialer::new(tls, proxy, environment, limit), stall)
    }

    fn with(dialer: Dialer, stall: Duration) -> Self {
        let dialer = Arc::new(dialer);
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .http1_max_buf_size(MAX_HEAD)
            .http1_max_headers(MAX_HEADERS)
            .build(Dial(Arc::clone(&dialer)));
        Self { dialer, client, stall }
    }

    /// As [`Network::new`] for URLs that a server named: names that lead where it may not lead are refused (BEY-07).
    pub fn guarded(
        tls: Option<TlsSpec>,
        proxy: ProxyChoice,
        environment: Arc<Environment>,
        limit: Duration,
        guard: Guard,
    ) -> Self {
        Self::with(Dialer::new(tls, proxy, environment, limit).guarded(guard), limit)
    }

    /// How far the youngest exchange has come without an answer.
    pub fn phase(&self) -> Option<Phase> {
        self.dialer.phase()
    }

    /// Sends a request and gives the head of its answer: no redirects, no cookies, no compression, HTTP/1.1.
    ///
    /// # Errors
    /// `TLS_FAILED`, `PROXY_FAILED`, `CONNECT_FAILED` (nothing was sent), `CONNECTION_LOST` (it may
    /// have run), `CONFIG_INVALID` for a URL that HTTP cannot carry.
    pub async fn send(&self, request: Request) -> Result<Response, McpError> {
        let url = request.url;
        let uri: Uri = url[..url::Position::AfterQuery].parse().map_err(|_| {
            McpError::new(ErrorCode::ConfigInvalid, format!("{} is no URL for HTTP", place(&url)))
        })?;
        let mut message = http::Request::new(Full::new(request.body));
        *message.method_mut() = request.method;
        *message.uri_mut() = uri;
        *message.headers_mut() = request.headers;
        let headers = message.headers_mut();
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(concat!(
            env!("CARGO_PKG_NAME"),
            "/",
            env!("CARGO_PKG_VERSION")
        )));
        // A tunnel has its login from the connector; a proxy that forwards wants it with each request.
        let forwarding = if url.scheme() == "http" { self.dialer.proxy(&url)? } else { None };
        if let Some(login) = forwarding.and_then(|proxy| proxy.authorization())
            && let Ok(mut value) = HeaderValue::from_str(login.expose())
        {
            value.set_sensitive(true);
            headers.insert(PROXY_AUTHORIZATION, value);
        }
        if let Some(value) = headers.get_mut(AUTHORIZATION) {
            value.set_sensitive(true);
        }
        let sent = self.client.request(message).await;
        let (parts, body) = sent.map_err(|error| describe(&error, &url))?.into_parts();
        Ok(Response { url, parts, body, stall: self.stall, begun: false })
    }
}

/// What a failed exchange means.
fn describe(error: &legacy::Error, url: &Url) -> McpError {
    // What the connector says is an error of ours already.
    if let Some(own) = tls::chain(error).find_map(|cause| cause.downcast_ref::<McpError>()) {
        return own.clone();
    }
    let place = place(url);
    let root = deepest(error);
    let unreadable = tls::chain(error)
        .any(|cause| cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse));
    let message = if unreadable {
        format!(
            "the answer of {place} is no HTTP that can be read, of at most {MAX_HEADERS} headers in {MAX_HEAD} \
             bytes: {root}"
        )
    } else {
        format!("the connection to {place} broke: {root}")
    };
    McpError::new(ErrorCode::ConnectionLost, message).with(|facts| {
        facts.delivered = Some(Delivery::Unknown);
        facts.phase = Some(Phase::Headers);
    })
}

/// A URL as it may be shown.
pub fn place(url: &Url) -> String {
    SafeUrl::new(url.as_str()).to_string()
}

/// The last cause, in one short line.
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let root = tls::chain(error).last().map(ToString::to_string).unwrap_or_default();
    let root = unicode::clean_str_lossy(&root);
    root.chars().take(300).collect()
}

/// An answer: its head, and its body as it comes.
#[derive(Debug)]
pub struct Response {
    url: Url,
    parts: response::Parts,
    body: Incoming,
    stall: Duration,
    /// Whether anything of the body has come.
    begun: bool,
}

/// Why a body did not come whole.
#[derive(Clone, Debug)]
pub enum BodyError {
    /// The connection broke; why.
    Broken(String),
    /// Nothing more came within the time.
    Stalled(Duration),
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BodyError::Broken(why) => f.write_str(why),
            BodyError::Stalled(limit) => write!(f, "nothing more came within {} ms", limit.as_millis()),
        }
    }
}

impl Response {
    /// Status.
    pub fn status(&self) -> StatusCode {
        self.parts.status
    }

    /// Headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Where it came from.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Length of the body, where it is announced.
    pub fn content_length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next piece of the body, however long it takes; `None` at its end. Giving up loses nothing.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(BodyError::Broken(deepest(&error))),
                Some(Ok(frame)) => {
                    // Trailers say nothing to us.
                    if let Ok(data) = frame.into_data() {
                        self.begun = true;
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The next piece of a body that has to go on once it has begun.
    pub async fn prompt_chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        if !self.begun {
            return self.chunk().await;
        }
        let stall = self.stall;
        tokio::time::timeout(stall, self.chunk()).await.unwrap_or(Err(BodyError::Stalled(stall)))
    }
}

/// The connector of the pool.
#[derive(Clone, Debug)]
struct Dial(Arc<Dialer>);

impl Service<Uri> for Dial {
    type Response = TokioIo<Wire>;
    type Error = McpError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dialer = Arc::clone(&self.0);
        Box::pin(async move {
            let url = Url::parse(&uri.to_string())
                .map_err(|_| McpError::new(ErrorCode::ConfigInvalid, "the URL cannot be read"))?;
            dialer.connect(&url, Detour::Requests).await.map(TokioIo::new)
        })
    }
}
