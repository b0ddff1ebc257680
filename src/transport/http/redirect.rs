//! Redirects: hop by hop, on one origin only (HTTP-03, BEY-07). Pure.

use http::{Method, StatusCode};
use url::Url;

use crate::error::{Delivery, ErrorCode, McpError};
use crate::transport::connector::client::place;
use crate::url_guard::{Astray, lead};

/// Hops that are followed.
pub const MOST_HOPS: usize = 5;

/// What to do with an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// It is the answer.
    Here,
    /// Ask there, with the same method and body.
    Follow(Url),
}

/// Decides about the answer `status` of `from`. A redirect that would turn a POST into a GET is no redirect
/// but the answer.
///
/// # Errors
/// `REDIRECT_REFUSED` for another origin, credentials in the target, or a target that is no URL.
pub fn next(
    from: &Url,
    method: &Method,
    status: StatusCode,
    location: Option<&[u8]>,
) -> Result<Next, McpError> {
    let keeps_method = match status.as_u16() {
        301 | 302 | 307 | 308 => true,
        303 => *method == Method::GET,
        _ => false,
    };
    let Some(location) = location.filter(|_| keeps_method) else {
        return Ok(Next::Here);
    };
    let target = std::str::from_utf8(location).map_err(|_| Astray::NoUrl).and_then(|text| lead(from, text));
    target.map(Next::Follow).map_err(|astray| match astray {
        Astray::NoUrl => refused(from, "is redirected to something that is no URL"),
        Astray::Credentials => refused(from, "is redirected to a URL with a user name"),
        Astray::Elsewhere(origin) => refused(
            from,
            &format!("is redirected to another origin, {origin}; if that is right, configure that URL"),
        ),
    })
}

/// Too many hops.
pub fn too_many(from: &Url) -> McpError {
    refused(from, &format!("is redirected more than {MOST_HOPS} times"))
}

fn refused(from: &Url, why: &str) -> McpError {
    McpError::new(ErrorCode::RedirectRefused, format!("{} {why}", place(from)))
        .with(|facts| facts.delivered = Some(Delivery::Refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(method: &Method, status: u16, location: &str) -> Result<Next, ErrorCode> {
        let from = Url::parse("https://a.example:8443/mcp?x=1").unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        next(&from, method, status, Some(location.as_bytes())).map_err(|error| error.code())
    }

    #[test]
    fn http_03_same_origin_only() {
        let follow = |text: &str| Ok(Next::Follow(Url::parse(text).unwrap()));
        let refused = || Err(ErrorCode::RedirectRefused);
        for (location, expected) in [
            ("/mcp/", follow("https://a.example:8443/mcp/")),
            ("https://a.example:8443/z", follow("https://a.example:8443/z")),
            ("?y", follow("https://a.example:8443/mcp?y")),
            ("http://a.example:8443/mcp", refused()),
            ("https://a.example/mcp", refused()),
            ("https://b.example:8443/mcp", refused()),
            ("//b.example/mcp", refused()),
            ("https://me:pw@a.example:8443/mcp", refused()),
            ("https://[oops", refused()),
            ("javascript:alert(1)", refused()),
            ("file:///etc/passwd", refused()),
        ] {
            assert_eq!(decide(&Method::POST, 307, location), expected, "{location}");
        }
    }

    #[test]
    fn http_03_a_post_stays_a_post() {
        for (method, status, follows) in [
            (Method::POST, 301, true),
            (Method::POST, 302, true),
            (Method::POST, 303, false),
            (Method::GET, 303, true),
            (Method::POST, 308, true),
            (Method::POST, 304, false),
            (Method::POST, 200, false),
        ] {
            let next = decide(&method, status, "/z").unwrap();
            assert_eq!(next != Next::Here, follows, "{method} {status}");
        }
    }
}
