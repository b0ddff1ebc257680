//! The tasks over a model of a relay, in a time that passes at once; and a transport over a socket.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::bridge::Bridge;
use crate::bridge::callbacks::Callbacks;
use crate::bridge::options::Options;
use crate::bridge::queue::Batch;
use crate::bridge::requests::{Failure, Requests};
use crate::bridge::transport::{Inbox, Transport, Word};
use crate::bridge::v2::V2;
use crate::bridge::wire::{Claim, Registered};
use crate::environment::{Environment, Platform};
use crate::error::{ErrorCode, McpError};
use crate::host::mailbox::Letter;
use crate::host::post::PostOffice;
use crate::runtime::lock;
use crate::transport::BoxFuture;
use crate::transport::authorizer::Authorizers;

fn away() -> Failure {
    Failure::Again(McpError::new(ErrorCode::ConnectFailed, "the relay is away"), None)
}

/// A relay that can be away.
struct Relay {
    up: watch::Sender<bool>,
    /// Streams that were opened.
    streams: Mutex<u64>,
}

impl Relay {
    fn new() -> Arc<Self> {
        Arc::new(Self { up: watch::Sender::new(true), streams: Mutex::new(0) })
    }

    fn is_up(&self) -> Result<(), Failure> {
        if *self.up.borrow() { Ok(()) } else { Err(away()) }
    }
}

/// A stream on which nothing but a sign of life comes.
struct Quiet {
    relay: Arc<Relay>,
    greeted: bool,
}

impl Inbox for Quiet {
    fn next(&mut self) -> BoxFuture<'_, Result<Word, Failure>> {
        Box::pin(async move {
            if !std::mem::replace(&mut self.greeted, true) {
                return Ok(Word::Alive);
            }
            let mut up = self.relay.up.subscribe();
            let _ = up.wait_for(|up| !up).await;
            Err(away())
        })
    }
}

impl Transport for Arc<Relay> {
    fn register<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Registered, Failure>> {
        let registered = Registered { epoch: claim.epoch + 1, acknowledged: claim.next - 1 };
        Box::pin(async move { self.is_up().map(|()| registered) })
    }

    fn connect(&self, _epoch: u64, _from: u64) -> BoxFuture<'_, Result<Box<dyn Inbox>, Failure>> {
        Box::pin(async move {
            self.is_up()?;
            *lock(&self.streams) += 1;
            let inbox: Box<dyn Inbox> = Box::new(Quiet { relay: Arc::clone(self), greeted: false });
            Ok(inbox)
        })
    }

    fn send<'a>(&'a self, _epoch: u64, batch: &'a Batch) -> BoxFuture<'a, Result<u64, Failure>> {
        Box::pin(async move { self.is_up().map(|()| batch.first + batch.count as u64 - 1) })
    }

    fn beat(&self, _epoch: u64, _sequence: u64) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move { self.is_up() })
    }

    fn disconnect(&self, _epoch: u64) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// A bridge to a relay, and the post in which its events are.
fn bridge_to(relay: &Arc<Relay>, more: &str) -> (Bridge, Arc<PostOffice>) {
    let options =
        Options::read(&format!(r#"{{"baseUrl":"https://relay.example","sessionId":"s"{more}}}"#)).unwrap();
    let post = Arc::new(PostOffice::new(HashSet::new(), Box::new(|| {})));
    let callbacks = Callbacks::new(Arc::clone(&post), options.callbacks.clone(), options.callback_limit);
    (Bridge::over(options, callbacks, "i".to_owned(), Box::new(Arc::clone(relay))), post)
}

/// The states that were told since it was asked last.
fn states(post: &PostOffice) -> Vec<String> {
    let told = |letter| match letter {
        Letter::Event(event) if event.name == "state" => {
            let body: Value = serde_json::from_str(&event.body).unwrap();
            body["state"].as_str().map(str::to_owned)
        }
        _ => None,
    };
    post.collect().0.into_iter().filter_map(told).collect()
}

#[tokio::test(start_paused = true)]
async fn brg_05_signs_of_life_missed_in_an_outage_do_not_cost_the_stream_after_it() {
    let relay = Relay::new();
    let (bridge, post) = bridge_to(&relay, r#","heartbeatMs":1000"#);
    bridge.connect().await.unwrap();
    for outage in [3, 10, 60] {
        let before = *lock(&relay.streams);
        states(&post);
        relay.up.send_replace(false);
        tokio::time::sleep(Duration::from_secs(outage)).await;
        relay.up.send_replace(true);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(*lock(&relay.streams), before + 1, "after {outage} s");
        assert_eq!(states(&post), ["reconnecting", "connected"], "after {outage} s");
    }
}

/// What a transport of version 2 reads where each piece of the stream comes so long after the one before.
async fn dripped(pieces: Vec<Vec<u8>>, between: Duration, heartbeat: u64) -> Vec<Result<Word, Failure>> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = [0; 4096];
        let _ = socket.read(&mut head).await.unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await.unwrap();
        for piece in pieces {
            if socket.write_all(&piece).await.is_err() {
                return;
            }
            tokio::time::sleep(between).await;
        }
        // Silent, and open.
        let _ = socket.read(&mut head).await;
    });
    let options = Options::read(&format!(
        r#"{{"baseUrl":"http://127.0.0.1:{port}","sessionId":"s","heartbeatMs":{heartbeat},"maxMessageBytes":1000}}"#
    ))
    .unwrap();
    let environment =
        Environment { vars: BTreeMap::new(), cwd: "/".into(), home: None, platform: Platform::Unix };
    let requests = Requests::new(Arc::new(environment), Authorizers::new([]), options.connect_limit);
    let transport = V2::new(&options, "i", Arc::new(requests)).unwrap();
    let mut inbox = transport.connect(1, 1).await.unwrap();
    let mut words = Vec::new();
    while words.last().is_none_or(Result::is_ok) {
        words.push(inbox.next().await);
    }
    serving.abort();
    words
}

#[tokio::test]
async fn brg_05_a_slow_line_is_not_silent_and_a_silent_one_is_left() {
    let event = format!("event: message\nid: 1\ndata: {{\"text\":\"{}\"}}\n\n", "x".repeat(300));
    let pieces = event.as_bytes().chunks(20).map(<[u8]>::to_vec).collect();
    // Far longer in all than the 450 ms of silence that are borne.
    let words = dripped(pieces, Duration::from_millis(60), 150).await;
    let [Ok(Word::Message(text)), Err(Failure::Again(error, _))] = &words[..] else { panic!("{words:?}") };
    assert_eq!(text.len(), 300 + r#"{"text":""}"#.len());
    assert!(error.message().contains("nothing more came within 450 ms"), "{error}");
}
