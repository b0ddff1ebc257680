//! Stage `disable`: entries that are switched off leave their group. (CFG-07, CFG-13)

use std::collections::BTreeMap;

use crate::config::merge::Group;
use crate::config::report::{Fate, ReportEntry};
use crate::config::validate::Candidate;

/// Groups with what works, entries that are off, and for names with nothing that works the strongest of
/// those: it is still a server people see.
#[derive(Clone, Debug, Default)]
pub struct Disabled {
    /// Groups of entries that are on; possibly fewer than before.
    pub groups: Vec<Group>,
    /// The strongest entry of every name that is off altogether.
    pub off: Vec<Candidate>,
    /// A line for every entry that is off.
    pub dropped: Vec<ReportEntry>,
}

/// Takes out what its definition or the host's switch for the name turns off.
/// A switch wins over the definition, in both directions.
pub fn disable(groups: Vec<Group>, switches: &BTreeMap<String, bool>) -> Disabled {
    let mut result = Disabled::default();
    for Group(candidates) in groups {
        let (off, on): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .map(|candidate| switched(candidate, switches))
            .partition(|one| one.spec.disabled);
        for candidate in &off {
            let by_host = switches.get(&*candidate.spec.name) == Some(&false);
            let reason = if by_host { "Switched off" } else { "\"disabled\": true" };
            result.dropped.push(candidate.draft.dropped(Fate::Disabled, reason));
        }
        if on.is_empty() {
            result.off.extend(off.into_iter().next());
        } else {
            result.groups.push(Group(on));
        }
    }
    result
}

fn switched(mut candidate: Candidate, switches: &BTreeMap<String, bool>) -> Candidate {
    if let Some(on) = switches.get(&*candidate.spec.name) {
        candidate.spec.disabled = !on;
    }
    candidate
}
