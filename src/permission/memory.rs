//! Answers that hold for the rest of a session.

use std::collections::HashMap;

/// Most answers that are kept; a host that remembers more is asked again.
const MAX_ANSWERS: usize = 10_000;

/// Remembered answers by (server, tool), both as the server and the configuration name them.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    servers: HashMap<String, HashMap<String, bool>>,
    count: usize,
}

impl Memory {
    /// Keeps an answer; the last one counts. Returns whether there was room for it.
    pub fn remember(&mut self, server: &str, tool: &str, allowed: bool) -> bool {
        let known = self.recall(server, tool).is_some();
        if !known && self.count >= MAX_ANSWERS {
            return false;
        }
        self.count += usize::from(!known);
        self.servers.entry(server.to_owned()).or_default().insert(tool.to_owned(), allowed);
        true
    }

    /// The remembered answer, if any.
    pub fn recall(&self, server: &str, tool: &str) -> Option<bool> {
        self.servers.get(server)?.get(tool).copied()
    }

    /// Forgets one tool, say because its definition changed.
    pub fn forget(&mut self, server: &str, tool: &str) {
        let forgotten = self.servers.get_mut(server).and_then(|tools| tools.remove(tool));
        self.count -= usize::from(forgotten.is_some());
    }

    /// Forgets a whole server, say because it was removed or changed.
    pub fn forget_server(&mut self, server: &str) {
        let forgotten = self.servers.remove(server).map_or(0, |tools| tools.len());
        self.count -= forgotten;
    }

    /// How many answers are kept.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no answer is kept.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
