//! Results of `resources/read`: texts kept, blobs saved or handed over (RES-01, SEC-02, K7).

use std::cell::Cell;

use super::blob;
use super::output::{OutputRules, checked};
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError, Result};
use crate::json_scan::{self, Facts, Kind};
use crate::protocol::content::Blob;
use crate::protocol::oddities::Oddities;
use crate::unicode::clean_str_lossy;

/// What becomes of a blob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlobMode {
    /// A saved file and its path; the default.
    #[default]
    File,
    /// Its base64 text under `data`, for JavaScript to decode.
    Buffer,
}

/// Mapped contents of a resource.
#[derive(Clone, Debug)]
pub struct MappedContents {
    /// JSON text of an array of the public `ResourceContent`; in buffer mode `data` is base64 text.
    pub value: String,
    /// Long texts, cleaned, with the place of their element, where `text` is empty.
    pub large_texts: Vec<(usize, String)>,
    /// What was odd.
    pub warnings: Vec<Diagnostic>,
}

struct Mapping<'a> {
    rules: &'a OutputRules<'a>,
    mode: BlobMode,
    facts: Facts,
    elements: Vec<String>,
    large_texts: Vec<(usize, String)>,
    oddities: Oddities,
    /// Characters removed by cleaning.
    removed: Cell<usize>,
}

/// Maps the result of `resources/read`; `rules.subject` is the URI that was asked for.
///
/// No contents at all is a result, not an error (mcp:RES-10). Errors: `RESULT_INVALID` where the result is no object,
/// has no contents, is nested deeper than 128 or holds broken base64; `SANITIZE_UNSTABLE`; `INTERNAL` where a file
/// cannot be saved.
pub fn map_resource_contents(wire: &str, mode: BlobMode, rules: &OutputRules<'_>) -> Result<MappedContents> {
    let facts = checked(wire, rules)?;
    let oddities = Oddities::new(rules.server, rules.subject);
    let mut mapping = Mapping {
        rules,
        mode,
        facts,
        elements: Vec::new(),
        large_texts: Vec::new(),
        oddities,
        removed: Cell::default(),
    };
    let [contents] = json_scan::pick(wire, ["contents"]);
    match contents.map(|contents| (contents, json_scan::kind(contents))) {
        Some((contents, Kind::Array)) => {
            json_scan::elements(contents).try_for_each(|element| mapping.add(element))?;
        }
        Some((content, Kind::Object)) => {
            mapping.oddities.add("RESULT_ODD", "contents is not an array");
            mapping.add(content)?;
        }
        _ => {
            let message = "the result of resources/read has no contents";
            return Err(McpError::new(ErrorCode::ResultInvalid, message).on(rules.server));
        }
    }
    mapping.oddities.hidden(mapping.removed.get());
    Ok(MappedContents {
        value: format!("[{}]", mapping.elements.join(",")),
        large_texts: mapping.large_texts,
        warnings: mapping.oddities.finish(),
    })
}

impl Mapping<'_> {
    fn add(&mut self, element: &str) -> Result<()> {
        if json_scan::kind(element) != Kind::Object {
            self.oddities.add("RESULT_ODD", "an element of contents is not an object");
            return Ok(());
        }
        let names = ["uri", "mimeType", "text", "blob", "_meta"];
        let [uri, mime_type, text, blob, meta] = json_scan::pick(element, names);
        let uri = uri.and_then(json_scan::decode).unwrap_or_else(|| self.rules.subject.into());
        let mime_type = mime_type.and_then(json_scan::decode);
        let mut out = format!(r#"{{"uri":{}"#, json_scan::quote(&clean_str_lossy(&uri)));
        if let Some(mime_type) = &mime_type {
            member(&mut out, "mimeType", &json_scan::quote(&clean_str_lossy(mime_type)));
        }
        let is_string = |value: &&str| json_scan::kind(value) == Kind::String;
        match (text.filter(is_string), blob.filter(is_string)) {
            (Some(text), _) => self.add_text(&mut out, text)?,
            (None, Some(blob)) => self.add_blob(&mut out, blob, &uri, mime_type.as_deref())?,
            (None, None) => {
                self.oddities.add("RESULT_ODD", "an element of contents has neither text nor blob");
            }
        }
        // As it came: it is for the program that shows the resource, not for a model (mcp:APP-06).
        if let Some(meta) = meta.filter(|value| json_scan::kind(value) == Kind::Object) {
            member(&mut out, "meta", meta);
        }
        member(&mut out, "server", &json_scan::quote(self.rules.server));
        out.push('}');
        self.elements.push(out);
        Ok(())
    }

    fn add_text(&mut self, out: &mut String, literal: &str) -> Result<()> {
        if literal.len() > self.rules.large_text_bytes {
            let text =
                self.rules.sanitize.text(json_scan::decode(literal).unwrap_or_default(), &self.removed)?;
            self.large_texts.push((self.elements.len(), text));
            member(out, "text", "\"\"");
        } else {
            member(out, "text", &self.rules.sanitize.json(literal, self.facts, &self.removed)?);
        }
        Ok(())
    }

    fn add_blob(&self, out: &mut String, literal: &str, uri: &str, mime_type: Option<&str>) -> Result<()> {
        let base64 = json_scan::decode(literal).unwrap_or_default();
        if self.mode == BlobMode::Buffer {
            blob::decode_base64(&base64).map_err(|error| error.on(self.rules.server))?;
            member(out, "data", literal);
            return Ok(());
        }
        let saved = self
            .rules
            .save(&Blob { uri: Some(uri), mime_type, base64: &base64 })
            .map_err(|error| error.on(self.rules.server))?;
        member(out, "path", &json_scan::quote(&saved.path));
        member(out, "bytes", &saved.bytes.to_string());
        Ok(())
    }
}

fn member(out: &mut String, name: &str, json: &str) {
    out.push_str(",\"");
    out.push_str(name);
    out.push_str("\":");
    out.push_str(json);
}

#[cfg(test)]
mod tests;
