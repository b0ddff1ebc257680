//! Conversations with hand-written servers of 2024-11-05.

use std::time::Duration;

use super::*;
use crate::jsonrpc::write as frames;
use crate::runtime::lock;
use crate::transport::http::tests::server::{Seen, Server, Step, answer, bytes, json, result, stream_head};
use crate::transport::http::tests::{Heard, outgoing, recipe, text, until};

fn connect(server: &Server) -> (Arc<SseTransport>, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let receiver: Arc<Heard> = Arc::clone(&heard);
    (open(recipe(&server.url("/sse")), receiver).unwrap(), heard)
}

async fn ask(transport: &SseTransport, id: u64, method: &str) -> Result<String, McpError> {
    let waited = tokio::time::timeout(Duration::from_secs(20), transport.request(outgoing(id, method)));
    text(waited.await.expect("the request hangs"))
}

/// The stream of a server that answers request 1 after a while, and then ends or goes on.
fn stream(endpoint: &str, after: Vec<Step>) -> Vec<Step> {
    let mut steps = vec![
        stream_head(),
        bytes(&format!("event: endpoint\ndata: {endpoint}\n\n")),
        Step::Wait(Duration::from_millis(150)),
        bytes("event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"hello\"}\n\n"),
        bytes(&format!("event: message\ndata: {}\n\n", result(1, "{\"a\":1}"))),
    ];
    steps.extend(after);
    steps
}

/// mcp:SSE-01, mcp:SSE-02
#[tokio::test]
async fn sse_01_endpoint_post_and_answer() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "GET" => stream("/messages?sessionId=1", vec![Step::Hang]),
        _ => answer(202, "", "Accepted"),
    })
    .await;
    let (transport, heard) = connect(&server);
    assert_eq!(ask(&transport, 1, "initialize").await.unwrap(), "{\"a\":1}");
    transport.negotiated(ProtocolVersion::V2024_11_05);
    transport.send(frames::notification("notifications/initialized", None)).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].header("accept"), Some("text/event-stream"));
    assert_eq!((seen[1].method.as_str(), seen[1].path.as_str()), ("POST", "/messages?sessionId=1"));
    for one in &seen {
        assert_eq!(one.header("x-own"), Some("own-secret"), "SSE-02");
    }
    assert_eq!(seen[1].header("mcp-protocol-version"), None);
    assert_eq!(seen[2].header("mcp-protocol-version"), Some("2024-11-05"), "SSE-02");
    assert_eq!(*lock(&heard.messages), ["hello"]);
    transport.close(CloseMode::Graceful, McpError::new(ErrorCode::ManagerClosed, "over")).await;
    until(|| lock(&heard.closed).len() == 1).await;
}

#[tokio::test]
async fn b_101_an_endpoint_elsewhere_is_refused() {
    let other = Server::start(|_| json("{}")).await;
    let port = other.port();
    for endpoint in [
        format!("http://127.0.0.1:{port}/x"),
        format!("//127.0.0.1:{port}/x"),
        "http://user@127.0.0.1/x".to_owned(),
        "https://127.0.0.1/x".to_owned(),
        "javascript:alert(1)".to_owned(),
    ] {
        let named = endpoint.clone();
        let server = Server::start(move |_| stream(&named, vec![Step::Hang])).await;
        let (transport, heard) = connect(&server);
        let error = ask(&transport, 1, "initialize").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::EndpointOriginMismatch, "{endpoint}");
        until(|| lock(&heard.closed).len() == 1).await;
        assert_eq!(server.count("POST"), 0);
    }
    assert_eq!(other.seen().len(), 0, "nothing goes elsewhere");
}

#[tokio::test]
async fn b_102_only_the_first_endpoint_counts() {
    let other = Server::start(|_| json("{}")).await;
    let second = format!("event: endpoint\ndata: {}\n\n", other.url("/x"));
    let server = Server::start(move |seen| match seen.method.as_str() {
        "GET" => vec![
            stream_head(),
            bytes("event: endpoint\ndata: first\n\n"),
            bytes(&second),
            bytes("event: endpoint\ndata: /third\n\n"),
            Step::Wait(Duration::from_millis(200)),
            bytes(&format!("data: {}\n\n", result(1, "{}"))),
            Step::Hang,
        ],
        _ => answer(202, "", ""),
    })
    .await;
    let (transport, _) = connect(&server);
    assert_eq!(ask(&transport, 1, "initialize").await.unwrap(), "{}");
    let posts: Vec<String> =
        server.seen().into_iter().filter(|seen| seen.method == "POST").map(|seen| seen.path).collect();
    assert_eq!(posts, ["/first"]);
    assert_eq!(other.seen().len(), 0);
}

#[tokio::test]
async fn e7_a_refused_post_settles_its_request() {
    for (status, code) in [
        (500, ErrorCode::HttpStatus),
        (404, ErrorCode::HttpStatus),
        (401, ErrorCode::AuthRequired),
        (413, ErrorCode::HttpStatus),
    ] {
        let server = Server::start(move |seen| match seen.method.as_str() {
            "GET" => vec![stream_head(), bytes("event: endpoint\ndata: /m\n\n"), Step::Hang],
            _ => answer(status, "", "no"),
        })
        .await;
        let (transport, heard) = connect(&server);
        let error = ask(&transport, 1, "tools/list").await.unwrap_err();
        assert_eq!((error.code(), error.facts().status), (code, Some(status)));
        assert!(lock(&heard.closed).is_empty(), "the stream still stands");
    }
}

/// mcp:SSE-05
#[tokio::test]
async fn sse_02_a_cut_stream_ends_the_connection() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "GET" => vec![
            stream_head(),
            bytes("event: endpoint\ndata: /m\n\n"),
            Step::Wait(Duration::from_millis(200)),
            Step::Close,
        ],
        _ => answer(202, "", ""),
    })
    .await;
    let (transport, heard) = connect(&server);
    let error = ask(&transport, 1, "tools/call").await.unwrap_err();
    assert_eq!((error.code(), error.facts().delivered), (ErrorCode::ConnectionLost, Some(Delivery::Unknown)));
    until(|| lock(&heard.closed).len() == 1).await;
    let late = ask(&transport, 2, "tools/call").await.unwrap_err();
    assert_eq!((late.code(), late.facts().delivered), (ErrorCode::ConnectionLost, Some(Delivery::No)));
}

#[tokio::test]
async fn sse_01_a_stream_that_is_none_fails_the_attempt() {
    for (steps, code, status) in [
        (answer(401, "", ""), ErrorCode::AuthRequired, Some(401)),
        (answer(404, "", ""), ErrorCode::HttpStatus, Some(404)),
        (answer(200, "Content-Type: text/html\r\n", "<h1>"), ErrorCode::MessageInvalid, Some(200)),
        (vec![stream_head(), Step::Close], ErrorCode::ConnectionLost, None),
        (vec![Step::Close], ErrorCode::ConnectionLost, None),
    ] {
        let server = Server::start(move |_| steps.clone()).await;
        let (transport, heard) = connect(&server);
        let error = ask(&transport, 0, "initialize").await.unwrap_err();
        assert_eq!((error.code(), error.facts().status), (code, status));
        assert_eq!(error.facts().delivered, Some(Delivery::No), "a login may help, and it be sent again");
        until(|| lock(&heard.closed).len() == 1).await;
    }
}

#[tokio::test]
async fn closing_while_the_endpoint_is_awaited_hangs_nowhere() {
    let server = Server::start(|_| vec![stream_head(), Step::Hang]).await;
    let (transport, _) = connect(&server);
    let own = Arc::clone(&transport);
    let waiting = tokio::spawn(async move { ask(&own, 0, "initialize").await });
    until(|| server.count("GET") == 1).await;
    transport.close(CloseMode::Fast, McpError::new(ErrorCode::ManagerClosed, "over")).await;
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), ErrorCode::ManagerClosed);
    let weak = Arc::downgrade(&transport.poster.shared);
    drop(transport);
    until(|| weak.strong_count() == 0).await;
}

/// The stream of a server that answers by script what is posted.
fn named(seen: &Seen, then: Vec<Step>, posted: impl FnOnce(&Seen) -> Vec<Step>) -> Vec<Step> {
    if seen.method != "GET" {
        return posted(seen);
    }
    let mut steps = vec![stream_head(), bytes("event: endpoint\ndata: /m\n\n")];
    steps.extend(then);
    steps.push(Step::Hang);
    steps
}

fn over() -> McpError {
    McpError::new(ErrorCode::ManagerClosed, "over")
}

/// mcp:CAN-01
#[tokio::test]
async fn pro_07_a_call_that_was_given_up_is_not_sent_later() {
    let server = Server::start(|seen| {
        named(seen, Vec::new(), |seen| {
            let busy = seen.asks("tools/call");
            if busy { answer(503, "Retry-After: 1\r\n", "") } else { answer(202, "", "") }
        })
    })
    .await;
    let (transport, _) = connect(&server);
    let call = tokio::time::timeout(Duration::from_millis(300), transport.request(outgoing(5, "tools/call")));
    assert!(call.await.is_err());
    until(|| server.seen().iter().any(|seen| seen.asks("notifications/cancelled"))).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(server.seen().iter().filter(|seen| seen.asks("tools/call")).count(), 1);
}

#[tokio::test]
async fn lif_06_a_closed_connection_sends_nothing_more() {
    let server =
        Server::start(|seen| named(seen, Vec::new(), |_| answer(503, "Retry-After: 1\r\n", ""))).await;
    let (transport, _) = connect(&server);
    let own = Arc::clone(&transport);
    let call = tokio::spawn(async move { ask(&own, 1, "tools/call").await });
    let own = Arc::clone(&transport);
    let notice = tokio::spawn(async move { own.send(frames::notification("notifications/x", None)).await });
    until(|| server.count("POST") == 2).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    transport.close(CloseMode::Graceful, over()).await;
    assert_eq!(call.await.unwrap().unwrap_err().code(), ErrorCode::ManagerClosed);
    assert_eq!(notice.await.unwrap().unwrap_err().code(), ErrorCode::ManagerClosed);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(server.count("POST"), 2);
}

#[tokio::test]
async fn f_005_a_post_that_is_never_answered_ends_with_its_call() {
    let server = Server::start(|seen| {
        let later = vec![
            Step::Wait(Duration::from_millis(300)),
            bytes(&format!("event: message\ndata: {}\n\n", result(1, "{}"))),
        ];
        named(seen, later, |_| vec![Step::Hang])
    })
    .await;
    let mut recipe = recipe(&server.url("/sse"));
    recipe.limits.connect = Duration::from_millis(300);
    let transport = open(recipe, Arc::new(Heard::default())).unwrap();
    let holders = Arc::strong_count(&transport.poster.shared);
    assert_eq!(ask(&transport, 1, "tools/call").await.unwrap(), "{}");
    let call = tokio::time::timeout(Duration::from_millis(100), transport.request(outgoing(2, "tools/call")));
    assert!(call.await.is_err());
    let sent = transport.send(frames::notification("notifications/x", None));
    let error = tokio::time::timeout(Duration::from_secs(5), sent).await.expect("it hangs").unwrap_err();
    assert_eq!((error.code(), error.facts().delivered), (ErrorCode::ConnectionLost, Some(Delivery::Unknown)));
    until(|| Arc::strong_count(&transport.poster.shared) == holders).await;
    assert_eq!(server.count("POST"), 4, "two calls, one cancellation, one notification");
}
