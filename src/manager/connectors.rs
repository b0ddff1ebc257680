//! The account of the host: its token, and the connectors that its list names. (CFG-14, PXY-01)
//!
//! The list is asked for beside everything else: whoever it concerns waits a moment for it, nobody else does.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::sync::watch;
use url::Url;

use super::Manager;
use crate::config::ConfigOptions;
use crate::config::connectors::{self, Connector, ListPlace};
use crate::config::draft::RawLayer;
use crate::connection::settings::ConnectionSettings;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError};
use crate::host::post::PostOffice;
use crate::host::{Host, QuestionKind};
use crate::runtime::{self, lock, read};
use crate::secret::{Redactor, Secret};
use crate::transport::BoxFuture;
use crate::transport::authorizer::{AuthRefusal, Authorizer, Authorizers, Mending, Presented};
use crate::transport::connector::Network;
use crate::transport::connector::client::Request;
use crate::transport::http::response_body::{self, End};

/// Longest wait for the whole list.
const LIMIT: Duration = Duration::from_secs(5);
/// How long `load()` and `connect()` wait for a list that is slow; it comes by itself afterwards.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest page in bytes.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Most pages.
const PAGES: usize = 100;
const SCHEME: &str = "Bearer ";

/// The account's token, as `getConnectorToken` gives it.
pub(super) struct Account {
    post: Arc<PostOffice>,
    /// Held while the host is asked, so that many who were refused ask once.
    token: tokio::sync::Mutex<Option<Secret<String>>>,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").finish_non_exhaustive()
    }
}

impl Account {
    /// The account of a host that has `getConnectorToken`.
    pub(super) fn new(post: &Arc<PostOffice>) -> Option<Arc<Self>> {
        let offered = post.can_answer(QuestionKind::ConnectorToken);
        offered.then(|| Arc::new(Self { post: Arc::clone(post), token: tokio::sync::Mutex::default() }))
    }

    /// The token; another one than `refused`, if the host has one.
    async fn token(&self, refused: Option<&str>) -> Result<Option<Secret<String>>, McpError> {
        let mut kept = self.token.lock().await;
        if let Some(token) = &*kept
            && Some(token.expose().as_str()) != refused
        {
            return Ok(Some(token.clone()));
        }
        let body = format!("{{\"forceRefresh\":{}}}", refused.is_some());
        let answer = self.post.ask(QuestionKind::ConnectorToken, body).await?;
        let token: Option<String> = serde_json::from_str(&answer).map_err(|_| {
            McpError::new(ErrorCode::AuthFailed, "getConnectorToken gave neither a token nor null")
        })?;
        *kept = token.filter(|token| !token.is_empty()).map(Secret::new);
        Ok(kept.clone())
    }

    /// Its header; another one than in `refused`, if there is one.
    async fn headers(&self, refused: Option<&HeaderMap>) -> Result<HeaderMap, McpError> {
        let refused = refused.and_then(|map| map.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix(SCHEME));
        let token = self.token(refused).await?;
        let none = || McpError::new(ErrorCode::AuthRequired, "getConnectorToken has no token");
        bearer(&token.ok_or_else(none)?)
    }
}

impl Authorizer for Account {
    fn prepare(&self) -> BoxFuture<'_, Result<(), McpError>> {
        Box::pin(async { self.headers(None).await.map(drop) })
    }

    fn present<'a>(&'a self, _: &'a str, _: &'a Url) -> BoxFuture<'a, Result<Presented, McpError>> {
        Box::pin(async { Ok(Presented { headers: self.headers(None).await?, serial: 0 }) })
    }

    fn refused<'a>(
        &'a self,
        presented: &'a Presented,
        refusal: &'a AuthRefusal,
    ) -> BoxFuture<'a, Result<Mending, McpError>> {
        Box::pin(async {
            let better = refusal.status == 401
                && !refusal.again
                && self.headers(Some(&presented.headers)).await? != presented.headers;
            Ok(if better { Mending::Renewed } else { Mending::Nothing })
        })
    }

    fn redactor(&self) -> Redactor {
        // Held only while the host is asked; then the token that was shown is no longer good.
        let token = self.token.try_lock().ok().and_then(|kept| kept.clone());
        Redactor::new(token.iter().map(|token| token.expose().as_str()))
    }
}

fn bearer(token: &Secret<String>) -> Result<HeaderMap, McpError> {
    let mut value = HeaderValue::from_str(&format!("{SCHEME}{}", token.expose())).map_err(|_| {
        McpError::new(ErrorCode::AuthFailed, "the token of getConnectorToken holds what no header may hold")
    })?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

/// The connectors of one manager.
pub(super) struct Connectors {
    place: Result<ListPlace, String>,
    account: Option<Arc<Account>>,
    network: Network,
    found: Mutex<Found>,
    /// Counts the requests for the list: only the latest one counts.
    round: AtomicU64,
    settled: watch::Sender<bool>,
}

/// What is known of the list.
#[derive(Clone, Debug, Default)]
struct Found {
    layer: Option<RawLayer>,
    finding: Option<Diagnostic>,
}

/// Why there is no list.
enum Missing {
    /// The account has none to give.
    NoAccess(String),
    /// It could not be had now.
    Failed(String),
}

impl Connectors {
    /// The connectors by the options; `None` where no list is configured.
    pub(super) fn new(
        config: &ConfigOptions,
        account: Option<Arc<Account>>,
        settings: &ConnectionSettings,
    ) -> Option<Arc<Self>> {
        let network = Network::new(
            settings.tls.clone(),
            settings.proxy.clone(),
            Arc::clone(&settings.environment),
            LIMIT,
            LIMIT,
        );
        Some(Arc::new(Self {
            place: ListPlace::new(
                config.connector_base_url.as_deref()?,
                config.connector_proxy_url_template.as_deref(),
            ),
            account,
            network,
            found: Mutex::default(),
            round: AtomicU64::new(0),
            settled: watch::Sender::new(true),
        }))
    }

    /// What the configuration gets of it: a layer, and why there is none.
    pub(super) fn known(&self) -> (Option<RawLayer>, Option<Diagnostic>) {
        let found = lock(&self.found).clone();
        (found.layer, found.finding)
    }

    async fn fetch(&self) -> Result<(RawLayer, usize), Missing> {
        let place = self.place.as_ref().map_err(|why| Missing::Failed(why.clone()))?;
        let account = self.account.as_ref();
        let account =
            account.ok_or_else(|| Missing::NoAccess("getConnectorToken is not given".to_owned()))?;
        let mut connectors: Vec<Connector> = Vec::new();
        let mut malformed = 0;
        let mut next = None;
        let mut seen = HashSet::new();
        for _ in 0..PAGES {
            let body = self.page(place, next.as_deref(), account).await?;
            let page = connectors::read_page(&body)
                .ok_or_else(|| Missing::Failed("the answer is no list of connectors".to_owned()))?;
            connectors.extend(page.connectors);
            malformed += page.malformed;
            match page.next {
                Some(name) if connectors.len() < connectors::MOST && seen.insert(name.clone()) => {
                    next = Some(name);
                }
                _ => break,
            }
        }
        Ok((place.layer(&connectors), malformed))
    }

    /// The body of one page; a token that is refused is had anew once.
    async fn page(
        &self,
        place: &ListPlace,
        name: Option<&str>,
        account: &Arc<Account>,
    ) -> Result<Vec<u8>, Missing> {
        let failed = |error: McpError| Missing::Failed(error.message().to_owned());
        // Only the host's word that it has none says that there is no token; a callback that fails says nothing.
        let no_token = |error: McpError| match error.code() {
            ErrorCode::AuthRequired => Missing::NoAccess(error.message().to_owned()),
            _ => failed(error),
        };
        let url = place.page(name);
        let all = Authorizers::new([Arc::clone(account) as Arc<dyn Authorizer>]);
        let mut attempt = all.attempt();
        let mut response = loop {
            let mut headers = attempt.headers("GET", &url).await.map_err(no_token)?;
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
            let request = Request { url: url.clone(), method: Method::GET, headers, body: Bytes::new() };
            let response = self.network.send(request).await.map_err(failed)?;
            if !attempt.again(response.status().as_u16(), response.headers()).await.map_err(no_token)? {
                break response;
            }
        };
        match response.status().as_u16() {
            200..=299 => {}
            status @ (401 | 403) => {
                let message =
                    format!("status {status}: the token is not accepted, or lacks user:mcp_servers");
                return Err(Missing::NoAccess(message));
            }
            status => return Err(Missing::Failed(format!("the answer has status {status}"))),
        }
        let (body, end) = response_body::read(&mut response, PAGE_BYTES).await;
        match end {
            End::Whole => Ok(body),
            End::TooLong => Err(Missing::Failed(format!("the answer is larger than {PAGE_BYTES} bytes"))),
            End::Broken(_) => Err(Missing::Failed("the answer broke off".to_owned())),
        }
    }

    /// Keeps what came of a request. Without access there are no connectors; a failure leaves the last ones.
    fn keep(&self, outcome: Result<(RawLayer, usize), Missing>) {
        let mut found = lock(&self.found);
        match outcome {
            Ok((layer, malformed)) => {
                let message = format!("{malformed} entries of the list of connectors are malformed");
                let finding = Diagnostic::warning("CONNECTORS_MALFORMED", message);
                *found = Found { layer: Some(layer), finding: (malformed > 0).then_some(finding) };
            }
            Err(Missing::NoAccess(why)) => {
                let finding =
                    Diagnostic::info("CONNECTORS_NO_ACCESS", format!("There are no connectors: {why}"));
                *found = Found { layer: None, finding: Some(finding) };
            }
            Err(Missing::Failed(why)) => {
                let message = format!("The list of connectors cannot be had: {why}");
                found.finding = Some(Diagnostic::warning("CONNECTORS_UNAVAILABLE", message));
            }
        }
    }
}

impl Manager {
    /// Starts to ask for the list, if there is one and anybody may use it.
    pub(super) fn fetch_connectors(&self) {
        let exclusive = read(&self.resolution).as_ref().is_some_and(|now| now.combined.exclusive);
        let Some(connectors) = self.connectors.clone().filter(|_| !exclusive) else { return };
        let manager = Weak::clone(&self.this);
        let round = connectors.round.fetch_add(1, Ordering::AcqRel) + 1;
        connectors.settled.send_replace(false);
        runtime::spawn(async move {
            let late = || Missing::Failed(format!("no answer within {} s", LIMIT.as_secs()));
            let outcome = tokio::time::timeout(LIMIT, connectors.fetch()).await;
            if connectors.round.load(Ordering::Acquire) != round {
                return;
            }
            connectors.keep(outcome.unwrap_or_else(|_| Err(late())));
            if let Some(manager) = manager.upgrade() {
                manager.apply_connectors().await;
            }
            connectors.settled.send_replace(true);
        });
    }

    async fn apply_connectors(&self) {
        let difference = {
            let _applying = self.applying.lock().await;
            self.apply().await
        };
        if let Ok(difference) = difference {
            let start: Vec<String> = difference.added.into_iter().chain(difference.changed).collect();
            self.connect_later(&start);
        }
    }

    /// Waits a moment for a list that is on its way.
    pub(super) async fn connectors_settled(&self) {
        let Some(connectors) = &self.connectors else { return };
        let mut settled = connectors.settled.subscribe();
        if *settled.borrow() {
            return;
        }
        runtime::entered().await;
        let _ = tokio::time::timeout(PATIENCE, settled.wait_for(|settled| *settled)).await;
    }
}
