//! The host over a mailbox: letters out, answers to questions back.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::oneshot;

use super::mailbox::{Letter, Mailbox};
use super::{Host, HostEvent, QuestionKind};
use crate::error::{ErrorCode, McpError};
use crate::jsonrpc::write::{push_member, push_string};
use crate::runtime::lock;
use crate::transport::BoxFuture;
use crate::transport::in_process::{Channels, Script, Word};

type Answers = HashMap<u32, oneshot::Sender<Result<String, McpError>>>;

/// Rings the other side: there are letters. Called at most once until they are taken.
type Bell = Box<dyn Fn() + Send + Sync>;

/// The mailbox, its bell and the open questions of one manager.
pub struct PostOffice {
    mailbox: Mutex<Mailbox>,
    bell: Mutex<Option<Bell>>,
    rung: AtomicBool,
    questions: Mutex<Answers>,
    next_question: AtomicU32,
    callbacks: HashSet<QuestionKind>,
    channels: Channels,
}

impl PostOffice {
    /// A post office whose host answers the given kinds of questions.
    pub fn new(callbacks: HashSet<QuestionKind>, bell: Bell) -> Self {
        Self {
            mailbox: Mutex::default(),
            bell: Mutex::new(Some(bell)),
            rung: AtomicBool::new(false),
            questions: Mutex::default(),
            next_question: AtomicU32::new(1),
            callbacks,
            channels: Channels::default(),
        }
    }

    /// Delivers a letter.
    pub fn deliver(&self, letter: Letter) {
        lock(&self.mailbox).push(letter);
        self.ring();
    }

    fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel)
            && let Some(bell) = &*lock(&self.bell)
        {
            bell();
        }
    }

    /// Until the next [`Self::collect`] nothing rings: whoever calls this takes the letters right away.
    pub fn hold(&self) {
        self.rung.store(true, Ordering::Release);
    }

    /// Takes the next batch of letters and whether more wait.
    pub fn collect(&self) -> (Vec<Letter>, bool) {
        // Cleared before looking, so that a letter that arrives now rings again.
        self.rung.store(false, Ordering::Release);
        let mut mailbox = lock(&self.mailbox);
        let dropped = mailbox.take_dropped();
        if dropped > 0 {
            mailbox.push(Letter::Event(dropped_events(dropped)));
        }
        let batch = mailbox.take_batch();
        (batch, !mailbox.is_empty())
    }

    /// Answers a question; late answers are ignored.
    pub fn answer(&self, question: u32, answer: Result<String, McpError>) {
        if let Some(waiter) = lock(&self.questions).remove(&question) {
            let _ = waiter.send(answer);
        }
    }

    /// Nobody waits for answers any more: every open question is withdrawn and fails. (LIF-06)
    pub fn withdraw_all(&self) {
        let open = std::mem::take(&mut *lock(&self.questions));
        for (question, waiter) in open {
            let closed = McpError::new(ErrorCode::ManagerClosed, "the manager was closed");
            let _ = waiter.send(Err(closed));
            self.deliver(Letter::Withdrawn { question });
        }
    }

    /// The other side is gone: nothing rings any more and open questions fail.
    pub fn shut(&self) {
        lock(&self.bell).take();
        lock(&self.questions).clear();
    }
}

fn dropped_events(count: u64) -> HostEvent {
    let message = format!("{count} events were dropped because the host was busy");
    let mut body = String::from("{\"level\":\"warning\",\"code\":\"EVENTS_DROPPED\",\"message\":");
    push_string(&mut body, &message);
    body.push('}');
    HostEvent { name: "diagnostic", body, key: Some("EVENTS_DROPPED".into()) }
}

impl Host for PostOffice {
    fn emit(&self, event: HostEvent) {
        self.deliver(Letter::Event(event));
    }

    fn can_answer(&self, kind: QuestionKind) -> bool {
        self.callbacks.contains(&kind)
    }

    fn ask(&self, kind: QuestionKind, body: String) -> BoxFuture<'_, Result<String, McpError>> {
        self.ask_callback(kind.callback(), None, &body)
    }
}

impl PostOffice {
    /// Asks a callback of the host, or the one that a view brought along.
    pub fn ask_callback(
        &self,
        callback: &str,
        view: Option<u32>,
        body: &str,
    ) -> BoxFuture<'_, Result<String, McpError>> {
        let number = self.next_question.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        lock(&self.questions).insert(number, answer);
        let letter = format!(
            "{{\"kind\":\"question\",\"question\":{number},\"callback\":\"{callback}\",\"view\":{},\"body\":{body}}}",
            view.map_or_else(|| "null".to_owned(), |view| view.to_string())
        );
        let open = OpenQuestion { post: self, number };
        self.deliver(Letter::Question { question: number, body: letter });
        Box::pin(async move {
            let result = answered.await;
            drop(open);
            result.unwrap_or_else(|_| {
                Err(McpError::new(ErrorCode::ManagerClosed, "the host went away before it answered"))
            })
        })
    }
}

impl Script for PostOffice {
    fn channels(&self) -> &Channels {
        &self.channels
    }

    fn say(&self, channel: u32, word: Word, room: usize) -> Result<(), usize> {
        let mut body = format!("{{\"kind\":\"sdk\",\"channel\":{channel}");
        match word {
            Word::Open { server, instance } => {
                push_member(&mut body, "open", &string(&server));
                push_member(&mut body, "instance", &string(&instance));
            }
            Word::Message(message) => push_member(&mut body, "message", message.trim_end()),
            Word::Close => push_member(&mut body, "close", "true"),
        }
        body.push('}');
        lock(&self.mailbox).push_bounded(channel, body, room)?;
        self.ring();
        Ok(())
    }
}

fn string(text: &str) -> String {
    let mut literal = String::new();
    push_string(&mut literal, text);
    literal
}

/// Withdraws the question when nobody waits for its answer any more.
struct OpenQuestion<'a> {
    post: &'a PostOffice,
    number: u32,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if lock(&self.post.questions).remove(&self.number).is_some() {
            self.post.deliver(Letter::Withdrawn { question: self.number });
        }
    }
}
