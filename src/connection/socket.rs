//! Attempts at servers behind a WebSocket: the recipe from the definition.

use std::sync::Arc;

use super::Shared;
use super::remote::IDE_TOKEN;
use crate::config::spec::{ProxyChoice, TransportSpec};
use crate::error::{ErrorCode, McpError};
use crate::transport::authorizer::Authorizers;
use crate::transport::websocket::{self, WebSocketLimits, WebSocketRecipe};
use crate::transport::{Receiver, Transport};

/// Starts the transport of a server of type `ws` or `ws-ide`.
pub(super) fn start(
    shared: &Shared,
    receiver: Arc<dyn Receiver>,
    authorizers: Authorizers,
) -> Result<Arc<dyn Transport>, McpError> {
    let (url, headers) = match &shared.spec.transport {
        TransportSpec::WebSocket(spec) => {
            let configured = spec.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
            (&spec.url, configured.collect())
        }
        TransportSpec::WsIde(ide) => {
            let token = ide.auth_token.clone().map(|token| (IDE_TOKEN.to_owned(), token));
            (&ide.url, token.into_iter().collect())
        }
        other => return Err(McpError::new(ErrorCode::Internal, format!("{} is no WebSocket", other.kind()))),
    };
    let settings = &shared.settings;
    let recipe = WebSocketRecipe {
        url: url.clone(),
        headers,
        authorizers,
        tls: shared.spec.tls.clone().or_else(|| settings.tls.clone()),
        proxy: match &shared.spec.proxy {
            ProxyChoice::Inherited => settings.proxy.clone(),
            own => own.clone(),
        },
        environment: Arc::clone(&settings.environment),
        connect: settings.clocks.connect,
    };
    let limits =
        WebSocketLimits { message: settings.max_message, queued: settings.max_queued, ping: settings.ping };
    Ok(websocket::open(recipe, limits, receiver))
}
