//! Bodies of answers, read with a bound.

use std::time::Duration;

use http::header::CONTENT_ENCODING;

use super::answer::KEPT_BYTES;
use crate::transport::connector::client::{BodyError, Response};

/// How long the rest of an error page or a finished stream may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a stream may go on after its answer, so that its connection can be used again (E8).
const AFTER_ANSWER: Duration = Duration::from_millis(500);
/// Bytes of it that are read in that time.
const AFTER_ANSWER_BYTES: usize = 64 * 1024;

/// How reading ended.
#[derive(Debug)]
pub enum End {
    /// At the end of the body.
    Whole,
    /// At the limit.
    TooLong,
    /// The connection broke, or nothing more came.
    Broken(BodyError),
}

/// Whether the body is packed though nothing but identity was asked for (B-103).
pub fn is_packed(response: &Response) -> bool {
    response
        .headers()
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity") && !value.is_empty())
}

/// Reads a body of at most `limit` bytes.
pub async fn read(response: &mut Response, limit: usize) -> (Vec<u8>, End) {
    let announced = response.content_length().unwrap_or(0);
    let Ok(room) = usize::try_from(announced) else { return (Vec::new(), End::TooLong) };
    if room > limit {
        return (Vec::new(), End::TooLong);
    }
    // The announcement of a stranger reserves no more than a little memory.
    let mut body = Vec::with_capacity(room.min(64 * 1024));
    loop {
        match response.prompt_chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > limit => return (body, End::TooLong),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return (body, End::Whole),
            Err(error) => return (body, End::Broken(error)),
        }
    }
}

/// As much of a body as comes in a few seconds, at most `limit` bytes.
pub async fn beginning(response: &mut Response, limit: usize) -> Vec<u8> {
    let mut body = Vec::new();
    // Nobody could read it.
    if is_packed(response) {
        return body;
    }
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = limit - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == limit {
                break;
            }
        }
    };
    // What has come by then is the beginning.
    let _ = tokio::time::timeout(PATIENCE, reading).await;
    body
}

/// The first bytes, as evidence.
pub async fn evidence(response: &mut Response) -> Vec<u8> {
    beginning(response, KEPT_BYTES).await
}

/// Reads a stream whose answer has come to its end, for a moment.
pub async fn run_out(mut response: Response) {
    let reading = async {
        let mut seen = 0;
        while let Ok(Some(chunk)) = response.chunk().await {
            seen += chunk.len();
            if seen > AFTER_ANSWER_BYTES {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(AFTER_ANSWER, reading).await;
}
