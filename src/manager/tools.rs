//! Calling tools: what is prepared before one is sent, and what is made of its result.

use std::sync::Arc;
use std::time::Duration;

use super::Manager;
use super::audit::shown_arguments;
use super::finding::ToolTarget;
use super::passage::check_caller;
use super::registry::{ToolEntry, ToolKind};
use super::span::{End, Span, Subject, told};
use super::view::View;
use crate::call::blob::Shelf;
use crate::call::budget::hold_to;
use crate::call::output::{MappedResult, OutputRules, map_result};
use crate::call::tool_schema::ToolSchema;
use crate::client::Request;
use crate::client::progress::{Lingering, ProgressSink};
use crate::client::tally::Tally;
use crate::connection::{Connection, Live};
use crate::deadline::Deadline;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError};
use crate::host::{Host, HostEvent};
use crate::json_scan;
use crate::jsonrpc::RawText;
use crate::jsonrpc::write::{Params, inner_members, push_member, push_string};
use crate::protocol::negotiation::HEADER_MISMATCH;
use crate::runtime;

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
    /// The limits of a call of a server's tool; they run from now on.
    pub(super) fn deadline(&self, connection: &Connection) -> Arc<Deadline> {
        let clocks = connection.settings().clocks;
        Arc::new(Deadline::start(clocks.tool(self.timeout, self.total)))
    }

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
        let (entry, deadline) = self.meant_tool(target, &options, view).await?;
        if let Some(span) = &options.span {
            span.found(&entry);
        }
        check_caller(&entry, options.app.as_deref())?;
        self.loaded_in(view.map(|view| &**view)).add(&entry);
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
                self.map_tool_result(Some(entry), &entry.connection, reply)
            });
        }
        let params = self.tool_params(entry, arguments, call.options.meta.as_deref());
        let reply = self.send_tool_call(call, &params).await;
        let (reply, live) = reply.map_err(|error| timed(error, call.deadline))?;
        let reply = self
            .waited_for(call, reply.into_string(), &live)
            .await
            .map_err(|error| timed(error, call.deadline))?;
        runtime::at_length(reply.len(), || self.map_tool_result(Some(entry), &entry.connection, reply))
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

    /// Sends the call; once more with fresh definitions where the server refuses the headers built from the old ones.
    pub(super) async fn send_tool_call(
        &self,
        call: &Call<'_>,
        params: &Params,
    ) -> Result<(RawText, Live), McpError> {
        let Call { entry, deadline, .. } = *call;
        let connection = &entry.connection;
        let host = View::host(call.view);
        let (progress, host) = (call.options.progress.as_ref(), host.as_ref());
        let (lingering, tally) = (call.lingering, call.options.tally());
        let request =
            Request { progress, host, lingering, tally, ..Request::new("tools/call", params, deadline) };
        let reply = tokio::select! {
            biased;
            reply = connection.ask(request) => reply,
            never = self.report_long_call(entry, deadline) => match never {},
        };
        match reply {
            // The schema that the headers were built from has changed (mcp:HDR-24).
            Err(error) if headers_differ(&error) => {
                let live = connection.ready(deadline, None).await?;
                connection.catalog().tools.mark_stale();
                let read = deadline.within("tools/list", connection.tools(&live)).await;
                read.map_err(|error| error.on(connection.name()))?;
                connection.ask(request).await
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

    /// `params` of `tools/call`: the wire name, the arguments as the server wrote their names and as an editor knows
    /// places, the host's `_meta`.
    pub(super) fn tool_params(&self, entry: &ToolEntry, arguments: &str, meta: Option<&str>) -> Params {
        let tool = entry.definition();
        let arguments = self.for_editor(&entry.connection, arguments);
        let restored = tool.restore.as_ref().and_then(|restore| restore.apply(&arguments));
        let mut members = String::with_capacity(arguments.len() + tool.wire_name.len() + 32);
        members.push_str("\"name\":");
        push_string(&mut members, &tool.wire_name);
        push_member(&mut members, "arguments", restored.as_deref().unwrap_or(&arguments));
        let meta = meta.and_then(inner_members).unwrap_or_default();
        Params::from_members(members, meta.to_owned())
    }

    /// The wire result of a tool with the places of an editor as they are here; what we answered ourselves stays.
    pub(super) fn in_our_words(
        &self,
        entry: Option<&ToolEntry>,
        connection: &Connection,
        reply: String,
    ) -> String {
        match entry {
            Some(entry) if entry.kind != ToolKind::OfServer => reply,
            _ => self.back_from_editor(connection, reply),
        }
    }

    /// The result as callers see it; where nobody knows which tool it is of, nothing is checked.
    pub(super) fn map_tool_result(
        &self,
        entry: Option<&ToolEntry>,
        connection: &Connection,
        reply: String,
    ) -> Result<MappedResult, McpError> {
        let server = connection.name();
        let reply = self.in_our_words(entry, connection, reply);
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

fn headers_differ(error: &McpError) -> bool {
    error.facts().rpc_code == Some(HEADER_MISMATCH)
}

pub(super) fn timed(error: McpError, deadline: &Deadline) -> McpError {
    let elapsed = u64::try_from(deadline.elapsed().as_millis()).unwrap_or(u64::MAX);
    error.with(|facts| {
        facts.elapsed_ms.get_or_insert(elapsed);
    })
}
