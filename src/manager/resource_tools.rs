//! Two tools of our own for every server with resources: so that a model can list and read them. (TOL-06, POL-09)
//!
//! Owns: their definitions, and what a call of them does. Names and permission are like those of any tool.

use std::sync::{Arc, OnceLock};

use futures_util::future::join_all;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Manager;
use super::finding::shown;
use super::listing::not_in_view;
use super::registry::{ToolEntry, ToolKind};
use super::tools::{Call, CallOptions};
use super::view::View;
use crate::call::resource_contents::{BlobMode, MappedContents};
use crate::connection::{Connection, Live};
use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError, PermissionLayer};
use crate::permission::Decision;
use crate::protocol::classify::Classifier;
use crate::protocol::resource::ResourceDefinition;
use crate::protocol::tool::{ToolDefinition, map_tools};

/// Stands for every server in the argument `server`.
const EVERY: &str = "*";

const DEFINITIONS: &str = r#"[
    {
        "name": "mcp_list_resources",
        "description": "Lists the resources of this MCP server as JSON: their URIs, names and descriptions.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "server": { "type": "string", "description": "Another server, or \"*\" for all. Default: this one." }
            },
            "additionalProperties": false
        },
        "annotations": { "title": "List resources", "readOnlyHint": true, "idempotentHint": true }
    },
    {
        "name": "mcp_read_resource",
        "description": "Reads a resource of this MCP server by its URI.",
        "inputSchema": {
            "type": "object",
            "properties": { "uri": { "type": "string", "description": "URI of the resource, as listed." } },
            "required": ["uri"],
            "additionalProperties": false
        },
        "annotations": { "title": "Read a resource", "readOnlyHint": true, "idempotentHint": true }
    }
]"#;

/// The definitions, in the order of [`ToolKind::OF_RESOURCES`].
pub(super) fn definitions() -> Arc<Vec<ToolDefinition>> {
    static KNOWN: OnceLock<Arc<Vec<ToolDefinition>>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let raws: Vec<&RawValue> = serde_json::from_str(DEFINITIONS).unwrap_or_default();
        Arc::new(map_tools("", &raws, &Classifier::default()).0)
    });
    Arc::clone(known)
}

#[derive(Deserialize)]
struct ListArguments {
    #[serde(default)]
    server: Option<String>,
}

#[derive(Deserialize)]
struct ReadArguments {
    uri: String,
}

fn arguments<T: DeserializeOwned>(entry: &ToolEntry, text: &str, expected: &str) -> Result<T, McpError> {
    serde_json::from_str(text).map_err(|_| {
        let message = format!("{} takes {expected}", entry.full_name);
        McpError::new(ErrorCode::InputInvalid, message).on(entry.connection.name())
    })
}

impl Manager {
    /// The result of a call, in the form in which a server would have sent it.
    ///
    /// # Errors
    /// `INPUT_INVALID`, `SERVER_UNKNOWN`, `PERMISSION_DENIED` for another server whose own tool is not allowed, and
    /// those of listing and reading.
    pub(super) async fn run_resource_tool(&self, call: &Call<'_>, text: &str) -> Result<String, McpError> {
        let Call { entry, deadline, options, view, .. } = *call;
        if entry.kind == ToolKind::ReadResource {
            let wanted: ReadArguments = arguments(entry, text, "{uri: string}")?;
            let options = CallOptions {
                timeout: options.timeout,
                total: options.total,
                progress: options.progress.clone(),
                meta: options.meta.clone(),
                view: options.view,
                app: None,
                span: options.span.clone(),
            };
            let server = entry.connection.name();
            let contents = self.read_resource(server, &wanted.uri, BlobMode::File, options).await?;
            return Ok(text_result(&texts_of(contents)));
        }
        let wanted: ListArguments = arguments(entry, text, "{server?: string}")?;
        let own = entry.connection.name();
        let mut items = Vec::new();
        if wanted.server.as_deref() == Some(EVERY) {
            let table = self.table();
            // One that may not be asked is left out.
            let asked = table.values().filter(|one| {
                view.is_none_or(|view| view.has_server(one.name()))
                    && self.may_list(entry, one.name(), view).is_ok()
            });
            let reads = asked.filter_map(|one| Some(resources_within(deadline, one, one.live()?)));
            // One that fails hides no other (RES-01).
            for resources in join_all(reads).await.iter().flatten() {
                items.extend(resources.iter().map(|resource| resource.json.clone()));
            }
        } else {
            let connection = match wanted.server.as_deref().filter(|name| *name != own) {
                None => entry.connection.clone(),
                Some(other) => self.other_server(entry, other, view).await?,
            };
            let live = connection.ready(deadline, None).await?;
            let resources = resources_within(deadline, &connection, live).await?;
            items.extend(resources.iter().map(|resource| resource.json.clone()));
        }
        Ok(text_result(&[format!("[{}]", items.join(","))]))
    }

    async fn other_server(
        &self,
        entry: &ToolEntry,
        other: &str,
        view: Option<&Arc<View>>,
    ) -> Result<Connection, McpError> {
        if view.is_some_and(|view| !view.has_server(other)) {
            return Err(not_in_view(other));
        }
        let connection = self.connection(other).await?;
        self.may_list(entry, other, view)?;
        Ok(connection)
    }

    /// Whether the list of another server may be given: its own tool would have to run without a question.
    fn may_list(&self, entry: &ToolEntry, other: &str, view: Option<&Arc<View>>) -> Result<(), McpError> {
        if other == entry.connection.name() {
            return Ok(());
        }
        let registry = self.registry();
        let own = registry.tools_of(other).iter().find(|one| one.kind == ToolKind::ListResources);
        let Some(own) = own.filter(|own| view.is_none_or(|view| view.has(own))) else {
            let message = format!("the server \"{}\" offers no resources here", shown(other));
            return Err(McpError::new(ErrorCode::ToolUnknown, message).on(other));
        };
        let verdict = view.map_or_else(|| own.verdict(), |view| view.decide(own));
        if verdict.decision == Decision::Allow {
            return Ok(());
        }
        let rule = verdict.rule.unwrap_or_default().to_owned();
        let message = format!("the rule \"{rule}\" is about {}; call that one", own.full_name);
        Err(McpError::new(ErrorCode::PermissionDenied, message).on(other).with(|facts| {
            facts.layer = Some(PermissionLayer::Rule);
            facts.rule = Some(rule);
        }))
    }
}

/// The resources of a server, within the limits of the call that asks for them.
async fn resources_within(
    deadline: &Deadline,
    connection: &Connection,
    live: Live,
) -> Result<Arc<Vec<ResourceDefinition>>, McpError> {
    let read = deadline.within("resources/list", connection.resources(&live)).await;
    read.map_err(|error| error.on(connection.name()))
}

/// One text for each content: its text, or where its bytes were saved.
fn texts_of(contents: MappedContents) -> Vec<String> {
    let mut values: Vec<Value> = serde_json::from_str(&contents.value).unwrap_or_default();
    for (place, text) in contents.large_texts {
        if let Some(value) = values.get_mut(place) {
            value["text"] = text.into();
        }
    }
    values
        .into_iter()
        .map(|mut value| {
            if let Value::String(text) = value["text"].take() {
                return text;
            }
            let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            let (uri, path, kind) = (text("uri"), text("path"), text("mimeType"));
            if path.is_empty() {
                return format!("{uri} was given without text and without bytes");
            }
            let kind = if kind.is_empty() { "binary" } else { &kind };
            format!("{uri} ({kind}, {} bytes) is saved in {path}", value["bytes"])
        })
        .collect()
}

fn text_result(texts: &[String]) -> String {
    let blocks: Vec<Value> = texts.iter().map(|text| json!({ "type": "text", "text": text })).collect();
    json!({ "content": blocks }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn res_01_each_content_says_what_became_of_it() {
        let value = json!([
            { "uri": "a:1", "text": "t" },
            { "uri": "a:2", "path": "/out/x.pdf", "bytes": 4 },
            { "uri": "a:3", "mimeType": "image/png" },
        ]);
        let contents =
            MappedContents { value: value.to_string(), large_texts: Vec::new(), warnings: Vec::new() };
        let expected = [
            "t",
            "a:2 (binary, 4 bytes) is saved in /out/x.pdf",
            "a:3 was given without text and without bytes",
        ];
        assert_eq!(texts_of(contents), expected);
    }

    #[test]
    fn tol_06_definitions() {
        let definitions = definitions();
        let names: Vec<&str> = definitions.iter().map(|one| one.wire_name.as_str()).collect();
        assert_eq!(names, ["mcp_list_resources", "mcp_read_resource"]);
        assert!(definitions.iter().all(ToolDefinition::is_concurrency_safe));
    }
}
