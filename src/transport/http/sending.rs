//! One HTTP request on its way: pauses, redirects, one repeat for a busy server (HTTP-03).

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::Method;
use http::header::{HeaderMap, LOCATION};
use url::Url;

use super::answer::{self, Refusal};
use super::redirect::{self, MOST_HOPS, Next};
use super::{Shared, headers, pause, response_body};
use crate::error::{Delivery, ErrorCode, McpError, Phase};
use crate::protocol::version::ProtocolVersion;
use crate::runtime::random_jitter;
use crate::runtime::{lock, write};
use crate::transport::connector::client::{BodyError, Request, Response, place};

/// Pause for a busy server that names none.
const BUSY: Duration = Duration::from_secs(1);
/// Longest pause inside of a handshake; beyond it the attempt fails and the next one is due later.
const HANDSHAKE_PAUSE: Duration = Duration::from_secs(5);
/// Bytes of an error answer that are read: enough for a JSON-RPC error with data.
pub(in crate::transport) const ERROR_BODY: usize = 1024 * 1024;

/// Whether a busy server is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport) enum Patience {
    /// Once, after whatever pause it asks for.
    Full,
    /// Once, after a short pause: a handshake is repeated as a whole.
    Handshake,
    /// Never.
    None,
}

/// One HTTP request to be made.
pub(in crate::transport) struct Message {
    /// Where to; `None` is the server's URL.
    url: Option<Url>,
    method: Method,
    headers: HeaderMap,
    body: Option<String>,
    /// How long the server may take to answer; `None` where others watch that.
    due: Option<Duration>,
}

impl Message {
    /// A request without a body.
    pub(in crate::transport) fn new(method: Method, headers: HeaderMap) -> Self {
        Self { url: None, method, headers, body: None, due: None }
    }

    /// A POST of a frame.
    pub(in crate::transport) fn post(headers: HeaderMap, frame: String) -> Self {
        Self { url: None, method: Method::POST, headers, body: Some(frame), due: None }
    }

    /// The same to another URL.
    pub(in crate::transport) fn to(self, url: Option<Url>) -> Self {
        Self { url, ..self }
    }

    /// The same, for which nothing is computed, so that its answer is due at once. Pauses that the server asked for, and
    /// what it takes to prove who we are, do not count.
    pub(in crate::transport) fn due_within(self, limit: Duration) -> Self {
        Self { due: Some(limit), ..self }
    }
}

impl Shared {
    /// Headers of every request: configured, session, version.
    pub(in crate::transport) fn base_headers(
        &self,
        version: Option<ProtocolVersion>,
        with_session: bool,
    ) -> (HeaderMap, bool) {
        let mut map = self.headers.clone();
        if let Some(version) = version {
            headers::add_version(&mut map, version);
        }
        let session = lock(&self.session).id.clone().filter(|_| with_session);
        if let Some(session) = &session {
            map.insert(headers::SESSION, session.header());
        }
        (map, session.is_some())
    }

    /// Sends a message and gives the head of its answer, whatever its status.
    ///
    /// # Errors
    /// `CONNECT_FAILED`, `TLS_FAILED`, `PROXY_FAILED` (nothing was sent), `CONNECTION_LOST` (it may have
    /// run), `REDIRECT_REFUSED`, `POLICY_DENIED` for a redirect out of the permitted set, and those of
    /// [`Authorizer`](crate::transport::authorizer::Authorizer).
    pub(in crate::transport) async fn deliver(
        &self,
        message: Message,
        patience: Patience,
    ) -> Result<Response, McpError> {
        let (whole, due) = (message.url.is_none(), message.due);
        let request = Request {
            url: message.url.unwrap_or_else(|| self.url()),
            method: message.method,
            headers: message.headers,
            body: message.body.map(Bytes::from).unwrap_or_default(),
        };
        self.pause.over().await;
        let response = self.send_authorized(&request, whole, due).await?;
        if patience == Patience::None || !pause::is_busy(response.status()) {
            return Ok(response);
        }
        let length = asked_pause(&response).unwrap_or_else(|| BUSY.mul_f64(1.0 + 0.25 * random_jitter()));
        self.pause.extend(length);
        if patience == Patience::Handshake && length > HANDSHAKE_PAUSE {
            return Ok(response);
        }
        drop(response);
        self.pause.over().await;
        self.send_authorized(&request, whole, due).await
    }

    /// Sends a request with what proves who we are; one that the server refused for it is sent again where that could
    /// be mended silently (mcp:AUTH-08).
    async fn send_authorized(
        &self,
        request: &Request,
        whole: bool,
        due: Option<Duration>,
    ) -> Result<Response, McpError> {
        let mut attempt = self.authorizers.attempt();
        loop {
            // Each try starts from the message's own headers: what is presented no more is sent no more (OAU-04).
            let mut request = request.clone();
            for (name, value) in &attempt.headers(request.method.as_str(), &request.url).await? {
                request.headers.insert(name, value.clone());
            }
            let followed = self.follow(&request, whole);
            let response = match due {
                Some(limit) => {
                    let answered = tokio::time::timeout(limit, followed).await;
                    answered.unwrap_or_else(|_| Err(self.overdue(&request.url, limit)))?
                }
                None => followed.await?,
            };
            if !attempt.again(response.status().as_u16(), response.headers()).await? {
                return Ok(response);
            }
        }
    }

    /// Follows redirects hop by hop. `whole` says that a permanent one moves the whole server: only where it is a POST
    /// that moved, and every hop before it was for good (RFC 9110 §15.4).
    async fn follow(&self, request: &Request, whole: bool) -> Result<Response, McpError> {
        let mut url = request.url.clone();
        let mut for_good = whole && request.method == Method::POST;
        for _ in 0..=MOST_HOPS {
            let response = self.network.send(Request { url: url.clone(), ..request.clone() }).await?;
            let status = response.status();
            lock(&self.session).last_status = Some(status.as_u16());
            let location = response.headers().get(LOCATION).map(|value| value.as_bytes().to_vec());
            match redirect::next(&url, &request.method, status, location.as_deref())? {
                Next::Here => return Ok(response),
                Next::Follow(target) => {
                    let passed = self.gate.check(&target);
                    passed.map_err(|error| error.with(|facts| facts.delivered = Some(Delivery::Refused)))?;
                    for_good &= matches!(status.as_u16(), 301 | 308);
                    if for_good {
                        write(&self.url).clone_from(&target);
                    }
                    url = target;
                }
            }
        }
        Err(redirect::too_many(&url))
    }

    fn overdue(&self, url: &Url, limit: Duration) -> McpError {
        let message = format!("{} was not answered within {} ms", asked(url), limit.as_millis());
        McpError::new(ErrorCode::ConnectionLost, message).with(|facts| {
            facts.delivered = Some(Delivery::Unknown);
            facts.phase = self.network.phase();
        })
    }

    /// Sends a message that has no answer, unless the transport ends first.
    pub(in crate::transport) async fn notify(&self, frame: String) -> Result<(), McpError> {
        tokio::select! {
            biased;
            reason = self.end() => Err(reason),
            outcome = self.notify_whenever(frame) => outcome,
        }
    }

    async fn notify_whenever(&self, frame: String) -> Result<(), McpError> {
        let (mut map, in_session) = self.base_headers(self.version(), true);
        headers::add_post(&mut map);
        let message = Message::post(map, frame).due_within(self.limits.connect);
        let delivered = self.deliver(message, Patience::Full).await;
        let mut response = delivered.map_err(|error| self.unreachable(error))?;
        if response.status().is_success() {
            return Ok(());
        }
        let error = self.refusal(&mut response, in_session).await;
        Err(error)
    }

    /// The error for an answer with a status other than 2xx.
    pub(in crate::transport) async fn refusal(&self, response: &mut Response, in_session: bool) -> McpError {
        let body = response_body::beginning(response, ERROR_BODY).await;
        let error = self.judge(response, &body, in_session, answer::refused);
        if error.code() == ErrorCode::SessionExpired {
            self.expire(&error);
        }
        error
    }

    /// Applies a judgement to an answer and the beginning of its body, without our session id and
    /// without what proves who asks (B-108, SEC-03).
    pub(in crate::transport) fn judge(
        &self,
        response: &Response,
        body: &[u8],
        in_session: bool,
        judgement: impl FnOnce(&Refusal<'_>) -> McpError,
    ) -> McpError {
        let asked = asked(response.url());
        let beginning = &body[..body.len().min(2 * answer::KEPT_BYTES)];
        let hidden = lock(&self.session).id.as_ref().map(|id| id.hide_in(beginning));
        let hidden = self.authorizers.hide_in(hidden.as_deref().unwrap_or(beginning));
        judgement(&Refusal {
            asked: &asked,
            status: response.status(),
            headers: response.headers(),
            body: &hidden,
            pause: asked_pause(response),
            in_session,
        })
    }

    /// Ends the session at the server, if there is one (mcp:HTTPL-24, E12).
    pub(in crate::transport) async fn say_goodbye(&self) {
        let (map, in_session) = self.base_headers(self.version(), true);
        if !in_session || self.is_modern() {
            return;
        }
        // 405 is fine, and so is everything else: nobody can do anything about it.
        let _ = self.deliver(Message::new(Method::DELETE, map), Patience::None).await;
    }
}

/// How long a busy server wants to be left alone, where it says so.
pub(super) fn asked_pause(response: &Response) -> Option<Duration> {
    let asked = || pause::read(response.headers(), SystemTime::now());
    pause::is_busy(response.status()).then(asked).flatten()
}

/// What was asked, for people.
pub(in crate::transport) fn asked(url: &Url) -> String {
    format!("the request to {}", place(url))
}

/// The error for an answer whose connection broke.
pub(in crate::transport) fn broken(response: &Response, error: &BodyError, seen: usize) -> McpError {
    let what = match error {
        BodyError::Broken(_) => "broke off",
        BodyError::Stalled(_) => "stalled",
    };
    let message = format!("the body of the answer {what} after {seen} bytes: {error}");
    McpError::new(ErrorCode::ConnectionLost, message).with(|facts| {
        facts.phase = Some(Phase::Body);
        facts.status = Some(response.status().as_u16());
        facts.delivered = Some(Delivery::Unknown);
    })
}
