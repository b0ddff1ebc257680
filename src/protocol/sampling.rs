//! Requests for a model's words: what they must look like, and what an answer must (PRO-12). Pure.

use serde_json::{Map, Value};

use super::version::ProtocolVersion;

/// Checks the parameters of `sampling/createMessage` (mcp:SAMP-02, 03, 08, 09).
///
/// # Errors
/// What is wrong with them.
pub fn check_request(params: &Value, with_tools: bool) -> Result<(), String> {
    let object = params.as_object().ok_or("the parameters are not an object")?;
    let messages = object.get("messages").and_then(Value::as_array).ok_or("messages are missing")?;
    if !object.get("maxTokens").is_some_and(Value::is_number) {
        return Err("maxTokens is missing".to_owned());
    }
    let asks_for_tools =
        ["tools", "toolChoice"].iter().any(|name| object.get(*name).is_some_and(|v| !v.is_null()));
    if asks_for_tools && !with_tools {
        return Err("tools in sampling were not offered".to_owned());
    }
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        open = check_message(message, &open)?;
    }
    if open.is_empty() { Ok(()) } else { Err("a tool_use has no tool_result".to_owned()) }
}

/// Checks a message; `open` are the calls that the message before made. Returns those this one makes.
fn check_message<'a>(message: &'a Value, open: &[&str]) -> Result<Vec<&'a str>, String> {
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
    if !matches!(role, "user" | "assistant") {
        return Err("a message has a role that is neither user nor assistant".to_owned());
    }
    let blocks = blocks(message.get("content")).ok_or("a message has no content")?;
    let of_type = |kind: &'static str| blocks.iter().filter(move |block| type_of(block) == kind);
    let text = |block: &'a Map<String, Value>, name: &str| block.get(name).and_then(Value::as_str);
    let named = |kind, name, why: &str| {
        of_type(kind).map(|block| text(block, name).ok_or(why.to_owned())).collect::<Result<Vec<&str>, _>>()
    };
    let results = named("tool_result", "toolUseId", "a tool_result names no tool_use")?;
    if !results.is_empty() && (role != "user" || results.len() != blocks.len()) {
        return Err("a message mixes tool_result with other content".to_owned());
    }
    if open.iter().any(|id| !results.contains(id)) {
        return Err("a tool_use has no tool_result".to_owned());
    }
    named("tool_use", "id", "a tool_use has no id")
}

fn type_of(block: &Map<String, Value>) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn blocks(content: Option<&Value>) -> Option<Vec<&Map<String, Value>>> {
    match content? {
        Value::Object(block) => Some(vec![block]),
        Value::Array(blocks) => blocks.iter().map(Value::as_object).collect(),
        _ => None,
    }
}

/// Checks what the host answers: a `CreateMessageResult` of the revision that is spoken (mcp:SAMP-10, 11). Before
/// 2025-11-25 the content is one block, so that a list of one is taken apart: then the answer to send.
///
/// # Errors
/// What is wrong with it.
pub fn check_answer(answer: &Value, version: ProtocolVersion) -> Result<Option<Value>, String> {
    let object = answer.as_object().ok_or("it is not an object")?;
    if !matches!(object.get("role").and_then(Value::as_str), Some("user" | "assistant")) {
        return Err("its role is neither user nor assistant".to_owned());
    }
    if !object.get("model").is_some_and(Value::is_string) {
        return Err("it names no model".to_owned());
    }
    let blocks = blocks(object.get("content")).ok_or("its content is no block or list of blocks")?;
    let known = block_types(version);
    if let Some(block) = blocks.iter().find(|block| !known.contains(&type_of(block))) {
        let kind = type_of(block);
        return Err(format!("its content has a block of type \"{kind}\", which {version} does not know"));
    }
    if version >= ProtocolVersion::V2025_11_25 || !object.get("content").is_some_and(Value::is_array) {
        return Ok(None);
    }
    let [block] = blocks.as_slice() else {
        return Err(format!("its content has {} blocks, and {version} takes one", blocks.len()));
    };
    let mut single = object.clone();
    single.insert("content".to_owned(), Value::Object((*block).clone()));
    Ok(Some(Value::Object(single)))
}

/// Types of content that a message may have.
fn block_types(version: ProtocolVersion) -> &'static [&'static str] {
    match version {
        ProtocolVersion::V2024_11_05 => &["text", "image"],
        ProtocolVersion::V2025_03_26 | ProtocolVersion::V2025_06_18 => &["text", "image", "audio"],
        ProtocolVersion::V2025_11_25 | ProtocolVersion::V2026_07_28 => {
            &["text", "image", "audio", "tool_use", "tool_result"]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(messages: &Value) -> Value {
        json!({"messages": messages, "maxTokens": 10})
    }

    /// mcp:SAMP-02 mcp:SAMP-03 mcp:SAMP-08 mcp:SAMP-09 mcp:SAMP-11
    #[test]
    fn samp_02_to_09_requests() {
        let text = json!({"type": "text", "text": "hi"});
        let call = json!({"type": "tool_use", "id": "1", "name": "t", "input": {}});
        let result = json!({"type": "tool_result", "toolUseId": "1", "content": []});
        let good = request(&json!([
            {"role": "user", "content": text},
            {"role": "assistant", "content": [text, call]},
            {"role": "user", "content": [result]},
        ]));
        assert_eq!(check_request(&good, false), Ok(()));
        for (row, bad) in [
            ("SAMP-02", json!({"messages": []})),
            ("SAMP-02", json!({"maxTokens": 1})),
            ("SAMP-03", json!({"messages": [], "maxTokens": 1, "tools": []})),
            ("SAMP-03", json!({"messages": [], "maxTokens": 1, "toolChoice": {"mode": "auto"}})),
            ("SAMP-11", request(&json!([{"role": "system", "content": text}]))),
            (
                "SAMP-08",
                request(
                    &json!([{"role": "assistant", "content": call}, {"role": "user", "content": [result, text]}]),
                ),
            ),
            (
                "SAMP-09",
                request(&json!([{"role": "assistant", "content": call}, {"role": "user", "content": text}])),
            ),
            ("SAMP-09", request(&json!([{"role": "assistant", "content": call}]))),
            (
                "SAMP-08",
                request(
                    &json!([{"role": "user", "content": [{"type": "tool_result", "content": []}, text]}]),
                ),
            ),
            (
                "SAMP-09",
                request(&json!([{"role": "assistant", "content": {"type": "tool_use", "name": "t"}}])),
            ),
        ] {
            assert!(check_request(&bad, false).is_err(), "{row} {bad}");
        }
        assert!(check_request(&json!({"messages": [], "maxTokens": 1, "tools": []}), true).is_ok());
    }

    /// mcp:SAMP-10 mcp:SAMP-11
    #[test]
    fn samp_10_11_answers_fit_the_revision() {
        use ProtocolVersion::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};
        let text = json!({"type": "text", "text": "hi"});
        let sound = json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"});
        let call = json!({"type": "tool_use", "id": "1", "name": "t", "input": {}});
        let of = |content: &Value| json!({"role": "assistant", "content": content, "model": "m"});
        for version in [V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28] {
            assert_eq!(check_answer(&of(&text), version), Ok(None));
        }
        for (content, version, sent) in [
            (json!([text]), V2025_11_25, Some(None)),
            (json!([text, call]), V2026_07_28, Some(None)),
            (json!([text]), V2025_06_18, Some(Some(of(&text)))),
            (json!([text, text]), V2025_06_18, None),
            (json!([]), V2025_06_18, None),
            (call.clone(), V2025_06_18, None),
            (sound.clone(), V2025_06_18, Some(None)),
            (sound, V2024_11_05, None),
            (json!({"type": "hologram"}), V2026_07_28, None),
        ] {
            assert_eq!(check_answer(&of(&content), version).ok(), sent, "{content} {version}");
        }
        for bad in [
            json!(null),
            json!({"role": "assistant", "content": text}),
            json!({"role": "system", "content": text, "model": "m"}),
            json!({"role": "assistant", "content": "hi", "model": "m"}),
            json!({"role": "assistant", "content": [{}], "model": "m"}),
        ] {
            assert!(check_answer(&bad, V2026_07_28).is_err(), "{bad}");
        }
    }
}
