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
//!   Ready ──tripped──▶ Failed ──timer, 30 s … 5 min──▶ Opening ──failed──▶ Failed    (circuit open, LIF-05)
//!   Opening ──open──▶ Opening, from the start
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
/// First and longest time that an open circuit keeps callers off (LIF-04).
pub const CIRCUIT_PAUSES: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(300));

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
        /// How often in a row the circuit has opened; 0 for an attempt that is no trial of an open circuit.
        trips: u32,
    },
    /// In use.
    Ready {
        /// Since when.
        since: Instant,
        /// Attempts it took.
        tries: u32,
        /// How often in a row the circuit has opened.
        trips: u32,
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
        /// How often in a row the circuit has opened; then the next attempt comes by itself. 0: it waits for use.
        trips: u32,
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
    /// Too many transport errors in a row (LIF-05).
    Tripped(McpError),
    /// The machine has slept, or its clock jumped: whatever was unreachable may be there again (LIF-07).
    Wake,
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
        // A fresh start is one, also while another attempt is under way (LIF-04).
        (State::Opening { .. }, Event::Open) => {
            (State::Opening { tries: 1, trips: 0 }, vec![Effect::AbandonOpening, Effect::Open])
        }
        (State::Opening { tries, trips }, event) => {
            (while_opening((tries, trips), event, now, (backoff, jitter)), Vec::new())
        }
        (State::Ready { since, tries, trips }, event) => {
            while_ready(since, (tries, trips), event, now, (backoff, jitter))
        }
        (State::Waiting { tries, until, error }, event) => match event {
            Event::Timer if now >= until => opening(tries + 1),
            Event::Open | Event::Wake => opening(1),
            _ => (State::Waiting { tries, until, error }, Vec::new()),
        },
        (State::Failed { error, retry_at, trips }, event) => match event {
            Event::Open => opening(1),
            Event::Use | Event::Timer if trips > 0 && now >= retry_at => trial(trips),
            Event::Use if now >= retry_at => opening(backoff.attempts + 1),
            _ => (State::Failed { error, retry_at, trips }, Vec::new()),
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
    (State::Opening { tries, trips: 0 }, vec![Effect::Open])
}

/// An attempt that shows whether an open circuit may be closed.
fn trial(trips: u32) -> (State, Vec<Effect>) {
    (State::Opening { tries: 1, trips }, vec![Effect::Open])
}

fn leave(state: &State) -> Vec<Effect> {
    match state {
        State::Opening { .. } => vec![Effect::AbandonOpening],
        State::Ready { .. } => vec![Effect::CloseClient],
        _ => Vec::new(),
    }
}

fn while_opening(
    (tries, circuit): (u32, u32),
    event: Event,
    now: Instant,
    (backoff, jitter): (Backoff, f64),
) -> State {
    match event {
        Event::Opened => State::Ready { since: now, tries, trips: circuit },
        Event::OpenFailed(FailureKind::Challenge, error) => State::NeedsAuth { error },
        Event::OpenFailed(FailureKind::Lasting, error) => {
            State::Failed { error, retry_at: now + FAILED_RETRY, trips: 0 }
        }
        Event::OpenFailed(FailureKind::Passing, error) if circuit > 0 => {
            open_circuit(circuit + 1, error, now)
        }
        Event::OpenFailed(FailureKind::Passing, error) => retry(tries, error, now, backoff, jitter),
        _ => State::Opening { tries, trips: circuit },
    }
}

fn while_ready(
    since: Instant,
    (tries, circuit): (u32, u32),
    event: Event,
    now: Instant,
    (backoff, jitter): (Backoff, f64),
) -> (State, Vec<Effect>) {
    let proven = now - since >= PROVEN_AFTER;
    match event {
        // Only a login helps (OAU-02).
        Event::Lost(error) if error.code() == ErrorCode::AuthRequired => {
            (State::NeedsAuth { error }, vec![Effect::CloseClient])
        }
        Event::Lost(error) => {
            let failed = if proven { 1 } else { tries };
            // A server that forgot the session is there: only a new handshake is missing (CAL-01).
            let forgotten = error.code() == ErrorCode::SessionExpired;
            if forgotten && backoff.delay(failed, jitter).is_some() {
                let next = State::Opening { tries: failed + 1, trips: 0 };
                return (next, vec![Effect::CloseClient, Effect::Open]);
            }
            (lost(failed, error, since, now, (backoff, jitter)), vec![Effect::CloseClient])
        }
        Event::Tripped(error) => {
            let opened = if proven { 1 } else { circuit + 1 };
            (open_circuit(opened, error, now), vec![Effect::CloseClient])
        }
        Event::Open => (State::Opening { tries: 1, trips: 0 }, vec![Effect::CloseClient, Effect::Open]),
        _ => (State::Ready { since, tries, trips: circuit }, Vec::new()),
    }
}

/// After a loss. Who makes no new tries leaves it to the next use, which has to keep its distance from the attempt
/// that brought the connection, not from its end (LIF-04).
fn lost(
    tries: u32,
    error: McpError,
    since: Instant,
    now: Instant,
    (backoff, jitter): (Backoff, f64),
) -> State {
    match retry(tries, error, now, backoff, jitter) {
        State::Failed { error, trips, .. } => {
            State::Failed { error, retry_at: now.max(since + FAILED_RETRY), trips }
        }
        waiting => waiting,
    }
}

/// Keeps callers off: 30 s, twice as long each time in a row, at most 5 min (LIF-04).
fn open_circuit(trips: u32, error: McpError, now: Instant) -> State {
    let (first, longest) = CIRCUIT_PAUSES;
    let pause = first.saturating_mul(1 << trips.saturating_sub(1).min(10)).min(longest);
    let pause = at_least_asked(pause, &error);
    let error = if error.code() == ErrorCode::CircuitOpen { error } else { tripped(error) };
    State::Failed { error, retry_at: now + pause, trips }
}

fn tripped(error: McpError) -> McpError {
    let facts = error.facts().clone();
    let message = format!("too many transport errors in a row; the last one: {}", error.message());
    McpError::new(ErrorCode::CircuitOpen, message).with(|target| *target = facts).caused_by(error)
}

/// After `tries` attempts: the next one, or giving up.
fn retry(tries: u32, error: McpError, now: Instant, backoff: Backoff, jitter: f64) -> State {
    let Some(own) = backoff.delay(tries, jitter) else {
        let retry_at = now + at_least_asked(FAILED_RETRY, &error);
        return State::Failed { error: exhausted(tries, error), retry_at, trips: 0 };
    };
    // What the server asks for counts, but never makes failures cheap (SSE-02).
    let delay = match error.facts().retry_after {
        Some(asked) if tries <= 1 => asked.max(SHORTEST_RETRY),
        _ => at_least_asked(own, &error),
    };
    State::Waiting { tries, until: now + delay, error }
}

/// A pause of ours, or the longer one that a busy server asks for (F-047).
fn at_least_asked(own: Duration, error: &McpError) -> Duration {
    error.facts().retry_after.map_or(own, |asked| asked.max(own))
}

fn exhausted(tries: u32, error: McpError) -> McpError {
    let facts = error.facts().clone();
    McpError::new(
        crate::error::ErrorCode::RetriesExhausted,
        match tries {
            1 => format!("gave up after one attempt: {}", error.message()),
            _ => format!("gave up after {tries} attempts; the last one: {}", error.message()),
        },
    )
    .with(|target| {
        *target = facts;
        target.attempts = Some(tries);
    })
    .caused_by(error)
}

#[cfg(test)]
mod tests;
