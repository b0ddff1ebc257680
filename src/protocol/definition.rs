//! What the definitions of tools, prompts and resources have in common: cleaning (SEC-01), limits, and the rule
//! that a broken one is left out with a warning while the others stay (TOL-02).

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use crate::diagnostic::Diagnostic;
use crate::json_scan::{self, Facts, Kind, MAX_DEPTH};
use crate::unicode::{self, Mode, clean_str_lossy};

/// Longest title or name for people, in bytes.
pub const TITLE_LIMIT: usize = 256;
/// Longest description, in bytes (J12).
pub const DESCRIPTION_LIMIT: usize = 32 * 1024;
/// Longest name or URI that goes over the wire, in bytes; longer ones are no names.
pub const WIRE_NAME_LIMIT: usize = 8 * 1024;
/// What stands at the end of a text that was cut.
pub const CUT_MARKER: &str = "… [cut]";

/// The first bytes of a text, up to a character boundary.
fn head(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

/// Cuts a text at a character boundary and says so.
pub fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(head(&text, limit).len());
        text.push_str(CUT_MARKER);
    }
    text
}

/// A remote text as it may stand in a message: cleaned, one line, short.
pub fn shown(text: &str) -> String {
    cut(clean_str_lossy(head(text, 4 * TITLE_LIMIT)).replace(['\n', '\t'], " "), TITLE_LIMIT / 2)
}

/// Which list a definition stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Tool,
    Prompt,
    Resource,
    Template,
    Skill,
}

impl Listed {
    fn noun(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Template => "resource template",
            Self::Skill => "skill",
        }
    }

    fn code(self, fate: Fate) -> &'static str {
        match (self, fate) {
            (Self::Tool, Fate::Invalid) => "TOOL_INVALID",
            (Self::Tool, Fate::Quarantined) => "TOOL_QUARANTINED",
            (Self::Tool, Fate::Duplicate) => "TOOL_DUPLICATE",
            (Self::Prompt, Fate::Invalid) => "PROMPT_INVALID",
            (Self::Prompt, Fate::Quarantined) => "PROMPT_QUARANTINED",
            (Self::Prompt, Fate::Duplicate) => "PROMPT_DUPLICATE",
            (Self::Resource | Self::Template, Fate::Invalid) => "RESOURCE_INVALID",
            (Self::Resource | Self::Template, Fate::Quarantined) => "RESOURCE_QUARANTINED",
            (Self::Resource | Self::Template, Fate::Duplicate) => "RESOURCE_DUPLICATE",
            (Self::Skill, Fate::Invalid) => "SKILL_INVALID",
            (Self::Skill, Fate::Quarantined) => "SKILL_QUARANTINED",
            (Self::Skill, Fate::Duplicate) => "SKILL_DUPLICATE",
        }
    }
}

/// Why a definition is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Invalid,
    Quarantined,
    Duplicate,
}

/// A definition that is left out, and why.
#[derive(Debug)]
pub(super) struct Rejection {
    fate: Fate,
    reason: String,
}

impl Rejection {
    pub(super) fn invalid(reason: impl Into<String>) -> Self {
        Self { fate: Fate::Invalid, reason: reason.into() }
    }

    pub(super) fn quarantined(reason: impl Into<String>) -> Self {
        Self { fate: Fate::Quarantined, reason: reason.into() }
    }
}

/// The names of a mapped definition.
pub(super) trait Named {
    /// The name (or URI) as the server wrote it.
    fn wire_name(&self) -> &str;
    /// The name as it is shown.
    fn clean_name(&self) -> &str;
}

/// One definition on its way from wire to public shape.
pub(super) struct Draft<'a> {
    pub(super) server: &'a str,
    pub(super) raw: &'a str,
    facts: Facts,
    notes: Vec<(&'static str, String)>,
    /// Characters removed by cleaning.
    removed: Cell<usize>,
}

impl<'a> Draft<'a> {
    fn open(server: &'a str, raw: &'a str) -> Result<Self, Rejection> {
        let facts = json_scan::scan(raw);
        if json_scan::kind(raw) != Kind::Object {
            return Err(Rejection::invalid("it is not an object"));
        }
        if facts.depth > MAX_DEPTH {
            return Err(Rejection::invalid(format!("it is nested deeper than {MAX_DEPTH}")));
        }
        Ok(Self { server, raw, facts, notes: Vec::new(), removed: Cell::default() })
    }

    /// Adds a warning about a definition that stays.
    pub(super) fn note(&mut self, code: &'static str, reason: impl Into<String>) {
        self.notes.push((code, reason.into()));
    }

    /// Wire form and clean form of a name.
    pub(super) fn name(&self, value: Option<&str>, member: &str) -> Result<(String, String), Rejection> {
        let literal = value.ok_or_else(|| Rejection::invalid(format!("it has no {member}")))?;
        if json_scan::kind(literal) != Kind::String {
            return Err(Rejection::invalid(format!("its {member} is not a string")));
        }
        let wire = json_scan::decode_exact(literal)
            .ok_or_else(|| Rejection::invalid(format!("its {member} is not valid Unicode")))?;
        if wire.len() > WIRE_NAME_LIMIT {
            return Err(Rejection::invalid(format!("its {member} is longer than {WIRE_NAME_LIMIT} bytes")));
        }
        let clean = self.clean_text(&wire)?.into_owned();
        if clean.trim().is_empty() {
            return Err(Rejection::invalid(format!("its {member} is empty")));
        }
        Ok((wire.into_owned(), clean))
    }

    /// The cleaned text of a string member; `None` where it is missing or no string.
    pub(super) fn text(&self, value: Option<&str>) -> Result<Option<String>, Rejection> {
        let Some(text) = value.and_then(json_scan::decode) else { return Ok(None) };
        Ok(Some(self.clean_text(&text)?.into_owned()))
    }

    fn clean_text<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, Rejection> {
        if self.facts.surely_clean(true) {
            return Ok(Cow::Borrowed(text));
        }
        let cleaned = unicode::clean(text, Mode::Strict).map_err(|_| unstable())?;
        if let Cow::Owned(cleaned) = &cleaned {
            self.removed.set(self.removed.get() + unicode::removed(text, cleaned, Mode::Strict));
        }
        Ok(cleaned)
    }

    /// A cleaned JSON value whose colliding keys are only worth a warning.
    pub(super) fn json<'t>(&mut self, value: &'t str) -> Result<Cow<'t, str>, Rejection> {
        let (text, collisions) = self.json_and_collisions(value)?;
        if let Some(first) = collisions.first() {
            let more = collisions.len();
            self.note(
                "KEY_COLLISION",
                format!("{more} keys became equal by cleaning, such as '{}'", shown(first)),
            );
        }
        Ok(text)
    }

    /// A cleaned JSON value and the keys that became equal.
    pub(super) fn json_and_collisions<'t>(
        &self,
        value: &'t str,
    ) -> Result<(Cow<'t, str>, Vec<String>), Rejection> {
        if self.facts.surely_clean(true) {
            return Ok((Cow::Borrowed(value), Vec::new()));
        }
        match unicode::clean_json(value, Mode::Strict).map_err(|_| unstable())? {
            Some(cleaned) => {
                self.removed.set(self.removed.get() + cleaned.characters);
                Ok((Cow::Owned(cleaned.text), cleaned.collisions))
            }
            None => Ok((Cow::Borrowed(value), Vec::new())),
        }
    }
}

fn unstable() -> Rejection {
    Rejection::quarantined("a text in it does not become stable under cleaning")
}

/// Members of an object being written, without its brackets.
#[derive(Default)]
pub(super) struct Body(pub(super) String);

impl Body {
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        json_scan::quote_into(&mut self.0, name);
        self.0.push(':');
        self.0.push_str(json);
    }

    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.raw(name, "");
        json_scan::quote_into(&mut self.0, text);
    }

    pub(super) fn flag(&mut self, name: &str, value: bool) {
        self.raw(name, if value { "true" } else { "false" });
    }

    /// Writes a text that is there, cut at a limit.
    pub(super) fn optional_text(&mut self, name: &str, text: Option<String>, limit: usize) {
        if let Some(text) = text {
            self.text(name, &cut(text, limit));
        }
    }
}

/// Maps every definition of a list; what is left out is told, and the others stay.
///
/// Of one wire name the first stays (J4). Of names that only cleaning made equal the one that was clean stays, the
/// others are quarantined (B-053).
pub(super) fn map_all<T: Named>(
    listed: Listed,
    server: &str,
    raws: &[&RawValue],
    map: impl Fn(&mut Draft<'_>) -> Result<T, Rejection>,
) -> (Vec<T>, Vec<Diagnostic>) {
    let mut mapped = Vec::with_capacity(raws.len());
    let mut found = Vec::new();
    let mut tell = |code: &'static str, name: &str, reason: &str| {
        found.push(Diagnostic::warning(code, format!("{} {name}: {reason}", listed.noun())).on(server));
    };
    let mut wire_names = HashSet::new();
    let mut removed = 0;
    for (place, raw) in raws.iter().enumerate() {
        let outcome = Draft::open(server, raw.get()).and_then(|mut draft| {
            let definition = map(&mut draft)?;
            removed += draft.removed.get();
            Ok((definition, draft.notes))
        });
        match outcome {
            Ok((definition, _)) if wire_names.contains(definition.wire_name()) => {
                let name = format!("'{}'", shown(definition.clean_name()));
                tell(listed.code(Fate::Duplicate), &name, "the list names it again; the first one is used");
            }
            Ok((definition, notes)) => {
                let name = format!("'{}'", shown(definition.clean_name()));
                for (code, reason) in &notes {
                    tell(code, &name, reason);
                }
                wire_names.insert(definition.wire_name().to_owned());
                mapped.push(definition);
            }
            Err(rejection) => {
                tell(listed.code(rejection.fate), &name_of(raw.get(), place), &rejection.reason);
            }
        }
    }
    let kept = without_look_alikes(mapped, |definition| {
        let name = format!("'{}'", shown(definition.clean_name()));
        let reason =
            format!("left out: written {}, it looks like another one", code_points(definition.wire_name()));
        tell(listed.code(Fate::Quarantined), &name, &reason);
    });
    if removed > 0 {
        let place = format!("the list of {}s", listed.noun());
        found.push(Diagnostic::hidden(&place, removed).on(server));
    }
    (kept, found)
}

/// Leaves out definitions whose clean name is shared, except one that was clean from the start.
fn without_look_alikes<T: Named>(mapped: Vec<T>, mut leave_out: impl FnMut(&T)) -> Vec<T> {
    let mut shared: HashMap<String, usize> = HashMap::new();
    for definition in &mapped {
        *shared.entry(definition.clean_name().to_owned()).or_default() += 1;
    }
    let stays = |definition: &T| {
        definition.wire_name() == definition.clean_name() || shared.get(definition.clean_name()) == Some(&1)
    };
    let (kept, left): (Vec<T>, Vec<T>) = mapped.into_iter().partition(stays);
    left.iter().for_each(&mut leave_out);
    kept
}

/// A name for a message about a definition that could not be mapped.
fn name_of(raw: &str, place: usize) -> String {
    let [name, uri, template] = json_scan::pick(raw, ["name", "uri", "uriTemplate"]);
    match name.or(uri).or(template).and_then(json_scan::decode) {
        Some(name) if !name.is_empty() => format!("'{}'", shown(&name)),
        _ => format!("number {}", place + 1),
    }
}

/// The characters of a name beyond printable ASCII, so that people can see them.
fn code_points(name: &str) -> String {
    let visible = |character: char| {
        if character.is_ascii_graphic() || character == ' ' {
            character.to_string()
        } else {
            format!("<U+{:04X}>", u32::from(character))
        }
    };
    name.chars().take(TITLE_LIMIT).map(visible).collect()
}
