//! Tool results: from the wire result to the public `content`, `structuredContent`, `isError`, `meta` (CAL-03).
//!
//! A result that already has its public shape crosses as the wire text itself; everything else is written anew.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::blob::{self, Shelf};
use super::budget::Truncated;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError, Result};
use crate::json_scan::{self, Facts, Kind, MAX_DEPTH};
use crate::protocol::content::{
    self, Blob, BlockWriter, ContentRules, LARGE_TEXT_BYTES, MAX_IMAGE_BYTES, SavedBlob,
};
use crate::protocol::oddities::Oddities;
use crate::protocol::prompt::{MappedPrompt, map_prompt_result};
use crate::protocol::repeats::Repeats;
use crate::protocol::sanitize::Sanitize;

/// Longest result in bytes that an error about it carries.
const KEPT_WITH_ERROR: usize = 1024 * 1024;

/// How the results of one call are mapped.
#[derive(Clone, Copy)]
pub struct OutputRules<'a> {
    /// Name of the server, for warnings.
    pub server: &'a str,
    /// What was asked for (a tool, prompt or URI), for warnings.
    pub subject: &'a str,
    /// How text is cleaned (SEC-02).
    pub sanitize: Sanitize,
    /// Where files are saved.
    pub files: &'a dyn Shelf,
    /// Longest text literal in bytes that stays within the JSON; [`LARGE_TEXT_BYTES`] by default.
    pub large_text_bytes: usize,
    /// Longest base64 of an image that stays; [`MAX_IMAGE_BYTES`] by default.
    pub max_image: usize,
}

impl<'a> OutputRules<'a> {
    /// Rules with the default limit for texts.
    pub fn new(server: &'a str, subject: &'a str, sanitize: Sanitize, files: &'a dyn Shelf) -> Self {
        let (large_text_bytes, max_image) = (LARGE_TEXT_BYTES, MAX_IMAGE_BYTES);
        Self { server, subject, sanitize, files, large_text_bytes, max_image }
    }

    pub(super) fn content<'c>(
        &'c self,
        save: &'c dyn Fn(&Blob<'_>) -> Result<SavedBlob>,
    ) -> ContentRules<'c> {
        ContentRules {
            server: self.server,
            subject: self.subject,
            sanitize: self.sanitize,
            large_text_bytes: self.large_text_bytes,
            max_image: self.max_image,
            save,
        }
    }

    pub(super) fn save(&self, blob: &Blob<'_>) -> Result<SavedBlob> {
        let bytes = blob::decode_base64(blob.base64)?;
        self.files.save(blob.uri, blob.mime_type, &bytes)
    }
}

/// A mapped tool result.
#[derive(Clone, Debug)]
pub struct MappedResult {
    /// The wire result; `None` where it is `value`.
    pub raw: Option<String>,
    /// JSON text `{content, structuredContent?, isError, meta?}`; where `plain`, the wire text.
    pub value: String,
    /// `value` is the wire text, but for `large_texts`: `content` always there, `isError` perhaps not, `_meta` under its wire name.
    pub plain: bool,
    /// The tool reported a failure.
    pub is_error: bool,
    /// Long texts, cleaned, with the place of their block in `content`, where `text` is empty.
    pub large_texts: Vec<(usize, String)>,
    /// What was odd (`RESULT_ODD`, `RESULT_EMPTY`, `OUTPUT_NOT_SAVED`).
    pub warnings: Vec<Diagnostic>,
    /// What was left out because of the output limit.
    pub truncated: Option<Truncated>,
    /// Where in `raw` stands long base64 that `value` or a file holds, in order.
    spare: Vec<(usize, usize)>,
}

impl MappedResult {
    /// JSON text of `structuredContent` as the server sent it; JSON `null` is not the same as none (mcp:TOOL-12).
    pub fn structured_content(&self) -> Option<&str> {
        let [structured] = json_scan::pick(self.raw.as_deref().unwrap_or(&self.value), ["structuredContent"]);
        structured
    }

    /// The wire result, for an error about it (mcp:TOOL-11); `None` where it is too long for that.
    pub fn kept_with_error(&self) -> Option<Arc<RawValue>> {
        let wire = self.raw.as_ref().or_else(|| self.large_texts.is_empty().then_some(&self.value))?;
        let wire = Some(wire).filter(|wire| wire.len() <= KEPT_WITH_ERROR)?;
        RawValue::from_string(wire.clone()).ok().map(Arc::from)
    }

    /// Empties the strings of the wire result whose base64 is in a file or in a block: nobody gets it twice.
    #[must_use]
    pub fn without_spare(mut self) -> Self {
        if let Some(raw) = self.raw.as_mut().filter(|_| !self.spare.is_empty()) {
            let mut rest = String::new();
            let mut copied = 0;
            for (start, end) in std::mem::take(&mut self.spare) {
                rest.push_str(raw.get(copied..start).unwrap_or_default());
                copied = end;
            }
            rest.push_str(raw.get(copied..).unwrap_or_default());
            *raw = rest;
        }
        self
    }
}

struct WireResult<'a> {
    content: Option<&'a str>,
    structured: Option<&'a str>,
    is_error: Option<&'a str>,
    meta: Option<&'a str>,
    /// The only member of results older than 2024-11-05.
    tool_result: Option<&'a str>,
}

impl<'a> WireResult<'a> {
    fn read(text: &'a str) -> Self {
        let names = ["content", "structuredContent", "isError", "_meta", "toolResult"];
        let [content, structured, is_error, meta, tool_result] = json_scan::pick(text, names);
        Self { content, structured, is_error, meta, tool_result }
    }

    /// Whether the result has its public shape already: then the texts that are too long to stay in it.
    fn long_texts_if_plain(
        &self,
        rules: &ContentRules<'_>,
        facts: Facts,
    ) -> Result<Option<Vec<(usize, &'a str)>>> {
        let shape = self.content.is_some()
            && self.is_error.is_none_or(|value| json_scan::kind(value) == Kind::Bool)
            && self.meta.is_none_or(|value| json_scan::kind(value) == Kind::Object);
        if !shape {
            return Ok(None);
        }
        if let Some(structured) = self.structured
            && matches!(rules.sanitize.json(structured, facts, &Cell::default())?, Cow::Owned(_))
        {
            return Ok(None);
        }
        content::long_texts_if_plain(self.content.unwrap_or_default(), rules, facts)
    }
}

/// Maps a tool result, the JSON text of an answer.
///
/// Odd shapes are mended with a warning, never refused (K6, K7, B-079). Errors: `RESULT_INVALID` where the result is
/// no object or nested deeper than 128 (SEC-04); `SANITIZE_UNSTABLE`.
pub fn map_result(wire: String, rules: &OutputRules<'_>) -> Result<MappedResult> {
    let facts = checked(&wire, rules)?;
    let save = |blob: &Blob<'_>| rules.save(blob);
    let content_rules = rules.content(&save);
    let result = WireResult::read(&wire);
    let is_error = result.is_error == Some("true");
    let repeats = Repeats::read(&wire, result.content);
    let plain = if repeats.is_empty() { result.long_texts_if_plain(&content_rules, facts)? } else { None };
    if let Some(long) = plain {
        let warnings = empty_note(&result, rules);
        let (value, large_texts) = if long.is_empty() { (wire, Vec::new()) } else { cut_out(&wire, &long) };
        return Ok(MappedResult {
            raw: None,
            value,
            plain: true,
            is_error,
            large_texts,
            warnings,
            truncated: None,
            spare: Vec::new(),
        });
    }
    let mut writer = BlockWriter::new(&content_rules, facts, &repeats);
    write_content(&result, &mut writer)?;
    let value = write_result(&result, &mut writer, &repeats, rules.sanitize, facts)?;
    let BlockWriter { large_texts, mut oddities, removed, .. } = writer;
    oddities.hidden(removed.get());
    let warnings = oddities.finish();
    let spare = repeats.spare(&wire);
    Ok(MappedResult {
        spare,
        raw: Some(wire),
        value,
        plain: false,
        is_error,
        large_texts,
        warnings,
        truncated: None,
    })
}

/// The wire text with an empty string in place of each literal, which must be slices of it in order, and the
/// decoded texts.
fn cut_out(wire: &str, literals: &[(usize, &str)]) -> (String, Vec<(usize, String)>) {
    let mut value = String::new();
    let mut texts = Vec::with_capacity(literals.len());
    let mut done = 0;
    for (block, literal) in literals {
        let start = literal.as_ptr() as usize - wire.as_ptr() as usize;
        value.push_str(&wire[done..start]);
        value.push_str("\"\"");
        done = start + literal.len();
        texts.push((*block, json_scan::decode(literal).unwrap_or_default().into_owned()));
    }
    value.push_str(&wire[done..]);
    (value, texts)
}

/// Maps a prompt with the rules of results; see [`map_prompt_result`].
pub fn map_prompt(wire: &str, rules: &OutputRules<'_>) -> Result<MappedPrompt> {
    let save = |blob: &Blob<'_>| rules.save(blob);
    map_prompt_result(wire, &rules.content(&save))
}

/// Facts of a result that is an object and not too deep.
pub(super) fn checked(wire: &str, rules: &OutputRules<'_>) -> Result<Facts> {
    let facts = json_scan::scan(wire);
    let reason = if facts.depth > MAX_DEPTH {
        format!("the result is nested deeper than {MAX_DEPTH}")
    } else if json_scan::kind(wire) != Kind::Object {
        "the result is not an object".to_owned()
    } else {
        return Ok(facts);
    };
    Err(McpError::new(ErrorCode::ResultInvalid, reason).on(rules.server))
}

/// A success that says nothing at all is worth a note (K9).
fn empty_note(result: &WireResult<'_>, rules: &OutputRules<'_>) -> Vec<Diagnostic> {
    let nothing = result.structured.is_none()
        && result.content.is_some_and(|content| json_scan::elements(content).next().is_none());
    if !nothing {
        return Vec::new();
    }
    let mut oddities = Oddities::new(rules.server, rules.subject);
    oddities.note("RESULT_EMPTY", "it is empty");
    oddities.finish()
}

fn write_content<'a>(result: &WireResult<'a>, writer: &mut BlockWriter<'a>) -> Result<()> {
    match (result.content, result.tool_result) {
        (Some(content), _) => writer.write_content(content),
        (None, Some(old)) => {
            writer.odd("it has the shape of a version before 2024-11-05");
            match json_scan::kind(old) {
                Kind::String => writer.write_text(old, None),
                _ => writer.write_text(&json_scan::quote(old), None),
            }
        }
        (None, None) => {
            writer.odd("it has no content");
            Ok(())
        }
    }
}

fn write_result(
    result: &WireResult<'_>,
    writer: &mut BlockWriter<'_>,
    repeats: &Repeats<'_>,
    sanitize: Sanitize,
    facts: Facts,
) -> Result<String> {
    let mut out = String::with_capacity(writer.json.len() + 64);
    out.push_str(r#"{"content":["#);
    out.push_str(&writer.json);
    out.push(']');
    if let Some(structured) = result.structured {
        out.push_str(r#","structuredContent":"#);
        out.push_str(&sanitize.json(&repeats.cut_from(structured), facts, &writer.removed)?);
    }
    if result.is_error.is_some_and(|value| json_scan::kind(value) != Kind::Bool) {
        writer.odd("isError is not a boolean");
    }
    out.push_str(if result.is_error == Some("true") { r#","isError":true"# } else { r#","isError":false"# });
    match result.meta {
        Some(meta) if json_scan::kind(meta) == Kind::Object => {
            out.push_str(r#","meta":"#);
            out.push_str(meta);
        }
        Some(_) => writer.odd("_meta is not an object"),
        None => {}
    }
    out.push('}');
    Ok(out)
}

#[cfg(test)]
mod tests;
