//! What the host is asked and told. Whatever its functions do, the bridge goes on: each has a deadline.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::diagnostic::Diagnostic;
use crate::host::post::PostOffice;
use crate::host::{Host, HostEvent};

/// The functions of the host and its listeners.
#[derive(Clone)]
pub(super) struct Callbacks {
    post: Arc<PostOffice>,
    names: Arc<HashSet<String>>,
    limit: Duration,
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Callbacks {
    pub(super) fn new(post: Arc<PostOffice>, names: HashSet<String>, limit: Duration) -> Self {
        Self { post, names: Arc::new(names), limit }
    }

    /// Whether the host has this function.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Calls a function with one argument (JSON text) and waits for its answer (JSON text).
    ///
    /// # Errors
    /// That it threw, or has not answered in time; for people.
    pub(super) async fn ask(&self, name: &str, argument: &str) -> Result<String, String> {
        let answered = tokio::time::timeout(self.limit, self.post.ask_callback(name, None, argument)).await;
        match answered {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(format!("{name}: {}", error.message())),
            Err(_) => Err(format!(
                "{name} has not answered within {} ms (callbackTimeoutMs) and is waited for no longer",
                self.limit.as_millis()
            )),
        }
    }

    /// As [`Callbacks::ask`]; a failure is told.
    pub(super) async fn ask_and_tell(&self, name: &str, argument: &str) -> Option<String> {
        let answered = self.ask(name, argument).await;
        answered.map_err(|why| self.tell(&Diagnostic::error("BRIDGE_CALLBACK_FAILED", why))).ok()
    }

    /// Emits a diagnostic.
    pub(super) fn tell(&self, diagnostic: &Diagnostic) {
        if let Ok(body) = serde_json::to_string(diagnostic) {
            self.emit("diagnostic", body);
        }
    }

    /// Emits an event (its argument is JSON text).
    pub(super) fn emit(&self, name: &'static str, body: String) {
        self.post.emit(HostEvent { name, body, key: None });
    }

    /// Emits a change of the state.
    pub(super) fn state(&self, state: &str, reason: Option<&str>) {
        let body = match reason {
            Some(reason) => serde_json::json!({ "state": state, "reason": reason }),
            None => serde_json::json!({ "state": state }),
        };
        self.emit("state", body.to_string());
    }
}
