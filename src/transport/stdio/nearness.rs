//! Whether the thread that asks should look for the answer itself. Pure.
//!
//! It pays for one request at a time to a server that answers at once. A thread that looks uses processor time,
//! so it does for [`PATIENCE`] at most, and only after a row of quick answers; looking in vain asks for a
//! longer row.

use std::time::{Duration, Instant};

/// An answer read by the task is quick up to here: two threads had to be woken for it.
const QUICK: Duration = Duration::from_micros(500);
/// How long a thread looks for one answer.
pub(super) const PATIENCE: Duration = Duration::from_micros(300);
/// Quick answers in a row before a thread begins to look, at first; between 1 and [`LONGEST_ROW`] later.
const FIRST_ROW: u32 = 16;
const LONGEST_ROW: u32 = 1_024;
/// Answers found by looking that are worth one look in vain.
const WORTH_IT: u32 = 4;

/// What is known of a server's quickness.
#[derive(Debug)]
pub(super) struct Nearness {
    near: bool,
    /// When the only open request was sent.
    sent: Option<Instant>,
    /// Quick answers in a row.
    row: u32,
    /// How many it takes.
    needed: u32,
    /// Answers found by looking.
    found: u32,
}

impl Default for Nearness {
    fn default() -> Self {
        Self { near: false, sent: None, row: 0, needed: FIRST_ROW, found: 0 }
    }
}

impl Nearness {
    /// Whether the thread that asks reads.
    pub(super) fn is_near(&self) -> bool {
        self.near
    }

    /// Frames were sent and `open` requests wait; whether the thread that asks is to look.
    pub(super) fn sent(&mut self, open: usize, now: Instant) -> bool {
        if open != 1 {
            self.leave();
            return false;
        }
        self.sent = Some(now);
        self.near |= self.row >= self.needed;
        self.near
    }

    /// Something was read and `open` requests wait still.
    pub(super) fn read(&mut self, open: usize, now: Instant) {
        if open > 0 {
            return;
        }
        self.found += u32::from(self.near);
        match self.sent.take() {
            Some(sent) if now.saturating_duration_since(sent) <= QUICK => {
                self.row = self.row.saturating_add(1);
            }
            _ => self.row = 0,
        }
    }

    /// There was nothing to read; whether to look again.
    pub(super) fn nothing(&mut self, open: usize, now: Instant) -> bool {
        let Some(sent) = self.sent.filter(|_| open > 0) else {
            self.leave();
            return false;
        };
        if now.saturating_duration_since(sent) <= PATIENCE {
            return true;
        }
        self.needed = if self.found >= WORTH_IT { self.needed / 2 } else { self.needed * 2 };
        self.needed = self.needed.clamp(1, LONGEST_ROW);
        self.leave();
        false
    }

    /// The task reads again, and the row begins anew.
    pub(super) fn leave(&mut self) {
        self.near = false;
        self.sent = None;
        self.row = 0;
        self.found = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    /// One request that is answered after `micros`.
    fn answered(nearness: &mut Nearness, now: &mut Instant, micros: u32) -> bool {
        let near = nearness.sent(1, *now);
        *now += MICRO * micros;
        nearness.read(0, *now);
        near
    }

    #[test]
    fn a_row_of_quick_answers_brings_the_thread_near_and_company_sends_it_away() {
        let (mut nearness, mut now) = (Nearness::default(), Instant::now());
        for _ in 0..FIRST_ROW {
            assert!(!answered(&mut nearness, &mut now, 100));
        }
        assert!(answered(&mut nearness, &mut now, 100));
        assert!(answered(&mut nearness, &mut now, 100));
        assert!(!nearness.sent(2, now), "two at a time are for the task");
        assert!(!answered(&mut nearness, &mut now, 100), "the row begins anew");
    }

    #[test]
    fn slow_servers_are_never_looked_at() {
        let (mut nearness, mut now) = (Nearness::default(), Instant::now());
        for _ in 0..10_000 {
            assert!(!answered(&mut nearness, &mut now, 501));
        }
    }

    #[test]
    fn looking_ends_with_the_patience_and_costs_a_longer_row() {
        let (mut nearness, mut now) = (Nearness::default(), Instant::now());
        let mut row = 0;
        for expected in [FIRST_ROW, FIRST_ROW * 2, FIRST_ROW * 4] {
            while !nearness.sent(1, now) {
                now += MICRO * 100;
                nearness.read(0, now);
                row += 1;
            }
            assert_eq!(std::mem::take(&mut row), expected);
            assert!(nearness.nothing(1, now + PATIENCE));
            assert!(!nearness.nothing(1, now + PATIENCE + MICRO));
            assert!(!nearness.is_near());
        }
    }

    #[test]
    fn a_look_in_vain_is_forgiven_where_looking_pays() {
        let (mut nearness, mut now) = (Nearness::default(), Instant::now());
        for expected in [FIRST_ROW / 2, FIRST_ROW / 4, FIRST_ROW / 8, 1, 1] {
            for _ in 0..FIRST_ROW + WORTH_IT {
                answered(&mut nearness, &mut now, 100);
            }
            assert!(nearness.sent(1, now));
            assert!(!nearness.nothing(1, now + PATIENCE * 2));
            assert_eq!(nearness.needed, expected);
        }
    }

    #[test]
    fn without_an_open_request_nobody_looks() {
        let (mut nearness, mut now) = (Nearness::default(), Instant::now());
        for _ in 0..=FIRST_ROW {
            answered(&mut nearness, &mut now, 100);
        }
        assert!(nearness.is_near());
        assert!(!nearness.nothing(0, now));
        assert_eq!(nearness.needed, FIRST_ROW, "nobody is to blame");
    }
}
