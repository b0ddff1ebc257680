use std::cell::RefCell;

use serde_json::{Value, json};

use super::*;
use crate::protocol::sanitize::Sanitize;

/// Maps a wire result, holds it to a limit, and returns it with the files that were written.
fn held(
    wire: &Value,
    tokens: usize,
    on_large: LargeOutput,
) -> (Result<MappedResult>, Vec<(String, Vec<u8>)>) {
    let no_directory = || Err(McpError::new(ErrorCode::Internal, "no directory"));
    let rules = super::super::output::OutputRules::new("s", "mcp__s__t", Sanitize::Invisible, &no_directory);
    let mapped = super::super::output::map_result(wire.to_string(), &rules).unwrap();
    let files = RefCell::new(Vec::new());
    let save = |name: &str, _: &str, bytes: &[u8]| {
        files.borrow_mut().push((name.to_owned(), bytes.to_vec()));
        Ok(SavedBlob { path: format!("/out/{name}"), bytes: bytes.len() as u64 })
    };
    let limit = OutputLimit { tokens, ceiling: 0, on_large };
    let held = hold_to(mapped, limit, "s", "mcp__s__t", &save);
    (held, files.into_inner())
}

fn texts(result: &MappedResult) -> Vec<String> {
    let value: Value = serde_json::from_str(&result.value).unwrap();
    let blocks = value["content"].as_array().unwrap();
    blocks.iter().map(|block| block["text"].as_str().unwrap_or_default().to_owned()).collect()
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

#[test]
fn cal_04_what_fits_is_left_alone() {
    for tokens in [0, 100_000] {
        let (held, files) =
            held(&json!({ "content": [text(&"x".repeat(40_000))] }), tokens, LargeOutput::Error);
        let held = held.unwrap();
        assert!(held.truncated.is_none() && held.plain && files.is_empty() && held.warnings.is_empty());
    }
    let (held, _) = held(&json!({ "content": [text(&"x".repeat(40_004))] }), 100_000, LargeOutput::Error);
    assert_eq!(held.unwrap().warnings[0].code, "OUTPUT_LARGE");
}

#[test]
fn cal_04_a_long_text_goes_to_a_file_and_its_head_stays() {
    // Both ways a text crosses: within the JSON, and apart from it.
    for repeats in [11_000, 90_000] {
        let whole = "é1234".repeat(repeats);
        let (held, files) = held(&json!({ "content": [text(&whole)] }), 10_000, LargeOutput::File);
        let held = held.unwrap();
        assert_eq!(files, [("mcp__s__t.txt".to_owned(), whole.clone().into_bytes())]);
        let truncated = held.truncated.clone().unwrap();
        assert_eq!((truncated.tokens, truncated.limit), (whole.len() / 4, 10_000));
        assert_eq!(truncated.path.as_deref(), Some("/out/mcp__s__t.txt"));
        let texts = texts(&held);
        assert!(whole.starts_with(&texts[0]) && (3_995..=4_000).contains(&texts[0].len()));
        assert!(texts[1].contains("/out/mcp__s__t.txt"), "{}", texts[1]);
        assert_eq!(held.raw.as_deref(), Some(held.value.as_str()), "nothing holds the whole");
        assert!(held.large_texts.is_empty());
    }
}

#[test]
fn cal_04_c6_cuts_fall_between_characters() {
    let whole = "😀".repeat(20_000);
    for tokens in [600, 601, 602, 603] {
        let (held, files) = held(&json!({ "content": [text(&whole)] }), tokens, LargeOutput::Truncate);
        let held = held.unwrap();
        assert!(files.is_empty());
        assert_eq!(texts(&held)[0].len(), tokens * 4);
        assert!(whole.starts_with(&texts(&held)[0]));
    }
}

#[test]
fn cal_04_structured_content_goes_first_and_whole() {
    let rows: Vec<Value> = (0..5_000).map(|id| json!({ "id": id, "name": format!("row {id}") })).collect();
    let wire =
        json!({ "content": [text("5000 rows")], "structuredContent": { "rows": rows }, "_meta": { "a": 1 } });
    let (held, files) = held(&wire, 10_000, LargeOutput::File);
    let held = held.unwrap();
    let value: Value = serde_json::from_str(&held.value).unwrap();
    assert!(value.get("structuredContent").is_none() && value["meta"] == json!({ "a": 1 }));
    assert_eq!(texts(&held)[0], "5000 rows");
    assert!(texts(&held)[1].contains("structuredContent"));
    let saved: Value = serde_json::from_slice(&files[0].1).unwrap();
    assert_eq!(saved["structuredContent"], wire["structuredContent"]);
    assert_eq!(files[0].0, "mcp__s__t.json");
}

#[test]
fn k4_images_count_little_and_become_files_not_broken_text() {
    let image = json!({ "type": "image", "data": "A".repeat(400_000), "mimeType": "image/png" });
    let one = json!({ "content": [image] });
    assert!(
        held(&one, 2_000, LargeOutput::Error).0.unwrap().truncated.is_none(),
        "one image is 1,600 tokens"
    );
    let many = json!({ "content": vec![image; 3] });
    let (held, files) = held(&many, 4_000, LargeOutput::File);
    let value: Value = serde_json::from_str(&held.unwrap().value).unwrap();
    let kinds: Vec<&str> =
        value["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["file", "file", "file", "text"]);
    assert_eq!(value["content"][0]["bytes"], 300_000);
    assert_eq!(files.len(), 4, "the whole, and each image");
}

#[test]
fn cal_04_however_many_blocks_there_are_the_cut_result_is_small() {
    for (what, on_large) in
        [("row", LargeOutput::File), ("row", LargeOutput::Truncate), ("", LargeOutput::File)]
    {
        let rows: Vec<Value> = (0..60_000).map(|_| text(what)).collect();
        let (held, _) = held(&json!({ "content": rows }), 5_000, on_large);
        let held = held.unwrap();
        assert!(held.truncated.is_some(), "blocks of {what:?} are not free");
        assert!(held.value.len() < 5_000 * 10, "{} bytes of {what:?}", held.value.len());
        let texts = texts(&held);
        let note = format!("Left out: text × {}.", 60_000 - (texts.len() - 1));
        assert!(texts.last().unwrap().contains(&note), "{note}");
    }
}

#[test]
fn cal_04_images_that_do_not_fit_become_few_files_and_the_rest_is_named() {
    let image = json!({ "type": "image", "data": "A".repeat(400), "mimeType": "image/png" });
    let (held, files) = held(&json!({ "content": vec![image; 1_000] }), 1_000, LargeOutput::File);
    let held = held.unwrap();
    let kept = held.value.matches(r#""type":"image""#).count();
    assert_eq!(files.len(), 1 + MOST_FILES, "the whole, and some images");
    let note = format!("Left out: image × {}.", 1_000 - MOST_FILES - kept);
    assert!(texts(&held).last().unwrap().contains(&note), "{}", texts(&held).last().unwrap());
}

#[test]
fn cal_04_an_error_names_both_figures() {
    let (held, _) = held(&json!({ "content": [text(&"x".repeat(4_000))] }), 999, LargeOutput::Error);
    let error = held.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ResultTooLarge);
    assert!(
        error.message().contains("1000 tokens") && error.message().contains("999"),
        "{}",
        error.message()
    );
}

#[test]
fn cal_04_a_failure_of_the_tool_stays_one() {
    let wire = json!({ "content": [text(&"x".repeat(8_000)), text("second")], "isError": true });
    let (held, _) = held(&wire, 1_000, LargeOutput::Truncate);
    let held = held.unwrap();
    assert!(held.is_error);
    let value: Value = serde_json::from_str(&held.value).unwrap();
    assert_eq!(value["isError"], true);
    assert!(texts(&held).last().unwrap().contains("Left out: text"));
}

#[test]
fn k12_a_tool_may_claim_more_up_to_the_ceiling_and_never_less() {
    let limit = OutputLimit { tokens: 25_000, ceiling: 125_000, on_large: LargeOutput::File };
    for (claim, tokens) in [
        (None, 25_000),
        (Some(0), 25_000),
        (Some(4), 25_000),
        (Some(200_000), 50_000),
        (Some(500_000), 125_000),
        (Some(usize::MAX), 125_000),
    ] {
        assert_eq!(limit.for_tool(claim).tokens, tokens, "{claim:?}");
    }
    assert_eq!(OutputLimit { tokens: 0, ..limit }.for_tool(Some(4)).tokens, 0, "no limit stays none");
    assert_eq!(OutputLimit { ceiling: 0, ..limit }.for_tool(Some(500_000)).tokens, 25_000);
}

#[test]
fn k4_paths_of_saved_files_stay_when_the_text_before_them_is_cut() {
    let file = r#"{"type":"file","path":"/out/a.png","mimeType":"image/png","bytes":9}"#;
    let text = text_block(&"x".repeat(20_000));
    let parts = |files: usize| {
        let blocks = std::iter::once(text.as_str()).chain(std::iter::repeat_n(file, files));
        Parts {
            blocks: blocks.map(|raw| Block::read(raw, false, None)).collect(),
            structured: None,
            is_error: false,
            meta: None,
        }
    };
    let no_file = |_: &str, _: &str, _: &[u8]| Err(McpError::new(ErrorCode::Internal, ""));
    let kept =
        |files| cut(&parts(files), 1_000, "t", None, &no_file).iter().filter(|one| **one == file).count();
    assert_eq!((kept(1), kept(64), kept(1_000)), (1, 64, 64));
}
