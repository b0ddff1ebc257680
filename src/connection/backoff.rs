//! How long to wait before the next attempt. Pure.

use std::time::Duration;

/// Retry settings (option `retry`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// Retries after a first attempt that failed; default 5.
    pub attempts: u32,
    /// Delay before the first retry; default 1 s, doubled each time.
    pub initial: Duration,
    /// Longest delay; default 30 s.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { attempts: 5, initial: Duration::from_secs(1), longest: Duration::from_secs(30) }
    }
}

/// Share by which a delay varies, so that many servers do not come back in the same moment.
const JITTER: f64 = 0.25;

impl Backoff {
    /// The delay after `tries` failed attempts, or `None` when it is time to give up.
    /// `jitter` is a random number in −1…1.
    pub fn delay(self, tries: u32, jitter: f64) -> Option<Duration> {
        if tries > self.attempts {
            return None;
        }
        let doubled = self.initial.saturating_mul(1 << tries.saturating_sub(1).min(20));
        let factor = 1.0 + JITTER * jitter.clamp(-1.0, 1.0);
        Some(doubled.min(self.longest).mul_f64(factor).min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::random_jitter;

    #[test]
    fn lif_04_delays_stay_within_their_bounds() {
        let backoff = Backoff { attempts: 50, ..Backoff::default() };
        for tries in 1..=50 {
            for jitter in [-1.0, 0.0, 1.0, 7.0] {
                let delay = backoff.delay(tries, jitter).unwrap();
                assert!(
                    delay <= backoff.longest && delay >= Duration::from_millis(750),
                    "{tries}: {delay:?}"
                );
            }
        }
        assert_eq!(backoff.delay(51, 0.0), None);
        assert!((0..100).all(|_| random_jitter().abs() <= 1.0));
    }
}
