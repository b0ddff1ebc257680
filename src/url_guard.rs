//! Which URLs that a server or its metadata names may be used (BEY-07). Pure.
//!
//! Owns: schemes, credentials, origins and address classes, for literals here and for resolved addresses through
//! [`Guard::admits`]. Three questions: where *we* may go for a server ([`Guard`], one per configured server: what that
//! server's own address allows), where a *person* may be sent ([`check_visit`]), and where a server moves what is its
//! own ([`lead`]: endpoints of event streams, redirects, hop by hop).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use crate::error::{ErrorCode, McpError};
use crate::secret::SafeUrl;

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The internet.
    Public,
    /// The network this machine is in.
    Private,
    /// This machine.
    Loopback,
    /// Link-local, metadata services, multicast, reserved: nowhere that a server may send us.
    Reserved,
}

/// The class of an address; mapped and translated forms count as what they carry.
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => Reach::Loopback,
        // Who connects to "any address" reaches this machine.
        (0, 0, 0) if address.is_unspecified() => Reach::Loopback,
        // Carrier-grade addresses (100.64/10) belong to the network this machine is in.
        (10, ..) | (192, 168, _) | (172, 16..=31, _) | (100, 64..=127, _) => Reach::Private,
        (0 | 224..=255, ..)
        | (169, 254, _)
        | (192, 0, 0 | 2)
        | (192, 88, 99)
        | (198, 18 | 19, _)
        | (198, 51, 100)
        | (203, 0, 113) => Reach::Reserved,
        _ => Reach::Public,
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    if address.is_loopback() || address.is_unspecified() {
        return Reach::Loopback;
    }
    if let Some(v4) = address.to_ipv4_mapped() {
        return reach_v4(v4);
    }
    if let Some(v4) = carried_v4(address) {
        // A way round through somebody's gateway is no way to this machine.
        let class = reach_v4(v4);
        return if class == Reach::Loopback { Reach::Reserved } else { class };
    }
    match address.segments() {
        [0xfc00..=0xfdff, ..] => Reach::Private,
        // Teredo carries an address nobody looks at; 2001:2::/48 and the others are for tests and documents.
        [0x2001, 0 | 0x0db8, ..] | [0x2001, 2, 0, ..] | [0x3fff, 0..=0x0fff, ..] => Reach::Reserved,
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Reserved,
    }
}

/// The IPv4 address inside a compatible, NAT64 or 6to4 address.
fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(join(high, low))
        }
        _ => None,
    }
}

/// What one server may lead us to.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The class that the server's own address has by its spelling; names count as public.
    own: Reach,
    /// The server's own host, which is always allowed.
    host: Option<Host<String>>,
}

impl Guard {
    /// The guard of the server behind `url`.
    pub fn for_server(url: &Url) -> Self {
        let own = url.host().as_ref().and_then(spelled_reach).unwrap_or(Reach::Public);
        Self { own, host: url.host().map(|host| host.to_owned()) }
    }

    /// Whether an address may be connected to.
    pub fn admits(&self, address: IpAddr) -> bool {
        match reach(address) {
            Reach::Public => true,
            Reach::Reserved => false,
            // A server in the network of this machine does not lead to the machine itself, nor the other way.
            own => own == self.own,
        }
    }

    /// Whether the addresses behind the name may be anything: it is the configured server itself.
    pub fn trusts_name(&self, name: &str) -> bool {
        matches!(&self.host, Some(Host::Domain(own)) if own.eq_ignore_ascii_case(name))
    }

    /// The server's own name, if it has one.
    pub fn name(&self) -> Option<&str> {
        match &self.host {
            Some(Host::Domain(name)) => Some(name),
            _ => None,
        }
    }

    /// Whether the server runs on this machine.
    pub fn is_loopback(&self) -> bool {
        self.own == Reach::Loopback
    }

    /// Checks a URL that is fetched or posted to; `what` names it for people.
    ///
    /// # Errors
    /// `URL_REFUSED`.
    pub fn check(&self, text: &str, what: &str) -> Result<Url, McpError> {
        let refused = |why: &str| {
            let shown: String = SafeUrl::new(text).to_string().chars().take(200).collect();
            let shown = crate::unicode::clean_str_lossy(&shown);
            McpError::new(ErrorCode::UrlRefused, format!("{what} {shown:?} is not used: {why}"))
        };
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(refused("it holds spaces or control characters"));
        }
        let url = Url::parse(text).map_err(|_| refused("it is no URL"))?;
        if has_credentials(&url) {
            return Err(refused("it holds a user name"));
        }
        let literal = url.host().as_ref().and_then(spelled_reach);
        match url.scheme() {
            "https" => {}
            "http" if literal == Some(Reach::Loopback) && self.is_loopback() => {}
            "http" => return Err(refused("only https is, or http to this machine from a server on it")),
            _ => return Err(refused("only https is")),
        }
        // The rest of the path would be the host for others: `https://host//evil`.
        if url.host_str().is_none_or(str::is_empty) {
            return Err(refused("it has no host"));
        }
        if self.host.is_some() && url.host().map(|host| host.to_owned()) == self.host {
            return Ok(url);
        }
        match literal {
            Some(Reach::Reserved) => Err(refused("its address is reserved")),
            Some(class @ (Reach::Private | Reach::Loopback)) if class != self.own => {
                Err(refused("its address is in a private network and the server's is not"))
            }
            _ => Ok(url),
        }
    }
}

/// Checks a URL that a person is asked to visit: `https`, or `http` on this machine (ELI-02, mcp:ELI-32).
///
/// # Errors
/// Why it may not be offered.
pub fn check_visit(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "it is no absolute URL")?;
    let class = url.host().as_ref().and_then(spelled_reach);
    match url.scheme() {
        "https" => {}
        "http" if class == Some(Reach::Loopback) => {}
        "http" => return Err("http is only offered for this machine"),
        _ => return Err("only https may be offered"),
    }
    // What stands before an @ looks like the host and is not.
    if has_credentials(&url) {
        return Err("it holds a user name or password");
    }
    if class == Some(Reach::Reserved) {
        return Err("its address is reserved");
    }
    Ok(url)
}

/// Why a server does not lead where it wants to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Astray {
    /// It is no URL, or one with control characters.
    NoUrl,
    /// It is elsewhere: the origin, as it may be shown.
    Elsewhere(String),
    /// It holds a user name or password.
    Credentials,
}

/// Where `text` leads from `base`: never to another origin, never with credentials (SSE-01, HTTP-03, B-101).
///
/// # Errors
/// Why it leads nowhere.
pub fn lead(base: &Url, text: &str) -> Result<Url, Astray> {
    if text.chars().any(char::is_control) {
        return Err(Astray::NoUrl);
    }
    let target = base.join(text).map_err(|_| Astray::NoUrl)?;
    if base.origin() != target.origin() || !base.origin().is_tuple() {
        return Err(Astray::Elsewhere(target.origin().ascii_serialization()));
    }
    if has_credentials(&target) { Err(Astray::Credentials) } else { Ok(target) }
}

fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// The address under which the web knows a server: that of a WebSocket is its upgrade's.
pub fn web_address(url: &Url) -> Url {
    let mut address = url.clone();
    let scheme = match url.scheme() {
        "ws" => "http",
        "wss" => "https",
        _ => return address,
    };
    // Both are of the kind that may be exchanged.
    let _ = address.set_scheme(scheme);
    address
}

/// Whether a host is this machine, by its spelling: the one answer for policy, proxies, editors, logins and visits.
pub fn is_loopback(host: &Host<&str>) -> bool {
    spelled_reach(host) == Some(Reach::Loopback)
}

/// The class a host has by its spelling; `None` for names that have to be resolved.
fn spelled_reach(host: &Host<&str>) -> Option<Reach> {
    match host {
        Host::Ipv4(address) => Some(reach_v4(*address)),
        Host::Ipv6(address) => Some(reach_v6(*address)),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            (name == "localhost" || name.ends_with(".localhost")).then_some(Reach::Loopback)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bey_07_sec_03_address_classes() {
        for (text, expected) in [
            ("8.8.8.8", Reach::Public),
            ("127.9.9.9", Reach::Loopback),
            ("10.0.0.1", Reach::Private),
            ("172.31.255.1", Reach::Private),
            ("172.32.0.1", Reach::Public),
            ("192.168.3.4", Reach::Private),
            ("100.64.0.1", Reach::Private),
            ("169.254.169.254", Reach::Reserved),
            ("0.0.0.0", Reach::Loopback),
            ("0.0.0.1", Reach::Reserved),
            ("224.0.0.1", Reach::Reserved),
            ("255.255.255.255", Reach::Reserved),
            ("::1", Reach::Loopback),
            ("::", Reach::Loopback),
            ("::127.0.0.1", Reach::Reserved),
            ("64:ff9b::7f00:1", Reach::Reserved),
            ("64:ff9b::a00:1", Reach::Private),
            ("::ffff:127.0.0.1", Reach::Loopback),
            ("::ffff:10.0.0.1", Reach::Private),
            ("64:ff9b::a9fe:a9fe", Reach::Reserved),
            ("2002:7f00:1::", Reach::Reserved),
            ("fc00::1", Reach::Private),
            ("fd12::1", Reach::Private),
            ("fe80::1", Reach::Reserved),
            ("ff02::1", Reach::Reserved),
            ("2001:db8::1", Reach::Reserved),
            ("2001:0:7f00:1::", Reach::Reserved),
            ("3fff:fff::1", Reach::Reserved),
            ("64:ff9b:1::a00:1", Reach::Reserved),
            ("fec0::1", Reach::Reserved),
            ("2001:4860:4860::8888", Reach::Public),
            ("2606:4700::1111", Reach::Public),
        ] {
            assert_eq!(reach(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn bey_07_b_122_g22_which_urls_a_server_may_name() {
        let guard = |text: &str| Guard::for_server(&Url::parse(text).unwrap());
        let public = guard("https://mcp.example/x");
        let local = guard("http://127.0.0.1:3000/mcp");
        let intranet = guard("https://10.1.1.1/mcp");
        for (text, by_public, by_local, by_intranet) in [
            ("https://as.example/token", true, true, true),
            ("http://as.example/token", false, false, false),
            ("http://127.0.0.1:9/", false, true, false),
            ("http://localhost:9/", false, true, false),
            ("http://[::1]:9/", false, true, false),
            ("https://127.1/", false, true, false),
            ("https://0x7f000001/", false, true, false),
            ("https://10.0.0.7/", false, false, true),
            ("https://169.254.169.254/latest", false, false, false),
            ("http://169.254.169.254/", false, false, false),
            ("https://me:pw@as.example/", false, false, false),
            ("https://as.example//evil", true, true, true),
            ("file:///etc/passwd", false, false, false),
            ("javascript:alert(1)", false, false, false),
            ("-flag", false, false, false),
            ("https://a.example/\n", false, false, false),
            ("ftp://a.example/", false, false, false),
        ] {
            for (guard, expected, name) in [
                (&public, by_public, "public"),
                (&local, by_local, "local"),
                (&intranet, by_intranet, "intranet"),
            ] {
                assert_eq!(guard.check(text, "the URL").is_ok(), expected, "{name} {text}");
            }
        }
        let error = public.check("https://u:s3cret-pw@a.example/", "the token endpoint").unwrap_err();
        assert!(!error.message().contains("s3cret"), "{}", error.message());
        assert_eq!(error.code(), ErrorCode::UrlRefused);
    }

    #[test]
    fn bey_07_eli_02_where_a_person_may_be_sent() {
        for text in ["https://a.example/x", "http://localhost:1/", "http://[::1]/", "https://10.0.0.1/"] {
            assert!(check_visit(text).is_ok(), "{text}");
        }
        for text in [
            "http://a.example/",
            "https://169.254.169.254/",
            "http://[2002:7f00:1::]/",
            "https://me@a.example/",
            "file:///x",
            "x",
        ] {
            assert!(check_visit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bey_07_b_101_a_server_moves_within_its_origin() {
        let base = Url::parse("https://a.example/sse").unwrap();
        assert_eq!(lead(&base, "/m?x=1").unwrap().as_str(), "https://a.example/m?x=1");
        let elsewhere = |origin: &str| Err(Astray::Elsewhere(origin.to_owned()));
        assert_eq!(lead(&base, "//b.example/m"), elsewhere("https://b.example"));
        assert_eq!(lead(&base, "http://a.example/m"), elsewhere("http://a.example"));
        assert_eq!(lead(&base, "https://me:pw@a.example/m"), Err(Astray::Credentials));
        assert_eq!(lead(&base, "/m\n/x"), Err(Astray::NoUrl));
        assert_eq!(lead(&base, "https://[oops"), Err(Astray::NoUrl));
    }

    #[test]
    fn ws_01_the_web_address_of_a_socket() {
        for (text, expected) in [
            ("wss://a.example:8443/mcp?x", "https://a.example:8443/mcp?x"),
            ("ws://127.0.0.1:5/", "http://127.0.0.1:5/"),
            ("https://a.example/", "https://a.example/"),
        ] {
            assert_eq!(web_address(&Url::parse(text).unwrap()).as_str(), expected);
        }
    }

    #[test]
    fn g22_resolved_addresses() {
        let public = Guard::for_server(&Url::parse("https://mcp.example/x").unwrap());
        assert!(public.admits("8.8.8.8".parse().unwrap()));
        for text in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1"] {
            assert!(!public.admits(text.parse().unwrap()), "{text}");
        }
        assert!(public.trusts_name("MCP.example"));
    }
}
