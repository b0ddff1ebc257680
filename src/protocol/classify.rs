//! Telling from its name whether a tool searches or reads (TOL-04).
//!
//! Owns the two tables, which a host may add to: one name a line with the package and version it was seen in, gathered by
//! `scripts/gather-tool-names.mjs`. Nothing is guessed from parts of a name: a name outside the tables is unknown.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

/// What the name of a tool says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classification {
    /// It looks for something.
    Search,
    /// It reads something that is already known.
    Read,
    /// Nothing can be said.
    Unknown,
}

impl Classification {
    /// The word as JavaScript sees it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Read => "read",
            Self::Unknown => "unknown",
        }
    }
}

const SEARCH_NAMES: &str = include_str!("data/search-tools.txt");
const READ_NAMES: &str = include_str!("data/read-tools.txt");

static TABLE: LazyLock<HashMap<String, Classification>> = LazyLock::new(|| {
    let reads = names(READ_NAMES).map(|name| (folded(name), Classification::Read));
    let searches = names(SEARCH_NAMES).map(|name| (folded(name), Classification::Search));
    reads.chain(searches).collect()
});

/// Names of a table; empty lines and lines that begin with `#` are comments.
fn names(table: &str) -> impl Iterator<Item = &str> {
    table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split('\t').next())
        .filter(|name| !name.is_empty())
}

/// Classifies a tool by its own name, without the server's prefix; camelCase, kebab-case and `snake_case` are one.
pub fn classify_tool(name: &str) -> Classification {
    TABLE.get(&folded(name)).copied().unwrap_or(Classification::Unknown)
}

/// Names that a host knows better, as it gives them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OwnNames {
    /// Names of tools that search.
    pub search: Vec<String>,
    /// Names of tools that read.
    pub read: Vec<String>,
    /// Names that say nothing, though a table has them.
    pub unknown: Vec<String>,
}

/// The tables with what a host added.
#[derive(Clone, Debug, Default)]
pub struct Classifier(Arc<HashMap<String, Classification>>);

impl Classifier {
    /// The built-in tables and the host's own names, which win; of one name in several lists `unknown` counts, then
    /// `read`.
    pub fn with(own: &OwnNames) -> Self {
        let of = |names: &[String], kind: Classification| -> Vec<(String, Classification)> {
            names.iter().map(|name| (folded(name), kind)).collect()
        };
        let lists = [
            of(&own.search, Classification::Search),
            of(&own.read, Classification::Read),
            of(&own.unknown, Classification::Unknown),
        ];
        Self(Arc::new(lists.into_iter().flatten().collect()))
    }

    /// Classifies a tool by its own name.
    pub fn classify(&self, name: &str) -> Classification {
        if self.0.is_empty() {
            return classify_tool(name);
        }
        let own = self.0.get(&folded(name)).copied();
        own.unwrap_or_else(|| classify_tool(name))
    }
}

/// The words of a name in lower case, joined by `_`.
fn folded(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    let mut characters = name.chars().peekable();
    let mut before: Option<char> = None;
    while let Some(character) = characters.next() {
        if !character.is_alphanumeric() {
            before = None;
            continue;
        }
        let starts_word = match before {
            None => true,
            Some(last) => {
                character.is_uppercase()
                    && (!last.is_uppercase() || characters.peek().is_some_and(|next| next.is_lowercase()))
            }
        };
        if starts_word && !out.is_empty() {
            out.push('_');
        }
        out.extend(character.to_lowercase());
        before = Some(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tol_04_one_name_in_every_case_style() {
        for name in ["read_text_file", "read-text-file", "readTextFile", "ReadTextFile", "READ_TEXT_FILE"] {
            assert_eq!(classify_tool(name), Classification::Read, "{name}");
        }
        for name in ["search_files", "searchFiles", "search.files"] {
            assert_eq!(classify_tool(name), Classification::Search, "{name}");
        }
        for name in ["", "delete_read_text_file", "read", "write_file", "__proto__", "constructor", "日本"]
        {
            assert_eq!(classify_tool(name), Classification::Unknown, "{name}");
        }
    }

    #[test]
    fn tol_04_a_host_knows_better() {
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let own = OwnNames {
            search: names(&["lookUpOrders", "both"]),
            read: names(&["peek", "both"]),
            unknown: names(&["read-text-file"]),
        };
        let classifier = Classifier::with(&own);
        for (name, expected) in [
            ("look_up_orders", Classification::Search),
            ("look-up-orders", Classification::Search),
            ("peek", Classification::Read),
            ("both", Classification::Read),
            ("readTextFile", Classification::Unknown),
            ("search_files", Classification::Search),
            ("delete", Classification::Unknown),
        ] {
            assert_eq!(classifier.classify(name), expected, "{name}");
        }
        assert_eq!(Classifier::default().classify("read_text_file"), Classification::Read);
    }

    #[test]
    fn words_of_names() {
        for (name, words) in [
            ("getHTTPStatus", "get_http_status"),
            ("get-sum", "get_sum"),
            ("list__all", "list_all"),
            ("v2List", "v2_list"),
        ] {
            assert_eq!(folded(name), words);
        }
    }

    #[test]
    fn tol_04_every_entry_says_where_it_was_seen_and_stands_once() {
        let mut seen = HashMap::new();
        for (table, kind, least) in [(SEARCH_NAMES, "search", 201), (READ_NAMES, "read", 501)] {
            let lines = || table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            assert!(lines().count() >= least, "{kind}: {}", lines().count());
            for line in lines() {
                let mut columns = line.split('\t');
                let (name, source) = (columns.next().expect(line), columns.next().expect(line));
                assert!(matches!((columns.next(), columns.next()), (None | Some("sources"), None)), "{line}");
                let (package, version) = source.rsplit_once('@').expect(line);
                assert!(!package.is_empty() && version.starts_with(|c: char| c.is_ascii_digit()), "{line}");
                assert_eq!(seen.insert(folded(name), kind), None, "{line}");
            }
        }
    }
}
