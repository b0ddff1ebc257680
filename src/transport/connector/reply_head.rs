//! The head of an HTTP answer on a raw connection: status line and headers, bounded.

use std::io;

use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A status line with headers, and what was read beyond them.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::transport) struct ReplyHead {
    /// Status code.
    pub(in crate::transport) status: u16,
    /// Text after the status code; may be empty.
    pub(in crate::transport) reason: String,
    /// Names in lower case, values trimmed, in order.
    headers: Vec<(String, String)>,
    /// Bytes that belong to what follows the head.
    pub(in crate::transport) rest: Vec<u8>,
}

impl ReplyHead {
    /// The values of a header; `name` is in lower case.
    pub(in crate::transport) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Whether a header that is a list has this member, whatever its case.
    pub(in crate::transport) fn lists(&self, name: &str, member: &str) -> bool {
        self.values(name)
            .flat_map(|value| value.split(','))
            .any(|own| own.trim().eq_ignore_ascii_case(member))
    }
}

/// Why there is no head.
#[derive(Debug)]
pub(in crate::transport) enum HeadProblem {
    /// The other end closed before the head was complete.
    Ended,
    /// The connection broke.
    Broken(io::Error),
    /// The head is longer than allowed.
    TooLong(usize),
    /// Something that is not HTTP: its first bytes.
    NotHttp(Vec<u8>),
}

/// Bytes of an answer that is not HTTP that are kept for people.
const SHOWN: usize = 200;

/// Reads a head of at most `limit` bytes.
pub(in crate::transport) async fn read_head<S>(stream: &mut S, limit: usize) -> Result<ReplyHead, HeadProblem>
where
    S: AsyncRead + Unpin + ?Sized,
{
    let mut bytes = Vec::with_capacity(1_024);
    loop {
        let seen = bytes.len();
        if stream.read_buf(&mut bytes).await.map_err(HeadProblem::Broken)? == 0 {
            return Err(if looks_like_http(&bytes) { HeadProblem::Ended } else { not_http(&bytes) });
        }
        if let Some(at) = memmem::find(&bytes[seen.saturating_sub(3)..], b"\r\n\r\n") {
            let end = seen.saturating_sub(3) + at;
            if end > limit {
                return Err(HeadProblem::TooLong(limit));
            }
            let rest = bytes.split_off(end + 4);
            return parse(&bytes[..end], rest).ok_or_else(|| not_http(&bytes));
        }
        if !looks_like_http(&bytes) {
            return Err(not_http(&bytes));
        }
        if bytes.len() > limit {
            return Err(HeadProblem::TooLong(limit));
        }
    }
}

fn looks_like_http(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(5)];
    b"HTTP/".starts_with(start)
}

fn not_http(bytes: &[u8]) -> HeadProblem {
    HeadProblem::NotHttp(bytes[..bytes.len().min(SHOWN)].to_vec())
}

fn parse(head: &[u8], rest: Vec<u8>) -> Option<ReplyHead> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let (version, answer) = lines.next()?.split_once(' ')?;
    let (status, reason) = answer.split_once(' ').unwrap_or((answer, ""));
    if !version.starts_with("HTTP/1.") || status.len() != 3 {
        return None;
    }
    let headers = lines
        .map(|line| {
            line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        })
        .collect::<Option<Vec<_>>>()?;
    Some(ReplyHead { status: status.parse().ok()?, reason: reason.trim().to_owned(), headers, rest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives its chunks one read at a time.
    fn chunked(chunks: &[&[u8]]) -> impl AsyncRead + Unpin + use<> {
        let mut stream = tokio_test_stream(Vec::new());
        for chunk in chunks {
            stream.0.push_back(chunk.to_vec());
        }
        stream
    }

    struct Chunks(std::collections::VecDeque<Vec<u8>>);

    fn tokio_test_stream(chunks: Vec<Vec<u8>>) -> Chunks {
        Chunks(chunks.into())
    }

    impl AsyncRead for Chunks {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            buffer: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            if let Some(mut chunk) = self.0.pop_front() {
                let rest = chunk.split_off(chunk.len().min(buffer.remaining()));
                buffer.put_slice(&chunk);
                if !rest.is_empty() {
                    self.0.push_front(rest);
                }
            }
            std::task::Poll::Ready(Ok(()))
        }
    }

    const HEAD: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\r\n\x81\x01x";

    #[tokio::test]
    async fn a_head_is_read_and_what_follows_is_kept() {
        let head = read_head(&mut chunked(&[HEAD]), 1_000).await.unwrap();
        assert_eq!((head.status, head.reason.as_str()), (101, "Switching Protocols"));
        assert!(head.lists("upgrade", "websocket") && head.lists("connection", "upgrade"));
        assert!(!head.lists("connection", "keep"));
        assert_eq!(head.rest, b"\x81\x01x");
    }

    #[tokio::test]
    async fn f_053_a_head_without_end_is_refused() {
        let long = "x".repeat(16 * 1024);
        let endless = format!("HTTP/1.1 200 OK\r\nX: {long}");
        let closed = format!("{endless}\r\n\r\n");
        for text in [&endless, &closed] {
            let problem = read_head(&mut chunked(&[text.as_bytes()]), 16 * 1024).await.unwrap_err();
            assert!(matches!(problem, HeadProblem::TooLong(_)), "{problem:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_http_is_shown() {
        for text in
            ["SSH-2.0-OpenSSH_9\r\n", "HTTP/1.1 abc x\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", ""]
        {
            let outcome = read_head(&mut chunked(&[text.as_bytes()]), 1_000).await;
            match outcome {
                Err(HeadProblem::NotHttp(shown)) => assert!(text.as_bytes().starts_with(&shown)),
                Err(HeadProblem::Ended) => assert_eq!(text, ""),
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_head(cuts in proptest::collection::vec(1usize..30, 1..20)) {
            let mut chunks = Vec::new();
            let mut rest = HEAD;
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let head = runtime.block_on(read_head(&mut chunked(&chunks), 1_000)).unwrap();
            prop_assert_eq!(head.status, 101);
            prop_assert!(b"\x81\x01x".starts_with(&head.rest));
        }
    }
}
