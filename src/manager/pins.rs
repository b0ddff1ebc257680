//! Definitions of tools as they were approved, so that a change is seen (SEC-06).
//!
//! A tool is pinned when a rule first allows it or a call of it first passes. Pins are kept by the server's label and
//! what it runs or reaches: where permissions hold, pins do. Owns what is pinned and which tools have changed;
//! what follows from a change is the manager's.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::late_writes::LateWrites;
use super::persist::Persist;
use super::rules::Rules;
use crate::config::identity::{self, IdentityKey};
use crate::config::spec::ServerSpec;
use crate::config::trust::hex;
use crate::error::McpError;
use crate::json_scan;
use crate::jsonrpc::write::push_string;
use crate::permission::{Decision, Verdict};
use crate::protocol::tool::ToolDefinition;
use crate::runtime::lock;
use crate::state_dir::StateDir;

/// What a change of a tool's definition means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinMode {
    /// It is told, and remembered answers are dropped; the default.
    #[default]
    Warn,
    /// Allow rules stand still too until somebody has confirmed it.
    Ask,
    /// Nothing; nothing is pinned.
    Off,
}

/// What the file names begin with.
const PREFIX: &str = "pins-";
/// Files that are kept; the oldest go first.
const MOST_FILES: usize = 1_000;
/// Most bytes of definitions in one file; of tools beyond that only the hash is kept.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// How a tool without a description is written.
const NOTHING_SAID: &str = r#","description":"","#;

type Hash = [u8; 32];

/// A definition that was approved.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pin {
    sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<Box<RawValue>>,
    /// Where we wrote an allow rule for exactly this tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kept: Vec<Persist>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    #[serde(default)]
    tools: BTreeMap<String, Pin>,
}

/// A tool whose definition is not the one that was approved.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// Its own name now.
    pub(super) tool: String,
    /// JSON text of the definition that was approved.
    pub(super) before: Arc<str>,
    /// JSON text of the definition now.
    pub(super) after: String,
    /// Where permissions for exactly this tool were written.
    pub(super) kept: Vec<Persist>,
}

/// What pins say of one tool.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// There is nothing to pin.
    pub(super) pinned: bool,
    /// JSON text of the definition that was approved, where it is not the one of now and nobody has confirmed it.
    pub(super) changed: Option<Arc<str>>,
    /// The remembered permission was dropped.
    pub(super) dropped: bool,
}

impl Standing {
    /// What rules come to: allow rules stand still for a tool that has changed, and what was remembered for another
    /// definition does not count.
    pub(super) fn weigh<'a>(&self, verdict: Verdict<'a>, exact_rule: impl Fn() -> String) -> Verdict<'a> {
        match verdict.decision {
            Decision::Allow if self.changed.is_some() => Verdict { decision: Decision::Ask, ..verdict },
            Decision::Allow if self.dropped && verdict.rule.is_some_and(|rule| rule == exact_rule()) => {
                Verdict { decision: Decision::Passthrough, rule: None }
            }
            _ => verdict,
        }
    }
}

/// The pins of one server.
#[derive(Debug, Default)]
struct Pinned {
    /// What its permissions hold for; `None` for one that lives in this process.
    place: Option<String>,
    hashes: HashMap<String, Hash>,
    /// By tool: the definition now, and the one that was approved.
    changed: HashMap<String, (Hash, Arc<str>)>,
    dropped: HashSet<String>,
    /// What is not written yet.
    unwritten: BTreeMap<String, Pin>,
    /// What is being written: nobody may look for it in the file before it is there.
    writing: BTreeMap<String, Pin>,
    /// What was last looked at.
    seen: Option<(Arc<Vec<ToolDefinition>>, Arc<Rules>)>,
}

/// All pins of a manager.
#[derive(Debug)]
pub(super) struct Pins {
    mode: PinMode,
    state: Arc<StateDir>,
    servers: Mutex<HashMap<String, Pinned>>,
    /// One write at a time: a later one must not be overtaken by an earlier.
    writer: Mutex<()>,
    writes: LateWrites,
}

impl Pins {
    pub(super) fn new(mode: PinMode, state: Arc<StateDir>) -> Self {
        Self {
            mode,
            state,
            servers: Mutex::default(),
            writer: Mutex::default(),
            writes: LateWrites::default(),
        }
    }

    /// Compares the tools of a server with what was approved, and pins those that rules allow. The second value
    /// says whether there is something to write.
    pub(super) fn examine(
        &self,
        spec: &ServerSpec,
        tools: &Arc<Vec<ToolDefinition>>,
        rules: &Arc<Rules>,
    ) -> (Vec<Change>, bool) {
        if self.mode == PinMode::Off {
            return (Vec::new(), false);
        }
        let mut servers = lock(&self.servers);
        let place = identity::place(spec);
        let fits = servers.get(&*spec.name).is_some_and(|known| known.place == place);
        if !fits {
            let known = self.recall(place);
            servers.insert(spec.name.to_string(), known);
        }
        let Some(pinned) = servers.get_mut(&*spec.name) else { return (Vec::new(), false) };
        let seen = |(list, with): &(Arc<Vec<ToolDefinition>>, Arc<Rules>)| {
            Arc::ptr_eq(list, tools) && Arc::ptr_eq(with, rules)
        };
        if pinned.seen.as_ref().is_some_and(seen) {
            return (Vec::new(), false);
        }
        pinned.seen = Some((Arc::clone(tools), Arc::clone(rules)));
        let allowed = |tool: &str| rules.decide(spec, tool).decision == Decision::Allow;
        let known = std::cell::OnceCell::new();
        let gone = std::cell::OnceCell::new();
        let file = || known.get_or_init(|| self.file_of(pinned.place.as_deref()));
        let mut found = Vec::new();
        let mut updates: Vec<(&ToolDefinition, Option<Found>)> = Vec::new();
        for tool in tools.iter() {
            match pinned.hashes.get(&tool.wire_name) {
                Some(hash) if *hash == hash_of(&text_of(tool)) => updates.push((tool, None)),
                Some(_) => {
                    let before = pinned.pin(&tool.wire_name, file());
                    updates.push((tool, Some(Found::Changed(before))));
                }
                None => {
                    if let Some(old) = gone.get_or_init(|| pinned.gone(tools, file())).get(&members_of(tool))
                    {
                        updates.push((tool, Some(Found::Renamed(old.clone()))));
                    } else if allowed(&tool.wire_name) {
                        updates.push((tool, Some(Found::New)));
                    }
                }
            }
        }
        for (tool, update) in updates {
            found.extend(pinned.take(tool, update, self.mode));
        }
        (found, !pinned.unwritten.is_empty())
    }

    /// What pins say of a tool.
    pub(super) fn standing(&self, server: &str, tool: &str) -> Standing {
        if self.mode == PinMode::Off {
            return Standing { pinned: true, ..Standing::default() };
        }
        let servers = lock(&self.servers);
        let Some(pinned) = servers.get(server) else { return Standing::default() };
        Standing {
            pinned: pinned.hashes.contains_key(tool),
            changed: pinned.changed.get(tool).map(|(_, before)| Arc::clone(before)),
            dropped: pinned.dropped.contains(tool),
        }
    }

    /// Pins a definition that somebody has approved, unless it is another one by now. Whether it was not pinned yet.
    pub(super) fn approve(&self, server: &str, tool: &ToolDefinition) -> bool {
        let mut servers = lock(&self.servers);
        let Some(pinned) = servers.get_mut(server).filter(|_| self.are_on()) else { return false };
        let news = match pinned.changed.get(&tool.wire_name) {
            Some((now, _)) => *now == hash_of(&text_of(tool)),
            None => !pinned.hashes.contains_key(&tool.wire_name),
        };
        if news {
            pinned.changed.remove(&tool.wire_name);
            pinned.pin_now(tool, Vec::new());
        }
        news
    }

    /// A permission for exactly this tool was written.
    pub(super) fn note_kept(&self, server: &str, tool: &ToolDefinition, kept: Persist) {
        if let Some(pinned) = lock(&self.servers).get_mut(server) {
            pinned.dropped.remove(&tool.wire_name);
            pinned.pin_now(tool, vec![kept]);
        }
    }

    /// Whether lists that may be out of date have to be read before a call.
    pub(super) fn are_on(&self) -> bool {
        self.mode != PinMode::Off
    }

    fn recall(&self, place: Option<String>) -> Pinned {
        let file = self.file_of(place.as_deref());
        let hashes =
            file.tools.iter().filter_map(|(tool, pin)| Some((tool.clone(), read_hash(&pin.sha256)?)));
        Pinned { hashes: hashes.collect(), place, ..Pinned::default() }
    }

    fn file_of(&self, place: Option<&str>) -> File {
        let name = place.zip(IdentityKey::read(&self.state)).map(|(place, key)| file_name(place, &key));
        name.and_then(|name| read_file(self.state.read(&name).as_deref())).unwrap_or_default()
    }

    /// Writes what is new of a server. Blocks.
    ///
    /// # Errors
    /// `CONFIG_WRITE_FAILED`.
    pub(super) fn write(&self, server: &str) -> Result<(), McpError> {
        let _writer = lock(&self.writer);
        let (place, news) = {
            let mut servers = lock(&self.servers);
            // What lives in this process is pinned as long as the process lives.
            let Some((Some(place), pinned)) = servers.get_mut(server).map(|one| (one.place.clone(), one))
            else {
                return Ok(());
            };
            pinned.writing = std::mem::take(&mut pinned.unwritten);
            (place, pinned.writing.clone())
        };
        if news.is_empty() {
            return Ok(());
        }
        let written = self.write_down(&place, news);
        if let Some(pinned) = lock(&self.servers).get_mut(server) {
            let tried = std::mem::take(&mut pinned.writing);
            if written.is_err() {
                // With the next write; what has become of a tool meanwhile counts more.
                for (tool, pin) in tried {
                    pinned.unwritten.entry(tool).or_insert(pin);
                }
            }
        }
        written
    }

    fn write_down(&self, place: &str, news: BTreeMap<String, Pin>) -> Result<(), McpError> {
        let name = file_name(place, &IdentityKey::read_or_make(&self.state)?);
        self.state.update(&name, |now| {
            let mut file = read_file(now.as_deref()).unwrap_or_default();
            for (tool, pin) in news {
                file.tools.insert(tool, pin);
            }
            let mut left = MOST_BYTES;
            for pin in file.tools.values_mut() {
                let length = pin.definition.as_ref().map_or(0, |text| text.get().len());
                match left.checked_sub(length) {
                    Some(rest) => left = rest,
                    None => pin.definition = None,
                }
            }
            serde_json::to_vec(&file).unwrap_or_default()
        })?;
        self.state.keep_newest(PREFIX, MOST_FILES);
        Ok(())
    }

    /// Does a write that nobody waits for.
    pub(super) fn write_later(&self, write: impl FnOnce() + Send + 'static) {
        self.writes.add(write);
    }

    /// Waits until everything is written, for a moment.
    pub(super) async fn written(&self) {
        self.writes.done().await;
    }
}

/// What is found about a tool that is not as it was pinned.
enum Found {
    New,
    Changed(Option<Pin>),
    /// Another tool with the same definition has gone.
    Renamed(Pin),
}

impl Pinned {
    /// The pin of a tool, if its definition is known.
    fn pin(&self, tool: &str, file: &File) -> Option<Pin> {
        let fresh = self.unwritten.get(tool).or_else(|| self.writing.get(tool));
        fresh.or_else(|| file.tools.get(tool)).cloned()
    }

    /// Pinned tools that the server has no more, by all but their names.
    fn gone(&self, tools: &[ToolDefinition], file: &File) -> HashMap<String, Pin> {
        let there: HashSet<&str> = tools.iter().map(|tool| tool.wire_name.as_str()).collect();
        let gone = self.hashes.keys().filter(|name| !there.contains(name.as_str()));
        gone.filter_map(|name| {
            let pin = self.pin(name, file)?;
            let members = behind_name(pin.definition.as_ref()?.get())?.to_owned();
            // Tools that say nothing are too alike to tell.
            (!members.contains(NOTHING_SAID)).then_some((members, pin))
        })
        .collect()
    }

    fn take(&mut self, tool: &ToolDefinition, update: Option<Found>, mode: PinMode) -> Option<Change> {
        let name = &tool.wire_name;
        let Some(update) = update else {
            self.changed.remove(name);
            return None;
        };
        let text = text_of(tool);
        let pin = match update {
            Found::New => {
                self.pin_now(tool, Vec::new());
                return None;
            }
            Found::Changed(pin) => pin,
            Found::Renamed(old) => {
                let pin = Pin { kept: Vec::new(), ..old };
                if let (PinMode::Ask, Some(hash)) = (mode, read_hash(&pin.sha256)) {
                    self.hashes.insert(name.clone(), hash);
                    self.unwritten.insert(name.clone(), pin.clone());
                }
                Some(pin)
            }
        };
        let known = pin.as_ref().and_then(|pin| pin.definition.as_ref()).map(|text| text.get());
        // Members may come in another order.
        let same = |known: &str| {
            let [one, other] = [known, &text].map(|text| serde_json::from_str::<Value>(text).ok());
            one.is_some() && one == other
        };
        if known.is_some_and(same) {
            let kept = pin.map(|pin| pin.kept).unwrap_or_default();
            self.pin_now(tool, kept);
            return None;
        }
        let before: Arc<str> = known.map_or_else(|| only_name(name), Arc::from);
        let kept = pin.map(|pin| pin.kept).unwrap_or_default();
        if !kept.is_empty() {
            self.dropped.insert(name.clone());
        }
        if mode == PinMode::Ask {
            let hash = hash_of(&text);
            if self
                .changed
                .insert(name.clone(), (hash, Arc::clone(&before)))
                .is_some_and(|(told, _)| told == hash)
            {
                return None;
            }
            self.forget_kept(name);
        } else {
            self.pin_now(tool, Vec::new());
        }
        Some(Change { tool: name.clone(), before, after: text, kept })
    }

    /// The rules that were written for a tool are gone; its pin stays.
    fn forget_kept(&mut self, tool: &str) {
        if let Some(pin) = self.unwritten.get_mut(tool) {
            pin.kept.clear();
        }
    }

    fn pin_now(&mut self, tool: &ToolDefinition, kept: Vec<Persist>) {
        let text = text_of(tool);
        let hash = hash_of(&text);
        let definition = RawValue::from_string(text).ok();
        self.hashes.insert(tool.wire_name.clone(), hash);
        let sha256 = hex(&hash);
        self.unwritten.insert(tool.wire_name.clone(), Pin { sha256, definition, kept });
    }
}

/// JSON text of what a model and a person see of a tool: what its approval is about.
fn text_of(tool: &ToolDefinition) -> String {
    let mut text = String::from("{\"name\":");
    push_string(&mut text, &tool.name);
    text.push_str(&members_of(tool));
    text.push('}');
    text
}

/// The members of that text behind the name.
fn members_of(tool: &ToolDefinition) -> String {
    let names = ["title", "description", "inputSchema", "outputSchema", "annotations", "searchHint"];
    let body = format!("{{{}}}", tool.body);
    let mut members = String::new();
    for (name, value) in names.into_iter().zip(json_scan::pick(&body, names)) {
        if let Some(value) = value {
            members.push_str(",\"");
            members.push_str(name);
            members.push_str("\":");
            members.push_str(value);
        }
    }
    members
}

/// What is in such a text behind the name.
fn behind_name(text: &str) -> Option<&str> {
    let name = json_scan::members(text).next()?.value;
    let end = name.as_ptr() as usize - text.as_ptr() as usize + name.len();
    text.get(end..)?.strip_suffix('}')
}

fn only_name(tool: &str) -> Arc<str> {
    let mut text = String::from("{\"name\":");
    push_string(&mut text, tool);
    text.push('}');
    Arc::from(text)
}

fn hash_of(text: &str) -> Hash {
    Sha256::digest(text).into()
}

fn read_hash(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(hash)
}

fn file_name(place: &str, key: &IdentityKey) -> String {
    format!("{PREFIX}{}.json", identity::hashed(place, key))
}

fn read_file(bytes: Option<&[u8]>) -> Option<File> {
    serde_json::from_slice(bytes?).ok()
}

#[cfg(test)]
mod tests;
