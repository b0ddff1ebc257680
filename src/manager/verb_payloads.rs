//! What the verbs of the public interface are given, as JSON text.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::changes::AddOptions;
use super::listing::ToolOrder;
use super::persist::Persist;
use super::span::Listeners;
use super::tools::CallOptions;
use crate::error::{ErrorCode, McpError};

pub(super) fn read<T: DeserializeOwned>(payload: &str) -> Result<T, McpError> {
    // The face has checked the types: a failure here is a defect of ours, but still the caller's error to see.
    serde_json::from_str(payload).map_err(|error| {
        McpError::new(ErrorCode::InvalidArgument, format!("the arguments are malformed: {error}"))
            .with(|facts| facts.parameter = Some("arguments".to_owned()))
    })
}

#[derive(Deserialize)]
pub(super) struct OfServer {
    pub(super) server: String,
}

#[derive(Deserialize)]
pub(super) struct OfTool {
    pub(super) server: String,
    pub(super) tool: String,
}

#[derive(Deserialize)]
pub(super) struct MaybeServer {
    #[serde(default)]
    pub(super) server: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Limits {
    #[serde(default)]
    pub(super) timeout_ms: Option<f64>,
    #[serde(default)]
    pub(super) max_total_timeout_ms: Option<f64>,
    #[serde(default)]
    pub(super) meta: Option<Box<RawValue>>,
    #[serde(default)]
    pub(super) view: Option<u32>,
    #[serde(default)]
    pub(super) app: Option<String>,
}

pub(super) fn millis(value: Option<f64>) -> Option<Duration> {
    value
        .filter(|value| value.is_finite() && *value >= 0.0)
        .map(|value| Duration::from_secs_f64(value.min(1e12) / 1_000.0))
}

impl Limits {
    pub(super) fn options(self, listeners: Listeners) -> CallOptions {
        let Listeners { progress, span } = listeners;
        if let (Some(span), Some(meta)) = (&span, &self.meta) {
            span.trace(meta.get());
        }
        CallOptions {
            timeout: millis(self.timeout_ms),
            total: millis(self.max_total_timeout_ms),
            progress,
            meta: self.meta.map(|meta| meta.get().to_owned()),
            view: self.view,
            app: self.app,
            span,
        }
    }
}

/// Reads the options of a call from JSON text.
///
/// # Errors
/// `INVALID_ARGUMENT`.
pub fn call_options(text: Option<&str>, listeners: Listeners) -> Result<CallOptions, McpError> {
    match text {
        None => {
            let Listeners { progress, span } = listeners;
            Ok(CallOptions { progress, span, ..CallOptions::default() })
        }
        Some(text) => Ok(read::<Limits>(text)?.options(listeners)),
    }
}

#[derive(Deserialize)]
pub(super) struct Connect {
    pub(super) server: String,
    #[serde(default)]
    pub(super) fresh: bool,
}

#[derive(Deserialize)]
pub(super) struct Login {
    pub(super) server: String,
    /// Number of the callback that this very call brought.
    #[serde(default)]
    pub(super) login: Option<u32>,
    #[serde(default)]
    pub(super) url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ready {
    #[serde(default)]
    pub(super) servers: Option<Vec<String>>,
    #[serde(default)]
    pub(super) timeout_ms: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Add {
    pub(super) name: String,
    pub(super) config: Box<RawValue>,
    #[serde(flatten)]
    pub(super) options: AddOptions,
}

#[derive(Deserialize)]
pub(super) struct Removal {
    pub(super) server: String,
    #[serde(default)]
    pub(super) persist: Option<Persist>,
}

#[derive(Deserialize)]
pub(super) struct Switch {
    pub(super) server: String,
    pub(super) enabled: bool,
    #[serde(default)]
    pub(super) persist: bool,
}

#[derive(Deserialize)]
pub(super) struct Close {
    pub(super) fast: bool,
}

#[derive(Deserialize)]
pub(super) struct WantedTools {
    #[serde(default)]
    pub(super) server: Option<String>,
    #[serde(default)]
    pub(super) view: Option<u32>,
    #[serde(default)]
    pub(super) loaded: bool,
    #[serde(default)]
    pub(super) app: bool,
    #[serde(default)]
    pub(super) order: ToolOrder,
}

#[derive(Deserialize)]
pub(super) struct NamedTools {
    pub(super) tools: Vec<String>,
    pub(super) options: Limits,
}

#[derive(Deserialize)]
pub(super) struct Search {
    pub(super) query: String,
    #[serde(default)]
    pub(super) limit: Option<usize>,
    #[serde(default)]
    pub(super) view: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartTool {
    #[serde(default)]
    pub(super) server: Option<String>,
    pub(super) tool: String,
    pub(super) arguments: Box<RawValue>,
    pub(super) options: Limits,
    #[serde(default)]
    pub(super) ttl_ms: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct ResumeTask {
    pub(super) server: String,
    pub(super) task: String,
    #[serde(default)]
    pub(super) tool: Option<String>,
    pub(super) options: Limits,
}

#[derive(Deserialize)]
pub(super) struct OfTask {
    pub(super) handle: u32,
}

#[derive(Deserialize)]
pub(super) struct GetPrompt {
    pub(super) name: String,
    #[serde(default)]
    pub(super) named: Option<Vec<(String, String)>>,
    #[serde(default)]
    pub(super) positional: Option<Vec<String>>,
    pub(super) options: Limits,
}

#[derive(Deserialize)]
pub(super) struct SlashCommand {
    pub(super) line: String,
    pub(super) options: Limits,
}

#[derive(Deserialize)]
pub(super) struct ReadResource {
    pub(super) server: String,
    pub(super) uri: String,
    pub(super) buffer: bool,
    pub(super) options: Limits,
}

#[derive(Deserialize)]
pub(super) struct LoadSkill {
    pub(super) server: String,
    pub(super) name: String,
    pub(super) options: Limits,
}

#[derive(Deserialize)]
pub(super) struct ReadSkillFile {
    pub(super) server: String,
    pub(super) skill: String,
    pub(super) path: String,
    pub(super) bytes: bool,
    pub(super) options: Limits,
}

#[derive(Deserialize)]
pub(super) struct Subscribe {
    pub(super) server: String,
    pub(super) uri: String,
    pub(super) subscribe: bool,
}

#[derive(Deserialize)]
pub(super) struct Complete {
    pub(super) server: String,
    pub(super) reference: Box<RawValue>,
    pub(super) argument: Box<RawValue>,
    #[serde(default)]
    pub(super) context: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
pub(super) struct LogLevel {
    pub(super) server: String,
    pub(super) level: String,
}

#[derive(Deserialize)]
pub(super) struct Roots {
    pub(super) roots: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct RawRequest {
    pub(super) server: String,
    pub(super) method: String,
    pub(super) params: Box<RawValue>,
    pub(super) options: Limits,
}
