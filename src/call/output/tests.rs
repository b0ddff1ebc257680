use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::blob::tests::Scratch;
use super::*;

fn raw(text: &str) -> String {
    text.to_owned()
}

fn map_with(text: &str, sanitize: Sanitize) -> Result<MappedResult> {
    let none = || Err(McpError::new(ErrorCode::Internal, "no directory"));
    map_result(raw(text), &OutputRules::new("srv", "tool", sanitize, &none))
}

fn map(text: &str) -> MappedResult {
    map_with(text, Sanitize::Invisible).expect(text)
}

fn value(result: &MappedResult) -> Value {
    serde_json::from_str(&result.value).expect(&result.value)
}

/// Value of a result that had to be written anew, its wire text at hand.
fn rewritten(text: &str) -> (Value, MappedResult) {
    let result = map(text);
    assert!(!result.plain, "{text}");
    assert_eq!(result.raw.as_deref(), Some(text));
    (value(&result), result)
}

#[test]
fn cal_03_a_well_formed_result_is_the_wire_text() {
    for text in [
        r#"{"content":[]}"#,
        r#"{"content":[{"type":"text","text":"a\n\"b\" <\u003c"}],"isError":false}"#,
        r#"{ "content" : [ {"type":"text","text":"é 日本 ½ ﬁ"} ] , "_meta":{"a":1}, "structuredContent":{"__proto__":{"isAdmin":true}}}"#,
        r#"{"content":[{"type":"image","data":"AA==","mimeType":"image/png","annotations":{"priority":1}},{"type":"audio","data":"AA==","mimeType":"audio/wav"},{"type":"resource_link","uri":"a:b","name":"n"}],"isError":true}"#,
        r#"{"content":[],"structuredContent":[9007199254740993,1e400,null],"other":{"x":[]}}"#,
    ] {
        let result = map(text);
        assert!(result.plain && result.raw.is_none(), "{text}");
        assert_eq!(result.value, text, "B-112, B-110");
        assert_eq!(result.is_error, text.contains(r#""isError":true"#));
        assert!(result.large_texts.is_empty());
    }
}

#[test]
fn cal_03_embedded_resources() {
    let scratch = Scratch::new();
    let directory = || Ok(scratch.0.clone());
    let rules = OutputRules::new("srv", "tool", Sanitize::Invisible, &directory);
    let text = r#"{"content":[
        {"type":"resource","resource":{"uri":"a:b","mimeType":"text/plain","text":"hi"},"annotations":{"audience":["user"]}},
        {"type":"resource","resource":{"text":"no uri"}},
        {"type":"resource","resource":{"uri":"a:b","mimeType":"image/png","blob":"iVBORw0KGgo="}},
        {"type":"resource","resource":{"uri":"file:///x/r.pdf","mimeType":"application/pdf","blob":"JVBE\nRg"}},
        {"type":"resource","resource":{"uri":"a:b/i.svg","mimeType":"image/svg+xml","blob":"PHN2Zz4="}},
        {"type":"resource","resource":{"uri":"a:b","blob":"***"}},
        {"type":"resource","resource":{"uri":"a:b"}},
        {"type":"resource","resource":7}],"_meta":{"m":1}}"#;
    let result = map_result(raw(text), &rules).unwrap();
    let value = value(&result);
    let file = |name: &str| scratch.0.join(name).to_string_lossy().into_owned();
    assert_eq!(
        value["content"].as_array().unwrap()[..5],
        [
            json!({"type": "text", "text": "hi", "annotations": {"audience": ["user"]}}),
            json!({"type": "text", "text": "no uri"}),
            json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}),
            json!({"type": "file", "path": file("r.pdf"), "mimeType": "application/pdf", "uri": "file:///x/r.pdf", "bytes": 4}),
            json!({"type": "file", "path": file("i.svg"), "mimeType": "image/svg+xml", "uri": "a:b/i.svg", "bytes": 5}),
        ],
        "K7"
    );
    assert_eq!(std::fs::read(file("r.pdf")).unwrap(), b"%PDF");
    for odd in &value["content"].as_array().unwrap()[5..] {
        assert_eq!(odd["type"], "unknown");
        assert_eq!(odd["raw"]["type"], "resource");
    }
    assert_eq!((value["meta"].clone(), value["isError"].clone()), (json!({"m": 1}), json!(false)));
    assert_eq!(result.warnings.len(), 3);
}

#[test]
fn a_file_that_cannot_be_saved_does_not_lose_the_call() {
    let (value, result) =
        rewritten(r#"{"content":[{"type":"resource","resource":{"uri":"a:b","blob":"AA=="}}]}"#);
    assert_eq!(value["content"][0]["type"], "unknown");
    assert_eq!(result.warnings[0].code, "OUTPUT_NOT_SAVED");
}

#[test]
fn k6_odd_results_are_mended_and_told() {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    for (wire, content) in [
        ("{}", json!([])),
        (r#"{"content":null}"#, json!([])),
        (r#"{"content":"text"}"#, text("text")),
        (r#"{"content":{"type":"text","text":"one"}}"#, text("one")),
        (r#"{"content":5}"#, json!([{"type": "unknown", "raw": {"value": 5}}])),
        (r#"{"content":["bare"]}"#, text("bare")),
        (r#"{"content":[{"text":"no type"}]}"#, text("no type")),
        (r#"{"toolResult":"old"}"#, text("old")),
        (r#"{"toolResult":{"a":[1e400]}}"#, text(r#"{"a":[1e400]}"#)),
        (r#"{"content":[],"isError":"true"}"#, json!([])),
        (r#"{"content":[],"_meta":[]}"#, json!([])),
        (
            r#"{"content":[{"type":"image","data":"iVBORw0KGgoAAAA"}]}"#,
            json!([{"type": "image", "data": "iVBORw0KGgoAAAA=", "mimeType": "image/png"}]),
        ),
        (
            r#"{"content":[{"type":"resource_link","uri":"a:b"}]}"#,
            json!([{"type": "resource_link", "uri": "a:b", "name": "a:b"}]),
        ),
        (
            r#"{"content":[{"type":"resource_link","uri":"a:b","name":"n","size":"big","title":null}]}"#,
            json!([{"type": "resource_link", "uri": "a:b", "name": "n"}]),
        ),
    ] {
        let (value, result) = rewritten(wire);
        assert_eq!(value, json!({"content": content, "isError": false}), "{wire}");
        assert_eq!((result.warnings.len(), result.warnings[0].code), (1, "RESULT_ODD"), "{wire}");
        assert_eq!(result.warnings[0].server.as_deref(), Some("srv"));
    }
}

/// mcp:TOOL-13
#[test]
fn b_079_unknown_blocks_are_opaque() {
    let blocks = [
        r#"{"type":"text"}"#,
        r#"{"type":"text","text":5}"#,
        r#"{"type":"__proto__","x":1}"#,
        r#"{"type":"video","data":"AA=="}"#,
        r#"{"type":"image","data":5,"mimeType":"image/png"}"#,
        r#"{"type":"audio","data":"AA=="}"#,
        r#"{"type":5,"text":7}"#,
        r#"{"__proto__":{"isAdmin":true}}"#,
    ];
    for block in blocks {
        let (value, result) =
            rewritten(&format!(r#"{{"content":[{{"type":"text","text":"kept"}},{block},5,null]}}"#));
        let raw: Value = serde_json::from_str(block).unwrap();
        assert_eq!(
            value["content"],
            json!([{"type": "text", "text": "kept"}, {"type": "unknown", "raw": raw},
                   {"type": "unknown", "raw": {"value": 5}}, {"type": "unknown", "raw": {"value": null}}]),
            "{block}"
        );
        assert_eq!(result.warnings.len(), 3);
    }
    let many = map(&format!(r#"{{"content":[{}]}}"#, vec!["null"; 10_000].join(",")));
    assert_eq!(many.warnings.len(), 6, "warnings are bounded");
}

#[test]
fn k9_errors_keep_all_blocks_and_an_empty_success_is_noted() {
    let error = map(
        r#"{"content":[{"type":"text","text":"1"},{"type":"text","text":"2"},{"type":"text","text":"3"}],"isError":true}"#,
    );
    assert!(error.is_error && value(&error)["content"].as_array().unwrap().len() == 3);
    let empty = map(r#"{"content":[]}"#);
    assert_eq!((empty.warnings.len(), empty.warnings[0].code), (1, "RESULT_EMPTY"));
    let structured = map(r#"{"structuredContent":{"a":1}}"#);
    assert_eq!(value(&structured)["structuredContent"], json!({"a": 1}));
    assert!(map(r#"{"content":[],"structuredContent":null}"#).warnings.is_empty());
}

/// mcp:TOOL-12
#[test]
fn tool_12_null_is_not_absent() {
    assert_eq!(map(r#"{"content":[],"structuredContent":null}"#).structured_content(), Some("null"));
    assert_eq!(map(r#"{"structuredContent":[1e400]}"#).structured_content(), Some("[1e400]"));
    assert_eq!(map(r#"{"content":[]}"#).structured_content(), None);
}

#[test]
fn sec_04_what_is_no_object_or_too_deep_is_refused() {
    let deep = format!(r#"{{"content":[],"structuredContent":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let fits = format!(r#"{{"content":[],"structuredContent":{}{}}}"#, "[".repeat(127), "]".repeat(127));
    assert!(map(&fits).plain);
    for text in ["null", "5", "[]", r#""text""#, "true", &deep] {
        let error = map_with(text, Sanitize::Off).unwrap_err();
        assert_eq!(
            (error.code(), error.server()),
            (ErrorCode::ResultInvalid, Some("srv")),
            "{}",
            &text[..5.min(text.len())]
        );
    }
}

#[test]
fn sec_02_invisible_characters_leave_text_and_structured_content() {
    let hidden = r#"{"content":[{"type":"text","text":"a\u200bb ½ ﬁ \udb40\udc41"},{"type":"video","x\u200b":"y\u202e"}],
        "structuredContent":{"k\u200b":"v\u2066"},"isError":false}"#;
    let (value, _) = rewritten(hidden);
    assert_eq!(
        value,
        json!({"content": [{"type": "text", "text": "ab ½ ﬁ "}, {"type": "unknown", "raw": {"type": "video", "x": "y"}}],
               "structuredContent": {"k": "v"}, "isError": false})
    );
    assert_eq!(value_of(hidden, Sanitize::Strict)["content"][0]["text"], "ab 1⁄2 fi ");
    assert!(value_of(hidden, Sanitize::Off)["content"][0]["text"].as_str().unwrap().contains('\u{200b}'));
}

fn value_of(text: &str, sanitize: Sanitize) -> Value {
    value(&map_with(text, sanitize).unwrap())
}

#[test]
fn sec_02_binary_is_untouched() {
    let text = r#"{"content":[{"type":"image","data":"4oCL4oCL","mimeType":"image/png"},{"type":"text","text":"é"}]}"#;
    assert!(map(text).plain);
}

const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[test]
fn k2_what_is_said_twice_is_handed_over_once() {
    let wire = json!({
        "content": [
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {"type": "text", "text": format!("{{\"image\":\"{PIXEL}\"}}")},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        ],
        "structuredContent": {"image": PIXEL, "n": 1},
    })
    .to_string();
    let (value, result) = rewritten(&wire);
    assert_eq!(value["structuredContent"], json!({"image": "[base64 of content[0]]", "n": 1}));
    assert_eq!(value["content"][1]["text"], r#"{"image":"[base64 of content[0]]"}"#);
    assert_eq!(value["content"][2]["data"], PIXEL, "who shows an image twice means it");
    assert_eq!(result.without_spare().raw, Some(wire), "what is short stays in the wire result");
}

#[test]
fn k2_long_base64_is_not_in_the_wire_result_as_well() {
    let scratch = Scratch::new();
    let directory = || Ok(scratch.0.clone());
    let rules = OutputRules::new("srv", "tool", Sanitize::Invisible, &directory);
    let long = format!("iVBORw0KGgoA{}", "AAAA".repeat(20_000));
    let wire = json!({
        "content": [
            {"type": "image", "data": long, "mimeType": "image/png"},
            {"type": "image", "data": long, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "a:b/x.zip", "mimeType": "application/zip", "blob": format!("UEsD{long}")}},
            {"type": "resource", "resource": {"uri": "a:b/y.zip", "mimeType": "application/zip", "blob": format!("UEsD{long}")}},
        ],
        "structuredContent": [long],
    })
    .to_string();
    let result = map_result(wire, &rules).unwrap();
    assert_eq!(result.structured_content().map(str::len), Some(long.len() + 4), "it is checked as it came");
    let value = value(&result);
    assert_eq!(value["structuredContent"], json!(["[base64 of content[0]]"]));
    assert_eq!(value["content"][2]["path"], value["content"][3]["path"], "one file");
    assert_eq!(value["content"][3]["uri"], "a:b/y.zip");
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1);
    let result = result.without_spare();
    assert!(result.raw.as_ref().unwrap().len() < 1000, "the file and the block have it");
    let raw: Value = serde_json::from_str(result.raw.as_ref().unwrap()).unwrap();
    assert_eq!(raw["content"][0], json!({"type": "image", "data": "", "mimeType": "image/png"}));
    assert_eq!(value["content"][0]["data"].as_str().unwrap().len(), long.len());
}

#[test]
fn k8_images_that_no_model_takes_break_nothing() {
    let scratch = Scratch::new();
    let directory = || Ok(scratch.0.clone());
    let rules = OutputRules::new("srv", "tool", Sanitize::Invisible, &directory);
    let encode = crate::protocol::media::encode;
    let drawing = encode(b"<svg xmlns='http://www.w3.org/2000/svg'/>");
    let page = encode(b"<!DOCTYPE html><html>404</html>");
    let gif = encode(b"GIF89a\x01\x00");
    let bare = PIXEL.trim_end_matches('=').replacen("Rw0K", "Rw0\nK", 1).replace('+', "-");
    let image = |data: &str, mime: &str| json!({"type": "image", "data": data, "mimeType": mime});
    let cases = [
        (
            image(&drawing, "image/svg+xml"),
            json!({"type": "file", "mimeType": "image/svg+xml", "bytes": 41}),
            0,
        ),
        (image(&drawing, "image/png"), json!({"type": "file", "mimeType": "image/svg+xml", "bytes": 41}), 1),
        (image(&page, "image/jpeg"), json!({"type": "file", "mimeType": "text/html", "bytes": 31}), 1),
        (image("AAAA", "image/x-own"), json!({"type": "file", "mimeType": "image/x-own", "bytes": 3}), 0),
        (image(&gif, "image/png"), image(&gif, "image/gif"), 1),
        (image(PIXEL, "image/jpg"), image(PIXEL, "image/png"), 1),
        (image(&bare, "image/png"), image(PIXEL, "image/png"), 0),
        (image("", "image/png"), json!({"type": "text", "text": "[empty image of type image/png]"}), 1),
        (
            json!({"type": "audio", "data": "", "mimeType": "audio/wav"}),
            json!({"type": "text", "text": "[empty audio of type audio/wav]"}),
            1,
        ),
        (image("%%%", "image/png"), json!({"type": "unknown", "raw": image("%%%", "image/png")}), 1),
        (image("AAAA", "image/png"), image("AAAA", "image/png"), 0),
        (
            json!({"type": "resource", "resource": {"uri": "a:b", "mimeType": "image/png", "blob": ""}}),
            json!({"type": "text", "text": "[empty image of type image/png]"}),
            1,
        ),
    ];
    for (block, expected, warnings) in cases {
        let wire = json!({"content": [block, {"type": "text", "text": "good"}]}).to_string();
        let result = map_result(wire.clone(), &rules).unwrap();
        let mut mapped = value(&result)["content"].clone();
        assert_eq!(mapped[1]["text"], "good");
        if expected["type"] == "file" {
            let path = mapped[0].as_object_mut().unwrap().remove("path").unwrap();
            assert!(std::path::Path::new(path.as_str().unwrap()).starts_with(&scratch.0), "{path}");
        }
        assert_eq!(mapped[0], expected, "{wire}");
        assert_eq!(result.warnings.len(), warnings, "{wire}: {:?}", result.warnings);
    }
}

#[test]
fn bey_14_long_texts_cross_apart() {
    let long = format!("é\"\n{}", "x".repeat(LARGE_TEXT_BYTES));
    let wire = json!({"content": [
        {"type": "text", "text": "short"},
        {"type": "text", "text": format!("\u{200b}{long}"), "annotations": {"priority": 1}},
        {"type": "resource", "resource": {"uri": "a:b", "text": long}},
    ], "isError": true})
    .to_string();
    let (value, result) = rewritten(&wire);
    assert_eq!(result.large_texts, [(1, long.clone()), (2, long)]);
    assert!(result.is_error && result.value.len() < 300);
    assert_eq!(value["content"][1], json!({"type": "text", "text": "", "annotations": {"priority": 1}}));
}

#[test]
fn lone_surrogates_do_not_lose_the_call() {
    let short = map(r#"{"content":[{"type":"text","text":"a\ud800b"}]}"#);
    assert!(short.value.contains("text"));
    let long =
        format!(r#"{{"content":[{{"type":"text","text":"\ud800{}"}}]}}"#, "x".repeat(LARGE_TEXT_BYTES));
    assert!(map(&long).large_texts[0].1.starts_with("\u{fffd}x"));
}

fn any_json() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("type".to_owned()),
        Just("text".to_owned()),
        Just("data".to_owned()),
        Just("mimeType".to_owned()),
        Just("resource".to_owned()),
        Just("uri".to_owned()),
        Just("blob".to_owned()),
        Just("content".to_owned()),
        Just("isError".to_owned()),
        Just("toolResult".to_owned()),
        Just("_meta".to_owned()),
        ".{0,3}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u8>().prop_map(Value::from),
        prop_oneof![Just("text"), Just("image"), Just("resource"), Just("resource_link"), Just("é\u{200b}")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn cal_03_every_object_maps_to_the_public_shape(members in prop::collection::vec(any_json(), 0..4), extra in any_json()) {
        let wire = json!({"content": members, "_meta": extra}).to_string();
        let result = map(&wire);
        let value = value(&result);
        let blocks = value["content"].as_array().unwrap();
        prop_assert_eq!(blocks.len(), members.len());
        for block in blocks {
            let has = |names: &[&str]| names.iter().all(|name| block[*name].is_string());
            let fine = match block["type"].as_str().unwrap() {
                "text" => has(&["text"]),
                "image" | "audio" => has(&["data", "mimeType"]),
                "resource_link" => has(&["uri", "name"]),
                "unknown" => block["raw"].is_object(),
                _ => false,
            };
            prop_assert!(fine, "{}", block);
        }
        prop_assert_eq!(result.raw.unwrap_or(result.value), wire);
    }
}
