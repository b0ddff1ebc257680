//! Metadata of resources (RFC 9728) and authorization servers (RFC 8414, `OpenID` Connect): where it may be, what it
//! says and whether it may be used. Pure.

use serde_json::Value;
use url::Url;

use crate::url_guard::web_address;

/// The well-known part for resources.
const RESOURCE: &str = "oauth-protected-resource";
/// The well-known part for authorization servers.
const SERVER: &str = "oauth-authorization-server";
/// The same in `OpenID` Connect.
const OPENID: &str = "openid-configuration";
/// Entries of a list that are looked at.
const MOST_ENTRIES: usize = 200;

/// What a server says of itself as a protected resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceMetadata {
    /// Its identifier.
    pub resource: Option<String>,
    /// Issuers of tokens for it.
    pub authorization_servers: Vec<String>,
    /// Scopes there are.
    pub scopes_supported: Vec<String>,
}

/// What an authorization server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerMetadata {
    /// Its identity, as it spells it.
    pub issuer: String,
    /// Where people go.
    pub authorization_endpoint: Option<String>,
    /// Where tokens are had.
    pub token_endpoint: Option<String>,
    /// Where clients register.
    pub registration_endpoint: Option<String>,
    /// Where tokens are given back.
    pub revocation_endpoint: Option<String>,
    /// Scopes there are; `None` where it does not say.
    pub scopes_supported: Option<Vec<String>>,
    /// PKCE methods; `None` where it does not say.
    pub pkce_methods: Option<Vec<String>>,
    /// Grants there are; `None` where it does not say.
    pub grant_types: Option<Vec<String>>,
    /// Ways for clients to prove who they are; `None` where it does not say.
    pub auth_methods: Option<Vec<String>>,
    /// Takes URLs of metadata documents as client ids.
    pub takes_metadata_urls: bool,
    /// Names itself in its answers (RFC 9207).
    pub names_itself: bool,
}

/// Where the metadata of the resource behind `server` may be, in order (mcp:AUTH-12, AUTH-13).
pub fn resource_places(server: &Url) -> Vec<Url> {
    let mut places = Vec::new();
    let path = server.path().trim_end_matches('/');
    if !path.is_empty() {
        places.push(well_known(server, RESOURCE, path));
    }
    places.push(well_known(server, RESOURCE, ""));
    places
}

/// Where the metadata of an issuer may be, in order (mcp:AUTH-18).
pub fn issuer_places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    if path.is_empty() {
        return vec![well_known(issuer, SERVER, ""), well_known(issuer, OPENID, "")];
    }
    let mut appended = issuer.clone();
    appended.set_path(&format!("{path}/.well-known/{OPENID}"));
    appended.set_query(None);
    appended.set_fragment(None);
    vec![well_known(issuer, SERVER, path), well_known(issuer, OPENID, path), appended]
}

fn well_known(base: &Url, kind: &str, path: &str) -> Url {
    let mut url = base.clone();
    let path = path.trim_start_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    url.set_path(&format!("/.well-known/{kind}{slash}{path}"));
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Reads metadata of a resource; anything of the wrong type is left out.
pub fn read_resource(document: &Value) -> ResourceMetadata {
    ResourceMetadata {
        resource: text(document, "resource"),
        authorization_servers: texts(document, "authorization_servers").unwrap_or_default(),
        scopes_supported: scopes(texts(document, "scopes_supported").unwrap_or_default()),
    }
}

/// Reads metadata of an authorization server; one schema for both kinds of documents (A-6, G2).
pub fn read_server(document: &Value) -> ServerMetadata {
    let yes = |name: &str| document.get(name).and_then(Value::as_bool).unwrap_or(false);
    ServerMetadata {
        issuer: text(document, "issuer").unwrap_or_default(),
        authorization_endpoint: text(document, "authorization_endpoint"),
        token_endpoint: text(document, "token_endpoint"),
        registration_endpoint: text(document, "registration_endpoint"),
        revocation_endpoint: text(document, "revocation_endpoint"),
        scopes_supported: texts(document, "scopes_supported").map(scopes),
        pkce_methods: texts(document, "code_challenge_methods_supported"),
        grant_types: texts(document, "grant_types_supported"),
        auth_methods: texts(document, "token_endpoint_auth_methods_supported"),
        takes_metadata_urls: yes("client_id_metadata_document_supported"),
        names_itself: yes("authorization_response_iss_parameter_supported"),
    }
}

/// The endpoints of a server of 2025-03-26 that has no metadata at all (mcp:AUTH-20).
pub fn guessed(origin: &Url) -> ServerMetadata {
    let at = |path: &str| {
        let mut url = origin.clone();
        url.set_path(path);
        Some(url.to_string())
    };
    ServerMetadata {
        issuer: origin.origin().ascii_serialization(),
        authorization_endpoint: at("/authorize"),
        token_endpoint: at("/token"),
        registration_endpoint: at("/register"),
        pkce_methods: Some(vec!["S256".to_owned()]),
        ..ServerMetadata::default()
    }
}

/// Scheme, host and port of a URL alone.
pub fn origin(url: &Url) -> Url {
    let mut origin = url.clone();
    origin.set_path("/");
    origin.set_query(None);
    origin.set_fragment(None);
    origin
}

/// Whether a resource may call itself `claimed` when it is reached at `server`: the same origin, and a path that
/// is the server's or an ancestor of it by segments (mcp:AUTH-14, B-134).
pub fn may_claim(claimed: &str, server: &Url) -> bool {
    let Ok(url) = Url::parse(claimed).map(|url| web_address(&url)) else { return false };
    if url.origin() != server.origin() || !url.username().is_empty() || url.fragment().is_some() {
        return false;
    }
    if let Some(query) = url.query()
        && server.query() != Some(query)
    {
        return false;
    }
    let claimed = url.path().trim_end_matches('/');
    let own = server.path().trim_end_matches('/');
    own == claimed || own.strip_prefix(claimed).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether metadata for `asked` may say it is of `named`: the same text; a slash after a host alone does not count
/// (mcp:AUTH-19, A-3).
pub fn same_issuer(asked: &str, named: &str) -> bool {
    if asked == named {
        return true;
    }
    let bare = |text: &str| text.strip_suffix('/').unwrap_or(text).to_owned();
    let host_alone = |text: &str| {
        text.split_once("://")
            .is_some_and(|(_, rest)| !bare(rest).contains('/') && !rest.contains(['?', '#']))
    };
    host_alone(asked) && host_alone(named) && bare(asked) == bare(named)
}

/// The URI of a server that has no metadata: canonical, without fragment (mcp:AUTH-43).
pub fn canonical_resource(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    let text = url.to_string();
    // A root has no slash of its own; the URL library adds one.
    if url.path() == "/" && url.query().is_none() { text.trim_end_matches('/').to_owned() } else { text }
}

fn text(document: &Value, name: &str) -> Option<String> {
    document.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn texts(document: &Value, name: &str) -> Option<Vec<String>> {
    let items = document.get(name)?.as_array()?;
    Some(items.iter().take(MOST_ENTRIES).filter_map(Value::as_str).map(str::to_owned).collect())
}

fn scopes(list: Vec<String>) -> Vec<String> {
    list.into_iter().filter(|scope| is_scope(scope)).collect()
}

/// Whether a text is one scope (RFC 6749 §3.3).
pub fn is_scope(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 1_000
        && text.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// The scopes of a list separated by spaces.
pub fn split_scopes(text: &str) -> Vec<String> {
    text.split(' ').filter(|scope| is_scope(scope)).take(MOST_ENTRIES).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn shown(urls: Vec<Url>) -> Vec<String> {
        urls.into_iter().map(String::from).collect()
    }

    #[test]
    fn g1_auth_12_places_of_resource_metadata() {
        for (server, expected) in [
            (
                "https://a.test/mcp?x=1#f",
                vec![
                    "https://a.test/.well-known/oauth-protected-resource/mcp",
                    "https://a.test/.well-known/oauth-protected-resource",
                ],
            ),
            ("https://a.test/", vec!["https://a.test/.well-known/oauth-protected-resource"]),
            (
                "https://a.test:8443/deep/mcp/",
                vec![
                    "https://a.test:8443/.well-known/oauth-protected-resource/deep/mcp",
                    "https://a.test:8443/.well-known/oauth-protected-resource",
                ],
            ),
        ] {
            assert_eq!(shown(resource_places(&url(server))), expected, "{server}");
        }
    }

    #[test]
    fn g2_auth_18_places_of_server_metadata() {
        for (issuer, expected) in [
            (
                "https://as.test",
                vec![
                    "https://as.test/.well-known/oauth-authorization-server",
                    "https://as.test/.well-known/openid-configuration",
                ],
            ),
            (
                "https://as.test/t1/",
                vec![
                    "https://as.test/.well-known/oauth-authorization-server/t1",
                    "https://as.test/.well-known/openid-configuration/t1",
                    "https://as.test/t1/.well-known/openid-configuration",
                ],
            ),
        ] {
            assert_eq!(shown(issuer_places(&url(issuer))), expected, "{issuer}");
        }
    }

    #[test]
    fn b_134_auth_14_what_a_resource_may_call_itself() {
        let server = url("https://a.test/api123/mcp");
        for (claimed, expected) in [
            ("https://a.test/api123/mcp", true),
            ("https://a.test/api123/mcp/", true),
            ("https://a.test/api123", true),
            ("https://a.test", true),
            ("https://A.test/", true),
            ("https://a.test/api", false),
            ("https://a.test/api123/mcp/x", false),
            ("https://a.test:8443/api123/mcp", false),
            ("http://a.test/api123/mcp", false),
            ("https://evil.test/api123/mcp", false),
            ("https://u@a.test/api123", false),
            ("not a url", false),
        ] {
            assert_eq!(may_claim(claimed, &server), expected, "{claimed}");
        }
    }

    #[test]
    fn a_3_b_125_auth_19_issuers() {
        for (asked, named, expected) in [
            ("https://as.test", "https://as.test", true),
            ("https://as.test", "https://as.test/", true),
            ("https://as.test/", "https://as.test", true),
            ("https://as.test/t", "https://as.test/t/", false),
            ("https://as.test", "https://AS.test", false),
            ("https://as.test", "https://as.test:443", false),
            ("https://as.test", "https://as.test:8443", false),
            ("https://as.test", "", false),
        ] {
            assert_eq!(same_issuer(asked, named), expected, "{asked} {named}");
        }
    }

    #[test]
    fn g7_the_resource_of_a_server_without_metadata() {
        for (server, expected) in [
            ("https://A.test:443/", "https://a.test"),
            ("https://a.test/mcp/", "https://a.test/mcp/"),
            ("https://a.test/mcp?x=1#y", "https://a.test/mcp?x=1"),
        ] {
            assert_eq!(canonical_resource(&url(server)), expected);
        }
    }

    #[test]
    fn a_6_wrong_types_are_left_out() {
        let read = read_server(&json!({
            "issuer": 5, "token_endpoint": "https://a.test/t", "scopes_supported": ["a b", "ok", 3, "\n"],
            "code_challenge_methods_supported": "S256", "client_id_metadata_document_supported": "yes",
        }));
        let expected = ServerMetadata {
            token_endpoint: Some("https://a.test/t".into()),
            scopes_supported: Some(vec!["ok".into()]),
            ..ServerMetadata::default()
        };
        assert_eq!(read, expected);
        assert_eq!(read_resource(&json!([])), ResourceMetadata::default());
    }
}
