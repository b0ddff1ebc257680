//! Durations as people write them. (F4)

use std::time::Duration;

use serde_json::Value;

/// Longest duration that is taken: 366 days. Anything longer is a slip, and clocks cannot hold all of it.
const LONGEST_MS: f64 = 366.0 * 24.0 * 3_600_000.0;

/// A duration and, where the unit looks mistaken, a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadDuration {
    /// The duration.
    pub(crate) duration: Duration,
    /// What may be wrong with it.
    pub(crate) hint: Option<String>,
}

/// Reads whole milliseconds greater than zero, or a text with a unit (`"500ms"`, `"30s"`, `"1.5m"`, `"2h"`).
/// The error says what was expected.
pub(crate) fn read_duration(value: &Value) -> Result<ReadDuration, String> {
    match value {
        Value::Number(number) => {
            let milliseconds = number.as_f64().unwrap_or(f64::NAN);
            if milliseconds.fract() != 0.0 {
                return Err("Expected whole milliseconds, or a text such as \"30s\"".to_owned());
            }
            let duration = bounded(milliseconds)?;
            let hint = (milliseconds < 1000.0).then(|| {
                format!("{milliseconds} means milliseconds; if seconds were meant, write \"{milliseconds}s\"")
            });
            Ok(ReadDuration { duration, hint })
        }
        Value::String(text) => Ok(ReadDuration { duration: bounded(with_unit(text)?)?, hint: None }),
        _ => Err("Expected milliseconds as a number, or a text such as \"30s\"".to_owned()),
    }
}

fn with_unit(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim_start() {
        "ms" => 1.0,
        "s" => 1000.0,
        "m" | "min" => 60_000.0,
        "h" => 3_600_000.0,
        "" => return Err("The duration has no unit; write a number of milliseconds, or \"30s\"".to_owned()),
        _ => return Err("Expected a unit of ms, s, m or h, as in \"30s\"".to_owned()),
    };
    let number: f64 =
        number.parse().map_err(|_| "Expected a number before the unit, as in \"30s\"".to_owned())?;
    Ok(number * factor)
}

fn bounded(milliseconds: f64) -> Result<Duration, String> {
    if !milliseconds.is_finite() || milliseconds <= 0.0 {
        return Err("Expected a duration greater than zero".to_owned());
    }
    if milliseconds > LONGEST_MS {
        return Err("The duration is longer than 366 days".to_owned());
    }
    Ok(Duration::from_secs_f64(milliseconds / 1000.0))
}
