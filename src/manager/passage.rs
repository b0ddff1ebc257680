//! May this call be sent? The host's hook, permission rules and people, and who may call a tool at all.

use super::Manager;
use super::finding::shown;
use super::listing::Caller;
use super::persist::Persist;
use super::registry::ToolEntry;
use super::tools::Call;
use crate::call::gate::{Gatekeeper, Passage, pass};
use crate::call::hook::{HookedCall, before};
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError, PermissionLayer};
use crate::host::Host;
use crate::permission::Remember;
use crate::protocol::tool::ToolDefinition;

impl Manager {
    /// Hook and permission; the arguments that may be sent, where they are not those given.
    pub(super) async fn pass_gate(
        &self,
        call: &Call<'_>,
        arguments: &str,
    ) -> Result<Option<String>, McpError> {
        let outcome = self.ask_gate(call, arguments).await;
        let entry = call.entry;
        if self.is_audited() {
            let (word, layer, rule) = match &outcome {
                Ok(_) => ("allow", None, entry.rule.as_deref()),
                Err(error) => ("deny", error.facts().layer, error.facts().rule.as_deref()),
            };
            let details = serde_json::json!({
                "tool": entry.definition().wire_name, "decision": word, "layer": layer, "rule": rule,
            });
            self.audit("permission", entry.connection.name(), details);
        }
        outcome
    }

    async fn ask_gate(&self, call: &Call<'_>, arguments: &str) -> Result<Option<String>, McpError> {
        let Call { entry, deadline, view, .. } = *call;
        let patience = self.options.permission_timeout;
        let host: &dyn Host = view.map_or(self.post.as_ref(), |view| view.as_ref());
        let tool = entry.definition();
        let server = entry.connection.name();
        let hooked = HookedCall { server, tool: &tool.wire_name, full_name: &entry.full_name, arguments };
        let rewritten = before(hooked, host, patience, deadline).await?;
        let verdict = match view {
            Some(view) => view.decide(entry),
            None => entry.verdict(),
        };
        let passage = Passage {
            server,
            tool,
            full_name: &entry.full_name,
            arguments: rewritten.as_deref().unwrap_or(arguments),
            decision: verdict.decision,
            rule: verdict.rule,
            changed_since: entry.standing.changed.as_deref(),
        };
        let keeper = Gatekeeper {
            host,
            memory: view.map_or(&self.memory, |view| &view.memory),
            patience,
            keep: &|remember| self.keep_permission(remember, server, tool),
        };
        let passed = pass(passage, keeper, deadline).await?;
        self.pin_passed(entry);
        Ok(passed.or(rewritten))
    }

    /// Writes an allow rule for one tool to a settings file; a failure is told, the call goes on. (POL-08)
    fn keep_permission(&self, remember: Remember, server: &str, tool: &ToolDefinition) {
        let persist = if remember == Remember::User { Persist::User } else { Persist::Local };
        let rule = crate::name::build_tool_name(server, &tool.wire_name);
        match self.write_allow_rule(persist, rule) {
            Ok(()) => self.note_kept(server, tool, persist),
            Err(error) => {
                let message = format!("the permission holds for this session only: {}", error.message());
                self.diagnose(&Diagnostic::warning("PERMISSION_NOT_KEPT", message).on(server));
            }
        }
    }
}

/// A tool is called by whom its server offers it to: apps reach only their own server, and models no tool that is
/// meant for apps alone (mcp:APP-03, 04).
pub(super) fn check_caller(entry: &ToolEntry, app: Option<&str>) -> Result<(), McpError> {
    let server = entry.connection.name();
    let why = match app {
        None if Caller::Model.sees(entry) => return Ok(()),
        None => "its server offers it to its own app alone (option app)".to_owned(),
        Some(app) if app != server => format!("it is not a tool of \"{}\", whose app calls it", shown(app)),
        Some(_) if Caller::App.sees(entry) => return Ok(()),
        Some(_) => "its server does not offer it to its app".to_owned(),
    };
    let message = format!("{} is refused: {why}", entry.full_name);
    Err(McpError::new(ErrorCode::PermissionDenied, message).on(server).with(|facts| {
        facts.layer = Some(PermissionLayer::Rule);
        facts.rule = Some("_meta.ui.visibility".to_owned());
    }))
}
