//! The wire of 2026-07-28: what every request says of itself, how results are read, what servers hint about
//! caching (mcp:META-*, mcp:MRTR-*, mcp:CACHE-*). Pure; sends nothing.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::capability::{ClientFeatures, ClientIdentity, ServerCapabilities, ServerIntroduction};
use super::definition::{DESCRIPTION_LIMIT, TITLE_LIMIT, cut};
use super::version::{Era, ProtocolVersion};
use crate::error::{ErrorCode, McpError};
use crate::json_scan::{self, Kind};
use crate::jsonrpc::RpcError;
use crate::jsonrpc::write::{push_member, push_string};
use crate::unicode::{clean_counted, clean_str_lossy};

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const IDENTITY_KEY: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
/// Key that tells which subscription a notification belongs to (mcp:META-15).
pub const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// Keys of `_meta` that belong to the protocol; callers cannot set them (mcp:META-14).
const OUR_KEYS: [&str; 6] =
    [VERSION_KEY, IDENTITY_KEY, CAPABILITIES_KEY, LOG_LEVEL_KEY, SUBSCRIPTION_KEY, "progressToken"];

/// Levels of log messages, the least severe first.
pub const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Members of `_meta` that every request carries, progress token apart (mcp:META-01 to 06).
pub fn envelope(
    version: ProtocolVersion,
    features: ClientFeatures,
    identity: &ClientIdentity,
    log_level: Option<&str>,
) -> String {
    let mut members = String::new();
    push_member(&mut members, VERSION_KEY, &format!("\"{version}\""));
    push_member(&mut members, IDENTITY_KEY, &identity.to_json());
    push_member(&mut members, CAPABILITIES_KEY, &features.to_json(Era::Modern));
    if let Some(level) = log_level {
        push_member(&mut members, LOG_LEVEL_KEY, &json_scan::quote(level));
    }
    members
}

/// The caller's members of `_meta` without those that belong to the protocol (mcp:META-14).
pub fn callers_meta(members: &str) -> Cow<'_, str> {
    if members.is_empty() {
        return Cow::Borrowed(members);
    }
    let object = format!("{{{members}}}");
    let ours = |key: &str| OUR_KEYS.contains(&key);
    if !json_scan::members(&object).any(|member| ours(&member.key())) {
        return Cow::Borrowed(members);
    }
    let mut kept = String::with_capacity(members.len());
    for member in json_scan::members(&object).filter(|member| !ours(&member.key())) {
        push_member(&mut kept, &member.key(), member.value);
    }
    Cow::Owned(kept)
}

/// Refuses a method that the stateless era does not have, before anything is sent.
///
/// # Errors
/// `CAPABILITY_MISSING`.
pub fn check_method(method: &str) -> Result<(), McpError> {
    let removed = [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/list",
        "tasks/result",
    ];
    if !removed.contains(&method) {
        return Ok(());
    }
    let message = format!("{method} does not exist in protocol version {}", ProtocolVersion::MODERN[0]);
    Err(McpError::new(ErrorCode::CapabilityMissing, message))
}

/// One thing a server wants before it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// Its key as a JSON literal; the answer stands under the same.
    pub key: String,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// JSON text of its parameters.
    pub params: String,
}

/// What a server wants before it goes on, and what it wants to be reminded of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputRequired {
    /// Inputs, in the server's order.
    pub requests: Vec<InputRequest>,
    /// `requestState` as the JSON literal it came as: echoed byte for byte (mcp:MRTR-04, 05).
    pub state: Option<String>,
}

/// How a result is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// It is the result. Also where `resultType` is absent.
    Complete,
    /// The server asks first.
    InputRequired(InputRequired),
    /// It will be there later: the answer is a task (mcp:TASK-04).
    Task,
    /// It cannot be read: why.
    Invalid(String),
}

/// Most inputs of one round.
const MOST_INPUTS: usize = 64;

/// Reads `resultType` (mcp:MRTR-10).
pub fn read_result(result: &str) -> ResultKind {
    if json_scan::kind(result) != Kind::Object {
        return ResultKind::Invalid("is not an object".to_owned());
    }
    let [kind, requests, state] = json_scan::pick(result, ["resultType", "inputRequests", "requestState"]);
    let Some(kind) = kind else { return ResultKind::Complete };
    match json_scan::decode(kind).as_deref() {
        Some("complete") => ResultKind::Complete,
        Some("task") => ResultKind::Task,
        Some("input_required") => match read_inputs(requests, state) {
            Ok(required) => ResultKind::InputRequired(required),
            Err(why) => ResultKind::Invalid(why.to_owned()),
        },
        Some(other) => {
            let shown: String = clean_str_lossy(other).chars().take(50).collect();
            ResultKind::Invalid(format!("has the resultType \"{shown}\", which this host does not know"))
        }
        None => ResultKind::Invalid("has a resultType that is no string".to_owned()),
    }
}

fn read_inputs(requests: Option<&str>, state: Option<&str>) -> Result<InputRequired, &'static str> {
    if state.is_some_and(|state| json_scan::kind(state) != Kind::String) {
        return Err("has a requestState that is no string");
    }
    if requests.is_none() && state.is_none() {
        return Err("asks for input but names neither inputRequests nor requestState");
    }
    let mut inputs = Vec::new();
    if let Some(requests) = requests {
        inputs = read_input_requests(requests)?;
    }
    // Asked again without an answer, the server would be where it was.
    if inputs.is_empty() && state.is_none() {
        return Err("asks for no input and has no requestState");
    }
    Ok(InputRequired { requests: inputs, state: state.map(str::to_owned) })
}

/// Reads the requests of `inputRequests`, in the server's order.
///
/// # Errors
/// What is wrong with them.
pub fn read_input_requests(requests: &str) -> Result<Vec<InputRequest>, &'static str> {
    if json_scan::kind(requests) != Kind::Object {
        return Err("has inputRequests that are no object");
    }
    let inputs: Vec<InputRequest> = json_scan::members(requests).map(read_input).collect::<Result<_, _>>()?;
    if inputs.len() > MOST_INPUTS {
        return Err("asks for too many inputs at once");
    }
    Ok(inputs)
}

fn read_input(member: json_scan::Member<'_>) -> Result<InputRequest, &'static str> {
    let [method, params] = json_scan::pick(member.value, ["method", "params"]);
    let method = method.and_then(json_scan::decode).ok_or("has an input request without a method")?;
    if !["elicitation/create", "sampling/createMessage", "roots/list"].contains(&method.as_ref()) {
        return Err("asks for an input of a kind this host does not know");
    }
    Ok(InputRequest {
        key: member.literal.to_owned(),
        method: method.into_owned(),
        params: params.unwrap_or("{}").to_owned(),
    })
}

/// Whether a method may be answered with questions (mcp:MRTR-01).
pub fn may_ask(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// What a server says about keeping a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheHint {
    /// How long it is fresh; zero where nothing is said (mcp:CACHE-04).
    pub fresh_for: Duration,
    /// Whether others may be given it too.
    pub public: bool,
}

/// Longest time a list is taken for fresh, whatever the server says: a day.
const LONGEST_FRESH: u64 = 24 * 60 * 60 * 1_000;

impl CacheHint {
    /// Reads the hint of a result.
    pub fn read(result: &str) -> Self {
        let [ttl, scope] = json_scan::pick(result, ["ttlMs", "cacheScope"]);
        let millis =
            ttl.and_then(|text| text.parse::<f64>().ok()).filter(|value| *value > 0.0).unwrap_or(0.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and clamped")]
        let millis = (millis as u64).min(LONGEST_FRESH);
        Self { fresh_for: Duration::from_millis(millis), public: scope == Some("\"public\"") }
    }
}

/// What `server/discover` was answered with.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// Versions the server supports, in its order.
    pub supported: Vec<String>,
    result: String,
}

impl Discovery {
    /// Reads a result; `None` where it is no `DiscoverResult`.
    pub fn read(result: &str) -> Option<Self> {
        // Complete, or no answer to this question (mcp:BASE-15).
        if read_result(result) != ResultKind::Complete {
            return None;
        }
        let [versions, capabilities] = json_scan::pick(result, ["supportedVersions", "capabilities"]);
        let versions = versions.filter(|value| json_scan::kind(value) == Kind::Array)?;
        capabilities.filter(|value| json_scan::kind(value) == Kind::Object)?;
        Some(Self { supported: texts(versions), result: result.to_owned() })
    }

    /// What the server says of itself, read for the version that was chosen.
    pub fn introduction(&self, version: ProtocolVersion) -> ServerIntroduction {
        let [capabilities, instructions, meta] =
            json_scan::pick(&self.result, ["capabilities", "instructions", "_meta"]);
        let [server] = json_scan::pick(meta.unwrap_or("{}"), [SERVER_KEY]);
        let [name, server_version] = json_scan::pick(server.unwrap_or("{}"), ["name", "version"]);
        let capabilities = capabilities.unwrap_or("{}");
        let mut removed = 0;
        ServerIntroduction {
            protocol_version: version.as_str().to_owned(),
            capabilities: ServerCapabilities::read(capabilities, version),
            capabilities_text: Arc::from(capabilities),
            server_name: shown(name, TITLE_LIMIT, &mut removed),
            server_version: shown(server_version, TITLE_LIMIT, &mut removed),
            instructions: shown(instructions, DESCRIPTION_LIMIT, &mut removed),
            removed,
        }
    }
}

fn shown(value: Option<&str>, limit: usize, removed: &mut usize) -> Option<String> {
    let (text, hidden) = clean_counted(&json_scan::decode(value?)?);
    *removed += hidden;
    Some(cut(text, limit))
}

/// The strings of a JSON array, at most 100.
fn texts(array: &str) -> Vec<String> {
    json_scan::elements(array).filter_map(json_scan::decode).take(100).map(Cow::into_owned).collect()
}

/// Versions that an error with code −32022 names.
pub fn supported_versions(error: &RpcError) -> Vec<String> {
    let Some(data) = &error.data else { return Vec::new() };
    let [supported] = json_scan::pick(data.get(), ["supported"]);
    supported.map(texts).unwrap_or_default()
}

/// The public form of an error that only this era has; `None` for all others.
pub fn typed_error(error: &RpcError, method: &str) -> Option<McpError> {
    let typed = match error.code {
        super::negotiation::MISSING_CAPABILITY => {
            let missing = missing_capabilities(error);
            let message = format!("{method} needs a capability this host does not offer: {missing}");
            McpError::new(ErrorCode::CapabilityMissing, message)
        }
        super::negotiation::UNSUPPORTED_VERSION => versions_differ(&supported_versions(error)),
        _ => return None,
    };
    Some(typed.with(|facts| {
        facts.rpc_code = Some(error.code);
        facts.data.clone_from(&error.data);
    }))
}

/// Dotted names of the capabilities that an error asks for.
fn missing_capabilities(error: &RpcError) -> String {
    let data = error.data.as_deref().map_or("{}", serde_json::value::RawValue::get);
    let [required] = json_scan::pick(data, ["requiredCapabilities"]);
    let mut names = Vec::new();
    for capability in json_scan::members(required.unwrap_or("{}")).take(20) {
        let own = clean_str_lossy(&capability.key());
        let mut parts = json_scan::members(capability.value).take(20).peekable();
        if parts.peek().is_none() {
            names.push(own);
            continue;
        }
        names.extend(parts.map(|part| format!("{own}.{}", clean_str_lossy(&part.key()))));
    }
    if names.is_empty() { "the server does not say which".to_owned() } else { names.join(", ") }
}

/// The error that names both sides' versions (mcp:ERA-08).
pub fn versions_differ(theirs: &[String]) -> McpError {
    let mut message = String::from("the server speaks protocol versions ");
    let listed: Vec<String> = theirs
        .iter()
        .take(20)
        .map(|version| clean_str_lossy(version).chars().take(50).collect::<String>())
        .collect();
    message.push_str(&if listed.is_empty() { "it does not name".to_owned() } else { listed.join(", ") });
    let ours = ProtocolVersion::MODERN.iter().chain(&ProtocolVersion::LEGACY).map(|version| version.as_str());
    message.push_str("; this host speaks ");
    message.push_str(&ours.collect::<Vec<_>>().join(", "));
    McpError::new(ErrorCode::VersionUnsupported, message)
}

/// Members that a retry carries beside the original parameters: answers under their keys, and the state of
/// this round only (mcp:MRTR-06, 09).
pub fn retry_members(required: &InputRequired, answers: &[String]) -> String {
    let mut members = String::new();
    if !required.requests.is_empty() {
        let mut inputs = String::from("\"inputResponses\":{");
        for (place, (request, answer)) in required.requests.iter().zip(answers).enumerate() {
            if place > 0 {
                inputs.push(',');
            }
            inputs.push_str(&request.key);
            inputs.push(':');
            inputs.push_str(answer);
        }
        inputs.push('}');
        members.push_str(&inputs);
    }
    if let Some(state) = &required.state {
        push_member(&mut members, "requestState", state);
    }
    members
}

/// What a listen stream asks for (mcp:SUB-01).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenFilter {
    /// Changes of the list of tools.
    pub tools: bool,
    /// Changes of the list of prompts.
    pub prompts: bool,
    /// Changes of the lists of resources.
    pub resources: bool,
    /// Updates of these resources, by URI.
    pub uris: Vec<String>,
    /// News of these tasks, by id (mcp:TASK-15).
    pub tasks: Vec<String>,
}

impl ListenFilter {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        !self.tools && !self.prompts && !self.resources && self.uris.is_empty() && self.tasks.is_empty()
    }

    /// Members of the parameters of `subscriptions/listen`.
    pub fn to_members(&self) -> String {
        let mut wanted = String::new();
        for (name, on) in [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ] {
            if on {
                push_member(&mut wanted, name, "true");
            }
        }
        for (name, texts) in [("resourceSubscriptions", &self.uris), ("taskIds", &self.tasks)] {
            if !texts.is_empty() {
                push_member(&mut wanted, name, &list_of(texts));
            }
        }
        format!("\"notifications\":{{{wanted}}}")
    }

    /// Reads what a server acknowledged.
    pub fn read(notifications: &str) -> Self {
        let names = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];
        let [tools, prompts, resources] = json_scan::pick(notifications, names);
        let texts = |name| {
            let [list] = json_scan::pick(notifications, [name]);
            list.into_iter().flat_map(json_scan::elements).filter_map(json_scan::decode).map(Cow::into_owned)
        };
        Self {
            tools: tools == Some("true"),
            prompts: prompts == Some("true"),
            resources: resources == Some("true"),
            uris: texts("resourceSubscriptions").collect(),
            tasks: texts("taskIds").collect(),
        }
    }
}

/// JSON text of a list of strings.
fn list_of(texts: &[String]) -> String {
    let mut list = String::from("[");
    for (place, text) in texts.iter().enumerate() {
        if place > 0 {
            list.push(',');
        }
        push_string(&mut list, text);
    }
    list.push(']');
    list
}

#[cfg(test)]
mod tests;
