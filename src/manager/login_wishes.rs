//! Servers that asked for a login which nobody has given, in the state directory: one file for all managers of the
//! directory, entries by cache identity (L5). Best effort: what cannot be kept is asked again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::late_writes::LateWrites;
use crate::config::identity::{self, IdentityKey};
use crate::config::spec::ServerSpec;
use crate::connection::login_wish::{LoginWish, NoWish};
use crate::error::McpError;
use crate::runtime::unix_millis;
use crate::state_dir::StateDir;

/// File of the state directory.
const FILE: &str = "login-wishes.json";
/// Version of its format; a file of a later one stays as it is, and counts for nothing.
const FORMAT: u32 = 1;
/// Entries that are kept; the oldest go first.
const MOST: usize = 1_000;
/// Default of `loginMemoryMs`.
pub(super) const LIFETIME: Duration = Duration::from_secs(15 * 60);

#[derive(Debug, Serialize, Deserialize)]
struct File {
    version: u32,
    /// When each asked, in milliseconds since the epoch.
    servers: BTreeMap<String, u64>,
}

impl Default for File {
    fn default() -> Self {
        Self { version: FORMAT, servers: BTreeMap::new() }
    }
}

impl File {
    /// What stands in the file; `None` where it is of a later version.
    fn parse(bytes: Option<&[u8]>) -> Option<Self> {
        let file: Self = bytes.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
        (file.version <= FORMAT).then_some(file)
    }

    /// Without what is no longer believed, and without the oldest of too many.
    fn tidied(mut self, now: u64, lifetime: Duration) -> Vec<u8> {
        self.servers.retain(|_, since| is_believed(*since, now, lifetime));
        let mut times: Vec<u64> = self.servers.values().copied().collect();
        times.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(oldest) = times.get(MOST) {
            self.servers.retain(|_, since| *since > *oldest);
        }
        serde_json::to_vec(&self).unwrap_or_default()
    }
}

/// One from the future is as little worth as an old one.
fn is_believed(since: u64, now: u64, lifetime: Duration) -> bool {
    since <= now && u128::from(now - since) < lifetime.as_millis()
}

/// The wishes of a state directory.
#[derive(Debug)]
pub(super) struct LoginWishes {
    state: Arc<StateDir>,
    lifetime: Duration,
    writes: LateWrites,
}

impl LoginWishes {
    /// With `lifetime` zero nothing is remembered.
    pub(super) fn new(state: Arc<StateDir>, lifetime: Duration) -> Arc<Self> {
        Arc::new(Self { state, lifetime, writes: LateWrites::default() })
    }

    /// The store for one server; nothing is read yet.
    pub(super) fn of(self: &Arc<Self>, spec: &Arc<ServerSpec>) -> Arc<dyn LoginWish> {
        if self.lifetime.is_zero() || spec.transport.remote().is_none() {
            return Arc::new(NoWish);
        }
        Arc::new(Kept(Arc::new(Entry { wishes: Arc::clone(self), spec: Arc::clone(spec) })))
    }

    /// Waits until everything is written, for a moment.
    pub(super) async fn written(&self) {
        self.writes.done().await;
    }

    fn since(&self, spec: &ServerSpec) -> Option<u64> {
        let key = IdentityKey::read(&self.state)?;
        let file = File::parse(self.state.read(FILE).as_deref())?;
        let since = *file.servers.get(&identity::identity(spec, &key))?;
        is_believed(since, unix_millis(), self.lifetime).then_some(since)
    }

    fn write(&self, spec: &ServerSpec, since: Option<u64>) -> Result<(), McpError> {
        let key = IdentityKey::read_or_make(&self.state)?;
        let name = identity::identity(spec, &key);
        self.state.update(FILE, |before| {
            let Some(mut file) = File::parse(before.as_deref()) else { return before.unwrap_or_default() };
            match since {
                Some(since) => file.servers.insert(name, since),
                None => file.servers.remove(&name),
            };
            file.tidied(unix_millis(), self.lifetime)
        })
    }
}

#[derive(Debug)]
struct Entry {
    wishes: Arc<LoginWishes>,
    spec: Arc<ServerSpec>,
}

/// The wish of one server.
struct Kept(Arc<Entry>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("server", &self.0.spec.name).finish_non_exhaustive()
    }
}

impl Kept {
    fn write(&self, since: Option<u64>) {
        let entry = Arc::clone(&self.0);
        self.0.wishes.writes.add(move || {
            // It is asked again then, as if nothing were remembered.
            let _ = entry.wishes.write(&entry.spec, since);
        });
    }
}

impl LoginWish for Kept {
    fn since(&self) -> Option<u64> {
        self.0.wishes.since(&self.0.spec)
    }

    fn note(&self) {
        self.write(Some(unix_millis()));
    }

    fn clear(&self) {
        if self.since().is_some() {
            self.write(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l5_a_wish_is_believed_for_a_while() {
        let minute = Duration::from_secs(60);
        for (since, now, believed) in [(0, 0, true), (0, 59_999, true), (0, 60_000, false), (5, 4, false)] {
            assert_eq!(is_believed(since, now, minute), believed, "{since} at {now}");
        }
    }

    #[test]
    fn l5_the_file_is_bounded_and_one_of_a_later_version_counts_for_nothing() {
        let mut file = File::default();
        for number in 0..MOST as u64 + 10 {
            file.servers.insert(format!("{number:05}"), number);
        }
        let kept = File::parse(Some(&file.tidied(2_000, LIFETIME))).unwrap();
        assert_eq!(kept.servers.len(), MOST);
        assert_eq!(kept.servers.keys().next().map(String::as_str), Some("00010"));
        assert!(File::parse(Some(br#"{"version":2,"servers":{}}"#)).is_none());
        assert!(File::parse(Some(b"no JSON")).is_some_and(|file| file.servers.is_empty()));
    }
}
