//! One bridge: its state, and what may be asked of it.
//!
//! Owns the only lock. Whoever has to wait is answered exactly once: by an acknowledgement, or by the one end there is.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::callbacks::Callbacks;
use super::gate::Account;
use super::ids;
use super::inbound::Lanes;
use super::message::{self, Filters};
use super::options::{Options, Version, invalid};
use super::position::Position;
use super::queue::{Origin, Queue};
use super::requests::Requests;
use super::tokens::Tokens;
use super::transport::Transport;
use super::v1::V1;
use super::v2::V2;
use super::wire::Claim;
use crate::diagnostic::Diagnostic;
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError};
use crate::host::post::PostOffice;
use crate::runtime::{self, lock};
use crate::transport::authorizer::{Authorizer, Authorizers};

/// How long closing waits for what is still to be sent.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long giving the session up may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Who waits for an acknowledgement.
pub(super) type Waiter = oneshot::Sender<Result<(), McpError>>;

/// Everything that changes.
pub(super) struct Core {
    pub(super) position: Position,
    pub(super) queue: Queue<Waiter>,
    pub(super) filters: Filters,
    /// Permission questions that wait for an answer, by id.
    pub(super) questions: HashMap<String, oneshot::Sender<Result<String, McpError>>>,
    /// Sequence numbers of user messages that the host has not taken yet.
    pub(super) untaken: VecDeque<u64>,
    /// What listeners were told last.
    state: &'static str,
    started: bool,
    closing: bool,
    ended: Option<McpError>,
}

impl Core {
    /// The highest sequence number up to which everything has reached the host.
    pub(super) fn handled(&self) -> u64 {
        self.untaken.front().map_or(self.position.sequence(), |first| first.saturating_sub(1))
    }
}

/// What the tasks share.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) callbacks: Callbacks,
    pub(super) transport: Box<dyn Transport>,
    pub(super) core: Mutex<Core>,
    pub(super) instance: String,
    /// Whether we are registered, and under which epoch.
    pub(super) registered: watch::Sender<Option<u64>>,
    /// There is something to write.
    pub(super) work: Notify,
    /// Number of the stream that stands; whoever takes it away gives that one up, and no later one.
    pub(super) stream: watch::Sender<Option<u64>>,
    /// Nothing waits to be written any more.
    pub(super) idle: Notify,
    /// The first connection stands.
    connected: watch::Sender<bool>,
    over: watch::Sender<bool>,
}

/// A bridge.
pub struct Bridge {
    shared: Arc<Shared>,
}

impl Bridge {
    /// A bridge by its options (JSON text); nothing is opened yet. Call it on a thread that may read the environment.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`.
    pub fn new(options: &str, post: Arc<PostOffice>) -> Result<Self, McpError> {
        let options = Options::read(options)?;
        let environment = Arc::new(Environment::capture());
        let callbacks = Callbacks::new(post, options.callbacks.clone(), options.callback_limit);
        let tokens: Arc<dyn Authorizer> = Arc::new(Tokens::new(callbacks.clone()));
        let authorizers = Authorizers::new([tokens]);
        let limit = options.connect_limit;
        let requests = Arc::new(Requests::new(Arc::clone(&environment), authorizers.clone(), limit));
        let instance = ids::uuid();
        let transport: Box<dyn Transport> = match options.version {
            Version::V1 => Box::new(V1::new(&options, &instance, requests, authorizers, environment)?),
            Version::V2 => Box::new(V2::new(&options, &instance, requests)?),
        };
        Ok(Self::over(options, callbacks, instance, transport))
    }

    /// A bridge over a transport.
    pub(super) fn over(
        options: Options,
        callbacks: Callbacks,
        instance: String,
        transport: Box<dyn Transport>,
    ) -> Self {
        let core = Core {
            position: Position::behind(options.sequence),
            queue: Queue::new(options.max_queued),
            filters: Filters::new(options.dedupe_capacity),
            questions: HashMap::new(),
            untaken: VecDeque::new(),
            state: "idle",
            started: false,
            closing: false,
            ended: None,
        };
        let shared = Shared {
            options,
            callbacks,
            transport,
            core: Mutex::new(core),
            instance,
            registered: watch::Sender::new(None),
            work: Notify::new(),
            stream: watch::Sender::new(None),
            idle: Notify::new(),
            connected: watch::Sender::new(false),
            over: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Connects, once; later calls wait for the same connection.
    ///
    /// # Errors
    /// `BRIDGE_DISABLED` for an account that may not be controlled, with nothing done; whatever ends the bridge, which
    /// is its end: `BRIDGE_AUTH_FAILED`, `BRIDGE_PROTOCOL`, `BRIDGE_EPOCH`, `BRIDGE_CLOSED` after `connectTimeoutMs`.
    pub async fn connect(&self) -> Result<(), McpError> {
        let shared = &self.shared;
        if let Some(reason) = shared.options.account.as_ref().and_then(Account::disabled_reason) {
            return Err(McpError::new(ErrorCode::BridgeDisabled, reason));
        }
        shared.start();
        // One that was connected and has ended is connected no more.
        if let Some(ended) = lock(&shared.core).ended.clone() {
            return Err(ended);
        }
        let mut connected = shared.connected.subscribe();
        tokio::select! {
            biased;
            _ = connected.wait_for(|connected| *connected) => Ok(()),
            () = shared.over() => Err(shared.end_error()),
        }
    }

    /// Queues a message (JSON text of an object) in this very step; the future waits for its acknowledgement.
    pub fn send(&self, message: &str) -> impl Future<Output = Result<(), McpError>> + Send + use<> {
        let queued = self.queue(message);
        async move {
            match queued {
                Ok(acknowledged) => acknowledged.await.unwrap_or_else(|_| Err(broken())),
                Err(error) => Err(error),
            }
        }
    }

    fn queue(&self, message: &str) -> Result<oneshot::Receiver<Result<(), McpError>>, McpError> {
        let Some((uuid, message)) = message::with_uuid(message, &ids::uuid()) else {
            return Err(invalid("message.uuid", "expected a string of 1 to 256 bytes"));
        };
        let (waiter, acknowledged) = oneshot::channel();
        self.shared.push(&uuid, message, waiter)?;
        Ok(acknowledged)
    }

    /// Puts a permission question (JSON text of an object) to the other end and waits for the answer (JSON text).
    /// Dropping the future takes the question back.
    ///
    /// # Errors
    /// `BRIDGE_DISABLED` where nothing may come from outside, those of [`Bridge::send`], and whatever ends the bridge.
    pub fn ask_permission(
        &self,
        request: &str,
    ) -> impl Future<Output = Result<String, McpError>> + Send + use<> {
        let asked = self.ask(request);
        async move {
            let (open, acknowledged, answer) = asked?;
            // That it arrived says nothing yet; that it cannot arrive does.
            let acknowledging = async {
                match acknowledged.await {
                    Ok(Ok(())) | Err(_) => std::future::pending().await,
                    Ok(Err(error)) => error,
                }
            };
            let answered = tokio::select! {
                biased;
                answer = answer => answer.unwrap_or_else(|_| Err(broken())),
                error = acknowledging => Err(error),
            };
            drop(open);
            answered
        }
    }

    #[expect(clippy::type_complexity, reason = "the parts of one question, named where they are taken apart")]
    fn ask(
        &self,
        request: &str,
    ) -> Result<
        (OpenQuestion, oneshot::Receiver<Result<(), McpError>>, oneshot::Receiver<Result<String, McpError>>),
        McpError,
    > {
        let shared = &self.shared;
        if shared.options.outbound_only {
            let message = "this bridge only sends (outboundOnly): nobody can answer a question";
            return Err(McpError::new(ErrorCode::BridgeDisabled, message));
        }
        let (id, uuid) = (ids::uuid(), ids::uuid());
        let (answer, answered) = oneshot::channel();
        let (waiter, acknowledged) = oneshot::channel();
        {
            let mut core = lock(&shared.core);
            if core.questions.len() >= shared.options.max_queued {
                return Err(crowded(shared.options.max_queued));
            }
            // Before it is sent: the answer may be quick.
            core.questions.insert(id.clone(), answer);
        }
        let question = message::permission_question(&uuid, &id, request);
        if let Err(error) = shared.push(&uuid, question, waiter) {
            lock(&shared.core).questions.remove(&id);
            return Err(error);
        }
        Ok((OpenQuestion { shared: Arc::clone(shared), id }, acknowledged, answered))
    }

    /// Sends what is queued, for a moment, gives the session up and ends.
    pub async fn close(&self) {
        let shared = &self.shared;
        let (first, started) = {
            let mut core = lock(&shared.core);
            (!std::mem::replace(&mut core.closing, true), core.started)
        };
        if !first {
            return shared.over().await;
        }
        // Without a connection there may still be one; where nobody has asked for any, there is none.
        if started {
            tokio::select! {
                _ = tokio::time::timeout(LAST_WORDS, shared.all_sent()) => {}
                () = shared.over() => return,
            }
        }
        let epoch = *shared.registered.borrow();
        if let Some(epoch) = epoch {
            let _ = tokio::time::timeout(GOODBYE, shared.transport.disconnect(epoch)).await;
        }
        shared.end(&McpError::new(ErrorCode::BridgeClosed, "the bridge was closed"), None);
    }

    #[cfg(test)]
    pub(super) fn reply(&self, answer: String) {
        self.shared.reply(answer);
    }

    /// Ends at once, without a word to the other end.
    pub fn abandon(&self) {
        self.shared.end(&McpError::new(ErrorCode::BridgeClosed, "the bridge was given up"), None);
    }

    /// Sequence number up to which everything has reached the host.
    pub fn sequence(&self) -> u64 {
        lock(&self.shared.core).handled()
    }

    /// The epoch of the registration; 0 before the first, and in v1.
    pub fn epoch(&self) -> u64 {
        lock(&self.shared.core).position.epoch()
    }
}

fn broken() -> McpError {
    McpError::new(ErrorCode::Internal, "the bridge ended without an answer")
}

fn crowded(most: usize) -> McpError {
    let message = format!(
        "{most} messages wait to be sent already (maxQueuedMessages), or 64 MiB of them: wait for some"
    );
    McpError::new(ErrorCode::TransportBackpressure, message)
}

/// A question that is taken back when nobody waits for its answer any more.
struct OpenQuestion {
    shared: Arc<Shared>,
    id: String,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if lock(&self.shared.core).questions.remove(&self.id).is_some() {
            self.shared.reply(message::withdrawal(&ids::uuid(), &self.id));
        }
    }
}

impl Shared {
    fn start(self: &Arc<Self>) {
        {
            let mut core = lock(&self.core);
            if core.started || core.closing || core.ended.is_some() {
                return;
            }
            core.started = true;
        }
        self.show("connecting", None);
        let (users, waiting_users) = mpsc::channel(self.options.max_queued);
        let (controls, waiting_controls) = mpsc::channel(super::inbound::CONTROLS);
        self.spawn(|shared| async move { shared.hand_users_on(waiting_users).await });
        self.spawn(|shared| async move { shared.hand_controls_on(waiting_controls).await });
        self.spawn(|shared| async move { shared.read(&Lanes { users, controls }).await });
        self.spawn(|shared| async move { shared.write().await });
        self.spawn(|shared| async move { shared.keep_lease().await });
    }

    /// Completes when nothing waits to be written.
    async fn all_sent(&self) {
        loop {
            let idle = self.idle.notified();
            if lock(&self.core).queue.is_empty() {
                return;
            }
            idle.await;
        }
    }

    /// A task that ends with the bridge.
    pub(super) fn spawn<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        task: impl FnOnce(Arc<Self>) -> F,
    ) {
        let work = task(Arc::clone(self));
        let shared = Arc::clone(self);
        runtime::spawn(async move {
            tokio::select! {
                biased;
                () = shared.over() => {}
                () = work => {}
            }
        });
    }

    /// Queues a message of the host.
    fn push(&self, uuid: &str, message: String, waiter: Waiter) -> Result<(), McpError> {
        if message.len() > self.options.max_message {
            let most = self.options.max_message;
            let message =
                format!("the message has {} bytes, more than {most} (maxMessageBytes)", message.len());
            return Err(McpError::new(ErrorCode::MessageTooLarge, message));
        }
        let mut core = lock(&self.core);
        if let Some(ended) = &core.ended {
            return Err(ended.clone());
        }
        if core.closing {
            return Err(McpError::new(ErrorCode::BridgeClosed, "the bridge is being closed"));
        }
        let pushed = core.queue.push(message, Some(waiter), Origin::Host);
        pushed.map_err(|_| crowded(self.options.max_queued))?;
        core.filters.sent(uuid);
        drop(core);
        self.work.notify_one();
        Ok(())
    }

    /// Queues an answer of ours; one that finds no room is told, and so is one that is too large.
    pub(super) fn reply(&self, answer: String) {
        let large = answer.len() > self.options.max_message;
        let answer =
            if large { self.instead_of(&answer, "may be sent (maxMessageBytes)") } else { Some(answer) };
        let Some(answer) = answer else { return };
        let pushed = {
            let mut core = lock(&self.core);
            if core.ended.is_some() {
                return;
            }
            core.queue.push(answer, None, Origin::Reply)
        };
        match pushed {
            Ok(()) => self.work.notify_one(),
            Err(_) => self.callbacks.tell(&Diagnostic::error(
                "BRIDGE_REPLY_DROPPED",
                "an answer to the other end was dropped: too much waits to be sent",
            )),
        }
    }

    /// Tells listeners of a state that is new to them; while closing, only of the end.
    pub(super) fn show(&self, state: &'static str, reason: Option<&str>) {
        let mut core = lock(&self.core);
        if core.ended.is_none() && !core.closing && core.state != state {
            core.state = state;
            self.callbacks.state(state, reason);
        }
    }

    /// A connection stands.
    pub(super) fn connection_stands(&self) {
        self.show("connected", None);
        self.connected.send_replace(true);
    }

    /// Whether there has been a connection.
    pub(super) fn was_connected(&self) -> bool {
        *self.connected.borrow()
    }

    /// Who we are at the other end.
    pub(super) fn claim(&self) -> Claim {
        let core = lock(&self.core);
        Claim {
            instance: self.instance.clone(),
            epoch: core.position.epoch(),
            next: core.queue.next(),
            from: core.position.next(),
            heartbeat: self.options.heartbeat,
        }
    }

    /// The one end of the bridge: everybody who waits hears of it.
    pub(super) fn end(&self, error: &McpError, reason: Option<&str>) {
        let (waiters, questions) = {
            let mut core = lock(&self.core);
            if core.ended.is_some() {
                return;
            }
            core.ended = Some(error.clone());
            core.state = "closed";
            self.callbacks.state("closed", reason);
            (core.queue.drain(), std::mem::take(&mut core.questions))
        };
        self.registered.send_replace(None);
        self.over.send_replace(true);
        for waiter in waiters {
            let _ = waiter.send(Err(error.clone()));
        }
        for (_, question) in questions {
            let _ = question.send(Err(error.clone()));
        }
    }

    /// Ends with an error that is nobody's wish.
    pub(super) fn fail(&self, error: &McpError) {
        self.end(error, Some(error.message()));
    }

    /// Completes at the end of the bridge.
    pub(super) async fn over(&self) {
        let mut over = self.over.subscribe();
        // The sender lives as long as this.
        let _ = over.wait_for(|over| *over).await;
    }

    fn end_error(&self) -> McpError {
        lock(&self.core).ended.clone().unwrap_or_else(broken)
    }
}
