//! The frontmatter of a `SKILL.md`: YAML between two lines of `---`, as JSON would say it.

use std::collections::BTreeSet;

use serde_json::Value;

/// Longest frontmatter, in bytes.
const LIMIT: usize = 64 * 1024;

/// Reads the frontmatter of a file.
///
/// # Errors
/// Why there is none that can be compared, in words that follow "the frontmatter".
pub(super) fn read(file: &str) -> Result<Value, String> {
    let file = file.strip_prefix('\u{feff}').unwrap_or(file);
    let mut lines = file.split_inclusive('\n');
    if lines.next().is_none_or(|first| first.trim_end() != "---") {
        return Err("does not begin with a line of ---".to_owned());
    }
    let start = file.find('\n').map_or(file.len(), |end| end + 1);
    let mut end = start;
    for line in lines {
        if line.trim_end() == "---" {
            let text = file.get(start..end).unwrap_or_default();
            return parse(text);
        }
        end += line.len();
        if end - start > LIMIT {
            return Err(format!("is longer than {LIMIT} bytes"));
        }
    }
    Err("does not end with a line of ---".to_owned())
}

/// YAML 1.2 with its core schema. Aliases are few and shallow, so that a short text never becomes a long value.
fn parse(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: 20_000,
            max_nodes: 10_000,
            max_depth: 32,
            max_aliases: 64,
            max_anchors: 64,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 10_000,
            max_replay_stack_depth: 8,
            max_alias_expansions_per_anchor: 64,
        },
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| format!("is not YAML that can be compared: {error}"))?;
    if value.is_object() { Ok(value) } else { Err("is not a mapping".to_owned()) }
}

/// Fields in which two frontmatters differ: members in any order, lists in order, numbers by value, nothing else
/// converted.
pub fn differences(entry: &Value, file: &Value) -> Vec<String> {
    let empty = serde_json::Map::new();
    let (entry, file) = (entry.as_object().unwrap_or(&empty), file.as_object().unwrap_or(&empty));
    let names: BTreeSet<&String> = entry.keys().chain(file.keys()).collect();
    let differs = |name: &&String| match (entry.get(*name), file.get(*name)) {
        (Some(one), Some(other)) => !equal(one, other),
        _ => true,
    };
    names.into_iter().filter(differs).cloned().collect()
}

fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        _ => one == other,
    }
}
