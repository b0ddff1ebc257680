//! Whether a configured URL may be used.

use crate::secret::{SafeUrl, authority};

/// Checks scheme and host, and that there are neither control characters nor a user name in it.
/// The error says what to write instead and repeats nothing of the URL but its scheme.
pub(crate) fn check_url(text: &str, schemes: &[&str]) -> Result<SafeUrl, String> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err("The URL is empty".to_owned());
    }
    if trimmed.chars().any(|c| c.is_control() || c == ' ') {
        return Err("The URL holds a space or control character; encode it".to_owned());
    }
    let Some(parts) = authority(trimmed) else {
        return Err(format!(
            "Expected an absolute URL such as {}://host/path",
            schemes.first().unwrap_or(&"https")
        ));
    };
    let scheme = parts.scheme.to_ascii_lowercase();
    if !schemes.contains(&scheme.as_str()) {
        return Err(format!("Expected a URL with {}{}", schemes.join(" or "), type_hint(&scheme)));
    }
    if parts.userinfo.is_some() {
        return Err("The URL holds a user name or password; put credentials into headers".to_owned());
    }
    check_host(parts.host)?;
    // Decided once and by the same rules as policy and connection: what they cannot read is refused here.
    if url::Url::parse(trimmed).is_err() {
        return Err("The URL cannot be read; look at its host".to_owned());
    }
    Ok(SafeUrl::new(trimmed))
}

fn type_hint(scheme: &str) -> &'static str {
    match scheme {
        "ws" | "wss" => "; for WebSocket write \"type\": \"ws\"",
        "http" | "https" => "; for HTTP write \"type\": \"http\"",
        _ => "",
    }
}

fn check_host(host: &str) -> Result<(), String> {
    let after_address = host.rfind(']').map_or(0, |at| at + 1);
    let (name, port) = match host[after_address..].rfind(':') {
        Some(at) => (&host[..after_address + at], &host[after_address + at + 1..]),
        None => (host, ""),
    };
    if name.is_empty() {
        return Err("The URL has no host".to_owned());
    }
    if !port.is_empty() && port.parse::<u16>().is_err() {
        return Err("The port of the URL is not a number from 0 to 65535".to_owned());
    }
    let forbidden = |c: char| matches!(c, '<' | '>' | '^' | '|' | '"' | '`' | '{' | '}');
    if name.contains(forbidden) {
        return Err("The host of the URL holds characters that no host has".to_owned());
    }
    Ok(())
}
