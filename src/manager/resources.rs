//! Resources and the rest of the protocol: reading, subscribing, completing, log levels.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::value::RawValue;

use super::Manager;
use super::finding::shown;
use super::registry::PromptEntry;
use super::tools::CallOptions;
use super::view::View;
use crate::call::resource_contents::{BlobMode, MappedContents, map_resource_contents};
use crate::client::Request;
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError};
use crate::json_scan;
use crate::jsonrpc::write::{Params, inner_members, push_member, push_string};
use crate::protocol::app;
use crate::protocol::completion::{completion_of, replaced, with_wire_names};
use crate::protocol::resource::{ResourceDefinition, UriRestore};
use crate::runtime;

/// Which of the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceList {
    /// Resources.
    Resources,
    /// Templates.
    Templates,
}

impl Manager {
    /// JSON text of the resources or templates of all connected servers, or of one; a server that fails never
    /// hides the others (RES-01).
    ///
    /// # Errors
    /// With a server: why its list cannot be had.
    pub async fn list_resources(&self, list: ResourceList, server: Option<&str>) -> Result<String, McpError> {
        let connections = self.lists_of(server).await?;
        // Side by side: a server that does not answer holds up no other (LIF-03).
        let reads = connections.iter().map(|(connection, live)| async move {
            match list {
                ResourceList::Resources => connection.resources(live).await,
                ResourceList::Templates => connection.templates(live).await,
            }
        });
        let mut items: Vec<String> = Vec::new();
        for read in join_all(reads).await {
            match read {
                Ok(resources) => items.extend(resources.iter().map(|resource| resource.json.clone())),
                Err(error) if server.is_some() => return Err(error),
                // It stands in the server's status.
                Err(_) => {}
            }
        }
        Ok(format!("[{}]", items.join(",")))
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// Those of any request; `RESULT_INVALID` for an answer that is none.
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
        blobs: BlobMode,
        options: CallOptions,
    ) -> Result<MappedContents, McpError> {
        let connection = self.connection(server).await?;
        let wire_uri = wire_uri(&connection, uri);
        let text = self
            .plain_request(&connection, "resources/read", &[("uri", &wire_uri)], options)
            .await
            .map_err(|error| about_uri(error, uri))?;
        if self.options.apps
            && app::is_view(uri)
            && let Some(kind) = app::wrong_type(&text)
        {
            let message = format!("{} is no view: its type is \"{}\"", shown(uri), shown(&kind));
            return Err(McpError::new(ErrorCode::ResultInvalid, message).on(server));
        }
        let rules = self.output_rules(server, uri);
        let mapped = runtime::at_length(text.len(), || map_resource_contents(&text, blobs, &rules))
            .map_err(|error| error.on(server))?;
        for warning in &mapped.warnings {
            self.diagnose(warning);
        }
        Ok(mapped)
    }

    /// Subscribes to a resource, or ends the subscription.
    ///
    /// # Errors
    /// Those of any request.
    pub async fn subscribe(&self, server: &str, uri: &str, subscribe: bool) -> Result<(), McpError> {
        let connection = self.connection(server).await?;
        let wire_uri = wire_uri(&connection, uri);
        let deadline = Arc::new(Deadline::start(connection.settings().clocks.request(None, None)));
        let live = connection.ready(&deadline, None).await?;
        connection.subscribe(&live, &wire_uri, subscribe, &deadline).await
    }

    /// Sets the least severe level of log messages that a server sends.
    ///
    /// # Errors
    /// Those of any request.
    pub async fn set_log_level(&self, server: &str, level: &str) -> Result<(), McpError> {
        let connection = self.connection(server).await?;
        let deadline = Arc::new(Deadline::start(connection.settings().clocks.request(None, None)));
        let live = connection.ready(&deadline, None).await?;
        connection.set_log_level(&live, level, &deadline).await
    }

    /// Asks for completions; `reference`, `argument` and `context` are JSON texts. Returns the JSON text of
    /// `completion`.
    ///
    /// # Errors
    /// Those of any request; `RESULT_INVALID` for an answer without `completion`.
    pub async fn complete(
        &self,
        server: &str,
        reference: &str,
        argument: &str,
        context: Option<&str>,
    ) -> Result<String, McpError> {
        let connection = self.connection(server).await?;
        let (reference, prompt) = self.wire_reference(&connection, reference).await;
        let (argument, context) = match &prompt {
            Some(prompt) => with_wire_names(prompt.definition(), argument, context),
            None => (argument.to_owned(), context.map(str::to_owned)),
        };
        let mut members = String::new();
        push_member(&mut members, "ref", &reference);
        push_member(&mut members, "argument", &argument);
        if let Some(context) = &context {
            push_member(&mut members, "context", context);
        }
        let params = Params::from_members(members, String::new());
        let text = self.send(&connection, "completion/complete", &params, CallOptions::default()).await?;
        let [completion] = json_scan::pick(&text, ["completion"]);
        completion.and_then(completion_of).ok_or_else(|| {
            McpError::new(ErrorCode::ResultInvalid, "the answer to completion/complete has no completion")
                .on(server)
        })
    }

    /// What is completed, as the server names it: hosts know prompts and addresses by what they are shown (SEC-01).
    async fn wire_reference(
        &self,
        connection: &Connection,
        reference: &str,
    ) -> (String, Option<Arc<PromptEntry>>) {
        let [kind, name, uri] = json_scan::pick(reference, ["type", "name", "uri"]);
        let (name, uri) = (name.and_then(json_scan::decode), uri.and_then(json_scan::decode));
        match (kind.and_then(json_scan::decode).as_deref(), name, uri) {
            (Some("ref/prompt"), Some(name), _) => {
                let Some(prompt) = self.prompt_of(connection, &name).await else {
                    // The server judges a name that stays unknown.
                    return (reference.to_owned(), None);
                };
                let name = json_scan::quote(&prompt.definition().wire_name);
                (replaced(reference, "name", &name), Some(prompt))
            }
            (Some("ref/resource"), _, Some(uri)) => {
                let uri = json_scan::quote(&wire_uri(connection, &uri));
                (replaced(reference, "uri", &uri), None)
            }
            _ => (reference.to_owned(), None),
        }
    }

    /// Measures the way to a server and back, in milliseconds.
    ///
    /// # Errors
    /// Those of any request.
    pub async fn ping(&self, server: &str) -> Result<f64, McpError> {
        let connection = self.connection(server).await?;
        let deadline = Arc::new(Deadline::start(connection.settings().clocks.request(None, None)));
        Ok(connection.ping(&deadline).await?.as_secs_f64() * 1_000.0)
    }

    async fn plain_request(
        &self,
        connection: &Connection,
        method: &str,
        fields: &[(&str, &str)],
        options: CallOptions,
    ) -> Result<String, McpError> {
        let mut members = String::new();
        for (name, value) in fields {
            let mut literal = String::new();
            push_string(&mut literal, value);
            push_member(&mut members, name, &literal);
        }
        let meta = options.meta.as_deref().and_then(inner_members).unwrap_or_default().to_owned();
        self.send(connection, method, &Params::from_members(members, meta), options).await
    }

    async fn send(
        &self,
        connection: &Connection,
        method: &str,
        params: &Params,
        options: CallOptions,
    ) -> Result<String, McpError> {
        let clocks = connection.settings().clocks;
        let deadline = Arc::new(Deadline::start(clocks.request(options.timeout, options.total)));
        let host = View::host(self.view(options.view)?.as_ref());
        let (progress, host, tally) = (options.progress.as_ref(), host.as_ref(), options.tally());
        let request = Request { progress, host, tally, ..Request::new(method, params, &deadline) };
        Ok(connection.request(request).await?.into_string())
    }
}

/// What was not found, also where the server does not say so itself (mcp:RES-08, mcp:RES-09).
fn about_uri(error: McpError, uri: &str) -> McpError {
    if !matches!(error.facts().rpc_code, Some(-32002 | -32602)) || error.facts().data.is_some() {
        return error;
    }
    let data = RawValue::from_string(serde_json::json!({ "uri": uri }).to_string()).ok();
    error.with(|facts| facts.data = data.map(Arc::from))
}

/// The URI as the server wrote it: what is shown may have been cleaned.
fn wire_uri(connection: &Connection, uri: &str) -> String {
    let known = connection.catalog().resources.known();
    if known.iter().all(|resource: &ResourceDefinition| resource.uri == resource.wire_uri) {
        return uri.to_owned();
    }
    UriRestore::learn(&known).wire_uri(uri).to_owned()
}
