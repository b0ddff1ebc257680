//! The session id of the handshake era: a secret of one origin, never an identity (B-108).

use std::fmt;

use http::header::HeaderValue;

/// Longest id that is accepted.
const LONGEST: usize = 512;

/// A session id: 1 to 512 visible ASCII characters (mcp:HTTPL-16). Prints nothing of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionId(HeaderValue);

impl SessionId {
    /// Reads the header of an answer; `None` for an id that is not allowed.
    pub fn read(value: &HeaderValue) -> Option<Self> {
        let bytes = value.as_bytes();
        let allowed = (1..=LONGEST).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
        allowed.then(|| {
            let mut value = value.clone();
            value.set_sensitive(true);
            Self(value)
        })
    }

    /// A text of the server without the id: it may repeat it in its errors.
    pub fn hide_in(&self, text: &[u8]) -> Vec<u8> {
        let finder = memchr::memmem::Finder::new(self.0.as_bytes());
        let mut shown = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = finder.find(rest) {
            shown.extend_from_slice(&rest[..at]);
            shown.extend_from_slice(crate::secret::REDACTED.as_bytes());
            rest = &rest[at + self.0.len()..];
        }
        shown.extend_from_slice(rest);
        shown
    }

    /// The header to send.
    pub fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(crate::secret::REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_108_the_id_is_taken_out_of_texts() {
        let id = SessionId::read(&HeaderValue::from_static("s-1")).unwrap();
        for (text, expected) in [
            ("Session s-1 not found: s-1", "Session [REDACTED] not found: [REDACTED]"),
            ("nothing", "nothing"),
            ("", ""),
        ] {
            assert_eq!(id.hide_in(text.as_bytes()), expected.as_bytes());
        }
    }

    #[test]
    fn b_108_only_visible_ascii_up_to_512() {
        let longest = "x".repeat(512);
        for good in ["a", "1868a90c-…".trim_end_matches('…'), "!~", longest.as_str()] {
            let value = HeaderValue::from_bytes(good.as_bytes()).unwrap();
            let id = SessionId::read(&value).unwrap();
            assert_eq!(id.header().as_bytes(), good.as_bytes());
            assert!(!format!("{id:?} {:?}", id.header()).contains(good), "{good} is shown");
        }
        for bad in ["", "a b", "a\tb", "é", "x".repeat(513).as_str()] {
            let value = HeaderValue::from_bytes(bad.as_bytes()).unwrap();
            assert!(SessionId::read(&value).is_none(), "{bad:?}");
        }
    }
}
