//! Looking into JSON text without building a tree.
//!
//! Owns: facts about a text (ASCII, escapes, depth), a shallow walk over members and elements, decoding and
//! quoting of string literals. Expects text that somebody has already validated (`RawValue`); on anything else
//! it ends early and never panics. Values, numbers included, stay the text they were (B-112).

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// Deepest nesting of arrays and objects that is accepted from a server (SEC-04).
pub const MAX_DEPTH: usize = 128;

/// What one scan over a JSON text tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one scan")]
pub struct Facts {
    /// Every byte is ASCII.
    pub ascii: bool,
    /// Some string holds a `\uXXXX` escape.
    pub unicode_escapes: bool,
    /// Some string holds a carriage return.
    pub carriage_returns: bool,
    /// Some string holds a backspace, a form feed or a delete character.
    pub controls: bool,
    /// Deepest nesting; 0 for a scalar.
    pub depth: usize,
}

impl Facts {
    /// Whether no cleaning can change the text: neither removal of invisible characters nor, when `strict`,
    /// removal of controls and NFKC.
    pub fn surely_clean(&self, strict: bool) -> bool {
        let removable = self.unicode_escapes || self.controls || (strict && self.carriage_returns);
        self.ascii && !removable
    }
}

/// Scans a JSON text once.
pub fn scan(text: &str) -> Facts {
    let bytes = text.as_bytes();
    let mut facts =
        Facts { ascii: text.is_ascii(), controls: memchr(0x7f, bytes).is_some(), ..Facts::default() };
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at = scan_string(bytes, at, &mut facts),
            b'{' | b'[' => {
                depth += 1;
                facts.depth = facts.depth.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    facts
}

/// Scans from behind the opening quote; returns the place behind the closing one.
fn scan_string(bytes: &[u8], mut at: usize, facts: &mut Facts) -> usize {
    while let Some(found) = memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        let place = at + found;
        if bytes[place] == b'"' {
            return place + 1;
        }
        match bytes.get(place + 1) {
            Some(b'u') => facts.unicode_escapes = true,
            Some(b'r') => facts.carriage_returns = true,
            Some(b'b' | b'f') => facts.controls = true,
            _ => {}
        }
        at = place + 2;
    }
    bytes.len()
}

/// Kind of a JSON value, told from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An object.
    Object,
    /// An array.
    Array,
    /// A string.
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`, or nothing at all.
    Null,
}

/// Kind of the value whose text begins here; leading white space is skipped.
pub fn kind(text: &str) -> Kind {
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'-' | b'0'..=b'9') => Kind::Number,
        _ => Kind::Null,
    }
}

/// One member of an object, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The key with its quotes and escapes.
    pub literal: &'a str,
    /// The value.
    pub value: &'a str,
}

impl<'a> Member<'a> {
    /// The key, decoded; a lone surrogate becomes U+FFFD.
    pub fn key(&self) -> Cow<'a, str> {
        decode(self.literal).unwrap_or_default()
    }

    /// Whether the key is exactly this one (B-091).
    pub fn is(&self, name: &str) -> bool {
        let inner = self.literal.get(1..self.literal.len().saturating_sub(1)).unwrap_or_default();
        inner == name || (memchr(b'\\', inner.as_bytes()).is_some() && self.key() == name)
    }
}

/// Members of an object in their order; none where the text is no object.
pub fn members(text: &str) -> impl Iterator<Item = Member<'_>> {
    let mut cursor = Cursor::inside(text, b'{');
    std::iter::from_fn(move || {
        let literal = cursor.next_value().filter(|key| key.starts_with('"'))?;
        cursor.skip_over(b':');
        Some(Member { literal, value: cursor.next_value()? })
    })
}

/// Elements of an array in their order; none where the text is no array.
pub fn elements(text: &str) -> impl Iterator<Item = &str> {
    let mut cursor = Cursor::inside(text, b'[');
    std::iter::from_fn(move || cursor.next_value())
}

/// Values of the named members, in the order of the names; of a repeated key the last counts, as in `JSON.parse`.
pub fn pick<'a, const N: usize>(text: &'a str, names: [&str; N]) -> [Option<&'a str>; N] {
    let mut found = [None; N];
    for member in members(text) {
        let key = member.key();
        if let Some(place) = names.iter().position(|name| *name == key) {
            found[place] = Some(member.value);
        }
    }
    found
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Stands behind the opening bracket, or at the end where the text opens otherwise.
    fn inside(text: &'a str, open: u8) -> Self {
        let start = text.len() - text.trim_ascii_start().len();
        let opens = text.as_bytes().get(start) == Some(&open);
        Self { text, at: if opens { start + 1 } else { text.len() } }
    }

    fn skip_over(&mut self, mark: u8) {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            if byte != mark && !byte.is_ascii_whitespace() {
                break;
            }
            self.at += 1;
        }
    }

    /// The next value behind commas and white space; `None` at a closing bracket or the end.
    fn next_value(&mut self) -> Option<&'a str> {
        self.skip_over(b',');
        let start = self.at;
        self.at = value_end(self.text.as_bytes(), start);
        self.text.get(start..self.at).filter(|value| !value.is_empty())
    }
}

fn value_end(bytes: &[u8], start: usize) -> usize {
    match bytes.get(start) {
        Some(b'"') => string_end(bytes, start + 1),
        Some(b'{' | b'[') => bracket_end(bytes, start),
        _ => {
            let rest = bytes.get(start..).unwrap_or_default();
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':' | b' ' | b'\n' | b'\r' | b'\t');
            start + rest.iter().position(ends).unwrap_or(rest.len())
        }
    }
}

fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        let place = at + found;
        if bytes[place] == b'"' {
            return place + 1;
        }
        at = place + 2;
    }
    bytes.len()
}

fn bracket_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at = string_end(bytes, at),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    bytes.len()
}

/// Text of a string literal; borrowed where it holds no escape, lone surrogates become U+FFFD.
/// `None` where the value is no string.
pub fn decode(literal: &str) -> Option<Cow<'_, str>> {
    decode_with(literal, Some(char::REPLACEMENT_CHARACTER))
}

/// As [`decode`], and `None` also where a lone surrogate would not survive.
pub fn decode_exact(literal: &str) -> Option<Cow<'_, str>> {
    decode_with(literal, None)
}

fn decode_with(literal: &str, lone: Option<char>) -> Option<Cow<'_, str>> {
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    let Some(mut place) = memchr(b'\\', inner.as_bytes()) else { return Some(Cow::Borrowed(inner)) };
    let mut text = String::with_capacity(inner.len());
    let mut from = 0;
    loop {
        text.push_str(inner.get(from..place)?);
        let (character, length) = decode_escape(inner.get(place..)?, lone)?;
        text.push(character);
        from = place + length;
        match memchr(b'\\', inner.get(from..)?.as_bytes()) {
            Some(found) => place = from + found,
            None => break,
        }
    }
    text.push_str(inner.get(from..)?);
    Some(Cow::Owned(text))
}

/// Character and length of the escape that begins here.
fn decode_escape(text: &str, lone: Option<char>) -> Option<(char, usize)> {
    let character = match text.as_bytes().get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => return decode_unicode_escape(text, lone),
        byte if byte.is_ascii() => char::from(*byte),
        _ => return None,
    };
    Some((character, 2))
}

fn decode_unicode_escape(text: &str, lone: Option<char>) -> Option<(char, usize)> {
    let first = code_unit(text)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 6));
    }
    let second = text.get(6..).and_then(code_unit).filter(|unit| (0xDC00..0xE000).contains(unit));
    match second {
        Some(second) if first < 0xDC00 => {
            let character = char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00))?;
            Some((character, 12))
        }
        _ => Some((lone?, 6)),
    }
}

fn code_unit(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

/// Appends a text as a JSON string literal.
pub fn quote_into(out: &mut String, text: &str) {
    out.push('"');
    let mut from = 0;
    for (place, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[from..place]);
        if escape.is_empty() {
            out.push_str("\\u00");
            out.extend(
                [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
            );
        } else {
            out.push_str(escape);
        }
        from = place + 1;
    }
    out.push_str(&text[from..]);
    out.push('"');
}

/// A text as a JSON string literal.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote_into(&mut out, text);
    out
}

#[cfg(test)]
mod tests;
