//! The life of a session.

use std::sync::atomic::AtomicUsize;

use super::server::{Seen, Step, answer, bytes, json, result, stream_head};
use super::*;

fn with_session(seen: &Seen) -> Option<Vec<Step>> {
    if seen.asks("initialize") {
        let headers = "Content-Type: application/json\r\nMCP-Session-Id: s-secret-1\r\n";
        return Some(answer(200, headers, &result(seen.id(), "{}")));
    }
    match seen.method.as_str() {
        "GET" => Some(answer(405, "", "")),
        "DELETE" => Some(answer(200, "", "")),
        _ if seen.asks("notifications/initialized") => Some(answer(202, "", "")),
        _ => None,
    }
}

#[tokio::test]
async fn httpl_15_e3_the_session_goes_along_and_is_ended() {
    let server =
        Server::start(|seen| with_session(seen).unwrap_or_else(|| json(&result(seen.id(), "{}")))).await;
    let (transport, heard) = connect(&server);
    shake(&transport).await;
    ask(&transport, 1, "tools/list").await.unwrap();
    until(|| server.count("GET") == 1).await;
    // A new handshake never carries the old session (E3).
    ask(&transport, 2, "initialize").await.unwrap();
    transport.close(CloseMode::Graceful, over()).await;
    let seen = server.seen();
    for one in &seen {
        let handshake = one.asks("initialize");
        let expected = if handshake { None } else { Some("s-secret-1") };
        assert_eq!(one.header("mcp-session-id"), expected, "{} {}", one.method, one.body);
        if one.body.is_empty() || one.asks("tools/list") {
            assert_eq!(one.header("mcp-protocol-version"), Some("2025-11-25"), "{one:?}");
        }
    }
    assert_eq!(seen.last().unwrap().method, "DELETE", "E12");
    assert_eq!(lock(&heard.closed).len(), 0);
    let late = ask(&transport, 3, "tools/list").await.unwrap_err();
    assert_eq!((late.code(), late.facts().delivered), (ErrorCode::ManagerClosed, Some(Delivery::No)));
}

#[tokio::test]
async fn e12_a_server_that_ignores_the_end_holds_nothing_up() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "DELETE" => vec![Step::Hang],
        _ => with_session(seen).unwrap_or_default(),
    })
    .await;
    let (transport, _) = connect(&server);
    shake(&transport).await;
    let started = std::time::Instant::now();
    transport.close(CloseMode::Graceful, over()).await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[tokio::test]
async fn b_108_session_ids_that_are_not_allowed_are_refused() {
    for id in ["a b".to_owned(), "x".repeat(8_192)] {
        let headers = format!("Content-Type: application/json\r\nMcp-Session-Id: {id}\r\n");
        let server = Server::start(move |seen| answer(200, &headers, &result(seen.id(), "{}"))).await;
        let (transport, _) = connect(&server);
        let error = ask(&transport, 0, "initialize").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::MessageInvalid);
        assert!(!format!("{error:?}").contains(&id));
    }
}

#[tokio::test]
async fn f_043_a_lost_session_is_told_once_and_every_call_gets_its_own_verdict() {
    let calls = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |seen| {
        with_session(seen).unwrap_or_else(|| {
            // One never gets an answer, the others are refused at different times.
            match calls.fetch_add(1, Ordering::SeqCst) {
                0 => vec![Step::Hang],
                n => {
                    let mut steps = vec![Step::Wait(Duration::from_millis(n as u64 * 5))];
                    steps.extend(answer(404, "", "Session not found"));
                    steps
                }
            }
        })
    })
    .await;
    let (transport, heard) = connect(&server);
    shake(&transport).await;
    let own = Arc::clone(&transport);
    let silent = tokio::spawn(async move { ask(&own, 1, "tools/call").await });
    until(|| server.seen().iter().any(|seen| seen.asks("tools/call"))).await;
    let calls: Vec<_> = (2..52)
        .map(|id| {
            let own = Arc::clone(&transport);
            tokio::spawn(async move { ask(&own, id, "tools/call").await })
        })
        .collect();
    until(|| !lock(&heard.closed).is_empty()).await;
    // What the owner does with the news.
    let lost = lock(&heard.closed)[0].clone();
    transport.close(CloseMode::Graceful, lost).await;
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        let facts = (error.code(), error.facts().delivered);
        assert_eq!(facts, (ErrorCode::SessionExpired, Some(Delivery::Refused)));
    }
    let error = silent.await.unwrap().unwrap_err();
    let facts = (error.code(), error.facts().delivered);
    assert_eq!(facts, (ErrorCode::SessionExpired, Some(Delivery::Unknown)));
    assert_eq!(lock(&heard.closed).len(), 1, "one piece of news");
    assert_eq!(server.count("DELETE"), 0, "there is nothing left to end");
}

#[tokio::test]
async fn e2_the_common_ways_to_say_so() {
    let rpc = |code: i32, message: &str| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{{\"code\":{code},\"message\":\"{message}\"}}}}")
    };
    let typed = "Content-Type: application/json\r\n";
    let shapes: Vec<(Vec<Step>, bool)> = vec![
        (vec![stream_head(), bytes("data: Session not found\n\n"), Step::Hang], true),
        (answer(200, "Content-Type: text/plain\r\n", "Session expired"), true),
        (answer(200, typed, &rpc(-32001, "Session not found")), true),
        (answer(400, typed, &rpc(-32000, "Bad Request: No valid session ID provided")), true),
        (answer(404, typed, &rpc(-32001, "whatever")), true),
        (answer(400, typed, &rpc(-32602, "Invalid params")), false),
        (answer(200, typed, &rpc(-32001, "Request timed out")), false),
        (answer(200, typed, &rpc(-32000, "No session of that name was found: not found")), false),
    ];
    for (index, (steps, expected)) in shapes.into_iter().enumerate() {
        let server = Server::start(move |seen| with_session(seen).unwrap_or_else(|| steps.clone())).await;
        let (transport, heard) = connect(&server);
        shake(&transport).await;
        let got = ask(&transport, 1, "tools/call").await;
        let lost = got.as_ref().is_err_and(|error| error.code() == ErrorCode::SessionExpired);
        assert_eq!(lost, expected, "shape {index}: {got:?}");
        assert_eq!(lock(&heard.closed).len(), usize::from(expected), "shape {index}");
    }
}
