//! May this call be made? Rules, remembered answers, then the person (POL-07, POL-08).

use std::sync::Mutex;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError, PermissionLayer};
use crate::host::{Host, QuestionKind};
use crate::json_scan;
use crate::jsonrpc::write::push_string;
use crate::permission::{Answer, Decision, Memory, Remember, read_answer};
use crate::protocol::tool::ToolDefinition;
use crate::runtime::lock;

/// One call that asks for passage.
pub struct Passage<'a> {
    /// Server.
    pub server: &'a str,
    /// The tool.
    pub tool: &'a ToolDefinition,
    /// Its full name.
    pub full_name: &'a str,
    /// Arguments as JSON text.
    pub arguments: &'a str,
    /// What the rules say, and which rule.
    pub decision: Decision,
    /// The rule that decided.
    pub rule: Option<&'a str>,
    /// JSON text of the definition that was approved, where it is another one now. (SEC-06)
    pub changed_since: Option<&'a str>,
}

/// Who is asked, and what was answered before.
pub struct Gatekeeper<'a> {
    /// The host.
    pub host: &'a dyn Host,
    /// Answers that hold beyond their call.
    pub memory: &'a Mutex<Memory>,
    /// Longest wait for an answer.
    pub patience: Duration,
    /// Keeps an answer for good.
    pub keep: &'a (dyn Fn(Remember) + Send + Sync),
}

/// Lets the call pass or refuses it; `Some` are arguments that replace those asked about.
///
/// # Errors
/// `PERMISSION_DENIED` naming layer and rule, `PERMISSION_REQUIRED` where nobody can be asked.
pub async fn pass(
    passage: Passage<'_>,
    keeper: Gatekeeper<'_>,
    deadline: &Deadline,
) -> Result<Option<String>, McpError> {
    match passage.decision {
        Decision::Allow => return Ok(None),
        Decision::Deny => {
            let rule = passage.rule.unwrap_or_default();
            let message = format!("the rule \"{rule}\" denies {}", passage.full_name);
            return Err(refused(&passage, PermissionLayer::Rule, message));
        }
        Decision::Ask | Decision::Passthrough => {}
    }
    // A rule that says *ask* is not answered by memory: it was written to be asked each time.
    if passage.decision == Decision::Passthrough {
        match lock(keeper.memory).recall(passage.server, &passage.tool.wire_name) {
            Some(true) => return Ok(None),
            Some(false) => {
                let message = format!("{} was refused earlier in this session", passage.full_name);
                return Err(refused(&passage, PermissionLayer::User, message));
            }
            None => {}
        }
    }
    if !keeper.host.can_answer(QuestionKind::Permission) {
        return Err(nobody_to_ask(&passage));
    }
    ask(&passage, &keeper, deadline).await
}

fn nobody_to_ask(passage: &Passage<'_>) -> McpError {
    let name = passage.full_name;
    let message = match passage.changed_since {
        None => format!("{name} needs a permission: add a rule to permissions.allow or give onPermission"),
        Some(_) => format!(
            "the definition of {name} has changed since it was approved: confirm it with onPermission or approveTool"
        ),
    };
    McpError::new(ErrorCode::PermissionRequired, message).on(passage.server).with(|facts| {
        facts.layer = Some(PermissionLayer::User);
        facts.rule = Some(passage.rule.unwrap_or(QuestionKind::Permission.callback()).to_owned());
    })
}

async fn ask(
    passage: &Passage<'_>,
    keeper: &Gatekeeper<'_>,
    deadline: &Deadline,
) -> Result<Option<String>, McpError> {
    // People's time does not count (PRO-06).
    let held = deadline.hold();
    let answer = tokio::select! {
        biased;
        answer = keeper.host.ask(QuestionKind::Permission, question(passage)) => answer,
        () = patience(keeper.patience) => {
            let message = format!("{} was not answered in time (permissionTimeoutMs)", passage.full_name);
            return Err(refused(passage, PermissionLayer::User, message));
        }
    };
    drop(held);
    let text = answer.map_err(|error| {
        if error.code() == ErrorCode::ManagerClosed {
            return error.on(passage.server);
        }
        let message = format!("{} was refused because onPermission failed", passage.full_name);
        refused(passage, PermissionLayer::User, message).caused_by(error)
    })?;
    match read_answer(&text) {
        Answer::Allow { updated_input, remember } => {
            remember_answer(passage, keeper, remember);
            Ok(updated_input.map(|input| String::from(Box::<str>::from(input))))
        }
        Answer::Deny { message, .. } => {
            let reason = message.map(|text| format!(": {text}")).unwrap_or_default();
            Err(refused(passage, PermissionLayer::User, format!("{} was refused{reason}", passage.full_name)))
        }
    }
}

async fn patience(limit: Duration) {
    crate::runtime::entered().await;
    tokio::time::sleep(limit).await;
}

/// Answers for good hold for the session too; writing them to a file belongs to the configuration.
fn remember_answer(passage: &Passage<'_>, keeper: &Gatekeeper<'_>, remember: Option<Remember>) {
    let Some(remember) = remember else { return };
    lock(keeper.memory).remember(passage.server, &passage.tool.wire_name, true);
    if remember != Remember::Session {
        (keeper.keep)(remember);
    }
}

fn refused(passage: &Passage<'_>, layer: PermissionLayer, message: String) -> McpError {
    McpError::new(ErrorCode::PermissionDenied, message).on(passage.server).with(|facts| {
        facts.layer = Some(layer);
        // A person's word has no rule but the one that had them asked. (POL-11)
        facts.rule = Some(passage.rule.unwrap_or(QuestionKind::Permission.callback()).to_owned());
    })
}

/// JSON text of the `PermissionRequest`, without its signal.
fn question(passage: &Passage<'_>) -> String {
    let tool = passage.tool;
    let mut text = String::from("{\"server\":");
    push_string(&mut text, passage.server);
    text.push_str(",\"tool\":");
    push_string(&mut text, &tool.wire_name);
    text.push_str(",\"fullName\":");
    push_string(&mut text, passage.full_name);
    text.push_str(",\"input\":");
    text.push_str(passage.arguments);
    text.push_str(",\"description\":");
    push_string(&mut text, &tool.description);
    text.push_str(",\"annotations\":");
    text.push_str(&annotations(tool));
    text.push_str(",\"classification\":\"");
    text.push_str(tool.classification.as_str());
    text.push_str("\",\"reason\":");
    let reason = match passage.rule {
        _ if passage.changed_since.is_some() => "its definition has changed since it was approved".to_owned(),
        Some(rule) => format!("the rule \"{rule}\" asks"),
        None => "no rule allows or denies this tool".to_owned(),
    };
    push_string(&mut text, &reason);
    if let Some(before) = passage.changed_since {
        text.push_str(",\"changedSince\":");
        text.push_str(before);
    }
    text.push('}');
    text
}

/// The annotations as they stand in the public definition.
fn annotations(tool: &ToolDefinition) -> String {
    let object = format!("{{{}}}", tool.body);
    let [annotations] = json_scan::pick(&object, ["annotations"]);
    annotations.unwrap_or("{}").to_owned()
}
