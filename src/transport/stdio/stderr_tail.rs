//! What a server writes to its standard error (STD-01).
//!
//! Owns the ring of its last bytes, the lines cut from it and how many of them are passed on. The stream is
//! always drained, or the server would block (mcp:STDIO-06); nothing of it is ever a sign of failure.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::unicode;

/// Bytes that are kept.
pub(super) const RING_BYTES: usize = 64 * 1024;

/// Bytes of one line that are passed on; the rest of a longer line is dropped.
pub(super) const LINE_BYTES: usize = 8 * 1024;

/// Lines of a tail.
pub(super) const TAIL_LINES: usize = 20;

/// Lines passed on within [`WINDOW`]; further ones are only counted.
pub(super) const LINES_PER_WINDOW: u32 = 1_000;

/// The time over which lines are counted.
pub(super) const WINDOW: Duration = Duration::from_secs(1);

const READ_BYTES: usize = 16 * 1024;

/// The last [`RING_BYTES`] of a stream.
#[derive(Default)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    wrapped: bool,
}

impl Ring {
    /// Adds bytes; the oldest give way.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(RING_BYTES)..];
        let overflow = (self.bytes.len() + kept.len()).saturating_sub(RING_BYTES);
        self.wrapped |= overflow > 0 || kept.len() < bytes.len();
        self.bytes.drain(..overflow);
        self.bytes.extend(kept);
    }

    /// The last [`TAIL_LINES`] lines that are not blank, oldest first, each cleaned and at most
    /// [`LINE_BYTES`] long. A first line that was cut by the ring counts only when it is the only one.
    pub(super) fn lines(&self) -> Vec<String> {
        let (front, back) = self.bytes.as_slices();
        let text = [front, back].concat();
        let mut lines: Vec<String> = Vec::new();
        let mut end = text.len();
        loop {
            let start = memchr::memrchr(b'\n', &text[..end]).map_or(0, |newline| newline + 1);
            let cut_off = start == 0 && self.wrapped && !lines.is_empty();
            let line = clean(cut(&text[start..end]));
            if !cut_off && !line.is_empty() {
                lines.push(line);
            }
            if start == 0 || lines.len() == TAIL_LINES {
                break;
            }
            end = start - 1;
        }
        lines.reverse();
        lines
    }
}

/// Cuts a stream into lines of at most [`LINE_BYTES`].
#[derive(Default)]
pub(super) struct LineCutter {
    pending: Vec<u8>,
}

impl LineCutter {
    /// Takes bytes and gives every line that they complete, without its end.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while let Some(newline) = memchr::memchr(b'\n', bytes) {
            self.keep(&bytes[..newline]);
            line(cut(&self.pending));
            self.pending.clear();
            bytes = &bytes[newline + 1..];
        }
        self.keep(bytes);
    }

    /// Gives what stands after the last line end.
    pub(super) fn finish(&mut self, line: impl FnOnce(&[u8])) {
        if !self.pending.is_empty() {
            line(cut(&self.pending));
            self.pending.clear();
        }
    }

    /// One byte more than a line may have shows that it was longer.
    fn keep(&mut self, bytes: &[u8]) {
        let room = (LINE_BYTES + 1).saturating_sub(self.pending.len());
        self.pending.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// At most [`LINE_BYTES`], never ending inside a character.
fn cut(line: &[u8]) -> &[u8] {
    if line.len() <= LINE_BYTES {
        return line;
    }
    let is_continuation = |index: usize| line[index] & 0b1100_0000 == 0b1000_0000;
    let end = (LINE_BYTES - 3..=LINE_BYTES).rev().find(|end| !is_continuation(*end));
    &line[..end.unwrap_or(LINE_BYTES)]
}

/// At most [`LINE_BYTES`]: cleaning may have put several letters in the place of one.
fn cut_text(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LINE_BYTES));
    text
}

/// Text without terminal sequences, control characters (tabs stay) and whatever cannot be seen (SEC-01), without blanks
/// at its end.
pub(super) fn clean(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut cleaned = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => skip_sequence(&mut characters),
            '\t' => cleaned.push('\t'),
            _ if character.is_control() => {}
            _ => cleaned.push(character),
        }
    }
    let cleaned = cut_text(unicode::clean_str_lossy(&cleaned));
    cleaned.trim_end().to_owned()
}

fn skip_sequence(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.next() {
        Some('[') => {
            // Parameters lie below `@`; the first character from there on ends the sequence.
            for character in characters.by_ref() {
                if ('@'..='~').contains(&character) {
                    break;
                }
            }
        }
        Some(']' | 'P' | '_' | '^' | 'X') => {
            while let Some(character) = characters.next() {
                if character == '\u{7}' || character == '\u{9c}' {
                    break;
                }
                if character == '\u{1b}' {
                    characters.next_if_eq(&'\\');
                    break;
                }
            }
        }
        Some('(' | ')' | '#' | '%') => {
            characters.next();
        }
        _ => {}
    }
}

/// How many lines may pass.
pub(super) struct Gate {
    opened: Instant,
    passed: u32,
    dropped: u64,
}

/// What becomes of one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It passes.
    Pass,
    /// It passes, after a word on so many lines that did not.
    PassAfter(u64),
    /// It is counted only.
    Drop,
}

impl Gate {
    pub(super) fn new(now: Instant) -> Self {
        Self { opened: now, passed: 0, dropped: 0 }
    }

    /// Judges one line.
    pub(super) fn admit(&mut self, now: Instant) -> Admission {
        if now.saturating_duration_since(self.opened) >= WINDOW {
            self.opened = now;
            self.passed = 0;
        }
        if self.passed >= LINES_PER_WINDOW {
            self.dropped += 1;
            return Admission::Drop;
        }
        self.passed += 1;
        match self.take_dropped() {
            0 => Admission::Pass,
            dropped => Admission::PassAfter(dropped),
        }
    }

    /// Lines dropped since somebody was told.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

/// Receives the cleaned lines of a server's standard error.
pub(super) type OnLine = Box<dyn Fn(&str) + Send + Sync>;

/// Passes lines on, as far as the gate lets them.
struct Forwarder {
    gate: Gate,
    on_line: OnLine,
}

impl Forwarder {
    fn forward(&mut self, line: &[u8]) {
        match self.gate.admit(Instant::now()) {
            Admission::Drop => return,
            Admission::Pass => {}
            Admission::PassAfter(dropped) => (self.on_line)(&dropped_sentence(dropped)),
        }
        let line = clean(line);
        if !line.is_empty() {
            (self.on_line)(&line);
        }
    }
}

fn dropped_sentence(dropped: u64) -> String {
    format!("({dropped} lines of standard error were left out)")
}

/// Reads a server's standard error to its end; keeps the tail and passes the lines on.
pub(super) async fn drain(
    mut stderr: impl AsyncRead + Unpin,
    ring: std::sync::Arc<Mutex<Ring>>,
    on_line: OnLine,
) {
    let mut buffer = vec![0_u8; READ_BYTES];
    let mut cutter = LineCutter::default();
    let mut forwarder = Forwarder { gate: Gate::new(Instant::now()), on_line };
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        ring.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..length]);
        cutter.push(&buffer[..length], |line| forwarder.forward(line));
    }
    cutter.finish(|line| forwarder.forward(line));
    let dropped = forwarder.gate.take_dropped();
    if dropped > 0 {
        (forwarder.on_line)(&dropped_sentence(dropped));
    }
}
