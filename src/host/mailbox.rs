//! The box of letters for JavaScript: ordered, bounded, coalescing. Pure.
//!
//! Answers to calls are never dropped (a call waits for each), nor are events whose number follows from the host's own
//! servers and calls. Of the rest, every sort of event keeps its newest, so that a flood of one displaces no other; what
//! was dropped is counted. Catalogue events keep the latest per key, progress a few per call.

use std::collections::{BTreeMap, HashMap, VecDeque};

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

/// Events of which every one counts (LIF-01, SEC-07); how many there are, no server decides.
const KEPT: [&str; 10] = [
    "audit",
    "authRequired",
    "configChanged",
    "exit",
    "promptsChanged",
    "resourcesChanged",
    "state",
    "status",
    "taskStatus",
    "toolsChanged",
];
/// Events of any other sort that may wait while JavaScript is busy (F-059); more where each is of another key, since a
/// host may have subscribed to many resources; and their bytes.
pub const MAX_EVENTS: usize = 1_024;
const MAX_KEYED: usize = 16 * MAX_EVENTS;
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;
/// Progress letters of one call that may wait; a further one replaces the newest.
const MAX_PROGRESS: u32 = 16;
/// Letters and bytes handed over at a time, so that one turn never holds the event loop for long.
const BATCH_LETTERS: usize = 512;
const BATCH_BYTES: usize = 256 * 1024;

/// Letters in order of arrival, each with its ordinal among all.
#[derive(Debug, Default)]
struct Lane {
    letters: VecDeque<(u64, Letter)>,
    /// The waiting event of a key.
    keyed: HashMap<String, u64>,
    bytes: usize,
}

impl Lane {
    fn push(&mut self, ordinal: u64, letter: Letter) {
        self.bytes += weight(&letter);
        if let Letter::Event(HostEvent { key: Some(key), .. }) = &letter {
            self.keyed.insert(key.clone(), ordinal);
        }
        self.letters.push_back((ordinal, letter));
    }

    /// Lets an event take the place of the one it supersedes; gives it back where there is none.
    fn replace(&mut self, event: HostEvent) -> Option<HostEvent> {
        let waiting = event.key.as_ref().and_then(|key| self.keyed.get(key)).copied();
        let Some(Letter::Event(waiting)) = waiting.and_then(|ordinal| self.get_mut(ordinal)) else {
            return Some(event);
        };
        let (before, now) = (waiting.body.len(), event.body.len());
        waiting.body = event.body;
        self.bytes = self.bytes - before + now;
        None
    }

    fn get_mut(&mut self, ordinal: u64) -> Option<&mut Letter> {
        let index = self.letters.binary_search_by_key(&ordinal, |(own, _)| *own).ok()?;
        self.letters.get_mut(index).map(|(_, letter)| letter)
    }

    fn first(&self) -> Option<u64> {
        self.letters.front().map(|(ordinal, _)| *ordinal)
    }

    fn pop(&mut self) -> Option<Letter> {
        let (_, letter) = self.letters.pop_front()?;
        self.bytes -= weight(&letter);
        if let Letter::Event(HostEvent { key: Some(key), .. }) = &letter {
            self.keyed.remove(key);
        }
        Some(letter)
    }

    /// Makes room for another letter; gives how many had to go. What finds nothing waiting always has room.
    fn make_room(&mut self, letter: &Letter) -> u64 {
        let mut gone = 0;
        let has_key = matches!(letter, Letter::Event(HostEvent { key: Some(_), .. }));
        let most = if has_key { MAX_KEYED } else { MAX_EVENTS };
        while self.letters.len() >= most || self.bytes + weight(letter) > MAX_EVENT_BYTES {
            if self.pop().is_none() {
                break;
            }
            gone += 1;
        }
        gone
    }
}

/// Bytes that a letter takes while it waits.
fn weight(letter: &Letter) -> usize {
    match letter {
        Letter::Event(event) => event.body.len() + 2 * event.key.as_ref().map_or(0, String::len),
        other => other.cost(),
    }
}

/// Letters in order of arrival.
#[derive(Debug, Default)]
pub struct Mailbox {
    /// What is never dropped.
    kept: Lane,
    /// The other events, by name.
    bounded: BTreeMap<&'static str, Lane>,
    next: u64,
    progress: HashMap<u32, (u32, u64)>,
    /// Bytes that wait for in-process servers, by channel.
    for_servers: HashMap<u32, usize>,
    dropped: u64,
}

impl Mailbox {
    /// Adds a letter, or lets it replace the one it supersedes.
    pub fn push(&mut self, letter: Letter) {
        match letter {
            Letter::Event(event) => self.push_event(event),
            Letter::Progress { call, body } => self.push_progress(call, body),
            other => self.keep(other),
        }
    }

    /// Adds a letter that is never dropped.
    fn keep(&mut self, letter: Letter) {
        let ordinal = self.ordinal();
        self.kept.push(ordinal, letter);
    }

    fn ordinal(&mut self) -> u64 {
        self.next += 1;
        self.next
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
        self.keep(Letter::Server { channel, body });
        Ok(())
    }

    fn push_event(&mut self, event: HostEvent) {
        let ordinal = self.ordinal();
        let is_kept = KEPT.contains(&event.name);
        let lane = if is_kept { &mut self.kept } else { self.bounded.entry(event.name).or_default() };
        let Some(event) = lane.replace(event) else { return };
        let letter = Letter::Event(event);
        if !is_kept {
            self.dropped += lane.make_room(&letter);
        }
        lane.push(ordinal, letter);
    }

    fn push_progress(&mut self, call: u32, body: String) {
        let known = self.progress.get(&call).copied();
        if let Some((MAX_PROGRESS.., newest)) = known
            && let Some(Letter::Progress { body: waiting, .. }) = self.kept.get_mut(newest)
        {
            *waiting = body;
            return;
        }
        let ordinal = self.ordinal();
        self.progress.insert(call, (known.map_or(0, |(count, _)| count) + 1, ordinal));
        self.kept.push(ordinal, Letter::Progress { call, body });
    }

    /// Where the oldest letter waits.
    fn oldest(&mut self) -> Option<&mut Lane> {
        let lanes = std::iter::once(&mut self.kept).chain(self.bounded.values_mut());
        lanes.filter(|lane| lane.first().is_some()).min_by_key(|lane| lane.first())
    }

    /// Takes the next batch. A letter larger than a batch comes alone.
    pub fn take_batch(&mut self) -> Vec<Letter> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(lane) = self.oldest() {
            bytes += lane.letters.front().map_or(0, |(_, letter)| letter.cost());
            if !batch.is_empty() && (bytes > BATCH_BYTES || batch.len() >= BATCH_LETTERS) {
                break;
            }
            if let Some(letter) = lane.pop() {
                self.forget(&letter);
                batch.push(letter);
            }
        }
        batch
    }

    fn forget(&mut self, letter: &Letter) {
        match letter {
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
        self.kept.letters.is_empty() && self.bounded.values().all(|lane| lane.letters.is_empty())
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
        named("log", key, body)
    }

    fn named(name: &'static str, key: Option<&str>, body: &str) -> Letter {
        Letter::Event(HostEvent { name, body: body.into(), key: key.map(Into::into) })
    }

    fn drain(mailbox: &mut Mailbox) -> Vec<Letter> {
        std::iter::from_fn(|| Some(mailbox.take_batch()).filter(|batch| !batch.is_empty()))
            .flatten()
            .collect()
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
    fn lif_01_a_flood_of_logs_displaces_no_change_of_state() {
        let mut mailbox = Mailbox::default();
        for number in 0..3_000 {
            mailbox.push(event(None, &number.to_string()));
            if number % 1_000 == 0 {
                mailbox.push(named("status", None, &number.to_string()));
                mailbox.push(named("audit", None, &number.to_string()));
            }
        }
        assert_eq!(mailbox.take_dropped(), 3_000 - MAX_EVENTS as u64);
        let letters = drain(&mut mailbox);
        let told = |name: &str| {
            let of_name = |letter: &Letter| matches!(letter, Letter::Event(event) if event.name == name);
            letters.iter().filter(|letter| of_name(letter)).count()
        };
        assert_eq!((told("status"), told("audit"), told("log")), (3, 3, MAX_EVENTS));
        assert_eq!(letters.last(), Some(&event(None, "2999")), "the newest logs are kept, in order");
        let place = |wanted: &Letter| letters.iter().position(|letter| letter == wanted).unwrap();
        assert!(place(&event(None, "2000")) < place(&named("status", None, "2000")));
        assert!(place(&named("status", None, "2000")) < place(&event(None, "2001")));
    }

    #[test]
    fn f_059_events_with_keys_are_bounded_in_number_and_bytes() {
        let mut mailbox = Mailbox::default();
        let update = |number: usize, length: usize| {
            let uri = format!("{number}:{}", "u".repeat(length));
            named("resourceUpdated", Some(&uri), &uri)
        };
        for number in 0..20_000 {
            mailbox.push(update(number, 10));
            mailbox.push(update(number, 10));
        }
        assert_eq!(mailbox.take_dropped(), 20_000 - MAX_KEYED as u64, "one of a key is one");
        assert_eq!(drain(&mut mailbox).len(), MAX_KEYED);
        for number in 0..2_000 {
            mailbox.push(update(number, 20_000));
        }
        let lane = &mailbox.bounded["resourceUpdated"];
        assert!(lane.bytes <= MAX_EVENT_BYTES && lane.keyed.len() == lane.letters.len());
        let kept = lane.letters.len() as u64;
        assert_eq!(mailbox.take_dropped(), 2_000 - kept);
        assert_eq!(drain(&mut mailbox).last(), Some(&update(1_999, 20_000)));
        mailbox.push(update(1, MAX_EVENT_BYTES));
        assert_eq!(
            (mailbox.take_dropped(), mailbox.take_batch().len()),
            (0, 1),
            "nothing waits: always taken"
        );
        assert_eq!(mailbox.bounded["resourceUpdated"].bytes, 0);
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
