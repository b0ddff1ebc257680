//! Prompts: entries of `prompts/list`, their arguments, the slash line, and `prompts/get` results (PRM-01).

use serde_json::value::RawValue;

use super::content::{BlockWriter, ContentRules};
use super::definition::{
    Body, DESCRIPTION_LIMIT, Draft, Listed, Named, Rejection, TITLE_LIMIT, map_all, shown,
};
use super::repeats::Repeats;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError, Result};
use crate::json_scan::{self, Kind, MAX_DEPTH};
use crate::words;

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    /// The name as the server wrote it.
    pub wire_name: String,
    /// The cleaned name.
    pub name: String,
    /// Whether it must be given.
    pub required: bool,
}

/// A prompt as a server defined it, cleaned.
#[derive(Clone, Debug)]
pub struct PromptDefinition {
    /// The name as the server wrote it: the one that goes over the wire.
    pub wire_name: String,
    /// The cleaned name, without the server's prefix.
    pub name: String,
    /// Members of the public `Prompt` without `name` and the brackets.
    pub body: String,
    /// Its arguments in order.
    pub arguments: Vec<PromptArgument>,
}

impl PromptDefinition {
    /// The server's own name of an argument; one that the prompt does not know passes as it is.
    pub fn wire_argument<'a>(&'a self, name: &'a str) -> &'a str {
        let known = self.arguments.iter().find(|argument| argument.name == name);
        known.map_or(name, |argument| &argument.wire_name)
    }
}

impl Named for PromptDefinition {
    fn wire_name(&self) -> &str {
        &self.wire_name
    }

    fn clean_name(&self) -> &str {
        &self.name
    }
}

/// Maps the entries of one server's `prompts/list`.
///
/// A broken entry is left out with a warning (`PROMPT_INVALID`, `PROMPT_QUARANTINED`, `PROMPT_DUPLICATE`).
pub fn map_prompts(server: &str, raw_prompts: &[&RawValue]) -> (Vec<PromptDefinition>, Vec<Diagnostic>) {
    map_all(Listed::Prompt, server, raw_prompts, map_prompt)
}

fn map_prompt(draft: &mut Draft<'_>) -> Result<PromptDefinition, Rejection> {
    let [name, title, description, arguments] =
        json_scan::pick(draft.raw, ["name", "title", "description", "arguments"]);
    let (wire_name, name) = draft.name(name, "name")?;
    let mut body = Body::default();
    body.text("promptName", &name);
    body.text("server", draft.server);
    body.text("type", "prompt");
    body.text("source", "mcp");
    body.optional_text("title", draft.text(title)?, TITLE_LIMIT);
    body.optional_text("description", draft.text(description)?, DESCRIPTION_LIMIT);
    let (arguments, public) = map_arguments(draft, arguments)?;
    body.raw("arguments", &public);
    Ok(PromptDefinition { wire_name, name, body: body.0, arguments })
}

fn map_arguments(draft: &Draft<'_>, raw: Option<&str>) -> Result<(Vec<PromptArgument>, String), Rejection> {
    let raw = raw.unwrap_or("[]");
    if !matches!(json_scan::kind(raw), Kind::Array | Kind::Null) {
        return Err(Rejection::invalid("its arguments are not an array"));
    }
    let mut arguments: Vec<PromptArgument> = Vec::new();
    let mut names = std::collections::HashSet::new();
    let mut public = Vec::new();
    for element in json_scan::elements(raw) {
        let [name, description, required] = json_scan::pick(element, ["name", "description", "required"]);
        let (wire_name, name) = draft.name(name, "argument name")?;
        if !names.insert(name.clone()) {
            return Err(Rejection::quarantined(format!("two of its arguments are '{}'", shown(&name))));
        }
        let mut body = Body::default();
        body.text("name", &name);
        body.optional_text("description", draft.text(description)?, DESCRIPTION_LIMIT);
        let required = required.filter(|value| json_scan::kind(value) == Kind::Bool);
        if let Some(required) = required {
            body.raw("required", required);
        }
        public.push(format!("{{{}}}", body.0));
        arguments.push(PromptArgument { wire_name, name, required: required == Some("true") });
    }
    Ok((arguments, format!("[{}]", public.join(","))))
}

/// Gives values to arguments by order, as pairs of wire name and value.
///
/// Values beyond the last argument are appended to it, each behind a space. Errors: `INPUT_INVALID` where required
/// arguments are missing (all are named) or the prompt takes none.
pub fn arguments_from_positional(
    prompt: &PromptDefinition,
    values: &[String],
) -> Result<Vec<(String, String)>> {
    if prompt.arguments.is_empty() && !values.is_empty() {
        let message = format!("prompt '{}' takes no arguments, {} given", shown(&prompt.name), values.len());
        return Err(McpError::new(ErrorCode::InputInvalid, message));
    }
    require(prompt, |place, _| place < values.len())?;
    let mut pairs: Vec<(String, String)> = prompt
        .arguments
        .iter()
        .zip(values)
        .map(|(argument, value)| (argument.wire_name.clone(), value.clone()))
        .collect();
    if let Some((_, last)) = pairs.last_mut() {
        for extra in values.iter().skip(prompt.arguments.len()) {
            last.push(' ');
            last.push_str(extra);
        }
    }
    Ok(pairs)
}

/// Named values with the wire names of their arguments; names the prompt does not know pass as they are.
///
/// Errors: `INPUT_INVALID` where required arguments are missing; all are named.
pub fn check_named(prompt: &PromptDefinition, values: &[(String, String)]) -> Result<Vec<(String, String)>> {
    let given: std::collections::HashSet<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
    require(prompt, |_, argument| {
        given.contains(argument.name.as_str()) || given.contains(argument.wire_name.as_str())
    })?;
    let wire = |name: &str| prompt.wire_argument(name).to_owned();
    Ok(values.iter().map(|(name, value)| (wire(name), value.clone())).collect())
}

fn require(prompt: &PromptDefinition, is_given: impl Fn(usize, &PromptArgument) -> bool) -> Result<()> {
    let missing: Vec<String> = prompt
        .arguments
        .iter()
        .enumerate()
        .filter(|(place, argument)| argument.required && !is_given(*place, argument))
        .map(|(_, argument)| format!("'{}'", shown(&argument.name)))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("prompt '{}' needs the arguments {}", shown(&prompt.name), missing.join(", "));
    Err(McpError::new(ErrorCode::InputInvalid, message))
}

/// Splits `/name a "b c" 'd'` into the name and its values, by the quoting rules of a shell.
///
/// Within single quotes everything is literal; within double quotes a backslash escapes `"` and `\`; outside it
/// escapes any character. Nothing is expanded. Errors: `INPUT_INVALID` without a slash or name, or with an open quote.
pub fn parse_slash_line(line: &str) -> Result<(String, Vec<String>)> {
    let invalid = |reason: &str| McpError::new(ErrorCode::InputInvalid, format!("slash command: {reason}"));
    let rest = line.trim().strip_prefix('/').ok_or_else(|| invalid("it does not begin with '/'"))?;
    let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if name.is_empty() {
        return Err(invalid("it names no prompt"));
    }
    let values = words::split(rest).ok_or_else(|| invalid("a quote is not closed"))?;
    Ok((name.to_owned(), values))
}

/// A mapped `prompts/get` result.
#[derive(Clone, Debug)]
pub struct MappedPrompt {
    /// JSON text `{description?, messages: [{role, content}]}`.
    pub value: String,
    /// What was odd.
    pub warnings: Vec<Diagnostic>,
}

/// Maps the result of `prompts/get`; content as in results. A message with several blocks becomes one message each.
///
/// Errors: `RESULT_INVALID` where the result is no object or nested deeper than 128; `SANITIZE_UNSTABLE`.
pub fn map_prompt_result(raw: &str, rules: &ContentRules<'_>) -> Result<MappedPrompt> {
    let facts = json_scan::scan(raw);
    if json_scan::kind(raw) != Kind::Object || facts.depth > MAX_DEPTH {
        let message = format!("the prompt is not an object nested {MAX_DEPTH} deep at most");
        return Err(McpError::new(ErrorCode::ResultInvalid, message).on(rules.server));
    }
    let [description, messages] = json_scan::pick(raw, ["description", "messages"]);
    let rules = ContentRules { large_text_bytes: usize::MAX, ..*rules };
    let repeats = Repeats::default();
    let mut writer = BlockWriter::new(&rules, facts, &repeats);
    let messages = messages.unwrap_or("null");
    if json_scan::kind(messages) != Kind::Array {
        writer.odd("messages is not an array");
    }
    let mut mapped = Vec::new();
    for message in json_scan::elements(messages) {
        map_message(message, &mut writer, &mut mapped)?;
    }
    let mut body = Body::default();
    if let Some(description) = description.filter(|value| json_scan::kind(value) == Kind::String) {
        body.raw("description", &rules.sanitize.json(description, facts, &writer.removed)?);
    }
    body.raw("messages", &format!("[{}]", mapped.join(",")));
    writer.oddities.hidden(writer.removed.get());
    Ok(MappedPrompt { value: format!("{{{}}}", body.0), warnings: writer.oddities.finish() })
}

fn map_message<'a>(message: &'a str, writer: &mut BlockWriter<'a>, mapped: &mut Vec<String>) -> Result<()> {
    let [role, content] = json_scan::pick(message, ["role", "content"]);
    let role = match role.and_then(json_scan::decode).as_deref() {
        Some("assistant") => "assistant",
        Some("user") => "user",
        _ => {
            writer.odd("a message has no known role");
            "user"
        }
    };
    let Some(content) = content else {
        writer.odd("a message has no content");
        return Ok(());
    };
    let blocks: Vec<&str> = match json_scan::kind(content) {
        Kind::Array => json_scan::elements(content).collect(),
        _ => vec![content],
    };
    for block in blocks {
        writer.json.clear();
        writer.count = 0;
        writer.write(block)?;
        mapped.push(format!(r#"{{"role":"{role}","content":{}}}"#, writer.json));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
