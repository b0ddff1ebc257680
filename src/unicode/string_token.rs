//! String tokens of JSON text: where one ends, whether it may need cleaning, what it stands for.
//!
//! Owns: escapes and the repair of lone surrogates. Does not own: which token is a key.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::Mode;

/// A string token: where it lies, quotes included, and whether cleaning may change it.
#[derive(Clone, Copy)]
pub(super) struct Token {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) suspect: bool,
}

/// The string token that begins at `start`; one without end reaches to the end of the text.
pub(super) fn read_token(raw: &str, start: usize, mode: Mode) -> Token {
    let bytes = raw.as_bytes();
    let mut at = start + 1;
    let mut suspect = false;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        match memchr2(b'"', b'\\', rest) {
            None => return Token { start, end: raw.len(), suspect: false },
            Some(found) if rest[found] == b'"' => {
                let text = &bytes[start + 1..at + found];
                suspect = suspect || !text.is_ascii() || has_delete(text, mode);
                return Token { start, end: at + found + 1, suspect };
            }
            Some(found) => {
                suspect = suspect || is_suspect_escape(&rest[found + 1..], mode);
                at += found + 2;
            }
        }
    }
}

fn has_delete(text: &[u8], mode: Mode) -> bool {
    mode == Mode::Strict && memchr(0x7F, text).is_some()
}

/// Whether the escape, given without its backslash, may stand for something that is removed.
fn is_suspect_escape(escape: &[u8], mode: Mode) -> bool {
    match (mode, escape) {
        // ASCII, and so kept.
        (Mode::Invisible, [b'u', b'0', b'0', b'0'..=b'7', ..]) => false,
        (Mode::Strict, [b'b' | b'f' | b'r', ..]) | (_, [b'u', ..]) => true,
        _ => false,
    }
}

/// The text between the quotes.
pub(super) fn content(raw: &str, token: Token) -> &str {
    raw.get(token.start + 1..token.end.saturating_sub(1)).unwrap_or_default()
}

/// What a string stands for, and whether a lone surrogate had to be replaced (C6).
pub(super) fn decode(content: &str) -> (Cow<'_, str>, bool) {
    if memchr(b'\\', content.as_bytes()).is_none() {
        return (Cow::Borrowed(content), false);
    }
    let mut text = String::with_capacity(content.len());
    let mut repaired = false;
    let mut rest = content;
    while let Some(found) = memchr(b'\\', rest.as_bytes()) {
        text.push_str(&rest[..found]);
        rest = &rest[found + 1..];
        let Some(kind) = rest.chars().next() else { break };
        rest = &rest[kind.len_utf8()..];
        if kind == 'u' {
            let (character, length) = unicode_escape(rest);
            repaired |= character.is_none();
            text.push(character.unwrap_or(char::REPLACEMENT_CHARACTER));
            rest = rest.get(length..).unwrap_or_default();
        } else {
            text.push(simple_escape(kind));
        }
    }
    text.push_str(rest);
    (Cow::Owned(text), repaired)
}

fn simple_escape(kind: char) -> char {
    match kind {
        'b' => '\u{8}',
        'f' => '\u{C}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        other => other,
    }
}

/// The character whose escape begins with these digits, and the length of what was read; `None` for a lone
/// surrogate.
fn unicode_escape(digits: &str) -> (Option<char>, usize) {
    let Some(unit) = code_unit(digits) else { return (None, 0) };
    let low = digits.get(4..).and_then(|rest| rest.strip_prefix("\\u")).and_then(code_unit);
    if let (0xD800..=0xDBFF, Some(low @ 0xDC00..=0xDFFF)) = (unit, low) {
        return (char::from_u32(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)), 10);
    }
    (char::from_u32(unit), 4)
}

fn code_unit(digits: &str) -> Option<u32> {
    let digits = digits.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}
