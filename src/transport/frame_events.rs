//! Server-sent events: bytes to events (SSE-01, HTTP-01). Pure, bounded, the same for every cut into chunks.

use std::time::Duration;

use crate::jsonrpc::read::id_of_oversized;

/// Longest pause that a `retry:` field may ask for (B-099).
pub const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// Longest event id that is remembered; longer ones cannot be sent back in a header.
const MAX_ID: usize = 1024;
/// Bytes kept from either end of an event that is too long.
const ENDS: usize = 4 * 1024;
/// What stands before the data of a line, and does not count as data.
const LABEL: &[u8] = b"data: ";
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// An event with data.
    Message {
        /// Its `event:` field; `message` where there is none.
        kind: String,
        /// Its `data:` lines, joined by line feeds.
        data: String,
    },
    /// An event above the limit; it was dropped.
    TooLong {
        /// Its length in bytes.
        length: u64,
        /// The id of the answer it was, where that could be found.
        id: Option<u64>,
    },
}

#[derive(Debug, Default)]
struct Oversized {
    head: Vec<u8>,
    tail: Vec<u8>,
    length: u64,
}

impl Oversized {
    fn take(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if self.head.len() < ENDS {
            let room = ENDS - self.head.len();
            self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(ENDS)..]);
        let surplus = self.tail.len().saturating_sub(ENDS);
        self.tail.drain(..surplus);
    }
}

/// Splits a stream of bytes into events.
#[derive(Debug)]
pub struct EventFramer {
    limit: usize,
    /// The line being read; empty while an event is dropped.
    line: Vec<u8>,
    line_is_blank: bool,
    after_carriage_return: bool,
    first_line: bool,
    /// Its data so far, once there was a `data:` line.
    data: Option<Vec<u8>>,
    kind: Vec<u8>,
    /// Id of the event being read; counts once the event is complete.
    next_id: Vec<u8>,
    last_id: Vec<u8>,
    retry: Option<Duration>,
    oversized: Option<Oversized>,
}

impl EventFramer {
    /// A framer that drops events whose data have more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            line_is_blank: true,
            after_carriage_return: false,
            first_line: true,
            data: None,
            kind: Vec::new(),
            next_id: Vec::new(),
            last_id: Vec::new(),
            retry: None,
            oversized: None,
        }
    }

    /// A framer that goes on where a stream was cut: it knows the last id already.
    #[must_use]
    pub fn resumed(limit: usize, last_id: &[u8]) -> Self {
        Self { next_id: last_id.to_vec(), last_id: last_id.to_vec(), ..Self::new(limit) }
    }

    /// The same with the pause that the server asked for before the stream was cut (mcp:HTTPL-20).
    #[must_use]
    pub fn pausing(self, retry: Option<Duration>) -> Self {
        Self { retry, ..self }
    }

    /// Id of the last complete event, to be sent as `Last-Event-ID`; `None` where the server gave none.
    pub fn last_event_id(&self) -> Option<&[u8]> {
        (!self.last_id.is_empty()).then_some(self.last_id.as_slice())
    }

    /// Id that the event being read has given itself; empty where it has not, or repeats the last one.
    pub fn own_id(&self) -> &[u8] {
        if self.next_id == self.last_id { &[] } else { &self.next_id }
    }

    /// Bytes of the event that is being dropped; 0 where none is.
    pub fn dropped(&self) -> u64 {
        self.oversized.as_ref().map_or(0, |oversized| oversized.length)
    }

    /// Whether an event has begun and not ended. Comments are no part of an event.
    pub fn is_within_event(&self) -> bool {
        self.data.is_some() || self.oversized.is_some() || !self.line.is_empty()
    }

    /// The pause before reconnecting that the server asked for, at most [`LONGEST_RETRY`].
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes bytes and gives the events that are complete with them.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_carriage_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.take_part(bytes);
                break;
            };
            self.take_part(&bytes[..end]);
            self.after_carriage_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            events.extend(self.end_line());
        }
        events
    }

    fn take_part(&mut self, bytes: &[u8]) {
        self.line_is_blank &= bytes.is_empty();
        if let Some(oversized) = &mut self.oversized {
            oversized.take(bytes);
            return;
        }
        let held = self.data.as_ref().map_or(0, Vec::len) + self.line.len();
        if held + bytes.len() <= self.limit + LABEL.len() {
            self.line.extend_from_slice(bytes);
            return;
        }
        let mut oversized = Oversized::default();
        oversized.take(&self.data.take().unwrap_or_default());
        let line = std::mem::take(&mut self.line);
        oversized.take(line.strip_prefix(b"data:").unwrap_or(&line));
        oversized.take(bytes);
        self.oversized = Some(oversized);
    }

    fn end_line(&mut self) -> Option<Event> {
        let blank = std::mem::replace(&mut self.line_is_blank, true);
        let first = std::mem::replace(&mut self.first_line, false);
        if self.oversized.is_some() {
            return blank.then(|| self.end_event()).flatten();
        }
        let line = std::mem::take(&mut self.line);
        let text = if first { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line) } else { &line };
        if text.is_empty() {
            return self.end_event();
        }
        self.take_line(text);
        // The buffer is used again, so that long streams do not allocate for each line.
        self.line = line;
        self.line.clear();
        None
    }

    fn take_line(&mut self, line: &[u8]) {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(0) => return,
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.kind = value.to_vec(),
            // An id that cannot be sent back is no id: resuming from an older one would repeat events.
            b"id" if value.contains(&0) => {}
            b"id" if value.len() > MAX_ID || value.iter().any(u8::is_ascii_control) => self.next_id.clear(),
            b"id" => self.next_id = value.to_vec(),
            b"retry" => self.retry = read_retry(value).or(self.retry),
            _ => {}
        }
    }

    fn end_event(&mut self) -> Option<Event> {
        self.last_id.clone_from(&self.next_id);
        let kind = std::mem::take(&mut self.kind);
        let data = self.data.take().unwrap_or_default();
        if let Some(oversized) = self.oversized.take() {
            let id = id_of_oversized(&oversized.head, &oversized.tail);
            return Some(Event::TooLong { length: oversized.length, id });
        }
        if data.len() > self.limit {
            let head = &data[..data.len().min(ENDS)];
            let tail = &data[data.len().saturating_sub(ENDS)..];
            return Some(Event::TooLong { length: data.len() as u64, id: id_of_oversized(head, tail) });
        }
        // An event without data only carries an id (mcp:HTTPL-22).
        if data.is_empty() {
            return None;
        }
        let kind = if kind.is_empty() { "message".to_owned() } else { text(kind) };
        Some(Event::Message { kind, data: text(data) })
    }
}

/// Milliseconds in digits only; more than can be waited for is the longest pause.
fn read_retry(value: &[u8]) -> Option<Duration> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let millis = std::str::from_utf8(value).ok()?.parse().unwrap_or(u64::MAX);
    Some(Duration::from_millis(millis).min(LONGEST_RETRY))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests;
