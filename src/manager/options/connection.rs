//! Options that become settings of every connection: times, limits, who we are, the ways through the network.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::members::{MAX_MILLIS, Members, at_least_one, choice, count, invalid, millis, take};
use crate::client::input::InputSettings;
use crate::client::open::Introduction;
use crate::client::pages::ListLimits;
use crate::config::policy::Gate;
use crate::config::spec::{ProxyChoice, StartPolicy, TlsSpec};
use crate::connection::backoff::Backoff;
use crate::connection::liveness::Pulse;
use crate::connection::pool::StartPools;
use crate::connection::settings::{Clocks, ConnectionSettings, ShellEnvironment};
use crate::environment::Environment;
use crate::error::McpError;
use crate::json_scan;
use crate::official::fetch::OFFICIAL;
use crate::official::{Known, Officials};
use crate::protocol::capability::{ClientFeatures, ClientIdentity};
use crate::protocol::classify::{Classifier, OwnNames};
use crate::secret::{SafeUrl, Secret};
use crate::transport::stdio::ShutdownTimes;
use crate::transport::websocket::PingTimes;

/// Default of `probeTimeoutMs` (PRO-03).
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Default of `maxMessageBytes` and `maxQueuedBytes`.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Values of `start`.
const START: [(&str, StartPolicy); 3] =
    [("eager", StartPolicy::Eager), ("lazy", StartPolicy::Lazy), ("required", StartPolicy::Required)];
/// Longest time between pings: a day.
const MAX_PING_MILLIS: u64 = 24 * 3_600_000;

/// The settings of every connection.
///
/// # Errors
/// `INVALID_ARGUMENT` naming the option.
pub(super) fn connection_settings(
    members: &Members<'_>,
    cwd: &Path,
    environment: Arc<Environment>,
) -> Result<ConnectionSettings, McpError> {
    let preset = Clocks::from_environment(&environment);
    let clocks = Clocks {
        connect: millis(members, "connectTimeoutMs")?.unwrap_or(preset.connect),
        request: millis(members, "requestTimeoutMs")?.unwrap_or(preset.request),
        tool_idle: millis(members, "toolTimeoutMs")?.unwrap_or(preset.tool_idle),
        total: millis(members, "maxTotalTimeoutMs")?,
    };
    let identity = match take::<ClientInfo>(members, "clientInfo")? {
        Some(info) => ClientIdentity { name: info.name, version: info.version, title: info.title },
        None => ClientIdentity {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            title: None,
        },
    };
    let lists = ListLimits::default();
    let stderr = choice(members, "stderr", &[("capture", false), ("inherit", true)])?;
    Ok(ConnectionSettings {
        clocks,
        backoff: backoff(members)?,
        start: choice(members, "start", &START)?.unwrap_or(StartPolicy::Eager),
        pulse: pulse(members)?,
        pools: StartPools::new(
            at_least_one(members, "localConcurrency")?,
            at_least_one(members, "remoteConcurrency")?,
        ),
        lists: ListLimits {
            pages: count(members, "maxListPages", lists.pages)?,
            items: count(members, "maxListItems", lists.items)?,
            ..lists
        },
        classifier: take::<OwnNames>(members, "classification")?
            .map(|own| Classifier::with(&own))
            .unwrap_or_default(),
        catalog_ttl: Duration::from_millis(take(members, "catalogTtlMs")?.unwrap_or(20_000)),
        max_message: count(members, "maxMessageBytes", MAX_BYTES)?,
        max_queued: count(members, "maxQueuedBytes", MAX_BYTES)?,
        shutdown: shutdown(members)?,
        ping: ping(members)?,
        introduction: Introduction {
            identity,
            // Filled in when it is known which callbacks there are.
            features: ClientFeatures { roots: true, ..ClientFeatures::default() },
        },
        inputs: inputs(members)?,
        probe: millis(members, "probeTimeoutMs")?.unwrap_or(PROBE_TIMEOUT),
        environment,
        shell_env: shell_env(members)?,
        predecessors: None,
        cwd: cwd.to_path_buf(),
        inherit_stderr: stderr.unwrap_or(false),
        max_resumptions: take::<HttpOption>(members, "http")?
            .and_then(|http| http.max_resumptions)
            .unwrap_or(5),
        tls: take::<TlsOption>(members, "tls")?.map(TlsOption::into_spec),
        proxy: proxy(members)?,
        account: None,
        recorder: None,
        officials: officials(members)?,
        gate: Gate::new(Vec::new(), ""),
    })
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct ClientInfo {
    name: String,
    version: String,
    #[serde(default)]
    title: Option<String>,
}

fn backoff(members: &Members<'_>) -> Result<Backoff, McpError> {
    let own = take::<RetryOption>(members, "retry")?.unwrap_or_default();
    let preset = Backoff::default();
    Ok(Backoff {
        attempts: own.attempts.unwrap_or(preset.attempts),
        initial: own.initial_delay_ms.map_or(preset.initial, Duration::from_millis),
        longest: own.max_delay_ms.map_or(preset.longest, Duration::from_millis),
    })
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct RetryOption {
    attempts: Option<u32>,
    initial_delay_ms: Option<u64>,
    max_delay_ms: Option<u64>,
}

fn shutdown(members: &Members<'_>) -> Result<ShutdownTimes, McpError> {
    let own = take::<ShutdownOption>(members, "shutdown")?.unwrap_or_default();
    let preset = ShutdownTimes::default();
    Ok(ShutdownTimes {
        grace: own.grace_ms.map_or(preset.grace, Duration::from_millis),
        term: own.term_ms.map_or(preset.term, Duration::from_millis),
        fast_int: own.fast_int_ms.map_or(preset.fast_int, Duration::from_millis),
        fast_term: own.fast_term_ms.map_or(preset.fast_term, Duration::from_millis),
    })
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct ShutdownOption {
    grace_ms: Option<u64>,
    term_ms: Option<u64>,
    fast_int_ms: Option<u64>,
    fast_term_ms: Option<u64>,
}

fn pulse(members: &Members<'_>) -> Result<Pulse, McpError> {
    let Some(own) = take::<HttpOption>(members, "http")? else { return Ok(Pulse::default()) };
    let preset = Pulse::default();
    Ok(Pulse {
        quiet: at_least(own.ping_interval_ms, preset.quiet),
        patience: at_least(own.pong_timeout_ms, preset.patience),
    })
}

/// The option `http`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct HttpOption {
    max_resumptions: Option<u32>,
    ping_interval_ms: Option<u64>,
    pong_timeout_ms: Option<u64>,
}

fn ping(members: &Members<'_>) -> Result<PingTimes, McpError> {
    let own = take::<PingOption>(members, "ws")?.unwrap_or_default();
    let preset = PingTimes::default();
    Ok(PingTimes {
        interval: at_least(own.ping_interval_ms, preset.interval),
        timeout: at_least(own.pong_timeout_ms, preset.timeout),
    })
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct PingOption {
    ping_interval_ms: Option<u64>,
    pong_timeout_ms: Option<u64>,
}

/// A time in milliseconds; a clock that ticks all the time would be no clock.
fn at_least(millis: Option<u64>, preset: Duration) -> Duration {
    millis.map_or(preset, |millis| Duration::from_millis(millis.clamp(10, MAX_PING_MILLIS)))
}

/// The option `tls`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object")]
struct TlsOption {
    #[serde(default)]
    ca: OneOrMany,
    cert: Option<String>,
    key: Option<String>,
    #[serde(default)]
    insecure_skip_verify: bool,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a string or an array of strings")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        OneOrMany::Many(Vec::new())
    }
}

impl TlsOption {
    fn into_spec(self) -> TlsSpec {
        TlsSpec {
            ca: match self.ca {
                OneOrMany::One(one) => vec![one],
                OneOrMany::Many(many) => many,
            },
            cert: self.cert,
            key: self.key.map(Secret::new),
            insecure_skip_verify: self.insecure_skip_verify,
        }
    }
}

/// The option `officialRegistry`: `"fetch"`, what was fetched, or `false`.
fn officials(members: &Members<'_>) -> Result<Option<Arc<Known>>, McpError> {
    let text = members.get("officialRegistry").map_or("false", |raw| raw.get());
    match (text, json_scan::pick(text, ["servers"])) {
        ("false" | "null", _) => Ok(None),
        _ if let Some(url) = registry_address(members) => Ok(Some(Arc::new(Known::at(url)))),
        (_, [Some(servers)]) if servers.starts_with('[') => {
            Ok(Some(Arc::new(Known::with(Officials::read(json_scan::elements(servers))))))
        }
        _ => Err(invalid("officialRegistry", "expected \"fetch\", {url}, {servers} or false")),
    }
}

/// Which registry is asked for: `"fetch"` the official one, `{url}` another.
fn registry_address(members: &Members<'_>) -> Option<String> {
    let text = members.get("officialRegistry")?.get();
    if text == "\"fetch\"" {
        return Some(OFFICIAL.to_owned());
    }
    let [url] = json_scan::pick(text, ["url"]);
    url.and_then(json_scan::decode).filter(|url| !url.is_empty()).map(Cow::into_owned)
}

/// The option `proxy`: a URL, or `false` for none.
fn proxy(members: &Members<'_>) -> Result<ProxyChoice, McpError> {
    match members.get("proxy").map(|raw| raw.get()) {
        None | Some("null") => Ok(ProxyChoice::Inherited),
        Some("false") => Ok(ProxyChoice::Off),
        Some(text) => match serde_json::from_str::<String>(text) {
            Ok(url) if !url.trim().is_empty() => Ok(ProxyChoice::Url(SafeUrl::new(url.trim()))),
            _ => Err(invalid("proxy", "expected a URL or false")),
        },
    }
}

/// The option `shellEnv`: `"auto"`, or `false` for none.
fn shell_env(members: &Members<'_>) -> Result<Option<Arc<ShellEnvironment>>, McpError> {
    match members.get("shellEnv").map(|raw| raw.get()) {
        None | Some("null" | "false") => Ok(None),
        Some("\"auto\"") => Ok(Some(Arc::default())),
        Some(_) => Err(invalid("shellEnv", "expected \"auto\" or false")),
    }
}

fn inputs(members: &Members<'_>) -> Result<InputSettings, McpError> {
    let preset = InputSettings::default();
    let delays = match take::<Vec<f64>>(members, "urlElicitationDelaysMs")? {
        None => preset.url_delays,
        Some(given) => given
            .into_iter()
            .map(|delay| {
                (0.0..=MAX_MILLIS).contains(&delay).then(|| Duration::from_secs_f64(delay / 1_000.0))
            })
            .collect::<Option<_>>()
            .ok_or_else(|| invalid("urlElicitationDelaysMs", "expected times in milliseconds"))?,
    };
    let rounds = take::<u32>(members, "maxInputRounds")?.unwrap_or(preset.max_rounds);
    let decline = choice(members, "secretForms", &[("ask", false), ("decline", true)])?;
    let decline_secrets = decline.unwrap_or(preset.decline_secrets);
    Ok(InputSettings { max_rounds: rounds, decline_secrets, url_delays: delays })
}
