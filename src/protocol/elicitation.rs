//! Questions that servers ask people: the restricted form schema, the check of answers, the URLs (ELI-01, ELI-02).
//! Pure: nothing is shown, fetched or opened here.

use serde_json::{Map, Value};

use super::format;
use crate::secret::names_secret;
use crate::url_guard::check_visit;

/// Most fields of one form.
const MOST_FIELDS: usize = 200;

/// A form as a server asks for it.
#[derive(Clone, Debug)]
pub struct FormSchema {
    fields: Vec<Field>,
    required: Vec<String>,
}

#[derive(Clone, Debug)]
struct Field {
    name: String,
    kind: FieldKind,
    default: Option<Value>,
}

#[derive(Clone, Debug)]
enum FieldKind {
    Text { shortest: Option<u64>, longest: Option<u64>, format: Option<String> },
    Number { whole: bool, least: Option<f64>, most: Option<f64> },
    Boolean,
    Choice(Vec<String>),
    Choices { options: Vec<String>, fewest: Option<u64>, most: Option<u64> },
}

impl FormSchema {
    /// Reads a `requestedSchema` (mcp:ELI-10).
    ///
    /// # Errors
    /// What lies outside of the restricted subset (mcp:ELI-14).
    pub fn read(schema: &str) -> Result<Self, String> {
        let schema: Value =
            serde_json::from_str(schema).map_err(|_| "the schema is unreadable".to_owned())?;
        let object = schema.as_object().ok_or("the schema is not an object")?;
        if object.get("type").is_some_and(|kind| kind != "object") {
            return Err("the schema's type is not object".to_owned());
        }
        let properties =
            object.get("properties").and_then(Value::as_object).ok_or("the schema has no properties")?;
        if properties.len() > MOST_FIELDS {
            return Err(format!("the schema has more than {MOST_FIELDS} properties"));
        }
        let fields = properties.iter().map(|(name, field)| read_field(name, field));
        let required = match object.get("required") {
            None | Some(Value::Null) => Vec::new(),
            Some(list) => texts(list).ok_or("required is not a list of names")?,
        };
        // Nothing that a person says could fit.
        if let Some(name) = required.iter().find(|name| !properties.contains_key(*name)) {
            return Err(format!("\"{name}\" is required and is not among the properties"));
        }
        Ok(Self { fields: fields.collect::<Result<_, _>>()?, required })
    }

    /// Names and options that are sent back: they must reach the host unchanged.
    pub fn sent_back(&self) -> Vec<&str> {
        let mut all = Vec::new();
        for field in &self.fields {
            all.push(field.name.as_str());
            if let FieldKind::Choice(options) | FieldKind::Choices { options, .. } = &field.kind {
                all.extend(options.iter().map(String::as_str));
            }
        }
        all
    }

    /// The content to send: fields left out take the defaults that were `shown`, and all of it fits the schema
    /// (mcp:ELI-11, 12).
    ///
    /// # Errors
    /// Which field is wrong and how.
    pub fn complete(&self, content: Option<&Value>, shown: &Self) -> Result<Map<String, Value>, String> {
        let mut content = match content {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(content)) => content.clone(),
            Some(_) => return Err("the content is not an object".to_owned()),
        };
        content.retain(|_, value| !value.is_null());
        for field in &self.fields {
            let shown = shown.fields.iter().find(|shown| shown.name == field.name).unwrap_or(field);
            if let (None, Some(default)) = (content.get(&field.name), &shown.default) {
                content.insert(field.name.clone(), default.clone());
            }
            if let Some(value) = content.get(&field.name) {
                field.kind.check(value).map_err(|why| format!("\"{}\" {why}", field.name))?;
            }
        }
        if let Some(missing) = self.required.iter().find(|name| !content.contains_key(*name)) {
            return Err(format!("\"{missing}\" is required"));
        }
        let unknown = |name: &&String| !self.fields.iter().any(|field| field.name == **name);
        if let Some(unknown) = content.keys().find(unknown) {
            return Err(format!("\"{unknown}\" is not in the schema"));
        }
        Ok(content)
    }
}

fn read_field(name: &str, field: &Value) -> Result<Field, String> {
    let outside = |why: &str| format!("the property \"{name}\" {why}");
    let object = field.as_object().ok_or_else(|| outside("is not a schema"))?;
    let choices = options(object, "oneOf");
    // Choices that cannot be read are none that an answer could be compared with.
    if choices.is_none() && ["enum", "oneOf", "anyOf"].iter().any(|name| object.contains_key(*name)) {
        return Err(outside("has choices that are no texts"));
    }
    let kind = match (choices, object.get("type").and_then(Value::as_str)) {
        (Some(options), None | Some("string")) => FieldKind::Choice(options),
        (None, Some("string")) => FieldKind::Text {
            shortest: count(object, "minLength"),
            longest: count(object, "maxLength"),
            format: object.get("format").and_then(Value::as_str).map(str::to_owned),
        },
        (None, Some(kind @ ("number" | "integer"))) => FieldKind::Number {
            whole: kind == "integer",
            least: object.get("minimum").and_then(Value::as_f64),
            most: object.get("maximum").and_then(Value::as_f64),
        },
        (None, Some("boolean")) => FieldKind::Boolean,
        (None, Some("array")) => {
            let items = object.get("items").and_then(Value::as_object);
            let options = items.and_then(|items| options(items, "anyOf"));
            FieldKind::Choices {
                options: options.ok_or_else(|| outside("is a list of something else than choices"))?,
                fewest: count(object, "minItems"),
                most: count(object, "maxItems"),
            }
        }
        _ => return Err(outside("is neither text, number, boolean nor choice")),
    };
    // A default that breaks its own schema is none.
    let default = object.get("default").filter(|value| kind.check(value).is_ok()).cloned();
    Ok(Field { name: name.to_owned(), kind, default })
}

/// The options of a choice: `enum`, or constants with titles under `titled`.
fn options(schema: &Map<String, Value>, titled: &str) -> Option<Vec<String>> {
    if let Some(list) = schema.get("enum") {
        return texts(list);
    }
    let list = schema.get(titled).or_else(|| schema.get("oneOf")).and_then(Value::as_array)?;
    list.iter().map(|option| option.get("const").and_then(Value::as_str).map(str::to_owned)).collect()
}

fn texts(list: &Value) -> Option<Vec<String>> {
    list.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

fn count(schema: &Map<String, Value>, name: &str) -> Option<u64> {
    schema.get(name).and_then(Value::as_u64)
}

impl FieldKind {
    fn check(&self, value: &Value) -> Result<(), String> {
        match self {
            FieldKind::Boolean => value.as_bool().map(drop).ok_or_else(|| "is no boolean".to_owned()),
            FieldKind::Number { whole, least, most } => {
                let number = value.as_f64().ok_or("is no number")?;
                if *whole && number.fract() != 0.0 {
                    return Err("is no whole number".to_owned());
                }
                within(number, *least, *most)
            }
            FieldKind::Text { shortest, longest, format } => {
                let text = value.as_str().ok_or("is no text")?;
                let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
                if shortest.is_some_and(|least| length < least) || longest.is_some_and(|most| length > most) {
                    return Err(format!("has {length} characters, which is not allowed"));
                }
                match format {
                    Some(name) if !format::fits(name, text) => Err(format!("is no {name}")),
                    _ => Ok(()),
                }
            }
            FieldKind::Choice(options) => {
                let text = value.as_str().ok_or("is no text")?;
                one_of(text, options)
            }
            FieldKind::Choices { options, fewest, most } => {
                let chosen = texts(value).ok_or("is no list of texts")?;
                chosen.iter().try_for_each(|text| one_of(text, options))?;
                let length = u64::try_from(chosen.len()).unwrap_or(u64::MAX);
                if fewest.is_some_and(|least| length < least) || most.is_some_and(|most| length > most) {
                    return Err(format!("has {length} choices, which is not allowed"));
                }
                Ok(())
            }
        }
    }
}

fn one_of(text: &str, options: &[String]) -> Result<(), String> {
    if options.iter().any(|option| option == text) {
        Ok(())
    } else {
        Err("is none of the choices".to_owned())
    }
}

fn within(number: f64, least: Option<f64>, most: Option<f64>) -> Result<(), String> {
    if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
        return Err("lies outside of the allowed range".to_owned());
    }
    Ok(())
}

/// Whether a form seems to ask for a secret, which forms must not: by name, title, description or format of a field
/// (B-157).
pub fn asks_for_secret(schema: &Value) -> bool {
    /// Words beside those of configuration.
    const WORDS: [&str; 8] = ["otp", "totp", "pin", "cvv", "cvc", "ssn", "passcode", "mfa"];
    let names = |text: &str| {
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        names_secret(text) || words.any(|word| WORDS.iter().any(|own| word.eq_ignore_ascii_case(own)))
    };
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else { return false };
    fields.iter().any(|(name, field)| {
        let text = |member: &str| field.get(member).and_then(Value::as_str).unwrap_or_default();
        names(name) || names(text("title")) || names(text("description")) || text("format") == "password"
    })
}

/// Why a person should look twice at an address: code and words (B-155, mcp:ELI-25).
pub fn warnings(asked: &AskedUrl) -> Vec<(&'static str, &'static str)> {
    let name = asked.host.rsplit_once(':').map_or(asked.host.as_str(), |(name, _)| name);
    let mut found = Vec::new();
    if name.split('.').any(|label| label.starts_with("xn--")) {
        found.push(("punycode", "letters of the host's name are not those they may look like"));
    }
    if name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok() {
        found.push(("address", "the host has no name, only an address"));
    }
    found
}

/// An address that a person is asked to visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedUrl {
    /// The whole address.
    pub url: String,
    /// Its host in ASCII (punycode), with the port where it is not the usual one.
    pub host: String,
}

/// Lets an address pass that may be offered to people (ELI-02, mcp:ELI-32).
///
/// # Errors
/// Why it may not.
pub fn check_url(text: &str) -> Result<AskedUrl, String> {
    let url = check_visit(text)?;
    let name = url.host_str().unwrap_or_default();
    let host = match url.port() {
        Some(port) => format!("{name}:{port}"),
        None => name.to_owned(),
    };
    // What is shown must be what is opened: a spelling that parsers read differently is written anew.
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let begins = format!("{}://{name}", url.scheme());
    let written = text.split_at_checked(begins.len()).is_some_and(|(head, rest)| {
        head.eq_ignore_ascii_case(&begins) && (rest.is_empty() || rest.starts_with([':', '/', '?', '#']))
    });
    Ok(AskedUrl { url: if plain && written { text.to_owned() } else { url.into() }, host })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(properties: &Value, required: &[&str]) -> FormSchema {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        FormSchema::read(&schema.to_string()).unwrap()
    }

    /// mcp:ELI-11
    #[test]
    fn eli_11_defaults_fill_what_is_left_out() {
        let form = form(
            &json!({
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {"type": "string", "enum": ["active", "inactive"], "default": "active"},
                "verified": {"type": "boolean", "default": true},
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "default": ["a"]},
                "broken": {"type": "integer", "default": "many"},
            }),
            &["name"],
        );
        let filled = form.complete(Some(&json!({"age": 31})), &form).unwrap();
        assert_eq!(
            Value::Object(filled),
            json!({"age": 31, "name": "John Doe", "score": 95.5, "status": "active", "verified": true, "tags": ["a"]})
        );
    }

    /// mcp:ELI-11
    #[test]
    fn eli_01_a_person_who_leaves_a_field_out_means_the_default_that_was_shown() {
        let field = |default: Value| json!({"env": {"type": "string", "enum": ["prod", "staging"], "default": default}});
        let asked = form(&field(json!("prod")), &[]);
        let filled = |shown: &FormSchema| asked.complete(None, shown).map(Value::Object);
        assert_eq!(filled(&form(&field(json!("staging")), &[])), Ok(json!({"env": "staging"})));
        let none = form(&json!({"env": {"type": "string"}}), &[]);
        assert_eq!(filled(&none), Ok(json!({})));
        let wrong = form(&json!({"env": {"type": "string", "default": "moon"}}), &[]);
        assert!(filled(&wrong).is_err(), "the server's form decides");
        assert_eq!(filled(&form(&json!({}), &[])), Ok(json!({"env": "prod"})), "nobody spoke of it");
    }

    /// mcp:ELI-09 mcp:ELI-10 mcp:ELI-12
    #[test]
    fn eli_01_content_is_checked() {
        let form = form(
            &json!({
                "text": {"type": "string", "minLength": 2, "maxLength": 3},
                "mail": {"type": "string", "format": "email"},
                "whole": {"type": "integer", "minimum": 1, "maximum": 9},
                "on": {"type": "boolean"},
                "one": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}]},
                "some": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"anyOf": [{"const": "x"}, {"const": "y"}]}},
                "old": {"type": "string", "enum": ["a"], "enumNames": ["A"]},
            }),
            &["text"],
        );
        let good = json!({"text": "äöü", "mail": "a@b.example", "whole": 9.0, "on": false, "one": "r", "some": ["x"], "old": "a"});
        assert!(form.complete(Some(&good), &form).is_ok());
        for bad in [
            json!({}),
            json!({"text": null}),
            json!({"text": "x"}),
            json!({"text": "long"}),
            json!({"text": 12}),
            json!({"text": "ab", "mail": "nobody"}),
            json!({"text": "ab", "whole": 1.5}),
            json!({"text": "ab", "whole": 10}),
            json!({"text": "ab", "on": "yes"}),
            json!({"text": "ab", "one": "Red"}),
            json!({"text": "ab", "some": []}),
            json!({"text": "ab", "some": ["z"]}),
            json!({"text": "ab", "some": "x"}),
            json!({"text": "ab", "old": "A"}),
            json!({"text": "ab", "extra": 1}),
            json!([]),
        ] {
            assert!(form.complete(Some(&bad), &form).is_err(), "{bad}");
        }
    }

    /// mcp:ELI-14
    #[test]
    fn eli_14_schemas_outside_of_the_subset() {
        for schema in [
            json!({"type": "array"}),
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}),
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "#/x"}}}),
            json!({"type": "object", "properties": {"a": true}}),
            json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
            json!({"type": "object", "properties": {}, "required": "a"}),
            json!({"type": "object", "properties": {}, "required": ["a"]}),
            json!({"type": "object", "properties": {"a": {"type": "string", "enum": [1, 2]}}}),
            json!({"type": "object", "properties": {"a": {"type": "string", "enum": "x"}}}),
            json!({"type": "object", "properties": {"a": {"type": "string", "oneOf": [{"title": "Red"}]}}}),
            json!({"type": "object", "properties": {"a": {"type": "integer", "enum": [1, 2]}}}),
            json!({"type": "object", "properties": {"a": {"type": "integer", "enum": ["1", "2"]}}}),
        ] {
            assert!(FormSchema::read(&schema.to_string()).is_err(), "{schema}");
        }
    }

    #[test]
    fn b_157_forms_that_ask_for_secrets() {
        for (properties, expected) in [
            (json!({ "password": {} }), true),
            (json!({ "api_key": {} }), true),
            (json!({ "otp": {} }), true),
            (json!({ "a": { "format": "password" } }), true),
            (json!({ "a": { "description": "your token" } }), true),
            (json!({ "a": { "title": "PIN" } }), true),
            (json!({ "name": { "description": "who you are", "format": "email" }, "spin": {} }), false),
            (json!({}), false),
        ] {
            assert_eq!(asks_for_secret(&json!({ "properties": properties })), expected, "{properties}");
        }
    }

    /// mcp:ELI-25
    #[test]
    fn b_155_eli_25_addresses_to_look_at_twice() {
        for (text, expected) in [
            ("https://xn--pple-43d.test/", vec!["punycode"]),
            ("https://a.b\u{fc}cher.example:8443/", vec!["punycode"]),
            ("https://192.0.3.1/", vec!["address"]),
            ("http://[::1]:80/", vec!["address"]),
            ("https://example.com:8443/", vec![]),
        ] {
            let asked = check_url(text).unwrap();
            let codes: Vec<&str> = warnings(&asked).into_iter().map(|(code, _)| code).collect();
            assert_eq!(codes, expected, "{text}");
        }
    }

    /// mcp:ELI-32
    #[test]
    fn eli_02_only_https_or_this_machine() {
        for (text, host) in [
            ("https://example.com/login?x=1", "example.com"),
            ("https://bücher.example/", "xn--bcher-kva.example"),
            ("https://example.com:8443", "example.com:8443"),
            ("http://localhost:1234/cb", "localhost:1234"),
            ("http://127.0.0.1/", "127.0.0.1"),
            ("http://[::1]:80/", "[::1]"),
        ] {
            assert_eq!(check_url(text).map(|asked| asked.host).as_deref(), Ok(host), "{text}");
        }
        assert_eq!(
            check_url("https://example.com").unwrap().url,
            "https://example.com",
            "as the server wrote it"
        );
        for (text, anew) in [
            ("https:example.com/x", "https://example.com/x"),
            ("https:///example.com", "https://example.com/"),
            ("https:/example.com", "https://example.com/"),
            ("https://0x7f.1/", "https://127.0.0.1/"),
            ("https://example%2Ecom/", "https://example.com/"),
            ("HTTPS://EXAMPLE.com:443/x", "HTTPS://EXAMPLE.com:443/x"),
        ] {
            assert_eq!(check_url(text).unwrap().url, anew, "B-155 {text}");
        }
        let long = format!("https://example.com/{}", "a".repeat(5_000));
        assert_eq!(check_url(&long).unwrap().url, long, "M4: no silent limit");
        for text in [
            "http://example.com/",
            "http://localhost.example.com/",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "myapp://open",
            "/relative",
            "https://example.com@evil.example/",
            "https://",
            "",
        ] {
            assert!(check_url(text).is_err(), "{text}");
        }
    }
}
