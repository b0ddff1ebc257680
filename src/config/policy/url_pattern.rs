//! URLs in policy entries: parsed by the WHATWG rules, compared part by part. (POL-05)
//!
//! `*` in the host spans labels, in the path it spans `/`, as the port it is any port. A pattern without a
//! port means the default one. `ws` counts as `http`, `wss` as `https`. User name and password never count.
//! Unreserved characters are compared decoded, `%2F` stays what it is. A query counts only where the pattern
//! has one. An allow pattern without a path is the root alone; a deny pattern without one is the whole host.

use std::fmt::Write as _;

use url::{Host, Url};

use crate::name::pattern::fits;

/// A URL as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanonicalUrl {
    scheme: String,
    host: String,
    /// More than one dot stood at the end of the host.
    odd_host: bool,
    port: u16,
    path: String,
    query: Option<String>,
}

impl CanonicalUrl {
    /// Parses an absolute URL with a host.
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text.trim()).ok()?;
        let (host, odd_host) = canonical_host(&url)?;
        Some(Self {
            scheme: canonical_scheme(url.scheme()).to_owned(),
            host,
            odd_host,
            port: url.port_or_known_default()?,
            path: decode_unreserved(url.path()),
            query: url.query().map(decode_unreserved),
        })
    }
}

fn canonical_scheme(scheme: &str) -> &str {
    match scheme {
        "ws" => "http",
        "wss" => "https",
        other => other,
    }
}

/// Host without dots at its end, and whether there was more than one; an IPv4 address in IPv6 form is IPv4.
fn canonical_host(url: &Url) -> Option<(String, bool)> {
    let host = match url.host()? {
        Host::Domain(name) => name.to_ascii_lowercase(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => {
            address.to_ipv4_mapped().map_or_else(|| format!("[{address}]"), |inner| inner.to_string())
        }
    };
    let bare = host.trim_end_matches('.');
    Some((bare.to_owned(), host.len() > bare.len() + 1))
}

/// Decodes what needs no encoding and writes the rest in capitals.
fn decode_unreserved(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                out.push(char::from(byte));
                rest = &rest[at + 3..];
            }
            Some(byte) => {
                let _ = write!(out, "%{byte:02X}");
                rest = &rest[at + 3..];
            }
            None => {
                out.push('%');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Any,
    Default,
    Exactly(u16),
}

/// A URL with `*`.
#[derive(Clone, Debug)]
pub struct UrlPattern {
    scheme: String,
    host: String,
    port: Port,
    /// `None` where the pattern ends with the host.
    path: Option<String>,
    query: Option<String>,
}

impl UrlPattern {
    /// Reads a pattern; `None` where it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "*" {
            let any = || "*".to_owned();
            return Some(Self {
                scheme: any(),
                host: any(),
                port: Port::Any,
                path: Some(any()),
                query: None,
            });
        }
        let (scheme, rest) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let known = scheme == "*" || matches!(scheme.as_str(), "http" | "https" | "ws" | "wss");
        if !known {
            return None;
        }
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        // A user name in a pattern names no host.
        if authority.contains('@') {
            return None;
        }
        let (host, port) = split_port(authority)?;
        let parsed_as = if scheme == "*" { "https" } else { canonical_scheme(&scheme) };
        let whole = Url::parse(&format!("{parsed_as}://{host}{tail}")).ok()?;
        let (host, odd_host) = canonical_host(&whole)?;
        if odd_host || host.is_empty() {
            return None;
        }
        Some(Self {
            scheme: canonical_scheme(&scheme).to_owned(),
            host,
            port,
            path: (!tail.is_empty()).then(|| decode_unreserved(whole.path())),
            query: whole.query().map(decode_unreserved),
        })
    }

    /// Whether an allow entry lets the URL through.
    pub fn allows(&self, url: &CanonicalUrl) -> bool {
        !url.odd_host && self.fits(url, self.path.as_deref().unwrap_or("/"))
    }

    /// Whether a deny entry keeps the URL out.
    pub fn denies(&self, url: &CanonicalUrl) -> bool {
        self.fits(url, self.path.as_deref().unwrap_or("*"))
    }

    fn fits(&self, url: &CanonicalUrl, path: &str) -> bool {
        let default = if url.scheme == "http" { 80 } else { 443 };
        let port = match self.port {
            Port::Any => true,
            Port::Default => url.port == default,
            Port::Exactly(port) => url.port == port,
        };
        let query =
            self.query.as_ref().is_none_or(|query| fits(query, url.query.as_deref().unwrap_or_default()));
        let scheme = self.scheme == "*" || self.scheme == url.scheme;
        scheme && port && query && fits(&self.host, &url.host) && fits(path, &url.path)
    }
}

/// Host and port of an authority; the host of an IPv6 address keeps its brackets.
fn split_port(authority: &str) -> Option<(&str, Port)> {
    let after_address = authority.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = authority[after_address..].find(':') else { return Some((authority, Port::Default)) };
    let (host, port) = authority.split_at(after_address + colon);
    let port = match &port[1..] {
        "" => Port::Default,
        "*" => Port::Any,
        digits => Port::Exactly(digits.parse().ok()?),
    };
    Some((host, port))
}
