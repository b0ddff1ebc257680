//! Stage `approve`: which entries of project files may be looked at further. (POL-01, POL-02)
//!
//! Works on the definition as written, so nothing of an unapproved entry is expanded, resolved or started.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::draft::{Definition, Draft, Staged};
use crate::config::report::{Fate, ReportEntry};
use crate::config::scope::Scope;

/// Fields whose change does not ask again.
const FREE_TO_CHANGE: [&str; 3] = ["disabled", "alwaysLoad", "tools"];

/// What was said about the servers of project files. The default is that nothing was said.
#[derive(Clone, Debug, Default)]
pub struct Approvals {
    /// Names that were rejected; stronger than everything else.
    pub rejected: BTreeSet<String>,
    /// Names that were approved, with the definition that was seen where it is known.
    pub approved: BTreeMap<String, Option<Arc<Definition>>>,
    /// Everything is approved: `enableAllProjectMcpServers`, or the host vouches for its project.
    pub all: bool,
}

/// An entry that may go on.
#[derive(Clone, Debug)]
pub struct Approved(pub Draft);

/// Lets entries of other scopes through and judges those of project files:
/// rejected, then approved as it stands, then everything approved, else pending.
pub fn approve(drafts: Vec<Draft>, approvals: &Approvals) -> Staged<Approved> {
    let mut stage = Staged::default();
    for draft in drafts {
        match judge(&draft, approvals) {
            None => stage.kept.push(Approved(draft)),
            Some(entry) => stage.dropped.push(entry),
        }
    }
    stage
}

fn judge(draft: &Draft, approvals: &Approvals) -> Option<ReportEntry> {
    if draft.origin.scope != Scope::Project {
        return None;
    }
    let name = &*draft.origin.name;
    if approvals.rejected.contains(name) {
        return Some(draft.dropped(Fate::Rejected, "Rejected by the user"));
    }
    match approvals.approved.get(name) {
        Some(None) => None,
        Some(Some(seen)) if same_for_approval(seen, &draft.definition) => None,
        Some(Some(seen)) if !approvals.all => {
            Some(draft.dropped(Fate::PendingApproval, "CHANGED_SINCE_APPROVAL").approved_as(seen))
        }
        _ if approvals.all => None,
        _ => Some(draft.dropped(Fate::PendingApproval, "A server of a project file waits for approval")),
    }
}

/// Whether two definitions are the same thing to approve.
pub fn same_for_approval(seen: &Definition, present: &Definition) -> bool {
    let counts = |key: &str| !FREE_TO_CHANGE.contains(&key);
    let size = |definition: &Definition| definition.keys().filter(|key| counts(key)).count();
    size(seen) == size(present)
        && seen.iter().filter(|(key, _)| counts(key)).all(|(key, value)| present.get(key) == Some(value))
}
