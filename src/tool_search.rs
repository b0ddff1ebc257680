//! Finding tools by words (TOL-05): an index over names, titles, descriptions, hints and parameter names, ranked by
//! BM25. Pure; knows nothing of servers or permissions.
//!
//! A query is words; `+word` must occur; `select:a,b` names tools exactly. A word also finds longer ones that begin
//! with it, for less.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

/// What one tool is found by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Document<'a> {
    /// Full name.
    pub name: &'a str,
    /// Name of the server, and the server's own name of the tool: a full name may lack parts of both.
    pub own_names: [&'a str; 2],
    /// Title for people.
    pub title: &'a str,
    /// Description.
    pub description: &'a str,
    /// Words that the server gives for the search.
    pub hint: &'a str,
    /// Names of parameters, in any order.
    pub parameters: &'a [String],
}

/// How much a word of each field counts.
const NAME: f32 = 3.0;
const HINT: f32 = 2.5;
const TITLE: f32 = 2.0;
const PARAMETER: f32 = 1.0;
const DESCRIPTION: f32 = 1.0;
/// The two constants of BM25: how soon repetition stops counting, and how much length does.
const K1: f32 = 1.2;
const B: f32 = 0.6;
/// What a word counts that only begins with the wanted one, and how long the wanted one must be for that.
const PREFIX: f32 = 0.4;
const PREFIX_FROM: usize = 3;
/// Longer words that are looked at for one prefix.
const MAX_LONGER: usize = 256;
/// Bytes of a name and of a description that are read, and words of a query.
const NAME_BYTES: usize = 1024;
const DESCRIPTION_BYTES: usize = 4 * 1024;
const MAX_WORDS: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Posting {
    document: u32,
    weight: f32,
}

/// An index of tools, numbered in the order they were given.
#[derive(Debug, Default)]
pub struct SearchIndex {
    words: BTreeMap<Box<str>, Vec<Posting>>,
    /// Weighted length of each document.
    lengths: Vec<f32>,
    average: f32,
}

impl SearchIndex {
    /// Indexes documents.
    pub fn build<'a>(documents: impl Iterator<Item = Document<'a>>) -> Self {
        let mut index = Self::default();
        for (number, document) in documents.enumerate() {
            index.add(u32::try_from(number).unwrap_or(u32::MAX), &document);
        }
        let total: f32 = index.lengths.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "an average need not be exact")]
        let count = index.lengths.len().max(1) as f32;
        index.average = (total / count).max(1.0);
        index
    }

    fn add(&mut self, number: u32, document: &Document<'_>) {
        let mut length = 0.0;
        let mut field = |text: &str, weight: f32, repeats: bool| {
            words(text, |word| {
                let postings = match self.words.get_mut(word) {
                    Some(postings) => postings,
                    None => self.words.entry(word.into()).or_default(),
                };
                match postings.last_mut() {
                    Some(last) if last.document == number && !repeats => return,
                    Some(last) if last.document == number => last.weight += weight,
                    _ => postings.push(Posting { document: number, weight }),
                }
                length += weight;
            });
        };
        for name in document.own_names {
            field(head(name, NAME_BYTES), NAME, true);
        }
        // Mostly the same once more.
        field(document.name.strip_prefix("mcp__").unwrap_or(document.name), NAME, false);
        field(document.title, TITLE, true);
        field(document.hint, HINT, true);
        field(head(document.description, DESCRIPTION_BYTES), DESCRIPTION, true);
        for parameter in document.parameters {
            field(parameter, PARAMETER, true);
        }
        self.lengths.push(length);
    }

    /// Numbers of the documents that match, best first.
    pub fn search(&self, words: &[Word]) -> Vec<usize> {
        let mut scores = vec![0.0_f32; self.lengths.len()];
        let mut required: Option<HashSet<u32>> = None;
        for word in words.iter().take(MAX_WORDS) {
            let mut found = HashSet::new();
            self.score(&word.text, |document, score| {
                scores[document as usize] += score;
                if word.required {
                    found.insert(document);
                }
            });
            if word.required {
                required = Some(match required {
                    None => found,
                    Some(before) => before.intersection(&found).copied().collect(),
                });
            }
        }
        let mut matches: Vec<(usize, f32)> = scores
            .into_iter()
            .enumerate()
            .filter(|(number, score)| {
                let number = u32::try_from(*number).unwrap_or(u32::MAX);
                *score > 0.0 && required.as_ref().is_none_or(|required| required.contains(&number))
            })
            .collect();
        matches.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        matches.into_iter().map(|(number, _)| number).collect()
    }

    fn score(&self, wanted: &str, mut add: impl FnMut(u32, f32)) {
        let from = (Bound::Included(wanted), Bound::Unbounded);
        let longer = self.words.range::<str, _>(from).take_while(|(word, _)| word.starts_with(wanted));
        for (word, postings) in longer.take(MAX_LONGER) {
            let factor = match word.len() == wanted.len() {
                true => 1.0,
                false if wanted.len() >= PREFIX_FROM => PREFIX,
                false => continue,
            };
            let rarity = self.rarity(postings.len());
            for posting in postings {
                let length = self.lengths[posting.document as usize] / self.average;
                let frequency = posting.weight * (K1 + 1.0) / (posting.weight + K1 * (1.0 - B + B * length));
                add(posting.document, factor * rarity * frequency);
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a logarithm need not be exact")]
    fn rarity(&self, found: usize) -> f32 {
        let (all, found) = (self.lengths.len() as f32, found as f32);
        (1.0 + (all - found + 0.5) / (found + 0.5)).ln()
    }
}

/// The first bytes of a text, up to a character boundary.
fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// One word of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word as it stands in the index.
    pub text: String,
    /// Whether it must occur.
    pub required: bool,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// These tools, in this order.
    Select(Vec<String>),
    /// Tools that say something about these words.
    Words(Vec<Word>),
}

/// Reads a query.
pub fn read_query(text: &str) -> Query {
    if let Some(names) = text.trim().strip_prefix("select:") {
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        return Query::Select(names.map(str::to_owned).collect());
    }
    let mut found = Vec::new();
    for part in text.split_whitespace() {
        let (part, required) = match part.strip_prefix('+') {
            Some(rest) => (rest, true),
            None => (part, false),
        };
        words(part, |word| found.push(Word { text: word.to_owned(), required }));
    }
    Query::Words(found)
}

/// Calls `take` with each word in lower case: runs of letters and digits, split where camelCase goes up. Letters of
/// scripts without spaces are words of their own.
fn words(text: &str, mut take: impl FnMut(&str)) {
    let mut word = String::new();
    let mut before: Option<char> = None;
    let mut flush = |word: &mut String| {
        if !word.is_empty() {
            take(singular(word));
            word.clear();
        }
    };
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if !character.is_alphanumeric() {
            flush(&mut word);
            before = None;
            continue;
        }
        let goes_up = character.is_uppercase()
            && (before.is_some_and(|before| before.is_lowercase() || before.is_numeric())
                || (before.is_some_and(char::is_uppercase)
                    && characters.peek().is_some_and(|next| next.is_lowercase())));
        if goes_up || is_word_of_its_own(character) || before.is_some_and(is_word_of_its_own) {
            flush(&mut word);
        }
        word.extend(character.to_lowercase());
        before = Some(character);
    }
    flush(&mut word);
}

/// Han, Hiragana, Katakana and their like: no spaces show where a word ends.
fn is_word_of_its_own(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// A plural that only adds an `s` is the same word.
fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with(['s', 'u', 'i']) => stem,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [(&str, &str); 6] = [
        ("mcp__github__create_issue", "Opens a new issue in a repository"),
        ("mcp__github__list_issues", "Lists issues of a repository"),
        ("mcp__files__readFile", "Reads a file from disk"),
        ("mcp__files__writeFile", "Writes text to a file"),
        ("mcp__slack__post_message", "Posts a message to a channel"),
        ("mcp__cn__weather", "查询城市的天气"),
    ];

    #[test]
    fn tol_05_nam_01_a_tool_is_found_by_what_its_full_name_lacks() {
        let own = ["查询天气", "a_long_name_whose_end_is_cut_off_such_as_that_of_create_invoice", "post"];
        let full = ["mcp__s____1a2b", "mcp__s__a_long_name_whose_end_is_cut_off_9f", "mcp__s__post"];
        let documents = own.iter().zip(full).map(|(own, name)| Document {
            name,
            own_names: ["s.ärzte", own],
            ..Document::default()
        });
        let index = SearchIndex::build(documents);
        let found = |query: &str| {
            let Query::Words(words) = read_query(query) else { panic!("{query}") };
            index.search(&words)
        };
        assert_eq!(found("天气"), [0]);
        assert_eq!(found("create invoice"), [1]);
        assert_eq!(found("9f"), [1], "and by its full name");
        assert_eq!(found("ärzte").len(), 3);
    }

    fn index() -> SearchIndex {
        SearchIndex::build(TOOLS.iter().map(|(name, description)| Document {
            name,
            description,
            ..Document::default()
        }))
    }

    fn found(query: &str) -> Vec<&'static str> {
        let Query::Words(words) = read_query(query) else { panic!("{query}") };
        let tail = |name: &'static str| name.rsplit("__").next().unwrap();
        index().search(&words).into_iter().map(|number| tail(TOOLS[number].0)).collect()
    }

    #[test]
    fn tol_05_names_count_most_and_words_meet_whatever_their_spelling() {
        assert_eq!(found("read file"), ["readFile", "writeFile"]);
        assert_eq!(found("FILES read"), ["readFile", "writeFile"]);
        assert_eq!(found("create issue")[0], "create_issue");
        assert_eq!(found("issues"), ["list_issues", "create_issue"], "the shorter text is about it more");
        assert_eq!(found("message"), ["post_message"]);
        assert_eq!(found("天气"), ["weather"]);
    }

    #[test]
    fn tol_05_the_beginning_of_a_word_is_enough() {
        assert_eq!(found("repo").len(), 2);
        assert_eq!(found("re"), Vec::<&str>::new(), "two letters say too little");
        assert_eq!(found("nothing like that"), Vec::<&str>::new());
        assert_eq!(found(""), Vec::<&str>::new());
    }

    #[test]
    fn tol_05_a_required_word_must_occur() {
        assert_eq!(found("+github new"), ["create_issue", "list_issues"]);
        assert_eq!(found("+github +list"), ["list_issues"]);
        assert_eq!(found("+github +slack"), Vec::<&str>::new());
    }

    #[test]
    fn tol_05_exact_picks_keep_their_order() {
        let picks = read_query(" select: mcp__a__b ,c,, ");
        assert_eq!(picks, Query::Select(vec!["mcp__a__b".to_owned(), "c".to_owned()]));
    }

    #[test]
    fn hints_titles_and_parameters_are_found() {
        let parameters = ["channelName".to_owned()];
        let document = Document {
            name: "x",
            title: "Send",
            hint: "chat notify",
            parameters: &parameters,
            ..Document::default()
        };
        let index = SearchIndex::build([document, Document { name: "y", ..Document::default() }].into_iter());
        for query in ["send", "notify", "channel"] {
            let Query::Words(words) = read_query(query) else { panic!() };
            assert_eq!(index.search(&words), [0], "{query}");
        }
    }

    #[test]
    fn words_of_many_spellings() {
        let all = |text: &str| {
            let mut list = Vec::new();
            words(text, |word| list.push(word.to_owned()));
            list
        };
        assert_eq!(all("getHTTPResponse2Body"), ["get", "http", "response2", "body"]);
        assert_eq!(all("list-pull_requests class status"), ["list", "pull", "request", "class", "status"]);
        assert_eq!(all("読むfile"), ["読", "む", "file"]);
    }
}
