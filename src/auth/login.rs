//! A person logs in: sent to the authorization server, comes back with a code, the code becomes tokens
//! (mcp:AUTH-40 to AUTH-51; OAU-02).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use url::Url;

use super::callback::{Answer, Expected, judge, query_of};
use super::clients::{self, NoClient, Origin, Wanted};
use super::discovery::Found;
use super::flight::Over;
use super::loopback::Loopback;
use super::proof::{Pkce, random_text};
use super::record::{Method, Registration};
use super::session::{Session, ended};
use super::tokens::{Refused, Tokens};
use super::web::Form;
use crate::error::{ErrorCode, McpError};
use crate::host::QuestionKind;
use crate::runtime::lock;
use crate::secret::{SafeUrl, Secret};
use crate::url_guard::is_loopback;

/// How long a login may wait for the person.
const PATIENCE: Duration = Duration::from_secs(600);
/// Logins that start by themselves within [`WINDOW`].
const MOST_LOGINS: usize = 3;
const WINDOW: Duration = Duration::from_secs(300);

/// An answer handed over by hand, and whether it was of this login.
type Handed = (String, oneshot::Sender<Result<(), McpError>>);

/// The login that waits for its answer.
#[derive(Debug)]
pub(super) struct Pending {
    answers: mpsc::Sender<Handed>,
    url: String,
}

/// Who is told the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The host's `onAuthorizationUrl`.
    Host,
    /// The callback of one `authenticate()`, by its number.
    Call(u32),
    /// Nobody: the error carries the URL.
    Nobody,
}

/// A way back.
struct Way {
    uri: String,
    native: bool,
    loopback: Option<Loopback>,
}

/// What the authorization server gave for a person's code.
struct Granted {
    client: Registration,
    origin: Origin,
    tokens: Tokens,
    /// Scopes that were asked for.
    scopes: Vec<String>,
}

impl Session {
    /// Has the person log in; everybody who waits shares one login.
    pub(super) async fn log_in(self: &Arc<Self>, asker: Asker) -> Result<(), McpError> {
        let session = Arc::clone(self);
        self.login.join(|over| async move { session.log_in_alone(asker, over).await }).await
    }

    /// Has the person log in for this caller alone: ends a login that waits for somebody else, and ends with the caller.
    pub(super) async fn log_in_anew(self: &Arc<Self>, asker: Asker) -> Result<(), McpError> {
        let session = Arc::clone(self);
        self.login.anew(|over| async move { session.log_in_alone(asker, over).await }).await
    }

    /// Whether a login may start by itself; counts it.
    pub(super) fn may_start(&self) -> bool {
        let mut state = lock(&self.state);
        let now = Instant::now();
        state.logins.retain(|at| now.duration_since(*at) < WINDOW);
        let may = state.logins.len() < MOST_LOGINS;
        if may {
            state.logins.push(now);
        }
        may
    }

    async fn log_in_alone(&self, asker: Asker, mut over: Over) -> Result<(), McpError> {
        let need = lock(&self.state).need.clone();
        if need.step_up {
            self.note("stepUp", json!({ "scope": need.scopes.join(" ") }));
        }
        self.note("loginStarted", json!({}));
        let login = async {
            let found = self.discover().await?;
            self.check_pkce(&found)?;
            // A registration that the server has forgotten is made anew, once (G5, mcp:AUTH-38).
            let granted = if let Ok(granted) = self.attempt(&found, asker).await? {
                granted
            } else {
                let again = self.attempt(&found, asker).await?;
                again.map_err(|refused| refused.into_error("the token request"))?
            };
            Ok((found, granted))
        };
        let outcome = tokio::select! {
            biased;
            _ = over.wait_for(|over| *over) => Err(ended()),
            outcome = login => outcome,
        };
        lock(&self.pending).take();
        // To its end: a file that is written while its writer gives up would be there after a logout (B-147).
        let outcome = match outcome {
            Ok((found, granted)) => self.keep_login(&found, granted, over).await,
            Err(error) => Err(error),
        };
        match &outcome {
            Ok(()) => self.note("loginFinished", self.told()),
            Err(error) => self.note("loginFailed", json!({ "code": error.code().as_str() })),
        }
        outcome
    }

    /// What may be written down of the login there is.
    pub(super) fn told(&self) -> Value {
        let state = lock(&self.state);
        let issuer = SafeUrl::new(state.record.issuer.as_str()).to_string();
        json!({ "issuer": issuer, "scope": state.record.requested.join(" ") })
    }

    /// One login; a refusal in the value is that of a client the server does not know.
    async fn attempt(&self, found: &Found, asker: Asker) -> Result<Result<Granted, Refused>, McpError> {
        let scopes = self.scopes_for(found);
        let (client, origin, mut way) = self.client_and_way(found, &scopes).await?;
        let pkce = Pkce::new()?;
        let expected = Expected {
            state: Secret::new(random_text()?),
            issuer: found.server.issuer.clone(),
            names_itself: found.server.names_itself,
        };
        self.remember([expected.state.clone(), pkce.verifier.clone()]);
        self.remember(client.client_secret.clone().map(Secret::new));
        let url = self.authorization_url(found, (&client, &way.uri), (&pkce, &expected), &scopes)?;
        let code = self.visit(asker, &url, &mut way, &expected).await?;
        drop(way.loopback.take());
        self.remember([code.clone()]);
        let tokens = self.exchange(found, &client, &code, (&pkce, &way.uri)).await?;
        let (tokens, client) = match tokens {
            Ok(done) => done,
            Err(refused) if refused.is("invalid_client") && origin == Origin::Registered => {
                self.forget_registration(&found.issuer, &client).await?;
                return Ok(Err(refused));
            }
            Err(refused) => return Err(refused.into_error("the token request")),
        };
        Ok(Ok(Granted { client, origin, tokens, scopes }))
    }

    /// Keeps what a person was given, beside what somebody else has saved meanwhile. Where the store cannot be had it is
    /// used all the same.
    async fn keep_login(&self, found: &Found, granted: Granted, mut over: Over) -> Result<(), McpError> {
        let held = tokio::select! {
            biased;
            _ = over.wait_for(|over| *over) => return Err(ended()),
            held = self.store.lock(&self.slot) => held,
        };
        // The tokens are bound to this key, whatever the store says.
        let key = self.proof_key()?;
        let caught_up = match &held {
            Ok(_) => self.catch_up().await,
            Err(error) => Err(error.clone()),
        };
        lock(&self.state).proof = key;
        let Granted { client, origin, tokens, scopes } = granted;
        let mut record = self.renewed(found, client.clone(), &tokens, scopes);
        if origin == Origin::Registered {
            record.registrations.insert(found.issuer.clone(), client);
        }
        match caught_up {
            Ok(()) => self.save(record).await?,
            Err(error) => self.keep(record, Err(error))?,
        }
        lock(&self.state).need = super::session::Need::default();
        Ok(())
    }

    /// S256, or nothing (B-130, mcp:AUTH-41).
    fn check_pkce(&self, found: &Found) -> Result<(), McpError> {
        let refused = |why: &str| {
            let message = format!("the authorization server {why}, so a login there is not protected");
            McpError::new(ErrorCode::AuthFailed, message)
        };
        match &found.server.pkce_methods {
            Some(methods) if methods.iter().any(|method| method == "S256") => Ok(()),
            Some(_) => Err(refused("knows no PKCE with S256")),
            None if self.settings.allow_unadvertised_pkce => Ok(()),
            None => Err(refused(
                "does not say that it knows PKCE (oauth.allowUnadvertisedPkce goes on regardless)",
            )),
        }
    }

    /// Client and redirect URI; where `127.0.0.1` is refused, `localhost` is tried.
    async fn client_and_way(
        &self,
        found: &Found,
        scopes: &[String],
    ) -> Result<(Registration, Origin, Way), McpError> {
        let stored = lock(&self.state).record.registrations.get(&found.issuer).cloned();
        let mut way = self.way(stored.as_ref(), None).await?;
        let outcome = self.client(found, stored.as_ref(), &way, scopes).await;
        let refused = match outcome {
            Ok((client, origin)) => return Ok((client, origin, way)),
            Err(no_client) if no_client.unacceptable => no_client.error,
            Err(no_client) => return Err(no_client.error),
        };
        if self.settings.callback.host.is_some() || way.loopback.is_none() {
            return Err(refused);
        }
        drop(way.loopback.take());
        let way = self.way(None, Some("localhost")).await?;
        let (client, origin) = self.client(found, None, &way, scopes).await.map_err(|_| refused)?;
        Ok((client, origin, way))
    }

    async fn client(
        &self,
        found: &Found,
        stored: Option<&Registration>,
        way: &Way,
        scopes: &[String],
    ) -> Result<(Registration, Origin), NoClient> {
        let name = &self.identity.host_name;
        let wanted = Wanted { name, redirect_uri: &way.uri, native: way.native, scopes };
        clients::resolve(&self.web, &self.settings, found, stored, wanted).await
    }

    async fn way(&self, stored: Option<&Registration>, host: Option<&str>) -> Result<Way, McpError> {
        let mut callback = self.settings.callback.clone();
        if let Some(uri) = &callback.redirect_uri {
            // Somebody else receives the person; the answer comes through the callback or by hand.
            let native = Url::parse(uri).is_ok_and(|url| url.host().is_some_and(|host| is_loopback(&host)));
            return Ok(Way { uri: uri.clone(), native, loopback: None });
        }
        if let Some(host) = host {
            callback.host = Some(host.to_owned());
        }
        let before = stored.and_then(|stored| Url::parse(stored.redirect_uri.as_deref()?).ok()?.port());
        let loopback = Loopback::open(&callback, before).await?;
        Ok(Way { uri: loopback.uri.clone(), native: true, loopback: Some(loopback) })
    }

    /// Scopes to ask for: configured, else those of the challenge, else those of the resource, else none; without a
    /// challenge at hand, those that were asked for before. A step up adds to what was asked for before, and what it
    /// brought is asked for by every later login, too (mcp:AUTH-55, AUTH-59, AUTH-63; G11).
    pub(super) fn scopes_for(&self, found: &Found) -> Vec<String> {
        let state = lock(&self.state);
        let need = &state.need;
        let same = state.record.issuer == found.issuer;
        let mut scopes = match &self.settings.scopes {
            Some(configured) => configured.clone(),
            None if !need.scopes.is_empty() => need.scopes.clone(),
            None if !need.known && same && !state.record.requested.is_empty() => {
                state.record.requested.clone()
            }
            None => found.resource_scopes.clone(),
        };
        if need.step_up {
            let before = state.record.requested.iter().filter(|_| same);
            scopes = before.cloned().chain(scopes).chain(need.scopes.iter().cloned()).collect();
        }
        scopes.extend(state.record.stepped_up.iter().filter(|_| same).cloned());
        let offline = "offline_access";
        let offered = found.server.scopes_supported.as_ref();
        if self.settings.scopes.is_none() && offered.is_some_and(|list| list.iter().any(|one| one == offline))
        {
            scopes.push(offline.to_owned());
        }
        let mut seen = std::collections::HashSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        scopes
    }

    fn authorization_url(
        &self,
        found: &Found,
        (client, redirect_uri): (&Registration, &str),
        (pkce, expected): (&Pkce, &Expected),
        scopes: &[String],
    ) -> Result<String, McpError> {
        let endpoint = found.server.authorization_endpoint.as_deref().ok_or_else(|| {
            let why = "the authorization server's metadata names no authorization endpoint";
            McpError::new(ErrorCode::AuthFailed, why)
        })?;
        let mut url = self.web.check(endpoint, "the authorization endpoint")?;
        url.set_fragment(None);
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", &client.client_id)
                .append_pair("redirect_uri", redirect_uri)
                .append_pair("state", expected.state.expose())
                .append_pair("code_challenge", &pkce.challenge)
                .append_pair("code_challenge_method", "S256");
            if let Some(resource) = &found.resource {
                query.append_pair("resource", resource);
            }
            if !scopes.is_empty() {
                query.append_pair("scope", &scopes.join(" "));
            }
            if scopes.iter().any(|scope| scope == "offline_access") {
                query.append_pair("prompt", "consent");
            }
        }
        Ok(url.into())
    }

    /// Sends the person away and waits for the answer, whichever way it comes.
    async fn visit(
        &self,
        asker: Asker,
        url: &str,
        way: &mut Way,
        expected: &Expected,
    ) -> Result<Secret<String>, McpError> {
        let (answers, mut by_hand) = mpsc::channel::<Handed>(1);
        *lock(&self.pending) = Some(Pending { answers, url: url.to_owned() });
        let limit = tokio::time::sleep(PATIENCE);
        tokio::pin!(limit);
        let callback = self.ask_person(asker, url);
        tokio::pin!(callback);
        let mut told = false;
        loop {
            let (query, verdict) = tokio::select! {
                biased;
                said = &mut callback, if !told => {
                    told = true;
                    match said? {
                        None => continue,
                        Some(text) => (query_of(&text).unwrap_or_default(), Verdict::Final),
                    }
                }
                Some((text, reply)) = by_hand.recv() => {
                    (query_of(&text).unwrap_or_default(), Verdict::Hand(reply))
                }
                visit = next_visit(way.loopback.as_mut()) => match visit {
                    Some((query, reply)) => (query, Verdict::Browser(reply)),
                    None => continue,
                },
                () = &mut limit => {
                    let message = format!("nobody finished the login within {} min", PATIENCE.as_secs() / 60);
                    return Err(McpError::new(ErrorCode::AuthFailed, message));
                }
            };
            let answer = judge(&query, expected);
            self.hear_refusal(&answer);
            match (answer, verdict) {
                (Answer::NotOurs(why), Verdict::Final) => {
                    let message = format!("onAuthorizationUrl gave a URL that cannot be used: {why}");
                    return Err(McpError::new(ErrorCode::AuthFailed, message));
                }
                (Answer::NotOurs(why), Verdict::Hand(reply)) => {
                    let message = format!("this URL cannot be used: {why}; the login still waits");
                    let _ = reply.send(Err(McpError::new(ErrorCode::AuthFailed, message)));
                }
                (Answer::NotOurs(_), Verdict::Browser(reply)) => {
                    let _ = reply.send(false);
                }
                (Answer::Code(code), verdict) => {
                    verdict.accept().await;
                    return Ok(code);
                }
                (Answer::Failed(error) | Answer::Refused { error, .. }, verdict) => {
                    verdict.accept().await;
                    return Err(error);
                }
            }
        }
    }

    /// What a step up was refused is not asked for again by ourselves (mcp:AUTH-60).
    fn hear_refusal(&self, answer: &Answer) {
        let mut state = lock(&self.state);
        if state.need.step_up && matches!(answer, Answer::Refused { passing: false, .. }) {
            let scopes = state.need.scopes.clone();
            state.denied.extend(scopes);
        }
    }

    async fn ask_person(&self, asker: Asker, url: &str) -> Result<Option<String>, McpError> {
        let login = match asker {
            Asker::Nobody => std::future::pending().await,
            Asker::Host => Value::Null,
            Asker::Call(number) => number.into(),
        };
        let body = json!({ "server": &*self.identity.server, "url": url, "login": login }).to_string();
        let answer = self.host.ask(QuestionKind::AuthorizationUrl, body).await.map_err(|cause| {
            if cause.code() == ErrorCode::ManagerClosed {
                return cause;
            }
            McpError::new(ErrorCode::AuthFailed, "onAuthorizationUrl failed").caused_by(cause)
        })?;
        match serde_json::from_str(&answer) {
            Ok(Value::String(text)) => Ok(Some(text)),
            Ok(Value::Null) => Ok(None),
            _ => Err(McpError::new(
                ErrorCode::AuthFailed,
                "onAuthorizationUrl gave something other than a URL or nothing",
            )),
        }
    }

    /// The code becomes tokens; a secret that is refused in the header is sent in the body where the server has not
    /// said how it wants it (G6).
    async fn exchange(
        &self,
        found: &Found,
        client: &Registration,
        code: &Secret<String>,
        (pkce, redirect_uri): (&Pkce, &str),
    ) -> Result<Result<(Tokens, Registration), Refused>, McpError> {
        let endpoint =
            found.server.token_endpoint.as_deref().ok_or_else(super::renewal::no_token_endpoint)?;
        let mut client = client.clone();
        loop {
            let mut form = Form::default();
            form.push("grant_type", "authorization_code");
            form.push("code", code.expose());
            form.push("redirect_uri", redirect_uri);
            form.push("code_verifier", pkce.verifier.expose());
            if let Some(resource) = &found.resource {
                form.push("resource", resource);
            }
            clients::prove(&mut form, &client, &self.settings, &found.server.issuer)?;
            match self.ask(endpoint, form).await? {
                Ok(tokens) => return Ok(Ok((tokens, client))),
                Err(refused)
                    if refused.is("invalid_client")
                        && client.method == Method::Basic
                        && found.server.auth_methods.is_none() =>
                {
                    client.method = Method::Post;
                }
                Err(refused) => return Ok(Err(refused)),
            }
        }
    }

    /// Forgets a client that its issuer does not know; one that somebody else has registered since stays.
    async fn forget_registration(&self, issuer: &str, unknown: &Registration) -> Result<(), McpError> {
        let _lock = self.store.lock(&self.slot).await?;
        self.catch_up().await?;
        let mut record = lock(&self.state).record.clone();
        if record.forget_registration(issuer, unknown) {
            self.save(record).await?;
        }
        Ok(())
    }

    /// Hands an answer over that a person brought.
    ///
    /// # Errors
    /// `AUTH_FAILED` where no login waits, or the answer is not of it.
    pub(super) async fn hand_over(&self, text: String) -> Result<(), McpError> {
        let none = || McpError::new(ErrorCode::AuthFailed, "no login of this server waits for an answer");
        let answers = lock(&self.pending).as_ref().map(|pending| pending.answers.clone()).ok_or_else(none)?;
        let (reply, verdict) = oneshot::channel();
        answers.send((text, reply)).await.map_err(|_| none())?;
        verdict.await.map_err(|_| none())?
    }

    /// The URL of the login that waits.
    pub(super) fn pending_url(&self) -> Option<String> {
        lock(&self.pending).as_ref().map(|pending| pending.url.clone())
    }
}

/// Where an answer came from, and who is told whether it was of this login.
enum Verdict {
    Final,
    Hand(oneshot::Sender<Result<(), McpError>>),
    Browser(oneshot::Sender<bool>),
}

impl Verdict {
    async fn accept(self) {
        match self {
            Verdict::Final => {}
            Verdict::Hand(reply) => {
                let _ = reply.send(Ok(()));
            }
            Verdict::Browser(reply) => {
                let _ = reply.send(true);
                // The page is on its way before the listener goes.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn next_visit(loopback: Option<&mut Loopback>) -> Option<super::loopback::Visit> {
    match loopback {
        Some(loopback) => loopback.visit().await,
        None => std::future::pending().await,
    }
}
