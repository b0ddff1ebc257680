//! Cleaning of text that models and people read: no invisible character gets through.
//!
//! Owns: the two modes (SEC-01 for definitions and messages, SEC-02 for results), the fixed point and the
//! rewriting of JSON text. Does not own: which text is cleaned in which mode, the raw forms kept for the
//! wire, and what is told about a change.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use crate::error::{ErrorCode, McpError};

mod classes;
mod invisible;
mod json;
mod string_token;
#[cfg(test)]
mod tests;

pub use json::{CleanedJson, clean_json};

/// Rounds after which a text must have stopped changing.
const MOST_ROUNDS: usize = 10;

/// How thoroughly a text is cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// NFKC, then without everything invisible, unassigned or controlling but tab and newline (SEC-01).
    Strict,
    /// Without invisible, bidi-control, tag and private-use characters, else as it was (SEC-02).
    ///
    /// Control characters stay, since results are file contents and terminal output. So do joiners and
    /// variation selectors that emoji and scripts need.
    Invisible,
}

impl Mode {
    /// Whether the mode removes a character, if its neighbours do not need it.
    fn hides(self, character: char) -> bool {
        match self {
            Self::Strict => classes::is_removed_strictly(character),
            Self::Invisible => classes::is_invisible(character),
        }
    }
}

/// How many characters cleaning has removed; those that became others do not count (I5).
pub fn removed(before: &str, after: &str, mode: Mode) -> usize {
    let hidden = |text: &str| text.chars().filter(|&character| mode.hides(character)).count();
    hidden(before).saturating_sub(hidden(after))
}

/// A text that does not stop changing under cleaning, or JSON nested too deeply to be cleaned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text does not become stable under Unicode cleaning")]
pub struct Unstable;

impl From<Unstable> for McpError {
    fn from(unstable: Unstable) -> Self {
        McpError::new(ErrorCode::SanitizeUnstable, unstable.to_string())
    }
}

/// The text without what the mode removes, borrowed where nothing changes (SEC-01, SEC-02).
///
/// The result is a fixed point: cleaning it again changes nothing. Linear in the length of the text; ASCII
/// costs one scan.
pub fn clean(text: &str, mode: Mode) -> Result<Cow<'_, str>, Unstable> {
    match mode {
        Mode::Strict if text.bytes().all(classes::is_plain_ascii) => Ok(Cow::Borrowed(text)),
        Mode::Invisible if text.is_ascii() => Ok(Cow::Borrowed(text)),
        Mode::Strict => until_stable(text, strict_round),
        Mode::Invisible => until_stable(text, invisible::round),
    }
}

/// The text cleaned in strict mode, for messages that must be shown whatever they hold.
///
/// A text that does not become stable loses everything that is not plain ASCII.
pub fn clean_str_lossy(text: &str) -> String {
    clean(text, Mode::Strict).map_or_else(|_| plain_ascii(text), Cow::into_owned)
}

/// As [`clean_str_lossy`], and how many characters were removed.
pub fn clean_counted(text: &str) -> (String, usize) {
    let cleaned = clean_str_lossy(text);
    let removed = if cleaned == text { 0 } else { removed(text, &cleaned, Mode::Strict) };
    (cleaned, removed)
}

fn plain_ascii(text: &str) -> String {
    text.chars().filter(|&c| u8::try_from(c).is_ok_and(classes::is_plain_ascii)).collect()
}

/// Applies a round, which answers `None` when it changes nothing, until it does.
fn until_stable(text: &str, round: impl Fn(&str) -> Option<String>) -> Result<Cow<'_, str>, Unstable> {
    let mut current = Cow::Borrowed(text);
    for _ in 0..MOST_ROUNDS {
        match round(&current) {
            None => return Ok(current),
            Some(next) => current = Cow::Owned(next),
        }
    }
    Err(Unstable)
}

/// One round of SEC-01: NFKC first, since it turns some visible letters into invisible ones.
fn strict_round(text: &str) -> Option<String> {
    let stable = is_nfkc_quick(text.chars()) == IsNormalized::Yes;
    if stable && !text.chars().any(classes::is_removed_strictly) {
        return None;
    }
    let next: String = text.nfkc().filter(|&c| !classes::is_removed_strictly(c)).collect();
    (next != text).then_some(next)
}
