//! Finding the tool that is meant: by full name or by server and own name, known or not yet, with what comes near where
//! there is none.

use std::sync::Arc;
use std::time::Duration;

use super::Manager;
use super::registry::ToolEntry;
use super::tools::CallOptions;
use super::view::View;
use crate::config::spec::TransportSpec;
use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError, PermissionLayer};
use crate::runtime;

/// Which tool is meant.
#[derive(Clone, Debug)]
pub enum ToolTarget {
    /// By full name.
    Full(String),
    /// By server and wire name.
    Pair {
        /// Server.
        server: String,
        /// The server's own name of the tool.
        tool: String,
    },
}

impl ToolTarget {
    pub(super) fn server(&self) -> Option<&str> {
        match self {
            ToolTarget::Full(_) => None,
            ToolTarget::Pair { server, .. } => Some(server),
        }
    }

    pub(super) fn tool(&self) -> &str {
        match self {
            ToolTarget::Full(name) => name,
            ToolTarget::Pair { tool, .. } => tool,
        }
    }
}

/// A list younger than this is not fetched again because of a name it does not hold.
pub(super) const SURELY_FRESH: Duration = Duration::from_secs(1);

impl Manager {
    /// A tool that is known right now.
    pub(super) fn known_tool(&self, target: &ToolTarget) -> Option<Arc<ToolEntry>> {
        let registry = runtime::read(&self.registry);
        match target {
            ToolTarget::Full(name) => registry.tool(name),
            ToolTarget::Pair { server, tool } => registry.tool_of(server, tool),
        }
        .cloned()
    }

    /// Looks for a tool that is not known: its server may not have been asked yet, or may have a new one.
    pub(super) async fn find_tool(
        &self,
        target: &ToolTarget,
        options: &CallOptions,
        view: Option<&Arc<View>>,
    ) -> Result<Arc<ToolEntry>, McpError> {
        self.loaded().await?;
        if let Some(entry) = self.known_tool(target) {
            return Ok(entry);
        }
        let server = match target {
            ToolTarget::Pair { server, .. } => server.clone(),
            ToolTarget::Full(name) => {
                if self.registry().server_of(name).is_none() {
                    self.connectors_settled().await;
                }
                let Some(server) = self.registry().server_of(name).map(str::to_owned) else {
                    return self.find_own_name(name, options, view).await;
                };
                server
            }
        };
        if view.is_some_and(|view| !view.has_server(&server)) {
            return Err(Self::no_such_tool_here(target));
        }
        let connection = self.connection(&server).await?;
        let clocks = connection.settings().clocks;
        let deadline = Deadline::start(clocks.tool(options.timeout, options.total));
        let live = connection.ready(&deadline, None).await?;
        connection.tools(&live).await?;
        if self.known_tool(target).is_none()
            && connection.catalog().tools.age(live.generation).is_none_or(|age| age > SURELY_FRESH)
        {
            connection.catalog().tools.mark_stale();
            connection.tools(&live).await?;
        }
        if let (true, ToolTarget::Pair { tool, .. }) = (connection.spec().is_ide(), target)
            && self.known_tool(target).is_none()
            && connection.catalog().tools.known().iter().any(|known| known.wire_name == *tool)
        {
            return Err(not_taken_over(&server, tool));
        }
        self.known_tool(target).ok_or_else(|| self.no_such_tool(&server, target))
    }

    /// Looks for a tool by its own name in the in-process servers, where those keep theirs (NAM-06).
    async fn find_own_name(
        &self,
        name: &str,
        options: &CallOptions,
        view: Option<&Arc<View>>,
    ) -> Result<Arc<ToolEntry>, McpError> {
        let table = self.table();
        let in_process = table.values().filter(|one| {
            matches!(one.spec().transport, TransportSpec::Sdk { .. })
                && view.is_none_or(|view| view.has_server(one.name()))
        });
        for connection in in_process.filter(|_| !self.options.sdk_prefix) {
            let deadline = Deadline::start(connection.settings().clocks.tool(options.timeout, options.total));
            // Another server may have it.
            let Ok(live) = connection.ready(&deadline, None).await else { continue };
            let _ = connection.tools(&live).await;
            if let Some(entry) = self.known_tool(&ToolTarget::Full(name.to_owned())) {
                return Ok(entry);
            }
        }
        Err(self.no_such_name(name))
    }

    /// A tool outside of a view does not exist there; nothing is said of what exists elsewhere.
    pub(super) fn no_such_tool_here(target: &ToolTarget) -> McpError {
        let what = format!("this view has no tool \"{}\"", shown(target.tool()));
        unknown(ErrorCode::ToolUnknown, what, Vec::new())
    }

    fn no_such_tool(&self, server: &str, target: &ToolTarget) -> McpError {
        let registry = self.registry();
        let (name, suggestions) = match target {
            ToolTarget::Full(name) => (name, registry.tools_like(name)),
            ToolTarget::Pair { tool, .. } => (tool, registry.tools_of_like(server, tool)),
        };
        unknown(ErrorCode::ToolUnknown, format!("the server has no tool \"{}\"", shown(name)), suggestions)
            .on(server)
    }

    /// A full name whose server is not configured, or that is no full name at all.
    fn no_such_name(&self, name: &str) -> McpError {
        let registry = self.registry();
        if let Some((server, _)) = crate::name::parse_tool_name(name) {
            return self.unknown_server(server);
        }
        let what = format!("no tool \"{}\" is known; full names are mcp__<server>__<tool>", shown(name));
        unknown(ErrorCode::ToolUnknown, what, registry.tools_like(name))
    }
}

/// An editor's tool outside of `ideAllowedTools`. (POL-10, POL-11)
fn not_taken_over(server: &str, tool: &str) -> McpError {
    let message = format!("\"{}\" is not among ideAllowedTools", shown(tool));
    McpError::new(ErrorCode::PermissionDenied, message).on(server).with(|facts| {
        facts.layer = Some(PermissionLayer::Ide);
        facts.rule = Some("ideAllowedTools".to_owned());
    })
}

/// A name as it stands in messages.
pub(super) fn shown(name: &str) -> String {
    crate::client::excerpt(&crate::unicode::clean_str_lossy(name), 200)
}

/// The error for a name that is not there, with those that come near.
pub(super) fn unknown(code: ErrorCode, what: String, suggestions: Vec<String>) -> McpError {
    let hint = match suggestions.first() {
        Some(first) => format!("{what}; did you mean \"{first}\"?"),
        None => what,
    };
    McpError::new(code, hint).with(|facts| facts.suggestions = Some(suggestions))
}
