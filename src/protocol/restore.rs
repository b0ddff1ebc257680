//! The way back from cleaned argument names and values to what the server wrote (SEC-01).
//!
//! Hosts and models see a cleaned input schema. Where cleaning changed a property name, an `enum`, `const` or
//! `default` text, the raw form is kept here and put back when the tool is called. Where that cannot be done
//! without guessing, there is no restore and the tool is quarantined.

use std::collections::HashMap;

use super::definition::shown;
use crate::json_scan::{self, Kind};
use crate::unicode::{self, Mode};

/// Raw forms for one place of the arguments and the places below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentRestore {
    /// By clean name; only names with something to restore at or below them.
    properties: HashMap<String, PropertyRestore>,
    /// For each element of an array.
    items: Option<Box<ArgumentRestore>>,
    /// Raw texts by clean text, where they differ.
    texts: HashMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PropertyRestore {
    raw_name: Option<String>,
    inner: ArgumentRestore,
}

impl ArgumentRestore {
    /// Learns the raw forms from an input schema as the server wrote it; `None` where there is nothing to restore.
    ///
    /// The error says in words what is ambiguous. Nesting must have been checked before (128).
    pub fn learn(raw_schema: &str) -> Result<Option<Self>, String> {
        let restore = Self::of_places(raw_schema)?;
        match restore {
            Some(_) if leads_elsewhere(raw_schema) => {
                Err("cleaning changes a name or value of its schema, and a reference may lead there"
                    .to_owned())
            }
            restore => Ok(restore),
        }
    }

    /// As [`ArgumentRestore::learn`], for a schema without references.
    fn of_places(raw_schema: &str) -> Result<Option<Self>, String> {
        let mut place = Place::default();
        place.read(raw_schema)?;
        let restore = place.finish();
        Ok((!restore.is_empty()).then_some(restore))
    }

    /// Arguments with the raw forms put back; `None` where nothing changes.
    pub fn apply(&self, arguments: &str) -> Option<String> {
        let mut out = String::with_capacity(arguments.len() + 32);
        self.write(arguments, &mut out).then_some(out)
    }

    fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.items.is_none() && self.texts.is_empty()
    }

    fn write(&self, value: &str, out: &mut String) -> bool {
        match (json_scan::kind(value), &self.items) {
            (Kind::Object, _) if !self.properties.is_empty() => self.write_object(value, out),
            (Kind::Array, Some(items)) => {
                out.push('[');
                let mut changed = false;
                for (place, element) in json_scan::elements(value).enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    changed |= items.write(element, out);
                }
                out.push(']');
                changed
            }
            (Kind::String, _) => {
                let raw = json_scan::decode(value).and_then(|text| self.texts.get(&*text));
                match raw {
                    Some(raw) => json_scan::quote_into(out, raw),
                    None => out.push_str(value),
                }
                raw.is_some()
            }
            _ => {
                out.push_str(value);
                false
            }
        }
    }

    fn write_object(&self, value: &str, out: &mut String) -> bool {
        let mut changed = false;
        out.push('{');
        for (place, member) in json_scan::members(value).enumerate() {
            if place > 0 {
                out.push(',');
            }
            let known = self.properties.get(&*member.key());
            let raw_name = known.and_then(|property| property.raw_name.as_deref());
            match raw_name {
                Some(raw) => json_scan::quote_into(out, raw),
                None => out.push_str(member.literal),
            }
            out.push(':');
            changed |= raw_name.is_some();
            match known {
                Some(property) => changed |= property.inner.write(member.value, out),
                None => out.push_str(member.value),
            }
        }
        out.push('}');
        changed
    }
}

/// Everything a schema says about one place of the arguments, unchanged names included: they make others ambiguous.
#[derive(Default)]
struct Place {
    properties: HashMap<String, (String, Place)>,
    items: Option<Box<Place>>,
    texts: HashMap<String, String>,
}

impl Place {
    fn read(&mut self, schema: &str) -> Result<(), String> {
        for member in json_scan::members(schema) {
            let value = member.value;
            match &*member.key() {
                "properties" => json_scan::members(value)
                    .try_for_each(|property| self.property(property.literal)?.read(property.value))?,
                "items" if json_scan::kind(value) == Kind::Object => {
                    self.items.get_or_insert_default().read(value)?;
                }
                "enum" => json_scan::elements(value).try_for_each(|text| self.text(text))?,
                "const" | "default" => self.text(value)?,
                "allOf" | "anyOf" | "oneOf" => {
                    json_scan::elements(value).try_for_each(|part| self.read(part))?;
                }
                "if" | "then" | "else" => self.read(value)?,
                "required" => self.names(value)?,
                "dependentRequired" => json_scan::members(value).try_for_each(|part| {
                    self.property(part.literal)?;
                    self.names(part.value)
                })?,
                "dependentSchemas" | "dependencies" => json_scan::members(value).try_for_each(|part| {
                    self.property(part.literal)?;
                    self.names(part.value)?;
                    refuse_changes(part.value)
                })?,
                "$defs" | "definitions" | "patternProperties" => {
                    json_scan::members(value).try_for_each(|part| refuse_changes(part.value))?;
                }
                "prefixItems" | "items" => json_scan::elements(value).try_for_each(refuse_changes)?,
                "additionalProperties"
                | "additionalItems"
                | "unevaluatedProperties"
                | "unevaluatedItems"
                | "propertyNames"
                | "contains"
                | "not" => refuse_changes(value)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Names of arguments in a list; what is no list has none.
    fn names(&mut self, list: &str) -> Result<(), String> {
        let mut names = json_scan::elements(list).filter(|name| json_scan::kind(name) == Kind::String);
        names.try_for_each(|name| self.property(name).map(drop))
    }

    fn property(&mut self, literal: &str) -> Result<&mut Place, String> {
        let (clean, raw) = both_forms(literal)?;
        let (first, place) =
            self.properties.entry(clean).or_insert_with_key(|_| (raw.clone(), Place::default()));
        if *first == raw {
            Ok(place)
        } else {
            Err(format!("two of its arguments become '{}' by cleaning", shown(&raw)))
        }
    }

    fn text(&mut self, value: &str) -> Result<(), String> {
        if json_scan::kind(value) != Kind::String {
            return match unicode::clean_json(value, Mode::Strict) {
                Ok(None) => Ok(()),
                _ => Err("cleaning changes a value of its schema that is no plain text".to_owned()),
            };
        }
        let (clean, raw) = both_forms(value)?;
        let first = self.texts.entry(clean).or_insert_with(|| raw.clone());
        if *first == raw {
            Ok(())
        } else {
            Err(format!("two values of one argument become '{}' by cleaning", shown(&raw)))
        }
    }

    fn finish(self) -> ArgumentRestore {
        let properties = self.properties.into_iter().filter_map(|(clean, (raw, place))| {
            let inner = place.finish();
            let raw_name = (raw != clean).then_some(raw);
            (raw_name.is_some() || !inner.is_empty()).then_some((clean, PropertyRestore { raw_name, inner }))
        });
        let items = self.items.map(|place| place.finish()).filter(|inner| !inner.is_empty());
        ArgumentRestore {
            properties: properties.collect(),
            items: items.map(Box::new),
            texts: self.texts.into_iter().filter(|(clean, raw)| clean != raw).collect(),
        }
    }
}

/// Places that are not followed (a reference may lead there from anywhere) must hold nothing to restore.
fn refuse_changes(schema: &str) -> Result<(), String> {
    match ArgumentRestore::of_places(schema)? {
        None => Ok(()),
        Some(_) => Err("cleaning changes a name or value that its schema shares between places".to_owned()),
    }
}

/// Whether a reference leads, or may lead, to a place that is followed: all do but those to the shared places, which hold
/// nothing to restore. The depth has been checked.
fn leads_elsewhere(value: &str) -> bool {
    let is_reference = |member: &json_scan::Member<'_>| {
        let named = ["$ref", "$dynamicRef", "$recursiveRef"].iter().any(|name| member.is(name));
        let target = json_scan::decode(member.value).filter(|_| named);
        target.is_some_and(|target| !target.starts_with("#/$defs/") && !target.starts_with("#/definitions/"))
    };
    match json_scan::kind(value) {
        Kind::Object => {
            json_scan::members(value).any(|member| is_reference(&member) || leads_elsewhere(member.value))
        }
        Kind::Array => json_scan::elements(value).any(leads_elsewhere),
        _ => false,
    }
}

fn both_forms(literal: &str) -> Result<(String, String), String> {
    let raw = json_scan::decode_exact(literal).ok_or("its schema holds text that is not valid Unicode")?;
    let clean =
        unicode::clean(&raw, Mode::Strict).map_err(|_| "a text of its schema does not become stable")?;
    Ok((clean.into_owned(), raw.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(schema: &str) -> ArgumentRestore {
        ArgumentRestore::learn(schema).unwrap().expect(schema)
    }

    #[test]
    fn sec_01_names_and_values_go_back_at_their_place() {
        let restore = learn(
            r#"{"properties":{
                "path\u200b":{"type":"string"},
                "mode":{"enum":["fast","ﬁne"]},
                "inner":{"properties":{"k\u200b":{"const":"v\u200b"}}},
                "list":{"items":{"properties":{"ｘ":{}}}},
                "either":{"anyOf":[{"properties":{"a\u200b":{}}},{"type":"null"}]}}}"#,
        );
        let given = r#"{"path":"path","mode":"fine","inner":{"k":"v","path":1},
            "list":[{"x":9007199254740993},{"y":1}],"either":{"a":1e400},"other":"fine"}"#;
        let expected = concat!(
            "{\"path\u{200b}\":\"path\",\"mode\":\"ﬁne\",\"inner\":{\"k\u{200b}\":\"v\u{200b}\",\"path\":1},",
            r#""list":[{"ｘ":9007199254740993},{"y":1}],"either":{"#,
            "\"a\u{200b}\":1e400},\"other\":\"fine\"}"
        );
        assert_eq!(restore.apply(given).unwrap(), expected);
    }

    #[test]
    fn b_075_arguments_that_need_nothing_stay_byte_for_byte() {
        let restore = learn(r#"{"properties":{"path\u200b":{}}}"#);
        for given in ["{}", r#"{"q":"ﬁle"}"#, r#"{ "Path" : 1 }"#, "5", "null", r#"["path"]"#] {
            assert_eq!(restore.apply(given), None, "{given}");
        }
        assert_eq!(ArgumentRestore::learn(r#"{"properties":{"é":{"enum":["日本"]}}}"#), Ok(None));
    }

    #[test]
    fn sec_01_references_to_what_was_not_changed_are_no_hindrance() {
        let shared = r##"{"properties":{"a\u200b":{},"b":{"$ref":"#/$defs/B"},"$ref":{"type":"string"}},
            "$defs":{"B":{"properties":{"c":{"$ref":"#/$defs/B"}}}}}"##;
        assert_eq!(
            learn(shared).apply(r#"{"a":1,"b":{"a":1}}"#).unwrap(),
            "{\"a\u{200b}\":1,\"b\":{\"a\":1}}"
        );
        let tree = r##"{"description":"x\u200b","properties":{"children":{"items":{"$ref":"#"}}}}"##;
        assert_eq!(ArgumentRestore::learn(tree), Ok(None));
    }

    #[test]
    fn sec_01_names_that_only_lists_give_go_back() {
        for schema in [
            r#"{"required":["x\u200b"]}"#,
            r#"{"dependentRequired":{"a":["x\u200b"]}}"#,
            r#"{"dependencies":{"x\u200b":["a"]}}"#,
            r#"{"dependentSchemas":{"x\u200b":{}}}"#,
        ] {
            assert_eq!(learn(schema).apply(r#"{"x":1}"#).unwrap(), "{\"x\u{200b}\":1}", "{schema}");
        }
    }

    #[test]
    fn sec_01_ambiguity_is_an_error() {
        for schema in [
            r#"{"properties":{"a":{},"a\u200b":{}}}"#,
            r#"{"properties":{"a\u200b":{},"a\u200d":{}}}"#,
            r#"{"properties":{"m":{"enum":["x","x\u200b"]}}}"#,
            r#"{"properties":{"m":{"enum":["x"],"default":"x\u200b"}}}"#,
            r#"{"allOf":[{"properties":{"a":{}}},{"properties":{"a\u200b":{}}}]}"#,
            r##"{"properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"properties":{"a\u200b":{}}}}}"##,
            r#"{"additionalProperties":{"enum":["x\u200b"]}}"#,
            r#"{"properties":{"m":{"enum":[{"k":"x\u200b"}]}}}"#,
            r#"{"properties":{"\ud800":{}}}"#,
            r##"{"properties":{"a\u200b":{},"children":{"items":{"$ref":"#"}}}}"##,
            r##"{"properties":{"a":{"properties":{"k\u200b":{}}},"b":{"$ref":"#/properties/a"}}}"##,
            r##"{"properties":{"a\u200b":{},"b":{"$ref":"#/$defs/B"}},"$defs":{"B":{"items":{"$ref":"#"}}}}"##,
            r##"{"properties":{"a\u200b":{},"b":{"$dynamicRef":"#node"}}}"##,
            r#"{"properties":{"a\u200b":{},"b":{"$ref":"https://example.com/s"}}}"#,
            r#"{"propertyNames":{"enum":["x\u200b"]}}"#,
            r#"{"properties":{"a":{}},"dependencies":{"a":{"properties":{"z\u200b":{}}}}}"#,
            r#"{"properties":{"a":{}},"required":["a\u200b"]}"#,
        ] {
            assert!(ArgumentRestore::learn(schema).is_err(), "{schema}");
        }
    }
}
