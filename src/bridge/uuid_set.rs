//! The last so many ids, in constant memory. Pure.

use std::collections::HashSet;
use std::sync::Arc;

/// A set that forgets its oldest member when a further one comes: a ring buffer with an index, every step O(1).
#[derive(Debug)]
pub struct BoundedUuidSet {
    capacity: usize,
    /// In the order of arrival, once full from `oldest` round.
    ring: Vec<Arc<str>>,
    oldest: usize,
    known: HashSet<Arc<str>>,
}

impl BoundedUuidSet {
    /// An empty set of at most `capacity` ids; room for one is always there.
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), ring: Vec::new(), oldest: 0, known: HashSet::new() }
    }

    /// Adds an id; `false` where it was there already, which does not make it younger.
    pub fn add(&mut self, id: &str) -> bool {
        if self.known.contains(id) {
            return false;
        }
        let id: Arc<str> = Arc::from(id);
        self.known.insert(Arc::clone(&id));
        if self.ring.len() < self.capacity {
            self.ring.push(id);
            return true;
        }
        let forgotten = std::mem::replace(&mut self.ring[self.oldest], id);
        self.known.remove(&forgotten);
        self.oldest = (self.oldest + 1) % self.capacity;
        true
    }

    /// Whether an id is there.
    pub fn has(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    /// How many are there.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether none is there.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn brg_02_the_oldest_is_forgotten_first() {
        let mut set = BoundedUuidSet::new(3);
        assert!(set.is_empty());
        for id in ["a", "b", "c"] {
            assert!(set.add(id), "{id}");
        }
        assert!(!set.add("a"), "known");
        assert!(set.add("d"), "a is forgotten although it was named again: first in, first out");
        assert_eq!(["a", "b", "c", "d"].map(|id| set.has(id)), [false, true, true, true]);
        assert!(set.add("a"));
        assert_eq!(["a", "b", "c", "d"].map(|id| set.has(id)), [true, false, true, true]);
        assert_eq!(set.len(), 3);
        assert!(BoundedUuidSet::new(0).add("x"), "no capacity means one");
    }

    proptest! {
        #[test]
        fn brg_02_it_is_a_queue_of_the_last_distinct_ids(
            capacity in 1_usize..8,
            ids in proptest::collection::vec("[a-l]", 0..200),
        ) {
            let mut set = BoundedUuidSet::new(capacity);
            let mut model: VecDeque<String> = VecDeque::new();
            for id in &ids {
                let new = !model.contains(id);
                if new {
                    model.push_back(id.clone());
                    if model.len() > capacity {
                        model.pop_front();
                    }
                }
                prop_assert_eq!(set.add(id), new);
                prop_assert_eq!(set.len(), model.len());
                prop_assert_eq!(set.known.len(), model.len());
                for letter in 'a'..='l' {
                    let letter = letter.to_string();
                    prop_assert_eq!(set.has(&letter), model.contains(&letter));
                }
            }
        }
    }
}
