//! How long the decisions of the core take: what two hundred servers come to, what five hundred rules say, what a text
//! holds that nobody sees, which of ten thousand tools a query means.
//!
//! Prints one JSON object a line: `{id, title, micros, target}`; `report.mjs` knows nothing of them.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use mcp_switchboard::config::{Inputs, RawLayer, ResolveOptions, Scope, resolve};
use mcp_switchboard::environment::{Environment, Platform};
use mcp_switchboard::permission::{PermissionRules, RuleSet};
use mcp_switchboard::tool_search::{Document, Query, SearchIndex, read_query};
use mcp_switchboard::unicode::{self, Mode};
use serde_json::{Value, json};

const ROUNDS: usize = 101;
const DECISIONS: u32 = 1000;

fn main() -> io::Result<()> {
    let inputs = two_hundred_servers();
    let resolved = median(1, || {
        black_box(resolve(black_box(&inputs)));
    });
    tell("resolve", "200 servers in six scopes, from text to what runs", resolved, 20_000.0)?;
    let rules = five_hundred_rules();
    for (id, title, tool) in [
        ("rules-last", "500 rules: a tool that the last list decides", "tool_249_read"),
        ("rules-none", "500 rules: a tool that none covers", "nothing_of_the_kind"),
    ] {
        let decided = median(DECISIONS, || {
            black_box(rules.decide(black_box("s"), black_box(tool)));
        });
        tell(id, title, decided, 5.0)?;
    }
    cleaning()?;
    searching()
}

/// Cleaning of text that needs none, against the one look that tells so.
fn cleaning() -> io::Result<()> {
    let text = "What a tool has to say, line by line, in plain ASCII.\n".repeat(20_000);
    let json = json!({ "content": [{ "type": "text", "text": &text }] }).to_string();
    let look = median(10, || {
        black_box(black_box(text.as_str()).is_ascii());
    });
    let results = median(10, || {
        black_box(unicode::clean(black_box(&text), Mode::Invisible).is_ok());
    });
    let look_json = median(10, || {
        black_box(black_box(json.as_str()).is_ascii());
    });
    let results_json = median(10, || {
        black_box(unicode::clean_json(black_box(&json), Mode::Invisible).is_ok());
    });
    tell("clean-text", "1 MB of ASCII: cleaning a text, at most 3 times that", results, look * 3.0)?;
    tell(
        "clean-json",
        "1 MB of ASCII: cleaning it as JSON, at most 3 times that",
        results_json,
        look_json * 3.0,
    )
}

/// Ten thousand tools of two hundred servers, as an agent with every server it can get might have.
fn searching() -> io::Result<()> {
    let verbs = ["get", "list", "create", "delete", "update", "search", "read", "send", "find", "merge"];
    let things =
        ["issue", "file", "channel", "page", "invoice", "branch", "calendar", "user", "table", "image"];
    let parameters: Vec<String> =
        ["query", "limit", "cursor", "owner", "repository"].map(str::to_owned).to_vec();
    let texts: Vec<(String, String)> = (0..10_000)
        .map(|n| {
            let (verb, thing) = (verbs[n % 10], things[n / 10 % 10]);
            let name = format!("mcp__server-{}__{verb}_{thing}_{n}", n / 50);
            let description = format!(
                "Use this to {verb} one {thing} or several of a workspace. Results come in pages; number {n} of its kind."
            );
            (name, description)
        })
        .collect();
    let documents = texts.iter().map(|(name, description)| Document {
        name,
        description,
        parameters: &parameters,
        ..Document::default()
    });
    let index = SearchIndex::build(documents);
    for (id, title, query) in [
        ("search-rare", "10,000 tools: a rare word", "4711"),
        ("search-two", "10,000 tools: two words of a thousand tools each", "create invoice"),
        ("search-all", "10,000 tools: words that every tool has", "use results workspace pages"),
        ("search-prefix", "10,000 tools: the beginning of words, one required", "+del chan"),
    ] {
        let taken = median(1, || {
            let Query::Words(words) = read_query(black_box(query)) else { return };
            black_box(index.search(&words));
        });
        tell(id, title, taken, 5_000.0)?;
    }
    Ok(())
}

fn tell(id: &str, title: &str, micros: f64, target: f64) -> io::Result<()> {
    let line = json!({ "id": id, "title": title, "micros": micros, "target": target });
    writeln!(io::stdout(), "{line}")
}

/// Median time of one run, in microseconds; `runs` are timed together.
fn median(runs: u32, mut work: impl FnMut()) -> f64 {
    let mut samples: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            (0..runs).for_each(|_| work());
            started.elapsed().as_secs_f64() * 1e6 / f64::from(runs)
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    samples[ROUNDS / 2]
}

/// A hundred remote and a hundred local servers, with variables, under a policy of fifty entries.
fn two_hundred_servers() -> Inputs {
    let scopes = [Scope::Plugin, Scope::Dynamic, Scope::User, Scope::Project, Scope::Local, Scope::Managed];
    let mut layers: Vec<RawLayer> = Vec::new();
    for (place, scope) in scopes.into_iter().enumerate() {
        let count = if place < 2 { 34 } else { 33 };
        let servers = (0..count).map(|n| {
            let local = json!({ "command": "npx", "args": ["-y", format!("package-{place}-{n}"), "${A:-x}"],
                "env": { "KEY": "${A}" }, "toolTimeoutMs": 30_000 });
            let remote = json!({ "type": "http", "url": format!("https://host-{place}.test/{n}/${{A}}"),
                "headers": { "Authorization": "Bearer ${A}" } });
            (format!("server-{place}-{n}"), if n % 2 == 0 { local } else { remote })
        });
        layers.push(RawLayer::host(scope, &Value::Object(servers.collect()).to_string()));
    }
    let vars = BTreeMap::from([("A".to_owned(), "value".to_owned())]);
    let environment = Environment {
        vars: vars.into_iter().collect(),
        cwd: PathBuf::from("/"),
        home: None,
        platform: Platform::Unix,
    };
    let mut options = ResolveOptions::new(&environment, None);
    options.approvals.all = true;
    options.host.denied = (0..25)
        .flat_map(|n| {
            [
                json!({ "serverCommand": ["npx", "-y", format!("bad-{n}")] }),
                json!({ "serverUrl": format!("https://*.bad-{n}.test/*") }),
            ]
        })
        .collect();
    Inputs { layers, diagnostics: Vec::new(), options }
}

/// Exact names, prefixes and patterns, most of them about one server.
fn five_hundred_rules() -> RuleSet {
    let deny = (0..125).map(|n| format!("mcp__s{n}__*_z")).collect();
    let ask = (0..125).map(|n| format!("mcp__s__x*{n}*y")).collect();
    let allow = (0..250).map(|n| format!("mcp__s__tool_{n}_*")).collect();
    RuleSet::compile(&PermissionRules { allow, ask, deny }).0
}
