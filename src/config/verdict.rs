//! Decisions on one definition without files or a manager: the public pure functions. (POL-03, CFG-10)

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::config::draft::{Definition, Draft, RawLayer};
use crate::config::expand::ExpandedDraft;
use crate::config::policy::{Policy, Subject, Verdict, no_lookup};
use crate::config::scope::Scope;
use crate::config::settings::Said;
use crate::config::validate::validate;

/// What a policy says about a definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowed {
    /// Whether it may connect.
    pub allowed: bool,
    /// The entry that decided.
    pub by: Option<Value>,
    /// Why, for people.
    pub reason: String,
}

/// Whether a server may connect under a policy. A definition that is not valid may not. Commands are not
/// looked up on this machine, so links are not seen through.
pub fn is_server_allowed(name: &str, definition: &Definition, said: &Said) -> Allowed {
    let (policy, _) = Policy::compile(said.allowed.as_deref(), &said.denied);
    let layer = RawLayer::host(Scope::Dynamic, "");
    let draft = Draft::written(name, &layer, Arc::new(definition.clone()));
    let mut instances = BTreeSet::from([name.to_owned()]);
    instances.extend(definition.get("name").and_then(Value::as_str).map(str::to_owned));
    let stage = validate(vec![ExpandedDraft { draft, definition: definition.clone() }], &instances);
    let Some(candidate) = stage.kept.first() else {
        let reason = stage.dropped.first().and_then(|entry| entry.reason.clone()).unwrap_or_default();
        return Allowed {
            allowed: false,
            by: None,
            reason: format!("The definition is not valid: {reason}"),
        };
    };
    match policy.decide(&Subject::new(&candidate.spec, Some(definition), &[]), &no_lookup) {
        Verdict::Allowed(by) => {
            let reason = match (&by, said.allowed.is_some()) {
                (Some(_), _) => "An entry of allowedMcpServers matches",
                (None, true) => "In-process servers are the host's own code",
                (None, false) => "There is no allowedMcpServers, and no entry of deniedMcpServers matches",
            };
            Allowed { allowed: true, by, reason: reason.to_owned() }
        }
        Verdict::Denied(by) => Allowed {
            allowed: false,
            by: Some(by),
            reason: "An entry of deniedMcpServers matches".to_owned(),
        },
        Verdict::NotAllowed => {
            Allowed { allowed: false, by: None, reason: "No entry of allowedMcpServers matches".to_owned() }
        }
    }
}

/// The signature of a definition: `stdio:` and the JSON of command and arguments, `url:` and the URL; `None`
/// for in-process servers and for what has neither command nor URL.
pub fn definition_signature(definition: &Definition) -> Option<String> {
    let text = |key: &str| definition.get(key).and_then(Value::as_str);
    if text("type") == Some("sdk") {
        return None;
    }
    if let Some(command) = text("command") {
        let args = definition.get("args").and_then(Value::as_array).into_iter().flatten();
        let words: Vec<&str> = std::iter::once(command).chain(args.filter_map(Value::as_str)).collect();
        return serde_json::to_string(&words).ok().map(|json| format!("stdio:{json}"));
    }
    text("url").map(|url| format!("url:{url}"))
}
