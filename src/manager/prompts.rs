//! Prompts: listing, getting, and the slash form (PRM-01).

use std::sync::Arc;

use futures_util::future::join_all;

use super::Manager;
use super::finding::{shown, unknown};
use super::listing::is_shown;
use super::registry::PromptEntry;
use super::span::Subject;
use super::tools::CallOptions;
use super::view::View;
use crate::call::output::map_prompt;
use crate::client::Request;
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError};
use crate::jsonrpc::write::{Params, inner_members, push_member, push_string};
use crate::protocol::prompt::{arguments_from_positional, check_named, parse_slash_line};

/// Arguments of a prompt as callers give them.
#[derive(Clone, Debug)]
pub enum PromptArguments {
    /// By name.
    Named(Vec<(String, String)>),
    /// By order.
    Positional(Vec<String>),
}

impl Manager {
    /// JSON text of the prompts of all connected servers, or of one.
    ///
    /// # Errors
    /// With a server: why its list cannot be had.
    pub async fn list_prompts(&self, server: Option<&str>) -> Result<String, McpError> {
        let connections = self.listed(server).await?;
        // Side by side: a server that does not answer holds up no other (LIF-03).
        let reads = connections
            .iter()
            .filter_map(|(connection, live)| Some((connection, live.as_ref()?)))
            .map(|(connection, live)| connection.prompts(live));
        for read in join_all(reads).await {
            if let (Err(error), Some(_)) = (read, server) {
                return Err(error);
            }
        }
        let registry = self.registry();
        let mut items = Vec::new();
        for (connection, _) in &connections {
            if is_shown(connection) {
                items.extend(registry.prompts_of(connection.name()).iter().map(|entry| public_prompt(entry)));
            }
        }
        Ok(format!("[{}]", items.join(",")))
    }

    /// Gets a prompt; JSON text of the `PromptResult`.
    ///
    /// # Errors
    /// `PROMPT_UNKNOWN` with near misses, `INPUT_INVALID` naming missing arguments, and those of any request.
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: PromptArguments,
        options: CallOptions,
    ) -> Result<String, McpError> {
        let (entry, deadline) = self.find_prompt(name, &options).await?;
        let (connection, prompt) = (&entry.connection, entry.definition());
        let server = connection.name();
        if let Some(span) = &options.span {
            span.begin("prompts/get", Some(server), Subject::Prompt(&prompt.wire_name));
        }
        let values = match &arguments {
            PromptArguments::Named(values) => check_named(prompt, values),
            PromptArguments::Positional(values) => arguments_from_positional(prompt, values),
        }
        .map_err(|error| error.on(server))?;
        let mut object = String::new();
        for (name, value) in &values {
            let mut literal = String::new();
            push_string(&mut literal, value);
            push_member(&mut object, name, &literal);
        }
        let mut members = String::from("\"name\":");
        push_string(&mut members, &prompt.wire_name);
        push_member(&mut members, "arguments", &format!("{{{object}}}"));
        let meta = options.meta.as_deref().and_then(inner_members).unwrap_or_default().to_owned();
        let params = Params::from_members(members, meta);
        let host = View::host(self.view(options.view)?.as_ref());
        let (progress, host, tally) = (options.progress.as_ref(), host.as_ref(), options.tally());
        let request = Request { progress, host, tally, ..Request::new("prompts/get", &params, &deadline) };
        let reply = connection.request(request).await?;
        let rules = self.output_rules(server, &entry.full_name);
        let reply = reply.into_string();
        let mapped = crate::runtime::at_length(reply.len(), || map_prompt(&reply, &rules))
            .map_err(|error| error.on(server))?;
        for warning in &mapped.warnings {
            self.diagnose(warning);
        }
        Ok(mapped.value)
    }

    /// Runs `/mcp__server__prompt a "b c"`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a line that is no slash command, else as [`Manager::get_prompt`].
    pub async fn run_slash_command(&self, line: &str, options: CallOptions) -> Result<String, McpError> {
        let (name, words) = parse_slash_line(line)?;
        self.get_prompt(&name, PromptArguments::Positional(words), options).await
    }

    /// The prompt, and the limits of the request for it: they hold for finding it too (PRO-06).
    async fn find_prompt(
        &self,
        name: &str,
        options: &CallOptions,
    ) -> Result<(Arc<PromptEntry>, Arc<Deadline>), McpError> {
        self.loaded().await?;
        let limits = |connection: &Connection| {
            let clocks = connection.settings().clocks;
            Arc::new(Deadline::start(clocks.request(options.timeout, options.total)))
        };
        if let Some(entry) = self.registry().prompt(name) {
            return Ok((Arc::clone(entry), limits(&entry.connection)));
        }
        let server = self.registry().server_of(name).map(str::to_owned);
        if let Some(server) = &server {
            let connection = self.connection(server).await?;
            let deadline = limits(&connection);
            let live = connection.ready(&deadline, None).await?;
            let read = deadline.within("prompts/list", connection.prompts(&live)).await;
            read.map_err(|error| error.on(server))?;
            deadline.touch();
            if let Some(entry) = self.registry().prompt(name) {
                return Ok((Arc::clone(entry), deadline));
            }
            // The list in force is an old one: nobody can say that there is no such prompt.
            if let Some(error) = connection.catalog().prompts.error() {
                return Err(error);
            }
        }
        let registry = self.registry();
        let what = format!("no prompt \"{}\" is known", shown(name));
        let error = unknown(ErrorCode::PromptUnknown, what, registry.prompts_like(name));
        Err(match (server, crate::name::parse_tool_name(name)) {
            (Some(server), _) => error.on(&server),
            (None, Some((server, _))) => self.unknown_server(server),
            (None, None) => error,
        })
    }

    /// A prompt of a server by its wire name, its full name or the name that is shown, for completion; its list is asked
    /// for where none is known by that name.
    pub(super) async fn prompt_of(&self, connection: &Connection, name: &str) -> Option<Arc<PromptEntry>> {
        if let Some(entry) = self.registry().prompt_of(connection.name(), name) {
            return Some(Arc::clone(entry));
        }
        let deadline = Deadline::start(connection.settings().clocks.request(None, None));
        let live = connection.ready(&deadline, None).await.ok()?;
        connection.prompts(&live).await.ok()?;
        self.registry().prompt_of(connection.name(), name).cloned()
    }
}

fn public_prompt(entry: &PromptEntry) -> String {
    let prompt = entry.definition();
    let mut text = String::from("{\"name\":");
    push_string(&mut text, &entry.full_name);
    text.push(',');
    text.push_str(&prompt.body);
    text.push('}');
    text
}
