//! Content blocks of results: from what servers send to the public `ContentBlock` (CAL-03, SEC-02, B-079).
//!
//! Lenient in, strict out: whatever arrives, each block leaves in a shape of the contract and nothing is lost; what
//! fits none leaves as `{type: 'unknown', raw}`. Saving a blob is the caller's closure, so that this stays pure.

use std::borrow::Cow;

use super::definition::{Body, shown};
use super::oddities::Oddities;
use super::sanitize::Sanitize;
use crate::error::{ErrorCode, Result};
use crate::json_scan::{self, Facts, Kind};

/// Text blocks longer than this many bytes cross to JavaScript apart from the JSON (BEY-14).
pub const LARGE_TEXT_BYTES: usize = 64 * 1024;

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
    /// Saves a blob as a file.
    pub save: &'a dyn Fn(&Blob<'_>) -> Result<SavedBlob>,
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

    /// Whether the block already has its public shape and needs no cleaning.
    fn is_plain(&self, rules: &ContentRules<'_>, facts: Facts) -> Result<bool> {
        let shape = match &*self.kind() {
            "text" => is_string(self.text),
            "image" | "audio" => is_string(self.data) && is_string(self.mime_type),
            "resource_link" => is_string(self.uri) && is_string(self.name) && self.icons.is_none(),
            _ => false,
        };
        let annotated = self.annotations.is_none_or(|value| json_scan::kind(value) == Kind::Object);
        Ok(shape && annotated && is_clean(self.raw, rules, facts)?)
    }
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
            if matches!(rules.sanitize.json(part, facts)?, Cow::Owned(_)) {
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
}

impl<'a> BlockWriter<'a> {
    pub(crate) fn new(rules: &'a ContentRules<'a>, facts: Facts) -> Self {
        Self {
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
    pub(crate) fn write_content(&mut self, content: &str) -> Result<()> {
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
    pub(crate) fn write(&mut self, element: &str) -> Result<()> {
        if json_scan::kind(element) != Kind::Object {
            self.odd("a block is not an object");
        }
        self.write_any(element)
    }

    fn write_any(&mut self, element: &str) -> Result<()> {
        match json_scan::kind(element) {
            Kind::Object => self.write_block(Block::read(element)),
            Kind::String => self.write_text(element, None),
            _ => {
                let mut body = Body::default();
                body.raw("value", &self.rules.sanitize.json(element, self.facts)?);
                self.push_unknown(&format!("{{{}}}", body.0));
                Ok(())
            }
        }
    }

    fn write_block(&mut self, block: Block<'_>) -> Result<()> {
        match (&*block.kind(), block.text) {
            ("text", Some(text)) if is_string(block.text) => self.write_text(text, block.annotations),
            ("image" | "audio", _) if is_string(block.data) => self.write_media(block),
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
        if literal.len() > self.rules.large_text_bytes {
            let text = self.rules.sanitize.text(json_scan::decode(literal).unwrap_or_default())?;
            self.large_texts.push((self.count, text));
            body.text("text", "");
        } else {
            body.raw("text", &self.rules.sanitize.json(literal, self.facts)?);
        }
        self.finish(body, annotations)
    }

    fn write_media(&mut self, block: Block<'_>) -> Result<()> {
        let data = block.data.unwrap_or_default();
        let known = block.mime_type.filter(|_| is_string(block.mime_type));
        let Some(mime_type) = known.map(Cow::Borrowed).or_else(|| sniffed(data)) else {
            return self.write_unknown(block.raw, "a block of binary data names no mimeType");
        };
        if known.is_none() {
            self.odd("an image names no mimeType");
        }
        let mut body = typed(&block.kind());
        body.raw("data", data);
        body.raw("mimeType", &self.rules.sanitize.json(&mime_type, self.facts)?);
        self.finish(body, block.annotations)
    }

    fn write_link(&mut self, block: Block<'_>) -> Result<()> {
        let mut body = typed("resource_link");
        let uri = block.uri.unwrap_or_default();
        body.raw("uri", &self.rules.sanitize.json(uri, self.facts)?);
        if !is_string(block.name) {
            self.odd("a resource link has no name");
        }
        let name = block.name.filter(|_| is_string(block.name)).unwrap_or(uri);
        body.raw("name", &self.rules.sanitize.json(name, self.facts)?);
        let [title, description, size] = json_scan::pick(block.raw, ["title", "description", "size"]);
        for (name, value, kind) in [
            ("title", title, Kind::String),
            ("description", description, Kind::String),
            ("mimeType", block.mime_type, Kind::String),
            ("size", size, Kind::Number),
        ] {
            if let Some(value) = value.filter(|value| json_scan::kind(value) == kind) {
                body.raw(name, &self.rules.sanitize.json(value, self.facts)?);
            }
        }
        self.finish(body, block.annotations)
    }

    fn write_resource(&mut self, block: Block<'_>) -> Result<()> {
        let resource = Block::read(block.resource.unwrap_or_default());
        let [blob] = json_scan::pick(resource.raw, ["blob"]);
        if let Some(text) = resource.text.filter(|_| is_string(resource.text)) {
            return self.write_text(text, block.annotations.or(resource.annotations));
        }
        let Some(blob) = blob.filter(|_| is_string(blob)) else {
            return self.write_unknown(block.raw, "an embedded resource has neither text nor blob");
        };
        let mime_type = resource.mime_type.and_then(json_scan::decode).map(Cow::into_owned);
        if mime_type.as_deref().is_some_and(is_shown_as_image) {
            let mut body = typed("image");
            body.raw("data", blob);
            body.text("mimeType", mime_type.as_deref().unwrap_or_default());
            return self.finish(body, block.annotations.or(resource.annotations));
        }
        self.write_file(block, resource, blob, mime_type.as_deref())
    }

    fn write_file(
        &mut self,
        block: Block<'_>,
        resource: Block<'_>,
        blob: &str,
        mime_type: Option<&str>,
    ) -> Result<()> {
        let uri = resource.uri.and_then(json_scan::decode);
        let base64 = json_scan::decode(blob).unwrap_or_default();
        match (self.rules.save)(&Blob { uri: uri.as_deref(), mime_type, base64: &base64 }) {
            Ok(saved) => {
                let mut body = typed("file");
                body.text("path", &saved.path);
                if let Some(mime_type) = mime_type {
                    body.text("mimeType", &self.rules.sanitize.text(Cow::Borrowed(mime_type))?);
                }
                if let Some(uri) = uri {
                    body.text("uri", &self.rules.sanitize.text(uri)?);
                }
                body.raw("bytes", &saved.bytes.to_string());
                self.finish(body, None)
            }
            Err(error) if error.code() == ErrorCode::ResultInvalid => {
                self.write_unknown(block.raw, error.message())
            }
            Err(error) => {
                self.oddities.add("OUTPUT_NOT_SAVED", error.message());
                self.push_unknown_cleaned(block.raw)
            }
        }
    }

    fn write_unknown(&mut self, raw: &str, reason: &str) -> Result<()> {
        self.odd(reason);
        self.push_unknown_cleaned(raw)
    }

    fn push_unknown_cleaned(&mut self, raw: &str) -> Result<()> {
        let cleaned = self.rules.sanitize.json(raw, self.facts)?;
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
            body.raw("annotations", &self.rules.sanitize.json(annotations, self.facts)?);
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

/// Images that model interfaces show; others become files.
fn is_shown_as_image(mime_type: &str) -> bool {
    let name = mime_type.split(';').next().unwrap_or_default().trim();
    ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// Media type literal of a base64 literal whose first bytes are those of a known image format.
fn sniffed(data: &str) -> Option<Cow<'static, str>> {
    let starts = [
        ("\"iVBORw0KGgo", "\"image/png\""),
        ("\"/9j/", "\"image/jpeg\""),
        ("\"R0lGOD", "\"image/gif\""),
        ("\"UklGR", "\"image/webp\""),
    ];
    starts.iter().find(|(start, _)| data.starts_with(start)).map(|(_, name)| Cow::Borrowed(*name))
}
