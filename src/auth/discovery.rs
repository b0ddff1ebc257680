//! From a refusal to the authorization server: resource metadata, its issuer, that issuer's metadata
//! (mcp:AUTH-11 to AUTH-20).

use url::Url;

use super::metadata::{self, ResourceMetadata, ServerMetadata};
use super::settings::{OAuthSettings, ResourceChoice};
use super::web::{Fetched, Web};
use crate::error::{ErrorCode, McpError};
use crate::transport::connector::client::place;
use crate::unicode;

/// Version that is told where servers of 2025-03-26 are looked for (mcp:AUTH-20).
const OLD_VERSION: &str = "2025-03-26";

/// Where and for what tokens are had.
#[derive(Clone, Debug)]
pub struct Found {
    /// The issuer that everything is bound to: as the resource or the configuration names it.
    pub issuer: String,
    /// The authorization server.
    pub server: ServerMetadata,
    /// What is sent as `resource`.
    pub resource: Option<String>,
    /// Scopes that the resource knows.
    pub resource_scopes: Vec<String>,
}

/// Who tokens come from, before its metadata is asked for.
#[derive(Clone, Debug)]
pub struct Pointer {
    /// The issuer; `None` for a server of 2025-03-26, which is its own.
    pub issuer: Option<String>,
    /// What the resource says of itself.
    pub resource: Option<ResourceMetadata>,
}

/// Finds the issuer. `named` is where the refusal says the metadata is; `known` is preferred where there are several.
///
/// # Errors
/// `AUTH_FAILED` for metadata that belongs to another resource; `URL_REFUSED`; transient failures as they are.
pub async fn find_issuer(
    web: &Web,
    server: &Url,
    settings: &OAuthSettings,
    named: Option<&str>,
    known: Option<&str>,
) -> Result<Pointer, McpError> {
    // Where the named place is empty the others are looked at: who names one is no server of 2025-03-26.
    let named = named.map(|text| web.check(text, "the resource_metadata URL")).transpose()?;
    let well_known = metadata::resource_places(server);
    let others = well_known.into_iter().filter(|place| Some(place) != named.as_ref());
    let places: Vec<Url> = named.iter().cloned().chain(others).collect();
    let mut resource = None;
    for place in &places {
        if let Fetched::Document(document) = web.get(place, None).await? {
            resource = Some(metadata::read_resource(&document));
            break;
        }
    }
    let Some(resource) = resource else {
        return Ok(Pointer { issuer: settings.expected_issuer.clone(), resource: None });
    };
    let trusted = !matches!(settings.resource, ResourceChoice::Found);
    if let Some(claimed) = &resource.resource
        && !trusted
        && !metadata::may_claim(claimed, server)
    {
        let claimed = super::web::said(claimed);
        let message = format!(
            "the metadata is of another resource, {claimed}, than {}; if that is right, set oauth.resource",
            place(server)
        );
        return Err(McpError::new(ErrorCode::AuthFailed, message));
    }
    let issuers = &resource.authorization_servers;
    let wanted = [settings.expected_issuer.as_deref(), known];
    let listed = wanted.into_iter().flatten().find(|one| issuers.iter().any(|issuer| issuer == one));
    let chosen = listed.map(str::to_owned).or_else(|| issuers.first().cloned());
    Ok(Pointer { issuer: chosen, resource: Some(resource) })
}

/// Fetches the metadata of the issuer that was found.
///
/// # Errors
/// `AUTH_ISSUER_MISMATCH` where every document is of another issuer, `AUTH_FAILED` where there is none.
pub async fn find_server(
    web: &Web,
    server: &Url,
    settings: &OAuthSettings,
    pointer: Pointer,
) -> Result<Found, McpError> {
    let old = pointer.issuer.is_none();
    let origin = metadata::origin(server);
    let issuer = pointer.issuer.unwrap_or_else(|| origin.origin().ascii_serialization());
    let url = web.check(&issuer, "the issuer")?;
    let expected = settings.expected_issuer.as_ref().unwrap_or(&issuer);
    let places = match &settings.metadata_url {
        Some(text) => vec![web.check(text, "oauth.authServerMetadataUrl")?],
        None => metadata::issuer_places(&url),
    };
    let version = old.then_some(OLD_VERSION);
    let mut other = None;
    let mut absent = Vec::new();
    let mut found = None;
    for place in &places {
        match web.get(place, version).await? {
            Fetched::Absent(why) => absent.push(why),
            Fetched::Document(document) => {
                let document = metadata::read_server(&document);
                if metadata::same_issuer(expected, &document.issuer) {
                    found = Some(document);
                    break;
                }
                other.get_or_insert(document.issuer);
            }
        }
    }
    let document = match (found, other) {
        (Some(document), _) => document,
        (None, Some(named)) => return Err(mismatch(expected, &named)),
        (None, None) if old => metadata::guessed(&origin),
        (None, None) => {
            let message = format!("no metadata of the authorization server: {}", absent.join("; "));
            return Err(McpError::new(ErrorCode::AuthFailed, message));
        }
    };
    check_endpoints(web, &document)?;
    let resource = match &settings.resource {
        ResourceChoice::Off => None,
        ResourceChoice::Fixed(text) => Some(text.clone()),
        ResourceChoice::Found => Some(
            pointer
                .resource
                .as_ref()
                .and_then(|resource| resource.resource.clone())
                .unwrap_or_else(|| metadata::canonical_resource(server)),
        ),
    };
    let resource_scopes = pointer.resource.map(|resource| resource.scopes_supported).unwrap_or_default();
    let issuer = expected.clone();
    Ok(Found { issuer, server: document, resource, resource_scopes })
}

/// Every endpoint passes the guard before anything is asked of any (BEY-07, B-120).
fn check_endpoints(web: &Web, server: &ServerMetadata) -> Result<(), McpError> {
    for (endpoint, what) in [
        (&server.authorization_endpoint, "the authorization endpoint"),
        (&server.token_endpoint, "the token endpoint"),
        (&server.registration_endpoint, "the registration endpoint"),
        (&server.revocation_endpoint, "the revocation endpoint"),
    ] {
        if let Some(text) = endpoint {
            web.check(text, what)?;
        }
    }
    Ok(())
}

fn mismatch(asked: &str, named: &str) -> McpError {
    let named = if named.is_empty() { "no issuer".to_owned() } else { super::web::said(named) };
    let asked = unicode::clean_str_lossy(asked);
    let message = format!(
        "the metadata for the authorization server {asked} names {named}; if that is right, set \
         oauth.expectedIssuer"
    );
    McpError::new(ErrorCode::AuthIssuerMismatch, message)
}
