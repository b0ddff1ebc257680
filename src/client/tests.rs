//! Whole conversations with a scripted peer, under paused time.

mod model;
mod opening;
mod pages;
mod questions;
mod rounds;
mod streams;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::inbound::{Inbound, ListKind, ServerListener};
use super::input::{InputDesk, InputSettings, features_of};
use super::open::{EraChoice, Introduction, Opening, open};
use super::verdict::{VerdictCell, VerdictStore};
use super::*;
use crate::deadline::Limits;
use crate::error::TimeoutKind;
use crate::host::{Host, HostEvent, QuestionKind};
use crate::protocol::capability::ClientIdentity;
use crate::protocol::negotiation::Channel;
use crate::runtime::lock;
use crate::testing::scripted_peer::{Heard, PeerTransport, ScriptedPeer};
use crate::transport::BoxFuture;
use crate::transport::in_process::{Channels, Script, Word};

/// What a listener was told, in order.
#[derive(Default)]
struct Heards(Mutex<Vec<String>>);

impl Heards {
    fn all(&self) -> Vec<String> {
        lock(&self.0).clone()
    }

    fn note(&self, what: String) {
        lock(&self.0).push(what);
    }
}

impl ServerListener for Heards {
    fn list_changed(&self, kind: ListKind) {
        self.note(format!("changed {kind:?}"));
    }
    fn task_changed(&self, task: &str) {
        self.note(format!("task {task}"));
    }
    fn resource_updated(&self, uri: &str) {
        self.note(format!("updated {uri}"));
    }
    fn log(&self, level: &str, _logger: Option<&str>, data: &str) {
        self.note(format!("log {level} {data}"));
    }
    fn stderr(&self, _line: &str) {}
    fn misbehaved(&self, code: &'static str, message: String) {
        self.note(format!("{code} {message}"));
    }
    fn roots(&self) -> String {
        r#"[{"uri":"file:///home/x"}]"#.to_owned()
    }
    fn closed(&self, error: McpError) {
        self.note(format!("closed {}", error.code()));
    }
}

/// A question as the host got it, and where its answer goes.
struct Asked {
    kind: QuestionKind,
    body: Value,
    reply: oneshot::Sender<Result<String, McpError>>,
}

impl Asked {
    fn answer(self, answer: &Value) {
        let _ = self.reply.send(Ok(answer.to_string()));
    }

    fn fail(self) {
        let _ = self.reply.send(Err(McpError::new(ErrorCode::Internal, "no")));
    }

    /// Whether nobody waits for the answer any more.
    fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }
}

/// A host that hands its questions to the test.
struct TestHost {
    callbacks: HashSet<QuestionKind>,
    questions: mpsc::UnboundedSender<Asked>,
    channels: Channels,
}

impl Script for TestHost {
    fn channels(&self) -> &Channels {
        &self.channels
    }
    fn say(&self, _channel: u32, _word: Word, _room: usize) -> Result<(), usize> {
        Ok(())
    }
}

impl Host for TestHost {
    fn emit(&self, _event: HostEvent) {}
    fn can_answer(&self, kind: QuestionKind) -> bool {
        self.callbacks.contains(&kind)
    }
    fn ask(&self, kind: QuestionKind, body: String) -> BoxFuture<'_, Result<String, McpError>> {
        let (reply, answer) = oneshot::channel();
        let body = serde_json::from_str(&body).unwrap();
        self.questions.send(Asked { kind, body, reply }).ok().unwrap();
        Box::pin(async move { answer.await.unwrap() })
    }
}

/// A host, its questions, a peer and the way to it; nothing has been said yet.
struct Stage {
    peer: ScriptedPeer,
    transport: Arc<PeerTransport>,
    inbound: Arc<Inbound>,
    tables: Tables,
    listener: Arc<Heards>,
    questions: mpsc::UnboundedReceiver<Asked>,
    verdicts: Arc<VerdictCell>,
    introduction: Introduction,
}

impl Stage {
    fn new(callbacks: &[QuestionKind]) -> Self {
        Self::with(callbacks, InputSettings::default())
    }

    fn with(callbacks: &[QuestionKind], settings: InputSettings) -> Self {
        let (sender, questions) = mpsc::unbounded_channel();
        let host = Arc::new(TestHost {
            callbacks: callbacks.iter().copied().collect(),
            questions: sender,
            channels: Channels::default(),
        });
        let features = features_of(host.as_ref());
        let listener = Arc::new(Heards::default());
        let desk = InputDesk::new(Arc::from("s"), host, Arc::clone(&listener) as _, features, settings);
        let tables = Tables { progress: Arc::default(), listens: Arc::default(), input: Arc::new(desk) };
        let inbound = Arc::new(Inbound::new(Arc::clone(&listener) as _, tables.clone()));
        let (peer, transport) = ScriptedPeer::new(Arc::clone(&inbound) as _);
        let way: Arc<dyn Transport> = Arc::clone(&transport) as _;
        inbound.attach(&way);
        let identity = ClientIdentity { name: "host".into(), version: "1".into(), title: None };
        let introduction = Introduction { identity, features };
        let verdicts = Arc::new(VerdictCell::default());
        Self { peer, transport, inbound, tables, listener, questions, verdicts, introduction }
    }

    /// Starts an opening.
    fn open(&self, channel: Channel, choice: EraChoice) -> tokio::task::JoinHandle<Result<Client, McpError>> {
        let transport: Arc<dyn Transport> = Arc::clone(&self.transport) as _;
        let (tables, introduction) = (self.tables.clone(), self.introduction.clone());
        let verdicts = Arc::clone(&self.verdicts);
        tokio::spawn(async move {
            let limits = Limits {
                idle: Duration::from_secs(30),
                total: Duration::from_secs(60),
                idle_kind: TimeoutKind::Connect,
            };
            open(Opening {
                server: &Arc::from("s"),
                transport: &transport,
                tables: &tables,
                introduction: &introduction,
                deadline: &Deadline::start(limits),
                probe: Duration::from_secs(10),
                channel,
                choice,
                verdicts: verdicts.as_ref(),
            })
            .await
        })
    }

    /// A client of the stateless era.
    async fn modern(&mut self) -> Arc<Client> {
        self.modern_with(json!({"tools": {}, "prompts": {}, "resources": {}})).await
    }

    async fn modern_with(&mut self, capabilities: Value) -> Arc<Client> {
        let opening = self.open(Channel::Http, EraChoice::Auto);
        let probe = self.peer.expect("server/discover").await;
        let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities});
        self.peer.reply(&probe, &result);
        let client = Arc::new(opening.await.unwrap().unwrap());
        self.inbound.refuse_requests();
        client
    }

    /// A client of the handshake era.
    async fn legacy(&mut self) -> Arc<Client> {
        let opening = self.open(Channel::Stdio, EraChoice::Auto);
        let hello = self.peer.expect("initialize").await;
        self.peer.reply(&hello, &introduction());
        self.peer.expect("notifications/initialized").await;
        Arc::new(opening.await.unwrap().unwrap())
    }
}

fn introduction() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {"subscribe": true}},
        "serverInfo": {"name": "s", "version": "1"},
    })
}

/// Starts a call of tool `t` with a limit of 60 s of silence.
fn call(client: &Arc<Client>) -> tokio::task::JoinHandle<Result<Value, McpError>> {
    call_of(client, "tools/call", r#"{"name":"t","arguments":{"a":1}}"#)
}

fn call_of(
    client: &Arc<Client>,
    method: &'static str,
    params: &str,
) -> tokio::task::JoinHandle<Result<Value, McpError>> {
    let (client, params) = (Arc::clone(client), Params::from_object(params).unwrap());
    tokio::spawn(async move {
        let limits = Limits {
            idle: Duration::from_secs(60),
            total: Duration::from_secs(600),
            idle_kind: TimeoutKind::Idle,
        };
        let deadline = Arc::new(Deadline::start(limits));
        let reply = client.request(Request::new(method, &params, &deadline)).await?;
        Ok(serde_json::from_str(reply.as_str()).unwrap())
    })
}

/// A form that asks for a name.
fn form() -> Value {
    json!({
        "mode": "form",
        "message": "User name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    })
}

fn meta_of(heard: &Heard) -> &Value {
    &heard.params()["_meta"]
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
