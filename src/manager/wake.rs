//! Notices that the machine has slept, that this process stood still, or that the clock jumped (LIF-07, BEY-04).

use std::sync::Weak;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{Closing, Manager};

/// Pause between two looks at the clocks.
const LOOK: Duration = Duration::from_secs(2);
/// A look that comes so much too late by either clock means that time has passed unnoticed.
const JUMP: Duration = Duration::from_secs(5);

/// Two clocks: the wall's goes on while the machine sleeps, the other one may stand still.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    wall: SystemTime,
    steady: Instant,
}

impl Clocks {
    fn read() -> Self {
        Self { wall: SystemTime::now(), steady: Instant::now() }
    }

    /// Whether more time has passed since `before` than a look takes. A wall clock that was set back tells nothing.
    fn jumped_since(self, before: Self) -> bool {
        let wall = self.wall.duration_since(before.wall).unwrap_or_default();
        let steady = self.steady.saturating_duration_since(before.steady);
        wall.max(steady) > LOOK + JUMP
    }
}

/// Has all connections looked after when time was lost; ends with the manager.
pub(super) async fn watch_clocks(manager: Weak<Manager>) {
    let mut before = Clocks::read();
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(manager) = manager.upgrade() else { return };
        if *manager.closing.borrow() != Closing::No {
            return;
        }
        let now = Clocks::read();
        if now.jumped_since(before) {
            for connection in manager.table().values() {
                connection.wake();
            }
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lif_07_f_056_which_jumps_count() {
        let before = Clocks::read();
        let after = |wall: i64, steady: u64| {
            let shift = Duration::from_secs(wall.unsigned_abs());
            Clocks {
                wall: if wall < 0 { before.wall - shift } else { before.wall + shift },
                steady: before.steady + Duration::from_secs(steady),
            }
        };
        assert!(!after(2, 2).jumped_since(before), "as it should be");
        assert!(!after(6, 6).jumped_since(before), "a busy machine");
        assert!(after(3_600, 2).jumped_since(before), "slept; the steady clock stood still");
        assert!(after(3_600, 3_600).jumped_since(before), "slept; it went on");
        assert!(after(2, 9).jumped_since(before), "the process was stopped");
        assert!(!after(-86_400, 2).jumped_since(before), "set back by a day");
        assert!(after(86_400, 2).jumped_since(before), "set forward by a day");
    }
}
