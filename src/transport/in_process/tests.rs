use std::sync::{Arc, Mutex};

use super::*;

#[derive(Default)]
struct Desk {
    channels: Channels,
    words: Mutex<Vec<(u32, Word)>>,
    full: Mutex<Option<usize>>,
}

impl Script for Desk {
    fn channels(&self) -> &Channels {
        &self.channels
    }

    fn say(&self, channel: u32, word: Word, _room: usize) -> Result<(), usize> {
        if let Some(waiting) = *lock(&self.full) {
            return Err(waiting);
        }
        lock(&self.words).push((channel, word));
        Ok(())
    }
}

#[derive(Default)]
struct Ear {
    noise: Mutex<Vec<String>>,
    closed: Mutex<Vec<ErrorCode>>,
}

impl Receiver for Ear {
    fn answered(&self, _: u64) {}
    fn message(&self, _: Incoming) {}
    fn noise(&self, excerpt: &str, why: &str) {
        lock(&self.noise).push(format!("{why}: {excerpt}"));
    }
    fn stray(&self, _: Option<u64>) {}
    fn stderr(&self, _: &str) {}
    fn closed(&self, error: McpError) {
        lock(&self.closed).push(error.code());
    }
}

struct Scene {
    desk: Arc<Desk>,
    ear: Arc<Ear>,
    transport: Arc<InProcessTransport>,
}

fn scene() -> Scene {
    let (desk, ear) = (Arc::new(Desk::default()), Arc::new(Ear::default()));
    let limits = InProcessLimits { message: 100, queued: 1_000 };
    let script: Arc<dyn Script> = Arc::<Desk>::clone(&desk);
    let transport = open(script, "s", "s", limits, Arc::<Ear>::clone(&ear));
    Scene { desk, ear, transport }
}

fn outgoing(id: u64) -> Outgoing {
    Outgoing { id, frame: format!("{{\"id\":{id}}}"), cancellable: true, ..Outgoing::default() }
}

fn code(reply: Result<RawText, RequestFailure>) -> ErrorCode {
    match reply {
        Err(RequestFailure::Transport(error)) => error.code(),
        other => panic!("expected a transport error, got {other:?}"),
    }
}

#[tokio::test]
async fn sdk_01_requests_go_as_letters_and_answers_come_back() {
    let Scene { desk, transport, .. } = scene();
    let other = Arc::clone(&transport);
    let answer = tokio::spawn(async move { other.request(outgoing(7)).await });
    while lock(&desk.words).len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(lock(&desk.words)[0].1, Word::Open { server: "s".into(), instance: "s".into() });
    assert_eq!(lock(&desk.words)[1].1, Word::Message("{\"id\":7}".into()));
    let channel = lock(&desk.words)[1].0;
    let found = desk.channels.get(channel).unwrap();
    found.take("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":1}}".into());
    assert_eq!(answer.await.unwrap().unwrap().as_str(), "{\"a\":1}");
}

#[tokio::test]
async fn f_072_what_json_cannot_hold_fails_one_request_only() {
    let Scene { ear, transport, .. } = scene();
    let (first, second, ()) =
        tokio::join!(transport.request(outgoing(1)), transport.request(outgoing(2)), async {
            transport.take_unwritable(Some(1), "Do not know how to serialize a BigInt");
            transport.take_unwritable(Some(99), "a cycle");
            transport.take_unwritable(None, "a cycle");
            transport.take("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}".into());
        });
    assert_eq!(code(first), ErrorCode::MessageInvalid);
    assert_eq!(second.unwrap().as_str(), "{}");
    assert_eq!(lock(&ear.noise).len(), 2);
}

#[tokio::test]
async fn a_message_above_the_limit_fails_its_request() {
    let Scene { ear, transport, .. } = scene();
    let long = "x".repeat(200);
    let (reply, ()) = tokio::join!(transport.request(outgoing(1)), async {
        transport.take(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{long}\"}}"));
    });
    assert_eq!(code(reply), ErrorCode::MessageTooLarge);
    transport.take(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{long}\"}}"));
    transport.take("[1".into());
    assert_eq!(lock(&ear.noise).len(), 2);
}

#[tokio::test]
async fn an_end_is_told_once_and_breaks_what_is_open() {
    for (failure, code_of_it, expected) in [
        (None, None, ErrorCode::ConnectionLost),
        (Some("no"), None, ErrorCode::ConnectFailed),
        (Some("no"), Some("RECORDING_INVALID"), ErrorCode::RecordingInvalid),
        (Some("no"), Some("AUTH_REQUIRED"), ErrorCode::ConnectFailed),
        (Some("no"), Some("ENOENT"), ErrorCode::ConnectFailed),
    ] {
        let Scene { desk, ear, transport } = scene();
        let (reply, ()) = tokio::join!(transport.request(outgoing(1)), async {
            transport.take_end(failure, code_of_it);
            transport.take_end(failure, code_of_it);
        });
        assert_eq!(code(reply), expected);
        assert_eq!(*lock(&ear.closed), [expected]);
        transport.close(CloseMode::Fast, McpError::new(ErrorCode::ManagerClosed, "end")).await;
        assert!(!lock(&desk.words).iter().any(|(_, word)| *word == Word::Close), "the server knows already");
        assert!(desk.channels.get(1).is_none());
    }
}

#[tokio::test]
async fn our_end_is_told_to_the_server_and_to_nobody_else() {
    let Scene { desk, ear, transport } = scene();
    transport.close(CloseMode::Fast, McpError::new(ErrorCode::ManagerClosed, "end")).await;
    transport.close(CloseMode::Fast, McpError::new(ErrorCode::ManagerClosed, "end")).await;
    let closes = lock(&desk.words).iter().filter(|(_, word)| *word == Word::Close).count();
    assert_eq!((closes, lock(&ear.closed).len()), (1, 0));
    assert_eq!(code(transport.request(outgoing(1)).await), ErrorCode::ManagerClosed);
}

#[tokio::test]
async fn std_07_a_server_that_is_busy_refuses_more() {
    let Scene { desk, transport, .. } = scene();
    *lock(&desk.full) = Some(1_000);
    assert_eq!(code(transport.request(outgoing(1)).await), ErrorCode::TransportBackpressure);
}
