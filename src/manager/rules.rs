//! The permission rules of everybody together, and which of them count for which server. (POL-07, §2)

use crate::config::Voice;
use crate::config::settings::{Combined, RuleLists};
use crate::config::spec::ServerSpec;
use crate::diagnostic::Diagnostic;
use crate::permission::{Decision, PermissionRules, RuleSet, Verdict};

/// Compiled rules.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Rules for every server.
    own: RuleSet,
    /// Deny and ask rules of the repository, for servers that it brings itself.
    repository: RuleSet,
}

impl Rules {
    /// Compiles what counts and reports what is malformed.
    pub fn compile(combined: &Combined) -> (Self, Vec<Diagnostic>) {
        let (own, mut found) = RuleSet::compile(&lists(&combined.rules));
        let (repository, more) = RuleSet::compile(&lists(&combined.repository_rules));
        found.extend(more);
        (Self { own, repository }, found)
    }

    /// Decides on a tool by its own name: deny, then ask, then allow.
    pub fn decide(&self, server: &ServerSpec, tool: &str) -> Verdict<'_> {
        let own = self.own.decide(&server.name, tool);
        if server.voice != Voice::Repository {
            return own;
        }
        stricter(own, self.repository.decide(&server.name, tool))
    }

    /// A warning for every server that rules name and nobody configured.
    pub fn unknown_servers<'a>(&self, configured: impl IntoIterator<Item = &'a str>) -> Vec<Diagnostic> {
        self.own.unknown_servers(configured)
    }
}

fn lists(lists: &RuleLists) -> PermissionRules {
    PermissionRules { allow: lists.allow.clone(), ask: lists.ask.clone(), deny: lists.deny.clone() }
}

/// The verdict that lets less happen; `base` where the other only says that it would allow.
pub(super) fn stricter<'a>(base: Verdict<'a>, other: Verdict<'a>) -> Verdict<'a> {
    match (base.decision, other.decision) {
        (Decision::Deny, _) => base,
        (_, Decision::Deny) => other,
        (Decision::Ask, _) => base,
        (_, Decision::Ask) => other,
        _ => base,
    }
}
