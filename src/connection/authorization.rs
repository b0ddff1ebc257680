//! Who proves to a server who we are: a login, a command, the host's account, or nobody.

use std::sync::Arc;

use url::Url;

use super::Shared;
use super::settings::ConnectionSettings;
use crate::auth::settings::OAuthSettings;
use crate::auth::{self, ServerAuth, TokenStore};
use crate::config::Voice;
use crate::config::spec::{HelperCommand, OAuthChoice, ProxyChoice, RemoteSpec, ServerSpec, TransportSpec};
use crate::error::McpError;
use crate::host::Host;
use crate::secret::Redactor;
use crate::transport::BoxFuture;
use crate::transport::authorizer::{AuthRefusal, Authorizer, Authorizers, Mending, Presented};
use crate::transport::connector::Network;
use crate::transport::connector::headers_helper::{HeadersHelper, HelperRecipe};
use crate::transport::stdio::Inherit;
use crate::url_guard::{Guard, web_address};

/// What a connection knows of tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    /// The login, where one is possible.
    pub(super) login: Option<Arc<ServerAuth>>,
    /// Why none can be used.
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
        let Some(remote) = spec.transport.remote() else { return Self::default() };
        if brings_its_own(remote) {
            return Self::default();
        }
        let (oauth, url) = match (OAuthSettings::read(&remote.oauth), Url::parse(remote.url.expose())) {
            (Ok(Some(oauth)), Ok(url)) => (oauth, web_address(&url)),
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
        Self { login: Some(login), problem: None }
    }
}

impl Access {
    /// Whether there is a login that nobody has refused.
    pub(super) fn is_logged_in(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.storage().is_some() && !login.is_needed())
    }
}

/// Who proves who we are, for one connection; nothing is asked yet.
///
/// # Errors
/// `CONFIG_INVALID` where the definition of the login is wrong.
pub(super) fn authorizers(shared: &Shared) -> Result<Authorizers, McpError> {
    if let Some(problem) = &shared.access.problem {
        return Err(problem.clone());
    }
    if let TransportSpec::ConnectorProxy(_) = &shared.spec.transport {
        return Ok(Authorizers::new(shared.settings.account.clone()));
    }
    let fixed = shared.spec.transport.remote().is_some_and(has_fixed_header);
    let fixed = fixed.then(|| Arc::new(FixedHeader) as Arc<dyn Authorizer>);
    let helper = helper(shared).map(|helper| Arc::new(helper) as Arc<dyn Authorizer>);
    let login = shared.access.login.clone().map(|login| login as Arc<dyn Authorizer>);
    // A command gives better headers than the fixed one; beside it nothing is tried blindly.
    Ok(Authorizers::new(helper.or(fixed).into_iter().chain(login)))
}

/// A configured `Authorization`: there is nothing better, but a refusal that passes is no reason to give up (G16).
#[derive(Debug)]
struct FixedHeader;

impl Authorizer for FixedHeader {
    fn present<'a>(&'a self, _: &'a str, _: &'a Url) -> BoxFuture<'a, Result<Presented, McpError>> {
        Box::pin(async { Ok(Presented::default()) })
    }

    fn refused<'a>(
        &'a self,
        _: &'a Presented,
        refusal: &'a AuthRefusal,
    ) -> BoxFuture<'a, Result<Mending, McpError>> {
        let once = refusal.status == 401 && !refusal.again;
        Box::pin(async move { Ok(if once { Mending::Renewed } else { Mending::Nothing }) })
    }

    fn redactor(&self) -> Redactor {
        // Configured values are hidden everywhere.
        Redactor::default()
    }
}

/// The command that gives headers, where one is configured.
fn helper(shared: &Shared) -> Option<HeadersHelper> {
    let remote = shared.spec.transport.remote()?;
    let HelperCommand(words) = remote.headers_helper.as_ref()?;
    // A definition of a repository was approved as a whole, but the host's variables are no part of it.
    let trusted = shared.spec.voice != Voice::Repository;
    Some(HeadersHelper::new(HelperRecipe {
        server: Arc::clone(&shared.spec.name),
        url: remote.url.expose().to_owned(),
        words: words.clone(),
        cwd: shared.settings.cwd.clone(),
        inherit: if trusted { Inherit::All } else { Inherit::Safe },
        environment: Arc::clone(&shared.settings.environment),
    }))
}

/// A configured `Authorization` or a command that gives headers wins; no login starts beside it (B-149, mcp:AUTH-10).
fn brings_its_own(remote: &RemoteSpec) -> bool {
    let helped = remote.headers_helper.is_some() && !matches!(remote.oauth, OAuthChoice::Custom(_));
    has_fixed_header(remote) || helped
}

fn has_fixed_header(remote: &RemoteSpec) -> bool {
    remote.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
}
