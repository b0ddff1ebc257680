//! Stage `approve`: which entries of repository files may be looked at further. (POL-01, POL-02)
//!
//! Works on the definition as written, so nothing of an unapproved entry is expanded, resolved or started.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::config::draft::{Definition, Draft, Staged};
use crate::config::report::{Fate, ReportEntry};
use crate::config::scope::Voice;

/// Fields whose change does not ask again.
const FREE_TO_CHANGE: [&str; 3] = ["disabled", "alwaysLoad", "tools"];

/// Variables that make a program load code before its own; only a person who saw them may let them pass.
/// (B-016)
#[rustfmt::skip]
const LOADER_VARIABLES: [&str; 43] = [
    "NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "BUN_OPTIONS",
    "NPM_CONFIG_NODE_OPTIONS", "NPM_CONFIG_SCRIPT_SHELL",
    "PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONBREAKPOINT",
    "PERL5OPT", "PERL5LIB", "PERL5DB", "RUBYOPT", "RUBYLIB", "PHPRC", "PHP_INI_SCAN_DIR", "LUA_INIT",
    "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH",
    "DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "CORECLR_PROFILER_PATH", "COR_PROFILER_PATH",
    "BASH_ENV", "PROMPT_COMMAND", "PS4", "COMSPEC", "RUSTC_WRAPPER",
    "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "GIT_ASKPASS", "GIT_EXEC_PATH",
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT", "OPENSSL_CONF", "OPENSSL_MODULES", "GCONV_PATH",
];

/// What a person (or the host for them) said about one definition of one file.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Approved, exactly as it stood.
    Approved(Arc<Definition>),
    /// Approved by name; this is what stood there when the approval was first used.
    SeenByName(Arc<Definition>),
    /// Rejected, whatever stands there.
    Rejected,
}

/// What was said about the servers of repository files. The default is that nothing was said.
#[derive(Clone, Debug, Default)]
pub struct Approvals {
    /// By file and name: `approveServer()`, `rejectServer()`, answers of `onApproval`.
    pub decisions: BTreeMap<(String, String), Decision>,
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

/// What the stage leaves beside approved entries.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// Go on, or end here.
    pub stage: Staged<Approved>,
    /// Wait for a word, strongest first within a name; with what was approved before.
    pub pending: Vec<Pending>,
    /// Were approved by name alone: what they are now has to be kept, so that a change is seen.
    pub by_name: Vec<Draft>,
}

/// An entry that waits for approval.
#[derive(Clone)]
pub struct Pending {
    /// The entry.
    pub draft: Draft,
    /// The definition that was approved earlier, where it has changed since.
    pub before: Option<Arc<Definition>>,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let before = self.before.as_deref().map(crate::config::report::redact_definition);
        f.debug_struct("Pending").field("draft", &self.draft).field("before", &before).finish()
    }
}

/// Lets entries of other writers through and judges those of the repository:
/// rejected, then approved as it stands, then everything approved, else pending.
pub fn approve(drafts: Vec<Draft>, approvals: &Approvals) -> Judged {
    let mut judged = Judged::default();
    for draft in drafts {
        match judge(&draft, approvals) {
            Verdict::Approved => judged.stage.kept.push(Approved(draft)),
            Verdict::ByName => {
                judged.by_name.push(draft.clone());
                judged.stage.kept.push(Approved(draft));
            }
            Verdict::Rejected => {
                judged.stage.dropped.push(draft.dropped(Fate::Rejected, "Rejected by the user"));
            }
            Verdict::Pending(before) => {
                judged.stage.dropped.push(pending_entry(&draft, before.as_deref()));
                judged.pending.push(Pending { draft, before });
            }
        }
    }
    judged.pending.sort_by(|a, b| {
        let key = |one: &Pending| {
            (Arc::clone(&one.draft.origin.name), std::cmp::Reverse(one.draft.origin.strength()))
        };
        key(a).cmp(&key(b))
    });
    judged
}

enum Verdict {
    Approved,
    ByName,
    Rejected,
    Pending(Option<Arc<Definition>>),
}

fn judge(draft: &Draft, approvals: &Approvals) -> Verdict {
    if draft.origin.voice != Voice::Repository {
        return Verdict::Approved;
    }
    let name = &*draft.origin.name;
    let file = draft.origin.file.as_deref().unwrap_or_default();
    let decision = approvals.decisions.get(&(file.to_owned(), name.to_owned()));
    if approvals.rejected.contains(name) || decision == Some(&Decision::Rejected) {
        return Verdict::Rejected;
    }
    let same = |seen: &Definition| same_for_approval(seen, &draft.definition);
    let mut before = None;
    if let Some(Decision::Approved(seen)) = decision {
        if same(seen) {
            return Verdict::Approved;
        }
        before = Some(Arc::clone(seen));
    }
    if loader_variables(&draft.definition).next().is_some() {
        return Verdict::Pending(before);
    }
    match (approvals.approved.get(name), decision) {
        (Some(Some(seen)), _) if same(seen) => return Verdict::Approved,
        (Some(None), Some(Decision::SeenByName(seen))) if same(seen) => return Verdict::Approved,
        (Some(Some(seen)), _) | (Some(None), Some(Decision::SeenByName(seen))) => {
            before = Some(Arc::clone(seen));
        }
        (Some(None), None) => return Verdict::ByName,
        _ => {}
    }
    if approvals.all { Verdict::Approved } else { Verdict::Pending(before) }
}

fn pending_entry(draft: &Draft, before: Option<&Definition>) -> ReportEntry {
    if let Some(before) = before {
        return draft.dropped(Fate::PendingApproval, "CHANGED_SINCE_APPROVAL").approved_as(before);
    }
    let loaders: Vec<&str> = loader_variables(&draft.definition).collect();
    let reason = if loaders.is_empty() {
        "A server of a repository file waits for approval".to_owned()
    } else {
        format!(
            "It sets {}, which makes programs load other code; approve this server itself",
            loaders.join(", ")
        )
    };
    draft.dropped(Fate::PendingApproval, reason)
}

/// Variables of a definition's `env` that make a program load code before its own. (B-016)
pub fn loader_variables(definition: &Definition) -> impl Iterator<Item = &str> {
    let names = definition.get("env").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name);
    names.map(String::as_str).filter(|name| {
        let upper = name.to_ascii_uppercase();
        LOADER_VARIABLES.contains(&upper.as_str()) || upper.starts_with("LD_") || upper.starts_with("DYLD_")
    })
}

/// Whether two definitions are the same thing to approve.
pub fn same_for_approval(seen: &Definition, present: &Definition) -> bool {
    let counts = |key: &str| !FREE_TO_CHANGE.contains(&key);
    let size = |definition: &Definition| definition.keys().filter(|key| counts(key)).count();
    size(seen) == size(present)
        && seen.iter().filter(|(key, _)| counts(key)).all(|(key, value)| present.get(key) == Some(value))
}

/// Fingerprint of what is approved: SHA-256 over the definition with its keys in order. (POL-02)
pub fn fingerprint(definition: &Definition) -> String {
    let counted = definition.iter().filter(|(key, _)| !FREE_TO_CHANGE.contains(&key.as_str()));
    let mut text = String::new();
    canonical(&Value::Object(counted.map(|(key, value)| (key.clone(), value.clone())).collect()), &mut text);
    crate::config::trust::hex(&Sha256::digest(text.as_bytes()))
}

/// JSON with the keys of every object in order. Definitions are at most 127 levels deep.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort();
            out.push('{');
            for key in keys {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                canonical(&fields[key.as_str()], out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}
