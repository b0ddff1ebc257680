//! Logins that the host asks for (OAU-02).

use std::sync::Arc;

use super::Manager;
use crate::auth::{Asker, ServerAuth};
use crate::connection::status::PublicState;
use crate::connection::{Connection, Wish};
use crate::error::{ErrorCode, McpError};
use crate::host::{Host, QuestionKind};

impl Manager {
    /// Has a person log in at a server and connects; a server that needs no login is only connected. `callback` is
    /// the number of a callback for this very login.
    ///
    /// # Errors
    /// `AUTH_REQUIRED` with `authorizationUrl` where there is no callback; `AUTH_FAILED`, `AUTH_ISSUER_MISMATCH`,
    /// `AUTH_STORE_FAILED`, `URL_REFUSED`, and those of connecting.
    pub(super) async fn authenticate(
        &self,
        connection: &Connection,
        callback: Option<u32>,
    ) -> Result<(), McpError> {
        let login = login_of(connection)?;
        let asker = match callback {
            Some(number) => Asker::Call(number),
            None if self.post.can_answer(QuestionKind::AuthorizationUrl) => Asker::Host,
            None => Asker::Nobody,
        };
        let known = connection.snapshot().state() == PublicState::NeedsAuth && login.is_needed();
        // Who waits for a person already is not waited for: that login is ended.
        if !known && !login.is_under_way() {
            // What a login has to be for, the server says when it is asked. One that starts by itself meanwhile would
            // ask the host instead of this very callback.
            let _reserved = callback.map(|_| login.reserve());
            match connection.connect(Wish::Connected).await {
                Err(error) if !login.is_needed() => return Err(error),
                Ok(()) if !login.is_needed() => return Ok(()),
                _ => {}
            }
        }
        login.authenticate(asker).await.map_err(|error| error.on(connection.name()))?;
        connection.connect(Wish::Fresh).await
    }

    /// Finishes the login that waits, and connects.
    ///
    /// # Errors
    /// `AUTH_FAILED` where none waits or the URL is not of it, and those of [`Manager::authenticate`].
    pub(super) async fn complete_authorization(
        &self,
        connection: &Connection,
        url: String,
    ) -> Result<(), McpError> {
        let login = login_of(connection)?;
        login.complete(url).await.map_err(|error| error.on(connection.name()))?;
        connection.connect(Wish::Connected).await
    }

    /// Lets the login at a server go.
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED`.
    pub(super) async fn log_out(&self, connection: &Connection) -> Result<(), McpError> {
        let login = login_of(connection)?;
        login.log_out().await.map_err(|error| error.on(connection.name()))?;
        connection.release().await
    }
}

fn login_of(connection: &Connection) -> Result<Arc<ServerAuth>, McpError> {
    connection.login().cloned().ok_or_else(|| {
        let why = "no login is possible: the server is not of type http, sse or ws, oauth is false, or an \
                   Authorization header is configured";
        McpError::new(ErrorCode::AuthFailed, why).on(connection.name())
    })
}
