//! Where the person comes back to: which answers count (mcp:AUTH-44 to AUTH-48, B-126, B-128, B-144). Pure.

use url::Url;

use crate::error::{ErrorCode, McpError};
use crate::secret::Secret;

/// Longest query that is looked at.
pub const LONGEST_QUERY: usize = 16 * 1024;

/// What was recorded before the person was sent away.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Single-use value that comes back.
    pub state: Secret<String>,
    /// Issuer of the validated metadata.
    pub issuer: String,
    /// Whether it says that it names itself.
    pub names_itself: bool,
}

/// What an answer means.
#[derive(Debug)]
pub enum Answer {
    /// Not of this login: forged, late or broken. The login goes on waiting.
    NotOurs(&'static str),
    /// The code.
    Code(Secret<String>),
    /// The login has failed: the answer is of somebody else.
    Failed(McpError),
    /// The login was refused.
    Refused {
        /// Why, as the authorization server says.
        error: McpError,
        /// Whether it may go well another time.
        passing: bool,
    },
}

/// Judges the query of an answer. First the state, then the issuer, and only then what the answer says.
pub fn judge(query: &str, expected: &Expected) -> Answer {
    if query.len() > LONGEST_QUERY {
        return Answer::NotOurs("the answer is too long");
    }
    let [mut state, mut code, mut error, mut description, mut issuer] = [const { None::<String> }; 5];
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let slot = match &*name {
            "state" => &mut state,
            "code" => &mut code,
            "error" => &mut error,
            "error_description" => &mut description,
            "iss" => &mut issuer,
            _ => continue,
        };
        if slot.replace(value.into_owned()).is_some() {
            return Answer::NotOurs("the answer holds a parameter twice");
        }
    }
    if !state.is_some_and(|state| same(&state, expected.state.expose())) {
        return Answer::NotOurs("the answer is not of this login");
    }
    match &issuer {
        Some(issuer) if *issuer != expected.issuer => return Answer::Failed(other_issuer()),
        None if expected.names_itself => return Answer::Failed(other_issuer()),
        _ => {}
    }
    if let Some(error) = error {
        let passing = matches!(error.as_str(), "temporarily_unavailable" | "server_error");
        let error: String = error.chars().filter(char::is_ascii_graphic).take(100).collect();
        let mut message = format!("the authorization server refused the login: {error}");
        if let Some(description) = description {
            message.push_str(&format!(" ({})", super::web::said(&description)));
        }
        return Answer::Refused { error: McpError::new(ErrorCode::AuthFailed, message), passing };
    }
    match code.filter(|code| !code.is_empty()) {
        Some(code) => Answer::Code(Secret::new(code)),
        None => Answer::NotOurs("the answer holds no code"),
    }
}

/// The query of a URL that somebody hands over; it may come as fragment or alone.
pub fn query_of(text: &str) -> Option<String> {
    let text = text.trim();
    if let Ok(url) = Url::parse(text) {
        return url.query().or(url.fragment()).map(str::to_owned);
    }
    let query = text.strip_prefix('?').unwrap_or(text);
    query.contains("state=").then(|| query.to_owned())
}

/// Nothing that such an answer says is shown (mcp:AUTH-48).
fn other_issuer() -> McpError {
    McpError::new(
        ErrorCode::AuthIssuerMismatch,
        "the answer to the login does not come from the authorization server that was asked",
    )
}

/// Compares without telling by time where texts differ.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(query: &str, names_itself: bool) -> &'static str {
        let expected = Expected {
            state: Secret::new("s3".to_owned()),
            issuer: "https://as.test".to_owned(),
            names_itself,
        };
        match judge(query, &expected) {
            Answer::NotOurs(_) => "not ours",
            Answer::Code(_) => "code",
            Answer::Failed(error) if error.code() == ErrorCode::AuthIssuerMismatch => {
                assert!(!error.message().contains("evil"), "{error}");
                "issuer"
            }
            Answer::Failed(_) => "failed otherwise",
            Answer::Refused { passing: true, .. } => "later",
            Answer::Refused { .. } => "failed",
        }
    }

    #[test]
    fn b_126_auth_46_auth_47_auth_48_the_four_rows_of_iss() {
        let right = "code=c&state=s3&iss=https%3A%2F%2Fas.test";
        for (query, names_itself, expected) in [
            (right, true, "code"),
            (right, false, "code"),
            ("code=c&state=s3", true, "issuer"),
            ("code=c&state=s3", false, "code"),
            ("code=c&state=s3&iss=https://evil.test", true, "issuer"),
            ("code=c&state=s3&iss=https://evil.test", false, "issuer"),
            ("code=c&state=s3&iss=https%3A%2F%2Fas.test%2F", true, "issuer"),
            ("code=c&state=s3&iss=HTTPS%3A%2F%2Fas.test", true, "issuer"),
            ("error=evil&error_description=evil&state=s3", true, "issuer"),
        ] {
            assert_eq!(word(query, names_itself), expected, "{query} {names_itself}");
        }
    }

    #[test]
    fn b_128_b_144_auth_44_what_is_not_of_this_login() {
        for (query, expected) in [
            ("code=c&state=s3", "code"),
            ("code=c", "not ours"),
            ("code=c&state=", "not ours"),
            ("code=c&state=s4", "not ours"),
            ("code=c&state=S3", "not ours"),
            ("code=a&code=b&state=s3", "not ours"),
            ("code=a&state=s3&state=s3", "not ours"),
            ("state=s3", "not ours"),
            ("code=&state=s3", "not ours"),
            ("", "not ours"),
            ("error=access_denied&state=s3", "failed"),
            ("error=temporarily_unavailable&state=s3", "later"),
            ("error=access_denied&state=no", "not ours"),
        ] {
            assert_eq!(word(query, false), expected, "{query}");
        }
        assert_eq!(word(&format!("code=c&state=s3&x={}", "y".repeat(64 * 1024)), false), "not ours");
    }

    #[test]
    fn oau_02_what_a_person_pastes() {
        for (text, expected) in [
            (" http://127.0.0.1:1/callback?code=c&state=s \n", Some("code=c&state=s")),
            ("https://a.test/cb#code=c&state=s", Some("code=c&state=s")),
            ("?code=c&state=s", Some("code=c&state=s")),
            ("nonsense", None),
        ] {
            assert_eq!(query_of(text).as_deref(), expected, "{text}");
        }
    }
}
