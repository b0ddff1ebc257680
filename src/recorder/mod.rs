//! The recording of a manager's conversations: a file of JSON lines, written beside the calls and never in their way.
//! (BEY-08)
//!
//! Owns: the bounded queue, the file, and what becomes of messages that cannot be written. Secrets leave a message here,
//! in `redact`; what is said, and when, is told by the taps of connections.

mod file;
mod redact;

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::diagnostic::Diagnostic;
use crate::runtime::{self, lock, rfc3339, unix_millis};
use crate::secret::Redactor;
use file::RecordingFile;
use redact::Learned;

/// Bytes that may wait for the disk; what finds nothing waiting is always taken.
const MOST_WAITING: usize = 32 * 1024 * 1024;
/// What an entry costs beside its text.
const ENTRY: usize = 256;
/// Longest wait for the disk at the end.
const LAST_LINES: Duration = Duration::from_secs(5);

/// What is written down of a conversation.
#[derive(Debug)]
pub enum Said {
    /// A message to the server.
    Sent(String),
    /// A message of the server.
    Received(String),
    /// Something that is no message: members of the line as JSON text.
    Event(String),
}

impl Said {
    fn text(&self) -> &str {
        match self {
            Said::Sent(text) | Said::Received(text) | Said::Event(text) => text,
        }
    }
}

/// One conversation: a server and the ordinal of its connection.
pub struct Source {
    server: Arc<str>,
    generation: u64,
    secrets: Box<dyn Fn() -> Redactor + Send + Sync>,
    learned: Mutex<Learned>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({}, {})", self.server, self.generation)
    }
}

impl Source {
    /// A conversation; `secrets` gives what finds the secrets of the server as of now.
    pub fn new(
        server: Arc<str>,
        generation: u64,
        secrets: impl Fn() -> Redactor + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { server, generation, secrets: Box::new(secrets), learned: Mutex::default() })
    }
}

struct Entry {
    at: Duration,
    source: Arc<Source>,
    said: Said,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Messages that were not written.
    lost: u64,
    /// Whether somebody writes.
    writing: bool,
    ended: bool,
}

/// Where a manager's conversations are written down.
pub struct Recorder {
    started: Instant,
    report: Box<dyn Fn(Diagnostic) + Send + Sync>,
    queue: Mutex<Queue>,
    file: Mutex<RecordingFile>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder; its file is opened with the first message. `report` hears of what could not be written.
    pub fn new(path: PathBuf, report: impl Fn(Diagnostic) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            report: Box::new(report),
            queue: Mutex::default(),
            file: Mutex::new(RecordingFile::new(path, rfc3339(unix_millis()))),
        })
    }

    /// Takes something that was said; never waits.
    pub fn take(self: &Arc<Self>, source: &Arc<Source>, said: Said) {
        let entry = Entry { at: self.started.elapsed(), source: Arc::clone(source), said };
        let size = entry.said.text().len() + ENTRY;
        let mut queue = lock(&self.queue);
        if queue.ended || (queue.bytes > 0 && queue.bytes + size > MOST_WAITING) {
            let first = queue.lost == 0 && !queue.ended;
            queue.lost += 1;
            drop(queue);
            if first {
                (self.report)(Diagnostic::warning(
                    "RECORDING_INCOMPLETE",
                    "messages come faster than the recording can be written: some are missing in it",
                ));
            }
            return;
        }
        queue.bytes += size;
        queue.entries.push_back(entry);
        if !std::mem::replace(&mut queue.writing, true) {
            drop(queue);
            let own = Arc::clone(self);
            if let Some(runtime) = runtime::handle() {
                runtime.spawn_blocking(move || own.write());
            }
        }
    }

    /// Writes until nothing waits. Whoever holds the file takes what waits, so the order stays whoever writes.
    fn write(&self) {
        loop {
            let mut file = lock(&self.file);
            let batch = {
                let mut queue = lock(&self.queue);
                queue.bytes = 0;
                if queue.entries.is_empty() {
                    queue.writing = false;
                    return;
                }
                std::mem::take(&mut queue.entries)
            };
            let count = batch.len();
            let lines = batch.iter().map(line).collect::<String>();
            if let Err(why) = file.append(&lines) {
                let first = {
                    let mut queue = lock(&self.queue);
                    queue.lost += u64::try_from(count).unwrap_or(u64::MAX);
                    !std::mem::replace(&mut queue.ended, true)
                };
                if first {
                    let message = format!("nothing is recorded any more: {why}");
                    (self.report)(Diagnostic::error("RECORDING_FAILED", message));
                }
            }
        }
    }

    /// Writes what waits and ends the recording. Waits for the disk, for a moment.
    pub async fn close(self: &Arc<Self>) {
        let own = Arc::clone(self);
        if let Some(runtime) = runtime::handle() {
            let _ = tokio::time::timeout(LAST_LINES, runtime.spawn_blocking(move || own.close_now())).await;
        }
    }

    /// As [`Recorder::close`], on this very thread.
    pub fn close_now(&self) {
        self.write();
        let (first, lost) = {
            let mut queue = lock(&self.queue);
            (!std::mem::replace(&mut queue.ended, true), queue.lost)
        };
        lock(&self.file).end(lost);
        if first && lost > 0 {
            let message = format!("{lost} messages are missing in the recording");
            (self.report)(Diagnostic::warning("RECORDING_INCOMPLETE", message));
        }
    }
}

/// The line of an entry, without secrets.
fn line(entry: &Entry) -> String {
    let Entry { at, source, said } = entry;
    let secrets = (source.secrets)();
    let mut learned = lock(&source.learned);
    let mut clean = |text: &str, ours: bool| redact::message(text, ours, &secrets, &mut learned);
    let rest = match said {
        Said::Sent(text) => format!("\"direction\":\"out\",\"message\":{}", clean(text.trim_end(), true)),
        Said::Received(text) => format!("\"direction\":\"in\",\"message\":{}", clean(text, false)),
        Said::Event(members) => members.clone(),
    };
    let server = crate::json_scan::quote(&source.server);
    let (at, generation) = (at.as_secs_f64() * 1_000.0, source.generation);
    format!("{{\"at\":{at:.3},\"server\":{server},\"generation\":{generation},{rest}}}\n")
}

#[cfg(test)]
mod tests;
