//! A request over a connection, whichever client it has: repeated once where that is surely harmless, and counted
//! as a sign of health or of its opposite.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::{Command, Connection, Live, Shared};
use crate::client::Request;
use crate::error::{Delivery, ErrorCode, McpError};
use crate::jsonrpc::RawText;
use crate::runtime::lock;

/// Transport errors in a row, with no success between them, that open the circuit (LIF-05).
const STRIKES: u32 = 3;

impl Connection {
    /// Sends a request, connecting if need be. Once more where the connection was gone before a byte of it was
    /// written, or where the server refused it because it has forgotten the session (CAL-01); what may have run
    /// is never sent again.
    ///
    /// # Errors
    /// Those of [`Connection::ready`] and of [`crate::client::Client::request`].
    pub async fn request(&self, request: Request<'_>) -> Result<RawText, McpError> {
        self.ask(request).await.map(|(answer, _)| answer)
    }

    /// As [`Connection::request`], with the client that was answered: what an answer means depends on the era it was
    /// given in, and the connection may have another client by now, or none.
    ///
    /// # Errors
    /// As [`Connection::request`].
    pub async fn ask(&self, request: Request<'_>) -> Result<(RawText, Live), McpError> {
        let mut gone = None;
        loop {
            let live = self.ready(request.deadline, gone).await?;
            let since = Instant::now();
            let outcome = live.client.request(request).await;
            self.shared.judge(&live, since, outcome.as_ref().err());
            if let Some(removed) = outcome.as_ref().err().and_then(|error| error.facts().removed) {
                self.shared.tell_hidden("the words of an error", removed);
            }
            match outcome {
                Err(error) if gone.is_none() && did_not_run(&error) && self.shared.health.may_repeat() => {
                    gone = Some(live.generation);
                }
                Ok(answer) => return Ok((answer, live)),
                Err(error) => return Err(self.shared.redact_error(error)),
            }
        }
    }
}

/// Nothing was sent, or the server has refused it because it has forgotten the session.
fn did_not_run(error: &McpError) -> bool {
    match error.facts().delivered {
        Some(Delivery::No) => matches!(error.code(), ErrorCode::ConnectionLost | ErrorCode::ServerExited),
        Some(Delivery::Refused) => error.code() == ErrorCode::SessionExpired,
        _ => false,
    }
}

/// What an outcome says of the way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// It answered, if only with an error.
    Alive,
    /// The way is broken.
    Trouble,
    /// Neither: the caller gave up, or the end of the connection is told elsewhere.
    Nothing,
}

fn sign_of(error: Option<&McpError>) -> Sign {
    let Some(error) = error else { return Sign::Alive };
    match error.code() {
        ErrorCode::ConnectFailed
        | ErrorCode::ConnectTimeout
        | ErrorCode::ConnectionLost
        | ErrorCode::TlsFailed
        | ErrorCode::ProxyFailed => Sign::Trouble,
        ErrorCode::HttpStatus if error.facts().status.is_some_and(|status| status >= 500) => Sign::Trouble,
        ErrorCode::RpcError | ErrorCode::HttpStatus | ErrorCode::ElicitationDeclined => Sign::Alive,
        _ => Sign::Nothing,
    }
}

/// How often requests may be sent again: many at once when a connection with many callers is lost, few for ever (Q6).
#[derive(Debug)]
struct RepeatBudget {
    left: f64,
    since: Instant,
}

impl RepeatBudget {
    /// Repetitions that may come at once.
    const MOST: f64 = 1_000.0;
    /// Repetitions that are earned in a second.
    const PER_SECOND: f64 = 20.0;

    fn full(now: Instant) -> Self {
        Self { left: Self::MOST, since: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let earned = now.saturating_duration_since(self.since).as_secs_f64() * Self::PER_SECOND;
        self.left = (self.left + earned).min(Self::MOST);
        self.since = now;
        let enough = self.left >= 1.0;
        if enough {
            self.left -= 1.0;
        }
        enough
    }
}

/// Signs of health of a connection, over all its clients.
#[derive(Debug)]
pub(crate) struct Health {
    base: Instant,
    /// Milliseconds from `base` to the last proof of life.
    heard: AtomicU64,
    strikes: AtomicU32,
    last_strike: Mutex<Option<Instant>>,
    repeats: Mutex<RepeatBudget>,
}

impl Default for Health {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            base: now,
            repeats: Mutex::new(RepeatBudget::full(now)),
            heard: AtomicU64::new(0),
            strikes: AtomicU32::new(0),
            last_strike: Mutex::default(),
        }
    }
}

impl Health {
    /// A proof of life.
    pub(super) fn hear(&self) {
        let since = u64::try_from(self.base.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard.store(since, Ordering::Relaxed);
        self.strikes.store(0, Ordering::Relaxed);
    }

    /// Whether one more request may be sent again.
    fn may_repeat(&self) -> bool {
        lock(&self.repeats).take(Instant::now())
    }

    /// When the last proof of life came.
    pub(super) fn last_heard(&self) -> Instant {
        self.base + Duration::from_millis(self.heard.load(Ordering::Relaxed))
    }

    /// A transport error of a request that was begun at `since`; whether it is one too many. Requests that were
    /// under way when the last error came tell nothing new.
    fn strike(&self, since: Instant) -> bool {
        let mut last = lock(&self.last_strike);
        if last.is_some_and(|last| since <= last) {
            return false;
        }
        *last = Some(Instant::now());
        let strikes = self.strikes.fetch_add(1, Ordering::Relaxed) + 1;
        if strikes < STRIKES {
            return false;
        }
        self.strikes.store(0, Ordering::Relaxed);
        true
    }
}

impl Shared {
    /// Takes what became of a request that was begun at `since` as a sign of health (LIF-05).
    pub(super) fn judge(&self, live: &Live, since: Instant, error: Option<&McpError>) {
        match (sign_of(error), error) {
            (Sign::Alive, _) => self.heard(),
            (Sign::Trouble, Some(error)) if self.health.strike(since) => {
                let command = Command::Tripped { generation: live.generation, error: error.clone() };
                self.tell(command);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lif_05_three_in_a_row_open_the_circuit_and_a_success_resets_the_count() {
        let health = Health::default();
        let later = async || {
            tokio::time::advance(Duration::from_millis(10)).await;
            Instant::now()
        };
        assert!(!health.strike(later().await));
        let begun = Instant::now();
        assert!(!health.strike(later().await));
        for _ in 0..100 {
            assert!(!health.strike(begun), "under way when the last error came");
        }
        health.hear();
        assert!(!health.strike(later().await));
        assert!(!health.strike(later().await));
        assert!(health.strike(later().await));
        assert!(!health.strike(later().await), "counted anew");
    }

    #[test]
    fn q6_repetitions_are_bounded_per_server() {
        let start = Instant::now();
        let mut budget = RepeatBudget::full(start);
        let most = (0..5_000).filter(|_| budget.take(start)).count();
        assert_eq!(most, 1_000, "all callers of a lost connection");
        assert!(!budget.take(start + Duration::from_millis(10)));
        let later = start + Duration::from_secs(5);
        assert_eq!((0..5_000).filter(|_| budget.take(later)).count(), 100, "few for ever");
    }

    #[test]
    fn lif_05_which_errors_count() {
        let status =
            |status| McpError::new(ErrorCode::HttpStatus, "").with(|facts| facts.status = Some(status));
        let plain = |code| McpError::new(code, "");
        for (error, expected) in [
            (status(503), Sign::Trouble),
            (status(429), Sign::Alive),
            (plain(ErrorCode::ConnectionLost), Sign::Trouble),
            (plain(ErrorCode::ConnectFailed), Sign::Trouble),
            (plain(ErrorCode::RpcError), Sign::Alive),
            (plain(ErrorCode::Timeout), Sign::Nothing),
            (plain(ErrorCode::SessionExpired), Sign::Nothing),
            (plain(ErrorCode::MessageInvalid), Sign::Nothing),
        ] {
            assert_eq!(sign_of(Some(&error)), expected, "{error:?}");
        }
        assert_eq!(sign_of(None), Sign::Alive);
    }
}
