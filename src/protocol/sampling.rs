//! Requests for a model's words: what they must look like, and what an answer must (PRO-12). Pure.

use serde_json::{Map, Value};

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
    let results: Vec<&str> = of_type("tool_result").filter_map(|block| text(block, "toolUseId")).collect();
    if !results.is_empty() && (role != "user" || results.len() != blocks.len()) {
        return Err("a message mixes tool_result with other content".to_owned());
    }
    if open.iter().any(|id| !results.contains(id)) {
        return Err("a tool_use has no tool_result".to_owned());
    }
    Ok(of_type("tool_use").filter_map(|block| text(block, "id")).collect())
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

/// Checks what the host answers: a `CreateMessageResult` (mcp:SAMP-10, 11).
///
/// # Errors
/// What is wrong with it.
pub fn check_answer(answer: &Value) -> Result<(), String> {
    let object = answer.as_object().ok_or("it is not an object")?;
    if !matches!(object.get("role").and_then(Value::as_str), Some("user" | "assistant")) {
        return Err("its role is neither user nor assistant".to_owned());
    }
    if !object.get("model").is_some_and(Value::is_string) {
        return Err("it names no model".to_owned());
    }
    let blocks = blocks(object.get("content")).ok_or("its content is no block or list of blocks")?;
    if blocks.iter().any(|block| type_of(block).is_empty()) {
        return Err("a block of its content has no type".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(messages: &Value) -> Value {
        json!({"messages": messages, "maxTokens": 10})
    }

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
        ] {
            assert!(check_request(&bad, false).is_err(), "{row} {bad}");
        }
        assert!(check_request(&json!({"messages": [], "maxTokens": 1, "tools": []}), true).is_ok());
    }

    #[test]
    fn samp_10_answers() {
        let text = json!({"type": "text", "text": "hi"});
        assert!(check_answer(&json!({"role": "assistant", "content": text, "model": "m"})).is_ok());
        assert!(check_answer(&json!({"role": "assistant", "content": [text], "model": "m"})).is_ok());
        for bad in [
            json!(null),
            json!({"role": "assistant", "content": text}),
            json!({"role": "system", "content": text, "model": "m"}),
            json!({"role": "assistant", "content": "hi", "model": "m"}),
            json!({"role": "assistant", "content": [{}], "model": "m"}),
        ] {
            assert!(check_answer(&bad).is_err(), "{bad}");
        }
    }
}
