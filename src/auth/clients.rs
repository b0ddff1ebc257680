//! Which client we are at an issuer, and how that is proved (mcp:AUTH-25 to AUTH-38).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;

use super::discovery::Found;
use super::metadata::ServerMetadata;
use super::proof::{Signer, now};
use super::record::{Method, Registration};
use super::settings::{Grant, MachineAuth, OAuthSettings};
use super::tokens::Refused;
use super::web::{Form, Posted, Web};
use crate::error::{ErrorCode, McpError};
use crate::secret::Secret;

/// Longest id or secret.
const LONGEST: usize = 8 * 1024;
/// Kind of assertion (RFC 7523).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Where a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Configured.
    Configured,
    /// A metadata document.
    Document,
    /// Registered by us, now or earlier.
    Registered,
}

/// The client that is configured, if one is.
pub fn configured(settings: &OAuthSettings, server: &ServerMetadata) -> Option<Registration> {
    let client_id = settings.client_id.clone()?;
    let secret = settings.client_secret.as_ref().map(|secret| secret.expose().clone());
    let method = match &settings.grant {
        Grant::ClientCredentials(MachineAuth::Basic) => Method::Basic,
        Grant::ClientCredentials(MachineAuth::Post) => Method::Post,
        Grant::ClientCredentials(MachineAuth::PrivateKeyJwt { .. }) => Method::PrivateKeyJwt,
        _ if secret.is_none() => Method::None,
        _ => with_secret(server),
    };
    Some(Registration { client_id, client_secret: secret, method, ..Registration::default() })
}

/// The client that tokens belong to, with the secret that is configured now: one that was changed counts at once.
pub fn as_configured(kept: &Registration, settings: &OAuthSettings) -> Registration {
    let mut client = kept.clone();
    if settings.client_id.as_ref() == Some(&kept.client_id) {
        client.client_secret = settings.client_secret.as_ref().map(|secret| secret.expose().clone());
        client.method = match (&client.client_secret, kept.method) {
            (Some(_), Method::None) => Method::Basic,
            (None, Method::Basic | Method::Post) => Method::None,
            (_, method) => method,
        };
    }
    client
}

/// Whether a client was registered by us: it is neither configured nor a metadata document, so that another one can take
/// its place.
pub fn is_ours(client: &Registration, settings: &OAuthSettings) -> bool {
    let id = Some(&client.client_id);
    settings.client_id.as_ref() != id && settings.client_metadata_url.as_ref() != id
}

/// How a secret is sent where nobody has said how: in the header, unless only the body is taken (RFC 8414).
fn with_secret(server: &ServerMetadata) -> Method {
    let takes =
        |name: &str| server.auth_methods.as_ref().is_some_and(|list| list.iter().any(|one| one == name));
    if takes("client_secret_post") && !takes("client_secret_basic") { Method::Post } else { Method::Basic }
}

/// Why there is no client.
#[derive(Debug)]
pub struct NoClient {
    /// For whoever wants to log in.
    pub error: McpError,
    /// Whether the server did not take what was to be registered, so that another redirect URI may do (mcp:AUTH-31).
    pub unacceptable: bool,
}

impl From<McpError> for NoClient {
    fn from(error: McpError) -> Self {
        Self { error, unacceptable: false }
    }
}

/// Finds or makes the client for a login.
///
/// # Errors
/// `AUTH_FAILED` where there is no way to one, or the registration is refused.
pub async fn resolve(
    web: &Web,
    settings: &OAuthSettings,
    found: &Found,
    stored: Option<&Registration>,
    wanted: Wanted<'_>,
) -> Result<(Registration, Origin), NoClient> {
    let server = &found.server;
    if let Some(client) = configured(settings, server) {
        return Ok((client, Origin::Configured));
    }
    if let Some(url) = settings.client_metadata_url.as_ref().filter(|_| server.takes_metadata_urls) {
        let client = Registration { client_id: url.clone(), ..Registration::default() };
        return Ok((client, Origin::Document));
    }
    if let Some(stored) = stored.filter(|stored| is_usable(stored, wanted.redirect_uri)) {
        return Ok((stored.clone(), Origin::Registered));
    }
    let Some(endpoint) = &server.registration_endpoint else {
        let message = format!(
            "the authorization server {} registers no clients by itself; set oauth.clientId",
            crate::unicode::clean_str_lossy(&found.issuer)
        );
        return Err(McpError::new(ErrorCode::AuthFailed, message).into());
    };
    let endpoint = web.check(endpoint, "the registration endpoint")?;
    let posted = web.post_json(&endpoint, &application(server, &wanted)).await?;
    Ok((read_registration(&posted, wanted.redirect_uri)?, Origin::Registered))
}

/// What a registration is to be for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Name for people.
    pub name: &'a str,
    /// Where they come back to.
    pub redirect_uri: &'a str,
    /// Whether that is on this machine.
    pub native: bool,
    /// Scopes that will be asked for.
    pub scopes: &'a [String],
}

fn is_usable(stored: &Registration, redirect_uri: &str) -> bool {
    let lives = stored.secret_expires_at == 0 || stored.secret_expires_at > now() + 60;
    lives && stored.redirect_uri.as_deref() == Some(redirect_uri)
}

fn application(server: &ServerMetadata, wanted: &Wanted<'_>) -> Value {
    let takes =
        |name: &str| server.auth_methods.as_ref().is_none_or(|list| list.iter().any(|one| one == name));
    let choices = [Method::None, Method::Basic, Method::Post];
    let method = choices.into_iter().find(|method| takes(method.as_str())).unwrap_or_default();
    // Some servers register nobody who names a grant that they do not have (mcp:AUTH-36).
    let refreshes =
        server.grant_types.as_ref().is_none_or(|list| list.iter().any(|one| one == "refresh_token"));
    let grants = ["authorization_code", "refresh_token"];
    let mut body = json!({
        "client_name": wanted.name,
        "redirect_uris": [wanted.redirect_uri],
        "grant_types": if refreshes { &grants[..] } else { &grants[..1] },
        "response_types": ["code"],
        "token_endpoint_auth_method": method.as_str(),
        "application_type": if wanted.native { "native" } else { "web" },
    });
    if !wanted.scopes.is_empty() {
        body["scope"] = wanted.scopes.join(" ").into();
    }
    body
}

/// Reads what a registration gave; only what is needed, and nothing that does not fit (B-140).
fn read_registration(posted: &Posted, redirect_uri: &str) -> Result<Registration, NoClient> {
    let body = &posted.body;
    let refused = |why: String| NoClient {
        error: McpError::new(ErrorCode::AuthFailed, format!("the client registration {why}")),
        unacceptable: false,
    };
    if !(200..300).contains(&posted.status) {
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        if posted.status >= 500 || posted.status == 429 {
            return Err(Refused::Later(posted.status).into_error("the client registration").into());
        }
        let mut why = format!("was refused with status {}", posted.status);
        for said in [text("error"), text("error_description")].into_iter().flatten() {
            why.push_str(&format!(", {}", super::web::said(said)));
        }
        let error = refused(why).error.with(|facts| facts.status = Some(posted.status));
        return Err(NoClient { error, unacceptable: matches!(posted.status, 400 | 422) });
    }
    let plain = |name: &str| {
        let text = body.get(name)?.as_str()?;
        let fits =
            !text.is_empty() && text.len() <= LONGEST && text.bytes().all(|b| (b' '..=b'~').contains(&b));
        Some(text.to_owned()).filter(|_| fits)
    };
    let client_id = plain("client_id").ok_or_else(|| refused("gave no usable client_id".to_owned()))?;
    let client_secret = plain("client_secret");
    let redirects = body.get("redirect_uris").and_then(Value::as_array);
    if redirects.is_some_and(|list| !list.iter().any(|one| one.as_str() == Some(redirect_uri))) {
        return Err(NoClient { unacceptable: true, ..refused("changed the redirect URI".to_owned()) });
    }
    let method = match body.get("token_endpoint_auth_method").and_then(Value::as_str) {
        None if client_secret.is_some() => Method::Basic,
        None => Method::None,
        Some(name) => Method::parse(name)
            .filter(|method| *method != Method::PrivateKeyJwt)
            .ok_or_else(|| refused("asks for a proof that this client cannot give".to_owned()))?,
    };
    if method != Method::None && client_secret.is_none() {
        return Err(refused("gave no client_secret".to_owned()));
    }
    Ok(Registration {
        client_id,
        client_secret,
        secret_expires_at: body.get("client_secret_expires_at").and_then(Value::as_u64).unwrap_or(0),
        method,
        redirect_uri: Some(redirect_uri.to_owned()),
    })
}

/// Puts the proof of who the client is on a form.
///
/// # Errors
/// `CONFIG_INVALID` for a key that cannot sign.
pub fn prove(
    form: &mut Form,
    client: &Registration,
    settings: &OAuthSettings,
    issuer: &str,
) -> Result<(), McpError> {
    let secret = client.client_secret.as_deref().unwrap_or_default();
    match client.method {
        Method::None => form.push("client_id", &client.client_id),
        Method::Basic => {
            // Encoded first (RFC 6749 §2.3.1).
            let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encode(&client.client_id), encode(secret));
            form.authorization = Some(Secret::new(format!("Basic {}", STANDARD.encode(pair))));
        }
        Method::Post => {
            form.push("client_id", &client.client_id);
            form.push("client_secret", secret);
        }
        Method::PrivateKeyJwt => {
            let Grant::ClientCredentials(MachineAuth::PrivateKeyJwt { pem, algorithm }) = &settings.grant
            else {
                return Err(McpError::new(ErrorCode::ConfigInvalid, "oauth: there is no key to sign with"));
            };
            let signer = Signer::from_pem(pem.expose(), algorithm)?;
            form.push("client_assertion_type", ASSERTION_TYPE);
            form.push("client_assertion", signer.assertion(&client.client_id, issuer)?.expose());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACK: &str = "http://127.0.0.1:1/callback";

    fn registered(body: Value) -> Result<Registration, String> {
        read_registration(&Posted { status: 201, body, nonce: None }, BACK)
            .map_err(|no_client| no_client.error.message().to_owned())
    }

    #[test]
    fn b_140_hostile_registrations() {
        let good =
            registered(json!({ "client_id": "a", "issuer": "https://evil.test", "redirect_uris": [BACK] }));
        assert_eq!(good.unwrap().method, Method::None);
        for body in [
            json!({ "client_id": "a\r\nX: y" }),
            json!({ "client_id": "x".repeat(5_000_000) }),
            json!({ "client_id": "" }),
            json!({ "client_id": 5 }),
            json!({ "client_id": "a", "redirect_uris": ["https://evil.test/cb"] }),
            json!({ "client_id": "a", "token_endpoint_auth_method": "private_key_jwt" }),
            json!({ "client_id": "a", "token_endpoint_auth_method": "client_secret_basic" }),
            json!(null),
        ] {
            assert!(registered(body.clone()).is_err(), "{body:.80}");
        }
        let secret =
            registered(json!({ "client_id": "a", "client_secret": "s", "client_secret_expires_at": 5 }));
        let secret = secret.unwrap();
        assert_eq!((secret.method, is_usable(&secret, BACK)), (Method::Basic, false), "expired (A-15)");
        let posted = Posted {
            status: 400,
            body: json!({ "error": "invalid_redirect_uri", "error_description": "no" }),
            nonce: None,
        };
        let no_client = read_registration(&posted, BACK).unwrap_err();
        assert!(no_client.error.message().contains("invalid_redirect_uri"), "{no_client:?}");
    }

    #[test]
    fn a_11_auth_31_which_refusals_another_redirect_uri_may_help_against() {
        for (status, body, expected) in [
            (400, json!({ "error": "invalid_redirect_uri" }), true),
            (400, json!({ "error": "invalid_client_metadata" }), true),
            (201, json!({ "client_id": "a", "redirect_uris": ["http://localhost:1/callback"] }), true),
            (201, json!({ "client_id": "" }), false),
            (401, json!({ "error_description": "no redirect for you" }), false),
            (403, json!(null), false),
            (503, json!(null), false),
        ] {
            let posted = Posted { status, body: body.clone(), nonce: None };
            let no_client = read_registration(&posted, BACK).unwrap_err();
            assert_eq!(no_client.unacceptable, expected, "{status} {body}");
        }
    }

    #[test]
    fn auth_30_auth_36_auth_37_what_is_registered() {
        let wanted = Wanted { name: "Host", redirect_uri: BACK, native: true, scopes: &[] };
        for (methods, expected) in [
            (None, "none"),
            (Some(vec!["client_secret_basic"]), "client_secret_basic"),
            (Some(vec!["client_secret_post"]), "client_secret_post"),
            (Some(vec!["client_secret_basic", "none"]), "none"),
        ] {
            let auth_methods = methods.map(|list| list.into_iter().map(str::to_owned).collect());
            let server = ServerMetadata { auth_methods, ..ServerMetadata::default() };
            let body = application(&server, &wanted);
            assert_eq!(body["token_endpoint_auth_method"], expected);
            assert_eq!(body["application_type"], "native");
            assert!(body["grant_types"].to_string().contains("refresh_token"));
            assert!(body.get("scope").is_none());
        }
        for (grants, expected) in [(vec!["authorization_code"], 1), (vec!["refresh_token"], 2), (vec![], 1)] {
            let grant_types = Some(grants.into_iter().map(str::to_owned).collect());
            let server = ServerMetadata { grant_types, ..ServerMetadata::default() };
            assert_eq!(application(&server, &wanted)["grant_types"].as_array().unwrap().len(), expected);
        }
    }

    #[test]
    fn auth_37_id_and_secret_are_encoded_before_base64() {
        let client = Registration {
            client_id: "a:b c".to_owned(),
            client_secret: Some("s/é%".to_owned()),
            method: Method::Basic,
            ..Registration::default()
        };
        let mut form = Form::default();
        prove(&mut form, &client, &OAuthSettings::default(), "https://as.test").unwrap();
        let value = form.authorization.unwrap();
        let decoded = STANDARD.decode(value.expose().strip_prefix("Basic ").unwrap()).unwrap();
        assert_eq!(String::from_utf8(decoded).unwrap(), "a%3Ab+c:s%2F%C3%A9%25");
        assert!(form.fields.is_empty());
    }

    #[test]
    fn auth_38_auth_65_a_configured_client_proves_itself_as_it_is_configured_now() {
        let settings = |id: &str, secret: Option<&str>| OAuthSettings {
            client_id: Some(id.to_owned()),
            client_secret: secret.map(|secret| Secret::new(secret.to_owned())),
            client_metadata_url: Some("https://host.test/client.json".to_owned()),
            ..OAuthSettings::default()
        };
        let kept = |id: &str, secret: Option<&str>, method| Registration {
            client_id: id.to_owned(),
            client_secret: secret.map(str::to_owned),
            method,
            ..Registration::default()
        };
        for (before, now, expected) in [
            ((Some("old"), Method::Post), Some("new"), (Some("new"), Method::Post)),
            ((Some("old"), Method::Basic), None, (None, Method::None)),
            ((None, Method::None), Some("new"), (Some("new"), Method::Basic)),
            ((None, Method::PrivateKeyJwt), None, (None, Method::PrivateKeyJwt)),
        ] {
            let kept = kept("a", before.0, before.1);
            let client = as_configured(&kept, &settings("a", now));
            assert_eq!((client.client_secret.as_deref(), client.method), expected);
            assert!(as_configured(&kept, &settings("b", now)) == kept, "that of another is left alone");
        }
        for (id, ours) in [("a", false), ("https://host.test/client.json", false), ("registered", true)] {
            assert_eq!(is_ours(&kept(id, None, Method::None), &settings("a", None)), ours, "{id}");
        }
    }
}
