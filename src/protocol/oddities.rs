//! Warnings about one result: what was odd in it, bounded however odd it is.

use super::definition::shown;
use crate::diagnostic::Diagnostic;

/// Most warnings of one result that are told one by one.
const MAX_WARNINGS: usize = 5;

/// Warnings about one result: the first few, and how many more there were.
pub(crate) struct Oddities {
    server: String,
    subject: String,
    told: Vec<Diagnostic>,
    more: usize,
}

impl Oddities {
    pub(crate) fn new(server: &str, subject: &str) -> Self {
        Self { server: server.to_owned(), subject: shown(subject), told: Vec::new(), more: 0 }
    }

    pub(crate) fn add(&mut self, code: &'static str, reason: &str) {
        if self.told.len() < MAX_WARNINGS {
            let message = format!("result of '{}': {reason}", self.subject);
            self.told.push(Diagnostic::warning(code, message).on(&self.server));
        } else {
            self.more += 1;
        }
    }

    /// Adds what is no fault of the server.
    pub(crate) fn note(&mut self, code: &'static str, reason: &str) {
        let message = format!("result of '{}': {reason}", self.subject);
        self.told.push(Diagnostic::info(code, message).on(&self.server));
    }

    /// Adds that characters were removed, if any were.
    pub(crate) fn hidden(&mut self, removed: usize) {
        if removed > 0 {
            let place = format!("result of '{}'", self.subject);
            self.told.push(Diagnostic::hidden(&place, removed).on(&self.server));
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        if self.more > 0 {
            let message = format!("result of '{}': {} more oddities", self.subject, self.more);
            self.told.push(Diagnostic::warning("RESULT_ODD", message).on(&self.server));
        }
        self.told
    }
}
