//! The time limit of one request: an idle limit that progress resets and a total that nothing resets.
//!
//! Both stand still while a person decides (PRO-06). One clock source: Tokio's, so that tests can pause it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{ErrorCode, McpError, TimeoutKind};
use crate::runtime::{self, lock};

/// How long a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest silence; progress starts it anew.
    pub idle: Duration,
    /// Hard maximum.
    pub total: Duration,
    /// What to call it when the idle limit runs out.
    pub idle_kind: TimeoutKind,
}

#[derive(Debug)]
struct Clock {
    started: Instant,
    last_sign: Instant,
    /// Time that people took, since the start and since the last sign of life.
    held_total: Duration,
    held_idle: Duration,
    holders: u32,
    held_since: Instant,
}

/// A running limit, shared by everyone who waits for the same request.
#[derive(Debug)]
pub struct Deadline {
    limits: Limits,
    clock: Mutex<Clock>,
}

impl Deadline {
    /// Starts the clocks.
    pub fn start(limits: Limits) -> Self {
        let now = Instant::now();
        let clock = Clock {
            started: now,
            last_sign: now,
            held_total: Duration::ZERO,
            held_idle: Duration::ZERO,
            holders: 0,
            held_since: now,
        };
        Self { limits, clock: Mutex::new(clock) }
    }

    /// A sign of life: the idle limit starts anew.
    pub fn touch(&self) {
        let mut clock = lock(&self.clock);
        clock.last_sign = Instant::now();
        clock.held_idle = Duration::ZERO;
    }

    /// Stops the clocks until the guard is dropped: a person was asked. May be nested.
    pub fn hold(&self) -> Hold<'_> {
        self.stop();
        Hold(self)
    }

    /// As [`Deadline::hold`], for holders that do not live within a borrow.
    pub fn hold_owned(self: &Arc<Self>) -> OwnedHold {
        self.stop();
        OwnedHold(Arc::clone(self))
    }

    fn stop(&self) {
        let mut clock = lock(&self.clock);
        if clock.holders == 0 {
            clock.held_since = Instant::now();
        }
        clock.holders += 1;
    }

    fn go_on(&self) {
        let mut clock = lock(&self.clock);
        clock.holders = clock.holders.saturating_sub(1);
        if clock.holders == 0 {
            let held = clock.held_since.elapsed();
            clock.held_total += held;
            let since_sign = clock.last_sign.elapsed();
            clock.held_idle += held.min(since_sign);
        }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        lock(&self.clock).started.elapsed()
    }

    /// The longest silence.
    pub fn idle_limit(&self) -> Duration {
        self.limits.idle
    }

    /// Waits until a limit runs out and says which. Cancel-safe.
    ///
    /// Polled outside the runtime it only waits to be polled inside it: [`crate::runtime::start`] sees to that.
    pub async fn expired(&self) -> TimeoutKind {
        runtime::entered().await;
        loop {
            let (kind, due) = self.next_due();
            match due {
                None => tokio::time::sleep(Duration::from_millis(250)).await,
                Some(due) if due <= Instant::now() => return kind,
                Some(due) => tokio::time::sleep_until(due).await,
            }
        }
    }

    /// The work, unless a limit runs out first; `what` stands in the error. Cancel-safe where the work is.
    ///
    /// # Errors
    /// Those of the work; [`Deadline::error`].
    pub async fn within<T>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T, McpError>>,
    ) -> Result<T, McpError> {
        tokio::select! {
            biased;
            outcome = work => outcome,
            kind = self.expired() => Err(self.error(kind, what)),
        }
    }

    /// The work, for at most half of the time that there is: the rest is for what comes after it.
    pub async fn for_half<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let half = self.limits.idle.min(self.limits.total) / 2;
        let over = async {
            runtime::entered().await;
            tokio::time::sleep(half).await;
        };
        tokio::select! {
            biased;
            outcome = work => Some(outcome),
            () = over => None,
        }
    }

    /// The limit that runs out first and when; no time while a person decides.
    fn next_due(&self) -> (TimeoutKind, Option<Instant>) {
        let clock = lock(&self.clock);
        if clock.holders > 0 {
            return (self.limits.idle_kind, None);
        }
        let idle = clock.last_sign + self.limits.idle + clock.held_idle;
        let total = clock.started + self.limits.total + clock.held_total;
        if total < idle { (TimeoutKind::Total, Some(total)) } else { (self.limits.idle_kind, Some(idle)) }
    }

    /// The error to answer with after [`Deadline::expired`].
    pub fn error(&self, kind: TimeoutKind, what: &str) -> McpError {
        let elapsed = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (limit, option) = match kind {
            TimeoutKind::Total => (self.limits.total, "maxTotalTimeoutMs"),
            TimeoutKind::Idle => (self.limits.idle, "toolTimeoutMs"),
            TimeoutKind::Connect => (self.limits.idle, "connectTimeoutMs"),
            TimeoutKind::Request => (self.limits.idle, "requestTimeoutMs"),
        };
        let code = if kind == TimeoutKind::Connect { ErrorCode::ConnectTimeout } else { ErrorCode::Timeout };
        let seen = if kind == TimeoutKind::Idle { "no answer and no progress" } else { "no answer" };
        McpError::new(code, format!("{what}: {seen} within {} ms ({option})", limit.as_millis())).with(
            |facts| {
                facts.kind = Some(kind);
                facts.elapsed_ms = Some(elapsed);
            },
        )
    }
}

/// Keeps a deadline's clocks stopped.
#[derive(Debug)]
pub struct Hold<'a>(&'a Deadline);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.go_on();
    }
}

/// Keeps a shared deadline's clocks stopped.
#[derive(Debug)]
pub struct OwnedHold(Arc<Deadline>);

impl Drop for OwnedHold {
    fn drop(&mut self) {
        self.0.go_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(idle: u64, total: u64) -> Limits {
        Limits {
            idle: Duration::from_millis(idle),
            total: Duration::from_millis(total),
            idle_kind: TimeoutKind::Idle,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pro_06_progress_resets_idle_but_never_total() {
        let deadline = Deadline::start(limits(100, 250));
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(90)).await;
            deadline.touch();
        }
        assert_eq!(deadline.expired().await, TimeoutKind::Total);
        assert_eq!(deadline.elapsed(), Duration::from_millis(250));
    }

    #[tokio::test(start_paused = true)]
    async fn pro_06_human_time_does_not_count() {
        let deadline = Deadline::start(limits(100, 150));
        let hold = deadline.hold();
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(hold);
        assert_eq!(deadline.expired().await, TimeoutKind::Idle);
        assert_eq!(deadline.elapsed(), Duration::from_millis(60_100));
    }

    #[tokio::test(start_paused = true)]
    async fn pro_06_work_ends_with_the_limits_and_what_is_not_needed_before() {
        let deadline = Deadline::start(limits(100, 250));
        assert_eq!(deadline.for_half(std::future::pending::<()>()).await, None);
        assert_eq!(deadline.elapsed(), Duration::from_millis(50));
        let never = deadline.within("tools/list", std::future::pending::<Result<(), McpError>>());
        assert_eq!(never.await.unwrap_err().facts().kind, Some(TimeoutKind::Idle));
        assert_eq!(deadline.elapsed(), Duration::from_millis(100));
        assert_eq!(deadline.for_half(async { 7 }).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn pro_06_nested_holds_count_once() {
        let deadline = Deadline::start(limits(100, 1_000));
        let outer = deadline.hold();
        let inner = deadline.hold();
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(outer);
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(inner);
        assert_eq!(deadline.expired().await, TimeoutKind::Idle);
        assert_eq!(deadline.elapsed(), Duration::from_millis(10_100));
    }
}
