//! The optional stream for what the server says unasked.

use super::server::{Step, answer, bytes, json, result, stream_head};
use super::*;

fn post_only(id: u64) -> Vec<Step> {
    json(&result(id, "{}"))
}

#[tokio::test]
async fn e4_a_server_without_the_stream_is_a_whole_server() {
    for status in [400, 404, 405, 406, 410] {
        let server = Server::start(move |seen| match seen.method.as_str() {
            "GET" => answer(status, "", ""),
            _ => post_only(seen.id()),
        })
        .await;
        let (transport, heard) = connect(&server);
        shake(&transport).await;
        until(|| server.count("GET") == 1).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(ask(&transport, 1, "tools/list").await.unwrap(), "{}", "{status}");
        assert_eq!(server.count("GET"), 1, "{status}");
        assert!(lock(&heard.closed).is_empty(), "{status}");
    }
}

/// mcp:AUTH-08
#[tokio::test]
async fn e4_a_stream_that_wants_a_login_is_asked_for_again() {
    for status in [401, 403] {
        let gets = std::sync::atomic::AtomicUsize::new(0);
        let server = Server::start(move |seen| match seen.method.as_str() {
            "GET" if gets.fetch_add(1, Ordering::SeqCst) == 0 => answer(status, "", ""),
            "GET" => {
                vec![stream_head(), bytes("data: {\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\n"), Step::Hang]
            }
            _ => post_only(seen.id()),
        })
        .await;
        let (transport, heard) = connect(&server);
        shake(&transport).await;
        until(|| *lock(&heard.messages) == ["one"]).await;
        assert!(lock(&heard.closed).is_empty(), "{status}");
    }
}

#[tokio::test]
async fn httpl_09_messages_come_and_the_stream_goes_on_after_a_cut() {
    let server = Server::start(|seen| match (seen.method.as_str(), seen.header("last-event-id")) {
        ("GET", None) => vec![
            stream_head(),
            bytes("retry: 10\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\n"),
            Step::Close,
        ],
        ("GET", Some("1")) => vec![
            stream_head(),
            bytes("id: 2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"two\"}\n\n"),
            bytes("event: other\ndata: x\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}\n\n"),
            Step::Hang,
        ],
        _ => post_only(seen.id()),
    })
    .await;
    let (transport, heard) = connect(&server);
    shake(&transport).await;
    until(|| lock(&heard.strays).len() == 1).await;
    assert_eq!(*lock(&heard.messages), ["one", "two"]);
    transport.close(CloseMode::Fast, over()).await;
}

#[tokio::test]
async fn e10_e5_polite_ends_do_not_make_an_endless_loop() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "GET" => vec![stream_head(), bytes("retry: 0\n\n"), Step::Close],
        _ => post_only(seen.id()),
    })
    .await;
    let (transport, heard) = connect(&server);
    shake(&transport).await;
    until(|| server.count("GET") == 4).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.count("GET"), 4, "then it is left alone for a while");
    assert_eq!(ask(&transport, 1, "tools/list").await.unwrap(), "{}");
    assert!(lock(&heard.closed).is_empty(), "E5");
}

#[tokio::test]
async fn f_047_a_busy_stream_waits_as_long_as_it_is_asked_to_and_calls_do_not() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "GET" => answer(503, "Retry-After: 1\r\n", ""),
        _ => post_only(seen.id()),
    })
    .await;
    let (transport, _) = connect(&server);
    shake(&transport).await;
    until(|| server.count("GET") == 1).await;
    let started = std::time::Instant::now();
    assert_eq!(ask(&transport, 1, "tools/list").await.unwrap(), "{}");
    assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
    until(|| server.count("GET") == 2).await;
    assert!(started.elapsed() > Duration::from_millis(800), "{:?}", started.elapsed());
}

/// mcp:HTTPL-21
#[tokio::test]
async fn httpl_21_a_server_that_has_its_clients_poll_is_polled_on() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "GET" => {
            let last: u32 = seen.header("last-event-id").map_or(0, |id| id.parse().unwrap());
            vec![stream_head(), bytes(&format!("retry: 10\nid: {}\ndata:\n\n", last + 1)), Step::Close]
        }
        _ => post_only(seen.id()),
    })
    .await;
    let (transport, _) = connect(&server);
    shake(&transport).await;
    until(|| server.count("GET") == 8).await;
    transport.close(CloseMode::Fast, over()).await;
}

/// mcp:HTTPL-17
#[tokio::test]
async fn httpl_17_a_stream_that_is_not_found_again_is_a_lost_session() {
    let server = Server::start(|seen| match (seen.method.as_str(), seen.header("last-event-id")) {
        ("GET", None) => vec![stream_head(), bytes("retry: 10\nid: 1\ndata:\n\n"), Step::Close],
        ("GET", Some(_)) => answer(404, "", ""),
        _ => post_only(seen.id()),
    })
    .await;
    let (transport, heard) = connect(&server);
    let id = http::header::HeaderValue::from_static("session");
    lock(&transport.shared.session).id = SessionId::read(&id);
    shake(&transport).await;
    until(|| !lock(&heard.closed).is_empty()).await;
    assert_eq!(lock(&heard.closed)[0].code(), ErrorCode::SessionExpired);
}

#[tokio::test]
async fn a_closed_transport_listens_no_more() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "GET" => vec![stream_head(), Step::Wait(Duration::from_millis(50)), Step::Close],
        _ => post_only(seen.id()),
    })
    .await;
    let (transport, _) = connect(&server);
    shake(&transport).await;
    until(|| server.count("GET") == 1).await;
    transport.close(CloseMode::Fast, over()).await;
    let shared = Arc::downgrade(&transport.shared);
    drop(transport);
    until(|| shared.strong_count() == 0).await;
}
