//! Which headers a request carries, and how values are made safe for them (mcp:HDR-*). Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::error::{ErrorCode, McpError};
use crate::protocol::version::ProtocolVersion;
use crate::secret::Secret;
use crate::transport::Mirrored;

/// Session of the handshake era.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Where a stream goes on.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const PARAMETER_PREFIX: &str = "mcp-param-";

/// Headers that belong to the protocol or to HTTP itself; configured ones of these names are left out.
const OWN: [&str; 16] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The configured headers that may be sent, secret in logs.
///
/// # Errors
/// `CONFIG_INVALID` naming a header whose name or value cannot be one (mcp:HDR-26).
pub fn configured(headers: &[(String, Secret<String>)]) -> Result<HeaderMap, McpError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let invalid =
            |what: &str| McpError::new(ErrorCode::ConfigInvalid, format!("header {name:?}: {what}"));
        let lower = name.to_ascii_lowercase();
        if OWN.contains(&lower.as_str()) || lower.starts_with(PARAMETER_PREFIX) {
            continue;
        }
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("not a header name"))?;
        let mut value = HeaderValue::from_bytes(value.expose().as_bytes())
            .map_err(|_| invalid("the value holds characters that no header may hold"))?;
        value.set_sensitive(true);
        map.insert(name, value);
    }
    Ok(map)
}

/// Adds what every POST of a message carries (mcp:HTTPL-02).
pub fn add_post(map: &mut HeaderMap) {
    map.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    map.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Adds what every GET of a stream carries.
pub fn add_get(map: &mut HeaderMap) {
    map.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    map.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Adds the protocol version.
pub fn add_version(map: &mut HeaderMap, version: ProtocolVersion) {
    map.insert(VERSION, HeaderValue::from_static(version.as_str()));
}

/// Adds what the modern era repeats of a request (mcp:HDR-03, HDR-04, HDR-08).
///
/// # Errors
/// `INVALID_ARGUMENT` for a mirrored parameter whose header name cannot be one; its tool should not have been
/// listed (mcp:HDR-14).
pub fn add_mirrored(map: &mut HeaderMap, mirrored: &Mirrored) -> Result<(), McpError> {
    map.insert(METHOD, encoded(&mirrored.method));
    if let Some(name) = &mirrored.name {
        map.insert(NAME, encoded(name));
    }
    for (name, value) in &mirrored.arguments {
        let header = format!("{PARAMETER_PREFIX}{}", name.to_ascii_lowercase());
        let header = HeaderName::from_bytes(header.as_bytes()).map_err(|_| {
            McpError::new(ErrorCode::InvalidArgument, "a mirrored argument has no usable header name")
        })?;
        map.insert(header, encoded(value));
    }
    Ok(())
}

/// A value as it stands in a header (mcp:HDR-16, HDR-18, B-106).
pub fn encode(value: &str) -> String {
    if is_plain(value) { value.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(value)) }
}

fn encoded(value: &str) -> HeaderValue {
    // What is encoded is visible ASCII, so the fallback is never used.
    HeaderValue::from_str(&encode(value)).unwrap_or(HeaderValue::from_static(""))
}

fn is_plain(value: &str) -> bool {
    let looks_encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    // Empty values are encoded too: some proxies drop empty fields (mcp:HDR-18).
    !value.is_empty()
        && !looks_encoded
        && !value.starts_with(' ')
        && !value.ends_with(' ')
        && value.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hdr_16_values_that_are_not_header_safe_are_encoded() {
        for (value, expected) in [
            ("us-west1", "us-west1"),
            ("two words", "two words"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("=?BASE64?literal?=", "=?BASE64?literal?="),
            ("", "=?base64??="),
            ("a\tb", "=?base64?YQli?="),
        ] {
            assert_eq!(encode(value), expected, "{value:?}");
        }
    }

    #[test]
    fn b_106_an_argument_cannot_add_a_header() {
        let mut map = HeaderMap::new();
        let mirrored = Mirrored {
            method: "tools/call".to_owned(),
            name: Some("é".to_owned()),
            arguments: vec![("Region".to_owned(), "a\r\nX-Evil: 1".to_owned())],
            ..Mirrored::default()
        };
        add_mirrored(&mut map, &mirrored).unwrap();
        let names: Vec<&str> = map.keys().map(HeaderName::as_str).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(map["mcp-param-region"], "=?base64?YQ0KWC1FdmlsOiAx?=");
        assert_eq!(map["mcp-method"], "tools/call");
        assert_eq!(map["mcp-name"], "=?base64?w6k=?=");
        let bad = Mirrored { arguments: vec![("a b".to_owned(), "x".to_owned())], ..mirrored };
        assert!(add_mirrored(&mut map, &bad).is_err());
    }

    #[test]
    fn hdr_26_configured_headers_never_replace_those_of_the_protocol() {
        let own = |name: &str, value: &str| (name.to_owned(), Secret::new(value.to_owned()));
        let map = configured(&[
            own("Authorization", "Bearer s3cret-value"),
            own("MCP-Session-Id", "x"),
            own("mcp-param-Region", "x"),
            own("ACCEPT", "text/plain"),
            own("X-Own", "schlüssel"),
        ])
        .unwrap();
        let names: Vec<&str> = map.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["authorization", "x-own"]);
        assert!(!format!("{map:?}").contains("s3cret"), "{map:?}");
        for (name, value) in [("X-A", "a\r\nX-Evil: 1"), ("X A", "a"), ("", "a"), ("X-A", "\0")] {
            let error = configured(&[own(name, value)]).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ConfigInvalid, "{name:?}");
            assert!(!error.message().contains("Evil"), "{error:?}");
        }
    }
}
