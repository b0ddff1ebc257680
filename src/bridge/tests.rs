//! How the parts keep their promises together: against a model of a relay, over connections that fail anywhere.

mod tasks;

use proptest::prelude::*;

use super::message::{Filters, Passage};
use super::position::{Position, Verdict};
use super::queue::{Origin, Queue};

/// One step of the world.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Somebody says something to the agent.
    Say,
    /// The agent has something to send.
    Send,
    /// The stream is opened, from where the agent stands.
    Open,
    /// Its next message arrives.
    Arrive,
    /// A message arrives that was there before, so many back.
    Repeat(u64),
    /// A message is skipped on the way.
    Skip,
    /// What arrives belongs to an earlier registration.
    Late,
    /// The connection is cut.
    Cut,
    /// Messages are written, at most so many; whether the request and the answer arrive.
    Write { most: usize, request: bool, answer: bool },
    /// The relay has forgotten the registration, and the agent registers anew.
    Register,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Say),
        3 => Just(Step::Send),
        2 => Just(Step::Open),
        6 => Just(Step::Arrive),
        1 => (1_u64..5).prop_map(Step::Repeat),
        1 => Just(Step::Skip),
        1 => Just(Step::Late),
        1 => Just(Step::Cut),
        4 => (1_usize..5, any::<bool>(), any::<bool>())
            .prop_map(|(most, request, answer)| Step::Write { most, request, answer }),
        1 => Just(Step::Register),
    ]
}

/// The relay by the protocol's words.
#[derive(Default)]
struct Relay {
    epoch: u64,
    said: u64,
    /// Numbers of the agent's messages as they were taken.
    taken: Vec<u64>,
}

impl Relay {
    fn write(&mut self, first: u64, messages: &[u64]) -> u64 {
        let acknowledged = self.taken.len() as u64;
        if first <= acknowledged + 1 {
            let known = usize::try_from(acknowledged + 1 - first).unwrap();
            self.taken.extend(messages.iter().skip(known));
        }
        self.taken.len() as u64
    }
}

struct World {
    relay: Relay,
    position: Position,
    queue: Queue<u64>,
    filters: Filters,
    /// Place of the open stream.
    stream: Option<u64>,
    sent: u64,
    received: Vec<u64>,
    acknowledged: Vec<u64>,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            relay: Relay::default(),
            position: Position::default(),
            queue: Queue::new(10_000),
            filters: Filters::new(64),
            stream: None,
            sent: 0,
            received: Vec::new(),
            acknowledged: Vec::new(),
        };
        world.register();
        world
    }

    fn register(&mut self) {
        self.relay.epoch += 1;
        self.position.registered(self.relay.epoch);
        self.acknowledged.extend(self.queue.acknowledge(self.relay.taken.len() as u64).unwrap());
        self.stream = None;
    }

    fn deliver(&mut self, epoch: u64, number: u64) -> Verdict {
        let verdict = self.position.judge(epoch, number);
        match verdict {
            Verdict::Take => {
                assert_eq!(self.filters.judge(Some(&format!("user {number}"))), Passage::Deliver);
                self.received.push(number);
            }
            Verdict::AskAgain => self.stream = None,
            Verdict::Repeat | Verdict::Stale => {}
            Verdict::Superseded | Verdict::TakeAfterLoss { .. } => panic!("{verdict:?} of {number}"),
        }
        verdict
    }

    fn write(&mut self, most: usize, request: bool, answer: bool) {
        let Some(batch) = self.queue.batch(most, 1_000) else { return };
        if !request {
            return;
        }
        let messages: Vec<u64> = serde_json::from_str(&batch.messages).unwrap();
        let acknowledged = self.relay.write(batch.first, &messages);
        if answer {
            self.acknowledged.extend(self.queue.acknowledge(acknowledged).unwrap());
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Say => self.relay.said += 1,
            Step::Send => {
                self.sent += 1;
                self.filters.sent(&format!("own {}", self.sent));
                self.queue.push(self.sent.to_string(), Some(self.sent), Origin::Host).unwrap();
            }
            Step::Open => self.stream = Some(self.position.next()),
            Step::Arrive => {
                if let Some(next) = self.stream.filter(|next| *next <= self.relay.said) {
                    self.stream = Some(next + 1);
                    self.deliver(self.relay.epoch, next);
                }
            }
            Step::Repeat(back) => {
                if let Some(number) = self.position.sequence().checked_sub(back).filter(|number| *number > 0)
                {
                    assert_eq!(self.deliver(self.relay.epoch, number), Verdict::Repeat);
                }
            }
            Step::Skip => {
                let next = self.stream.filter(|next| *next < self.relay.said);
                // A relay that was asked again for the same place has nothing left to skip.
                let mut trial = self.position.clone();
                if let Some(next) = next
                    && trial.judge(self.relay.epoch, next + 1) == Verdict::AskAgain
                {
                    assert_eq!(self.deliver(self.relay.epoch, next + 1), Verdict::AskAgain);
                }
            }
            Step::Late => {
                let number = self.position.next();
                assert_eq!(self.deliver(self.relay.epoch - 1, number), Verdict::Stale);
            }
            Step::Cut => self.stream = None,
            Step::Write { most, request, answer } => self.write(most, request, answer),
            Step::Register => self.register(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn brg_05_nothing_lost_nothing_doubled_order_kept_whatever_is_cut(
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut world = World::new();
        for each in steps {
            world.step(each);
            // At every moment what has arrived is a beginning of what was sent, in either direction.
            prop_assert!(world.received.iter().copied().eq(1..=world.received.len() as u64));
            prop_assert!(world.relay.taken.iter().copied().eq(1..=world.relay.taken.len() as u64));
            prop_assert!(world.acknowledged.len() <= world.relay.taken.len());
        }
        world.step(Step::Open);
        while world.position.sequence() < world.relay.said {
            world.step(Step::Arrive);
        }
        while !world.queue.is_empty() {
            world.step(Step::Write { most: 3, request: true, answer: true });
        }
        prop_assert!(world.received.iter().copied().eq(1..=world.relay.said));
        prop_assert!(world.relay.taken.iter().copied().eq(1..=world.sent));
        prop_assert!(world.acknowledged.iter().copied().eq(1..=world.sent), "each send resolves once, in order");
    }
}
