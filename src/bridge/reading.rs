//! The task that registers, reads and reconnects.

use std::time::Duration;

use tokio::time::Instant;

use super::inbound::Lanes;
use super::position::Verdict;
use super::requests::{Failure, protocol};
use super::session::Shared;
use super::transport::{Inbox, Word};
use super::wire::Envelope;
use super::writing::settle;
use crate::connection::backoff::Backoff;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError};
use crate::runtime::{lock, random_jitter};

/// Pauses between attempts; when to give up is a matter of time, not of attempts.
pub(super) const PAUSES: Backoff =
    Backoff { attempts: u32::MAX, initial: Duration::from_millis(500), longest: Duration::from_secs(30) };

/// The pause after so many failures in a row; the other end may ask for a longer one.
pub(super) fn pause(tries: u32, asked: Option<Duration>) -> Duration {
    let own = PAUSES.delay(tries, random_jitter()).unwrap_or(PAUSES.longest);
    asked.map_or(own, |asked| asked.max(own))
}

/// A connection that lasts this long is a success, whatever came over it.
const PROVEN_AFTER: Duration = Duration::from_secs(10);

/// Why a stream is left.
enum Leave {
    /// It failed.
    Failed(Failure),
    /// Something is missing: it is asked for at once.
    AskAgain,
    /// The lease was lost, or the other end does not answer signs of life.
    Kicked,
}

impl Shared {
    /// Reads until the bridge ends.
    pub(super) async fn read(self: &std::sync::Arc<Self>, lanes: &Lanes) {
        let mut down_since = Instant::now();
        let mut tries = 0;
        for number in 1_u64.. {
            let left = match self.open().await {
                Ok((epoch, mut inbox)) => {
                    self.stream.send_replace(Some(number));
                    self.connection_stands();
                    let opened = Instant::now();
                    let (left, proven) = self.listen(epoch, inbox.as_mut(), lanes).await;
                    self.stream.send_replace(None);
                    if proven || opened.elapsed() > PROVEN_AFTER {
                        (tries, down_since) = (0, Instant::now());
                    }
                    left
                }
                Err(failure) => Leave::Failed(failure),
            };
            let (error, asked) = match left {
                Leave::AskAgain => continue,
                Leave::Kicked => {
                    (McpError::new(ErrorCode::ConnectionLost, "the relay does not keep us any more"), None)
                }
                Leave::Failed(Failure::Again(error, asked)) => (error, asked),
                Leave::Failed(Failure::Lost(error)) => {
                    self.registered.send_replace(None);
                    (error, None)
                }
                Leave::Failed(Failure::TooLarge(error)) => return self.fail(&protocol(error.message())),
                Leave::Failed(Failure::Superseded(error) | Failure::Fatal(error)) => {
                    return self.fail(&error);
                }
            };
            tries += 1;
            let delay = pause(tries, asked);
            let limit = self.patience();
            if down_since.elapsed() + delay > limit {
                return self.fail(&out_of_patience(limit, error));
            }
            if self.was_connected() {
                self.show("reconnecting", Some(error.message()));
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// How long we try without success before we give up.
    pub(super) fn patience(&self) -> Duration {
        if self.was_connected() { self.options.reconnect_limit } else { self.options.connect_limit }
    }

    /// Registers where that is to be done, and opens the stream; gives the epoch it belongs to.
    async fn open(&self) -> Result<(u64, Box<dyn Inbox>), Failure> {
        let known = *self.registered.borrow();
        let epoch = match known {
            Some(epoch) => epoch,
            None => self.register().await?,
        };
        let from = lock(&self.core).position.next();
        Ok((epoch, self.transport.connect(epoch, from).await?))
    }

    async fn register(&self) -> Result<u64, Failure> {
        let registered = self.transport.register(&self.claim()).await?;
        let acknowledged = {
            let mut core = lock(&self.core);
            core.position.registered(registered.epoch);
            core.queue.acknowledge(registered.acknowledged)
        };
        settle(acknowledged).map_err(Failure::Fatal)?;
        self.registered.send_replace(Some(registered.epoch));
        Ok(registered.epoch)
    }

    /// Completes when the stream that stands is to be left: it was given up, or what it belongs to is over.
    async fn given_up(&self, epoch: u64) {
        let (mut stream, mut registered) = (self.stream.subscribe(), self.registered.subscribe());
        tokio::select! {
            _ = stream.wait_for(Option::is_none) => {}
            _ = registered.wait_for(|now| *now != Some(epoch)) => {}
        }
    }

    /// Reads one stream; gives why it is left, and whether anything came at all.
    async fn listen(
        self: &std::sync::Arc<Self>,
        epoch: u64,
        inbox: &mut dyn Inbox,
        lanes: &Lanes,
    ) -> (Leave, bool) {
        let mut proven = false;
        let mut noticed = Noticed::default();
        let given_up = self.given_up(epoch);
        tokio::pin!(given_up);
        loop {
            let word = tokio::select! {
                biased;
                () = &mut given_up => return (Leave::Kicked, proven),
                word = inbox.next() => word,
            };
            let heard = match word {
                Ok(word) => {
                    proven = true;
                    self.hear(word, &mut noticed, lanes).await
                }
                Err(failure) => Err(Leave::Failed(failure)),
            };
            if let Err(leave) = heard {
                return (leave, proven);
            }
        }
    }

    /// Takes one word; why the stream is left, where it is.
    async fn hear(
        self: &std::sync::Arc<Self>,
        word: Word,
        noticed: &mut Noticed,
        lanes: &Lanes,
    ) -> Result<(), Leave> {
        match word {
            Word::Alive => {}
            Word::Message(text) => {
                let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(&text) else {
                    let error = protocol("the relay sends a message without envelope");
                    return Err(Leave::Failed(Failure::Fatal(error)));
                };
                let message = envelope.message.get();
                if !self.judge(envelope.epoch, envelope.sequence, noticed)? {
                    return Ok(());
                }
                if message.len() > self.options.max_message {
                    self.tell_too_large(Some(message.len() as u64));
                } else {
                    self.take(envelope.sequence, message, lanes).await;
                }
            }
            // It counts as taken, so that it does not come again and again. They come in order: one whose number
            // cannot be read is the next.
            Word::TooLong { sequence, length } => {
                let (epoch, next) = {
                    let core = lock(&self.core);
                    (core.position.epoch(), core.position.next())
                };
                if self.judge(epoch, sequence.unwrap_or(next), noticed)? {
                    self.tell_too_large(length);
                }
            }
        }
        Ok(())
    }

    /// Whether a message is to be taken, by its numbers; tells what is odd about them.
    fn judge(&self, epoch: u64, sequence: u64, noticed: &mut Noticed) -> Result<bool, Leave> {
        let verdict = lock(&self.core).position.judge(epoch, sequence);
        match verdict {
            Verdict::Take => Ok(true),
            Verdict::TakeAfterLoss { lost } => {
                let message =
                    format!("{lost} messages before number {sequence} are lost: the relay has them no more");
                self.callbacks.tell(&Diagnostic::error("BRIDGE_MESSAGES_LOST", message));
                Ok(true)
            }
            Verdict::AskAgain => {
                let message = format!("messages before number {sequence} are missing and asked for");
                self.callbacks.tell(&Diagnostic::warning("BRIDGE_GAP", message));
                Err(Leave::AskAgain)
            }
            Verdict::Repeat => {
                self.notice(&mut noticed.repeat, "BRIDGE_REPEATED", "repeats what was taken");
                Ok(false)
            }
            Verdict::Stale => {
                self.notice(
                    &mut noticed.stale,
                    "BRIDGE_STALE",
                    "sends what belongs to an earlier registration",
                );
                Ok(false)
            }
            Verdict::Superseded => {
                let message = "another instance has taken the session over";
                Err(Leave::Failed(Failure::Fatal(McpError::new(ErrorCode::BridgeEpoch, message))))
            }
        }
    }

    /// Tells what is odd about a connection, once.
    fn notice(&self, told: &mut bool, code: &'static str, what: &str) {
        if !std::mem::replace(told, true) {
            let message = format!("the relay {what}; it is ignored, and told once for each connection");
            self.callbacks.tell(&Diagnostic::info(code, message));
        }
    }

    fn tell_too_large(&self, length: Option<u64>) {
        let most = self.options.max_message;
        let length = length.map(|length| format!(" of {length} bytes")).unwrap_or_default();
        let message = format!("a message{length} was dropped: more than {most} bytes (maxMessageBytes)");
        self.callbacks.tell(&Diagnostic::error("BRIDGE_MESSAGE_TOO_LARGE", message));
    }
}

/// The error after trying in vain for too long.
pub(super) fn out_of_patience(limit: Duration, cause: McpError) -> McpError {
    let message =
        format!("the relay could not be reached within {} ms: {}", limit.as_millis(), cause.message());
    McpError::new(ErrorCode::BridgeClosed, message).caused_by(cause)
}

/// What was told of a connection, so that nothing is told twice.
#[derive(Default)]
struct Noticed {
    repeat: bool,
    stale: bool,
}
