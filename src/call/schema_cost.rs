//! What a check against a JSON Schema may cost, told before it runs (mcp:JS-05, JS-08, JS-09).
//!
//! A few lines of references can make a validator run for ever. Here the schema is read as a graph of subschemas;
//! what refers outside the document, refers to itself without moving on in the instance, or is too large, is refused,
//! and for the rest an upper bound of evaluations per place of an instance is computed.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::blob::percent_decode;

/// Most subschemas of one schema.
const MAX_NODES: usize = 20_000;
/// Most distinct targets of references; a compiler follows them in its own stack.
const MAX_TARGETS: usize = 200;
/// Most regular expressions.
const MAX_PATTERNS: usize = 200;
/// Most `unevaluated…` keywords, each of which evaluates its neighbours again.
const MAX_UNEVALUATED: usize = 8;

/// Evaluations per instance place, for instances of any depth.
#[derive(Debug)]
pub(super) struct CostModel {
    nodes: Vec<Node>,
    /// Nodes in an order in which all that a node evaluates in place come before it.
    order: Vec<usize>,
}

#[derive(Debug, Default)]
struct Node {
    /// Cost of the node's own keywords.
    own: u64,
    in_place: Vec<usize>,
    elements: Vec<usize>,
    /// At most one of these meets a member of an object.
    named: Vec<usize>,
    /// Each of these may meet a member of an object.
    members: Vec<usize>,
}

impl CostModel {
    /// Reads a schema; the error says in words why it cannot be used.
    pub(super) fn read(schema: &Value) -> Result<Self, String> {
        check_dialect(schema)?;
        let mut reader = Reader::new(schema);
        reader.collect_anchors(schema);
        reader.node(schema)?;
        while let Some((id, value)) = reader.open.pop() {
            reader.read_node(id, value)?;
        }
        let order = in_place_order(&reader.nodes)?;
        Ok(Self { nodes: reader.nodes, order })
    }

    /// Upper bound of evaluations at any one place of an instance nested this deep.
    pub(super) fn evaluations(&self, depth: usize) -> u64 {
        let mut below = vec![0_u64; self.nodes.len()];
        for _ in 0..=depth {
            below = self.one_level(&below);
        }
        below.first().copied().unwrap_or_default()
    }

    fn one_level(&self, below: &[u64]) -> Vec<u64> {
        let sum = |places: &[usize], values: &[u64]| {
            places.iter().fold(0_u64, |total, place| total.saturating_add(values[*place]))
        };
        let count = self.nodes.len();
        let (mut own, mut arrays, mut objects) = (vec![0; count], vec![0; count], vec![0; count]);
        for &id in &self.order {
            let node = &self.nodes[id];
            own[id] = node.own.saturating_add(sum(&node.in_place, &own));
            arrays[id] = sum(&node.elements, below).saturating_add(sum(&node.in_place, &arrays));
            let named = node.named.iter().map(|place| below[*place]).max().unwrap_or_default();
            objects[id] =
                named.saturating_add(sum(&node.members, below)).saturating_add(sum(&node.in_place, &objects));
        }
        (0..count).map(|id| own[id].saturating_add(arrays[id].max(objects[id]))).collect()
    }
}

const DIALECTS: [&str; 5] = [
    "json-schema.org/draft/2020-12/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft-06/schema",
    "json-schema.org/draft-04/schema",
];

fn check_dialect(schema: &Value) -> Result<(), String> {
    let Some(dialect) = schema.get("$schema") else { return Ok(()) };
    let name = dialect.as_str().unwrap_or_default().trim_end_matches('#');
    let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://")).unwrap_or(name);
    if DIALECTS.contains(&name) { Ok(()) } else { Err("its dialect is not supported".to_owned()) }
}

struct Reader<'a> {
    root: &'a Value,
    nodes: Vec<Node>,
    /// Node numbers by the address of the subschema, which does not move while we read.
    ids: HashMap<usize, usize>,
    open: Vec<(usize, &'a Value)>,
    anchors: HashMap<&'a str, &'a Value>,
    targets: HashSet<usize>,
    patterns: usize,
    unevaluated: usize,
}

impl<'a> Reader<'a> {
    fn new(root: &'a Value) -> Self {
        Self {
            root,
            nodes: Vec::new(),
            ids: HashMap::new(),
            open: Vec::new(),
            anchors: HashMap::new(),
            targets: HashSet::new(),
            patterns: 0,
            unevaluated: 0,
        }
    }

    fn collect_anchors(&mut self, value: &'a Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(name)) = members.get("$anchor") {
                    self.anchors.entry(name).or_insert(value);
                }
                members.values().for_each(|inner| self.collect_anchors(inner));
            }
            Value::Array(items) => items.iter().for_each(|inner| self.collect_anchors(inner)),
            _ => {}
        }
    }

    fn node(&mut self, schema: &'a Value) -> Result<usize, String> {
        let address = std::ptr::from_ref(schema).addr();
        if let Some(id) = self.ids.get(&address) {
            return Ok(*id);
        }
        if self.nodes.len() >= MAX_NODES {
            return Err("it has too many subschemas".to_owned());
        }
        let id = self.nodes.len();
        self.nodes.push(Node::default());
        self.ids.insert(address, id);
        self.open.push((id, schema));
        Ok(id)
    }

    /// Nodes of a subschema, of an array of them, or of an object of them.
    fn nodes_of(&mut self, value: &'a Value, shape: Shape) -> Result<Vec<usize>, String> {
        match (shape, value) {
            (Shape::Many, Value::Array(schemas)) => schemas.iter().map(|schema| self.node(schema)).collect(),
            (Shape::Named, Value::Object(schemas)) => {
                schemas.values().filter(|schema| !schema.is_array()).map(|schema| self.node(schema)).collect()
            }
            (Shape::One, schema) => Ok(vec![self.node(schema)?]),
            _ => Ok(Vec::new()),
        }
    }

    fn read_node(&mut self, id: usize, value: &'a Value) -> Result<(), String> {
        let mut node = Node { own: 1, ..Node::default() };
        if let Value::Object(members) = value {
            self.read_keywords(members, &mut node)?;
        }
        self.nodes[id] = node;
        Ok(())
    }

    fn read_keywords(&mut self, members: &'a Map<String, Value>, node: &mut Node) -> Result<(), String> {
        for (keyword, value) in members {
            match keyword.as_str() {
                "allOf" | "anyOf" | "oneOf" => node.in_place.extend(self.nodes_of(value, Shape::Many)?),
                "not" | "if" | "then" | "else" => node.in_place.extend(self.nodes_of(value, Shape::One)?),
                "dependentSchemas" | "dependencies" => {
                    node.in_place.extend(self.nodes_of(value, Shape::Named)?);
                }
                "$ref" => node.in_place.push(self.target(value)?),
                "items" if value.is_array() => node.elements.extend(self.nodes_of(value, Shape::Many)?),
                "prefixItems" => node.elements.extend(self.nodes_of(value, Shape::Many)?),
                "items" | "additionalItems" | "contains" => {
                    node.elements.extend(self.nodes_of(value, Shape::One)?);
                }
                "properties" => node.named.extend(self.nodes_of(value, Shape::Named)?),
                "additionalProperties" | "propertyNames" => {
                    node.members.extend(self.nodes_of(value, Shape::One)?);
                }
                "patternProperties" => {
                    value
                        .as_object()
                        .into_iter()
                        .flatten()
                        .try_for_each(|(text, _)| self.pattern(text, node))?;
                    node.members.extend(self.nodes_of(value, Shape::Named)?);
                }
                "unevaluatedItems" => {
                    self.count_unevaluated()?;
                    node.elements.extend(self.nodes_of(value, Shape::One)?);
                }
                "unevaluatedProperties" => {
                    self.count_unevaluated()?;
                    node.members.extend(self.nodes_of(value, Shape::One)?);
                }
                "pattern" => self.pattern(value.as_str().unwrap_or_default(), node)?,
                "enum" => node.own += value.as_array().map_or(0, |values| values.len() as u64 / 16),
                "$dynamicRef" | "$recursiveRef" => return Err(format!("it uses {keyword}")),
                "$id" | "id" if value.is_string() && !std::ptr::eq(members, self.root_members()) => {
                    return Err("it holds another document".to_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn root_members(&self) -> *const Map<String, Value> {
        self.root.as_object().map_or(std::ptr::null(), std::ptr::from_ref)
    }

    fn target(&mut self, reference: &'a Value) -> Result<usize, String> {
        let text = reference.as_str().ok_or("a $ref in it is not a string")?;
        let fragment = text.strip_prefix('#').ok_or("it refers outside its own document")?;
        let target = if fragment.is_empty() || fragment.starts_with('/') {
            self.root.pointer(&percent_decode(fragment.as_bytes()))
        } else {
            self.anchors.get(fragment).copied()
        };
        let target = target.ok_or("a $ref in it points nowhere")?;
        self.targets.insert(std::ptr::from_ref(target).addr());
        if self.targets.len() > MAX_TARGETS {
            return Err("it refers to too many subschemas".to_owned());
        }
        self.node(target)
    }

    /// Counts a regular expression; one that looks around or back costs much more than one that does not.
    fn pattern(&mut self, text: &str, node: &mut Node) -> Result<(), String> {
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS {
            return Err("it has too many patterns".to_owned());
        }
        let looks_around = ["(?=", "(?!", "(?<"].iter().any(|mark| text.contains(mark));
        let looks_back = text.as_bytes().windows(2).any(|pair| pair[0] == b'\\' && pair[1].is_ascii_digit());
        node.own += if looks_around || looks_back { 1000 } else { 1 };
        Ok(())
    }

    fn count_unevaluated(&mut self) -> Result<(), String> {
        self.unevaluated += 1;
        if self.unevaluated > MAX_UNEVALUATED {
            return Err("it uses unevaluated keywords too often".to_owned());
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Shape {
    One,
    Many,
    Named,
}

/// Orders nodes so that everything evaluated in place comes first; an error where that goes in a circle.
fn in_place_order(nodes: &[Node]) -> Result<Vec<usize>, String> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut states = vec![State::New; nodes.len()];
    let mut order = Vec::with_capacity(nodes.len());
    for start in 0..nodes.len() {
        let mut path = vec![(start, 0)];
        while let Some((id, next)) = path.pop() {
            if next == 0 {
                match states[id] {
                    State::New => states[id] = State::Open,
                    State::Open => return Err("it refers to itself in a circle".to_owned()),
                    State::Done => continue,
                }
            }
            if let Some(child) = nodes[id].in_place.get(next) {
                path.extend([(id, next + 1), (*child, 0)]);
            } else {
                states[id] = State::Done;
                order.push(id);
            }
        }
    }
    Ok(order)
}
