//! From configuration files to servers that may run.
//!
//! Owns: the chain `load → parse → approve → expand → validate → merge → policy → disable → dedupe` (CFG-07),
//! of which everything but `load` is pure; what became of every entry (CFG-09); the difference between two
//! outcomes. Starts nothing.

pub mod approve;
pub mod connectors;
pub mod dedupe;
pub mod disable;
pub mod draft;
mod duration;
pub mod edit;
pub mod expand;
mod fields;
pub mod git_index;
pub mod identity;
pub mod import;
pub mod load;
pub mod merge;
pub mod names;
pub mod options;
pub mod parse;
pub mod policy;
mod position;
pub mod report;
pub mod scope;
pub mod settings;
pub mod signature;
pub mod sources;
pub mod spec;
pub mod trust;
pub mod url_check;
pub mod validate;
pub mod verdict;
pub mod windows_command;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use draft::{LayerShape, RawLayer};
pub use options::{ConfigOptions, Inputs, ResolveOptions};
pub use report::{Fate, ReportEntry};
pub use scope::{Scope, Voice};
pub use sources::Places;
pub use spec::{ServerSpec, Timeouts, TransportSpec};

use crate::config::approve::{Approvals, Pending};
use crate::config::disable::Switches;
use crate::config::draft::{Draft, Staged};
use crate::config::settings::{Combined, Words};
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
    /// Policy, rules and lists of all layers together.
    pub combined: Combined,
    /// Entries that wait for approval, strongest first within a name.
    pub pending: Vec<Pending>,
    /// Entries that were approved by name alone and whose definition has to be kept.
    pub by_name: Vec<Draft>,
    /// Every entry that the repository brings, whatever became of it.
    pub of_repository: Vec<Draft>,
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
    resolve_with(inputs, &policy::no_lookup)
}

/// As [`resolve`], with a view of where commands lead on this machine; only deny entries ask for it.
pub fn resolve_with(inputs: &Inputs, lookup: policy::Lookup<'_>) -> Resolution {
    let options = &inputs.options;
    let mut ledger = Ledger { entries: Vec::new(), diagnostics: inputs.diagnostics.clone() };
    let (drafts, combined) = ledger.read(inputs);
    let drafts = ledger.keep(names::check_names(drafts, &options.reserved));
    let drafts = ledger.keep(exclude(drafts, combined.exclusive));
    let of_repository =
        drafts.iter().filter(|draft| draft.origin.voice == Voice::Repository).cloned().collect();
    let judged = approve::approve(drafts, &approvals(options, &combined));
    let approved = ledger.keep(judged.stage);
    let variable = |name: &str| options.environment.get(name).map(str::to_owned);
    let expanded = ledger.keep(expand::expand(approved, &variable));
    let candidates = ledger.keep(validate::validate(expanded, &options.sdk_instances));
    let groups = merge::merge(candidates);
    let (groups, forbidden) = policy::apply(groups, &combined.policy, &options.relays, lookup);
    ledger.entries.extend(forbidden);
    let switches = Switches {
        host: &options.switches,
        disabled: &combined.disabled,
        repository_disabled: &combined.repository_disabled,
        enabled: &combined.enabled,
    };
    let disabled = disable::disable(groups, switches);
    ledger.entries.extend(disabled.dropped);
    let settled = ledger.keep(merge::settle(disabled.groups));
    let active = ledger.keep(dedupe::dedupe(settled, &options.relays, &options.unusable));
    let mut resolution = ledger.finish(active, disabled.off);
    let waits = |one: &Pending| {
        let same =
            |entry: &&ReportEntry| entry.name == one.draft.origin.name && entry.file == one.draft.origin.file;
        resolution.entries.iter().find(same).is_some_and(|entry| entry.fate == Fate::PendingApproval)
    };
    resolution.pending = judged.pending.into_iter().filter(|one| waits(one)).collect();
    resolution.of_repository = of_repository;
    resolution.by_name = judged.by_name;
    resolution.combined = combined;
    resolution
}

/// Approvals of the host and of files together.
fn approvals(options: &ResolveOptions, combined: &Combined) -> Approvals {
    let mut approvals = options.approvals.clone();
    approvals.rejected.extend(combined.rejected.iter().cloned());
    for name in &combined.approved {
        approvals.approved.entry(name.clone()).or_insert(None);
    }
    approvals.all |= combined.approve_all;
    approvals
}

/// What decides where only the organisation's servers may exist. (POL-11)
pub const EXCLUSIVE: &str = "managed-mcp.json";

/// Only the organisation's servers may exist, and the host's own code. (CFG-08)
fn exclude(drafts: Vec<Draft>, exclusive: bool) -> Staged<Draft> {
    let mut stage = Staged::default();
    for draft in drafts {
        let in_process = draft.origin.voice == Voice::Host
            && draft.definition.get("type").and_then(serde_json::Value::as_str) == Some("sdk");
        if !exclusive || draft.origin.scope == Scope::Enterprise || in_process {
            stage.kept.push(draft);
        } else {
            let reason = "Only the servers of the organisation's file may exist";
            stage.dropped.push(draft.dropped(Fate::EnterpriseExclusive, reason).decided_by(EXCLUSIVE));
        }
    }
    stage
}

/// Collects what the stages leave behind.
struct Ledger {
    entries: Vec<ReportEntry>,
    diagnostics: Vec<Diagnostic>,
}

impl Ledger {
    /// Stage `parse` for all layers, and their words together.
    fn read(&mut self, inputs: &Inputs) -> (Vec<Draft>, Combined) {
        let mut drafts = Vec::new();
        let host = Words {
            voice: Voice::Host,
            scope: Scope::Dynamic,
            file: None,
            said: inputs.options.host.clone(),
        };
        let mut words = vec![host];
        for (order, layer) in inputs.layers.iter().enumerate() {
            let mut parsed = parse::parse(layer, order);
            if layer.voice == Voice::Organisation
                && layer.shape == LayerShape::Settings
                && !parse::is_readable(layer)
            {
                parsed.said.allowed = Some(Vec::new());
                self.diagnostics.push(without_policy(layer));
            }
            drafts.extend(self.keep(parsed.servers));
            words.push(Words {
                voice: layer.voice,
                scope: layer.scope,
                file: layer.file.clone(),
                said: parsed.said,
            });
        }
        let (combined, found) = settings::combine(&words, inputs.options.exclusive);
        self.diagnostics.extend(found);
        (drafts, combined)
    }

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
        shadow_pending(&mut self.entries);
        self.entries.sort_by(|a, b| {
            (&a.name, b.scope, a.fate != Fate::Active).cmp(&(&b.name, a.scope, b.fate != Fate::Active))
        });
        let mut servers: Vec<Arc<ServerSpec>> =
            active.into_iter().chain(off).map(|candidate| Arc::new(candidate.spec)).collect();
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        let (errors, warnings) =
            self.diagnostics.into_iter().partition(|diagnostic| diagnostic.level == Level::Error);
        Resolution { servers, entries: self.entries, errors, warnings, ..Resolution::default() }
    }
}

/// What an organisation forbids is not known: nothing is allowed. (POL-03)
fn without_policy(layer: &RawLayer) -> Diagnostic {
    let message = "The organisation's settings cannot be read, so no server may connect until they can be";
    let mut diagnostic = Diagnostic::error("CONFIG_INVALID", message);
    diagnostic.file = layer.file.as_deref().map(str::to_owned);
    diagnostic
}

/// A project entry that waits below a project entry that runs is shadowed: approving it would change nothing.
fn shadow_pending(entries: &mut [ReportEntry]) {
    let runs: BTreeMap<Arc<str>, String> = entries
        .iter()
        .filter(|entry| entry.fate == Fate::Active && entry.scope == Scope::Project)
        .map(|entry| (Arc::clone(&entry.name), entry.file.as_deref().unwrap_or_default().to_owned()))
        .collect();
    for entry in entries.iter_mut().filter(|entry| entry.fate == Fate::PendingApproval) {
        let Some(file) = runs.get(&entry.name) else { continue };
        let own = entry.file.as_deref().unwrap_or_default();
        // A file further down the tree has the longer directory.
        if entry.scope == Scope::Project && directory_depth(own) < directory_depth(file) {
            entry.fate = Fate::Shadowed;
            entry.by = Some(format!("{} (project, {file})", entry.name));
            entry.reason = Some("The server of this name in a deeper directory counts".to_owned());
            entry.approved = None;
        }
    }
}

fn directory_depth(file: &str) -> usize {
    std::path::Path::new(file).components().count()
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
pub(crate) mod tests;
