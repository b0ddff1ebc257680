//! Full names and what they stand for. Routing looks names up and never takes them apart (NAM-03).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, RwLock, RwLockReadGuard};

use super::pins::{Pins, Standing};
use super::resource_tools;
use super::rules::Rules;
use super::search::ToolIndex;
use crate::call::tool_schema::{SchemaUse, ToolSchema};
use crate::config::spec::TransportSpec;
use crate::connection::Connection;
use crate::diagnostic::Diagnostic;
use crate::name::{self, Collision, NamedServer};
use crate::permission::{Decision, Verdict};
use crate::protocol::prompt::PromptDefinition;
use crate::protocol::tool::ToolDefinition;
use crate::runtime::{self, lock, write};

/// Who runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// Its server.
    OfServer,
    /// We do: the list of a server's resources.
    ListResources,
    /// We do: one resource.
    ReadResource,
}

impl ToolKind {
    /// The tools that we add to a server with resources. (TOL-06)
    pub const OF_RESOURCES: [ToolKind; 2] = [ToolKind::ListResources, ToolKind::ReadResource];
}

/// A tool with all that a call of it needs.
#[derive(Debug)]
pub struct ToolEntry {
    /// Name for the model: the full name, unless the tool keeps its own. (NAM-06)
    pub name: Arc<str>,
    /// Full name: what permission, hooks and results speak of.
    pub full_name: Arc<str>,
    /// Who runs it.
    pub kind: ToolKind,
    /// Its server.
    pub connection: Connection,
    /// All tools of the server, as read.
    tools: Arc<Vec<ToolDefinition>>,
    index: usize,
    /// What the permission rules say.
    pub decision: Decision,
    /// The rule that said so.
    pub rule: Option<String>,
    /// What the pins say of it.
    pub(super) standing: Standing,
    /// The output schema, compiled when it is first needed.
    pub output_schema: Option<ToolSchema>,
    /// The input schema, likewise.
    pub input_schema: ToolSchema,
}

impl ToolEntry {
    /// The definition.
    pub fn definition(&self) -> &ToolDefinition {
        // The index was taken from this very list.
        &self.tools[self.index]
    }

    /// What the rules say.
    pub fn verdict(&self) -> Verdict<'_> {
        Verdict { decision: self.decision, rule: self.rule.as_deref() }
    }

    /// What rules come to for this tool: those of resources may run where nobody says anything (POL-09), and one
    /// whose definition has changed is asked about (SEC-06).
    pub fn by_default<'a>(&self, verdict: Verdict<'a>) -> Verdict<'a> {
        let exact = || name::build_tool_name(self.connection.name(), &self.definition().wire_name);
        let verdict = self.standing.weigh(verdict, exact);
        match verdict.decision {
            Decision::Passthrough if self.kind != ToolKind::OfServer => {
                Verdict { decision: Decision::Allow, rule: None }
            }
            _ => verdict,
        }
    }
}

/// A prompt and its server.
#[derive(Debug)]
pub struct PromptEntry {
    /// Name for people.
    pub full_name: Arc<str>,
    /// Its server.
    pub connection: Connection,
    prompts: Arc<Vec<PromptDefinition>>,
    index: usize,
}

impl PromptEntry {
    /// The definition.
    pub fn definition(&self) -> &PromptDefinition {
        &self.prompts[self.index]
    }
}

/// By what tools get their names and decisions.
#[derive(Clone, Copy, Debug)]
pub struct Naming<'a> {
    /// Permission rules.
    pub rules: &'a Rules,
    /// Definitions as they were approved.
    pub(super) pins: &'a Pins,
    /// Longest full name.
    pub limit: usize,
    /// Tools of editors that are taken over. (POL-10)
    pub ide_tools: &'a [String],
    /// Whether tools of in-process servers get a prefix like all others. (NAM-06)
    pub sdk_prefix: bool,
}

impl Naming<'_> {
    fn takes_over(&self, connection: &Connection, tool: &str) -> bool {
        !connection.spec().is_ide() || self.ide_tools.iter().any(|taken| taken == tool)
    }

    fn leaves_names(&self, connection: &Connection) -> bool {
        !self.sdk_prefix && matches!(connection.spec().transport, TransportSpec::Sdk { .. })
    }
}

/// Everything that has a name, as of one moment.
#[derive(Debug, Default)]
pub struct Registry {
    tools: HashMap<Arc<str>, Arc<ToolEntry>>,
    prompts: HashMap<Arc<str>, Arc<PromptEntry>>,
    /// Entries by server and wire name, in the order of the server's list.
    by_server: HashMap<String, ServerNames>,
    /// Beginning of a server's full names, and the server's name.
    prefixes: Vec<(String, String)>,
    /// Made with the first search.
    index: OnceLock<ToolIndex>,
}

/// The registry in force.
#[derive(Debug, Default)]
pub struct InForce {
    registry: RwLock<Arc<Registry>>,
    /// Held while one is made: names that come of older lists must not replace those of newer ones.
    making: Mutex<()>,
}

impl InForce {
    /// The registry, for a look.
    pub fn read(&self) -> RwLockReadGuard<'_, Arc<Registry>> {
        runtime::read(&self.registry)
    }

    /// Puts the registry in force that `make` makes, one at a time; what else it gives is given back.
    pub fn replace<T>(&self, make: impl FnOnce() -> (Registry, T)) -> T {
        let _making = lock(&self.making);
        let (registry, more) = make();
        *write(&self.registry) = Arc::new(registry);
        more
    }
}

#[derive(Debug, Default)]
struct ServerNames {
    tools: Vec<Arc<ToolEntry>>,
    tool_index: HashMap<String, usize>,
    prompts: Vec<Arc<PromptEntry>>,
}

impl Registry {
    /// Names everything that is known of `connections`; the findings are name collisions and repeated names.
    pub fn build(connections: &[Connection], naming: &Naming<'_>) -> (Self, Vec<Diagnostic>) {
        let mut registry = Self::default();
        let mut findings = Vec::new();
        let named: Vec<NamedServer<'_>> = connections
            .iter()
            .map(|connection| NamedServer {
                name: connection.name(),
                strength: connection.spec().scope.strength(),
            })
            .collect();
        let prefixes = name::server_prefixes(&named);
        findings.extend(prefixes.collisions.iter().map(|pair| collision(pair).on(&pair.other)));
        for (connection, part) in connections.iter().zip(&prefixes.parts) {
            let prefix = name::item_prefix(part);
            registry.add_server(connection, &prefix, naming, &mut findings);
            let cut = name::cut_prefix(&prefix, connection.name(), naming.limit);
            let beginnings = cut.into_iter().chain([prefix]);
            registry.prefixes.extend(beginnings.map(|prefix| (prefix, connection.name().to_owned())));
        }
        (registry, findings)
    }

    fn add_server(
        &mut self,
        connection: &Connection,
        prefix: &str,
        naming: &Naming<'_>,
        findings: &mut Vec<Diagnostic>,
    ) {
        let server = connection.name();
        let tools = connection.catalog().tools.known();
        let prompts = connection.catalog().prompts.known();
        let mut names = ServerNames::default();
        let wire: Vec<&str> = tools.iter().map(|tool| tool.wire_name.as_str()).collect();
        let own_names =
            naming.leaves_names(connection).then(|| name::item_names("", server, &wire, naming.limit));
        for (index, full_name) in distinct_names(prefix, server, &wire, naming.limit, findings) {
            if !naming.takes_over(connection, wire[index]) {
                continue;
            }
            let verdict = naming.rules.decide(connection.spec(), wire[index]);
            let own_name = own_names.as_ref().and_then(|own| own.names.get(index)?.as_deref());
            let name = own_name.and_then(|own| self.own_name(own, &full_name, findings));
            let schema = tools[index].output_schema.clone();
            let mut entry = ToolEntry {
                name: name.unwrap_or_else(|| Arc::clone(&full_name)),
                full_name: Arc::clone(&full_name),
                kind: ToolKind::OfServer,
                connection: connection.clone(),
                output_schema: schema.map(|text| ToolSchema::new(text, SchemaUse::Output)),
                input_schema: ToolSchema::new(Arc::clone(&tools[index].input_schema), SchemaUse::Input),
                tools: Arc::clone(&tools),
                index,
                decision: Decision::Passthrough,
                rule: None,
                standing: naming.pins.standing(server, wire[index]),
            };
            let verdict = entry.by_default(verdict);
            (entry.decision, entry.rule) = (verdict.decision, verdict.rule.map(str::to_owned));
            let entry = Arc::new(entry);
            names.tool_index.insert(wire[index].to_owned(), names.tools.len());
            names.tools.push(Arc::clone(&entry));
            self.tools.insert(Arc::clone(&entry.name), Arc::clone(&entry));
            self.tools.insert(full_name, entry);
        }
        if connection.catalog().has_resources() {
            self.add_resource_tools(connection, prefix, naming, &mut names);
        }
        let wire: Vec<&str> = prompts.iter().map(|prompt| prompt.wire_name.as_str()).collect();
        for (index, full_name) in distinct_names(prefix, server, &wire, naming.limit, findings) {
            let entry = Arc::new(PromptEntry {
                full_name: Arc::clone(&full_name),
                connection: connection.clone(),
                prompts: Arc::clone(&prompts),
                index,
            });
            names.prompts.push(Arc::clone(&entry));
            self.prompts.insert(full_name, entry);
        }
        self.by_server.insert(server.to_owned(), names);
    }

    /// A server's own tool of such a name keeps it; ours gets a number then.
    fn add_resource_tools(
        &mut self,
        connection: &Connection,
        prefix: &str,
        naming: &Naming<'_>,
        names: &mut ServerNames,
    ) {
        let definitions = resource_tools::definitions();
        for (index, kind) in ToolKind::OF_RESOURCES.into_iter().enumerate() {
            let Some(base) = definitions.get(index).map(|one| one.wire_name.as_str()) else { continue };
            if !naming.takes_over(connection, base) || !connection.spec().tools.admits(base) {
                continue;
            }
            let (wire, full_name) = self.free_name(base, names, |wire| {
                let full = name::item_names(prefix, connection.name(), &[wire], naming.limit).names.pop();
                full.flatten().map_or_else(|| Arc::from(format!("{prefix}{wire}")), Arc::from)
            });
            let mut tools = Arc::clone(&definitions);
            if wire != base {
                Arc::make_mut(&mut tools)[index].wire_name.clone_from(&wire);
            }
            let mut entry = ToolEntry {
                name: Arc::clone(&full_name),
                full_name: Arc::clone(&full_name),
                kind,
                connection: connection.clone(),
                output_schema: None,
                input_schema: ToolSchema::new(Arc::clone(&tools[index].input_schema), SchemaUse::Input),
                tools,
                index,
                decision: Decision::Passthrough,
                rule: None,
                standing: Standing { pinned: true, ..Standing::default() },
            };
            let verdict = entry.by_default(naming.rules.decide(connection.spec(), base));
            (entry.decision, entry.rule) = (verdict.decision, verdict.rule.map(str::to_owned));
            let entry = Arc::new(entry);
            names.tool_index.insert(wire, names.tools.len());
            names.tools.push(Arc::clone(&entry));
            self.tools.insert(full_name, entry);
        }
    }

    /// A wire name made of `base` that the server has no tool of, and its full name.
    fn free_name(
        &self,
        base: &str,
        names: &ServerNames,
        full_name: impl Fn(&str) -> Arc<str>,
    ) -> (String, Arc<str>) {
        let mut number = 1;
        loop {
            let wire = if number == 1 { base.to_owned() } else { format!("{base}_{number}") };
            let full = full_name(&wire);
            if !names.tool_index.contains_key(&wire) && !self.tools.contains_key(&full) {
                return (wire, full);
            }
            number += 1;
        }
    }

    /// The own name of a tool, if it may keep it: nobody may pass for another server's tool.
    fn own_name(&self, own: &str, full_name: &str, findings: &mut Vec<Diagnostic>) -> Option<Arc<str>> {
        if own.starts_with(name::PREFIX) {
            return None;
        }
        if let Some(first) = self.tools.get(own) {
            let message = format!(
                "the tools {} and {full_name} are both called {own:?}; the second keeps its full name",
                first.full_name
            );
            findings.push(Diagnostic::warning("NAME_COLLISION", message));
            return None;
        }
        Some(Arc::from(own))
    }

    /// The tool of a full name, or of its own name where it keeps that.
    pub fn tool(&self, name: &str) -> Option<&Arc<ToolEntry>> {
        self.tools.get(name)
    }

    /// The tool of a server by its wire name.
    pub fn tool_of(&self, server: &str, wire_name: &str) -> Option<&Arc<ToolEntry>> {
        let names = self.by_server.get(server)?;
        names.tool_index.get(wire_name).and_then(|index| names.tools.get(*index))
    }

    /// The tools of a server in its own order.
    pub fn tools_of(&self, server: &str) -> &[Arc<ToolEntry>] {
        self.by_server.get(server).map_or(&[], |names| &names.tools)
    }

    /// All tools by their words.
    pub(super) fn index(&self) -> &ToolIndex {
        self.index.get_or_init(|| {
            let mut servers: Vec<(&String, &ServerNames)> = self.by_server.iter().collect();
            servers.sort_by_key(|(server, _)| *server);
            ToolIndex::build(servers.into_iter().flat_map(|(_, names)| names.tools.iter().cloned()).collect())
        })
    }

    /// The prompt of a full name.
    pub fn prompt(&self, full_name: &str) -> Option<&Arc<PromptEntry>> {
        self.prompts.get(full_name)
    }

    /// The prompt of a server by its wire name, else by its full name, else by the name that is shown.
    pub fn prompt_of(&self, server: &str, name: &str) -> Option<&Arc<PromptEntry>> {
        let prompts = self.prompts_of(server);
        let by = |is_it: fn(&PromptEntry, &str) -> bool| prompts.iter().find(|entry| is_it(entry, name));
        by(|entry, name| entry.definition().wire_name == name)
            .or_else(|| by(|entry, name| &*entry.full_name == name))
            .or_else(|| by(|entry, name| entry.definition().name == name))
    }

    /// The prompts of a server in its own order.
    pub fn prompts_of(&self, server: &str) -> &[Arc<PromptEntry>] {
        self.by_server.get(server).map_or(&[], |names| &names.prompts)
    }

    /// The server whose names begin like this one: where to look for a name that is not known yet.
    pub fn server_of(&self, full_name: &str) -> Option<&str> {
        let mut prefixes = self.prefixes.iter();
        prefixes.find(|(prefix, _)| full_name.starts_with(prefix.as_str())).map(|(_, server)| server.as_str())
    }

    /// Tool names that look like an unknown one.
    pub fn tools_like(&self, wanted: &str) -> Vec<String> {
        name::near_misses(wanted, self.tools.keys().map(|name| &**name), 3)
    }

    /// Wire names of a server's tools that look like an unknown one.
    pub fn tools_of_like(&self, server: &str, wanted: &str) -> Vec<String> {
        let names = self.tools_of(server).iter().map(|entry| entry.definition().wire_name.as_str());
        name::near_misses(wanted, names, 3)
    }

    /// Prompt names that look like an unknown one.
    pub fn prompts_like(&self, wanted: &str) -> Vec<String> {
        name::near_misses(wanted, self.prompts.keys().map(|name| &**name), 3)
    }
}

/// Index in the list and full name of every distinct wire name.
fn distinct_names(
    prefix: &str,
    server: &str,
    wire: &[&str],
    limit: usize,
    findings: &mut Vec<Diagnostic>,
) -> Vec<(usize, Arc<str>)> {
    let named = name::item_names(prefix, server, wire, limit);
    findings.extend(named.collisions.iter().map(|pair| collision(pair).on(server)));
    let given = named.names.into_iter().enumerate();
    given.filter_map(|(index, full)| Some((index, Arc::from(full?)))).collect()
}

fn collision(pair: &Collision) -> Diagnostic {
    Diagnostic::warning("NAME_COLLISION", pair.message())
}
