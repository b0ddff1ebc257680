//! News of tasks, from whichever client hears them to whoever follows the task. Only a reason to ask sooner, or, where the
//! server has agreed to tell, to ask seldom: nobody depends on them (mcp:TASKL-09, TASK-15).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, watch};

use super::{Connection, Shared};
use crate::runtime::lock;

/// Most tasks that one listen stream asks for.
const MOST_LISTENED: usize = 1_000;

/// Who waits, by the task's id.
#[derive(Debug)]
pub(crate) struct TaskNews {
    waiting: Mutex<HashMap<String, Vec<Arc<Notify>>>>,
    /// Counts changes of which tasks somebody waits for.
    changes: watch::Sender<u64>,
    /// Tasks that the server tells of by itself now (mcp:TASK-15).
    told: Mutex<HashSet<String>>,
}

impl Default for TaskNews {
    fn default() -> Self {
        Self { waiting: Mutex::default(), changes: watch::Sender::new(0), told: Mutex::default() }
    }
}

impl TaskNews {
    /// Something has become of a task; unknown ones are nobody's.
    pub(crate) fn tell(&self, task: &str) {
        for news in lock(&self.waiting).get(task).into_iter().flatten() {
            news.notify_one();
        }
    }

    /// The tasks that somebody waits for.
    pub(super) fn followed(&self) -> BTreeSet<String> {
        lock(&self.waiting).keys().take(MOST_LISTENED).cloned().collect()
    }

    /// Hears when those change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// From now on the server tells of exactly these. Of those that it begins or ceases to tell of nobody knows what
    /// was missed: whoever waits asks.
    pub(super) fn told_of(&self, tasks: HashSet<String>) {
        let mut told = lock(&self.told);
        let changed: Vec<String> = told.symmetric_difference(&tasks).cloned().collect();
        *told = tasks;
        drop(told);
        for task in changed {
            self.tell(&task);
        }
    }

    fn change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

/// Hears of one task until it is dropped.
#[derive(Debug)]
pub struct TaskWatch {
    shared: Arc<Shared>,
    task: String,
    news: Arc<Notify>,
}

impl TaskWatch {
    /// Completes when something has become of the task since the last time.
    pub async fn changed(&self) {
        self.news.notified().await;
    }

    /// Whether the server tells of the task by itself.
    pub fn is_told(&self) -> bool {
        lock(&self.shared.task_news.told).contains(&self.task)
    }
}

impl Drop for TaskWatch {
    fn drop(&mut self) {
        let mut waiting = lock(&self.shared.task_news.waiting);
        if let Some(all) = waiting.get_mut(&self.task) {
            all.retain(|news| !Arc::ptr_eq(news, &self.news));
            if all.is_empty() {
                waiting.remove(&self.task);
                drop(waiting);
                self.shared.task_news.change();
            }
        }
    }
}

impl Connection {
    /// Hears of a task, over reconnects.
    pub fn watch_task(&self, task: &str) -> TaskWatch {
        let news = Arc::new(Notify::new());
        lock(&self.shared.task_news.waiting).entry(task.to_owned()).or_default().push(Arc::clone(&news));
        self.shared.task_news.change();
        TaskWatch { shared: Arc::clone(&self.shared), task: task.to_owned(), news }
    }
}
