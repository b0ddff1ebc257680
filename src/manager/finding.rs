//! Finding the tool that is meant: by full name or by server and own name, known or not yet, with what comes near where
//! there is none.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use super::Manager;
use super::registry::ToolEntry;
use super::tools::CallOptions;
use super::view::View;
use crate::config::spec::TransportSpec;
use crate::connection::{Connection, Live};
use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError, PermissionLayer};

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
        let registry = self.registry.read();
        match target {
            ToolTarget::Full(name) => registry.tool(name),
            ToolTarget::Pair { server, tool } => registry.tool_of(server, tool),
        }
        .cloned()
    }

    /// The tool that is meant, as its server defines it now, and the limits of the call: they hold for finding it too
    /// (PRO-06).
    pub(super) async fn meant_tool(
        &self,
        target: &ToolTarget,
        options: &CallOptions,
        view: Option<&Arc<View>>,
    ) -> Result<Found, McpError> {
        let (entry, deadline) = match self.known_tool(target) {
            Some(entry) => {
                let deadline = options.deadline(&entry.connection);
                (entry, deadline)
            }
            None => self.find_tool(target, options, view).await?,
        };
        if view.is_some_and(|view| !view.has(&entry)) {
            return Err(Self::no_such_tool_here(target));
        }
        let entry = self.with_current_definition(entry, target, &deadline).await?;
        Ok((entry, deadline))
    }

    /// Looks for a tool that is not known: its server may not have been asked yet, or may have a new one.
    pub(super) async fn find_tool(
        &self,
        target: &ToolTarget,
        options: &CallOptions,
        view: Option<&Arc<View>>,
    ) -> Result<Found, McpError> {
        self.loaded().await?;
        if let Some(entry) = self.known_tool(target) {
            let deadline = options.deadline(&entry.connection);
            return Ok((entry, deadline));
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
        let deadline = options.deadline(&connection);
        let tools = &connection.catalog().tools;
        let live = read_tools(&connection, &deadline).await?;
        if self.known_tool(target).is_none()
            && tools.error().is_none()
            && tools.age(live.generation).is_none_or(|age| age > SURELY_FRESH)
        {
            tools.mark_stale();
            read_tools(&connection, &deadline).await?;
        }
        deadline.touch();
        if let (true, ToolTarget::Pair { tool, .. }) = (connection.spec().is_ide(), target)
            && self.known_tool(target).is_none()
            && tools.known().iter().any(|known| known.wire_name == *tool)
        {
            return Err(not_taken_over(&server, tool));
        }
        match (self.known_tool(target), tools.error()) {
            (Some(entry), _) => Ok((entry, deadline)),
            // The list in force is an old one: nobody can say that there is no such tool.
            (None, Some(error)) => Err(error),
            (None, None) => Err(self.no_such_tool(&server, target)),
        }
    }

    /// Looks for a tool by its own name in the in-process servers, where those keep theirs (NAM-06).
    async fn find_own_name(
        &self,
        name: &str,
        options: &CallOptions,
        view: Option<&Arc<View>>,
    ) -> Result<Found, McpError> {
        let table = self.table();
        let in_process = table.values().filter(|one| {
            matches!(one.spec().transport, TransportSpec::Sdk { .. })
                && view.is_none_or(|view| view.has_server(one.name()))
        });
        let target = ToolTarget::Full(name.to_owned());
        let mut reads: FuturesUnordered<_> = in_process
            .filter(|_| !self.options.sdk_prefix)
            .map(|connection| async {
                let deadline = options.deadline(connection);
                // Another server may have it.
                let _ = read_tools(connection, &deadline).await;
                deadline
            })
            .collect();
        while let Some(deadline) = reads.next().await {
            if let Some(entry) = self.known_tool(&target) {
                deadline.touch();
                return Ok((entry, deadline));
            }
        }
        Err(self.no_such_name(name))
    }

    /// JSON text of the names of those tools that may run side by side with others (TOL-07). What is known is taken from
    /// there; for a tool that is not, its own server is asked, and no other.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a view that is closed.
    pub async fn safe_side_by_side(
        &self,
        names: Vec<String>,
        options: CallOptions,
    ) -> Result<String, McpError> {
        let view = self.view(options.view)?;
        let judged = names.iter().map(|name| async {
            let target = ToolTarget::Full(name.clone());
            let entry = match self.known_tool(&target) {
                Some(entry) => entry,
                // Why it cannot be had is for the call itself to say.
                None => self.find_tool(&target, &options, view.as_ref()).await.ok()?.0,
            };
            entry.definition().is_concurrency_safe().then_some(name.as_str())
        });
        let safe: Vec<&str> = join_all(judged).await.into_iter().flatten().collect();
        Ok(serde_json::json!(safe).to_string())
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

/// A tool and the limits of its call.
pub(super) type Found = (Arc<ToolEntry>, Arc<Deadline>);

/// Has the tools of a server read, within the limits of the call that needs them.
async fn read_tools(connection: &Connection, deadline: &Deadline) -> Result<Live, McpError> {
    let live = connection.ready(deadline, None).await?;
    let read = deadline.within("tools/list", connection.tools(&live)).await;
    read.map_err(|error| error.on(connection.name()))?;
    Ok(live)
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
