//! Whether a tool call may run, as far as rules and remembered answers say. (POL-07, POL-08)
//!
//! Owns: the grammar of rules and their order, remembered answers, the reading of a host's answer. All of it
//! is pure; asking the host, waiting for it and refusing the call belong to the caller.

pub mod answer;
pub mod memory;
pub mod rule;

use serde::Deserialize;

pub use answer::{Answer, Remember, read_answer};
pub use memory::Memory;
pub use rule::{Decision, RuleSet, Verdict};

use crate::name::parse_tool_name;

/// The option `permissions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PermissionRules {
    /// Calls that run without a question.
    pub allow: Vec<String>,
    /// Calls that are asked about even if allowed.
    pub ask: Vec<String>,
    /// Calls that never run.
    pub deny: Vec<String>,
}

/// Decides on a full name, read as `parse_tool_name` reads it; where server and tool are at hand,
/// [`RuleSet::decide`] is exact. A name that is no MCP name is none of ours: passthrough, no rule.
pub fn decide_full_name<'a>(rules: &'a RuleSet, full_name: &str) -> Verdict<'a> {
    match parse_tool_name(full_name) {
        Some((server, tool)) => rules.decide(server, tool),
        None => Verdict { decision: Decision::Passthrough, rule: None },
    }
}

#[cfg(test)]
mod tests;
