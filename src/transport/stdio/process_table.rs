//! Looks at the process table of Linux.
//!
//! Owns two readings of `/proc`: which process groups have living members, and which processes of this
//! user carry the marker of a server (STD-05: descendants that left their group). A reading is shared
//! by all who ask at the same time, so that closing a hundred servers does not read the table a hundred times.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::environment::MARKER;

/// More of a process environment is not searched.
const ENVIRONMENT_BYTES: u64 = 1024 * 1024;

/// Living processes by group number.
pub(super) type Groups = BTreeMap<u32, Vec<u32>>;

/// Living processes of this user by the value of their marker.
pub(super) type Marked = BTreeMap<String, Vec<u32>>;

struct Reading<T> {
    taken: Instant,
    table: Option<Arc<T>>,
}

type Shared<T> = Mutex<Option<Reading<T>>>;

static GROUPS: Shared<Groups> = Mutex::new(None);
static MARKED: Shared<Marked> = Mutex::new(None);

/// Groups with living members (zombies do not count), read after `not_before`; `None` without `/proc`.
pub(super) fn living_groups(not_before: Instant) -> Option<Arc<Groups>> {
    shared(&GROUPS, not_before, read_groups)
}

/// Living processes that carry a marker, read after `not_before`; none without `/proc`.
pub(super) fn marked(marker: &str, not_before: Instant) -> Vec<u32> {
    shared(&MARKED, not_before, read_marked).and_then(|table| table.get(marker).cloned()).unwrap_or_default()
}

/// Living processes that carry any marker of a host, with that marker, read after `not_before`.
pub(super) fn marked_by_host(host: &str, not_before: Instant) -> Vec<(String, u32)> {
    let table = shared(&MARKED, not_before, read_marked);
    let of_host = |marker: &str| marker.strip_prefix(host).is_some_and(|rest| rest.starts_with('-'));
    let marked = table.iter().flat_map(|table| table.iter()).filter(|(marker, _)| of_host(marker));
    marked.flat_map(|(marker, all)| all.iter().map(|one| (marker.clone(), *one))).collect()
}

/// Signals a process if it still carries the marker; a reused number is never hit.
pub(super) fn signal_marked(process: u32, marker: &str, signal: Signal) {
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return };
    // The descriptor names the process, whatever becomes of its number between the two steps.
    let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if marker_of(process).as_deref() == Some(marker) {
        let _ = pidfd_send_signal(&descriptor, signal);
    }
}

fn shared<T>(slot: &Shared<T>, not_before: Instant, read: impl FnOnce() -> Option<T>) -> Option<Arc<T>> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reading) = slot.as_ref()
        && reading.taken >= not_before
    {
        return reading.table.clone();
    }
    let taken = Instant::now();
    let table = read().map(Arc::new);
    *slot = Some(Reading { taken, table: table.clone() });
    table
}

fn processes() -> Option<impl Iterator<Item = u32>> {
    let entries = std::fs::read_dir("/proc").ok()?;
    Some(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

fn read_groups() -> Option<Groups> {
    let mut groups = Groups::new();
    let mut any = false;
    for process in processes()? {
        let Some((state, group)) = state_and_group(process) else { continue };
        any = true;
        if is_living(state) {
            groups.entry(group).or_default().push(process);
        }
    }
    any.then_some(groups)
}

fn read_marked() -> Option<Marked> {
    let user = rustix::process::geteuid().as_raw();
    let mut marked = Marked::new();
    for process in processes()? {
        let own = std::fs::metadata(format!("/proc/{process}")).is_ok_and(|entry| entry.uid() == user);
        if own
            && let Some(marker) = marker_of(process)
            && state_and_group(process).is_some_and(|(state, _)| is_living(state))
        {
            marked.entry(marker).or_default().push(process);
        }
    }
    Some(marked)
}

/// State letter and group of a process.
pub(super) fn state_and_group(process: u32) -> Option<(u8, u32)> {
    let mut text = [0_u8; 512];
    let length = File::open(format!("/proc/{process}/stat")).ok()?.read(&mut text).ok()?;
    parse_stat(&text[..length])
}

/// Reads `pid (name) state parent group …`; the name may hold anything, also brackets.
pub(super) fn parse_stat(text: &[u8]) -> Option<(u8, u32)> {
    let end = memchr::memrchr(b')', text)?;
    let mut fields = std::str::from_utf8(&text[end + 1..]).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some((state, group))
}

/// Whether a state letter is that of a process which can still do something.
pub(super) fn is_living(state: u8) -> bool {
    !matches!(state, b'Z' | b'X' | b'x')
}

fn marker_of(process: u32) -> Option<String> {
    let mut variables = Vec::new();
    File::open(format!("/proc/{process}/environ"))
        .ok()?
        .take(ENVIRONMENT_BYTES)
        .read_to_end(&mut variables)
        .ok()?;
    find_marker(&variables)
}

/// The marker's value in a block of `NAME=value` entries that end with a zero byte.
pub(super) fn find_marker(variables: &[u8]) -> Option<String> {
    variables.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(MARKER.as_bytes())?.strip_prefix(b"=")?;
        std::str::from_utf8(value).ok().map(str::to_owned)
    })
}
