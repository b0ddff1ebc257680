//! A connection to a host and port: name, TCP by both address families, the detour through a proxy, TLS. Each
//! stretch has a clock of its own and errors that name it (F-055).

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::reply_head::{HeadProblem, read_head};
use super::wire::Wire;
use super::{ProxyTarget, proxy_for, tls, tls_config};
use crate::config::spec::{ProxyChoice, TlsSpec};
use crate::environment::Environment;
use crate::error::{Delivery, ErrorCode, McpError, Phase};
use crate::unicode;
use crate::url_guard::{Guard, Reach, reach};

/// How long an address may keep quiet before the next one is tried beside it (F-050).
const STAGGER: Duration = Duration::from_millis(250);
/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 16;
/// Longest head of a proxy's answer (F-053).
const MAX_PROXY_HEAD: usize = 16 * 1024;
/// A connection over which nothing comes is probed, so that a dead one is noticed within 45 s (F-058).
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(10);
#[cfg(not(windows))]
const PROBES: u32 = 3;
/// What was sent is acknowledged within this time, or the connection is dead.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(45);

/// How to make connections.
#[derive(Debug)]
pub(in crate::transport) struct Dialer {
    tls: Option<TlsSpec>,
    proxy: ProxyChoice,
    environment: Arc<Environment>,
    /// Limit of a whole connection; each stretch of it gets a third.
    limit: Duration,
    trust: OnceCell<Arc<ClientConfig>>,
    /// Where names may lead, for URLs that a server named.
    guard: Option<Guard>,
    /// Where the youngest connection stands.
    phase: AtomicU8,
}

/// Which way a proxy is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport) enum Detour {
    /// It is told with each request where to, unless that is encrypted.
    Requests,
    /// It opens a tunnel (WS-02).
    Tunnel,
}

impl Dialer {
    /// Nothing is read or opened before the first connection.
    pub(in crate::transport) fn new(
        tls: Option<TlsSpec>,
        proxy: ProxyChoice,
        environment: Arc<Environment>,
        limit: Duration,
    ) -> Self {
        let (trust, phase) = (OnceCell::new(), AtomicU8::new(0));
        Self { tls, proxy, environment, limit, trust, guard: None, phase }
    }

    /// The same for URLs that a server named: what is checked is what is connected to (G22, mcp:SEC-05). A proxy
    /// resolves names by itself, and only it knows what they are.
    pub(in crate::transport) fn guarded(self, guard: Guard) -> Self {
        Self { guard: Some(guard), ..self }
    }

    /// The proxy in front of a URL.
    ///
    /// # Errors
    /// `PROXY_FAILED` for a malformed one.
    pub(in crate::transport) fn proxy(&self, url: &Url) -> Result<Option<ProxyTarget>, McpError> {
        proxy_for(url, &self.proxy, &self.environment)
    }

    /// Where the youngest connection stands; `None` before the first.
    pub(in crate::transport) fn phase(&self) -> Option<Phase> {
        const PHASES: [Phase; 4] = [Phase::Dns, Phase::Connect, Phase::Proxy, Phase::Tls];
        match self.phase.load(Ordering::Relaxed) {
            0 => None,
            number => Some(PHASES.get(usize::from(number) - 1).copied().unwrap_or(Phase::Headers)),
        }
    }

    /// Nothing is left to be done but to wait for an answer.
    pub(in crate::transport) fn is_connected(&self) {
        self.phase.store(u8::MAX, Ordering::Relaxed);
    }

    /// Connects to the server of a URL, through its proxy and with TLS where its scheme says so.
    ///
    /// # Errors
    /// `CONNECT_FAILED`, `PROXY_FAILED`, `TLS_FAILED`; nothing was sent.
    pub(in crate::transport) async fn connect(&self, url: &Url, detour: Detour) -> Result<Wire, McpError> {
        let made = self.make(url, detour).await;
        self.is_connected();
        made.map_err(|error| error.with(|facts| facts.delivered = Some(Delivery::No)))
    }

    async fn make(&self, url: &Url, detour: Detour) -> Result<Wire, McpError> {
        let (Some(host), Some(port)) = (bare_host(url), url.port_or_known_default()) else {
            return Err(McpError::new(ErrorCode::ConfigInvalid, "the URL has no host"));
        };
        let secure = matches!(url.scheme(), "https" | "wss");
        let proxy = self.proxy(url)?;
        // Certificates that cannot be used are told before anything is opened.
        let trust = if secure { Some(self.trust().await?) } else { None };
        let wire = match &proxy {
            None => self.dial(&host, port, self.guard.as_ref()).await?,
            Some(proxy) => {
                let wire = self.reach(proxy).await?;
                if !secure && detour == Detour::Requests {
                    return Ok(wire.ending_at_proxy());
                }
                let opened = self.tunnel(wire, proxy, url, port);
                let late = |limit| failed(proxy, &format!("did not open a tunnel within {limit} ms"));
                self.within(Phase::Proxy, opened, late).await?
            }
        };
        match trust {
            Some(trust) => self.secure(wire, &host, trust).await,
            None => Ok(wire),
        }
    }

    /// Gives one stretch its share of the time.
    async fn within<T>(
        &self,
        phase: Phase,
        work: impl Future<Output = Result<T, McpError>>,
        late: impl FnOnce(u128) -> McpError,
    ) -> Result<T, McpError> {
        self.phase.store(phase as u8 + 1, Ordering::Relaxed);
        let share = self.limit / 3;
        let outcome = tokio::time::timeout(share, work).await;
        let outcome = outcome.unwrap_or_else(|_| Err(late(share.as_millis())));
        outcome.map_err(|error| error.with(|facts| facts.phase = Some(phase)))
    }

    /// The TLS configuration; reads files, so it is made off the core threads.
    async fn trust(&self) -> Result<Arc<ClientConfig>, McpError> {
        let trust = self.trust.get_or_try_init(|| async {
            let (spec, environment) = (self.tls.clone(), Arc::clone(&self.environment));
            let built = tokio::task::spawn_blocking(move || tls_config(spec.as_ref(), &environment)).await;
            built.unwrap_or_else(|_| Err(McpError::new(ErrorCode::TlsFailed, "the roots cannot be read")))
        });
        trust.await.cloned()
    }

    /// A TCP connection to a name.
    async fn dial(&self, host: &str, port: u16, guard: Option<&Guard>) -> Result<Wire, McpError> {
        let place = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let unresolved = |why: String| {
            McpError::new(ErrorCode::ConnectFailed, format!("the name {host} cannot be resolved: {why}"))
        };
        // The lookup runs off the core threads; giving it up leaves it to its end there.
        let lookup = async {
            tokio::net::lookup_host((host, port)).await.map_err(|error| unresolved(error.to_string()))
        };
        let late = |limit| unresolved(format!("no answer within {limit} ms"));
        let mut found: Vec<SocketAddr> = self.within(Phase::Dns, lookup, late).await?.collect();
        if let Some(guard) = guard {
            found = admitted(guard, host, found).await?;
        }
        let addresses = alternating(found);
        let unreachable = |why: String| {
            McpError::new(ErrorCode::ConnectFailed, format!("cannot connect to {place}: {why}"))
        };
        let connecting = async { first_of(addresses).await.map_err(|error| unreachable(error.to_string())) };
        let late = |limit| unreachable(format!("nothing answers within {limit} ms"));
        let stream = self.within(Phase::Connect, connecting, late).await?;
        prepare(&stream);
        Ok(Wire::new(stream))
    }

    async fn secure(&self, wire: Wire, host: &str, trust: Arc<ClientConfig>) -> Result<Wire, McpError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| McpError::new(ErrorCode::TlsFailed, "the host's name cannot be in a certificate"))?;
        let handshake = async {
            match TlsConnector::from(trust).connect(name, wire).await {
                Ok(stream) => Ok(Wire::new(stream)),
                Err(error) => Err(if let Some(why) = tls::explain(&error) {
                    McpError::new(ErrorCode::TlsFailed, format!("TLS to {host}: {why}"))
                } else {
                    let message = format!("the TLS handshake with {host} was interrupted: {error}");
                    McpError::new(ErrorCode::ConnectFailed, message)
                }),
            }
        };
        let late = |limit| {
            let message = format!("the TLS handshake with {host} did not end within {limit} ms");
            McpError::new(ErrorCode::ConnectFailed, message)
        };
        self.within(Phase::Tls, handshake, late).await
    }

    /// A connection to a proxy itself.
    async fn reach(&self, proxy: &ProxyTarget) -> Result<Wire, McpError> {
        let dialled = self.dial(&proxy.host, proxy.port, None).await;
        let wire = dialled.map_err(|error| {
            failed(proxy, &format!("cannot be reached: {}", error.message()))
                .with(|facts| facts.phase = Some(Phase::Proxy))
        })?;
        if !proxy.tls {
            return Ok(wire);
        }
        self.secure(wire, &proxy.host, self.trust().await?).await.map_err(|error| {
            failed(proxy, &format!("offers no usable TLS: {}", error.message()))
                .with(|facts| facts.phase = Some(Phase::Proxy))
        })
    }

    /// A tunnel through a proxy, by HTTP CONNECT (WS-02).
    async fn tunnel(
        &self,
        mut wire: Wire,
        proxy: &ProxyTarget,
        url: &Url,
        port: u16,
    ) -> Result<Wire, McpError> {
        let authority = format!("{}:{port}", url.host_str().unwrap_or_default());
        let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
        if let Some(login) = proxy.authorization() {
            request.push_str("Proxy-Authorization: ");
            request.push_str(login.expose());
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        let broken = |error: io::Error| failed(proxy, &format!("broke the connection off: {error}"));
        wire.write_all(request.as_bytes()).await.map_err(broken)?;
        wire.flush().await.map_err(broken)?;
        let head = read_head(&mut wire, MAX_PROXY_HEAD).await;
        let head = head.map_err(|problem| failed(proxy, &describe(&problem)))?;
        match head.status {
            200..=299 if head.rest.is_empty() => Ok(wire),
            200..=299 => Err(failed(proxy, "sent more than its answer")),
            407 => Err(failed(proxy, "asks for a login (407); put user name and password into its URL")
                .with(|facts| facts.status = Some(407))),
            status => {
                let reason = unicode::clean_str_lossy(&head.reason);
                Err(failed(proxy, &format!("refused the tunnel: {status} {reason}"))
                    .with(|facts| facts.status = Some(status)))
            }
        }
    }
}

/// The addresses that a guard admits.
async fn admitted(guard: &Guard, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, McpError> {
    if guard.trusts_name(host) {
        return Ok(found);
    }
    let is_private = |address: &SocketAddr| reach(address.ip()) == Reach::Private;
    // A server inside of a network may lead to other places there, whatever the names are.
    let inside = found.iter().any(is_private) && leads_inside(guard).await;
    let kept: Vec<SocketAddr> = found
        .into_iter()
        .filter(|address| guard.admits(address.ip()) || (inside && is_private(address)))
        .collect();
    if kept.is_empty() {
        let message = format!("{host} leads to an address that this server may not lead to");
        return Err(McpError::new(ErrorCode::UrlRefused, message));
    }
    Ok(kept)
}

/// Whether the server's own name leads into a private network.
async fn leads_inside(guard: &Guard) -> bool {
    let Some(own) = guard.name() else { return false };
    match tokio::net::lookup_host((own, 0)).await {
        Ok(mut found) => found.any(|address| reach(address.ip()) == Reach::Private),
        Err(_) => false,
    }
}

/// The host of a URL; IPv6 addresses without brackets.
fn bare_host(url: &Url) -> Option<String> {
    url.host().map(|host| match host {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    })
}

fn failed(proxy: &ProxyTarget, what: &str) -> McpError {
    McpError::new(ErrorCode::ProxyFailed, format!("the proxy {} {what}", proxy.origin()))
}

/// Small frames are not worth waiting for company, and dead connections shall show. What a system does not offer
/// is done without.
fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY);
    #[cfg(not(windows))]
    let probes = probes.with_retries(PROBES);
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_keepalive(&probes);
    // Probes are only sent while nothing waits to be acknowledged.
    #[cfg(target_os = "linux")]
    let _ = socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
}

/// A TCP connection to the first address that answers.
async fn first_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut addresses = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut failure = None;
    loop {
        match addresses.next() {
            Some(address) => attempts.push(TcpStream::connect(address)),
            None if attempts.is_empty() => {
                let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                return Err(failure.unwrap_or_else(none));
            }
            None => {}
        }
        let more = addresses.len() > 0;
        tokio::select! {
            Some(outcome) = attempts.next() => match outcome {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = Some(error),
            },
            () = tokio::time::sleep(STAGGER), if more => {}
        }
    }
}

/// The addresses of both families in turns, as the system orders them within each.
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let mut mixed = Vec::with_capacity(first.len() + second.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        let pair = (first.next(), second.next());
        if pair == (None, None) || mixed.len() >= MAX_ADDRESSES {
            return mixed;
        }
        mixed.extend(pair.0);
        mixed.extend(pair.1);
    }
}

fn describe(problem: &HeadProblem) -> String {
    match problem {
        HeadProblem::Ended => "closed the connection before it answered".to_owned(),
        HeadProblem::Broken(error) => format!("broke the connection off: {error}"),
        HeadProblem::TooLong(limit) => format!("sent an answer whose head is longer than {limit} bytes"),
        HeadProblem::NotHttp(_) => "does not speak HTTP".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn g22_sec_05_only_addresses_that_a_server_may_lead_to_are_connected_to() {
        let parsed =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let public = Guard::for_server(&Url::parse("https://mcp.invalid/").unwrap());
        // A name that leads to several places leads to the public ones alone.
        let mixed = parsed(&["127.0.0.1:1", "8.8.8.8:1", "10.0.0.1:1", "[::1]:1", "169.254.169.254:1"]);
        assert_eq!(admitted(&public, "as.test", mixed.clone()).await.unwrap(), parsed(&["8.8.8.8:1"]));
        for inside in ["127.0.0.1:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1", "169.254.169.254:1"] {
            let error = admitted(&public, "as.test", parsed(&[inside])).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::UrlRefused, "{inside}");
        }
        assert_eq!(admitted(&public, "mcp.invalid", mixed.clone()).await.unwrap(), mixed, "its own name");
        let local = Guard::for_server(&Url::parse("http://127.0.0.1/").unwrap());
        let kept = admitted(&local, "as.test", mixed).await.unwrap();
        assert_eq!(kept, parsed(&["127.0.0.1:1", "8.8.8.8:1", "[::1]:1"]));
    }

    #[test]
    fn f_050_both_families_come_early() {
        let parsed =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let addresses = parsed(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"]);
        assert_eq!(alternating(addresses), parsed(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]));
        let addresses = parsed(&["1.1.1.1:1", "1.1.1.2:1"]);
        assert_eq!(alternating(addresses.clone()), addresses);
        assert!(alternating(Vec::new()).is_empty());
        let many = vec![addresses[0]; 100];
        assert_eq!(alternating(many).len(), MAX_ADDRESSES);
    }

    #[tokio::test]
    async fn e14_the_family_that_answers_is_taken() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let closed = {
            let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            other.local_addr().unwrap()
        };
        assert_eq!(first_of(vec![closed, open]).await.unwrap().peer_addr().unwrap(), open);
        let refused = first_of(vec![closed]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(first_of(Vec::new()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn f_055_each_stretch_has_a_clock_of_its_own_and_names_itself() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port();
        let environment = Environment {
            vars: std::collections::BTreeMap::new(),
            cwd: "/".into(),
            home: None,
            platform: crate::environment::Platform::Unix,
        };
        let dialer = |proxy: Option<String>| {
            let proxy =
                proxy.map_or(ProxyChoice::Off, |url| ProxyChoice::Url(crate::secret::SafeUrl::new(url)));
            // Any certificate does: none is ever seen, and no roots have to be read.
            let tls = TlsSpec { insecure_skip_verify: true, ..TlsSpec::default() };
            Dialer::new(Some(tls), proxy, Arc::new(environment.clone()), Duration::from_millis(600))
        };
        let cases = [
            (
                format!("https://127.0.0.1:{port}/"),
                None,
                Phase::Tls,
                ErrorCode::ConnectFailed,
                "TLS handshake",
            ),
            (
                "http://nowhere.invalid/".to_owned(),
                None,
                Phase::Dns,
                ErrorCode::ConnectFailed,
                "nowhere.invalid cannot be resolved",
            ),
            (
                "https://a.test/".to_owned(),
                Some(format!("http://127.0.0.1:{port}")),
                Phase::Proxy,
                ErrorCode::ProxyFailed,
                "did not open a tunnel",
            ),
        ];
        for (url, proxy, phase, code, words) in cases {
            let dialer = dialer(proxy);
            assert_eq!(dialer.phase(), None);
            let url = Url::parse(&url).unwrap();
            let error = dialer.connect(&url, Detour::Requests).await.err().unwrap();
            assert_eq!((error.code(), error.facts().phase), (code, Some(phase)), "{error}");
            assert_eq!(error.facts().delivered, Some(Delivery::No));
            assert!(error.message().contains(words), "{error}");
        }
    }
}
