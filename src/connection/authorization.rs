//! Who holds the tokens of a server: its login, or nobody.

use std::sync::Arc;

use url::Url;

use super::settings::ConnectionSettings;
use crate::auth::settings::OAuthSettings;
use crate::auth::{self, ServerAuth, TokenStore};
use crate::config::spec::{OAuthChoice, ProxyChoice, RemoteSpec, ServerSpec, TransportSpec};
use crate::error::McpError;
use crate::host::Host;
use crate::transport::authorizer::Authorizer;
use crate::transport::connector::Network;
use crate::url_guard::Guard;

/// What a connection knows of tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    /// The login, where one is possible.
    pub(super) login: Option<Arc<ServerAuth>>,
    /// What transports ask.
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    /// Why neither can be used.
    pub(super) problem: Option<McpError>,
}

impl Access {
    /// Decides by the definition of a server.
    pub(super) fn of(
        spec: &ServerSpec,
        settings: &ConnectionSettings,
        host: &Arc<dyn Host>,
        store: &Arc<TokenStore>,
    ) -> Self {
        let (TransportSpec::Http(remote) | TransportSpec::Sse(remote)) = &spec.transport else {
            return Self::default();
        };
        if brings_its_own(remote) {
            return Self::default();
        }
        let (oauth, url) = match (OAuthSettings::read(&remote.oauth), Url::parse(remote.url.expose())) {
            (Ok(Some(oauth)), Ok(url)) => (oauth, url),
            (Err(problem), _) => return Self { problem: Some(problem), ..Self::default() },
            _ => return Self::default(),
        };
        let guard = Guard::for_server(&url);
        let network = Network::guarded(
            spec.tls.clone().or_else(|| settings.tls.clone()),
            match &spec.proxy {
                ProxyChoice::Inherited => settings.proxy.clone(),
                own => own.clone(),
            },
            Arc::clone(&settings.environment),
            settings.clocks.connect,
            guard.clone(),
        );
        let identity = &settings.introduction.identity;
        let login = Arc::new(ServerAuth::new(auth::Parts {
            server: Arc::clone(&spec.name),
            url,
            host_name: identity.title.clone().unwrap_or_else(|| identity.name.clone()),
            settings: oauth,
            network,
            guard,
            gate: settings.gate.of(&spec.name),
            store: Arc::clone(store),
            host: Arc::clone(host),
        }));
        let authorizer: Arc<dyn Authorizer> = Arc::<ServerAuth>::clone(&login);
        Self { login: Some(login), authorizer: Some(authorizer), problem: None }
    }
}

impl Access {
    /// Whether there is a login that nobody has refused.
    pub(super) fn is_logged_in(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.storage().is_some() && !login.is_needed())
    }
}

/// A configured `Authorization` or a command that gives headers wins; no login starts beside it (B-149, mcp:AUTH-10).
fn brings_its_own(remote: &RemoteSpec) -> bool {
    let fixed = remote.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    let helped = remote.headers_helper.is_some() && !matches!(remote.oauth, OAuthChoice::Custom(_));
    fixed || helped
}
