//! The reading end of a server's output on Windows: always read by a task.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::net::windows::named_pipe::NamedPipeServer;

use super::birth::Output;
use crate::runtime::lock;
use crate::transport::frame_lines::LineFramer;

/// The reading end of a pipe.
#[derive(Debug)]
pub(in crate::transport::stdio) struct Intake {
    pipe: Mutex<Option<Arc<NamedPipeServer>>>,
    framer: Mutex<LineFramer>,
}

impl Intake {
    /// Reads a server's output, in lines of at most `limit` bytes.
    #[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
    pub(in crate::transport::stdio) fn of(output: Output, limit: usize) -> io::Result<Self> {
        Ok(Self { pipe: Mutex::new(Some(Arc::new(output))), framer: Mutex::new(LineFramer::new(limit)) })
    }

    /// Lets go of the pipe; how many bytes of an unfinished line are left.
    pub(in crate::transport::stdio) fn end(&self) -> usize {
        *lock(&self.pipe) = None;
        lock(&self.framer).unfinished()
    }

    /// The thread that asks does not read here: whether something has come is only told to tasks.
    #[expect(clippy::unused_self, reason = "as on Unix")]
    pub(in crate::transport::stdio) fn expected_at_once(&self, _open: usize) -> bool {
        false
    }

    /// Nothing to look at, for the same reason.
    #[expect(clippy::unused_self, reason = "as on Unix")]
    pub(in crate::transport::stdio) fn look(
        &self,
        _open: impl Fn() -> usize,
        _take: impl FnOnce(&mut LineFramer),
    ) -> bool {
        false
    }
}

/// The task's side of an [`Intake`].
pub(in crate::transport::stdio) struct Watch<'a> {
    intake: &'a Intake,
}

impl<'a> Watch<'a> {
    pub(in crate::transport::stdio) fn new(intake: &'a Intake) -> Self {
        Self { intake }
    }

    /// Waits for bytes, reads them and lets `take` have the lines; `false` at the end. May be dropped while it
    /// waits.
    pub(in crate::transport::stdio) async fn next(
        &mut self,
        _open: impl Fn() -> usize,
        take: impl Fn(&mut LineFramer),
    ) -> io::Result<bool> {
        let Some(pipe) = lock(&self.intake.pipe).clone() else { return Ok(false) };
        loop {
            pipe.readable().await?;
            let mut framer = lock(&self.intake.framer);
            match pipe.try_read_buf(framer.space()) {
                Ok(0) => return Ok(false),
                Ok(_) => {
                    take(&mut framer);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}
