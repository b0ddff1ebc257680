//! The one task that owns a connection's state. It asks `state::step` what to do and does it; attempts and
//! closings run beside it, so that it always answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::attempt::{self, Failure};
use super::state::{Effect, Event, State, step};
use super::subscriptions::{self, Listening};
use super::{Command, Live, Readiness, Shared, Wish, leftovers, lists, liveness};
use crate::client::Client;
use crate::config::spec::TransportSpec;
use crate::error::{ErrorCode, McpError};
use crate::runtime::random_jitter;
use crate::runtime::{self, write};
use crate::transport::CloseMode;

/// How long `connect()` waits for the lists of a server that has answered its handshake.
const LIST_PATIENCE: Duration = Duration::from_secs(3);

type Opening = tokio::task::JoinHandle<Result<Live, Failure>>;

struct Attempt {
    task: Opening,
    abandon: Option<oneshot::Sender<()>>,
    /// Given up: its outcome no longer counts, but its end is awaited.
    abandoned: bool,
}

/// A question whether the server of a generation is there.
struct Probe {
    task: tokio::task::JoinHandle<Result<(), McpError>>,
    generation: u64,
}

struct Supervisor {
    shared: Arc<Shared>,
    publish: watch::Sender<Readiness>,
    state: State,
    generation: u64,
    live: Option<Live>,
    /// What listens for the current client.
    listening: Option<Listening>,
    attempt: Option<Attempt>,
    /// Whoever wants the attempt wants all servers: one that asked for a login in vain is left alone.
    casual: bool,
    /// An attempt has to start as soon as what is in its way has ended.
    open_next: bool,
    /// Who waits for the end of the attempt under way and its lists.
    waiting: Vec<oneshot::Sender<Result<(), McpError>>>,
    listed: bool,
    /// When the last probe began: the next one is not due before its time has passed again.
    not_before: Instant,
    close_reason: McpError,
    /// How clients are ended; closings under way hear of a stronger order (STD-04).
    close_mode: watch::Sender<CloseMode>,
    /// Asks the current client whether its server is there.
    probe: Option<Probe>,
    /// Closings of clients under way; each is bounded.
    closings: Vec<tokio::task::JoinHandle<()>>,
    /// Who waits until nothing of earlier connections is left.
    leaving: Vec<oneshot::Sender<()>>,
}

/// Starts the task. It ends with `Close`, when nothing is left of the connection.
pub(super) fn start(
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Command>,
    publish: watch::Sender<Readiness>,
    enabled: bool,
) {
    let supervisor = Supervisor {
        state: if enabled { State::Idle } else { State::Disabled },
        shared,
        publish,
        generation: 0,
        live: None,
        listening: None,
        attempt: None,
        casual: false,
        open_next: false,
        waiting: Vec::new(),
        listed: false,
        not_before: Instant::now(),
        close_reason: let_go(),
        close_mode: watch::Sender::new(CloseMode::Graceful),
        probe: None,
        closings: Vec::new(),
        leaving: Vec::new(),
    };
    runtime::spawn(supervisor.run(inbox));
}

fn let_go() -> McpError {
    McpError::new(ErrorCode::ConnectionLost, "the host closed the connection")
}

impl Supervisor {
    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        self.publish_state(None);
        loop {
            let timer = match &self.state {
                State::Waiting { until, .. } => Some(*until),
                State::Failed { retry_at, trips: 1.., .. } => Some(*retry_at),
                _ => None,
            };
            let quiet = self.next_probe();
            tokio::select! {
                // It never ends: what all parts share holds a sender.
                Some(command) = inbox.recv() => self.obey(command),
                outcome = finished(&mut self.attempt) => self.attempt_ended(outcome),
                () = first_ended(&mut self.closings) => drop(self.closings.remove(0)),
                () = sleep_until(timer) => self.happen(Event::Timer),
                outcome = probed(&mut self.probe) => self.probed(outcome),
                () = sleep_until(quiet) => self.probe(false),
            }
            if self.open_next {
                self.open();
            }
            if self.is_reaped() {
                let over = matches!(self.state, State::Closed);
                if over {
                    self.shared.listener.catalog_changed();
                }
                for reply in self.leaving.drain(..) {
                    let _ = reply.send(());
                }
                if over {
                    return;
                }
            }
        }
    }

    /// Whether nothing is left of what was given up.
    fn is_reaped(&self) -> bool {
        self.closings.is_empty() && !self.attempt.as_ref().is_some_and(|attempt| attempt.abandoned)
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Use => self.happen(Event::Use),
            Command::Connect { wish, reply } => self.connect(wish, reply),
            Command::Release { reply } => {
                self.happen(Event::Release);
                self.leaving.push(reply);
            }
            Command::Enable { enabled, reply } => {
                self.happen(if enabled { Event::Enable } else { Event::Disable });
                if enabled {
                    let _ = reply.send(());
                } else {
                    self.leaving.push(reply);
                }
            }
            Command::Lost { generation, error } => {
                if self.live.as_ref().is_some_and(|live| live.generation == generation) {
                    let error = self.shared.redact_error(error);
                    self.happen(Event::Lost(error));
                }
            }
            Command::Tripped { generation, error } => {
                if self.live.as_ref().is_some_and(|live| live.generation == generation) {
                    let error = self.shared.redact_error(error);
                    self.happen(Event::Tripped(error));
                }
            }
            Command::Wake => {
                self.happen(Event::Wake);
                // A dead connection answers nobody: those who wait for it learn it now.
                self.probe(true);
            }
            Command::Listed { generation } => {
                if self.live.as_ref().is_some_and(|live| live.generation == generation) {
                    self.listed = true;
                    self.answer_waiting(&Ok(()));
                }
            }
            Command::Close { mode, reason, reply } => {
                self.close(mode, reason);
                self.leaving.push(reply);
            }
        }
    }

    fn connect(&mut self, wish: Wish, reply: oneshot::Sender<Result<(), McpError>>) {
        let fresh = wish == Wish::Fresh;
        match &self.state {
            State::Ready { .. } if !fresh && self.listed => {
                let _ = reply.send(Ok(()));
                return;
            }
            State::Ready { .. } | State::Opening { .. } if !fresh => {}
            State::Disabled => {
                let error = McpError::new(ErrorCode::ServerDisabled, "the server is switched off");
                let _ = reply.send(Err(error.on(&self.shared.spec.name)));
                return;
            }
            State::Closed => {
                let _ = reply.send(Err(self.close_reason.clone()));
                return;
            }
            _ => {
                self.casual = wish == Wish::Start;
                self.happen(Event::Open);
                self.casual = false;
            }
        }
        self.waiting.push(reply);
    }

    /// Takes a step and carries its effects out.
    fn happen(&mut self, event: Event) {
        let before = self.state.clone();
        let reason = match &event {
            Event::Lost(error) | Event::Tripped(error) | Event::OpenFailed(_, error) => Some(error.clone()),
            _ => None,
        };
        let (state, effects) =
            step(before.clone(), event, Instant::now(), self.shared.settings.backoff, random_jitter());
        self.state = state;
        for effect in effects {
            match effect {
                Effect::CloseClient => self.close_client(),
                Effect::AbandonOpening => self.abandon(),
                Effect::Open => self.open(),
            }
        }
        self.publish_state(Some(&before));
        self.settle_waiting(reason);
    }

    /// Whoever waits for an attempt hears of its failure; success is told when the lists are there.
    fn settle_waiting(&mut self, reason: Option<McpError>) {
        let failure = match &self.state {
            State::Opening { .. } | State::Ready { .. } => return,
            State::Waiting { error, .. } | State::Failed { error, .. } | State::NeedsAuth { error } => {
                error.clone()
            }
            State::Disabled => McpError::new(ErrorCode::ServerDisabled, "the server is switched off"),
            State::Idle | State::Closed => reason.unwrap_or_else(|| self.close_reason.clone()),
        };
        self.answer_waiting(&Err(failure.on(&self.shared.spec.name)));
    }

    fn answer_waiting(&mut self, answer: &Result<(), McpError>) {
        for reply in self.waiting.drain(..) {
            let _ = reply.send(answer.clone());
        }
    }

    fn open(&mut self) {
        // One attempt at a time, and no process beside the one that it follows (A3).
        let is_process = matches!(self.shared.spec.transport, TransportSpec::Stdio(_));
        self.open_next = self.attempt.is_some() || (is_process && !self.closings.is_empty());
        if self.open_next {
            return;
        }
        self.generation += 1;
        let (abandon, abandoned) = oneshot::channel();
        let attempt = attempt::open(Arc::clone(&self.shared), self.generation, self.casual, abandoned);
        self.attempt =
            Some(Attempt { task: tokio::spawn(attempt), abandon: Some(abandon), abandoned: false });
    }

    fn abandon(&mut self) {
        self.open_next = false;
        if let Some(attempt) = &mut self.attempt {
            attempt.abandoned = true;
            // Dropping the sender ends the attempt as well.
            drop(attempt.abandon.take());
        }
    }

    fn attempt_ended(&mut self, outcome: Result<Live, Failure>) {
        let abandoned = self.attempt.take().is_some_and(|attempt| attempt.abandoned);
        match outcome {
            Ok(live) if abandoned => self.dismiss(&live),
            Err(_) if abandoned => {}
            Ok(live) => {
                self.shared.health.hear();
                self.live = Some(live.clone());
                self.listed = false;
                self.happen(Event::Opened);
                self.listening = subscriptions::bring(&self.shared, &live);
                self.fetch_lists(live);
            }
            Err((kind, error)) => self.happen(Event::OpenFailed(kind, error)),
        }
    }

    fn fetch_lists(&self, live: Live) {
        let shared = Arc::clone(&self.shared);
        runtime::spawn(async move {
            let generation = live.generation;
            let lists = lists::prefetch(&shared, &live);
            tokio::pin!(lists);
            // Lists that do not come hold nobody up; they are still taken when they do (L1).
            let in_time = tokio::time::timeout(LIST_PATIENCE, &mut lists).await;
            shared.listener.catalog_changed();
            let _ = shared.commands.send(Command::Listed { generation }).await;
            if in_time.is_err() {
                lists.await;
                shared.listener.catalog_changed();
            }
        });
    }

    /// When the current client is asked whether its server is there, if ever (LIF-07).
    fn next_probe(&self) -> Option<Instant> {
        let live = self.live.as_ref().filter(|_| self.probe.is_none())?;
        let pinged = liveness::needs_pings(&self.shared.spec.transport, live.client.era());
        let quiet = self.shared.settings.pulse.quiet;
        pinged.then(|| self.shared.health.last_heard().max(self.not_before) + quiet)
    }

    /// Asks now; `silence_counts` also of a server that is at work.
    fn probe(&mut self, silence_counts: bool) {
        let Some(live) = self.live.clone().filter(|_| self.probe.is_none()) else { return };
        // A server that wants to be left alone is: a ping would wait with everything else, and its clock run (F-047).
        let paused = live.client.transport().paused_until();
        self.not_before = paused.unwrap_or_else(Instant::now);
        if paused.is_some() {
            return;
        }
        let generation = live.generation;
        let task = tokio::spawn(liveness::probe(Arc::clone(&self.shared), live, silence_counts));
        self.probe = Some(Probe { task, generation });
    }

    fn probed(&mut self, outcome: Result<(), McpError>) {
        let generation = self.probe.take().map(|probe| probe.generation);
        if let (Err(error), Some(live)) = (outcome, &self.live)
            && generation == Some(live.generation)
        {
            let error = self.shared.redact_error(error);
            self.happen(Event::Lost(error));
        }
    }

    fn close_client(&mut self) {
        self.listening = None;
        if let Some(probe) = self.probe.take() {
            probe.task.abort();
        }
        if let Some(live) = self.live.take() {
            self.dismiss(&live);
        }
    }

    fn dismiss(&mut self, live: &Live) {
        let (shared, client) = (Arc::clone(&self.shared), Arc::clone(&live.client));
        let (mode, reason) = (self.close_mode.subscribe(), self.close_reason.clone().on(&shared.spec.name));
        self.closings.push(tokio::spawn(async move {
            end_client(&client, mode, reason).await;
            leftovers::tell_survivors(&shared, client.transport().as_ref());
        }));
    }

    /// Ends the connection for good. Whoever asks again may hasten what is under way; the first reason counts.
    fn close(&mut self, mode: CloseMode, reason: McpError) {
        self.close_mode.send_if_modified(|present| {
            let stronger = *present < mode;
            *present = mode.max(*present);
            stronger
        });
        if !matches!(self.state, State::Closed) {
            self.close_reason = reason.on(&self.shared.spec.name);
            self.happen(Event::Close);
        }
    }

    /// Publishes the state to callers and people; a change of the public state is an event.
    fn publish_state(&mut self, before: Option<&State>) {
        let readiness = match &self.state {
            State::Idle => Readiness::Idle,
            State::Opening { .. } | State::Waiting { .. } => Readiness::Coming,
            State::Ready { .. } => self.live.clone().map_or(Readiness::Coming, Readiness::Ready),
            State::Failed { error, retry_at, .. } => {
                Readiness::Unavailable { error: error.clone(), retry_at: Some(*retry_at) }
            }
            State::NeedsAuth { error } => Readiness::Unavailable { error: error.clone(), retry_at: None },
            State::Disabled => Readiness::Unavailable {
                error: McpError::new(ErrorCode::ServerDisabled, "the server is switched off"),
                retry_at: None,
            },
            State::Closed => Readiness::Closed { reason: self.close_reason.clone() },
        };
        let changed = {
            let mut view = write(&self.shared.view);
            view.update(&self.state, self.live.as_ref())
        };
        self.publish.send_replace(readiness);
        if let (Some(from), Some(_)) = (changed, before) {
            self.shared.emit_status(from);
            if let State::NeedsAuth { error } = &self.state {
                self.shared.emit_auth_required(error);
            }
            self.shared.listener.catalog_changed();
        }
    }
}

/// The outcome of the attempt under way; never, if there is none.
async fn finished(attempt: &mut Option<Attempt>) -> Result<Live, Failure> {
    match attempt {
        None => std::future::pending().await,
        Some(attempt) => (&mut attempt.task).await.unwrap_or_else(|_| {
            let error = McpError::new(ErrorCode::Internal, "the attempt to connect broke");
            Err((super::state::FailureKind::Passing, error))
        }),
    }
}

/// Ends a client, sooner when a stronger order comes meanwhile.
async fn end_client(client: &Client, mut mode: watch::Receiver<CloseMode>, reason: McpError) {
    let first = *mode.borrow_and_update();
    tokio::select! {
        biased;
        () = client.close(first, reason.clone()) => return,
        Ok(()) = mode.changed() => {}
    }
    let stronger = *mode.borrow();
    client.close(stronger, reason).await;
}

/// The end of the first closing; never, if there is none.
async fn first_ended(closings: &mut [tokio::task::JoinHandle<()>]) {
    match closings.first_mut() {
        None => std::future::pending().await,
        // One that broke has ended too.
        Some(closing) => drop(closing.await),
    }
}

/// The outcome of the probe under way; never, if there is none.
async fn probed(probe: &mut Option<Probe>) -> Result<(), McpError> {
    match probe {
        None => std::future::pending().await,
        // One that broke proves nothing.
        Some(probe) => (&mut probe.task).await.unwrap_or(Ok(())),
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
