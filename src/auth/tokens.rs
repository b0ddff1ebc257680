//! Answers of token endpoints: read leniently, given out strictly (A-16, B-141, G13). Pure.

use serde_json::Value;

use super::metadata::split_scopes;
use crate::error::{ErrorCode, McpError};
use crate::secret::{Redactor, Secret};

/// Longest token.
const LONGEST: usize = 64 * 1024;
/// Longest life that is believed, in seconds.
const LONGEST_LIFE: u64 = 30 * 24 * 60 * 60;

/// How a token is presented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenKind {
    /// By itself.
    #[default]
    Bearer,
    /// With a proof of the key it is bound to.
    DPoP,
}

/// What a token endpoint gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// For the server.
    pub access: Secret<String>,
    /// How it is presented.
    pub kind: TokenKind,
    /// For the next one.
    pub refresh: Option<Secret<String>>,
    /// Seconds it counts; `None` is until it is refused.
    pub life: Option<u64>,
    /// What was granted; `None` is what was asked for (mcp:AUTH-66).
    pub scopes: Option<Vec<String>>,
}

/// Why there are no tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The server's error, its code alone.
    Said {
        /// `invalid_grant`, `invalid_client` …
        code: String,
        /// Its description, as the server wrote it.
        description: Option<String>,
        /// HTTP status.
        status: u16,
    },
    /// An answer that is none.
    Unusable(&'static str),
    /// It may work later.
    Later(u16),
}

impl Refused {
    /// Whether the server named this error.
    pub fn is(&self, wanted: &str) -> bool {
        matches!(self, Refused::Said { code, .. } if code == wanted)
    }

    /// The same without secrets, while it is whole: what is cut in the middle is found by nobody (SEC-03).
    #[must_use]
    pub fn redacted(mut self, redactor: &Redactor) -> Self {
        if let Refused::Said { code, description, .. } = &mut self {
            for text in std::iter::once(code).chain(description) {
                *text = redactor.redact(text).into_owned();
            }
        }
        self
    }

    /// The public error; `what` was asked for.
    pub fn into_error(self, what: &str) -> McpError {
        match self {
            Refused::Said { code, description, status } => {
                let mut message = format!("{what} was refused: {code}");
                if let Some(description) = &description {
                    message.push_str(&format!(" ({})", super::web::said(description)));
                }
                let wrong_resource = code == "invalid_target"
                    || description.as_deref().is_some_and(|text| {
                        ["AADSTS901002", "AADSTS9010010"].iter().any(|code| text.contains(code))
                    });
                if wrong_resource {
                    message.push_str("; set oauth.resource to what the server expects, or to false");
                }
                McpError::new(ErrorCode::AuthFailed, message).with(|facts| facts.status = Some(status))
            }
            Refused::Unusable(why) => {
                McpError::new(ErrorCode::AuthFailed, format!("the answer to {what} {why}"))
            }
            Refused::Later(status) => {
                let message = format!("{what} was answered with status {status}; it may work later");
                McpError::new(ErrorCode::HttpStatus, message).with(|facts| facts.status = Some(status))
            }
        }
    }
}

/// Reads an answer.
pub fn read(status: u16, body: &Value) -> Result<Tokens, Refused> {
    let passing = status >= 500 || matches!(status, 408 | 425 | 429);
    let named = body.get("error").and_then(Value::as_str);
    // An outage may be told as JSON too; what says that something is invalid is meant so, whatever its status (G10).
    if named.is_some_and(|code| matches!(code, "temporarily_unavailable" | "server_error"))
        || passing && !named.is_some_and(|code| code.starts_with("invalid_") || code == "unauthorized_client")
    {
        return Err(Refused::Later(status));
    }
    // Some servers deliver errors with 200 (G13).
    if let Some(code) = named {
        // A code is a word; a long one is something else, and nothing of it is shown.
        let code = if code.len() > 100 { "an error without a name" } else { code };
        let code: String = code.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect();
        let description = body.get("error_description").and_then(Value::as_str);
        return Err(Refused::Said { code, description: description.map(str::to_owned), status });
    }
    if !(200..300).contains(&status) {
        let code = format!("status {status}");
        return Err(Refused::Said { code, description: None, status });
    }
    let access = body.get("access_token").and_then(Value::as_str).ok_or(Refused::Unusable("has no token"))?;
    let kind = match body.get("token_type") {
        None | Some(Value::Null) => TokenKind::Bearer,
        Some(Value::String(kind)) if kind.eq_ignore_ascii_case("bearer") => TokenKind::Bearer,
        Some(Value::String(kind)) if kind.eq_ignore_ascii_case("dpop") => TokenKind::DPoP,
        Some(_) => return Err(Refused::Unusable("is of a type that is not known")),
    };
    let usable = |text: &str| {
        !text.is_empty() && text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !usable(access) {
        return Err(Refused::Unusable("holds a token with characters that no header may hold"));
    }
    let refresh = body.get("refresh_token").and_then(Value::as_str).filter(|text| usable(text));
    Ok(Tokens {
        access: Secret::new(access.to_owned()),
        kind,
        refresh: refresh.map(|text| Secret::new(text.to_owned())),
        life: body.get("expires_in").and_then(life),
        scopes: body.get("scope").and_then(Value::as_str).map(split_scopes),
    })
}

/// Seconds of life: numbers and texts of numbers; what makes no sense is unknown.
fn life(value: &Value) -> Option<u64> {
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    if !seconds.is_finite() || seconds < 1.0 {
        return None;
    }
    // Bounded before it is cut.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    Some(seconds.min(LONGEST_LIFE as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn b_141_a_16_g13_answers_of_token_endpoints() {
        let life =
            |value: Value| read(200, &json!({ "access_token": "t", "expires_in": value })).unwrap().life;
        for (value, expected) in [
            (json!(3600), Some(3600)),
            (json!("3600"), Some(3600)),
            (json!(2.9), Some(2)),
            (json!(-1), None),
            (json!(0), None),
            (json!(1e300), Some(LONGEST_LIFE)),
            (json!("soon"), None),
            (json!(null), None),
        ] {
            assert_eq!(life(value.clone()), expected, "{value}");
        }
        for (status, body) in [
            (200, json!({ "access_token": "a\r\nX: y" })),
            (200, json!({ "access_token": "a b" })),
            (200, json!({ "access_token": "" })),
            (200, json!({ "access_token": 5 })),
            (200, json!({ "access_token": "t", "token_type": "mac" })),
            (200, json!({ "error": "invalid_grant" })),
            (400, json!({ "access_token": "t" })),
            (200, json!([])),
            (200, json!("<html>")),
        ] {
            assert!(read(status, &body).is_err(), "{body}");
        }
        assert!(read(200, &json!({ "error": "invalid_grant" })).unwrap_err().is("invalid_grant"));
        for (status, body, later) in [
            (503, json!(null), true),
            (503, json!({ "error": "temporarily_unavailable" }), true),
            (400, json!({ "error": "server_error" }), true),
            (429, json!({ "error": "slow_down" }), true),
            (500, json!({ "error": "invalid_grant" }), false),
            (400, json!({ "error": "invalid_scope" }), false),
        ] {
            let refused = read(status, &body).unwrap_err();
            assert_eq!(refused == Refused::Later(status), later, "G10 {status} {body}");
        }
        let whole = read(
            200,
            &json!({ "access_token": "t", "token_type": "DPoP", "refresh_token": "r", "scope": "a b" }),
        )
        .unwrap();
        assert_eq!(whole.kind, TokenKind::DPoP);
        assert_eq!(whole.scopes, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(whole.refresh.unwrap().expose(), "r");
    }

    #[test]
    fn a_8_a_refused_resource_tells_what_to_do() {
        let said = |body: Value| read(400, &body).unwrap_err().into_error("the token request");
        for body in [
            json!({ "error": "invalid_target" }),
            json!({ "error": "invalid_request", "error_description": "AADSTS9010010: no" }),
        ] {
            let message = said(body).message().to_owned();
            assert!(message.contains("oauth.resource"), "{message}");
        }
        let error = said(json!({ "error": "invalid_grant", "error_description": "<b>\u{1b}[31m\n no" }));
        assert!(!error.message().contains('\u{1b}') && !error.message().contains('\n'), "{error}");
        assert_eq!(error.code(), ErrorCode::AuthFailed);
    }
}
