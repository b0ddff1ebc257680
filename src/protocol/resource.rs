//! Resources and resource templates: from list entries to the public shapes, and from shown to raw URIs (RES-01).

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::definition::{Body, DESCRIPTION_LIMIT, Draft, Listed, Named, Rejection, TITLE_LIMIT, map_all};
use crate::diagnostic::Diagnostic;
use crate::json_scan::{self, Kind};

/// A resource or a template as a server listed it, cleaned.
#[derive(Clone, Debug)]
pub struct ResourceDefinition {
    /// The URI (or URI template) as the server wrote it: the one that goes over the wire, untouched (mcp:RES-04).
    pub wire_uri: String,
    /// The cleaned URI.
    pub uri: String,
    /// JSON text of the public `Resource` or `ResourceTemplate`.
    pub json: String,
}

impl Named for ResourceDefinition {
    fn wire_name(&self) -> &str {
        &self.wire_uri
    }

    fn clean_name(&self) -> &str {
        &self.uri
    }
}

/// Maps the entries of one server's `resources/list`.
///
/// A broken entry is left out with a warning (`RESOURCE_INVALID`, `RESOURCE_QUARANTINED`, `RESOURCE_DUPLICATE`).
pub fn map_resources(server: &str, raws: &[&RawValue]) -> (Vec<ResourceDefinition>, Vec<Diagnostic>) {
    map_all(Listed::Resource, server, raws, |draft| map_entry(draft, "uri"))
}

/// Maps the entries of one server's `resources/templates/list`; as [`map_resources`].
pub fn map_templates(server: &str, raws: &[&RawValue]) -> (Vec<ResourceDefinition>, Vec<Diagnostic>) {
    map_all(Listed::Template, server, raws, |draft| map_entry(draft, "uriTemplate"))
}

fn map_entry(draft: &mut Draft<'_>, address: &'static str) -> Result<ResourceDefinition, Rejection> {
    let names = [address, "name", "title", "description", "mimeType", "size", "annotations", "_meta"];
    let [uri, name, title, description, mime_type, size, annotations, meta] =
        json_scan::pick(draft.raw, names);
    let (wire_uri, uri) = draft.name(uri, address)?;
    if address == "uriTemplate" && wire_uri != uri {
        // Of an address that was made of it nobody could tell where the raw form belongs.
        return Err(Rejection::quarantined("cleaning changes its uriTemplate"));
    }
    let mut body = Body::default();
    body.text(address, &uri);
    let name = draft.text(name)?.filter(|name| !name.is_empty());
    body.optional_text("name", Some(name.unwrap_or_else(|| uri.clone())), TITLE_LIMIT);
    body.optional_text("title", draft.text(title)?, TITLE_LIMIT);
    body.optional_text("description", draft.text(description)?, DESCRIPTION_LIMIT);
    body.optional_text("mimeType", draft.text(mime_type)?, TITLE_LIMIT);
    if address == "uri" {
        if let Some(size) = size.filter(|value| json_scan::kind(value) == Kind::Number) {
            body.raw("size", size);
        }
        if let Some(annotations) = annotations.filter(|value| json_scan::kind(value) == Kind::Object) {
            body.raw("annotations", &draft.json(annotations)?);
        }
    }
    if let Some(meta) = meta.filter(|value| json_scan::kind(value) == Kind::Object) {
        body.raw("meta", &draft.json(meta)?);
    }
    body.text("server", draft.server);
    Ok(ResourceDefinition { wire_uri, uri, json: format!("{{{}}}", body.0) })
}

/// The way back from shown to raw URIs of one server (SEC-01).
#[derive(Clone, Debug, Default)]
pub struct UriRestore(HashMap<String, String>);

impl UriRestore {
    /// Learns the raw forms from a mapped list.
    pub fn learn(definitions: &[ResourceDefinition]) -> Self {
        let changed = definitions.iter().filter(|definition| definition.uri != definition.wire_uri);
        Self(changed.map(|definition| (definition.uri.clone(), definition.wire_uri.clone())).collect())
    }

    /// The raw form of a shown URI; a URI that is not known passes as it is.
    pub fn wire_uri<'a>(&'a self, shown: &'a str) -> &'a str {
        self.0.get(shown).map_or(shown, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn raws(texts: &[&str]) -> Vec<Box<RawValue>> {
        texts.iter().map(|text| RawValue::from_string((*text).to_owned()).expect(text)).collect()
    }

    fn resources(texts: &[&str]) -> (Vec<ResourceDefinition>, Vec<Diagnostic>) {
        let owned = raws(texts);
        map_resources("srv", &owned.iter().map(|raw| &**raw).collect::<Vec<_>>())
    }

    fn values(definitions: &[ResourceDefinition]) -> Vec<Value> {
        definitions.iter().map(|definition| serde_json::from_str(&definition.json).unwrap()).collect()
    }

    #[test]
    fn res_01_public_shape() {
        let (list, found) = resources(&[
            r#"{"uri":"file:///A%20b","name":"n","title":"t","description":"d","mimeType":"text/plain","size":9007199254740993,
                "annotations":{"priority":1},"_meta":{"x":1}}"#,
            r#"{"uri":"x:y","title":5,"size":"7","annotations":[]}"#,
        ]);
        assert!(found.is_empty(), "{found:?}");
        assert!(list[0].json.contains(r#""size":9007199254740993"#), "B-112");
        let seen = values(&list);
        assert_eq!(seen[0]["annotations"], json!({"priority": 1}));
        assert_eq!((&seen[0]["meta"], seen[0].get("_meta")), (&json!({"x": 1}), None), "mcp:APP-06");
        assert_eq!(seen[1], json!({"uri": "x:y", "name": "x:y", "server": "srv"}));
    }

    #[test]
    fn res_01_broken_entries_leave_the_others() {
        let (list, found) =
            resources(&["7", "{}", r#"{"uri":""}"#, r#"{"uri":"a:b"}"#, r#"{"uri":"a:b"}"#, r#"{"uri":[]}"#]);
        assert_eq!(list.len(), 1);
        let codes: Vec<&str> = found.iter().map(|note| note.code).collect();
        assert_eq!(codes.iter().filter(|code| **code == "RESOURCE_INVALID").count(), 4);
        assert!(codes.contains(&"RESOURCE_DUPLICATE"), "J14");
    }

    #[test]
    fn sec_01_shown_uris_lead_back_to_raw_ones() {
        let (list, _) = resources(&[r#"{"uri":"file:///a\u200bb"}"#, r#"{"uri":"file:///c"}"#]);
        assert!(!list[0].json.contains('\u{200b}') && !list[0].json.contains("\\u200b"));
        let restore = UriRestore::learn(&list);
        assert_eq!(restore.wire_uri("file:///ab"), "file:///a\u{200b}b");
        for same in ["file:///c", "FILE:///C", "other:%2F"] {
            assert_eq!(restore.wire_uri(same), same, "mcp:RES-04");
        }
    }

    #[test]
    fn sec_01_uris_that_become_equal_are_not_guessed() {
        let (list, found) = resources(&[r#"{"uri":"a:b\u200b"}"#, r#"{"uri":"a:b"}"#]);
        assert_eq!(list.iter().map(|entry| &*entry.wire_uri).collect::<Vec<_>>(), ["a:b"]);
        assert_eq!(found[0].code, "RESOURCE_QUARANTINED");
    }

    #[test]
    fn sec_01_a_template_that_cleaning_changes_is_left_out() {
        let owned =
            raws(&[r#"{"uriTemplate":"db://ta\u200bble/{row}","name":"x"}"#, r#"{"uriTemplate":"a:{b}"}"#]);
        let (list, found) = map_templates("srv", &owned.iter().map(|raw| &**raw).collect::<Vec<_>>());
        assert_eq!(list.iter().map(|entry| &*entry.uri).collect::<Vec<_>>(), ["a:{b}"]);
        assert_eq!(found[0].code, "RESOURCE_QUARANTINED");
    }

    #[test]
    fn templates_keep_their_own_member() {
        let owned = raws(&[r#"{"uriTemplate":"file:///{path}","name":"f","size":1}"#, r#"{"uri":"a:b"}"#]);
        let (list, found) = map_templates("srv", &owned.iter().map(|raw| &**raw).collect::<Vec<_>>());
        assert_eq!(values(&list), [json!({"uriTemplate": "file:///{path}", "name": "f", "server": "srv"})]);
        assert_eq!(found[0].code, "RESOURCE_INVALID");
    }
}
