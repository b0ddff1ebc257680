//! Where we stand in what the other end sends: sequence numbers, gaps, repeats, epochs (BRG-05). Pure.

/// What a message is, by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The next one: it counts as taken from now on.
    Take,
    /// It was taken before.
    Repeat,
    /// It belongs to a registration that is over; it comes again in the current one.
    Stale,
    /// It belongs to a later registration than ours: another instance has taken the session over.
    Superseded,
    /// Some are missing before it: the stream is to be asked for again from the first of them.
    AskAgain,
    /// They are still missing, after the stream was asked for them: they are lost, and this one counts as taken.
    TakeAfterLoss {
        /// How many.
        lost: u64,
    },
}

/// The high-water mark, which outlives every connection.
#[derive(Clone, Debug, Default)]
pub struct Position {
    highest: u64,
    epoch: u64,
    /// The mark at which a gap was seen and asked for.
    gap_at: Option<u64>,
}

impl Position {
    /// Goes on behind `highest`; 0 begins at the beginning.
    pub fn behind(highest: u64) -> Self {
        Self { highest, ..Self::default() }
    }

    /// The highest sequence number that was taken.
    pub fn sequence(&self) -> u64 {
        self.highest
    }

    /// The sequence number to ask for.
    pub fn next(&self) -> u64 {
        self.highest.saturating_add(1)
    }

    /// The epoch of our registration; 0 before the first.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// We are registered under an epoch.
    pub fn registered(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Judges a message, and takes it where that is the verdict.
    pub fn judge(&mut self, epoch: u64, sequence: u64) -> Verdict {
        if epoch < self.epoch {
            return Verdict::Stale;
        }
        if epoch > self.epoch {
            return Verdict::Superseded;
        }
        if sequence <= self.highest {
            return Verdict::Repeat;
        }
        let lost = sequence - self.highest - 1;
        if lost > 0 && self.gap_at != Some(self.highest) {
            self.gap_at = Some(self.highest);
            return Verdict::AskAgain;
        }
        self.highest = sequence;
        self.gap_at = None;
        if lost > 0 { Verdict::TakeAfterLoss { lost } } else { Verdict::Take }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brg_05_in_order_repeats_gaps_and_losses() {
        let mut position = Position::default();
        position.registered(1);
        assert_eq!(position.next(), 1);
        for (sequence, expected, after) in [
            (1, Verdict::Take, 1),
            (1, Verdict::Repeat, 1),
            (2, Verdict::Take, 2),
            (4, Verdict::AskAgain, 2),
            (1, Verdict::Repeat, 2),
            (3, Verdict::Take, 3),
            (4, Verdict::Take, 4),
            (7, Verdict::AskAgain, 4),
            (7, Verdict::TakeAfterLoss { lost: 2 }, 7),
            (8, Verdict::Take, 8),
            (0, Verdict::Repeat, 8),
            (u64::MAX, Verdict::AskAgain, 8),
        ] {
            assert_eq!(position.judge(1, sequence), expected, "{sequence}");
            assert_eq!(position.sequence(), after, "{sequence}");
        }
    }

    #[test]
    fn brg_05_messages_of_a_stale_epoch_are_dropped_and_the_mark_stays() {
        let mut position = Position::behind(5);
        position.registered(3);
        assert_eq!(position.judge(2, 6), Verdict::Stale);
        assert_eq!(position.judge(4, 6), Verdict::Superseded);
        assert_eq!((position.sequence(), position.next(), position.epoch()), (5, 6, 3));
        position.registered(4);
        assert_eq!(position.judge(4, 6), Verdict::Take, "the mark survives a new registration");
    }
}
