//! The tasks over a model of a relay, in a time that passes at once; and a transport over a socket.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

use crate::bridge::Bridge;
use crate::bridge::callbacks::Callbacks;
use crate::bridge::control;
use crate::bridge::desk::Desk;
use crate::bridge::options::Options;
use crate::bridge::queue::Batch;
use crate::bridge::requests::{Failure, Requests};
use crate::bridge::spawner::Child;
use crate::bridge::transport::{Inbox, Transport, Word};
use crate::bridge::v1::V1;
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

type Words = VecDeque<Result<Word, Failure>>;

/// A relay that can be away.
struct Relay {
    up: watch::Sender<bool>,
    /// How long a registration takes.
    registering: Duration,
    /// Longest body that is taken.
    longest: usize,
    /// What is said on each of the next streams.
    said: Mutex<VecDeque<Words>>,
    /// Where each stream that was opened began.
    streams: Mutex<Vec<u64>>,
    /// What has arrived.
    taken: Mutex<Vec<Value>>,
}

impl Relay {
    fn new() -> Self {
        Self {
            up: watch::Sender::new(true),
            registering: Duration::ZERO,
            longest: usize::MAX,
            said: Mutex::default(),
            streams: Mutex::default(),
            taken: Mutex::default(),
        }
    }

    fn is_up(&self) -> Result<(), Failure> {
        if *self.up.borrow() { Ok(()) } else { Err(away()) }
    }
}

/// A stream on which nothing comes after some words.
struct Stream {
    relay: Arc<Relay>,
    words: Words,
}

impl Inbox for Stream {
    fn next(&mut self) -> BoxFuture<'_, Result<Word, Failure>> {
        Box::pin(async move {
            if let Some(word) = self.words.pop_front() {
                return word;
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
        Box::pin(async move {
            tokio::time::sleep(self.registering).await;
            self.is_up().map(|()| registered)
        })
    }

    fn connect(&self, _epoch: u64, from: u64) -> BoxFuture<'_, Result<Box<dyn Inbox>, Failure>> {
        Box::pin(async move {
            self.is_up()?;
            lock(&self.streams).push(from);
            let mut words = lock(&self.said).pop_front().unwrap_or_default();
            words.push_front(Ok(Word::Alive));
            let inbox: Box<dyn Inbox> = Box::new(Stream { relay: Arc::clone(self), words });
            Ok(inbox)
        })
    }

    fn send<'a>(&'a self, _epoch: u64, batch: &'a Batch) -> BoxFuture<'a, Result<u64, Failure>> {
        Box::pin(async move {
            self.is_up()?;
            if batch.messages.len() > self.longest {
                return Err(Failure::TooLarge(McpError::new(ErrorCode::MessageTooLarge, "too large")));
            }
            let messages: Vec<Value> = serde_json::from_str(&batch.messages).unwrap();
            lock(&self.taken).extend(messages);
            Ok(batch.first + batch.count as u64 - 1)
        })
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

/// The states and codes of diagnostics that were told since it was asked last.
fn told(post: &PostOffice) -> Vec<String> {
    let name = |letter| match letter {
        Letter::Event(event) => {
            let body: Value = serde_json::from_str(&event.body).unwrap();
            let name = if event.name == "state" { &body["state"] } else { &body["code"] };
            name.as_str().map(str::to_owned)
        }
        _ => None,
    };
    post.collect().0.into_iter().filter_map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn brg_05_signs_of_life_missed_in_an_outage_do_not_cost_the_stream_after_it() {
    let relay = Arc::new(Relay::new());
    let (bridge, post) = bridge_to(&relay, r#","heartbeatMs":1000"#);
    bridge.connect().await.unwrap();
    for outage in [3, 10, 60] {
        let before = lock(&relay.streams).len();
        told(&post);
        relay.up.send_replace(false);
        tokio::time::sleep(Duration::from_secs(outage)).await;
        relay.up.send_replace(true);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(lock(&relay.streams).len(), before + 1, "after {outage} s");
        assert_eq!(told(&post), ["reconnecting", "connected"], "after {outage} s");
    }
}

fn message(sequence: u64) -> String {
    format!(r#"{{"epoch":1,"sequence":{sequence},"message":{{"type":"user","uuid":"u{sequence}"}}}}"#)
}

#[tokio::test(start_paused = true)]
async fn b_195_a_message_above_the_bound_is_skipped_and_ends_nothing() {
    let cut = || Err(away());
    let gone = |sequence, length| Ok(Word::TooLong { sequence, length });
    let long =
        format!(r#"{{"epoch":1,"sequence":5,"message":{{"type":"user","x":"{}"}}}}"#, "x".repeat(1000));
    let relay = Arc::new(Relay {
        said: Mutex::new(VecDeque::from([
            VecDeque::from([Ok(Word::Message(message(1))), gone(None, None), cut()]),
            VecDeque::from([
                Ok(Word::Message(message(3))),
                gone(Some(4), Some(2000)),
                Ok(Word::Message(long)),
            ]),
        ])),
        ..Relay::new()
    });
    let (bridge, post) = bridge_to(&relay, r#","maxMessageBytes":1000,"outboundOnly":true"#);
    bridge.connect().await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(bridge.sequence(), 5);
    assert_eq!(*lock(&relay.streams), [1, 3], "what follows is asked for");
    let large = "BRIDGE_MESSAGE_TOO_LARGE";
    assert_eq!(told(&post), ["connecting", "connected", large, "reconnecting", "connected", large, large]);
}

#[tokio::test(start_paused = true)]
async fn brg_03_an_answer_too_large_for_the_relay_is_told_to_both_ends() {
    let relay = Arc::new(Relay { longest: 600, ..Relay::new() });
    let (bridge, post) = bridge_to(&relay, r#","maxMessageBytes":2000"#);
    bridge.connect().await.unwrap();
    let answer = |id: &str, length: usize| {
        control::reply("u", id, &Ok(format!(r#"{{"commands":["{}"]}}"#, "x".repeat(length))))
    };
    for (id, length) in [("small", 10), ("above what the relay takes", 1000), ("above our own bound", 5000)] {
        bridge.reply(answer(id, length));
        bridge.send("{}").await.unwrap();
    }
    let codes =
        lock(&relay.taken).iter().map(|message| message["response"]["code"].clone()).collect::<Vec<_>>();
    let large = json!("too_large");
    assert_eq!(codes, [json!(null), json!(null), large.clone(), json!(null), large, json!(null)]);
    let dropped = "BRIDGE_REPLY_DROPPED";
    assert_eq!(told(&post), ["connecting", "connected", dropped, dropped]);
}

#[tokio::test(start_paused = true)]
async fn brg_01_close_gives_what_is_queued_two_seconds_also_before_the_registration() {
    let relay = Arc::new(Relay { registering: Duration::from_secs(1), ..Relay::new() });
    let (bridge, _post) = bridge_to(&relay, "");
    let sent = bridge.send(r#"{"type":"assistant"}"#);
    let (connected, sent, ()) = tokio::join!(bridge.connect(), sent, bridge.close());
    assert_eq!((connected.is_ok(), sent.is_ok(), lock(&relay.taken).len()), (true, true, 1));

    let relay = Arc::new(Relay { registering: Duration::from_secs(60), ..Relay::new() });
    let (bridge, _post) = bridge_to(&relay, "");
    let sent = bridge.send(r#"{"type":"assistant"}"#);
    let begun = tokio::time::Instant::now();
    let (connected, sent, ()) = tokio::join!(bridge.connect(), sent, bridge.close());
    assert_eq!(sent.unwrap_err().code(), ErrorCode::BridgeClosed);
    assert_eq!(connected.unwrap_err().code(), ErrorCode::BridgeClosed);
    assert_eq!(begun.elapsed().as_secs(), 2);
}

fn environment() -> Arc<Environment> {
    Arc::new(Environment { vars: BTreeMap::new(), cwd: "/".into(), home: None, platform: Platform::Unix })
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
    let requests = Requests::new(environment(), Authorizers::default(), options.connect_limit);
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
    // Far longer in all than the silence that is borne, 450 ms.
    let words = dripped(pieces, Duration::from_millis(60), 150).await;
    let [Ok(Word::Message(text)), Err(Failure::Again(error, _))] = &words[..] else { panic!("{words:?}") };
    assert_eq!(text.len(), 300 + r#"{"text":""}"#.len());
    assert!(error.message().contains("nothing more came within 450 ms"), "{error}");
}

#[tokio::test]
async fn b_195_an_event_without_end_is_skipped_by_its_id() {
    let begun = |id: &str| format!("event: message\n{id}data: ").into_bytes();
    for (id, expected) in [("id: 7\n", Some(7)), ("", None)] {
        let mut pieces = vec![begun(id)];
        pieces.extend(std::iter::repeat_n(vec![b'x'; 1000], 10));
        let words = dripped(pieces, Duration::from_millis(5), 1000).await;
        let [Ok(Word::TooLong { sequence, length: None }), Err(Failure::Again(..))] = &words[..] else {
            panic!("{words:?}")
        };
        assert_eq!(*sequence, expected);
    }
}

#[tokio::test]
async fn b_195_a_frame_above_the_bound_does_not_end_a_bridge_of_version_1() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = Options::read(&format!(
        r#"{{"baseUrl":"http://127.0.0.1:{port}","sessionId":"s","version":"v1","maxMessageBytes":1000}}"#
    ))
    .unwrap();
    let requests = Arc::new(Requests::new(environment(), Authorizers::default(), options.connect_limit));
    let transport = V1::new(&options, "i", requests, Authorizers::default(), environment()).unwrap();
    let frame = |method: &str, pad: usize| {
        let params = format!(r#"{{"sequence":1,"message":{{"x":"{}"}}}}"#, "x".repeat(pad));
        Message::text(format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))
    };
    let serving = async {
        let mut socket = accept_async(listener.accept().await.unwrap().0).await.unwrap();
        for (method, pad) in [("bridge/alive", 0), ("bridge/message", 992), ("bridge/message", 2000)] {
            socket.send(frame(method, pad)).await.unwrap();
        }
        socket
    };
    let (inbox, _socket) = tokio::join!(transport.connect(0, 1), serving);
    let mut inbox = inbox.unwrap();
    // Exactly at the bound, whatever stands around it.
    assert!(matches!(inbox.next().await, Ok(Word::Message(_))));
    assert!(matches!(inbox.next().await, Ok(Word::TooLong { sequence: None, length: None })));
    assert!(matches!(inbox.next().await, Err(Failure::Again(..))));
}

/// A process that reads nothing refuses what does not fit (BRG-09).
#[cfg(unix)]
#[tokio::test]
async fn brg_09_a_message_that_is_not_taken_rejects() {
    let post = Arc::new(PostOffice::new(HashSet::new(), Box::new(|| {})));
    let options = r#"{"baseUrl":"http://127.0.0.1:9","sessionId":"s","command":"sleep","args":["60"]}"#;
    let child = Arc::new(Child::new(options, post).unwrap());
    let ask = |verb: &str, payload: &str| Arc::clone(&child).take(verb, payload);
    ask("start", "null").await.unwrap();
    let message = format!(r#"{{"x":"{}"}}"#, "x".repeat(1 << 20));
    let mut sent = Vec::new();
    for _ in 0..20 {
        sent.push(ask("send", &message).await.map_err(|error| error.code()));
    }
    assert_eq!(sent[..10], vec![Ok("null".to_owned()); 10]);
    assert_eq!(sent[19], Err(ErrorCode::TransportBackpressure));
    ask("close", "fast").await.unwrap();
}
