//! The order in which a server is ended (STD-04).
//!
//! Owns the timetable of the steps, as a pure function of time, and the closing that needs no runtime.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::process_group::Presence;
use super::{CloseMode, CloseStep, ServerProcess, ShutdownTimes, strays};

/// From the leader's own end to SIGTERM for what it left in its group.
pub(super) const LEFTOVER_TERM: Duration = Duration::from_millis(300);

/// From the leader's own end to SIGKILL for what it left in its group.
pub(super) const LEFTOVER_KILL: Duration = Duration::from_millis(1300);

/// From SIGKILL to the report that a process survived it.
pub(super) const VERDICT: Duration = Duration::from_millis(900);

/// Between two looks of a fast close.
const POLL: Duration = Duration::from_millis(50);

/// After SIGKILL a fast close looks this long.
const FAST_VERDICT: Duration = Duration::from_millis(300);

/// How urgent an end is; a stronger order replaces a weaker one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    Graceful,
    Fast,
    Now,
}

impl From<CloseMode> for Urgency {
    fn from(mode: CloseMode) -> Self {
        match mode {
            CloseMode::Graceful => Self::Graceful,
            CloseMode::Fast => Self::Fast,
        }
    }
}

/// The wish to end a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) urgency: Urgency,
    pub(super) times: ShutdownTimes,
    pub(super) given: Instant,
}

impl Order {
    pub(super) fn new(urgency: Urgency, times: ShutdownTimes) -> Self {
        Self { urgency, times, given: Instant::now() }
    }

    fn timetable(&self) -> [(Duration, CloseStep); 3] {
        let times = &self.times;
        match self.urgency {
            Urgency::Graceful => [
                (Duration::ZERO, CloseStep::InputEnd),
                (times.grace, CloseStep::Terminate),
                (times.grace.saturating_add(times.term), CloseStep::Kill),
            ],
            Urgency::Fast => [
                (Duration::ZERO, CloseStep::Interrupt),
                (times.fast_int, CloseStep::Terminate),
                (times.fast_term, CloseStep::Kill),
            ],
            Urgency::Now => [(Duration::ZERO, CloseStep::Kill); 3],
        }
    }

    /// From the order to the last word on it.
    pub(super) fn limit(&self) -> Duration {
        self.timetable()[2].0.saturating_add(VERDICT)
    }
}

/// How far the end of one server has come.
#[derive(Debug)]
pub(super) struct Progress {
    order: Option<Order>,
    leader_ended: Option<Instant>,
    taken: CloseStep,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { order: None, leader_ended: None, taken: CloseStep::AlreadyExited }
    }

    /// Takes an order; one that is no stronger than the present one changes nothing.
    pub(super) fn order(&mut self, order: Order) {
        if self.order.is_none_or(|present| present.urgency < order.urgency) {
            self.order = Some(order);
        }
    }

    /// Notes that the leader has ended.
    pub(super) fn leader_ended(&mut self, now: Instant) {
        self.leader_ended.get_or_insert(now);
    }

    pub(super) fn order_given(&self) -> Option<&Order> {
        self.order.as_ref()
    }

    /// The strongest step taken so far.
    pub(super) fn taken(&self) -> CloseStep {
        self.taken
    }

    /// The step that is due and was not taken; it counts as taken from now on.
    pub(super) fn due(&mut self, now: Instant) -> Option<CloseStep> {
        let due = self.steps(now).filter(|(wait, _)| wait.is_zero()).map(|(_, step)| step).max()?;
        (due > self.taken).then(|| {
            self.taken = due;
            due
        })
    }

    /// How long until another step may be due.
    pub(super) fn until_next(&self, now: Instant) -> Option<Duration> {
        self.steps(now)
            .filter(|(wait, step)| !wait.is_zero() && *step > self.taken)
            .map(|(wait, _)| wait)
            .min()
    }

    /// Every step with the time that is left until it is due.
    fn steps(&self, now: Instant) -> impl Iterator<Item = (Duration, CloseStep)> {
        let left =
            move |since: Instant, at: Duration| at.saturating_sub(now.saturating_duration_since(since));
        let ordered = self
            .order
            .into_iter()
            .flat_map(move |order| order.timetable().map(|(at, step)| (left(order.given, at), step)));
        let leftover = self.leader_ended.into_iter().flat_map(move |ended| {
            [(LEFTOVER_TERM, CloseStep::Terminate), (LEFTOVER_KILL, CloseStep::Kill)]
                .map(|(at, step)| (left(ended, at), step))
        });
        ordered.chain(leftover)
    }
}

/// Servers of one owner, with its times.
#[derive(Debug, Default)]
pub struct ExitLot {
    /// The servers.
    pub processes: Vec<Arc<ServerProcess>>,
    /// The steps of their end.
    pub times: ShutdownTimes,
}

impl ExitLot {
    /// Takes the steps that are due; gives the servers that live.
    fn look(&self, progress: &mut Progress) -> Vec<&ServerProcess> {
        let living: Vec<&ServerProcess> =
            self.processes.iter().map(AsRef::as_ref).filter(|process| lives(process)).collect();
        if !living.is_empty()
            && let Some(step) = progress.due(Instant::now())
        {
            for process in &living {
                process.group().take(step);
            }
        }
        living
    }
}

/// Ends servers at once, on the calling thread, without a runtime: SIGINT to all groups, SIGTERM and SIGKILL
/// after `fast_int` and `fast_term` of their times (Windows: the end of all jobs), a look every 50 ms. Returns as soon
/// as all are gone, at most 300 ms after the last SIGKILL.
///
/// For the last moments of a host. Gives the numbers of groups that still have living members.
pub fn close_all_now(lots: impl IntoIterator<Item = ExitLot>) -> Vec<u32> {
    // Nothing would tell a server of Windows before its end: its input is still open.
    let urgency = if cfg!(windows) { Urgency::Now } else { Urgency::Fast };
    let mut lots: Vec<(ExitLot, Progress)> = lots
        .into_iter()
        .map(|lot| {
            let mut progress = Progress::new();
            progress.order(Order::new(urgency, lot.times));
            (lot, progress)
        })
        .collect();
    let last_kill = lots.iter().map(|(lot, _)| lot.times.fast_term).max().unwrap_or_default();
    let end = Instant::now() + last_kill + FAST_VERDICT;
    loop {
        let mut left = Vec::new();
        let mut pause = POLL;
        for (lot, progress) in &mut lots {
            let living = lot.look(progress);
            if !living.is_empty() {
                pause = pause.min(progress.until_next(Instant::now()).unwrap_or(POLL));
                left.extend(living.iter().map(|process| process.pid()));
            }
        }
        if left.is_empty() || Instant::now() >= end {
            let processes = lots.iter().flat_map(|(lot, _)| &lot.processes);
            strays::kill(processes.map(|process| process.marker()));
            return left;
        }
        std::thread::sleep(pause);
    }
}

fn lives(process: &ServerProcess) -> bool {
    match process.group().presence(Instant::now()) {
        Presence::Gone => false,
        Presence::Living(_) => true,
        Presence::Unknown => process.group().leader_exit().is_none(),
    }
}
