use serde_json::{Value, json};

use super::super::blob::tests::Scratch;
use super::*;
use crate::protocol::content::LARGE_TEXT_BYTES;
use crate::protocol::sanitize::Sanitize;

fn map(text: &str, mode: BlobMode, scratch: &Scratch) -> Result<MappedContents> {
    let directory = || Ok(scratch.0.clone());
    map_resource_contents(text, mode, &OutputRules::new("srv", "asked:for", Sanitize::Invisible, &directory))
}

fn value(text: &str, mode: BlobMode, scratch: &Scratch) -> Value {
    serde_json::from_str(&map(text, mode, scratch).unwrap().value).unwrap()
}

#[test]
fn res_01_texts_and_saved_blobs() {
    let scratch = Scratch::new();
    let text = r#"{"contents":[{"uri":"a:b\u200b","mimeType":"text/plain","text":"x\u200b ½"},
        {"uri":"file:///../../etc/r","mimeType":"application/pdf","blob":"JVBERg=="},{"text":"no uri"},{"uri":"u:v"},7]}"#;
    let path = scratch.0.join("r.pdf").to_string_lossy().into_owned();
    assert_eq!(
        value(text, BlobMode::File, &scratch),
        json!([
            {"uri": "a:b", "mimeType": "text/plain", "text": "x ½", "server": "srv"},
            {"uri": "file:///../../etc/r", "mimeType": "application/pdf", "path": path, "bytes": 4, "server": "srv"},
            {"uri": "asked:for", "text": "no uri", "server": "srv"},
            {"uri": "u:v", "server": "srv"},
        ])
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"%PDF");
    let again = value(
        r#"{"contents":[{"uri":"file:///r","mimeType":"application/pdf","blob":""}]}"#,
        BlobMode::File,
        &scratch,
    );
    assert!(again[0]["path"].as_str().unwrap().ends_with("r-1.pdf"), "no overwrite");
}

#[test]
fn res_01_buffer_mode_writes_nothing() {
    let scratch = Scratch::new();
    let seen = value(r#"{"contents":[{"uri":"a:b","blob":"JVBE\nRg"}]}"#, BlobMode::Buffer, &scratch);
    assert_eq!(seen, json!([{"uri": "a:b", "data": "JVBE\nRg", "server": "srv"}]));
    assert!(!scratch.0.exists());
}

#[test]
fn res_01_errors_are_typed() {
    let scratch = Scratch::new();
    for text in ["5", "{}", r#"{"contents":5}"#, r#"{"contents":[{"uri":"a:b","blob":"*"}]}"#] {
        let error = map(text, BlobMode::File, &scratch).unwrap_err();
        assert_eq!((error.code(), error.server()), (ErrorCode::ResultInvalid, Some("srv")), "{text}");
    }
    let broken = r#"{"contents":[{"uri":"a:b","blob":"%%%not base64%%%"}]}"#;
    assert_eq!(map(broken, BlobMode::Buffer, &scratch).unwrap_err().code(), ErrorCode::ResultInvalid);
    assert_eq!(map(r#"{"contents":[]}"#, BlobMode::File, &scratch).unwrap().value, "[]", "mcp:RES-10");
    assert_eq!(
        map(r#"{"contents":{"text":"x"}}"#, BlobMode::File, &scratch).unwrap().warnings[0].code,
        "RESULT_ODD"
    );
}

#[test]
fn bey_14_long_texts_cross_apart() {
    let scratch = Scratch::new();
    let long = "y".repeat(LARGE_TEXT_BYTES);
    let text = json!({"contents": [{"uri": "a:b", "text": "s"}, {"uri": "a:c", "text": long}]}).to_string();
    let mapped = map(&text, BlobMode::File, &scratch).unwrap();
    assert_eq!(mapped.large_texts, [(1, long)]);
    assert!(mapped.value.len() < 200);
}
