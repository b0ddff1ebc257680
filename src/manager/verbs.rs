//! The verbs of the public interface: a name and JSON text in, JSON text out. One table, no decisions.

use std::time::Duration;

use serde_json::value::RawValue;

use super::Manager;
use super::finding::ToolTarget;
use super::listing::{Caller, ToolList};
use super::prompts::PromptArguments;
use super::resources::ResourceList;
use super::skills::WantedFile;
use super::span::{Listeners, Subject, told};
use super::verb_payloads::{
    Add, Close, Complete, Connect, GetPrompt, LoadSkill, LogLevel, Login, MaybeServer, NamedTools, OfServer,
    OfTask, OfTool, RawRequest, ReadResource, ReadSkillFile, Ready, Removal, ResumeTask, Roots, Search,
    SlashCommand, StartTool, Subscribe, Switch, WantedTools, millis, read,
};
use crate::call::resource_contents::BlobMode;
use crate::connection::{Connection, Wish};
use crate::error::{ErrorCode, McpError};
use crate::json_scan;
use crate::transport::CloseMode;

/// What a verb gives back.
#[derive(Debug, Default)]
pub struct Answer {
    /// JSON text; `null` where there is nothing to say.
    pub value: String,
    /// Long strings that stand outside of the text, by the place they belong to.
    pub texts: Vec<(usize, String)>,
}

impl From<String> for Answer {
    fn from(value: String) -> Self {
        Self { value, texts: Vec::new() }
    }
}

fn nothing() -> Answer {
    "null".to_owned().into()
}

impl Manager {
    /// Runs a verb.
    ///
    /// # Errors
    /// Those of the verb; `INTERNAL` for one that does not exist.
    pub async fn run(&self, verb: &str, payload: &str, listeners: Listeners) -> Result<Answer, McpError> {
        match verb {
            "load" => self.load().await.map(Answer::from),
            "reload" => self.reload().await.map(Answer::from),
            "addServer" | "addSdkServer" | "removeServer" | "setServerEnabled" | "approveServer"
            | "rejectServer" => {
                let (verb, payload) = (verb.to_owned(), payload.to_owned());
                self.unbroken(|manager| async move { manager.run_configuration(&verb, &payload).await }).await
            }
            "authenticate" | "completeAuthorization" | "logout" => self.run_login(verb, payload).await,
            "connectAll" | "connect" | "ready" | "restart" | "disconnect" | "close" | "ping" => {
                self.run_life(verb, payload).await
            }
            "listTools" => {
                let wanted: WantedTools = read(payload)?;
                let caller = if wanted.app { Caller::App } else { Caller::Model };
                let WantedTools { server, view, loaded, order, .. } = wanted;
                let list = ToolList { loaded, order, caller };
                Ok(self.list_tools(server.as_deref(), view, list).await?.into())
            }
            "searchTools" => {
                let Search { query, limit, view } = read(payload)?;
                Ok(self.search_tools(&query, limit, view).await?.into())
            }
            "safeSideBySide" => {
                let NamedTools { tools, options } = read(payload)?;
                Ok(self.safe_side_by_side(tools, options.options(listeners)).await?.into())
            }
            "startTool" | "resumeTask" | "cancelTask" | "listTasks" => {
                self.run_task_verb(verb, payload, listeners).await
            }
            "approveTool" => {
                let OfTool { server, tool } = read(payload)?;
                self.approve_tool(&server, &tool).await?;
                Ok(nothing())
            }
            "listPrompts" => {
                Ok(self.list_prompts(read::<MaybeServer>(payload)?.server.as_deref()).await?.into())
            }
            "listResources" => self.run_resource_list(ResourceList::Resources, payload).await,
            "listResourceTemplates" => self.run_resource_list(ResourceList::Templates, payload).await,
            "listSkills" | "loadSkill" | "readSkillFile" => self.run_skills(verb, payload, listeners).await,
            "getPrompt" | "runSlashCommand" => self.run_prompt(verb, payload, listeners).await,
            "readResource" | "subscribe" | "complete" | "setLogLevel" | "setRoots" | "request" => {
                self.run_protocol(verb, payload, listeners).await
            }
            "discoverIde" => Ok(self.editors(read(payload)?).await.into()),
            "officialRegistry" => Ok(self.official_registry(read(payload)?).await?.to_json().into()),
            other => Err(McpError::new(ErrorCode::Internal, format!("no verb {other}"))),
        }
    }

    async fn run_configuration(&self, verb: &str, payload: &str) -> Result<Answer, McpError> {
        let name = match verb {
            "addServer" => {
                let add: Add = read(payload)?;
                self.add_server(&add.name, &add.config, &add.options).await?;
                add.name
            }
            "addSdkServer" => {
                let add: Add = read(payload)?;
                self.add_sdk_server(&add.name, &add.config, &add.options).await?;
                add.name
            }
            "removeServer" => {
                let removal: Removal = read(payload)?;
                self.remove_server(&removal.server, removal.persist).await?;
                return Ok(nothing());
            }
            "approveServer" => {
                self.approve_server(&read::<OfServer>(payload)?.server).await?;
                return Ok(nothing());
            }
            "rejectServer" => {
                self.reject_server(&read::<OfServer>(payload)?.server).await?;
                return Ok(nothing());
            }
            _ => {
                let switch: Switch = read(payload)?;
                self.set_enabled(&switch.server, switch.enabled, switch.persist).await?;
                switch.server
            }
        };
        Ok(self.status_json(Some(&name)).unwrap_or_else(|| "null".to_owned()).into())
    }

    async fn run_life(&self, verb: &str, payload: &str) -> Result<Answer, McpError> {
        match verb {
            "connectAll" => {
                self.connect_all().await?;
                Ok(self.status_json(None).unwrap_or_default().into())
            }
            "connect" => {
                let connect: Connect = read(payload)?;
                self.renew_editor(&connect.server).await;
                let connection = self.connection(&connect.server).await?;
                connection.connect(if connect.fresh { Wish::Fresh } else { Wish::Connected }).await?;
                Ok(self.status_of(&connection))
            }
            "ready" => self.run_ready(payload).await,
            "restart" => {
                let connection = self.connection(&read::<OfServer>(payload)?.server).await?;
                connection.release().await?;
                connection.connect(Wish::Connected).await?;
                Ok(self.status_of(&connection))
            }
            "disconnect" => {
                self.connection(&read::<OfServer>(payload)?.server).await?.release().await?;
                Ok(nothing())
            }
            "close" => {
                let mode = if read::<Close>(payload)?.fast { CloseMode::Fast } else { CloseMode::Graceful };
                self.close(mode).await;
                Ok(nothing())
            }
            _ => Ok(self.ping(&read::<OfServer>(payload)?.server).await?.to_string().into()),
        }
    }

    async fn run_login(&self, verb: &str, payload: &str) -> Result<Answer, McpError> {
        let wanted: Login = read(payload)?;
        let connection = self.connection(&wanted.server).await?;
        match verb {
            "authenticate" => self.authenticate(&connection, wanted.login).await?,
            "completeAuthorization" => {
                self.complete_authorization(&connection, wanted.url.unwrap_or_default()).await?;
            }
            _ => {
                self.log_out(&connection).await?;
                return Ok(nothing());
            }
        }
        Ok(self.status_of(&connection))
    }

    fn status_of(&self, connection: &Connection) -> Answer {
        self.status_json(Some(connection.name())).unwrap_or_else(|| "null".to_owned()).into()
    }

    /// Waits until the servers asked for have ended their first attempt, at most for a time.
    async fn run_ready(&self, payload: &str) -> Result<Answer, McpError> {
        let ready: Ready = read(payload)?;
        let wait = async {
            match &ready.servers {
                None => self.connect_all().await,
                Some(names) => self.connect_named(names).await,
            }
        };
        match ready.timeout_ms.filter(|limit| limit.is_finite() && *limit >= 0.0) {
            None => wait.await?,
            Some(limit) => {
                let limit = Duration::from_secs_f64(limit.min(1e12) / 1_000.0);
                if let Ok(outcome) = tokio::time::timeout(limit, wait).await {
                    outcome?;
                }
            }
        }
        Ok(self.status_json(None).unwrap_or_default().into())
    }

    /// Connects servers by name, side by side; how each ended stands in its status.
    async fn connect_named(&self, names: &[String]) -> Result<(), McpError> {
        let mut connections = Vec::with_capacity(names.len());
        for name in names {
            connections.push(self.connection(name).await?);
        }
        let attempts: Vec<_> = connections
            .into_iter()
            .map(|connection| tokio::spawn(async move { connection.connect(Wish::Connected).await }))
            .collect();
        for attempt in attempts {
            let _ = attempt.await;
        }
        Ok(())
    }

    async fn run_task_verb(
        &self,
        verb: &str,
        payload: &str,
        listeners: Listeners,
    ) -> Result<Answer, McpError> {
        match verb {
            "startTool" => {
                let StartTool { server, tool, arguments, options, ttl_ms } = read(payload)?;
                let target = match server {
                    Some(server) => ToolTarget::Pair { server, tool },
                    None => ToolTarget::Full(tool),
                };
                let (arguments, options) = (arguments.get().to_owned(), options.options(listeners));
                Ok(self.start_tool(&target, arguments, options, millis(ttl_ms)).await?.into())
            }
            "resumeTask" => {
                let ResumeTask { server, task, tool, options } = read(payload)?;
                Ok(self.resume_task(&server, &task, tool, options.options(listeners)).await?.into())
            }
            "cancelTask" => {
                self.cancel_task(read::<OfTask>(payload)?.handle).await?;
                Ok(nothing())
            }
            _ => Ok(self.list_tasks(&read::<OfServer>(payload)?.server).await?.into()),
        }
    }

    async fn run_resource_list(&self, list: ResourceList, payload: &str) -> Result<Answer, McpError> {
        let server = read::<MaybeServer>(payload)?.server;
        Ok(self.list_resources(list, server.as_deref()).await?.into())
    }

    async fn run_skills(&self, verb: &str, payload: &str, listeners: Listeners) -> Result<Answer, McpError> {
        match verb {
            "listSkills" => {
                Ok(self.list_skills(read::<MaybeServer>(payload)?.server.as_deref()).await?.into())
            }
            "loadSkill" => {
                let LoadSkill { server, name, options } = read(payload)?;
                self.load_skill(&server, &name, options.options(listeners)).await
            }
            _ => {
                let ReadSkillFile { server, skill, path, bytes, options } = read(payload)?;
                let wanted = WantedFile { server, skill, path, bytes };
                self.read_skill_file(&wanted, options.options(listeners)).await
            }
        }
    }

    async fn run_prompt(&self, verb: &str, payload: &str, listeners: Listeners) -> Result<Answer, McpError> {
        let span = listeners.span.clone();
        if verb == "runSlashCommand" {
            let SlashCommand { line, options } = read(payload)?;
            if let Some(span) = &span {
                let name = line.trim_start_matches('/').split_whitespace().next().unwrap_or_default();
                span.begin("prompts/get", None, Subject::Prompt(name));
            }
            let outcome = self.run_slash_command(&line, options.options(listeners)).await;
            return told(span.as_ref(), outcome).map(Answer::from);
        }
        let get: GetPrompt = read(payload)?;
        let arguments = match get.positional {
            Some(values) => PromptArguments::Positional(values),
            None => PromptArguments::Named(get.named.unwrap_or_default()),
        };
        if let Some(span) = &span {
            span.begin("prompts/get", None, Subject::Prompt(&get.name));
        }
        let outcome = self.get_prompt(&get.name, arguments, get.options.options(listeners)).await;
        told(span.as_ref(), outcome).map(Answer::from)
    }

    async fn run_protocol(
        &self,
        verb: &str,
        payload: &str,
        listeners: Listeners,
    ) -> Result<Answer, McpError> {
        let span = listeners.span.clone();
        match verb {
            "readResource" => {
                let wanted: ReadResource = read(payload)?;
                let blobs = if wanted.buffer { BlobMode::Buffer } else { BlobMode::File };
                if let Some(span) = &span {
                    span.begin("resources/read", Some(&wanted.server), Subject::Uri(&wanted.uri));
                }
                let options = wanted.options.options(listeners);
                let outcome = self.read_resource(&wanted.server, &wanted.uri, blobs, options).await;
                let mapped = told(span.as_ref(), outcome)?;
                Ok(Answer { value: mapped.value, texts: mapped.large_texts })
            }
            "subscribe" => {
                let wanted: Subscribe = read(payload)?;
                self.subscribe(&wanted.server, &wanted.uri, wanted.subscribe).await?;
                Ok(nothing())
            }
            "complete" => {
                let wanted: Complete = read(payload)?;
                let context = wanted.context.as_deref().map(RawValue::get);
                let (reference, argument) = (wanted.reference.get(), wanted.argument.get());
                Ok(self.complete(&wanted.server, reference, argument, context).await?.into())
            }
            "setLogLevel" => {
                let wanted: LogLevel = read(payload)?;
                self.set_log_level(&wanted.server, &wanted.level).await?;
                Ok(nothing())
            }
            "setRoots" => {
                self.set_roots(read::<Roots>(payload)?.roots).await;
                Ok(nothing())
            }
            _ => {
                let wanted: RawRequest = read(payload)?;
                if let Some(span) = &span {
                    let [meta] = json_scan::pick(wanted.params.get(), ["_meta"]);
                    span.begin(&wanted.method, Some(&wanted.server), Subject::Method);
                    span.trace(meta.unwrap_or_default());
                }
                let options = wanted.options.options(listeners);
                let params = wanted.params.get();
                let outcome = self.request(&wanted.server, &wanted.method, params, options).await;
                told(span.as_ref(), outcome).map(Answer::from)
            }
        }
    }
}
