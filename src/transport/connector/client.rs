//! HTTP clients over the shared rules of trust and detour, and what their failures mean.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::header::HeaderValue;
use rustls::ClientConfig;
use tokio::sync::OnceCell;
use url::Url;

use super::proxy::{ProxyTarget, proxy_for};
use super::tls;
use crate::config::spec::{ProxyChoice, TlsSpec};
use crate::environment::Environment;
use crate::error::{Delivery, ErrorCode, McpError};
use crate::runtime::lock;
use crate::secret::SafeUrl;
use crate::unicode;

/// Connections that lie idle are closed before servers with the usual five seconds close them: a request
/// written into a connection that just closes cannot be repeated safely.
const IDLE: Duration = Duration::from_secs(4);
/// A connection over which nothing comes is probed, so that a dead one is noticed within 45 s (F-058).
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// How to reach the network.
#[derive(Debug)]
pub struct Network {
    tls: Option<TlsSpec>,
    proxy: ProxyChoice,
    environment: Arc<Environment>,
    connect_timeout: Duration,
    trust: OnceCell<Arc<ClientConfig>>,
    clients: Mutex<Vec<(Option<ProxyTarget>, bool, reqwest::Client)>>,
}

impl Network {
    /// Nothing is read or opened before the first client is asked for.
    pub fn new(
        tls: Option<TlsSpec>,
        proxy: ProxyChoice,
        environment: Arc<Environment>,
        connect_timeout: Duration,
    ) -> Self {
        Self { tls, proxy, environment, connect_timeout, trust: OnceCell::new(), clients: Mutex::default() }
    }

    /// A client for a URL: no redirects, no cookies, no compression, HTTP/1.1.
    ///
    /// # Errors
    /// `TLS_FAILED` for certificates that cannot be used, `PROXY_FAILED` for a malformed proxy.
    pub async fn client(&self, url: &Url) -> Result<reqwest::Client, McpError> {
        let proxy = proxy_for(url, &self.proxy, &self.environment)?;
        let secure = url.scheme() == "https" || proxy.as_ref().is_some_and(|proxy| proxy.tls);
        let known = |list: &[(Option<ProxyTarget>, bool, reqwest::Client)]| {
            list.iter()
                .find(|(target, tls, _)| *target == proxy && *tls == secure)
                .map(|(_, _, client)| client.clone())
        };
        if let Some(client) = known(&lock(&self.clients)) {
            return Ok(client);
        }
        let trust = if secure { self.trust().await? } else { no_trust()? };
        let client = build(&trust, proxy.as_ref(), self.connect_timeout)?;
        let mut clients = lock(&self.clients);
        if let Some(client) = known(&clients) {
            return Ok(client);
        }
        clients.push((proxy, secure, client.clone()));
        Ok(client)
    }

    async fn trust(&self) -> Result<Arc<ClientConfig>, McpError> {
        let trust = self.trust.get_or_try_init(|| async {
            let (spec, environment) = (self.tls.clone(), Arc::clone(&self.environment));
            let built =
                tokio::task::spawn_blocking(move || tls::tls_config(spec.as_ref(), &environment)).await;
            built.unwrap_or_else(|_| Err(McpError::new(ErrorCode::TlsFailed, "the roots cannot be read")))
        });
        trust.await.cloned()
    }

    /// What a failed exchange means: `TLS_FAILED`, `PROXY_FAILED`, `CONNECT_FAILED` (nothing was sent), or
    /// `CONNECTION_LOST` (it may have run).
    pub fn describe(&self, error: &reqwest::Error, url: &Url) -> McpError {
        let place = place(url);
        if let Some(why) = tls::explain(error) {
            let message = format!("TLS to {place}: {why}");
            return not_sent(ErrorCode::TlsFailed, message);
        }
        let root = deepest(error);
        let proxy = proxy_for(url, &self.proxy, &self.environment).ok().flatten();
        if let Some(proxy) = proxy
            && error.is_connect()
        {
            let message = format!("the proxy {} does not lead to {place}: {root}", proxy.origin());
            return not_sent(ErrorCode::ProxyFailed, message);
        }
        if error.is_dns() {
            let host = url.host_str().unwrap_or_default();
            return not_sent(ErrorCode::ConnectFailed, format!("the name {host} cannot be resolved: {root}"));
        }
        if error.is_connect() && error.is_timeout() {
            let limit = self.connect_timeout.as_millis();
            return not_sent(ErrorCode::ConnectFailed, format!("no connection to {place} within {limit} ms"));
        }
        if error.is_connect() {
            return not_sent(ErrorCode::ConnectFailed, format!("cannot connect to {place}: {root}"));
        }
        McpError::new(ErrorCode::ConnectionLost, format!("the connection to {place} broke: {root}"))
            .with(|facts| facts.delivered = Some(Delivery::Unknown))
    }
}

/// A URL as it may be shown.
pub fn place(url: &Url) -> String {
    SafeUrl::new(url.as_str()).to_string()
}

fn not_sent(code: ErrorCode, message: String) -> McpError {
    McpError::new(code, message).with(|facts| facts.delivered = Some(Delivery::No))
}

/// The last cause, in one short line.
fn deepest(error: &reqwest::Error) -> String {
    let root = tls::chain(error).last().map(ToString::to_string).unwrap_or_default();
    let root = unicode::clean_str_lossy(&root);
    root.chars().take(300).collect()
}

/// For connections without TLS: trusts nobody, reads nothing.
fn no_trust() -> Result<Arc<ClientConfig>, McpError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| McpError::new(ErrorCode::TlsFailed, error.to_string()))?;
    Ok(Arc::new(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()))
}

fn build(
    trust: &ClientConfig,
    proxy: Option<&ProxyTarget>,
    connect_timeout: Duration,
) -> Result<reqwest::Client, McpError> {
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(trust.clone())
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(IDLE)
        .tcp_nodelay(true)
        .tcp_keepalive(PROBE_AFTER)
        .tcp_keepalive_interval(PROBE_EVERY)
        .tcp_keepalive_retries(PROBES)
        .no_proxy();
    let builder = match proxy {
        Some(target) => builder.proxy(reqwest_proxy(target)?),
        None => builder,
    };
    builder.build().map_err(|error| {
        McpError::new(ErrorCode::TlsFailed, format!("no HTTP client could be made: {}", deepest(&error)))
    })
}

fn reqwest_proxy(target: &ProxyTarget) -> Result<reqwest::Proxy, McpError> {
    let refused = || McpError::new(ErrorCode::ProxyFailed, format!("the proxy {target:?} cannot be used"));
    let proxy = reqwest::Proxy::all(target.origin()).map_err(|_| refused())?;
    let Some(authorization) = target.authorization() else { return Ok(proxy) };
    let mut value = HeaderValue::from_str(authorization.expose()).map_err(|_| refused())?;
    value.set_sensitive(true);
    Ok(proxy.custom_http_auth(value))
}
