//! How long the decisions of the core take: what two hundred servers come to, and what five hundred rules say.
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
