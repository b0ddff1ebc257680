//! Stage `parse`: the text of a layer → its entries and other words as written. (CFG-03)
//!
//! Reads JSON with comments, trailing commas and a byte order mark. A text that cannot be read costs
//! that layer alone; an entry that is no object costs that entry alone.

use std::collections::HashMap;
use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Number, Value};

use crate::config::draft::{Definition, Draft, LayerShape, Origin, RawLayer, Staged, pointer_step};
use crate::config::position::Positions;
use crate::config::report::{Fate, ReportEntry};
use crate::config::settings::{self, Said};
use crate::diagnostic::Diagnostic;

/// Deepest nesting that is read.
pub const MAX_DEPTH: usize = 127;
/// Longest name of a server, in bytes; names stand in every message about the server.
const MAX_NAME_BYTES: usize = 1024;
/// Most duplicate keys that are told for one layer.
const MAX_DUPLICATES_TOLD: usize = 100;

/// What stands in a layer.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// Its servers.
    pub servers: Staged<Draft>,
    /// What it says beside them.
    pub said: Said,
}

/// Parses one layer; `order` is its ordinal among all layers.
pub fn parse(layer: &RawLayer, order: usize) -> Parsed {
    let mut stage = Staged::default();
    // Why a file was not read is told by who tried.
    let Some(bytes) = without_mark(layer) else { return Parsed::default() };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            stage.diagnostics.push(not_utf8(layer, bytes, error.valid_up_to()));
            return Parsed { servers: stage, said: Said::default() };
        }
    };
    let positions = Positions::new(text);
    let mut reader = Reader { layer, order, positions, duplicates: 0, stage, said: Said::default() };
    match parse_to_ast(text, &CollectOptions::default(), &strict_but_commented()) {
        Ok(parsed) => reader.root(parsed.value.as_ref()),
        Err(error) if matches!(layer.shape, LayerShape::Directory(_)) => drop(error),
        Err(error) => reader.syntax_error(text, &error),
    }
    Parsed { servers: reader.stage, said: reader.said }
}

/// Whether a layer can be read at all: it is there, and its text is an object.
pub fn is_readable(layer: &RawLayer) -> bool {
    let text = without_mark(layer).and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.is_some_and(|text| {
        parse_to_ast(text, &CollectOptions::default(), &strict_but_commented())
            .is_ok_and(|parsed| matches!(parsed.value, Some(ast::Value::Object(_))))
    })
}

/// The bytes without a byte order mark.
fn without_mark(layer: &RawLayer) -> Option<&[u8]> {
    let bytes = layer.bytes.as_deref()?;
    Some(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes))
}

pub(crate) fn strict_but_commented() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn not_utf8(layer: &RawLayer, bytes: &[u8], valid: usize) -> Diagnostic {
    let head = bytes.get(..valid).and_then(|head| std::str::from_utf8(head).ok()).unwrap_or_default();
    let mut diagnostic = Diagnostic::error("CONFIG_INVALID", "The text is not UTF-8; save it as UTF-8");
    let (line, column) = Positions::new(head).at(head.len());
    diagnostic.file = layer.file.as_deref().map(str::to_owned);
    diagnostic.line = Some(line);
    diagnostic.column = Some(column);
    diagnostic
}

struct Reader<'a> {
    layer: &'a RawLayer,
    order: usize,
    positions: Positions<'a>,
    duplicates: usize,
    stage: Staged<Draft>,
    said: Said,
}

impl Reader<'_> {
    fn tell(&mut self, mut diagnostic: Diagnostic, offset: usize, pointer: Option<String>) {
        let (line, column) = self.positions.at(offset);
        diagnostic.file = self.layer.file.as_deref().map(str::to_owned);
        diagnostic.line = Some(line);
        diagnostic.column = Some(column);
        diagnostic.pointer = pointer;
        self.stage.diagnostics.push(diagnostic);
    }

    fn syntax_error(&mut self, text: &str, error: &ParseError) {
        let offset = match error.kind() {
            // The parser points behind the value before the gap; people look for what stands after it.
            ParseErrorKind::ExpectedComma => {
                let rest = text.get(error.range().start..).unwrap_or_default();
                error.range().start + (rest.len() - rest.trim_start().len())
            }
            _ => error.range().start,
        };
        self.tell(
            Diagnostic::error("CONFIG_INVALID", format!("Not valid JSON: {}", error.kind())),
            offset,
            None,
        );
    }

    fn root(&mut self, value: Option<&ast::Value<'_>>) {
        let Some(value) = value else {
            if matches!(self.layer.shape, LayerShape::Directory(_)) {
                return;
            }
            self.tell(
                Diagnostic::error("CONFIG_INVALID", "The file is empty; write {\"mcpServers\": {}}"),
                0,
                None,
            );
            return;
        };
        if matches!(self.layer.shape, LayerShape::Servers | LayerShape::Builtin) {
            self.servers(value, "/servers");
            return;
        }
        let ast::Value::Object(object) = value else {
            if matches!(self.layer.shape, LayerShape::Directory(_)) {
                return;
            }
            let message = format!("Expected an object with \"mcpServers\", found {}", kind_of(value));
            self.tell(Diagnostic::error("CONFIG_INVALID", message), value_start(value), Some(String::new()));
            return;
        };
        match &self.layer.shape {
            LayerShape::Settings => self.settings(object, ""),
            LayerShape::Directory(path) => self.directory(object, path),
            _ => self.server_file(object),
        }
    }

    /// A file of settings: servers stand under `mcpServers` only.
    fn settings(&mut self, object: &ast::Object<'_>, pointer: &str) {
        self.words(object, pointer);
        let mut tables = object.properties.iter().filter(|property| property.name.as_str() == "mcpServers");
        if let Some(last) = tables.next_back() {
            self.servers(&last.value, &format!("{pointer}/mcpServers"));
        }
        for (key, place) in tables.map(|table| (table.name.as_str(), table.range.start)) {
            self.duplicate(key, place, format!("{pointer}/mcpServers"));
        }
    }

    /// The settings of one directory; nothing where the file does not know it.
    fn directory(&mut self, object: &ast::Object<'_>, path: &str) {
        let last = |object: &ast::Object<'_>, key: &str| {
            object.properties.iter().rposition(|property| property.name.as_str() == key)
        };
        let projects = last(object, "projects").and_then(|at| object.properties.get(at));
        let Some(ast::Value::Object(projects)) = projects.map(|property| &property.value) else { return };
        let entry = last(projects, path).and_then(|at| projects.properties.get(at));
        if let Some(ast::Value::Object(settings)) = entry.map(|property| &property.value) {
            self.settings(settings, &format!("/projects{}", pointer_step(path)));
        }
    }

    /// Policy, rules and approvals beside the servers.
    fn words(&mut self, object: &ast::Object<'_>, pointer: &str) {
        let mut fields = Definition::new();
        for property in &object.properties {
            let key = property.name.as_str();
            if settings::KEYS.contains(&key) {
                // What is nested too deep is malformed, and a malformed list never counts as an absent one.
                let value = self.convert(&property.value, pointer, 2).unwrap_or(Value::Bool(false));
                fields.insert(key.to_owned(), value);
            }
        }
        let (said, found) = settings::read(&fields);
        self.said = said;
        for mut diagnostic in found {
            let key =
                diagnostic.pointer.as_deref().and_then(|place| place.split('/').nth(1)).unwrap_or_default();
            let place = object.properties.iter().rev().find(|property| property.name.as_str() == key);
            let offset = place.map_or(object.range.start, |property| property.range.start);
            let place = diagnostic.pointer.take().map(|place| format!("{pointer}{place}"));
            self.tell(diagnostic, offset, place);
        }
    }

    fn server_file(&mut self, object: &ast::Object<'_>) {
        self.words(object, "");
        self.repeated_tables(object);
        let table = |key: &str| object.properties.iter().rev().find(|property| property.name.as_str() == key);
        // The editor's spelling first: among equal names the later one wins.
        let tables: Vec<_> =
            ["servers", "mcpServers"].into_iter().filter_map(|key| Some((key, table(key)?))).collect();
        for (key, property) in &tables {
            self.servers(&property.value, &pointer_step(key));
        }
        match tables.len() {
            0 => self.hint_at_bare_servers(object),
            1 => {}
            _ => self.drop_twins(),
        }
    }

    fn repeated_tables(&mut self, object: &ast::Object<'_>) {
        for key in ["servers", "mcpServers"] {
            let places: Vec<usize> = object
                .properties
                .iter()
                .filter(|property| property.name.as_str() == key)
                .map(|property| property.range.start)
                .collect();
            for place in places.iter().skip(1) {
                self.duplicate(key, *place, pointer_step(key));
            }
        }
    }

    fn hint_at_bare_servers(&mut self, object: &ast::Object<'_>) {
        let looks_like_server = |value: &ast::Value<'_>| {
            value.as_object().is_some_and(|entry| {
                entry.properties.iter().any(|property| matches!(property.name.as_str(), "command" | "url"))
            })
        };
        if let Some(property) = object.properties.iter().find(|property| looks_like_server(&property.value)) {
            let message = "No \"mcpServers\" here, yet entries that look like servers; wrap them in {\"mcpServers\": {…}}";
            self.tell(Diagnostic::warning("NO_SERVERS", message), property.range.start, Some(String::new()));
        }
    }

    fn servers(&mut self, value: &ast::Value<'_>, pointer: &str) {
        let ast::Value::Object(object) = value else {
            let message = format!("Expected an object of servers, found {}", kind_of(value));
            self.tell(
                Diagnostic::error("CONFIG_INVALID", message),
                value_start(value),
                Some(pointer.to_owned()),
            );
            return;
        };
        let mut last: HashMap<&str, usize> = HashMap::new();
        for (at, property) in object.properties.iter().enumerate() {
            let name = property.name.as_str();
            if last.insert(name, at).is_some() {
                self.duplicate(name, property.range.start, format!("{pointer}{}", pointer_step(name)));
            }
        }
        for (at, property) in object.properties.iter().enumerate() {
            if last.get(property.name.as_str()) == Some(&at) {
                self.entry(property, pointer);
            }
        }
    }

    fn entry(&mut self, property: &ast::ObjectProp<'_>, pointer: &str) {
        let name = property.name.as_str();
        let from_file = !matches!(self.layer.shape, LayerShape::Servers | LayerShape::Builtin);
        let (line, column) = self.positions.at(property.range.start);
        let origin = Arc::new(Origin {
            name: Arc::from(name),
            scope: self.layer.scope,
            voice: self.layer.voice,
            builtin: self.layer.shape == LayerShape::Builtin,
            overriding: self.layer.overriding,
            file: self.layer.file.clone(),
            line: from_file.then_some(line),
            column: from_file.then_some(column),
            pointer: format!("{pointer}{}", pointer_step(name)),
            order: self.order,
        });
        let place = origin.pointer.clone();
        if name.len() > MAX_NAME_BYTES {
            self.refuse(&origin, format!("The name is longer than {MAX_NAME_BYTES} bytes"));
            return;
        }
        match self.convert(&property.value, &place, 3) {
            Ok(Value::Object(definition)) => {
                self.stage.kept.push(Draft { origin, definition: Arc::new(definition) });
            }
            Ok(_) => {
                let message = format!("Expected an object, found {}", kind_of(&property.value));
                self.refuse(&origin, message);
            }
            Err(problem) => self.refuse(&origin, problem),
        }
    }

    /// One name in both tables of a file: the later table counts.
    fn drop_twins(&mut self) {
        let mut last: HashMap<Arc<str>, usize> = HashMap::new();
        for (at, draft) in self.stage.kept.iter().enumerate() {
            last.insert(Arc::clone(&draft.origin.name), at);
        }
        let (kept, twins): (Vec<_>, Vec<_>) = std::mem::take(&mut self.stage.kept)
            .into_iter()
            .enumerate()
            .partition(|(at, draft)| last.get(&draft.origin.name) == Some(at));
        self.stage.kept = kept.into_iter().map(|(_, draft)| draft).collect();
        for (_, twin) in twins {
            let message = "The name stands under \"servers\" and \"mcpServers\"; the latter counts";
            self.stage.diagnostics.push(twin.origin.place(Diagnostic::warning("DUPLICATE_KEY", message), ""));
        }
    }

    fn refuse(&mut self, origin: &Origin, message: String) {
        let diagnostic = origin.place(Diagnostic::error("CONFIG_INVALID", message.clone()), "");
        self.stage.diagnostics.push(diagnostic);
        self.stage.dropped.push(ReportEntry::new(origin, &Definition::new(), Fate::Invalid).because(message));
    }

    fn duplicate(&mut self, key: &str, offset: usize, pointer: String) {
        self.duplicates += 1;
        if self.duplicates <= MAX_DUPLICATES_TOLD {
            let message = format!("The key {} stands more than once; the last one counts", quoted(key));
            self.tell(Diagnostic::warning("DUPLICATE_KEY", message), offset, Some(pointer));
        }
    }

    fn convert(&mut self, value: &ast::Value<'_>, entry: &str, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("Nested deeper than {MAX_DEPTH} levels"));
        }
        Ok(match value {
            ast::Value::StringLit(text) => Value::String(text.value.clone().into_owned()),
            ast::Value::NumberLit(number) => Value::Number(
                number.value.parse::<Number>().map_err(|_| "A number that JSON does not know".to_owned())?,
            ),
            ast::Value::BooleanLit(boolean) => Value::Bool(boolean.value),
            ast::Value::NullKeyword(_) => Value::Null,
            ast::Value::Array(array) => {
                let items = array.elements.iter().map(|element| self.convert(element, entry, depth + 1));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            ast::Value::Object(object) => {
                let mut fields = Definition::new();
                for property in &object.properties {
                    let key = property.name.as_str();
                    let value = self.convert(&property.value, entry, depth + 1)?;
                    if fields.insert(key.to_owned(), value).is_some() {
                        self.duplicate(key, property.range.start, entry.to_owned());
                    }
                }
                Value::Object(fields)
            }
        })
    }
}

/// A value as plain JSON; of equal keys the last counts.
///
/// # Errors
/// What is nested too deep, or a number that JSON does not know.
pub(crate) fn plain_value(value: &ast::Value<'_>, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err(format!("Nested deeper than {MAX_DEPTH} levels"));
    }
    Ok(match value {
        ast::Value::StringLit(text) => Value::String(text.value.clone().into_owned()),
        ast::Value::NumberLit(number) => Value::Number(
            number.value.parse::<Number>().map_err(|_| "A number that JSON does not know".to_owned())?,
        ),
        ast::Value::BooleanLit(boolean) => Value::Bool(boolean.value),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(array) => {
            array.elements.iter().map(|item| plain_value(item, depth + 1)).collect::<Result<_, _>>()?
        }
        ast::Value::Object(object) => {
            let mut fields = Definition::new();
            for property in &object.properties {
                fields.insert(property.name.as_str().to_owned(), plain_value(&property.value, depth + 1)?);
            }
            Value::Object(fields)
        }
    })
}

/// A name for a message: quoted, escaped and cut.
fn quoted(name: &str) -> String {
    let head: String = name.chars().take(100).collect();
    if head.len() < name.len() { format!("{head:?}…") } else { format!("{head:?}") }
}

fn kind_of(value: &ast::Value<'_>) -> &'static str {
    match value {
        ast::Value::StringLit(_) => "a string",
        ast::Value::NumberLit(_) => "a number",
        ast::Value::BooleanLit(_) => "a boolean",
        ast::Value::Object(_) => "an object",
        ast::Value::Array(_) => "an array",
        ast::Value::NullKeyword(_) => "null",
    }
}

fn value_start(value: &ast::Value<'_>) -> usize {
    match value {
        ast::Value::StringLit(node) => node.range.start,
        ast::Value::NumberLit(node) => node.range.start,
        ast::Value::BooleanLit(node) => node.range.start,
        ast::Value::Object(node) => node.range.start,
        ast::Value::Array(node) => node.range.start,
        ast::Value::NullKeyword(node) => node.range.start,
    }
}
