//! MCP Apps: what `_meta.ui` says of a tool, and which type a view has (BEY-12, mcp:APP-*; the extension
//! `io.modelcontextprotocol/ui`). Rendering belongs to the host.

use super::definition::WIRE_NAME_LIMIT;
use crate::json_scan::{self, Kind};

/// What a host that renders views declares, as a member of `extensions`.
pub const DECLARATION: &str = r#""io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}"#;
/// The type of a view.
const VIEW_TYPE: &str = "text/html;profile=mcp-app";

/// Who may call a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visibility {
    /// The model.
    pub model: bool,
    /// The server's own app.
    pub app: bool,
}

impl Default for Visibility {
    /// Both, where nothing is said.
    fn default() -> Self {
        Self { model: true, app: true }
    }
}

/// What a tool says of its view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToolView {
    /// The resource with the view: a `ui://` address.
    pub(super) resource: Option<String>,
    /// Who may call the tool.
    pub(super) visibility: Visibility,
}

impl ToolView {
    /// Reads `_meta.ui`, and the older `_meta["ui/resourceUri"]` (mcp:APP-02); `None` where neither is there.
    pub(super) fn read(meta: Option<&str>) -> Option<Self> {
        let [ui, flat] = json_scan::pick(meta?, ["ui", "ui/resourceUri"]);
        let ui = ui.filter(|value| json_scan::kind(value) == Kind::Object);
        if ui.is_none() && flat.is_none() {
            return None;
        }
        let [resource, visibility] = json_scan::pick(ui.unwrap_or("{}"), ["resourceUri", "visibility"]);
        let address = |value: Option<&str>| {
            let uri = value.and_then(json_scan::decode_exact)?;
            (is_view(&uri) && uri.len() <= WIRE_NAME_LIMIT).then(|| uri.into_owned())
        };
        let list = visibility.filter(|value| json_scan::kind(value) == Kind::Array);
        let has = |list: &str, who: &str| {
            json_scan::elements(list).filter_map(json_scan::decode).any(|one| one == who)
        };
        let visibility = list.map_or_else(Visibility::default, |list| Visibility {
            model: has(list, "model"),
            app: has(list, "app"),
        });
        Some(Self { resource: address(resource).or_else(|| address(flat)), visibility })
    }
}

/// Whether a URI is that of a view.
pub fn is_view(uri: &str) -> bool {
    uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("ui://"))
}

/// The first content of an answer to `resources/read` that has not the type of a view: its type.
pub fn wrong_type(answer: &str) -> Option<String> {
    let [contents] = json_scan::pick(answer, ["contents"]);
    json_scan::elements(contents.unwrap_or("[]")).find_map(|content| {
        let [kind] = json_scan::pick(content, ["mimeType"]);
        let kind = kind.and_then(json_scan::decode).unwrap_or_default();
        let plain: String = kind.chars().filter(|one| !one.is_whitespace()).collect();
        (!plain.eq_ignore_ascii_case(VIEW_TYPE)).then(|| kind.into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn app_02_03_what_meta_says() {
        let both = Visibility::default();
        let view = |resource: Option<&str>, visibility| {
            Some(ToolView { resource: resource.map(str::to_owned), visibility })
        };
        for (meta, expected) in [
            ("{}", None),
            (r#"{"ui":7}"#, None),
            (r#"{"ui":{"resourceUri":"ui://a/b"}}"#, view(Some("ui://a/b"), both)),
            (r#"{"ui/resourceUri":"ui://old"}"#, view(Some("ui://old"), both)),
            (
                r#"{"ui/resourceUri":"ui://old","ui":{"resourceUri":"ui://new"}}"#,
                view(Some("ui://new"), both),
            ),
            (r#"{"ui":{"resourceUri":"https://evil.example"}}"#, view(None, both)),
            (r#"{"ui":{"resourceUri":["ui://a"]}}"#, view(None, both)),
            (r#"{"ui":{"visibility":["app"]}}"#, view(None, Visibility { model: false, app: true })),
            (r#"{"ui":{"visibility":["model"]}}"#, view(None, Visibility { model: true, app: false })),
            (r#"{"ui":{"visibility":[]}}"#, view(None, Visibility { model: false, app: false })),
            (r#"{"ui":{"visibility":"app"}}"#, view(None, both)),
        ] {
            assert_eq!(ToolView::read(Some(meta)), expected, "{meta}");
        }
    }

    #[test]
    fn app_02_the_type_of_a_view() {
        let answer =
            |kind: &str| format!(r#"{{"contents":[{{"uri":"ui://a","mimeType":"{kind}","text":"x"}}]}}"#);
        assert_eq!(wrong_type(&answer("text/html;profile=mcp-app")), None);
        assert_eq!(wrong_type(&answer("Text/HTML; profile=mcp-app")), None);
        assert_eq!(wrong_type(&answer("text/html")).as_deref(), Some("text/html"));
        assert_eq!(wrong_type(r#"{"contents":[{"text":"x"}]}"#).as_deref(), Some(""));
    }
}
