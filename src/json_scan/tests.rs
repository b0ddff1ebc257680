use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((".*", inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
}

proptest! {
    #[test]
    fn walk_agrees_with_a_parser(value in any_json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        prop_assert_eq!(scan(&text).depth, depth_of(&value));
        match &value {
            Value::Object(map) => {
                let seen: Vec<(String, Value)> = members(&text)
                    .map(|m| (m.key().into_owned(), serde_json::from_str(m.value).unwrap()))
                    .collect();
                prop_assert_eq!(seen, map.iter().map(|(k, v)| (k.clone(), v.clone())).collect::<Vec<_>>());
            }
            Value::Array(items) => {
                let seen: Vec<Value> = elements(&text).map(|t| serde_json::from_str(t).unwrap()).collect();
                prop_assert_eq!(&seen, items);
            }
            Value::String(inner) => prop_assert_eq!(decode(&text).unwrap(), inner.as_str()),
            _ => {}
        }
    }

    #[test]
    fn quoting_and_decoding_are_inverse(text in ".*") {
        let literal = quote(&text);
        prop_assert_eq!(serde_json::from_str::<String>(&literal).unwrap(), text.clone());
        prop_assert_eq!(decode_exact(&literal).unwrap(), text);
    }

    #[test]
    fn nothing_panics_on_text_that_is_no_json(text in r#"["\\{}\[\]:, a-zé0-9u]{0,40}"#) {
        scan(&text);
        members(&text).for_each(|m| { m.key(); });
        elements(&text).for_each(|e| { decode(e); });
    }
}

#[test]
fn facts_of_texts() {
    for (text, ascii, escapes, returns, controls) in [
        (r#"{"a":"b\n"}"#, true, false, false, false),
        (r#""\u200b""#, true, true, false, false),
        (r#""\\u200b""#, true, false, false, false),
        ("\"é\"", false, false, false, false),
        (r#""\r""#, true, false, true, false),
        (r#""\f""#, true, false, false, true),
        ("\"\u{7f}\"", true, false, false, true),
    ] {
        let facts = scan(text);
        assert_eq!(
            (facts.ascii, facts.unicode_escapes, facts.carriage_returns, facts.controls),
            (ascii, escapes, returns, controls),
            "{text}"
        );
    }
}

#[test]
fn sec_04_depth_is_counted_outside_strings() {
    assert_eq!(scan(&"[".repeat(300)).depth, 300);
    assert_eq!(scan(r#"{"a":"[[[[","b":[{}]}"#).depth, 3);
}

#[test]
fn b_091_keys_are_exact_and_the_last_one_counts() {
    let [name] = pick(r#"{"Name":1,"name":2,"n\u0061me":3,"name\u200b":4}"#, ["name"]);
    assert_eq!(name, Some("3"));
}

#[test]
fn b_112_numbers_stay_text() {
    let [big, huge] = pick(r#"{"big": 9007199254740993 , "huge":1e400}"#, ["big", "huge"]);
    assert_eq!((big, huge), (Some("9007199254740993"), Some("1e400")));
}

#[test]
fn surrogates() {
    assert_eq!(decode(r#""\ud83d\ude00""#).unwrap(), "😀");
    assert_eq!(decode(r#""\ud83dx""#).unwrap(), "\u{fffd}x");
    assert_eq!(decode(r#""\ude00""#).unwrap(), "\u{fffd}");
    assert_eq!(decode(r#""\ud83d\u0041""#).unwrap(), "\u{fffd}A");
    assert_eq!(decode_exact(r#""\ud83dx""#), None);
    assert_eq!(decode("5"), None);
}
