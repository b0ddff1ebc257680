//! The box of letters for JavaScript: ordered, bounded, coalescing. Pure.
//!
//! Answers to calls are never dropped (a call waits for each); events are: status and catalogue events keep
//! the latest per key, progress a few per call, logs the newest, and what was dropped is counted.

use std::collections::{HashMap, VecDeque};

use super::HostEvent;

/// Text in the form that costs the JavaScript thread least.
#[derive(Debug, PartialEq, Eq)]
pub enum Text {
    /// Short or ASCII.
    Utf8(String),
    /// Long and not ASCII: decoded before it reaches the JavaScript thread (BEY-14).
    Utf16(Vec<u16>),
}

/// Above this many bytes text that is not ASCII is decoded off the JavaScript thread.
const UTF16_FROM: usize = 16 * 1024;

impl Text {
    /// Chooses the form; call it off the JavaScript thread.
    pub fn ready(text: String) -> Self {
        if text.len() < UTF16_FROM || text.is_ascii() {
            Text::Utf8(text)
        } else {
            Text::Utf16(text.encode_utf16().collect())
        }
    }

    fn cost(&self) -> usize {
        match self {
            Text::Utf8(text) => text.len(),
            Text::Utf16(units) => units.len() * 2,
        }
    }
}

/// One letter. All JSON texts; `id` is the number JavaScript gave the call.
#[derive(Debug, PartialEq, Eq)]
pub enum Letter {
    /// A call has ended: JSON text of `{"id":…, …}`, and long strings that stand outside of it.
    Settled {
        /// JSON text of the whole letter.
        body: Text,
        /// Index of the content block and its text.
        texts: Vec<(u32, Text)>,
    },
    /// Progress of a call.
    Progress {
        /// The call.
        call: u32,
        /// JSON text of the letter.
        body: String,
    },
    /// An event.
    Event(HostEvent),
    /// A question.
    Question {
        /// Number of the question.
        question: u32,
        /// JSON text of the letter.
        body: String,
    },
    /// Something for an in-process server (SDK-01).
    Server {
        /// Its channel.
        channel: u32,
        /// JSON text of the letter.
        body: String,
    },
    /// A question nobody waits for any more.
    Withdrawn {
        /// Number of the question.
        question: u32,
    },
}

impl Letter {
    /// Bytes that JavaScript has to take over.
    pub fn cost(&self) -> usize {
        match self {
            Letter::Settled { body, texts } => {
                body.cost() + texts.iter().map(|(_, text)| text.cost()).sum::<usize>()
            }
            Letter::Progress { body, .. } | Letter::Question { body, .. } | Letter::Server { body, .. } => {
                body.len()
            }
            Letter::Event(event) => event.body.len(),
            Letter::Withdrawn { .. } => 32,
        }
    }
}

/// Events that may wait while JavaScript is busy (F-059).
pub const MAX_EVENTS: usize = 1_024;
/// Progress letters of one call that may wait; a further one replaces the newest.
const MAX_PROGRESS: u32 = 16;
/// Letters and bytes handed over at a time, so that one turn never holds the event loop for long.
const BATCH_LETTERS: usize = 512;
const BATCH_BYTES: usize = 256 * 1024;

/// Letters in order of arrival.
#[derive(Debug, Default)]
pub struct Mailbox {
    letters: VecDeque<Letter>,
    /// Letters handed out so far: turns the position of a keyed event into an index.
    handed_out: u64,
    keyed: HashMap<String, u64>,
    progress: HashMap<u32, (u32, u64)>,
    /// Bytes that wait for in-process servers, by channel.
    for_servers: HashMap<u32, usize>,
    events: usize,
    dropped: u64,
}

impl Mailbox {
    /// Adds a letter, or lets it replace the one it supersedes.
    pub fn push(&mut self, letter: Letter) {
        match letter {
            Letter::Event(event) => self.push_event(event),
            Letter::Progress { call, body } => self.push_progress(call, body),
            other => self.letters.push_back(other),
        }
    }

    /// Adds a letter for an in-process server, unless more than `room` bytes would wait for it (STD-07); then
    /// tells how many wait. What finds nothing waiting is always taken.
    ///
    /// # Errors
    /// The bytes that wait already.
    pub fn push_bounded(&mut self, channel: u32, body: String, room: usize) -> Result<(), usize> {
        let waiting = self.for_servers.get(&channel).copied().unwrap_or(0);
        if waiting > 0 && waiting.saturating_add(body.len()) > room {
            return Err(waiting);
        }
        self.for_servers.insert(channel, waiting + body.len());
        self.letters.push_back(Letter::Server { channel, body });
        Ok(())
    }

    fn push_event(&mut self, event: HostEvent) {
        if let Some(key) = &event.key {
            let place = self.keyed.get(key).and_then(|place| self.index_of(*place));
            if let Some(Letter::Event(waiting)) = place.and_then(|index| self.letters.get_mut(index)) {
                waiting.body = event.body;
                return;
            }
        }
        if self.events >= MAX_EVENTS && event.key.is_none() {
            self.dropped += 1;
            return;
        }
        if let Some(key) = &event.key {
            self.keyed.insert(key.clone(), self.next_place());
        }
        self.events += 1;
        self.letters.push_back(Letter::Event(event));
    }

    fn push_progress(&mut self, call: u32, body: String) {
        let next = self.next_place();
        let (count, newest) = self.progress.get(&call).copied().unwrap_or((0, next));
        let index = self.index_of(newest);
        if count >= MAX_PROGRESS
            && let Some(Letter::Progress { body: waiting, .. }) =
                index.and_then(|at| self.letters.get_mut(at))
        {
            *waiting = body;
            return;
        }
        self.progress.insert(call, (count + 1, next));
        self.letters.push_back(Letter::Progress { call, body });
    }

    fn next_place(&self) -> u64 {
        self.handed_out + self.letters.len() as u64
    }

    fn index_of(&self, place: u64) -> Option<usize> {
        usize::try_from(place.checked_sub(self.handed_out)?).ok()
    }

    /// Takes the next batch. A letter larger than a batch comes alone.
    pub fn take_batch(&mut self) -> Vec<Letter> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(letter) = self.letters.front() {
            bytes += letter.cost();
            if !batch.is_empty() && (bytes > BATCH_BYTES || batch.len() >= BATCH_LETTERS) {
                break;
            }
            if let Some(letter) = self.letters.pop_front() {
                self.handed_out += 1;
                self.forget(&letter);
                batch.push(letter);
            }
        }
        batch
    }

    fn forget(&mut self, letter: &Letter) {
        match letter {
            Letter::Event(event) => {
                self.events -= 1;
                if let Some(key) = &event.key {
                    self.keyed.remove(key);
                }
            }
            Letter::Progress { call, .. } => {
                self.progress.remove(call);
            }
            Letter::Server { channel, body } => {
                let waiting = self.for_servers.get(channel).map_or(0, |waiting| waiting - body.len());
                if waiting == 0 {
                    self.for_servers.remove(channel);
                } else {
                    self.for_servers.insert(*channel, waiting);
                }
            }
            _ => {}
        }
    }

    /// Whether letters wait.
    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// How many events were dropped since the last question.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(key: Option<&str>, body: &str) -> Letter {
        Letter::Event(HostEvent { name: "log", body: body.into(), key: key.map(Into::into) })
    }

    fn settled(id: u32) -> Letter {
        Letter::Settled { body: Text::Utf8(format!("{{\"id\":{id}}}")), texts: Vec::new() }
    }

    #[test]
    fn order_is_kept_and_the_latest_of_a_key_wins() {
        let mut mailbox = Mailbox::default();
        mailbox.push(event(Some("status a"), "1"));
        mailbox.push(settled(1));
        mailbox.push(event(Some("status a"), "2"));
        assert_eq!(mailbox.take_batch(), vec![event(Some("status a"), "2"), settled(1)]);
        mailbox.push(event(Some("status a"), "3"));
        assert_eq!(mailbox.take_batch(), vec![event(Some("status a"), "3")]);
        assert!(mailbox.is_empty());
    }

    #[test]
    fn f_059_events_are_bounded_answers_are_not() {
        let mut mailbox = Mailbox::default();
        for number in 0..5_000 {
            mailbox.push(event(None, "x"));
            mailbox.push(settled(number));
        }
        assert_eq!(mailbox.take_dropped(), 5_000 - MAX_EVENTS as u64);
        let mut answers = 0;
        while !mailbox.is_empty() {
            let batch = mailbox.take_batch();
            assert!(batch.len() <= BATCH_LETTERS);
            answers += batch.iter().filter(|letter| matches!(letter, Letter::Settled { .. })).count();
        }
        assert_eq!(answers, 5_000);
    }

    #[test]
    fn progress_of_a_call_is_bounded_and_ends_with_the_newest() {
        let mut mailbox = Mailbox::default();
        for step in 0..100 {
            mailbox.push(Letter::Progress { call: 1, body: step.to_string() });
        }
        let batch = mailbox.take_batch();
        assert_eq!(batch.len(), MAX_PROGRESS as usize);
        assert_eq!(batch.last(), Some(&Letter::Progress { call: 1, body: "99".into() }));
    }

    #[test]
    fn std_07_what_waits_for_a_server_is_bounded_per_channel() {
        let mut mailbox = Mailbox::default();
        assert_eq!(mailbox.push_bounded(1, "x".repeat(50), 10), Ok(()), "nothing waits: always taken");
        assert_eq!(mailbox.push_bounded(1, "y".into(), 10), Err(50));
        assert_eq!(mailbox.push_bounded(2, "z".repeat(4), 10), Ok(()), "another server is not concerned");
        assert_eq!(mailbox.push_bounded(2, "z".repeat(6), 10), Ok(()));
        assert_eq!(mailbox.push_bounded(2, "z".into(), 10), Err(10));
        assert_eq!(mailbox.take_batch().len(), 3);
        assert_eq!(mailbox.push_bounded(1, "y".into(), 10), Ok(()));
        assert_eq!(mailbox.take_batch(), vec![Letter::Server { channel: 1, body: "y".into() }]);
        assert!(mailbox.for_servers.is_empty());
    }

    #[test]
    fn bey_14_a_large_letter_comes_alone() {
        let mut mailbox = Mailbox::default();
        mailbox.push(settled(1));
        mailbox.push(Letter::Settled { body: Text::Utf8("x".repeat(BATCH_BYTES * 2)), texts: Vec::new() });
        mailbox.push(settled(2));
        assert_eq!([1, 1, 1].map(|_| mailbox.take_batch().len()), [1, 1, 1]);
        assert!(matches!(Text::ready("é".repeat(UTF16_FROM)), Text::Utf16(_)));
        assert!(matches!(Text::ready("e".repeat(UTF16_FROM)), Text::Utf8(_)));
    }
}
