//! News of tasks, from whichever client hears them to whoever follows the task. Only a reason to ask sooner: nobody
//! depends on them (mcp:TASKL-09).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::{Connection, Shared};
use crate::runtime::lock;

/// Who waits, by the task's id.
#[derive(Debug, Default)]
pub(crate) struct TaskNews {
    waiting: Mutex<HashMap<String, Vec<Arc<Notify>>>>,
}

impl TaskNews {
    /// Something has become of a task; unknown ones are nobody's.
    pub(crate) fn tell(&self, task: &str) {
        for news in lock(&self.waiting).get(task).into_iter().flatten() {
            news.notify_one();
        }
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
}

impl Drop for TaskWatch {
    fn drop(&mut self) {
        let mut waiting = lock(&self.shared.task_news.waiting);
        if let Some(all) = waiting.get_mut(&self.task) {
            all.retain(|news| !Arc::ptr_eq(news, &self.news));
            if all.is_empty() {
                waiting.remove(&self.task);
            }
        }
    }
}

impl Connection {
    /// Hears of a task, over reconnects.
    pub fn watch_task(&self, task: &str) -> TaskWatch {
        let news = Arc::new(Notify::new());
        lock(&self.shared.task_news.waiting).entry(task.to_owned()).or_default().push(Arc::clone(&news));
        TaskWatch { shared: Arc::clone(&self.shared), task: task.to_owned(), news }
    }
}
