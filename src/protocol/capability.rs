//! What server and client declare at the start, and which method needs which declaration (PRO-04, PRO-05).
//!
//! Owns the reading of an `initialize` result and the writing of `initialize` parameters. Sends nothing.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::app;
use super::definition::{DESCRIPTION_LIMIT, TITLE_LIMIT, cut};
use super::skill;
use super::task::EXTENSION;
use super::version::{Era, ProtocolVersion};
use crate::error::{ErrorCode, McpError, Result};
use crate::json_scan::{self, Kind};
use crate::unicode::clean_counted;

/// A capability of a server that some method needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerCapability {
    /// `tools`.
    Tools,
    /// `prompts`.
    Prompts,
    /// `resources`.
    Resources,
    /// `resources.subscribe`.
    ResourcesSubscribe,
    /// `logging`.
    Logging,
    /// `completions`.
    Completions,
    /// `tasks`, or the tasks extension of the modern era.
    Tasks,
    /// The skills extension.
    Skills,
    /// `directoryRead` of the skills extension.
    SkillDirectories,
    /// `tasks.list`; there is no such thing in the modern era.
    TasksList,
    /// `tasks.cancel`, or the tasks extension.
    TasksCancel,
}

impl ServerCapability {
    /// The name as the protocol writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::ResourcesSubscribe => "resources.subscribe",
            Self::Logging => "logging",
            Self::Completions => "completions",
            Self::Tasks => "tasks",
            Self::Skills => skill::EXTENSION,
            Self::SkillDirectories => "io.modelcontextprotocol/skills.directoryRead",
            Self::TasksList => "tasks.list",
            Self::TasksCancel => "tasks.cancel",
        }
    }
}

/// What a server declared. Only `null` and `false` count as not declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a declaration of its own")]
pub struct ServerCapabilities {
    /// `tools`.
    pub tools: bool,
    /// `tools.listChanged`.
    pub tools_list_changed: bool,
    /// `prompts`.
    pub prompts: bool,
    /// `prompts.listChanged`.
    pub prompts_list_changed: bool,
    /// `resources`.
    pub resources: bool,
    /// `resources.listChanged`.
    pub resources_list_changed: bool,
    /// `resources.subscribe`.
    pub resources_subscribe: bool,
    /// `logging`.
    pub logging: bool,
    /// `completions`; true for every 2024-11-05 server, which has no word for it (mcp:COMP-01).
    pub completions: bool,
    /// `tasks`, or `extensions["io.modelcontextprotocol/tasks"]`.
    pub tasks: bool,
    /// `tasks.list`.
    pub tasks_list: bool,
    /// `tasks.cancel`, or the extension.
    pub tasks_cancel: bool,
    /// `tasks.requests.tools.call`.
    pub tasks_tool_calls: bool,
    /// `extensions["io.modelcontextprotocol/skills"]`.
    pub skills: bool,
    /// Its `directoryRead`; false where nothing is said (mcp:SKILL-01).
    pub skill_directories: bool,
}

impl ServerCapabilities {
    /// Reads the text of a `capabilities` object.
    pub fn read(capabilities: &str, version: ProtocolVersion) -> Self {
        let names = ["tools", "prompts", "resources", "logging", "completions", "tasks", "extensions"];
        let [tools, prompts, resources, logging, completions, tasks, extensions] =
            json_scan::pick(capabilities, names);
        let skills = member(extensions, skill::EXTENSION);
        let extension = member(extensions, EXTENSION);
        let tool_calls = member(member(member(tasks, "requests"), "tools"), "call");
        Self {
            tools: declared(tools),
            tools_list_changed: declared(member(tools, "listChanged")),
            prompts: declared(prompts),
            prompts_list_changed: declared(member(prompts, "listChanged")),
            resources: declared(resources),
            resources_list_changed: declared(member(resources, "listChanged")),
            resources_subscribe: declared(member(resources, "subscribe")),
            logging: declared(logging),
            completions: declared(completions) || version == ProtocolVersion::V2024_11_05,
            tasks: declared(tasks) || declared(extension),
            tasks_list: declared(member(tasks, "list")),
            tasks_cancel: declared(member(tasks, "cancel")) || declared(extension),
            tasks_tool_calls: declared(tool_calls),
            skills: declared(skills),
            skill_directories: member(skills, "directoryRead") == Some("true"),
        }
    }

    /// Whether the capability is declared.
    pub fn has(&self, capability: ServerCapability) -> bool {
        match capability {
            ServerCapability::Tools => self.tools,
            ServerCapability::Prompts => self.prompts,
            ServerCapability::Resources => self.resources,
            ServerCapability::ResourcesSubscribe => self.resources && self.resources_subscribe,
            ServerCapability::Logging => self.logging,
            ServerCapability::Completions => self.completions,
            ServerCapability::Tasks => self.tasks,
            ServerCapability::Skills => self.skills,
            ServerCapability::SkillDirectories => self.skill_directories,
            ServerCapability::TasksList => self.tasks && self.tasks_list,
            ServerCapability::TasksCancel => self.tasks && self.tasks_cancel,
        }
    }
}

fn member<'a>(object: Option<&'a str>, name: &str) -> Option<&'a str> {
    let [value] = json_scan::pick(object?, [name]);
    value
}

fn declared(value: Option<&str>) -> bool {
    value.is_some_and(|text| text != "false" && text != "null")
}

/// Capability that a request of this method needs; `None` for methods every server has (PRO-05).
pub fn required_capability(method: &str) -> Option<ServerCapability> {
    let exact = match method {
        "resources/subscribe" | "resources/unsubscribe" => Some(ServerCapability::ResourcesSubscribe),
        "logging/setLevel" => Some(ServerCapability::Logging),
        "completion/complete" => Some(ServerCapability::Completions),
        "resources/directory/read" => Some(ServerCapability::SkillDirectories),
        "tasks/list" => Some(ServerCapability::TasksList),
        "tasks/cancel" => Some(ServerCapability::TasksCancel),
        _ => None,
    };
    exact.or_else(|| match method.split_once('/')?.0 {
        "tools" => Some(ServerCapability::Tools),
        "prompts" => Some(ServerCapability::Prompts),
        "resources" => Some(ServerCapability::Resources),
        "tasks" => Some(ServerCapability::Tasks),
        "skills" => Some(ServerCapability::Skills),
        _ => None,
    })
}

/// Refuses a request whose capability the server did not declare.
///
/// Errors: `CAPABILITY_MISSING`, before anything is sent (mcp:LIFE-08).
pub fn check(method: &str, capabilities: &ServerCapabilities) -> Result<()> {
    match required_capability(method) {
        Some(needed) if !capabilities.has(needed) => Err(McpError::new(
            ErrorCode::CapabilityMissing,
            format!("{method} needs the capability '{}', which the server does not declare", needed.as_str()),
        )),
        _ => Ok(()),
    }
}

/// What an `initialize` result says.
#[derive(Clone, Debug)]
pub struct ServerIntroduction {
    /// `protocolVersion` as sent; whether we speak it is decided by [`ProtocolVersion::parse`].
    pub protocol_version: String,
    /// What the server declares, read for that version.
    pub capabilities: ServerCapabilities,
    /// JSON text of `capabilities`; `{}` where there is none.
    pub capabilities_text: Arc<str>,
    /// Name the server gives itself, cleaned (SEC-01); never to be trusted (mcp:META-13).
    pub server_name: Option<String>,
    /// Version the server gives itself, cleaned.
    pub server_version: Option<String>,
    /// Instructions for the model, cleaned and cut at 32 KiB.
    pub instructions: Option<String>,
    /// Characters that were removed from these texts.
    pub removed: usize,
}

/// Reads the result of `initialize`.
///
/// Errors: `MESSAGE_INVALID` where it is no object or names no version.
pub fn read_introduction(result: &RawValue) -> Result<ServerIntroduction> {
    let names = ["protocolVersion", "capabilities", "serverInfo", "instructions"];
    let [version, capabilities, server, instructions] = json_scan::pick(result.get(), names);
    let protocol_version = version.and_then(json_scan::decode).ok_or_else(|| {
        McpError::new(ErrorCode::MessageInvalid, "the answer to initialize names no protocolVersion")
    })?;
    let capabilities = capabilities.filter(|text| json_scan::kind(text) == Kind::Object).unwrap_or("{}");
    // A version that we do not speak ends the conversation elsewhere; until then the newest reading serves.
    let version = ProtocolVersion::parse(&protocol_version).unwrap_or(ProtocolVersion::LEGACY[0]);
    let mut removed = 0;
    Ok(ServerIntroduction {
        capabilities: ServerCapabilities::read(capabilities, version),
        protocol_version: protocol_version.into_owned(),
        capabilities_text: Arc::from(capabilities),
        server_name: shown(member(server, "name"), TITLE_LIMIT, &mut removed),
        server_version: shown(member(server, "version"), TITLE_LIMIT, &mut removed),
        instructions: shown(instructions, DESCRIPTION_LIMIT, &mut removed),
        removed,
    })
}

fn shown(value: Option<&str>, limit: usize, removed: &mut usize) -> Option<String> {
    let (text, hidden) = clean_counted(&json_scan::decode(value?)?);
    *removed += hidden;
    Some(cut(text, limit))
}

/// What the host can do for servers; declare only what somebody serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a declaration of its own")]
pub struct ClientFeatures {
    /// Roots are listed, and changes announced.
    pub roots: bool,
    /// Form questions are answered.
    pub elicitation_form: bool,
    /// URL questions are answered.
    pub elicitation_url: bool,
    /// Sampling is served; off unless the host offers it (PRO-04).
    pub sampling: bool,
    /// Sampling with tools is served; means nothing without `sampling`.
    pub sampling_tools: bool,
    /// Tasks are understood: questions of a server may run as such (2025-11-25), calls may be answered with such
    /// (2026-07-28, where the server has the extension too).
    pub tasks: bool,
    /// Views of MCP Apps are rendered (mcp:APP-01).
    pub apps: bool,
}

impl ClientFeatures {
    /// JSON text of the `ClientCapabilities` for an era.
    pub fn to_json(self, era: Era) -> String {
        let mut parts: Vec<String> = Vec::new();
        if self.roots {
            parts.push(match era {
                Era::Legacy => r#""roots":{"listChanged":true}"#.to_owned(),
                Era::Modern => r#""roots":{}"#.to_owned(),
            });
        }
        if self.elicitation_form || self.elicitation_url {
            let form = if self.elicitation_form { r#""form":{}"# } else { "" };
            let url = if self.elicitation_url { r#""url":{}"# } else { "" };
            let comma = if self.elicitation_form && self.elicitation_url { "," } else { "" };
            parts.push(format!(r#""elicitation":{{{form}{comma}{url}}}"#));
        }
        if self.sampling {
            let tools = if self.sampling_tools { r#""tools":{}"# } else { "" };
            parts.push(format!(r#""sampling":{{{tools}}}"#));
        }
        if self.tasks {
            parts.extend(self.tasks_json(era));
        }
        parts.extend(self.extensions_json(era));
        format!("{{{}}}", parts.join(","))
    }

    /// Whether requests of the server may run as tasks of ours (mcp:TASKL-01).
    pub fn takes_tasks(self) -> bool {
        self.tasks && (self.elicitation_form || self.elicitation_url || self.sampling)
    }

    fn extensions_json(self, era: Era) -> Option<String> {
        let tasks = (self.tasks && era == Era::Modern).then(|| format!(r#""{EXTENSION}":{{}}"#));
        let apps = self.apps.then(|| app::DECLARATION.to_owned());
        let extensions: Vec<String> = tasks.into_iter().chain(apps).collect();
        (!extensions.is_empty()).then(|| format!(r#""extensions":{{{}}}"#, extensions.join(",")))
    }

    /// What the handshake era has of tasks; later they are an extension.
    fn tasks_json(self, era: Era) -> Option<String> {
        if era == Era::Modern {
            return None;
        }
        let elicitation = self.elicitation_form || self.elicitation_url;
        let elicitation = elicitation.then_some(r#""elicitation":{"create":{}}"#);
        let sampling = self.sampling.then_some(r#""sampling":{"createMessage":{}}"#);
        let requests: Vec<&str> = elicitation.into_iter().chain(sampling).collect();
        let json =
            || format!(r#""tasks":{{"list":{{}},"cancel":{{}},"requests":{{{}}}}}"#, requests.join(","));
        self.takes_tasks().then(json)
    }
}

/// Who we say we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Name of the host program.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its name for people.
    pub title: Option<String>,
}

impl ClientIdentity {
    /// JSON text of the `Implementation`.
    pub fn to_json(&self) -> String {
        let mut out = String::from(r#"{"name":"#);
        json_scan::quote_into(&mut out, &self.name);
        if let Some(title) = &self.title {
            out.push_str(r#","title":"#);
            json_scan::quote_into(&mut out, title);
        }
        out.push_str(r#","version":"#);
        json_scan::quote_into(&mut out, &self.version);
        out.push('}');
        out
    }
}

/// JSON text of the parameters of `initialize` (mcp:LIFE-01).
pub fn initialize_params(
    version: ProtocolVersion,
    features: ClientFeatures,
    identity: &ClientIdentity,
) -> String {
    format!(
        r#"{{"protocolVersion":"{version}","capabilities":{},"clientInfo":{}}}"#,
        features.to_json(version.era()),
        identity.to_json()
    )
}

#[cfg(test)]
mod tests;
