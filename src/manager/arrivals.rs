//! The order in which lists first had their tools: what comes late stands at the end, so that what a model was told
//! before stays as it was (L7).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::registry::ToolEntry;
use crate::runtime::lock;

/// Tools whose place is remembered; above it those that are gone lose theirs.
const MOST: usize = 100_000;

/// The places of tools, for one manager or view.
#[derive(Debug, Default)]
pub(super) struct Arrivals(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    next: u64,
    /// By whether the list is that of loaded tools, and full name.
    taken: HashMap<(bool, Arc<str>), u64>,
}

impl Places {
    fn place(&mut self, loaded: bool, name: &Arc<str>) -> u64 {
        let next = &mut self.next;
        *self.taken.entry((loaded, Arc::clone(name))).or_insert_with(|| {
            *next += 1;
            *next
        })
    }

    /// The numbers of names, in the order of their places; new ones get theirs in the order given.
    fn order(&mut self, loaded: bool, names: &[Arc<str>]) -> Vec<usize> {
        if self.taken.len() > MOST {
            let present: std::collections::HashSet<&Arc<str>> = names.iter().collect();
            self.taken.retain(|(kind, name), _| *kind == loaded && present.contains(name));
        }
        let places: Vec<u64> = names.iter().map(|name| self.place(loaded, name)).collect();
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|number| places[*number]);
        order
    }
}

impl Arrivals {
    /// The tools in the order of their arrival in this list.
    pub(super) fn sorted<'a>(&self, loaded: bool, tools: &[&'a Arc<ToolEntry>]) -> Vec<&'a Arc<ToolEntry>> {
        let names: Vec<Arc<str>> = tools.iter().map(|tool| Arc::clone(&tool.full_name)).collect();
        lock(&self.0).order(loaded, &names).into_iter().map(|number| tools[number]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(places: &mut Places, loaded: bool, names: &[&str]) -> String {
        let names: Vec<Arc<str>> = names.iter().map(|name| Arc::from(*name)).collect();
        places.order(loaded, &names).into_iter().map(|number| &*names[number]).collect()
    }

    #[test]
    fn l7_what_comes_late_stands_at_the_end_and_what_comes_back_where_it_was() {
        let mut places = Places::default();
        assert_eq!(ordered(&mut places, false, &["b", "d"]), "bd");
        assert_eq!(ordered(&mut places, false, &["a", "b", "c", "d"]), "bdac");
        assert_eq!(ordered(&mut places, false, &["a", "c"]), "ac");
        assert_eq!(ordered(&mut places, false, &["a", "b", "c", "d", "e"]), "bdace");
        // The loaded ones are a list of their own.
        assert_eq!(ordered(&mut places, true, &["c"]), "c");
        assert_eq!(ordered(&mut places, true, &["a", "c"]), "ca");
    }

    #[test]
    fn l7_what_is_remembered_has_a_bound() {
        let mut places = Places::default();
        for number in 0..=MOST {
            places.place(false, &Arc::from(number.to_string()));
        }
        ordered(&mut places, false, &["0", "x"]);
        assert_eq!(places.taken.len(), 2);
    }
}
