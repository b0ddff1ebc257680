//! Calls under way: how each is answered exactly once, and how it is given up.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::error::{ErrorCode, McpError};
use crate::host::mailbox::{Letter, Text};
use crate::host::post::PostOffice;
use crate::jsonrpc::write::push_string;
use crate::manager::tools::{CallOutcome, Called};
use crate::manager::verbs::Answer;
use crate::runtime::{self, lock};

/// Flag of a call: it may be cancelled.
pub(super) const CANCELLABLE: u32 = 1;

/// The calls that can be cancelled.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Mutex<HashMap<u32, oneshot::Sender<()>>>,
}

impl Calls {
    /// Starts a call.
    pub(super) fn start(
        self: &Arc<Self>,
        id: u32,
        cancellable: bool,
        call: impl Future<Output = ()> + Send + 'static,
    ) {
        if !cancellable {
            return runtime::start(call);
        }
        let (cancel, cancelled) = oneshot::channel();
        lock(&self.open).insert(id, cancel);
        let calls = Arc::clone(self);
        runtime::start(async move {
            tokio::select! {
                biased;
                _ = cancelled => {}
                () = call => {}
            }
            lock(&calls.open).remove(&id);
        });
    }

    /// Gives a call up; the server is told.
    pub(super) fn cancel(&self, id: u32) {
        lock(&self.open).remove(&id);
    }

    /// Gives every call up.
    pub(super) fn cancel_all(&self) {
        lock(&self.open).clear();
    }
}

/// The one answer to a call: sent by whoever consumes it, or by its end.
pub(super) struct Reply {
    id: u32,
    post: Arc<PostOffice>,
    answered: bool,
}

impl Reply {
    pub(super) fn new(id: u32, post: Arc<PostOffice>) -> Self {
        Self { id, post, answered: false }
    }

    /// Answers with a tool result.
    pub(super) fn tool(self, outcome: CallOutcome) {
        let CallOutcome { of, result, elapsed, input } = outcome;
        let (server, tool, full_name) = match &of {
            Called::Tool(entry) => {
                (entry.connection.name(), entry.definition().wire_name.as_str(), &*entry.full_name)
            }
            Called::Unknown(server) => (&**server, "", ""),
        };
        let mut body = String::with_capacity(result.value.len() + 200);
        body.push_str("{\"kind\":\"tool\",\"id\":");
        body.push_str(&self.id.to_string());
        body.push_str(",\"server\":");
        push_string(&mut body, server);
        body.push_str(",\"tool\":");
        push_string(&mut body, tool);
        body.push_str(",\"fullName\":");
        push_string(&mut body, full_name);
        body.push_str(",\"elapsedMs\":");
        body.push_str(&elapsed.as_millis().to_string());
        body.push_str(if result.plain { ",\"plain\":true" } else { ",\"plain\":false" });
        body.push_str(",\"value\":");
        body.push_str(&result.value);
        if let Some(truncated) = &result.truncated {
            body.push_str(",\"truncated\":");
            body.push_str(&truncated.to_json());
        }
        if let Some(input) = &input {
            body.push_str(",\"input\":");
            body.push_str(input);
        }
        if let Some(raw) = &result.raw {
            body.push_str(",\"raw\":");
            body.push_str(raw);
        }
        body.push('}');
        self.settle(body, result.large_texts);
    }

    /// Answers with a value.
    pub(super) fn value(self, answer: Answer) {
        let body = format!("{{\"kind\":\"value\",\"id\":{},\"value\":{}}}", self.id, answer.value);
        self.settle(body, answer.texts);
    }

    /// Answers with an error.
    pub(super) fn fail(self, error: &McpError) {
        let body = format!("{{\"kind\":\"error\",\"id\":{},\"error\":{}}}", self.id, error.to_json());
        self.settle(body, Vec::new());
    }

    fn settle(mut self, body: String, texts: Vec<(usize, String)>) {
        self.answered = true;
        let size = body.len() + texts.iter().map(|(_, text)| text.len()).sum::<usize>();
        let (body, texts) = runtime::at_length(size, || {
            let place = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
            let texts = texts.into_iter().map(|(at, text)| (place(at), Text::ready(text))).collect();
            (Text::ready(body), texts)
        });
        self.post.deliver(Letter::Settled { body, texts });
    }
}

impl Drop for Reply {
    /// Cancelled (then nobody listens) or broken by a panic: the promise settles all the same.
    fn drop(&mut self) {
        if !self.answered {
            let error = McpError::new(ErrorCode::Internal, "the call ended without an answer");
            let body = format!("{{\"kind\":\"error\",\"id\":{},\"error\":{}}}", self.id, error.to_json());
            self.post.deliver(Letter::Settled { body: Text::Utf8(body), texts: Vec::new() });
        }
    }
}

/// Answers a question; `failure` tells that the callback failed, and how.
pub(super) fn answer(post: &PostOffice, question: u32, answer: Option<String>, failure: Option<String>) {
    let outcome = match (answer, failure) {
        (Some(answer), None) => Ok(answer),
        (_, failure) => {
            let why = failure.unwrap_or_else(|| "no answer".to_owned());
            Err(McpError::new(ErrorCode::Internal, format!("the host's callback failed: {why}")))
        }
    };
    post.answer(question, outcome);
}

/// Runs work inside of the runtime, where there are clocks and tasks; it ends when nobody waits for it.
pub(super) async fn inside<T: Send + 'static>(
    work: impl Future<Output = Result<T, McpError>> + Send + 'static,
) -> Result<T, McpError> {
    match runtime::spawn(work) {
        Some(task) => Running(task).await,
        None => Err(McpError::new(ErrorCode::Internal, "the system refused to start threads")),
    }
}

/// A task that ends when nobody waits for it.
struct Running<T>(tokio::task::JoinHandle<Result<T, McpError>>);

impl<T> std::future::Future for Running<T> {
    type Output = Result<T, McpError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(context).map(|outcome| {
            outcome
                .unwrap_or_else(|_| Err(McpError::new(ErrorCode::Internal, "a task of this package broke")))
        })
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
