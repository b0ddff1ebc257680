//! What the host wants to hear of a server, over many clients: resource subscriptions, the log level and, in the
//! stateless era, the listen stream that carries them (RES-02, PRO-11, mcp:SUB-*).
//!
//! A listen stream never decides whether a server is connected: it has its own back-off and gives up quietly; lists
//! then live by their time to live alone (D5).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::{ClientListener, Live, Shared, task_listening};
use crate::client::inbound::{ListKind, ServerListener};
use crate::client::listen::ListenEnd;
use crate::client::{Client, Request};
use crate::deadline::Deadline;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError};
use crate::jsonrpc::write::{Params, push_member, push_string};
use crate::protocol::stateless::ListenFilter;
use crate::protocol::version::Era;
use crate::runtime::{self, lock, random_jitter};
use crate::unicode::clean_str_lossy;

/// A stream that lived so long proves that listening works: longer than hosts without a process of their own let one
/// live (25 s, D5), shorter than proxies let a silent one be (60 s and more, mcp:HTTP-16).
const PROVEN_AFTER: Duration = Duration::from_secs(45);
/// Wait after a stream that the server itself ended (mcp:SUB-10).
const AFTER_GRACEFUL: Duration = Duration::from_secs(30);
/// Streams in a row that end early before listening is given up.
const MOST_FAILURES: u32 = 5;
/// Resources of one server that may be subscribed to.
const MOST_URIS: usize = 1_000;

/// Wishes of the host, and how far the current listen stream meets them.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    uris: Mutex<BTreeSet<String>>,
    /// Those of them that the server has agreed to tell of.
    agreed: Mutex<BTreeSet<String>>,
    log_level: Mutex<Option<String>>,
    /// Counts changes of the wishes that a listen stream has to follow.
    wanted: watch::Sender<u64>,
    met: watch::Sender<Met>,
}

/// What became of the wishes.
#[derive(Clone, Debug, Default)]
struct Met {
    /// The change up to which the wishes are on the wire.
    up_to: u64,
    uris: BTreeSet<String>,
    /// Why there is no stream.
    error: Option<McpError>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            uris: Mutex::default(),
            agreed: Mutex::default(),
            log_level: Mutex::default(),
            wanted: watch::Sender::new(0),
            met: watch::Sender::new(Met::default()),
        }
    }
}

/// Ends a task with its owner.
#[derive(Debug)]
pub(super) struct Listening(JoinHandle<()>);

impl Listening {
    pub(super) fn of(task: JoinHandle<()>) -> Self {
        Self(task)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Brings the wishes to a new client; in the stateless era the task that keeps listening.
pub(super) fn bring(shared: &Arc<Shared>, live: &Live) -> Option<Listening> {
    let (shared, live) = (Arc::clone(shared), live.clone());
    let task = match live.client.era() {
        Era::Legacy => runtime::spawn(async move { repeat_wishes(&shared, &live).await }),
        Era::Modern => {
            live.client.set_log_level(lock(&shared.subscriptions.log_level).as_deref());
            runtime::spawn(async move {
                tokio::join!(keep_listening(&shared, &live), task_listening::keep(&shared, &live));
            })
        }
    };
    task.map(Listening)
}

/// Subscribes to a resource, or ends the subscription.
///
/// # Errors
/// `CAPABILITY_MISSING`; `RPC_ERROR` where the server refuses; those of any request.
pub(super) async fn subscribe(
    shared: &Arc<Shared>,
    live: &Live,
    (uri, on): (&str, bool),
    deadline: &Arc<Deadline>,
) -> Result<(), McpError> {
    match live.client.era() {
        Era::Legacy => {
            let method = if on { "resources/subscribe" } else { "resources/unsubscribe" };
            send_text(&live.client, method, ("uri", uri), deadline).await?;
            shared.subscriptions.wish(uri, on)
        }
        Era::Modern => subscribe_by_listening(shared, live, (uri, on), deadline).await,
    }
    .map_err(|error| error.on(&shared.spec.name))
}

async fn subscribe_by_listening(
    shared: &Arc<Shared>,
    live: &Live,
    (uri, on): (&str, bool),
    deadline: &Arc<Deadline>,
) -> Result<(), McpError> {
    if !live.client.negotiated().introduction.capabilities.resources_subscribe {
        let message =
            "subscribing needs the capability 'resources.subscribe', which the server does not declare";
        return Err(McpError::new(ErrorCode::CapabilityMissing, message));
    }
    let wishes = &shared.subscriptions;
    let mut met = wishes.met.subscribe();
    wishes.wish(uri, on)?;
    let change = *wishes.wanted.borrow();
    if !on {
        return Ok(());
    }
    let met = tokio::select! {
        biased;
        met = met.wait_for(|met| met.up_to >= change) => met.map(|met| met.clone()).unwrap_or_default(),
        kind = deadline.expired() => {
            let _ = wishes.wish(uri, false);
            return Err(deadline.error(kind, "subscriptions/listen"));
        }
    };
    if met.uris.contains(uri) {
        return Ok(());
    }
    wishes.wish(uri, false)?;
    Err(met.error.unwrap_or_else(|| {
        McpError::new(ErrorCode::RpcError, "the server did not acknowledge the subscription (mcp:SUB-03)")
    }))
}

/// Sets the least severe level of log messages.
///
/// # Errors
/// `CAPABILITY_MISSING`; those of any request.
pub(super) async fn set_log_level(
    shared: &Arc<Shared>,
    live: &Live,
    level: &str,
    deadline: &Arc<Deadline>,
) -> Result<(), McpError> {
    match live.client.era() {
        Era::Legacy => {
            send_text(&live.client, "logging/setLevel", ("level", level), deadline).await?;
        }
        Era::Modern => {
            if !crate::protocol::stateless::LOG_LEVELS.contains(&level) {
                let levels = crate::protocol::stateless::LOG_LEVELS.join(", ");
                return Err(McpError::new(
                    ErrorCode::InvalidArgument,
                    format!("level: expected one of {levels}"),
                )
                .with(|facts| facts.parameter = Some("level".to_owned())));
            }
            if !live.client.negotiated().introduction.capabilities.logging {
                let message = "log levels need the capability 'logging', which the server does not declare";
                return Err(McpError::new(ErrorCode::CapabilityMissing, message).on(&shared.spec.name));
            }
            live.client.set_log_level(Some(level));
        }
    }
    *lock(&shared.subscriptions.log_level) = Some(level.to_owned());
    Ok(())
}

impl Subscriptions {
    fn wish(&self, uri: &str, on: bool) -> Result<(), McpError> {
        let mut uris = lock(&self.uris);
        if on && uris.len() >= MOST_URIS && !uris.contains(uri) {
            let message = format!("more than {MOST_URIS} resources of one server are subscribed to");
            return Err(McpError::new(ErrorCode::ListLimit, message));
        }
        let changed = if on { uris.insert(uri.to_owned()) } else { uris.remove(uri) };
        drop(uris);
        if !on {
            lock(&self.agreed).remove(uri);
        }
        if changed {
            self.wanted.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    /// Takes what a server agrees to now: which of the subscriptions stay, and which it does not know any more.
    fn agree(&self, accepted: &BTreeSet<String>) -> (Vec<String>, Vec<String>) {
        let wished = lock(&self.uris).intersection(accepted).cloned().collect();
        let before = std::mem::replace(&mut *lock(&self.agreed), wished);
        before.into_iter().partition(|uri| accepted.contains(uri))
    }

    fn filter(&self, client: &Client) -> (u64, ListenFilter) {
        let capabilities = client.negotiated().introduction.capabilities;
        let change = *self.wanted.borrow();
        let uris = lock(&self.uris).iter().cloned().collect();
        let filter = ListenFilter {
            tools: capabilities.tools_list_changed,
            prompts: capabilities.prompts_list_changed,
            resources: capabilities.resources_list_changed,
            uris: if capabilities.resources_subscribe { uris } else { Vec::new() },
            tasks: Vec::new(),
        };
        (change, filter)
    }
}

async fn send_text(
    client: &Client,
    method: &str,
    (name, value): (&str, &str),
    deadline: &Arc<Deadline>,
) -> Result<(), McpError> {
    let (mut literal, mut members) = (String::new(), String::new());
    push_string(&mut literal, value);
    push_member(&mut members, name, &literal);
    let params = Params::from_members(members, String::new());
    client.request(Request::new(method, &params, deadline)).await.map(drop)
}

/// A new client of the handshake era knows nothing of earlier subscriptions (RES-02).
async fn repeat_wishes(shared: &Arc<Shared>, live: &Live) {
    let uris: Vec<String> = lock(&shared.subscriptions.uris).iter().cloned().collect();
    let level = lock(&shared.subscriptions.log_level).clone();
    let wishes = level
        .into_iter()
        .map(|level| ("logging/setLevel", "level", level))
        .chain(uris.into_iter().map(|uri| ("resources/subscribe", "uri", uri)));
    for (method, name, value) in wishes {
        let deadline = Arc::new(Deadline::start(shared.settings.clocks.request(None, None)));
        match send_text(&live.client, method, (name, &value), &deadline).await {
            // What happened to it meanwhile was told to nobody.
            Ok(()) if name == "uri" => listener(shared, live).resource_updated(&value),
            Ok(()) => {}
            Err(error) => {
                let message =
                    format!("{method} could not be repeated after a reconnect: {}", error.message());
                shared.diagnose(Diagnostic::warning("SUBSCRIPTION_LOST", message));
            }
        }
    }
}

/// One stream and the change of the wishes it was opened for.
struct Stream {
    _task: Listening,
    ended: tokio::sync::oneshot::Receiver<ListenEnd>,
    change: u64,
    since: Instant,
}

/// Keeps one listen stream open for a client, as long as that makes sense.
async fn keep_listening(shared: &Arc<Shared>, live: &Live) {
    let wishes = &shared.subscriptions;
    let mut wanted = wishes.wanted.subscribe();
    let mut failures = 0;
    // The lists of a new client are read anew in any case.
    let mut gap = Gap::OfClient;
    // What an earlier client was told counts no more.
    wishes.met.send_replace(Met::default());
    loop {
        let (change, filter) = wishes.filter(&live.client);
        wanted.mark_unchanged();
        if filter.is_empty() {
            acknowledged(shared, live, Gap::None, ListenFilter::default());
            wishes.met.send_replace(Met { up_to: change, ..Met::default() });
            if wanted.changed().await.is_err() {
                return;
            }
            continue;
        }
        let stream = open_stream(shared, live, (change, filter), gap);
        let Some((end, lived)) = follow(shared, live, stream, &mut wanted).await else {
            gap = Gap::None;
            continue;
        };
        gap = Gap::OfStream;
        failures = failures_with(failures, lived);
        let Some(wait) = next_wait(&end, failures) else {
            return give_up(shared, live, &end);
        };
        tokio::time::sleep(wait).await;
    }
}

/// Stays with a stream, and with those that replace it as wishes change, until one ends by itself: how, and how long
/// it lived. `None` where nothing is wished for any more.
async fn follow(
    shared: &Arc<Shared>,
    live: &Live,
    mut stream: Stream,
    wanted: &mut watch::Receiver<u64>,
) -> Option<(ListenEnd, Duration)> {
    let wishes = &shared.subscriptions;
    loop {
        tokio::select! {
            end = &mut stream.ended => {
                return Some((end.unwrap_or(ListenEnd::Unacknowledged), stream.since.elapsed()));
            }
            // The sender lives as long as the connection.
            _ = wanted.changed() => {}
        }
        let (change, filter) = wishes.filter(&live.client);
        if filter.is_empty() {
            return None;
        }
        if change != stream.change {
            // There is no update: the new one opens before the old one closes (mcp:SUB-05).
            let next = open_stream(shared, live, (change, filter), Gap::None);
            settled(wishes, change).await;
            stream = next;
        }
    }
}

/// Waits until the stream of a change is acknowledged or refused; a stream that is slow does not block for ever.
async fn settled(wishes: &Subscriptions, change: u64) {
    let mut met = wishes.met.subscribe();
    let _ = tokio::time::timeout(Duration::from_secs(60), met.wait_for(|met| met.up_to >= change)).await;
}

fn open_stream(shared: &Arc<Shared>, live: &Live, (change, filter): (u64, ListenFilter), gap: Gap) -> Stream {
    let (told, ended) = tokio::sync::oneshot::channel();
    let (owner, live) = (Arc::clone(shared), live.clone());
    let patience = shared.settings.clocks.request;
    let task = tokio::spawn(async move {
        let (heard, asked) = (Arc::clone(&owner), live.clone());
        let acknowledged = move |accepted: ListenFilter| {
            let uris = accepted.uris.iter().cloned().collect();
            acknowledged(&heard, &asked, gap, accepted);
            heard.subscriptions.met.send_replace(Met { up_to: change, uris, error: None });
        };
        let end = live.client.listen(&filter, patience, acknowledged).await;
        owner.subscriptions.met.send_modify(|met| {
            if met.up_to < change {
                *met = Met { up_to: change, uris: BTreeSet::new(), error: Some(error_of(&end)) };
            }
        });
        let _ = told.send(end);
    });
    Stream { _task: Listening(task), ended, change, since: Instant::now() }
}

fn error_of(end: &ListenEnd) -> McpError {
    let message = match end {
        ListenEnd::Lost(error) => return error.clone(),
        ListenEnd::Graceful => "the server ended the subscription".to_owned(),
        ListenEnd::Unacknowledged => "the server did not acknowledge the subscription".to_owned(),
        ListenEnd::Refused(code) => format!("subscriptions/listen was answered with error {code}"),
    };
    McpError::new(ErrorCode::RpcError, message)
}

/// Streams in a row that ended early, with one more that lived so long.
pub(super) fn failures_with(before: u32, lived: Duration) -> u32 {
    if lived >= PROVEN_AFTER { 1 } else { before + 1 }
}

/// When to listen again; `None` gives up. A refusal is final (mcp:SUB-17).
pub(super) fn next_wait(end: &ListenEnd, failures: u32) -> Option<Duration> {
    match end {
        ListenEnd::Refused(_) => None,
        _ if failures >= MOST_FAILURES => None,
        ListenEnd::Graceful => Some(AFTER_GRACEFUL),
        ListenEnd::Unacknowledged | ListenEnd::Lost(_) => Backoff::default().delay(failures, random_jitter()),
    }
}

fn give_up(shared: &Arc<Shared>, live: &Live, end: &ListenEnd) {
    // What changed since the last stream will never be told.
    let (_, filter) = shared.subscriptions.filter(&live.client);
    acknowledged(shared, live, Gap::OfStream, ListenFilter { uris: Vec::new(), ..filter });
    let message =
        format!("changes are no longer announced ({}); lists are read anew by age", error_of(end).message());
    shared.diagnose(Diagnostic::info("LISTEN_ENDED", message));
    shared.subscriptions.met.send_modify(|met| {
        *met = Met { up_to: u64::MAX, uris: BTreeSet::new(), error: Some(error_of(end)) };
    });
}

/// What nobody was told of before a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    /// Nothing: it takes the place of another one.
    None,
    /// What happened since the last stream.
    OfStream,
    /// What happened to resources since the last client.
    OfClient,
}

/// Takes what a server agrees to tell. What was missed while nobody listened is not told again: everything that the
/// stream covers counts as changed (mcp:SUB-12), now that what follows is heard. Subscriptions that it leaves out are
/// lost, which is told (mcp:SUB-03).
fn acknowledged(shared: &Arc<Shared>, live: &Live, gap: Gap, accepted: ListenFilter) {
    let listener = listener(shared, live);
    for (kind, on) in [
        (ListKind::Tools, accepted.tools),
        (ListKind::Prompts, accepted.prompts),
        (ListKind::Resources, accepted.resources),
    ] {
        if on && gap == Gap::OfStream {
            listener.list_changed(kind);
        }
    }
    let (kept, lost) = shared.subscriptions.agree(&accepted.uris.into_iter().collect());
    if gap != Gap::None {
        for uri in &kept {
            listener.resource_updated(uri);
        }
    }
    if !lost.is_empty() {
        let shown: Vec<String> = lost.iter().take(5).map(|uri| clean_str_lossy(uri)).collect();
        let message = format!(
            "the server tells no more of {} subscribed resources ({}{})",
            lost.len(),
            shown.join(", "),
            if lost.len() > shown.len() { " …" } else { "" },
        );
        shared.diagnose(Diagnostic::warning("SUBSCRIPTION_LOST", message));
    }
}

fn listener(shared: &Arc<Shared>, live: &Live) -> ClientListener {
    ClientListener { shared: Arc::clone(shared), generation: live.generation }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_16_a_proxy_that_cuts_silent_streams_is_routine() {
        let after =
            |seconds| (0..20).fold(0, |failures, _| failures_with(failures, Duration::from_secs(seconds)));
        for seconds in [60, 100, 125] {
            assert_eq!(after(seconds), 1, "mcp:HTTP-16 a cut every {seconds} s");
        }
        assert!(after(25) >= MOST_FAILURES, "D5");
    }

    /// mcp:SUB-10 mcp:SUB-17
    #[test]
    fn d5_listening_has_its_own_back_off_and_gives_up() {
        let lost = || ListenEnd::Lost(McpError::new(ErrorCode::ConnectionLost, "gone"));
        assert_eq!(next_wait(&ListenEnd::Refused(-32601), 1), None, "SUB-17");
        assert_eq!(next_wait(&ListenEnd::Graceful, 1), Some(AFTER_GRACEFUL), "SUB-10");
        for end in [lost(), ListenEnd::Unacknowledged] {
            let waits: Vec<Option<Duration>> =
                (1..=MOST_FAILURES).map(|tries| next_wait(&end, tries)).collect();
            assert!(waits[..4].iter().all(Option::is_some) && waits[4].is_none(), "{waits:?}");
            assert!(waits[0] < waits[3]);
        }
        assert_eq!(
            next_wait(&ListenEnd::Graceful, MOST_FAILURES),
            None,
            "a stream that is closed every 25 s"
        );
    }

    /// mcp:SUB-03 mcp:SUB-12
    #[test]
    fn sub_03_12_what_a_server_agrees_to_is_compared_with_what_it_agreed_to_before() {
        let set = |uris: &[&str]| uris.iter().map(|uri| (*uri).to_owned()).collect::<BTreeSet<_>>();
        let wishes = Subscriptions::default();
        for uri in ["a", "b", "c"] {
            wishes.wish(uri, true).unwrap();
        }
        let none: Vec<String> = Vec::new();
        assert_eq!(
            wishes.agree(&set(&["a", "b"])),
            (none.clone(), none.clone()),
            "new ones are told by nobody else"
        );
        assert_eq!(wishes.agree(&set(&["a", "c", "foreign"])), (vec!["a".to_owned()], vec!["b".to_owned()]));
        wishes.wish("a", false).unwrap();
        assert_eq!(
            wishes.agree(&set(&[])),
            (none.clone(), vec!["c".to_owned()]),
            "what was given up is not lost"
        );
        assert_eq!(wishes.agree(&set(&[])), (none.clone(), none));
    }
}
