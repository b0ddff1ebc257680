//! The token of one bridge (BRG-06): had from the host's function, renewed before it expires and after a 401, once at
//! a time. It belongs to this instance alone and is never shown.

use std::sync::{Arc, Mutex};

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use url::Url;

use super::callbacks::Callbacks;
use super::expiry;
use crate::auth::flight::Flight;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError};
use crate::runtime::{lock, unix_millis};
use crate::secret::{Redactor, Secret};
use crate::transport::BoxFuture;
use crate::transport::authorizer::{AuthRefusal, Authorizer, Mending, Presented};

/// Name of the host's function.
const FUNCTION: &str = "getAuthToken";

#[derive(Clone, Debug)]
struct Held {
    token: Secret<String>,
    serial: u64,
    renew_at: Option<u64>,
}

/// Keeps the token.
#[derive(Debug)]
pub(super) struct Tokens {
    callbacks: Callbacks,
    held: Arc<Mutex<Option<Held>>>,
    flight: Flight<Held>,
}

impl Tokens {
    pub(super) fn new(callbacks: Callbacks) -> Self {
        Self { callbacks, held: Arc::default(), flight: Flight::default() }
    }

    fn held(&self) -> Option<Held> {
        lock(&self.held).clone()
    }

    /// Asks the host; whoever needs a token meanwhile waits for the same answer.
    async fn fetch(&self, force: bool) -> Result<Held, McpError> {
        let (callbacks, held) = (self.callbacks.clone(), Arc::clone(&self.held));
        self.flight
            .join(|_| async move {
                let argument = format!(r#"{{"forceRefresh":{force}}}"#);
                let answer = callbacks.ask(FUNCTION, &argument).await;
                // The host may have a token the next time: this is no refusal.
                let answer = answer.map_err(|why| McpError::new(ErrorCode::ConnectFailed, why))?;
                let token: Option<String> = serde_json::from_str(&answer)
                    .map_err(|_| failed("getAuthToken gave something that is neither a string nor null"))?;
                let token = token.filter(|token| !token.is_empty());
                let token = token.ok_or_else(|| failed("getAuthToken gave no token: log in"))?;
                let renew_at = expiry::renew_at(&token, unix_millis() / 1_000);
                let mut place = lock(&held);
                let serial = place.as_ref().map_or(1, |before| before.serial + 1);
                let fresh = Held { token: Secret::new(token), serial, renew_at };
                *place = Some(fresh.clone());
                Ok(fresh)
            })
            .await
    }

    /// The token to present: the held one, or a new one where that is about to expire.
    async fn current(&self) -> Result<Held, McpError> {
        let Some(held) = self.held() else { return self.fetch(false).await };
        if held.renew_at.is_none_or(|at| unix_millis() / 1_000 < at) {
            return Ok(held);
        }
        match self.fetch(true).await {
            Ok(fresh) => Ok(fresh),
            // It may still count; the relay says so if it does not.
            Err(error) if error.code() != ErrorCode::BridgeAuthFailed => {
                let message =
                    format!("the token is about to expire and was not renewed: {}", error.message());
                self.callbacks.tell(&Diagnostic::warning("BRIDGE_TOKEN_NOT_RENEWED", message));
                Ok(held)
            }
            Err(error) => Err(error),
        }
    }
}

/// The error for a token that cannot be had or is refused.
pub(super) fn failed(why: &str) -> McpError {
    McpError::new(ErrorCode::BridgeAuthFailed, why)
}

impl Authorizer for Tokens {
    fn present<'a>(&'a self, _: &'a str, _: &'a Url) -> BoxFuture<'a, Result<Presented, McpError>> {
        Box::pin(async move {
            let held = self.current().await?;
            let mut value = HeaderValue::from_str(&format!("Bearer {}", held.token.expose()))
                .map_err(|_| failed("getAuthToken gave a token with characters that no header may hold"))?;
            value.set_sensitive(true);
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
            Ok(Presented { headers, serial: held.serial })
        })
    }

    fn refused<'a>(
        &'a self,
        presented: &'a Presented,
        refusal: &'a AuthRefusal,
    ) -> BoxFuture<'a, Result<Mending, McpError>> {
        Box::pin(async move {
            if refusal.status != 401 {
                return Ok(Mending::Nothing);
            }
            // Somebody has renewed it meanwhile.
            if self.held().is_some_and(|held| held.serial != presented.serial) {
                return Ok(Mending::Renewed);
            }
            if refusal.again {
                return Ok(Mending::Nothing);
            }
            self.fetch(true).await.map(|_| Mending::Renewed)
        })
    }

    fn redactor(&self) -> Redactor {
        self.held().map(|held| Redactor::new([held.token.expose().as_str()])).unwrap_or_default()
    }
}
