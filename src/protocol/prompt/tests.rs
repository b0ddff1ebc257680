use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::content::{Blob, LARGE_TEXT_BYTES, SavedBlob};
use super::super::sanitize::Sanitize;
use super::*;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect(text)
}

fn prompt(text: &str) -> PromptDefinition {
    let owned = raw(text);
    let (mut list, found) = map_prompts("srv", &[&owned]);
    assert!(found.iter().all(|note| note.code == "INVISIBLE_REMOVED"), "{found:?}");
    list.pop().expect(text)
}

fn two() -> PromptDefinition {
    prompt(
        r#"{"name":"p","arguments":[{"name":"a\u200b","required":true},{"name":"b","required":true},{"name":"c"}]}"#,
    )
}

fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

fn pairs(values: &[(&str, &str)]) -> Vec<(String, String)> {
    values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn prm_01_public_shape() {
    let definition = prompt(
        r#"{"name":"p\u200b","title":"T","description":"d\u202e","arguments":[{"name":"a","description":"x","required":true},{"name":"b","required":1}]}"#,
    );
    assert_eq!(definition.wire_name, "p\u{200b}");
    assert_eq!(
        serde_json::from_str::<Value>(&format!("{{{}}}", definition.body)).unwrap(),
        json!({"promptName": "p", "server": "srv", "type": "prompt", "source": "mcp", "title": "T", "description": "d",
               "arguments": [{"name": "a", "description": "x", "required": true}, {"name": "b"}]})
    );
}

#[test]
fn prm_01_broken_prompts_leave_the_others() {
    let owned = [
        "[]",
        r#"{"name":"x","arguments":5}"#,
        r#"{"name":"x","arguments":[{"name":""}]}"#,
        r#"{"name":"x","arguments":[5]}"#,
        r#"{"name":"x","arguments":[{"name":"a"},{"name":"a\u200b"}]}"#,
        r#"{"name":"fine","arguments":null}"#,
        r#"{"name":"fine"}"#,
    ]
    .map(raw);
    let (list, found) = map_prompts("srv", &owned.iter().map(|raw| &**raw).collect::<Vec<_>>());
    assert_eq!(list.iter().map(|entry| &*entry.name).collect::<Vec<_>>(), ["fine"]);
    let codes: Vec<&str> = found.iter().map(|note| note.code).collect();
    assert_eq!(
        codes,
        [
            "PROMPT_INVALID",
            "PROMPT_INVALID",
            "PROMPT_INVALID",
            "PROMPT_INVALID",
            "PROMPT_QUARANTINED",
            "PROMPT_DUPLICATE"
        ]
    );
}

#[test]
fn prm_01_positional_values_by_order() {
    for (given, expected) in [
        (&["1", "2"][..], pairs(&[("a\u{200b}", "1"), ("b", "2")])),
        (&["1", "2", "3"], pairs(&[("a\u{200b}", "1"), ("b", "2"), ("c", "3")])),
        (&["1", "2", "3", "4", "5 6"], pairs(&[("a\u{200b}", "1"), ("b", "2"), ("c", "3 4 5 6")])),
    ] {
        assert_eq!(arguments_from_positional(&two(), &strings(given)).unwrap(), expected, "{given:?}");
    }
    let error = arguments_from_positional(&two(), &[]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InputInvalid);
    assert!(error.message().contains("'a', 'b'") && !error.message().contains("'c'"), "{}", error.message());
    let error = arguments_from_positional(&two(), &strings(&["1"])).unwrap_err();
    assert!(error.message().contains("'b'") && !error.message().contains("'a'"));
    let none = prompt(r#"{"name":"none"}"#);
    assert_eq!(arguments_from_positional(&none, &[]).unwrap(), []);
    assert_eq!(
        arguments_from_positional(&none, &strings(&["x"])).unwrap_err().code(),
        ErrorCode::InputInvalid
    );
}

#[test]
fn prm_01_named_values_get_wire_names() {
    let given = pairs(&[("a", "1"), ("b", ""), ("z", "3")]);
    assert_eq!(check_named(&two(), &given).unwrap(), pairs(&[("a\u{200b}", "1"), ("b", ""), ("z", "3")]));
    let error = check_named(&two(), &pairs(&[("b", "1")])).unwrap_err();
    assert!(error.code() == ErrorCode::InputInvalid && error.message().contains("'a'"));
}

#[test]
fn prm_01_slash_lines() {
    for (line, name, values) in [
        ("/mcp__server__prompt a \"b c\"", "mcp__server__prompt", &["a", "b c"][..]),
        ("  /p  ", "p", &[]),
        ("/p 'a \"b\\' c\\ d", "p", &["a \"b\\", "c d"]),
        ("/p \"a\\\"b\\\\c\\d\"", "p", &["a\"b\\c\\d"]),
        ("/p '' \"\" x''y", "p", &["", "", "xy"]),
        ("/p a\tb\nc", "p", &["a", "b", "c"]),
        ("/p $(touch x) `y` $HOME", "p", &["$(touch", "x)", "`y`", "$HOME"]),
        ("/日本 ü", "日本", &["ü"]),
        ("/p a\\", "p", &["a\\"]),
    ] {
        assert_eq!(parse_slash_line(line).unwrap(), (name.to_owned(), strings(values)), "{line}");
    }
    for line in ["", "p a", "/", "/ a", "/p \"a", "/p 'a", "/p a'"] {
        assert_eq!(parse_slash_line(line).unwrap_err().code(), ErrorCode::InputInvalid, "{line}");
    }
}

proptest! {
    #[test]
    fn prm_01_quoted_values_come_back(values in prop::collection::vec(".*", 0..5)) {
        let escaped = values.iter().map(|value| value.replace('\\', "\\\\").replace('"', "\\\""));
        let quoted = escaped.fold(String::new(), |line, value| line + " \"" + &value + "\"");
        let (name, seen) = parse_slash_line(&format!("/p{quoted}")).unwrap();
        prop_assert_eq!((name.as_str(), seen), ("p", values));
    }
}

fn mapped(text: &str, sanitize: Sanitize) -> Result<MappedPrompt> {
    let save = |_: &Blob<'_>| Ok(SavedBlob { path: "/out/f".into(), bytes: 3 });
    let rules = ContentRules {
        server: "srv",
        subject: "p",
        sanitize,
        large_text_bytes: LARGE_TEXT_BYTES,
        max_image: 0,
        save: &save,
    };
    map_prompt_result(text, &rules)
}

#[test]
fn prm_01_results_have_the_content_mapping_of_results() {
    let result = mapped(
        r#"{"description":"d","messages":[
            {"role":"user","content":{"type":"text","text":"a\u200b ½"}},
            {"role":"assistant","content":[{"type":"image","data":"AA==","mimeType":"image/png"},"x"]},
            {"role":"user","content":{"type":"resource","resource":{"uri":"a:b","mimeType":"application/pdf","blob":"AAAA"}}},
            {"role":"system","content":"hello"},{"role":"user"},7]}"#,
        Sanitize::Invisible,
    )
    .unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&result.value).unwrap(),
        json!({"description": "d", "messages": [
            {"role": "user", "content": {"type": "text", "text": "a ½"}},
            {"role": "assistant", "content": {"type": "image", "data": "AA==", "mimeType": "image/png"}},
            {"role": "assistant", "content": {"type": "text", "text": "x"}},
            {"role": "user", "content": {"type": "file", "path": "/out/f", "mimeType": "application/pdf", "uri": "a:b", "bytes": 3}},
            {"role": "user", "content": {"type": "text", "text": "hello"}},
        ]})
    );
    let codes: Vec<&str> = result.warnings.iter().map(|note| note.code).collect();
    let (hidden, odd): (Vec<&str>, Vec<&str>) = codes.iter().partition(|code| **code == "INVISIBLE_REMOVED");
    assert_eq!(hidden.len(), 1, "I5");
    assert!(odd.iter().all(|code| *code == "RESULT_ODD") && !odd.is_empty());
}

#[test]
fn prm_01_long_texts_stay_in_the_messages() {
    let long = "x".repeat(LARGE_TEXT_BYTES * 2);
    let text = json!({"messages": [{"role": "user", "content": {"type": "text", "text": long}}]}).to_string();
    assert!(mapped(&text, Sanitize::Off).unwrap().value.contains(&long));
}

#[test]
fn prompt_results_that_are_none() {
    for text in ["5", "null", "[]"] {
        assert_eq!(mapped(text, Sanitize::Off).unwrap_err().code(), ErrorCode::ResultInvalid, "{text}");
    }
    let odd = mapped("{}", Sanitize::Off).unwrap();
    assert_eq!((odd.value.as_str(), odd.warnings.len()), (r#"{"messages":[]}"#, 1));
}
