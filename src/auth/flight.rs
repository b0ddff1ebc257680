//! One piece of work at a time, shared by everybody who needs its outcome (mcp:AUTH-09). It is a task of its own: a
//! caller that gives up does not break it for the others.

use std::future::Future;
use std::sync::Mutex;

use tokio::sync::watch;

use crate::error::{ErrorCode, McpError};
use crate::runtime::{self, lock};

type Outcome<T> = Result<T, McpError>;

/// Work under way.
#[derive(Debug)]
pub struct Flight<T> {
    current: Mutex<Option<watch::Receiver<Option<Outcome<T>>>>>,
}

impl<T> Default for Flight<T> {
    fn default() -> Self {
        Self { current: Mutex::new(None) }
    }
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    /// Joins the work under way, or starts it.
    pub async fn join<F>(&self, start: impl FnOnce() -> F) -> Outcome<T>
    where
        F: Future<Output = Outcome<T>> + Send + 'static,
    {
        let mut landing = {
            let mut current = lock(&self.current);
            match &*current {
                Some(flight) if flight.has_changed().is_ok() && flight.borrow().is_none() => flight.clone(),
                _ => {
                    let (done, landing) = watch::channel(None);
                    let work = start();
                    runtime::spawn(async move {
                        let outcome = work.await;
                        done.send_replace(Some(outcome));
                    });
                    *current = Some(landing.clone());
                    landing
                }
            }
        };
        match landing.wait_for(Option::is_some).await {
            Ok(outcome) => (*outcome).clone().unwrap_or_else(|| Err(broken())),
            Err(_) => Err(broken()),
        }
    }
}

fn broken() -> McpError {
    McpError::new(ErrorCode::Internal, "a login broke off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
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
                        .join(|| async move {
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
        assert_eq!(flight.join(|| async { Ok(7) }).await.unwrap(), 7, "the next one starts anew");
    }
}
