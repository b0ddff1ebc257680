//! How a WebSocket ended, and when it counts as dead. Pure.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{self};

use super::PingTimes;
use crate::error::{ErrorCode, McpError};
use crate::transport::frame_lines::beginning;
use crate::unicode;

/// Code of a connection that ended without a goodbye; never sent.
const ABNORMAL: u16 = 1006;
/// Code of a goodbye without a code; never sent.
const NO_CODE: u16 = 1005;

/// What ended a connection.
#[derive(Debug)]
pub(super) enum End {
    /// The server said goodbye.
    Goodbye(Option<CloseFrame>),
    /// The connection broke, or broke the rules.
    Broken(tungstenite::Error),
    /// No sign of life within the time for a pong.
    Silent,
    /// We ended it.
    Dismissed,
}

impl End {
    /// The error for open requests and for the connection's owner.
    pub(super) fn error(&self, times: &PingTimes) -> McpError {
        match self {
            End::Goodbye(frame) => {
                let code = frame.as_ref().map_or(NO_CODE, |frame| u16::from(frame.code));
                closed(code, frame.as_ref().map_or("", |frame| frame.reason.as_str()))
            }
            End::Broken(error) => broken(error),
            End::Silent => {
                let message = format!(
                    "the server gave no sign of life within {} ms after a ping (ws.pongTimeoutMs)",
                    times.timeout.as_millis()
                );
                with_code(McpError::new(ErrorCode::ConnectionLost, message), ABNORMAL, "")
            }
            End::Dismissed => McpError::new(ErrorCode::ConnectionLost, "the host closed the connection"),
        }
    }
}

fn broken(error: &tungstenite::Error) -> McpError {
    use tungstenite::Error;
    match error {
        Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => McpError::new(
            ErrorCode::MessageTooLarge,
            format!("the server sent a message of {size} bytes; the limit is {max_size} (maxMessageBytes)"),
        ),
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => closed(ABNORMAL, ""),
        Error::Io(cause) => with_code(
            McpError::new(ErrorCode::ConnectionLost, format!("the WebSocket broke: {cause}")),
            ABNORMAL,
            "",
        ),
        other => McpError::new(
            ErrorCode::ConnectionLost,
            format!("the server broke the WebSocket protocol: {other}"),
        ),
    }
}

fn closed(code: u16, reason: &str) -> McpError {
    let reason = unicode::clean_str_lossy(reason);
    let reason = beginning(&reason, 123);
    let said = if reason.is_empty() { String::new() } else { format!(" (\"{reason}\")") };
    let message = format!("the server closed the WebSocket: {code} {}{said}", meaning(code));
    with_code(McpError::new(ErrorCode::ConnectionLost, message), code, reason)
}

/// Code and reason as facts, so that nobody has to read the message.
fn with_code(error: McpError, code: u16, reason: &str) -> McpError {
    let data = json!({ "closeCode": code, "closeReason": reason }).to_string();
    let data = RawValue::from_string(data).ok().map(Arc::from);
    error.with(|facts| facts.data = data)
}

/// What a close code means (RFC 6455, IANA registry).
fn meaning(code: u16) -> &'static str {
    match code {
        1000 => "normal end",
        1001 => "going away",
        1002 => "protocol error",
        1003 => "unsupported data",
        1005 => "no code given",
        1006 => "ended without a goodbye",
        1007 => "invalid payload",
        1008 => "policy violation",
        1009 => "message too big",
        1010 => "extension missing",
        1011 => "internal error of the server",
        1012 => "service restart",
        1013 => "try again later",
        1014 => "bad gateway",
        1015 => "TLS handshake failed",
        3000 => "unauthorized",
        3003 => "forbidden",
        3008 => "timeout",
        4000..=4999 => "a code of the server's own",
        _ => "a code without a known meaning",
    }
}

/// What the clock asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pulse {
    /// Send a ping.
    Ping,
    /// Nothing yet.
    Wait,
    /// Nobody is there any more.
    Dead,
}

/// Watches for signs of life: any received byte counts, so that a long message is no silence.
#[derive(Debug)]
pub(super) struct Liveness {
    times: PingTimes,
    due: Instant,
    /// Bytes received when the open ping was sent.
    pinged_at: Option<u64>,
}

impl Liveness {
    /// Starts with the first ping one interval away.
    pub(super) fn start(times: PingTimes, now: Instant) -> Self {
        Self { times, due: now + times.interval, pinged_at: None }
    }

    /// When to ask next.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// A pong came: the next ping is one interval away.
    pub(super) fn pong(&mut self, now: Instant) {
        if self.pinged_at.take().is_some() {
            self.due = now + self.times.interval;
        }
    }

    /// The time has come, `received` bytes have arrived so far.
    pub(super) fn beat(&mut self, now: Instant, received: u64) -> Pulse {
        if now < self.due {
            return Pulse::Wait;
        }
        match self.pinged_at {
            Some(before) if received == before => Pulse::Dead,
            Some(_) => {
                self.pinged_at = None;
                self.due = now
                    + self.times.interval.saturating_sub(self.times.timeout).max(Duration::from_millis(1));
                Pulse::Wait
            }
            None => {
                self.pinged_at = Some(received);
                self.due = now + self.times.timeout;
                Pulse::Ping
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f_068_close_codes_are_reported() {
        for code in [1000u16, 1001, 1008, 1011, 1012, 1013, 4001] {
            let frame = CloseFrame { code: code.into(), reason: "bye\u{202e}".into() };
            let error = End::Goodbye(Some(frame)).error(&PingTimes::default());
            assert_eq!(error.code(), ErrorCode::ConnectionLost);
            assert!(error.message().contains(&code.to_string()), "{error}");
            assert!(error.message().contains("(\"bye\")"), "{error}");
            assert!(error.facts().data.as_ref().unwrap().get().contains(&format!("\"closeCode\":{code}")));
        }
        let silent_end = End::Goodbye(None).error(&PingTimes::default());
        assert!(silent_end.message().contains("1005"));
        let reset = tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake);
        assert!(End::Broken(reset).error(&PingTimes::default()).message().contains("1006"));
        let large = CapacityError::MessageTooLong { size: 11, max_size: 10 };
        let error = End::Broken(tungstenite::Error::Capacity(large)).error(&PingTimes::default());
        assert_eq!(error.code(), ErrorCode::MessageTooLarge);
    }

    #[test]
    fn ws_01_f_058_silence_after_a_ping_is_the_end() {
        let start = Instant::now();
        let times = PingTimes::default();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut liveness = Liveness::start(times, start);
        assert_eq!(liveness.beat(after(29), 5), Pulse::Wait);
        assert_eq!(liveness.beat(after(30), 5), Pulse::Ping);
        assert_eq!(liveness.due(), after(40));
        assert_eq!(liveness.beat(after(40), 5), Pulse::Dead);
    }

    #[test]
    fn any_byte_is_a_sign_of_life() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut liveness = Liveness::start(PingTimes::default(), start);
        assert_eq!(liveness.beat(after(30), 5), Pulse::Ping);
        assert_eq!(liveness.beat(after(40), 6), Pulse::Wait);
        assert_eq!(liveness.due(), after(60));
        assert_eq!(liveness.beat(after(60), 6), Pulse::Ping);
        liveness.pong(after(61));
        assert_eq!(liveness.due(), after(91));
    }
}
