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
#[serde(rename_all = "camelCase")]
struct Wire {
    behavior: Behavior,
    updated_input: Option<Box<RawValue>>,
    remember: Option<Remember>,
    message: Option<String>,
    interrupt: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Behavior {
    Allow,
    Deny,
}

/// Reads the JSON text of an answer. What is not exactly an answer counts as a refusal, also an `allow`
/// with a field that is not understood as written (`remember: "always"`, arguments that are no object).
/// The arguments stay as the host wrote them, number for number.
pub fn read_answer(text: &str) -> Answer {
    let Ok(wire) = serde_json::from_str::<Wire>(text) else { return not_understood() };
    match wire.behavior {
        Behavior::Deny => Answer::Deny { message: wire.message, interrupt: wire.interrupt.unwrap_or(false) },
        Behavior::Allow if wire.updated_input.as_ref().is_some_and(|input| !input.get().starts_with('{')) => {
            not_understood()
        }
        Behavior::Allow => Answer::Allow { updated_input: wire.updated_input, remember: wire.remember },
    }
}

fn not_understood() -> Answer {
    Answer::Deny {
        message: Some("The answer to the permission request was not understood".to_owned()),
        interrupt: false,
    }
}
