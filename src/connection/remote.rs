//! Attempts at servers behind a URL: recipes from definitions, and which failures mean what.

use std::sync::Arc;

use url::Url;

use super::Shared;
use super::attempt::Refused;
use crate::config::spec::{ProxyChoice, RemoteSpec, TransportSpec};
use crate::error::{ErrorCode, McpError};
use crate::secret::{SafeUrl, Secret};
use crate::transport::authorizer::Authorizers;
use crate::transport::http::{self, HttpLimits, HttpRecipe};
use crate::transport::{Receiver, Transport, legacy_sse};

/// Header that carries the token of an editor (IDE-01).
pub(super) const IDE_TOKEN: &str = "X-Claude-Code-Ide-Authorization";

/// Starts the transport of a server over HTTP; `older` takes the event stream of 2024-11-05.
pub(super) fn start(
    shared: &Shared,
    receiver: Arc<dyn Receiver>,
    older: bool,
    authorizers: Authorizers,
) -> Result<Arc<dyn Transport>, McpError> {
    let (url, headers, events) = match &shared.spec.transport {
        TransportSpec::Http(remote) => (&remote.url, configured(remote), older),
        TransportSpec::Sse(remote) => (&remote.url, configured(remote), true),
        TransportSpec::SseIde(ide) => {
            let token = ide.auth_token.clone().map(|token| (IDE_TOKEN.to_owned(), token));
            (&ide.url, token.into_iter().collect(), true)
        }
        TransportSpec::ConnectorProxy(connector) => (&connector.url, Vec::new(), false),
        other => return Err(McpError::new(ErrorCode::Internal, format!("{} is no HTTP", other.kind()))),
    };
    let recipe = HttpRecipe { authorizers, ..recipe(shared, url, headers)? };
    if events {
        let transport = legacy_sse::open(recipe, receiver)?;
        Ok(transport)
    } else {
        let transport = http::open(recipe, receiver)?;
        Ok(transport)
    }
}

fn configured(remote: &RemoteSpec) -> Vec<(String, Secret<String>)> {
    remote.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn recipe(
    shared: &Shared,
    url: &SafeUrl,
    headers: Vec<(String, Secret<String>)>,
) -> Result<HttpRecipe, McpError> {
    let settings = &shared.settings;
    let url = Url::parse(url.expose()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url =
        url.ok_or_else(|| McpError::new(ErrorCode::ConfigInvalid, "the url is no http or https URL"))?;
    Ok(HttpRecipe {
        url,
        headers,
        authorizers: Authorizers::default(),
        tls: shared.spec.tls.clone().or_else(|| settings.tls.clone()),
        proxy: match &shared.spec.proxy {
            ProxyChoice::Inherited => settings.proxy.clone(),
            own => own.clone(),
        },
        gate: settings.gate.of(&shared.spec.name),
        environment: Arc::clone(&settings.environment),
        limits: HttpLimits {
            retries: settings.max_resumptions,
            ..HttpLimits::new(settings.max_message, settings.clocks.connect)
        },
        version: None,
    })
}

/// Whether an answer says that a server no longer speaks the older way: not a login, nor an outage.
pub(super) fn contradicts_older_way(refused: &Refused) -> bool {
    let status = refused.error.facts().status;
    !may_pass(status) && status.is_some_and(|status| !matches!(status, 401 | 403 | 407))
}

/// Whether a refusal asks for a login, or for one with more scopes.
pub(super) fn wants_login(error: &McpError) -> bool {
    matches!(error.code(), ErrorCode::AuthRequired | ErrorCode::AuthScopeInsufficient)
}

/// Whether an HTTP status may be another one next time (E17).
pub(super) fn may_pass(status: Option<u16>) -> bool {
    status.is_some_and(|status| status >= 500 || matches!(status, 408 | 425 | 429))
}

/// Whether a refused handshake means that the server may only know the older way (mcp:ERA-11, F-070): an
/// answer of 400, 404 or 405 that is no error of the modern era. Logins, busy servers, outages and silence
/// say nothing.
pub(super) fn speaks_older_way(refused: &Refused) -> bool {
    let facts = refused.error.facts();
    let by_code = match refused.error.code() {
        ErrorCode::HttpStatus => true,
        ErrorCode::ConnectFailed => facts.rpc_code.is_some_and(|code| !(-32022..=-32020).contains(&code)),
        _ => false,
    };
    by_code && matches!(facts.status.or(refused.status), Some(400 | 404 | 405))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::state::FailureKind;

    #[test]
    fn f_070_only_an_answer_selects_the_older_way() {
        let refused = |code, rpc_code, status| Refused {
            kind: FailureKind::Lasting,
            error: McpError::new(code, "").with(|facts| facts.rpc_code = rpc_code),
            status,
        };
        for (code, rpc_code, status, expected) in [
            (ErrorCode::HttpStatus, None, Some(400), true),
            (ErrorCode::HttpStatus, None, Some(404), true),
            (ErrorCode::HttpStatus, None, Some(405), true),
            (ErrorCode::HttpStatus, None, Some(403), false),
            (ErrorCode::HttpStatus, None, Some(429), false),
            (ErrorCode::HttpStatus, None, Some(503), false),
            (ErrorCode::AuthRequired, None, Some(401), false),
            (ErrorCode::ConnectFailed, None, None, false),
            (ErrorCode::ConnectTimeout, None, Some(404), false),
            (ErrorCode::TlsFailed, None, None, false),
            (ErrorCode::ConnectFailed, Some(-32000), Some(400), true),
            (ErrorCode::ConnectFailed, Some(-32000), Some(200), false),
            (ErrorCode::ConnectFailed, Some(-32022), Some(400), false),
            (ErrorCode::MessageInvalid, None, Some(200), false),
        ] {
            let got = speaks_older_way(&refused(code, rpc_code, status));
            assert_eq!(got, expected, "{code} {rpc_code:?} {status:?}");
        }
    }

    #[test]
    fn e17_statuses_that_may_pass() {
        for (status, expected) in [(500, true), (503, true), (429, true), (404, false), (400, false)] {
            assert_eq!(may_pass(Some(status)), expected, "{status}");
        }
    }
}
