//! The login at one server, as transports and the manager see it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::clients;
use super::flight::Flight;
use super::login::Asker;
use super::record::Record;
use super::renewal::Reason;
use super::session::{self, Identity, Need, Session, State};
use super::settings::{Grant, OAuthSettings};
use super::store::{Kept, Slot, TokenStore};
use super::web::{Form, Web};
use crate::config::policy::UrlGate;
use crate::error::{ErrorCode, McpError};
use crate::host::{Host, QuestionKind};
use crate::runtime::{lock, unix_millis};
use crate::secret::Redactor;
use crate::transport::BoxFuture;
use crate::transport::authorizer::{AuthRefusal, Authorizer, Mending, Presented};
use crate::transport::connector::Network;
use crate::transport::http::challenge;
use crate::url_guard::Guard;

/// What a login is made of.
pub struct Parts {
    /// Name of the server.
    pub server: Arc<str>,
    /// Its URL.
    pub url: Url,
    /// What the host calls itself, for people at the authorization server.
    pub host_name: String,
    /// How to log in.
    pub settings: OAuthSettings,
    /// The same trust and detours as for the server itself.
    pub network: Network,
    /// What the server may lead to.
    pub guard: Guard,
    /// What policy lets through.
    pub gate: UrlGate,
    /// Where logins are kept.
    pub store: Arc<TokenStore>,
    /// Who asks people.
    pub host: Arc<dyn Host>,
}

/// The login at one server.
pub struct ServerAuth {
    session: Arc<Session>,
}

impl fmt::Debug for ServerAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerAuth").field("session", &self.session).finish()
    }
}

impl ServerAuth {
    /// Nothing is read or asked yet.
    pub fn new(parts: Parts) -> Self {
        let key = session::key(&parts.url, &parts.settings);
        let slot = Slot { key, server: Arc::clone(&parts.server) };
        let session = Session {
            identity: Identity { server: parts.server, url: parts.url, host_name: parts.host_name },
            settings: parts.settings,
            web: Web::new(parts.network, parts.guard, parts.gate),
            store: parts.store,
            host: parts.host,
            slot,
            state: std::sync::Mutex::new(State::default()),
            renewal: Flight::default(),
            login: Flight::default(),
            pending: std::sync::Mutex::new(None),
        };
        Self { session: Arc::new(session) }
    }

    /// Where the login is kept, once there is one.
    pub fn storage(&self) -> Option<&'static str> {
        lock(&self.session.state).record.token().map(|_| self.session.store.kind(&self.session.slot))
    }

    /// Whether the server has asked for a login that nobody gave yet.
    pub fn is_needed(&self) -> bool {
        lock(&self.session.state).need.known
    }

    /// Whether a login is under way.
    pub fn is_under_way(&self) -> bool {
        self.session.login.under_way().is_some()
    }

    /// Until this is dropped no login starts by itself: somebody is about to ask for one.
    pub fn reserve(&self) -> Reserved<'_> {
        lock(&self.session.state).reserved += 1;
        Reserved(&self.session)
    }

    /// Has the person log in because the host wants it; ends a login that waits for somebody else.
    ///
    /// # Errors
    /// `AUTH_REQUIRED` with the URL where nobody is told it; otherwise why the login failed.
    pub async fn authenticate(&self, asker: Asker) -> Result<(), McpError> {
        self.authenticate_now(asker).await.map_err(|error| self.session.clean(error))
    }

    async fn authenticate_now(&self, asker: Asker) -> Result<(), McpError> {
        let session = &self.session;
        session.load().await?;
        if !matches!(session.settings.grant, Grant::Code) {
            let serial = lock(&session.state).serial;
            lock(&session.state).hopeless = None;
            session.renew(serial, Reason::Refused).await?;
            return Ok(());
        }
        // Who asks for a login may ask for what was refused before.
        lock(&session.state).denied.clear();
        if asker == Asker::Nobody {
            return self.authenticate_by_hand().await;
        }
        session.log_in_anew(asker).await
    }

    /// Starts a login whose URL is told by the error; [`ServerAuth::complete`] finishes it.
    async fn authenticate_by_hand(&self) -> Result<(), McpError> {
        let session = Arc::clone(&self.session);
        let login = async move { session.log_in(Asker::Nobody).await };
        let mut login = Box::pin(login);
        loop {
            tokio::select! {
                outcome = &mut login => return outcome,
                () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {}
            }
            if let Some(url) = self.session.pending_url() {
                let message =
                    "the server asks for a login; hand the URL that it ends at to completeAuthorization";
                return Err(McpError::new(ErrorCode::AuthRequired, message)
                    .with(|facts| facts.authorization_url = Some(url)));
            }
        }
    }

    /// Finishes the login that waits with the URL the person was sent back to.
    ///
    /// # Errors
    /// `AUTH_FAILED`, `AUTH_ISSUER_MISMATCH`.
    pub async fn complete(&self, url: String) -> Result<(), McpError> {
        let login = self.session.login.under_way();
        self.session.hand_over(url).await?;
        let login = login.ok_or_else(session::ended)?;
        login.await.map_err(|error| self.session.clean(error))
    }

    /// Lets the login go: ended, removed, and given back where the server takes it (OAU-02, B-147).
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED`.
    pub async fn log_out(&self) -> Result<(), McpError> {
        let session = &self.session;
        session.load().await?;
        self.end_logins();
        session.renewal.end();
        let _lock = session.store.lock(&session.slot).await?;
        let kept = session.store.get(&session.slot).await.ok().and_then(Kept::record);
        let record = {
            let mut state = lock(&session.state);
            let own = std::mem::take(&mut state.record);
            state.serial += 1;
            state.proof = None;
            state.hopeless = None;
            state.denied.clear();
            kept.unwrap_or(own)
        };
        session.store.delete(&session.slot).await?;
        session.note("loggedOut", serde_json::json!({}));
        self.give_back(&record).await;
        Ok(())
    }

    /// Ends a login under way: its outcome changes nothing any more.
    pub fn end_logins(&self) {
        self.session.login.end();
    }

    /// Revokes what can be revoked (RFC 7009); nobody can do anything about a failure.
    async fn give_back(&self, record: &Record) {
        let (Some(endpoint), Some(client)) = (&record.revocation_endpoint, &record.client) else { return };
        let client = clients::as_configured(client, &self.session.settings);
        let Ok(url) = self.session.web.check(endpoint, "the revocation endpoint") else { return };
        let kinds = [("refresh_token", &record.refresh_token), ("access_token", &record.access_token)];
        for (kind, token) in kinds {
            let Some(token) = token else { continue };
            let mut form = Form::default();
            form.push("token", token);
            form.push("token_type_hint", kind);
            if clients::prove(&mut form, &client, &self.session.settings, &record.issuer).is_ok() {
                let _ = self.session.web.post_form(&url, &form).await;
            }
        }
    }

    fn headers(&self, method: &str, url: &Url) -> Result<Presented, McpError> {
        let state = lock(&self.session.state);
        let Some(token) = state.record.token() else {
            return Ok(Presented { headers: HeaderMap::new(), serial: state.serial });
        };
        let scheme = if state.record.bound { "DPoP" } else { "Bearer" };
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, sensitive(&format!("{scheme} {token}"))?)]);
        let (token, serial) = (token.to_owned(), state.serial);
        let nonce = state.nonces.get(&url.origin().ascii_serialization()).cloned();
        let bound = state.record.bound;
        drop(state);
        if bound && let Some(key) = self.session.proof_key()? {
            let proof = key.proof(method, url, Some(&token), nonce.as_deref())?;
            headers.insert(HeaderName::from_static("dpop"), sensitive(proof.expose())?);
        }
        Ok(Presented { headers, serial })
    }

    /// Renews a token that is about to end; what keeps that from working shows with the request itself.
    async fn renew_in_time(&self) {
        let ending = {
            let state = lock(&self.session.state);
            let renewable =
                state.record.refresh_token.is_some() || !matches!(self.session.settings.grant, Grant::Code);
            let ends = state.record.token().is_some() && state.record.ends_soon(unix_millis());
            (renewable && ends).then_some(state.serial)
        };
        if let Some(serial) = ending {
            let _ = self.session.renew(serial, Reason::Ending).await;
        }
    }

    async fn mend(&self, serial: u64, refusal: &AuthRefusal) -> Result<Mending, McpError> {
        let challenges = challenge::parse(&refusal.challenges);
        if let Some(nonce) = &refusal.nonce {
            self.session.keep_nonce(&self.session.identity.url, nonce);
            let wanted = challenges.iter().any(|one| one.get("error") == Some("use_dpop_nonce"));
            if wanted && self.session.settings.dpop && serial > 0 {
                return Ok(Mending::Nonce);
            }
        }
        let need = Need::of(&challenges);
        if refusal.status == 403 && !need.step_up {
            return Ok(Mending::Nothing);
        }
        let machine = !matches!(self.session.settings.grant, Grant::Code);
        {
            let mut state = lock(&self.session.state);
            // A late refusal of a token that was replaced meanwhile replaces nothing (mcp:AUTH-08).
            if state.serial != serial && state.record.token().is_some() {
                return Ok(Mending::Renewed);
            }
            let grows = need.scopes.iter().any(|scope| !state.record.requested.contains(scope));
            state.need = need;
            if refusal.status == 403 && !(machine && grows) {
                return Ok(Mending::Nothing);
            }
        }
        if !refusal.again && self.session.renew(serial, Reason::Refused).await? {
            lock(&self.session.state).need = Need::default();
            return Ok(Mending::Renewed);
        }
        self.session.drop_token(serial);
        Ok(Mending::Nothing)
    }

    /// Whether a step up would ask for anything that was not asked for before, and for nothing that was refused then
    /// (mcp:AUTH-60).
    fn grows(&self) -> bool {
        let state = lock(&self.session.state);
        let before: HashSet<&String> = state.record.requested.iter().collect();
        let wanted = &state.need.scopes;
        wanted.iter().any(|scope| !before.contains(scope))
            && !wanted.iter().any(|scope| state.denied.contains(scope))
    }

    async fn log_in_for(&self, cause: McpError) -> Result<(), McpError> {
        let session = &self.session;
        let step_up = cause.code() == ErrorCode::AuthScopeInsufficient;
        let scopes = lock(&session.state).need.scopes.join(" ");
        let cause = cause.with(|facts| facts.required_scope = Some(scopes).filter(|text| !text.is_empty()));
        if !matches!(session.settings.grant, Grant::Code) || (step_up && !self.grows()) {
            return Err(cause);
        }
        let reserved = lock(&session.state).reserved > 0 && !self.is_under_way();
        if reserved || !session.host.can_answer(QuestionKind::AuthorizationUrl) {
            return Err(cause);
        }
        if !self.is_needed() {
            // Somebody else's login has ended meanwhile.
            return Ok(());
        }
        if !session.may_start() {
            let message = format!("{}; several logins in a row did not help", cause.message());
            return Err(McpError::new(cause.code(), message).caused_by(cause));
        }
        session.log_in(Asker::Host).await
    }
}

impl Authorizer for ServerAuth {
    fn present<'a>(&'a self, method: &'a str, url: &'a Url) -> BoxFuture<'a, Result<Presented, McpError>> {
        Box::pin(async move {
            self.session.load().await?;
            self.renew_in_time().await;
            self.headers(method, url)
        })
    }

    fn refused<'a>(
        &'a self,
        presented: &'a Presented,
        refusal: &'a AuthRefusal,
    ) -> BoxFuture<'a, Result<Mending, McpError>> {
        Box::pin(async move {
            self.mend(presented.serial, refusal).await.map_err(|error| self.session.clean(error))
        })
    }

    fn log_in(&self, cause: McpError) -> BoxFuture<'_, Result<(), McpError>> {
        Box::pin(async move { self.log_in_for(cause).await.map_err(|error| self.session.clean(error)) })
    }

    fn hear_nonce(&self, nonce: &str) {
        self.session.keep_nonce(&self.session.identity.url, nonce);
    }

    fn redactor(&self) -> Redactor {
        self.session.redactor()
    }
}

impl Drop for ServerAuth {
    fn drop(&mut self) {
        self.end_logins();
    }
}

/// Keeps logins from starting by themselves.
pub struct Reserved<'a>(&'a Session);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).reserved -= 1;
    }
}

fn sensitive(text: &str) -> Result<HeaderValue, McpError> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| McpError::new(ErrorCode::AuthFailed, "the token holds characters no header may hold"))?;
    value.set_sensitive(true);
    Ok(value)
}
