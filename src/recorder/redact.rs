//! Takes secrets out of a recorded message (SEC-03). The text is walked, not rebuilt: numbers stay as they were sent.

use std::borrow::Cow;

use crate::json_scan::{self, Kind, decode, kind, quote_into};
use crate::secret::{REDACTED, Redactor, SHORTEST_IN_TEXT, SafeUrl, names_secret};

/// Values that are remembered because their names named secrets; what servers make of them is hidden too.
const MOST_LEARNED: usize = 256;
/// Longest value that is remembered, in bytes.
const LONGEST_LEARNED: usize = 4_096;
/// Deepest value that is walked; what lies deeper is searched as text.
const DEEPEST: usize = 200;

/// Secrets that arguments of calls brought along.
#[derive(Default)]
pub(super) struct Learned {
    values: Vec<String>,
    redactor: Redactor,
}

impl Learned {
    fn learn(&mut self, value: &str) {
        let known = || self.values.iter().any(|one| one == value);
        let fits = (SHORTEST_IN_TEXT..=LONGEST_LEARNED).contains(&value.len());
        if fits && self.values.len() < MOST_LEARNED && !known() {
            self.values.push(value.to_owned());
            self.redactor = Redactor::new(self.values.iter().map(String::as_str));
        }
    }
}

/// The message without secrets: those that `known` finds, what is secret in URLs, and, in messages of `ours`, the values
/// of arguments whose names name a secret.
pub(super) fn message(text: &str, ours: bool, known: &Redactor, learned: &mut Learned) -> String {
    let mut walk = Walk { known, learned, out: String::with_capacity(text.len()) };
    walk.value(text.trim(), Names { ours, ..Names::default() }, 0);
    walk.out
}

#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about a place in a message")]
struct Names {
    /// Whether the message is ours.
    ours: bool,
    /// Whether names of members count here.
    count: bool,
    /// Whether the members here are ids, given by the server.
    ids: bool,
    /// Whether the member `value` is what the member `name` names.
    pair: bool,
    /// Whether a name above said that everything here is secret.
    secret: bool,
}

impl Names {
    /// Below these members of our messages stands what people and models wrote.
    fn below(self, key: &str) -> Self {
        let count = self.count || (self.ours && matches!(key, "arguments" | "inputResponses" | "content"));
        let secret = self.secret || (self.count && !self.ids && is_secret(key));
        Self { count, ids: key == "inputResponses", pair: self.ours && key == "argument", secret, ..self }
    }

    /// Whether an object is a pair whose name says that its value is a secret.
    fn is_secret_pair(self, object: &str) -> bool {
        self.pair
            && json_scan::members(object).any(|member| {
                member.key() == "name" && decode(member.value).is_some_and(|name| is_secret(&name))
            })
    }
}

/// A bare `key` is the key of some table more often than one of a door.
fn is_secret(name: &str) -> bool {
    !name.eq_ignore_ascii_case("key") && names_secret(name)
}

struct Walk<'a> {
    known: &'a Redactor,
    learned: &'a mut Learned,
    out: String,
}

impl Walk<'_> {
    fn value(&mut self, text: &str, names: Names, depth: usize) {
        match kind(text) {
            Kind::Object | Kind::Array if depth > DEEPEST => {
                let text = self.known.redact_json(text);
                let text = self.learned.redactor.redact_json(&text).into_owned();
                self.out.push_str(&text);
            }
            Kind::Object => self.object(text, names, depth),
            Kind::Array => {
                self.out.push('[');
                for (place, element) in json_scan::elements(text).enumerate() {
                    self.separate(place);
                    self.value(element, names, depth + 1);
                }
                self.out.push(']');
            }
            Kind::String => self.string(text),
            Kind::Number | Kind::Bool | Kind::Null => self.out.push_str(text),
        }
    }

    fn object(&mut self, text: &str, names: Names, depth: usize) {
        let pair = names.is_secret_pair(text);
        self.out.push('{');
        for (place, member) in json_scan::members(text).enumerate() {
            self.separate(place);
            self.string(member.literal);
            self.out.push(':');
            let key = member.key();
            let mut below = names.below(&key);
            below.secret |= pair && key == "value";
            match kind(member.value) {
                Kind::String | Kind::Number | Kind::Array if below.secret => {
                    self.learn(member.value);
                    quote_into(&mut self.out, REDACTED);
                }
                _ => self.value(member.value, below, depth + 1),
            }
        }
        self.out.push('}');
    }

    fn separate(&mut self, place: usize) {
        if place > 0 {
            self.out.push(',');
        }
    }

    fn learn(&mut self, hidden: &str) {
        match kind(hidden) {
            Kind::Array => json_scan::elements(hidden).for_each(|one| self.learn(one)),
            Kind::String => self.learned.learn(&decode(hidden).unwrap_or_default()),
            Kind::Number => self.learned.learn(hidden),
            Kind::Object => json_scan::members(hidden).for_each(|member| self.learn(member.value)),
            Kind::Bool | Kind::Null => {}
        }
    }

    fn string(&mut self, literal: &str) {
        let Some(text) = decode(literal) else { return self.out.push_str(literal) };
        let clean = self.known.redact(&text);
        let clean = self.learned.redactor.redact(&clean);
        let clean = without_url_secrets(&clean);
        if *clean == *text {
            self.out.push_str(literal);
        } else {
            quote_into(&mut self.out, &clean);
        }
    }
}

/// The text with what is secret in its URLs hidden.
fn without_url_secrets(text: &str) -> Cow<'_, str> {
    let mut result = String::new();
    let mut done = 0;
    while let Some(found) = text[done..].find("://") {
        let middle = done + found;
        let scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let start = done + text[done..middle].trim_end_matches(scheme).len();
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`' | '\\');
        let end = text[middle..].find(ends).map_or(text.len(), |length| middle + length);
        result.push_str(&text[done..start]);
        result.push_str(&SafeUrl::new(&text[start..end]).to_string());
        done = end;
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    result.push_str(&text[done..]);
    Cow::Owned(result)
}
