//! The protocol client of one connection: requests out, answers back, everything else to `inbound`.
//!
//! Owns: ids, progress tokens, what was negotiated. A client lives as long as its transport; a new connection
//! means a new client, so no answer ever crosses generations (B-090).

pub mod inbound;
pub mod input;
pub mod listen;
mod login;
pub mod open;
mod own_tasks;
pub mod pages;
pub mod progress;
mod rounds;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod verdict;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde_json::value::RawValue;

use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError};
use crate::host::Host;
use crate::json_scan;
use crate::jsonrpc::write::{self, Params};
use crate::jsonrpc::{RawText, RpcError};
use crate::protocol::capability::{self, ServerIntroduction};
use crate::protocol::header_mirror::HeaderMirror;
use crate::protocol::negotiation::UNSUPPORTED_VERSION;
use crate::protocol::stateless;
use crate::protocol::tool::ToolDefinition;
use crate::protocol::version::{Era, ProtocolVersion};
use crate::runtime::{read, write as write_lock};
use crate::transport::{CloseMode, Mirrored, Outgoing, RequestFailure, Transport};
use crate::unicode::{self, Mode};
use input::InputDesk;
use listen::ListenTable;
use login::Logins;
use open::Introduction;
use progress::{Lingering, ProgressSink, ProgressTable};
use tally::Tally;

/// What a client and its receiving side share.
#[derive(Clone, Debug)]
pub struct Tables {
    /// Requests that may make progress.
    pub progress: Arc<ProgressTable>,
    /// Open listen streams.
    pub listens: Arc<ListenTable>,
    /// Where questions of the server are answered.
    pub input: Arc<InputDesk>,
}

/// What the handshake, or discovery, settled.
#[derive(Debug)]
pub struct Negotiated {
    /// Revision both sides speak.
    pub version: ProtocolVersion,
    /// What the server says of itself; shown, never trusted (mcp:META-13).
    pub introduction: ServerIntroduction,
}

/// Time for the last answers before the transport goes.
const LAST_WORDS: Duration = Duration::from_millis(20);

/// One conversation with a server.
#[derive(Debug)]
pub struct Client {
    server: Arc<str>,
    transport: Arc<dyn Transport>,
    negotiated: Negotiated,
    next_id: AtomicU64,
    tables: Tables,
    introduction: Introduction,
    /// Members of `_meta` of every request; empty in the handshake era.
    envelope: RwLock<Arc<str>>,
    /// Mirrored arguments by tool, as of the last list (mcp:HDR-22).
    mirrors: RwLock<HashMap<String, Arc<[HeaderMirror]>>>,
}

/// What is asked of a server.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Method.
    pub method: &'a str,
    /// Parameters.
    pub params: &'a Params,
    /// Its limits, over all repetitions; progress of this very request resets the idle one.
    pub deadline: &'a Arc<Deadline>,
    /// Who hears of its progress.
    pub progress: Option<&'a ProgressSink>,
    /// Who answers what the server asks because of it; `None` is the connection's own host.
    pub host: Option<&'a Arc<dyn Host>>,
    /// The task it waits for, if it does: questions of that task belong to it.
    pub task: Option<&'a str>,
    /// Keeps its progress token beyond the answer.
    pub lingering: Option<&'a Lingering>,
    /// Where it is counted.
    pub tally: Option<&'a Tally>,
}

impl<'a> Request<'a> {
    /// A request whose progress nobody follows and that is nobody's in particular.
    pub fn new(method: &'a str, params: &'a Params, deadline: &'a Arc<Deadline>) -> Self {
        Self {
            method,
            params,
            deadline,
            progress: None,
            host: None,
            task: None,
            lingering: None,
            tally: None,
        }
    }
}

impl Client {
    /// The server's name.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// What was negotiated.
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// The way to the server.
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    /// The era of the conversation.
    pub fn era(&self) -> Era {
        self.negotiated.version.era()
    }

    /// Sends a request and waits for its result within the deadline; questions of the server on the way are
    /// answered through the host. Dropping the future cancels it.
    ///
    /// # Errors
    /// `CAPABILITY_MISSING` before anything is sent, `RPC_ERROR` for an error answer, `TIMEOUT`, `RESULT_INVALID`,
    /// `ELICITATION_DECLINED`, `ELICITATION_LIMIT`, and whatever the transport says; all name the server.
    pub async fn request(&self, request: Request<'_>) -> Result<RawText, McpError> {
        self.check(request.method).map_err(|error| error.on(&self.server))?;
        let outcome = self.leg(&request, request.params).await;
        match (self.era(), outcome) {
            (Era::Legacy, Err(RequestFailure::Rpc(error)))
                if error.code == rounds::URL_REQUIRED && self.tables.input.features().elicitation_url =>
            {
                self.after_visits(&request, error).await
            }
            (Era::Modern, Err(RequestFailure::Rpc(error))) if self.may_try_again(&error) => {
                let outcome = self.leg(&request, request.params).await;
                let reply = outcome.map_err(|failure| self.describe(failure, request.method))?;
                self.finish(&request, reply).await
            }
            (Era::Modern, Ok(reply)) => self.finish(&request, reply).await,
            (_, outcome) => outcome.map_err(|failure| self.describe(failure, request.method)),
        }
    }

    fn check(&self, method: &str) -> Result<(), McpError> {
        if self.era() == Era::Modern {
            stateless::check_method(method)?;
        }
        capability::check(method, &self.negotiated.introduction.capabilities)
    }

    /// A server may refuse a version that it supports after all (mcp:ERA-08): once more, at that version.
    fn may_try_again(&self, error: &RpcError) -> bool {
        let ours = self.negotiated.version.as_str();
        error.code == UNSUPPORTED_VERSION
            && stateless::supported_versions(error).iter().any(|one| one == ours)
    }

    /// One request and its answer, however often the method is sent in all.
    async fn leg(&self, request: &Request<'_>, params: &Params) -> Result<RawText, RequestFailure> {
        let mut logins = Logins::default();
        loop {
            let reply = self.send_once(request, params).await;
            if let ControlFlow::Break(reply) =
                logins.mend(self.transport.as_ref(), reply, request.deadline).await
            {
                return reply;
            }
            self.desk().logged_in();
        }
    }

    async fn send_once(&self, request: &Request<'_>, params: &Params) -> Result<RawText, RequestFailure> {
        let deadline = Some(Arc::clone(request.deadline));
        let outgoing = Outgoing { deadline, ..self.outgoing(request.method, params) };
        let mut watched = self.tables.progress.watch(outgoing.id, request);
        if let Some(tally) = request.tally {
            tally.sent(outgoing.frame.len());
        }
        tokio::select! {
            biased;
            reply = self.transport.request(outgoing) => {
                if let (Some(tally), Ok(result)) = (request.tally, &reply) {
                    tally.received(result.as_str().len());
                }
                match request.lingering.filter(|_| reply.is_ok()) {
                    Some(lingering) => lingering.keep(watched),
                    None => watched.answered(),
                }
                reply
            }
            kind = request.deadline.expired() => {
                Err(RequestFailure::Transport(request.deadline.error(kind, request.method)))
            }
            error = watched.unanswerable() => Err(RequestFailure::Transport(error)),
        }
    }

    /// The next request of the conversation, as it goes out.
    fn outgoing(&self, method: &str, params: &Params) -> Outgoing {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let meta = stateless::callers_meta(params.meta());
        let own;
        let params = if meta.len() == params.meta().len() {
            params
        } else {
            own = params.with_meta(meta.into_owned());
            &own
        };
        let mut mirrored = Mirrored { method: method.to_owned(), ..Mirrored::default() };
        if self.era() == Era::Legacy {
            let frame = write::request(id, method, params);
            return Outgoing { id, frame, cancellable: true, mirrored, deadline: None };
        }
        mirrored.version = Some(self.negotiated.version);
        self.mirror(method, params, &mut mirrored);
        let frame = write::enveloped_request(id, method, params, &read(&self.envelope));
        Outgoing { id, frame, cancellable: true, mirrored, deadline: None }
    }

    /// What headers repeat of the parameters (mcp:HDR-04, 08, TASK-16); every way to send a request comes by here (HDR-25).
    fn mirror(&self, method: &str, params: &Params, mirrored: &mut Mirrored) {
        let member = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => return,
        };
        let object = format!("{{{}}}", params.members());
        let [name, arguments] = json_scan::pick(&object, [member, "arguments"]);
        let Some(name) = name.and_then(json_scan::decode) else { return };
        if method == "tools/call" {
            let mirrors = read(&self.mirrors).get(&*name).cloned().unwrap_or_default();
            let value = |mirror: &HeaderMirror| Some((mirror.header.clone(), mirror.value(arguments?)?));
            mirrored.arguments = mirrors.iter().filter_map(value).collect();
        }
        mirrored.name = Some(name.into_owned());
    }

    /// Learns which arguments the tools of a list want to see mirrored.
    pub fn learn_tools(&self, tools: &[ToolDefinition]) {
        let mirrors = tools.iter().filter_map(|tool| {
            let mirrors = tool.header_mirrors.as_ref().ok().filter(|mirrors| !mirrors.is_empty())?;
            Some((tool.wire_name.clone(), Arc::clone(mirrors)))
        });
        *write_lock(&self.mirrors) = mirrors.collect();
    }

    /// Sets the least severe level of log messages that requests ask for; only the stateless era has such.
    pub fn set_log_level(&self, level: Option<&str>) {
        if self.era() == Era::Modern {
            *write_lock(&self.envelope) =
                Arc::from(self.introduction.envelope(self.negotiated.version, level, self.offers_tasks()));
        }
    }

    /// Whether the server knows tasks, of whichever era.
    pub fn offers_tasks(&self) -> bool {
        self.negotiated.introduction.capabilities.tasks
    }

    /// Whether requests are under way.
    pub fn is_busy(&self) -> bool {
        !self.tables.progress.is_empty()
    }

    /// Sends a notification. No person logs in for it: the next request asks for that.
    pub async fn notify(&self, method: &str, params: Option<&str>) -> Result<(), McpError> {
        let frame = write::notification(method, params);
        self.transport.send(frame).await.map_err(|error| error.on(&self.server))
    }

    /// Asks whether the server is there: `ping`, or `server/discover` where there is no such thing (mcp:PING-04).
    pub async fn ping(&self, deadline: &Arc<Deadline>) -> Result<(), McpError> {
        let outgoing = match self.era() {
            Era::Modern => self.outgoing("server/discover", &Params::default()),
            Era::Legacy => {
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                let mirrored = Mirrored { method: "ping".to_owned(), ..Mirrored::default() };
                let frame = write::plain_request(id, "ping", None);
                Outgoing { id, frame, cancellable: true, mirrored, deadline: None }
            }
        };
        tokio::select! {
            biased;
            reply = self.transport.request(outgoing) => match reply {
                Ok(_) => Ok(()),
                Err(failure) => Err(self.describe(failure, "ping")),
            },
            kind = deadline.expired() => Err(deadline.error(kind, "ping").on(&self.server)),
        }
    }

    /// Ends the conversation: questions to people are withdrawn and open requests fail with `reason`. Resolves
    /// when nothing is left of the transport.
    pub async fn close(&self, mode: CloseMode, reason: McpError) {
        self.tables.input.end(&reason);
        if self.tables.input.is_busy() {
            // Withdrawn questions are still answered, with `cancel` (ELI-04).
            tokio::time::sleep(LAST_WORDS).await;
        }
        self.transport.close(mode, reason).await;
    }

    fn describe(&self, failure: RequestFailure, method: &str) -> McpError {
        match failure {
            RequestFailure::Transport(error) => error.on(&self.server),
            RequestFailure::Rpc(error) => {
                let typed =
                    if self.era() == Era::Modern { stateless::typed_error(&error, method) } else { None };
                typed.unwrap_or_else(|| rpc_error(&error, method)).on(&self.server)
            }
        }
    }
}

/// The public form of an error answer; the server's text and `data` are cleaned.
pub fn rpc_error(error: &RpcError, method: &str) -> McpError {
    let (said, mut removed) = unicode::clean_counted(&error.message);
    let said = excerpt(&said, 2_000);
    let data = error.data.as_ref().map(|data| match unicode::clean_json(data.get(), Mode::Invisible) {
        Ok(Some(cleaned)) => {
            removed += cleaned.characters;
            RawValue::from_string(cleaned.text).map_or_else(|_| Arc::clone(data), Arc::from)
        }
        _ => Arc::clone(data),
    });
    let said = if said.is_empty() { "no message".to_owned() } else { said };
    McpError::new(ErrorCode::RpcError, format!("{method} was answered with error {}: {said}", error.code))
        .with(|facts| {
            facts.rpc_code = Some(error.code);
            facts.data = data;
            facts.removed = (removed > 0).then_some(removed);
        })
}

/// The beginning of a text, cut between characters, with a mark where it was cut.
pub fn excerpt(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
