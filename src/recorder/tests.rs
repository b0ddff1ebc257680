use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::redact::{Learned, message};
use super::*;

fn clean(text: &str, ours: bool) -> String {
    message(text, ours, &Redactor::new(["known-secret"]), &mut Learned::default())
}

#[test]
fn bey_08_secrets_leave_messages_and_nothing_else_changes() {
    for (text, ours, expected) in [
        (r#"{"id":1e400,"a":[1.0, null,true]}"#, true, r#"{"id":1e400,"a":[1.0,null,true]}"#),
        (
            r#"{"result":{"text":"say known-secret\n","knownx":"known\u002dsecret"}}"#,
            false,
            r#"{"result":{"text":"say [REDACTED]\n","knownx":"[REDACTED]"}}"#,
        ),
        (r#"{"known-secret":1}"#, false, r#"{"[REDACTED]":1}"#),
        (
            r#"{"a":"see https://me:pw@a.test/x?token=t&b=c, or <ftp://h/?code=1> \"q\" ü"}"#,
            false,
            r#"{"a":"see https://[REDACTED]@a.test/x?token=[REDACTED]&b=c, or <ftp://h/?code=[REDACTED]> \"q\" ü"}"#,
        ),
        (
            r#"{"params":{"_meta":{"progressToken":7},"arguments":{"apiToken":"abc","key":"k","deep":[{"password":["p"],"n":1}]}}}"#,
            true,
            r#"{"params":{"_meta":{"progressToken":7},"arguments":{"apiToken":"[REDACTED]","key":"k","deep":[{"password":"[REDACTED]","n":1}]}}}"#,
        ),
        (
            r#"{"params":{"arguments":{"password":{"value":"abc","n":1,"deep":{"a":["b"]},"on":true}}}}"#,
            true,
            r#"{"params":{"arguments":{"password":{"value":"[REDACTED]","n":"[REDACTED]","deep":{"a":"[REDACTED]"},"on":true}}}}"#,
        ),
        (
            r#"{"params":{"argument":{"name":"apiKey","value":"sk-1"},"inputResponses":{"auth":{"action":"accept"}}}}"#,
            true,
            r#"{"params":{"argument":{"name":"apiKey","value":"[REDACTED]"},"inputResponses":{"auth":{"action":"accept"}}}}"#,
        ),
        (
            r#"{"result":{"arguments":{"apiToken":"abc"}}}"#,
            false,
            r#"{"result":{"arguments":{"apiToken":"abc"}}}"#,
        ),
    ] {
        assert_eq!(clean(text, ours), expected);
    }
    let deep = format!("{}\"known-secret\"{}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(clean(&deep, true), deep.replace("known-secret", "[REDACTED]"));
}

#[test]
fn bey_08_what_a_server_repeats_of_a_secret_argument_is_hidden_too() {
    let mut learned = Learned::default();
    let known = Redactor::default();
    message(r#"{"params":{"arguments":{"apiKey":"abcdef-1"}}}"#, true, &known, &mut learned);
    let below = r#"{"params":{"arguments":{"password":[{"value":"abcdef-2"}]},"argument":{"value":"abcdef-3","name":"pass"}}}"#;
    message(below, true, &known, &mut learned);
    let echo = message(r#"{"result":"you said abcdef-1, abcdef-2, abcdef-3"}"#, false, &known, &mut learned);
    assert_eq!(echo, r#"{"result":"you said [REDACTED], [REDACTED], [REDACTED]"}"#);
}

fn recorder(path: &Path) -> (Arc<Recorder>, Arc<Mutex<Vec<Diagnostic>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    (Recorder::new(path.to_owned(), move |one| lock(&listener).push(one)), told)
}

fn source() -> Arc<Source> {
    Source::new(Arc::from("s"), 1, || Redactor::new(["known-secret"]))
}

/// A directory of its own that goes with the test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Directory {
    fn path(&self) -> &Path {
        &self.0
    }
}

fn directory() -> Directory {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let unique = format!("recorder-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(unique);
    std::fs::create_dir_all(&path).unwrap();
    Directory(path)
}

#[test]
fn bey_08_lines_stand_in_their_order_behind_a_header_and_before_an_end() {
    let directory = directory();
    let path = directory.path().join("r.jsonl");
    let (recorder, told) = recorder(&path);
    for number in 0..500 {
        recorder.take(&source(), Said::Sent(format!("{{\"id\":{number}}}\n")));
    }
    recorder.take(&source(), Said::Event("\"event\":\"failed\"".to_owned()));
    recorder.close_now();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["format"], "mcp-switchboard-recording");
    assert_eq!(lines[0]["version"], 1);
    let ids: Vec<u64> = lines[1..501].iter().map(|line| line["message"]["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (0..500).collect::<Vec<_>>());
    assert_eq!(lines[501]["event"], "failed");
    assert_eq!(lines[502], serde_json::json!({ "event": "ended", "lost": 0 }));
    assert_eq!(lines.len(), 503);
    assert!(lock(&told).is_empty());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn bey_08_a_second_recording_stands_behind_the_first_a_foreign_file_is_left_alone() {
    let directory = directory();
    let path = directory.path().join("r.jsonl");
    for _ in 0..2 {
        let (recorder, _) = recorder(&path);
        recorder.take(&source(), Said::Received("{\"id\":1}".to_owned()));
        recorder.close_now();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut file, b"{\"cut").unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("startedAt").count(), 2);
    assert!(text.contains("{\"cut\n{\"format\""), "{text}");

    let foreign = directory.path().join("notes.txt");
    std::fs::write(&foreign, "mine").unwrap();
    let (recorder, told) = recorder(&foreign);
    recorder.take(&source(), Said::Received("{}".to_owned()));
    recorder.close_now();
    recorder.take(&source(), Said::Received("{}".to_owned()));
    assert_eq!(std::fs::read_to_string(&foreign).unwrap(), "mine");
    let told = lock(&told);
    assert_eq!(told.iter().map(|one| one.code).collect::<Vec<_>>(), ["RECORDING_FAILED"]);
    assert!(told[0].message.contains("notes.txt") && told[0].message.contains("no recording"), "{told:?}");
}

#[test]
fn bey_08_two_recorders_never_share_a_file() {
    let directory = directory();
    let path = directory.path().join("r.jsonl");
    let (first, _) = recorder(&path);
    first.take(&source(), Said::Received("{}".to_owned()));
    first.write();
    let (second, told) = recorder(&path);
    second.take(&source(), Said::Received("{}".to_owned()));
    second.close_now();
    assert!(lock(&told)[0].message.contains("another manager"), "{told:?}");
    first.close_now();
}

#[test]
fn bey_08_what_the_disk_cannot_take_is_counted() {
    let directory = directory();
    let (recorder, told) = recorder(&directory.path().join("r.jsonl"));
    {
        // Whoever holds the file keeps the writer waiting, as a slow disk does.
        let _slow = lock(&recorder.file);
        for _ in 0..40 {
            recorder.take(&source(), Said::Received(format!("\"{}\"", "x".repeat(1024 * 1024))));
        }
    }
    recorder.close_now();
    let text = std::fs::read_to_string(directory.path().join("r.jsonl")).unwrap();
    let written = text.lines().count() - 2;
    assert!(written < 40, "{written}");
    assert!(text.ends_with(&format!("{{\"event\":\"ended\",\"lost\":{}}}\n", 40 - written)));
    let told = lock(&told);
    assert_eq!(
        told.iter().map(|one| one.code).collect::<Vec<_>>(),
        ["RECORDING_INCOMPLETE", "RECORDING_INCOMPLETE"]
    );
}
