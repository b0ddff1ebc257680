//! Names that models see: `mcp__server__tool`, how they are made, kept apart, shortened and read.
//!
//! Owns: normalisation, the unique name of every server and item, suffixes, the length limit and near
//! misses. Does not own: which name routes where (the registry maps full names to wire names and never
//! parses one), reserved names, and the cleaning of texts.
//!
//! All functions are pure and depend on content alone, so a name is the same in every run.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

mod near_misses;
pub mod pattern;
#[cfg(test)]
mod tests;

pub use near_misses::near_misses;

/// What every full name of an MCP tool or prompt begins with.
pub const PREFIX: &str = "mcp__";

/// What ends the server part of a full name.
const SEPARATOR: &str = "__";

/// Hex digits of a suffix.
const HASH_DIGITS: usize = 8;

/// The smallest length limit that holds `mcp__` + hash + `__` + hash.
pub const SHORTEST_LIMIT: usize = 24;

/// A name with every character outside `[A-Za-z0-9_-]` turned into `_` (NAM-01).
pub fn normalize_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// The server part of a full name: like [`normalize_name`], with runs of `_` shrunk to one (NAM-01).
///
/// No `_` stays at the end either, since together with the separator it would move the first `__`. A name
/// with nothing left becomes eight hex digits of its hash.
pub fn normalize_server_name(name: &str) -> String {
    let mut part = String::with_capacity(name.len());
    for character in normalize_name(name).chars() {
        if character != '_' || !part.ends_with('_') {
            part.push(character);
        }
    }
    part.truncate(part.trim_end_matches('_').len());
    if part.is_empty() { stable_hash(&[name], 0) } else { part }
}

/// The full name of a tool, without regard to collisions and length (NAM-01).
pub fn build_tool_name(server: &str, tool: &str) -> String {
    item_prefix(&normalize_server_name(server)) + &normalize_name(tool)
}

/// What the full names of a server's items begin with, made from its unique server part.
pub fn item_prefix(server_part: &str) -> String {
    format!("{PREFIX}{server_part}{SEPARATOR}")
}

/// Server part and tool part of a full name, split at the first `__` after `mcp__` (NAM-02).
///
/// `None` where the prefix or the separator is missing or a part is empty. The tool part may hold `__`.
pub fn parse_tool_name(full: &str) -> Option<(&str, &str)> {
    let (server, tool) = full.strip_prefix(PREFIX)?.split_once(SEPARATOR)?;
    (!server.is_empty() && !tool.is_empty()).then_some((server, tool))
}

/// A server as configured, with the strength of the scope that defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedServer<'a> {
    /// The configured name.
    pub name: &'a str,
    /// Strength of its scope; the greater is served first.
    pub strength: u8,
}

/// Two different names that normalise to one; the source of a `NAME_COLLISION` warning (NAM-04).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    /// The normalised name both would have.
    pub normalized: String,
    /// The name that comes first by content.
    pub first: String,
    /// The name that got a suffix.
    pub other: String,
}

impl Collision {
    /// One line for people that names both, with unprintable characters escaped and long names cut.
    pub fn message(&self) -> String {
        format!(
            "{:?} and {:?} both become {:?}; the second gets a suffix, rename one to choose its name",
            cut(&self.first, 80),
            cut(&self.other, 80),
            cut(&self.normalized, 80),
        )
    }
}

/// The unique server parts of a set of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerPrefixes {
    /// The server part of each server, in the order given; no two are equal.
    pub parts: Vec<String>,
    /// Servers whose names normalise to one.
    pub collisions: Vec<Collision>,
}

/// Gives every server its own server part (NAM-04).
///
/// Of servers with one normalised name the first by strength (greatest first), then by name, gets it plain;
/// the others get `_` and eight hex digits of a hash of their configured name. A suffixed part never equals
/// the plain part of another server.
pub fn server_prefixes(servers: &[NamedServer]) -> ServerPrefixes {
    let mut order: Vec<usize> = (0..servers.len()).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(servers[index].strength), servers[index].name));
    let plain: Vec<String> = servers.iter().map(|server| normalize_server_name(server.name)).collect();
    let mut names = UniqueNames::new(plain.iter().cloned());
    let mut result = ServerPrefixes { parts: vec![String::new(); servers.len()], ..Default::default() };
    for index in order {
        let (name, base) = (servers[index].name, &plain[index]);
        result.parts[index] = match names.claim(base, name) {
            None => base.clone(),
            Some(collision) => {
                result.collisions.push(collision);
                names.unique(|round| format!("{base}_{}", stable_hash(&[name], round)))
            }
        };
    }
    result
}

/// The full names of the items (tools or prompts) of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemNames {
    /// The full name of each item, in the order given; no two are equal. `None` for a repeated wire name.
    pub names: Vec<Option<String>>,
    /// Indices of the items whose wire name an earlier item has.
    pub duplicates: Vec<usize>,
    /// Items with different wire names that normalise to one full name.
    pub collisions: Vec<Collision>,
}

/// Gives every distinct wire name of one server its own full name (NAM-04, NAM-05).
///
/// `prefix` is what the names begin with ([`item_prefix`], or empty where a server's tools keep their own
/// names), `server` the configured name. Of wire names with one normalised name the first in order gets it
/// plain; the others get `_` and eight hex digits of a hash of server and wire name. Names longer than
/// `limit` characters (at least [`SHORTEST_LIMIT`]) are cut and get the same suffix; where the prefix leaves
/// no room for one, its server part is cut too, so that the name still parses.
pub fn item_names(prefix: &str, server: &str, wire_names: &[&str], limit: usize) -> ItemNames {
    let shape = Shape { prefix, server, limit: limit.max(SHORTEST_LIMIT) };
    let mut result = ItemNames { names: vec![None; wire_names.len()], ..Default::default() };
    let mut first_index = HashMap::with_capacity(wire_names.len());
    for (index, &wire) in wire_names.iter().enumerate() {
        if *first_index.entry(wire).or_insert(index) != index {
            result.duplicates.push(index);
        }
    }
    let mut order: Vec<(&str, usize)> = first_index.into_iter().collect();
    order.sort_unstable();
    let plain: Vec<String> = order.iter().map(|(wire, _)| shape.plain(wire)).collect();
    let mut names = UniqueNames::new(plain.iter().filter(|name| shape.fits(name)).cloned());
    for (&(wire, index), base) in order.iter().zip(&plain) {
        let collision = names.claim(base, wire);
        let stays = collision.is_none() && shape.fits(base);
        result.collisions.extend(collision);
        result.names[index] = Some(if stays {
            base.clone()
        } else {
            names.unique(|round| shape.suffixed(base, &stable_hash(&[server, wire], round)))
        });
    }
    result
}

/// How the full names of a server begin that do not fit behind its prefix, where that leaves no room for a hash.
pub fn cut_prefix(prefix: &str, server: &str, limit: usize) -> Option<String> {
    let shape = Shape { prefix, server, limit: limit.max(SHORTEST_LIMIT) };
    (!shape.has_room()).then(|| shape.short_prefix())
}

/// How the full names of one server look.
struct Shape<'a> {
    prefix: &'a str,
    server: &'a str,
    limit: usize,
}

impl Shape<'_> {
    fn plain(&self, wire: &str) -> String {
        let item = normalize_name(wire);
        let item = if item.is_empty() { stable_hash(&[self.server, wire], 0) } else { item };
        format!("{}{item}", self.prefix)
    }

    fn fits(&self, name: &str) -> bool {
        name.chars().count() <= self.limit
    }

    /// `base` with the hash at its end, cut so that both fit.
    fn suffixed(&self, base: &str, hash: &str) -> String {
        if !self.has_room() {
            return self.short_prefix() + hash;
        }
        let prefix_length = self.prefix.chars().count();
        let head = cut(base, self.limit - HASH_DIGITS - 1);
        if head.chars().count() <= prefix_length {
            return format!("{}{hash}", self.prefix);
        }
        format!("{head}_{hash}")
    }

    /// Whether a hash fits behind the prefix.
    fn has_room(&self) -> bool {
        self.prefix.chars().count() + HASH_DIGITS <= self.limit
    }

    /// A prefix with the server part cut and hashed, so short that the hash of an item fits behind it.
    fn short_prefix(&self) -> String {
        let server_part = self.prefix.strip_prefix(PREFIX).unwrap_or(self.prefix).trim_end_matches('_');
        let head = cut(server_part, self.limit - SHORTEST_LIMIT).trim_end_matches('_');
        let hash = stable_hash(&[self.server], 0);
        let joint = if head.is_empty() { "" } else { "_" };
        item_prefix(&format!("{head}{joint}{hash}"))
    }
}

/// Names given so far, and those that only their first owner may have.
struct UniqueNames {
    plain: HashSet<String>,
    given: HashSet<String>,
    owners: HashMap<String, String>,
}

impl UniqueNames {
    fn new(plain: impl Iterator<Item = String>) -> Self {
        Self { plain: plain.collect(), given: HashSet::new(), owners: HashMap::new() }
    }

    /// Makes `owner` the owner of a normalised name, or says who has it.
    fn claim(&mut self, normalized: &str, owner: &str) -> Option<Collision> {
        if let Some(first) = self.owners.get(normalized) {
            let (first, other) = (first.clone(), owner.to_owned());
            return Some(Collision { normalized: normalized.to_owned(), first, other });
        }
        self.owners.insert(normalized.to_owned(), owner.to_owned());
        None
    }

    /// The first of a row of candidates that nobody has or owns.
    fn unique(&mut self, candidate: impl Fn(u32) -> String) -> String {
        let mut round = 0;
        loop {
            let name = candidate(round);
            if !self.plain.contains(&name) && self.given.insert(name.clone()) {
                return name;
            }
            round += 1;
        }
    }
}

/// Eight hex digits that depend on the parts and the round alone.
fn stable_hash(parts: &[&str], round: u32) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        // The length keeps ("ab", "c") and ("a", "bc") apart.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    if round > 0 {
        hasher.update(round.to_be_bytes());
    }
    let first =
        hasher.finalize().iter().take(HASH_DIGITS / 2).fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    format!("{first:0HASH_DIGITS$x}")
}

/// The first `length` characters.
fn cut(text: &str, length: usize) -> &str {
    text.char_indices().nth(length).map_or(text, |(end, _)| &text[..end])
}
