//! What files and the host say beside servers, and who may say it. (§2 *who may say what*, POL-01, POL-03)
//!
//! `read` takes one layer's words as they are; `combine` puts the words of all layers together and leaves out
//! what a layer may not say, with a warning `NOT_HONOURED_HERE`. Both are pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::config::policy::Policy;
use crate::config::scope::{Scope, Voice};
use crate::diagnostic::Diagnostic;

/// Most malformed entries of one list that are told.
const MAX_TOLD: usize = 20;

/// Permission rules as lists of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleLists {
    /// Calls that run without a question.
    pub allow: Vec<String>,
    /// Calls that are asked about.
    pub ask: Vec<String>,
    /// Calls that never run.
    pub deny: Vec<String>,
}

/// What one layer says beside its servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// `allowedMcpServers`; `None` where there is no list.
    pub allowed: Option<Vec<Value>>,
    /// `deniedMcpServers`.
    pub denied: Vec<Value>,
    /// `permissions`.
    pub rules: RuleLists,
    /// `enabledMcpjsonServers`.
    pub approved: Vec<String>,
    /// `disabledMcpjsonServers`.
    pub rejected: Vec<String>,
    /// `enableAllProjectMcpServers`.
    pub approve_all: bool,
    /// `disabledMcpServers`.
    pub disabled: Vec<String>,
    /// `enabledMcpServers`.
    pub enabled: Vec<String>,
    /// `exclusive`; only the organisation's server file has it.
    pub exclusive: Option<bool>,
    /// `hooks` is there.
    pub hooks: bool,
}

/// The keys that [`read`] looks at.
pub const KEYS: [&str; 10] = [
    "allowedMcpServers",
    "deniedMcpServers",
    "permissions",
    "enabledMcpjsonServers",
    "disabledMcpjsonServers",
    "enableAllProjectMcpServers",
    "disabledMcpServers",
    "enabledMcpServers",
    "exclusive",
    "hooks",
];

/// The words of one layer with their place.
#[derive(Clone, Debug)]
pub struct Words {
    /// Who says it.
    pub voice: Voice,
    /// Scope of the layer.
    pub scope: Scope,
    /// Absolute path of the file; `None` for options.
    pub file: Option<Arc<str>>,
    /// What is said.
    pub said: Said,
}

/// Reads the keys of an object. A malformed list never widens what may happen: an `allowedMcpServers` that is
/// no list allows nothing, a bare text in the place of a list that forbids is the list of that text, an item that
/// is no text is left out of its list and reported.
pub fn read(object: &Map<String, Value>) -> (Said, Vec<Diagnostic>) {
    let mut reader = Reader { object, found: Vec::new() };
    let said = Said {
        allowed: reader.allowed(),
        denied: reader.denied(),
        rules: reader.rules(),
        approved: reader.texts("enabledMcpjsonServers"),
        rejected: reader.narrowing("disabledMcpjsonServers"),
        approve_all: reader.boolean("enableAllProjectMcpServers").unwrap_or(false),
        disabled: reader.narrowing("disabledMcpServers"),
        enabled: reader.texts("enabledMcpServers"),
        exclusive: reader.boolean("exclusive"),
        hooks: object.get("hooks").is_some_and(|hooks| !hooks.is_null()),
    };
    (said, reader.found)
}

struct Reader<'a> {
    object: &'a Map<String, Value>,
    found: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    fn value(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    fn wrong(&mut self, pointer: String, expected: &str) {
        let mut diagnostic =
            Diagnostic::error("CONFIG_INVALID", format!("Expected {expected} at {pointer}; it is ignored"));
        diagnostic.pointer = Some(pointer);
        self.found.push(diagnostic);
    }

    fn allowed(&mut self) -> Option<Vec<Value>> {
        if let Value::Array(items) = self.value("allowedMcpServers")? {
            return Some(items.clone());
        }
        self.wrong("/allowedMcpServers".to_owned(), "a list; it allows nothing");
        Some(Vec::new())
    }

    fn denied(&mut self) -> Vec<Value> {
        match self.value("deniedMcpServers") {
            None => Vec::new(),
            Some(Value::Array(items)) => items.clone(),
            Some(other) => {
                let mut diagnostic = Diagnostic::error("CONFIG_INVALID", "Expected a list of entries");
                diagnostic.pointer = Some("/deniedMcpServers".to_owned());
                self.found.push(diagnostic);
                vec![other.clone()]
            }
        }
    }

    fn boolean(&mut self, key: &str) -> Option<bool> {
        if let Value::Bool(boolean) = self.value(key)? {
            return Some(*boolean);
        }
        self.wrong(format!("/{key}"), "true or false");
        None
    }

    fn texts(&mut self, key: &str) -> Vec<String> {
        let value = self.value(key);
        self.list(value, &format!("/{key}"))
    }

    fn narrowing(&mut self, key: &str) -> Vec<String> {
        let value = self.value(key);
        self.narrowing_list(value, &format!("/{key}"))
    }

    fn rules(&mut self) -> RuleLists {
        match self.value("permissions") {
            None => RuleLists::default(),
            Some(Value::Object(lists)) => {
                let value = |key: &str| lists.get(key).filter(|value| !value.is_null());
                RuleLists {
                    allow: self.list(value("allow"), "/permissions/allow"),
                    ask: self.narrowing_list(value("ask"), "/permissions/ask"),
                    deny: self.narrowing_list(value("deny"), "/permissions/deny"),
                }
            }
            Some(_) => {
                self.wrong("/permissions".to_owned(), "an object with allow, ask and deny");
                RuleLists::default()
            }
        }
    }

    /// A list that forbids something: a bare text in its place counts, as what it forbids is clear.
    fn narrowing_list(&mut self, value: Option<&Value>, pointer: &str) -> Vec<String> {
        let Some(Value::String(text)) = value else { return self.list(value, pointer) };
        let message = format!("Expected a list of texts at {pointer}; the text counts as the only item");
        let mut diagnostic = Diagnostic::error("CONFIG_INVALID", message);
        diagnostic.pointer = Some(pointer.to_owned());
        self.found.push(diagnostic);
        vec![text.clone()]
    }

    fn list(&mut self, value: Option<&Value>, pointer: &str) -> Vec<String> {
        let items = match value {
            None => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.wrong(pointer.to_owned(), "a list of texts");
                return Vec::new();
            }
        };
        let mut texts = Vec::with_capacity(items.len());
        let mut told = 0;
        for (at, item) in items.iter().enumerate() {
            match item {
                Value::String(text) => texts.push(text.clone()),
                _ if told < MAX_TOLD => {
                    told += 1;
                    self.wrong(format!("{pointer}/{at}"), "a text");
                }
                _ => {}
            }
        }
        texts
    }
}

/// Everything that was said and counts.
#[derive(Clone, Debug, Default)]
pub struct Combined {
    /// Allow and deny lists.
    pub policy: Arc<Policy>,
    /// Permission rules for every server.
    pub rules: RuleLists,
    /// Rules of the repository, which concern only servers that it brings itself; `allow` is empty.
    pub repository_rules: RuleLists,
    /// Project servers approved by name.
    pub approved: BTreeSet<String>,
    /// Project servers rejected by name.
    pub rejected: BTreeSet<String>,
    /// Every project server is approved.
    pub approve_all: bool,
    /// Servers that are switched off.
    pub disabled: BTreeSet<String>,
    /// Servers of the repository that it switches off itself.
    pub repository_disabled: BTreeSet<String>,
    /// Servers of the host that are switched on.
    pub enabled: BTreeSet<String>,
    /// Only the organisation's servers may exist.
    pub exclusive: bool,
}

/// Puts the words of all layers together. `strengthened` is the host's option `enterpriseExclusive`.
pub fn combine(words: &[Words], strengthened: bool) -> (Combined, Vec<Diagnostic>) {
    let mut found = Vec::new();
    let mut all = Combined { exclusive: strengthened, ..Combined::default() };
    for one in words {
        if one.voice == Voice::Repository {
            add_repository(&mut all, one, &mut found);
        } else {
            add_trusted(&mut all, one);
        }
        let exclusive = one.scope == Scope::Enterprise && one.said.exclusive != Some(false);
        all.exclusive |= exclusive;
    }
    let (policy, mut malformed) = policy_of(words);
    all.policy = Arc::new(policy);
    found.append(&mut malformed);
    (all, found)
}

fn add_trusted(all: &mut Combined, words: &Words) {
    let said = &words.said;
    all.rules.allow.extend(said.rules.allow.iter().cloned());
    all.rules.ask.extend(said.rules.ask.iter().cloned());
    all.rules.deny.extend(said.rules.deny.iter().cloned());
    all.approved.extend(said.approved.iter().cloned());
    all.rejected.extend(said.rejected.iter().cloned());
    all.disabled.extend(said.disabled.iter().cloned());
    all.enabled.extend(said.enabled.iter().cloned());
    all.approve_all |= said.approve_all;
}

fn add_repository(all: &mut Combined, words: &Words, found: &mut Vec<Diagnostic>) {
    let said = &words.said;
    all.repository_rules.ask.extend(said.rules.ask.iter().cloned());
    all.repository_rules.deny.extend(said.rules.deny.iter().cloned());
    all.repository_disabled.extend(said.disabled.iter().cloned());
    let unheard = [
        ("permissions/allow", !said.rules.allow.is_empty()),
        ("enabledMcpjsonServers", !said.approved.is_empty()),
        ("disabledMcpjsonServers", !said.rejected.is_empty()),
        ("enableAllProjectMcpServers", said.approve_all),
        ("allowedMcpServers", said.allowed.is_some()),
        ("deniedMcpServers", !said.denied.is_empty()),
        ("enabledMcpServers", !said.enabled.is_empty()),
        ("exclusive", said.exclusive.is_some()),
        ("hooks", said.hooks),
    ];
    for (key, _) in unheard.into_iter().filter(|(_, said)| *said) {
        let message = format!("\"{key}\" counts only in files that are not part of the repository");
        let mut diagnostic = Diagnostic::warning("NOT_HONOURED_HERE", message);
        diagnostic.file = words.file.as_deref().map(str::to_owned);
        diagnostic.pointer = Some(format!("/{key}"));
        found.push(diagnostic);
    }
}

/// An organisation's allow list counts alone; otherwise all of them together. Deny lists always add up.
fn policy_of(words: &[Words]) -> (Policy, Vec<Diagnostic>) {
    let heard = || words.iter().filter(|one| one.voice != Voice::Repository);
    let organised = heard().any(|one| one.voice == Voice::Organisation && one.said.allowed.is_some());
    let mut allowed: Option<Vec<Value>> = None;
    let mut denied = Vec::new();
    for one in heard() {
        denied.extend(one.said.denied.iter().cloned());
        if let Some(entries) = &one.said.allowed
            && (!organised || one.voice == Voice::Organisation)
        {
            allowed.get_or_insert_default().extend(entries.iter().cloned());
        }
    }
    Policy::compile(allowed.as_deref(), &denied)
}
