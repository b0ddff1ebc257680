//! One request and its answer: JSON, or a stream that ends for us with the answer (HTTP-01, E8).

use std::sync::Arc;

use http::StatusCode;
use http::header::HeaderMap;

use super::answer::{self, Content, names_lost_session};
use super::response_body::{self, End};
use super::sending::{self, ERROR_BODY, Message, Patience};
use super::session_id::SessionId;
use super::{Reply, Shared, headers};
use crate::deadline::Deadline;
use crate::error::{Delivery, ErrorCode, McpError};
use crate::jsonrpc::{Answer, Incoming, RpcError, read};
use crate::protocol::version::{Era, ProtocolVersion};
use crate::runtime::lock;
use crate::transport::connector::client::Response;
use crate::transport::{Outgoing, RequestFailure};

/// Code that some servers use for a session they do not know (E2); by itself it says nothing.
const SESSION_CODE: i64 = -32001;

/// Some servers write it before their JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One request under way.
pub(super) struct Exchange<'a> {
    pub(super) shared: &'a Shared,
    pub(super) id: u64,
    pub(super) version: Option<ProtocolVersion>,
    pub(super) in_session: bool,
    opens_session: bool,
    pub(super) deadline: Option<Arc<Deadline>>,
}

/// An answer, and the stream it came in where that goes on.
pub(super) type Outcome = (Reply, Option<Response>);

/// Sends a request and waits for its answer.
pub(super) async fn run(shared: &Shared, request: Outgoing, version: Option<ProtocolVersion>) -> Outcome {
    let modern = version.is_some_and(|version| version.era() == Era::Modern);
    let opens_session = !modern && request.mirrored.method == "initialize";
    // An old session never gets into a new handshake (mcp:HTTPL-18, E3).
    let (mut map, in_session) = shared.base_headers(version, !modern && !opens_session);
    headers::add_post(&mut map);
    if modern && let Err(error) = headers::add_mirrored(&mut map, &request.mirrored) {
        return failed(error.with(|facts| facts.delivered = Some(Delivery::No)));
    }
    let handshake = opens_session || request.mirrored.method == "server/discover";
    let patience = if handshake { Patience::Handshake } else { Patience::Full };
    let (id, deadline) = (request.id, request.deadline);
    let exchange = Exchange { shared, id, version, in_session, opens_session, deadline };
    exchange.run(map, request.frame, patience).await
}

fn failed(error: McpError) -> Outcome {
    (Err(RequestFailure::Transport(error)), None)
}

impl Exchange<'_> {
    async fn run(&self, map: HeaderMap, frame: String, patience: Patience) -> Outcome {
        let message = Message::post(map, frame);
        let delivered = self.shared.deliver(message, patience).await;
        let mut response = match delivered {
            Ok(response) => response,
            Err(error) => return failed(self.shared.unreachable(error)),
        };
        if !response.status().is_success() {
            return (self.refused(&mut response).await, None);
        }
        if let Err(error) = self.take_session(&response) {
            return failed(error);
        }
        if response_body::is_packed(&response) {
            return failed(self.not_a_message(&response, &[], "a compressed body nobody asked for"));
        }
        match answer::content(response.headers()) {
            Content::Events => self.follow_stream(response).await,
            Content::Json | Content::Unnamed => (self.whole(&mut response).await, None),
            Content::Other => (Err(self.other_content(&mut response).await), None),
        }
    }

    pub(super) fn is_modern(&self) -> bool {
        self.version.is_some_and(|version| version.era() == Era::Modern)
    }

    fn take_session(&self, response: &Response) -> Result<(), McpError> {
        let Some(value) = response.headers().get(headers::SESSION).filter(|_| self.opens_session) else {
            return Ok(());
        };
        let id = SessionId::read(value)
            .ok_or_else(|| self.not_a_message(response, &[], "a session id that is not allowed"))?;
        lock(&self.shared.session).id = Some(id);
        Ok(())
    }

    async fn whole(&self, response: &mut Response) -> Reply {
        let limit = self.shared.limits.message;
        let (mut body, end) = response_body::read(response, limit).await;
        match end {
            End::Whole => {}
            End::TooLong => return Err(too_large(limit)),
            End::Broken(error) => {
                let error = sending::broken(response, &error, body.len());
                return Err(RequestFailure::Transport(error));
            }
        }
        let invalid =
            |why: &str, body: &[u8]| RequestFailure::Transport(self.not_a_message(response, body, why));
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(invalid("no body", &body));
        }
        if body.starts_with(BYTE_ORDER_MARK) {
            body.drain(..BYTE_ORDER_MARK.len());
        }
        let text =
            String::from_utf8(body).map_err(|error| invalid("a body that is not UTF-8", error.as_bytes()))?;
        // Only an answer that fails is needed again, and then only its beginning.
        let head = text.as_bytes()[..text.len().min(answer::KEPT_BYTES)].to_vec();
        match self.take_frame(text) {
            Ok(Some(reply)) => reply,
            Ok(None) => Err(invalid("no answer to this request", &head)),
            Err(why) => Err(invalid(&format!("something that is no message ({why})"), &head)),
        }
    }

    async fn other_content(&self, response: &mut Response) -> RequestFailure {
        let body = response_body::evidence(response).await;
        if self.in_session && names_lost_session(&answer::shown(&body)) {
            return self.session_lost();
        }
        let why = if body.is_empty() { "no body" } else { "a page that is neither JSON nor an event stream" };
        RequestFailure::Transport(self.not_a_message(response, &body, why))
    }

    /// Reads a frame: our answer if it is in there; everything else goes to the receiver.
    pub(super) fn take_frame(&self, frame: String) -> Result<Option<Reply>, &'static str> {
        let mut ours = None;
        for message in read::read(frame).map_err(|not| not.0)? {
            if let Incoming::Response { id, answer } = &message {
                self.shared.receiver.response(*id, answer);
            }
            match message {
                Incoming::Response { id, answer } if self.is_ours(id, &answer) && ours.is_none() => {
                    ours = Some(self.settle(answer));
                }
                Incoming::Response { id, .. } => self.shared.receiver.stray(id),
                Incoming::Request { method, .. } if self.is_modern() => {
                    self.shared.receiver.noise(&method, "a request of the server, which this era forbids");
                }
                other => self.shared.receiver.message(other),
            }
        }
        Ok(ours)
    }

    /// An error without an id inside of our exchange can only be about our request (mcp:BASE-08).
    fn is_ours(&self, id: Option<u64>, answer: &Answer) -> bool {
        id == Some(self.id) || (id.is_none() && matches!(answer, Answer::Error(_)))
    }

    fn settle(&self, answer: Answer) -> Reply {
        match answer {
            Answer::Result(result) => Ok(result),
            Answer::Error(error) if self.means_lost_session(&error) => Err(self.session_lost()),
            Answer::Error(error) => Err(RequestFailure::Rpc(error)),
            Answer::Invalid { reason, frame } => {
                Err(RequestFailure::Transport(answer::invalid_answer(reason, &frame)))
            }
        }
    }

    fn means_lost_session(&self, error: &RpcError) -> bool {
        self.in_session && error.code == SESSION_CODE && names_lost_session(&error.message)
    }

    pub(super) fn session_lost(&self) -> RequestFailure {
        let error = answer::session_expired();
        self.shared.expire(&error);
        RequestFailure::Transport(error)
    }

    /// An answer with a status other than 2xx: a JSON-RPC error where it carries one (mcp:HTTP-12).
    async fn refused(&self, response: &mut Response) -> Reply {
        let status = response.status();
        let body = response_body::beginning(response, ERROR_BODY).await;
        if let Some(error) = self.rpc_error(status, &body) {
            self.shared.receiver.response(Some(self.id), &Answer::Error(error.clone()));
            return Err(RequestFailure::Rpc(error));
        }
        let mut error = self.shared.judge(response, &body, self.in_session, answer::refused);
        if self.in_session && status.is_client_error() && tells_of_lost_session(&body) {
            error = answer::session_expired().with(|facts| facts.status = Some(status.as_u16()));
        }
        if error.code() == ErrorCode::SessionExpired {
            self.shared.expire(&error);
        }
        Err(RequestFailure::Transport(error))
    }

    /// The JSON-RPC error of an answer, where that says more than the status.
    fn rpc_error(&self, status: StatusCode, body: &[u8]) -> Option<RpcError> {
        let (id, error) = read_error(body)?;
        let about_us = id == Some(self.id) || (id.is_none() && status.is_client_error());
        let by_status = match status.as_u16() {
            401 | 403 | 407 | 408 | 429 | 503 => true,
            // A lost session, unless the server names the method (mcp:HTTP-12).
            404 if self.in_session => error.code != -32601,
            400 | 410 if self.in_session => names_lost_session(&error.message),
            _ => false,
        };
        (about_us && !by_status).then_some(error)
    }

    pub(super) fn not_a_message(&self, response: &Response, body: &[u8], why: &str) -> McpError {
        self.shared.judge(response, body, self.in_session, |refusal| answer::not_a_message(refusal, why))
    }
}

fn tells_of_lost_session(body: &[u8]) -> bool {
    read_error(body).is_some_and(|(_, error)| names_lost_session(&error.message))
}

/// The JSON-RPC error in a body, with its id.
fn read_error(body: &[u8]) -> Option<(Option<u64>, RpcError)> {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    let text = std::str::from_utf8(body).ok()?.to_owned();
    match read::read(text).ok()?.into_iter().next()? {
        Incoming::Response { id, answer: Answer::Error(error) } => Some((id, error)),
        _ => None,
    }
}

pub(super) fn too_large(limit: usize) -> RequestFailure {
    let message = format!("the answer is larger than {limit} bytes (maxMessageBytes)");
    RequestFailure::Transport(
        McpError::new(ErrorCode::MessageTooLarge, message)
            .with(|facts| facts.delivered = Some(Delivery::Unknown)),
    )
}
