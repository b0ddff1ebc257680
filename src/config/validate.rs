//! Stage `validate`: an expanded definition → a [`ServerSpec`]. (CFG-04)
//!
//! Everything after this stage is well-formed. Wrong types are errors with a JSON pointer and cost the
//! entry; unknown fields are warnings and cost nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::config::draft::{Draft, Staged, pointer_step};
use crate::config::expand::ExpandedDraft;
use crate::config::fields::{Fields, kind_of};
use crate::config::report::Fate;
use crate::config::scope::Voice;
use crate::config::spec::{
    ConnectorSpec, HelperCommand, IdeSpec, InheritEnv, OAuthChoice, ProtocolChoice, ProxyChoice, RemoteSpec,
    ServerSpec, StartPolicy, StdioSpec, Timeouts, TlsSpec, ToolFilter, TransportSpec,
};
use crate::config::url_check::check_url;
use crate::secret::{SafeUrl, Secret};
use crate::words;

/// A well-formed entry next to what was written.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The entry as written.
    pub draft: Draft,
    /// What the program needs of it.
    pub spec: ServerSpec,
}

/// Validates every entry; a malformed one ends here as `invalid`.
/// `instances` are the names under which the host handed in-process servers over.
pub fn validate(entries: Vec<ExpandedDraft>, instances: &BTreeSet<String>) -> Staged<Candidate> {
    let mut stage = Staged::default();
    for ExpandedDraft { draft, definition } in entries {
        let mut fields = Fields::new(&definition, &draft.origin, "");
        let spec = server_spec(&mut fields, &draft);
        missing_instance(&mut fields, spec.as_ref(), instances);
        let reason = fields.first_error().map(|error| error.message.clone());
        stage.diagnostics.append(&mut fields.found);
        match (spec, reason) {
            (Some(spec), None) => stage.kept.push(Candidate { draft, spec }),
            (_, reason) => stage.dropped.push(draft.dropped(Fate::Invalid, reason.unwrap_or_default())),
        }
    }
    stage
}

fn missing_instance(fields: &mut Fields<'_>, spec: Option<&ServerSpec>, instances: &BTreeSet<String>) {
    if let Some(ServerSpec { name, transport: TransportSpec::Sdk { name: instance }, .. }) = spec
        && !instances.contains(&**name)
        && !instances.contains(instance)
    {
        fields.error("/type", "SDK_INSTANCE_MISSING: the host handed no in-process server of that name over");
    }
}

fn server_spec(fields: &mut Fields<'_>, draft: &Draft) -> Option<ServerSpec> {
    let kind = kind(fields)?;
    let transport = match kind {
        Kind::Stdio => stdio(fields, draft.origin.voice).map(TransportSpec::Stdio),
        Kind::Http => remote(fields, &["https", "http"]).map(TransportSpec::Http),
        Kind::Sse => remote(fields, &["https", "http"]).map(TransportSpec::Sse),
        Kind::WebSocket => remote(fields, &["wss", "ws"]).map(TransportSpec::WebSocket),
        Kind::SseIde => ide(fields, &["http", "https"]).map(TransportSpec::SseIde),
        Kind::WsIde => ide(fields, &["ws", "wss"]).map(TransportSpec::WsIde),
        Kind::Sdk => fields.required_text("name").map(|name| TransportSpec::Sdk { name }),
        Kind::ConnectorProxy => connector(fields).map(TransportSpec::ConnectorProxy),
    };
    let timeouts = Timeouts {
        connect: fields.duration("connectTimeoutMs"),
        request: fields.duration("requestTimeoutMs"),
        tool_idle: fields.duration("toolTimeoutMs"),
        total: fields.duration("maxTotalTimeoutMs"),
    };
    let disabled = fields.boolean("disabled").unwrap_or(false);
    let always_load = fields.boolean("alwaysLoad").unwrap_or(false);
    let start = fields.choice(
        "start",
        &[("eager", StartPolicy::Eager), ("lazy", StartPolicy::Lazy), ("required", StartPolicy::Required)],
    );
    let protocol = fields.choice(
        "protocol",
        &[
            ("auto", ProtocolChoice::Auto),
            ("legacy", ProtocolChoice::Legacy),
            ("modern", ProtocolChoice::Modern),
        ],
    );
    let tools = tool_filter(fields, draft);
    let tls = tls(fields, draft);
    let proxy = proxy(fields);
    fields.unknown_fields();
    Some(ServerSpec {
        name: Arc::clone(&draft.origin.name),
        scope: draft.origin.scope,
        voice: draft.origin.voice,
        file: draft.origin.file.clone(),
        line: draft.origin.line,
        transport: transport?,
        timeouts,
        disabled,
        always_load,
        start,
        protocol,
        tools,
        tls,
        proxy,
    })
}

#[derive(Clone, Copy)]
enum Kind {
    Stdio,
    Http,
    Sse,
    WebSocket,
    SseIde,
    WsIde,
    Sdk,
    ConnectorProxy,
}

/// Accepted spellings of `type`.
const KINDS: [(&str, Kind); 11] = [
    ("stdio", Kind::Stdio),
    ("http", Kind::Http),
    ("sse", Kind::Sse),
    ("ws", Kind::WebSocket),
    ("sse-ide", Kind::SseIde),
    ("ws-ide", Kind::WsIde),
    ("sdk", Kind::Sdk),
    ("claudeai-proxy", Kind::ConnectorProxy),
    ("streamable-http", Kind::Http),
    ("streamableHttp", Kind::Http),
    ("websocket", Kind::WebSocket),
];

fn kind(fields: &mut Fields<'_>) -> Option<Kind> {
    if let Some(value) = fields.value("type") {
        let Value::String(text) = value else {
            fields.wrong_type("/type", "a string", value);
            return None;
        };
        let found = KINDS.iter().find(|(word, _)| word == text).map(|(_, kind)| *kind);
        if found.is_none() {
            let lower = text.to_lowercase();
            let near = KINDS.iter().map(|(word, _)| *word).find(|word| {
                lower.len() < 40 && strsim::damerau_levenshtein(&lower, &word.to_lowercase()) <= 2
            });
            let hint = near.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
            fields.error(
                "/type",
                format!(
                    "The type is not one of stdio, http, sse, ws, sse-ide, ws-ide, sdk, claudeai-proxy{hint}"
                ),
            );
        }
        return found;
    }
    if fields.value("command").is_some() {
        return Some(Kind::Stdio);
    }
    if fields.value("url").is_some() {
        fields.warn("TYPE_INFERRED", "/type", "No \"type\" beside \"url\"; taken as \"http\"");
        return Some(Kind::Http);
    }
    for other in ["args", "env", "cwd", "headers"] {
        fields.value(other);
    }
    fields.unknown_fields();
    fields.error("", "Neither \"command\" nor \"url\" is there, so the type is not known");
    None
}

fn stdio(fields: &mut Fields<'_>, voice: Voice) -> Option<StdioSpec> {
    let command = fields.required_text("command");
    let args = fields.texts("args").unwrap_or_default();
    let env = secrets(fields.text_map("env", refuse_variable));
    let cwd = fields.text("cwd");
    let inherit_env = inherit_env(fields, voice);
    Some(StdioSpec { command: command?, args, env, cwd, inherit_env })
}

fn refuse_variable(name: &str, value: &str) -> Option<&'static str> {
    (name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))
        .then_some("No variable can have this name or value")
}

fn refuse_header(name: &str, value: &str) -> Option<&'static str> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        Some("This is not a header name")
    } else if value.chars().any(|c| c.is_control() && c != '\t') {
        Some("The header value holds a line break or control character")
    } else {
        None
    }
}

fn secrets(texts: BTreeMap<String, String>) -> BTreeMap<String, Secret<String>> {
    texts.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()
}

fn inherit_env(fields: &mut Fields<'_>, voice: Voice) -> InheritEnv {
    match fields.value("inheritEnv") {
        Some(Value::String(word)) if word == "all" && voice == Voice::Repository => {
            fields.warn(
                "NOT_HONOURED_HERE",
                "/inheritEnv",
                "A file of the repository may not pass the whole environment on",
            );
            InheritEnv::Named(Vec::new())
        }
        Some(Value::String(word)) if word == "all" => InheritEnv::All,
        Some(Value::Array(_)) => InheritEnv::Named(fields.texts("inheritEnv").unwrap_or_default()),
        Some(other) => {
            fields.wrong_type("/inheritEnv", "an array of names or \"all\"", other);
            InheritEnv::Named(Vec::new())
        }
        None => InheritEnv::Named(Vec::new()),
    }
}

fn url(fields: &mut Fields<'_>, schemes: &[&str]) -> Option<SafeUrl> {
    let text = fields.required_text("url")?;
    check_url(&text, schemes).map_err(|message| fields.error("/url", message)).ok()
}

fn remote(fields: &mut Fields<'_>, schemes: &[&str]) -> Option<RemoteSpec> {
    let url = url(fields, schemes);
    let headers = secrets(fields.text_map("headers", refuse_header));
    let headers_helper = headers_helper(fields);
    let oauth = oauth(fields);
    Some(RemoteSpec { url: url?, headers, headers_helper, oauth })
}

/// A command as an array, or as one text that is split by quoting rules only (OAU-04).
fn headers_helper(fields: &mut Fields<'_>) -> Option<HelperCommand> {
    let words = match fields.value("headersHelper")? {
        Value::String(line) => words::split(line).unwrap_or_else(|| {
            fields.error("/headersHelper", "A quote of the command is not closed");
            Vec::new()
        }),
        Value::Array(_) => fields.texts("headersHelper")?,
        other => {
            fields.wrong_type("/headersHelper", "a command as a string or an array of strings", other);
            return None;
        }
    };
    if words.first().is_none_or(String::is_empty) {
        fields.error("/headersHelper", "The command is empty");
        return None;
    }
    Some(HelperCommand(words))
}

/// Name of a field, whether a value fits it, and what is expected there.
type FieldRule = (&'static str, fn(&Value) -> bool, &'static str);

/// Fields of `oauth` with the types they may have.
const OAUTH_FIELDS: [FieldRule; 16] = [
    ("clientId", Value::is_string, "a string"),
    ("clientSecret", Value::is_string, "a string"),
    ("clientMetadataUrl", Value::is_string, "a string"),
    ("scopes", is_texts, "an array of strings"),
    ("resource", is_text_or_false, "a string or false"),
    ("expectedIssuer", Value::is_string, "a string"),
    ("authServerMetadataUrl", Value::is_string, "a string"),
    ("allowUnadvertisedPkce", Value::is_boolean, "true or false"),
    ("callbackHost", Value::is_string, "a string"),
    ("callbackPort", is_port, "a port number"),
    ("callbackPath", Value::is_string, "a string"),
    ("redirectUri", Value::is_string, "a string"),
    ("dpop", Value::is_boolean, "true or false"),
    ("clientCredentials", Value::is_object, "an object"),
    ("enterpriseManaged", Value::is_object, "an object"),
    ("workloadIdentity", Value::is_object, "an object"),
];

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

fn is_text_or_false(value: &Value) -> bool {
    value.is_string() || *value == Value::Bool(false)
}

fn is_port(value: &Value) -> bool {
    value.as_u64().is_some_and(|port| u16::try_from(port).is_ok())
}

fn oauth(fields: &mut Fields<'_>) -> OAuthChoice {
    let settings = match fields.value("oauth") {
        None => return OAuthChoice::Discovered,
        Some(Value::Bool(false)) => return OAuthChoice::Off,
        Some(Value::Object(settings)) => settings,
        Some(other) => {
            fields.wrong_type("/oauth", "an object or false", other);
            return OAuthChoice::Discovered;
        }
    };
    for (key, value) in settings {
        let place = || format!("/oauth{}", pointer_step(&key.chars().take(80).collect::<String>()));
        match OAUTH_FIELDS.iter().find(|(name, _, _)| name == key) {
            None => fields.warn("UNKNOWN_FIELD", &place(), "The field is not known"),
            Some((_, fits, expected)) if !fits(value) => fields.wrong_type(&place(), expected, value),
            Some(_) => {}
        }
    }
    OAuthChoice::Custom(Secret::new(settings.clone()))
}

fn ide(fields: &mut Fields<'_>, schemes: &[&str]) -> Option<IdeSpec> {
    let url = url(fields, schemes);
    let ide_name = fields.required_text("ideName");
    let auth_token = fields.text("authToken").map(Secret::new);
    let running_in_windows = fields.boolean("ideRunningInWindows").unwrap_or(false);
    Some(IdeSpec { url: url?, ide_name: ide_name?, auth_token, running_in_windows })
}

fn connector(fields: &mut Fields<'_>) -> Option<ConnectorSpec> {
    let url = url(fields, &["https", "http"]);
    let id = fields.required_text("id");
    let original = fields.text("originalUrl").map(SafeUrl::new);
    Some(ConnectorSpec { url: url?, id: id?, original })
}

/// Reads an object below the entry with its own known fields.
fn inside<T>(
    fields: &mut Fields<'_>,
    key: &'static str,
    draft: &Draft,
    read: impl FnOnce(&mut Fields<'_>) -> T,
) -> Option<T> {
    let object = fields.object(key)?;
    let prefix = if key == "tls" { "/tls" } else { "/tools" };
    let mut inner = Fields::new(object, &draft.origin, prefix);
    let read = read(&mut inner);
    inner.unknown_fields();
    fields.found.append(&mut inner.found);
    Some(read)
}

fn tool_filter(fields: &mut Fields<'_>, draft: &Draft) -> ToolFilter {
    inside(fields, "tools", draft, |inner| ToolFilter {
        include: inner.texts("include"),
        exclude: inner.texts("exclude").unwrap_or_default(),
    })
    .unwrap_or_default()
}

fn tls(fields: &mut Fields<'_>, draft: &Draft) -> Option<TlsSpec> {
    inside(fields, "tls", draft, |inner| {
        let ca = match inner.value("ca") {
            None => Vec::new(),
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(_)) => inner.texts("ca").unwrap_or_default(),
            Some(other) => {
                inner.error(
                    "/ca",
                    format!("Expected a string or an array of strings, found {}", kind_of(other)),
                );
                Vec::new()
            }
        };
        TlsSpec {
            ca,
            cert: inner.text("cert"),
            key: inner.text("key").map(Secret::new),
            insecure_skip_verify: inner.boolean("insecureSkipVerify").unwrap_or(false),
        }
    })
}

fn proxy(fields: &mut Fields<'_>) -> ProxyChoice {
    match fields.value("proxy") {
        None => ProxyChoice::Inherited,
        Some(Value::Bool(false)) => ProxyChoice::Off,
        Some(Value::String(url)) if !url.trim().is_empty() => ProxyChoice::Url(SafeUrl::new(url.trim())),
        Some(other) => {
            fields.wrong_type("/proxy", "a URL or false", other);
            ProxyChoice::Inherited
        }
    }
}
