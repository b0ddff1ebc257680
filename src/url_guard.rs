//! Which URLs that a server or its metadata names may be used (BEY-07). Pure.
//!
//! Owns: schemes, credentials and address classes, for literals here and for resolved addresses through
//! [`Guard::admits`]. One guard belongs to one configured server: what that server's own address allows.

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
    if address.is_loopback() {
        return Reach::Loopback;
    }
    if let Some(v4) = carried_v4(address) {
        return reach_v4(v4);
    }
    match address.segments()[0] {
        0xfc00..=0xfdff => Reach::Private,
        0x2000..=0x3fff if address.segments()[..2] != [0x2001, 0x0db8] => Reach::Public,
        _ => Reach::Reserved,
    }
}

/// The IPv4 address inside a mapped, compatible, NAT64 or 6to4 address.
fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(join(high, low))
        }
        [0x2002, high, low, ..] => Some(join(high, low)),
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
        let host = url.host().map(|host| host.to_owned());
        Self { own: spelled_reach(url).unwrap_or(Reach::Public), host }
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
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("it holds a user name"));
        }
        let literal = spelled_reach(&url);
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

/// The class a URL's host has by its spelling; `None` for names that have to be resolved.
fn spelled_reach(url: &Url) -> Option<Reach> {
    match url.host()? {
        Host::Ipv4(address) => Some(reach_v4(address)),
        Host::Ipv6(address) => Some(reach_v6(address)),
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
            ("0.0.0.0", Reach::Reserved),
            ("224.0.0.1", Reach::Reserved),
            ("255.255.255.255", Reach::Reserved),
            ("::1", Reach::Loopback),
            ("::", Reach::Reserved),
            ("::ffff:127.0.0.1", Reach::Loopback),
            ("::ffff:10.0.0.1", Reach::Private),
            ("64:ff9b::a9fe:a9fe", Reach::Reserved),
            ("2002:7f00:1::", Reach::Loopback),
            ("fc00::1", Reach::Private),
            ("fd12::1", Reach::Private),
            ("fe80::1", Reach::Reserved),
            ("ff02::1", Reach::Reserved),
            ("2001:db8::1", Reach::Reserved),
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
    fn g22_resolved_addresses() {
        let public = Guard::for_server(&Url::parse("https://mcp.example/x").unwrap());
        assert!(public.admits("8.8.8.8".parse().unwrap()));
        for text in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1"] {
            assert!(!public.admits(text.parse().unwrap()), "{text}");
        }
        assert!(public.trusts_name("MCP.example"));
    }
}
