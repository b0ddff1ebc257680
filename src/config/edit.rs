//! Changing one thing in a settings file and nothing else: comments, order and unknown keys stay. (CFG-11, H17)
//!
//! `edit_text` is pure; `edit_file` reads, edits and replaces under a lock that holds across processes.

use std::io::{self, Read};
use std::path::Path;

use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use crate::atomic_file;
use crate::config::draft::Definition;
use crate::config::load::MAX_FILE_BYTES;
use crate::config::parse::strict_but_commented;
use crate::error::{ErrorCode, McpError, Result};

/// One change. Paths are keys from the root of the file.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Sets a server.
    SetServer {
        /// Its name.
        name: String,
        /// Its definition.
        definition: Definition,
    },
    /// Takes a server out.
    RemoveServer {
        /// Its name.
        name: String,
        /// Whether the file holds servers alone, possibly under the key of an editor.
        server_file: bool,
    },
    /// Puts a text into a list that does not hold it yet; the list is made where it is missing.
    Add {
        /// Keys of the list below the edited object.
        list: Vec<&'static str>,
        /// The text.
        text: String,
    },
    /// Takes a text out of a list.
    Remove {
        /// Keys of the list below the edited object.
        list: Vec<&'static str>,
        /// The text.
        text: String,
    },
}

/// Key of servers in every file of ours.
const SERVERS: &str = "mcpServers";
/// Keys of servers in a file that holds nothing else.
const OF_SERVER_FILES: [&str; 2] = [SERVERS, "servers"];

/// Applies changes to the object at `under`, which is made where it is missing.
/// `None` where nothing changes; so a change that was made already writes nothing.
///
/// # Errors
/// `CONFIG_INVALID` for a text that cannot be read, or that has something else where an object or list belongs.
pub fn edit_text(text: &str, under: &[String], edits: &[Edit]) -> Result<Option<String>> {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = if bare.trim().is_empty() { "{}\n" } else { bare };
    let root = CstRootNode::parse(source, &strict_but_commented())
        .map_err(|error| invalid(format!("the file is not valid JSON: {}", error.kind())))?;
    let mut object =
        root.object_value().ok_or_else(|| invalid("the file holds no JSON object".to_owned()))?;
    let adds = edits.iter().any(|edit| matches!(edit, Edit::SetServer { .. } | Edit::Add { .. }));
    for key in under {
        match child(&object, key, adds)? {
            Some(inner) => object = inner,
            None => return Ok(None),
        }
    }
    let mut changed = false;
    for edit in edits {
        changed |= apply(&object, edit)?;
    }
    if !changed {
        return Ok(None);
    }
    let mut edited = root.to_string();
    if text.starts_with('\u{feff}') {
        edited.insert(0, '\u{feff}');
    }
    Ok(Some(edited))
}

fn invalid(message: String) -> McpError {
    McpError::new(ErrorCode::ConfigInvalid, message)
}

/// The last property of a name: among equals it is the one that counts.
fn property(object: &CstObject, key: &str) -> Option<CstObjectProp> {
    object.properties().into_iter().rev().find(|property| property.decoded_name().as_deref() == Some(key))
}

fn child(object: &CstObject, key: &str, create: bool) -> Result<Option<CstObject>> {
    match property(object, key) {
        Some(found) => match found.object_value() {
            Some(inner) => Ok(Some(inner)),
            None => Err(invalid(format!("\"{key}\" is no object; correct the file first"))),
        },
        None if create => Ok(object.append(key, CstInputValue::Object(Vec::new())).object_value()),
        None => Ok(None),
    }
}

fn apply(object: &CstObject, edit: &Edit) -> Result<bool> {
    match edit {
        Edit::SetServer { name, definition } => {
            let Some(servers) = child(object, SERVERS, true)? else { return Ok(false) };
            match property(&servers, name) {
                Some(found) => found.set_value(input(&Value::Object(definition.clone()))),
                None => {
                    servers.append(name, input(&Value::Object(definition.clone())));
                }
            }
            Ok(true)
        }
        Edit::RemoveServer { name, server_file } => {
            let keys = if *server_file { &OF_SERVER_FILES[..] } else { &OF_SERVER_FILES[..1] };
            let mut any = false;
            for key in keys {
                any |= remove_server(object, key, name)?;
            }
            Ok(any)
        }
        Edit::Add { list, text } => edit_list(object, list, text, true),
        Edit::Remove { list, text } => edit_list(object, list, text, false),
    }
}

fn remove_server(object: &CstObject, key: &str, name: &str) -> Result<bool> {
    let Some(servers) = child(object, key, false)? else { return Ok(false) };
    let properties = servers.properties().into_iter();
    let found: Vec<_> =
        properties.filter(|property| property.decoded_name().as_deref() == Some(name)).collect();
    let any = !found.is_empty();
    found.into_iter().for_each(CstObjectProp::remove);
    Ok(any)
}

fn edit_list(object: &CstObject, list: &[&'static str], text: &str, add: bool) -> Result<bool> {
    let Some((key, above)) = list.split_last() else { return Ok(false) };
    let mut object = object.clone();
    for step in above {
        match child(&object, step, add)? {
            Some(inner) => object = inner,
            None => return Ok(false),
        }
    }
    let array = match property(&object, key) {
        Some(found) => found
            .array_value()
            .ok_or_else(|| invalid(format!("\"{key}\" is no list; correct the file first")))?,
        None if add => {
            object.append(key, CstInputValue::Array(vec![CstInputValue::String(text.to_owned())]));
            return Ok(true);
        }
        None => return Ok(false),
    };
    let is_it = |node: &jsonc_parser::cst::CstNode| {
        node.as_string_lit().and_then(|literal| literal.decoded_value().ok()).as_deref() == Some(text)
    };
    let found: Vec<_> = array.elements().into_iter().filter(is_it).collect();
    match (add, found.is_empty()) {
        (true, true) => {
            array.append(CstInputValue::String(text.to_owned()));
            Ok(true)
        }
        (false, false) => {
            for node in found {
                node.remove();
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(boolean) => CstInputValue::Bool(*boolean),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}

/// What came of editing a file.
#[derive(Clone, Debug)]
pub struct Edited {
    /// What stands there now.
    pub content: Vec<u8>,
    /// Whether that is something else than before.
    pub changed: bool,
}

/// Edits a file while no other process of ours does; a missing one is made, with its directory.
/// `accept` sees what stands there before anything is changed and may refuse.
///
/// # Errors
/// As [`edit_text`]; `CONFIG_WRITE_FAILED` for what the file system refuses.
pub fn edit_file(
    path: &Path,
    under: &[String],
    edits: &[Edit],
    accept: impl FnOnce(Option<&[u8]>) -> Result<()>,
) -> Result<Edited> {
    let failed = |error: io::Error| {
        McpError::new(ErrorCode::ConfigWriteFailed, format!("{} cannot be written: {error}", path.display()))
    };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    let _lock = atomic_file::lock(path).map_err(failed)?;
    let before = read(path).map_err(failed)?;
    accept(before.as_deref())?;
    let text = String::from_utf8(before.clone().unwrap_or_default())
        .map_err(|_| invalid(format!("{} is not UTF-8", path.display())))?;
    let edited = edit_text(&text, under, edits)
        .map_err(|error| McpError::new(error.code(), format!("{}: {}", path.display(), error.message())))?;
    match edited {
        Some(edited) => {
            atomic_file::replace(path, edited.as_bytes(), 0o600).map_err(failed)?;
            Ok(Edited { content: edited.into_bytes(), changed: true })
        }
        None => Ok(Edited { content: text.into_bytes(), changed: false }),
    }
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Err(io::ErrorKind::InvalidInput.into()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_FILE_BYTES);
    if fits { Ok(Some(bytes)) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

#[cfg(test)]
mod tests;
