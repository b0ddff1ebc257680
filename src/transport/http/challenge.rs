//! The grammar of `WWW-Authenticate` (RFC 9110 §11): several challenges, in any number of fields. Pure.
//!
//! Servers are read tolerantly, but never by searching for a word: a quoted text that contains `scope=` is a
//! quoted text (B-138).

/// One challenge; scheme and parameter names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// `bearer`, `dpop`, `basic` …
    pub scheme: String,
    /// Parameters in their order; the first of a name counts.
    pub parameters: Vec<(String, String)>,
}

impl Challenge {
    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Whether it asks for a token of OAuth.
    pub fn is_oauth(&self) -> bool {
        matches!(self.scheme.as_str(), "bearer" | "dpop")
    }
}

/// Reads all challenges of an answer. What fits no rule is skipped up to the next comma.
pub fn parse<T: AsRef<str>>(fields: &[T]) -> Vec<Challenge> {
    let mut challenges = Vec::new();
    for field in fields {
        Cursor { rest: field.as_ref() }.read(&mut challenges);
    }
    challenges
}

/// Whether a challenge asks for more scopes (mcp:AUTH-58, AUTH-61).
pub fn wants_scope(challenges: &[Challenge]) -> bool {
    challenges.iter().any(|one| one.is_oauth() && one.get("error") == Some("insufficient_scope"))
}

struct Cursor<'a> {
    rest: &'a str,
}

impl Cursor<'_> {
    fn read(&mut self, challenges: &mut Vec<Challenge>) {
        // Parameters belong to a scheme of the same field.
        let mut open = false;
        loop {
            self.skip(|c| c == ',' || is_space(c));
            if self.rest.is_empty() {
                return;
            }
            let word = self.take(is_token);
            if word.is_empty() {
                self.skip(|c| c != ',');
                continue;
            }
            self.skip(is_space);
            if !self.rest.starts_with('=') {
                challenges.push(Challenge { scheme: word.to_ascii_lowercase(), parameters: Vec::new() });
                open = true;
                continue;
            }
            self.rest = &self.rest[1..];
            let value = self.value();
            match (challenges.last_mut().filter(|_| open), value) {
                (Some(challenge), Some(value)) if challenge.get(&word.to_ascii_lowercase()).is_none() => {
                    challenge.parameters.push((word.to_ascii_lowercase(), value));
                }
                _ => {}
            }
        }
    }

    /// The value of a parameter; `None` for what is none, as the padding of a `token68`.
    fn value(&mut self) -> Option<String> {
        self.skip(is_space);
        if let Some(rest) = self.rest.strip_prefix('"') {
            self.rest = rest;
            return Some(self.quoted());
        }
        // Some servers forget the quotes around URLs and lists.
        let value = self.take(|c| c != ',' && !is_space(c) && c != '"' && c != '=');
        if value.is_empty() {
            self.skip(|c| c != ',');
            return None;
        }
        Some(value)
    }

    fn quoted(&mut self) -> String {
        let mut text = String::new();
        let mut characters = self.rest.chars();
        while let Some(c) = characters.next() {
            match c {
                '"' => break,
                '\\' => text.extend(characters.next()),
                other => text.push(other),
            }
        }
        self.rest = characters.as_str();
        text
    }

    fn skip(&mut self, while_true: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(while_true);
    }

    fn take(&mut self, while_true: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|c| !while_true(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken.to_owned()
    }
}

fn is_space(c: char) -> bool {
    c == ' ' || c == '\t'
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(field: &str) -> String {
        let one = |challenge: Challenge| {
            let parameters = challenge.parameters.iter().map(|(name, value)| format!(" {name}=<{value}>"));
            format!("{}{}", challenge.scheme, parameters.collect::<String>())
        };
        parse(&[field]).into_iter().map(one).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn b_138_auth_07_challenges_are_read_by_grammar() {
        for (field, expected) in [
            ("", ""),
            ("Bearer", "bearer"),
            (
                r#"Basic realm="a", Bearer error_description="use scope=admin", scope="read""#,
                "basic realm=<a> | bearer error_description=<use scope=admin> scope=<read>",
            ),
            (r#"BEARER Scope = "a b" , ERROR=invalid_token"#, "bearer scope=<a b> error=<invalid_token>"),
            ("Negotiate YWxhZGRpbg==, Bearer scope=x", "negotiate | bearer scope=<x>"),
            (r#"Bearer realm="say \"hi\", all", scope="x""#, r#"bearer realm=<say "hi", all> scope=<x>"#),
            (
                r#"Bearer resource_metadata=https://a/x?y, scope="b""#,
                "bearer resource_metadata=<https://a/x?y> scope=<b>",
            ),
            (r#"DPoP error="use_dpop_nonce""#, "dpop error=<use_dpop_nonce>"),
            (r#"Bearer scope="a", scope="b""#, "bearer scope=<a>"),
            (r#"Bearer scope="never closed"#, "bearer scope=<never closed>"),
            (r#"scope="x""#, ""),
            ("@@@, Bearer scope=a", "bearer scope=<a>"),
            (",,, ,", ""),
        ] {
            assert_eq!(shown(field), expected, "{field}");
        }
        assert_eq!(parse(&["Basic realm=\"a\"", "Bearer scope=\"b\""]).len(), 2);
    }

    #[test]
    fn auth_61_only_a_challenge_with_that_error_asks_for_more_scopes() {
        for (field, expected) in [
            (r#"Bearer error="insufficient_scope", scope="a""#, true),
            ("DPoP error=insufficient_scope", true),
            (r#"Bearer error_description="not insufficient_scope""#, false),
            (r#"Basic error="insufficient_scope""#, false),
            ("Bearer", false),
        ] {
            assert_eq!(wants_scope(&parse(&[field])), expected, "{field}");
        }
    }
}
