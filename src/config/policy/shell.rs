//! The simple commands of a text that a shell runs, for deny. (POL-04)
//!
//! Reads what starts programs: separators, quotes, substitutions, redirections, keywords. What a shell works out
//! only while it runs (variables, what a substitution prints) stays as it is written.

use std::iter::{Peekable, Take};
use std::str::Chars;

/// Longest text that is read, in characters.
const MAX_LETTERS: usize = 64 * 1024;

/// Words that stand before a command without being part of it.
const KEYWORDS: [&str; 12] =
    ["!", "if", "then", "elif", "else", "while", "until", "do", "coproc", "and", "or", "not"];

/// Whose rules a text follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `sh` and its kin.
    Posix,
    /// `cmd` of Windows.
    Cmd,
    /// PowerShell.
    PowerShell,
}

impl Dialect {
    fn escape(self) -> char {
        match self {
            Self::Posix => '\\',
            Self::Cmd => '^',
            Self::PowerShell => '`',
        }
    }

    fn quotes(self, c: char) -> bool {
        c == '"' || (c == '\'' && self != Self::Cmd)
    }
}

/// The commands of a text, each as its words without quotes; substitutions are commands of their own.
pub(super) fn commands(text: &str, dialect: Dialect) -> Vec<Vec<String>> {
    let letters = text.chars().take(MAX_LETTERS).peekable();
    let mut scanner =
        Scanner { dialect, letters, now: Frame::default(), outer: Vec::new(), found: Vec::new() };
    while let Some(c) = scanner.letters.next() {
        scanner.step(c);
    }
    while scanner.close() {}
    let mut commands = scanner.found;
    for words in &mut commands {
        let before = |word: &&String| is_assignment(word) || KEYWORDS.contains(&word.as_str());
        words.drain(..words.iter().take_while(before).count());
        if let (Dialect::Cmd, Some(first)) = (dialect, words.first_mut()) {
            *first = first.trim_start_matches('@').to_owned();
        }
    }
    commands.retain(|words| !words.is_empty());
    commands
}

/// `NAME=value`.
pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// What is read between two brackets, or outside of all.
#[derive(Default)]
struct Frame {
    /// What ends it.
    closer: Option<char>,
    quote: Option<char>,
    word: Option<String>,
    words: Vec<String>,
    /// The next word is where a redirection leads to.
    redirected: bool,
}

impl Frame {
    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if !std::mem::take(&mut self.redirected) {
            self.words.push(word);
        }
    }
}

struct Scanner<'a> {
    dialect: Dialect,
    letters: Peekable<Take<Chars<'a>>>,
    now: Frame,
    outer: Vec<Frame>,
    found: Vec<Vec<String>>,
}

impl Scanner<'_> {
    fn step(&mut self, c: char) {
        let quote = self.now.quote;
        let plain = quote.is_none();
        let literal = quote == Some('\'');
        match c {
            c if quote == Some(c) => self.now.quote = None,
            c if c == self.dialect.escape() && !literal => {
                // An escaped line break is nothing.
                if let Some(next) = self.letters.next().filter(|next| *next != '\n') {
                    self.now.push(next);
                }
            }
            '`' if self.dialect == Dialect::Posix && !literal => {
                if self.now.closer == Some('`') {
                    self.close();
                } else {
                    self.open('`');
                }
            }
            '$' if self.dialect != Dialect::Cmd && !literal => match self.letters.peek() {
                Some('(') => {
                    self.letters.next();
                    self.open(')');
                }
                Some('\'' | '"') if plain => {}
                _ => self.now.push(c),
            },
            c if !plain => self.now.push(c),
            c if self.dialect.quotes(c) => {
                self.now.quote = Some(c);
                self.now.word.get_or_insert_default();
            }
            c => self.bare(c),
        }
    }

    /// A letter outside of quotes.
    fn bare(&mut self, c: char) {
        match c {
            '(' => self.open(')'),
            ')' if self.now.closer == Some(')') => {
                self.close();
            }
            '&' if self.letters.peek() == Some(&'>') => self.now.end_word(),
            '<' | '>' => self.redirect(),
            '#' if self.now.word.is_none() && self.dialect != Dialect::Cmd => {
                while self.letters.next_if(|next| *next != '\n').is_some() {}
            }
            ';' | '&' | '|' | '\n' | ')' | '{' | '}' => self.end_command(),
            c if c.is_whitespace() => self.now.end_word(),
            c => self.now.push(c),
        }
    }

    /// `2>&1`, `>file`, `<<<word`: neither the number in front nor the word behind belongs to the command.
    fn redirect(&mut self) {
        let is_number = |word: &String| word.bytes().all(|byte| byte.is_ascii_digit());
        if self.now.word.as_ref().is_some_and(is_number) {
            self.now.word = None;
        }
        self.now.end_word();
        while self.letters.next_if(|next| matches!(next, '<' | '>' | '&' | '|')).is_some() {}
        // `<(…)` is a command in the place of the word.
        self.now.redirected = self.letters.peek() != Some(&'(');
    }

    fn open(&mut self, closer: char) {
        let inner = Frame { closer: Some(closer), ..Frame::default() };
        self.outer.push(std::mem::replace(&mut self.now, inner));
    }

    /// Ends a frame; whether another one goes on.
    fn close(&mut self) -> bool {
        self.end_command();
        let Some(outer) = self.outer.pop() else { return false };
        self.now = outer;
        true
    }

    fn end_command(&mut self) {
        self.now.end_word();
        self.now.redirected = false;
        self.found.push(std::mem::take(&mut self.now.words));
    }
}
