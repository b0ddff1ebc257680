//! Which servers are listed, and the list of tools under their full names (TOL-03, LIF-09).

use std::sync::Arc;

use serde::Deserialize;

use super::Manager;
use super::registry::ToolEntry;
use super::view::View;
use crate::connection::status::PublicState;
use crate::connection::{Connection, Live};
use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError};
use crate::jsonrpc::write::push_string;
use crate::permission::Decision;

impl Manager {
    /// JSON text of the tools of all connected servers, or of one, which is connected if need be; in a view
    /// those that exist there.
    ///
    /// # Errors
    /// With a server: why its list cannot be had. Without: none; what fails stands in the status.
    pub async fn list_tools(
        &self,
        server: Option<&str>,
        view: Option<u32>,
        list: ToolList,
    ) -> Result<String, McpError> {
        let ToolList { loaded, order, caller } = list;
        let view = self.view(view)?;
        let view = view.as_deref();
        let shown = self.tools_fetched(server, view).await?;
        let registry = self.registry();
        let entries = shown.iter().flat_map(|connection| registry.tools_of(connection.name()));
        let mut wanted: Vec<&Arc<ToolEntry>> = entries
            .filter(|entry| is_offered(entry, view, caller) && (!loaded || self.is_loaded(entry, view)))
            .collect();
        if server.is_none() && caller == Caller::Model {
            self.tell_crowding(wanted.iter().map(|entry| entry.connection.name()));
        }
        let wanted = match order {
            ToolOrder::Name => {
                wanted.sort_by(|a, b| a.name.cmp(&b.name));
                wanted
            }
            ToolOrder::Arrival => self.loaded_in(view).arrivals.sorted(loaded, &wanted),
        };
        Ok(tools_json(wanted.into_iter()))
    }

    /// The servers whose tools are shown, after those that are connected were asked for them.
    pub(super) async fn tools_fetched(
        &self,
        server: Option<&str>,
        view: Option<&View>,
    ) -> Result<Vec<Connection>, McpError> {
        if let (Some(view), Some(server)) = (view, server)
            && !view.has_server(server)
        {
            return Err(not_in_view(server));
        }
        let mut connections = self.listed(server).await?;
        if let Some(view) = view {
            connections.retain(|(connection, _)| view.has_server(connection.name()));
        }
        let reads = connections.iter().map(|(connection, live)| {
            let (connection, live) = (connection.clone(), live.clone());
            tokio::spawn(async move {
                match live {
                    Some(live) => connection.tools(&live).await.map(drop),
                    None => Ok(()),
                }
            })
        });
        for read in reads.collect::<Vec<_>>() {
            if let (Ok(Err(error)), Some(_)) = (read.await, server) {
                return Err(error);
            }
        }
        let shown = connections.into_iter().map(|(connection, _)| connection);
        Ok(shown.filter(is_shown).collect())
    }

    /// The servers whose tools or prompts are asked for, in the order of names: those that are connected, and
    /// those that start late, from what they offered when they last ran (LIF-09).
    pub(super) async fn listed(
        &self,
        server: Option<&str>,
    ) -> Result<Vec<(Connection, Option<Live>)>, McpError> {
        if let Some(server) = server {
            let connection = self.connection(server).await?;
            if connection.lists_without_connection() {
                return Ok(vec![(connection, None)]);
            }
            let live = self.lists_of(Some(server)).await?;
            return Ok(live.into_iter().map(|(connection, live)| (connection, Some(live))).collect());
        }
        self.connected_once().await?;
        let table = self.table();
        let listed = table.values().filter_map(|one| match one.live() {
            None if one.lists_without_connection() => Some((one.clone(), None)),
            live => Some((one.clone(), Some(live?))),
        });
        Ok(listed.collect())
    }

    /// The connected servers whose lists are asked for.
    pub(super) async fn lists_of(&self, server: Option<&str>) -> Result<Vec<(Connection, Live)>, McpError> {
        let Some(server) = server else {
            self.connected_once().await?;
            let table = self.table();
            return Ok(table.values().filter_map(|one| Some((one.clone(), one.live()?))).collect());
        };
        let connection = self.connection(server).await?;
        let deadline = Deadline::start(connection.settings().clocks.request(None, None));
        let live = connection.ready(&deadline, None).await?;
        Ok(vec![(connection, live)])
    }
}

/// Whether the names of a server are shown now (TOL-03).
pub(super) fn is_shown(connection: &Connection) -> bool {
    connection.snapshot().state() == PublicState::Connected || connection.lists_without_connection()
}

pub(super) fn not_in_view(server: &str) -> McpError {
    McpError::new(ErrorCode::ServerUnknown, "this view has no such server").on(server)
}

/// Which tools are listed, and how.
#[derive(Clone, Copy, Debug)]
pub struct ToolList {
    /// Only those that stand in the model's context (TOL-05).
    pub loaded: bool,
    /// What comes before what.
    pub order: ToolOrder,
    /// Who is to call them.
    pub caller: Caller,
}

/// The order of a list of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolOrder {
    /// By full name.
    #[default]
    Name,
    /// As they came into this list: later ones at the end (L7).
    Arrival,
}

/// Who is to call a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A model.
    Model,
    /// The app of the tool's server.
    App,
}

impl Caller {
    /// Whether the server offers the tool to this caller (mcp:APP-03, 04).
    pub(super) fn sees(self, entry: &ToolEntry) -> bool {
        let visibility = entry.definition().visibility;
        match self {
            Caller::Model => visibility.model,
            Caller::App => visibility.app,
        }
    }
}

/// Whether a tool is offered: neither a rule nor the view takes it away (POL-06, BEY-01), nor its server.
pub(super) fn is_offered(entry: &ToolEntry, view: Option<&View>, caller: Caller) -> bool {
    if !caller.sees(entry) {
        return false;
    }
    match view {
        None => entry.decision != Decision::Deny,
        Some(view) => view.has(entry) && view.decide(entry).decision != Decision::Deny,
    }
}

/// JSON text of an array of public `Tool`s.
pub(super) fn tools_json<'a>(entries: impl Iterator<Item = &'a Arc<ToolEntry>>) -> String {
    let mut text = String::from("[");
    for entry in entries {
        if text.len() > 1 {
            text.push(',');
        }
        push_tool(&mut text, entry);
    }
    text.push(']');
    text
}

/// The public `Tool`.
fn push_tool(text: &mut String, entry: &ToolEntry) {
    let tool = entry.definition();
    text.push_str("{\"name\":");
    push_string(text, &entry.name);
    text.push_str(",\"mcpInfo\":{\"serverName\":");
    push_string(text, entry.connection.name());
    text.push_str(",\"toolName\":");
    push_string(text, &tool.wire_name);
    text.push_str("},");
    text.push_str(&tool.body);
    text.push('}');
}
