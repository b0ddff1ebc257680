//! What makes two definitions the same server, as far as running it twice goes. (CFG-10)

use crate::config::spec::{ServerSpec, TransportSpec};

/// The signature of a server: `stdio:` and the JSON of command and arguments, or `url:` and the URL, taken
/// out of its relay. In-process servers have none.
pub fn signature(spec: &ServerSpec, relays: &[String]) -> Option<String> {
    let url = match &spec.transport {
        TransportSpec::Stdio(stdio) => {
            let words: Vec<&str> =
                std::iter::once(&stdio.command).chain(&stdio.args).map(String::as_str).collect();
            return serde_json::to_string(&words).ok().map(|json| format!("stdio:{json}"));
        }
        TransportSpec::Http(remote) | TransportSpec::Sse(remote) | TransportSpec::WebSocket(remote) => {
            remote.url.expose()
        }
        TransportSpec::SseIde(ide) | TransportSpec::WsIde(ide) => ide.url.expose(),
        TransportSpec::ConnectorProxy(connector) => {
            connector.original.as_ref().unwrap_or(&connector.url).expose()
        }
        TransportSpec::Sdk { .. } => return None,
    };
    Some(format!("url:{}", unwrap_relay(url, relays).unwrap_or_else(|| url.to_owned())))
}

/// The URL behind a relay: the first template with `{url}` that fits.
pub fn unwrap_relay(url: &str, templates: &[String]) -> Option<String> {
    templates.iter().find_map(|template| {
        let (head, tail) = template.split_once("{url}")?;
        let inner = url.strip_prefix(head)?.strip_suffix(tail)?;
        let inner = decode(inner)?;
        (inner.contains("://")).then_some(inner)
    })
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.get(..2).filter(|_| first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}
