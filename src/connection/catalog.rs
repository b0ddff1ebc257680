//! What a server offers: lists that are fetched once for all who ask, kept for a while, and remembered.
//!
//! Owns freshness (TOL-03): a time to live, `list_changed`, and the generation of the client that gave it.
//! After a connection is gone the last list stays known, so that a call by name still finds its server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::manifest::Manifest;
use crate::client::inbound::ListKind;
use crate::config::spec::ServerSpec;
use crate::error::{ErrorCode, McpError};
use crate::protocol::classify::Classifier;
use crate::protocol::prompt::PromptDefinition;
use crate::protocol::resource::ResourceDefinition;
use crate::protocol::skill::SkillDefinition;
use crate::protocol::tool::ToolDefinition;
use crate::runtime::{self, lock};
use crate::transport::BoxFuture;

/// A list with what is known about it.
#[derive(Debug)]
pub struct ListCell<T> {
    state: Mutex<CellState<T>>,
}

type Outcome<T> = Result<Arc<Vec<T>>, McpError>;

#[derive(Debug)]
struct CellState<T> {
    known: Arc<Vec<T>>,
    ever_read: bool,
    /// Generation of the client the list came from; 0 before the first.
    generation: u64,
    fetched: Option<Instant>,
    /// Counts `list_changed`, so that a change during a fetch is not forgotten.
    changes: u64,
    flight: Option<watch::Receiver<Option<Outcome<T>>>>,
    /// Generation and count of changes of the last fetch that has ended, however it ended.
    tried: Option<(u64, u64)>,
    error: Option<McpError>,
    /// How long the server says that the list is fresh; wins over the host's setting.
    hint: Option<Duration>,
}

impl<T> Default for ListCell<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(CellState {
                known: Arc::default(),
                ever_read: false,
                generation: 0,
                fetched: None,
                changes: 0,
                flight: None,
                tried: None,
                error: None,
                hint: None,
            }),
        }
    }
}

/// Fetches a list anew.
pub type Fetch<T> = BoxFuture<'static, Result<Vec<T>, McpError>>;

impl<T: Send + Sync + 'static> ListCell<T> {
    /// The last list that was read, however old.
    pub fn known(&self) -> Arc<Vec<T>> {
        Arc::clone(&lock(&self.state).known)
    }

    /// Takes over what is known from an earlier run; the first client reads it anew.
    pub fn preset(&self, items: Vec<T>) {
        let mut state = lock(&self.state);
        state.known = Arc::new(items);
        state.ever_read = true;
    }

    /// Whether the list was ever read, in this run or an earlier one.
    pub fn ever_read(&self) -> bool {
        lock(&self.state).ever_read
    }

    /// How many items the last list of this generation has, stale or not; `None` before it was read.
    pub fn count(&self, generation: u64) -> Option<usize> {
        let state = lock(&self.state);
        (state.generation == generation).then(|| state.known.len())
    }

    /// Why the last fetch failed, if it did.
    pub fn error(&self) -> Option<McpError> {
        lock(&self.state).error.clone()
    }

    /// Sets how long the list being fetched is fresh; `None` leaves that to the host (TOL-03).
    pub fn set_hint(&self, hint: Option<Duration>) {
        lock(&self.state).hint = hint;
    }

    /// Drops the list's freshness.
    pub fn mark_stale(&self) {
        let mut state = lock(&self.state);
        state.changes += 1;
        state.fetched = None;
    }

    /// Whether the list was read, or tried to, since this client came and since it last changed.
    pub fn was_tried(&self, generation: u64) -> bool {
        let state = lock(&self.state);
        state.tried == Some((generation, state.changes))
    }

    /// Age of the list of this generation.
    pub fn age(&self, generation: u64) -> Option<Duration> {
        let state = lock(&self.state);
        state.fetched.filter(|_| state.generation == generation).map(|fetched| fetched.elapsed())
    }

    /// The list of a generation, at most `ttl` old; all who ask at the same time share one fetch.
    ///
    /// A fetch that fails leaves the last list of the same generation in force (J17). `news` runs once another list is
    /// in force, before those who wait hear of it, and also where all of them have given up.
    pub async fn get(
        self: &Arc<Self>,
        generation: u64,
        ttl: Duration,
        fetch: impl FnOnce() -> Fetch<T> + Send,
        news: impl FnOnce() + Send + 'static,
    ) -> Outcome<T> {
        let mut flight = {
            let mut state = lock(&self.state);
            let fresh = state.generation == generation
                && state.fetched.is_some_and(|fetched| fetched.elapsed() < state.hint.unwrap_or(ttl));
            // A list that was stored and is not told yet is not there for anybody.
            if let Some(flight) = &state.flight {
                flight.clone()
            } else if fresh {
                return Ok(Arc::clone(&state.known));
            } else {
                let (landed, flight) = watch::channel(None);
                state.flight = Some(flight.clone());
                let changes = state.changes;
                let work = fetch();
                let cell = Arc::clone(self);
                runtime::spawn(async move {
                    let read = work.await;
                    let is_new = read.is_ok();
                    let outcome = cell.store(generation, changes, read);
                    if is_new {
                        news();
                    }
                    lock(&cell.state).flight = None;
                    landed.send_replace(Some(outcome));
                });
                flight
            }
        };
        let landed = flight.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        landed.unwrap_or_else(|| {
            lock(&self.state).flight = None;
            Err(McpError::new(ErrorCode::Internal, "a list could not be read"))
        })
    }

    fn store(&self, generation: u64, changes: u64, outcome: Result<Vec<T>, McpError>) -> Outcome<T> {
        let mut state = lock(&self.state);
        state.tried = Some((generation, changes));
        match outcome {
            Ok(items) => {
                state.known = Arc::new(items);
                state.ever_read = true;
                state.generation = generation;
                // Changed while it was read: known, but to be read again by the next who asks.
                state.fetched = (state.changes == changes).then(Instant::now);
                state.error = None;
                Ok(Arc::clone(&state.known))
            }
            Err(error) => {
                state.error = Some(error.clone());
                if state.generation == generation { Ok(Arc::clone(&state.known)) } else { Err(error) }
            }
        }
    }
}

/// The lists of one server.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Tools.
    pub tools: Arc<ListCell<ToolDefinition>>,
    /// Prompts.
    pub prompts: Arc<ListCell<PromptDefinition>>,
    /// Resources.
    pub resources: Arc<ListCell<ResourceDefinition>>,
    /// Resource templates.
    pub templates: Arc<ListCell<ResourceDefinition>>,
    /// Skills.
    pub skills: Arc<ListCell<SkillDefinition>>,
    /// Whether the server has resources at all, as it said last.
    resources_declared: AtomicBool,
}

impl Catalog {
    /// Whether the server offers resources, as far as is known.
    pub fn has_resources(&self) -> bool {
        self.resources_declared.load(Ordering::Acquire)
    }

    /// What the server declares at the start of a conversation.
    pub fn declare_resources(&self, declared: bool) {
        self.resources_declared.store(declared, Ordering::Release);
    }

    /// What is known of a server before it runs.
    pub(super) fn recalled(manifest: Option<&Manifest>, spec: &ServerSpec, classifier: &Classifier) -> Self {
        let catalog = Self::default();
        let (tools, prompts) =
            manifest.map(|manifest| manifest.recall(&spec.name, classifier)).unwrap_or_default();
        if let Some(mut tools) = tools {
            tools.retain(|tool| spec.tools.admits(&tool.wire_name));
            catalog.tools.preset(tools);
        }
        if let Some(prompts) = prompts {
            catalog.prompts.preset(prompts);
        }
        catalog.declare_resources(manifest.is_some_and(Manifest::has_resources));
        catalog
    }

    /// A list is out of date.
    pub fn mark_stale(&self, kind: ListKind) {
        match kind {
            ListKind::Tools => self.tools.mark_stale(),
            ListKind::Prompts => self.prompts.mark_stale(),
            ListKind::Resources => {
                self.resources.mark_stale();
                self.templates.mark_stale();
                // Skills are resources, and nothing else tells of their changes.
                self.skills.mark_stale();
            }
        }
    }

    /// Every list that could not be read, with its name.
    pub fn errors(&self) -> Vec<(&'static str, McpError)> {
        [
            ("tools", self.tools.error()),
            ("prompts", self.prompts.error()),
            ("resources", self.resources.error()),
            ("templates", self.templates.error()),
            ("skills", self.skills.error()),
        ]
        .into_iter()
        .filter_map(|(list, error)| Some((list, error?)))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn fetch(count: &Arc<AtomicUsize>, outcome: Result<Vec<u8>, McpError>) -> Fetch<u8> {
        let count = Arc::clone(count);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            count.fetch_add(1, Ordering::Relaxed);
            outcome
        })
    }

    const TTL: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn tol_03_concurrent_readers_share_one_fetch() {
        let cell = Arc::new(ListCell::default());
        let count = Arc::new(AtomicUsize::new(0));
        let readers = (0..50).map(|_| {
            let (cell, count) = (Arc::clone(&cell), Arc::clone(&count));
            tokio::spawn(async move { cell.get(1, TTL, || fetch(&count, Ok(vec![7])), || {}).await.unwrap() })
        });
        for reader in readers.collect::<Vec<_>>() {
            assert_eq!(*reader.await.unwrap(), vec![7]);
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
        tokio::time::sleep(TTL).await;
        cell.get(1, TTL, || fetch(&count, Ok(vec![8])), || {}).await.unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 2, "the time to live is over");
    }

    #[tokio::test(start_paused = true)]
    async fn tol_03_a_change_during_a_fetch_is_not_forgotten() {
        let cell = Arc::new(ListCell::default());
        let count = Arc::new(AtomicUsize::new(0));
        let changer = Arc::clone(&cell);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            changer.mark_stale();
        });
        cell.get(1, TTL, || fetch(&count, Ok(vec![1])), || {}).await.unwrap();
        cell.get(1, TTL, || fetch(&count, Ok(vec![2])), || {}).await.unwrap();
        assert_eq!((count.load(Ordering::Relaxed), cell.known()), (2, Arc::new(vec![2])));
    }

    #[tokio::test(start_paused = true)]
    async fn j17_a_failing_refresh_keeps_the_last_list_but_not_across_generations() {
        let cell = Arc::new(ListCell::default());
        let count = Arc::new(AtomicUsize::new(0));
        let error = || McpError::new(ErrorCode::RpcError, "no");
        cell.get(1, TTL, || fetch(&count, Ok(vec![1])), || {}).await.unwrap();
        cell.mark_stale();
        assert_eq!(*cell.get(1, TTL, || fetch(&count, Err(error())), || {}).await.unwrap(), vec![1]);
        assert!(cell.error().is_some());
        assert!(cell.get(2, TTL, || fetch(&count, Err(error())), || {}).await.is_err());
        assert_eq!(*cell.known(), vec![1], "names stay known");
    }

    #[tokio::test(start_paused = true)]
    async fn pro_06_a_list_that_nobody_waits_for_any_more_is_told_all_the_same() {
        let cell = Arc::new(ListCell::default());
        let (count, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let news = {
            let told = Arc::clone(&told);
            move || {
                told.fetch_add(1, Ordering::Relaxed);
            }
        };
        let waiting = cell.get(1, TTL, || fetch(&count, Ok(vec![1])), news);
        assert!(tokio::time::timeout(Duration::from_millis(5), waiting).await.is_err());
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!((told.load(Ordering::Relaxed), cell.known()), (1, Arc::new(vec![1])));
    }

    #[tokio::test(start_paused = true)]
    async fn tol_03_nobody_gets_a_list_before_it_was_told() {
        let cell = Arc::new(ListCell::default());
        let count = Arc::new(AtomicUsize::new(0));
        let (early, again) = (Arc::new(AtomicBool::new(true)), Arc::clone(&cell));
        let news = {
            let early = Arc::clone(&early);
            move || {
                let reading = again.get(1, TTL, || unreachable!("a fetch is under way"), || {});
                early.store(reading.now_or_never().is_some(), Ordering::Relaxed);
            }
        };
        cell.get(1, TTL, || fetch(&count, Ok(vec![1])), news).await.unwrap();
        assert!(!early.load(Ordering::Relaxed));
        let fresh = cell.get(1, TTL, || unreachable!("it is fresh"), || {}).now_or_never();
        assert_eq!(*fresh.unwrap().unwrap(), vec![1]);
    }
}
