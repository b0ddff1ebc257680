//! A listen stream for the tasks that are followed: the server tells of them and need not be asked all the time
//! (mcp:TASK-15). Only of what it acknowledged; everything else is asked about as ever.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::subscriptions::{Listening, failures_with, next_wait};
use super::{Live, Shared};
use crate::client::listen::ListenEnd;
use crate::protocol::stateless::ListenFilter;

/// Tasks that come or go together share one stream; a short one needs none.
const SETTLE: Duration = Duration::from_millis(250);

/// One stream and the tasks it was opened for.
struct Stream {
    _task: Listening,
    ended: oneshot::Receiver<ListenEnd>,
    tasks: BTreeSet<String>,
    since: Instant,
}

/// Forgets what a client was told when it is over.
struct Told<'a>(&'a Shared);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.task_news.told_of(HashSet::new());
    }
}

/// Listens for a client of the stateless era, as long as that makes sense.
pub(super) async fn keep(shared: &Arc<Shared>, live: &Live) {
    if !live.client.offers_tasks() {
        return;
    }
    let told = Told(shared);
    let mut changes = shared.task_news.changes();
    let mut open: Option<Stream> = None;
    let mut failures = 0;
    loop {
        changes.mark_unchanged();
        let followed = shared.task_news.followed();
        let covered = open.as_ref().is_some_and(|stream| followed.is_subset(&stream.tasks));
        if followed.is_empty() {
            open = None;
            shared.task_news.told_of(HashSet::new());
        } else if !covered {
            // There is no update: the new one opens before the old one closes (mcp:SUB-05).
            open = Some(open_stream(shared, live, followed, open.take()));
        }
        tokio::select! {
            news = changes.changed() => {
                if news.is_err() {
                    return drop(told);
                }
                tokio::time::sleep(SETTLE).await;
            }
            (end, lived) = ended(&mut open) => {
                open = None;
                shared.task_news.told_of(HashSet::new());
                failures = failures_with(failures, lived);
                // A server that refuses is asked as ever, which is no loss worth telling.
                let Some(wait) = next_wait(&end, failures) else { return };
                tokio::time::sleep(wait).await;
            }
        }
    }
}

/// How the open stream ended, and how long it lived; never, if there is none.
async fn ended(open: &mut Option<Stream>) -> (ListenEnd, Duration) {
    match open {
        None => std::future::pending().await,
        Some(stream) => {
            let end = (&mut stream.ended).await;
            (end.unwrap_or(ListenEnd::Unacknowledged), stream.since.elapsed())
        }
    }
}

/// Opens a stream; the one it replaces ends when it is acknowledged, or with it.
fn open_stream(
    shared: &Arc<Shared>,
    live: &Live,
    tasks: BTreeSet<String>,
    replaced: Option<Stream>,
) -> Stream {
    let (tell, ended) = oneshot::channel();
    let filter = ListenFilter { tasks: tasks.iter().cloned().collect(), ..ListenFilter::default() };
    let (owner, client) = (Arc::clone(shared), Arc::clone(&live.client));
    let task = tokio::spawn(async move {
        let acknowledged = |accepted: ListenFilter| {
            owner.task_news.told_of(accepted.tasks.into_iter().collect());
            drop(replaced);
        };
        let end = client.listen(&filter, owner.settings.clocks.request, acknowledged).await;
        let _ = tell.send(end);
    });
    Stream { _task: Listening::of(task), ended, tasks, since: Instant::now() }
}
