use std::collections::BTreeMap;

use futures_util::SinkExt;
use tokio::net::TcpListener;
use tokio_tungstenite::accept_async;

use super::*;
use crate::environment::Platform;

#[derive(Default)]
struct Ear {
    closed: Mutex<Vec<ErrorCode>>,
}

impl Receiver for Ear {
    fn answered(&self, _: u64) {}
    fn message(&self, _: Incoming) {}
    fn noise(&self, _: &str, _: &str) {}
    fn stray(&self, _: Option<u64>) {}
    fn stderr(&self, _: &str) {}
    fn closed(&self, error: McpError) {
        lock(&self.closed).push(error.code());
    }
}

async fn listener() -> (TcpListener, WebSocketRecipe) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let environment =
        Environment { vars: BTreeMap::new(), cwd: "/".into(), home: None, platform: Platform::Unix };
    let recipe = WebSocketRecipe {
        url: SafeUrl::new(format!("ws://{}/", listener.local_addr().unwrap())),
        headers: Vec::new(),
        authorizers: Authorizers::default(),
        tls: None,
        proxy: ProxyChoice::Off,
        environment: Arc::new(environment),
        connect: Duration::from_secs(5),
    };
    (listener, recipe)
}

fn start(recipe: WebSocketRecipe) -> (Arc<WebSocketTransport>, Arc<Ear>) {
    let ear = Arc::new(Ear::default());
    let limits = WebSocketLimits { message: 1_000, queued: 10_000, ping: PingTimes::default() };
    (open(recipe, limits, Arc::<Ear>::clone(&ear)), ear)
}

fn ping(id: u64) -> Outgoing {
    let frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
    Outgoing { id, frame, cancellable: true, ..Outgoing::default() }
}

fn code(reply: Result<RawText, RequestFailure>) -> ErrorCode {
    match reply {
        Err(RequestFailure::Transport(error)) => error.code(),
        other => panic!("expected a transport error, got {other:?}"),
    }
}

#[tokio::test]
async fn ws_01_frames_wait_for_the_connection_and_arrive_as_text() {
    let (listener, recipe) = listener().await;
    let (transport, ear) = start(recipe);
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = accept_async(stream).await.unwrap();
        let frame = socket.next().await.unwrap().unwrap();
        assert_eq!(frame, Message::text("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}"));
        socket.send(Message::text("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"a\":1}}")).await.unwrap();
        socket
    };
    let (reply, mut socket) = tokio::join!(transport.request(ping(3)), server);
    assert_eq!(reply.unwrap().as_str(), "{\"a\":1}");
    let goodbye = async {
        let frame = socket.next().await.unwrap().unwrap();
        assert!(matches!(frame, Message::Close(Some(frame)) if frame.code == CloseCode::Normal));
        while socket.next().await.is_some() {}
    };
    let closing = transport.close(CloseMode::Graceful, McpError::new(ErrorCode::ManagerClosed, "end"));
    tokio::join!(closing, goodbye);
    assert_eq!(code(transport.request(ping(4)).await), ErrorCode::ManagerClosed);
    assert_eq!(lock(&ear.closed).len(), 1);
}

#[tokio::test]
async fn closing_while_connecting_ends_at_once() {
    let (_listener, recipe) = listener().await;
    let (transport, _) = start(recipe);
    let begin = Instant::now();
    let reason = McpError::new(ErrorCode::ManagerClosed, "end");
    let (reply, ()) = tokio::join!(transport.request(ping(1)), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        transport.close(CloseMode::Fast, reason).await;
    });
    assert_eq!(code(reply), ErrorCode::ManagerClosed);
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn f_068_an_end_without_goodbye_breaks_what_is_open() {
    let (listener, recipe) = listener().await;
    let (transport, ear) = start(recipe);
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = accept_async(stream).await.unwrap();
        socket.next().await.unwrap().unwrap();
    };
    let (reply, ()) = tokio::join!(transport.request(ping(1)), server);
    let Err(RequestFailure::Transport(error)) = reply else { panic!("{reply:?}") };
    assert_eq!((error.code(), error.facts().delivered), (ErrorCode::ConnectionLost, Some(Delivery::Unknown)));
    assert!(error.message().contains("1006"), "{error}");
    assert_eq!(*lock(&ear.closed), [ErrorCode::ConnectionLost]);
}
