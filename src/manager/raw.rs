//! Any method of the protocol, as the host writes it. A tool call passes the same gate as every other.

use std::sync::Arc;

use super::Manager;
use super::finding::ToolTarget;
use super::passage::check_caller;
use super::registry::{ToolEntry, ToolKind};
use super::span::End;
use super::tools::{Call, CallOptions, check_depth};
use crate::client::Request;
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::error::{ErrorCode, McpError};
use crate::json_scan;
use crate::jsonrpc::write::{Params, push_member, push_string};

impl Manager {
    /// Sends a request and gives JSON text of `{result}`, as the server sent it; for `tools/call` also
    /// `call: {tool, fullName, input, elapsedMs}`, for the hook behind it.
    ///
    /// # Errors
    /// As [`Manager::call_tool`]; `INVALID_ARGUMENT` for parameters that are no object.
    pub async fn request(
        &self,
        server: &str,
        method: &str,
        params: &str,
        options: CallOptions,
    ) -> Result<String, McpError> {
        check_depth("params", params)?;
        let connection = self.connection(server).await?;
        let wire = Params::from_object(params).ok_or_else(|| bad("expected an object"))?;
        let wire = match options.meta.as_deref() {
            Some(more) => wire.with_meta(merged(wire.meta(), more)),
            None => wire,
        };
        if method == "tools/call" {
            return self.raw_tool_call(&connection, params, wire.meta(), options).await;
        }
        let clocks = connection.settings().clocks;
        let deadline = Deadline::start(clocks.request(options.timeout, options.total));
        let (deadline, progress, tally) = (&Arc::new(deadline), options.progress.as_ref(), options.tally());
        let request = Request { progress, tally, ..Request::new(method, &wire, deadline) };
        let reply = connection.request(request).await?;
        Ok(format!("{{\"result\":{}}}", reply.as_str()))
    }

    async fn raw_tool_call(
        &self,
        connection: &Connection,
        params: &str,
        meta: &str,
        options: CallOptions,
    ) -> Result<String, McpError> {
        let [name, arguments, task] = json_scan::pick(params, ["name", "arguments", "task"]);
        let name = name.and_then(json_scan::decode).ok_or_else(|| bad("tools/call needs a name"))?;
        let target = ToolTarget::Pair { server: connection.name().to_owned(), tool: name.into_owned() };
        let (entry, deadline) = self.meant_tool(&target, &options, None).await?;
        if let Some(span) = &options.span {
            span.found(&entry);
        }
        check_caller(&entry, options.app.as_deref())?;
        let arguments = arguments.unwrap_or("{}");
        let call =
            Call { entry: &entry, deadline: &deadline, options: &options, view: None, lingering: None };
        let passed = self.pass_gate(&call, arguments).await?;
        let sent = passed.as_deref().unwrap_or(arguments);
        let outcome = if entry.kind == ToolKind::OfServer {
            // The answer may be a task then; whoever writes requests by hand follows it by hand.
            let task = task.map(|task| format!("\"task\":{task}")).unwrap_or_default();
            let wire = self.tool_params(&entry, sent, None).with_meta(meta.to_owned()).and(&task);
            let reply = self.send_tool_call(&call, &wire).await;
            reply.map(|(reply, _)| self.in_our_words(Some(&entry), connection, reply.into_string()))
        } else {
            self.run_resource_tool(&call, sent).await
        };
        let failed = |reply: &String| json_scan::pick(reply, ["isError"]) == [Some("true")];
        self.audit_call(&call, sent, outcome.as_ref().map(|reply| (failed(reply), reply.len())));
        if let Some(span) = &options.span {
            span.end(End::of_tool(outcome.as_ref().map(failed)));
        }
        Ok(told(&entry, &outcome?, sent, &deadline))
    }
}

/// Members of `_meta`: those of the parameters, and those of the options that these do not have.
fn merged(members: &str, more: &str) -> String {
    let own = format!("{{{members}}}");
    let known: Vec<_> = json_scan::members(&own).map(|member| member.key()).collect();
    let mut all = members.to_owned();
    for member in json_scan::members(more).filter(|member| !known.contains(&member.key())) {
        push_member(&mut all, &member.key(), member.value);
    }
    all
}

fn told(entry: &ToolEntry, reply: &str, input: &str, deadline: &Deadline) -> String {
    let mut text = String::with_capacity(reply.len() + input.len() + 200);
    text.push_str("{\"result\":");
    text.push_str(reply);
    text.push_str(",\"call\":{\"tool\":");
    push_string(&mut text, &entry.definition().wire_name);
    text.push_str(",\"fullName\":");
    push_string(&mut text, &entry.full_name);
    push_member(&mut text, "input", input);
    push_member(&mut text, "elapsedMs", &deadline.elapsed().as_millis().to_string());
    text.push_str("}}");
    text
}

fn bad(why: &str) -> McpError {
    McpError::new(ErrorCode::InvalidArgument, format!("params: {why}"))
        .with(|facts| facts.parameter = Some("params".to_owned()))
}
