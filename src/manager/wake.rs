//! Notices that the machine has slept, that this process stood still, that the clock jumped (LIF-07), or that the
//! network is another one (BEY-04).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
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

/// This machine's own addresses on its ways to the world, of both families; `None` where there is no way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ways(Option<IpAddr>, Option<IpAddr>);

impl Ways {
    /// Asks the system; nothing is sent. The addresses are those set aside for documentation.
    fn read() -> Self {
        let own = |from: IpAddr, to: IpAddr| {
            let socket = UdpSocket::bind(SocketAddr::new(from, 0)).ok()?;
            socket.connect(SocketAddr::new(to, 9)).ok()?;
            socket.local_addr().ok().map(|address| address.ip())
        };
        Self(
            own(Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
            own(Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()),
        )
    }
}

/// What one look sees.
#[derive(Clone, Copy, Debug)]
struct Sight {
    clocks: Clocks,
    ways: Ways,
}

impl Sight {
    fn read() -> Self {
        Self { clocks: Clocks::read(), ways: Ways::read() }
    }

    /// Whether connections may have died unnoticed since `before`.
    fn tells_news_since(self, before: Self) -> bool {
        self.ways != before.ways || self.clocks.jumped_since(before.clocks)
    }
}

/// Has all connections looked after when time was lost or the network changed; ends with the manager.
pub(super) async fn watch_clocks(manager: Weak<Manager>) {
    let mut before = Sight::read();
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(manager) = manager.upgrade() else { return };
        if *manager.closing.borrow() != Closing::No {
            return;
        }
        let now = Sight::read();
        if now.tells_news_since(before) {
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
    fn bey_04_f_055_another_network_is_news_and_the_same_one_is_not() {
        let before = Sight::read();
        let again = Sight { clocks: before.clocks, ..Sight::read() };
        assert!(!again.tells_news_since(before));
        let at = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        for (was, is, news) in [
            (Ways(at(1), None), Ways(at(1), None), false),
            (Ways(at(1), None), Ways(at(2), None), true),
            (Ways(at(1), None), Ways(None, None), true),
            (Ways(None, None), Ways(None, Some(Ipv6Addr::LOCALHOST.into())), true),
        ] {
            let (was, is) = (Sight { ways: was, ..before }, Sight { ways: is, ..before });
            assert_eq!(is.tells_news_since(was), news, "{was:?} {is:?}");
        }
    }

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
