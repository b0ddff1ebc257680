//! The connectors of an account: from the pages of its list to a layer of the configuration. (CFG-14)
//!
//! Pure; asking for the pages is the manager's.

use std::collections::BTreeSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use crate::config::draft::RawLayer;
use crate::config::scope::Scope;

/// Most connectors that are taken; what comes after them is left out.
pub const MOST: usize = 1000;
/// What stands for the connector in a template.
const PLACE: &str = "{server_id}";
/// What an identifier is encoded but for, so that it stays one segment of a path: one of dots alone would climb.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// Where the list is, and where its connectors are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPlace {
    list: Url,
    template: String,
}

impl ListPlace {
    /// By the options `connectorBaseUrl` and `connectorProxyUrlTemplate`.
    ///
    /// # Errors
    /// What is wrong with them, for people.
    pub fn new(base: &str, template: Option<&str>) -> Result<Self, String> {
        let base = Url::parse(base.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let mut list = base.ok_or("connectorBaseUrl is no http or https URL")?;
        let path = format!("{}/v1/mcp_servers", list.path().trim_end_matches('/'));
        list.set_path(&path);
        let template = template.ok_or("connectorProxyUrlTemplate is missing")?.trim();
        if !template.contains(PLACE) {
            return Err(format!("connectorProxyUrlTemplate has no {PLACE}"));
        }
        Ok(Self { list, template: template.to_owned() })
    }

    /// The URL of a page; the first one has no name.
    pub fn page(&self, name: Option<&str>) -> Url {
        let mut url = self.list.clone();
        if let Some(name) = name {
            url.query_pairs_mut().append_pair("page", name);
        }
        url
    }

    /// The layer of the connectors. Of two with one name the second is numbered.
    pub fn layer(&self, connectors: &[Connector]) -> RawLayer {
        let mut taken = BTreeSet::new();
        let mut servers = Map::new();
        for one in connectors.iter().take(MOST) {
            let numbered = (2..).map(|number| format!("{} ({number})", one.name));
            let free = std::iter::once(one.name.clone()).chain(numbered).find(|name| !taken.contains(name));
            let Some(name) = free else { continue };
            taken.insert(name.clone());
            let mut definition = json!({
                "type": "claudeai-proxy",
                "url": self.template.replace(PLACE, &utf8_percent_encode(&one.id, SEGMENT).to_string()),
                "id": one.id,
            });
            if let Some(url) = &one.url {
                definition["originalUrl"] = json!(url);
            }
            servers.insert(name, definition);
        }
        RawLayer::host(Scope::Connector, &Value::Object(servers).to_string())
    }
}

/// One connector as the list names it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Connector {
    /// Identifier.
    pub id: String,
    /// Name for people, which becomes the server's.
    pub name: String,
    /// The server behind the proxy.
    #[serde(default)]
    pub url: Option<String>,
}

/// One page of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Connectors.
    pub connectors: Vec<Connector>,
    /// Entries that are none.
    pub malformed: usize,
    /// Name of the next page, where there is one.
    pub next: Option<String>,
}

#[derive(Deserialize)]
struct WirePage {
    data: Vec<Value>,
    #[serde(default)]
    has_more: bool,
    #[serde(default)]
    next_page: Option<Value>,
}

/// Reads a page; `None` for what is none. One malformed entry spoils no other.
pub fn read_page(bytes: &[u8]) -> Option<Page> {
    let wire: WirePage = serde_json::from_slice(bytes).ok()?;
    let mut page = Page::default();
    for entry in wire.data {
        match serde_json::from_value::<Connector>(entry) {
            Ok(one) if !one.id.is_empty() && !one.name.trim().is_empty() => page.connectors.push(one),
            _ => page.malformed += 1,
        }
    }
    page.next = match wire.next_page.filter(|_| wire.has_more) {
        Some(Value::String(name)) if !name.is_empty() => Some(name),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    Some(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connector(id: &str, name: &str) -> Connector {
        Connector { id: id.to_owned(), name: name.to_owned(), url: None }
    }

    #[test]
    fn cfg_14_pages_are_read_entry_by_entry() {
        let page = read_page(
            br#"{"data":[{"id":"1","name":"A","url":"https://a.test","more":1},{"id":2,"name":"B"},{"id":"3","name":" "},"x"],
                "has_more":true,"next_page":"p 2"}"#,
        )
        .unwrap();
        let first = Connector { url: Some("https://a.test".to_owned()), ..connector("1", "A") };
        assert_eq!(page, Page { connectors: vec![first], malformed: 3, next: Some("p 2".to_owned()) });
        for (text, next) in [
            (r#"{"data":[],"has_more":false,"next_page":"x"}"#, None),
            (r#"{"data":[],"has_more":true,"next_page":2}"#, Some("2")),
            (r#"{"data":[],"has_more":true,"next_page":null}"#, None),
            (r#"{"data":[]}"#, None),
        ] {
            assert_eq!(read_page(text.as_bytes()).unwrap().next.as_deref(), next, "{text}");
        }
        for text in ["", "[]", "{}", r#"{"data":{}}"#, "<html>"] {
            assert_eq!(read_page(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn cfg_14_places() {
        let place =
            ListPlace::new("https://api.test/base/", Some("https://proxy.test/x/{server_id}?y=1")).unwrap();
        assert_eq!(place.page(None).as_str(), "https://api.test/base/v1/mcp_servers");
        assert_eq!(place.page(Some("a&b")).as_str(), "https://api.test/base/v1/mcp_servers?page=a%26b");
        let layer = place.layer(&[connector("../é", "A"), connector("2", "A"), connector("3", "A (2)")]);
        let servers: Value = serde_json::from_slice(layer.bytes.as_deref().unwrap()).unwrap();
        assert_eq!(servers["A"]["url"], "https://proxy.test/x/%2E%2E%2F%C3%A9?y=1");
        assert_eq!(servers["A (2)"]["id"], "2");
        assert_eq!(servers["A (2) (2)"]["id"], "3");
        for (base, template) in [
            ("file:///x", Some("https://p.test/{server_id}")),
            ("", Some("https://p.test/{server_id}")),
            ("https://api.test", Some("https://p.test/")),
            ("https://api.test", None),
        ] {
            assert!(ListPlace::new(base, template).is_err(), "{base} {template:?}");
        }
    }
}
