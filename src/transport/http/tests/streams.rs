//! Answers that come as events, cut and resumed.

use std::sync::atomic::AtomicUsize;

use super::server::{Step, answer, bytes, json, result, stream_head};
use super::*;
use crate::deadline::{Deadline, Limits};
use crate::error::TimeoutKind;
use crate::transport::authorizer::{AuthRefusal, Authorizer, Mending, Presented};

fn event(text: &str) -> Step {
    bytes(&format!("data: {text}\n\n"))
}

/// mcp:HTTPL-25
#[tokio::test]
async fn e8_a_request_ends_with_its_answer_not_with_the_stream() {
    let server = Server::start(|seen| {
        vec![
            stream_head(),
            bytes(": hello\n\n"),
            event("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}"),
            event("{\"jsonrpc\":\"2.0\",\"id\":\"s1\",\"method\":\"ping\"}"),
            event("no json"),
            event(&result(99, "{}")),
            event(&result(seen.id(), "{\"a\":1}")),
            Step::Hang,
        ]
    })
    .await;
    let (transport, heard) = connect(&server);
    assert_eq!(ask(&transport, 1, "tools/call").await.unwrap(), "{\"a\":1}");
    assert_eq!(ask(&transport, 2, "tools/call").await.unwrap(), "{\"a\":1}", "the next one does not wait");
    assert_eq!(lock(&heard.messages)[..2], ["notifications/progress", "ping"]);
    assert_eq!(lock(&heard.strays)[0], Some(99));
    assert!(lock(&heard.noise)[0].starts_with("no json"));
}

#[tokio::test]
async fn http_02_a_cut_call_goes_on_after_the_last_event() {
    let tries = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |seen| {
        if seen.method == "POST" {
            return vec![
                stream_head(),
                bytes("id: e1\nretry: 1\ndata:\n\nid: e2\ndata: {\"jso"),
                Step::Close,
            ];
        }
        match tries.fetch_add(1, Ordering::SeqCst) {
            0 => answer(503, "", ""),
            1 => vec![
                stream_head(),
                bytes("id: e7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n"),
                Step::Close,
            ],
            2 => vec![Step::Close],
            _ => vec![stream_head(), event(&result(1, "{}")), Step::Hang],
        }
    })
    .await;
    let (transport, heard) = connect(&server);
    assert_eq!(ask(&transport, 1, "tools/call").await.unwrap(), "{}");
    let ids: Vec<String> = server
        .seen()
        .iter()
        .filter(|seen| seen.method == "GET")
        .map(|seen| seen.header("last-event-id").unwrap_or("none").to_owned())
        .collect();
    assert_eq!(ids, ["e1", "e1", "e7", "e7"]);
    assert_eq!(*lock(&heard.messages), ["x"], "each message once");
    assert_eq!(server.count("POST"), 1, "the call itself is not repeated");
}

#[tokio::test]
async fn f_047_the_pause_before_a_call_goes_on_is_that_of_the_server_and_everybodys() {
    let tries = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |seen| match (seen.method.as_str(), seen.asks("other")) {
        ("GET", _) if tries.fetch_add(1, Ordering::SeqCst) == 0 => answer(503, "Retry-After: 1\r\n", ""),
        ("GET", _) => vec![stream_head(), event(&result(1, "{}")), Step::Hang],
        (_, true) => json(&result(seen.id(), "{}")),
        _ => vec![stream_head(), bytes("id: e1\nretry: 1\ndata:\n\n"), Step::Close],
    })
    .await;
    let (transport, _) = connect(&server);
    let started = std::time::Instant::now();
    let other = async {
        until(|| transport.paused_until().is_some()).await;
        ask(&transport, 2, "other").await.map(|_| started.elapsed())
    };
    let (call, other) = tokio::join!(ask(&transport, 1, "tools/call"), other);
    assert_eq!(call.unwrap(), "{}");
    assert_eq!(server.count("GET"), 2);
    let second = Duration::from_millis(900);
    assert!(started.elapsed() > second && other.unwrap() > second);
}

/// Whoever can log in: one person, who takes a while.
#[derive(Debug)]
struct Person {
    agrees: bool,
    asked: AtomicUsize,
}

impl Authorizer for Person {
    fn present<'a>(&'a self, _: &'a str, _: &'a Url) -> BoxFuture<'a, Result<Presented, McpError>> {
        Box::pin(async { Ok(Presented::default()) })
    }
    fn refused<'a>(
        &'a self,
        _: &'a Presented,
        _: &'a AuthRefusal,
    ) -> BoxFuture<'a, Result<Mending, McpError>> {
        Box::pin(async { Ok(Mending::Nothing) })
    }
    fn log_in(&self, cause: McpError) -> BoxFuture<'_, Result<(), McpError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(900)).await;
            if self.agrees { Ok(()) } else { Err(cause) }
        })
    }
    fn redactor(&self) -> crate::secret::Redactor {
        crate::secret::Redactor::default()
    }
}

/// mcp:AUTH-08
#[tokio::test]
async fn oau_02_the_rest_of_a_call_is_worth_one_login() {
    for (agrees, refusals, ends_well) in [(true, 1, true), (true, 2, false), (false, 1, false)] {
        let tries = Arc::new(AtomicUsize::new(0));
        let server = Server::start(move |seen| match seen.method.as_str() {
            "GET" if tries.fetch_add(1, Ordering::SeqCst) < refusals => answer(401, "", ""),
            "GET" => vec![stream_head(), event(&result(1, "{}")), Step::Hang],
            _ => vec![stream_head(), bytes("id: e1\nretry: 1\ndata:\n\n"), Step::Close],
        })
        .await;
        let person = Arc::new(Person { agrees, asked: AtomicUsize::new(0) });
        let authorizers = Authorizers::new([Arc::clone(&person) as Arc<dyn Authorizer>]);
        let recipe = HttpRecipe { authorizers, ..recipe(&server.url("/mcp")) };
        let transport = open(recipe, Arc::new(Heard::default())).unwrap();
        let limits = Limits {
            idle: Duration::from_millis(1000),
            total: Duration::from_secs(9),
            idle_kind: TimeoutKind::Idle,
        };
        let clocks = Arc::new(Deadline::start(limits));
        let call = Outgoing { deadline: Some(Arc::clone(&clocks)), ..outgoing(1, "tools/call") };
        let outcome = text(transport.request(call).await);
        assert_eq!(person.asked.load(Ordering::SeqCst), 1);
        assert_eq!(server.count("POST"), 1, "the call itself is not repeated");
        if ends_well {
            assert_eq!(outcome.unwrap(), "{}");
        } else {
            let error = outcome.unwrap_err();
            let facts = (error.code(), error.facts().delivered);
            assert_eq!(facts, (ErrorCode::AuthRequired, Some(Delivery::Unknown)));
        }
        let rest = tokio::time::timeout(Duration::from_millis(50), clocks.expired()).await;
        assert!(rest.is_err(), "people's time does not count (PRO-06)");
    }
}

/// mcp:HTTPL-23
#[tokio::test]
async fn httpl_23_resuming_is_bounded_and_never_hangs() {
    for (steps, most) in [
        (vec![Step::Close], 3),
        (answer(500, "", ""), 3),
        (vec![stream_head(), Step::Close], 3),
        (answer(405, "", ""), 1),
        (json("{}"), 1),
    ] {
        let server = Server::start(move |seen| match seen.method.as_str() {
            "POST" => vec![stream_head(), bytes("id: e1\nretry: 0\ndata:\n\n"), Step::Close],
            _ => steps.clone(),
        })
        .await;
        let (transport, _) = connect(&server);
        let error = ask(&transport, 1, "tools/call").await.unwrap_err();
        let facts = (error.code(), error.facts().delivered);
        assert_eq!(facts, (ErrorCode::ConnectionLost, Some(Delivery::Unknown)), "{error:?}");
        assert_eq!(server.count("GET"), most);
    }
}

/// mcp:HTTPL-20, mcp:HTTPL-21
#[tokio::test]
async fn httpl_20_21_a_call_is_polled_for_as_often_as_the_server_wants() {
    let server = Server::start(|seen| {
        let last: Option<u32> = seen.header("last-event-id").map(|id| id.parse().unwrap());
        match last {
            // The pause is asked for once and holds from then on.
            None => vec![stream_head(), bytes("id: 1\nretry: 10\ndata:\n\n"), Step::Close],
            Some(9) => vec![stream_head(), event(&result(1, "{}")), Step::Hang],
            Some(last) => {
                vec![stream_head(), bytes(&format!("id: {}\ndata:\n\n", last + 1)), Step::Close]
            }
        }
    })
    .await;
    let (transport, _) = connect(&server);
    let started = std::time::Instant::now();
    assert_eq!(ask(&transport, 1, "tools/call").await.unwrap(), "{}");
    assert_eq!(server.count("GET"), 9);
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

#[tokio::test]
async fn httpl_23_without_an_id_nothing_can_be_resumed() {
    let server = Server::start(|_| vec![stream_head(), bytes("data:\n\n: x\n\n"), Step::Close]).await;
    let (transport, _) = connect(&server);
    let error = ask(&transport, 1, "tools/call").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ConnectionLost);
    assert_eq!(server.count("GET"), 0);
}

#[tokio::test]
async fn e13_one_endless_event_is_given_up() {
    let server = Server::start(|_| {
        let mut steps = vec![stream_head(), bytes("data: {")];
        steps.extend((0..40).map(|_| Step::Send(vec![b'x'; 10_000])));
        steps.push(Step::Hang);
        steps
    })
    .await;
    let (transport, _) = connect(&server);
    let error = ask(&transport, 1, "tools/call").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::MessageTooLarge);
}

#[tokio::test]
async fn closing_fails_what_is_open() {
    let server = Server::start(|_| vec![stream_head(), Step::Hang]).await;
    let (transport, _) = connect(&server);
    let own = Arc::clone(&transport);
    let call = tokio::spawn(async move { ask(&own, 1, "tools/call").await });
    until(|| server.count("POST") == 1).await;
    transport.close(CloseMode::Fast, over()).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.facts().delivered), (ErrorCode::ManagerClosed, Some(Delivery::Unknown)));
}
