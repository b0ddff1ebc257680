//! A server in a script, at the other end of an in-memory channel: it expects, answers, sends, stalls and closes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::error::{ErrorCode, McpError};
use crate::jsonrpc::RawText;
use crate::protocol::version::ProtocolVersion;
use crate::runtime::lock;
use crate::transport::duplex::{Duplex, FrameSink, accept_frame};
use crate::transport::stdio::ServerProcess;
use crate::transport::{
    BoxFuture, CloseMode, Evidence, Mirrored, Outgoing, Receiver, RequestFailure, Transport,
};

#[derive(Debug)]
struct Sink(mpsc::UnboundedSender<String>);

impl FrameSink for Sink {
    fn push(&self, frame: String) -> Result<(), McpError> {
        self.0.send(frame).map_err(|_| McpError::new(ErrorCode::ConnectionLost, "the peer is gone"))
    }

    fn push_control(&self, frame: String) {
        let _ = self.0.send(frame);
    }
}

/// The transport to a scripted peer.
#[derive(Debug)]
pub(crate) struct PeerTransport {
    duplex: Duplex,
    mirrored: Mutex<Vec<Mirrored>>,
    negotiated: Mutex<Option<ProtocolVersion>>,
    refusals: Mutex<VecDeque<McpError>>,
    /// How long a person takes to log in; without one nobody can.
    person: Mutex<Option<Duration>>,
}

impl PeerTransport {
    /// What was mirrored, request by request.
    pub(crate) fn mirrored(&self) -> Vec<Mirrored> {
        lock(&self.mirrored).clone()
    }

    /// Refuses the next message without an answer; once more for each time that it is called.
    pub(crate) fn refuse(&self, error: McpError) {
        lock(&self.refusals).push_back(error);
    }

    /// From now on a person logs in where that is asked for, within this time.
    pub(crate) fn have_person(&self, takes: Duration) {
        *lock(&self.person) = Some(takes);
    }

    /// What the transport was told of the version.
    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        *lock(&self.negotiated)
    }
}

impl Transport for PeerTransport {
    fn request(&self, request: Outgoing) -> BoxFuture<'_, Result<RawText, RequestFailure>> {
        lock(&self.mirrored).push(request.mirrored.clone());
        Box::pin(self.duplex.request(request))
    }

    fn negotiated(&self, version: ProtocolVersion) {
        *lock(&self.negotiated) = Some(version);
    }

    fn send(&self, frame: String) -> BoxFuture<'_, Result<(), McpError>> {
        let sent = match lock(&self.refusals).pop_front() {
            Some(error) => Err(error),
            None => self.duplex.send(frame),
        };
        Box::pin(async move { sent })
    }

    fn log_in(&self, cause: McpError) -> BoxFuture<'_, Result<(), McpError>> {
        let takes = *lock(&self.person);
        Box::pin(async move {
            tokio::time::sleep(takes.ok_or(cause)?).await;
            Ok(())
        })
    }

    fn close(&self, _mode: CloseMode, reason: McpError) -> BoxFuture<'_, ()> {
        self.duplex.close(&reason);
        Box::pin(std::future::ready(()))
    }

    fn process(&self) -> Option<Arc<ServerProcess>> {
        None
    }

    fn evidence(&self) -> Evidence {
        Evidence::default()
    }
}

/// The peer's end.
pub(crate) struct ScriptedPeer {
    frames: mpsc::UnboundedReceiver<String>,
    transport: Arc<PeerTransport>,
    receiver: Arc<dyn Receiver>,
}

/// A message that the peer got.
#[derive(Clone, Debug)]
pub(crate) struct Heard(pub(crate) Value);

impl Heard {
    /// The id; null for notifications.
    pub(crate) fn id(&self) -> Value {
        self.0["id"].clone()
    }

    /// The parameters.
    pub(crate) fn params(&self) -> &Value {
        &self.0["params"]
    }
}

/// Longest wait for what is expected; the clock of such tests is paused.
const PATIENCE: Duration = Duration::from_secs(3_600);

impl ScriptedPeer {
    /// A peer whose messages go to `receiver`, and the transport to it.
    pub(crate) fn new(receiver: Arc<dyn Receiver>) -> (Self, Arc<PeerTransport>) {
        let (sender, frames) = mpsc::unbounded_channel();
        let transport = Arc::new(PeerTransport {
            duplex: Duplex::new(Arc::new(Sink(sender))),
            mirrored: Mutex::default(),
            negotiated: Mutex::default(),
            refusals: Mutex::default(),
            person: Mutex::default(),
        });
        (Self { frames, transport: Arc::clone(&transport), receiver }, transport)
    }

    /// The next message, whatever it is.
    pub(crate) async fn next(&mut self) -> Heard {
        let frame = tokio::time::timeout(PATIENCE, self.frames.recv()).await.expect("the peer waits in vain");
        Heard(serde_json::from_str(&frame.expect("the host hung up")).expect("a frame is JSON"))
    }

    /// The next message, which has to be of this method.
    pub(crate) async fn expect(&mut self, method: &str) -> Heard {
        let heard = self.next().await;
        assert_eq!(heard.0["method"], method, "{}", heard.0);
        heard
    }

    /// Nothing comes for a while.
    pub(crate) async fn expect_silence(&mut self, time: Duration) {
        if let Ok(Some(frame)) = tokio::time::timeout(time, self.frames.recv()).await {
            panic!("unexpected: {frame}");
        }
    }

    /// Answers a request.
    pub(crate) fn reply(&self, to: &Heard, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": to.id(), "result": result}));
    }

    /// Answers a request with text that is sent as it is.
    pub(crate) fn reply_text(&self, to: &Heard, result: &str) {
        self.send_text(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", to.id()));
    }

    /// Answers a request with an error.
    pub(crate) fn fail(&self, to: &Heard, code: i64, data: &Value) {
        let error = json!({"code": code, "message": "no", "data": data});
        self.send(&json!({"jsonrpc": "2.0", "id": to.id(), "error": error}));
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends any message.
    pub(crate) fn send(&self, message: &Value) {
        self.send_text(message.to_string());
    }

    fn send_text(&self, text: String) {
        accept_frame(&self.transport.duplex, text, self.receiver.as_ref()).expect("a script sends messages");
    }

    /// Hangs up.
    pub(crate) fn close(&self, code: ErrorCode) {
        let error = McpError::new(code, "the peer hung up");
        self.transport.duplex.close(&error);
        self.receiver.closed(error);
    }
}
