//! Control requests: which may be made, what is asked of the host, what is answered (BRG-03, BRG-04). Pure.
//!
//! The list is closed. Nothing of it touches servers, approvals or policy (B-193): that is confirmed where the host runs.

use super::message::quoted;
use crate::json_scan::{self, Kind};
use crate::jsonrpc::write::{inner_members, push_member};

/// Code of the refusal while remote control is not enabled.
pub const DISABLED: &str = "remote_control_disabled";
/// What the refusal says.
pub const ENABLE_LOCALLY: &str = "this session only sends; remote control must be enabled where the session runs before it can be changed from outside";

/// The control requests there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subtype {
    /// What the session can do.
    Initialize,
    /// Another model.
    SetModel,
    /// Another budget of thinking.
    SetMaxThinkingTokens,
    /// Another permission mode: the host's policy decides.
    SetPermissionMode,
    /// Stop what runs.
    Interrupt,
}

impl Subtype {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "initialize" => Subtype::Initialize,
            "set_model" => Subtype::SetModel,
            "set_max_thinking_tokens" => Subtype::SetMaxThinkingTokens,
            "set_permission_mode" => Subtype::SetPermissionMode,
            "interrupt" => Subtype::Interrupt,
            _ => return None,
        })
    }
}

/// Requests under names that would change what only a person at the session may change.
const CONFIRMED_LOCALLY: [&str; 8] = [
    "add_server",
    "addServer",
    "approve",
    "approve_server",
    "approveServer",
    "set_policy",
    "setPolicy",
    "set_permissions",
];

/// Why a request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// For programs.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

impl Refused {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// What is done with a request (JSON text of `{subtype, …}`).
///
/// # Errors
/// [`Refused`], for the reply.
pub fn decide(request: &str, outbound_only: bool, host_answers: bool) -> Result<Subtype, Refused> {
    let [name, model, tokens, mode] =
        json_scan::pick(request, ["subtype", "model", "max_thinking_tokens", "mode"]);
    let name = name.and_then(json_scan::decode).unwrap_or_default();
    let Some(subtype) = Subtype::of(&name) else {
        let shown: String = crate::unicode::clean_str_lossy(&name).chars().take(60).collect();
        return Err(if CONFIRMED_LOCALLY.contains(&&*name) {
            Refused::new(
                "needs_local_confirmation",
                format!("{shown} is confirmed where the session runs, never from outside"),
            )
        } else {
            Refused::new("unknown_subtype", format!("there is no control request {shown:?}"))
        });
    };
    if outbound_only && subtype != Subtype::Initialize {
        return Err(Refused::new(DISABLED, ENABLE_LOCALLY));
    }
    let wrong = |what: &str| Err(Refused::new("invalid_request", format!("{name}: expected {what}")));
    let kind_of = |value: Option<&str>| value.map_or(Kind::Null, json_scan::kind);
    match subtype {
        Subtype::SetModel if !is_text(model) && kind_of(model) != Kind::Null => {
            return wrong("model to be a name, or null for the default");
        }
        Subtype::SetMaxThinkingTokens
            if kind_of(tokens) != Kind::Null
                && tokens.and_then(|text| text.parse::<u32>().ok()).is_none() =>
        {
            return wrong("max_thinking_tokens to be a whole number from 0 on, or null for the default");
        }
        Subtype::SetPermissionMode if !is_text(mode) => return wrong("mode to be a name"),
        _ => {}
    }
    if !host_answers && subtype != Subtype::Initialize {
        return Err(Refused::new("unsupported", "this session takes no control requests"));
    }
    Ok(subtype)
}

fn is_text(value: Option<&str>) -> bool {
    value.is_some_and(|value| json_scan::kind(value) == Kind::String && value != "\"\"")
}

/// What the reply says after the host has answered (JSON text).
///
/// # Errors
/// The host refuses: `{ok: false, error}`, or no verdict about a permission mode, which is none in its favour.
pub fn judge_answer(subtype: Subtype, answer: &str, pid: u32) -> Result<String, Refused> {
    let answer = if json_scan::kind(answer) == Kind::Object { answer } else { "{}" };
    let [ok, error] = json_scan::pick(answer, ["ok", "error"]);
    if ok == Some("false") {
        let why = error.filter(|text| json_scan::kind(text) == Kind::String).and_then(json_scan::decode);
        return Err(Refused::new("refused", why.map_or("the session refuses".to_owned(), Into::into)));
    }
    match subtype {
        Subtype::Initialize => Ok(introduction(answer, pid)),
        Subtype::SetPermissionMode if ok != Some("true") => {
            Err(Refused::new("refused", "the session's policy gave no verdict in favour of this mode"))
        }
        _ => Ok(answer.to_owned()),
    }
}

/// What `initialize` answers: the host's words, and defaults for what it does not say.
fn introduction(answer: &str, pid: u32) -> String {
    let mut members = inner_members(answer).unwrap_or_default().to_owned();
    let defaults = [
        ("commands", "[]".to_owned()),
        ("output_style", "\"default\"".to_owned()),
        ("models", "[]".to_owned()),
        ("account", "{}".to_owned()),
        ("pid", pid.to_string()),
    ];
    for (name, value) in defaults {
        if !json_scan::members(answer).any(|member| member.is(name)) {
            push_member(&mut members, name, &value);
        }
    }
    format!("{{{members}}}")
}

/// The reply to a request: JSON text of the whole message.
pub fn reply(uuid: &str, request_id: &str, outcome: &Result<String, Refused>) -> String {
    let (uuid, request_id) = (quoted(uuid), quoted(request_id));
    let outcome = match outcome {
        Ok(response) => format!(r#""subtype":"success","request_id":{request_id},"response":{response}"#),
        Err(Refused { code, message }) => format!(
            r#""subtype":"error","request_id":{request_id},"code":{},"error":{}"#,
            quoted(code),
            quoted(message)
        ),
    };
    format!(r#"{{"type":"control_response","uuid":{uuid},"response":{{{outcome}}}}}"#)
}

/// What is sent in the place of an answer that is too large; `None` where that would be no smaller, or it answers no
/// control request.
pub fn in_place_of(uuid: &str, answer: &str) -> Option<String> {
    let [response] = json_scan::pick(answer, ["response"]);
    let [request_id] = json_scan::pick(response?, ["request_id"]);
    let request_id = json_scan::decode(request_id?)?;
    let message = format!("the answer has {} bytes, which are too many", answer.len());
    let instead = reply(uuid, &request_id, &Err(Refused::new("too_large", message)));
    (instead.len() < answer.len()).then_some(instead)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn code(request: &str, outbound_only: bool, host_answers: bool) -> &'static str {
        decide(request, outbound_only, host_answers).err().map_or("", |refused| refused.code)
    }

    #[test]
    fn brg_03_five_control_requests_and_no_other() {
        for (request, expected) in [
            (r#"{"subtype":"initialize"}"#, ""),
            (r#"{"subtype":"set_model","model":"m"}"#, ""),
            (r#"{"subtype":"set_model","model":null}"#, ""),
            (r#"{"subtype":"set_model"}"#, ""),
            (r#"{"subtype":"set_model","model":7}"#, "invalid_request"),
            (r#"{"subtype":"set_model","model":""}"#, "invalid_request"),
            (r#"{"subtype":"set_max_thinking_tokens","max_thinking_tokens":0}"#, ""),
            (r#"{"subtype":"set_max_thinking_tokens","max_thinking_tokens":null}"#, ""),
            (r#"{"subtype":"set_max_thinking_tokens","max_thinking_tokens":-1}"#, "invalid_request"),
            (r#"{"subtype":"set_max_thinking_tokens","max_thinking_tokens":1.5}"#, "invalid_request"),
            (r#"{"subtype":"set_max_thinking_tokens","max_thinking_tokens":"9"}"#, "invalid_request"),
            (r#"{"subtype":"set_permission_mode","mode":"plan"}"#, ""),
            (r#"{"subtype":"set_permission_mode"}"#, "invalid_request"),
            (r#"{"subtype":"interrupt"}"#, ""),
            (r#"{"subtype":"Interrupt"}"#, "unknown_subtype"),
            (r#"{"subtype":7}"#, "unknown_subtype"),
            (r"{}", "unknown_subtype"),
        ] {
            assert_eq!(code(request, false, true), expected, "{request}");
        }
        assert_eq!(code(r#"{"subtype":"interrupt"}"#, false, false), "unsupported");
        assert_eq!(code(r#"{"subtype":"initialize"}"#, false, false), "");
    }

    #[test]
    fn b_193_configuration_approval_and_policy_are_confirmed_locally() {
        for name in CONFIRMED_LOCALLY {
            let request = format!(r#"{{"subtype":"{name}","config":{{"command":"x"}}}}"#);
            assert_eq!(code(&request, false, true), "needs_local_confirmation", "{name}");
            assert_eq!(code(&request, true, true), "needs_local_confirmation", "{name}");
        }
    }

    #[test]
    fn brg_04_outbound_only_refuses_whatever_changes_state() {
        for name in ["set_model", "set_max_thinking_tokens", "set_permission_mode", "interrupt"] {
            let refused = decide(&format!(r#"{{"subtype":"{name}","mode":"m"}}"#), true, true).unwrap_err();
            assert_eq!(refused.code, DISABLED, "{name}");
            assert!(refused.message.contains("must be enabled where the session runs"), "{refused:?}");
        }
        assert_eq!(decide(r#"{"subtype":"initialize"}"#, true, true), Ok(Subtype::Initialize));
    }

    #[test]
    fn brg_03_initialize_answers_what_the_host_says_and_defaults() {
        let read = |answer: &str| -> Value {
            serde_json::from_str(&judge_answer(Subtype::Initialize, answer, 7).unwrap()).unwrap()
        };
        let defaults =
            json!({"commands": [], "output_style": "default", "models": [], "account": {}, "pid": 7});
        assert_eq!(read("null"), defaults);
        assert_eq!(read("{}"), defaults);
        let own = read(r#"{"models":["m"],"pid":9,"more":true}"#);
        assert_eq!((&own["models"], &own["pid"], &own["more"]), (&json!(["m"]), &json!(9), &json!(true)));
        assert_eq!(own["commands"], json!([]));
    }

    #[test]
    fn brg_03_the_hosts_policy_decides_on_permission_modes() {
        let mode = |answer| judge_answer(Subtype::SetPermissionMode, answer, 1);
        assert_eq!(mode(r#"{"ok":true}"#), Ok(r#"{"ok":true}"#.to_owned()));
        for answer in ["null", "{}", r#"{"ok":"true"}"#] {
            assert_eq!(mode(answer).unwrap_err().code, "refused", "{answer}");
        }
        let refused = mode(r#"{"ok":false,"error":"not here"}"#).unwrap_err();
        assert_eq!((refused.code, refused.message.as_str()), ("refused", "not here"));
        assert_eq!(judge_answer(Subtype::SetModel, "null", 1), Ok("{}".to_owned()));
        assert!(judge_answer(Subtype::SetModel, r#"{"ok":false}"#, 1).is_err());
    }

    #[test]
    fn brg_03_an_answer_that_is_too_large_has_one_in_its_place() {
        let answer = reply("u", "r\"1", &Ok(format!("{{\"a\":\"{}\"}}", "x".repeat(300))));
        let instead = in_place_of("v", &answer).unwrap();
        let value: Value = serde_json::from_str(&instead).unwrap();
        assert_eq!(
            (&value["response"]["request_id"], &value["response"]["code"]),
            (&json!("r\"1"), &json!("too_large"))
        );
        assert_eq!(in_place_of("w", &instead), None, "not one for the other without end");
        assert_eq!(
            in_place_of("w", &super::super::message::refusal("u", None, "c", &"why".repeat(200))),
            None
        );
    }

    #[test]
    fn brg_03_replies_name_their_request() {
        let read = |outcome| -> Value { serde_json::from_str(&reply("u", "r\"1", &outcome)).unwrap() };
        assert_eq!(
            read(Ok("{\"a\":1}".to_owned())),
            json!({"type": "control_response", "uuid": "u",
                "response": {"subtype": "success", "request_id": "r\"1", "response": {"a": 1}}})
        );
        assert_eq!(
            read(Err(Refused::new("c", "why"))),
            json!({"type": "control_response", "uuid": "u",
                "response": {"subtype": "error", "request_id": "r\"1", "code": "c", "error": "why"}})
        );
    }
}
