use std::borrow::Cow;

use proptest::prelude::*;

use super::*;

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(|&item| item.to_owned()).collect()
}

#[test]
fn sec_03_secret_prints_nothing_of_itself() {
    let secret = Secret::new("hunter2-hunter2".to_owned());
    assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "[REDACTED] [REDACTED] Some([REDACTED])");
    assert_eq!(secret.expose(), "hunter2-hunter2");
}

#[test]
fn sec_03_urls_lose_userinfo_and_secret_query_values() {
    let table = [
        ("https://a.test/x?y=1", "https://a.test/x?y=1"),
        ("https://user:pass@a.test/x", "https://[REDACTED]@a.test/x"),
        ("https:\\\\user:pass@a.test/x", "https:\\\\[REDACTED]@a.test/x"),
        ("https://u@v@a.test/", "https://[REDACTED]@a.test/"),
        ("https://a.test/?api_key=abc&b=2", "https://a.test/?api_key=[REDACTED]&b=2"),
        (
            "https://a.test/?x=1&access_token=abc#code=9",
            "https://a.test/?x=1&access_token=[REDACTED]#code=[REDACTED]",
        ),
        ("https://a.test/?accessToken=abc", "https://a.test/?accessToken=[REDACTED]"),
        ("https://a.test/?client_secret=abc", "https://a.test/?client_secret=[REDACTED]"),
        ("https://a.test/?monkey=abc", "https://a.test/?monkey=abc"),
        ("https://a.test/?token=${TOKEN}", "https://a.test/?token=${TOKEN}"),
        ("https://a.test/?token=${TOKEN:-abc}", "https://a.test/?token=[REDACTED]"),
        ("--dsn=postgres://user:pw@db/x", "--dsn=postgres://[REDACTED]@db/x"),
        ("DATABASE_URL=postgres://u:p@h", "DATABASE_URL=postgres://[REDACTED]@h"),
        ("copy ftp://a:b@c/?token=t to https://u:p@h/", "copy ftp://[REDACTED]@c/?token=[REDACTED]"),
        ("from http://a:b@c to https://u:p@h", "from http://[REDACTED]@c to https://[REDACTED]@h"),
        ("http://a.test/ by me@b.test", "http://a.test/ by me@b.test"),
        ("not a url", "not a url"),
        ("", ""),
    ];
    for (text, shown) in table {
        assert_eq!(SafeUrl::new(text).to_string(), shown, "{text}");
        assert_eq!(format!("{:?}", SafeUrl::new(text)), format!("\"{shown}\""), "{text}");
    }
    assert_eq!(SafeUrl::new("https://u:p@a.test/?key=k1").secrets(), ["u", "p", "k1"]);
    assert_eq!(url_secrets("--dsn=postgres://user:pw@db/x"), ["user", "pw"]);
}

#[test]
fn sec_03_arguments_after_secret_flags() {
    let table: &[(&[&str], &[&str])] = &[
        (&["-y", "pkg", "--port", "80"], &["-y", "pkg", "--port", "80"]),
        (&["--token", "abc", "x"], &["--token", "[REDACTED]", "x"]),
        (&["--api-key=abc"], &["--api-key=[REDACTED]"]),
        (&["-e", "GITHUB_TOKEN=abc"], &["-e", "GITHUB_TOKEN=[REDACTED]"]),
        (&["--env=GITHUB_TOKEN=abc", "--env=A=b"], &["--env=GITHUB_TOKEN=[REDACTED]", "--env=A=b"]),
        (&["-e", "DATABASE_URL=postgres://u:p@h"], &["-e", "DATABASE_URL=postgres://[REDACTED]@h"]),
        (&["--token", "--verbose"], &["--token", "--verbose"]),
        (&["--header", "Authorization: Bearer abc"], &["--header", "Authorization:[REDACTED]"]),
        (&["--header=X-Key: abc"], &["--header=X-Key:[REDACTED]"]),
        (&["https://u:p@a.test/?token=x"], &["https://[REDACTED]@a.test/?token=[REDACTED]"]),
        (&["--max-tokens", "4096"], &["--max-tokens", "4096"]),
        (&["--password", "${PW}"], &["--password", "${PW}"]),
        (&["--password", "${PW:-abc}"], &["--password", "[REDACTED]"]),
    ];
    for (given, shown) in table {
        assert_eq!(redact_arguments(&strings(given)), strings(shown), "{given:?}");
    }
}

#[test]
fn g20_values_show_references_and_hide_literals() {
    let table = [
        ("", ""),
        ("plain", "[REDACTED]"),
        ("${TOKEN}", "${TOKEN}"),
        ("Bearer ${TOKEN}", "Bearer ${TOKEN}"),
        ("sk-${TAIL}", "[REDACTED]${TAIL}"),
        ("${A:-fallback}", "[REDACTED]"),
        ("${A}-x-${B}", "${A}[REDACTED]${B}"),
        ("Bearer abc", "[REDACTED]"),
        ("${open", "[REDACTED]"),
    ];
    for (value, shown) in table {
        assert_eq!(redact_value(value), shown, "{value}");
    }
}

#[test]
fn sec_03_redactor_covers_overlaps_schemes_and_encodings() {
    let redactor = Redactor::new(["abcdef", "abcdefgh", "Bearer tok-en-1", "p@ss wörd", "short", "a\"quote"]);
    let table = [
        ("nothing here", "nothing here"),
        ("x abcdefgh y", "x [REDACTED] y"),
        ("abcdefabcdef", "[REDACTED]"),
        ("got tok-en-1!", "got [REDACTED]!"),
        ("q=p%40ss%20w%C3%B6rd", "q=[REDACTED]"),
        ("{\"a\":\"a\\\"quote\"}", "{\"a\":\"[REDACTED]\"}"),
        ("short stays", "short stays"),
    ];
    for (text, shown) in table {
        assert_eq!(redactor.redact(text), shown, "{text}");
    }
    assert!(matches!(redactor.redact("clean"), Cow::Borrowed(_)));
    assert!(!format!("{redactor:?}").contains("abcdef"));
}

proptest! {
    #[test]
    fn sec_03_no_secret_survives(secret in "[a-z]{6,12}", head in ".{0,20}", tail in ".{0,20}") {
        let redactor = Redactor::new([secret.as_str()]);
        let text = format!("{head}{secret}{tail}");
        let shown = redactor.redact(&text);
        prop_assert!(!shown.contains(&secret));
    }

    #[test]
    fn sec_03_urls_never_panic(text in "\\PC{0,40}|[a-z:/@?&=#${}\\\\]{0,40}") {
        let url = SafeUrl::new(text.clone());
        let _ = (url.to_string(), url.secrets().len(), redact_value(&text), redact_arguments(&[text.clone(), text]));
    }
}

#[test]
fn sec_03_json_stays_json() {
    let redactor = Redactor::new(["123456"]).and(Redactor::new(["s3cret-value"]));
    assert_eq!(redactor.redact_json(r#"{"a":"s3cret-value 1"}"#), r#"{"a":"[REDACTED] 1"}"#);
    assert_eq!(redactor.redact_json(r#"{"a":123456}"#), r#""{\"a\":[REDACTED]}""#);
    assert_eq!(redactor.redact_json(r#"{"a":1}"#), r#"{"a":1}"#);
}
