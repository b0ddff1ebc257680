//! Skills of one server that were loaded: the entries that files are compared with, and files that agreed.
//!
//! It belongs to one connection, so nothing in it is ever found under another server's label (mcp:SKILL-05), and it
//! goes with its server.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use crate::protocol::skill::{MOST_BYTES, SkillDefinition, SkillFile};
use crate::runtime::lock;

/// Entries that are held; the oldest go first.
const MOST_HELD: usize = 256;

/// The shelf.
#[derive(Debug, Default)]
pub struct SkillShelf {
    held: Mutex<Held>,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Held {
    entries: HashMap<String, Arc<SkillDefinition>>,
    order: VecDeque<String>,
}

#[derive(Debug, Default)]
struct Files {
    /// Of which client they came: another one may be somebody else's (mcp:CACHE-05).
    generation: u64,
    /// In the order in which they came.
    files: VecDeque<(SkillFile, Arc<[u8]>)>,
    bytes: u64,
}

impl SkillShelf {
    /// Holds an entry, in place of an earlier one of the same URI.
    pub fn hold(&self, entry: Arc<SkillDefinition>) {
        let mut held = lock(&self.held);
        let uri = entry.uri.clone();
        if held.entries.insert(uri.clone(), entry).is_some() {
            return;
        }
        held.order.push_back(uri);
        if held.order.len() > MOST_HELD
            && let Some(oldest) = held.order.pop_front()
        {
            held.entries.remove(&oldest);
        }
    }

    /// The entry that is held of a skill.
    pub fn held(&self, uri: &str) -> Option<Arc<SkillDefinition>> {
        lock(&self.held).entries.get(uri).cloned()
    }

    /// Keeps a verified file of a client; as many bytes as one skill may have.
    pub fn keep(&self, generation: u64, listed: &SkillFile, file: Arc<[u8]>) {
        let mut kept = lock(&self.files);
        if kept.generation != generation {
            *kept = Files { generation, ..Files::default() };
        }
        kept.bytes += listed.size;
        kept.files.push_back((listed.clone(), file));
        while kept.bytes > MOST_BYTES {
            let Some((oldest, _)) = kept.files.pop_front() else { break };
            kept.bytes -= oldest.size;
        }
    }

    /// A file that was verified against exactly this listing.
    pub fn kept(&self, generation: u64, listed: &SkillFile) -> Option<Arc<[u8]>> {
        let kept = lock(&self.files);
        let mut files = kept.files.iter().filter(|_| kept.generation == generation);
        files.find(|(one, _)| one == listed).map(|(_, file)| Arc::clone(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::skill::map_skills;

    fn entry(name: &str) -> Arc<SkillDefinition> {
        let raw = format!(
            r#"{{"uri":"skill://{name}/SKILL.md","frontmatter":{{"name":"{name}","description":"d"}},"resources":"dynamic"}}"#
        );
        let raw = serde_json::value::RawValue::from_string(raw).unwrap();
        Arc::new(map_skills("s", &[&raw]).0.remove(0))
    }

    #[test]
    fn skill_05_entries_are_bounded_and_the_last_one_counts() {
        let shelf = SkillShelf::default();
        for number in 0..=MOST_HELD {
            shelf.hold(entry(&format!("n{number}")));
        }
        assert!(shelf.held("skill://n0/SKILL.md").is_none());
        let last = entry("n7");
        shelf.hold(Arc::clone(&last));
        assert!(Arc::ptr_eq(&shelf.held("skill://n7/SKILL.md").unwrap(), &last));
    }

    #[test]
    fn skill_12_verified_files_are_kept_within_bounds_and_for_their_client_only() {
        let shelf = SkillShelf::default();
        let listed = |uri: &str, size: u64| SkillFile { uri: uri.to_owned(), digest: [1; 32], size };
        let file: Arc<[u8]> = Arc::from(&b"x"[..]);
        let (a, b) = (listed("a", MOST_BYTES - 1), listed("b", 2));
        shelf.keep(1, &a, Arc::clone(&file));
        assert_eq!(shelf.kept(1, &a), Some(Arc::clone(&file)));
        assert_eq!(shelf.kept(2, &a), None, "another client");
        assert_eq!(shelf.kept(1, &SkillFile { digest: [2; 32], ..a.clone() }), None, "another digest");
        shelf.keep(1, &b, Arc::clone(&file));
        assert_eq!((shelf.kept(1, &a), shelf.kept(1, &b)), (None, Some(file)), "the oldest goes");
    }
}
