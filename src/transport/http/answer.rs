//! What an HTTP answer that is not the expected one means (HTTP-03, E19). Pure.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE};
use serde_json::json;

use super::challenge;
use crate::error::{Delivery, ErrorCode, McpError};
use crate::unicode;

/// Bytes of an answer that are kept as evidence.
pub const KEPT_BYTES: usize = 2 * 1024;
/// Characters of them that stand in the message.
const SHOWN: usize = 200;
/// Challenges of one answer that are kept, and bytes of each.
const CHALLENGES: usize = 8;
const CHALLENGE_BYTES: usize = 4 * 1024;

/// Kind of a body by its `Content-Type`, parameters and case aside (mcp:HTTPL-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// JSON.
    Json,
    /// Server-sent events.
    Events,
    /// No content type at all.
    Unnamed,
    /// Anything else.
    Other,
}

/// Reads the kind of a body.
pub fn content(headers: &HeaderMap) -> Content {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Content::Unnamed };
    let text = value.to_str().unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/json" => Content::Json,
        "text/event-stream" => Content::Events,
        other if other.starts_with("application/") && other.ends_with("+json") => Content::Json,
        _ => Content::Other,
    }
}

/// An answer that is no result.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    /// What was asked, for people: `POST https://…`.
    pub asked: &'a str,
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: &'a HeaderMap,
    /// Beginning of the body.
    pub body: &'a [u8],
    /// How long the server wants to be left alone, where it is busy and says so.
    pub pause: Option<Duration>,
    /// Whether the request named a session.
    pub in_session: bool,
}

/// The error for an answer with a status other than 2xx.
pub fn refused(refusal: &Refusal<'_>) -> McpError {
    let status = refusal.status;
    let error = match status.as_u16() {
        407 => McpError::new(ErrorCode::ProxyFailed, "the proxy asks for a user name and password"),
        404 if refusal.in_session => session_expired(),
        400 | 410 if refusal.in_session && names_lost_session(&shown(refusal.body)) => session_expired(),
        code => challenged(refusal.asked, code, refusal.headers)
            .unwrap_or_else(|| McpError::new(ErrorCode::HttpStatus, status_message(refusal))),
    };
    error.with(|facts| {
        facts.status = Some(status.as_u16());
        facts.first_bytes = kept(refusal.body);
        facts.delivered = Some(delivery(status));
        facts.retry_after = refusal.pause;
    })
}

/// The error for a lost session: the request was not processed.
pub fn session_expired() -> McpError {
    McpError::new(ErrorCode::SessionExpired, "the server no longer knows the session")
        .with(|facts| facts.delivered = Some(Delivery::Refused))
}

/// The error for a 2xx answer that is no message of the protocol.
pub fn not_a_message(refusal: &Refusal<'_>, why: &str) -> McpError {
    let mut message = format!("{} was answered with {why}", refusal.asked);
    push_excerpt(&mut message, refusal.body);
    McpError::new(ErrorCode::MessageInvalid, message).with(|facts| {
        facts.status = Some(refusal.status.as_u16());
        facts.first_bytes = kept(refusal.body);
        facts.delivered = Some(Delivery::Unknown);
    })
}

/// The error for a message that carries our id and yet no answer, over whichever transport it came.
pub fn invalid_answer(reason: &str, frame: &str) -> McpError {
    McpError::new(ErrorCode::MessageInvalid, format!("the answer is no valid message: {reason}")).with(
        |facts| {
            facts.first_bytes = kept(frame.as_bytes());
            facts.delivered = Some(Delivery::Unknown);
        },
    )
}

/// Whether a server's text says that the session is gone; servers say so in many ways (E2).
pub fn names_lost_session(text: &str) -> bool {
    const GONE: [&str; 9] = [
        "not found",
        "expired",
        "invalid",
        "unknown",
        "no valid",
        "terminated",
        "not exist",
        "no longer",
        "closed",
    ];
    let text: String = text.chars().take(400).collect::<String>().to_ascii_lowercase();
    text.contains("session") && GONE.iter().any(|word| text.contains(word))
}

/// Whether the server certainly did not process a request.
fn delivery(status: StatusCode) -> Delivery {
    match status.as_u16() {
        408 | 409 | 499 => Delivery::Unknown,
        503 => Delivery::Refused,
        code if (300..500).contains(&code) => Delivery::Refused,
        _ => Delivery::Unknown,
    }
}

fn status_message(refusal: &Refusal<'_>) -> String {
    let mut message = format!("{} was answered with status {}", refusal.asked, refusal.status.as_u16());
    if let Some(reason) = refusal.status.canonical_reason() {
        message.push(' ');
        message.push_str(reason);
    }
    match refusal.status.as_u16() {
        413 => message.push_str(" (the message is too large for the server)"),
        431 => message.push_str(" (the headers are too large for the server)"),
        _ => {}
    }
    push_excerpt(&mut message, refusal.body);
    message
}

fn push_excerpt(message: &mut String, body: &[u8]) {
    let text = shown(body);
    if text.is_empty() {
        return;
    }
    message.push_str(": ");
    message.extend(text.chars().take(SHOWN));
    if text.chars().nth(SHOWN).is_some() {
        message.push('…');
    }
}

/// The beginning of a body as one clean line.
pub fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(KEPT_BYTES)]);
    let text = unicode::clean_str_lossy(&text);
    let mut line = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    // Replacement characters are longer than the bytes they stand for.
    let end = (0..=KEPT_BYTES.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    line.truncate(end);
    line
}

fn kept(body: &[u8]) -> Option<String> {
    Some(shown(body)).filter(|text| !text.is_empty())
}

/// The values of `WWW-Authenticate`, bounded. A realm may be in any language: what is no UTF-8 costs its own letters
/// and not the challenge (mcp:AUTH-07).
pub fn challenges(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(WWW_AUTHENTICATE).iter();
    values
        .filter(|value| value.len() <= CHALLENGE_BYTES)
        .take(CHALLENGES)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect()
}

/// The error for an answer that asks for a login or for more scopes; `data` keeps the challenge for whoever logs in:
/// `{"wwwAuthenticate": [...]}`.
pub fn challenged(asked: &str, status: u16, headers: &HeaderMap) -> Option<McpError> {
    let challenges = challenges(headers);
    let (code, what) = match status {
        401 => (ErrorCode::AuthRequired, "the server asks for a login"),
        403 if challenge::wants_scope(&challenge::parse(&challenges)) => {
            (ErrorCode::AuthScopeInsufficient, "the server asks for more scopes")
        }
        _ => return None,
    };
    let shown: Vec<String> = challenges.iter().map(|one| unicode::clean_str_lossy(one)).collect();
    let data = json!({ "wwwAuthenticate": shown });
    let data = serde_json::value::to_raw_value(&data).ok().map(Arc::from);
    let message = format!("{what} ({asked} was answered with {status})");
    Some(McpError::new(code, message).with(|facts| facts.data = data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(status: u16, body: &str, in_session: bool, challenge: Option<&str>) -> McpError {
        let mut headers = HeaderMap::new();
        if let Some(challenge) = challenge {
            headers.insert(WWW_AUTHENTICATE, challenge.parse().unwrap());
        }
        let status = StatusCode::from_u16(status).unwrap();
        let body = body.as_bytes();
        let asked = "POST http://a/mcp";
        refused(&Refusal { asked, status, headers: &headers, body, pause: None, in_session })
    }

    #[test]
    fn http_03_status_table() {
        use Delivery::{Refused, Unknown};
        use ErrorCode as E;
        for (status, body, in_session, challenge, code, delivered) in [
            (401, "", false, None, E::AuthRequired, Refused),
            (401, "", true, Some("Bearer"), E::AuthRequired, Refused),
            (403, "", true, None, E::HttpStatus, Refused),
            (403, "", true, Some("Bearer error=\"insufficient_scope\""), E::AuthScopeInsufficient, Refused),
            (404, "", true, None, E::SessionExpired, Refused),
            (404, "", false, None, E::HttpStatus, Refused),
            (400, "Session not found", true, None, E::SessionExpired, Refused),
            (400, "Session not found", false, None, E::HttpStatus, Refused),
            (400, "Bad Request", true, None, E::HttpStatus, Refused),
            (407, "", false, None, E::ProxyFailed, Refused),
            (413, "", false, None, E::HttpStatus, Refused),
            (429, "", false, None, E::HttpStatus, Refused),
            (503, "", false, None, E::HttpStatus, Refused),
            (500, "", false, None, E::HttpStatus, Unknown),
            (502, "", true, None, E::HttpStatus, Unknown),
            (408, "", true, None, E::HttpStatus, Unknown),
        ] {
            let error = judge(status, body, in_session, challenge);
            assert_eq!(error.code(), code, "{status} {body}");
            assert_eq!(error.facts().delivered, Some(delivered), "{status} {body}");
            assert_eq!(error.facts().status, Some(status));
        }
    }

    #[test]
    fn http_03_the_challenge_is_kept() {
        let error = judge(401, "", false, Some("Bearer resource_metadata=\"https://a/x\""));
        let data = error.facts().data.as_ref().unwrap().get();
        assert_eq!(data, r#"{"wwwAuthenticate":["Bearer resource_metadata=\"https://a/x\""]}"#);
    }

    #[test]
    fn b_104_excerpts_are_short_and_clean() {
        let page = format!("<html>\u{1b}[31m\r\n\t<b>Lo\u{200b}gin</b>{}", "x".repeat(5_000_000));
        let error = judge(502, &page, false, None);
        let kept = error.facts().first_bytes.clone().unwrap();
        assert!(kept.len() <= KEPT_BYTES, "{}", kept.len());
        assert!(kept.starts_with("<html>"), "{kept}");
        assert!(!kept.contains(char::is_control) && !kept.contains('\u{200b}'), "{kept:?}");
        assert!(error.message().chars().count() < 300, "{}", error.message());
    }

    #[test]
    fn httpl_05_content_types() {
        for (text, expected) in [
            ("application/json", Content::Json),
            ("Application/JSON; charset=utf-8", Content::Json),
            ("text/event-stream;charset=utf-8", Content::Events),
            ("application/problem+json", Content::Json),
            ("text/html", Content::Other),
            ("", Content::Other),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, text.parse().unwrap());
            assert_eq!(content(&headers), expected, "{text}");
        }
        assert_eq!(content(&HeaderMap::new()), Content::Unnamed);
    }

    #[test]
    fn e2_ways_to_say_that_a_session_is_gone() {
        for text in [
            "Session not found",
            "Bad Request: No valid session ID provided",
            "Session expired, please initialize again",
            "unknown session",
            "The session has been terminated",
        ] {
            assert!(names_lost_session(text), "{text}");
        }
        for text in ["Not found", "session", "Invalid params: name", "Too many sessions"] {
            assert!(!names_lost_session(text), "{text}");
        }
    }
}
