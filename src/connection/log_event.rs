//! What a `log` event says: cleaned, without secrets, and of a bounded size (mcp:LOG-04).

use crate::json_scan;
use crate::jsonrpc::write::push_string;
use crate::protocol::definition::{TITLE_LIMIT, cut};
use crate::secret::Redactor;
use crate::unicode::{Mode, clean_json, clean_str_lossy};

/// Longest data, in bytes of JSON; of longer ones the beginning is kept, as text.
const DATA_LIMIT: usize = 64 * 1024;
/// Looked at beyond the limit, so that no secret is cut in two and shown by halves.
const SLACK: usize = 8 * 1024;
/// Longest level; those of the protocol are much shorter.
const LEVEL_LIMIT: usize = 32;

/// Members of a `log` event, and how many characters were removed.
pub(super) fn log_members(
    source: &str,
    level: &str,
    logger: Option<&str>,
    data: &str,
    redactor: &Redactor,
) -> (String, usize) {
    let mut members = format!("\"source\":\"{source}\",\"level\":");
    push_string(&mut members, &cut(clean_str_lossy(level), LEVEL_LIMIT));
    if let Some(logger) = logger {
        members.push_str(",\"logger\":");
        push_string(&mut members, &cut(redactor.redact(&clean_str_lossy(logger)).into_owned(), TITLE_LIMIT));
    }
    members.push_str(",\"data\":");
    if data.len() > DATA_LIMIT {
        push_string(&mut members, &beginning(data, redactor));
        return (members, 0);
    }
    let (cleaned, removed) = match clean_json(data, Mode::Strict) {
        Ok(None) => (data.to_owned(), 0),
        Ok(Some(cleaned)) => (cleaned.text, cleaned.characters),
        Err(_) => ("null".to_owned(), 0),
    };
    members.push_str(&redactor.redact_json(&cleaned));
    (members, removed)
}

/// The beginning of data that is too long: of its text where it is one, else of its JSON.
fn beginning(data: &str, redactor: &Redactor) -> String {
    let text = json_scan::decode(data).unwrap_or(data.into());
    let end = text.floor_char_boundary(DATA_LIMIT + SLACK);
    cut(redactor.redact(&clean_str_lossy(&text[..end])).into_owned(), DATA_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn event(level: &str, logger: Option<&str>, data: &Value) -> Value {
        let (members, _) = log_members("protocol", level, logger, &data.to_string(), &Redactor::default());
        serde_json::from_str(&format!("{{{members}}}")).unwrap()
    }

    #[test]
    fn log_04_what_is_too_long_is_cut_and_stays_json() {
        let short = json!({ "a": ["x"] });
        assert_eq!(event("info", Some("l"), &short)["data"], short);
        for data in [json!("\u{e9}".repeat(DATA_LIMIT)), json!(vec![short; DATA_LIMIT])] {
            let said = event("info", None, &data);
            let text = said["data"].as_str().unwrap();
            assert!(text.len() < DATA_LIMIT + 100 && text.ends_with("[cut]"), "{}", text.len());
        }
        let odd = event(&"l".repeat(9_000), Some(&"n".repeat(9_000)), &json!(1));
        assert!(odd["level"].as_str().unwrap().len() < 100 && odd["logger"].as_str().unwrap().len() < 300);
    }
}
