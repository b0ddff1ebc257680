//! Answers of every shape: what they settle, and with which error.

use super::server::{Step, answer, bytes, json, result, stream_head};
use super::*;

#[tokio::test]
async fn http_01_json_answer_and_headers() {
    let server = Server::start(|seen| json(&result(seen.id(), "{\"ok\":1e400}"))).await;
    let (transport, _) = connect(&server);
    assert_eq!(ask(&transport, 7, "tools/list").await.unwrap(), "{\"ok\":1e400}");
    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/mcp"));
    assert_eq!(seen.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    assert_eq!(seen.header("x-own"), Some("own-secret"));
    for absent in ["mcp-session-id", "mcp-protocol-version", "mcp-method", "cookie", "origin"] {
        assert_eq!(seen.header(absent), None, "{absent}");
    }
}

#[tokio::test]
async fn http_03_every_other_answer_settles_the_request_with_a_typed_error() {
    use ErrorCode as E;
    let ok_json = "Content-Type: application/json\r\n";
    let html = "Content-Type: text/html\r\n";
    let cases: Vec<(&str, Vec<Step>, ErrorCode, Option<u16>)> = vec![
        ("202", answer(202, "", ""), E::MessageInvalid, Some(202)),
        ("empty", answer(200, ok_json, ""), E::MessageInvalid, Some(200)),
        ("html", answer(200, html, "<h1>Login</h1>"), E::MessageInvalid, Some(200)),
        ("not json", answer(200, ok_json, "{oops"), E::MessageInvalid, Some(200)),
        (
            "not utf-8",
            vec![Step::Send(b"HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\n\xff\xfe".to_vec())],
            E::MessageInvalid,
            Some(200),
        ),
        ("other id", answer(200, ok_json, &result(99, "{}")), E::MessageInvalid, Some(200)),
        ("neither", answer(200, ok_json, "{\"jsonrpc\":\"2.0\",\"id\":1}"), E::MessageInvalid, None),
        (
            "gzip",
            answer(200, "Content-Type: application/json\r\nContent-Encoding: gzip, gzip\r\n", "x"),
            E::MessageInvalid,
            Some(200),
        ),
        ("announced", answer(200, ok_json, &"x".repeat(200_000)), E::MessageTooLarge, None),
        (
            "truncated",
            vec![
                bytes(
                    "HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"json",
                ),
                Step::Close,
            ],
            E::ConnectionLost,
            Some(200),
        ),
        ("no answer", vec![Step::Close], E::ConnectionLost, None),
        ("not http", vec![bytes("SSH-2.0-x\r\n\r\n"), Step::Close], E::ConnectionLost, None),
        ("401", answer(401, "WWW-Authenticate: Bearer realm=\"x\"\r\n", ""), E::AuthRequired, Some(401)),
        ("403", answer(403, "", "no"), E::HttpStatus, Some(403)),
        ("404", answer(404, html, "<h1>Not Found</h1>"), E::HttpStatus, Some(404)),
        ("500", answer(500, "", "boom"), E::HttpStatus, Some(500)),
        ("304", answer(304, "", ""), E::HttpStatus, Some(304)),
        (
            "stream cut",
            vec![stream_head(), bytes("data: {\"jsonrpc\""), Step::Close],
            E::ConnectionLost,
            None,
        ),
    ];
    for (name, steps, code, status) in cases {
        let server = Server::start(move |_| steps.clone()).await;
        let (transport, heard) = connect(&server);
        let error = ask(&transport, 1, "tools/call").await.unwrap_err();
        assert_eq!(error.code(), code, "{name}: {error:?}");
        assert_eq!(error.facts().status, status, "{name}: {error:?}");
        assert!(error.facts().delivered.is_some(), "{name}");
        assert_eq!(lock(&heard.closed).len(), 0, "{name}");
        let shown = format!("{error:?}");
        assert!(!shown.contains("own-secret"), "{name}: {shown}");
    }
}

#[tokio::test]
async fn e13_a_body_without_end_is_given_up_at_the_limit() {
    let server = Server::start(|_| {
        let mut steps = vec![bytes("HTTP/1.1 200 X\r\nContent-Type: application/json\r\n\r\n")];
        steps.extend((0..40).map(|_| Step::Send(vec![b' '; 10_000])));
        steps.push(Step::Hang);
        steps
    })
    .await;
    let (transport, _) = connect(&server);
    let error = ask(&transport, 1, "tools/list").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::MessageTooLarge);
}

#[tokio::test]
async fn b_094_giant_heads_fail_at_once() {
    let long = format!("HTTP/1.1 200 X\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let many = format!("HTTP/1.1 200 X\r\n{}\r\n", "X: y\r\n".repeat(10_000));
    for head in [long, many] {
        let server = Server::start(move |_| vec![bytes(&head), Step::Hang]).await;
        let (transport, _) = connect(&server);
        let error = ask(&transport, 1, "tools/list").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ConnectionLost, "{error:?}");
    }
}

#[tokio::test]
async fn http_12_json_rpc_errors_win_over_the_status() {
    let error = |id: &str, code: i32| {
        format!("{{\"jsonrpc\":\"2.0\"{id},\"error\":{{\"code\":{code},\"message\":\"no\"}}}}")
    };
    for (status, body, expected) in [
        (400, error(",\"id\":1", -32022), "rpc error -32022"),
        (400, error(",\"id\":null", -32020), "rpc error -32020"),
        (400, error("", -32000), "rpc error -32000"),
        (404, error(",\"id\":1", -32601), "rpc error -32601"),
        (500, error(",\"id\":1", -32603), "rpc error -32603"),
        (500, error("", -32603), "HTTP_STATUS"),
        (400, error(",\"id\":2", -32603), "HTTP_STATUS"),
        (401, error(",\"id\":1", -32001), "AUTH_REQUIRED"),
        (200, error("", -32600), "rpc error -32600"),
    ] {
        let copy = body.clone();
        let server =
            Server::start(move |_| answer(status, "Content-Type: application/json\r\n", &copy)).await;
        let (transport, _) = connect(&server);
        let got = match ask(&transport, 1, "tools/list").await {
            Ok(text) => text,
            Err(error) => error.code().to_string(),
        };
        assert_eq!(got, expected, "{status} {body}");
    }
}

#[tokio::test]
async fn std_03_batches_of_2025_03_26_are_read() {
    let server = Server::start(|_| {
        json(&format!("[{{\"jsonrpc\":\"2.0\",\"method\":\"a/b\"}},{},{}]", result(9, "{}"), result(1, "[]")))
    })
    .await;
    let (transport, heard) = connect(&server);
    assert_eq!(ask(&transport, 1, "tools/list").await.unwrap(), "[]");
    assert_eq!(*lock(&heard.messages), ["a/b"]);
    assert_eq!(*lock(&heard.strays), [Some(9)]);
}

#[tokio::test]
async fn http_03_a_busy_server_is_asked_once_more_after_one_shared_pause() {
    for (status, header) in [(429, "Retry-After: 1\r\n"), (503, "")] {
        let busy = std::sync::atomic::AtomicUsize::new(0);
        let server = Server::start(move |seen| {
            if busy.fetch_add(1, Ordering::SeqCst) < 2 {
                answer(status, header, "busy")
            } else {
                json(&result(seen.id(), "{}"))
            }
        })
        .await;
        let (transport, _) = connect(&server);
        let started = std::time::Instant::now();
        let (first, second) = tokio::join!(ask(&transport, 1, "a"), ask(&transport, 2, "b"));
        assert_eq!((first.unwrap(), second.unwrap()), ("{}".to_owned(), "{}".to_owned()));
        let took = started.elapsed();
        assert!((700..2000).contains(&took.as_millis()), "{status}: {took:?}");
        assert_eq!(server.count("POST"), 4);
    }
    let server = Server::start(|_| answer(503, "Retry-After: 0\r\n", "busy")).await;
    let (transport, _) = connect(&server);
    let error = ask(&transport, 1, "tools/call").await.unwrap_err();
    assert_eq!((error.code(), error.facts().delivered), (ErrorCode::HttpStatus, Some(Delivery::Refused)));
    assert_eq!(server.count("POST"), 2);
}

#[tokio::test]
async fn f_047_a_refused_handshake_tells_when_to_come_again() {
    for (status, expected) in [(503, Some(60)), (429, Some(60)), (500, None)] {
        let server = Server::start(move |_| answer(status, "Retry-After: 60\r\n", "")).await;
        for method in ["initialize", "server/discover"] {
            let (transport, _) = connect(&server);
            let error = ask(&transport, 0, method).await.unwrap_err();
            assert_eq!(error.facts().retry_after, expected.map(Duration::from_secs), "{status} {method}");
            assert_eq!(transport.paused_until().is_some(), expected.is_some());
        }
        assert_eq!(server.count("POST"), 2, "{status}: not sooner");
    }
}

/// mcp:HTTPL-26
#[tokio::test]
async fn http_03_redirects_stay_on_the_origin_and_keep_the_post() {
    let other = Server::start(|_| json(&result(1, "{}"))).await;
    let elsewhere = other.url("/mcp");
    let server = Server::start(move |seen| match seen.path.as_str() {
        "/mcp" => answer(308, "Location: /moved\r\n", ""),
        "/moved" if seen.asks("away") => answer(307, &format!("Location: {elsewhere}\r\n"), ""),
        "/moved" if seen.asks("loop") => answer(307, "Location: /moved\r\n", ""),
        _ => json(&result(seen.id(), "{}")),
    })
    .await;
    let (transport, _) = connect(&server);
    assert_eq!(ask(&transport, 1, "stay").await.unwrap(), "{}");
    assert!(server.seen()[1].asks("stay"), "the body goes along");
    assert_eq!(ask(&transport, 2, "stay").await.unwrap(), "{}");
    let paths: Vec<String> = server.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/mcp", "/moved", "/moved"], "a permanent redirect is remembered");
    for method in ["away", "loop"] {
        let error = ask(&transport, 3, method).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::RedirectRefused, "{method}");
    }
    assert_eq!(other.seen().len(), 0, "no header goes to another origin");
}

#[tokio::test]
async fn http_03_only_a_post_that_moved_for_good_moves_the_server() {
    let server = Server::start(|seen| match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", "/mcp") => answer(308, "Location: /events\r\n", ""),
        ("GET", _) => answer(405, "", ""),
        (_, "/mcp") if seen.asks("first") => answer(301, "Location: /a\r\n", ""),
        (_, "/mcp") => answer(307, "Location: /a\r\n", ""),
        (_, "/a") => answer(308, "Location: /b\r\n", ""),
        _ => json(&result(seen.id(), "{}")),
    })
    .await;
    let (transport, _) = connect(&server);
    shake(&transport).await;
    until(|| server.seen().iter().any(|seen| seen.path == "/events")).await;
    let paths = |method: &str| {
        let seen = server.seen().into_iter().filter(|seen| seen.asks(method));
        seen.map(|seen| seen.path).collect::<Vec<_>>()
    };
    ask(&transport, 1, "tools/list").await.unwrap();
    assert_eq!(paths("tools/list"), ["/mcp", "/a", "/b"], "307, then 308; and a GET that moved");
    ask(&transport, 2, "first").await.unwrap();
    ask(&transport, 3, "second").await.unwrap();
    assert_eq!(paths("second"), ["/b"], "301, then 308");
}

#[tokio::test]
async fn b_109_cookies_are_not_kept() {
    let server = Server::start(|seen| {
        answer(200, "Content-Type: application/json\r\nSet-Cookie: a=b\r\n", &result(seen.id(), "{}"))
    })
    .await;
    let (transport, _) = connect(&server);
    ask(&transport, 1, "a").await.unwrap();
    ask(&transport, 2, "b").await.unwrap();
    assert_eq!(server.seen()[1].header("cookie"), None);
}

#[tokio::test]
async fn httpl_08_dropping_a_request_tells_the_server() {
    let server =
        Server::start(|seen| if seen.asks("slow") { vec![Step::Hang] } else { answer(202, "", "") }).await;
    let (transport, _) = connect(&server);
    let request = tokio::time::timeout(Duration::from_millis(200), transport.request(outgoing(5, "slow")));
    assert!(request.await.is_err());
    until(|| server.seen().iter().any(|seen| seen.asks("notifications/cancelled"))).await;
    let seen = server.seen();
    let told = seen.iter().find(|seen| seen.asks("notifications/cancelled")).unwrap();
    assert!(told.body.contains("\"requestId\":5"), "{}", told.body);
}

#[tokio::test]
async fn lif_06_a_cancellation_that_waits_is_not_sent_after_the_end() {
    let server = Server::start(|_| answer(503, "Retry-After: 1\r\n", "")).await;
    let (transport, _) = connect(&server);
    let request = tokio::time::timeout(Duration::from_millis(200), transport.request(outgoing(5, "slow")));
    assert!(request.await.is_err());
    transport.close(CloseMode::Fast, over()).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(server.count("POST"), 1);
    let shared = Arc::downgrade(&transport.shared);
    drop(transport);
    until(|| shared.strong_count() == 0).await;
}
