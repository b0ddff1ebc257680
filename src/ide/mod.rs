//! Finding the editors that a person has open on this very project (IDE-01, BRG-08).
//!
//! An editor says where it is in the environment of its own terminal, and in a file `<home>/<configDir>/ide/<port>.lock`.
//! Owns both readings and the choice among them; connecting is the business of whoever asked.

mod folders;
mod lock;
#[cfg(test)]
mod tests;
pub mod translation;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use url::{Host, Url};

use crate::diagnostic::Diagnostic;
use crate::environment::Environment;
use crate::runtime;
use crate::url_guard::is_loopback;
use folders::Folders;
pub use folders::distribution;
use lock::{Lock, NAMELESS};

/// The address of the editor whose terminal this is.
const URL_VARIABLE: &str = "CLAUDE_CODE_IDE_MCP_URL";
/// The port of the editor whose terminal this is.
const PORT_VARIABLE: &str = "CLAUDE_CODE_SSE_PORT";
/// Most editors that are taken.
const MOST: usize = 8;
/// Longest wait for a port to answer: it is on this machine.
const PATIENCE: Duration = Duration::from_millis(500);
/// Longest wait for the disk, which may be a network's.
const DISK_PATIENCE: Duration = Duration::from_secs(3);

/// Where to look.
#[derive(Clone, Debug)]
pub struct Search {
    /// The directory that an editor has to have open.
    pub cwd: PathBuf,
    /// Home directory.
    pub home: Option<PathBuf>,
    /// Name of the configuration directory in it.
    pub config_dir: String,
    /// Variables.
    pub environment: Environment,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Definitions of servers, the best first.
    pub editors: Vec<Value>,
    /// Files and variables that could not be used.
    pub findings: Vec<Diagnostic>,
    /// The lock files that were read; `None` where the disk did not answer.
    pub seen: Option<Sight>,
}

/// An editor that may be there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    url: String,
    /// Whether it listens on a WebSocket.
    web_socket: bool,
    /// Port on this machine; `None` for an address elsewhere.
    port: Option<u16>,
    /// Where it may listen on this machine.
    hosts: Vec<IpAddr>,
    name: String,
    token: Option<String>,
    in_windows: bool,
}

impl Candidate {
    fn of_lock(lock: &Lock) -> Self {
        Self {
            url: lock.url(),
            web_socket: lock.web_socket,
            port: Some(lock.port),
            hosts: vec![Ipv4Addr::LOCALHOST.into()],
            name: lock.name.clone(),
            token: lock.token.clone(),
            in_windows: lock.in_windows,
        }
    }

    fn definition(&self) -> Value {
        let kind = if self.web_socket { "ws-ide" } else { "sse-ide" };
        let mut definition = Map::new();
        definition.insert("type".to_owned(), kind.into());
        definition.insert("url".to_owned(), self.url.as_str().into());
        definition.insert("ideName".to_owned(), self.name.as_str().into());
        if let Some(token) = &self.token {
            definition.insert("authToken".to_owned(), token.as_str().into());
        }
        if self.in_windows {
            definition.insert("ideRunningInWindows".to_owned(), json!(true));
        }
        Value::Object(definition)
    }
}

/// What the lock files look like from outside: it differs when an editor came or went.
pub type Sight = Vec<(SystemTime, PathBuf)>;

/// Looks at the lock files without opening one. `None` where the disk does not answer.
pub async fn sight(search: Search) -> Option<Sight> {
    on_disk(move || lock::files(&search)).await
}

/// Looks for editors.
pub async fn discover(search: Search) -> Found {
    let read = move || {
        let seen = lock::files(&search);
        let (locks, mut findings) = lock::read_all(&search, &seen);
        let folders = Folders::new(&search);
        let candidates = choose(&search.environment, &folders, &locks, &mut findings);
        (candidates, findings, seen)
    };
    let Some((candidates, findings, seen)) = on_disk(read).await else {
        let message = format!("the files of editors could not be read within {} s", DISK_PATIENCE.as_secs());
        return Found {
            editors: Vec::new(),
            findings: vec![Diagnostic::warning("IDE_SEARCH_FAILED", message)],
            seen: None,
        };
    };
    let alive = join_all(candidates.iter().map(answers)).await;
    let alive = candidates.iter().zip(alive).filter(|(_, alive)| *alive);
    let editors = alive.map(|(candidate, _)| candidate.definition()).take(MOST).collect();
    Found { editors, findings, seen: Some(seen) }
}

/// Does what blocks.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let work = runtime::handle()?.spawn_blocking(work);
    tokio::time::timeout(DISK_PATIENCE, work).await.ok()?.ok()
}

/// Whether anybody listens on a port of this machine; an address elsewhere shows it when it is connected to.
async fn answers(candidate: &Candidate) -> bool {
    let Some(port) = candidate.port else { return true };
    for host in &candidate.hosts {
        let made = tokio::net::TcpStream::connect(SocketAddr::from((*host, port)));
        if tokio::time::timeout(PATIENCE, made).await.is_ok_and(|made| made.is_ok()) {
            return true;
        }
    }
    false
}

/// The editors in question: the one whose terminal this is, then those that have the directory open, the deepest
/// folder first, of equal ones the youngest.
fn choose(
    environment: &Environment,
    folders: &Folders,
    locks: &[(Lock, SystemTime)],
    findings: &mut Vec<Diagnostic>,
) -> Vec<Candidate> {
    let of_port = |port: Option<u16>| locks.iter().map(|(lock, _)| lock).find(|lock| Some(lock.port) == port);
    let mut chosen: Vec<Candidate> = Vec::new();
    if let Some(text) = environment.get(URL_VARIABLE).map(str::trim).filter(|text| !text.is_empty()) {
        match by_url(text) {
            Some(mut candidate) => {
                if let Some(lock) = of_port(candidate.port) {
                    candidate.name.clone_from(&lock.name);
                    candidate.token.clone_from(&lock.token);
                    candidate.in_windows = lock.in_windows;
                }
                chosen.push(candidate);
            }
            None => findings.push(unusable(URL_VARIABLE, "no http, https, ws or wss URL")),
        }
    }
    if let Some(text) = environment.get(PORT_VARIABLE).map(str::trim).filter(|text| !text.is_empty()) {
        match text.parse::<u16>().ok().filter(|port| *port > 0) {
            Some(port) => chosen.push(of_port(Some(port)).map_or_else(|| by_port(port), Candidate::of_lock)),
            None => findings.push(unusable(PORT_VARIABLE, "no port")),
        }
    }
    let mut open: Vec<(usize, SystemTime, &Lock)> =
        locks.iter().filter_map(|(lock, written)| Some((folders.depth(lock)?, *written, lock))).collect();
    open.sort_by_key(|(depth, written, lock)| (std::cmp::Reverse((*depth, *written)), lock.port));
    chosen.extend(open.into_iter().map(|(_, _, lock)| Candidate::of_lock(lock)));
    let mut seen = Vec::new();
    chosen.retain(|candidate| {
        let place = candidate.port.map_or_else(|| candidate.url.clone(), |port| port.to_string());
        let first = !seen.contains(&place);
        seen.push(place);
        first
    });
    chosen
}

fn by_port(port: u16) -> Candidate {
    Candidate {
        url: format!("http://127.0.0.1:{port}/sse"),
        web_socket: false,
        port: Some(port),
        hosts: vec![Ipv4Addr::LOCALHOST.into()],
        name: NAMELESS.to_owned(),
        token: None,
        in_windows: false,
    }
}

fn by_url(text: &str) -> Option<Candidate> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https" | "ws" | "wss"))?;
    let host = url.host()?;
    let here = is_loopback(&host);
    let hosts = match host {
        Host::Ipv4(address) => vec![address.into()],
        Host::Ipv6(address) => vec![address.into()],
        Host::Domain(_) => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
    };
    Some(Candidate {
        url: text.to_owned(),
        web_socket: url.scheme().starts_with("ws"),
        port: url.port_or_known_default().filter(|_| here),
        hosts,
        name: NAMELESS.to_owned(),
        token: None,
        in_windows: false,
    })
}

fn unusable(variable: &str, why: &str) -> Diagnostic {
    Diagnostic::warning("IDE_VARIABLE_INVALID", format!("the variable {variable} is not used: it is {why}"))
}
