//! What is known about the login at one server, and how it changes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};

use serde_json::json;
use url::Url;

use super::discovery::{self, Found};
use super::flight::Flight;
use super::login::Pending;
use super::proof::{ProofKey, hash_text};
use super::record::{Record, Registration};
use super::settings::OAuthSettings;
use super::store::{Kept, Slot, TokenStore};
use super::tokens::{self, Refused, TokenKind, Tokens};
use super::web::{Form, Web};
use crate::error::{ErrorCode, McpError};
use crate::host::{Host, HostEvent};
use crate::runtime::{lock, unix_millis};
use crate::secret::{Redactor, Secret};
use crate::transport::http::challenge::Challenge;

/// What a server is called and how it is reached.
pub(super) struct Identity {
    /// Name of the server.
    pub server: Arc<str>,
    /// Its URL.
    pub url: Url,
    /// What the host calls itself.
    pub host_name: String,
}

/// The login at one server.
pub(super) struct Session {
    pub(super) identity: Identity,
    pub(super) settings: OAuthSettings,
    pub(super) web: Web,
    pub(super) store: Arc<TokenStore>,
    pub(super) host: Arc<dyn Host>,
    /// Place of the record.
    pub(super) slot: Slot,
    pub(super) state: Mutex<State>,
    /// Renewals without a person: whether there is a better token now.
    pub(super) renewal: Flight<bool>,
    /// Logins by a person.
    pub(super) login: Flight<()>,
    /// The login that waits for its answer.
    pub(super) pending: Mutex<Option<Pending>>,
}

/// What changes.
#[derive(Default)]
pub(super) struct State {
    /// Whether the store was asked.
    pub(super) loaded: bool,
    pub(super) record: Record,
    /// Counts the tokens.
    pub(super) serial: u64,
    /// What the last refusal that could not be mended asked for.
    pub(super) need: Need,
    pub(super) proof: Option<Arc<ProofKey>>,
    /// Newest nonce by origin (mcp:DPOP-03).
    pub(super) nonces: HashMap<String, String>,
    /// Why a machine gets no token: it does not ask again (mcp:WIF-01).
    pub(super) hopeless: Option<McpError>,
    /// The token that was refused last, or could not be replaced in the store: it is not taken from there again.
    pub(super) refused: Option<Secret<String>>,
    /// Secrets of this login, for redaction; the newest.
    secrets: VecDeque<Secret<String>>,
    /// How many want to ask for a login themselves, so that none starts by itself.
    pub(super) reserved: usize,
    /// When logins were started by themselves.
    pub(super) logins: Vec<tokio::time::Instant>,
    /// Scopes that a step up has asked for and that were refused; they are not asked for again by ourselves.
    pub(super) denied: HashSet<String>,
}

/// What a challenge asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Need {
    /// Whether there was one at all.
    pub(super) known: bool,
    /// Where the resource's metadata is.
    pub(super) metadata: Option<String>,
    /// Scopes that the operation needs.
    pub(super) scopes: Vec<String>,
    /// Whether a token lacks scopes.
    pub(super) step_up: bool,
}

impl Need {
    pub(super) fn of(challenges: &[Challenge]) -> Self {
        let oauth = || challenges.iter().filter(|one| one.is_oauth());
        let scopes = oauth().find_map(|one| one.get("scope")).map(super::metadata::split_scopes);
        Self {
            known: true,
            metadata: challenges.iter().find_map(|one| one.get("resource_metadata")).map(str::to_owned),
            scopes: scopes.unwrap_or_default(),
            step_up: crate::transport::http::challenge::wants_scope(challenges),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("server", &self.identity.server).finish_non_exhaustive()
    }
}

/// The opaque key of a record: server, resource and client, and nothing readable (OAU-03).
pub(super) fn key(url: &Url, settings: &OAuthSettings) -> String {
    let parts = json!([
        url.as_str(),
        settings.client_id,
        settings.client_metadata_url,
        settings.expected_issuer,
        format!("{:?}", settings.resource),
        settings.dpop,
    ]);
    hash_text(&parts.to_string()).chars().filter(char::is_ascii_alphanumeric).take(32).collect()
}

impl Session {
    /// Reads the record once.
    pub(super) async fn load(&self) -> Result<(), McpError> {
        if lock(&self.state).loaded {
            return Ok(());
        }
        let kept = self.store.open(&self.slot).await?;
        let mut state = lock(&self.state);
        if !state.loaded {
            state.loaded = true;
            if let Some(record) = kept.record() {
                state.adopt(record);
            }
        }
        Ok(())
    }

    /// Takes over what somebody else has saved meanwhile, in this process or in another. The store's lock is held.
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED`.
    pub(super) async fn catch_up(&self) -> Result<(), McpError> {
        let kept = self.store.get(&self.slot).await?;
        let mut state = lock(&self.state);
        if let Kept::TakenOver = kept {
            // Our refresh token may have been used up by whoever did that.
            state.record.refresh_token = None;
        } else if let Some(mut kept) = kept.record() {
            if kept.token().is_some()
                && kept.token() == state.refused.as_ref().map(|one| one.expose().as_str())
            {
                kept.access_token = None;
            }
            if kept.access_token.is_some() || state.record.access_token.is_none() {
                state.adopt(kept);
            }
        }
        Ok(())
    }

    /// Keeps a record. The store's lock is held.
    pub(super) async fn save(&self, record: Record) -> Result<(), McpError> {
        let saved = self.store.set(&self.slot, &record).await;
        self.keep(record, saved)
    }

    /// Uses a record, also one that could not be `saved`: the token before it is dead already (mcp:AUTH-65), and is not
    /// taken for a newer one because it still stands in the store.
    pub(super) fn keep(&self, record: Record, saved: Result<(), McpError>) -> Result<(), McpError> {
        {
            let mut state = lock(&self.state);
            let before = state.record.access_token.clone();
            state.adopt(record);
            if saved.is_err() && before.is_some() && before != state.record.access_token {
                state.refused = before.map(Secret::new);
            }
        }
        saved.inspect_err(|error| self.report(error))
    }

    /// The metadata that a login or a renewal needs.
    pub(super) async fn discover(&self) -> Result<Found, McpError> {
        let (named, known) = {
            let state = lock(&self.state);
            // Without a refusal at hand the last one counts.
            let kept = state.record.metadata.as_ref().filter(|_| !state.need.known);
            (state.need.metadata.as_ref().or(kept).cloned(), state.record.issuer.clone())
        };
        let known = Some(known.as_str()).filter(|known| !known.is_empty());
        let (url, settings) = (&self.identity.url, &self.settings);
        let pointer = discovery::find_issuer(&self.web, url, settings, named.as_deref(), known).await?;
        let found = discovery::find_server(&self.web, url, settings, pointer).await?;
        // Credentials that are not ours to choose belong to one issuer (mcp:AUTH-33, AUTH-34, B-132).
        if let Some(known) = known
            && self.settings.client_id.is_some()
            && self.settings.expected_issuer.is_none()
            && known != found.issuer
        {
            let message = format!(
                "oauth.clientId was used with {} and the server now names {}; log out to use it there, or set \
                 oauth.expectedIssuer",
                super::web::said(known),
                super::web::said(&found.issuer)
            );
            return Err(McpError::new(ErrorCode::AuthIssuerMismatch, message));
        }
        Ok(found)
    }

    /// The key that tokens are bound to, where they are.
    pub(super) fn proof_key(&self) -> Result<Option<Arc<ProofKey>>, McpError> {
        if !self.settings.dpop {
            return Ok(None);
        }
        let mut state = lock(&self.state);
        if let Some(key) = &state.proof {
            return Ok(Some(Arc::clone(key)));
        }
        let kept = state.record.proof_key.as_deref().and_then(ProofKey::restore);
        let key = Arc::new(match kept {
            Some(key) => key,
            None => ProofKey::generate()?,
        });
        state.proof = Some(Arc::clone(&key));
        Ok(Some(key))
    }

    /// Asks a token endpoint. A nonce that it asks for is given once.
    ///
    /// # Errors
    /// What keeps the request from being answered; refusals are in the value.
    pub(super) async fn ask(
        &self,
        endpoint: &str,
        mut form: Form,
    ) -> Result<Result<Tokens, Refused>, McpError> {
        let url = self.web.check(endpoint, "the token endpoint")?;
        let key = self.proof_key()?;
        let mut asked = 0;
        loop {
            let origin = url.origin().ascii_serialization();
            if let Some(key) = &key {
                let nonce = lock(&self.state).nonces.get(&origin).cloned();
                form.proof = Some(key.proof("POST", &url, None, nonce.as_deref())?);
            }
            self.remember(form.secrets());
            let posted = self.web.post_form(&url, &form).await?;
            asked += 1;
            if let Some(nonce) = posted.nonce {
                self.keep_nonce(&url, &nonce);
            }
            let outcome = tokens::read(posted.status, &posted.body);
            let outcome = outcome.map_err(|refused| refused.redacted(&self.redactor()));
            match outcome {
                Err(refused) if refused.is("use_dpop_nonce") && key.is_some() && asked == 1 => {}
                Ok(tokens) if key.is_some() && tokens.kind != TokenKind::DPoP => {
                    return Ok(Err(Refused::Unusable("holds a token that is not bound to our key")));
                }
                other => return Ok(other),
            }
        }
    }

    /// Keeps the newest nonce of a server, for proofs alone (mcp:DPOP-03).
    pub(super) fn keep_nonce(&self, url: &Url, nonce: &str) {
        if self.settings.dpop && nonce.len() <= LONGEST_NONCE {
            lock(&self.state).nonces.insert(url.origin().ascii_serialization(), nonce.to_owned());
        }
    }

    /// A record with new tokens of `found`, beside what was known of other issuers.
    pub(super) fn renewed(
        &self,
        found: &Found,
        client: Registration,
        tokens: &Tokens,
        requested: Vec<String>,
    ) -> Record {
        let state = lock(&self.state);
        let mut record = state.record.clone();
        record.drop_tokens();
        if record.issuer != found.issuer {
            record.stepped_up.clear();
        }
        if state.need.step_up {
            let known = &record.stepped_up;
            let new: Vec<String> =
                state.need.scopes.iter().filter(|one| !known.contains(one)).cloned().collect();
            record.stepped_up.extend(new);
        }
        record.issuer.clone_from(&found.issuer);
        record.resource.clone_from(&found.resource);
        if state.need.known {
            record.metadata.clone_from(&state.need.metadata);
        }
        record.token_endpoint = found.server.token_endpoint.clone().unwrap_or_default();
        record.revocation_endpoint.clone_from(&found.server.revocation_endpoint);
        record.requested = requested;
        record.client = Some(client);
        record.proof_key = state.proof.as_ref().map(|key| key.kept().expose().clone());
        record.take(tokens, unix_millis());
        record
    }

    /// Tells the host what went wrong beside a request.
    pub(super) fn report(&self, error: &McpError) {
        let body = json!({
            "level": "error", "code": error.code().as_str(), "message": error.message(),
            "server": &*self.identity.server,
        });
        self.host.emit(HostEvent { name: "diagnostic", body: body.to_string(), key: None });
    }

    /// Writes down what happened with the login; `details` hold names and codes, never a secret (SEC-07).
    pub(super) fn note(&self, event: &'static str, mut details: serde_json::Value) {
        details["event"] = event.into();
        self.host.note("auth", &self.identity.server, details);
    }

    /// Secrets that may come back in a server's words.
    pub(super) fn remember(&self, secrets: impl IntoIterator<Item = Secret<String>>) {
        lock(&self.state).remember(secrets);
    }

    /// Takes the secrets of this login out of free text (SEC-03).
    pub(super) fn redactor(&self) -> Redactor {
        let state = lock(&self.state);
        let configured = self.settings.secrets();
        let known = state.secrets.iter().map(|secret| secret.expose().as_str());
        Redactor::new(known.chain(configured.iter().map(|secret| secret.expose().as_str())))
    }

    /// An error without any secret of this login.
    pub(super) fn clean(&self, error: McpError) -> McpError {
        let redactor = self.redactor();
        let text = |text: &str| redactor.redact(text).into_owned();
        error.map_texts(&text, &|json| redactor.redact_json(json).into_owned())
    }

    /// Marks the current token as refused, so that nobody presents it again.
    pub(super) fn drop_token(&self, serial: u64) {
        let mut state = lock(&self.state);
        if state.serial == serial
            && let Some(token) = state.record.access_token.take()
        {
            state.refused = Some(Secret::new(token));
        }
    }
}

/// Longest nonce that goes back in a header.
const LONGEST_NONCE: usize = 1024;
/// Secrets that are remembered for redaction.
const MOST_SECRETS: usize = 64;

impl State {
    fn remember(&mut self, secrets: impl IntoIterator<Item = Secret<String>>) {
        for secret in secrets {
            if !self.secrets.contains(&secret) {
                self.secrets.push_back(secret);
            }
        }
        while self.secrets.len() > MOST_SECRETS {
            self.secrets.pop_front();
        }
    }

    /// Takes a record over; another token is another serial.
    pub(super) fn adopt(&mut self, record: Record) {
        self.remember(record.secrets());
        if record.access_token != self.record.access_token {
            self.serial += 1;
        }
        if record.proof_key != self.record.proof_key && record.proof_key.is_some() {
            self.proof = None;
        }
        self.record = record;
    }
}

pub(super) fn ended() -> McpError {
    McpError::new(ErrorCode::AuthFailed, "the login was ended before it was finished")
}
