//! What the other end sends, in three classes, and the two filters in front of user messages (BRG-02). Pure.
//!
//! Messages stay text; only the members that decide are looked at.

use super::uuid_set::BoundedUuidSet;
use crate::json_scan::{self, Kind};
use crate::jsonrpc::write::{inner_members, push_member, push_string};

/// Longest id that is kept or answered.
const LONGEST_ID: usize = 256;

/// A message by its class; texts are JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound<'a> {
    /// The answer to a permission question: `response` as it came, and the question it names.
    Permission {
        /// Id of the question.
        request_id: Option<String>,
        /// The answer.
        response: &'a str,
    },
    /// A control request.
    Control {
        /// Its id, which the reply names.
        request_id: String,
        /// `{subtype, …}`.
        request: &'a str,
    },
    /// Something that a person says.
    User {
        /// Its id.
        uuid: Option<String>,
    },
    /// Something else, or not what its type promises; why.
    Unusable(String),
}

/// Finds the class of a message (JSON text).
pub fn classify(message: &str) -> Inbound<'_> {
    if json_scan::kind(message) != Kind::Object {
        return Inbound::Unusable("a message that is no object".to_owned());
    }
    let [kind, uuid, request_id, request, response] =
        json_scan::pick(message, ["type", "uuid", "request_id", "request", "response"]);
    match kind.and_then(text).as_deref() {
        Some("control_response") => match response.filter(|text| json_scan::kind(text) == Kind::Object) {
            Some(response) => {
                let [named] = json_scan::pick(response, ["request_id"]);
                Inbound::Permission { request_id: named.or(request_id).and_then(id), response }
            }
            None => Inbound::Unusable("a control_response without a response".to_owned()),
        },
        Some("control_request") => {
            let request = request.filter(|text| json_scan::kind(text) == Kind::Object);
            match (request_id.and_then(id), request) {
                (Some(request_id), Some(request)) => Inbound::Control { request_id, request },
                _ => Inbound::Unusable("a control_request without a request_id or request".to_owned()),
            }
        }
        Some("user") => Inbound::User { uuid: uuid.and_then(id) },
        Some(other) => {
            let shown: String = crate::unicode::clean_str_lossy(other).chars().take(60).collect();
            Inbound::Unusable(format!("a message of the type {shown:?}, which is none for an agent"))
        }
        None => Inbound::Unusable("a message without a type".to_owned()),
    }
}

fn text(literal: &str) -> Option<String> {
    (json_scan::kind(literal) == Kind::String).then(|| json_scan::decode(literal)).flatten().map(Into::into)
}

fn id(literal: &str) -> Option<String> {
    text(literal).filter(|id| !id.is_empty() && id.len() <= LONGEST_ID)
}

/// The `uuid` of a message of the host, or the message with the one it gets; `None` where it has one that is none.
pub fn with_uuid(message: &str, fresh: &str) -> Option<(String, String)> {
    let [uuid] = json_scan::pick(message, ["uuid"]);
    if let Some(own) = uuid.filter(|uuid| json_scan::kind(uuid) != Kind::Null) {
        return Some((id(own)?, message.to_owned()));
    }
    let mut with = String::with_capacity(message.len() + 60);
    push_member(&mut with, "uuid", &quoted(fresh));
    for member in json_scan::members(message).filter(|member| !member.is("uuid")) {
        with.push(',');
        with.push_str(member.literal);
        with.push(':');
        with.push_str(member.value);
    }
    Some((fresh.to_owned(), format!("{{{with}}}")))
}

/// A JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut literal = String::new();
    push_string(&mut literal, text);
    literal
}

/// The question that a permission request of the host puts to the other end.
pub fn permission_question(uuid: &str, request_id: &str, request: &str) -> String {
    let members = inner_members(request).unwrap_or_default();
    let comma = if members.is_empty() { "" } else { "," };
    format!(
        r#"{{"type":"control_request","uuid":{},"request_id":{},"request":{{"subtype":"can_use_tool"{comma}{members}}}}}"#,
        quoted(uuid),
        quoted(request_id)
    )
}

/// Takes such a question back.
pub fn withdrawal(uuid: &str, request_id: &str) -> String {
    format!(
        r#"{{"type":"control_cancel_request","uuid":{},"request_id":{}}}"#,
        quoted(uuid),
        quoted(request_id)
    )
}

/// Tells the other end that a message other than a control request was not taken.
pub fn refusal(uuid: &str, refused: Option<&str>, code: &str, why: &str) -> String {
    format!(
        r#"{{"type":"refusal","uuid":{},"refused":{},"code":{},"error":{}}}"#,
        quoted(uuid),
        refused.map_or_else(|| "null".to_owned(), quoted),
        quoted(code),
        quoted(why)
    )
}

/// What becomes of a user message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// The host gets it.
    Deliver,
    /// We sent it ourselves.
    Echo,
    /// The host got it before.
    Redelivery,
}

/// The two filters.
#[derive(Debug)]
pub struct Filters {
    sent: BoundedUuidSet,
    received: BoundedUuidSet,
}

impl Filters {
    /// Filters that remember `capacity` messages each.
    pub fn new(capacity: usize) -> Self {
        Self { sent: BoundedUuidSet::new(capacity), received: BoundedUuidSet::new(capacity) }
    }

    /// The host has sent this one.
    pub fn sent(&mut self, uuid: &str) {
        self.sent.add(uuid);
    }

    /// Judges a user message, and remembers it where the host gets it. One without an id has only its sequence number.
    pub fn judge(&mut self, uuid: Option<&str>) -> Passage {
        match uuid {
            Some(uuid) if self.sent.has(uuid) => Passage::Echo,
            Some(uuid) if !self.received.add(uuid) => Passage::Redelivery,
            _ => Passage::Deliver,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brg_02_messages_have_three_classes() {
        let permission = |request_id: Option<&str>, response| Inbound::Permission {
            request_id: request_id.map(str::to_owned),
            response,
        };
        let control = |request| Inbound::Control { request_id: "r".to_owned(), request };
        for (message, expected) in [
            (
                r#"{"type":"control_response","response":{"request_id":"q","response":{"behavior":"allow"}}}"#,
                permission(Some("q"), r#"{"request_id":"q","response":{"behavior":"allow"}}"#),
            ),
            (r#"{"type":"control_response","request_id":"q","response":{}}"#, permission(Some("q"), "{}")),
            (r#"{"type":"control_response","response":{}}"#, permission(None, "{}")),
            (
                r#"{"type":"control_request","request_id":"r","request":{"subtype":"interrupt"}}"#,
                control(r#"{"subtype":"interrupt"}"#),
            ),
            (r#"{"type":"user","uuid":"u","message":{}}"#, Inbound::User { uuid: Some("u".to_owned()) }),
            (r#"{"type":"user","uuid":""}"#, Inbound::User { uuid: None }),
            (r#"{"uuid":7,"type":"user"}"#, Inbound::User { uuid: None }),
        ] {
            assert_eq!(classify(message), expected, "{message}");
        }
        let endless =
            format!(r#"{{"type":"control_request","request_id":"{}","request":{{}}}}"#, "x".repeat(300));
        for message in [
            "[]",
            "7",
            "{}",
            r#"{"type":7}"#,
            r#"{"type":"assistant"}"#,
            r#"{"type":"control_response"}"#,
            r#"{"type":"control_response","response":"allow"}"#,
            r#"{"type":"control_request","request":{}}"#,
            r#"{"type":"control_request","request_id":"r","request":[]}"#,
            endless.as_str(),
        ] {
            assert!(matches!(classify(message), Inbound::Unusable(_)), "{message}");
        }
    }

    #[test]
    fn brg_02_echoes_are_filtered_before_redeliveries() {
        let mut filters = Filters::new(2);
        filters.sent("own");
        for (uuid, expected) in [
            (Some("own"), Passage::Echo),
            (Some("a"), Passage::Deliver),
            (Some("a"), Passage::Redelivery),
            (None, Passage::Deliver),
            (None, Passage::Deliver),
            (Some("b"), Passage::Deliver),
            (Some("c"), Passage::Deliver),
            (Some("a"), Passage::Deliver),
            (Some("own"), Passage::Echo),
        ] {
            assert_eq!(filters.judge(uuid), expected, "{uuid:?}");
        }
    }

    #[test]
    fn brg_01_every_message_has_a_uuid() {
        let sent = |message| with_uuid(message, "fresh");
        let pair = |uuid: &str, text: &str| Some((uuid.to_owned(), text.to_owned()));
        assert_eq!(sent(r#"{"uuid":"own","a":1}"#), pair("own", r#"{"uuid":"own","a":1}"#));
        assert_eq!(
            sent(r#"{"a":1, "b":{"uuid":"x"}}"#),
            pair("fresh", r#"{"uuid":"fresh","a":1,"b":{"uuid":"x"}}"#)
        );
        assert_eq!(sent(r#"{"uuid":null,"a":1}"#), pair("fresh", r#"{"uuid":"fresh","a":1}"#));
        assert_eq!(sent("{}"), pair("fresh", r#"{"uuid":"fresh"}"#));
        assert_eq!(sent(r#"{"uuid":7}"#), None);
        assert_eq!(sent(r#"{"uuid":""}"#), None);
    }

    #[test]
    fn brg_02_texts_for_the_other_end() {
        for text in [
            permission_question("u", "q", r#"{"tool":"x"}"#),
            permission_question("u", "q", "{}"),
            withdrawal("u", "q"),
            refusal("u", Some("m\"x"), "c", "why"),
            refusal("u", None, "c", "why"),
        ] {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["uuid"], "u", "{text}");
        }
        let question: serde_json::Value =
            serde_json::from_str(&permission_question("u", "q", r#"{"tool":"x"}"#)).unwrap();
        assert_eq!(question["request"], serde_json::json!({"subtype": "can_use_tool", "tool": "x"}));
    }

    proptest::proptest! {
        #[test]
        fn brg_02_no_message_breaks_anything(message in r#"[\[\]{}":,a-z0-9\\ ]{0,60}"#) {
            let _ = classify(&message);
            let _ = with_uuid(&message, "fresh");
        }
    }
}
