//! One buffer per outgoing frame; raw parameters are spliced in, never rebuilt.

use serde_json::value::RawValue;

/// Parameters of a request as text, apart from `_meta`, which the client completes.
#[derive(Clone, Debug, Default)]
pub struct Params {
    /// Members of the `params` object without braces and without `_meta`; may be empty.
    members: String,
    /// Members of `_meta` without braces; may be empty.
    meta: String,
}

impl Params {
    /// Parameters made of ready members (`"name":"x","arguments":{}`) and members of `_meta`.
    pub fn from_members(members: String, meta: String) -> Self {
        Self { members, meta }
    }

    /// Members of the `params` object without braces and without `_meta`.
    pub fn members(&self) -> &str {
        &self.members
    }

    /// Members of `_meta` without braces.
    pub fn meta(&self) -> &str {
        &self.meta
    }

    /// The same parameters with other members of `_meta`.
    #[must_use]
    pub fn with_meta(&self, meta: String) -> Self {
        Self { members: self.members.clone(), meta }
    }

    /// The same parameters with more members.
    #[must_use]
    pub fn and(&self, more: &str) -> Self {
        let comma = if self.members.is_empty() || more.is_empty() { "" } else { "," };
        Self { members: format!("{}{comma}{more}", self.members), meta: self.meta.clone() }
    }

    /// Splits a JSON object into members and `_meta`; `None` if it is not an object.
    pub fn from_object(text: &str) -> Option<Self> {
        let object: Vec<(String, &RawValue)> = entries(text)?;
        let mut params = Self::default();
        for (name, value) in object {
            if name == "_meta" {
                inner_members(value.get())?.clone_into(&mut params.meta);
            } else {
                push_member(&mut params.members, &name, value.get());
            }
        }
        Some(params)
    }
}

fn entries(text: &str) -> Option<Vec<(String, &RawValue)>> {
    struct Entries;
    impl<'de> serde::de::Visitor<'de> for Entries {
        type Value = Vec<(String, &'de RawValue)>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut list = Vec::new();
            while let Some(entry) = map.next_entry()? {
                list.push(entry);
            }
            Ok(list)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    serde::Deserializer::deserialize_map(&mut reader, Entries).ok()
}

/// The text between the braces of a JSON object; `None` if it is not one.
pub fn inner_members(object: &str) -> Option<&str> {
    Some(object.trim().strip_prefix('{')?.strip_suffix('}')?.trim())
}

/// Appends `"name":value`, with a comma where members stand before it.
pub fn push_member(members: &mut String, name: &str, value: &str) {
    if !members.is_empty() {
        members.push(',');
    }
    push_string(members, name);
    members.push(':');
    members.push_str(value);
}

/// Appends a JSON string literal.
pub fn push_string(target: &mut String, text: &str) {
    // Writing a string into memory cannot fail.
    if let Ok(literal) = serde_json::to_string(text) {
        target.push_str(&literal);
    }
}

/// A request frame with its newline. The progress token is the id: unique by construction (mcp:PROG-01).
pub fn request(id: u64, method: &str, params: &Params) -> String {
    enveloped_request(id, method, params, "")
}

/// As [`request`], with members of `_meta` that stand behind those of the parameters.
pub fn enveloped_request(id: u64, method: &str, params: &Params, envelope: &str) -> String {
    let room = params.members.len() + params.meta.len() + envelope.len() + method.len() + 120;
    let mut frame = String::with_capacity(room);
    frame.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    frame.push_str(&id.to_string());
    frame.push_str(",\"method\":");
    push_string(&mut frame, method);
    frame.push_str(",\"params\":{");
    frame.push_str(&params.members);
    if !params.members.is_empty() {
        frame.push(',');
    }
    frame.push_str("\"_meta\":{");
    for members in [&params.meta, envelope] {
        frame.push_str(members);
        if !members.is_empty() {
            frame.push(',');
        }
    }
    frame.push_str("\"progressToken\":");
    frame.push_str(&id.to_string());
    frame.push_str("}}}");
    finish(frame)
}

/// A request frame whose parameters go out exactly as given (`initialize`, `ping`).
pub fn plain_request(id: u64, method: &str, params: Option<&str>) -> String {
    foreign_request(&id.to_string(), method, params)
}

/// The frame of a request of the peer; `id` is its id as JSON text.
pub fn foreign_request(id: &str, method: &str, params: Option<&str>) -> String {
    let mut frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":");
    push_string(&mut frame, method);
    push_params(&mut frame, params);
    finish(frame)
}

/// A notification frame.
pub fn notification(method: &str, params: Option<&str>) -> String {
    let mut frame = String::from("{\"jsonrpc\":\"2.0\",\"method\":");
    push_string(&mut frame, method);
    push_params(&mut frame, params);
    finish(frame)
}

fn push_params(frame: &mut String, params: Option<&str>) {
    if let Some(params) = params {
        frame.push_str(",\"params\":");
        frame.push_str(params);
    }
    frame.push('}');
}

/// The answer to a request of the peer; `id` is its id as JSON text.
pub fn result(id: &str, result: &str) -> String {
    finish(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"))
}

/// The refusal of a request of the peer.
pub fn error(id: &str, code: i64, message: &str) -> String {
    error_with_data(id, code, message, None)
}

/// As [`error`], with `data` as JSON text.
pub fn error_with_data(id: &str, code: i64, message: &str, data: Option<&str>) -> String {
    let mut frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":");
    push_string(&mut frame, message);
    if let Some(data) = data {
        frame.push_str(",\"data\":");
        frame.push_str(data);
    }
    frame.push_str("}}");
    finish(frame)
}

/// A frame is one line (mcp:STDIO-03): line breaks can only stand between tokens of text that callers gave.
fn finish(mut frame: String) -> String {
    if memchr::memchr2(b'\n', b'\r', frame.as_bytes()).is_some() {
        frame = frame.replace(['\n', '\r'], " ");
    }
    frame.push('\n');
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pro_08_every_request_carries_a_progress_token() {
        let params = Params::from_object(r#"{"uri":"a","_meta":{"traceparent":"t"}}"#).unwrap();
        assert_eq!(
            request(3, "resources/read", &params),
            "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"resources/read\",\"params\":{\"uri\":\"a\",\"_meta\":{\"traceparent\":\"t\",\"progressToken\":3}}}\n"
        );
        assert_eq!(
            request(4, "tools/list", &Params::default()),
            "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/list\",\"params\":{\"_meta\":{\"progressToken\":4}}}\n"
        );
        assert!(Params::from_object("[]").is_none());
    }

    proptest! {
        #[test]
        fn splicing_keeps_the_value(message in ".*", count in any::<i64>()) {
            let arguments = serde_json::json!({"message": message, "deep": [{"n": count}], "_x": null});
            let pretty = serde_json::to_string_pretty(&arguments).unwrap();
            let mut members = String::from("\"name\":\"t\"");
            push_member(&mut members, "arguments", &pretty);
            let frame = request(1, "tools/call", &Params::from_members(members, String::new()));
            prop_assert_eq!(frame.matches('\n').count(), 1);
            let read: serde_json::Value = serde_json::from_str(&frame).unwrap();
            prop_assert_eq!(&read["params"]["arguments"], &arguments);
        }
    }
}
