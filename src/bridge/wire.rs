//! The texts of the protocol between us and a relay (`docs/bridge-protocol.md`): addresses, bodies, answers. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use super::message::quoted;
use super::queue::Batch;
use crate::url_guard::is_loopback;

/// What is not written as it is in a path (RFC 3986 §2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// What a path stands for the session with.
pub const PLACE: &str = "{session}";
/// Bytes that may stand around a message in its envelope.
pub const AROUND: usize = 256;
/// Longest session id.
const LONGEST_SESSION: usize = 256;

/// Where a relay has its things, below its base URL.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Registers an instance (v2).
    pub register: String,
    /// What is sent to us (v1: a WebSocket, v2: server-sent events).
    pub stream: String,
    /// What we send.
    pub messages: String,
    /// Keeps the lease (v2).
    pub heartbeat: String,
    /// Sessions as such.
    pub sessions: String,
}

impl Paths {
    /// The usual paths of a version.
    pub fn of(version: &str) -> Self {
        let path = |name: &str| format!("/{version}/sessions/{PLACE}/{name}");
        Self {
            register: path("register"),
            stream: path("stream"),
            messages: path("messages"),
            heartbeat: path("heartbeat"),
            sessions: format!("/{version}/sessions"),
        }
    }

    /// Replaces some of them.
    ///
    /// # Errors
    /// The name of a path that there is not.
    pub fn replace(&mut self, own: BTreeMap<String, String>) -> Result<(), String> {
        for (name, path) in own {
            let place = match name.as_str() {
                "register" => &mut self.register,
                "stream" => &mut self.stream,
                "messages" => &mut self.messages,
                "heartbeat" => &mut self.heartbeat,
                "sessions" => &mut self.sessions,
                _ => return Err(name),
            };
            *place = path;
        }
        Ok(())
    }
}

/// Checks the base URL: HTTPS, or HTTP to this machine, without anything behind its path.
///
/// # Errors
/// What is expected instead.
pub fn base_url(text: &str) -> Result<Url, String> {
    crate::config::url_check::check_url(text, &["https", "http"])?;
    let url = Url::parse(text.trim()).map_err(|_| "The URL cannot be read".to_owned())?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("The URL has a query or fragment; put what is behind the path into paths".to_owned());
    }
    if url.scheme() == "http" && !url.host().is_some_and(|host| is_loopback(&host)) {
        return Err("Expected https: a token is never sent unencrypted to another machine".to_owned());
    }
    Ok(url)
}

/// Whether a text can be the id of a session.
pub fn is_session(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= LONGEST_SESSION
        && !matches!(id, "." | "..")
        && !id.chars().any(|c| c.is_control() || c.is_whitespace())
}

/// The address of a path below the base.
///
/// # Errors
/// What is expected of the path.
pub fn address(base: &Url, path: &str, session: &str) -> Result<Url, String> {
    if !path.starts_with('/') || path.contains(['?', '#', '\\']) || path.chars().any(char::is_control) {
        return Err("a path that begins with / and has no query".to_owned());
    }
    let path = path.replace(PLACE, &utf8_percent_encode(session, RESERVED).to_string());
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    Ok(url)
}

/// Who we are at the other end.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Our instance: a new one for each [`Bridge`](super::Bridge).
    pub instance: String,
    /// Our epoch so far; 0 before the first registration.
    pub epoch: u64,
    /// Number of the first message that we still have to send.
    pub next: u64,
    /// Sequence number that we ask for next.
    pub from: u64,
    /// How often we give a sign of life.
    pub heartbeat: Duration,
}

/// Body of a registration.
pub fn registration(claim: &Claim) -> String {
    format!(
        r#"{{"instance":{},"epoch":{},"next":{},"from":{},"heartbeatMs":{}}}"#,
        quoted(&claim.instance),
        claim.epoch,
        claim.next,
        claim.from,
        claim.heartbeat.as_millis()
    )
}

/// Body of a request that writes messages.
pub fn messages(instance: &str, epoch: u64, batch: &Batch) -> String {
    let Batch { first, messages, .. } = batch;
    format!(r#"{{"instance":{},"epoch":{epoch},"first":{first},"messages":{messages}}}"#, quoted(instance))
}

/// Body of a sign of life, which acknowledges everything up to a sequence number.
pub fn heartbeat(instance: &str, epoch: u64, sequence: u64) -> String {
    format!(r#"{{"instance":{},"epoch":{epoch},"sequence":{sequence}}}"#, quoted(instance))
}

/// The answer to a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Registered {
    /// Our epoch from now on.
    pub epoch: u64,
    /// Number of the last of our messages that has arrived.
    pub acknowledged: u64,
}

/// The answer to a request that writes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Acknowledged {
    /// Number of the last of our messages that has arrived.
    pub acknowledged: u64,
}

/// A message to us and its numbers.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// Epoch of the registration it is sent under; 0 in v1.
    #[serde(default)]
    pub epoch: u64,
    /// Its place among all that the session was ever sent, from 1.
    pub sequence: u64,
    /// The message.
    #[serde(borrow)]
    pub message: &'a RawValue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brg_01_base_urls_are_encrypted_or_local() {
        for (text, expected) in [
            ("https://relay.example/base", true),
            ("http://127.0.0.1:8080", true),
            ("http://localhost:8080/", true),
            ("http://[::1]:1", true),
            ("http://relay.example", false),
            ("http://10.0.0.1", false),
            ("https://relay.example/?x=1", false),
            ("https://relay.example/#x", false),
            ("https://me:pw@relay.example/", false),
            ("wss://relay.example/", false),
            ("relay.example", false),
            ("", false),
        ] {
            assert_eq!(base_url(text).is_ok(), expected, "{text}");
        }
    }

    #[test]
    fn brg_01_paths_are_options_and_sessions_cannot_leave_them() {
        let base = Url::parse("https://relay.example/base/").unwrap();
        let url = |path: &str, session: &str| address(&base, path, session).map(String::from);
        assert_eq!(
            url(&Paths::of("v2").stream, "s 1/../x").as_deref(),
            Ok("https://relay.example/base/v2/sessions/s%201%2F..%2Fx/stream")
        );
        assert_eq!(
            url("/own/{session}/{session}", "é").as_deref(),
            Ok("https://relay.example/base/own/%C3%A9/%C3%A9")
        );
        for path in ["own", "", "/a?b", "/a#b", "/a\n", "\\a"] {
            assert!(url(path, "s").is_err(), "{path:?}");
        }
        for (id, expected) in
            [("cse_1", true), ("", false), ("..", false), (".", false), ("a b", false), ("a\n", false)]
        {
            assert_eq!(is_session(id), expected, "{id:?}");
        }
    }

    #[test]
    fn brg_05_bodies_and_answers() {
        let claim = Claim {
            instance: "i".to_owned(),
            epoch: 2,
            next: 5,
            from: 9,
            heartbeat: Duration::from_secs(20),
        };
        assert_eq!(
            registration(&claim),
            r#"{"instance":"i","epoch":2,"next":5,"from":9,"heartbeatMs":20000}"#
        );
        let batch = Batch { first: 5, count: 1, messages: "[{}]".to_owned() };
        assert_eq!(messages("i", 2, &batch), r#"{"instance":"i","epoch":2,"first":5,"messages":[{}]}"#);
        assert_eq!(heartbeat("i", 2, 8), r#"{"instance":"i","epoch":2,"sequence":8}"#);
        let envelope: Envelope<'_> = serde_json::from_str(r#"{"sequence":3,"message":{"a": 1}}"#).unwrap();
        assert_eq!((envelope.epoch, envelope.sequence, envelope.message.get()), (0, 3, r#"{"a": 1}"#));
    }
}
