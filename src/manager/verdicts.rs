//! Verdicts on servers in the state directory, so that the next process need not find out anew (PRO-03, LIF-09).
//!
//! One file for all managers of the directory; entries by cache identity. Best effort: what cannot be kept is
//! found out again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use serde::{Deserialize, Serialize};

use super::Manager;
use super::late_writes::LateWrites;
use crate::client::verdict::{Verdict, VerdictCell, VerdictStore};
use crate::config::identity::{self, IdentityKey};
use crate::config::spec::{ServerSpec, TransportSpec};
use crate::diagnostic::Diagnostic;
use crate::error::McpError;
use crate::protocol::version::ProtocolVersion;
use crate::runtime::unix_millis;
use crate::state_dir::StateDir;

/// File of the state directory.
const FILE: &str = "era-verdicts.json";
/// Version of its format.
const FORMAT: u32 = 1;
/// Verdicts that are kept; the oldest go first.
const MOST: usize = 1_000;

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    version: u32,
    servers: BTreeMap<String, Line>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    protocol: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    older_way: bool,
    since: u64,
}

/// What stands in the file.
enum Content {
    Usable(File),
    /// Written by a later version of this package: it stays as it is.
    Newer,
    Corrupt,
}

fn parse(bytes: Option<&[u8]>) -> Content {
    #[derive(Deserialize)]
    struct Head {
        version: u32,
    }
    let Some(bytes) = bytes else { return Content::Usable(File::default()) };
    match serde_json::from_slice::<Head>(bytes) {
        Ok(head) if head.version > FORMAT => Content::Newer,
        Ok(_) => serde_json::from_slice(bytes).map_or(Content::Corrupt, Content::Usable),
        Err(_) => Content::Corrupt,
    }
}

/// The file without what is no longer believed, and without the oldest of too many.
fn tidied(mut file: File, now: u64) -> Vec<u8> {
    file.version = FORMAT;
    file.servers.retain(|_, line| line.verdict().is_some_and(|verdict| verdict.is_believed(now)));
    if file.servers.len() > MOST {
        let mut times: Vec<u64> = file.servers.values().map(|line| line.since).collect();
        times.sort_unstable();
        let first_kept = times[times.len() - MOST];
        file.servers.retain(|_, line| line.since >= first_kept);
    }
    serde_json::to_vec(&file).unwrap_or_default()
}

impl Line {
    fn of(verdict: &Verdict) -> Self {
        Self {
            protocol: verdict.version.as_str().to_owned(),
            older_way: verdict.older_way,
            since: verdict.since,
        }
    }

    fn verdict(&self) -> Option<Verdict> {
        let version = ProtocolVersion::parse(&self.protocol)?;
        Some(Verdict { version, older_way: self.older_way, since: self.since })
    }
}

/// The verdicts of a state directory.
pub(super) struct Verdicts {
    state: Arc<StateDir>,
    /// Hears when nothing can be kept.
    manager: Weak<Manager>,
    /// Writes under way: a write takes a lock and waits for the disk, so it is nobody's to wait for.
    writes: LateWrites,
}

impl Verdicts {
    pub(super) fn new(state: Arc<StateDir>, manager: Weak<Manager>) -> Arc<Self> {
        Arc::new(Self { state, manager, writes: LateWrites::default() })
    }

    /// The store for one server; nothing is read yet.
    pub(super) fn of(self: &Arc<Self>, spec: &Arc<ServerSpec>) -> Arc<dyn VerdictStore> {
        // The name of an in-process server says nothing about the one the host hands over next time.
        if matches!(spec.transport, TransportSpec::Sdk { .. }) {
            return Arc::new(VerdictCell::default());
        }
        let shared = Entry { file: Arc::clone(self), spec: Arc::clone(spec), cell: OnceLock::new() };
        Arc::new(Kept(Arc::new(shared)))
    }

    /// Waits until everything that was found out is written, for a moment.
    pub(super) async fn written(&self) {
        self.writes.done().await;
    }

    fn read(&self, spec: &ServerSpec) -> Option<Verdict> {
        let key = IdentityKey::read(&self.state)?;
        let Content::Usable(file) = parse(self.state.read(FILE).as_deref()) else { return None };
        file.servers.get(&identity::identity(spec, &key))?.verdict()
    }

    /// Writes what is known of a server now.
    fn write(&self, spec: &ServerSpec, cell: &VerdictCell) {
        // A verdict that cannot be kept is found out again, which a person may want to know once.
        if let Err(error) = self.try_write(spec, cell)
            && let Some(manager) = self.manager.upgrade()
        {
            let message = format!("which protocol servers speak is not remembered: {}", error.message());
            manager.diagnose_once(&Diagnostic::warning("STATE_NOT_WRITTEN", message));
        }
    }

    fn try_write(&self, spec: &ServerSpec, cell: &VerdictCell) -> Result<(), McpError> {
        let key = IdentityKey::read_or_make(&self.state)?;
        let name = identity::identity(spec, &key);
        self.state.update(FILE, |before| {
            let mut file = match parse(before.as_deref()) {
                Content::Usable(file) => file,
                Content::Newer => return before.unwrap_or_default(),
                Content::Corrupt => {
                    self.state.set_aside(FILE);
                    File::default()
                }
            };
            match cell.kept() {
                Some(verdict) => file.servers.insert(name, Line::of(&verdict)),
                None => file.servers.remove(&name),
            };
            tidied(file, unix_millis())
        })
    }
}

struct Entry {
    file: Arc<Verdicts>,
    spec: Arc<ServerSpec>,
    cell: OnceLock<VerdictCell>,
}

/// The verdict on one server.
struct Kept(Arc<Entry>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("server", &self.0.spec.name).finish_non_exhaustive()
    }
}

impl Kept {
    fn cell(&self) -> &VerdictCell {
        self.0.cell.get_or_init(|| VerdictCell::with(self.0.file.read(&self.0.spec)))
    }

    fn write_if(&self, changed: bool) {
        if !changed {
            return;
        }
        let entry = Arc::clone(&self.0);
        let write = move || {
            if let Some(cell) = entry.cell.get() {
                entry.file.write(&entry.spec, cell);
            }
        };
        self.0.file.writes.add(write);
    }
}

impl VerdictStore for Kept {
    fn recall(&self) -> Option<Verdict> {
        self.cell().recall()
    }

    fn remember(&self, version: ProtocolVersion) {
        self.write_if(self.cell().note(version, unix_millis()));
    }

    fn remember_older_way(&self) {
        self.write_if(self.cell().note_older_way());
    }

    fn forget(&self) {
        self.write_if(self.cell().clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{spec_of, temporary};

    const OLD: ProtocolVersion = ProtocolVersion::V2025_11_25;

    fn server(url: &str) -> Arc<ServerSpec> {
        Arc::new(spec_of(&serde_json::json!({ "type": "http", "url": url })))
    }

    async fn remembered(verdicts: &Arc<Verdicts>, url: &str) {
        let store = verdicts.of(&server(url));
        store.remember(OLD);
        verdicts.written().await;
    }

    fn recalled(state: &Arc<StateDir>, url: &str) -> Option<Verdict> {
        Verdicts::new(Arc::clone(state), Weak::new()).of(&server(url)).recall()
    }

    #[tokio::test]
    async fn pro_03_the_next_process_knows_what_this_one_found_out() {
        let root = temporary("verdicts");
        let state = Arc::new(StateDir::at(root.clone()));
        assert_eq!(recalled(&state, "https://a.test/?token=very-secret"), None);
        let verdicts = Verdicts::new(Arc::clone(&state), Weak::new());
        let store = verdicts.of(&server("https://a.test/?token=very-secret"));
        store.remember(OLD);
        store.remember_older_way();
        verdicts.written().await;
        let found = recalled(&state, "https://a.test/?token=very-secret").unwrap();
        assert_eq!((found.version, found.older_way), (OLD, true));
        assert_eq!(
            recalled(&state, "https://a.test/?token=other"),
            None,
            "another account is another server"
        );
        let text = String::from_utf8(state.read(FILE).unwrap()).unwrap();
        assert!(!text.contains("a.test") && !text.contains("very-secret"), "{text}");
        store.forget();
        verdicts.written().await;
        assert_eq!(recalled(&state, "https://a.test/?token=very-secret"), None);
        let _ = std::fs::remove_dir_all(root);
    }

    #[tokio::test]
    async fn lif_09_a_broken_file_is_put_aside_and_a_newer_one_left_alone() {
        let root = temporary("verdicts-broken");
        let state = Arc::new(StateDir::at(root.clone()));
        std::fs::write(root.join(FILE), "{\"version\":1,").unwrap();
        remembered(&Verdicts::new(Arc::clone(&state), Weak::new()), "https://a.test/").await;
        assert!(recalled(&state, "https://a.test/").is_some());
        let aside = std::fs::read_to_string(root.join(format!("{FILE}.corrupt"))).unwrap();
        assert_eq!(aside, "{\"version\":1,");
        let newer = "{\"version\":2,\"servers\":[]}";
        std::fs::write(root.join(FILE), newer).unwrap();
        remembered(&Verdicts::new(Arc::clone(&state), Weak::new()), "https://b.test/").await;
        assert_eq!(recalled(&state, "https://b.test/"), None);
        assert_eq!(std::fs::read_to_string(root.join(FILE)).unwrap(), newer);
        let _ = std::fs::remove_dir_all(root);
    }

    #[tokio::test]
    async fn lif_09_writers_do_not_lose_each_others_verdicts() {
        let root = temporary("verdicts-writers");
        let state = Arc::new(StateDir::at(root.clone()));
        let writers: Vec<_> =
            (0..8).map(|_| Verdicts::new(Arc::new(StateDir::at(root.clone())), Weak::new())).collect();
        let urls: Vec<String> = (0..8).map(|number| format!("https://a.test/{number}")).collect();
        for (writer, url) in writers.iter().zip(&urls) {
            writer.of(&server(url)).remember(OLD);
        }
        for writer in &writers {
            writer.written().await;
        }
        for url in &urls {
            assert!(recalled(&state, url).is_some(), "{url}");
        }
        let _ = std::fs::remove_dir_all(root);
    }

    #[test]
    fn lif_09_the_file_keeps_the_youngest_of_too_many() {
        let line = |since: u64| Line { protocol: OLD.as_str().to_owned(), older_way: false, since };
        let mut file = File::default();
        for number in 0..MOST as u64 + 10 {
            file.servers.insert(format!("{number:05}"), line(1_000 + number));
        }
        file.servers.insert("unreadable".to_owned(), Line { protocol: "x".to_owned(), ..line(9_000) });
        let Content::Usable(kept) = parse(Some(&tidied(file, 10_000))) else { panic!() };
        assert_eq!(kept.servers.len(), MOST);
        assert_eq!(kept.servers.keys().next().unwrap(), "00010");
        let Content::Usable(later) = parse(Some(&tidied(kept, u64::MAX / 2))) else { panic!() };
        assert!(later.servers.is_empty(), "nothing of it is believed any more");
    }
}
