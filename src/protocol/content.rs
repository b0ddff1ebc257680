//! Content blocks of results: from what servers send to the public `ContentBlock` (CAL-03, SEC-02, B-079).
//!
//! Lenient in, strict out: whatever arrives, each block leaves in a shape of the contract and nothing is lost; what
//! fits none leaves as `{type: 'unknown', raw}`. Saving a blob is the caller's closure, so that this stays pure.

use std::borrow::Cow;
use std::cell::Cell;

use super::definition::{Body, shown};
use super::media;
use super::oddities::Oddities;
use super::repeats::Repeats;
use super::sanitize::Sanitize;
use crate::error::{ErrorCode, Result};
use crate::json_scan::{self, Facts, Kind};

/// Text blocks longer than this many bytes cross to JavaScript apart from the JSON (BEY-14).
pub const LARGE_TEXT_BYTES: usize = 64 * 1024;

/// Default of `maxImageBytes`: the tightest of the large model APIs (K3).
pub const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;

/// A binary part of a result that is to become a file.
#[derive(Clone, Copy, Debug)]
pub struct Blob<'a> {
    /// URI the server gave it.
    pub uri: Option<&'a str>,
    /// Its media type.
    pub mime_type: Option<&'a str>,
    /// Its bytes in base64.
    pub base64: &'a str,
}

/// A blob that became a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedBlob {
    /// Absolute path.
    pub path: String,
    /// Number of bytes.
    pub bytes: u64,
}

/// How content is mapped.
#[derive(Clone, Copy)]
pub struct ContentRules<'a> {
    /// Name of the server, for warnings.
    pub server: &'a str,
    /// What the result belongs to (a tool, prompt or URI), for warnings.
    pub subject: &'a str,
    /// How text is cleaned.
    pub sanitize: Sanitize,
    /// Longest text literal in bytes that stays within the JSON.
    pub large_text_bytes: usize,
    /// Longest base64 of an image that stays; a longer one becomes a file. 0 means no limit.
    pub max_image: usize,
    /// Saves a blob as a file.
    pub save: &'a dyn Fn(&Blob<'_>) -> Result<SavedBlob>,
}

impl ContentRules<'_> {
    /// Whether an image, a literal of base64, is more than a model interface takes.
    fn is_too_large(&self, literal: &str) -> bool {
        self.max_image > 0 && literal.len().saturating_sub(2) > self.max_image
    }
}

#[derive(Clone, Copy)]
struct Block<'a> {
    raw: &'a str,
    kind: Option<&'a str>,
    text: Option<&'a str>,
    data: Option<&'a str>,
    mime_type: Option<&'a str>,
    uri: Option<&'a str>,
    name: Option<&'a str>,
    resource: Option<&'a str>,
    annotations: Option<&'a str>,
    icons: Option<&'a str>,
}

impl<'a> Block<'a> {
    fn read(raw: &'a str) -> Self {
        let names = ["type", "text", "data", "mimeType", "uri", "name", "resource", "annotations", "icons"];
        let [kind, text, data, mime_type, uri, name, resource, annotations, icons] =
            json_scan::pick(raw, names);
        Self { raw, kind, text, data, mime_type, uri, name, resource, annotations, icons }
    }

    fn kind(&self) -> Cow<'a, str> {
        self.kind.and_then(json_scan::decode).unwrap_or_default()
    }

    /// Whether the block is an image as model interfaces take it, as far as can be told.
    fn is_shown_image(&self, rules: &ContentRules<'_>) -> bool {
        let (Some(data), Some(mime_type)) = (self.data, self.mime_type.and_then(json_scan::decode)) else {
            return false;
        };
        let fits = |data: &str| {
            media::format_of(data)
                .is_none_or(|found| media::is_shown(found) && media::is_same(found, &mime_type))
        };
        !rules.is_too_large(data)
            && is_plain_base64(data)
            && media::is_shown(&mime_type)
            && fits(data.trim_matches('"'))
    }

    fn is_plain_link(&self) -> bool {
        let names = ["title", "description", "size"];
        let [title, description, size] = json_scan::pick(self.raw, names);
        let texts = [title, description, self.mime_type];
        is_string(self.uri)
            && is_string(self.name)
            && texts.iter().all(|value| value.is_none() || is_string(*value))
            && size.is_none_or(|value| json_scan::kind(value) == Kind::Number)
            && self.icons.is_none()
    }

    /// Whether the block already has its public shape and needs no cleaning.
    fn is_plain(&self, rules: &ContentRules<'_>, facts: Facts) -> Result<bool> {
        let shape = match &*self.kind() {
            "text" => is_string(self.text),
            "image" => self.is_shown_image(rules),
            "audio" => is_string(self.mime_type) && self.data.is_some_and(is_plain_base64),
            "resource_link" => self.is_plain_link(),
            _ => false,
        };
        let annotated = self.annotations.is_none_or(|value| json_scan::kind(value) == Kind::Object);
        Ok(shape && annotated && is_clean(self.raw, rules, facts)?)
    }
}

/// Whether a literal is base64 that every reader takes, and some.
fn is_plain_base64(literal: &str) -> bool {
    let text = literal.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    text.is_some_and(|text| !text.is_empty() && media::is_well_formed(text))
}

fn is_string(value: Option<&str>) -> bool {
    value.is_some_and(|value| json_scan::kind(value) == Kind::String)
}

/// Whether cleaning leaves every member but the binary ones as it is.
fn is_clean(block: &str, rules: &ContentRules<'_>, facts: Facts) -> Result<bool> {
    if rules.sanitize.changes_nothing(facts) {
        return Ok(true);
    }
    for member in json_scan::members(block).filter(|member| !is_binary(member)) {
        for part in [member.literal, member.value] {
            if matches!(rules.sanitize.json(part, facts, &Cell::default())?, Cow::Owned(_)) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn is_binary(member: &json_scan::Member<'_>) -> bool {
    member.is("data") || member.is("blob")
}

/// Whether every element of a `content` array may cross as it is: then the text literals that are too long to
/// stay within the JSON, with the number of their block; else `None`.
pub(crate) fn long_texts_if_plain<'a>(
    content: &'a str,
    rules: &ContentRules<'_>,
    facts: Facts,
) -> Result<Option<Vec<(usize, &'a str)>>> {
    if json_scan::kind(content) != Kind::Array {
        return Ok(None);
    }
    let mut long = Vec::new();
    for (number, element) in json_scan::elements(content).enumerate() {
        if json_scan::kind(element) != Kind::Object {
            return Ok(None);
        }
        let block = Block::read(element);
        if !block.is_plain(rules, facts)? {
            return Ok(None);
        }
        long.extend(block.text.filter(|text| text.len() > rules.large_text_bytes).map(|text| (number, text)));
    }
    Ok(Some(long))
}

/// Writes mapped blocks one behind the other.
pub(crate) struct BlockWriter<'a> {
    rules: &'a ContentRules<'a>,
    facts: Facts,
    /// Blocks written, joined by commas.
    pub(crate) json: String,
    /// Number of blocks written.
    pub(crate) count: usize,
    /// Texts taken out of the JSON, with the number of their block.
    pub(crate) large_texts: Vec<(usize, String)>,
    pub(crate) oddities: Oddities,
    /// Characters removed by cleaning.
    pub(crate) removed: Cell<usize>,
    /// What the result says twice.
    repeats: &'a Repeats<'a>,
    /// Blobs that became files, by their literal.
    saved: Vec<(&'a str, SavedBlob)>,
}

impl<'a> BlockWriter<'a> {
    pub(crate) fn new(rules: &'a ContentRules<'a>, facts: Facts, repeats: &'a Repeats<'a>) -> Self {
        Self {
            repeats,
            saved: Vec::new(),
            removed: Cell::default(),
            rules,
            facts,
            json: String::new(),
            count: 0,
            large_texts: Vec::new(),
            oddities: Oddities::new(rules.server, rules.subject),
        }
    }

    pub(crate) fn odd(&mut self, reason: &str) {
        self.oddities.add("RESULT_ODD", reason);
    }

    /// Maps a whole `content`, whatever it is.
    pub(crate) fn write_content(&mut self, content: &'a str) -> Result<()> {
        match json_scan::kind(content) {
            Kind::Array => json_scan::elements(content).try_for_each(|element| self.write(element)),
            Kind::Null => {
                self.odd("content is null");
                Ok(())
            }
            _ => {
                self.odd("content is not an array");
                self.write_any(content)
            }
        }
    }

    /// Maps one element.
    pub(crate) fn write(&mut self, element: &'a str) -> Result<()> {
        if json_scan::kind(element) != Kind::Object {
            self.odd("a block is not an object");
        }
        self.write_any(element)
    }

    fn write_any(&mut self, element: &'a str) -> Result<()> {
        match json_scan::kind(element) {
            Kind::Object => self.write_block(Block::read(element)),
            Kind::String => self.write_text(element, None),
            _ => {
                let mut body = Body::default();
                body.raw("value", &self.rules.sanitize.json(element, self.facts, &self.removed)?);
                self.push_unknown(&format!("{{{}}}", body.0));
                Ok(())
            }
        }
    }

    fn write_block(&mut self, block: Block<'a>) -> Result<()> {
        match (&*block.kind(), block.text) {
            ("text", Some(text)) if is_string(block.text) => self.write_text(text, block.annotations),
            ("image", _) if is_string(block.data) => self.write_image(&Binary::of(&block)),
            ("audio", _) if is_string(block.data) => self.write_audio(&Binary::of(&block)),
            ("resource_link", _) if is_string(block.uri) => self.write_link(block),
            ("resource", _) if block.resource.is_some() => self.write_resource(block),
            ("", Some(text)) if is_string(block.text) => {
                self.odd("a text block names no type");
                self.write_text(text, block.annotations)
            }
            (kind, _) => {
                let reason = format!("a block of type '{}' is of no known shape", shown(kind));
                self.write_unknown(block.raw, &reason)
            }
        }
    }

    /// Writes a text block from a string literal; a long text goes apart.
    pub(crate) fn write_text(&mut self, literal: &str, annotations: Option<&str>) -> Result<()> {
        let mut body = typed("text");
        let literal = &*self.repeats.cut_from(literal);
        if literal.len() > self.rules.large_text_bytes {
            let text =
                self.rules.sanitize.text(json_scan::decode(literal).unwrap_or_default(), &self.removed)?;
            self.large_texts.push((self.count, text));
            body.text("text", "");
        } else {
            body.raw("text", &self.rules.sanitize.json(literal, self.facts, &self.removed)?);
        }
        self.finish(body, annotations)
    }

    /// Writes an image that model interfaces show; another one becomes a file, and one that is none is named (K8).
    fn write_image(&mut self, image: &Binary<'a>) -> Result<()> {
        let Some(base64) = self.base64_of(image)? else { return Ok(()) };
        let found = media::format_of(base64.trim_matches('"'));
        let said = image.mime_type.as_deref();
        let mime_type = match (found, said) {
            (Some(found), Some(said)) if media::is_shown(found) && media::is_same(found, said) => found,
            (Some(found), Some(said)) if media::is_shown(found) => {
                self.odd(&format!("an image said to be {} is {found}", shown(said)));
                found
            }
            (Some(found), None) if media::is_shown(found) => {
                self.odd("an image names no mimeType");
                found
            }
            (None, Some(said)) if media::is_shown(said) => said,
            (Some(found), Some(said)) if media::is_shown(said) => {
                self.odd(&format!("an image said to be {} is {found}", shown(said)));
                return self.write_file(image, Some(found));
            }
            (_, Some(said)) => return self.write_file(image, Some(said)),
            (Some(found), None) => return self.write_file(image, Some(found)),
            (None, None) => {
                return self.write_unknown(image.block, "a block of binary data names no mimeType");
            }
        };
        if self.rules.is_too_large(&base64) {
            let (bytes, most) = (base64.len().saturating_sub(2), self.rules.max_image);
            let reason = format!("an image of {bytes} bytes in base64 is a file, as it has more than {most}");
            self.oddities.add("IMAGE_TOO_LARGE", &reason);
            return self.write_file(image, Some(mime_type));
        }
        self.write_media("image", &base64, mime_type, image)
    }

    fn write_audio(&mut self, sound: &Binary<'a>) -> Result<()> {
        let Some(base64) = self.base64_of(sound)? else { return Ok(()) };
        match &sound.mime_type {
            Some(mime_type) => self.write_media("audio", &base64, mime_type, sound),
            None => self.write_unknown(sound.block, "a block of binary data names no mimeType"),
        }
    }

    /// The literal of a part's base64, as every reader takes it. `None` where the part is written already: it is empty
    /// or no base64.
    fn base64_of(&mut self, part: &Binary<'a>) -> Result<Option<Cow<'a, str>>> {
        let text = json_scan::decode(part.literal).unwrap_or_default();
        let bytes = if media::is_well_formed(&text) { None } else { media::decode(&text) };
        let broken = bytes.is_none() && !media::is_well_formed(&text);
        if text.is_empty() || bytes.as_ref().is_some_and(Vec::is_empty) {
            self.odd(&format!("its {} is empty", part.kind));
            let of_type = part.mime_type.as_deref().map(|said| format!(" of type {}", shown(said)));
            self.write_note(&format!("[empty {}{}]", part.kind, of_type.unwrap_or_default()))?;
            return Ok(None);
        }
        if broken {
            self.write_unknown(part.block, "a block of binary data is not valid base64")?;
            return Ok(None);
        }
        Ok(Some(match bytes {
            Some(bytes) => Cow::Owned(json_scan::quote(&media::encode(&bytes))),
            // The escaped slashes of some writers are gone with decoding.
            None if text.len() + 2 == part.literal.len() => Cow::Borrowed(part.literal),
            None => Cow::Owned(json_scan::quote(&text)),
        }))
    }

    /// Writes a text of ours in place of something that cannot be shown.
    fn write_note(&mut self, note: &str) -> Result<()> {
        self.write_text(&json_scan::quote(note), None)
    }

    fn write_media(&mut self, kind: &str, base64: &str, mime_type: &str, part: &Binary<'a>) -> Result<()> {
        let mut body = typed(kind);
        body.raw("data", base64);
        body.text("mimeType", &self.rules.sanitize.text(Cow::Borrowed(mime_type), &self.removed)?);
        self.finish(body, part.annotations)
    }

    fn write_link(&mut self, block: Block<'_>) -> Result<()> {
        let mut body = typed("resource_link");
        let uri = block.uri.unwrap_or_default();
        body.raw("uri", &self.rules.sanitize.json(uri, self.facts, &self.removed)?);
        if !is_string(block.name) {
            self.odd("a resource link has no name");
        }
        let name = block.name.filter(|_| is_string(block.name)).unwrap_or(uri);
        body.raw("name", &self.rules.sanitize.json(name, self.facts, &self.removed)?);
        let [title, description, size] = json_scan::pick(block.raw, ["title", "description", "size"]);
        for (name, value, kind) in [
            ("title", title, Kind::String),
            ("description", description, Kind::String),
            ("mimeType", block.mime_type, Kind::String),
            ("size", size, Kind::Number),
        ] {
            match value.map(|value| (value, json_scan::kind(value))) {
                Some((value, is)) if is == kind => {
                    body.raw(name, &self.rules.sanitize.json(value, self.facts, &self.removed)?);
                }
                None | Some((_, Kind::Null)) => {}
                Some(_) => {
                    self.odd(&format!("the {name} of a resource link is left out: it has the wrong type"));
                }
            }
        }
        self.finish(body, block.annotations)
    }

    fn write_resource(&mut self, block: Block<'a>) -> Result<()> {
        let resource = Block::read(block.resource.unwrap_or_default());
        let [blob] = json_scan::pick(resource.raw, ["blob"]);
        if let Some(text) = resource.text.filter(|_| is_string(resource.text)) {
            return self.write_text(text, block.annotations.or(resource.annotations));
        }
        let Some(blob) = blob.filter(|_| is_string(blob)) else {
            return self.write_unknown(block.raw, "an embedded resource has neither text nor blob");
        };
        let part = Binary {
            block: block.raw,
            kind: "image",
            literal: blob,
            mime_type: resource.mime_type.and_then(json_scan::decode),
            uri: resource.uri.and_then(json_scan::decode),
            annotations: block.annotations.or(resource.annotations),
        };
        if part.mime_type.as_deref().is_some_and(media::is_shown) {
            return self.write_image(&part);
        }
        self.write_file(&part, part.mime_type.as_deref())
    }

    /// Saves a part, once however often the result holds it.
    fn write_file(&mut self, part: &Binary<'a>, mime_type: Option<&str>) -> Result<()> {
        let known = self.saved.iter().find(|(literal, _)| *literal == part.literal);
        let outcome = if let Some((_, saved)) = known {
            Ok(saved.clone())
        } else {
            let base64 = json_scan::decode(part.literal).unwrap_or_default();
            (self.rules.save)(&Blob { uri: part.uri.as_deref(), mime_type, base64: &base64 })
        };
        match outcome {
            Ok(saved) => {
                let mut body = typed("file");
                body.text("path", &saved.path);
                if let Some(mime_type) = mime_type {
                    body.text(
                        "mimeType",
                        &self.rules.sanitize.text(Cow::Borrowed(mime_type), &self.removed)?,
                    );
                }
                if let Some(uri) = &part.uri {
                    body.text("uri", &self.rules.sanitize.text(Cow::Borrowed(uri), &self.removed)?);
                }
                body.raw("bytes", &saved.bytes.to_string());
                self.saved.push((part.literal, saved));
                self.finish(body, None)
            }
            Err(error) if error.code() == ErrorCode::ResultInvalid => {
                self.write_unknown(part.block, error.message())
            }
            Err(error) => {
                self.oddities.add("OUTPUT_NOT_SAVED", error.message());
                self.push_unknown_cleaned(part.block)
            }
        }
    }

    fn write_unknown(&mut self, raw: &str, reason: &str) -> Result<()> {
        self.odd(reason);
        self.push_unknown_cleaned(raw)
    }

    fn push_unknown_cleaned(&mut self, raw: &str) -> Result<()> {
        let cleaned = self.rules.sanitize.json(raw, self.facts, &self.removed)?;
        self.push_unknown(&cleaned);
        Ok(())
    }

    fn push_unknown(&mut self, raw: &str) {
        let mut body = typed("unknown");
        body.raw("raw", raw);
        self.push(&body);
    }

    fn finish(&mut self, mut body: Body, annotations: Option<&str>) -> Result<()> {
        if let Some(annotations) = annotations.filter(|value| json_scan::kind(value) == Kind::Object) {
            body.raw("annotations", &self.rules.sanitize.json(annotations, self.facts, &self.removed)?);
        }
        self.push(&body);
        Ok(())
    }

    fn push(&mut self, body: &Body) {
        if self.count > 0 {
            self.json.push(',');
        }
        self.json.push('{');
        self.json.push_str(&body.0);
        self.json.push('}');
        self.count += 1;
    }
}

fn typed(kind: &str) -> Body {
    let mut body = Body::default();
    body.text("type", kind);
    body
}

/// A binary part of a result and what is said about it.
struct Binary<'a> {
    /// The whole block.
    block: &'a str,
    kind: &'static str,
    /// Literal of the base64.
    literal: &'a str,
    mime_type: Option<Cow<'a, str>>,
    uri: Option<Cow<'a, str>>,
    annotations: Option<&'a str>,
}

impl<'a> Binary<'a> {
    /// An image or a sound.
    fn of(block: &Block<'a>) -> Self {
        Self {
            block: block.raw,
            kind: if block.kind() == "audio" { "audio" } else { "image" },
            literal: block.data.unwrap_or_default(),
            mime_type: block.mime_type.and_then(json_scan::decode),
            uri: None,
            annotations: block.annotations,
        }
    }
}
