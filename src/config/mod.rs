//! From configuration files to servers that may run.
//!
//! Owns: the chain `load → parse → approve → expand → validate → merge → policy → disable → dedupe` (CFG-07),
//! of which everything but `load` is pure; what became of every entry (CFG-09); the difference between two
//! outcomes. `policy` and `dedupe` have their places in [`resolve`] and no rules yet. Starts nothing.

pub mod approve;
pub mod disable;
pub mod draft;
mod duration;
pub mod expand;
mod fields;
pub mod load;
pub mod merge;
pub mod names;
pub mod options;
pub mod parse;
mod position;
pub mod report;
pub mod scope;
pub mod spec;
mod url_check;
pub mod validate;
pub mod windows_command;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use draft::{LayerShape, RawLayer};
pub use options::{ConfigOptions, Inputs, ResolveOptions};
pub use report::{Fate, ReportEntry};
pub use scope::Scope;
pub use spec::{ServerSpec, Timeouts, TransportSpec};

use crate::config::draft::Staged;
use crate::config::validate::Candidate;
use crate::diagnostic::{Diagnostic, Level};

/// What the configuration comes to.
#[derive(Clone, Debug, Default)]
pub struct Resolution {
    /// Servers that run or are switched off (`disabled`), one per name, in the order of names.
    pub servers: Vec<Arc<ServerSpec>>,
    /// A line for every entry ever seen.
    pub entries: Vec<ReportEntry>,
    /// What does not work.
    pub errors: Vec<Diagnostic>,
    /// What works, yet not as written; notes too.
    pub warnings: Vec<Diagnostic>,
}

impl Resolution {
    /// JSON text of a `ConfigReport`, secrets redacted.
    pub fn report_json(&self) -> String {
        report::report_json(&self.entries, self.errors.iter().chain(&self.warnings))
    }

    /// The server of a name.
    pub fn server(&self, name: &str) -> Option<&Arc<ServerSpec>> {
        let at = self.servers.binary_search_by(|server| (*server.name).cmp(name)).ok()?;
        self.servers.get(at)
    }
}

/// Runs the pipeline. Pure: the same inputs give the same outcome.
pub fn resolve(inputs: &Inputs) -> Resolution {
    let options = &inputs.options;
    let mut ledger = Ledger { entries: Vec::new(), diagnostics: inputs.diagnostics.clone() };
    let parsed = inputs.layers.iter().enumerate().map(|(order, layer)| parse::parse(layer, order));
    let drafts: Vec<_> = parsed.flat_map(|stage| ledger.keep(stage)).collect();
    let drafts = ledger.keep(names::check_names(drafts, &options.reserved));
    let approved = ledger.keep(approve::approve(drafts, &options.approvals));
    let lookup = |name: &str| options.environment.get(name).map(str::to_owned);
    let expanded = ledger.keep(expand::expand(approved, &lookup));
    let candidates = ledger.keep(validate::validate(expanded, &options.sdk_instances));
    let groups = merge::merge(candidates);
    let disabled = disable::disable(groups, &options.switches);
    ledger.entries.extend(disabled.dropped);
    let active = ledger.keep(merge::settle(disabled.groups));
    ledger.finish(active, disabled.off)
}

/// Collects what the stages leave behind.
struct Ledger {
    entries: Vec<ReportEntry>,
    diagnostics: Vec<Diagnostic>,
}

impl Ledger {
    fn keep<T>(&mut self, stage: Staged<T>) -> Vec<T> {
        self.entries.extend(stage.dropped);
        self.diagnostics.extend(stage.diagnostics);
        stage.kept
    }

    fn finish(mut self, active: Vec<Candidate>, off: Vec<Candidate>) -> Resolution {
        for candidate in &active {
            self.entries.push(ReportEntry::new(
                &candidate.draft.origin,
                &candidate.draft.definition,
                Fate::Active,
            ));
        }
        self.entries.sort_by(|a, b| {
            (&a.name, b.scope, a.fate != Fate::Active).cmp(&(&b.name, a.scope, b.fate != Fate::Active))
        });
        let mut servers: Vec<Arc<ServerSpec>> =
            active.into_iter().chain(off).map(|candidate| Arc::new(candidate.spec)).collect();
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        let (errors, warnings) =
            self.diagnostics.into_iter().partition(|diagnostic| diagnostic.level == Level::Error);
        Resolution { servers, entries: self.entries, errors, warnings }
    }
}

/// Names that differ between two outcomes.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// Only in the new one.
    pub added: Vec<String>,
    /// Only in the old one.
    pub removed: Vec<String>,
    /// In both, with another effect; a definition that only moved is not among them.
    pub changed: Vec<String>,
}

/// Compares two outcomes by the effect of their servers.
pub fn diff(old: &Resolution, new: &Resolution) -> Difference {
    let by_name = |resolution: &Resolution| -> BTreeMap<Arc<str>, Arc<ServerSpec>> {
        resolution.servers.iter().map(|server| (Arc::clone(&server.name), Arc::clone(server))).collect()
    };
    let (before, after) = (by_name(old), by_name(new));
    let mut difference = Difference::default();
    for (name, server) in &after {
        match before.get(name) {
            None => difference.added.push(name.to_string()),
            Some(earlier) if !earlier.same_effect(server) => difference.changed.push(name.to_string()),
            Some(_) => {}
        }
    }
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    difference.removed.extend(gone.map(ToString::to_string));
    difference
}

#[cfg(test)]
mod tests;
