//! The stage of the pipeline: entries that policy forbids leave their group.

use super::{ALLOW_LIST, Lookup, Policy, Subject, Verdict, shown};
use crate::config::merge::Group;
use crate::config::report::{Fate, ReportEntry};

/// Takes out what may not connect, so that it stands before nothing that may.
pub(crate) fn apply(
    groups: Vec<Group>,
    policy: &Policy,
    relays: &[String],
    lookup: Lookup<'_>,
) -> (Vec<Group>, Vec<ReportEntry>) {
    let mut dropped = Vec::new();
    let mut kept = Vec::new();
    for Group(candidates) in groups {
        let mut allowed = Vec::new();
        for candidate in candidates {
            let subject = Subject::new(&candidate.spec, Some(&candidate.draft.definition), relays);
            match policy.decide(&subject, lookup) {
                Verdict::Allowed(_) => allowed.push(candidate),
                Verdict::Denied(rule) => {
                    let reason = "An entry of deniedMcpServers matches";
                    dropped.push(candidate.draft.dropped(Fate::Denied, reason).decided_by(shown(&rule)));
                }
                Verdict::NotAllowed => {
                    let reason = "No entry of allowedMcpServers matches";
                    dropped.push(candidate.draft.dropped(Fate::NotAllowed, reason).decided_by(ALLOW_LIST));
                }
            }
        }
        if !allowed.is_empty() {
            kept.push(Group(allowed));
        }
    }
    (kept, dropped)
}
