//! Stage `policy`: which servers the organisation, the person and the host let connect. (POL-03 … POL-06)
//!
//! Owns: the grammar of policy entries, the decision, and the gate that every attempt to connect passes.
//! Decides on canonical values only: the parsed URL, the expanded command. Deny wins. Nothing here does IO;
//! what a command name leads to on this machine is asked through [`Lookup`].

pub mod command;
mod gate;
mod name_pattern;
mod shell;
mod stage;
pub mod url_pattern;

use serde_json::Value;

use crate::config::draft::Definition;
use crate::config::spec::{ServerSpec, TransportSpec};
use crate::diagnostic::Diagnostic;
use crate::secret::SafeUrl;
use command::CommandRule;
use name_pattern::NamePattern;
use url_pattern::{CanonicalUrl, UrlPattern};

pub use gate::{Gate, UrlGate};
pub(crate) use stage::apply;

/// What decides where an allow list names nobody. (POL-11)
pub const ALLOW_LIST: &str = "allowedMcpServers";

/// What a command name leads to: the path with links resolved, or nothing where it cannot be found.
pub type Lookup<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// A lookup that knows nothing, for decisions without a machine.
pub fn no_lookup(_: &str) -> Option<String> {
    None
}

/// What a rule is about.
#[derive(Clone, Debug)]
enum Target {
    Name(NamePattern),
    Command(CommandRule),
    Url(UrlPattern),
    /// A malformed allow entry: it matches nothing, yet it is an entry.
    Nothing,
}

/// One entry and its text for messages.
#[derive(Clone, Debug)]
struct Rule {
    target: Target,
    written: Value,
}

/// A compiled allow list. An empty one allows nothing.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    rules: Vec<Rule>,
    has_command: bool,
    has_url: bool,
}

/// Allow and deny lists, compiled.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    allowed: Option<AllowList>,
    denied: Vec<Rule>,
}

/// What a policy says about a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It may connect; with the allow entry that says so, if there is an allow list.
    Allowed(Option<Value>),
    /// A deny entry matches.
    Denied(Value),
    /// There is an allow list, and nothing in it matches.
    NotAllowed,
}

/// A server as policy sees it.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    name: &'a str,
    /// In-process: the host vouches. (POL-06)
    exempt: bool,
    /// Command and arguments after expansion, and as written.
    command: Option<(Vec<String>, Vec<String>)>,
    /// The URL that is connected to, and the one behind a relay.
    urls: Vec<CanonicalUrl>,
    /// A remote server, even if its URL cannot be read.
    remote: bool,
}

impl<'a> Subject<'a> {
    /// A configured server with the definition as it was written.
    pub fn new(spec: &'a ServerSpec, written: Option<&Definition>, relays: &[String]) -> Self {
        let mut subject =
            Self { name: &spec.name, exempt: false, command: None, urls: Vec::new(), remote: false };
        match &spec.transport {
            TransportSpec::Sdk { .. } => subject.exempt = true,
            TransportSpec::Stdio(stdio) => {
                let mut argv = vec![stdio.command.clone()];
                argv.extend(stdio.args.iter().cloned());
                let raw = written.map_or_else(|| argv.clone(), written_command);
                subject.command = Some((argv, raw));
            }
            TransportSpec::Http(remote) | TransportSpec::Sse(remote) | TransportSpec::WebSocket(remote) => {
                subject.remote_at(remote.url.expose(), relays);
            }
            TransportSpec::SseIde(ide) | TransportSpec::WsIde(ide) => {
                subject.remote_at(ide.url.expose(), relays);
            }
            TransportSpec::ConnectorProxy(connector) => {
                subject.remote_at(connector.url.expose(), relays);
                let original = connector.original.as_ref().map(SafeUrl::expose);
                subject.urls.extend(original.and_then(CanonicalUrl::parse));
            }
        }
        subject
    }

    fn remote_at(&mut self, url: &str, relays: &[String]) {
        self.remote = true;
        let behind = crate::config::signature::unwrap_relay(url, relays);
        let texts = std::iter::once(url.to_owned()).chain(behind);
        self.urls = texts.filter_map(|text| CanonicalUrl::parse(&text)).collect();
    }
}

/// Command and arguments of a definition as written; what is no text is left out.
fn written_command(definition: &Definition) -> Vec<String> {
    let command = definition.get("command").and_then(Value::as_str).map(str::to_owned);
    let args = definition.get("args").and_then(Value::as_array).into_iter().flatten();
    command.into_iter().chain(args.filter_map(Value::as_str).map(str::to_owned)).collect()
}

impl Policy {
    /// Compiles lists; `allowed` is `None` where nobody gave one. Malformed entries are reported with
    /// `POLICY_ENTRY_INVALID`; an allow entry then matches nothing, a deny entry denies what of it is clear.
    pub fn compile(allowed: Option<&[Value]>, denied: &[Value]) -> (Self, Vec<Diagnostic>) {
        let mut found = Vec::new();
        let allowed = allowed.map(|entries| AllowList::compile(entries, &mut found));
        let denied = compile_deny(denied, &mut found);
        (Self { allowed, denied }, found)
    }

    /// Decides on a server.
    pub fn decide(&self, subject: &Subject<'_>, lookup: Lookup<'_>) -> Verdict {
        if subject.exempt {
            return Verdict::Allowed(None);
        }
        if let Some(rule) = self.denied.iter().find(|rule| rule.denies(subject, lookup)) {
            return Verdict::Denied(rule.written.clone());
        }
        match &self.allowed {
            None => Verdict::Allowed(None),
            Some(list) => {
                list.find(subject).map_or(Verdict::NotAllowed, |rule| Verdict::Allowed(Some(rule.clone())))
            }
        }
    }

    /// Decides on a further URL of an allowed server, such as a redirect. (POL-05)
    pub fn decide_url(&self, name: &str, url: &str) -> Verdict {
        let Some(canonical) = CanonicalUrl::parse(url) else { return Verdict::NotAllowed };
        let subject = Subject { name, exempt: false, command: None, urls: vec![canonical], remote: true };
        self.decide(&subject, &no_lookup)
    }
}

impl AllowList {
    fn compile(entries: &[Value], found: &mut Vec<Diagnostic>) -> Self {
        let mut list = Self::default();
        for (at, entry) in entries.iter().enumerate() {
            list.has_command |= entry.get("serverCommand").is_some();
            list.has_url |= entry.get("serverUrl").is_some();
            let target = parse_target(entry).filter(|_| exactly_one(entry)).unwrap_or_else(|| {
                found.push(malformed("allowedMcpServers", at, "it matches nothing"));
                Target::Nothing
            });
            list.rules.push(Rule { target, written: entry.clone() });
        }
        list
    }

    /// The entry that lets the server through: once there are command (URL) entries, a local (remote) server
    /// must match one of them.
    fn find(&self, subject: &Subject<'_>) -> Option<&Value> {
        let fits = |rule: &&Rule| match &rule.target {
            Target::Nothing => false,
            Target::Command(command) => subject.command.as_ref().is_some_and(|(argv, _)| command.is(argv)),
            Target::Url(pattern) => subject.urls.first().is_some_and(|url| pattern.allows(url)),
            Target::Name(pattern) => {
                let too_weak =
                    (subject.command.is_some() && self.has_command) || (subject.remote && self.has_url);
                !too_weak && pattern.is(subject.name)
            }
        };
        self.rules.iter().find(fits).map(|rule| &rule.written)
    }
}

impl Rule {
    fn denies(&self, subject: &Subject<'_>, lookup: Lookup<'_>) -> bool {
        match &self.target {
            Target::Nothing => false,
            Target::Name(pattern) => pattern.covers(subject.name),
            Target::Command(command) => subject.command.as_ref().is_some_and(|(argv, written)| {
                command.reaches(argv, lookup) || command.reaches(written, lookup)
            }),
            Target::Url(pattern) => subject.urls.iter().any(|url| pattern.denies(url)),
        }
    }
}

/// The fields an entry may have.
const FIELDS: [&str; 3] = ["serverName", "serverCommand", "serverUrl"];

fn exactly_one(entry: &Value) -> bool {
    match entry {
        Value::Object(fields) => fields.len() == 1,
        _ => true,
    }
}

fn parse_target(entry: &Value) -> Option<Target> {
    match entry {
        Value::String(name) => NamePattern::new(name).map(Target::Name),
        Value::Object(fields) => FIELDS.iter().find_map(|field| parse_field(field, fields.get(*field)?)),
        _ => None,
    }
}

fn parse_field(field: &str, value: &Value) -> Option<Target> {
    match field {
        "serverName" => NamePattern::new(value.as_str()?).map(Target::Name),
        "serverUrl" => UrlPattern::parse(value.as_str()?).map(Target::Url),
        _ => {
            let items = value.as_array()?;
            let words: Vec<String> =
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<_>>()?;
            CommandRule::new(words).map(Target::Command)
        }
    }
}

/// Each clear field of a deny entry is a rule of its own, so that an entry with a mistake in it never denies
/// less than it says.
fn compile_deny(entries: &[Value], found: &mut Vec<Diagnostic>) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let before = rules.len();
        let mut add = |target: Target| rules.push(Rule { target, written: entry.clone() });
        match entry {
            Value::Object(fields) => {
                for field in FIELDS {
                    if let Some(target) = fields.get(field).and_then(|value| parse_field(field, value)) {
                        add(target);
                    }
                }
            }
            other => {
                if let Some(target) = parse_target(other) {
                    add(target);
                }
            }
        }
        if rules.len() != before + 1 || !exactly_one(entry) {
            found.push(malformed("deniedMcpServers", at, "what is clear of it holds"));
        }
    }
    rules
}

fn malformed(list: &str, at: usize, consequence: &str) -> Diagnostic {
    let mut diagnostic = Diagnostic::error(
        "POLICY_ENTRY_INVALID",
        format!(
            "Entry {at} of {list} is malformed; {consequence}. Write a name, or one of {{serverName}}, \
             {{serverCommand: […]}}, {{serverUrl}}"
        ),
    );
    diagnostic.pointer = Some(format!("/{list}/{at}"));
    diagnostic
}

/// An entry for people.
pub fn shown(entry: &Value) -> String {
    match entry {
        Value::String(name) => name.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
