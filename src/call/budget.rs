//! The output limit: how much a result is estimated to be for a model, and what is left of one that is too much
//! (CAL-04).
//!
//! Four bytes count as a token, an image or sound as at most 1,600, and what sets blocks apart a few. Above the limit `structuredContent` goes first,
//! whole; then text is cut between characters and the blocks behind it are named. The whole result goes to a file
//! without ever becoming a string of the host.

use std::borrow::Cow;

use super::blob;
use super::output::MappedResult;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError, Result};
use crate::json_scan::{self, quote};
use crate::protocol::content::SavedBlob;

/// Default of `maxOutputTokens`.
pub const DEFAULT_LIMIT: usize = 25_000;
/// Default of `maxToolOutputTokens`: half a million characters.
pub const DEFAULT_CEILING: usize = 125_000;
/// From here on a result is worth a warning.
const WARN_FROM: usize = 10_000;
const BYTES_PER_TOKEN: usize = 4;
const MEDIA_TOKENS: usize = 1_600;
/// What sets a block apart from the one before it: blocks are not free, however little is in them.
const BETWEEN_TOKENS: usize = 4;
/// Part of the limit that stays of a result whose whole is in a file, and what stays at least.
const HEAD_PART: usize = 10;
const SHORTEST_HEAD: usize = 500;
/// Files of one result whose paths stay, whatever the limit: they are what the rest is found by. The others are named.
const MOST_FILES: usize = 64;

/// What becomes of a result above the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargeOutput {
    /// The whole is written to a file; its beginning and the path are the result.
    File,
    /// Its beginning is the result.
    Truncate,
    /// The call fails.
    Error,
}

/// The limit of one manager.
#[derive(Clone, Copy, Debug)]
pub struct OutputLimit {
    /// Most tokens; 0 means no limit.
    pub tokens: usize,
    /// Most tokens that a tool may claim for its own results.
    pub ceiling: usize,
    /// What happens above it.
    pub on_large: LargeOutput,
}

impl OutputLimit {
    /// The limit for results of a tool that says how many characters they may have; a claim only ever raises it (K12).
    #[must_use]
    pub fn for_tool(self, claimed_characters: Option<usize>) -> Self {
        let claimed = claimed_characters.map_or(0, tokens_of).min(self.ceiling);
        let tokens = if self.tokens == 0 { 0 } else { self.tokens.max(claimed) };
        Self { tokens, ..self }
    }
}

/// What was left out of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// Estimated tokens of the whole.
    pub tokens: usize,
    /// The limit.
    pub limit: usize,
    /// Where the whole is.
    pub path: Option<String>,
}

impl Truncated {
    /// JSON text of the public shape.
    pub fn to_json(&self) -> String {
        let mut text = format!("{{\"tokens\":{},\"limit\":{}", self.tokens, self.limit);
        if let Some(path) = &self.path {
            text.push_str(",\"path\":");
            text.push_str(&quote(path));
        }
        text.push('}');
        text
    }
}

/// Saves bytes under a name like the given one with a media type.
pub type Save<'a> = &'a dyn Fn(&str, &str, &[u8]) -> Result<SavedBlob>;

/// One block of `content`, as it stands in the mapped result.
struct Block<'a> {
    raw: &'a str,
    kind: Cow<'a, str>,
    /// The text of a text block.
    text: Option<Cow<'a, str>>,
    /// Estimated tokens of what is in it.
    tokens: usize,
    /// Of what stands around that.
    frame: usize,
}

struct Parts<'a> {
    blocks: Vec<Block<'a>>,
    structured: Option<&'a str>,
    is_error: bool,
    meta: Option<&'a str>,
}

fn tokens_of(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

impl<'a> Parts<'a> {
    fn read(result: &'a MappedResult) -> Self {
        let names = ["content", "structuredContent", if result.plain { "_meta" } else { "meta" }];
        let [content, structured, meta] = json_scan::pick(&result.value, names);
        let mut large = result.large_texts.iter().peekable();
        let blocks = json_scan::elements(content.unwrap_or("[]"))
            .enumerate()
            .map(|(number, raw)| {
                let text = large.next_if(|(place, _)| *place == number).map(|(_, text)| text.as_str());
                Block::read(raw, number == 0, text)
            })
            .collect();
        Self { blocks, structured, is_error: result.is_error, meta }
    }

    fn content_tokens(&self) -> usize {
        self.blocks.iter().map(Block::cost).sum()
    }

    fn tokens(&self) -> usize {
        self.content_tokens() + self.structured.map_or(0, |structured| tokens_of(structured.len()))
    }

    /// The whole as it goes to a file: its text where it is nothing else, else JSON.
    fn whole(&self) -> (&'static str, &'static str, String) {
        if self.structured.is_none() && self.blocks.iter().all(|block| block.text.is_some()) {
            let texts: Vec<&str> = self.blocks.iter().filter_map(|block| block.text.as_deref()).collect();
            return ("txt", "text/plain", texts.join("\n"));
        }
        let blocks: Vec<Cow<'_, str>> = self.blocks.iter().map(Block::whole).collect();
        let json = self.write(&blocks, self.structured);
        ("json", "application/json", json)
    }

    fn write(&self, blocks: &[Cow<'_, str>], structured: Option<&str>) -> String {
        let mut out = String::from("{\"content\":[");
        out.push_str(&blocks.join(","));
        out.push(']');
        if let Some(structured) = structured {
            out.push_str(",\"structuredContent\":");
            out.push_str(structured);
        }
        out.push_str(if self.is_error { ",\"isError\":true" } else { ",\"isError\":false" });
        if let Some(meta) = self.meta {
            out.push_str(",\"meta\":");
            out.push_str(meta);
        }
        out.push('}');
        out
    }
}

impl<'a> Block<'a> {
    fn read(raw: &'a str, first: bool, apart: Option<&'a str>) -> Self {
        let [kind, text, data] = json_scan::pick(raw, ["type", "text", "data"]);
        let kind = kind.and_then(json_scan::decode).unwrap_or_default();
        let text = match apart {
            Some(text) => Some(Cow::Borrowed(text)),
            None if kind == "text" => text.and_then(json_scan::decode),
            None => None,
        };
        let between = if first { 0 } else { BETWEEN_TOKENS };
        let (tokens, frame) = match (&text, data) {
            (Some(text), _) => (tokens_of(text.len()), between),
            (None, Some(data)) if is_media(&kind) => (tokens_of(data.len()).min(MEDIA_TOKENS), between),
            // The whole block is counted already.
            _ => (tokens_of(raw.len()), 0),
        };
        Self { raw, kind, text, tokens, frame }
    }

    fn cost(&self) -> usize {
        self.tokens + self.frame
    }

    /// JSON text of the block with its text in it.
    fn whole(&self) -> Cow<'a, str> {
        match &self.text {
            Some(text) if json_scan::pick(self.raw, ["text"]) == [Some("\"\"")] => {
                Cow::Owned(text_block(text))
            }
            _ => Cow::Borrowed(self.raw),
        }
    }

    /// The block as a file of its own, where it is one of bytes.
    fn as_file(&self, name: &str, save: Save<'_>) -> Option<String> {
        if !is_media(&self.kind) {
            return None;
        }
        let [data, mime_type] = json_scan::pick(self.raw, ["data", "mimeType"]);
        let mime_type = json_scan::decode(mime_type?)?;
        let bytes = blob::decode_base64(&json_scan::decode(data?)?).ok()?;
        let saved = save(name, &mime_type, &bytes).ok()?;
        Some(format!(
            "{{\"type\":\"file\",\"path\":{},\"mimeType\":{},\"bytes\":{}}}",
            quote(&saved.path),
            quote(&mime_type),
            saved.bytes
        ))
    }
}

fn is_media(kind: &str) -> bool {
    matches!(kind, "image" | "audio")
}

fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", quote(text))
}

/// Holds a result to the limit. `name` is the tool's full name.
///
/// # Errors
/// `RESULT_TOO_LARGE` where that is asked for. A file that cannot be written is a warning, and the result is cut.
pub fn hold_to(
    mut result: MappedResult,
    limit: OutputLimit,
    server: &str,
    name: &str,
    save: Save<'_>,
) -> Result<MappedResult> {
    let bytes = result.value.len() + result.large_texts.iter().map(|(_, text)| text.len()).sum::<usize>();
    // No estimate is above that of the bare bytes.
    if limit.tokens == 0 || tokens_of(bytes) <= WARN_FROM.min(limit.tokens) {
        return Ok(result);
    }
    let parts = Parts::read(&result);
    let tokens = parts.tokens();
    let said = format!("the result of {name} is about {tokens} tokens");
    if tokens <= limit.tokens {
        if tokens > WARN_FROM {
            let message = format!("{said}; the limit is {} (maxOutputTokens)", limit.tokens);
            result.warnings.push(Diagnostic::warning("OUTPUT_LARGE", message).on(server));
        }
        return Ok(result);
    }
    let mut warnings = Vec::new();
    let path = match limit.on_large {
        LargeOutput::Error => {
            let message = format!("{said}, the limit is {} (maxOutputTokens)", limit.tokens);
            return Err(McpError::new(ErrorCode::ResultTooLarge, message).on(server));
        }
        LargeOutput::Truncate => None,
        LargeOutput::File => {
            let (extension, mime_type, whole) = parts.whole();
            match save(&format!("{name}.{extension}"), mime_type, whole.as_bytes()) {
                Ok(saved) => Some(saved.path),
                Err(error) => {
                    warnings.push(Diagnostic::warning("OUTPUT_NOT_SAVED", error.message()).on(server));
                    None
                }
            }
        }
    };
    let blocks = cut(&parts, limit.tokens, name, path.as_deref(), save);
    let value = parts.write(&blocks, None);
    let place = path.as_ref().map_or_else(String::new, |path| format!("; the whole is in {path}"));
    let message = format!("{said}, the limit is {} (maxOutputTokens){place}", limit.tokens);
    warnings.push(Diagnostic::warning("OUTPUT_TRUNCATED", message).on(server));
    result.warnings.append(&mut warnings);
    result.truncated = Some(Truncated { tokens, limit: limit.tokens, path });
    result.raw = Some(value.clone());
    result.value = value;
    result.plain = false;
    result.large_texts = Vec::new();
    Ok(result)
}

/// What stays of the blocks, and a note on the rest.
fn cut<'a>(
    parts: &Parts<'a>,
    limit: usize,
    name: &str,
    path: Option<&str>,
    save: Save<'_>,
) -> Vec<Cow<'a, str>> {
    let head = limit.min((limit / HEAD_PART).max(SHORTEST_HEAD));
    let fits = parts.content_tokens() <= limit;
    let mut left = if fits || path.is_none() { limit } else { head } * BYTES_PER_TOKEN;
    let mut kept = Vec::new();
    let mut gone = Gone::default();
    let mut files = 0;
    for block in &parts.blocks {
        let cost = block.cost() * BYTES_PER_TOKEN;
        match &block.text {
            _ if fits || cost <= left => {
                left = left.saturating_sub(cost);
                kept.push(block.whole());
            }
            None if block.kind == "file" && files < MOST_FILES => {
                files += 1;
                kept.push(block.whole());
            }
            Some(text) => {
                let end = text.floor_char_boundary(left.saturating_sub(block.frame * BYTES_PER_TOKEN));
                left = 0;
                if end > 0 {
                    kept.push(Cow::Owned(text_block(&text[..end])));
                } else {
                    gone.add("text");
                }
            }
            None => match path.filter(|_| files < MOST_FILES).and_then(|_| block.as_file(name, save)) {
                Some(file) => {
                    files += 1;
                    kept.push(Cow::Owned(file));
                }
                None => gone.add(&block.kind),
            },
        }
    }
    if parts.structured.is_some() {
        gone.add("structuredContent");
    }
    kept.push(Cow::Owned(text_block(&note(parts.tokens(), limit, path, &gone))));
    kept
}

/// How many parts of each kind were left out. There are as many kinds as blocks of the contract have.
#[derive(Default)]
struct Gone<'a>(Vec<(&'a str, usize)>);

impl<'a> Gone<'a> {
    fn add(&mut self, kind: &'a str) {
        match self.0.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => self.0.push((kind, 1)),
        }
    }

    fn words(&self) -> Vec<String> {
        let word = |(kind, count): &(&str, usize)| match count {
            1 => (*kind).to_owned(),
            count => format!("{kind} × {count}"),
        };
        self.0.iter().map(word).collect()
    }
}

fn note(tokens: usize, limit: usize, path: Option<&str>, gone: &Gone<'_>) -> String {
    let mut note = format!("[This result was cut: it is about {tokens} tokens, the limit is {limit}.");
    let gone = gone.words();
    if !gone.is_empty() {
        note.push_str(" Left out: ");
        note.push_str(&gone.join(", "));
        note.push('.');
    }
    if let Some(path) = path {
        note.push_str(" The whole is in ");
        note.push_str(path);
    }
    note.push(']');
    note
}

#[cfg(test)]
mod tests;
