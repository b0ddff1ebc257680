//! What is in the registry, for the question whether a definition is. Pure.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::address::{self, AddressPattern};
use super::package::{self, Kind, Package};
use crate::config::draft::Definition;
use crate::config::spec::{ServerSpec, TransportSpec};

/// Member of an entry's `_meta` that the registry itself writes.
const OF_REGISTRY: &str = "io.modelcontextprotocol.registry/official";

/// Packages and addresses of the registry.
#[derive(Debug, Default)]
pub struct Officials {
    packages: HashSet<Package>,
    addresses: HashSet<String>,
    patterns: Vec<AddressPattern>,
}

impl Officials {
    /// Reads entries, each a `server.json` or one in the envelope `{server, _meta}`. What is malformed counts for
    /// nothing, and so does what the registry marks as deleted.
    pub fn read<'a>(entries: impl IntoIterator<Item = &'a str>) -> Self {
        let mut officials = Self::default();
        for text in entries {
            if let Ok(entry) = serde_json::from_str::<Value>(text) {
                officials.add(&entry);
            }
        }
        officials
    }

    fn add(&mut self, entry: &Value) {
        let server = entry.get("server").filter(|inner| inner.is_object()).unwrap_or(entry);
        let of_registry = &entry["_meta"][OF_REGISTRY]["status"];
        if [of_registry, &server["status"]].iter().any(|status| status.as_str() == Some("deleted")) {
            return;
        }
        let list = |name: &str| server[name].as_array().map(Vec::as_slice).unwrap_or_default();
        self.packages.extend(list("packages").iter().filter_map(package_of));
        for remote in list("remotes") {
            let Some(url) = remote["url"].as_str() else { continue };
            match AddressPattern::new(url) {
                Some(pattern) => self.patterns.push(pattern),
                None => self.addresses.extend(address::normal(url)),
            }
        }
    }

    /// Whether a configured server is in the registry; `None` where that is no question: it lives in this program, or is
    /// an editor or a connector.
    pub fn lists(&self, spec: &ServerSpec) -> Option<bool> {
        match &spec.transport {
            TransportSpec::Stdio(stdio) => {
                let names = stdio.env.keys().map(|name| (name.clone(), String::new())).collect();
                Some(self.has_command(&stdio.command, &stdio.args, &names))
            }
            transport => transport.remote().map(|remote| self.has_address(remote.url.expose())),
        }
    }

    /// Whether a definition as people write it is in the registry.
    pub fn covers(&self, definition: &Definition) -> bool {
        let text = |name: &str| definition.get(name).and_then(Value::as_str);
        if let Some(command) = text("command") {
            let args =
                definition.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let args: Vec<String> = args.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            let env = definition.get("env").and_then(Value::as_object);
            let env = env.into_iter().flatten().map(|(name, _)| (name.clone(), String::new())).collect();
            return self.has_command(command, &args, &env);
        }
        let remote = matches!(
            text("type").unwrap_or("http"),
            "http" | "streamable-http" | "streamableHttp" | "sse" | "ws" | "websocket"
        );
        remote && text("url").is_some_and(|url| self.has_address(url))
    }

    fn has_command(&self, command: &str, args: &[String], env: &BTreeMap<String, String>) -> bool {
        package::of_command(command, args, env).is_some_and(|package| self.packages.contains(&package))
    }

    fn has_address(&self, url: &str) -> bool {
        let Some(normal) = address::normal(url) else { return false };
        // What a person adds behind the question mark, say a key, does not make another server of it.
        let plain = address::without_query(&normal);
        let listed = |text: &str| {
            self.addresses.contains(text) || self.patterns.iter().any(|pattern| pattern.covers(text))
        };
        listed(&normal) || listed(plain)
    }
}

fn package_of(entry: &Value) -> Option<Package> {
    let text = |names: [&str; 2]| names.iter().find_map(|name| entry[*name].as_str());
    let kind = Kind::read(text(["registryType", "registry_type"])?)?;
    let identifier = text(["identifier", "name"])?;
    let base = text(["registryBaseUrl", "registry_base_url"]).and_then(|base| base.split("://").nth(1));
    let host = base.map(|base| base.trim_end_matches('/')).filter(|_| kind == Kind::Oci);
    let first = identifier.split('/').next().unwrap_or_default();
    match host.filter(|host| *host != package::IMAGES && !first.contains(['.', ':'])) {
        Some(host) => Package::read(kind, &format!("{host}/{identifier}")),
        None => Package::read(kind, identifier),
    }
}
