//! Which proxy a connection takes (PRX-01). Pure.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use crate::config::spec::ProxyChoice;
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError};
use crate::secret::Secret;
use crate::url_guard::is_loopback;

/// A proxy to go through. Prints without its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyTarget {
    /// Whether the way to the proxy itself is TLS.
    pub tls: bool,
    /// Host of the proxy; IPv6 addresses without brackets.
    pub host: String,
    /// Port of the proxy.
    pub port: u16,
    /// User name and password, percent-decoded.
    pub credentials: Option<(String, Secret<String>)>,
}

impl ProxyTarget {
    /// `http://host:port` without credentials.
    pub fn origin(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        if self.host.contains(':') {
            format!("{scheme}://[{}]:{}", self.host, self.port)
        } else {
            format!("{scheme}://{}:{}", self.host, self.port)
        }
    }

    /// Value of `Proxy-Authorization`, if the proxy wants a password.
    pub fn authorization(&self) -> Option<Secret<String>> {
        use base64::Engine;
        let (user, password) = self.credentials.as_ref()?;
        let pair = format!("{user}:{}", password.expose());
        Some(Secret::new(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))))
    }
}

impl fmt::Debug for ProxyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin())
    }
}

/// The proxy for a URL (`http`, `https`, `ws`, `wss`), or `None` for the straight way.
///
/// A proxy that was chosen by option is always used, loopback included. From the environment: lower-case
/// names win, `HTTPS_PROXY` counts for `https` and `wss`, `HTTP_PROXY` for `http` and `ws`, `ALL_PROXY` for
/// both; loopback and what `NO_PROXY` names go straight.
///
/// # Errors
/// `PROXY_FAILED` for a proxy that is no usable `http` or `https` URL.
pub fn proxy_for(
    url: &Url,
    choice: &ProxyChoice,
    environment: &Environment,
) -> Result<Option<ProxyTarget>, McpError> {
    match choice {
        ProxyChoice::Off => Ok(None),
        ProxyChoice::Url(proxy) => parse(proxy.expose(), "proxy").map(Some),
        ProxyChoice::Inherited => from_environment(url, environment),
    }
}

fn from_environment(url: &Url, environment: &Environment) -> Result<Option<ProxyTarget>, McpError> {
    let Some(host) = url.host() else { return Ok(None) };
    let secure = matches!(url.scheme(), "https" | "wss");
    let names: &[&str] = if secure {
        &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    } else if environment.get("REQUEST_METHOD").is_some() {
        // In a CGI program HTTP_PROXY is a header of the request, written by a stranger.
        &["http_proxy", "all_proxy", "ALL_PROXY"]
    } else {
        &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
    };
    let Some((name, proxy)) = first_set(environment, names) else { return Ok(None) };
    let exceptions = first_set(environment, &["no_proxy", "NO_PROXY"]).map_or("", |(_, list)| list);
    if is_loopback(&host) || exempt(&host, url.port_or_known_default(), exceptions) {
        return Ok(None);
    }
    parse(proxy, name).map(Some)
}

/// The first variable that holds something: its name and its value.
fn first_set<'a>(environment: &'a Environment, names: &[&'a str]) -> Option<(&'a str, &'a str)> {
    names.iter().find_map(|name| {
        let value = environment.get(name)?.trim();
        (!value.is_empty()).then_some((*name, value))
    })
}

/// Whether a list such as `*.corp.example, 10.0.0.0/8, build:8080` names a host and port.
fn exempt(host: &Host<&str>, port: Option<u16>, list: &str) -> bool {
    list.split([',', ' ', '\t', '\n', ';']).any(|entry| entry_fits(entry.trim(), host, port))
}

fn entry_fits(entry: &str, host: &Host<&str>, port: Option<u16>) -> bool {
    if entry.is_empty() {
        return false;
    }
    if entry == "*" {
        return true;
    }
    let (name, wanted) = split_port(entry);
    if wanted.is_some() && wanted != port {
        return false;
    }
    match host {
        Host::Domain(domain) => domain_fits(name, domain),
        Host::Ipv4(address) => address_fits(name, IpAddr::V4(*address)),
        Host::Ipv6(address) => {
            let address = address.to_ipv4_mapped().map_or(IpAddr::V6(*address), IpAddr::V4);
            address_fits(name, address)
        }
    }
}

/// `host:port`, `[v6]:port`; a bare IPv6 address has no port.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some(rest) = entry.strip_prefix('[') {
        let (address, tail) = rest.split_once(']').unwrap_or((rest, ""));
        return (address, tail.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match entry.split_once(':') {
        Some((name, port)) if !port.contains(':') => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

/// A name stands for itself and everything below it, with or without `.` or `*.` in front.
fn domain_fits(entry: &str, domain: &str) -> bool {
    let entry = entry.trim_start_matches('*').trim_start_matches('.').trim_end_matches('.');
    let domain = domain.trim_end_matches('.');
    if entry.is_empty() || entry.len() > domain.len() {
        return false;
    }
    let (head, tail) = domain.as_bytes().split_at(domain.len() - entry.len());
    tail.eq_ignore_ascii_case(entry.as_bytes()) && head.last().is_none_or(|byte| *byte == b'.')
}

fn address_fits(entry: &str, address: IpAddr) -> bool {
    match entry.split_once('/') {
        None => entry.parse().is_ok_and(|wanted: IpAddr| wanted == address),
        Some((network, length)) => match (network.parse(), length.parse()) {
            (Ok(network), Ok(length)) => in_network(address, network, length),
            _ => false,
        },
    }
}

fn in_network(address: IpAddr, network: IpAddr, length: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) if length <= 32 => {
            let shift = 32 - length;
            u64::from(address.to_bits()) >> shift == u64::from(network.to_bits()) >> shift
        }
        (IpAddr::V6(address), IpAddr::V6(network)) if length <= 128 => {
            let differing = address.to_bits() ^ network.to_bits();
            length == 0 || differing >> (128 - length) == 0
        }
        _ => false,
    }
}

fn parse(text: &str, named: &str) -> Result<ProxyTarget, McpError> {
    // The value itself may hold a password and is not repeated.
    let refused = |why: &str| McpError::new(ErrorCode::ProxyFailed, format!("{named} {why}"));
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&with_scheme).map_err(|_| refused("is not the URL of a proxy"))?;
    let tls = match url.scheme() {
        "http" => false,
        "https" => true,
        _ => return Err(refused("names a kind of proxy that is not supported; use http or https")),
    };
    let host = match url.host() {
        Some(Host::Domain(name)) => name.to_owned(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        None => return Err(refused("names no host")),
    };
    // As everywhere: a proxy without a port in its URL listens where its scheme says.
    let port = url.port_or_known_default().unwrap_or(80);
    let credentials = (!url.username().is_empty() || url.password().is_some())
        .then(|| (decoded(url.username()), Secret::new(decoded(url.password().unwrap_or_default()))));
    Ok(ProxyTarget { tls, host, port, credentials })
}

/// Percent-decoded; what is no escape stays.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escape = (*byte == b'%')
            .then(|| text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()))
            .flatten();
        plain.push(escape.unwrap_or(*byte));
        at += if escape.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests;
