use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

fn schema(text: &str) -> ToolSchema {
    ToolSchema::new(Arc::from(text), SchemaUse::Output)
}

#[test]
fn cal_03_structured_content_is_checked() {
    let schema = schema(r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#);
    assert_eq!(schema.check(Some(r#"{"n":9007199254740993}"#)), SchemaCheck::Match);
    let wrong = schema.check(Some(r#"{"n":"secret \u200b value"}"#));
    let line = wrong.mismatch().expect("mismatch");
    assert!(line.starts_with("/n: ") && !line.contains('\n') && !line.contains("secret"), "{line}");
    assert!(matches!(schema.check(Some("null")), SchemaCheck::Mismatch(_)), "mcp:TOOL-12 null is a value");
    assert!(matches!(schema.check(None), SchemaCheck::Mismatch(_)));
    assert!(matches!(schema.check(Some(r#"{"n":1e400}"#)), SchemaCheck::Skipped(_)), "B-112");
    let large = format!(r#"{{"n":1,"x":"{}"}}"#, "x".repeat(CHECK_LIMIT));
    assert!(matches!(schema.check(Some(&large)), SchemaCheck::Skipped(_)));
}

/// mcp:JS-01, mcp:JS-02
#[test]
fn js_01_dialects() {
    // `items` as an array means a tuple in draft-07 and nothing valid in 2020-12; `prefixItems` the other way round.
    let tuple = r#"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}"#;
    assert!(schema(tuple).check(Some("[1]")).mismatch().is_some());
    assert!(schema(r#"{"prefixItems":[{"type":"string"}]}"#).check(Some("[1]")).mismatch().is_some());
    assert!(
        schema(r##"{"definitions":{"a":{"type":"string"}},"$ref":"#/definitions/a"}"##)
            .check(Some("1"))
            .mismatch()
            .is_some()
    );
    assert_eq!(schema("{}").check(Some("[1]")), SchemaCheck::Match);
}

/// mcp:JS-03, mcp:JS-06, mcp:JS-08
#[test]
fn js_08_what_cannot_be_used_is_said_and_is_no_match() {
    for text in [
        r#"{"$ref":"https://example.org/s.json"}"#,
        r#"{"$ref":"file:///etc/passwd"}"#,
        r#"{"$ref":"other.json"}"#,
        r##"{"$ref":"#/nowhere"}"##,
        r##"{"$ref":"#nowhere"}"##,
        r#"{"$ref":5}"#,
        r#"{"$schema":"https://example.org/own"}"#,
        r#"{"$schema":5}"#,
        r#"{"type":"nonsense"}"#,
        r#"{"type":5}"#,
        r#"{"pattern":"("}"#,
        r#"{"properties":{"a":{"$id":"https://example.org/a"}}}"#,
        r##"{"$dynamicRef":"#a"}"##,
        "[]",
    ] {
        let schema = schema(text);
        let note = schema.note(&schema.check(Some("{}")), "srv", "t").expect(text);
        assert_eq!((note.code, note.server.as_deref()), ("OUTPUT_SCHEMA_UNUSABLE", Some("srv")), "{text}");
        assert!(matches!(schema.check(Some("{}")), SchemaCheck::Skipped(_)), "{text}");
    }
}

#[test]
fn js_recursive_schemas_work() {
    let tree = schema(
        r##"{"$ref":"#/$defs/N","$defs":{"N":{"type":"object","properties":{"v":{"type":"integer"},
            "left":{"anyOf":[{"$ref":"#/$defs/N"},{"type":"null"}]},"right":{"$ref":"#/$defs/N"},
            "all":{"type":"array","items":{"$ref":"#node"}}}},"M":{"$anchor":"node","$ref":"#/$defs/N"}}}"##,
    );
    assert_eq!(tree.note(&tree.check(Some("{}")), "s", "t"), None);
    assert_eq!(tree.check(Some(r#"{"left":{"all":[{"v":1},{"right":{}}]}}"#)), SchemaCheck::Match);
    assert!(tree.check(Some(r#"{"left":{"all":[{"v":1},{"right":{"v":"x"}}]}}"#)).mismatch().is_some());
    let any = schema(
        r##"{"anyOf":[{"type":["string","number","boolean","null"]},{"type":"array","items":{"$ref":"#"}},
            {"type":"object","additionalProperties":{"$ref":"#"}}]}"##,
    );
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    assert_eq!(any.check(Some(&deep)), SchemaCheck::Match);
}

/// A chain of definitions, each of which evaluates the next one twice.
fn doubling(levels: usize) -> String {
    let mut definitions = serde_json::Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(
            format!("d{level}"),
            json!({"anyOf": [{"allOf": [next.clone(), {"type": "string"}]}, next]}),
        );
    }
    definitions.insert(format!("d{levels}"), json!({"type": "integer"}));
    json!({"$ref": "#/$defs/d0", "$defs": definitions}).to_string()
}

/// mcp:JS-09
#[test]
fn js_09_schema_bombs_are_not_run() {
    let doubled = r##"{"properties":{"x":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}"##;
    let deep = format!("{}1{}", r#"{"x":"#.repeat(100), "}".repeat(100));
    let backtracking = r#"{"items":{"pattern":"^(?=(a+)+$)\\1b"}}"#;
    let strings = format!("[{}]", vec![format!("\"{}\"", "a".repeat(60)); 50_000].join(","));
    for (text, instance) in [
        (r##"{"$ref":"#"}"##, "1"),
        (r##"{"allOf":[{"anyOf":[{"$ref":"#"}]}]}"##, "1"),
        (
            r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"not":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}"##,
            "1",
        ),
        (doubled, &deep),
        (&doubling(60), "1"),
        (&doubling(1500), "1"),
        (backtracking, &strings),
    ] {
        let start = Instant::now();
        let outcome = schema(text).check(Some(instance));
        assert!(matches!(outcome, SchemaCheck::Skipped(_)), "{outcome:?} {}", &text[..text.len().min(80)]);
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    assert!(schema(&doubling(8)).check(Some("1")) == SchemaCheck::Match, "small ones run");
}

#[test]
fn js_09_long_chains_of_references_do_not_exhaust_the_stack() {
    let mut definitions = serde_json::Map::new();
    for level in 0..190 {
        definitions.insert(
            format!("d{level}"),
            json!({"properties": {"x": {"items": {"$ref": format!("#/$defs/d{}", level + 1)}}}}),
        );
    }
    definitions.insert("d190".into(), json!({}));
    let text = json!({"$ref": "#/$defs/d0", "$defs": definitions}).to_string();
    let outcome = std::thread::Builder::new()
        .stack_size(2 * 1024 * 1024)
        .spawn(move || schema(&text).check(Some(r#"{"x":[{"x":[]}]}"#)))
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(outcome, SchemaCheck::Match);
}
