//! Formats of texts in forms: e-mail, URI, date, date and time (mcp:ELI-10). Unknown formats fit anything.

/// Whether a text has a format.
pub(super) fn fits(name: &str, text: &str) -> bool {
    match name {
        "email" => is_email(text),
        "uri" => url::Url::parse(text).is_ok(),
        "date" => is_date(text),
        "date-time" => is_date_time(text),
        _ => true,
    }
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let printable =
        |part: &str| !part.is_empty() && !part.chars().any(|c| c.is_whitespace() || c.is_control());
    printable(local)
        && printable(domain)
        && !local.contains('@')
        && !domain.starts_with('.')
        && !domain.ends_with('.')
}

/// Digits of a fixed number of places.
fn digits(text: &str, places: usize) -> Option<u32> {
    (text.len() == places && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=longest).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let (clock, zone) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => return false,
    };
    let zone_fits = matches!(zone, "Z" | "z")
        || zone.get(1..).and_then(|zone| zone.split_once(':')).is_some_and(|(hours, minutes)| {
            digits(hours, 2).is_some_and(|hours| hours < 24)
                && digits(minutes, 2).is_some_and(|minutes| minutes < 60)
        });
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let fraction_fits = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = whole.split(':').collect();
    let [hours, minutes, seconds] = parts[..] else { return false };
    let clock_fits = digits(hours, 2).is_some_and(|hours| hours < 24)
        && digits(minutes, 2).is_some_and(|minutes| minutes < 60)
        && digits(seconds, 2).is_some_and(|seconds| seconds <= 60);
    is_date(date) && clock_fits && fraction_fits && zone_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eli_10_formats() {
        for (format, good, bad) in [
            ("email", "a.b+c@example.com", "a@@b"),
            ("email", "ü@例え.jp", "@example.com"),
            ("uri", "https://example.com/x", "example.com"),
            ("date", "2024-02-29", "2023-02-29"),
            ("date", "2026-12-31", "2026-13-01"),
            ("date-time", "2026-11-30T10:30:00Z", "2026-11-30T10:30:00"),
            ("date-time", "2026-11-30T10:30:00.25+02:00", "2026-11-30T25:30:00Z"),
        ] {
            assert!(fits(format, good), "{format} {good}");
            assert!(!fits(format, bad), "{format} {bad}");
        }
        assert!(fits("unheard-of", "anything"));
    }
}
