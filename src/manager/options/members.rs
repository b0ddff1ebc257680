//! Members of the options object, taken one by one: each mistake names the option.

use std::collections::HashMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::{ErrorCode, McpError};

/// The options object: JSON text by name.
pub(super) type Members<'a> = HashMap<String, &'a RawValue>;

/// Takes one option. `null` is no value: it is what `NaN` and infinity become on their way here.
pub(super) fn take<T: DeserializeOwned>(members: &Members<'_>, name: &str) -> Result<Option<T>, McpError> {
    let Some(raw) = members.get(name) else { return Ok(None) };
    serde_json::from_str::<T>(raw.get()).map(Some).map_err(|error| invalid(name, &error.to_string()))
}

/// The error for an option.
pub(super) fn invalid(name: &str, why: &str) -> McpError {
    // serde says where in the text it stopped; the option's name says more.
    let why = why.split(" at line ").next().unwrap_or(why);
    McpError::new(ErrorCode::InvalidArgument, format!("options.{name}: {why}"))
        .with(|facts| facts.parameter = Some(format!("options.{name}")))
}

/// A time of at least 1 ms.
pub(super) fn millis(members: &Members<'_>, name: &str) -> Result<Option<Duration>, McpError> {
    match take::<f64>(members, name)? {
        None => Ok(None),
        Some(value) if (1.0..=MAX_MILLIS).contains(&value) => {
            Ok(Some(Duration::from_secs_f64(value / 1_000.0)))
        }
        Some(_) => Err(invalid(name, "expected a time in milliseconds, at least 1")),
    }
}

/// Longest time that can be set: a year.
pub(super) const MAX_MILLIS: f64 = 366.0 * 24.0 * 3_600_000.0;

/// A number of at least 1.
pub(super) fn count(members: &Members<'_>, name: &str, default: usize) -> Result<usize, McpError> {
    match take::<usize>(members, name)? {
        Some(0) => Err(invalid(name, "expected a number of at least 1")),
        other => Ok(other.unwrap_or(default)),
    }
}

/// The same, without a default.
pub(super) fn at_least_one(members: &Members<'_>, name: &str) -> Result<Option<usize>, McpError> {
    Ok(members.get(name).map(|_| count(members, name, 0)).transpose()?.filter(|number| *number > 0))
}

/// One of some words.
pub(super) fn choice<T: Copy>(
    members: &Members<'_>,
    name: &str,
    choices: &[(&str, T)],
) -> Result<Option<T>, McpError> {
    let Some(given) = take::<String>(members, name)? else { return Ok(None) };
    choices.iter().find(|(text, _)| *text == given).map(|(_, value)| Some(*value)).ok_or_else(|| {
        let texts: Vec<String> = choices.iter().map(|(text, _)| format!("\"{text}\"")).collect();
        invalid(name, &format!("expected {}, got \"{given}\"", texts.join(" or ")))
    })
}
