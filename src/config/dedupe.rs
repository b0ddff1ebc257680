//! Stage `dedupe`: one server under several names runs once, where one of them was written by hand. (CFG-10)

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::config::draft::Staged;
use crate::config::report::Fate;
use crate::config::scope::Scope;
use crate::config::signature::signature;
use crate::config::validate::Candidate;

/// How deliberate an entry is: by hand, by a plugin, from an account.
fn rank(scope: Scope) -> u8 {
    match scope {
        Scope::Connector => 0,
        Scope::Plugin => 1,
        _ => 2,
    }
}

/// Ends entries that a more deliberate one of the same signature makes superfluous. Entries of the same rank
/// all stay: they may differ in credentials.
/// Servers in `unusable` wait for a login; they win against nobody.
pub fn dedupe(
    candidates: Vec<Candidate>,
    relays: &[String],
    unusable: &BTreeSet<String>,
) -> Staged<Candidate> {
    let mut winners: HashMap<String, (u8, Arc<str>)> = HashMap::new();
    for candidate in &candidates {
        let name = &candidate.spec.name;
        let Some(signature) = signature(&candidate.spec, relays) else { continue };
        if unusable.contains(&**name) {
            continue;
        }
        let rank = rank(candidate.spec.scope);
        let best = winners.entry(signature).or_insert_with(|| (rank, Arc::clone(name)));
        if rank > best.0 {
            *best = (rank, Arc::clone(name));
        }
    }
    let mut stage = Staged::default();
    for candidate in candidates {
        let mine = rank(candidate.spec.scope);
        let winner = signature(&candidate.spec, relays).and_then(|signature| winners.get(&signature));
        match winner {
            Some((best, name)) if *best > mine => {
                let reason = format!("The server \"{name}\" is the same and was chosen more deliberately");
                stage.dropped.push(candidate.draft.dropped(Fate::Duplicate, reason).decided_by(&**name));
            }
            _ => stage.kept.push(candidate),
        }
    }
    stage
}
