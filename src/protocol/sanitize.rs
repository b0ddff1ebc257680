//! How the text of results is cleaned (SEC-02): the mode, and where it can be skipped.

use std::borrow::Cow;
use std::cell::Cell;

use crate::error::{ErrorCode, McpError, Result};
use crate::json_scan::Facts;
use crate::unicode::{self, Mode};

/// How results are cleaned (SEC-02).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sanitize {
    /// As definitions are: NFKC and removal.
    Strict,
    /// Only what cannot be seen is removed; the default.
    #[default]
    Invisible,
    /// Nothing is changed.
    Off,
}

impl Sanitize {
    /// Whether no text around which these facts were found can be changed.
    pub fn changes_nothing(self, facts: Facts) -> bool {
        self.mode().is_none_or(|mode| facts.surely_clean(mode == Mode::Strict))
    }

    fn mode(self) -> Option<Mode> {
        match self {
            Self::Strict => Some(Mode::Strict),
            Self::Invisible => Some(Mode::Invisible),
            Self::Off => None,
        }
    }

    /// Cleans a text and counts what it removes.
    ///
    /// Errors: `SANITIZE_UNSTABLE`.
    pub fn text(self, text: Cow<'_, str>, removed: &Cell<usize>) -> Result<String> {
        let Some(mode) = self.mode() else { return Ok(text.into_owned()) };
        match unicode::clean(&text, mode).map_err(|_| unstable())? {
            Cow::Owned(cleaned) => {
                removed.set(removed.get() + unicode::removed(&text, &cleaned, mode));
                Ok(cleaned)
            }
            Cow::Borrowed(_) => Ok(text.into_owned()),
        }
    }

    /// Cleans a JSON value and counts what that removes; borrowed where nothing changes. `facts` are those of the text
    /// around it.
    ///
    /// Errors: `SANITIZE_UNSTABLE`.
    pub fn json<'a>(self, value: &'a str, facts: Facts, removed: &Cell<usize>) -> Result<Cow<'a, str>> {
        let Some(mode) = self.mode().filter(|_| !self.changes_nothing(facts)) else {
            return Ok(Cow::Borrowed(value));
        };
        let cleaned = unicode::clean_json(value, mode).map_err(|_| unstable())?;
        Ok(cleaned.map_or(Cow::Borrowed(value), |cleaned| {
            removed.set(removed.get() + cleaned.characters);
            Cow::Owned(cleaned.text)
        }))
    }
}

fn unstable() -> McpError {
    McpError::new(ErrorCode::SanitizeUnstable, "a text of the result does not become stable under cleaning")
}
