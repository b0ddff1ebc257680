//! Lists of tools that are longer than models take well: which servers crowd them (J9).

use std::collections::BTreeMap;

use super::Manager;
use crate::diagnostic::{Diagnostic, ServerTools};

/// Default of `toolBudget`: the tightest of the large model APIs.
pub(super) const DEFAULT_BUDGET: usize = 128;
/// Servers that a message names; the facts have all.
const NAMED: usize = 5;

/// The servers that crowd a list: the fewest without whose tools it would be short enough, the fullest first.
/// Empty where the list is short enough, or the budget is 0.
fn crowding<'a>(servers: impl Iterator<Item = &'a str>, budget: usize) -> Vec<ServerTools> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for server in servers {
        *counts.entry(server).or_default() += 1;
    }
    let mut left: usize = counts.values().sum();
    if budget == 0 {
        return Vec::new();
    }
    let mut fullest: Vec<(&str, usize)> = counts.into_iter().collect();
    fullest.sort_by_key(|(_, tools)| std::cmp::Reverse(*tools));
    let mut crowd = Vec::new();
    for (server, tools) in fullest {
        if left <= budget {
            break;
        }
        left -= tools;
        crowd.push(ServerTools { server: server.to_owned(), tools });
    }
    crowd
}

fn finding(total: usize, budget: usize, crowd: Vec<ServerTools>) -> Diagnostic {
    let named: Vec<String> =
        crowd.iter().take(NAMED).map(|one| format!("{} ({})", one.server, one.tools)).collect();
    let more = match crowd.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "the list has {total} tools, more than the {budget} of toolBudget; it is crowded by {}{more}. Show the tools \
         that are needed (listTools({{ loaded: true }}) with searchTools), or choose some with the servers' tools.include",
        named.join(", ")
    );
    let mut finding = Diagnostic::warning("TOOLS_CROWDED", message);
    finding.crowding = crowd;
    finding
}

impl Manager {
    /// Tells, once for the same crowd, that a list for a model is longer than the budget.
    pub(super) fn tell_crowding<'a>(&self, servers: impl Iterator<Item = &'a str> + Clone) {
        let budget = self.options.tool_budget;
        let crowd = crowding(servers.clone(), budget);
        if !crowd.is_empty() {
            self.diagnose_once(&finding(servers.count(), budget, crowd));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(counts: &[(&str, usize)], budget: usize) -> Vec<(String, usize)> {
        let servers = counts.iter().flat_map(|(server, tools)| std::iter::repeat_n(*server, *tools));
        crowding(servers, budget).into_iter().map(|one| (one.server, one.tools)).collect()
    }

    #[test]
    fn j9_the_fewest_servers_without_which_the_list_would_fit() {
        let of = |names: &[(&str, usize)]| {
            names.iter().map(|(name, tools)| ((*name).to_owned(), *tools)).collect::<Vec<_>>()
        };
        let four = [("a", 20), ("b", 300), ("c", 60), ("d", 120)];
        assert_eq!(crowd(&four, 128), of(&[("b", 300), ("d", 120)]));
        assert_eq!(crowd(&four, 200), of(&[("b", 300)]));
        assert_eq!(crowd(&four, 500), of(&[]));
        assert_eq!(crowd(&four, 499), of(&[("b", 300)]));
        assert_eq!(crowd(&four, 0), of(&[]), "0 means that nobody counts");
        assert_eq!(crowd(&[("b", 70), ("a", 70)], 128), of(&[("a", 70)]), "the same in every run");
    }

    #[test]
    fn j9_a_message_names_a_few_and_the_facts_have_all() {
        let crowd: Vec<ServerTools> =
            (0..8).map(|n| ServerTools { server: format!("s{n}"), tools: 100 - n }).collect();
        let told = finding(900, 128, crowd);
        assert!(told.message.contains("s0 (100)") && told.message.contains("and 3 more"), "{}", told.message);
        assert!(!told.message.contains("s5"));
        assert_eq!(told.crowding.len(), 8);
    }
}
