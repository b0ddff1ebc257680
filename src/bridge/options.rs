//! The options of a bridge, checked.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::gate::Account;
use super::wire::{self, Paths};
use crate::error::{ErrorCode, McpError};

/// Which transport is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// WebSocket to read, HTTP to write.
    V1,
    /// Server-sent events to read, HTTP to write; registration, heartbeat, epoch.
    #[default]
    V2,
}

impl Version {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Version::V1 => "v1",
            Version::V2 => "v2",
        }
    }
}

/// Options as they cross from JavaScript.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    base_url: String,
    session_id: String,
    #[serde(default)]
    version: Version,
    #[serde(default)]
    outbound_only: bool,
    #[serde(default)]
    callbacks: HashSet<String>,
    account: Option<Account>,
    #[serde(default)]
    paths: BTreeMap<String, String>,
    sequence: Option<u64>,
    dedupe_capacity: Option<usize>,
    max_queued_messages: Option<usize>,
    max_message_bytes: Option<usize>,
    heartbeat_ms: Option<f64>,
    callback_timeout_ms: Option<f64>,
    connect_timeout_ms: Option<f64>,
    reconnect_timeout_ms: Option<f64>,
}

/// What a bridge was told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Base URL of the relay.
    pub base: Url,
    /// The session.
    pub session: String,
    /// Which transport.
    pub version: Version,
    /// Whether nothing may be changed from outside.
    pub outbound_only: bool,
    /// Functions that the host has given.
    pub callbacks: HashSet<String>,
    /// What the host knows of the account, where it wants that checked.
    pub account: Option<Account>,
    /// Where the relay has its things.
    pub paths: Paths,
    /// Sequence number of the last message that an earlier bridge of the session took; default 0.
    pub sequence: u64,
    /// Ids that each filter remembers; default 2,048.
    pub dedupe_capacity: usize,
    /// Messages that may wait, in either direction; default 1,024.
    pub max_queued: usize,
    /// Longest message in bytes, in either direction; default 16 MiB.
    pub max_message: usize,
    /// From one sign of life to the next; default 20 s.
    pub heartbeat: Duration,
    /// Longest wait for a function of the host; default 30 s.
    pub callback_limit: Duration,
    /// Longest wait for the first connection, and for any single request; default 30 s.
    pub connect_limit: Duration,
    /// Longest time without a connection before the bridge gives up; default 10 min.
    pub reconnect_limit: Duration,
}

/// The longest time an option may name: a day.
const LONGEST: f64 = 86_400_000.0;

impl Options {
    /// Reads options (JSON text).
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the name of the parameter.
    pub fn read(text: &str) -> Result<Self, McpError> {
        let raw: Raw = from_json(text)?;
        let base = base_url(&raw.base_url)?;
        check_session("options.sessionId", &raw.session_id)?;
        let paths = paths(raw.version, raw.paths)?;
        for path in [&paths.register, &paths.stream, &paths.messages, &paths.heartbeat, &paths.sessions] {
            wire::address(&base, path, &raw.session_id)
                .map_err(|what| invalid("options.paths", &format!("expected {what}, got {path:?}")))?;
        }
        Ok(Self {
            base,
            session: raw.session_id,
            version: raw.version,
            outbound_only: raw.outbound_only,
            callbacks: raw.callbacks,
            account: raw.account,
            paths,
            sequence: raw.sequence.unwrap_or(0),
            dedupe_capacity: within("dedupeCapacity", raw.dedupe_capacity, 2_048, 1 << 20)?,
            max_queued: within("maxQueuedMessages", raw.max_queued_messages, 1_024, 1 << 20)?,
            max_message: within("maxMessageBytes", raw.max_message_bytes, 16 << 20, 1 << 30)?,
            heartbeat: time("heartbeatMs", raw.heartbeat_ms, 20_000.0, 10.0)?,
            callback_limit: callback_limit(raw.callback_timeout_ms)?,
            connect_limit: time("connectTimeoutMs", raw.connect_timeout_ms, 30_000.0, 1.0)?,
            reconnect_limit: time("reconnectTimeoutMs", raw.reconnect_timeout_ms, 600_000.0, 1.0)?,
        })
    }
}

/// Reads what the face has written.
///
/// # Errors
/// `INVALID_ARGUMENT`.
pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, McpError> {
    serde_json::from_str(text).map_err(|error| invalid("options", &error.to_string()))
}

/// The error for a parameter.
pub(super) fn invalid(parameter: &str, why: &str) -> McpError {
    McpError::new(ErrorCode::InvalidArgument, format!("{parameter}: {why}"))
        .with(|facts| facts.parameter = Some(parameter.to_owned()))
}

/// The option `baseUrl`.
pub(super) fn base_url(text: &str) -> Result<Url, McpError> {
    wire::base_url(text).map_err(|why| invalid("options.baseUrl", &why))
}

/// The id of a session, which a parameter gives.
pub(super) fn check_session(parameter: &str, id: &str) -> Result<(), McpError> {
    if wire::is_session(id) {
        return Ok(());
    }
    Err(invalid(parameter, "expected an id without white space, of at most 256 bytes"))
}

/// The usual paths of a version, with those of the option `paths` in their places.
pub(super) fn paths(version: Version, own: BTreeMap<String, String>) -> Result<Paths, McpError> {
    let mut paths = Paths::of(version.name());
    paths.replace(own).map_err(|name| invalid("options.paths", &format!("there is no path {name:?}")))?;
    Ok(paths)
}

/// The option `callbackTimeoutMs`.
pub(super) fn callback_limit(millis: Option<f64>) -> Result<Duration, McpError> {
    time("callbackTimeoutMs", millis, 30_000.0, 1.0)
}

fn within(name: &str, value: Option<usize>, default: usize, most: usize) -> Result<usize, McpError> {
    match value {
        None => Ok(default),
        Some(value) if (1..=most).contains(&value) => Ok(value),
        Some(value) => {
            Err(invalid(&format!("options.{name}"), &format!("expected 1 to {most}, got {value}")))
        }
    }
}

pub(super) fn time(name: &str, value: Option<f64>, default: f64, least: f64) -> Result<Duration, McpError> {
    let millis = value.unwrap_or(default);
    if (least..=LONGEST).contains(&millis) {
        return Ok(Duration::from_secs_f64(millis / 1_000.0));
    }
    let why = format!("expected {least} to {LONGEST} ms, got {millis}");
    Err(invalid(&format!("options.{name}"), &why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brg_01_options_have_defaults_and_are_checked() {
        let options = Options::read(r#"{"baseUrl":"https://r.example","sessionId":"s"}"#).unwrap();
        assert_eq!(options.version, Version::V2);
        assert_eq!((options.dedupe_capacity, options.max_queued), (2_048, 1_024));
        assert_eq!(options.heartbeat, Duration::from_secs(20));
        assert_eq!(options.paths.stream, "/v2/sessions/{session}/stream");
        for (more, parameter) in [
            (r#""version":"v3""#, "options"),
            (r#""heartbeatMs":1"#, "options.heartbeatMs"),
            (r#""heartbeatMs":1e12"#, "options.heartbeatMs"),
            (r#""dedupeCapacity":0"#, "options.dedupeCapacity"),
            (r#""maxQueuedMessages":99999999"#, "options.maxQueuedMessages"),
            (r#""paths":{"strem":"/x"}"#, "options.paths"),
            (r#""paths":{"stream":"x"}"#, "options.paths"),
        ] {
            let text = format!(r#"{{"baseUrl":"https://r.example","sessionId":"s",{more}}}"#);
            let error = Options::read(&text).unwrap_err();
            assert_eq!(error.facts().parameter.as_deref(), Some(parameter), "{more}: {error}");
        }
        let error = Options::read(r#"{"baseUrl":"http://r.example","sessionId":"s"}"#).unwrap_err();
        assert!(error.message().contains("https"), "{error}");
        assert!(Options::read(r#"{"baseUrl":"https://r.example","sessionId":".."}"#).is_err());
    }
}
