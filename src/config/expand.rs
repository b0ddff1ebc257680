//! Stage `expand`: variables in command, arguments, environment values, directory, URL and header values. (CFG-05)
//!
//! The grammar, all of it:
//! - `${NAME}` is the variable's value; `NAME` is a letter or `_`, then letters, digits, `_`.
//! - `${NAME:-default}` is the value if the variable is set (to the empty string counts), else the default.
//!   The default reaches to the `}` that balances; braces in it must balance. References in a default are
//!   expanded in the same pass, as they come from the file and not from the environment.
//! - `$${` is a literal `${`.
//! - Anything else stays as it is: `$NAME`, `%NAME%`, `${env:NAME}`, `${NAME%x}`, an open `${`.
//!
//! Values from the environment are never looked into. One pass, linear in the length of the text.

use std::collections::HashSet;

use serde_json::Value;

use crate::config::approve::Approved;
use crate::config::draft::{Definition, Draft, Staged, pointer_step};
use crate::config::report::Fate;
use crate::diagnostic::Diagnostic;

/// Deepest nesting of defaults; what lies deeper stays as it is.
const MAX_NESTING: usize = 32;

/// Most findings about one entry.
const MAX_TOLD: usize = 64;

/// Outcome of expanding one text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The text with every known variable replaced.
    pub value: String,
    /// Variables that are neither set nor have a default, each once, in order.
    pub missing: Vec<String>,
    /// `${…}` forms that the grammar does not know, each once, in order.
    pub unknown: Vec<String>,
}

/// Expands one text by the grammar of this module.
pub fn expand_env(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Expanded {
    let mut expansion = Expansion {
        text,
        closes: matching_braces(text),
        lookup,
        noted: HashSet::new(),
        out: Expanded::default(),
    };
    expansion.range(0, text.len(), 0);
    expansion.out
}

/// For every byte: where the `${` that begins there is closed. Zero means nowhere.
fn matching_braces(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    if memchr::memchr(b'$', bytes).is_none() {
        return Vec::new();
    }
    let mut closes = vec![0; bytes.len()];
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.starts_with(b"$${") {
            at += 3;
            continue;
        }
        if rest.starts_with(b"${") {
            open.push(Some(at));
            at += 2;
            continue;
        }
        match bytes[at] {
            b'{' if !open.is_empty() => open.push(None),
            b'}' => {
                if let Some(Some(start)) = open.pop() {
                    closes[start] = at;
                }
            }
            _ => {}
        }
        at += 1;
    }
    closes
}

struct Expansion<'a> {
    text: &'a str,
    closes: Vec<usize>,
    lookup: &'a dyn Fn(&str) -> Option<String>,
    /// Names and forms that were told; neither can be taken for the other.
    noted: HashSet<&'a str>,
    out: Expanded,
}

impl Expansion<'_> {
    fn range(&mut self, start: usize, end: usize, depth: usize) {
        let bytes = self.text.as_bytes();
        let mut at = start;
        let mut copied = start;
        while let Some(found) = memchr::memchr(b'$', &bytes[at..end]) {
            let dollar = at + found;
            let rest = &bytes[dollar..end];
            if rest.starts_with(b"$${") {
                self.copy(copied, dollar);
                self.out.value.push_str("${");
                at = dollar + 3;
                copied = at;
            } else if rest.starts_with(b"${") && self.closes[dollar] != 0 {
                let close = self.closes[dollar];
                self.copy(copied, dollar);
                self.reference(dollar, close, depth);
                at = close + 1;
                copied = at;
            } else {
                at = dollar + 1;
            }
        }
        self.copy(copied, end);
    }

    fn copy(&mut self, start: usize, end: usize) {
        self.out.value.push_str(self.text.get(start..end).unwrap_or_default());
    }

    fn reference(&mut self, open: usize, close: usize, depth: usize) {
        let text = self.text;
        let inner = text.get(open + 2..close).unwrap_or_default();
        let length = name_length(inner);
        let (name, tail) = inner.split_at(length);
        let has_default = tail.starts_with(":-");
        if length == 0 || !(tail.is_empty() || has_default) || depth >= MAX_NESTING {
            let form = text.get(open..=close).unwrap_or_default();
            if self.noted.insert(form) {
                self.out.unknown.push(form.to_owned());
            }
            self.copy(open, close + 1);
        } else if let Some(value) = (self.lookup)(name) {
            self.out.value.push_str(&value);
        } else if has_default {
            self.range(open + 2 + length + 2, close, depth + 1);
        } else {
            if self.noted.insert(name) {
                self.out.missing.push(name.to_owned());
            }
            self.copy(open, close + 1);
        }
    }
}

fn name_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    if !bytes.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_') {
        return 0;
    }
    bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count()
}

/// An entry with its variables replaced, next to what was written.
#[derive(Clone, Debug)]
pub struct ExpandedDraft {
    /// The entry as written.
    pub draft: Draft,
    /// The definition with values.
    pub definition: Definition,
}

/// Expands approved entries; an entry whose URL or header misses a variable ends here as `invalid`.
pub fn expand(entries: Vec<Approved>, lookup: &dyn Fn(&str) -> Option<String>) -> Staged<ExpandedDraft> {
    let mut stage = Staged::default();
    for Approved(draft) in entries {
        let mut fields = Fields { draft: &draft, lookup, found: Vec::new(), fatal: None };
        let definition = fields.definition();
        let fatal = fields.fatal.take();
        stage.diagnostics.append(&mut fields.found);
        match fatal {
            Some(reason) => stage.dropped.push(draft.dropped(Fate::Invalid, reason)),
            None => stage.kept.push(ExpandedDraft { draft, definition }),
        }
    }
    stage
}

struct Fields<'a> {
    draft: &'a Draft,
    lookup: &'a dyn Fn(&str) -> Option<String>,
    found: Vec<Diagnostic>,
    fatal: Option<String>,
}

impl Fields<'_> {
    fn definition(&mut self) -> Definition {
        let mut definition = Definition::clone(&self.draft.definition);
        for key in ["command", "cwd", "url"] {
            if let Some(value) = definition.get_mut(key) {
                self.expand(value, &pointer_step(key), key == "url");
            }
        }
        if let Some(Value::Array(items)) = definition.get_mut("args") {
            for (at, item) in items.iter_mut().enumerate() {
                self.expand(item, &format!("/args/{at}"), false);
            }
        }
        for key in ["env", "headers"] {
            if let Some(Value::Object(map)) = definition.get_mut(key) {
                for (name, value) in map.iter_mut() {
                    self.expand(value, &format!("/{key}{}", pointer_step(name)), key == "headers");
                }
            }
        }
        definition
    }

    fn expand(&mut self, value: &mut Value, field: &str, sent: bool) {
        let Value::String(text) = value else { return };
        if !text.contains('$') {
            return;
        }
        let expanded = expand_env(text, self.lookup);
        for variable in &expanded.missing {
            self.missing(variable, field, sent);
        }
        for form in &expanded.unknown {
            let message = format!("{} is not a form that is expanded; it stays as it is", shown_form(form));
            self.tell(Diagnostic::info("EXPANSION_UNKNOWN", message), field);
        }
        *text = expanded.value;
    }

    fn missing(&mut self, variable: &str, field: &str, sent: bool) {
        let server = &self.draft.origin.name;
        let message = format!(
            "The variable {variable} in {field} of server \"{server}\" is not set and has no default; \
             set it or write ${{{variable}:-default}}"
        );
        let diagnostic = if sent {
            self.fatal.get_or_insert_with(|| format!("The variable {variable} in {field} is not set"));
            Diagnostic::error("VARIABLE_MISSING", message)
        } else {
            Diagnostic::warning("VARIABLE_MISSING", message)
        };
        self.tell(diagnostic, field);
    }

    fn tell(&mut self, diagnostic: Diagnostic, field: &str) {
        if self.found.len() < MAX_TOLD {
            self.found.push(self.draft.origin.place(diagnostic, field));
        }
    }
}

/// The beginning of an unknown form: enough to find it, too little to hold a secret.
fn shown_form(form: &str) -> String {
    let inner = form.trim_start_matches("${");
    let head: String = inner.chars().take_while(|c| c.is_alphanumeric() || *c == '_').take(24).collect();
    format!("${{{head}…}}")
}
