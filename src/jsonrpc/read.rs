//! One pass over a frame: id, method, and where the raw parts lie. No tree is built.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Answer, Incoming, RawText, RpcError};
use crate::json_scan::{self, Kind};

/// Members of an envelope, exactly as spelled (B-091); unknown ones are ignored, repeated ones refused.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Why a frame is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAMessage(pub &'static str);

/// Longest batch that is read (2025-03-26 allows batches and names no limit).
const MAX_BATCH: usize = 10_000;

/// Reads one frame: a message, or a batch of them.
pub fn read(frame: String) -> Result<Vec<Incoming>, NotAMessage> {
    match frame.as_bytes().iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => read_one(frame).map(|message| vec![message]),
        Some(b'[') => read_batch(&frame),
        _ => Err(NotAMessage("not a JSON object")),
    }
}

fn read_batch(frame: &str) -> Result<Vec<Incoming>, NotAMessage> {
    let members: Vec<&RawValue> =
        serde_json::from_str(frame).map_err(|_| NotAMessage("not a JSON array of messages"))?;
    if members.is_empty() || members.len() > MAX_BATCH {
        return Err(NotAMessage("an empty or endless batch"));
    }
    let mut wrong = None;
    let mut readable = false;
    let each = |member: &RawValue| match read_one(member.get().to_owned()) {
        Ok(message) => {
            readable = true;
            message
        }
        Err(not) => {
            wrong.get_or_insert(not);
            Incoming::Unreadable { text: member.get().to_owned(), reason: not.0 }
        }
    };
    let messages = members.into_iter().map(each).collect();
    // One bad member costs no other its answer (mcp:BASE-10); where all are bad, it is no batch.
    match wrong {
        Some(not) if !readable => Err(not),
        _ => Ok(messages),
    }
}

/// Reads one message that is known to be an object.
pub fn read_one(frame: String) -> Result<Incoming, NotAMessage> {
    let envelope: Envelope = serde_json::from_str(&frame).map_err(|_| NotAMessage("not valid JSON"))?;
    if envelope.jsonrpc.is_none_or(|version| version.get() != "\"2.0\"") {
        return Err(NotAMessage("no \"jsonrpc\":\"2.0\""));
    }
    let place = |raw: &RawValue| {
        let start = raw.get().as_ptr() as usize - frame.as_ptr() as usize;
        start..start + raw.get().len()
    };
    let Some(method) = envelope.method else {
        return read_response(&envelope, place).map(|(id, answer)| match answer {
            Draft::Result(range) => {
                Incoming::Response { id, answer: Answer::Result(RawText::new(frame, range)) }
            }
            Draft::Error(error) => Incoming::Response { id, answer: Answer::Error(error) },
            Draft::Invalid(reason) => Incoming::Response { id, answer: Answer::Invalid { reason, frame } },
        });
    };
    let method =
        json_scan::decode(method.get()).ok_or(NotAMessage("the method is not a string"))?.into_owned();
    let id = envelope.id.map(|id| id.get().to_owned());
    let params = envelope.params.map(place);
    let params = params.map(|range| RawText::new(frame, range));
    match id {
        None => Ok(Incoming::Notification { method, params }),
        Some(id) if id.starts_with(['{', '[', 't', 'f']) => Err(NotAMessage("the id is no string or number")),
        Some(id) => Ok(Incoming::Request { id, method, params }),
    }
}

enum Draft {
    Result(std::ops::Range<usize>),
    Error(RpcError),
    Invalid(&'static str),
}

fn read_response(
    envelope: &Envelope<'_>,
    place: impl Fn(&RawValue) -> std::ops::Range<usize>,
) -> Result<(Option<u64>, Draft), NotAMessage> {
    let id = envelope.id.and_then(|id| our_id(id.get()));
    match (envelope.result, envelope.error) {
        (Some(result), None) => Ok((id, Draft::Result(place(result)))),
        (None, Some(error)) => Ok((id, read_error(error))),
        (Some(_), Some(_)) => Ok((id, Draft::Invalid("both result and error"))),
        (None, None) if envelope.id.is_some() => Ok((id, Draft::Invalid("neither result nor error"))),
        (None, None) => Err(NotAMessage("neither method nor result nor error")),
    }
}

/// The code counts, whatever is wrong with the rest (mcp:BASE-09).
fn read_error(raw: &RawValue) -> Draft {
    if json_scan::kind(raw.get()) != Kind::Object {
        return Draft::Invalid("an error that is no object");
    }
    let [code, message, data] = json_scan::pick(raw.get(), ["code", "message", "data"]);
    let Some(code) = code.and_then(whole) else { return Draft::Invalid("an error without integer code") };
    let message = message.and_then(json_scan::decode).unwrap_or_default().into_owned();
    let data = data.and_then(|data| RawValue::from_string(data.to_owned()).ok()).map(std::sync::Arc::from);
    Draft::Error(RpcError { code, message, data })
}

/// Our ids are whole numbers; `"7"` is not `7` (mcp:BASE-07), `7.0` is.
pub fn our_id(text: &str) -> Option<u64> {
    whole(text)
}

/// A whole number of this type; some languages write all numbers with a fraction.
fn whole<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok().or_else(|| text.strip_suffix(".0")?.parse().ok())
}

/// Finds the id of an answer that is too large to be read, from its first and last bytes.
///
/// Answers carry the id either before or after the result; both ends are looked at, the last one first.
pub fn id_of_oversized(head: &[u8], tail: &[u8]) -> Option<u64> {
    let tail = String::from_utf8_lossy(tail);
    let from_tail = tail.trim_end().strip_suffix('}').and_then(|rest| {
        let at = rest.rfind("\"id\"")?;
        let value = rest[at + 4..].trim_start().strip_prefix(':')?.trim();
        let digits = value.split(',').next()?.trim();
        digits.parse().ok()
    });
    from_tail.or_else(|| {
        let head = String::from_utf8_lossy(head);
        // Only what stands before the result belongs to the envelope.
        let envelope = head.split("\"result\"").next()?;
        let at = envelope.find("\"id\"")?;
        let value = envelope[at + 4..].trim_start().strip_prefix(':')?.trim_start();
        let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Incoming, NotAMessage> {
        read(text.to_owned()).map(|mut list| list.remove(0))
    }

    #[test]
    fn pro_01_result_stays_raw() {
        let text = r#"{"result": {"a": 1e400, "b": 9007199254740993} ,"jsonrpc":"2.0","id":7}"#;
        let Ok(Incoming::Response { id: Some(7), answer: Answer::Result(raw) }) = one(text) else {
            panic!("not a response");
        };
        assert_eq!(raw.as_str(), r#"{"a": 1e400, "b": 9007199254740993}"#);
        assert_eq!(raw.into_string(), r#"{"a": 1e400, "b": 9007199254740993}"#);
    }

    #[test]
    fn pro_01_string_ids_are_not_ours() {
        let Ok(Incoming::Response { id, .. }) = one(r#"{"jsonrpc":"2.0","id":"7","result":{}}"#) else {
            panic!("not a response");
        };
        assert_eq!(id, None);
    }

    #[test]
    fn contradictions_settle_the_call() {
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":7,"reſult":{}}"#,
        ] {
            assert!(
                matches!(one(text), Ok(Incoming::Response { id: Some(7), answer: Answer::Invalid { .. } })),
                "{text}"
            );
        }
    }

    #[test]
    fn b_091_look_alike_members_are_nothing() {
        assert!(one(r#"{"jsonrpc":"2.0","ID":1,"Result":{}}"#).is_err());
        assert!(one(r#"{"JSONRPC":"2.0","id":1,"result":{}}"#).is_err());
    }

    #[test]
    fn f_014_noise_is_not_a_message() {
        for text in [
            r#"log: {"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}{"jsonrpc":"2.0","id":2,"result":{}}"#,
            "[1,2",
            "[1,2]",
            "42",
            "\"text\"",
            "",
        ] {
            assert!(one(text).is_err(), "{text}");
        }
    }

    #[test]
    fn requests_and_notifications() {
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","id":"a-1","method":"ping"}"#),
            Ok(Incoming::Request { id, method, params: None }) if id == "\"a-1\"" && method == "ping"
        ));
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#),
            Ok(Incoming::Notification { params: Some(params), .. }) if params.as_str() == r#"{"progress":1}"#
        ));
    }

    #[test]
    fn std_03_batches_are_read() {
        let batch = r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"x"}]"#;
        assert_eq!(read(batch.to_owned()).map(|list| list.len()), Ok(2));
    }

    #[test]
    fn base_10_one_bad_member_costs_no_other_its_answer() {
        let batch = r#"[7,{"a":1},{"jsonrpc":"2.0","id":1,"result":{}}]"#;
        let Ok(list) = read(batch.to_owned()) else { panic!("mcp:BASE-10") };
        let [Incoming::Unreadable { .. }, Incoming::Unreadable { text, .. }, answer] = list.as_slice() else {
            panic!("mcp:BASE-10 {list:?}");
        };
        assert_eq!(text, r#"{"a":1}"#);
        assert!(matches!(answer, Incoming::Response { id: Some(1), .. }), "mcp:BASE-10 {answer:?}");
    }

    #[test]
    fn base_09_the_code_of_an_error_survives_what_is_wrong_with_the_rest() {
        for (error, code, message, data) in [
            (r#"{"code":-32000,"message":"a\ud83db"}"#, -32000, "a\u{fffd}b", None),
            (r#"{"code":-32000,"message":null}"#, -32000, "", None),
            (r#"{"code":-32000.0}"#, -32000, "", None),
            (r#"{"code":7,"message":"m","data": {"deep":[1e400]} }"#, 7, "m", Some(r#"{"deep":[1e400]}"#)),
            (r#"{"code":7,"message":"m","data":null}"#, 7, "m", Some("null")),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":7,"error":{error}}}"#);
            let Ok(Incoming::Response { answer: Answer::Error(read), .. }) = one(&text) else {
                panic!("mcp:BASE-09 {text}");
            };
            let kept = read.data.as_ref().map(|data| data.get());
            assert_eq!((read.code, read.message.as_str(), kept), (code, message, data), "mcp:BASE-09");
        }
        for error in [r#"{"code":"7","message":""}"#, r#"{"code":7.5}"#, r#"{"message":"m"}"#, "[7]", "true"]
        {
            let text = format!(r#"{{"jsonrpc":"2.0","id":7,"error":{error}}}"#);
            assert!(
                matches!(one(&text), Ok(Incoming::Response { id: Some(7), answer: Answer::Invalid { .. } })),
                "mcp:BASE-09 {text}"
            );
        }
    }

    #[test]
    fn f_011_id_of_an_oversized_answer() {
        assert_eq!(
            id_of_oversized(br#"{"jsonrpc":"2.0","id":12,"result":{"content":"#, b"xxxx\"}]}}"),
            Some(12)
        );
        assert_eq!(
            id_of_oversized(br#"{"result":{"id":3,"content":"#, br#"xxx"}]},"jsonrpc":"2.0","id":14}"#),
            Some(14)
        );
        assert_eq!(id_of_oversized(b"xxxxxxxx", b"yyyyyyyy"), None);
    }
}
