//! The pure functions of the package.

#![cfg_attr(test, allow(dead_code, reason = "the macros export nothing from a test binary"))]

use std::collections::HashMap;

use napi_derive::napi;

use super::to_napi;
use crate::bridge::gate::Account;
use crate::config::draft::Definition;
use crate::config::expand;
use crate::config::import;
use crate::config::settings;
use crate::config::verdict;
use crate::config::windows_command as windows;
use crate::error::{ErrorCode, McpError};
use crate::json_scan;
use crate::name;
use crate::official::Officials;
use crate::permission::{PermissionRules, RuleSet, Verdict, decide_full_name};
use crate::protocol::classify::{Classifier, OwnNames};
use crate::unicode::{self, Mode};

/// A name split in two.
#[napi(object)]
pub struct ParsedName {
    /// Server part.
    pub server: String,
    /// Tool part.
    pub tool: String,
}

/// An expanded text.
#[napi(object)]
pub struct ExpandedText {
    /// The text.
    pub value: String,
    /// Variables that are not set.
    pub missing: Vec<String>,
}

/// A command as Windows runs it.
#[napi(object)]
pub struct CommandLine {
    /// Program.
    pub command: String,
    /// Arguments.
    pub args: Vec<String>,
}

/// What the rules say.
#[napi(object)]
pub struct RuleDecision {
    /// `allow`, `ask`, `deny` or `passthrough`.
    pub decision: String,
    /// The rule that decided.
    pub rule: Option<String>,
}

/// Ends a turn of this thread: what it has written leaves together. Whether `look` is worth calling, turn by turn.
#[napi(catch_unwind)]
pub fn end_turn() -> bool {
    crate::runtime::end_turn()
}

/// Turns every character outside `[A-Za-z0-9_-]` into `_`.
#[napi(catch_unwind)]
pub fn normalize_name(text: String) -> String {
    name::normalize_name(&text)
}

/// `mcp__<server>__<tool>`.
#[napi(catch_unwind)]
pub fn build_tool_name(server: String, tool: String) -> String {
    name::build_tool_name(&server, &tool)
}

/// Splits a full name.
#[napi(catch_unwind)]
pub fn parse_tool_name(full_name: String) -> Option<ParsedName> {
    let (server, tool) = name::parse_tool_name(&full_name)?;
    Some(ParsedName { server: server.to_owned(), tool: tool.to_owned() })
}

/// Cleans the strings of a JSON text; `None` when nothing changes.
#[napi(catch_unwind)]
pub fn clean_json(json: String, strict: bool) -> napi::Result<Option<String>> {
    let mode = if strict { Mode::Strict } else { Mode::Invisible };
    let cleaned = unicode::clean_json(&json, mode).map_err(|unstable| to_napi(&McpError::from(unstable)))?;
    Ok(cleaned.map(|cleaned| cleaned.text))
}

/// What kind of tool a name promises.
#[napi(catch_unwind)]
pub fn classify_tool(tool: String, own: Option<String>) -> napi::Result<String> {
    let own: OwnNames = match own {
        Some(text) => serde_json::from_str(&text).map_err(|_| not_an_object("names"))?,
        None => OwnNames::default(),
    };
    Ok(Classifier::with(&own).classify(&tool).as_str().to_owned())
}

/// Expands `${VAR}` and `${VAR:-default}`.
#[napi(catch_unwind)]
pub fn expand_env(text: String, env: HashMap<String, String>) -> ExpandedText {
    let expanded = expand::expand_env(&text, &|variable: &str| env.get(variable).cloned());
    ExpandedText { value: expanded.value, missing: expanded.missing }
}

/// The command that starts a program on Windows.
#[napi(catch_unwind)]
pub fn windows_command(command: String, args: Vec<String>) -> napi::Result<CommandLine> {
    let (command, args) = windows::windows_command(&command, &args).map_err(|error| to_napi(&error))?;
    Ok(CommandLine { command, args })
}

/// What the rules (JSON text) say of a tool; `server` is given where the pair is known.
#[napi(catch_unwind)]
pub fn decide_permission(server: Option<String>, tool: String, rules: String) -> napi::Result<RuleDecision> {
    let rules: PermissionRules = serde_json::from_str(&rules).map_err(|_| {
        let error =
            McpError::new(ErrorCode::InvalidArgument, "rules: expected {allow?, ask?, deny?} of strings");
        to_napi(&error.with(|facts| facts.parameter = Some("rules".to_owned())))
    })?;
    let (rules, _) = RuleSet::compile(&rules);
    let verdict: Verdict<'_> = match &server {
        Some(server) => rules.decide(server, &tool),
        None => decide_full_name(&rules, &tool),
    };
    Ok(RuleDecision { decision: verdict.decision.as_str().to_owned(), rule: verdict.rule.map(str::to_owned) })
}

/// What a policy says about a server.
#[napi(object)]
pub struct PolicyDecision {
    /// Whether it may connect.
    pub allowed: bool,
    /// JSON text of the entry that decided.
    pub by: Option<String>,
    /// Why.
    pub reason: String,
}

/// Whether a server (JSON text of its definition) may connect under a policy (JSON text).
#[napi(catch_unwind)]
pub fn is_server_allowed(name: String, config: String, policy: String) -> napi::Result<PolicyDecision> {
    let definition: Definition = serde_json::from_str(&config).map_err(|_| not_an_object("config"))?;
    let policy: Definition = serde_json::from_str(&policy).map_err(|_| not_an_object("policy"))?;
    let (said, _) = settings::read(&policy);
    let decision = verdict::is_server_allowed(&name, &definition, &said);
    Ok(PolicyDecision {
        allowed: decision.allowed,
        by: decision.by.map(|by| by.to_string()),
        reason: decision.reason,
    })
}

/// The signature of a definition (JSON text).
#[napi(catch_unwind)]
pub fn server_signature(config: String) -> napi::Result<Option<String>> {
    let definition: Definition = serde_json::from_str(&config).map_err(|_| not_an_object("config"))?;
    Ok(verdict::definition_signature(&definition))
}

/// What is in the official registry.
#[napi]
pub struct NativeOfficials {
    officials: Officials,
}

#[napi]
impl NativeOfficials {
    /// Reads entries: JSON text of an array.
    #[napi(constructor, catch_unwind)]
    pub fn new(servers: String) -> Self {
        Self { officials: Officials::read(json_scan::elements(&servers)) }
    }

    /// Whether a definition (JSON text) is in it.
    #[napi(catch_unwind)]
    pub fn covers(&self, config: String) -> napi::Result<bool> {
        let definition: Definition = serde_json::from_str(&config).map_err(|_| not_an_object("config"))?;
        Ok(self.officials.covers(&definition))
    }
}

/// The servers of another product's file, as JSON text of `{servers, warnings}`.
#[napi(catch_unwind)]
pub fn import_config(path: String, format: String) -> napi::Result<String> {
    let imported = import::import_file(std::path::Path::new(&path), &format);
    imported.map(|imported| imported.to_json()).map_err(|error| to_napi(&error))
}

/// Why an account (JSON text) may not be controlled remotely; `None` where it may.
#[napi(catch_unwind)]
pub fn bridge_disabled_reason(account: String) -> napi::Result<Option<String>> {
    let account: Account = serde_json::from_str(&account).map_err(|_| not_an_object("account"))?;
    Ok(account.disabled_reason().map(str::to_owned))
}
fn not_an_object(parameter: &str) -> napi::Error {
    let error = McpError::new(ErrorCode::InvalidArgument, format!("{parameter}: expected an object"));
    to_napi(&error.with(|facts| facts.parameter = Some(parameter.to_owned())))
}

/// Version of the native half; the face checks that it fits.
#[napi(catch_unwind)]
pub fn native_version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
