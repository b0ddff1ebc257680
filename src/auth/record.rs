//! What is kept of a login: one versioned record per server, resource and client.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::tokens::{TokenKind, Tokens};
use crate::secret::Secret;

/// Version of records as they are written now.
pub const VERSION: u32 = 1;

/// A login and the registrations beside it. Prints nothing of either.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// Version of the format.
    pub version: u32,
    /// Who gave the tokens, and the only one they are shown to.
    pub issuer: String,
    /// What they are for, as it is sent in `resource`.
    pub resource: Option<String>,
    /// Where they are renewed.
    pub token_endpoint: String,
    /// Where they are given back.
    pub revocation_endpoint: Option<String>,
    /// For the server.
    pub access_token: Option<String>,
    /// Whether it is bound to a key.
    pub bound: bool,
    /// For the next one.
    pub refresh_token: Option<String>,
    /// When the token was had, in milliseconds since the epoch.
    pub obtained_at: u64,
    /// When it ends; `None` is when it is refused.
    pub expires_at: Option<u64>,
    /// Where the server said that its metadata is, if it did.
    pub metadata: Option<String>,
    /// Every scope that was asked for so far (mcp:AUTH-59).
    pub requested: Vec<String>,
    /// Those of them that a step up added.
    pub stepped_up: Vec<String>,
    /// What was granted.
    pub granted: Option<Vec<String>>,
    /// The client that the tokens belong to.
    pub client: Option<Registration>,
    /// The key that tokens are bound to.
    pub proof_key: Option<String>,
    /// Registrations by issuer (mcp:AUTH-16, AUTH-32).
    pub registrations: BTreeMap<String, Registration>,
}

/// A client as one issuer knows it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Registration {
    /// Its id.
    pub client_id: String,
    /// Its secret.
    pub client_secret: Option<String>,
    /// When the secret ends, in seconds since the epoch; 0 is never.
    pub secret_expires_at: u64,
    /// How it proves who it is.
    pub method: Method,
    /// Where people come back to.
    pub redirect_uri: Option<String>,
}

/// How a client proves who it is (mcp:AUTH-37).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// Not at all.
    #[default]
    #[serde(rename = "none")]
    None,
    /// Secret in the header.
    #[serde(rename = "client_secret_basic")]
    Basic,
    /// Secret in the body.
    #[serde(rename = "client_secret_post")]
    Post,
    /// A signed assertion.
    #[serde(rename = "private_key_jwt")]
    PrivateKeyJwt,
}

impl Method {
    /// The method of a name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Method::None),
            "client_secret_basic" => Some(Method::Basic),
            "client_secret_post" => Some(Method::Post),
            "private_key_jwt" => Some(Method::PrivateKeyJwt),
            _ => None,
        }
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::None => "none",
            Method::Basic => "client_secret_basic",
            Method::Post => "client_secret_post",
            Method::PrivateKeyJwt => "private_key_jwt",
        }
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("method", &self.method).finish_non_exhaustive()
    }
}

impl Record {
    /// Takes new tokens over; without a new refresh token the old one stays (mcp:AUTH-65).
    pub fn take(&mut self, tokens: &Tokens, now: u64) {
        self.version = VERSION;
        self.access_token = Some(tokens.access.expose().clone());
        self.bound = tokens.kind == TokenKind::DPoP;
        if let Some(refresh) = &tokens.refresh {
            self.refresh_token = Some(refresh.expose().clone());
        }
        self.obtained_at = now;
        self.expires_at = tokens.life.map(|life| now.saturating_add(life.saturating_mul(1_000)));
        if tokens.scopes.is_some() {
            self.granted.clone_from(&tokens.scopes);
        }
    }

    /// Whether the token ends soon: within a tenth of its life, at most half a minute.
    pub fn ends_soon(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| {
            let margin = (end.saturating_sub(self.obtained_at) / 10).min(30_000);
            now.saturating_add(margin) >= end
        })
    }

    /// Lets the tokens go; registrations stay.
    pub fn drop_tokens(&mut self) {
        self.access_token = None;
        self.refresh_token = None;
        self.expires_at = None;
        self.granted = None;
    }

    /// Lets a registration go, if it is still that of this client.
    pub fn forget_registration(&mut self, issuer: &str, client: &Registration) -> bool {
        let same = self.registrations.get(issuer).is_some_and(|one| one.client_id == client.client_id);
        same && self.registrations.remove(issuer).is_some()
    }

    /// The token, if there is one.
    pub fn token(&self) -> Option<&str> {
        self.access_token.as_deref()
    }

    /// Every secret in it.
    pub fn secrets(&self) -> Vec<Secret<String>> {
        let clients = self.client.iter().chain(self.registrations.values());
        let texts = clients.map(|client| &client.client_secret);
        let texts = texts.chain([&self.access_token, &self.refresh_token, &self.proof_key]);
        texts.flatten().cloned().map(Secret::new).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f_056_a_clock_that_jumps_costs_one_renewal_at_most() {
        let day = 24 * 3_600_000;
        let tokens = |access: &str| Tokens {
            access: Secret::new(access.to_owned()),
            kind: TokenKind::Bearer,
            refresh: None,
            life: Some(3_600),
            scopes: None,
        };
        let mut record = Record::default();
        record.take(&tokens("a1"), 10 * day);
        assert!(record.ends_soon(11 * day), "a day later");
        record.take(&tokens("a2"), 11 * day);
        assert!(!record.ends_soon(11 * day));
        assert!(!record.ends_soon(10 * day), "and back: it counts until it is refused");
    }

    #[test]
    fn auth_65_a_refresh_token_is_replaced_only_by_a_new_one() {
        let tokens = |access: &str, refresh: Option<&str>, life| Tokens {
            access: Secret::new(access.to_owned()),
            kind: TokenKind::Bearer,
            refresh: refresh.map(|text| Secret::new(text.to_owned())),
            life,
            scopes: None,
        };
        let mut record = Record::default();
        record.take(&tokens("a1", Some("r1"), Some(100)), 1_000);
        assert!(!record.ends_soon(90_000) && record.ends_soon(91_000));
        record.take(&tokens("a2", None, None), 2_000);
        assert_eq!((record.token(), record.refresh_token.as_deref()), (Some("a2"), Some("r1")));
        assert!(!record.ends_soon(u64::MAX / 2), "no end is until it is refused (G13)");
        record.take(&tokens("a3", Some("r3"), None), 2_000);
        assert_eq!(record.refresh_token.as_deref(), Some("r3"));
        let shown = format!("{record:?}");
        assert!(!shown.contains("r3") && !shown.contains("a3"), "{shown}");
    }

    #[test]
    fn auth_38_a_registration_goes_only_while_it_is_the_refused_one() {
        let client = |id: &str| Registration { client_id: id.to_owned(), ..Registration::default() };
        let mut record = Record::default();
        record.registrations.insert("https://as.test".to_owned(), client("new"));
        assert!(!record.forget_registration("https://as.test", &client("old")));
        assert!(!record.forget_registration("https://other.test", &client("new")));
        assert!(record.forget_registration("https://as.test", &client("new")));
        assert!(record.registrations.is_empty());
    }
}
