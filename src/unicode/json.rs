//! Cleaning of JSON as text: string tokens are rewritten, every other byte stays.
//!
//! Owns: walking the text and what becomes of members whose keys collide once cleaned. Does not own: reading
//! a string token, whether the text is valid JSON (it has been read before) and which text holds binary
//! payloads.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use memchr::{memchr, memchr_iter};
use serde_json::Value;

use super::string_token::{Token, content, decode, read_token};
use super::{Mode, Unstable, clean};

/// Deepest nesting that is rewritten; what is read from a server is not deeper (SEC-04).
const DEEPEST: usize = 128;

/// Most removed members whose keys are named.
const MOST_NAMED: usize = 100;

/// JSON text that changed under cleaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanedJson {
    /// The new text.
    pub text: String,
    /// How many strings (keys and values) changed, those of removed members included.
    pub changed: usize,
    /// How many characters were removed from strings (I5).
    pub characters: usize,
    /// How many members were removed since another member of their object has the cleaned key.
    pub removed: usize,
    /// The cleaned keys of the first 100 members removed.
    pub collisions: Vec<String>,
}

/// Cleans every key and string of a JSON text, at any depth; `None` if nothing changes (SEC-01, SEC-02).
///
/// `raw` must be valid JSON. Numbers, whitespace and untouched strings stay byte for byte, and members keep
/// their order. Lone surrogate escapes become U+FFFD. Of members whose keys become equal the one that was
/// clean stays, else the first. Linear; ASCII without escapes in question costs two scans at memory speed.
/// Fails as [`clean`] does, and where a text that needs a closer look is nested deeper than 128.
pub fn clean_json(raw: &str, mode: Mode) -> Result<Option<CleanedJson>, Unstable> {
    if is_untouched(raw, mode) {
        return Ok(None);
    }
    let mut rewrite = Rewrite::new(raw, mode);
    rewrite.walk()?;
    Ok(rewrite.finish())
}

/// Whether there is anything but ASCII, or an escape `\u`. A block is looked at without branches, which compilers turn
/// into many bytes at a time; between blocks the look may end.
fn has_suspects(bytes: &[u8]) -> bool {
    const BLOCK: usize = 4096;
    let next = bytes.get(1..).unwrap_or_default();
    let is_suspect = |(block, next): (&[u8], &[u8])| {
        // Whether some byte is above ASCII, and the least distance of a pair from the escape.
        let (mut all, mut nearest) = (0, u8::MAX);
        for (&byte, &next) in block.iter().zip(next) {
            all |= byte;
            nearest = nearest.min((byte ^ b'\\') | (next ^ b'u'));
        }
        !u8::is_ascii(&all) || nearest == 0
    };
    bytes.last().is_some_and(|last| !last.is_ascii())
        || bytes.chunks(BLOCK).zip(next.chunks(BLOCK)).any(is_suspect)
}

/// Whether one look at the whole text shows that no string can change.
fn is_untouched(raw: &str, mode: Mode) -> bool {
    let bytes = raw.as_bytes();
    match mode {
        Mode::Invisible => !has_suspects(bytes),
        Mode::Strict => {
            raw.is_ascii()
                && memchr(0x7F, bytes).is_none()
                && memchr_iter(b'\\', bytes)
                    .all(|at| !matches!(bytes.get(at + 1), Some(b'u' | b'b' | b'f' | b'r')))
        }
    }
}

/// An array or an object whose end has not been reached.
enum Open {
    Array,
    Object(Members),
}

/// What is known about an open object. All places are places in the new text.
#[derive(Default)]
struct Members {
    /// From the key's first quote to the end of the value.
    spans: Vec<(usize, usize)>,
    /// Start of the member that is being read.
    current: Option<usize>,
    /// Indices, ascending, of the members whose keys changed.
    renamed: Vec<usize>,
}

struct Rewrite<'a> {
    raw: &'a str,
    mode: Mode,
    /// Place in `raw`.
    at: usize,
    /// The new text of `raw[..copied]`.
    text: String,
    copied: usize,
    /// Where, in the new text, the last token ended that is no comma.
    token_end: usize,
    open: Vec<Open>,
    /// Pieces of the new text that must go, side by side or within one another.
    removals: Vec<(usize, usize)>,
    changed: usize,
    characters: usize,
    removed: usize,
    collisions: Vec<String>,
}

impl<'a> Rewrite<'a> {
    fn new(raw: &'a str, mode: Mode) -> Self {
        Self {
            raw,
            mode,
            at: 0,
            text: String::new(),
            copied: 0,
            token_end: 0,
            open: Vec::new(),
            removals: Vec::new(),
            changed: 0,
            characters: 0,
            removed: 0,
            collisions: Vec::new(),
        }
    }

    fn walk(&mut self) -> Result<(), Unstable> {
        while let Some(&byte) = self.raw.as_bytes().get(self.at) {
            match byte {
                b'"' => self.string()?,
                b'{' => self.enter(Open::Object(Members::default()))?,
                b'[' => self.enter(Open::Array)?,
                b'}' | b']' => self.leave(),
                b',' => {
                    self.end_member();
                    self.at += 1;
                }
                b':' | b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                _ => {
                    self.at += 1;
                    self.token_end = self.place(self.at);
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, open: Open) -> Result<(), Unstable> {
        if self.open.len() == DEEPEST {
            return Err(Unstable);
        }
        self.open.push(open);
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.end_member();
        if let Some(Open::Object(members)) = self.open.pop()
            && !members.renamed.is_empty()
        {
            self.copy_until(self.at);
            self.settle(&members);
        }
        self.at += 1;
        self.token_end = self.place(self.at);
    }

    fn end_member(&mut self) {
        if let Some(Open::Object(members)) = self.open.last_mut()
            && let Some(start) = members.current.take()
        {
            members.spans.push((start, self.token_end));
        }
    }

    fn string(&mut self) -> Result<(), Unstable> {
        let token = read_token(self.raw, self.at, self.mode);
        let start = self.place(token.start);
        let cleaned = self.cleaned(token)?;
        let is_changed = cleaned.is_some();
        if let Some(string) = cleaned {
            self.changed += 1;
            self.copy_until(token.start);
            self.text.push_str(&Value::String(string).to_string());
            self.copied = token.end;
        }
        self.at = token.end;
        self.token_end = self.place(token.end);
        if let Some(Open::Object(members)) = self.open.last_mut()
            && members.current.is_none()
        {
            members.current = Some(start);
            members.renamed.extend(is_changed.then_some(members.spans.len()));
        }
        Ok(())
    }

    /// The place in the new text of a place in `raw` that has not been copied yet.
    fn place(&self, at: usize) -> usize {
        self.text.len() + at.saturating_sub(self.copied)
    }

    fn copy_until(&mut self, end: usize) {
        self.text.push_str(self.raw.get(self.copied..end).unwrap_or_default());
        self.copied = end;
    }

    /// The new value of a string, if it changes.
    fn cleaned(&mut self, token: Token) -> Result<Option<String>, Unstable> {
        if !token.suspect {
            return Ok(None);
        }
        let (decoded, repaired) = decode(content(self.raw, token));
        let cleaned = clean(&decoded, self.mode)?;
        if matches!(cleaned, Cow::Borrowed(_)) {
            return Ok(repaired.then(|| cleaned.into_owned()));
        }
        self.characters += super::removed(&decoded, &cleaned, self.mode);
        Ok(Some(cleaned.into_owned()))
    }

    /// Removes members of a finished object whose keys have become those of others (B-074).
    fn settle(&mut self, members: &Members) {
        let losers = losing_members(&self.text, members);
        let leading = losers.iter().enumerate().take_while(|&(place, (loser, _))| place == *loser).count();
        for (place, (loser, key)) in losers.into_iter().enumerate() {
            // A removed member takes a comma with it: its own where nothing is left before it.
            let (start, end) = members.spans[loser];
            self.removals.push(match members.spans.get(loser + 1) {
                Some(next) if place < leading => (start, next.0),
                _ => (members.spans[loser.saturating_sub(1)].1, end),
            });
            self.removed += 1;
            if self.collisions.len() < MOST_NAMED {
                self.collisions.push(key);
            }
        }
    }

    fn finish(mut self) -> Option<CleanedJson> {
        if self.changed == 0 {
            return None;
        }
        self.copy_until(self.raw.len());
        let text = without(self.text, self.removals);
        let Self { changed, characters, removed, collisions, .. } = self;
        Some(CleanedJson { text, changed, characters, removed, collisions })
    }
}

/// The text without these pieces, which lie beside or within one another.
fn without(text: String, mut removals: Vec<(usize, usize)>) -> String {
    if removals.is_empty() {
        return text;
    }
    // Of two with one start the outer comes first.
    removals.sort_unstable_by_key(|&(start, end)| (start, Reverse(end)));
    let mut rest = String::with_capacity(text.len());
    let mut copied = 0;
    for (start, end) in removals {
        if start >= copied {
            rest.push_str(text.get(copied..start).unwrap_or_default());
            copied = end;
        }
    }
    rest.push_str(text.get(copied..).unwrap_or_default());
    rest
}

/// Indices, ascending, and cleaned keys of the members that must go.
fn losing_members(text: &str, members: &Members) -> Vec<(usize, String)> {
    let key = |index: usize| {
        let start = members.spans.get(index).map_or(text.len(), |span| span.0);
        decode(content(text, read_token(text, start, Mode::Invisible))).0
    };
    let mut losers = Vec::new();
    let mut firsts: HashMap<Cow<str>, usize> = HashMap::new();
    for &index in &members.renamed {
        match firsts.entry(key(index)) {
            Entry::Vacant(place) => _ = place.insert(index),
            Entry::Occupied(place) => losers.push((index, place.key().to_string())),
        }
    }
    let mut renamed = members.renamed.iter().peekable();
    for index in 0..members.spans.len() {
        // A clean key beats the first renamed one; the later renamed ones are out already.
        if renamed.next_if_eq(&&index).is_none()
            && let Some((key, first)) = firsts.remove_entry(&key(index))
        {
            losers.push((first, key.into_owned()));
        }
    }
    losers.sort_unstable();
    losers
}
