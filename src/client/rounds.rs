//! Requests that are answered with questions: the rounds of the stateless era (mcp:MRTR-*) and the error that asks
//! for a visit (CAL-01, mcp:ELI-29). Each repetition is a request of its own, with a new id.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};

use super::input::{CANCEL, InputDesk, Refusal, Visit};
use super::{Client, Request, rpc_error};
use crate::error::{ErrorCode, McpError};
use crate::host::Host;
use crate::json_scan;
use crate::jsonrpc::{RawText, RpcError};
use crate::protocol::stateless::{self, InputRequest, InputRequired, ResultKind};
use crate::runtime;
use crate::transport::RequestFailure;

/// The error that asks for visits.
pub(super) const URL_REQUIRED: i64 = -32042;
/// Wait before a server that only wants to be asked again is; doubled each time.
const POLL: Duration = Duration::from_millis(100);
const LONGEST_POLL: Duration = Duration::from_secs(5);
/// Most repetitions after visits (CAL-01).
const MOST_VISITS: usize = 3;
/// Most addresses of one error.
const MOST_ADDRESSES: usize = 10;

impl Client {
    /// Answers questions until the result is there.
    pub(super) async fn finish(
        &self,
        request: &Request<'_>,
        mut reply: RawText,
    ) -> Result<RawText, McpError> {
        let most = self.desk().settings().max_rounds;
        let mut poll = POLL;
        for round in 0..=most {
            let required = match stateless::read_result(reply.as_str()) {
                ResultKind::Complete => return Ok(reply),
                ResultKind::Task if self.may_be_a_task(request.method) => return Ok(reply),
                ResultKind::Task => {
                    return Err(self.invalid(request.method, "is a task, which it must not be"));
                }
                ResultKind::Invalid(why) => return Err(self.invalid(request.method, &why)),
                ResultKind::InputRequired(_) if !stateless::may_ask(request.method) => {
                    return Err(self.invalid(request.method, "asks for input, which it must not"));
                }
                ResultKind::InputRequired(required) => required,
            };
            if round == most {
                break;
            }
            request.deadline.touch();
            let answers = if required.requests.is_empty() {
                pause(poll).await;
                poll = (poll * 2).min(LONGEST_POLL);
                Vec::new()
            } else {
                self.gather(request, &required).await?
            };
            let params = request.params.and(&stateless::retry_members(&required, &answers));
            reply =
                self.leg(request, &params).await.map_err(|failure| self.describe(failure, request.method))?;
        }
        let message = format!("{} asked for input more than {most} times (maxInputRounds)", request.method);
        Err(McpError::new(ErrorCode::ElicitationLimit, message).on(self.server()))
    }

    /// Whether the answer may be a task; some servers write so on `tasks/get` too (mcp:TASK-03, TASK-05).
    fn may_be_a_task(&self, method: &str) -> bool {
        self.offers_tasks() && matches!(method, "tools/call" | "tasks/get")
    }

    fn invalid(&self, method: &str, why: &str) -> McpError {
        McpError::new(ErrorCode::ResultInvalid, format!("the result of {method} {why}")).on(self.server())
    }

    /// Answers all questions of a round side by side (mcp:MRTR-15); people's time does not count.
    async fn gather(&self, request: &Request<'_>, required: &InputRequired) -> Result<Vec<String>, McpError> {
        let _held = request.deadline.hold();
        let host = request.host.map(AsRef::as_ref);
        self.while_open(try_join_all(required.requests.iter().map(|one| self.answer_input(host, one)))).await
    }

    /// Answers one question of a task; JSON text of the answer. `host` answers in the place of the connection's own.
    ///
    /// # Errors
    /// Why there is no answer; the end of the conversation too.
    pub async fn answer(
        &self,
        host: Option<&Arc<dyn Host>>,
        input: &InputRequest,
    ) -> Result<String, McpError> {
        self.while_open(self.answer_input(host.map(AsRef::as_ref), input)).await
    }

    /// Waits for people as long as the conversation lasts (ELI-04).
    async fn while_open<T>(&self, work: impl Future<Output = Result<T, McpError>>) -> Result<T, McpError> {
        tokio::select! {
            biased;
            outcome = work => outcome,
            reason = self.desk().ended() => Err(reason.on(self.server())),
        }
    }

    async fn answer_input(&self, host: Option<&dyn Host>, input: &InputRequest) -> Result<String, McpError> {
        let elicitation = input.method == "elicitation/create";
        match self.desk().fulfil(host, &input.method, &input.params).await {
            Ok(answer) => Ok(answer),
            // Nobody can answer: the server hears so at once (ELI-01, M1).
            Err(Refusal::Undeclared) if elicitation => Ok(CANCEL.to_owned()),
            Err(refusal) => Err(self.refused(&input.method, &refusal)),
        }
    }

    /// The error that ends a call whose question is not answered (mcp:MRTR-12).
    fn refused(&self, method: &str, refusal: &Refusal) -> McpError {
        let code = match refusal {
            Refusal::Invalid(_) => ErrorCode::ResultInvalid,
            Refusal::UnsafeUrl(_) => ErrorCode::UrlRefused,
            Refusal::Undeclared | Refusal::Rejected(_) | Refusal::Failed(_) => ErrorCode::ElicitationDeclined,
        };
        let why = match refusal {
            Refusal::Undeclared => "which this host does not offer".to_owned(),
            other => format!("which was refused: {}", other.message()),
        };
        McpError::new(code, format!("the server asked for {method}, {why}")).on(self.server())
    }

    /// Repeats a request after the visits that its error asks for.
    pub(super) async fn after_visits(
        &self,
        request: &Request<'_>,
        error: RpcError,
    ) -> Result<RawText, McpError> {
        let mut error = error;
        let mut visits: Vec<Visit<'_>> = Vec::new();
        for delay in self.desk().settings().url_delays.iter().take(MOST_VISITS) {
            let held = request.deadline.hold();
            let wanted = self.while_open(self.ask_for_visits(request, &error, &mut visits)).await?;
            let named = visits.iter().filter(|visit| wanted.iter().any(|id| id == visit.id()));
            let ended = join_all(named.map(Visit::ended));
            self.while_open(async {
                tokio::select! {
                    _ = ended => {}
                    () = pause(*delay) => {}
                }
                Ok(())
            })
            .await?;
            drop(held);
            request.deadline.touch();
            match self.leg(request, request.params).await {
                Err(RequestFailure::Rpc(again)) if again.code == URL_REQUIRED => error = again,
                outcome => return outcome.map_err(|failure| self.describe(failure, request.method)),
            }
        }
        let message = format!("{} still asks for a visit to an address", request.method);
        Err(McpError::new(ErrorCode::ElicitationLimit, message)
            .on(self.server())
            .caused_by(rpc_error(&error, request.method)))
    }

    /// Asks people for each visit that they were not asked for yet; the ids of all that the error names.
    async fn ask_for_visits<'a>(
        &'a self,
        request: &Request<'_>,
        error: &RpcError,
        visits: &mut Vec<Visit<'a>>,
    ) -> Result<Vec<String>, McpError> {
        let elicitations = read_elicitations(error);
        if elicitations.is_empty() {
            return Err(rpc_error(error, request.method).on(self.server()));
        }
        for one in &elicitations {
            if visits.iter().any(|visit| visit.id() == one.id) {
                continue;
            }
            // Registered first: the visit may have ended before the answer is here.
            visits.push(self.desk().await_visit(&one.id));
            match self.desk().visit(request.host.map(AsRef::as_ref), &one.params).await {
                Ok(true) => {}
                Ok(false) => {
                    let message =
                        format!("{} needs a visit to an address, which was declined", request.method);
                    return Err(McpError::new(ErrorCode::ElicitationDeclined, message)
                        .on(self.server())
                        .caused_by(rpc_error(error, request.method)));
                }
                Err(refusal) => return Err(self.refused("elicitation/create", &refusal)),
            }
        }
        Ok(elicitations.into_iter().map(|one| one.id).collect())
    }
}

async fn pause(time: Duration) {
    runtime::entered().await;
    tokio::time::sleep(time).await;
}

struct Elicitation {
    id: String,
    params: String,
}

/// The visits that an error asks for; those without an id cannot be awaited, and are told apart by their text.
fn read_elicitations(error: &RpcError) -> Vec<Elicitation> {
    let Some(data) = &error.data else { return Vec::new() };
    let [list] = json_scan::pick(data.get(), ["elicitations"]);
    let read = |params: &str| {
        let [mode, id] = json_scan::pick(params, ["mode", "elicitationId"]);
        let is_url = mode.and_then(json_scan::decode).is_some_and(|mode| mode == "url");
        let id =
            id.and_then(json_scan::decode).map_or_else(|| params.to_owned(), std::borrow::Cow::into_owned);
        is_url.then(|| Elicitation { id, params: params.to_owned() })
    };
    list.into_iter().flat_map(json_scan::elements).filter_map(read).take(MOST_ADDRESSES).collect()
}

impl Client {
    pub(super) fn desk(&self) -> &Arc<InputDesk> {
        &self.tables.input
    }
}
