//! The hook before a tool call: it may change the arguments or refuse the call. (POL-12)

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError, PermissionLayer};
use crate::host::{Host, QuestionKind};
use crate::jsonrpc::write::push_string;

/// The call that the hook hears of.
pub struct HookedCall<'a> {
    /// Server.
    pub server: &'a str,
    /// The server's own name of the tool.
    pub tool: &'a str,
    /// Full name.
    pub full_name: &'a str,
    /// Arguments as JSON text.
    pub arguments: &'a str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    input: Option<Box<RawValue>>,
    deny: Option<String>,
}

/// Asks the hook, if there is one; `Some` are arguments in place of those given. A hook that throws, takes
/// longer than `patience` or answers something else refuses the call.
///
/// # Errors
/// `PERMISSION_DENIED` of layer `hook`.
pub async fn before(
    call: HookedCall<'_>,
    host: &dyn Host,
    patience: Duration,
    deadline: &Deadline,
) -> Result<Option<String>, McpError> {
    if !host.can_answer(QuestionKind::PreToolUse) {
        return Ok(None);
    }
    let held = deadline.hold();
    let answer = tokio::select! {
        biased;
        answer = host.ask(QuestionKind::PreToolUse, question(&call)) => answer,
        () = wait(patience) => {
            return Err(refused(&call, "hooks.preToolUse did not answer in time"));
        }
    };
    drop(held);
    let text = answer.map_err(|error| match error.code() {
        ErrorCode::ManagerClosed => error.on(call.server),
        _ => refused(&call, "hooks.preToolUse failed").caused_by(error),
    })?;
    match serde_json::from_str::<Option<Answer>>(&text) {
        Ok(Some(Answer { deny: Some(reason), .. })) => {
            Err(refused(&call, &format!("hooks.preToolUse refused: {reason}")))
        }
        Ok(None | Some(Answer { input: None, .. })) => Ok(None),
        Ok(Some(Answer { input: Some(input), .. })) if input.get().starts_with('{') => {
            Ok(Some(input.get().to_owned()))
        }
        _ => Err(refused(&call, "the answer of hooks.preToolUse was not understood")),
    }
}

async fn wait(limit: Duration) {
    crate::runtime::entered().await;
    tokio::time::sleep(limit).await;
}

fn refused(call: &HookedCall<'_>, why: &str) -> McpError {
    let message = format!("{} was refused: {why}", call.full_name);
    McpError::new(ErrorCode::PermissionDenied, message).on(call.server).with(|facts| {
        facts.layer = Some(PermissionLayer::Hook);
        facts.rule = Some("hooks.preToolUse".to_owned());
    })
}

fn question(call: &HookedCall<'_>) -> String {
    let mut text = String::from("{\"server\":");
    push_string(&mut text, call.server);
    text.push_str(",\"tool\":");
    push_string(&mut text, call.tool);
    text.push_str(",\"fullName\":");
    push_string(&mut text, call.full_name);
    text.push_str(",\"input\":");
    text.push_str(call.arguments);
    text.push('}');
    text
}
