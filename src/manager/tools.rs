//! Tools: listing them under their full names, finding the one that is meant, calling it.

use std::sync::Arc;
use std::time::Duration;

use super::Manager;
use super::audit::shown_arguments;
use super::persist::Persist;
use super::registry::{ToolEntry, ToolKind};
use super::view::View;
use crate::call::gate::{Gatekeeper, Passage, pass};
use crate::call::hook::{HookedCall, before};
use crate::call::output::{MappedResult, OutputRules, map_result};
use crate::call::output_schema::SchemaCheck;
use crate::client::Request;
use crate::client::progress::ProgressSink;
use crate::config::spec::TransportSpec;
use crate::connection::status::PublicState;
use crate::connection::{Connection, Live};
use crate::deadline::Deadline;
use crate::diagnostic::Diagnostic;
use crate::error::{Delivery, ErrorCode, McpError, PermissionLayer};
use crate::host::{Host, HostEvent};
use crate::json_scan;
use crate::jsonrpc::RawText;
use crate::jsonrpc::write::{Params, inner_members, push_member, push_string};
use crate::permission::{Decision, Remember};
use crate::protocol::negotiation::HEADER_MISMATCH;
use crate::runtime;
use crate::transport::Mirrored;

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

/// Options of one call.
#[derive(Default)]
pub struct CallOptions {
    /// Longest silence.
    pub timeout: Option<Duration>,
    /// Hard maximum.
    pub total: Option<Duration>,
    /// Who hears of progress.
    pub progress: Option<ProgressSink>,
    /// JSON text of an object for `_meta`.
    pub meta: Option<String>,
    /// The view that calls.
    pub view: Option<u32>,
}

/// A call under way, once it is known of which tool.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    /// The tool.
    pub(super) entry: &'a ToolEntry,
    /// Its limits.
    pub(super) deadline: &'a Arc<Deadline>,
    /// What the caller said.
    pub(super) options: &'a CallOptions,
    /// The view that calls.
    pub(super) view: Option<&'a Arc<View>>,
}

/// The result of a call and what it was a call of.
pub struct CallOutcome {
    /// The tool.
    pub entry: Arc<ToolEntry>,
    /// The mapped result.
    pub result: MappedResult,
    /// Time from the call to the result.
    pub elapsed: Duration,
    /// The arguments that were sent, where they are not those of the caller.
    pub input: Option<String>,
}

/// How often a call that takes long is reported (CAL-01).
const PROGRESS_EVERY: Duration = Duration::from_secs(30);
/// A list younger than this is not fetched again because of a name it does not hold.
const SURELY_FRESH: Duration = Duration::from_secs(1);

impl Manager {
    /// JSON text of the tools of all connected servers, or of one, which is connected if need be; in a view
    /// those that exist there.
    ///
    /// # Errors
    /// With a server: why its list cannot be had. Without: none; what fails stands in the status.
    pub async fn list_tools(&self, server: Option<&str>, view: Option<u32>) -> Result<String, McpError> {
        let view = self.view(view)?;
        if let (Some(view), Some(server)) = (&view, server)
            && !view.has_server(server)
        {
            return Err(not_in_view(server));
        }
        let mut connections = self.lists_of(server).await?;
        if let Some(view) = &view {
            connections.retain(|(connection, _)| view.has_server(connection.name()));
        }
        let reads = connections.iter().map(|(connection, live)| {
            let (connection, live) = (connection.clone(), live.clone());
            tokio::spawn(async move { connection.tools(&live).await.map(drop) })
        });
        for read in reads.collect::<Vec<_>>() {
            if let (Ok(Err(error)), Some(_)) = (read.await, server) {
                return Err(error);
            }
        }
        let registry = self.registry();
        let mut text = String::from("[");
        for (connection, _) in &connections {
            if connection.snapshot().state() != PublicState::Connected {
                continue;
            }
            for entry in registry.tools_of(connection.name()) {
                let offered = match &view {
                    None => entry.decision != Decision::Deny,
                    Some(view) => view.has(entry) && view.decide(entry).decision != Decision::Deny,
                };
                if !offered {
                    continue;
                }
                if text.len() > 1 {
                    text.push(',');
                }
                push_tool(&mut text, entry);
            }
        }
        text.push(']');
        Ok(text)
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

    /// Calls a tool.
    ///
    /// # Errors
    /// `SERVER_UNKNOWN`, `TOOL_UNKNOWN`, `PERMISSION_DENIED`, `PERMISSION_REQUIRED`, `TIMEOUT`, `RPC_ERROR`,
    /// `RESULT_INVALID` and whatever the connection fails with. A failure the tool itself reports is a result.
    pub async fn call_tool(
        &self,
        target: &ToolTarget,
        arguments: String,
        options: CallOptions,
    ) -> Result<CallOutcome, McpError> {
        self.open_for_use()?;
        check_depth("args", &arguments)?;
        let view = self.view(options.view)?;
        let view = view.as_ref();
        let entry = match self.known_tool(target) {
            Some(entry) => entry,
            None => self.find_tool(target, &options, view).await?,
        };
        if view.is_some_and(|view| !view.has(&entry)) {
            return Err(Self::no_such_tool_here(target));
        }
        let clocks = entry.connection.settings().clocks;
        let deadline = Arc::new(Deadline::start(clocks.tool(options.timeout, options.total)));
        let call = Call { entry: &entry, deadline: &deadline, options: &options, view };
        let passed = self.pass_gate(&call, &arguments).await?;
        let sent = passed.as_deref().unwrap_or(&arguments);
        let outcome = self.send_and_map(&call, sent).await;
        let answer = outcome.as_ref().map(|result| (result.is_error, result.value.len()));
        self.audit_call(&call, sent, answer);
        let result = outcome?;
        Ok(CallOutcome { entry, result, elapsed: deadline.elapsed(), input: passed })
    }

    async fn send_and_map(&self, call: &Call<'_>, arguments: &str) -> Result<MappedResult, McpError> {
        let entry = call.entry;
        if entry.kind != ToolKind::OfServer {
            let reply = self.run_resource_tool(call, arguments).await?;
            return runtime::at_length(reply.len(), || self.map_tool_result(entry, reply));
        }
        let params = tool_params(entry, arguments, call.options.meta.as_deref());
        let reply = self.send_tool_call(call, &params).await;
        let reply = reply.map_err(|error| timed(error, call.deadline))?;
        runtime::at_length(reply.as_str().len(), || self.map_tool_result(entry, reply.into_string()))
    }

    /// Writes a call down; `answer` is whether the tool itself failed, and the length of the result.
    pub(super) fn audit_call(&self, call: &Call<'_>, sent: &str, answer: Result<(bool, usize), &McpError>) {
        let Call { entry, deadline, .. } = *call;
        if !self.is_audited() {
            return;
        }
        let (word, received) = match answer {
            Ok((true, length)) => ("toolError", Some(length)),
            Ok((false, length)) => ("ok", Some(length)),
            Err(error) => (error.code().as_str(), None),
        };
        let mut details = serde_json::json!({
            "tool": entry.definition().wire_name,
            "fullName": &*entry.full_name,
            "bytesSent": sent.len(),
            "bytesReceived": received,
            "elapsedMs": u64::try_from(deadline.elapsed().as_millis()).unwrap_or(u64::MAX),
            "outcome": word,
        });
        if self.options.audit_arguments {
            details["arguments"] = shown_arguments(sent, entry.connection.redactor());
        }
        self.audit("call", entry.connection.name(), details);
    }

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
        };
        let keeper = Gatekeeper {
            host,
            memory: view.map_or(&self.memory, |view| &view.memory),
            patience,
            keep: &|remember| self.keep_permission(remember, server, &tool.wire_name),
        };
        Ok(pass(passage, keeper, deadline).await?.or(rewritten))
    }

    /// Writes an allow rule for one tool to a settings file; a failure is told, the call goes on. (POL-08)
    fn keep_permission(&self, remember: Remember, server: &str, tool: &str) {
        let persist = if remember == Remember::User { Persist::User } else { Persist::Local };
        if let Err(error) = self.write_allow_rule(persist, crate::name::build_tool_name(server, tool)) {
            let message = format!("the permission holds for this session only: {}", error.message());
            self.diagnose(&Diagnostic::warning("PERMISSION_NOT_KEPT", message).on(server));
        }
    }

    /// Sends the call; once more where the connection was gone before a byte of it was written (CAL-01).
    async fn send_tool_call(&self, call: &Call<'_>, params: &Params) -> Result<RawText, McpError> {
        let Call { entry, deadline, .. } = *call;
        let mut gone = None;
        let mut refreshed = false;
        loop {
            let live = entry.connection.ready(deadline, gone).await?;
            let request = Request {
                method: "tools/call",
                params,
                deadline,
                mirrored: Mirrored::default(),
                progress: call.options.progress.clone(),
                host: View::host(call.view),
            };
            let reply = tokio::select! {
                biased;
                reply = live.client.request(request) => reply,
                never = self.report_long_call(entry, deadline) => match never {},
            };
            match reply {
                Err(error) if gone.is_none() && was_not_sent(&error) => gone = Some(live.generation),
                Err(error) if !refreshed && headers_differ(&error) => {
                    // The schema that the headers were built from has changed (mcp:HDR-24).
                    refreshed = true;
                    entry.connection.catalog().tools.mark_stale();
                    entry.connection.tools(&live).await?;
                }
                other => {
                    if other.is_ok() {
                        entry.connection.heard();
                    }
                    return other;
                }
            }
        }
    }

    async fn report_long_call(&self, entry: &ToolEntry, deadline: &Deadline) -> std::convert::Infallible {
        runtime::entered().await;
        loop {
            tokio::time::sleep(PROGRESS_EVERY).await;
            let mut body = String::from("{\"server\":");
            push_string(&mut body, entry.connection.name());
            body.push_str(",\"tool\":");
            push_string(&mut body, &entry.definition().wire_name);
            body.push_str(&format!(",\"elapsedMs\":{}}}", deadline.elapsed().as_millis()));
            self.post.emit(HostEvent { name: "callProgress", body, key: None });
        }
    }

    fn map_tool_result(&self, entry: &ToolEntry, reply: String) -> Result<MappedResult, McpError> {
        let server = entry.connection.name();
        let output_dir = || self.output_directory();
        let rules = OutputRules::new(server, &entry.full_name, self.options.sanitize_results, &output_dir);
        let result = map_result(reply, &rules).map_err(|error| error.on(server))?;
        for warning in &result.warnings {
            self.diagnose(warning);
        }
        let schema = entry.output_schema.as_ref().filter(|_| !result.is_error);
        let check = schema.map(|schema| schema.check(result.structured_content()));
        if let Some(mismatch) = check.as_ref().and_then(SchemaCheck::mismatch) {
            let message =
                format!("the result of {} does not match its outputSchema: {mismatch}", entry.full_name);
            if self.options.strict_output {
                return Err(McpError::new(ErrorCode::ResultInvalid, message).on(server));
            }
            self.diagnose(&Diagnostic::warning("OUTPUT_SCHEMA_MISMATCH", message).on(server));
        }
        Ok(result)
    }

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
    fn no_such_tool_here(target: &ToolTarget) -> McpError {
        let name = match target {
            ToolTarget::Full(name) => name,
            ToolTarget::Pair { tool, .. } => tool,
        };
        unknown(ErrorCode::ToolUnknown, format!("this view has no tool \"{}\"", shown(name)), Vec::new())
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

/// Servers refuse what is nested without end, and so do we, before anything is sent (B-087).
pub(super) fn check_depth(parameter: &str, text: &str) -> Result<(), McpError> {
    if json_scan::scan(text).depth <= json_scan::MAX_DEPTH {
        return Ok(());
    }
    let message = format!("{parameter}: nested deeper than {}", json_scan::MAX_DEPTH);
    Err(McpError::new(ErrorCode::InvalidArgument, message)
        .with(|facts| facts.parameter = Some(parameter.to_owned())))
}

/// An editor's tool outside of `ideAllowedTools`. (POL-10, POL-11)
fn not_taken_over(server: &str, tool: &str) -> McpError {
    let message = format!("\"{}\" is not among ideAllowedTools", shown(tool));
    McpError::new(ErrorCode::PermissionDenied, message).on(server).with(|facts| {
        facts.layer = Some(PermissionLayer::Ide);
        facts.rule = Some("ideAllowedTools".to_owned());
    })
}

pub(super) fn not_in_view(server: &str) -> McpError {
    McpError::new(ErrorCode::ServerUnknown, "this view has no such server").on(server)
}

pub(super) fn shown(name: &str) -> String {
    crate::client::excerpt(&crate::unicode::clean_str_lossy(name), 200)
}

pub(super) fn unknown(code: ErrorCode, what: String, suggestions: Vec<String>) -> McpError {
    let hint = match suggestions.first() {
        Some(first) => format!("{what}; did you mean \"{first}\"?"),
        None => what,
    };
    McpError::new(code, hint).with(|facts| facts.suggestions = Some(suggestions))
}

/// Nothing was sent, or the server has refused it because it has forgotten the session.
fn was_not_sent(error: &McpError) -> bool {
    match error.facts().delivered {
        Some(Delivery::No) => matches!(error.code(), ErrorCode::ConnectionLost | ErrorCode::ServerExited),
        Some(Delivery::Refused) => error.code() == ErrorCode::SessionExpired,
        _ => false,
    }
}

pub(super) fn headers_differ(error: &McpError) -> bool {
    error.facts().rpc_code == Some(HEADER_MISMATCH)
}

fn timed(error: McpError, deadline: &Deadline) -> McpError {
    let elapsed = u64::try_from(deadline.elapsed().as_millis()).unwrap_or(u64::MAX);
    error.with(|facts| {
        facts.elapsed_ms.get_or_insert(elapsed);
    })
}

/// `params` of `tools/call`: the wire name, the arguments in their raw form, the host's `_meta`.
pub(super) fn tool_params(entry: &ToolEntry, arguments: &str, meta: Option<&str>) -> Params {
    let tool = entry.definition();
    let restored = tool.restore.as_ref().and_then(|restore| restore.apply(arguments));
    let mut members = String::with_capacity(arguments.len() + tool.wire_name.len() + 32);
    members.push_str("\"name\":");
    push_string(&mut members, &tool.wire_name);
    push_member(&mut members, "arguments", restored.as_deref().unwrap_or(arguments));
    let meta = meta.and_then(inner_members).unwrap_or_default();
    Params::from_members(members, meta.to_owned())
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
