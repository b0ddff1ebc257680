//! What a connection does next: one pure function.
//!
//! ```text
//!            use / open            opened
//!   Idle ─────────────▶ Opening ──────────▶ Ready ──lost──▶ Waiting ──timer──▶ Opening
//!                        │  │  ▲                               ▲  │
//!       passing failure  │  │  └──── use (not too often) ──┐   │  └─ too often ─▶ Failed
//!        └───────────────┼──┼──────────────────────────────┼───┘
//!       lasting failure  │  └─ challenge ─▶ NeedsAuth ─open┤
//!        └──▶ Failed ◀───┘          open ─────────────────▶┘
//!   any ──disable──▶ Disabled ──enable──▶ Idle        any ──close──▶ Closed
//! ```
//!
//! The five public states are read off: Idle, Opening and Waiting are `pending`, Ready is `connected`
//! (LIF-01, LIF-04).

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Backoff;
use crate::error::{ErrorCode, McpError};

/// A connection that lived shorter does not prove the server healthy (LIF-04).
pub const PROVEN_AFTER: Duration = Duration::from_secs(10);
/// In `failed`, use tries again at most this often (LIF-04).
pub const FAILED_RETRY: Duration = Duration::from_secs(30);

/// No attempt follows a failure sooner, whatever the server asks for.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// It may work later: refused, timeout, exited at start.
    Passing,
    /// It will not: no such command, bad configuration, no common version.
    Lasting,
    /// The server asks for a login.
    Challenge,
}

/// Where a connection stands.
#[derive(Clone, Debug)]
pub enum State {
    /// Never used, or let go.
    Idle,
    /// An attempt is under way; `tries` counts those since the last proof of health, this one included.
    Opening {
        /// Number of the attempt.
        tries: u32,
    },
    /// In use.
    Ready {
        /// Since when.
        since: Instant,
        /// Attempts it took.
        tries: u32,
    },
    /// Until the next attempt.
    Waiting {
        /// Attempts so far.
        tries: u32,
        /// When the next one starts.
        until: Instant,
        /// What went wrong.
        error: McpError,
    },
    /// Given up; use tries again after `retry_at`.
    Failed {
        /// What went wrong.
        error: McpError,
        /// Earliest next attempt.
        retry_at: Instant,
    },
    /// Waits for a login.
    NeedsAuth {
        /// What the server said.
        error: McpError,
    },
    /// Switched off.
    Disabled,
    /// Gone for good.
    Closed,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Somebody needs the server.
    Use,
    /// Somebody asks for a fresh start.
    Open,
    /// The attempt succeeded.
    Opened,
    /// The attempt failed.
    OpenFailed(FailureKind, McpError),
    /// The connection ended by itself.
    Lost(McpError),
    /// The waiting time is over.
    Timer,
    /// Let go until the next use.
    Release,
    /// Switch off.
    Disable,
    /// Switch on.
    Enable,
    /// End for good.
    Close,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start an attempt.
    Open,
    /// Stop the attempt under way and reap what it started.
    AbandonOpening,
    /// End the current client.
    CloseClient,
}

/// The transition. `jitter` is a random number in −1…1.
pub fn step(state: State, event: Event, now: Instant, backoff: Backoff, jitter: f64) -> (State, Vec<Effect>) {
    match (state, event) {
        (State::Closed, _) => (State::Closed, Vec::new()),
        (state, Event::Close) => (State::Closed, leave(&state)),
        (State::Disabled, Event::Enable) => (State::Idle, Vec::new()),
        (State::Disabled, _) => (State::Disabled, Vec::new()),
        (state, Event::Disable) => (State::Disabled, leave(&state)),
        (state, Event::Enable) => (state, Vec::new()),
        (state, Event::Release) => (State::Idle, leave(&state)),
        (State::Opening { tries }, event) => while_opening(tries, event, now, backoff, jitter),
        (State::Ready { since, tries }, event) => while_ready(since, tries, event, now, (backoff, jitter)),
        (State::Waiting { tries, until, error }, event) => match event {
            Event::Timer if now >= until => opening(tries + 1),
            Event::Open => opening(1),
            _ => (State::Waiting { tries, until, error }, Vec::new()),
        },
        (State::Failed { error, retry_at }, event) => match event {
            Event::Open => opening(1),
            Event::Use if now >= retry_at => opening(backoff.attempts + 1),
            _ => (State::Failed { error, retry_at }, Vec::new()),
        },
        (State::NeedsAuth { error }, event) => match event {
            Event::Open => opening(1),
            _ => (State::NeedsAuth { error }, Vec::new()),
        },
        (State::Idle, Event::Use | Event::Open) => opening(1),
        (State::Idle, _) => (State::Idle, Vec::new()),
    }
}

fn opening(tries: u32) -> (State, Vec<Effect>) {
    (State::Opening { tries }, vec![Effect::Open])
}

fn leave(state: &State) -> Vec<Effect> {
    match state {
        State::Opening { .. } => vec![Effect::AbandonOpening],
        State::Ready { .. } => vec![Effect::CloseClient],
        _ => Vec::new(),
    }
}

fn while_opening(
    tries: u32,
    event: Event,
    now: Instant,
    backoff: Backoff,
    jitter: f64,
) -> (State, Vec<Effect>) {
    let next = match event {
        Event::Opened => State::Ready { since: now, tries },
        Event::OpenFailed(FailureKind::Challenge, error) => State::NeedsAuth { error },
        Event::OpenFailed(FailureKind::Lasting, error) => {
            State::Failed { error, retry_at: now + FAILED_RETRY }
        }
        Event::OpenFailed(FailureKind::Passing, error) => retry(tries, error, now, backoff, jitter),
        _ => State::Opening { tries },
    };
    (next, Vec::new())
}

fn while_ready(
    since: Instant,
    tries: u32,
    event: Event,
    now: Instant,
    (backoff, jitter): (Backoff, f64),
) -> (State, Vec<Effect>) {
    match event {
        Event::Lost(error) => {
            let failed = if now - since >= PROVEN_AFTER { 1 } else { tries };
            // A server that forgot the session is there: only a new handshake is missing (CAL-01).
            let forgotten = error.code() == ErrorCode::SessionExpired;
            if forgotten && backoff.delay(failed, jitter).is_some() {
                return (State::Opening { tries: failed + 1 }, vec![Effect::CloseClient, Effect::Open]);
            }
            (retry(failed, error, now, backoff, jitter), vec![Effect::CloseClient])
        }
        Event::Open => (State::Opening { tries: 1 }, vec![Effect::CloseClient, Effect::Open]),
        _ => (State::Ready { since, tries }, Vec::new()),
    }
}

/// After `tries` attempts: the next one, or giving up.
fn retry(tries: u32, error: McpError, now: Instant, backoff: Backoff, jitter: f64) -> State {
    match backoff.delay(tries, jitter) {
        Some(own) => {
            // What the server asks for counts, but never makes failures cheap (SSE-02).
            let delay = match error.facts().retry_after {
                Some(asked) if tries <= 1 => asked.max(SHORTEST_RETRY),
                Some(asked) => asked.max(own),
                None => own,
            };
            State::Waiting { tries, until: now + delay, error }
        }
        None => State::Failed { error: exhausted(tries, error), retry_at: now + FAILED_RETRY },
    }
}

fn exhausted(tries: u32, error: McpError) -> McpError {
    let facts = error.facts().clone();
    McpError::new(
        crate::error::ErrorCode::RetriesExhausted,
        format!("gave up after {tries} attempts; the last one: {}", error.message()),
    )
    .with(|target| {
        *target = facts;
        target.attempts = Some(tries);
    })
    .caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    fn error() -> McpError {
        McpError::new(ErrorCode::ConnectFailed, "refused")
    }

    fn go(state: State, event: Event, now: Instant) -> (State, Vec<Effect>) {
        step(state, event, now, Backoff::default(), 0.0)
    }

    fn name(state: &State) -> &'static str {
        match state {
            State::Idle => "idle",
            State::Opening { .. } => "opening",
            State::Ready { .. } => "ready",
            State::Waiting { .. } => "waiting",
            State::Failed { .. } => "failed",
            State::NeedsAuth { .. } => "needs-auth",
            State::Disabled => "disabled",
            State::Closed => "closed",
        }
    }

    /// Every pair of state and event: the state after it and the effects.
    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of every pair")]
    fn lif_01_every_pair() {
        use Effect::{AbandonOpening as Abandon, CloseClient, Open};
        let now = Instant::now();
        let later = now + Duration::from_secs(100);
        let states = || {
            [
                State::Idle,
                State::Opening { tries: 1 },
                State::Ready { since: now, tries: 1 },
                State::Waiting { tries: 1, until: now, error: error() },
                State::Failed { error: error(), retry_at: now },
                State::NeedsAuth { error: error() },
                State::Disabled,
                State::Closed,
            ]
        };
        let events = [
            Event::Use,
            Event::Open,
            Event::Opened,
            Event::OpenFailed(FailureKind::Passing, error()),
            Event::OpenFailed(FailureKind::Lasting, error()),
            Event::OpenFailed(FailureKind::Challenge, error()),
            Event::Lost(error()),
            Event::Timer,
            Event::Release,
            Event::Disable,
            Event::Enable,
            Event::Close,
        ];
        let same = |of: &'static str| (of, vec![]);
        let open = || ("opening", vec![Open]);
        let expected: Vec<Vec<(&str, Vec<Effect>)>> = vec![
            vec![
                open(),
                open(),
                same("idle"),
                same("idle"),
                same("idle"),
                same("idle"),
                same("idle"),
                same("idle"),
                same("idle"),
                same("disabled"),
                same("idle"),
                same("closed"),
            ],
            vec![
                same("opening"),
                same("opening"),
                same("ready"),
                same("waiting"),
                same("failed"),
                same("needs-auth"),
                same("opening"),
                same("opening"),
                ("idle", vec![Abandon]),
                ("disabled", vec![Abandon]),
                same("opening"),
                ("closed", vec![Abandon]),
            ],
            vec![
                same("ready"),
                ("opening", vec![CloseClient, Open]),
                same("ready"),
                same("ready"),
                same("ready"),
                same("ready"),
                ("waiting", vec![CloseClient]),
                same("ready"),
                ("idle", vec![CloseClient]),
                ("disabled", vec![CloseClient]),
                same("ready"),
                ("closed", vec![CloseClient]),
            ],
            vec![
                same("waiting"),
                open(),
                same("waiting"),
                same("waiting"),
                same("waiting"),
                same("waiting"),
                same("waiting"),
                open(),
                same("idle"),
                same("disabled"),
                same("waiting"),
                same("closed"),
            ],
            vec![
                open(),
                open(),
                same("failed"),
                same("failed"),
                same("failed"),
                same("failed"),
                same("failed"),
                same("failed"),
                same("idle"),
                same("disabled"),
                same("failed"),
                same("closed"),
            ],
            vec![
                same("needs-auth"),
                open(),
                same("needs-auth"),
                same("needs-auth"),
                same("needs-auth"),
                same("needs-auth"),
                same("needs-auth"),
                same("needs-auth"),
                same("idle"),
                same("disabled"),
                same("needs-auth"),
                same("closed"),
            ],
            vec![
                same("disabled"),
                same("disabled"),
                same("disabled"),
                same("disabled"),
                same("disabled"),
                same("disabled"),
                same("disabled"),
                same("disabled"),
                same("disabled"),
                same("disabled"),
                same("idle"),
                same("closed"),
            ],
            vec![("closed", vec![]); 12],
        ];
        for (state_number, row) in expected.iter().enumerate() {
            for (event_number, (after, effects)) in row.iter().enumerate() {
                let before = states()[state_number].clone();
                let event = events[event_number].clone();
                let (state, done) = go(before.clone(), event.clone(), later);
                assert_eq!((name(&state), &done), (*after, effects), "{} + {event:?}", name(&before));
            }
        }
    }

    #[test]
    fn lif_04_delays_and_giving_up() {
        let mut now = Instant::now();
        let mut state = State::Idle;
        let mut delays = Vec::new();
        state = go(state, Event::Use, now).0;
        loop {
            state = go(state, Event::OpenFailed(FailureKind::Passing, error()), now).0;
            let State::Waiting { until, .. } = state else { break };
            delays.push((until - now).as_secs());
            assert_eq!(name(&go(state.clone(), Event::Timer, until - Duration::from_millis(1)).0), "waiting");
            now = until;
            state = go(state, Event::Timer, now).0;
        }
        assert_eq!(delays, [1, 2, 4, 8, 16]);
        let State::Failed { error, retry_at } = &state else { panic!("{state:?}") };
        assert_eq!(error.code(), ErrorCode::RetriesExhausted);
        assert_eq!(*retry_at, now + FAILED_RETRY);
        assert_eq!(name(&go(state.clone(), Event::Use, now).0), "failed", "not more often than every 30 s");
        let State::Opening { tries } = go(state, Event::Use, now + FAILED_RETRY).0 else { panic!() };
        let (again, _) =
            go(State::Opening { tries }, Event::OpenFailed(FailureKind::Passing, super::tests::error()), now);
        assert_eq!(name(&again), "failed", "in failed, use tries once");
    }

    #[test]
    fn lif_04_a_short_lived_connection_does_not_reset_the_count() {
        let now = Instant::now();
        let ready = State::Ready { since: now, tries: 4 };
        let soon = now + Duration::from_secs(9);
        let State::Waiting { tries: 4, until, .. } = go(ready.clone(), Event::Lost(error()), soon).0 else {
            panic!()
        };
        assert_eq!(until - soon, Duration::from_secs(8));
        let late = now + PROVEN_AFTER;
        let State::Waiting { tries: 1, until, .. } = go(ready, Event::Lost(error()), late).0 else {
            panic!()
        };
        assert_eq!(until - late, Duration::from_secs(1));
    }

    #[test]
    fn sse_02_the_pause_a_server_asks_for_counts_once() {
        let now = Instant::now();
        let after = |tries, millis| {
            let error = error().with(|facts| facts.retry_after = Some(Duration::from_millis(millis)));
            let State::Waiting { until, .. } =
                go(State::Ready { since: now, tries }, Event::Lost(error), now).0
            else {
                panic!()
            };
            (until - now).as_millis()
        };
        assert_eq!(after(1, 300), 300, "shorter than our own");
        assert_eq!(after(1, 7_000), 7_000, "longer than our own");
        assert_eq!(after(1, 0), 100);
        assert_eq!(after(3, 300), 4_000, "failures do not get cheap");
        assert_eq!(after(3, 60_000), 60_000);
    }

    #[test]
    fn cal_01_a_forgotten_session_is_renewed_at_once_but_not_for_ever() {
        let now = Instant::now();
        let forgotten = || Event::Lost(McpError::new(ErrorCode::SessionExpired, ""));
        let (state, effects) = go(State::Ready { since: now, tries: 1 }, forgotten(), now);
        assert!(matches!(state, State::Opening { tries: 2 }));
        assert_eq!(effects, [Effect::CloseClient, Effect::Open]);
        let (state, _) = go(State::Ready { since: now, tries: 6 }, forgotten(), now);
        assert_eq!(name(&state), "failed");
    }
}
