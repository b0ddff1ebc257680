//! When a token wants renewal, read from the token itself without trusting it (BRG-06). Pure.
//!
//! Nothing is verified: a wrong time costs at most a renewal too many, or one that a 401 asks for.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

/// A token is renewed this many seconds before it expires, a short-lived one after four fifths of its life.
const MARGIN: u64 = 60;
/// Longest payload that is looked at.
const LONGEST: usize = 64 * 1024;

#[derive(Deserialize)]
struct Payload {
    exp: f64,
}

/// When a JWT says that it expires, in seconds since the epoch; `None` for anything that does not say so.
pub fn expires_at(token: &str) -> Option<u64> {
    let mut parts = token.split('.');
    let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    if payload.len() > LONGEST {
        return None;
    }
    let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let Payload { exp } = serde_json::from_slice(&payload).ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    let seconds = ((0.0..1e15).contains(&exp)).then_some(exp as u64);
    seconds
}

/// When a token that was had at `now` is to be renewed, in seconds since the epoch.
pub fn renew_at(token: &str, now: u64) -> Option<u64> {
    let expires = expires_at(token)?;
    let life = expires.saturating_sub(now);
    Some(expires - MARGIN.min(life.div_ceil(5)).min(expires))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jwt(payload: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload))
    }

    #[test]
    fn brg_06_the_expiry_of_a_token_is_read() {
        for (token, expected) in [
            (jwt(r#"{"exp":1700000000,"sub":"x"}"#), Some(1_700_000_000)),
            (jwt(r#"{"exp":1700000000.9}"#), Some(1_700_000_000)),
            (jwt(r#"{"exp":"1700000000"}"#), None),
            (jwt(r#"{"exp":-1}"#), None),
            (jwt(r#"{"exp":1e300}"#), None),
            (jwt(r"{}"), None),
            (jwt("not json"), None),
            ("opaque-token".to_owned(), None),
            ("a.b.c.d".to_owned(), None),
            ("..".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(expires_at(&token), expected, "{token}");
        }
    }

    #[test]
    fn brg_06_a_token_is_renewed_before_it_expires() {
        let at = |expires: u64, now| renew_at(&jwt(&format!("{{\"exp\":{expires}}}")), now);
        assert_eq!(at(10_000, 1_000), Some(9_940), "a minute before");
        assert_eq!(at(1_100, 1_000), Some(1_080), "a short life: after four fifths");
        assert_eq!(at(900, 1_000), Some(900), "expired: at once");
        assert_eq!(at(0, 1_000), Some(0));
        assert_eq!(renew_at("opaque", 5), None);
    }

    proptest::proptest! {
        #[test]
        fn brg_06_no_token_breaks_anything(token in ".{0,80}", now in 0_u64..1 << 40) {
            let _ = renew_at(&token, now);
        }
    }
}
