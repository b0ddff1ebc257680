//! Streams that break or stall, everywhere (F-041, F-055).

use super::server::{Step, answer, bytes, json, result, stream_head};
use super::*;

/// A recorded session: events with their ids, comments between them, every kind of line end, and the answer last.
fn session(id: u64) -> Vec<(&'static str, String)> {
    let said = |number: u32| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"data\":{number}}}}}"
        )
    };
    let (head, tail) = ("{\"jsonrpc\":\"2.0\",", "\"method\":\"notifications/é\"}");
    vec![
        ("p", "id: p\nretry: 0\ndata:\n\n".to_owned()),
        ("1", format!("id: 1\ndata: {}\n\n: still here\n\n", said(1))),
        ("2", format!("id: 2\r\nevent: message\r\ndata: {}\r\n\r\n", said(2))),
        ("3", format!(": ping\nid: 3\ndata: {head}\ndata: {tail}\n\n")),
        ("4", format!("id: 4\ndata: {}\n\n", result(id, "{\"whole\":true}"))),
    ]
}

#[tokio::test]
async fn f_041_a_stream_cut_at_each_byte_goes_on_without_loss_or_repetition() {
    let whole: String = session(1).into_iter().map(|(_, text)| text).collect();
    let primed = session(1)[0].1.len();
    let mut runs = tokio::task::JoinSet::new();
    for cut in 0..=whole.len() {
        let session_bytes = whole.as_bytes()[..cut].to_vec();
        runs.spawn(async move {
            let server = Server::start(move |seen| {
                if seen.method == "POST" {
                    return vec![stream_head(), Step::Send(session_bytes.clone()), Step::Close];
                }
                let last = seen.header("last-event-id").unwrap_or("none").to_owned();
                let rest = session(1).into_iter().skip_while(|(id, _)| *id != last).skip(1);
                let rest: String = rest.map(|(_, text)| text).collect();
                vec![stream_head(), bytes(&rest), Step::Hang]
            })
            .await;
            let (transport, heard) = connect(&server);
            let reply = ask(&transport, 1, "tools/call").await;
            let heard = (lock(&heard.messages).clone(), lock(&heard.noise).clone());
            (cut, reply, heard, server.count("POST"))
        });
    }
    while let Some(run) = runs.join_next().await {
        let (cut, reply, (messages, noise), posts) = run.unwrap();
        assert_eq!(posts, 1, "cut at {cut}: the call itself is not repeated");
        assert!(noise.is_empty(), "cut at {cut}: {noise:?}");
        if cut < primed {
            // Without an id nothing can be resumed, and nothing of it has been said.
            let error = reply.unwrap_err();
            let facts = (error.code(), error.facts().delivered);
            assert_eq!(facts, (ErrorCode::ConnectionLost, Some(Delivery::Unknown)), "cut at {cut}");
            assert!(messages.is_empty(), "cut at {cut}: {messages:?}");
            continue;
        }
        assert_eq!(reply.unwrap(), "{\"whole\":true}", "cut at {cut}");
        let expected = ["notifications/message", "notifications/message", "notifications/é"];
        assert_eq!(messages, expected, "cut at {cut}");
    }
}

fn stalling(server: &Server) -> HttpRecipe {
    let mut recipe = recipe(&server.url("/mcp"));
    recipe.limits.stall = Duration::from_millis(300);
    recipe
}

#[tokio::test]
async fn f_055_a_body_that_stalls_is_given_up() {
    let server = Server::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n";
        vec![bytes(head), Step::Send(vec![b' '; 1024]), Step::Hang]
    })
    .await;
    let transport = open(stalling(&server), Arc::new(Heard::default())).unwrap();
    let error = ask(&transport, 1, "tools/call").await.unwrap_err();
    assert_eq!((error.code(), error.facts().phase), (ErrorCode::ConnectionLost, Some(Phase::Body)));
    assert_eq!((error.facts().delivered, error.facts().status), (Some(Delivery::Unknown), Some(200)));
    assert!(error.message().contains("stalled after 1024 bytes"), "{error}");
}

#[tokio::test]
async fn f_055_a_body_that_is_still_computed_is_waited_for() {
    let server = Server::start(|seen| {
        let body = result(seen.id(), "{}");
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        vec![bytes(&head), Step::Wait(Duration::from_millis(1500)), bytes(&body)]
    })
    .await;
    let transport = open(stalling(&server), Arc::new(Heard::default())).unwrap();
    assert_eq!(ask(&transport, 1, "tools/call").await.unwrap(), "{}");
}

#[tokio::test]
async fn f_055_a_stream_may_be_silent_between_events_but_not_within_one() {
    let quiet = Step::Wait(Duration::from_millis(1500));
    let between = quiet.clone();
    let server = Server::start(move |seen| {
        let whole = format!("data: {}\n\n", result(seen.id(), "{}"));
        vec![stream_head(), bytes(": ping\n"), between.clone(), bytes(&whole), Step::Hang]
    })
    .await;
    let transport = open(stalling(&server), Arc::new(Heard::default())).unwrap();
    assert_eq!(ask(&transport, 1, "tools/call").await.unwrap(), "{}", "a comment is no part of an event");
    let server = Server::start(move |seen| {
        let whole = format!("data: {}\n\n", result(seen.id(), "{}"));
        let (first, second) = whole.split_at(20);
        vec![stream_head(), bytes(first), quiet.clone(), bytes(second), Step::Hang]
    })
    .await;
    let transport = open(stalling(&server), Arc::new(Heard::default())).unwrap();
    let error = ask(&transport, 1, "tools/call").await.unwrap_err();
    assert_eq!((error.code(), error.facts().phase), (ErrorCode::ConnectionLost, Some(Phase::Body)));
    assert!(error.message().contains("nothing more came within 300 ms"), "{error}");
}

#[tokio::test]
async fn requests_above_the_most_wait_for_their_turn_and_answers_do_not() {
    let server =
        Server::start(|seen| if seen.asks("tools/call") { vec![Step::Hang] } else { answer(202, "", "") })
            .await;
    let (transport, _) = connect(&server);
    let calls: Vec<_> = (0..MOST_REQUESTS as u64 + 5)
        .map(|id| {
            let own = Arc::clone(&transport);
            tokio::spawn(async move { ask(&own, id, "tools/call").await })
        })
        .collect();
    until(|| server.count("POST") == MOST_REQUESTS).await;
    transport.send(frames::notification("notifications/x", None)).await.unwrap();
    assert_eq!(server.count("POST"), MOST_REQUESTS + 1);
    transport.close(CloseMode::Fast, over()).await;
    let mut unsent = 0;
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.code(), ErrorCode::ManagerClosed);
        unsent += usize::from(error.facts().delivered == Some(Delivery::No));
    }
    assert_eq!(unsent, 5);
}

#[tokio::test]
async fn a_notification_nobody_answers_ends() {
    let server = Server::start(|_| vec![Step::Hang]).await;
    let mut recipe = recipe(&server.url("/mcp"));
    recipe.limits.connect = Duration::from_millis(300);
    let transport = open(recipe, Arc::new(Heard::default())).unwrap();
    let sent = transport.send(frames::notification("notifications/initialized", None));
    let error = tokio::time::timeout(Duration::from_secs(10), sent).await.expect("it hangs").unwrap_err();
    assert_eq!((error.code(), error.facts().phase), (ErrorCode::ConnectionLost, Some(Phase::Headers)));
}

#[tokio::test]
async fn f_047_a_pause_is_no_part_of_the_time_for_a_notification() {
    let posts = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |_| match posts.fetch_add(1, Ordering::SeqCst) {
        0 => answer(503, "Retry-After: 1\r\n", ""),
        _ => answer(202, "", ""),
    })
    .await;
    let mut recipe = recipe(&server.url("/mcp"));
    recipe.limits.connect = Duration::from_millis(400);
    let transport = open(recipe, Arc::new(Heard::default())).unwrap();
    transport.send(frames::notification("notifications/x", None)).await.unwrap();
    assert_eq!(server.count("POST"), 2);
}

#[tokio::test]
async fn sec_04_a_head_without_end_is_no_answer() {
    let server = Server::start(|_| {
        let mut steps = vec![bytes("HTTP/1.1 200 OK\r\n")];
        steps.extend((0..100).map(|number| bytes(&format!("X-{number}: {}\r\n", "x".repeat(8 * 1024)))));
        steps.push(Step::Hang);
        steps
    })
    .await;
    let (transport, _) = connect(&server);
    let error = ask(&transport, 1, "tools/call").await.unwrap_err();
    assert_eq!((error.code(), error.facts().phase), (ErrorCode::ConnectionLost, Some(Phase::Headers)));
    assert!(error.message().contains("headers"), "{error}");
    let server = Server::start(|seen| json(&result(seen.id(), "{}"))).await;
    let (transport, _) = connect(&server);
    assert_eq!(ask(&transport, 1, "tools/call").await.unwrap(), "{}", "others go on");
}
