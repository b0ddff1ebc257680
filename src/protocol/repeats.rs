//! What a result says twice: base64 of a block that stands in a text or in `structuredContent` as well. It is handed
//! over as the block; the other places name it (K2).

use std::borrow::Cow;

use memchr::memmem;

use super::content::LARGE_TEXT_BYTES;
use crate::json_scan::{self, Kind};

/// Shortest base64 that is looked for elsewhere: what is shorter may be there by chance and costs nothing.
const SHORTEST: usize = 64;
/// Most blocks whose base64 is looked for.
const MOST: usize = 16;

/// Base64 of the blocks of one result.
#[derive(Debug, Default)]
pub(crate) struct Repeats<'a> {
    /// Base64 that the result holds more than once, as it stands in the JSON, and its first block.
    twice: Vec<(&'a str, usize)>,
    /// Long base64 of blocks, said once or more.
    long: Vec<&'a str>,
}

impl<'a> Repeats<'a> {
    /// Looks through the JSON text of a result.
    pub(crate) fn read(wire: &'a str, content: Option<&'a str>) -> Self {
        let mut found = Self::default();
        let content = content.filter(|content| json_scan::kind(content) == Kind::Array).unwrap_or("[]");
        let mut first: Vec<(&str, usize)> = Vec::new();
        for (number, element) in json_scan::elements(content).enumerate() {
            let [data, resource] = json_scan::pick(element, ["data", "resource"]);
            let literal =
                data.or_else(|| resource.and_then(|resource| json_scan::pick(resource, ["blob"])[0]));
            let Some(base64) = literal.and_then(within_quotes).filter(|base64| is_telling(base64)) else {
                continue;
            };
            if first.len() == MOST {
                break;
            }
            if first.iter().all(|(known, _)| known != &base64) {
                first.push((base64, number));
            }
        }
        for (base64, number) in first {
            if memmem::find_iter(wire.as_bytes(), base64).take(2).count() == 2 {
                found.twice.push((base64, number));
            }
            if base64.len() > LARGE_TEXT_BYTES {
                found.long.push(base64);
            }
        }
        found
    }

    /// Whether nothing is said twice.
    pub(crate) fn is_empty(&self) -> bool {
        self.twice.is_empty()
    }

    /// JSON text in which blocks are named where their base64 stood.
    pub(crate) fn cut_from<'t>(&self, json: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(json);
        for (base64, number) in &self.twice {
            let places = places_in(&text, base64);
            if places.is_empty() {
                continue;
            }
            let mut rest = String::with_capacity(text.len());
            let mut copied = 0;
            for start in places {
                rest.push_str(&text[copied..start]);
                rest.push_str(&format!("[base64 of content[{number}]]"));
                copied = start + base64.len();
            }
            rest.push_str(&text[copied..]);
            text = Cow::Owned(rest);
        }
        text
    }

    /// Where in the JSON text of the result the long base64 of its blocks stands, in order.
    pub(crate) fn spare(&self, wire: &str) -> Vec<(usize, usize)> {
        let mut spans: Vec<_> = self
            .long
            .iter()
            .flat_map(|base64| places_in(wire, base64).into_iter().map(|start| (start, start + base64.len())))
            .collect();
        spans.sort_unstable();
        spans
    }
}

/// Starts of a base64 within the strings of a JSON text, apart from those that would tear an escape.
fn places_in(json: &str, base64: &str) -> Vec<usize> {
    let bytes = json.as_bytes();
    memmem::find_iter(bytes, base64).filter(|start| !is_within_escape(bytes, *start)).collect()
}

/// Whether a place in a string lies behind the backslash of an escape that has not ended.
fn is_within_escape(bytes: &[u8], place: usize) -> bool {
    // The longest escape, `\uXXXX`, has five bytes behind its backslash.
    let near = place.saturating_sub(5);
    let Some(backslash) = bytes[near..place].iter().rposition(|byte| *byte == b'\\').map(|at| near + at)
    else {
        return false;
    };
    let row = bytes[..=backslash].iter().rev().take_while(|byte| **byte == b'\\').count();
    let length = if bytes.get(backslash + 1) == Some(&b'u') { 6 } else { 2 };
    row % 2 == 1 && place < backslash + length
}

fn within_quotes(literal: &str) -> Option<&str> {
    literal.strip_prefix('"')?.strip_suffix('"')
}

/// Whether a text is long enough to be no coincidence, and can stand nowhere in JSON but in a string.
fn is_telling(base64: &str) -> bool {
    base64.len() >= SHORTEST
        && base64.bytes().any(|byte| byte.is_ascii_alphabetic() && !matches!(byte, b'e' | b'E'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PICTURE: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ";

    fn cut(wire: &str) -> String {
        let [content, structured] = json_scan::pick(wire, ["content", "structuredContent"]);
        Repeats::read(wire, content).cut_from(structured.unwrap()).into_owned()
    }

    #[test]
    fn k2_base64_of_a_block_is_named_elsewhere() {
        let block = format!(r#"{{"type":"image","data":"{PICTURE}","mimeType":"image/png"}}"#);
        let result =
            |structured: &str| format!(r#"{{"content":[5,{block}],"structuredContent":{structured}}}"#);
        assert_eq!(
            cut(&result(&format!(
                r#"{{"a":"{PICTURE}","b":["data:image/png;base64,{PICTURE}"],"c":1e400}}"#
            ))),
            r#"{"a":"[base64 of content[1]]","b":["data:image/png;base64,[base64 of content[1]]"],"c":1e400}"#
        );
        assert_eq!(cut(&result(r#"{"a":"other"}"#)), r#"{"a":"other"}"#);
        for (before, is_torn) in
            [(r"\", true), (r"\\", false), (r"\n", false), (r"\u00", true), (r"\u00e9", false)]
        {
            let place = cut(&result(&format!(r#"{{"a":"{before}{PICTURE}"}}"#)));
            assert_eq!(place.contains("content[1]"), !is_torn, "{place}");
        }
    }

    #[test]
    fn k2_what_may_be_a_number_or_is_short_stays() {
        let digits = "1".repeat(80);
        for base64 in [digits.as_str(), "AAAA"] {
            let wire = format!(
                r#"{{"content":[{{"type":"image","data":"{base64}"}}],"structuredContent":["{base64}"]}}"#
            );
            assert_eq!(cut(&wire), format!(r#"["{base64}"]"#));
        }
    }

    #[test]
    fn k2_long_base64_of_blocks_is_spare() {
        let long = "iVBO".repeat(LARGE_TEXT_BYTES / 4 + 1);
        let wire = format!(
            r#"{{"content":[{{"resource":{{"blob":"{long}"}}}},{{"data":"{long}"}},{{"data":"{PICTURE}"}}]}}"#
        );
        let [content] = json_scan::pick(&wire, ["content"]);
        let repeats = Repeats::read(&wire, content);
        let spans = repeats.spare(&wire);
        assert!(spans.len() == 2 && spans.iter().all(|(start, end)| wire[*start..*end] == long));
    }
}
