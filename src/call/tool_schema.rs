//! Structured results against a tool's `outputSchema`, arguments against its `inputSchema` (CAL-03, CAL-05,
//! mcp:TOOL-11, mcp:JS-01 … JS-09).
//!
//! Dialects: 2020-12 (the default), 2019-09, draft-07, draft-06, draft-04. References stay within the schema; nothing
//! is ever fetched. A schema that cannot be used is said to be so once and never counts as a match.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::schema_cost::CostModel;
use crate::diagnostic::Diagnostic;
use crate::json_scan;
use crate::protocol::definition::shown;

/// Largest text that is checked, in bytes.
pub const CHECK_LIMIT: usize = 8 * 1024 * 1024;
/// Largest schema that is compiled, in bytes.
const SCHEMA_LIMIT: usize = 512 * 1024;
/// Most evaluations of subschemas in one check.
const EVALUATION_BUDGET: u64 = 20_000_000;
/// Largest compiled regular expression, in bytes.
const PATTERN_LIMIT: usize = 256 * 1024;
/// Most steps of a regular expression that looks around or back.
const BACKTRACK_LIMIT: usize = 10_000;

/// Outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaCheck {
    /// It fits.
    Match,
    /// It does not; one line says where and why.
    Mismatch(String),
    /// It was not checked; one line says why.
    Skipped(String),
}

impl SchemaCheck {
    /// The line of a mismatch.
    pub fn mismatch(&self) -> Option<&str> {
        match self {
            Self::Mismatch(line) => Some(line),
            _ => None,
        }
    }
}

/// Which of a tool's schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaUse {
    /// `inputSchema`.
    Input,
    /// `outputSchema`.
    Output,
}

impl SchemaUse {
    fn schema(self) -> &'static str {
        match self {
            Self::Input => "inputSchema",
            Self::Output => "outputSchema",
        }
    }

    /// What is checked against it.
    fn instance(self) -> &'static str {
        match self {
            Self::Input => "arguments",
            Self::Output => "structuredContent",
        }
    }
}

/// A schema of one tool, compiled at its first use.
#[derive(Debug)]
pub struct ToolSchema {
    text: Arc<str>,
    usage: SchemaUse,
    compiled: OnceLock<Result<Compiled, String>>,
    /// Whether it was said that something could not be checked.
    said: AtomicBool,
}

#[derive(Debug)]
struct Compiled {
    validator: Validator,
    cost: CostModel,
}

impl ToolSchema {
    /// A schema by its text, as the server wrote it.
    pub fn new(text: Arc<str>, usage: SchemaUse) -> Self {
        Self { text, usage, compiled: OnceLock::new(), said: AtomicBool::new(false) }
    }

    fn compiled(&self) -> Result<&Compiled, &str> {
        self.compiled.get_or_init(|| compile(&self.text)).as_ref().map_err(String::as_str)
    }

    /// Warning `OUTPUT_SCHEMA_UNUSABLE` or `INPUT_SCHEMA_UNUSABLE` for a check that was skipped; the first one only.
    pub fn note(&self, check: &SchemaCheck, server: &str, tool: &str) -> Option<Diagnostic> {
        let SchemaCheck::Skipped(reason) = check else { return None };
        if self.said.swap(true, Ordering::Relaxed) {
            return None;
        }
        let code = match self.usage {
            SchemaUse::Input => "INPUT_SCHEMA_UNUSABLE",
            SchemaUse::Output => "OUTPUT_SCHEMA_UNUSABLE",
        };
        let message = format!("{} of '{}' was not checked: {reason}", self.usage.instance(), shown(tool));
        Some(Diagnostic::warning(code, message).on(server))
    }

    /// Checks the text of arguments or of a `structuredContent`; `None` means that the result has none, which is a
    /// mismatch.
    ///
    /// Not for results with `isError`: they follow no schema (mcp:TOOL-11).
    pub fn check(&self, text: Option<&str>) -> SchemaCheck {
        let compiled = match self.compiled() {
            Ok(compiled) => compiled,
            Err(reason) => {
                return SchemaCheck::Skipped(format!("{} is not used: {reason}", self.usage.schema()));
            }
        };
        let what = self.usage.instance();
        let Some(text) = text else {
            return SchemaCheck::Mismatch(
                "the tool has an outputSchema, its result no structuredContent".to_owned(),
            );
        };
        if text.len() > CHECK_LIMIT {
            return SchemaCheck::Skipped(format!("{what}: larger than {CHECK_LIMIT} bytes"));
        }
        let Ok(instance) = serde_json::from_str::<Value>(text) else {
            return SchemaCheck::Skipped(format!("{what}: numbers beyond the range of a double"));
        };
        let depth = json_scan::scan(text).depth;
        if compiled.cost.evaluations(depth).saturating_mul(places(&instance)) > EVALUATION_BUDGET {
            return SchemaCheck::Skipped("the check would take too long".to_owned());
        }
        match compiled.validator.validate(&instance) {
            Ok(()) => SchemaCheck::Match,
            Err(error) => {
                let place = error.instance_path().to_string();
                let place = if place.is_empty() { what.to_owned() } else { shown(&place) };
                SchemaCheck::Mismatch(format!("{place}: {}", shown(&error.masked().to_string())))
            }
        }
    }
}

fn places(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(places).sum::<u64>(),
        Value::Object(members) => 1 + members.values().map(places).sum::<u64>(),
        _ => 1,
    }
}

fn compile(text: &str) -> Result<Compiled, String> {
    if text.len() > SCHEMA_LIMIT {
        return Err(format!("it is larger than {SCHEMA_LIMIT} bytes"));
    }
    let schema: Value = serde_json::from_str(text).map_err(|_| "it is not readable JSON".to_owned())?;
    let cost = CostModel::read(&schema)?;
    let patterns = PatternOptions::fancy_regex().size_limit(PATTERN_LIMIT).backtrack_limit(BACKTRACK_LIMIT);
    let validator = jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
        .build(&schema)
        .map_err(|error| format!("it is no valid schema: {}", shown(&error.to_string())))?;
    Ok(Compiled { validator, cost })
}

#[cfg(test)]
mod tests;
