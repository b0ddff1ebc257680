//! `Retry-After`: one pause for all requests to a server (HTTP-03, F-047).

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::{HeaderMap, RETRY_AFTER};
use tokio::time::Instant;

use crate::runtime::lock;

/// Longest pause a server may ask for.
const LONGEST: Duration = Duration::from_secs(300);

/// Whether a status says that the server is too busy for a request, which it did not process.
pub fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 503)
}

/// The pause that a busy server asks for: seconds, or a date. `None` where it names none that can be read.
pub fn read(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(LONGEST));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    // A date that has passed means now.
    Some(date.duration_since(now).unwrap_or_default().min(LONGEST))
}

/// When requests may go on.
#[derive(Debug, Default)]
pub struct Pause(Mutex<Option<Instant>>);

impl Pause {
    /// Nobody sends for this long from now; a longer pause under way stays.
    pub fn extend(&self, length: Duration) {
        let until = Instant::now() + length;
        let mut current = lock(&self.0);
        if current.is_none_or(|before| before < until) {
            *current = Some(until);
        }
    }

    /// When the pause under way ends; `None` where there is none.
    pub fn until(&self) -> Option<Instant> {
        let until = *lock(&self.0);
        until.filter(|until| *until > Instant::now())
    }

    /// Waits until the pause is over.
    pub async fn over(&self) {
        while let Some(until) = self.until() {
            tokio::time::sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f_047_retry_after_table() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (text, expected) in [
            ("0", Some(0)),
            ("7", Some(7)),
            (" 7 ", Some(7)),
            ("315360000", Some(300)),
            ("99999999999999999999999999", Some(300)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", Some(0)),
            ("Sat, 06 Nov 2004 08:49:07 GMT", Some(300)),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            assert_eq!(read(&headers, now), expected.map(Duration::from_secs), "{text:?}");
        }
        assert_eq!(read(&HeaderMap::new(), now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn f_047_the_longest_pause_counts() {
        let pause = Pause::default();
        pause.over().await;
        pause.extend(Duration::from_secs(10));
        pause.extend(Duration::from_secs(2));
        let started = Instant::now();
        pause.over().await;
        assert_eq!(started.elapsed(), Duration::from_secs(10));
    }
}
