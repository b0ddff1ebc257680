//! How connections and the manager end: side by side, each within a bounded time, whoever waits. (LIF-06, STD-04)

use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;

use super::registry::Registry;
use super::{Closing, Manager};
use crate::connection::Connection;
use crate::error::{ErrorCode, McpError};
use crate::runtime::{self, lock, read, write};
use crate::transport::CloseMode;
use crate::transport::stdio::ExitLot;

/// Connections that were taken out of the table and are not gone yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaving(Arc<Mutex<Vec<Connection>>>);

impl Leaving {
    fn list(&self) -> Vec<Connection> {
        lock(&self.0).clone()
    }

    /// Ends connections; that goes on when nobody waits for it.
    pub(super) fn end(
        &self,
        connections: Vec<Connection>,
        mode: CloseMode,
        reason: fn(&str) -> McpError,
    ) -> Vec<JoinHandle<()>> {
        connections.into_iter().filter_map(|connection| self.end_one(connection, mode, reason)).collect()
    }

    fn end_one(
        &self,
        connection: Connection,
        mode: CloseMode,
        reason: fn(&str) -> McpError,
    ) -> Option<JoinHandle<()>> {
        {
            let mut list = lock(&self.0);
            if !list.iter().any(|known| known.is(&connection)) {
                list.push(connection.clone());
            }
        }
        let own = self.clone();
        runtime::spawn(async move {
            connection.close(mode, reason(connection.name())).await;
            lock(&own.0).retain(|known| !known.is(&connection));
        })
    }
}

/// Waits for all of them.
pub(super) async fn all(endings: Vec<JoinHandle<()>>) {
    for ending in endings {
        let _ = ending.await;
    }
}

impl Manager {
    /// Ends everything; every caller waits for the same end, and the strongest mode counts. Open calls fail with
    /// `MANAGER_CLOSED`.
    pub async fn close(&self, mode: CloseMode) {
        let first = self.closing.send_if_modified(|closing| {
            let first = *closing == Closing::No;
            if first {
                *closing = Closing::UnderWay;
            }
            first
        });
        // At once: a change under way may itself be waiting for connections that end gracefully.
        let ends = self.end_all(mode);
        if !first {
            let mut closing = self.closing.subscribe();
            let _ = closing.wait_for(|closing| *closing == Closing::Done).await;
            return;
        }
        self.post.withdraw_all();
        {
            let _applying = self.applying.lock().await;
            // What that change has brought.
            all(self.end_all(mode)).await;
        }
        all(ends).await;
        self.registry.replace(|| (Registry::default(), ()));
        self.verdicts.written().await;
        self.login_wishes.written().await;
        self.pins.written().await;
        self.outputs.close().await;
        if let Some(recorder) = &self.options.connection.recorder {
            recorder.close().await;
        }
        if let Some(predecessors) = &self.predecessors {
            predecessors.part();
        }
        self.closing.send_replace(Closing::Done);
    }

    /// Ends whatever is connected, and hastens what ends already.
    fn end_all(&self, mode: CloseMode) -> Vec<JoinHandle<()>> {
        let table = std::mem::take(&mut *write(&self.table));
        let mut connections = self.leaving.list();
        connections.extend(table.values().cloned());
        self.leaving.end(connections, mode, |_| closed_error())
    }

    /// What has to be ended when the host exits (STD-04).
    pub fn exit_lot(&self) -> ExitLot {
        let leaving = self.leaving.list();
        let processes = read(&self.table).values().chain(&leaving).filter_map(Connection::process).collect();
        ExitLot { processes, times: self.options.connection.shutdown }
    }

    /// Writes what is left to be written down; the host exits.
    pub fn leave_now(&self) {
        if let Some(recorder) = &self.options.connection.recorder {
            recorder.close_now();
        }
    }
}

pub(super) fn closed_error() -> McpError {
    McpError::new(ErrorCode::ManagerClosed, "the manager was closed")
}
