//! Progress tokens: which request a sign of life belongs to (PRO-08, C5).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::deadline::Deadline;
use crate::runtime::lock;
use crate::unicode;

/// One progress notification as callers see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Progress {
    /// How far; rises within a request.
    pub progress: f64,
    /// Of how much, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done, cleaned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Who hears of progress.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

struct Watched {
    deadline: Arc<Deadline>,
    sink: Option<ProgressSink>,
    last: f64,
}

/// The requests that may make progress.
#[derive(Default)]
pub struct ProgressTable {
    watched: Mutex<HashMap<u64, Watched>>,
}

impl fmt::Debug for ProgressTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressTable").field("watched", &lock(&self.watched).len()).finish()
    }
}

/// `params` of `notifications/progress`, as far as it concerns us.
#[derive(Deserialize)]
struct Notice {
    #[serde(rename = "progressToken")]
    token: u64,
    progress: f64,
    #[serde(default)]
    total: Option<f64>,
    #[serde(default)]
    message: Option<String>,
}

impl ProgressTable {
    /// Watches a request until the guard is dropped: nothing is delivered after its end (mcp:PROG-04).
    pub fn watch(
        self: &Arc<Self>,
        id: u64,
        deadline: Arc<Deadline>,
        sink: Option<ProgressSink>,
    ) -> WatchGuard {
        let entry = Watched { deadline, sink, last: f64::NEG_INFINITY };
        lock(&self.watched).insert(id, entry);
        WatchGuard { table: Arc::clone(self), id }
    }

    /// Ends the watching of a request whose answer has come.
    pub fn end(&self, id: u64) {
        lock(&self.watched).remove(&id);
    }

    /// Takes a notification; `false` when its token belongs to no open request.
    pub fn notice(&self, params: &str) -> bool {
        let Ok(notice) = serde_json::from_str::<Notice>(params) else {
            return false;
        };
        let mut watched = lock(&self.watched);
        let Some(entry) = watched.get_mut(&notice.token) else {
            return false;
        };
        entry.deadline.touch();
        // A value that does not rise keeps the call alive but is not shown (mcp:PROG-03).
        if notice.progress <= entry.last {
            return true;
        }
        entry.last = notice.progress;
        let Some(sink) = entry.sink.clone() else {
            return true;
        };
        // Called under the lock, so that nothing is delivered once the guard is gone.
        sink(Progress {
            progress: notice.progress,
            total: notice.total,
            message: notice.message.map(|text| unicode::clean_str_lossy(&text)),
        });
        true
    }
}

/// Ends the watching of one request.
#[derive(Debug)]
pub struct WatchGuard {
    table: Arc<ProgressTable>,
    id: u64,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.table.end(self.id);
    }
}
