//! Stages `merge` and `settle`: which of several entries of one name counts. (CFG-07)
//!
//! `merge` only puts entries of one name in order. The stages between (policy, `disable`) take entries out,
//! so that one that may not work never stands before one that does; `settle` then keeps the first.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::draft::Staged;
use crate::config::report::{Fate, ReportEntry};
use crate::config::validate::Candidate;

/// All entries of one name, strongest first; never empty.
#[derive(Clone, Debug, Default)]
pub struct Group(pub Vec<Candidate>);

/// Groups entries by name: stronger scope first, among equals the later layer first.
/// Groups come in the order of names.
pub fn merge(candidates: Vec<Candidate>) -> Vec<Group> {
    let mut groups: BTreeMap<Arc<str>, Group> = BTreeMap::new();
    for candidate in candidates {
        groups.entry(Arc::clone(&candidate.spec.name)).or_default().0.push(candidate);
    }
    for group in groups.values_mut() {
        group.0.sort_by_key(|candidate| std::cmp::Reverse(candidate.draft.origin.strength()));
    }
    groups.into_values().collect()
}

/// Keeps the first of every group; the others are `shadowed` by it.
pub fn settle(groups: Vec<Group>) -> Staged<Candidate> {
    let mut stage = Staged::default();
    for Group(candidates) in groups {
        let mut candidates = candidates.into_iter();
        let Some(winner) = candidates.next() else { continue };
        let place = place_of(&winner);
        for loser in candidates {
            stage.dropped.push(shadowed(&loser, &winner, &place));
        }
        stage.kept.push(winner);
    }
    stage
}

fn shadowed(loser: &Candidate, winner: &Candidate, place: &str) -> ReportEntry {
    let reason = format!("The server of this name in scope {} counts", winner.spec.scope);
    loser.draft.dropped(Fate::Shadowed, reason).decided_by(place)
}

/// Scope and file of an entry, for `by`.
fn place_of(candidate: &Candidate) -> String {
    let spec = &candidate.spec;
    match &spec.file {
        Some(file) => format!("{} ({}, {file})", spec.name, spec.scope),
        None => format!("{} ({})", spec.name, spec.scope),
    }
}
