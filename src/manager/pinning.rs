//! What follows from a change of a tool's definition: who hears of it, what is forgotten, how it is confirmed (SEC-06).

use std::sync::Arc;

use super::Manager;
use super::finding::ToolTarget;
use super::persist::Persist;
use super::pins::{Change, Standing};
use super::registry::ToolEntry;
use super::rules::Rules;
use super::tools::CallOptions;
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::diagnostic::Diagnostic;
use crate::error::McpError;
use crate::host::{Host, HostEvent};
use crate::jsonrpc::write::{push_member, push_string};
use crate::permission::Decision;
use crate::protocol::tool::ToolDefinition;
use crate::runtime::lock;

impl Manager {
    /// Compares the tools of all servers with what was approved.
    pub(super) fn examine_tools(
        &self,
        connections: &[Connection],
        rules: &Arc<Rules>,
    ) -> Vec<(String, Change)> {
        let mut found = Vec::new();
        for connection in connections.iter().filter(|one| one.catalog().tools.ever_read()) {
            let tools = connection.catalog().tools.known();
            let (changes, news) = self.pins.examine(connection.spec(), &tools, rules);
            for change in &changes {
                lock(&self.memory).forget(connection.name(), &change.tool);
                self.forget_in_views(connection.name(), &change.tool);
            }
            found.extend(changes.into_iter().map(|change| (connection.name().to_owned(), change)));
            if news {
                self.write_pins(connection.name());
            }
        }
        found
    }

    /// Tells of a changed tool, and takes back what was written for the earlier one.
    pub(super) fn definition_changed(&self, server: &str, change: Change) {
        let mut members = String::new();
        for (name, text) in [("server", server), ("tool", change.tool.as_str())] {
            let mut literal = String::new();
            push_string(&mut literal, text);
            push_member(&mut members, name, &literal);
        }
        push_member(&mut members, "before", &change.before);
        push_member(&mut members, "after", &change.after);
        let body = format!("{{{members}}}");
        self.post.emit(HostEvent { name: "toolDefinitionChanged", body, key: None });
        let Some(manager) = self.this.upgrade().filter(|_| !change.kept.is_empty()) else { return };
        let server = server.to_owned();
        self.pins.write_later(move || {
            let rule = crate::name::build_tool_name(&server, &change.tool);
            for persist in change.kept {
                if let Err(error) = manager.erase_allow_rule(persist, rule.clone()) {
                    let message = format!("the rule {rule} was not taken back: {}", error.message());
                    manager.diagnose(&Diagnostic::warning("PERMISSION_NOT_DROPPED", message).on(&server));
                }
            }
        });
    }

    /// The tool as its server defines it now. After a `list_changed`, or when its server has just come, the list is
    /// read before anybody decides on a definition that may be gone.
    pub(super) async fn with_current_definition(
        &self,
        entry: Arc<ToolEntry>,
        target: &ToolTarget,
        deadline: &Deadline,
    ) -> Result<Arc<ToolEntry>, McpError> {
        let connection = &entry.connection;
        let tools = &connection.catalog().tools;
        if !self.pins.are_on()
            || entry.decision == Decision::Deny
            || connection.live().is_some_and(|live| tools.was_tried(live.generation))
        {
            return Ok(entry);
        }
        let live = connection.ready(deadline, None).await?;
        // Where it cannot be read the last one stays in force, and there is time left to call it.
        if deadline.for_half(connection.tools(&live)).await.is_some() {
            deadline.touch();
        }
        Ok(self.known_tool(target).unwrap_or(entry))
    }

    /// A call of a tool has passed: what it is now is what was approved.
    pub(super) fn pin_passed(&self, entry: &ToolEntry) {
        let Standing { pinned, changed, .. } = &entry.standing;
        if *pinned && changed.is_none() {
            return;
        }
        if self.pins.approve(entry.connection.name(), entry.definition()) {
            self.write_pins(entry.connection.name());
            if changed.is_some() {
                self.rename();
            }
        }
    }

    /// A permission for a tool was written.
    pub(super) fn note_kept(&self, server: &str, tool: &ToolDefinition, persist: Persist) {
        self.pins.note_kept(server, tool, persist);
        self.write_pins(server);
    }

    /// Confirms the definition of a tool as it is now.
    ///
    /// # Errors
    /// `SERVER_UNKNOWN`, `TOOL_UNKNOWN`, and why the server's list cannot be had.
    pub async fn approve_tool(&self, server: &str, tool: &str) -> Result<(), McpError> {
        let target = ToolTarget::Pair { server: server.to_owned(), tool: tool.to_owned() };
        let (entry, _) = self.find_tool(&target, &CallOptions::default(), None).await?;
        if self.pins.approve(server, entry.definition()) {
            self.write_pins(server);
            self.rename();
        }
        Ok(())
    }

    fn write_pins(&self, server: &str) {
        let Some(manager) = self.this.upgrade() else { return };
        let server = server.to_owned();
        self.pins.write_later(move || {
            if let Err(error) = manager.pins.write(&server) {
                let message =
                    format!("definitions of tools are pinned for this session only: {}", error.message());
                manager.diagnose_once(&Diagnostic::warning("PINS_NOT_KEPT", message).on(&server));
            }
        });
    }
}
