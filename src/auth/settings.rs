//! The `oauth` member of a server's definition, with values.

use serde::Deserialize;
use serde_json::Value;

use crate::config::draft::Definition;
use crate::config::spec::OAuthChoice;
use crate::error::{ErrorCode, McpError};
use crate::secret::Secret;
use crate::url_guard::check_visit;

/// How to log in at one server.
#[derive(Clone, Debug, Default)]
pub struct OAuthSettings {
    /// A client that was registered beforehand.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<Secret<String>>,
    /// URL of a client id metadata document.
    pub client_metadata_url: Option<String>,
    /// Scopes to ask for, instead of what the server names.
    pub scopes: Option<Vec<String>>,
    /// What is sent as `resource`.
    pub resource: ResourceChoice,
    /// The issuer that metadata has to name.
    pub expected_issuer: Option<String>,
    /// Where the authorization server's metadata is.
    pub metadata_url: Option<String>,
    /// Go on where the metadata does not tell of PKCE.
    pub allow_unadvertised_pkce: bool,
    /// Where the person comes back to.
    pub callback: Callback,
    /// Bind tokens to a key (RFC 9449).
    pub dpop: bool,
    /// How tokens are had.
    pub grant: Grant,
}

/// What is sent as `resource` (RFC 8707).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ResourceChoice {
    /// What the metadata says, verbatim; without metadata the server's URL.
    #[default]
    Found,
    /// This.
    Fixed(String),
    /// Nothing.
    Off,
}

/// Where the person comes back to.
#[derive(Clone, Debug, Default)]
pub struct Callback {
    /// Host of the loopback address; default `127.0.0.1`.
    pub host: Option<String>,
    /// Port; default is a free one.
    pub port: Option<u16>,
    /// Path; default `/callback`.
    pub path: Option<String>,
    /// A whole URI instead; then nothing listens unless it is a loopback one.
    pub redirect_uri: Option<String>,
}

/// How tokens are had.
#[derive(Clone, Debug, Default)]
pub enum Grant {
    /// A person logs in.
    #[default]
    Code,
    /// The client itself (RFC 6749 §4.4).
    ClientCredentials(MachineAuth),
    /// By the enterprise's identity provider.
    Enterprise(Enterprise),
    /// By a workload's own token (RFC 7523 §2.1).
    Workload(Secret<String>),
}

/// How a machine proves who it is.
#[derive(Clone, Debug)]
pub enum MachineAuth {
    /// Secret in the header.
    Basic,
    /// Secret in the body.
    Post,
    /// A signed assertion.
    PrivateKeyJwt {
        /// PKCS#8 key as PEM text.
        pem: Secret<String>,
        /// `ES256`, `ES384`, `EdDSA`, `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`.
        algorithm: String,
    },
}

/// The enterprise's identity provider.
#[derive(Clone, Debug)]
pub struct Enterprise {
    /// Who the identity token has to be of.
    pub issuer: String,
    /// Its token endpoint.
    pub token_endpoint: String,
    /// Client id there.
    pub client_id: String,
    /// The identity token of the person.
    pub id_token: Secret<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    client_id: Option<String>,
    client_secret: Option<String>,
    client_metadata_url: Option<String>,
    scopes: Option<Vec<String>>,
    resource: Value,
    expected_issuer: Option<String>,
    auth_server_metadata_url: Option<String>,
    allow_unadvertised_pkce: bool,
    callback_host: Option<String>,
    callback_port: Option<u16>,
    callback_path: Option<String>,
    redirect_uri: Option<String>,
    dpop: bool,
    client_credentials: Option<WrittenCredentials>,
    enterprise_managed: Option<WrittenEnterprise>,
    workload_identity: Option<WrittenWorkload>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenCredentials {
    method: String,
    private_key_pem: Option<String>,
    algorithm: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenEnterprise {
    idp_issuer: String,
    idp_token_endpoint: String,
    idp_client_id: String,
    id_token: String,
}

#[derive(Deserialize)]
struct WrittenWorkload {
    assertion: String,
}

impl OAuthSettings {
    /// Every secret in it.
    pub fn secrets(&self) -> Vec<Secret<String>> {
        let grant = match &self.grant {
            Grant::ClientCredentials(MachineAuth::PrivateKeyJwt { pem, .. }) => Some(pem),
            Grant::Enterprise(enterprise) => Some(&enterprise.id_token),
            Grant::Workload(assertion) => Some(assertion),
            _ => None,
        };
        self.client_secret.iter().chain(grant).cloned().collect()
    }

    /// Reads what a definition says; `None` where it says never to log in.
    ///
    /// # Errors
    /// `CONFIG_INVALID` naming the field.
    pub fn read(choice: &OAuthChoice) -> Result<Option<Self>, McpError> {
        match choice {
            OAuthChoice::Off => Ok(None),
            OAuthChoice::Discovered => Ok(Some(Self::default())),
            OAuthChoice::Custom(fields) => Self::from_fields(fields.expose()).map(Some),
        }
    }

    fn from_fields(fields: &Definition) -> Result<Self, McpError> {
        let written: Written = serde_json::from_value(Value::Object(fields.clone())).map_err(|error| {
            // Values stay out of the message: some are secrets.
            let error = error.to_string();
            let what = error.split('`').nth(1).filter(|_| error.starts_with("missing field"));
            invalid(
                &what.map_or("a field has the wrong type".to_owned(), |name| format!("{name} is missing")),
            )
        })?;
        let resource = match written.resource {
            Value::String(text) => ResourceChoice::Fixed(text),
            Value::Bool(false) => ResourceChoice::Off,
            _ => ResourceChoice::Found,
        };
        let grant = grant(written.client_credentials, written.enterprise_managed, written.workload_identity)?;
        let settings = Self {
            client_id: written.client_id,
            client_secret: written.client_secret.map(Secret::new),
            client_metadata_url: written.client_metadata_url,
            scopes: written.scopes,
            resource,
            expected_issuer: written.expected_issuer,
            metadata_url: written.auth_server_metadata_url,
            allow_unadvertised_pkce: written.allow_unadvertised_pkce,
            callback: Callback {
                host: written.callback_host,
                port: written.callback_port.filter(|port| *port != 0),
                path: written.callback_path,
                redirect_uri: written.redirect_uri,
            },
            dpop: written.dpop,
            grant,
        };
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), McpError> {
        if !matches!(self.grant, Grant::Code) && self.client_id.is_none() {
            return Err(invalid("clientId is missing"));
        }
        let needs_secret =
            matches!(self.grant, Grant::ClientCredentials(MachineAuth::Basic | MachineAuth::Post));
        if needs_secret && self.client_secret.is_none() {
            return Err(invalid("clientSecret is missing"));
        }
        if let Some(host) = &self.callback.host
            && !matches!(host.as_str(), "127.0.0.1" | "localhost" | "::1" | "[::1]")
        {
            return Err(invalid("callbackHost is not 127.0.0.1, ::1 or localhost"));
        }
        if self.callback.redirect_uri.as_ref().is_some_and(|uri| check_visit(uri).is_err()) {
            return Err(invalid("redirectUri is neither an https URL nor an http URL of this machine"));
        }
        if self.client_metadata_url.as_ref().is_some_and(|url| !names_document(url)) {
            return Err(invalid("clientMetadataUrl is no https URL with a path"));
        }
        if self.callback.path.as_ref().is_some_and(|path| !path.starts_with('/') || path.contains(['?', '#']))
        {
            return Err(invalid("callbackPath is not a path such as /callback"));
        }
        Ok(())
    }
}

/// Whether a URL may be a client id: `https`, with a path, and nothing else but a query (mcp:AUTH-26).
fn names_document(text: &str) -> bool {
    let Ok(url) = check_visit(text) else { return false };
    url.scheme() == "https" && url.path() != "/" && url.fragment().is_none()
}

fn grant(
    credentials: Option<WrittenCredentials>,
    enterprise: Option<WrittenEnterprise>,
    workload: Option<WrittenWorkload>,
) -> Result<Grant, McpError> {
    match (credentials, enterprise, workload) {
        (None, None, None) => Ok(Grant::Code),
        (Some(own), None, None) => Ok(Grant::ClientCredentials(match own.method.as_str() {
            "basic" => MachineAuth::Basic,
            "post" => MachineAuth::Post,
            "private_key_jwt" => MachineAuth::PrivateKeyJwt {
                pem: own
                    .private_key_pem
                    .map(Secret::new)
                    .ok_or_else(|| invalid("clientCredentials.privateKeyPem is missing"))?,
                algorithm: own.algorithm.unwrap_or_else(|| "ES256".to_owned()),
            },
            _ => return Err(invalid("clientCredentials.method is not basic, post or private_key_jwt")),
        })),
        (None, Some(own), None) => Ok(Grant::Enterprise(Enterprise {
            issuer: own.idp_issuer,
            token_endpoint: own.idp_token_endpoint,
            client_id: own.idp_client_id,
            id_token: Secret::new(own.id_token),
        })),
        (None, None, Some(own)) => Ok(Grant::Workload(Secret::new(own.assertion))),
        _ => Err(invalid("only one of clientCredentials, enterpriseManaged and workloadIdentity may stand")),
    }
}

fn invalid(why: &str) -> McpError {
    McpError::new(ErrorCode::ConfigInvalid, format!("oauth: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<OAuthSettings, String> {
        let Value::Object(fields) = value else { panic!() };
        OAuthSettings::read(&OAuthChoice::Custom(Secret::new(fields)))
            .map(Option::unwrap)
            .map_err(|error| error.message().to_owned())
    }

    #[test]
    fn oau_01_every_field_is_read_and_mistakes_name_it() {
        let settings = read(json!({
            "clientId": "me", "clientSecret": "s3cret-value", "resource": false, "callbackPort": 0,
            "scopes": ["a"], "dpop": true, "callbackHost": "localhost", "allowUnadvertisedPkce": true,
        }))
        .unwrap();
        assert_eq!(settings.resource, ResourceChoice::Off);
        assert_eq!(settings.callback.port, None);
        assert!(settings.dpop && settings.allow_unadvertised_pkce);
        assert!(!format!("{settings:?}").contains("s3cret"), "{settings:?}");
        for (value, expected) in [
            (json!({ "callbackHost": "evil.test" }), "callbackHost"),
            (json!({ "callbackPath": "x" }), "callbackPath"),
            (json!({ "redirectUri": "http://a.example/back" }), "redirectUri"),
            (json!({ "redirectUri": "myapp://back" }), "redirectUri"),
            (json!({ "clientMetadataUrl": "https://a.example" }), "clientMetadataUrl"),
            (json!({ "clientMetadataUrl": "http://127.0.0.1/x" }), "clientMetadataUrl"),
            (json!({ "clientCredentials": { "method": "basic" } }), "clientId"),
            (json!({ "clientId": "a", "clientCredentials": { "method": "basic" } }), "clientSecret"),
            (json!({ "clientId": "a", "clientCredentials": { "method": "x" } }), "method"),
            (json!({ "clientId": "a", "clientCredentials": {} }), "method"),
            (json!({ "clientId": "a", "enterpriseManaged": { "idToken": "s3cret-value" } }), "is missing"),
            (
                json!({ "clientId": "a", "workloadIdentity": { "assertion": "s3cret-value" },
                        "clientCredentials": { "method": "private_key_jwt", "privateKeyPem": "s3cret-value" } }),
                "only one",
            ),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{value}: {error}");
        }
    }
}
