//! Binary parts of results: reading base64 as servers write it, and telling from its first bytes what it is (K8).
//!
//! Pure. What becomes of a part that is not what it is said to be is for [`super::content`] to decide.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Bytes that are looked at to tell a format.
const HEAD_BYTES: usize = 768;

const TOLERANT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes base64 with or without padding, line breaks and the URL-safe alphabet; `None` where it is none.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    if let Ok(bytes) = TOLERANT.decode(text) {
        return Some(bytes);
    }
    let plain: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => other,
        })
        .collect();
    TOLERANT.decode(plain).ok()
}

/// Base64 of bytes, as every reader takes it.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Whether every reader of base64 takes the text as it is.
pub fn is_well_formed(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// Images that model interfaces show; others become files.
pub fn is_shown(mime_type: &str) -> bool {
    let name = essence(mime_type);
    ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// Whether two media types name one format.
pub fn is_same(one: &str, other: &str) -> bool {
    let folded = |mime_type| match essence(mime_type).to_ascii_lowercase().as_str() {
        "image/jpg" => "image/jpeg".to_owned(),
        name => name.to_owned(),
    };
    folded(one) == folded(other)
}

fn essence(mime_type: &str) -> &str {
    mime_type.split(';').next().unwrap_or_default().trim()
}

/// Media type of well-formed base64 by its first bytes; `None` where they are of no format that is known here.
pub fn format_of(text: &str) -> Option<&'static str> {
    let end = text.len().min(HEAD_BYTES / 3 * 4);
    let head = TOLERANT.decode(text.get(..end)?).ok()?;
    let starts = |magic: &[u8]| head.starts_with(magic);
    let brand = head.get(8..12).unwrap_or_default();
    Some(match () {
        () if starts(b"\x89PNG\r\n\x1a\n") => "image/png",
        () if starts(b"\xFF\xD8\xFF") => "image/jpeg",
        () if starts(b"GIF8") => "image/gif",
        () if starts(b"RIFF") && brand == b"WEBP" => "image/webp",
        () if starts(b"RIFF") && brand == b"WAVE" => "audio/wav",
        () if head.get(4..8) == Some(b"ftyp") && matches!(brand, b"avif" | b"avis") => "image/avif",
        () if head.get(4..8) == Some(b"ftyp") && matches!(brand, b"heic" | b"heix" | b"mif1") => "image/heic",
        () if starts(b"BM") && head.get(6..10) == Some(&[0; 4]) => "image/bmp",
        () if starts(b"II*\0") || starts(b"MM\0*") => "image/tiff",
        () if starts(b"\0\0\x01\0") => "image/x-icon",
        () if starts(b"%PDF-") => "application/pdf",
        () if starts(b"PK\x03\x04") => "application/zip",
        () => return text_format(&head),
    })
}

/// Format of a text that stands where an image should: a drawing, a page, an answer in JSON.
fn text_format(head: &[u8]) -> Option<&'static str> {
    let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start();
    let has = |part: &[u8]| memchr::memmem::find(head, part).is_some();
    match head.first()? {
        b'<' if has(b"<svg") => Some("image/svg+xml"),
        b'<' if has(b"<html") || has(b"<!DOCTYPE html") || has(b"<!doctype html") => Some("text/html"),
        b'<' if head.starts_with(b"<?xml") => Some("application/xml"),
        b'{' | b'[' if has(b"\"") => Some("application/json"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k8_formats_are_told_by_their_first_bytes() {
        let long_drawing = format!("<?xml version=\"1.0\"?>\n<!-- {} -->\n<svg>", "x".repeat(300));
        let cases: &[(&[u8], Option<&str>)] = &[
            (b"\x89PNG\r\n\x1a\n....", Some("image/png")),
            (b"\xFF\xD8\xFF\xE0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\x01\x02\x03\x04WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x01\x02\x03\x04WAVEfmt ", Some("audio/wav")),
            (b"RIFF\x01\x02\x03\x04AVI ", None),
            (b"\0\0\0\x20ftypavif", Some("image/avif")),
            (b"\0\0\0\x20ftypisom", None),
            (b"BM\x01\0\0\0\0\0\0\0", Some("image/bmp")),
            (b"BM is no picture", None),
            (b"II*\0", Some("image/tiff")),
            (b"%PDF-1.7", Some("application/pdf")),
            (b"PK\x03\x04", Some("application/zip")),
            (b"<svg xmlns=''>", Some("image/svg+xml")),
            (long_drawing.as_bytes(), Some("image/svg+xml")),
            (b"\xEF\xBB\xBF  <!DOCTYPE html><p>", Some("text/html")),
            (b"{\"error\":\"no\"}", Some("application/json")),
            (b"<", None),
            (b"hello", None),
            (b"", None),
        ];
        for (bytes, format) in cases {
            assert_eq!(format_of(&encode(bytes)), *format, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn k8_base64_that_every_reader_takes() {
        for good in ["", "AA==", "AAA=", "AAAA", "ab+/"] {
            assert!(is_well_formed(good), "{good}");
        }
        for bad in ["A", "AA", "AA=", "A===", "====", "AA\n==", "ab-_", "AA==AAAA", "%%%%", "ä==="] {
            assert!(!is_well_formed(bad), "{bad}");
        }
        assert_eq!(decode("ab-_\nab"), decode("ab+/ab=="));
        assert_eq!(decode("%%%"), None);
    }

    #[test]
    fn media_types_are_compared_without_case_and_parameters() {
        assert!(is_shown("IMAGE/PNG; q=1") && !is_shown("image/svg+xml"));
        assert!(is_same("image/jpg", "Image/JPEG;x") && !is_same("image/png", "image/gif"));
    }
}
