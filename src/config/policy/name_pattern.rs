//! Names in policy entries, with `*` for any text.

use icu_properties::CodePointSetData;
use icu_properties::props::DefaultIgnorableCodePoint;
use unicode_normalization::UnicodeNormalization;

use crate::config::names::folded;
use crate::name::pattern::fits;

/// A name with `*` for any text.
#[derive(Clone, Debug)]
pub(super) struct NamePattern {
    written: String,
    folded: String,
}

impl NamePattern {
    pub(super) fn new(text: &str) -> Option<Self> {
        if text.trim().is_empty() {
            return None;
        }
        let folded = text.split('*').map(fold).collect::<Vec<_>>().join("*");
        Some(Self { written: text.to_owned(), folded })
    }

    /// For allow: letter for letter.
    pub(super) fn is(&self, name: &str) -> bool {
        fits(&self.written, name)
    }

    /// For deny: whatever looks or is shown the same counts.
    pub(super) fn covers(&self, name: &str) -> bool {
        self.is(name) || fits(&self.folded, &fold(name)) || fits(&self.folded, &folded(name))
    }
}

/// Case folded, compatibility forms unified, invisible characters gone, the rest as in tool names.
fn fold(text: &str) -> String {
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let visible: String = text.nfkc().filter(|&c| !ignorable.contains(c) && !c.is_control()).collect();
    visible
        .to_lowercase()
        .nfkc()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' })
        .collect()
}
