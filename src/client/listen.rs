//! Listen streams of the stateless era: which are open, what was acknowledged, how they end (mcp:SUB-*).
//!
//! Owns one stream at a time per call; when to open one and when to stop trying is decided by the connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::oneshot;

use super::Client;
use crate::error::McpError;
use crate::json_scan;
use crate::jsonrpc::write::Params;
use crate::protocol::stateless::{ListenFilter, SUBSCRIPTION_KEY};
use crate::runtime::lock;
use crate::transport::RequestFailure;

#[derive(Debug)]
struct OpenListen {
    acknowledged: Option<oneshot::Sender<ListenFilter>>,
    ended: Arc<Notify>,
}

/// The open listen streams of a client, by request id.
#[derive(Debug, Default)]
pub struct ListenTable {
    open: Mutex<HashMap<u64, OpenListen>>,
}

/// How a listen stream ended.
#[derive(Debug)]
pub enum ListenEnd {
    /// The server ended it (mcp:SUB-08, 09).
    Graceful,
    /// The server refused it with this code (mcp:SUB-17).
    Refused(i64),
    /// It was not acknowledged in time.
    Unacknowledged,
    /// It broke.
    Lost(McpError),
}

impl ListenTable {
    /// Takes an acknowledgement.
    pub(super) fn acknowledge(&self, params: &str) {
        let Some(id) = subscription_of(params) else { return };
        let [accepted] = json_scan::pick(params, ["notifications"]);
        let waiter = lock(&self.open).get_mut(&id).and_then(|open| open.acknowledged.take());
        if let Some(waiter) = waiter {
            let _ = waiter.send(ListenFilter::read(accepted.unwrap_or("{}")));
        }
    }

    /// The server has cancelled a request; true where it is a listen stream, the only kind it may (mcp:SUB-09).
    pub(super) fn cancel(&self, params: &str) -> bool {
        let [id] = json_scan::pick(params, ["requestId"]);
        let id: Option<u64> = id.and_then(|id| id.parse().ok());
        let open = lock(&self.open);
        let Some(open) = id.and_then(|id| open.get(&id)) else { return false };
        open.ended.notify_one();
        true
    }

    /// Whether a notification belongs to no stream of ours (mcp:SUB-04).
    pub(super) fn is_foreign(&self, params: &str) -> bool {
        match subscription_text(params) {
            None => false,
            Some(text) => !text.parse().is_ok_and(|id: u64| lock(&self.open).contains_key(&id)),
        }
    }
}

fn subscription_text(params: &str) -> Option<&str> {
    let [meta] = json_scan::pick(params, ["_meta"]);
    let [id] = json_scan::pick(meta?, [SUBSCRIPTION_KEY]);
    id
}

fn subscription_of(params: &str) -> Option<u64> {
    subscription_text(params)?.parse().ok()
}

/// Takes a stream out of the table at its end.
struct Registered<'a> {
    table: &'a ListenTable,
    id: u64,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        lock(&self.table.open).remove(&self.id);
    }
}

impl Client {
    /// Opens a listen stream and stays until it ends. `acknowledged` hears what the server agreed to, at most
    /// once. Dropping the future ends the stream.
    pub async fn listen(
        &self,
        filter: &ListenFilter,
        patience: Duration,
        acknowledged: impl FnOnce(ListenFilter) + Send,
    ) -> ListenEnd {
        let params = Params::from_members(filter.to_members(), String::new());
        let outgoing = self.outgoing("subscriptions/listen", &params);
        let id = outgoing.id;
        let (agree, agreed) = oneshot::channel();
        let ended = Arc::new(Notify::new());
        let entry = OpenListen { acknowledged: Some(agree), ended: Arc::clone(&ended) };
        lock(&self.tables.listens.open).insert(id, entry);
        let _registered = Registered { table: &self.tables.listens, id };
        let mut reply = self.transport.request(outgoing);
        tokio::select! {
            biased;
            agreed = tokio::time::timeout(patience, agreed) => match agreed {
                Ok(Ok(accepted)) => acknowledged(accepted),
                _ => return ListenEnd::Unacknowledged,
            },
            reply = &mut reply => return end_of(reply),
            () = ended.notified() => return ListenEnd::Graceful,
        }
        tokio::select! {
            biased;
            reply = &mut reply => end_of(reply),
            () = ended.notified() => ListenEnd::Graceful,
        }
    }
}

fn end_of(reply: Result<crate::jsonrpc::RawText, RequestFailure>) -> ListenEnd {
    match reply {
        Ok(_) => ListenEnd::Graceful,
        Err(RequestFailure::Rpc(error)) => ListenEnd::Refused(error.code),
        Err(RequestFailure::Transport(error)) => ListenEnd::Lost(error),
    }
}
