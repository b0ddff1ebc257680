//! One event for each call of the host, told at its end: what was called, for how long, and what came of it (BEY-10).
//!
//! Only where somebody listens. A call that nobody waits for any more ends with its last handle.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::registry::ToolEntry;
use crate::client::progress::ProgressSink;
use crate::client::tally::Tally;
use crate::error::{ErrorCode, McpError};
use crate::host::post::PostOffice;
use crate::host::{Host, HostEvent};
use crate::json_scan;
use crate::jsonrpc::write::{push_member, push_string};
use crate::runtime::{lock, unix_millis};
use crate::secret::SafeUrl;

/// What is called beside its method.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// The method says it all.
    Method,
    /// A tool by the name that the caller used.
    Tool(&'a str),
    /// A prompt.
    Prompt(&'a str),
    /// A resource.
    Uri(&'a str),
}

#[derive(Default)]
struct Facts {
    method: String,
    server: Option<String>,
    /// Members that say what is called.
    subject: String,
    /// Members with the ids of the trace.
    trace: String,
    ended: bool,
}

/// A call under way.
pub struct Span {
    post: Arc<PostOffice>,
    started_at: u64,
    since: Instant,
    facts: Mutex<Facts>,
    tally: Tally,
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    /// With a result; whether the tool itself reports a failure in it.
    Result {
        /// Whether the tool reports a failure.
        failed: bool,
    },
    /// With an error.
    Error(&'a McpError),
    /// Nobody waits any more.
    Cancelled,
}

impl Span {
    /// A call that begins now. It is told of once its method is known.
    pub fn start(post: &Arc<PostOffice>) -> Arc<Self> {
        Arc::new(Self {
            post: Arc::clone(post),
            started_at: unix_millis(),
            since: Instant::now(),
            facts: Mutex::default(),
            tally: Tally::default(),
        })
    }

    /// What it costs on the wire.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Says what is called.
    pub fn begin(&self, method: &str, server: Option<&str>, subject: Subject<'_>) {
        let mut facts = lock(&self.facts);
        method.clone_into(&mut facts.method);
        facts.server = server.map(str::to_owned);
        facts.subject = match subject {
            Subject::Method => String::new(),
            Subject::Tool(name) => member("tool", name),
            Subject::Prompt(name) => member("prompt", name),
            Subject::Uri(uri) => member("uri", &SafeUrl::new(uri).to_string()),
        };
    }

    /// The tool was found.
    pub(super) fn found(&self, entry: &ToolEntry) {
        let mut facts = lock(&self.facts);
        facts.server = Some(entry.connection.name().to_owned());
        let (tool, full_name) = (&entry.definition().wire_name, &entry.full_name);
        facts.subject = format!("{},{}", member("tool", tool), member("fullName", full_name));
    }

    /// The trace that it belongs to: `meta` is the text of an object.
    pub fn trace(&self, meta: &str) {
        let [traceparent] = json_scan::pick(meta, ["traceparent"]);
        let Some(text) = traceparent.and_then(json_scan::decode) else { return };
        let mut parts = text.split('-').skip(1);
        if let (Some(trace), Some(span)) = (parts.next(), parts.next()) {
            lock(&self.facts).trace = format!("{},{}", member("traceId", trace), member("spanId", span));
        }
    }

    /// Tells of the end; only the first one counts.
    pub fn end(&self, end: End<'_>) {
        let mut facts = lock(&self.facts);
        if facts.method.is_empty() || std::mem::replace(&mut facts.ended, true) {
            return;
        }
        let body = self.told(&facts, end);
        drop(facts);
        self.post.emit(HostEvent { name: "call", body, key: None });
    }

    fn told(&self, facts: &Facts, end: End<'_>) -> String {
        let mut body = member("method", &facts.method);
        if let Some(server) = &facts.server {
            push_text(&mut body, "server", server);
        }
        for members in [&facts.subject, &facts.trace] {
            if !members.is_empty() {
                body.push(',');
                body.push_str(members);
            }
        }
        let outcome = match end {
            End::Result { failed: false } => "ok",
            End::Result { failed: true } => "toolError",
            End::Error(_) => "error",
            End::Cancelled => "cancelled",
        };
        push_text(&mut body, "outcome", outcome);
        if let End::Error(error) = end {
            push_text(&mut body, "code", error.code().as_str());
            if let Some(code) = error.facts().rpc_code {
                push_member(&mut body, "rpcCode", &code.to_string());
            }
        }
        let duration = self.since.elapsed().as_secs_f64() * 1_000.0;
        let (sent, received) = self.tally.bytes();
        let attempts = self.tally.attempts();
        body.push_str(&format!(
            ",\"startedAt\":{},\"durationMs\":{duration:.3},\"attempts\":{attempts},\"bytesSent\":{sent},\
             \"bytesReceived\":{received}",
            self.started_at
        ));
        format!("{{{body}}}")
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.end(End::Cancelled);
    }
}

impl<'a> End<'a> {
    /// The end of a call of a tool; a result says whether the tool itself failed.
    pub(super) fn of_tool(outcome: Result<bool, &'a McpError>) -> Self {
        match outcome {
            Ok(failed) => End::Result { failed },
            Err(error) if error.code() == ErrorCode::TaskCancelled => End::Cancelled,
            Err(error) => End::Error(error),
        }
    }
}

/// Tells of the end of a call, if anybody listens.
pub(super) fn told<T>(span: Option<&Arc<Span>>, outcome: Result<T, McpError>) -> Result<T, McpError> {
    if let Some(span) = span {
        span.end(End::of_tool(outcome.as_ref().map(|_| false)));
    }
    outcome
}

/// Who hears of a call while it runs, and of its end.
#[derive(Clone, Default)]
pub struct Listeners {
    /// Of its progress.
    pub progress: Option<ProgressSink>,
    /// Of its end.
    pub span: Option<Arc<Span>>,
}

fn member(name: &str, value: &str) -> String {
    let mut members = String::new();
    push_text(&mut members, name, value);
    members
}

fn push_text(members: &mut String, name: &str, value: &str) {
    let mut literal = String::new();
    push_string(&mut literal, value);
    push_member(members, name, &literal);
}
