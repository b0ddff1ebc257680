//! Names that no server of the configuration may have. (NAM-07)
//!
//! Runs right after `parse`: a name is judged before approval, so that an unapproved file learns of it too.

use icu_properties::CodePointSetData;
use icu_properties::props::DefaultIgnorableCodePoint;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

use crate::config::draft::{Draft, Staged};
use crate::config::report::Fate;
use crate::diagnostic::Diagnostic;
use crate::name::normalize_server_name;

/// Reserved unless the host says otherwise.
pub const DEFAULT_RESERVED: [&str; 3] = ["claude-in-chrome", "computer-use", "ide"];

/// Names that would touch the prototype of a JavaScript object.
const PROTOTYPE_KEYS: [&str; 3] = ["__proto__", "constructor", "prototype"];

/// Ends entries whose name is empty, a prototype key, or reserved. In-process servers and editors may
/// use reserved names: the one is the host's own code, the other is what the name is reserved for.
pub fn check_names(drafts: Vec<Draft>, reserved: &[String]) -> Staged<Draft> {
    let reserved: Vec<(String, &str)> = reserved.iter().map(|name| (folded(name), name.as_str())).collect();
    let mut stage = Staged::default();
    for draft in drafts {
        let name = &*draft.origin.name;
        if let Some(reason) = unusable(name) {
            stage.diagnostics.push(draft.origin.place(Diagnostic::error("CONFIG_INVALID", reason), ""));
            stage.dropped.push(draft.dropped(Fate::Invalid, reason));
            continue;
        }
        let fold = folded(name);
        match reserved.iter().find(|(taken, _)| *taken == fold) {
            Some((_, taken)) if !may_be_reserved(draft.definition.get("type")) => {
                let message = format!("The name \"{name}\" is reserved; choose another");
                stage.diagnostics.push(draft.origin.place(Diagnostic::error("RESERVED_NAME", message), ""));
                stage.dropped.push(draft.dropped(Fate::Reserved, "RESERVED_NAME").decided_by(*taken));
            }
            _ => stage.kept.push(draft),
        }
    }
    stage
}

fn unusable(name: &str) -> Option<&'static str> {
    let blank = |c: char| c.is_whitespace() || c.is_control() || ignorable(c);
    if name.chars().all(blank) {
        Some("The name of the server is empty")
    } else if PROTOTYPE_KEYS.contains(&name) {
        Some("The name of the server is a prototype key of JavaScript")
    } else {
        None
    }
}

fn may_be_reserved(kind: Option<&Value>) -> bool {
    matches!(kind.and_then(Value::as_str), Some("sdk" | "sse-ide" | "ws-ide"))
}

/// The name as it is compared: compatibility forms unified, invisible characters gone, normalised,
/// case folded, without the underscores at the ends that blanks leave behind.
pub fn folded(name: &str) -> String {
    let visible: String = name.nfkc().filter(|&c| !ignorable(c) && !c.is_control()).collect();
    let lower: String = visible.trim().to_lowercase().nfkc().collect();
    normalize_server_name(&lower).trim_matches('_').to_owned()
}

fn ignorable(c: char) -> bool {
    CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}
