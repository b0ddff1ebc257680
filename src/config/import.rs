//! Servers out of the files of other products, in our form. Reads one file, writes nothing. (CFG-15, H19)
//!
//! Each product has a shape and a dialect for variables; `dialect` turns theirs into ours. What has no
//! counterpart is left out with a warning, never guessed.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::config::draft::{Definition, LayerShape, RawLayer};
use crate::config::load::load_file;
use crate::config::parse::{plain_value, strict_but_commented};
use crate::config::scope::Scope;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError, Result};

/// A product whose file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `claude_desktop_config.json`: our own form.
    ClaudeDesktop,
    /// `.mcp.json` and its relatives: our own form.
    ClaudeCode,
    /// `.vscode/mcp.json`, or `mcp` in `settings.json`.
    VsCode,
    /// `.cursor/mcp.json`.
    Cursor,
    /// `mcp_config.json`.
    Windsurf,
    /// `context_servers` in `settings.json`.
    Zed,
    /// `config.toml`.
    Codex,
    /// `settings.json` of the Gemini command-line tool.
    Gemini,
    /// `opencode.json`.
    OpenCode,
}

impl Format {
    /// Every format with its name.
    pub const ALL: [(&'static str, Format); 9] = [
        ("claude-desktop", Format::ClaudeDesktop),
        ("claude-code", Format::ClaudeCode),
        ("vscode", Format::VsCode),
        ("cursor", Format::Cursor),
        ("windsurf", Format::Windsurf),
        ("zed", Format::Zed),
        ("codex", Format::Codex),
        ("gemini", Format::Gemini),
        ("opencode", Format::OpenCode),
    ];
}

/// What a file gave.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Definitions by name, in the order of the file.
    pub servers: Definition,
    /// What has no counterpart, or should be looked at.
    pub warnings: Vec<Diagnostic>,
}

impl Imported {
    /// JSON text of `{servers, warnings}`.
    pub fn to_json(&self) -> String {
        json!({ "servers": self.servers, "warnings": self.warnings }).to_string()
    }
}

/// Reads a file; `format` is the name of one or `auto`.
///
/// # Errors
/// `INVALID_ARGUMENT` for an unknown format; `CONFIG_UNREADABLE` and `CONFIG_INVALID` for a file that cannot be
/// read.
pub fn import_file(path: &Path, format: &str) -> Result<Imported> {
    let wanted = Format::ALL.iter().find(|(name, _)| *name == format).map(|(_, format)| *format);
    if wanted.is_none() && format != "auto" {
        let message =
            format!("format: expected auto or one of {}", Format::ALL.map(|(name, _)| name).join(", "));
        return Err(McpError::new(ErrorCode::InvalidArgument, message)
            .with(|facts| facts.parameter = Some("format".to_owned())));
    }
    let loaded = load_file(path, Scope::User);
    let Some(layer) = loaded.layer else {
        let why =
            loaded.diagnostic.map_or_else(|| "there is no such file".to_owned(), |finding| finding.message);
        return Err(McpError::new(ErrorCode::ConfigUnreadable, format!("{}: {why}", path.display())));
    };
    let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let root = if wanted == Some(Format::Codex) || (wanted.is_none() && is_toml) {
        parse_toml(&layer)?
    } else {
        parse_json(layer)?
    };
    let format = wanted.unwrap_or_else(|| guess(&root, path, is_toml));
    let mut imported = import_value(&root, format);
    for warning in &mut imported.warnings {
        warning.file = Some(path.to_string_lossy().into_owned());
    }
    Ok(imported)
}

fn parse_toml(layer: &RawLayer) -> Result<Value> {
    let invalid = |why: &str| McpError::new(ErrorCode::ConfigInvalid, format!("not valid TOML: {why}"));
    let text = std::str::from_utf8(layer.bytes.as_deref().unwrap_or_default())
        .map_err(|_| invalid("it is not UTF-8"))?;
    // The message of the parser may quote the text, and the text may hold secrets.
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let line =
            error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        invalid(&format!("line {line}"))
    })
}

fn parse_json(mut layer: RawLayer) -> Result<Value> {
    layer.shape = LayerShape::Settings;
    let bytes = layer.bytes.as_deref().unwrap_or_default();
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let invalid = |why: String| McpError::new(ErrorCode::ConfigInvalid, format!("not valid JSON: {why}"));
    let text = std::str::from_utf8(bytes).map_err(|_| invalid("it is not UTF-8".to_owned()))?;
    let options = jsonc_parser::CollectOptions::default();
    let parsed = jsonc_parser::parse_to_ast(text, &options, &strict_but_commented())
        .map_err(|error| invalid(error.kind().to_string()))?;
    let value = parsed.value.ok_or_else(|| invalid("it is empty".to_owned()))?;
    plain_value(&value, 0).map_err(invalid)
}

fn guess(root: &Value, path: &Path, is_toml: bool) -> Format {
    let path = path.to_string_lossy().to_lowercase();
    let mcp = root.get("mcp");
    if is_toml {
        Format::Codex
    } else if root.get("context_servers").is_some() {
        Format::Zed
    } else if root.get("servers").is_some() || mcp.is_some_and(|mcp| mcp.get("servers").is_some()) {
        Format::VsCode
    } else if mcp.is_some_and(Value::is_object) {
        Format::OpenCode
    } else if path.contains("windsurf") || path.contains("codeium") {
        Format::Windsurf
    } else if path.contains("cursor") {
        Format::Cursor
    } else if path.contains("gemini") {
        Format::Gemini
    } else {
        Format::ClaudeDesktop
    }
}

/// The servers of a file's content. Pure.
pub fn import_value(root: &Value, format: Format) -> Imported {
    let mut imported = Imported::default();
    let table = match format {
        Format::ClaudeDesktop | Format::ClaudeCode | Format::Cursor | Format::Windsurf | Format::Gemini => {
            root.get("mcpServers")
        }
        Format::VsCode => root.get("servers").or_else(|| root.get("mcp").and_then(|mcp| mcp.get("servers"))),
        Format::Zed => root.get("context_servers"),
        Format::Codex => root.get("mcp_servers"),
        Format::OpenCode => root.get("mcp"),
    };
    let Some(Value::Object(table)) = table else {
        imported.warnings.push(Diagnostic::warning("NO_SERVERS", "The file names no servers"));
        return imported;
    };
    for (name, entry) in table {
        let Value::Object(entry) = entry else {
            let warning = Diagnostic::warning("IMPORT_SKIPPED", "The entry is no object; it is left out");
            imported.warnings.push(warning.on(name));
            continue;
        };
        let mut converter = Converter { name, format, out: Map::new(), warnings: Vec::new() };
        converter.convert(entry);
        imported.servers.insert(name.clone(), Value::Object(converter.out));
        imported.warnings.append(&mut converter.warnings);
    }
    imported
}

struct Converter<'a> {
    name: &'a str,
    format: Format,
    out: Definition,
    warnings: Vec<Diagnostic>,
}

/// Fields that mean the same everywhere.
const SAME: [&str; 9] = ["type", "command", "args", "env", "cwd", "url", "headers", "disabled", "oauth"];

impl Converter<'_> {
    fn warn(&mut self, message: String) {
        self.warnings.push(Diagnostic::warning("IMPORT_LOSS", message).on(self.name));
    }

    fn put(&mut self, key: &str, value: &Value) {
        let value = self.dialect(value);
        self.out.insert(key.to_owned(), value);
    }

    fn convert(&mut self, entry: &Definition) {
        let nested = entry.get("command").and_then(Value::as_object);
        for (key, value) in entry {
            match (self.format, key.as_str()) {
                // Zed once wrote the program as {path, args, env} under `command`.
                (Format::Zed, "command") if nested.is_some() => {
                    for (key, value) in nested.into_iter().flatten() {
                        self.field(if key == "path" { "command" } else { key.as_str() }, value);
                    }
                }
                (Format::OpenCode, "command") if value.is_array() => {
                    let mut words = value.as_array().into_iter().flatten();
                    self.put("command", words.next().unwrap_or(&Value::Null));
                    self.put("args", &words.cloned().collect());
                }
                (_, key) => self.field(key, value),
            }
        }
        self.settle_type();
    }

    fn field(&mut self, key: &str, value: &Value) {
        let negated = |value: &Value| Value::from(value == &Value::Bool(false));
        match (self.format, key) {
            (Format::Windsurf, "serverUrl") => self.put("url", value),
            (Format::Gemini, "httpUrl") => {
                self.put("url", value);
                self.out.insert("type".to_owned(), "http".into());
            }
            (Format::Gemini, "timeout") => self.put("requestTimeoutMs", value),
            (Format::Gemini, "includeTools") | (Format::Codex, "enabled_tools") => {
                self.tools("include", value);
            }
            (Format::Gemini, "excludeTools") | (Format::Codex, "disabled_tools") => {
                self.tools("exclude", value);
            }
            (Format::OpenCode, "environment") => self.put("env", value),
            (Format::OpenCode | Format::Codex | Format::Zed, "enabled") => {
                self.out.insert("disabled".to_owned(), negated(value));
            }
            (Format::Codex, "startup_timeout_sec") => self.seconds("connectTimeoutMs", value),
            (Format::Codex, "tool_timeout_sec") => self.seconds("toolTimeoutMs", value),
            (Format::Codex, "http_headers") => self.headers(value, Value::clone),
            (Format::Codex, "env_http_headers") => {
                self.headers(value, |name| format!("${{{}}}", name.as_str().unwrap_or_default()).into());
            }
            (Format::Codex, "bearer_token_env_var") => {
                let token = format!("Bearer ${{{}}}", value.as_str().unwrap_or_default());
                self.headers(&json!({ "Authorization": token }), Value::clone);
            }
            (Format::Zed, "source") | (Format::VsCode, "gallery" | "version") => {}
            (_, key) if SAME.contains(&key) => self.put(key, value),
            (_, key) => self.warn(format!("The field \"{key}\" has no counterpart; it is left out")),
        }
    }

    fn seconds(&mut self, key: &str, value: &Value) {
        if let Some(seconds) = value.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "a time beyond the range stays at its end")]
            self.out.insert(key.to_owned(), ((seconds * 1_000.0) as i64).into());
        }
    }

    fn tools(&mut self, key: &str, value: &Value) {
        let tools = self.out.entry("tools").or_insert_with(|| json!({}));
        tools[key] = value.clone();
    }

    fn headers(&mut self, more: &Value, text: impl Fn(&Value) -> Value) {
        let headers = self.out.entry("headers").or_insert_with(|| json!({}));
        for (name, value) in more.as_object().into_iter().flatten() {
            headers[name] = text(value);
        }
    }

    /// Words for `type` that others use, and the one that a bare URL means there.
    fn settle_type(&mut self) {
        let kind = self.out.get("type").and_then(Value::as_str).map(str::to_owned);
        let has_url = self.out.contains_key("url");
        match kind.as_deref() {
            Some("local") => {
                self.out.insert("type".to_owned(), "stdio".into());
            }
            Some("remote") => {
                self.out.insert("type".to_owned(), "http".into());
            }
            None if has_url => {
                let kind = if self.format == Format::Gemini { "sse" } else { "http" };
                self.out.insert("type".to_owned(), kind.into());
            }
            _ => {}
        }
    }

    /// Turns references of the product's dialect into ours, and keeps what only looks like one of ours.
    fn dialect(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.dialect(item)).collect(),
            Value::Object(fields) => {
                Value::Object(fields.iter().map(|(key, value)| (key.clone(), self.dialect(value))).collect())
            }
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let (open, close) = if self.format == Format::OpenCode { ("{", '}') } else { ("${", '}') };
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(open) {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let Some(end) = from.find(close) else { break };
            let inner = &from[open.len()..end];
            let replaced = self.reference(inner);
            out.push_str(replaced.as_deref().unwrap_or(&from[..=end]));
            rest = &from[end + 1..];
        }
        out.push_str(rest);
        out
    }

    /// Our form of a reference; `None` where it stays as it is.
    fn reference(&mut self, inner: &str) -> Option<String> {
        if let Some(name) = inner.strip_prefix("env:") {
            return Some(format!("${{{name}}}"));
        }
        if let Some(id) = inner.strip_prefix("input:") {
            let name: String = id
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
                .collect();
            self.warn(format!("The input \"{id}\" is asked for there; here set the variable INPUT_{name}"));
            return Some(format!("${{INPUT_{name}}}"));
        }
        match inner {
            "userHome" => return Some("${HOME}".to_owned()),
            "workspaceFolder" | "workspaceFolderBasename" => {
                self.warn(format!("${{{inner}}} is not known here; write the path"));
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests;
