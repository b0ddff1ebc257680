//! Tokens without a person: refreshed, or had by a machine (mcp:AUTH-65, AUTH-67, CC-*, EMA-*, WIF-01).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::clients;
use super::discovery::{self, Found};
use super::flight::Over;
use super::metadata;
use super::record::Record;
use super::session::{Session, ended};
use super::settings::{Enterprise, Grant};
use super::tokens::{Refused, Tokens};
use super::web::Form;
use crate::error::{ErrorCode, McpError};
use crate::runtime::{lock, unix_millis};

/// Before a refresh whose answer was lost is tried again (A-2).
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Grant by an assertion (RFC 7523 §2.1).
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Grant of an identity assertion (RFC 8693).
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

/// Why a token is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It ends soon.
    Ending,
    /// The server refused it, or wants one.
    Refused,
}

impl Session {
    /// Gets a better token than the one of `serial`, if that is possible without a person.
    ///
    /// # Errors
    /// What may pass, and what the configuration has to mend.
    pub(super) async fn renew(self: &Arc<Self>, serial: u64, reason: Reason) -> Result<bool, McpError> {
        let session = Arc::clone(self);
        let renewal = |over: Over| async move {
            let outcome = session.renew_alone(serial, reason, &over).await;
            // What a logout ends on its way is saved all the same: the logout waits for the store's lock and takes back
            // what it finds (B-147).
            if *over.borrow() { Err(ended()) } else { outcome }
        };
        self.renewal.join(renewal).await
    }

    async fn renew_alone(&self, serial: u64, reason: Reason, over: &Over) -> Result<bool, McpError> {
        let _lock = self.store.lock(&self.slot).await?;
        if *over.borrow() {
            return Err(ended());
        }
        self.catch_up().await?;
        let record = {
            let state = lock(&self.state);
            if state.serial != serial && state.record.access_token.is_some() {
                return Ok(true);
            }
            state.record.clone()
        };
        let outcome = match &self.settings.grant {
            // Nothing that could be renewed is no failure.
            Grant::Code if record.refresh_token.is_none() || record.client.is_none() => return Ok(false),
            Grant::Code => self.refresh(record, reason).await,
            grant => self.machine(grant).await,
        };
        match &outcome {
            Ok(true) => self.note("tokenRenewed", self.told()),
            Ok(false) => self.note("renewalFailed", json!({ "code": ErrorCode::AuthRequired.as_str() })),
            Err(error) => self.note("renewalFailed", json!({ "code": error.code().as_str() })),
        }
        outcome
    }

    async fn refresh(&self, mut record: Record, reason: Reason) -> Result<bool, McpError> {
        let (Some(refresh), Some(client)) = (record.refresh_token.clone(), &record.client) else {
            return Ok(false);
        };
        let client = clients::as_configured(client, &self.settings);
        // A server that changed its issuer gets nothing of the old one (mcp:AUTH-33, B-132).
        if reason == Reason::Refused && !self.still_names(&record.issuer).await? {
            return Ok(false);
        }
        let form = || {
            let mut form = Form::default();
            form.push("grant_type", "refresh_token");
            form.push("refresh_token", &refresh);
            if let Some(resource) = &record.resource {
                form.push("resource", resource);
            }
            clients::prove(&mut form, &client, &self.settings, &record.issuer)?;
            Ok::<_, McpError>(form)
        };
        let mut outcome = self.ask(&record.token_endpoint, form()?).await;
        if outcome.as_ref().is_err_and(|error| error.code() == ErrorCode::ConnectionLost) {
            tokio::time::sleep(AGAIN_AFTER).await;
            outcome = self.ask(&record.token_endpoint, form()?).await;
        }
        match outcome? {
            Ok(tokens) => {
                record.take(&tokens, unix_millis());
                self.save(record).await?;
                Ok(true)
            }
            Err(later @ Refused::Later(_)) => Err(later.into_error("the refresh")),
            Err(refused) => {
                // A client that was configured may be right again when its secret is: its login stays (mcp:AUTH-65).
                let unknown = (refused.is("invalid_client") || refused.is("unauthorized_client"))
                    && clients::is_ours(&client, &self.settings);
                if !unknown && !refused.is("invalid_grant") {
                    return Ok(false);
                }
                // Only what was refused is dropped. Where the store has no lock another process may have been faster:
                // what it saved stays, and is used (A-1, G10).
                if let Some(newer) = self.replaced(&refresh).await? {
                    lock(&self.state).adopt(newer);
                    return Ok(true);
                }
                record.drop_tokens();
                if unknown {
                    let issuer = record.issuer.clone();
                    record.forget_registration(&issuer, &client);
                }
                self.save(record).await?;
                Ok(false)
            }
        }
    }

    /// What somebody else has put in the place of a refresh token.
    async fn replaced(&self, refresh: &str) -> Result<Option<Record>, McpError> {
        let kept = self.store.get(&self.slot).await?.record();
        Ok(kept.filter(|kept| {
            let other = kept.refresh_token.as_deref().is_some_and(|other| other != refresh);
            other && kept.token().is_some()
        }))
    }

    /// Whether the resource still names the issuer of our tokens.
    async fn still_names(&self, issuer: &str) -> Result<bool, McpError> {
        let place = lock(&self.state).need.metadata.clone();
        let (url, settings) = (&self.identity.url, &self.settings);
        let pointer =
            discovery::find_issuer(&self.web, url, settings, place.as_deref(), Some(issuer)).await?;
        let expected = settings.expected_issuer.as_deref();
        Ok(pointer.issuer.is_none_or(|named| named == issuer || expected == Some(issuer)))
    }

    async fn machine(&self, grant: &Grant) -> Result<bool, McpError> {
        if let Some(error) = lock(&self.state).hopeless.clone() {
            return Err(error);
        }
        let found = self.discover().await?;
        let scopes = self.scopes_for(&found);
        let outcome = self.machine_tokens(grant, &found, &scopes).await;
        let tokens = match outcome? {
            Ok(tokens) => tokens,
            Err(later @ Refused::Later(_)) => return Err(later.into_error("the token request")),
            Err(refused) => {
                let error = refused.into_error("the token request");
                lock(&self.state).hopeless = Some(error.clone());
                return Err(error);
            }
        };
        let client = clients::configured(&self.settings, &found.server).unwrap_or_default();
        let record = self.renewed(&found, client, &tokens, scopes);
        self.save(record).await?;
        Ok(true)
    }

    async fn machine_tokens(
        &self,
        grant: &Grant,
        found: &Found,
        scopes: &[String],
    ) -> Result<Result<Tokens, Refused>, McpError> {
        let endpoint = found.server.token_endpoint.as_deref().ok_or_else(no_token_endpoint)?;
        let client = clients::configured(&self.settings, &found.server)
            .ok_or_else(|| McpError::new(ErrorCode::ConfigInvalid, "oauth: clientId is missing"))?;
        let mut form = Form::default();
        match grant {
            Grant::Code => return Ok(Err(Refused::Unusable("is for a person"))),
            Grant::ClientCredentials(_) => form.push("grant_type", "client_credentials"),
            Grant::Workload(assertion) => {
                form.push("grant_type", JWT_BEARER);
                form.push("assertion", assertion.expose());
            }
            Grant::Enterprise(enterprise) => {
                let assertion = match self.identity_assertion(enterprise, found, scopes).await? {
                    Ok(assertion) => assertion,
                    Err(refused) => return Ok(Err(refused)),
                };
                form.push("grant_type", JWT_BEARER);
                form.push("assertion", assertion.access.expose());
            }
        }
        add_target(&mut form, found, scopes);
        clients::prove(&mut form, &client, &self.settings, &found.server.issuer)?;
        self.ask(endpoint, form).await
    }

    /// What the identity provider says of the person, for this server alone (mcp:EMA-01, EMA-02).
    async fn identity_assertion(
        &self,
        enterprise: &Enterprise,
        found: &Found,
        scopes: &[String],
    ) -> Result<Result<Tokens, Refused>, McpError> {
        let url = self.web.check(&enterprise.token_endpoint, "oauth.enterpriseManaged.idpTokenEndpoint")?;
        check_issuer(enterprise)?;
        let mut form = Form::default();
        form.push("grant_type", EXCHANGE);
        form.push("requested_token_type", ID_JAG);
        form.push("audience", &found.server.issuer);
        form.push("subject_token", enterprise.id_token.expose());
        form.push("subject_token_type", ID_TOKEN);
        form.push("client_id", &enterprise.client_id);
        add_target(&mut form, found, scopes);
        self.remember(form.secrets());
        let posted = self.web.post_form(&url, &form).await?;
        let mut body = posted.body;
        if body.get("issued_token_type").and_then(serde_json::Value::as_str) != Some(ID_JAG)
            && body.get("error").is_none()
            && posted.status < 400
        {
            return Ok(Err(Refused::Unusable("is no identity assertion")));
        }
        // It is no access token, and its type says so: `N_A`.
        if let Some(object) = body.as_object_mut() {
            object.remove("token_type");
        }
        Ok(super::tokens::read(posted.status, &body).map_err(|refused| refused.redacted(&self.redactor())))
    }
}

/// A person's token goes to nobody but who made it. One that is no JWT says nothing of that, and the provider judges it.
fn check_issuer(enterprise: &Enterprise) -> Result<(), McpError> {
    match issuer_of(enterprise.id_token.expose()) {
        Some(named) if !metadata::same_issuer(&enterprise.issuer, &named) => Err(McpError::new(
            ErrorCode::AuthIssuerMismatch,
            "oauth.enterpriseManaged.idToken is of another issuer than idpIssuer; it was not sent",
        )),
        _ => Ok(()),
    }
}

/// Who a JWT says that it is of; nothing of it is verified here.
fn issuer_of(token: &str) -> Option<String> {
    let payload = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    claims.get("iss")?.as_str().map(str::to_owned)
}

fn add_target(form: &mut Form, found: &Found, scopes: &[String]) {
    if let Some(resource) = &found.resource {
        form.push("resource", resource);
    }
    if !scopes.is_empty() {
        form.push("scope", scopes.join(" "));
    }
}

pub(super) fn no_token_endpoint() -> McpError {
    McpError::new(ErrorCode::AuthFailed, "the authorization server's metadata names no token endpoint")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn ema_01_a_token_of_another_issuer_is_not_sent() {
        let jwt = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        let checked = |token: String| {
            check_issuer(&Enterprise {
                issuer: "https://idp.example".to_owned(),
                token_endpoint: String::new(),
                client_id: String::new(),
                id_token: Secret::new(token),
            })
        };
        for mine in [r#"{"iss":"https://idp.example"}"#, r#"{"iss":"https://idp.example/"}"#] {
            assert!(checked(jwt(mine)).is_ok(), "{mine}");
        }
        for silent in
            ["opaque".to_owned(), "a.b.c".to_owned(), jwt("{}"), jwt("no JSON"), jwt(r#"{"iss":7}"#)]
        {
            assert!(checked(silent.clone()).is_ok(), "{silent}");
        }
        let error = checked(jwt(r#"{"iss":"https://other.example"}"#)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::AuthIssuerMismatch);
    }
}
