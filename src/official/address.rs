//! Addresses of servers in the registry, which may have gaps (`https://{tenant}.example.com/mcp`). Pure.

use url::Url;

/// An address as the registry names it: literal pieces between gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddressPattern(Vec<String>);

/// An address in one spelling: without fragment, user name and the slash at the end.
pub(super) fn normal(text: &str) -> Option<String> {
    let url =
        Url::parse(text.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https" | "ws" | "wss"))?;
    let host = url.host_str()?.trim_end_matches('.');
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path = url.path().trim_end_matches('/');
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    Some(format!("{}://{host}{port}{path}{query}", url.scheme()))
}

/// The same without its query.
pub(super) fn without_query(normal: &str) -> &str {
    normal.split('?').next().unwrap_or(normal)
}

impl AddressPattern {
    /// A pattern; `None` for an address without gaps, or one whose host is all gap.
    pub(super) fn new(text: &str) -> Option<Self> {
        let text = text.trim().trim_end_matches('/');
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (_, behind) = after.split_once('}')?;
            pieces.push(before.to_owned());
            rest = behind;
        }
        pieces.push(rest.to_owned());
        let first = pieces.first()?;
        let (scheme, host) = first.split_once("://")?;
        // A host that begins with a gap has to end with a name of its own: two labels at least.
        let owned = host.contains('/')
            || pieces.get(1).is_some_and(|next| {
                let tail = next.split('/').next().unwrap_or_default();
                tail.starts_with('.') && tail[1..].contains('.')
            });
        (pieces.len() > 1 && owned && matches!(scheme, "https" | "wss")).then_some(Self(pieces))
    }

    /// Whether an address in its one spelling is one of these.
    pub(super) fn covers(&self, normal: &str) -> bool {
        let Some((first, rest)) = self.0.split_first() else { return false };
        let Some(mut text) = normal.strip_prefix(first.as_str()) else { return false };
        let mut in_host = !first.split_once("://").is_some_and(|(_, host)| host.contains('/'));
        for (place, piece) in rest.iter().enumerate() {
            let last = place + 1 == rest.len();
            let gap = gap_length(text, in_host);
            let found = if last && piece.is_empty() {
                (gap == text.len()).then_some(gap)
            } else {
                text.find(piece.as_str()).filter(|at| *at <= gap)
            };
            let Some(at) = found.filter(|at| *at > 0) else { return false };
            in_host &= !piece.contains('/');
            text = &text[at + piece.len()..];
        }
        text.is_empty()
    }
}

/// How far a gap may reach: over one label of a host, or one segment of a path.
fn gap_length(text: &str, in_host: bool) -> usize {
    let ends = |c: char| matches!(c, '/' | '?' | '#' | '@' | ':' | '\\') || (in_host && c == '.');
    text.find(ends).unwrap_or(text.len())
}
