//! Tools: from an entry of `tools/list` to the public `Tool` (TOL-01, TOL-02, B-077, B-078).

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::app::{ToolView, Visibility};
use super::classify::{Classification, Classifier};
use super::definition::{
    Body, DESCRIPTION_LIMIT, Draft, Listed, Named, Rejection, TITLE_LIMIT, WIRE_NAME_LIMIT, cut, map_all,
};
use super::header_mirror::{HeaderMirrors, read_mirrors};
use super::restore::ArgumentRestore;
use crate::diagnostic::Diagnostic;
use crate::json_scan::{self, Kind};
use crate::url_guard::check_visit;

/// What a server says about the effects of a tool, with the protocol's defaults filled in. Never to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a hint of its own")]
pub struct ToolHints {
    /// It changes nothing; default false.
    pub read_only: bool,
    /// It may destroy something; default true unless read-only.
    pub destructive: bool,
    /// Repeating it has no further effect; default false.
    pub idempotent: bool,
    /// It reaches beyond a closed world; default true.
    pub open_world: bool,
    /// At least one of the four was given.
    pub declared: bool,
}

/// Whether a tool may or must run as a task (2025-11-25).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// Never; the default.
    #[default]
    Forbidden,
    /// As the caller likes.
    Optional,
    /// Always.
    Required,
}

/// A tool as a server defined it, cleaned.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// The name as the server wrote it: the one that goes over the wire.
    pub wire_name: String,
    /// The cleaned name, without the server's prefix.
    pub name: String,
    /// Members of the public `Tool` without `name`, `mcpInfo` and the brackets.
    pub body: String,
    /// Effects, as the server says.
    pub annotations: ToolHints,
    /// What the name says.
    pub classification: Classification,
    /// The cleaned description in full length; empty where there is none.
    pub description: String,
    /// The cleaned title for people.
    pub title: Option<String>,
    /// The output schema as the server wrote it, for the check of results.
    pub output_schema: Option<Arc<str>>,
    /// The cleaned input schema with `type: "object"`.
    pub input_schema: Arc<str>,
    /// The way back from clean to raw arguments, where they differ.
    pub restore: Option<ArgumentRestore>,
    /// Whether the tool stands in the model's context from the start.
    pub always_load: bool,
    /// Words for the search.
    pub search_hint: Option<String>,
    /// Characters that its results may have, as the server says (K12).
    pub result_characters: Option<usize>,
    /// Who may call it (mcp:APP-03).
    pub visibility: Visibility,
    /// Whether the tool runs as a task.
    pub task_support: TaskSupport,
    /// Arguments that are mirrored in headers, or why the annotations are invalid (mcp:HDR-14).
    pub header_mirrors: HeaderMirrors,
}

impl ToolDefinition {
    /// Whether the tool may run beside others: it is read-only, or says nothing and its name is one that searches
    /// or reads (TOL-01).
    pub fn is_concurrency_safe(&self) -> bool {
        is_concurrency_safe(self.annotations, self.classification)
    }
}

fn is_concurrency_safe(hints: ToolHints, classification: Classification) -> bool {
    hints.read_only || (!hints.declared && classification != Classification::Unknown)
}

impl Named for ToolDefinition {
    fn wire_name(&self) -> &str {
        &self.wire_name
    }

    fn clean_name(&self) -> &str {
        &self.name
    }
}

/// Maps the entries of one server's `tools/list`.
///
/// A broken entry is left out with a warning that names server and tool (`TOOL_INVALID`, `TOOL_QUARANTINED`,
/// `TOOL_DUPLICATE`), the others stay. Further warnings: `KEY_COLLISION`, `ICON_DROPPED`, `OUTPUT_SCHEMA_UNUSABLE`.
pub fn map_tools(
    server: &str,
    raw_tools: &[&RawValue],
    classifier: &Classifier,
) -> (Vec<ToolDefinition>, Vec<Diagnostic>) {
    map_all(Listed::Tool, server, raw_tools, |draft| map_tool(draft, classifier))
}

fn map_tool(draft: &mut Draft<'_>, classifier: &Classifier) -> Result<ToolDefinition, Rejection> {
    let names = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution"];
    let [name, title, description, input, output, annotations, execution] = json_scan::pick(draft.raw, names);
    let (wire_name, name) = draft.name(name, "name")?;
    let annotations = annotations.filter(|value| json_scan::kind(value) == Kind::Object);
    let title = match draft.text(title)? {
        Some(title) => Some(title),
        None => draft.text(annotations.and_then(|value| member(value, "title")))?,
    };
    let description = draft.text(description)?.unwrap_or_default();
    let schema = map_input_schema(draft, input)?;
    let hints = read_hints(annotations);
    let classification = classifier.classify(&name);
    let loading = read_loading(draft)?;

    let mut body = Body::default();
    body.optional_text("title", title.clone(), TITLE_LIMIT);
    body.text("description", &cut(description.clone(), DESCRIPTION_LIMIT));
    body.raw("inputSchema", &schema.public);
    if let Some(unchanged) = &schema.without_type {
        body.raw("rawInputSchema", unchanged);
    }
    let output_schema = write_output_schema(draft, output, &mut body)?;
    write_flags(&mut body, hints, classification);
    body.optional_text("searchHint", loading.search_hint.clone(), TITLE_LIMIT);
    body.flag("alwaysLoad", loading.always_load);
    body.text("classification", classification.as_str());
    body.raw("annotations", &public_annotations(draft, annotations)?);
    let visibility = write_meta_and_view(draft, &mut body)?;
    write_icons(draft, &mut body)?;
    Ok(ToolDefinition {
        wire_name,
        name,
        body: body.0,
        annotations: hints,
        classification,
        description,
        title,
        output_schema,
        input_schema: Arc::from(schema.public),
        restore: schema.restore,
        always_load: loading.always_load,
        search_hint: loading.search_hint,
        result_characters: read_result_characters(draft),
        visibility,
        task_support: read_task_support(execution),
        header_mirrors: read_mirrors(input.unwrap_or("{}")),
    })
}

fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let [value] = json_scan::pick(object, [name]);
    value
}

fn write_flags(body: &mut Body, hints: ToolHints, classification: Classification) {
    body.flag("isMcp", true);
    body.flag("isReadOnly", hints.read_only);
    body.flag("isConcurrencySafe", is_concurrency_safe(hints, classification));
    body.flag("isDestructive", hints.destructive);
    body.flag("isOpenWorld", hints.open_world);
}

struct InputSchema {
    /// Cleaned, with `type: "object"`.
    public: String,
    /// Cleaned, as it was before the type was added.
    without_type: Option<String>,
    restore: Option<ArgumentRestore>,
}

fn map_input_schema(draft: &Draft<'_>, raw: Option<&str>) -> Result<InputSchema, Rejection> {
    let Some(raw) = raw else {
        return Ok(InputSchema {
            public: r#"{"type":"object"}"#.to_owned(),
            without_type: None,
            restore: None,
        });
    };
    if json_scan::kind(raw) != Kind::Object {
        return Err(Rejection::invalid("its inputSchema is not an object"));
    }
    let (clean, collisions) = draft.json_and_collisions(raw)?;
    if !collisions.is_empty() {
        return Err(Rejection::quarantined("names in its inputSchema become equal by cleaning"));
    }
    let restore = match &clean {
        Cow::Borrowed(_) => None,
        Cow::Owned(_) => ArgumentRestore::learn(raw).map_err(Rejection::quarantined)?,
    };
    let [kind, properties] = json_scan::pick(&clean, ["type", "properties"]);
    // Some servers write `null` where a tool takes no arguments.
    if properties.is_some_and(|value| !matches!(json_scan::kind(value), Kind::Object | Kind::Null)) {
        return Err(Rejection::invalid("the properties of its inputSchema are not an object"));
    }
    if kind.is_some_and(allows_objects) {
        return Ok(InputSchema { public: clean.into_owned(), without_type: None, restore });
    }
    if kind.is_some_and(|value| json_scan::kind(value) != Kind::Null) {
        return Err(Rejection::invalid("the type of its inputSchema is not object"));
    }
    Ok(InputSchema { public: with_object_type(&clean), without_type: Some(clean.into_owned()), restore })
}

fn allows_objects(kind: &str) -> bool {
    let is_object = |value: &str| json_scan::decode(value).is_some_and(|name| name == "object");
    is_object(kind) || json_scan::elements(kind).any(is_object)
}

/// The members of a schema behind `type: "object"`; a `type` that was null goes.
fn with_object_type(schema: &str) -> String {
    let mut out = String::with_capacity(schema.len() + 18);
    out.push_str(r#"{"type":"object""#);
    for member in json_scan::members(schema).filter(|member| !member.is("type")) {
        out.push(',');
        out.push_str(member.literal);
        out.push(':');
        out.push_str(member.value);
    }
    out.push('}');
    out
}

fn write_output_schema(
    draft: &mut Draft<'_>,
    raw: Option<&str>,
    body: &mut Body,
) -> Result<Option<Arc<str>>, Rejection> {
    match raw.map(|value| (value, json_scan::kind(value))) {
        None | Some((_, Kind::Null)) => Ok(None),
        Some((value, Kind::Object)) => {
            body.raw("outputSchema", &draft.json(value)?);
            Ok(Some(Arc::from(value)))
        }
        Some(_) => {
            draft.note("OUTPUT_SCHEMA_UNUSABLE", "its outputSchema is not an object and is ignored");
            Ok(None)
        }
    }
}

const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

fn read_hints(annotations: Option<&str>) -> ToolHints {
    let given = json_scan::pick(annotations.unwrap_or("{}"), HINTS).map(|value| match value {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    });
    let [read_only, destructive, idempotent, open_world] = given;
    let read_only = read_only.unwrap_or(false);
    ToolHints {
        read_only,
        destructive: destructive.unwrap_or(!read_only),
        idempotent: idempotent.unwrap_or(false),
        open_world: open_world.unwrap_or(true),
        declared: given.iter().any(Option::is_some),
    }
}

/// The annotations with the members the protocol knows, each only where it has its type.
fn public_annotations(draft: &Draft<'_>, annotations: Option<&str>) -> Result<String, Rejection> {
    let raw = annotations.unwrap_or("{}");
    let mut body = Body::default();
    body.optional_text("title", draft.text(member(raw, "title"))?, TITLE_LIMIT);
    for (name, value) in HINTS.into_iter().zip(json_scan::pick(raw, HINTS)) {
        if let Some(value) = value.filter(|value| json_scan::kind(value) == Kind::Bool) {
            body.raw(name, value);
        }
    }
    Ok(format!("{{{}}}", body.0))
}

struct Loading {
    always_load: bool,
    search_hint: Option<String>,
}

/// Reads the loading hints: under the prefix in `_meta` first, then by their bare names there or on the tool.
fn read_loading(draft: &Draft<'_>) -> Result<Loading, Rejection> {
    let [meta, hint, always] = json_scan::pick(draft.raw, ["_meta", "searchHint", "alwaysLoad"]);
    let names = ["anthropic/searchHint", "searchHint", "anthropic/alwaysLoad", "alwaysLoad"];
    let [prefixed_hint, meta_hint, prefixed_always, meta_always] =
        json_scan::pick(meta.unwrap_or("{}"), names);
    let hint = prefixed_hint.or(meta_hint).or(hint);
    let search_hint = draft.text(hint)?.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    Ok(Loading {
        always_load: prefixed_always.or(meta_always).or(always) == Some("true"),
        search_hint: search_hint.filter(|text| !text.is_empty()),
    })
}

/// The claim on the output limit, under the prefix in `_meta` or by its bare name there.
fn read_result_characters(draft: &Draft<'_>) -> Option<usize> {
    let names = ["anthropic/maxResultSizeChars", "maxResultSizeChars"];
    let [prefixed, bare] = json_scan::pick(member(draft.raw, "_meta")?, names);
    prefixed.or(bare)?.parse().ok()
}

fn read_task_support(execution: Option<&str>) -> TaskSupport {
    match execution.and_then(|value| member(value, "taskSupport")).and_then(json_scan::decode).as_deref() {
        Some("optional") => TaskSupport::Optional,
        Some("required") => TaskSupport::Required,
        _ => TaskSupport::Forbidden,
    }
}

/// `_meta` as the server wrote it, but for cleaning, and what it says of a view.
fn write_meta_and_view(draft: &mut Draft<'_>, body: &mut Body) -> Result<Visibility, Rejection> {
    let meta = member(draft.raw, "_meta").filter(|value| json_scan::kind(value) == Kind::Object);
    if let Some(meta) = meta {
        body.raw("meta", &draft.json(meta)?);
    }
    let Some(view) = ToolView::read(meta) else { return Ok(Visibility::default()) };
    let mut ui = Body::default();
    ui.optional_text("resourceUri", view.resource, WIRE_NAME_LIMIT);
    let Visibility { model, app } = view.visibility;
    let who = [(model, "\"model\""), (app, "\"app\"")];
    let who: Vec<&str> = who.into_iter().filter_map(|(yes, word)| yes.then_some(word)).collect();
    ui.raw("visibility", &format!("[{}]", who.join(",")));
    body.raw("ui", &format!("{{{}}}", ui.0));
    Ok(view.visibility)
}

fn write_icons(draft: &mut Draft<'_>, body: &mut Body) -> Result<(), Rejection> {
    let icons = member(draft.raw, "icons");
    let Some(icons) = icons.filter(|value| json_scan::kind(value) == Kind::Array) else { return Ok(()) };
    let (safe, unsafe_ones): (Vec<&str>, Vec<&str>) =
        json_scan::elements(icons).partition(|icon| is_safe_icon(icon));
    if !unsafe_ones.is_empty() {
        let count = unsafe_ones.len();
        draft.note(
            "ICON_DROPPED",
            format!("{count} icons that are neither https nor PNG, JPEG or WebP by data: are left out"),
        );
    }
    let mut shown = Vec::with_capacity(safe.len());
    for icon in safe {
        shown.push(draft.json(icon)?);
    }
    if !shown.is_empty() {
        body.raw("icons", &format!("[{}]", shown.join(",")));
    }
    Ok(())
}

const ICON_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/jpg", "image/webp"];

/// Whether an icon may be handed out; nothing is ever fetched here (B-078).
fn is_safe_icon(icon: &str) -> bool {
    let [source, kind] = json_scan::pick(icon, ["src", "mimeType"]);
    let kind_fits = match kind.map(json_scan::decode) {
        None => true,
        Some(kind) => {
            kind.is_some_and(|kind| ICON_TYPES.iter().any(|known| kind.eq_ignore_ascii_case(known)))
        }
    };
    let Some(source) = source.and_then(json_scan::decode) else { return false };
    let Some((scheme, rest)) = source.split_once(':') else { return false };
    let source_fits = if scheme.eq_ignore_ascii_case("data") {
        let kind = rest.split([';', ',']).next().unwrap_or_default();
        ICON_TYPES.iter().any(|known| kind.eq_ignore_ascii_case(known))
    } else {
        // No user name either: whoever fetches an icon proves nothing (mcp:ICON-03).
        scheme.eq_ignore_ascii_case("https") && check_visit(&source).is_ok()
    };
    kind_fits && source_fits
}

#[cfg(test)]
mod tests;
