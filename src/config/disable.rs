//! Stage `disable`: entries that are switched off leave their group. (CFG-07, CFG-13)

use std::collections::{BTreeMap, BTreeSet};

use crate::config::merge::Group;
use crate::config::report::{Fate, ReportEntry};
use crate::config::scope::Voice;
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

/// What is on and off by name. (CFG-13)
#[derive(Clone, Copy, Debug)]
pub struct Switches<'a> {
    /// Set at run time; they win over everything, in both directions.
    pub host: &'a BTreeMap<String, bool>,
    /// `disabledMcpServers` of everybody but the repository.
    pub disabled: &'a BTreeSet<String>,
    /// `disabledMcpServers` of the repository: only its own servers.
    pub repository_disabled: &'a BTreeSet<String>,
    /// `enabledMcpServers`: only for servers that the host brings, which are off without it.
    pub enabled: &'a BTreeSet<String>,
}

impl Switches<'_> {
    /// Why an entry is off, if it is.
    fn off(&self, candidate: &Candidate) -> Option<&'static str> {
        let (name, origin) = (&*candidate.spec.name, &candidate.draft.origin);
        match self.host.get(name) {
            Some(true) => return None,
            Some(false) => return Some("Switched off"),
            None => {}
        }
        let own = origin.voice == Voice::Repository && self.repository_disabled.contains(name);
        if own || self.disabled.contains(name) {
            return Some("Named in disabledMcpServers");
        }
        if origin.builtin && !self.enabled.contains(name) {
            return Some("A server of the host that enabledMcpServers does not name");
        }
        candidate.spec.disabled.then_some("\"disabled\": true")
    }
}

/// Takes out what its definition, a list or a switch turns off.
pub fn disable(groups: Vec<Group>, switches: Switches<'_>) -> Disabled {
    let mut result = Disabled::default();
    for Group(candidates) in groups {
        let mut on = Vec::new();
        let mut off = Vec::new();
        for mut candidate in candidates {
            let reason = switches.off(&candidate);
            candidate.spec.disabled = reason.is_some();
            match reason {
                None => on.push(candidate),
                Some(reason) => {
                    result.dropped.push(candidate.draft.dropped(Fate::Disabled, reason));
                    off.push(candidate);
                }
            }
        }
        if on.is_empty() {
            result.off.extend(off.into_iter().next());
        } else {
            result.groups.push(Group(on));
        }
    }
    result
}
