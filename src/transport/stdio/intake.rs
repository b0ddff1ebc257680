//! The reading end of a server's output, and which thread reads it.
//!
//! As a rule a task of the runtime does, woken by the system. A server that answers lone requests within
//! microseconds is read by the thread that asked, turn by turn of its event loop: being woken twice, the task
//! and then that thread, would take longer than the answer. [`Nearness`] decides when that pays. Whoever reads
//! holds the lock, so the order of messages is that of the pipe.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, TryLockError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::Notify;

use super::birth::Output;
use super::nearness::Nearness;
use crate::runtime::lock;
use crate::transport::frame_lines::LineFramer;

/// A thread that has not looked for this long is busy with something else: the task reads on.
const TAKE_BACK: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Reading {
    pipe: Option<OwnedFd>,
    framer: LineFramer,
}

/// The reading end of a pipe.
#[derive(Debug)]
pub(super) struct Intake {
    reading: Mutex<Reading>,
    nearness: Mutex<Nearness>,
    /// Whether the asking thread has looked since the task last checked.
    looked: AtomicBool,
    /// The other kind of reader is wanted.
    turned: Notify,
}

impl Reading {
    fn second_handle(&self) -> Option<io::Result<OwnedFd>> {
        self.pipe.as_ref().map(OwnedFd::try_clone)
    }

    /// Reads as a task; how many bytes came.
    fn poll(
        &mut self,
        pipe: &mut pipe::Receiver,
        context: &mut Context<'_>,
        take: impl Fn(&mut LineFramer),
    ) -> Poll<io::Result<usize>> {
        let read = pin!(pipe.read_buf(self.framer.space())).poll(context);
        if matches!(read, Poll::Ready(Ok(1..))) {
            take(&mut self.framer);
        }
        read
    }

    /// Reads what is there without waiting; how many bytes that were, `None` where there is nothing.
    fn read_now(&mut self, take: impl FnOnce(&mut LineFramer)) -> io::Result<Option<usize>> {
        let Some(pipe) = &self.pipe else { return Ok(Some(0)) };
        match rustix::io::read(pipe, spare_capacity(self.framer.space())) {
            Ok(0) => Ok(Some(0)),
            Ok(read) => {
                take(&mut self.framer);
                Ok(Some(read))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Intake {
    /// Reads a server's output, in lines of at most `limit` bytes.
    pub(super) fn of(output: Output, limit: usize) -> io::Result<Self> {
        Ok(Self::new(output.into_owned_fd()?, limit))
    }

    /// Reads from a pipe that does not block, in lines of at most `limit` bytes.
    pub(super) fn new(pipe: OwnedFd, limit: usize) -> Self {
        let reading = Reading { pipe: Some(pipe), framer: LineFramer::new(limit) };
        Self {
            reading: Mutex::new(reading),
            nearness: Mutex::default(),
            looked: AtomicBool::new(false),
            turned: Notify::new(),
        }
    }

    /// Lets go of the pipe; how many bytes of an unfinished line are left.
    pub(super) fn end(&self) -> usize {
        let mut reading = lock(&self.reading);
        reading.pipe = None;
        reading.framer.unfinished()
    }

    /// A turn's frames have left and `open` requests wait; whether its thread should look for the answer.
    pub(super) fn expected_at_once(&self, open: usize) -> bool {
        let mut nearness = lock(&self.nearness);
        let was_near = nearness.is_near();
        let near = nearness.sent(open, Instant::now());
        if near != was_near {
            self.looked.store(true, Ordering::Release);
            self.turned.notify_one();
        }
        near
    }

    /// One look of the thread that asked; `open` tells how many requests wait. Whether to look again.
    pub(super) fn look(&self, open: impl Fn() -> usize, take: impl FnOnce(&mut LineFramer)) -> bool {
        if !lock(&self.nearness).is_near() {
            return false;
        }
        self.looked.store(true, Ordering::Release);
        let mut reading = match self.reading.try_lock() {
            Ok(reading) => reading,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The task is at it for the last time before it gives way.
            Err(TryLockError::WouldBlock) => return true,
        };
        let read = reading.read_now(take);
        let whole = reading.framer.unfinished() == 0;
        drop(reading);
        let mut nearness = lock(&self.nearness);
        let again = match read {
            Ok(Some(1..)) if whole => {
                nearness.read(open(), Instant::now());
                true
            }
            Ok(None) => nearness.nothing(open(), Instant::now()),
            // A long message, the end, a failure: all of that is for the task.
            _ => {
                nearness.leave();
                false
            }
        };
        if !again {
            self.turned.notify_one();
        }
        again
    }
}

/// The task's side of an [`Intake`].
pub(super) struct Watch<'a> {
    intake: &'a Intake,
    /// A second handle of the pipe, present while the system reports what arrives.
    registered: Option<pipe::Receiver>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(intake: &'a Intake) -> Self {
        Self { intake, registered: None }
    }

    /// Waits for bytes, reads them and lets `take` have the lines; `false` at the end. May be dropped while it
    /// waits.
    pub(super) async fn next(
        &mut self,
        open: impl Fn() -> usize,
        take: impl Fn(&mut LineFramer),
    ) -> io::Result<bool> {
        loop {
            if lock(&self.intake.nearness).is_near() {
                // Not even told of what arrives, so that it wakes nobody here.
                self.registered = None;
                self.wait_for_turn().await;
                continue;
            }
            let pipe = match &mut self.registered {
                Some(pipe) => pipe,
                none => {
                    let Some(pipe) = lock(&self.intake.reading).second_handle() else { return Ok(false) };
                    none.insert(pipe::Receiver::from_owned_fd(pipe?)?)
                }
            };
            tokio::select! {
                biased;
                read = poll_fn(|context| lock(&self.intake.reading).poll(pipe, context, &take)) => {
                    let read = read?;
                    lock(&self.intake.nearness).read(open(), Instant::now());
                    return Ok(read > 0);
                }
                () = self.intake.turned.notified() => {}
            }
        }
    }

    /// Until the thread that asked gives up, or has stopped looking.
    async fn wait_for_turn(&self) {
        let intake = self.intake;
        tokio::select! {
            () = intake.turned.notified() => {}
            () = tokio::time::sleep(TAKE_BACK) => {
                if !intake.looked.swap(false, Ordering::AcqRel) {
                    lock(&intake.nearness).leave();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use super::*;
    use crate::transport::frame_lines::Line;

    type Lines = Arc<Mutex<Vec<String>>>;

    fn collect(lines: &Lines, framer: &mut LineFramer) {
        while let Some(line) = framer.next_line() {
            if let Line::Text(text) = line {
                lock(lines).push(text);
            }
        }
    }

    /// An intake whose asking thread is near, the other end of its pipe, and the task that watches.
    fn near() -> (Arc<Intake>, io::PipeWriter, Lines, tokio::task::JoinHandle<()>) {
        let (reader, writer) = io::pipe().unwrap();
        let pipe = pipe::Receiver::from_owned_fd(reader.into()).unwrap().into_nonblocking_fd().unwrap();
        let intake = Arc::new(Intake::new(pipe, 1_000_000));
        let lines = Lines::default();
        let (own, seen) = (Arc::clone(&intake), Arc::clone(&lines));
        let task = tokio::spawn(async move {
            let mut watch = Watch::new(&own);
            while watch.next(|| 0, |framer| collect(&seen, framer)).await.unwrap() {}
        });
        while !intake.expected_at_once(1) {
            lock(&intake.nearness).read(0, Instant::now());
        }
        (intake, writer, lines, task)
    }

    async fn until(lines: &Lines, count: usize) {
        let start = Instant::now();
        while lock(lines).len() < count {
            assert!(start.elapsed() < Duration::from_secs(10), "{:?}", lock(lines));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn whoever_reads_the_order_is_that_of_the_pipe() {
        let (intake, mut writer, lines, task) = near();
        for n in 0..2_000 {
            writeln!(writer, "{n}").unwrap();
            if n % 3 == 0 {
                intake.look(|| 0, |framer| collect(&lines, framer));
            }
            // Sometimes near, sometimes not.
            let open = 1 + usize::from(n % 50 > 40);
            if intake.expected_at_once(open) {
                intake.look(|| 1, |framer| collect(&lines, framer));
            }
            lock(&intake.nearness).read(0, Instant::now());
        }
        drop(writer);
        task.await.unwrap();
        let expected: Vec<String> = (0..2_000).map(|n| n.to_string()).collect();
        assert_eq!(*lock(&lines), expected);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_thread_that_looks_gets_the_line_and_one_that_stops_looking_is_replaced() {
        let (intake, mut writer, lines, _task) = near();
        writeln!(writer, "seen by the thread").unwrap();
        while lock(&lines).is_empty() {
            assert!(intake.look(|| 1, |framer| collect(&lines, framer)));
        }
        assert!(intake.expected_at_once(1));
        writeln!(writer, "seen by the task").unwrap();
        until(&lines, 2).await;
        assert!(!intake.look(|| 1, |_| unreachable!("the thread is not near any more")));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_long_line_and_the_end_are_left_to_the_task() {
        let (intake, mut writer, lines, task) = near();
        write!(writer, "half a line").unwrap();
        while intake.look(|| 1, |framer| collect(&lines, framer)) {}
        writeln!(writer, ", and the rest").unwrap();
        until(&lines, 1).await;
        drop(writer);
        task.await.unwrap();
        assert_eq!(*lock(&lines), ["half a line, and the rest"]);
        assert_eq!(intake.end(), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_end_is_noticed_while_a_thread_is_near() {
        let (intake, writer, _lines, task) = near();
        drop(writer);
        while intake.look(|| 1, |_| unreachable!("nothing was written")) {}
        tokio::time::timeout(Duration::from_secs(10), task).await.unwrap().unwrap();
    }
}
