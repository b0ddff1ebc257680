//! Which era to speak: what a probe with `server/discover` was answered with, judged (PRO-03, mcp:ERA-*). Pure.

use super::version::ProtocolVersion;

/// How a server is reached, as far as a probe's outcome means different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A channel of its own (a process, a socket, in-process): silence and its end mean an old server.
    Stdio,
    /// HTTP: only an answer means anything (D11).
    Http,
}

/// How a probe ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// A `DiscoverResult` with its `supportedVersions`.
    Discovered(Vec<String>),
    /// An answer that is neither a `DiscoverResult` nor an error: a page, a result of something else.
    Unreadable,
    /// A JSON-RPC error, with `data.supported` where it has that.
    Refused {
        /// Code of the error.
        code: i64,
        /// Versions the server says it supports.
        supported: Vec<String>,
    },
    /// An HTTP status without a JSON-RPC error.
    Status(u16),
    /// No answer within the probe's limit.
    Silence,
    /// The other end is gone.
    Ended,
    /// Nothing was learnt: the network failed, a login is asked for.
    Unreached,
}

/// What follows from a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The stateless era, at this version.
    Modern(ProtocolVersion),
    /// The handshake era.
    Legacy,
    /// Probe once more, at this version.
    RetryAt(ProtocolVersion),
    /// No common version; the server's list.
    Unsupported(Vec<String>),
    /// No verdict: the probe's own error is what the caller hears.
    Surface,
}

/// The server does not speak the version of the request.
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// The request needs a capability the client did not declare.
pub const MISSING_CAPABILITY: i64 = -32021;
/// Headers and body of a request differ.
pub const HEADER_MISMATCH: i64 = -32020;

/// Judges a probe; `retried` says that it already was the second one (mcp:ERA-08).
pub fn judge(channel: Channel, outcome: &ProbeOutcome, retried: bool) -> Verdict {
    match outcome {
        ProbeOutcome::Discovered(versions) => match common(versions) {
            Some(version) => Verdict::Modern(version),
            None => old_or_none(versions),
        },
        ProbeOutcome::Refused { code: UNSUPPORTED_VERSION, supported } => match common(supported) {
            Some(version) if !retried => Verdict::RetryAt(version),
            Some(_) => Verdict::Unsupported(supported.clone()),
            None => old_or_none(supported),
        },
        // Only a modern server says these two: falling back would hide what is wrong (mcp:ERA-04).
        ProbeOutcome::Refused { code: MISSING_CAPABILITY | HEADER_MISMATCH, .. }
        | ProbeOutcome::Unreached => Verdict::Surface,
        // Any other error means an old server, whatever its code (mcp:ERA-06, D3).
        ProbeOutcome::Refused { .. } | ProbeOutcome::Unreadable => Verdict::Legacy,
        ProbeOutcome::Status(status) => match status {
            // Login, timeouts, floods and outages say nothing about the era (mcp:ERA-12).
            400 | 402 | 404..=407 | 409..=424 | 426..=428 | 430..=499 => Verdict::Legacy,
            _ => Verdict::Surface,
        },
        ProbeOutcome::Silence | ProbeOutcome::Ended => match channel {
            Channel::Stdio => Verdict::Legacy,
            Channel::Http => Verdict::Surface,
        },
    }
}

/// The version to speak with a modern server of these versions.
fn common(theirs: &[String]) -> Option<ProtocolVersion> {
    first_of(&ProtocolVersion::MODERN, theirs)
}

fn old_or_none(theirs: &[String]) -> Verdict {
    match first_of(&ProtocolVersion::LEGACY, theirs) {
        Some(_) => Verdict::Legacy,
        None => Verdict::Unsupported(theirs.to_vec()),
    }
}

fn first_of(ours: &[ProtocolVersion], theirs: &[String]) -> Option<ProtocolVersion> {
    ours.iter().copied().find(|version| theirs.iter().any(|text| text == version.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODERN: ProtocolVersion = ProtocolVersion::V2026_07_28;

    fn names(versions: &[&str]) -> Vec<String> {
        versions.iter().map(|&version| version.to_owned()).collect()
    }

    fn refused(code: i64, supported: &[&str]) -> ProbeOutcome {
        ProbeOutcome::Refused { code, supported: names(supported) }
    }

    #[test]
    fn era_rows_stdio_and_http() {
        use ProbeOutcome::{Discovered, Ended, Silence, Status, Unreached, Unreadable};
        use Verdict::{Legacy, Modern, RetryAt, Surface, Unsupported};
        let unknown = || Unsupported(names(&["2027-01-01"]));
        // row, outcome, verdict on stdio, verdict on HTTP
        let table = [
            ("mcp:ERA-03", Discovered(names(&["2026-07-28"])), Modern(MODERN), Modern(MODERN)),
            ("mcp:ERA-03", Discovered(names(&["2027-01-01", "2026-07-28"])), Modern(MODERN), Modern(MODERN)),
            ("mcp:ERA-03", Discovered(names(&["2025-06-18"])), Legacy, Legacy),
            ("mcp:ERA-03", Discovered(names(&["2027-01-01"])), unknown(), unknown()),
            ("mcp:ERA-04", refused(-32022, &["2026-07-28", "2025-11-25"]), RetryAt(MODERN), RetryAt(MODERN)),
            ("mcp:ERA-04", refused(-32022, &["2025-11-25"]), Legacy, Legacy),
            ("mcp:ERA-08", refused(-32022, &["2027-01-01"]), unknown(), unknown()),
            ("mcp:ERA-04", refused(-32022, &[]), Unsupported(vec![]), Unsupported(vec![])),
            ("mcp:ERA-09", refused(-32021, &[]), Surface, Surface),
            ("mcp:ERA-09", refused(-32020, &[]), Surface, Surface),
            ("mcp:ERA-05", refused(-32601, &[]), Legacy, Legacy),
            ("mcp:ERA-06", refused(-32602, &[]), Legacy, Legacy),
            ("D3", refused(-32000, &[]), Legacy, Legacy),
            ("D3", refused(-1, &["2026-07-28"]), Legacy, Legacy),
            ("D5", Unreadable, Legacy, Legacy),
            ("mcp:ERA-05", Silence, Legacy, Surface),
            ("mcp:ERA-16", Ended, Legacy, Surface),
            ("D11", Unreached, Surface, Surface),
            ("mcp:ERA-09", Status(400), Legacy, Legacy),
            ("mcp:ERA-10", Status(404), Legacy, Legacy),
            ("mcp:ERA-10", Status(405), Legacy, Legacy),
            ("mcp:ERA-12", Status(401), Surface, Surface),
            ("mcp:ERA-12", Status(403), Surface, Surface),
            ("mcp:ERA-12", Status(429), Surface, Surface),
            ("mcp:ERA-12", Status(500), Surface, Surface),
            ("mcp:ERA-12", Status(503), Surface, Surface),
        ];
        for (row, outcome, stdio, http) in table {
            assert_eq!(judge(Channel::Stdio, &outcome, false), stdio, "{row} stdio {outcome:?}");
            assert_eq!(judge(Channel::Http, &outcome, false), http, "{row} http {outcome:?}");
        }
    }

    #[test]
    fn era_08_one_retry_per_negotiation() {
        let again = refused(-32022, &["2026-07-28"]);
        assert_eq!(judge(Channel::Http, &again, false), Verdict::RetryAt(MODERN));
        assert_eq!(judge(Channel::Http, &again, true), Verdict::Unsupported(names(&["2026-07-28"])));
    }
}
