//! The one place that spawns: a small runtime shared by every manager of the process.
//!
//! Owns: the runtime, task spawning, and how a poisoned lock is taken. It is never shut down: the process
//! ends it, whichever of its environments goes last.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::task::JoinHandle;

/// One worker: with several, each small task wakes a second one to look for more, which costs a lone call more
/// than the call itself. What takes long leaves the worker to others meanwhile ([`at_length`],
/// [`beside_others`]).
const WORKERS: usize = 1;
/// Work on texts from this size on counts as taking long.
const LONG_FROM: usize = 256 * 1024;

static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("mcp-switchboard")
        .enable_all()
        .build()
        .ok()
});

/// The runtime's handle; `None` where the system refuses threads.
pub fn handle() -> Option<&'static Handle> {
    RUNTIME.as_ref().map(Runtime::handle)
}

/// Starts a task on the current runtime, or on the shared one when called from outside.
///
/// A panic ends that task alone; whoever waits for it sees its reply slot dropped.
pub fn spawn<F>(task: F) -> Option<JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match Handle::try_current() {
        Ok(current) => Some(current.spawn(task)),
        Err(_) => handle().map(|shared| shared.spawn(task)),
    }
}

/// Milliseconds since the epoch: for people, and for what outlives the process; deadlines never use it.
pub fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A time in milliseconds since the epoch in the form of RFC 3339, UTC, with milliseconds.
pub fn rfc3339(millis: u64) -> String {
    let (days, seconds) = (millis / 86_400_000, millis / 1_000 % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", millis % 1_000)
}

/// Date of a day counted from 1970-01-01, by the calendar's cycle of 400 years.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// A random number in −1…1, good enough to spread retries.
pub fn random_jitter() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let bits = u32::try_from(RandomState::new().hash_one(0_u8) >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX) * 2.0 - 1.0
}

/// Takes a lock whatever happened to its last holder: every critical section leaves a valid state.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a read lock whatever happened to its last holder.
pub fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a write lock whatever happened to its last holder.
pub fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// How often futures that still wait outside the runtime are moved into it.
const SWEEP: Duration = Duration::from_millis(20);
/// Empty sweeps after which the sweeper sleeps until it is called.
const IDLE_SWEEPS: u32 = 50;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that was polled once outside the runtime and has not been moved into it yet.
struct Parked {
    slot: Mutex<Slot>,
}

enum Slot {
    /// Being polled by the thread that started it; `true` if it was woken meanwhile.
    Polling(bool),
    /// Waiting for its first wake.
    Waiting(Task),
    /// Finished, or at home in the runtime.
    Gone,
}

impl Parked {
    fn enter_runtime(&self) {
        let mut slot = lock(&self.slot);
        match std::mem::replace(&mut *slot, Slot::Gone) {
            Slot::Polling(_) => *slot = Slot::Polling(true),
            Slot::Waiting(task) => {
                drop(slot);
                if let Some(task) = gathered(task) {
                    spawn(task);
                }
            }
            Slot::Gone => {}
        }
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.enter_runtime();
    }
}

thread_local! {
    /// Futures woken while this thread gathers; `None` when it does not.
    static GATHERED: RefCell<Option<Vec<Task>>> = const { RefCell::new(None) };
}

/// Keeps a woken future for the end of a gathering; gives it back where none is under way.
fn gathered(task: Task) -> Option<Task> {
    GATHERED.with_borrow_mut(|list| match list {
        Some(list) => {
            list.push(task);
            None
        }
        None => Some(task),
    })
}

/// Runs `work`, then takes the futures it woke one step further right here: what answers many calls at once
/// costs no task for each. A future that is not done after that step goes on as a task.
pub fn gather(work: impl FnOnce()) {
    GATHERED.set(Some(Vec::new()));
    let gathering = Gathering;
    work();
    drop(gathering);
}

/// Ends a gathering, however it ends.
struct Gathering;

impl Drop for Gathering {
    fn drop(&mut self) {
        for mut task in GATHERED.take().unwrap_or_default() {
            // A panic is the end of that future alone, as it would be of its task.
            let step = AssertUnwindSafe(|| task.as_mut().poll(&mut Context::from_waker(Waker::noop())));
            if catch_unwind(step).is_ok_and(|step| step.is_pending()) {
                spawn(task);
            }
        }
    }
}

/// Starts a future on the calling thread: its first step runs here, the rest in the runtime.
///
/// A call on an idle connection is written by its first step, so it costs no hop to another thread and no
/// timer: it enters the runtime with its first wake, or with the next sweep, and only there do clocks tick.
pub fn start(future: impl Future<Output = ()> + Send + 'static) {
    let parked = Arc::new(Parked { slot: Mutex::new(Slot::Polling(false)) });
    let waker = Waker::from(Arc::clone(&parked));
    let mut task: Task = Box::pin(future);
    if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
        *lock(&parked.slot) = Slot::Gone;
        return;
    }
    let mut slot = lock(&parked.slot);
    if matches!(*slot, Slot::Polling(true)) {
        *slot = Slot::Gone;
        drop(slot);
        spawn(task);
        return;
    }
    *slot = Slot::Waiting(task);
    drop(slot);
    SWEEPER.park(parked);
}

/// Moves what waits too long into the runtime.
struct Sweeper {
    list: Mutex<SweepList>,
}

#[derive(Default)]
struct SweepList {
    parked: Vec<Arc<Parked>>,
    running: bool,
}

static SWEEPER: Sweeper = Sweeper { list: Mutex::new(SweepList { parked: Vec::new(), running: false }) };

impl Sweeper {
    fn park(&'static self, parked: Arc<Parked>) {
        let mut list = lock(&self.list);
        list.parked.push(parked);
        if !list.running {
            list.running = true;
            drop(list);
            spawn(self.run());
        }
    }

    async fn run(&'static self) {
        let mut idle = 0;
        loop {
            tokio::time::sleep(SWEEP).await;
            let swept = {
                let mut list = lock(&self.list);
                if list.parked.is_empty() {
                    idle += 1;
                    if idle >= IDLE_SWEEPS {
                        list.running = false;
                        return;
                    }
                    continue;
                }
                std::mem::take(&mut list.parked)
            };
            idle = 0;
            flush();
            for parked in swept {
                parked.enter_runtime();
            }
        }
    }
}

/// Does work on a text of `size` bytes; where that takes long, other tasks go on meanwhile.
pub fn at_length<T>(size: usize, work: impl FnOnce() -> T) -> T {
    if size >= LONG_FROM { beside_others(work) } else { work() }
}

/// Does work that keeps its thread for long, or lets it wait; other tasks go on meanwhile.
pub fn beside_others<T>(work: impl FnOnce() -> T) -> T {
    let shared =
        Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if shared { tokio::task::block_in_place(work) } else { work() }
}

/// Something that was written to outside the runtime and waits to be sent on.
pub trait Flush: Send + Sync {
    /// Sends on what has gathered; never blocks.
    fn flush(&self);
    /// After a flush at the end of a turn: where the answer is expected at once, if it is.
    fn near(&self) -> Option<Arc<dyn Near>>;
}

/// The end of a pipe whose answer comes so soon that waking a task, and by it the thread that asked, would take
/// longer: that thread looks for it in the turns of its own event loop instead.
pub trait Near: Send + Sync {
    /// A turn's frames have left; whether its thread should look for the answer.
    fn expected_at_once(&self) -> bool;
    /// Reads what is there and passes it on; never waits. Whether another look is worth it.
    fn look(&self) -> bool;
}

thread_local! {
    /// Where this thread looks.
    static NEAR: RefCell<Option<Arc<dyn Near>>> = const { RefCell::new(None) };
}

static UNSENT: Mutex<Vec<Arc<dyn Flush>>> = Mutex::new(Vec::new());

/// Whether this thread belongs to a runtime.
pub fn inside() -> bool {
    Handle::try_current().is_ok()
}

/// Remembers what [`flush`] has to send on. For threads outside the runtime: inside, a task does it.
pub fn flush_later(unsent: Arc<dyn Flush>) {
    lock(&UNSENT).push(unsent);
}

/// Sends on what was written by threads outside the runtime. They call it at the end of their turn, so that
/// everything a turn has written leaves together; the sweeper does if they forget. Whether [`look`] is worth it.
pub fn end_turn() -> bool {
    let mut near = None;
    for unsent in flush() {
        near = unsent.near().or(near);
    }
    let looks = near.is_some();
    if looks {
        NEAR.set(near);
    }
    looks
}

fn flush() -> Vec<Arc<dyn Flush>> {
    let unsent = std::mem::take(&mut *lock(&UNSENT));
    for each in &unsent {
        each.flush();
    }
    unsent
}

/// Looks for the answer that is expected at once; whether another look is worth it.
pub fn look() -> bool {
    let (Some(near), Some(handle)) = (NEAR.take(), handle()) else { return false };
    let _inside = handle.enter();
    let again = near.look();
    if again {
        NEAR.set(Some(near));
    }
    again
}

/// Completes as soon as it is polled inside a runtime, where timers can be used.
pub async fn entered() {
    std::future::poll_fn(|_| if inside() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending })
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn sec_07_dates() {
        for (days, date) in
            [(0, "1970-01-01"), (11_016, "2000-02-29"), (19_723, "2024-01-01"), (20_786, "2026-11-29")]
        {
            assert_eq!(rfc3339(days * 86_400_000 + 3_723_004), format!("{date}T01:02:03.004Z"));
        }
    }

    #[test]
    fn first_step_runs_on_the_calling_thread_the_rest_in_the_runtime() {
        let (seen, threads) = mpsc::channel();
        let (answer, asked) = tokio::sync::oneshot::channel::<u8>();
        let caller = std::thread::current().id();
        start(async move {
            seen.send(std::thread::current().id()).unwrap();
            let got = asked.await;
            assert_eq!(got, Ok(7));
            seen.send(std::thread::current().id()).unwrap();
        });
        assert_eq!(threads.recv().unwrap(), caller);
        answer.send(7).unwrap();
        assert_ne!(threads.recv().unwrap(), caller);
    }

    #[test]
    fn clocks_tick_without_any_wake() {
        let (done, finished) = mpsc::channel();
        start(async move {
            entered().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            done.send(()).unwrap();
        });
        finished.recv_timeout(Duration::from_secs(5)).unwrap();
    }

    #[test]
    fn a_future_that_wakes_itself_is_not_lost() {
        let (done, finished) = mpsc::channel();
        start(async move {
            tokio::task::yield_now().await;
            let mut yielded = false;
            std::future::poll_fn(|context| {
                if yielded {
                    return std::task::Poll::Ready(());
                }
                yielded = true;
                context.waker().wake_by_ref();
                std::task::Poll::Pending
            })
            .await;
            done.send(()).unwrap();
        });
        finished.recv_timeout(Duration::from_secs(5)).unwrap();
    }
}
