//! The stateless shape of 2026-07-28.

use super::server::{Step, answer, bytes, json, result, stream_head};
use super::*;

fn modern(id: u64, method: &str) -> Outgoing {
    let mirrored = Mirrored {
        method: method.to_owned(),
        name: Some("größe".to_owned()),
        arguments: vec![("Region".to_owned(), "us-west1".to_owned())],
        version: Some(ProtocolVersion::V2026_07_28),
    };
    Outgoing { mirrored, ..outgoing(id, method) }
}

#[tokio::test]
async fn http_04_headers_of_the_modern_era() {
    let server = Server::start(|seen| {
        let headers = "Content-Type: application/json\r\nMcp-Session-Id: ignored\r\n";
        answer(200, headers, &result(seen.id(), "{}"))
    })
    .await;
    let (transport, _) = connect(&server);
    text(transport.request(modern(1, "server/discover")).await).unwrap();
    transport.negotiated(ProtocolVersion::V2026_07_28);
    text(transport.request(modern(2, "tools/call")).await).unwrap();
    ask(&transport, 3, "tools/list").await.unwrap();
    // Nothing but requests is ever sent.
    transport.send(frames::notification("notifications/initialized", None)).await.unwrap();
    transport.close(CloseMode::Graceful, over()).await;
    let seen = server.seen();
    assert_eq!(seen.len(), 3, "no GET, no DELETE, no notification (mcp:HTTP-07, HTTP-10)");
    for one in &seen {
        assert_eq!(one.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(one.header("mcp-session-id"), None);
    }
    assert_eq!(seen[1].header("mcp-method"), Some("tools/call"));
    assert_eq!(seen[1].header("mcp-name"), Some("=?base64?Z3LDtsOfZQ==?="));
    assert_eq!(seen[1].header("mcp-param-region"), Some("us-west1"));
    assert_eq!(seen[2].header("mcp-name"), None);
}

#[tokio::test]
async fn http_08_dropping_closes_the_stream_and_posts_nothing() {
    let server = Server::start(|_| vec![stream_head(), Step::Hang]).await;
    let (transport, _) = connect(&server);
    transport.negotiated(ProtocolVersion::V2026_07_28);
    let waiting =
        tokio::time::timeout(Duration::from_millis(200), transport.request(modern(1, "tools/call")));
    assert!(waiting.await.is_err());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn http_10_a_broken_stream_is_not_resumed() {
    let server = Server::start(|_| vec![stream_head(), bytes("id: 1\ndata:\n\n"), Step::Close]).await;
    let (transport, _) = connect(&server);
    let error = text(transport.request(modern(1, "tools/call")).await).unwrap_err();
    assert_eq!((error.code(), error.facts().delivered), (ErrorCode::ConnectionLost, Some(Delivery::Unknown)));
    assert_eq!(server.count("GET"), 0);
}

#[tokio::test]
async fn base_12_requests_of_the_server_are_not_acted_upon() {
    let server = Server::start(|_| {
        vec![
            stream_head(),
            bytes("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\"}\n\n"),
            bytes(&format!("data: {}\n\n", result(1, "{}"))),
        ]
    })
    .await;
    let (transport, heard) = connect(&server);
    assert_eq!(text(transport.request(modern(1, "tools/call")).await).unwrap(), "{}");
    assert!(lock(&heard.messages).is_empty());
    assert_eq!(lock(&heard.noise).len(), 1);
}

#[tokio::test]
async fn a_404_is_no_lost_session_in_an_era_without_sessions() {
    let server = Server::start(|_| answer(404, "", "nope")).await;
    let (transport, heard) = connect(&server);
    let error = text(transport.request(modern(1, "tools/list")).await).unwrap_err();
    assert_eq!(error.code(), ErrorCode::HttpStatus);
    assert!(lock(&heard.closed).is_empty());
    let server = Server::start(|seen| json(&result(seen.id(), "{}"))).await;
    let (transport, _) = connect(&server);
    let bad = Mirrored { arguments: vec![("a b".to_owned(), String::new())], ..modern(1, "x").mirrored };
    let error = text(transport.request(Outgoing { mirrored: bad, ..modern(1, "x") }).await).unwrap_err();
    assert_eq!(error.facts().delivered, Some(Delivery::No));
    assert!(server.seen().is_empty());
}
