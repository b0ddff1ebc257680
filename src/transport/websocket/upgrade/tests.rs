use super::*;

fn headers(list: &[(&str, &str)]) -> Vec<(String, Secret<String>)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), Secret::new((*value).to_owned()))).collect()
}

fn request(url: &str, list: &[(&str, &str)]) -> Result<String, McpError> {
    request_head(&Url::parse(url).unwrap(), &headers(list), "KEY")
}

#[test]
fn ws_01_the_request_names_host_path_protocol_and_headers() {
    let head =
        request("wss://[::1]:81/a%20b?token=x#frag", &[("Authorization", "Bearer t"), ("User-Agent", "me")])
            .unwrap();
    let lines: Vec<&str> = head.split("\r\n").collect();
    assert_eq!(lines[0], "GET /a%20b?token=x HTTP/1.1");
    for line in [
        "Host: [::1]:81",
        "Sec-WebSocket-Protocol: mcp",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: KEY",
        "Authorization: Bearer t",
        "User-Agent: me",
    ] {
        assert_eq!(lines.iter().filter(|own| **own == line).count(), 1, "{line} in {head}");
    }
    assert!(head.ends_with("\r\n\r\n") && head.matches("User-Agent").count() == 1);
    assert!(request("ws://a.example/", &[]).unwrap().contains("Host: a.example\r\n"));
}

#[test]
fn headers_that_would_break_the_request_are_refused_or_left_out() {
    for (name, value) in [("X", "a\r\nEvil: 1"), ("X Y", "a"), ("", "a"), ("X:", "a"), ("X", "a\0")] {
        let error = request("ws://a.example/", &[(name, value)]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::ConfigInvalid, "{name:?}");
        assert!(!error.message().contains("Evil"));
    }
    let head = request("ws://a.example/", &[("connection", "close"), ("SEC-WEBSOCKET-KEY", "mine")]).unwrap();
    assert!(!head.contains("close") && !head.contains("mine"));
    let head = request("ws://a.example/", &[("sec-websocket-protocol", "mcp, v2")]).unwrap();
    assert!(head.contains("sec-websocket-protocol: mcp, v2") && !head.contains("Sec-WebSocket-Protocol"));
}

/// The answer with these headers, judged against the offer of `mcp`.
async fn judged(lines: &[&str]) -> Result<(), String> {
    let text = format!("HTTP/1.1 101 S\r\n{}\r\n\r\n", lines.join("\r\n"));
    let head = read_head(&mut text.as_bytes(), 10_000).await.unwrap();
    judge(&head, "dGhlIHNhbXBsZSBub25jZQ==", "mcp")
}

#[tokio::test]
async fn ws_01_no_sub_protocol_is_fine_another_is_not() {
    // Key and accept value of RFC 6455, 1.3.
    let accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
    let (up, on) = ("Upgrade: websocket", "Connection: Upgrade");
    assert_eq!(judged(&[up, on, accept]).await, Ok(()));
    assert_eq!(judged(&["upgrade: WebSocket", "connection: keep-alive, upgrade", accept]).await, Ok(()));
    assert_eq!(judged(&[up, on, accept, "Sec-WebSocket-Protocol: mcp"]).await, Ok(()));
    let wrong: [&[&str]; 6] = [
        &[up, on, accept, "Sec-WebSocket-Protocol: graphql"],
        &[up, on, accept, "Sec-WebSocket-Extensions: permessage-deflate"],
        &[up, on, "Sec-WebSocket-Accept: AAAA"],
        &[up, on],
        &[up, accept],
        &[on, accept],
    ];
    for lines in wrong {
        assert!(judged(lines).await.is_err(), "{lines:?}");
    }
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let url = Url::parse("wss://a.example/mcp?token=s3cret-value").unwrap();
    let scope = "WWW-Authenticate: Bearer error=\"insufficient_scope\"\r\nDPoP-Nonce: n\r\n";
    for (status, fields, code) in [
        (401, "", ErrorCode::AuthRequired),
        (403, "", ErrorCode::HttpStatus),
        (403, scope, ErrorCode::AuthScopeInsufficient),
        (503, "", ErrorCode::HttpStatus),
    ] {
        let text = format!("HTTP/1.1 {status} Some Reason\r\n{fields}\r\n");
        let head = read_head(&mut text.as_bytes(), 10_000).await.unwrap();
        let refused = refusal(&url, &head, "sorry");
        assert_eq!((refused.status, refused.headers.len()), (status, fields.lines().count()));
        let error = refused.error;
        assert!(!error.message().contains("s3cret"), "{error}");
        assert_eq!((error.code(), error.facts().status), (code, Some(status)));
        assert_eq!(error.facts().first_bytes.as_deref(), Some("sorry"));
    }
}

#[tokio::test]
async fn the_first_bytes_of_a_body_are_found() {
    let long = "y".repeat(1_000);
    let cases = [
        ("Content-Length: 5", "hello world", "hello", false),
        ("Content-Length: 5", "he", "he", true),
        ("Content-Length: 0", "", "", false),
        ("X: y", "open end", "open end", true),
        ("X: y", &long, &long[..BODY_SHOWN], false),
        ("Transfer-Encoding: chunked", "b\r\nhello world\r\n0\r\n\r\n", "hello world", false),
        ("Transfer-Encoding: chunked", "B;x=1\r\nhello", "hello", true),
        ("Transfer-Encoding: chunked", "b", "", true),
        ("Transfer-Encoding: chunked", "zz\r\nhello", "", false),
    ];
    for (header, bytes, expected, more) in cases {
        let text = format!("HTTP/1.1 404 N\r\n{header}\r\n\r\n");
        let head = read_head(&mut text.as_bytes(), 10_000).await.unwrap();
        assert_eq!(body_start(&head, bytes.as_bytes()), (expected.as_bytes(), more), "{header} {bytes:?}");
    }
}
