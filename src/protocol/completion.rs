//! Suggestions of `completion/complete`, as far as they can be used (mcp:COMP-01 to 03).

use std::borrow::Cow;

use serde_json::Value;

use super::prompt::PromptDefinition;
use crate::json_scan;
use crate::jsonrpc::write::push_member;
use crate::unicode::{Mode, clean};

/// Most suggestions of one answer.
const MOST: usize = 100;

/// JSON text of a completion: `values` is always there and of strings alone, without those that hold what nobody sees,
/// since a value goes back as it is shown, or not at all (SEC-02); what else has a wrong type is left out. `None` where
/// it is no object.
pub fn completion_of(text: &str) -> Option<String> {
    let Value::Object(mut completion) = serde_json::from_str(text).ok()? else { return None };
    let values = match completion.remove("values") {
        Some(Value::Array(values)) => values,
        _ => Vec::new(),
    };
    let mut usable: Vec<Value> =
        values.into_iter().filter(|value| value.as_str().is_some_and(shows_all)).collect();
    if completion.get("total").is_some_and(|total| !total.is_number()) {
        completion.remove("total");
    }
    if completion.get("hasMore").is_some_and(|more| !more.is_boolean()) {
        completion.remove("hasMore");
    }
    if usable.len() > MOST {
        usable.truncate(MOST);
        completion.insert("hasMore".to_owned(), Value::Bool(true));
    }
    completion.insert("values".to_owned(), Value::Array(usable));
    Some(Value::Object(completion).to_string())
}

/// The argument and the context of a question, JSON texts, with the names of arguments as the server of the prompt wrote
/// them (SEC-01).
pub fn with_wire_names(
    prompt: &PromptDefinition,
    argument: &str,
    context: Option<&str>,
) -> (String, Option<String>) {
    let [name] = json_scan::pick(argument, ["name"]);
    let argument = match name.and_then(json_scan::decode) {
        Some(name) => replaced(argument, "name", &json_scan::quote(prompt.wire_argument(&name))),
        None => argument.to_owned(),
    };
    let context = context.map(|context| {
        let [given] = json_scan::pick(context, ["arguments"]);
        let Some(given) = given else { return context.to_owned() };
        let mut members = String::new();
        for member in json_scan::members(given) {
            push_member(&mut members, prompt.wire_argument(&member.key()), member.value);
        }
        replaced(context, "arguments", &format!("{{{members}}}"))
    });
    (argument, context)
}

/// An object, JSON text, with another value for one of its members.
pub fn replaced(object: &str, name: &str, value: &str) -> String {
    let mut members = String::new();
    for member in json_scan::members(object) {
        let value = if member.is(name) { value } else { member.value };
        push_member(&mut members, &member.key(), value);
    }
    format!("{{{members}}}")
}

fn shows_all(text: &str) -> bool {
    matches!(clean(text, Mode::Invisible), Ok(Cow::Borrowed(_)))
}

#[cfg(test)]
mod tests {
    use super::super::prompt::PromptArgument;
    use super::*;

    fn read(text: &str) -> Option<Value> {
        completion_of(text).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn comp_02_whatever_comes_values_are_strings() {
        let empty = serde_json::json!({ "values": [] });
        for (sent, given) in [
            ("{}", empty.clone()),
            (r#"{"values":"x"}"#, empty.clone()),
            (
                r#"{"values":["a",7,null,{},"b"],"total":"many","hasMore":1}"#,
                serde_json::json!({ "values": ["a", "b"] }),
            ),
            (
                r#"{"values":["a"],"total":3,"hasMore":false,"x":1}"#,
                serde_json::json!({ "values": ["a"], "total": 3, "hasMore": false, "x": 1 }),
            ),
        ] {
            assert_eq!(read(sent), Some(given), "{sent}");
        }
        for wrong in ["null", "7", "[]", "\"text\"", "{"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sec_01_names_of_arguments_go_back_to_the_server_as_it_wrote_them() {
        let argument = |wire: &str, name: &str| PromptArgument {
            wire_name: wire.to_owned(),
            name: name.to_owned(),
            required: false,
        };
        let prompt = PromptDefinition {
            wire_name: "p".to_owned(),
            name: "p".to_owned(),
            body: String::new(),
            arguments: vec![argument("ｌang", "lang"), argument("to\u{200b}ne", "tone")],
        };
        let (asked, context) = with_wire_names(
            &prompt,
            r#"{"name":"lang","value":"lang"}"#,
            Some(r#"{"arguments":{"tone":"tone","other":"x"},"y":1}"#),
        );
        assert_eq!(asked, r#"{"name":"ｌang","value":"lang"}"#);
        let expected = serde_json::json!({ "arguments": { "to\u{200b}ne": "tone", "other": "x" }, "y": 1 });
        assert_eq!(serde_json::from_str::<Value>(&context.unwrap()).unwrap(), expected);
        let odd = with_wire_names(&prompt, r#"{"value":"x"}"#, Some("{}"));
        assert_eq!(odd, (r#"{"value":"x"}"#.to_owned(), Some("{}".to_owned())));
    }

    #[test]
    fn comp_03_no_more_than_a_hundred_and_none_that_hides_something() {
        let many: Vec<String> = (0..300).map(|n| format!("v{n}")).collect();
        let given = read(&serde_json::json!({ "values": many }).to_string()).unwrap();
        assert_eq!(given["values"].as_array().map(Vec::len), Some(MOST));
        assert_eq!(given["hasMore"], Value::Bool(true));
        assert_eq!(read(r#"{"values":["a\u200Bb","c"]}"#).unwrap()["values"], serde_json::json!(["c"]));
    }
}
