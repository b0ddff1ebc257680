//! Sessions as such, over REST: made, taken up again, put away (BRG-09). Whatever may work later is tried again.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use super::callbacks::Callbacks;
use super::desk::{Answer, Desk, unknown};
use super::ids;
use super::options::{Version, base_url, callback_limit, from_json, invalid, paths, time};
use super::reading::pause;
use super::requests::{Failure, Requests, protocol};
use super::tokens::Tokens;
use super::wire::{self, Paths};
use crate::environment::Environment;
use crate::error::McpError;
use crate::host::post::PostOffice;
use crate::json_scan;
use crate::transport::authorizer::{Authorizer, Authorizers};

/// Attempts at one request.
const ATTEMPTS: u32 = 4;
const MOST_ATTEMPTS: u32 = 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    base_url: String,
    #[serde(default)]
    callbacks: HashSet<String>,
    #[serde(default)]
    paths: BTreeMap<String, String>,
    max_attempts: Option<u32>,
    callback_timeout_ms: Option<f64>,
    connect_timeout_ms: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    session_id: String,
}

/// The sessions of a relay.
pub struct Sessions {
    requests: Requests,
    base: Url,
    paths: Paths,
    attempts: u32,
}

impl Sessions {
    /// By its options (JSON text). Call it on a thread that may read the environment.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`.
    pub fn new(options: &str, post: Arc<PostOffice>) -> Result<Self, McpError> {
        let raw: Raw = from_json(options)?;
        let base = base_url(&raw.base_url)?;
        let paths = paths(Version::V2, raw.paths)?;
        wire::address(&base, &paths.sessions, "")
            .map_err(|what| invalid("options.paths", &format!("expected {what}")))?;
        let attempts = raw.max_attempts.unwrap_or(ATTEMPTS);
        if !(1..=MOST_ATTEMPTS).contains(&attempts) {
            return Err(invalid(
                "options.maxAttempts",
                &format!("expected 1 to {MOST_ATTEMPTS}, got {attempts}"),
            ));
        }
        let limit = time("connectTimeoutMs", raw.connect_timeout_ms, 30_000.0, 1.0)?;
        let patience = callback_limit(raw.callback_timeout_ms)?;
        let tokens: Arc<dyn Authorizer> =
            Arc::new(Tokens::new(Callbacks::new(post, raw.callbacks, patience)));
        let requests = Requests::new(Arc::new(Environment::capture()), Authorizers::new([tokens]), limit);
        Ok(Self { requests, base, paths, attempts })
    }

    /// Asks until there is an answer, or it is no use; gives what the relay says of the session (JSON text).
    async fn ask(&self, path: &str, session: &str, body: String) -> Result<String, McpError> {
        let url = wire::address(&self.base, path, session)
            .map_err(|what| invalid("options.paths", &format!("expected {what}")))?;
        // The same for every attempt: what is made twice is made once.
        let key = ids::uuid();
        let mut tries = 0;
        loop {
            tries += 1;
            let asked =
                self.requests.exchange::<Box<RawValue>>(Method::POST, &url, Some(body.clone()), Some(&key));
            let failure = match asked.await {
                Ok(answer) => return described(answer.get()),
                Err(failure) => failure,
            };
            let (error, asked) = match failure {
                Failure::Again(error, asked) if tries < self.attempts => (error, asked),
                Failure::Again(error, _)
                | Failure::Lost(error)
                | Failure::Superseded(error)
                | Failure::TooLarge(error)
                | Failure::Fatal(error) => return Err(error.with(|facts| facts.attempts = Some(tries))),
            };
            drop(error);
            tokio::time::sleep(pause(tries, asked)).await;
        }
    }
}

/// What the relay says of a session, if that is what it says.
fn described(answer: &str) -> Result<String, McpError> {
    let [id] = json_scan::pick(answer, ["id"]);
    let id = id.filter(|id| id.starts_with('"')).and_then(json_scan::decode);
    if id.is_some_and(|id| wire::is_session(&id)) {
        return Ok(answer.to_owned());
    }
    Err(protocol("the relay answers with something that is no session: it has no usable id"))
}

impl Desk for Sessions {
    fn take(self: Arc<Self>, verb: &str, payload: &str) -> Answer {
        let payload = payload.to_owned();
        if verb == "create" {
            return Box::pin(async move { self.ask(&self.paths.sessions, "", payload).await });
        }
        if !matches!(verb, "resume" | "archive") {
            return unknown(verb);
        }
        let path = format!("{}/{}/{verb}", self.paths.sessions, wire::PLACE);
        Box::pin(async move {
            let Named { session_id } = from_json(&payload)?;
            if !wire::is_session(&session_id) {
                return Err(invalid("sessionId", "expected an id without white space, of at most 256 bytes"));
            }
            self.ask(&path, &session_id, "{}".to_owned()).await
        })
    }

    fn number(&self, _name: &str) -> Option<u64> {
        None
    }

    fn abandon(&self) {}
}
