//! Reading the fields of a definition by type, with a place for every complaint.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use crate::config::draft::{Definition, Origin, pointer_step};
use crate::config::duration::read_duration;
use crate::diagnostic::{Diagnostic, Level};

/// Most findings about one entry.
const MAX_TOLD: usize = 64;

/// A definition being read. A field that is `null` counts as absent.
pub(crate) struct Fields<'a> {
    definition: &'a Definition,
    origin: &'a Origin,
    prefix: &'static str,
    known: Vec<&'static str>,
    pub(crate) found: Vec<Diagnostic>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(definition: &'a Definition, origin: &'a Origin, prefix: &'static str) -> Self {
        Self { definition, origin, prefix, known: Vec::new(), found: Vec::new() }
    }

    /// The first error, if any.
    pub(crate) fn first_error(&self) -> Option<&Diagnostic> {
        self.found.iter().find(|diagnostic| diagnostic.level == Level::Error)
    }

    pub(crate) fn error(&mut self, field: &str, message: impl Into<String>) {
        self.tell(Diagnostic::error("CONFIG_INVALID", message), field);
    }

    pub(crate) fn warn(&mut self, code: &'static str, field: &str, message: impl Into<String>) {
        self.tell(Diagnostic::warning(code, message), field);
    }

    fn tell(&mut self, mut diagnostic: Diagnostic, field: &str) {
        let first_error = diagnostic.level == Level::Error && self.first_error().is_none();
        if self.found.len() < MAX_TOLD || first_error {
            let field = format!("{}{field}", self.prefix);
            let _ = write!(diagnostic.message, " ({field} of server \"{}\")", self.origin.name);
            self.found.push(self.origin.place(diagnostic, &field));
        }
    }

    /// The value of a field that is not `null`; marks the field as known.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.push(key);
        self.definition.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn wrong_type(&mut self, field: &str, expected: &str, value: &Value) {
        self.error(field, format!("Expected {expected}, found {}", kind_of(value)));
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) if text.contains('\0') => {
                self.error(&pointer_step(key), "The text holds a NUL character");
                None
            }
            Value::String(text) => Some(text.clone()),
            other => {
                self.wrong_type(&pointer_step(key), "a string", other);
                None
            }
        }
    }

    pub(crate) fn required_text(&mut self, key: &'static str) -> Option<String> {
        let before = self.found.len();
        let text = self.text(key);
        if text.as_ref().is_none_or(|text| text.trim().is_empty()) && self.found.len() == before {
            self.error(&pointer_step(key), format!("\"{key}\" is missing or empty"));
            return None;
        }
        text
    }

    pub(crate) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        match self.value(key)? {
            Value::Bool(boolean) => Some(*boolean),
            other => {
                self.wrong_type(&pointer_step(key), "true or false", other);
                None
            }
        }
    }

    pub(crate) fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        match self.value(key)? {
            Value::Array(items) => self.text_items(key, items),
            other => {
                self.wrong_type(&pointer_step(key), "an array of strings", other);
                None
            }
        }
    }

    fn text_items(&mut self, key: &str, items: &[Value]) -> Option<Vec<String>> {
        let mut texts = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            match item {
                Value::String(text) if !text.contains('\0') => texts.push(text.clone()),
                Value::String(_) => self.error(&format!("/{key}/{at}"), "The text holds a NUL character"),
                other => self.wrong_type(&format!("/{key}/{at}"), "a string", other),
            }
        }
        (texts.len() == items.len()).then_some(texts)
    }

    /// A map of texts; `refuse` says why a pair cannot be used.
    pub(crate) fn text_map(
        &mut self,
        key: &'static str,
        refuse: fn(&str, &str) -> Option<&'static str>,
    ) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        match self.value(key) {
            None => {}
            Some(Value::Object(fields)) => {
                for (name, value) in fields {
                    let field = || format!("/{key}{}", pointer_step(name));
                    match value {
                        Value::String(text) => match refuse(name, text) {
                            Some(message) => self.error(&field(), message),
                            None => {
                                texts.insert(name.clone(), text.clone());
                            }
                        },
                        other => self.wrong_type(&field(), "a string", other),
                    }
                }
            }
            Some(other) => self.wrong_type(&pointer_step(key), "an object of strings", other),
        }
        texts
    }

    pub(crate) fn object(&mut self, key: &'static str) -> Option<&'a Definition> {
        match self.value(key)? {
            Value::Object(fields) => Some(fields),
            other => {
                self.wrong_type(&pointer_step(key), "an object", other);
                None
            }
        }
    }

    pub(crate) fn duration(&mut self, key: &'static str) -> Option<Duration> {
        match read_duration(self.value(key)?) {
            Ok(read) => {
                if let Some(hint) = read.hint {
                    self.warn("TIMEOUT_UNIT", &pointer_step(key), hint);
                }
                Some(read.duration)
            }
            Err(message) => {
                self.error(&pointer_step(key), message);
                None
            }
        }
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.error(&pointer_step(key), format!("Expected one of {}", known.join(", ")));
        }
        found
    }

    /// Reports what nobody asked for.
    pub(crate) fn unknown_fields(&mut self) {
        for key in self.definition.keys() {
            if self.known.contains(&key.as_str()) {
                continue;
            }
            let shown: String = key.chars().take(80).collect();
            let hint =
                self.near_miss(key).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            self.warn(
                "UNKNOWN_FIELD",
                &pointer_step(&shown),
                format!("The field {shown:?} is not known{hint}"),
            );
        }
    }

    fn near_miss(&self, key: &str) -> Option<&'static str> {
        const ELSEWHERE: [(&str, &str); 13] = [
            ("timeout", "toolTimeoutMs"),
            ("environment", "env"),
            ("cmd", "command"),
            ("arguments", "args"),
            ("serverUrl", "url"),
            ("httpUrl", "url"),
            ("endpoint", "url"),
            ("workingDirectory", "cwd"),
            ("transport", "type"),
            ("transportType", "type"),
            ("includeTools", "tools"),
            ("excludeTools", "tools"),
            ("enabled", "disabled"),
        ];
        if key.len() > 40 {
            return None;
        }
        let foreign = ELSEWHERE.iter().find(|(name, _)| *name == key).map(|(_, ours)| *ours);
        foreign.or_else(|| {
            let scored = self.known.iter().map(|known| (strsim::damerau_levenshtein(key, known), *known));
            scored
                .min()
                .filter(|(distance, known)| *distance <= 2 && *distance < known.len())
                .map(|(_, known)| known)
        })
    }
}

/// What a JSON value is, for messages.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
