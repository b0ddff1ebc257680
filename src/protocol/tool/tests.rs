use serde_json::{Value, json};

use super::*;
use crate::json_scan::scan;

fn map_texts(texts: &[&str]) -> (Vec<ToolDefinition>, Vec<Diagnostic>) {
    let owned: Vec<Box<RawValue>> =
        texts.iter().map(|text| RawValue::from_string((*text).to_owned()).expect(text)).collect();
    let refs: Vec<&RawValue> = owned.iter().map(|raw| &**raw).collect();
    map_tools("srv", &refs, &Classifier::default())
}

fn one(text: &str) -> (ToolDefinition, Value) {
    let (mut tools, found) = map_texts(&[text]);
    assert!(found.is_empty(), "{text}: {found:?}");
    let tool = tools.pop().expect(text);
    let body = public(&tool);
    (tool, body)
}

fn public(tool: &ToolDefinition) -> Value {
    serde_json::from_str(&format!("{{{}}}", tool.body)).expect(&tool.body)
}

#[test]
fn tol_01_a_full_definition() {
    let (tool, body) = one(
        r#"{"name":"put","title":"Put","description":"Puts","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}},
            "outputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"idempotentHint":true,"openWorldHint":false},
            "icons":[{"src":"https://e.org/a.png"}],"execution":{"taskSupport":"optional"},
            "_meta":{"anthropic/searchHint":" many\n words ","anthropic/alwaysLoad":true,"x":{"y":1}}}"#,
    );
    assert_eq!(
        body,
        json!({
            "title": "Put", "description": "Puts",
            "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
            "outputSchema": {"type": "object"},
            "isMcp": true, "isReadOnly": false, "isConcurrencySafe": false, "isDestructive": true, "isOpenWorld": false,
            "searchHint": "many words", "alwaysLoad": true, "classification": "unknown",
            "annotations": {"readOnlyHint": false, "idempotentHint": true, "openWorldHint": false},
            "meta": {"anthropic/searchHint": " many\n words ", "anthropic/alwaysLoad": true, "x": {"y": 1}},
            "icons": [{"src": "https://e.org/a.png"}]
        })
    );
    assert_eq!((tool.wire_name.as_str(), tool.task_support), ("put", TaskSupport::Optional));
    assert!(tool.annotations.idempotent && tool.restore.is_none() && tool.output_schema.is_some());
}

/// mcp:TOOL-03
#[test]
fn tol_01_hints_and_their_defaults() {
    for (name, annotations, read_only, safe, destructive, open) in [
        ("x", "", false, false, true, true),
        ("x", r#","annotations":{"readOnlyHint":true}"#, true, true, false, true),
        (
            "x",
            r#","annotations":{"destructiveHint":false,"openWorldHint":false}"#,
            false,
            false,
            false,
            false,
        ),
        ("x", r#","annotations":{"readOnlyHint":"true"}"#, false, false, true, true),
        ("x", r#","annotations":{"readOnlyHint\u200b":true}"#, false, false, true, true),
        ("x", r#","annotations":7"#, false, false, true, true),
        ("search_files", "", false, true, true, true),
        ("readTextFile", r#","annotations":{"title":"t"}"#, false, true, true, true),
        ("read_text_file", r#","annotations":{"readOnlyHint":false}"#, false, false, true, true),
    ] {
        let (tool, body) = one(&format!(r#"{{"name":"{name}"{annotations}}}"#));
        let seen =
            ["isReadOnly", "isConcurrencySafe", "isDestructive", "isOpenWorld"].map(|key| body[key] == true);
        assert_eq!(seen, [read_only, safe, destructive, open], "{name}{annotations}");
        assert_eq!(tool.is_concurrency_safe(), safe);
    }
}

#[test]
fn tol_01_bare_loading_keys_are_read() {
    for text in [
        r#"{"name":"a","_meta":{"searchHint":"h","alwaysLoad":true}}"#,
        r#"{"name":"a","searchHint":"h","alwaysLoad":true}"#,
    ] {
        let (tool, body) = one(text);
        assert_eq!((body["searchHint"].as_str(), tool.always_load), (Some("h"), true), "{text}");
    }
}

#[test]
fn tol_02_a_broken_tool_is_left_out_and_the_others_stay() {
    let deep = format!(r#"{{"name":"deep","inputSchema":{{"a":{}{}}}}}"#, "[".repeat(200), "]".repeat(200));
    let long = format!(r#"{{"name":"{}"}}"#, "n".repeat(9000));
    let broken = [
        "5",
        "null",
        "[]",
        "{}",
        r#"{"name":""}"#,
        r#"{"name":"\u200b"}"#,
        r#"{"name":null}"#,
        r#"{"name":7}"#,
        r#"{"NAME":"x"}"#,
        r#"{"name":"\ud800"}"#,
        r#"{"name":"s","inputSchema":[]}"#,
        r#"{"name":"s","inputSchema":null}"#,
        r#"{"name":"s","inputSchema":"object"}"#,
        r#"{"name":"s","inputSchema":{"type":"string"}}"#,
        r#"{"name":"s","inputSchema":{"type":"object","properties":[]}}"#,
        &deep,
        &long,
    ];
    for text in broken {
        let (tools, found) = map_texts(&[r#"{"name":"before"}"#, text, r#"{"name":"after"}"#]);
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["before", "after"], "{text}");
        assert_eq!(found.len(), 1, "{text}");
        assert!(matches!(found[0].code, "TOOL_INVALID" | "TOOL_QUARANTINED"), "{text}");
        assert_eq!(found[0].server.as_deref(), Some("srv"));
        assert!(found[0].message.len() < 512);
    }
}

#[test]
fn tol_02_missing_type_is_added_and_the_original_kept() {
    for (schema, public_schema, raw) in [
        (r#"{"properties":{}}"#, json!({"type": "object", "properties": {}}), json!({"properties": {}})),
        ("{}", json!({"type": "object"}), json!({})),
        (r#"{"type":null,"a":1}"#, json!({"type": "object", "a": 1}), json!({"type": null, "a": 1})),
        (r#"{"anyOf":[{}]}"#, json!({"type": "object", "anyOf": [{}]}), json!({"anyOf": [{}]})),
    ] {
        let (tool, body) = one(&format!(r#"{{"name":"a","inputSchema":{schema}}}"#));
        assert_eq!((&body["inputSchema"], &body["rawInputSchema"]), (&public_schema, &raw), "{schema}");
        assert_eq!(serde_json::from_str::<Value>(&tool.input_schema).unwrap(), public_schema);
    }
    let (_, body) = one(r#"{"name":"a"}"#);
    assert_eq!((&body["inputSchema"], body.get("rawInputSchema")), (&json!({"type": "object"}), None));
    let (_, body) = one(r#"{"name":"a","inputSchema":{"type":["object","null"]}}"#);
    assert_eq!(body["inputSchema"]["type"], json!(["object", "null"]));
}

/// mcp:TOOL-20
#[test]
fn tool_20_schema_text_passes_unchanged() {
    let schema = r##"{ "$schema":"https://json-schema.org/draft/2020-12/schema", "type":"object","x-own":1e400,
        "$defs":{"N":{"$anchor":"n"}},"properties":{"b":{"$ref":"#/$defs/N"},"a":{"maximum":9007199254740993}},
        "__proto__":{"isAdmin":true} }"##;
    let (tool, _) = map_texts(&[&format!(r#"{{"name":"a","inputSchema":{schema}}}"#)]);
    assert_eq!(&*tool[0].input_schema, schema, "B-112, B-110");
    assert!(tool[0].body.contains(schema));
}

#[test]
fn j8_malformed_property_entries_do_not_lose_the_tool() {
    let (_, body) = one(r#"{"name":"a","inputSchema":{"type":"object","properties":{"type":"object"}}}"#);
    assert_eq!(body["inputSchema"]["properties"], json!({"type": "object"}));
}

#[test]
fn i9_names_of_built_in_properties_are_names() {
    let (tools, found) = map_texts(&[
        r#"{"name":"constructor"}"#,
        r#"{"name":"__proto__"}"#,
        r#"{"name":"toString","inputSchema":{"type":"object","properties":{"__proto__":{"type":"string"}}}}"#,
    ]);
    assert_eq!((tools.len(), found.len()), (3, 0));
    assert!(tools[2].body.contains(r#""__proto__":{"type":"string"}"#));
}

#[test]
fn b_077_nothing_hidden_is_left_in_any_part() {
    let (tools, found) = map_texts(&[r#"{"name":"a\u200bb","title":"t\u202e","description":"d\u{0}"}"#
        .replace("\\u{0}", "\\ue000\\udb40\\udc41")
        .replace('}', r#","inputSchema":{"title":"x\u200b","properties":{"p\u200b":{"enum":["e\u200b"],"default":"e\u200b","pattern":"q\u200b"}}},"outputSchema":{"o\u200b":1},"annotations":{"title":"y\u200b"},"_meta":{"m\u200b":"n\u200b"},"icons":[{"src":"https://e.org/\u200b"}]}"#)
        .as_str()]);
    assert_eq!((tools.len(), found.len()), (1, 1));
    assert_eq!((found[0].code, found[0].removed), ("INVISIBLE_REMOVED", Some(14)), "I5");
    let tool = &tools[0];
    assert!(scan(&tool.body).ascii && !tool.body.contains("\\u"), "{}", tool.body);
    assert_eq!((tool.wire_name.as_str(), tool.name.as_str()), ("a\u{200b}b", "ab"));
    let restored = tool.restore.as_ref().unwrap().apply(r#"{"p":"e"}"#);
    assert_eq!(restored.as_deref(), Some("{\"p\u{200b}\":\"e\u{200b}\"}"), "SEC-01");
}

#[test]
fn sec_01_an_ambiguous_schema_is_quarantined() {
    for schema in [
        r#"{"properties":{"a":{},"a\u200b":{}}}"#,
        r#"{"properties":{"m":{"enum":["x","x\u200b"]}}}"#,
        r#"{"type":"object","type\u200b":"string"}"#,
    ] {
        let (tools, found) = map_texts(&[&format!(r#"{{"name":"a","inputSchema":{schema}}}"#)]);
        assert!(tools.is_empty(), "{schema}");
        assert_eq!(found[0].code, "TOOL_QUARANTINED", "{schema}");
    }
}

#[test]
fn sec_01_collisions_outside_the_arguments_are_a_warning() {
    let (tools, found) = map_texts(&[r#"{"name":"a","_meta":{"role\u200b":"admin","role":"user"}}"#]);
    assert_eq!(public(&tools[0])["meta"], json!({"role": "user"}), "B-074");
    assert_eq!(found[0].code, "KEY_COLLISION");
}

#[test]
fn j4_of_a_repeated_name_the_first_stays() {
    let (tools, found) =
        map_texts(&[r#"{"name":"a","title":"1"}"#, r#"{"name":"b"}"#, r#"{"name":"a","title":"2"}"#]);
    assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(tools[0].title.as_deref(), Some("1"));
    assert_eq!((found.len(), found[0].code), (1, "TOOL_DUPLICATE"));
}

#[test]
fn b_053_look_alikes_are_quarantined_whatever_their_order() {
    for texts in [
        [r#"{"name":"readfile"}"#, r#"{"name":"read\u200bfile"}"#],
        [r#"{"name":"read\u200bfile"}"#, r#"{"name":"readfile"}"#],
    ] {
        let (tools, found) = map_texts(&texts);
        assert_eq!(tools.iter().map(|tool| &*tool.wire_name).collect::<Vec<_>>(), ["readfile"]);
        assert_eq!(found[0].code, "TOOL_QUARANTINED");
        assert!(found[0].message.contains("<U+200B>"), "{}", found[0].message);
    }
    let (tools, found) = map_texts(&[r#"{"name":"a\u200b"}"#, r#"{"name":"a\u200d"}"#]);
    let codes: Vec<&str> = found.iter().map(|note| note.code).collect();
    assert_eq!((tools.len(), codes), (0, vec!["TOOL_QUARANTINED", "TOOL_QUARANTINED", "INVISIBLE_REMOVED"]));
}

/// mcp:ICON-02 mcp:ICON-03
#[test]
fn b_078_only_harmless_icons_are_handed_out() {
    for (icon, kept) in [
        (r#"{"src":"https://e.org/i.png","mimeType":"image/png"}"#, true),
        (r#"{"src":"HTTPS://e.org/i"}"#, true),
        (r#"{"src":"data:image/webp;base64,AA=="}"#, true),
        (r#"{"src":"http://e.org/i.png"}"#, false),
        (r#"{"src":"javascript:alert(1)"}"#, false),
        (r#"{"src":"data:image/svg+xml;base64,AA=="}"#, false),
        (r#"{"src":"data:text/html,image/png"}"#, false),
        (r#"{"src":"https://e.org/i.svg","mimeType":"image/svg+xml"}"#, false),
        (r#"{"src":"file:///i.png"}"#, false),
        (r#"{"src":"https://me:secret@e.org/i.png"}"#, false),
        (r#"{"src":"https://169.254.169.254/i.png"}"#, false),
        (r#"{"src":"https:///"}"#, false),
        (r#"{"src":5}"#, false),
        ("null", false),
    ] {
        let (tools, found) = map_texts(&[&format!(r#"{{"name":"a","icons":[{icon}]}}"#)]);
        assert_eq!(public(&tools[0]).get("icons").is_some(), kept, "{icon}");
        assert_eq!(found.iter().any(|note| note.code == "ICON_DROPPED"), !kept, "{icon}");
    }
}

#[test]
fn j12_long_descriptions_are_cut_and_kept_for_the_search() {
    let long = "ü".repeat(40_000);
    let (tool, body) = one(&format!(r#"{{"name":"a","title":"{long}","description":"{long}"}}"#));
    let shown = body["description"].as_str().unwrap();
    assert!(shown.len() <= DESCRIPTION_LIMIT + 16 && shown.ends_with("… [cut]"));
    assert!(body["title"].as_str().unwrap().len() <= TITLE_LIMIT + 16);
    assert_eq!(tool.description, long);
}

#[test]
fn tol_02_a_useless_output_schema_is_ignored() {
    let (tools, found) = map_texts(&[r#"{"name":"a","outputSchema":"x"}"#]);
    assert!(tools[0].output_schema.is_none());
    assert_eq!(found[0].code, "OUTPUT_SCHEMA_UNUSABLE");
}
