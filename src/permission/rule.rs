//! The grammar of permission rules and the decision by them. (POL-07)
//!
//! | rule | covers |
//! | --- | --- |
//! | `mcp__*` | every tool of every server |
//! | `mcp__server`, `mcp__server__*` | every tool of that server |
//! | `mcp__server__tool` | that tool |
//! | `mcp__server__get_*` | tools that fit; `*` stands for any text, anywhere in the tool part |
//!
//! A rule is split as names are: the server ends at the first `__`. Both parts are normalised as names are
//! and compared with the normalised server and tool, case included; so a rule for one server never covers
//! another. A rule that does not begin with `mcp__` is about something else and is left alone.
//!
//! **Malformed rules** never widen access. An `allow` outside the grammar covers nothing. A `deny` or `ask`
//! outside the grammar covers everything it may have meant: `*` in the server part stands for any text, a
//! missing tool part means the whole server, a specifier in parentheses is ignored, case in `mcp__` is
//! ignored, a bare `*` means everything. All of them are reported.

use std::collections::{BTreeSet, HashMap};

use crate::diagnostic::Diagnostic;
use crate::name::pattern::fits;
use crate::name::{normalize_name, normalize_server_name};
use crate::permission::PermissionRules;

/// What rules say about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run it.
    Allow,
    /// Ask, whatever else allows it.
    Ask,
    /// Never run it.
    Deny,
    /// No rule says anything: ask the host.
    Passthrough,
}

impl Decision {
    /// The decision as JavaScript sees it.
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
            Decision::Passthrough => "passthrough",
        }
    }
}

/// A decision with the rule behind it, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// What to do.
    pub decision: Decision,
    /// The rule that decided; `None` with `Passthrough`.
    pub rule: Option<&'a str>,
}

/// Compiled rules.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    deny: RuleList,
    ask: RuleList,
    allow: RuleList,
}

impl RuleSet {
    /// Compiles the three lists and reports what is malformed (`PERMISSION_RULE_INVALID`).
    pub fn compile(rules: &PermissionRules) -> (Self, Vec<Diagnostic>) {
        let mut found = Vec::new();
        let set = Self {
            deny: RuleList::compile(&rules.deny, "deny", &mut found),
            ask: RuleList::compile(&rules.ask, "ask", &mut found),
            allow: RuleList::compile(&rules.allow, "allow", &mut found),
        };
        (set, found)
    }

    /// Decides on a tool of a server, both by their own names: deny, then ask, then allow.
    pub fn decide(&self, server: &str, tool: &str) -> Verdict<'_> {
        let (server, tool) = (normalize_server_name(server), normalize_name(tool));
        let lists =
            [(&self.deny, Decision::Deny), (&self.ask, Decision::Ask), (&self.allow, Decision::Allow)];
        for (list, decision) in lists {
            if let Some(rule) = list.find(&server, &tool) {
                return Verdict { decision, rule: Some(rule) };
            }
        }
        Verdict { decision: Decision::Passthrough, rule: None }
    }

    /// A warning `PERMISSION_RULE_UNKNOWN_SERVER` for every server that rules name and nobody configured.
    pub fn unknown_servers<'a>(&self, configured: impl IntoIterator<Item = &'a str>) -> Vec<Diagnostic> {
        let known: BTreeSet<String> = configured.into_iter().map(normalize_server_name).collect();
        let named: BTreeSet<&String> =
            [&self.deny, &self.ask, &self.allow].into_iter().flat_map(|list| list.servers.keys()).collect();
        let unknown = named.into_iter().filter(|name| !known.contains(*name));
        unknown
            .map(|name| {
                let message =
                    format!("A permission rule names the server \"{name}\", which is not configured");
                Diagnostic::warning("PERMISSION_RULE_UNKNOWN_SERVER", message)
            })
            .collect()
    }
}

/// One list, indexed by server.
#[derive(Clone, Debug, Default)]
struct RuleList {
    servers: HashMap<String, ServerRules>,
    /// Patterns over servers: only from malformed deny and ask rules.
    anywhere: Vec<(String, ServerRules)>,
    everything: Option<String>,
}

/// Rules about the tools of one server, each with its text.
#[derive(Clone, Debug, Default)]
struct ServerRules {
    exact: HashMap<String, String>,
    /// Prefixes with the distinct lengths they have, longest first: one look-up a length.
    prefixes: HashMap<String, String>,
    prefix_lengths: Vec<usize>,
    patterns: Vec<(String, String)>,
    whole: Option<String>,
}

impl RuleList {
    fn compile(rules: &[String], list: &str, found: &mut Vec<Diagnostic>) -> Self {
        let mut compiled = Self::default();
        for (at, text) in rules.iter().enumerate() {
            let parsed = if list == "allow" { parse(text) } else { parse(text).or_widened(text) };
            if let Some(problem) = parsed.problem {
                let consequence =
                    if parsed.target.is_some() { "it covers all it may mean" } else { "it covers nothing" };
                let shown: String = text.chars().take(200).collect();
                let mut diagnostic = Diagnostic::warning(
                    "PERMISSION_RULE_INVALID",
                    format!("The {list} rule {shown:?} is malformed ({problem}); {consequence}"),
                );
                diagnostic.pointer = Some(format!("/permissions/{list}/{at}"));
                found.push(diagnostic);
            }
            if let Some(target) = parsed.target {
                compiled.add(target, text);
            }
        }
        compiled
    }

    fn add(&mut self, target: Target, text: &str) {
        match target {
            Target::Everything => {
                self.everything.get_or_insert_with(|| text.to_owned());
            }
            Target::Server(server, tools) => self.servers.entry(server).or_default().add(tools, text),
            Target::Servers(pattern, tools) => {
                let mut rules = ServerRules::default();
                rules.add(tools, text);
                self.anywhere.push((pattern, rules));
            }
        }
    }

    fn find(&self, server: &str, tool: &str) -> Option<&str> {
        if let Some(rule) = self.servers.get(server).and_then(|rules| rules.find(tool)) {
            return Some(rule);
        }
        let mut anywhere = self.anywhere.iter().filter(|(pattern, _)| fits(pattern, server));
        anywhere.find_map(|(_, rules)| rules.find(tool)).or(self.everything.as_deref())
    }
}

impl ServerRules {
    fn add(&mut self, tools: Tools, text: &str) {
        let text = text.to_owned();
        match tools {
            Tools::All => {
                self.whole.get_or_insert(text);
            }
            Tools::Exact(tool) => {
                self.exact.entry(tool).or_insert(text);
            }
            Tools::Prefix(prefix) => {
                let length = prefix.len();
                if let Err(at) = self.prefix_lengths.binary_search_by(|known| length.cmp(known)) {
                    self.prefix_lengths.insert(at, length);
                }
                self.prefixes.entry(prefix).or_insert(text);
            }
            Tools::Fitting(pattern) => self.patterns.push((pattern, text)),
        }
    }

    fn find(&self, tool: &str) -> Option<&str> {
        let prefixed =
            || self.prefix_lengths.iter().find_map(|&length| self.prefixes.get(tool.get(..length)?));
        let fitting = || self.patterns.iter().find(|(pattern, _)| fits(pattern, tool)).map(|(_, text)| text);
        self.exact.get(tool).or_else(prefixed).or_else(fitting).or(self.whole.as_ref()).map(String::as_str)
    }
}

/// What a rule covers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Everything,
    Server(String, Tools),
    Servers(String, Tools),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tools {
    All,
    Exact(String),
    Prefix(String),
    Fitting(String),
}

/// A pattern whose pieces between the `*` are normalised like the names they are compared with.
fn pattern(text: &str, normalize: fn(&str) -> String) -> String {
    text.split('*').map(normalize).collect::<Vec<_>>().join("*")
}

struct Parsed {
    target: Option<Target>,
    problem: Option<&'static str>,
}

impl Parsed {
    fn understood(target: Target) -> Self {
        Self { target: Some(target), problem: None }
    }

    fn nothing(problem: &'static str) -> Self {
        Self { target: None, problem: Some(problem) }
    }

    /// For deny and ask: a malformed rule covers all it may mean.
    fn or_widened(self, text: &str) -> Self {
        if self.problem.is_none() {
            return self;
        }
        Self { target: widened(text.trim()), ..self }
    }
}

/// Reads a rule by the grammar.
fn parse(text: &str) -> Parsed {
    let text = text.trim();
    let Some(rest) = text.strip_prefix("mcp__") else {
        return match strip_prefix_any_case(text) {
            Some(_) => Parsed::nothing("rules begin with mcp__ in lower case"),
            None if text == "*" => Parsed::nothing("every tool is written mcp__*"),
            None => Parsed { target: None, problem: None },
        };
    };
    if rest == "*" {
        return Parsed::understood(Target::Everything);
    }
    if rest.contains(['(', ')']) {
        return Parsed::nothing("rules for MCP tools have no specifier in parentheses");
    }
    let (server, tool) = match rest.split_once("__") {
        Some((server, tool)) => (server, Some(tool)),
        None => (rest, None),
    };
    if server.is_empty() {
        return Parsed::nothing("the server is missing");
    }
    if server.contains('*') {
        return Parsed::nothing("* may not stand in the server part");
    }
    let server = normalize_server_name(server);
    match tool {
        None => Parsed::understood(Target::Server(server, Tools::All)),
        Some("") => Parsed::nothing("the tool is missing"),
        Some(tool) => Parsed::understood(Target::Server(server, tools(tool))),
    }
}

fn tools(text: &str) -> Tools {
    let first_star = text.find('*');
    match first_star {
        None => Tools::Exact(normalize_name(text)),
        Some(_) if text.bytes().all(|byte| byte == b'*') => Tools::All,
        Some(at) if text[at..].bytes().all(|byte| byte == b'*') => Tools::Prefix(normalize_name(&text[..at])),
        Some(_) => Tools::Fitting(pattern(text, normalize_name)),
    }
}

fn strip_prefix_any_case(text: &str) -> Option<&str> {
    text.get(..5).filter(|head| head.eq_ignore_ascii_case("mcp__")).and_then(|_| text.get(5..))
}

/// Everything that a malformed rule may have meant.
fn widened(text: &str) -> Option<Target> {
    if text == "*" {
        return Some(Target::Everything);
    }
    let rest = strip_prefix_any_case(text)?;
    let rest = rest.split(['(', ')']).next().unwrap_or_default();
    let (server, tool) = rest.split_once("__").unwrap_or((rest, ""));
    let tools = if tool.is_empty() { Tools::All } else { tools(tool) };
    if server.contains('*') {
        return Some(Target::Servers(pattern(server, piece), tools));
    }
    Some(if server.is_empty() {
        Target::Servers("*".to_owned(), tools)
    } else {
        Target::Server(normalize_server_name(server), tools)
    })
}

/// A piece of a server pattern; an empty one stays empty whatever the normaliser makes of emptiness.
fn piece(text: &str) -> String {
    if text.is_empty() { String::new() } else { normalize_server_name(text) }
}
