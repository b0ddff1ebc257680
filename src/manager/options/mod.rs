//! The options of a manager: read once, field by field, so that a mistake names the option.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

mod connection;
mod members;

use connection::connection_settings;
use members::{MAX_MILLIS, Members, choice, count, invalid, millis, take};

use super::audit;
use super::crowding::DEFAULT_BUDGET;
use super::login_wishes::LIFETIME;
use super::outputs::Retention;
use super::pins::PinMode;
use crate::call::budget::{DEFAULT_CEILING, DEFAULT_LIMIT, LargeOutput, OutputLimit};
use crate::config::settings::{RuleLists, Said};
use crate::config::{ConfigOptions, Places};
use crate::connection::settings::ConnectionSettings;
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError};
use crate::host::QuestionKind;
use crate::permission::PermissionRules;
use crate::protocol::content::MAX_IMAGE_BYTES;
use crate::protocol::sanitize::Sanitize;
use crate::state_dir::StateDir;

/// Options in force.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Options {
    /// Working directory of servers and of the configuration.
    pub cwd: PathBuf,
    /// JSON text of the `servers` option.
    pub servers: Option<String>,
    /// Which files are read; `None` reads none.
    pub config: Option<ConfigOptions>,
    /// Policy and permission rules of the host.
    pub said: Said,
    /// Where state is kept; `None` is the default place.
    pub state: Option<StateOption>,
    /// Whether changes of configuration files are noticed.
    pub watch: bool,
    /// The editor.
    pub ide: EditorChoice,
    /// Tools of editors that are taken over.
    pub ide_tools: Vec<String>,
    /// Where the audit log goes.
    pub audit: Option<audit::Target>,
    /// Where messages are written down (BEY-08).
    pub record_to: Option<PathBuf>,
    /// Whether arguments of calls are written there, without secrets; default false.
    pub audit_arguments: bool,
    /// Roots as URIs; `None` means the working directory.
    pub roots: Option<Vec<String>>,
    /// Settings of every connection, before those of its server.
    pub connection: ConnectionSettings,
    /// Wait for an answer to a permission question; default 10 min.
    pub permission_timeout: Duration,
    /// Longest full tool name; default 64.
    pub max_tool_name: usize,
    /// Tools that a list for a model may have before that is told; 0 means that nobody counts. (J9)
    pub tool_budget: usize,
    /// Whether tools of in-process servers get a prefix; default true. (NAM-06)
    pub sdk_prefix: bool,
    /// How results are cleaned; default `invisible`.
    pub sanitize_results: Sanitize,
    /// Whether a result that breaks its output schema is an error; default false.
    pub strict_output: bool,
    /// Most tokens of a result, and what happens above them; environment `MAX_MCP_OUTPUT_TOKENS`. (CAL-04)
    pub output_limit: OutputLimit,
    /// Longest base64 of an image that stays in a result; 0 means no limit. (K3)
    pub max_image: usize,
    /// Whether arguments are checked against the tool's input schema; default false. (CAL-05)
    pub validate_input: bool,
    /// Where files of results go; `None` means the state directory, or else a private temporary one.
    pub output_dir: Option<PathBuf>,
    /// How long those files are kept; `None` for ever.
    pub output_retention: Option<Retention>,
    /// Names no outside server may have.
    pub reserved_names: Vec<String>,
    /// Questions the host answers.
    pub callbacks: Vec<QuestionKind>,
    /// What a change of a tool's definition means; default `warn`. (SEC-06)
    pub pins: PinMode,
    /// Whether the host renders the views of MCP Apps; default false. (BEY-12)
    pub apps: bool,
    /// Where logins are kept.
    pub tokens: TokenChoice,
    /// How long it is remembered that a server asked for a login in vain; zero: not at all. (L5)
    pub login_memory: Duration,
    /// Option names nobody knows.
    pub unknown: Vec<String>,
    /// Functions under names that have none.
    pub stray_functions: Vec<String>,
}

/// The option `stateDir`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateOption {
    /// In memory only.
    Memory,
    /// A directory.
    Directory(PathBuf),
}

/// The option `ide`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditorChoice {
    /// There is none.
    None,
    /// JSON text of its definition.
    Given(String),
    /// Whichever has the working directory open.
    Discover,
}

/// The option `tokenStore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenChoice {
    /// Files in the state directory; in memory where there is none.
    Auto,
    /// The system's keychain.
    Keychain,
    /// Files in the state directory.
    File,
    /// In memory.
    Memory,
    /// The host's own.
    Host,
}

/// Default of `ideAllowedTools` (POL-10).
const IDE_TOOLS: [&str; 2] = ["executeCode", "getDiagnostics"];

/// Every option of the public contract, those of later versions included: they are no typing mistakes.
const KNOWN: &[&str] = &[
    "cwd",
    "clientInfo",
    "servers",
    "config",
    "policy",
    "permissions",
    "roots",
    "stateDir",
    "start",
    "tls",
    "proxy",
    "ide",
    "shellEnv",
    "stderr",
    "recordTo",
    "officialRegistry",
    "pinTools",
    "onPermission",
    "onElicitation",
    "onSampling",
    "onApproval",
    "onAuthorizationUrl",
    "getConnectorToken",
    "hooks",
    "traceContext",
    "tokenStore",
    "loginMemoryMs",
    "connectTimeoutMs",
    "requestTimeoutMs",
    "toolTimeoutMs",
    "maxTotalTimeoutMs",
    "permissionTimeoutMs",
    "maxMessageBytes",
    "maxQueuedBytes",
    "maxOutputTokens",
    "maxToolOutputTokens",
    "maxImageBytes",
    "onLargeOutput",
    "outputDir",
    "outputRetention",
    "maxToolNameLength",
    "sdkToolPrefix",
    "toolErrors",
    "localConcurrency",
    "remoteConcurrency",
    "toolConcurrency",
    "catalogTtlMs",
    "toolBudget",
    "apps",
    "classification",
    "retry",
    "http",
    "ws",
    "shutdown",
    "maxListPages",
    "maxListItems",
    "maxInputRounds",
    "secretForms",
    "urlElicitationDelaysMs",
    "probeTimeoutMs",
    "sanitizeResults",
    "validateInput",
    "strictOutput",
    "reservedServerNames",
    "ideAllowedTools",
    "watchConfig",
    "keepAlive",
    "auditLog",
    "auditArguments",
    "callbacks",
    "strayFunctions",
];

/// Default of `permissionTimeoutMs`.
const PERMISSION_TIMEOUT: Duration = Duration::from_secs(600);
/// Default of `maxToolNameLength`: the tightest of the large model APIs (NAM-05).
const MAX_TOOL_NAME: usize = 64;
/// Variable that turns `sdkToolPrefix` off (NAM-06).
const NO_PREFIX: &str = "CLAUDE_AGENT_SDK_MCP_NO_PREFIX";
/// Values of `pinTools`.
const PINS: [(&str, PinMode); 3] = [("warn", PinMode::Warn), ("ask", PinMode::Ask), ("off", PinMode::Off)];
/// Default of `reservedServerNames` (NAM-07).
const RESERVED: [&str; 3] = ["claude-in-chrome", "computer-use", "ide"];

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct PolicyOption {
    allowed_mcp_servers: Option<Vec<serde_json::Value>>,
    denied_mcp_servers: Option<Vec<serde_json::Value>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, expecting = "an object")]
struct RetentionOption {
    max_age_ms: Option<f64>,
    max_bytes: Option<u64>,
}

impl Options {
    /// Reads the options object from JSON text.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` naming the option.
    pub fn read(text: &str, environment: Arc<Environment>) -> Result<Self, McpError> {
        let members: Members<'_> = serde_json::from_str(text)
            .map_err(|_| McpError::new(ErrorCode::InvalidArgument, "options: expected an object"))?;
        let cwd = match take::<String>(&members, "cwd")? {
            Some(cwd) => environment.cwd.join(cwd),
            None => environment.cwd.clone(),
        };
        let no_prefix = environment.get(NO_PREFIX).is_some_and(is_truthy);
        let output_limit = output_limit(&members, &environment)?;
        let connection = connection_settings(&members, &cwd, environment)?;
        let config = ConfigOptions::from_json(members.get("config").map(|raw| raw.get()))
            .map_err(|error| invalid("config", error.message()))?;
        check_the_rest(&members)?;
        let sanitize =
            [("strict", Sanitize::Strict), ("invisible", Sanitize::Invisible), ("off", Sanitize::Off)];
        let callbacks = take::<Vec<String>>(&members, "callbacks")?.unwrap_or_default();
        let stray_functions = take(&members, "strayFunctions")?.unwrap_or_default();
        Ok(Self {
            servers: servers(&members)?,
            config,
            said: host_words(&members)?,
            state: state_option(&members, &cwd)?,
            watch: take(&members, "watchConfig")?.unwrap_or(false),
            ide: editor(&members)?,
            ide_tools: take(&members, "ideAllowedTools")?
                .unwrap_or_else(|| IDE_TOOLS.map(str::to_owned).to_vec()),
            audit: audit_target(&members, &callbacks, &cwd)?,
            audit_arguments: take(&members, "auditArguments")?.unwrap_or(false),
            record_to: take::<String>(&members, "recordTo")?.map(|path| cwd.join(path)),
            roots: take(&members, "roots")?,
            connection,
            permission_timeout: millis(&members, "permissionTimeoutMs")?.unwrap_or(PERMISSION_TIMEOUT),
            max_tool_name: count(&members, "maxToolNameLength", MAX_TOOL_NAME)?,
            tool_budget: take(&members, "toolBudget")?.unwrap_or(DEFAULT_BUDGET),
            sdk_prefix: take(&members, "sdkToolPrefix")?.unwrap_or(!no_prefix),
            sanitize_results: choice(&members, "sanitizeResults", &sanitize)?.unwrap_or(Sanitize::Invisible),
            strict_output: take(&members, "strictOutput")?.unwrap_or(false),
            output_limit,
            max_image: take(&members, "maxImageBytes")?.unwrap_or(MAX_IMAGE_BYTES),
            validate_input: take(&members, "validateInput")?.unwrap_or(false),
            output_dir: take::<String>(&members, "outputDir")?.map(|dir| cwd.join(dir)),
            output_retention: output_retention(&members)?,
            reserved_names: take(&members, "reservedServerNames")?
                .unwrap_or_else(|| RESERVED.map(str::to_owned).to_vec()),
            callbacks: QuestionKind::ALL
                .iter()
                .copied()
                .filter(|kind| callbacks.iter().any(|name| name == kind.callback()))
                .collect(),
            pins: choice(&members, "pinTools", &PINS)?.unwrap_or_default(),
            apps: take(&members, "apps")?.unwrap_or(false),
            tokens: token_choice(&members, &callbacks)?,
            login_memory: match members.get("loginMemoryMs").map(|raw| raw.get()) {
                Some("0") => Duration::ZERO,
                _ => millis(&members, "loginMemoryMs")?.unwrap_or(LIFETIME),
            },
            unknown: unknown_options(&members),
            stray_functions,
            cwd,
        })
    }
}

/// Names of options that nobody knows, sorted.
fn unknown_options(members: &Members<'_>) -> Vec<String> {
    let mut unknown: Vec<String> =
        members.keys().filter(|name| !KNOWN.contains(&name.as_str())).cloned().collect();
    unknown.sort();
    unknown
}

/// Whether a variable says yes.
fn is_truthy(value: &str) -> bool {
    !matches!(value.trim().to_ascii_lowercase().as_str(), "" | "0" | "false" | "no" | "off")
}

fn output_limit(members: &Members<'_>, environment: &Environment) -> Result<OutputLimit, McpError> {
    let given = take::<usize>(members, "maxOutputTokens")?;
    let known = || environment.get("MAX_MCP_OUTPUT_TOKENS").and_then(|value| value.trim().parse().ok());
    let outcomes =
        [("file", LargeOutput::File), ("truncate", LargeOutput::Truncate), ("error", LargeOutput::Error)];
    Ok(OutputLimit {
        tokens: given.or_else(known).unwrap_or(DEFAULT_LIMIT),
        ceiling: take(members, "maxToolOutputTokens")?.unwrap_or(DEFAULT_CEILING),
        on_large: choice(members, "onLargeOutput", &outcomes)?.unwrap_or(LargeOutput::File),
    })
}

/// The option `outputRetention`: limits, or `false` for none.
fn output_retention(members: &Members<'_>) -> Result<Option<Retention>, McpError> {
    let preset = Retention::default();
    match members.get("outputRetention").map(|raw| raw.get()) {
        None | Some("null") => Ok(Some(preset)),
        Some("false") => Ok(None),
        Some(_) => {
            let own = take::<RetentionOption>(members, "outputRetention")?.unwrap_or_default();
            let max_age = match own.max_age_ms {
                None => preset.max_age,
                Some(age) if (1.0..=MAX_MILLIS).contains(&age) => Duration::from_secs_f64(age / 1_000.0),
                Some(_) => {
                    return Err(invalid(
                        "outputRetention",
                        "maxAgeMs: expected a time in milliseconds, at least 1",
                    ));
                }
            };
            Ok(Some(Retention { max_age, max_bytes: own.max_bytes.unwrap_or(preset.max_bytes) }))
        }
    }
}

/// Options whose value matters elsewhere, or in a later version: a wrong one is a mistake all the same.
fn check_the_rest(members: &Members<'_>) -> Result<(), McpError> {
    for name in ["keepAlive", "watchConfig"] {
        take::<bool>(members, name)?;
    }
    for name in ["toolConcurrency", "maxInputRounds"] {
        count(members, name, 1)?;
    }
    Ok(())
}

impl Options {
    /// The state directory these options ask for.
    pub fn state_dir(&self, places: Option<&Places>) -> StateDir {
        let directory = match &self.state {
            Some(StateOption::Memory) => None,
            Some(StateOption::Directory(path)) => Some(path.clone()),
            None => places.and_then(Places::state_dir),
        };
        directory.map_or_else(StateDir::in_memory, StateDir::at)
    }
}

fn editor(members: &Members<'_>) -> Result<EditorChoice, McpError> {
    match members.get("ide").map_or("false", |raw| raw.get()) {
        "false" | "null" => Ok(EditorChoice::None),
        "\"discover\"" => Ok(EditorChoice::Discover),
        text if text.starts_with('{') => Ok(EditorChoice::Given(text.to_owned())),
        _ => Err(invalid("ide", "expected a definition, \"discover\" or false")),
    }
}

fn state_option(members: &Members<'_>, cwd: &Path) -> Result<Option<StateOption>, McpError> {
    match members.get("stateDir").map(|raw| raw.get()) {
        Some("false") => Ok(Some(StateOption::Memory)),
        _ => Ok(take::<String>(members, "stateDir")?.map(|path| StateOption::Directory(cwd.join(path)))),
    }
}

fn token_choice(members: &Members<'_>, callbacks: &[String]) -> Result<TokenChoice, McpError> {
    if members.get("tokenStore").is_some_and(|raw| raw.get().starts_with('{')) {
        let complete = ["tokenStore.get", "tokenStore.set", "tokenStore.delete"];
        if complete.iter().all(|needed| callbacks.iter().any(|name| name == needed)) {
            return Ok(TokenChoice::Host);
        }
        return Err(invalid("tokenStore", "expected the functions get, set and delete"));
    }
    let choices = [
        ("auto", TokenChoice::Auto),
        ("keychain", TokenChoice::Keychain),
        ("file", TokenChoice::File),
        ("memory", TokenChoice::Memory),
    ];
    Ok(choice(members, "tokenStore", &choices)?.unwrap_or(TokenChoice::Auto))
}

fn audit_target(
    members: &Members<'_>,
    callbacks: &[String],
    cwd: &Path,
) -> Result<Option<audit::Target>, McpError> {
    if callbacks.iter().any(|name| name == "auditLog") {
        return Ok(Some(audit::Target::Host));
    }
    Ok(take::<String>(members, "auditLog")?.map(|path| audit::Target::File(cwd.join(path))))
}

/// Policy and permission rules as the host gives them; a mistake in their shape is the host's to correct.
fn host_words(members: &Members<'_>) -> Result<Said, McpError> {
    let policy = take::<PolicyOption>(members, "policy")?.unwrap_or_default();
    let rules = take::<PermissionRules>(members, "permissions")?.unwrap_or_default();
    Ok(Said {
        allowed: policy.allowed_mcp_servers,
        denied: policy.denied_mcp_servers.unwrap_or_default(),
        rules: RuleLists { allow: rules.allow, ask: rules.ask, deny: rules.deny },
        ..Said::default()
    })
}

fn servers(members: &Members<'_>) -> Result<Option<String>, McpError> {
    match members.get("servers").map(|raw| raw.get()) {
        None | Some("null") => Ok(None),
        Some(text) if text.starts_with('{') => Ok(Some(text.to_owned())),
        Some(_) => Err(invalid("servers", "expected an object of server definitions by name")),
    }
}
