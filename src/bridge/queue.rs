//! What waits to be written, in order, until the other end has acknowledged it (BRG-05). Pure.
//!
//! Messages are numbered by their place: the first that is not acknowledged has the number behind the last that is. So
//! a message that the other end refused for sure can be taken out, and no number is ever missing.

use std::collections::VecDeque;

/// Replies that may wait beside the host's own messages, so that a full queue does not leave the other end unanswered.
const REPLIES: usize = 256;
/// Bytes that may wait.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Whose message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The host's.
    Host,
    /// An answer of ours to the other end.
    Reply,
}

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The other end acknowledged what it cannot have, or took an acknowledgement back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongAcknowledgement {
    /// What is acknowledged already.
    pub acknowledged: u64,
    /// What was offered.
    pub offered: u64,
}

/// Messages for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Number of the first.
    pub first: u64,
    /// How many.
    pub count: usize,
    /// JSON text of an array of them.
    pub messages: String,
}

#[derive(Debug)]
struct Entry<W> {
    text: String,
    waiter: Option<W>,
}

/// The queue; `W` is whoever waits for an acknowledgement.
#[derive(Debug)]
pub struct Queue<W> {
    entries: VecDeque<Entry<W>>,
    most: usize,
    bytes: usize,
    acknowledged: u64,
    /// Highest number that was handed out.
    offered: u64,
}

impl<W> Queue<W> {
    /// An empty queue for at most `most` messages of the host.
    pub fn new(most: usize) -> Self {
        Self { entries: VecDeque::new(), most, bytes: 0, acknowledged: 0, offered: 0 }
    }

    /// Appends a message (JSON text).
    ///
    /// # Errors
    /// [`Full`], with nothing changed.
    pub fn push(&mut self, text: String, waiter: Option<W>, origin: Origin) -> Result<(), Full> {
        let most = if origin == Origin::Reply { self.most + REPLIES } else { self.most };
        let crowded = !self.entries.is_empty() && self.bytes + text.len() > MAX_BYTES;
        if self.entries.len() >= most || crowded {
            return Err(Full);
        }
        self.bytes += text.len();
        self.entries.push_back(Entry { text, waiter });
        Ok(())
    }

    /// The oldest messages, as many as fit; the first always does. They stay until they are acknowledged.
    pub fn batch(&mut self, most: usize, most_bytes: usize) -> Option<Batch> {
        let mut messages = String::from("[");
        let mut count = 0;
        for entry in self.entries.iter().take(most.max(1)) {
            if count > 0 {
                if messages.len() + entry.text.len() > most_bytes {
                    break;
                }
                messages.push(',');
            }
            messages.push_str(&entry.text);
            count += 1;
        }
        if count == 0 {
            return None;
        }
        messages.push(']');
        self.offered = self.offered.max(self.acknowledged + count as u64);
        Some(Batch { first: self.next(), count, messages })
    }

    /// Everything up to a number has arrived; gives those who waited for it, in order.
    ///
    /// # Errors
    /// [`WrongAcknowledgement`], with nothing changed.
    pub fn acknowledge(&mut self, number: u64) -> Result<Vec<W>, WrongAcknowledgement> {
        if number < self.acknowledged || number > self.offered {
            return Err(WrongAcknowledgement { acknowledged: self.acknowledged, offered: self.offered });
        }
        let mut waiters = Vec::new();
        while self.acknowledged < number {
            let Some(entry) = self.entries.pop_front() else { break };
            self.acknowledged += 1;
            self.bytes -= entry.text.len();
            waiters.extend(entry.waiter);
        }
        Ok(waiters)
    }

    /// Takes out the message of a number, which the other end refused for sure; the next one gets its number. Gives its
    /// text and who waits for it; `None` where it has arrived meanwhile.
    pub fn refuse(&mut self, number: u64) -> Option<(String, Option<W>)> {
        if number != self.next() {
            return None;
        }
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.text.len();
        self.offered = self.acknowledged;
        Some((entry.text, entry.waiter))
    }

    /// Puts a message in the place of one that was taken out.
    pub fn put_first(&mut self, text: String) {
        self.bytes += text.len();
        self.entries.push_front(Entry { text, waiter: None });
    }

    /// Number of the first message that is not acknowledged.
    pub fn next(&self) -> u64 {
        self.acknowledged + 1
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Empties the queue; gives those who waited.
    pub fn drain(&mut self) -> Vec<W> {
        self.bytes = 0;
        self.entries.drain(..).filter_map(|entry| entry.waiter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(texts: &[&str]) -> Queue<usize> {
        let mut queue = Queue::new(4);
        for (index, text) in texts.iter().enumerate() {
            queue.push((*text).to_owned(), Some(index), Origin::Host).unwrap();
        }
        queue
    }

    #[test]
    fn brg_05_batches_keep_order_and_numbers_until_they_are_acknowledged() {
        let mut queue = queue(&["1", "22", "333"]);
        let batch =
            |first, count, messages: &str| Some(Batch { first, count, messages: messages.to_owned() });
        assert_eq!(queue.batch(2, 100), batch(1, 2, "[1,22]"));
        assert_eq!(queue.batch(9, 100), batch(1, 3, "[1,22,333]"), "a lost answer: the same numbers again");
        assert_eq!(queue.acknowledge(2), Ok(vec![0, 1]));
        assert_eq!(queue.acknowledge(2), Ok(vec![]), "a repeated acknowledgement");
        assert_eq!(queue.batch(9, 1), batch(3, 1, "[333]"), "the first always fits");
        assert_eq!(queue.acknowledge(3), Ok(vec![2]));
        assert_eq!((queue.batch(9, 9), queue.is_empty(), queue.next()), (None, true, 4));
    }

    #[test]
    fn brg_05_an_acknowledgement_that_cannot_be_is_refused() {
        let mut queue = queue(&["1", "2", "3"]);
        queue.batch(2, 100);
        assert_eq!(queue.acknowledge(3), Err(WrongAcknowledgement { acknowledged: 0, offered: 2 }));
        assert_eq!(queue.acknowledge(1), Ok(vec![0]));
        assert_eq!(queue.acknowledge(0), Err(WrongAcknowledgement { acknowledged: 1, offered: 2 }));
    }

    #[test]
    fn brg_05_the_queue_is_bounded_and_replies_have_room_of_their_own() {
        let mut queue = queue(&["1", "2", "3", "4"]);
        assert_eq!(queue.push("5".to_owned(), None, Origin::Host), Err(Full));
        for _ in 0..REPLIES {
            assert_eq!(queue.push("r".to_owned(), None, Origin::Reply), Ok(()));
        }
        assert_eq!(queue.push("r".to_owned(), None, Origin::Reply), Err(Full));
        assert_eq!(queue.drain(), vec![0, 1, 2, 3]);
        assert!(queue.is_empty());
        let mut bytes = Queue::<()>::new(10);
        assert_eq!(bytes.push("x".repeat(MAX_BYTES + 1), None, Origin::Host), Ok(()), "alone it always fits");
        assert_eq!(bytes.push("y".to_owned(), None, Origin::Host), Err(Full));
    }

    #[test]
    fn brg_05_a_refused_message_leaves_no_hole() {
        let mut queue = queue(&["1", "2"]);
        queue.batch(1, 100);
        assert_eq!(queue.refuse(2), None, "only the first was tried alone");
        assert_eq!(queue.refuse(1), Some(("1".to_owned(), Some(0))));
        queue.put_first("instead".to_owned());
        let batch = queue.batch(9, 100).unwrap();
        assert_eq!((batch.first, batch.messages.as_str()), (1, "[instead,2]"));
        assert_eq!(queue.acknowledge(2), Ok(vec![1]));
        assert_eq!(queue.refuse(1), None, "it has arrived");
    }
}
