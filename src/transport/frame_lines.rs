//! Newline framing (STD-03): bounded, tolerant of noise, linear in the bytes read. Pure.

use crate::jsonrpc::read::id_of_oversized;

/// Bytes read at a time.
pub const CHUNK: usize = 64 * 1024;
/// Bytes kept from either end of a line that is too long.
const ENDS: usize = 4 * 1024;
/// Bytes of a line shown when it is no message.
pub const EXCERPT: usize = 200;

/// One line from the peer.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line of text without its line end.
    Text(String),
    /// A line that is not UTF-8: its beginning, lossily decoded.
    NotUtf8(String),
    /// A line above the limit; it was dropped.
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
        let kept = &bytes[bytes.len().saturating_sub(ENDS)..];
        self.tail.extend_from_slice(kept);
        let surplus = self.tail.len().saturating_sub(ENDS);
        self.tail.drain(..surplus);
    }
}

/// Splits a stream of bytes into lines.
#[derive(Debug)]
pub struct LineFramer {
    buffer: Vec<u8>,
    /// Start of the line being read.
    start: usize,
    /// Where to go on looking for its end.
    searched: usize,
    limit: usize,
    oversized: Option<Oversized>,
}

impl LineFramer {
    /// A framer that drops lines of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::with_capacity(CHUNK), start: 0, searched: 0, limit, oversized: None }
    }

    /// Where the reader appends bytes; room for one chunk is made.
    pub fn space(&mut self) -> &mut Vec<u8> {
        if self.start > 0 && (self.start == self.buffer.len() || self.start > CHUNK) {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.buffer.reserve(CHUNK);
        &mut self.buffer
    }

    /// The next complete line that is not blank.
    pub fn next_line(&mut self) -> Option<Line> {
        loop {
            let rest = self.buffer.get(self.searched..)?;
            let Some(offset) = memchr::memchr(b'\n', rest) else {
                self.searched = self.buffer.len();
                self.shed();
                return None;
            };
            let end = self.searched + offset;
            if let Some(line) = self.cut(end) {
                return Some(line);
            }
        }
    }

    /// What is left when the stream ends in the middle of a line, in bytes; it is never parsed (F-001).
    pub fn unfinished(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Takes the line that ends before `end`; `None` if it is blank.
    fn cut(&mut self, end: usize) -> Option<Line> {
        let start = self.start;
        self.start = end + 1;
        self.searched = end + 1;
        if let Some(mut oversized) = self.oversized.take() {
            oversized.take(&self.buffer[start..end]);
            return Some(too_long(&oversized));
        }
        if end - start > self.limit {
            let mut oversized = Oversized::default();
            oversized.head.extend_from_slice(&self.buffer[start..start + ENDS.min(end - start)]);
            oversized.take(&self.buffer[start..end]);
            return Some(too_long(&oversized));
        }
        let line = if start == 0 && self.start == self.buffer.len() && end > CHUNK {
            // A large line alone in the buffer: the buffer becomes the line, nothing is copied.
            let mut whole = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK));
            self.start = 0;
            self.searched = 0;
            whole.truncate(end);
            trim(&mut whole);
            whole
        } else {
            trimmed(&self.buffer[start..end]).to_vec()
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        Some(match String::from_utf8(line) {
            Ok(text) => Line::Text(text),
            Err(error) => {
                let bytes = error.as_bytes();
                Line::NotUtf8(String::from_utf8_lossy(&bytes[..EXCERPT.min(bytes.len())]).into_owned())
            }
        })
    }

    /// Lets go of the bytes of a line that has outgrown the limit.
    fn shed(&mut self) {
        let length = self.buffer.len() - self.start;
        if self.oversized.is_none() && length <= self.limit {
            return;
        }
        let bytes = &self.buffer[self.start..];
        let oversized = self.oversized.get_or_insert_with(|| Oversized {
            head: bytes[..ENDS.min(bytes.len())].to_vec(),
            ..Oversized::default()
        });
        oversized.take(bytes);
        self.buffer = Vec::with_capacity(CHUNK);
        self.start = 0;
        self.searched = 0;
    }
}

fn too_long(line: &Oversized) -> Line {
    Line::TooLong { length: line.length, id: id_of_oversized(&line.head, &line.tail) }
}

/// Without a byte order mark before it and a carriage return behind it.
fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn trim(line: &mut Vec<u8>) {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    if line.starts_with(b"\xef\xbb\xbf") {
        line.drain(..3);
    }
}

/// The beginning of a text: at most `most` bytes, cut between characters.
pub fn beginning(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(chunks: &[&[u8]], limit: usize) -> Vec<Line> {
        let mut framer = LineFramer::new(limit);
        let mut seen = Vec::new();
        for chunk in chunks {
            framer.space().extend_from_slice(chunk);
            while let Some(line) = framer.next_line() {
                seen.push(line);
            }
        }
        seen
    }

    fn text(line: &str) -> Line {
        Line::Text(line.to_owned())
    }

    #[test]
    fn std_03_line_ends_blank_lines_and_bom() {
        assert_eq!(
            lines(&[b"\xef\xbb\xbf{}\r\n\r\n  \n{\"a\":1}\nhalf"], 100),
            vec![text("{}"), text("{\"a\":1}")]
        );
    }

    #[test]
    fn c6_a_character_split_over_reads() {
        let emoji = "😀".as_bytes();
        assert_eq!(lines(&[b"\"", &emoji[..2], &emoji[2..], b"\"\n"], 100), vec![text("\"😀\"")]);
    }

    #[test]
    fn std_03_limit_is_exact_and_the_stream_goes_on() {
        let exact = vec![b'x'; 100];
        let mut longer = exact.clone();
        longer.push(b'x');
        assert_eq!(lines(&[&exact, b"\nok\n"], 100).len(), 2);
        assert_eq!(
            lines(&[&longer, b"\nok\n"], 100),
            vec![Line::TooLong { length: 101, id: None }, text("ok")]
        );
        let split: Vec<&[u8]> = longer.chunks(7).chain([&b"\nok\n"[..]]).collect();
        assert_eq!(lines(&split, 100), vec![Line::TooLong { length: 101, id: None }, text("ok")]);
    }

    #[test]
    fn b_085_an_endless_line_keeps_memory_flat() {
        let mut framer = LineFramer::new(1_000);
        let chunk = vec![b'x'; CHUNK];
        for _ in 0..1_000 {
            framer.space().extend_from_slice(&chunk);
            assert_eq!(framer.next_line(), None);
            assert!(framer.buffer.capacity() <= 4 * CHUNK);
        }
        framer.space().extend_from_slice(b",\"id\":9}\n");
        assert_eq!(framer.next_line(), Some(Line::TooLong { length: 65_536_008, id: Some(9) }));
    }

    #[test]
    fn a_beginning_never_cuts_a_character() {
        for (most, expected) in [(0, ""), (1, "a"), (2, "a"), (4, "a"), (5, "a😀"), (99, "a😀b")] {
            assert_eq!(beginning("a😀b", most), expected);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_lossily() {
        assert_eq!(
            lines(&[b"\xff\xfe\nok\n"], 100),
            vec![Line::NotUtf8("\u{fffd}\u{fffd}".into()), text("ok")]
        );
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_lines(
            content in proptest::collection::vec("[a-z\\r é😀]{0,40}", 0..20),
            cuts in proptest::collection::vec(1usize..50, 1..40),
        ) {
            let stream: Vec<u8> = content.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
            let whole = lines(&[&stream], 60);
            let mut chunks = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(lines(&chunks, 60), whole);
        }
    }
}
