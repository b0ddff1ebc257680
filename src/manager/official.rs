//! The official registry: for the status of servers, and for whoever asks for it (SEC-05).

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Deserialize;

use super::{Closing, Manager};
use crate::diagnostic::Diagnostic;
use crate::error::McpError;
use crate::official::fetch::{Listing, MAX_AGE, OFFICIAL, Wanted, fetch};
use crate::runtime;

/// Which list is wanted.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListRequest {
    /// Its address; that of the official registry by default.
    url: Option<String>,
    /// How old it may be; a day by default.
    max_age_ms: Option<f64>,
}

impl Manager {
    /// Gets the registry.
    ///
    /// # Errors
    /// `URL_REFUSED`; why it cannot be had, where nothing of it was kept.
    pub(super) async fn official_registry(&self, request: ListRequest) -> Result<Listing, McpError> {
        let settings = &self.options.connection;
        let age = |millis: f64| Duration::from_secs_f64(millis.clamp(0.0, 1e12) / 1_000.0);
        let wanted = Wanted {
            url: request.url.unwrap_or_else(|| OFFICIAL.to_owned()),
            max_age: request.max_age_ms.map_or(MAX_AGE, age),
            directory: self.state.path().map(Path::to_owned),
            tls: settings.tls.clone(),
            proxy: settings.proxy.clone(),
            environment: Arc::clone(&self.environment),
        };
        fetch(&wanted).await
    }

    /// Starts to ask for the registry where the host wants it in the status; nobody waits for it.
    pub(super) fn fetch_official(&self) {
        let Some(known) = self.options.connection.officials.clone() else { return };
        let Some(url) = known.address().map(str::to_owned) else { return };
        let request = ListRequest { url: Some(url), max_age_ms: None };
        let manager = Weak::clone(&self.this);
        let mut closing = self.closing.subscribe();
        runtime::spawn(async move {
            let Some(manager) = manager.upgrade() else { return };
            let outcome = tokio::select! {
                outcome = manager.official_registry(request) => outcome,
                _ = closing.wait_for(|closing| *closing != Closing::No) => return,
            };
            let trouble = match outcome {
                Ok(listing) => {
                    known.set(runtime::at_length(usize::MAX, || listing.officials()));
                    listing.trouble
                }
                Err(error) => Some(error),
            };
            if let Some(error) = trouble {
                let message = format!("the official registry cannot be had: {}", error.message());
                manager.diagnose(&Diagnostic::warning("OFFICIAL_REGISTRY_UNAVAILABLE", message));
            }
        });
    }
}
