//! From a byte stream to a WebSocket: the upgrade request and the judgement of its answer (WS-01).

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use url::Url;

use super::WebSocketLimits;
use crate::error::{ErrorCode, McpError};
use crate::secret::Secret;
use crate::transport::connector::client::place;
use crate::transport::connector::reply_head::{HeadProblem, ReplyHead, read_head};
use crate::transport::connector::wire::Wire;
use crate::transport::frame_lines::beginning;
use crate::transport::http::answer;
use crate::unicode;

/// The sub-protocol that is asked for; a server that selects none is accepted.
const PROTOCOL: &str = "mcp";
/// Longest head of a server's answer.
const MAX_HEAD: usize = 64 * 1024;
/// Bytes of the body of a refusal that are read, and how long they are waited for.
const BODY_SHOWN: usize = 200;
const BODY_PATIENCE: Duration = Duration::from_millis(500);
/// Headers that the upgrade itself decides on.
const OWN_HEADERS: [&str; 7] = [
    "connection",
    "upgrade",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-extensions",
    "content-length",
    "transfer-encoding",
];

/// Why there is no WebSocket; what of the answer tells whoever proves who we are.
#[derive(Debug)]
pub(super) struct NoUpgrade {
    pub(super) error: McpError,
    /// Status of the answer; 0 where there was none.
    pub(super) status: u16,
    /// Challenge and nonce.
    pub(super) headers: HeaderMap,
}

impl From<McpError> for NoUpgrade {
    fn from(error: McpError) -> Self {
        Self { error, status: 0, headers: HeaderMap::new() }
    }
}

/// Asks for the upgrade and makes a WebSocket of the stream.
///
/// # Errors
/// `AUTH_REQUIRED` for 401, `AUTH_SCOPE_INSUFFICIENT` for a 403 that asks for scopes, `HTTP_STATUS` with the first bytes for any other refusal, `CONNECT_FAILED` for what
/// is no answer, `CONFIG_INVALID` for a header that cannot be sent.
pub(super) async fn upgrade(
    mut wire: Wire,
    url: &Url,
    headers: &Headers,
    limits: &WebSocketLimits,
) -> Result<WebSocketStream<Wire>, NoUpgrade> {
    let key = generate_key();
    let request = request_head(url, headers, &key)?;
    let broken = |error: std::io::Error| failed(format!("the connection broke during the upgrade: {error}"));
    wire.write_all(request.as_bytes()).await.map_err(broken)?;
    wire.flush().await.map_err(broken)?;
    let mut head = read_head(&mut wire, MAX_HEAD).await.map_err(describe)?;
    if head.status != 101 {
        let shown = read_body_start(&mut wire, &mut head).await;
        return Err(refusal(url, &head, &shown));
    }
    judge(&head, &key, &offered(headers)).map_err(|why| {
        failed(format!("the server's answer to the upgrade breaks the WebSocket protocol: {why}"))
    })?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits.message))
        .max_frame_size(Some(limits.message))
        .read_buffer_size(64 * 1024)
        .write_buffer_size(64 * 1024);
    Ok(WebSocketStream::from_partially_read(wire, head.rest, Role::Client, Some(config)).await)
}

fn failed(message: impl Into<String>) -> McpError {
    McpError::new(ErrorCode::ConnectFailed, message)
}

/// Headers of an upgrade, names as written.
pub(super) type Headers = [(String, Secret<String>)];

/// The sub-protocols the request offers: configured ones replace our own.
fn offered(headers: &Headers) -> String {
    let own = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-protocol"));
    own.map_or(PROTOCOL.to_owned(), |(_, value)| value.expose().clone())
}

fn request_head(url: &Url, headers: &Headers, key: &str) -> Result<String, McpError> {
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut head = format!("GET {}{query} HTTP/1.1\r\n", url.path());
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let defaults = [
        ("Host", format!("{}{port}", url.host_str().unwrap_or_default())),
        ("Sec-WebSocket-Protocol", PROTOCOL.to_owned()),
        ("User-Agent", concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")).to_owned()),
    ];
    let configured = |name: &str| headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    for (name, value) in defaults.iter().filter(|(name, _)| !configured(name)) {
        push(&mut head, name, value);
    }
    push(&mut head, "Connection", "Upgrade");
    push(&mut head, "Upgrade", "websocket");
    push(&mut head, "Sec-WebSocket-Version", "13");
    push(&mut head, "Sec-WebSocket-Key", key);
    for (name, value) in headers {
        if OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            continue;
        }
        if !may_be_sent(name, value.expose()) {
            let shown = shortened(name);
            let message = format!("the header \"{shown}\" has a name or value that HTTP does not allow");
            return Err(McpError::new(ErrorCode::ConfigInvalid, message));
        }
        push(&mut head, name, value.expose());
    }
    head.push_str("\r\n");
    Ok(head)
}

fn push(head: &mut String, name: &str, value: &str) {
    head.push_str(name);
    head.push_str(": ");
    head.push_str(value);
    head.push_str("\r\n");
}

/// No line break of a value may become a header of its own.
fn may_be_sent(name: &str, value: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty()
        && name.bytes().all(token)
        && value.bytes().all(|byte| byte == b'\t' || !byte.is_ascii_control())
}

fn judge(head: &ReplyHead, key: &str, offered: &str) -> Result<(), String> {
    if !head.lists("upgrade", "websocket") || !head.lists("connection", "upgrade") {
        return Err("it does not upgrade to websocket".to_owned());
    }
    if head.values("sec-websocket-accept").next() != Some(derive_accept_key(key.as_bytes()).as_str()) {
        return Err("its Sec-WebSocket-Accept does not fit".to_owned());
    }
    if head.values("sec-websocket-extensions").any(|value| !value.is_empty()) {
        return Err("it selects an extension that was not offered".to_owned());
    }
    let selected = head.values("sec-websocket-protocol").find(|value| !value.is_empty());
    match selected {
        Some(selected) if !offered.split(',').any(|own| own.trim() == selected) => {
            let selected = shortened(selected);
            Err(format!("it selects the sub-protocol \"{selected}\", which was not offered"))
        }
        _ => Ok(()),
    }
}

/// The first bytes of the body of a refusal.
async fn read_body_start(wire: &mut Wire, head: &mut ReplyHead) -> String {
    let mut body = std::mem::take(&mut head.rest);
    let read = async {
        while body_start(head, &body).1 {
            match wire.read_buf(&mut body).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
    };
    // What has come by then is shown.
    let _ = tokio::time::timeout(BODY_PATIENCE, read).await;
    clean(body_start(head, &body).0)
}

/// The part of the bytes behind a head that is the beginning of its body, and whether more of it is wanted.
fn body_start<'a>(head: &ReplyHead, bytes: &'a [u8]) -> (&'a [u8], bool) {
    let (content, length) = if head.lists("transfer-encoding", "chunked") {
        // The first chunk is enough for people.
        let Some(at) = memchr::memmem::find(bytes, b"\r\n") else { return (&[], bytes.len() < BODY_SHOWN) };
        let size = std::str::from_utf8(&bytes[..at]).ok().and_then(|text| text.split(';').next());
        (&bytes[at + 2..], size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok()).unwrap_or(0))
    } else {
        let length = head.values("content-length").next().and_then(|length| length.parse().ok());
        (bytes, length.unwrap_or(BODY_SHOWN))
    };
    let wanted = length.min(BODY_SHOWN);
    (&content[..content.len().min(wanted)], content.len() < wanted)
}

/// A word of the other side or of the configuration inside a message of ours.
fn shortened(text: &str) -> String {
    beginning(&unicode::clean_str_lossy(text), 60).to_owned()
}

fn clean(bytes: &[u8]) -> String {
    unicode::clean_str_lossy(String::from_utf8_lossy(bytes).trim())
}

fn refusal(url: &Url, head: &ReplyHead, shown: &str) -> NoUpgrade {
    let status = head.status;
    let mut headers = HeaderMap::new();
    for name in [WWW_AUTHENTICATE, HeaderName::from_static("dpop-nonce")] {
        for value in head.values(name.as_str()).filter_map(|value| HeaderValue::from_str(value).ok()) {
            headers.append(&name, value);
        }
    }
    let error = answer::challenged(&format!("the upgrade of {}", place(url)), status, &headers);
    let error = error.unwrap_or_else(|| {
        let message = format!("the server refused the WebSocket: {status} {}", shortened(&head.reason));
        McpError::new(ErrorCode::HttpStatus, message.trim_end().to_owned())
    });
    let error = error.with(|facts| {
        facts.status = Some(status);
        facts.first_bytes = (!shown.is_empty()).then(|| shown.to_owned());
    });
    NoUpgrade { error, status, headers }
}

fn describe(problem: HeadProblem) -> McpError {
    match problem {
        HeadProblem::Ended => failed("the server closed the connection before it answered the upgrade"),
        HeadProblem::Broken(error) => failed(format!("the connection broke during the upgrade: {error}")),
        HeadProblem::TooLong(limit) => {
            failed(format!("the head of the server's answer is longer than {limit} bytes"))
        }
        HeadProblem::NotHttp(bytes) => {
            let shown = clean(&bytes);
            failed("the server does not speak HTTP on this port")
                .with(|facts| facts.first_bytes = (!shown.is_empty()).then_some(shown))
        }
    }
}

#[cfg(test)]
mod tests;
