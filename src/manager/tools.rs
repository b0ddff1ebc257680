//! Tools: listing them under their full names, finding the one that is meant, calling it.

use std::sync::Arc;
use std::time::Duration;

use super::Manager;
use super::audit::shown_arguments;
use super::listing::Caller;
use super::persist::Persist;
use super::registry::{ToolEntry, ToolKind};
use super::span::{End, Span, Subject, told};
use super::view::View;
use crate::call::blob::Shelf;
use crate::call::budget::hold_to;
use crate::call::gate::{Gatekeeper, Passage, pass};
use crate::call::hook::{HookedCall, before};
use crate::call::output::{MappedResult, OutputRules, map_result};
use crate::call::tool_schema::ToolSchema;
use crate::client::progress::{Lingering, ProgressSink};
use crate::client::tally::Tally;
use crate::config::spec::TransportSpec;
use crate::connection::request::Ask;
use crate::deadline::Deadline;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError, PermissionLayer};
use crate::host::{Host, HostEvent};
use crate::json_scan;
use crate::jsonrpc::RawText;
use crate::jsonrpc::write::{Params, inner_members, push_member, push_string};
use crate::permission::Remember;
use crate::protocol::negotiation::HEADER_MISMATCH;
use crate::protocol::tool::ToolDefinition;
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
    fn server(&self) -> Option<&str> {
        match self {
            ToolTarget::Full(_) => None,
            ToolTarget::Pair { server, .. } => Some(server),
        }
    }

    fn tool(&self) -> &str {
        match self {
            ToolTarget::Full(name) => name,
            ToolTarget::Pair { tool, .. } => tool,
        }
    }
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
    /// The server whose app calls; a model without one.
    pub app: Option<String>,
    /// Who hears how it ended.
    pub span: Option<Arc<Span>>,
}

impl CallOptions {
    /// Where the call is counted.
    pub(super) fn tally(&self) -> Option<&Tally> {
        self.span.as_deref().map(Span::tally)
    }
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
    /// Keeps the progress token while the call is a task.
    pub(super) lingering: Option<&'a Lingering>,
}

/// A call that was allowed: whom it goes to, with what, within which limits.
pub(super) struct Prepared {
    pub(super) entry: Arc<ToolEntry>,
    pub(super) deadline: Arc<Deadline>,
    pub(super) options: CallOptions,
    pub(super) view: Option<Arc<View>>,
    /// Arguments as the caller gave them.
    arguments: String,
    /// Arguments that hooks or people put in their place.
    pub(super) rewritten: Option<String>,
}

impl Prepared {
    pub(super) fn call(&self) -> Call<'_> {
        let view = self.view.as_ref();
        Call { entry: &self.entry, deadline: &self.deadline, options: &self.options, view, lingering: None }
    }

    /// Arguments that are sent.
    pub(super) fn sent(&self) -> &str {
        self.rewritten.as_deref().unwrap_or(&self.arguments)
    }
}

/// What a result is a result of.
#[derive(Clone)]
pub enum Called {
    /// A tool.
    Tool(Arc<ToolEntry>),
    /// A task of this server, of which nobody said which tool it came from.
    Unknown(Arc<str>),
}

/// The result of a call and what it was a call of.
#[derive(Clone)]
pub struct CallOutcome {
    /// The tool.
    pub of: Called,
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
pub(super) const SURELY_FRESH: Duration = Duration::from_secs(1);

impl Manager {
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
        let span = options.span.clone();
        let outcome = self.call_prepared(target, arguments, options).await;
        // Where it went as far as being sent, its end was told already.
        told(span.as_ref(), outcome)
    }

    async fn call_prepared(
        &self,
        target: &ToolTarget,
        arguments: String,
        options: CallOptions,
    ) -> Result<CallOutcome, McpError> {
        let call = self.prepare(target, arguments, options).await?;
        if self.must_be_a_task(&call).await? {
            return self.call_as_task(call).await;
        }
        let outcome = self.send_and_map(&call.call(), call.sent()).await;
        self.finish(call, outcome)
    }

    /// Writes a call down and tells what came of it.
    pub(super) fn finish(
        &self,
        call: Prepared,
        outcome: Result<MappedResult, McpError>,
    ) -> Result<CallOutcome, McpError> {
        let answer = outcome.as_ref().map(|result| (result.is_error, result.value.len()));
        self.audit_call(&call.call(), call.sent(), answer);
        if let Some(span) = &call.options.span {
            span.end(End::of_tool(outcome.as_ref().map(|result| result.is_error)));
        }
        let result = outcome?;
        let elapsed = call.deadline.elapsed();
        Ok(CallOutcome { of: Called::Tool(call.entry), result, elapsed, input: call.rewritten })
    }

    /// Finds the tool and passes every gate; nothing is sent yet.
    pub(super) async fn prepare(
        &self,
        target: &ToolTarget,
        arguments: String,
        options: CallOptions,
    ) -> Result<Prepared, McpError> {
        if let Some(span) = &options.span {
            span.begin("tools/call", target.server(), Subject::Tool(target.tool()));
        }
        self.open_for_use()?;
        check_depth("args", &arguments)?;
        let own_view = self.view(options.view)?;
        let view = own_view.as_ref();
        let entry = match self.known_tool(target) {
            Some(entry) => entry,
            None => self.find_tool(target, &options, view).await?,
        };
        if view.is_some_and(|view| !view.has(&entry)) {
            return Err(Self::no_such_tool_here(target));
        }
        let entry = self.with_current_definition(entry, target, &options).await?;
        if let Some(span) = &options.span {
            span.found(&entry);
        }
        check_caller(&entry, options.app.as_deref())?;
        self.loaded_in(view.map(|view| &**view)).add(&entry);
        let clocks = entry.connection.settings().clocks;
        let deadline = Arc::new(Deadline::start(clocks.tool(options.timeout, options.total)));
        let call = Call { entry: &entry, deadline: &deadline, options: &options, view, lingering: None };
        self.check_input(&entry, &arguments)?;
        let rewritten = self.pass_gate(&call, &arguments).await?;
        if let Some(rewritten) = &rewritten {
            self.check_input(&entry, rewritten)?;
        }
        Ok(Prepared { entry, deadline, options, view: own_view, arguments, rewritten })
    }

    async fn send_and_map(&self, call: &Call<'_>, arguments: &str) -> Result<MappedResult, McpError> {
        let entry = call.entry;
        if entry.kind != ToolKind::OfServer {
            let reply = self.run_resource_tool(call, arguments).await?;
            return runtime::at_length(reply.len(), || {
                self.map_tool_result(Some(entry), entry.connection.name(), reply)
            });
        }
        let arguments = self.for_editor(&entry.connection, arguments);
        let params = tool_params(entry, &arguments, call.options.meta.as_deref());
        let reply = self.send_tool_call(call, &params).await;
        let reply = reply.map_err(|error| timed(error, call.deadline))?.into_string();
        let reply = self.waited_for(call, reply).await.map_err(|error| timed(error, call.deadline))?;
        let reply = self.back_from_editor(&entry.connection, reply);
        let server = entry.connection.name();
        runtime::at_length(reply.len(), || self.map_tool_result(Some(entry), server, reply))
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
            details["arguments"] = shown_arguments(sent, &entry.connection.redactor());
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
            changed_since: entry.standing.changed.as_deref(),
        };
        let keeper = Gatekeeper {
            host,
            memory: view.map_or(&self.memory, |view| &view.memory),
            patience,
            keep: &|remember| self.keep_permission(remember, server, tool),
        };
        let passed = pass(passage, keeper, deadline).await?;
        self.pin_passed(entry);
        Ok(passed.or(rewritten))
    }

    /// Writes an allow rule for one tool to a settings file; a failure is told, the call goes on. (POL-08)
    fn keep_permission(&self, remember: Remember, server: &str, tool: &ToolDefinition) {
        let persist = if remember == Remember::User { Persist::User } else { Persist::Local };
        let rule = crate::name::build_tool_name(server, &tool.wire_name);
        match self.write_allow_rule(persist, rule) {
            Ok(()) => self.note_kept(server, tool, persist),
            Err(error) => {
                let message = format!("the permission holds for this session only: {}", error.message());
                self.diagnose(&Diagnostic::warning("PERMISSION_NOT_KEPT", message).on(server));
            }
        }
    }

    /// Sends the call; once more with fresh definitions where the server refuses the headers built from the old ones.
    pub(super) async fn send_tool_call(&self, call: &Call<'_>, params: &Params) -> Result<RawText, McpError> {
        let Call { entry, deadline, .. } = *call;
        let connection = &entry.connection;
        let host = View::host(call.view);
        let (progress, host) = (call.options.progress.as_ref(), host.as_ref());
        let (lingering, tally) = (call.lingering, call.options.tally());
        let ask = Ask { progress, host, lingering, tally, ..Ask::new("tools/call", params, deadline) };
        let reply = tokio::select! {
            biased;
            reply = connection.request(&ask) => reply,
            never = self.report_long_call(entry, deadline) => match never {},
        };
        match reply {
            // The schema that the headers were built from has changed (mcp:HDR-24).
            Err(error) if headers_differ(&error) => {
                let live = connection.ready(deadline, None).await?;
                connection.catalog().tools.mark_stale();
                connection.tools(&live).await?;
                connection.request(&ask).await
            }
            reply => reply,
        }
    }

    pub(super) async fn report_long_call(
        &self,
        entry: &ToolEntry,
        deadline: &Deadline,
    ) -> std::convert::Infallible {
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

    /// How contents of a server are mapped.
    pub(super) fn output_rules<'a>(&'a self, server: &'a str, subject: &'a str) -> OutputRules<'a> {
        let rules = OutputRules::new(server, subject, self.options.sanitize_results, &self.outputs);
        OutputRules { max_image: self.options.max_image, ..rules }
    }

    /// The result as callers see it; where nobody knows which tool it is of, nothing is checked.
    pub(super) fn map_tool_result(
        &self,
        entry: Option<&ToolEntry>,
        server: &str,
        reply: String,
    ) -> Result<MappedResult, McpError> {
        let full_name = entry.map_or("task", |entry| &*entry.full_name);
        let rules = self.output_rules(server, full_name);
        let mut result = map_result(reply, &rules).map_err(|error| error.on(server))?;
        for warning in result.warnings.drain(..) {
            self.diagnose(&warning);
        }
        let checked =
            entry.filter(|_| !result.is_error).and_then(|entry| Some((entry, entry.output_schema.as_ref()?)));
        let mismatch =
            checked.and_then(|(entry, schema)| self.mismatch(entry, schema, result.structured_content()));
        if let Some(mismatch) = mismatch {
            let message = format!("the result of {full_name} does not match its outputSchema: {mismatch}");
            if self.options.strict_output {
                let error = McpError::new(ErrorCode::ResultInvalid, message).on(server);
                return Err(error.with(|facts| facts.data = result.kept_with_error()));
            }
            self.diagnose(&Diagnostic::warning("OUTPUT_SCHEMA_MISMATCH", message).on(server));
        }
        let save =
            |name: &str, mime_type: &str, bytes: &[u8]| self.outputs.save(Some(name), Some(mime_type), bytes);
        let result = result.without_spare();
        let claimed = entry.and_then(|entry| entry.definition().result_characters);
        let limit = self.options.output_limit.for_tool(claimed);
        let result = hold_to(result, limit, server, full_name, &save)?;
        for warning in &result.warnings {
            self.diagnose(warning);
        }
        Ok(result)
    }

    /// Where and why a text does not fit a schema; that it could not be checked is said once.
    fn mismatch(&self, entry: &ToolEntry, schema: &ToolSchema, text: Option<&str>) -> Option<String> {
        let check = schema.check(text);
        if let Some(note) = schema.note(&check, entry.connection.name(), &entry.definition().wire_name) {
            self.diagnose(&note);
        }
        check.mismatch().map(str::to_owned)
    }

    /// Arguments that do not fit the input schema are not sent, where the host asks for that. (CAL-05)
    fn check_input(&self, entry: &ToolEntry, arguments: &str) -> Result<(), McpError> {
        if !self.options.validate_input {
            return Ok(());
        }
        let Some(mismatch) = self.mismatch(entry, &entry.input_schema, Some(arguments)) else {
            return Ok(());
        };
        let message =
            format!("the arguments of {} do not match its inputSchema: {mismatch}", entry.full_name);
        Err(McpError::new(ErrorCode::InputInvalid, message).on(entry.connection.name()))
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

/// A tool is called by whom its server offers it to: apps reach only their own server, and models no tool that is
/// meant for apps alone (mcp:APP-03, 04).
pub(super) fn check_caller(entry: &ToolEntry, app: Option<&str>) -> Result<(), McpError> {
    let server = entry.connection.name();
    let why = match app {
        None if Caller::Model.sees(entry) => return Ok(()),
        None => "its server offers it to its own app alone (option app)".to_owned(),
        Some(app) if app != server => format!("it is not a tool of \"{}\", whose app calls it", shown(app)),
        Some(_) if Caller::App.sees(entry) => return Ok(()),
        Some(_) => "its server does not offer it to its app".to_owned(),
    };
    let message = format!("{} is refused: {why}", entry.full_name);
    Err(McpError::new(ErrorCode::PermissionDenied, message).on(server).with(|facts| {
        facts.layer = Some(PermissionLayer::Rule);
        facts.rule = Some("_meta.ui.visibility".to_owned());
    }))
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

fn headers_differ(error: &McpError) -> bool {
    error.facts().rpc_code == Some(HEADER_MISMATCH)
}

pub(super) fn timed(error: McpError, deadline: &Deadline) -> McpError {
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
