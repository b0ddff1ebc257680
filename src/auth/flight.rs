//! One piece of work at a time, shared by everybody who needs its outcome (mcp:AUTH-09). It is a task of its own: a
//! caller that gives up does not break it for the others.

use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::error::{ErrorCode, McpError};
use crate::runtime::{self, lock};

type Outcome<T> = Result<T, McpError>;
/// Turns true when work under way is ended: its outcome interests nobody any more.
pub type Over = watch::Receiver<bool>;

/// Work under way.
#[derive(Debug)]
pub struct Flight<T> {
    current: Mutex<Option<Current<T>>>,
}

#[derive(Clone, Debug)]
struct Current<T> {
    landing: watch::Receiver<Option<Outcome<T>>>,
    end: Arc<watch::Sender<bool>>,
}

impl<T> Default for Flight<T> {
    fn default() -> Self {
        Self { current: Mutex::new(None) }
    }
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    /// Joins the work under way, or starts it. What was ended is not joined: the next work starts behind it.
    pub async fn join<F>(&self, start: impl FnOnce(Over) -> F) -> Outcome<T>
    where
        F: Future<Output = Outcome<T>> + Send + 'static,
    {
        let joined = {
            let mut current = lock(&self.current);
            match &*current {
                Some(one) if one.goes_on() => one.clone(),
                _ => launch(&mut current, start),
            }
        };
        joined.landed().await
    }

    /// Ends the work under way and starts it anew; it ends with whoever wanted that.
    pub async fn anew<F>(&self, start: impl FnOnce(Over) -> F) -> Outcome<T>
    where
        F: Future<Output = Outcome<T>> + Send + 'static,
    {
        let own = {
            let mut current = lock(&self.current);
            if let Some(one) = &*current {
                one.end.send_replace(true);
            }
            launch(&mut current, start)
        };
        let _given_up = EndsWith(Arc::clone(&own.end));
        own.landed().await
    }

    /// Ends the work under way.
    pub fn end(&self) {
        if let Some(one) = &*lock(&self.current) {
            one.end.send_replace(true);
        }
    }

    /// The outcome of the work under way, if there is any.
    pub fn under_way(&self) -> Option<impl Future<Output = Outcome<T>> + use<T>> {
        let one = lock(&self.current).clone()?;
        one.goes_on().then(|| one.landed())
    }
}

/// Starts work once what was ended before it has landed: there is one at a time.
fn launch<T, F>(current: &mut Option<Current<T>>, start: impl FnOnce(Over) -> F) -> Current<T>
where
    T: Clone + Send + Sync + 'static,
    F: Future<Output = Outcome<T>> + Send + 'static,
{
    let (done, landing) = watch::channel(None);
    let (end, over) = watch::channel(false);
    let new = Current { landing, end: Arc::new(end) };
    let before = current.replace(new.clone());
    let work = start(over);
    runtime::spawn(async move {
        if let Some(before) = before {
            let _ = before.landed().await;
        }
        done.send_replace(Some(work.await));
    });
    new
}

impl<T: Clone> Current<T> {
    fn goes_on(&self) -> bool {
        self.landing.has_changed().is_ok() && self.landing.borrow().is_none() && !*self.end.borrow()
    }

    async fn landed(mut self) -> Outcome<T> {
        match self.landing.wait_for(Option::is_some).await {
            Ok(outcome) => (*outcome).clone().unwrap_or_else(|| Err(broken())),
            Err(_) => Err(broken()),
        }
    }
}

/// Ends work when it is dropped; what has landed does not mind.
struct EndsWith(Arc<watch::Sender<bool>>);

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

fn broken() -> McpError {
    McpError::new(ErrorCode::Internal, "a login broke off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[tokio::test]
    async fn g8_auth_09_fifty_callers_share_one_flight() {
        let flight: Arc<Flight<u32>> = Arc::default();
        let runs = Arc::new(AtomicU32::new(0));
        let callers: Vec<_> = (0..50)
            .map(|_| {
                let (flight, runs) = (Arc::clone(&flight), Arc::clone(&runs));
                tokio::spawn(async move {
                    flight
                        .join(|_| async move {
                            tokio::time::sleep(Duration::from_millis(50)).await;
                            Ok(runs.fetch_add(1, Ordering::SeqCst))
                        })
                        .await
                })
            })
            .collect();
        for caller in callers {
            assert_eq!(caller.await.unwrap().unwrap(), 0);
        }
        assert_eq!(flight.join(|_| async { Ok(7) }).await.unwrap(), 7, "the next one starts anew");
    }

    /// Work that goes on until it is ended, or told to land.
    async fn until_over(mut over: Over, runs: Arc<AtomicU32>) -> Outcome<u32> {
        assert_eq!(runs.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
        let _ = over.wait_for(|over| *over).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        runs.fetch_sub(1, Ordering::SeqCst);
        Err(broken())
    }

    #[tokio::test(start_paused = true)]
    async fn oau_02_what_was_ended_is_joined_by_nobody_and_the_next_starts_behind_it() {
        let flight: Arc<Flight<u32>> = Arc::default();
        let runs = Arc::new(AtomicU32::new(0));
        let waits = |flight: &Arc<Flight<u32>>| {
            let (flight, runs) = (Arc::clone(flight), Arc::clone(&runs));
            tokio::spawn(async move { flight.join(|over| until_over(over, runs)).await })
        };
        let first = waits(&flight);
        tokio::task::yield_now().await;
        assert!(flight.under_way().is_some());
        flight.end();
        assert!(flight.under_way().is_none(), "ended, though it has not landed");
        let counted = Arc::clone(&runs);
        let next = flight.join(|_| async move { Ok(counted.load(Ordering::SeqCst)) });
        assert_eq!(next.await.unwrap(), 0, "the first one has landed");
        first.await.unwrap().unwrap_err();

        let second = waits(&flight);
        tokio::task::yield_now().await;
        let counted = Arc::clone(&runs);
        let own = flight.anew(|_| async move { Ok(counted.load(Ordering::SeqCst)) });
        assert_eq!(own.await.unwrap(), 0);
        second.await.unwrap().unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn oau_02_who_gives_up_ends_the_work_of_his_own_alone() {
        let flight: Arc<Flight<u32>> = Arc::default();
        let runs = Arc::new(AtomicU32::new(0));
        let own = flight.anew(|over| until_over(over, Arc::clone(&runs)));
        assert!(tokio::time::timeout(Duration::from_secs(1), own).await.is_err());
        assert!(flight.under_way().is_none());

        let replaced = flight.anew(|over| until_over(over, Arc::clone(&runs)));
        let mut replaced = Box::pin(replaced);
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut replaced).await.is_err());
        let other = flight.anew(|over| until_over(over, Arc::clone(&runs)));
        let mut other = Box::pin(other);
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut other).await.is_err());
        drop(replaced);
        assert!(flight.under_way().is_some(), "that of the other goes on");
    }
}
