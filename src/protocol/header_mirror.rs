//! Arguments that a tool wants to see in headers too: reading `x-mcp-header` from its schema and the values from
//! the arguments of a call (mcp:HDR-08 to 21). Pure; encoding for the wire belongs to the transport.

use std::sync::Arc;

use crate::json_scan::{self, Kind, MAX_DEPTH};

/// The annotation.
const KEYWORD: &str = "x-mcp-header";
/// Keywords whose value is data, not a schema: an annotation inside is none.
const DATA_KEYWORDS: [&str; 5] = ["default", "enum", "const", "examples", "example"];
/// Largest integer that may be mirrored (mcp:HDR-12).
const LARGEST: f64 = 9_007_199_254_740_991.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    Text,
    Integer,
    Boolean,
}

/// One argument that is mirrored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMirror {
    /// The annotation's value: what follows `Mcp-Param-` in the header's name.
    pub header: String,
    path: Vec<String>,
    kind: ValueKind,
}

/// The mirrored arguments of one tool, or why its annotations are invalid.
pub type HeaderMirrors = Result<Arc<[HeaderMirror]>, String>;

/// Reads the annotations of an input schema as the server wrote it.
///
/// # Errors
/// Why an annotation is invalid (mcp:HDR-09 to 13): such a tool is not offered over HTTP (mcp:HDR-14).
pub fn read_mirrors(schema: &str) -> HeaderMirrors {
    // Almost no schema has one; an escape could hide it.
    if !schema.contains(KEYWORD) && !schema.contains("\\u") {
        return Ok(Arc::default());
    }
    if json_scan::scan(schema).depth > MAX_DEPTH {
        return Err("its inputSchema is nested too deeply".to_owned());
    }
    let mut found = Vec::new();
    walk(schema, &Place::Root, &mut found)?;
    for (at, mirror) in found.iter().enumerate() {
        if found[..at].iter().any(|other| other.header.eq_ignore_ascii_case(&mirror.header)) {
            return Err(format!("two of its properties have the {KEYWORD} \"{}\"", mirror.header));
        }
    }
    Ok(found.into())
}

/// Where in a schema the walk stands.
enum Place {
    Root,
    /// A property that is reached through `properties` alone, by its path.
    Property(Vec<String>),
    Elsewhere,
}

/// Most annotations of one tool.
const MOST: usize = 100;

fn walk(schema: &str, place: &Place, found: &mut Vec<HeaderMirror>) -> Result<(), String> {
    let mut annotation = None;
    for member in json_scan::members(schema) {
        let key = member.key();
        match (&*key, json_scan::kind(member.value)) {
            (KEYWORD, _) => annotation = Some(member.value),
            ("properties", Kind::Object) => {
                for property in json_scan::members(member.value) {
                    let below = match place {
                        Place::Root => Place::Property(vec![property.key().into_owned()]),
                        Place::Property(path) => {
                            let mut path = path.clone();
                            path.push(property.key().into_owned());
                            Place::Property(path)
                        }
                        Place::Elsewhere => Place::Elsewhere,
                    };
                    walk(property.value, &below, found)?;
                }
            }
            (name, Kind::Object | Kind::Array) if !DATA_KEYWORDS.contains(&name) => {
                walk_elsewhere(name, member.value, found)?;
            }
            _ => {}
        }
    }
    let Some(annotation) = annotation else { return Ok(()) };
    let Place::Property(path) = place else {
        return Err(format!("{KEYWORD} stands where no argument is reached through properties alone"));
    };
    found.push(read_annotation(annotation, schema, path)?);
    if found.len() > MOST { Err(format!("more than {MOST} properties have {KEYWORD}")) } else { Ok(()) }
}

/// Looks for annotations where none may stand: in `items`, `allOf`, `$defs` and the like.
fn walk_elsewhere(keyword: &str, value: &str, found: &mut Vec<HeaderMirror>) -> Result<(), String> {
    // Their members are names, and the values schemas.
    let maps = ["$defs", "definitions", "patternProperties", "dependentSchemas"];
    if json_scan::kind(value) == Kind::Array {
        for element in json_scan::elements(value).filter(|one| json_scan::kind(one) == Kind::Object) {
            walk(element, &Place::Elsewhere, found)?;
        }
        return Ok(());
    }
    if maps.contains(&keyword) {
        for member in json_scan::members(value).filter(|one| json_scan::kind(one.value) == Kind::Object) {
            walk(member.value, &Place::Elsewhere, found)?;
        }
        return Ok(());
    }
    walk(value, &Place::Elsewhere, found)
}

fn read_annotation(value: &str, schema: &str, path: &[String]) -> Result<HeaderMirror, String> {
    let property = path.join(".");
    let header = json_scan::decode(value)
        .filter(|header| !header.is_empty() && header.len() <= 200 && header.bytes().all(is_token_byte))
        .ok_or_else(|| format!("the {KEYWORD} of \"{property}\" is no header name"))?;
    let [kind] = json_scan::pick(schema, ["type"]);
    let kind = match kind.and_then(json_scan::decode).as_deref() {
        Some("string") => ValueKind::Text,
        Some("integer") => ValueKind::Integer,
        Some("boolean") => ValueKind::Boolean,
        _ => return Err(format!("\"{property}\" has {KEYWORD} but is no string, integer or boolean")),
    };
    Ok(HeaderMirror { header: header.into_owned(), path: path.to_vec(), kind })
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

impl HeaderMirror {
    /// The value in the arguments of a call, as text; `None` where there is none, or one of another type (HDR-21).
    pub fn value(&self, arguments: &str) -> Option<String> {
        let mut at = arguments;
        for name in &self.path {
            if json_scan::kind(at) != Kind::Object {
                return None;
            }
            let [next] = json_scan::pick(at, [name.as_str()]);
            at = next?;
        }
        match (self.kind, json_scan::kind(at)) {
            (ValueKind::Text, Kind::String) => json_scan::decode(at).map(std::borrow::Cow::into_owned),
            (ValueKind::Boolean, Kind::Bool) => Some(at.to_owned()),
            (ValueKind::Integer, Kind::Number) => whole_number(at),
            _ => None,
        }
    }
}

/// `42.0` is written `42` (mcp:HDR-21); what is no integer within the exact range is not written at all.
fn whole_number(text: &str) -> Option<String> {
    let value: f64 = text.parse().ok()?;
    if value.fract() != 0.0 || value.abs() > LARGEST {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the exact range")]
    Some((value as i64).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(schema: &str) -> Vec<String> {
        read_mirrors(schema).unwrap().iter().map(|mirror| mirror.header.clone()).collect()
    }

    #[test]
    fn hdr_08_20_values_come_from_the_exact_path() {
        let schema = r#"{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
            "flag":{"type":"boolean","x-mcp-header":"Flag"}}}"#;
        let mirrors = read_mirrors(schema).unwrap();
        let values = |arguments: &str| -> Vec<Option<String>> {
            mirrors.iter().map(|mirror| mirror.value(arguments)).collect()
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            values(r#"{"region":"Hello, 世界","deep":{"n":42.0},"flag":false}"#),
            [some("Hello, 世界"), some("42"), some("false")]
        );
        assert_eq!(
            values(r#"{"region":null,"n":1,"deep":[{"n":1}]}"#),
            [None, None, None],
            "mcp:HDR-19, mcp:HDR-20"
        );
        assert_eq!(
            values(r#"{"region":{"x":1},"deep":{"n":9007199254740993},"flag":"true"}"#),
            [None, None, None],
            "mcp:HDR-12, mcp:HDR-21"
        );
        assert_eq!(values(r#"{"region":"","deep":{"n":1.5}}"#), [some(""), None, None], "mcp:HDR-18");
    }

    #[test]
    fn hdr_09_to_13_invalid_annotations() {
        for (row, schema) in [
            ("mcp:HDR-09", r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#),
            ("mcp:HDR-09", r#"{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}"#),
            ("mcp:HDR-09", r#"{"properties":{"a":{"type":"string","x-mcp-header":"a:b"}}}"#),
            ("mcp:HDR-09", r#"{"properties":{"a":{"type":"string","x-mcp-header":"ä"}}}"#),
            ("mcp:HDR-09", r#"{"properties":{"a":{"type":"string","x-mcp-header":7}}}"#),
            ("mcp:HDR-09", r#"{"properties":{"a":{"type":"string","x-mcp-header":"a\r\nb"}}}"#),
            (
                "mcp:HDR-10",
                r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
            ),
            ("mcp:HDR-11", r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#),
            ("mcp:HDR-11", r#"{"properties":{"a":{"x-mcp-header":"A"}}}"#),
            ("mcp:HDR-11", r#"{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}"#),
            ("mcp:HDR-13", r#"{"x-mcp-header":"A","type":"object"}"#),
            ("mcp:HDR-13", r#"{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}"#),
            ("mcp:HDR-13", r#"{"allOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#),
            ("mcp:HDR-13", r#"{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}"#),
            ("mcp:HDR-13", r#"{"if":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}"#),
            ("mcp:HDR-13", r#"{"additionalProperties":{"type":"string","x-mcp-h\u0065ader":"A"}}"#),
        ] {
            assert!(read_mirrors(schema).is_err(), "{row} {schema}");
        }
    }

    #[test]
    fn a_property_of_that_name_and_data_are_no_annotations() {
        assert!(names(r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#).is_empty());
        assert!(names(r#"{"$defs":{"x-mcp-header":{"type":"string"}}}"#).is_empty());
        assert!(names(r#"{"properties":{"a":{"default":{"x-mcp-header":"A"}}}}"#).is_empty());
        assert_eq!(names(r#"{"properties":{"a":{"type":"string","x-mcp-header":"Ok-1"}}}"#), ["Ok-1"]);
    }
}
