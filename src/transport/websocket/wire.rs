//! A connection to a host and port: TCP by both address families, the detour through a proxy, TLS.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::WebSocketRecipe;
use super::reply_head::{HeadProblem, read_head};
use crate::error::{ErrorCode, McpError};
use crate::transport::connector::{ProxyTarget, proxy_for, tls, tls_config};
use crate::unicode;

/// How long an address may keep quiet before the next one is tried beside it (F-050).
const STAGGER: Duration = Duration::from_millis(250);
/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 16;
/// Longest head of a proxy's answer (F-053).
const MAX_PROXY_HEAD: usize = 16 * 1024;
/// Longest wait for a proxy's answer; a shorter connect limit shortens it.
const PROXY_PATIENCE: Duration = Duration::from_secs(15);

/// Any byte stream.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection that counts what it receives: any byte is a sign of life.
pub(super) struct Wire {
    stream: Box<dyn ByteStream>,
    received: Arc<AtomicU64>,
}

impl Wire {
    fn new(stream: impl ByteStream + 'static) -> Self {
        Self { stream: Box::new(stream), received: Arc::default() }
    }

    /// The count of received bytes.
    pub(super) fn received(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.received)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.received.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        outcome
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Connects to the server of a recipe, through its proxy and with TLS where its URL says so.
///
/// # Errors
/// `CONNECT_FAILED`, `PROXY_FAILED`, `TLS_FAILED`.
pub(super) async fn connect(url: &Url, recipe: &WebSocketRecipe) -> Result<Wire, McpError> {
    let (Some(host), Some(port)) = (bare_host(url), url.port_or_known_default()) else {
        return Err(McpError::new(ErrorCode::ConfigInvalid, "the URL has no host"));
    };
    let trust = if url.scheme() == "wss" { Some(trust(recipe).await?) } else { None };
    let mut wire = match proxy_for(url, &recipe.proxy, &recipe.environment)? {
        None => Wire::new(dial(&host, port).await.map_err(|error| unreachable_host(&host, port, &error))?),
        Some(proxy) => {
            let patience = PROXY_PATIENCE.min(recipe.connect / 4 * 3);
            tokio::time::timeout(patience, tunnel(&proxy, recipe, url, port)).await.unwrap_or_else(|_| {
                let message = format!(
                    "the proxy {} did not open a tunnel within {} ms",
                    proxy.origin(),
                    patience.as_millis()
                );
                Err(McpError::new(ErrorCode::ProxyFailed, message))
            })?
        }
    };
    if let Some(trust) = trust {
        wire = secure(wire, &host, trust).await?;
    }
    Ok(wire)
}

/// The host of a URL; IPv6 addresses without brackets.
fn bare_host(url: &Url) -> Option<String> {
    url.host().map(|host| match host {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    })
}

/// The TLS configuration; reads files, so it is made off the core threads.
async fn trust(recipe: &WebSocketRecipe) -> Result<Arc<ClientConfig>, McpError> {
    let (spec, environment) = (recipe.tls.clone(), Arc::clone(&recipe.environment));
    tokio::task::spawn_blocking(move || tls_config(spec.as_ref(), &environment))
        .await
        .unwrap_or_else(|_| Err(McpError::new(ErrorCode::Internal, "the task that reads certificates broke")))
}

async fn secure(wire: Wire, host: &str, trust: Arc<ClientConfig>) -> Result<Wire, McpError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| McpError::new(ErrorCode::TlsFailed, "the host's name cannot be in a certificate"))?;
    match TlsConnector::from(trust).connect(name, wire).await {
        Ok(stream) => Ok(Wire::new(stream)),
        Err(error) => Err(match tls::explain(&error) {
            Some(why) => McpError::new(ErrorCode::TlsFailed, why),
            None => {
                McpError::new(ErrorCode::ConnectFailed, format!("the TLS handshake was interrupted: {error}"))
            }
        }),
    }
}

/// A TCP connection to the first address that answers.
async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut addresses = alternating(tokio::net::lookup_host((host, port)).await?.collect()).into_iter();
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
                Ok(stream) => {
                    // Small frames are not worth waiting for company; where it fails they are just slower.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
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

fn unreachable_host(host: &str, port: u16, error: &io::Error) -> McpError {
    let shown = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    McpError::new(ErrorCode::ConnectFailed, format!("cannot connect to {shown}: {error}"))
}

/// A tunnel through a proxy, by HTTP CONNECT (WS-02).
async fn tunnel(
    proxy: &ProxyTarget,
    recipe: &WebSocketRecipe,
    url: &Url,
    port: u16,
) -> Result<Wire, McpError> {
    let failed =
        |what: String| McpError::new(ErrorCode::ProxyFailed, format!("the proxy {} {what}", proxy.origin()));
    let stream =
        dial(&proxy.host, proxy.port).await.map_err(|error| failed(format!("cannot be reached: {error}")))?;
    let mut wire = Wire::new(stream);
    if proxy.tls {
        wire = secure(wire, &proxy.host, trust(recipe).await?)
            .await
            .map_err(|error| failed(format!("offers no usable TLS: {}", error.message())))?;
    }
    let authority = format!("{}:{port}", url.host_str().unwrap_or_default());
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some(login) = proxy.authorization() {
        request.push_str("Proxy-Authorization: ");
        request.push_str(login.expose());
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    let broken = |error: io::Error| failed(format!("broke the connection off: {error}"));
    wire.write_all(request.as_bytes()).await.map_err(broken)?;
    wire.flush().await.map_err(broken)?;
    let head = read_head(&mut wire, MAX_PROXY_HEAD).await.map_err(|problem| failed(describe(&problem)))?;
    match head.status {
        200..=299 if head.rest.is_empty() => Ok(wire),
        200..=299 => Err(failed("sent more than its answer".to_owned())),
        407 => Err(failed("asks for a login (407); put user name and password into its URL".to_owned())
            .with(|facts| facts.status = Some(407))),
        status => {
            let reason = unicode::clean_str_lossy(&head.reason);
            Err(failed(format!("refused the tunnel: {status} {reason}"))
                .with(|facts| facts.status = Some(status)))
        }
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
    async fn f_040_a_refused_connection_says_so() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error = dial("127.0.0.1", port).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
