//! Values that must not be printed.
//!
//! Owns: [`Secret`], [`SafeUrl`], the question whether a name or flag names a secret, and [`Redactor`],
//! which takes known secrets out of free text. Does not know where secrets come from. (SEC-03)

use std::borrow::Cow;
use std::fmt;

use memchr::memmem::Finder;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands in the place of a secret.
pub const REDACTED: &str = "[REDACTED]";

/// What is not written as it is in a URL (RFC 3986 §2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Shortest value that is searched for in free text; shorter ones would blot out ordinary words.
pub const SHORTEST_IN_TEXT: usize = 6;

/// A value that prints as `[REDACTED]`.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself; the one way to it, so that uses are easy to find.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// A URL that prints without user name, password and the values of query fields that name a secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SafeUrl(String);

impl SafeUrl {
    /// Wraps a URL, or any text that may hold one; nothing is checked.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The URL as it is used.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The secrets in it; see [`url_secrets`].
    pub fn secrets(&self) -> Vec<&str> {
        url_secrets(&self.0)
    }
}

/// The secrets in a URL, wherever in the text it begins: user name, password and values of query fields that name a
/// secret.
pub fn url_secrets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for user in userinfos(text) {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        found.extend([name, password].into_iter().filter(|part| !part.is_empty()));
    }
    found.extend(query_fields(text).filter(|field| names_query_secret(field.name)).map(|field| field.value));
    found
}

impl fmt::Display for SafeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.as_str();
        let fields = query_fields(text).filter(|field| names_query_secret(field.name));
        let values = fields.map(|field| field.value).filter(|value| !is_only_references(value));
        let mut hidden: Vec<&str> = userinfos(text).into_iter().chain(values).collect();
        hidden.sort_by_key(|part| offset_in(text, part));
        let mut done = 0;
        for part in hidden {
            let start = offset_in(text, part);
            if start >= done {
                write!(f, "{}{REDACTED}", &text[done..start])?;
            }
            done = done.max(start + part.len());
        }
        f.write_str(&text[done..])
    }
}

impl fmt::Debug for SafeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The authority of a URL, found by the rules browsers use: any number of slashes or backslashes after
/// the scheme, the last `@` ends the user part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// Scheme as written.
    pub scheme: &'a str,
    /// User name and password, if there is an `@`.
    pub userinfo: Option<&'a str>,
    /// Host and port as written.
    pub host: &'a str,
}

/// Finds the authority; `None` where there is no scheme.
pub fn authority(text: &str) -> Option<Authority<'_>> {
    let (scheme, rest) = text.split_once(':')?;
    let scheme = scheme.trim_start_matches(|c: char| c <= ' ');
    let mut letters = scheme.chars();
    let well_formed = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    if !well_formed {
        return None;
    }
    let rest = rest.trim_start_matches(['/', '\\', '\t', '\n', '\r']);
    let end = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    let whole = &rest[..end];
    Some(match whole.rfind('@') {
        Some(at) => Authority { scheme, userinfo: Some(&whole[..at]), host: &whole[at + 1..] },
        None => Authority { scheme, userinfo: None, host: whole },
    })
}

/// User names and passwords of every `scheme://…@` in a text.
fn userinfos(text: &str) -> Vec<&str> {
    let begins = authority(text).and_then(|authority| authority.userinfo);
    let within = text.match_indices("://").filter_map(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let ends =
            |c: char| c.is_whitespace() || matches!(c, '/' | '\\' | '?' | '#' | '"' | '\'' | '<' | '>');
        let whole = &rest[..rest.find(ends).unwrap_or(rest.len())];
        whole.rfind('@').map(|end| &whole[..end])
    });
    let further = within.filter(|user| begins.is_none_or(|first| first.as_ptr() != user.as_ptr()));
    begins.into_iter().chain(further).filter(|user| !user.is_empty()).collect()
}

#[derive(Clone, Copy)]
struct QueryField<'a> {
    name: &'a str,
    value: &'a str,
}

fn query_fields(text: &str) -> impl Iterator<Item = QueryField<'_>> {
    let start = text.find(['?', '#']).map_or(text.len(), |at| at + 1);
    text[start..].split(['&', '#', ';', '?']).filter_map(|field| {
        let (name, value) = field.split_once('=')?;
        (!value.is_empty()).then_some(QueryField { name, value })
    })
}

/// Where `part`, a piece of `text`, begins.
fn offset_in(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len())
}

/// Whether a text is nothing but references such as `${TOKEN}` without a default.
fn is_only_references(text: &str) -> bool {
    let mut rest = text;
    while let Some(after) = rest.strip_prefix("${") {
        let Some((name, tail)) = after.split_once('}') else { return false };
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return false;
        }
        rest = tail;
    }
    rest.is_empty()
}

/// Whether a name (of a flag, variable, field or header) says that its value is a secret.
pub fn names_secret(name: &str) -> bool {
    const PARTS: [&str; 11] = [
        "token",
        "secret",
        "passw",
        "passphrase",
        "credential",
        "apikey",
        "accesskey",
        "privatekey",
        "authoriz",
        "bearer",
        "cookie",
    ];
    const WORDS: [&str; 8] = ["key", "auth", "pwd", "pass", "pat", "jwt", "sig", "signature"];
    let lower = name.to_ascii_lowercase();
    if lower.contains("max") && lower.contains("tokens") {
        return false;
    }
    PARTS.iter().any(|part| lower.contains(part))
        || words(name).iter().any(|word| WORDS.contains(&word.as_str()))
}

fn names_query_secret(name: &str) -> bool {
    names_secret(name) || words(name).iter().any(|word| word == "code")
}

/// The words of `api-key`, `API_KEY` and `apiKey`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut current = String::new();
    let mut previous_lower = false;
    for c in name.chars() {
        let boundary = !c.is_alphanumeric() || (c.is_uppercase() && previous_lower);
        if boundary && !current.is_empty() {
            found.push(std::mem::take(&mut current));
        }
        if c.is_alphanumeric() {
            current.extend(c.to_lowercase());
        }
        previous_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    if !current.is_empty() {
        found.push(current);
    }
    found
}

/// One argument of a command, cut where its secret begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentParts<'a> {
    /// What may be shown.
    pub shown: &'a str,
    /// What may not; empty when nothing is secret.
    pub secret: &'a str,
}

/// Cuts every argument: `--token VALUE`, `--api-key=VALUE`, `NAME_TOKEN=VALUE`, `--env=NAME_TOKEN=VALUE`,
/// `--header 'Name: VALUE'`.
pub fn split_arguments(arguments: &[String]) -> Vec<ArgumentParts<'_>> {
    let mut follows = Follows::Nothing;
    arguments
        .iter()
        .map(|argument| {
            let parts = split_argument(argument, follows);
            follows = Follows::after(argument);
            parts
        })
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Follows {
    Nothing,
    Secret,
    Header,
}

impl Follows {
    fn after(argument: &str) -> Self {
        let flag = argument.trim_start_matches('-');
        if !argument.starts_with('-') || argument.contains('=') {
            Follows::Nothing
        } else if argument == "-H"
            || flag.eq_ignore_ascii_case("header")
            || flag.eq_ignore_ascii_case("headers")
        {
            Follows::Header
        } else if names_secret(flag) {
            Follows::Secret
        } else {
            Follows::Nothing
        }
    }
}

fn split_argument(argument: &str, follows: Follows) -> ArgumentParts<'_> {
    let cut = |at: usize| ArgumentParts { shown: &argument[..at], secret: &argument[at..] };
    if follows == Follows::Secret && !argument.starts_with("--") {
        return cut(0);
    }
    if follows == Follows::Header {
        return cut(argument.find(':').map_or(0, |at| at + 1));
    }
    if let Some((name, value)) = argument.split_once('=')
        && !name.contains(['/', '?', ' '])
    {
        let flag = name.trim_start_matches('-');
        if flag.eq_ignore_ascii_case("header") || flag.eq_ignore_ascii_case("headers") {
            let colon = value.find(':').map_or(0, |at| at + 1);
            return cut(name.len() + 1 + colon);
        }
        if names_secret(flag) {
            return cut(name.len() + 1);
        }
        // `--env=NAME=VALUE`
        if let Some((variable, _)) = value.split_once('=')
            && !variable.contains(['/', '?', ' '])
            && names_secret(variable)
        {
            return cut(name.len() + 1 + variable.len() + 1);
        }
    }
    cut(argument.len())
}

/// Arguments as they may be shown.
pub fn redact_arguments(arguments: &[String]) -> Vec<String> {
    split_arguments(arguments)
        .into_iter()
        .map(|parts| {
            let shown = if parts.shown.contains(':') {
                SafeUrl::new(parts.shown).to_string()
            } else {
                parts.shown.to_owned()
            };
            if parts.secret.is_empty() { shown } else { format!("{shown}{}", redact_value(parts.secret)) }
        })
        .collect()
}

/// A secret value as it may be shown: every literal piece becomes `[REDACTED]`, references such as
/// `${TOKEN}` and the name of an authentication scheme in front stay as written. (G20)
pub fn redact_value(value: &str) -> String {
    let (scheme, mut rest) = split_scheme(value);
    let mut shown = scheme.to_owned();
    if !rest.contains("${") {
        return if rest.is_empty() { value.to_owned() } else { REDACTED.to_owned() };
    }
    while !rest.is_empty() {
        let start = rest.find("${").unwrap_or(rest.len());
        if start > 0 {
            shown.push_str(REDACTED);
        }
        rest = &rest[start..];
        let Some(end) = rest.find('}') else {
            if !rest.is_empty() {
                shown.push_str(REDACTED);
            }
            break;
        };
        let reference = &rest[..=end];
        if is_only_references(reference) {
            shown.push_str(reference);
        } else {
            shown.push_str(REDACTED);
        }
        rest = &rest[end + 1..];
    }
    shown
}

/// `Bearer ` and what follows it.
fn split_scheme(value: &str) -> (&str, &str) {
    for scheme in ["Bearer ", "Basic ", "Token ", "Digest ", "ApiKey "] {
        if value.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme)) {
            return value.split_at(scheme.len());
        }
    }
    ("", value)
}

/// Takes known secrets out of free text.
///
/// Costs one search per secret and text; text without a secret is handed back as it is.
#[derive(Clone, Default)]
pub struct Redactor {
    finders: Vec<Finder<'static>>,
}

impl Redactor {
    /// Built from secret values. Values under six characters are left out; what follows `Bearer ` and the
    /// like counts on its own too, and so do the percent-encoded and the JSON-escaped spelling.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut needles: Vec<String> = Vec::new();
        for value in values {
            for form in [value, value.trim(), split_scheme(value.trim()).1] {
                needles.push(form.to_owned());
                needles.push(utf8_percent_encode(form, RESERVED).to_string());
                let quoted = serde_json::Value::from(form).to_string();
                needles.push(quoted[1..quoted.len() - 1].to_owned());
            }
        }
        needles.retain(|needle| needle.chars().count() >= SHORTEST_IN_TEXT);
        needles.sort_unstable();
        needles.dedup();
        let finders = needles.iter().map(|needle| Finder::new(needle.as_bytes()).into_owned()).collect();
        Self { finders }
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.finders.is_empty()
    }

    /// Finds what either finds.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.finders.extend(other.finders);
        self
    }

    /// JSON text with every secret replaced; JSON it stays, if need be as a string.
    pub fn redact_json<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact(text) {
            Cow::Owned(text) if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err() => {
                Cow::Owned(serde_json::Value::from(text).to_string())
            }
            text => text,
        }
    }

    /// The text with every secret replaced by `[REDACTED]`; secrets that touch or overlap become one.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for finder in &self.finders {
            let length = finder.needle().len();
            let mut from = 0;
            while let Some(at) = finder.find(&text.as_bytes()[from..]) {
                found.push((from + at, from + at + length));
                from += at + length.max(1);
            }
        }
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        found.sort_unstable();
        let mut result = String::with_capacity(text.len());
        let mut done = 0;
        let mut covered = None;
        for (start, end) in found {
            if covered.is_none_or(|covered| start > covered) {
                result.push_str(text.get(done..start).unwrap_or_default());
                result.push_str(REDACTED);
            }
            done = done.max(end);
            covered = Some(done);
        }
        result.push_str(text.get(done..).unwrap_or_default());
        Cow::Owned(result)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} values)", self.finders.len())
    }
}

#[cfg(test)]
mod tests;
