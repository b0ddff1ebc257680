//! What a host answers to a question for permission. (POL-08)

use serde::Deserialize;
use serde_json::value::RawValue;

/// How long an answer holds beyond its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Remember {
    /// Until the manager closes.
    Session,
    /// For good, in the project's local file.
    Local,
    /// For good, in the person's file.
    User,
}

/// An answer that was understood; everything else became a refusal.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Run the call.
    Allow {
        /// Arguments in place of those asked about: JSON text of an object.
        updated_input: Option<Box<RawValue>>,
        /// How long the answer holds.
        remember: Option<Remember>,
    },
    /// Do not run it.
    Deny {
        /// Why, for people.
        message: Option<String>,
        /// Stop the whole turn.
        interrupt: bool,
    },
}

#[derive(Deserialize)]
#[serde(tag = "behavior", rename_all = "lowercase")]
enum Wire {
    #[serde(rename_all = "camelCase")]
    Allow {
        updated_input: Option<serde_json::Map<String, serde_json::Value>>,
        remember: Option<Remember>,
    },
    Deny {
        message: Option<String>,
        interrupt: Option<bool>,
    },
}

/// Reads the JSON text of an answer. What is not exactly an answer counts as a refusal, also an `allow`
/// with a field that is not understood as written (`remember: "always"`, arguments that are no object).
pub fn read_answer(text: &str) -> Answer {
    match serde_json::from_str(text) {
        Ok(Wire::Allow { updated_input, remember }) => match as_raw(updated_input) {
            Ok(updated_input) => Answer::Allow { updated_input, remember },
            Err(_) => not_understood(),
        },
        Ok(Wire::Deny { message, interrupt }) => {
            Answer::Deny { message, interrupt: interrupt.unwrap_or(false) }
        }
        Err(_) => not_understood(),
    }
}

fn as_raw(
    input: Option<serde_json::Map<String, serde_json::Value>>,
) -> serde_json::Result<Option<Box<RawValue>>> {
    input.map(|fields| serde_json::value::to_raw_value(&fields)).transpose()
}

fn not_understood() -> Answer {
    Answer::Deny {
        message: Some("The answer to the permission request was not understood".to_owned()),
        interrupt: false,
    }
}
