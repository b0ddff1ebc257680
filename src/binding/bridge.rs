//! The native half of `Bridge` and of its set of ids.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use napi::bindgen_prelude::Function;
use napi_derive::napi;

use super::calls::{CANCELLABLE, Calls, Reply, inside};
use super::letters::{Post, bell, pack};
use super::to_napi;
use crate::bridge::Bridge;
use crate::bridge::desk::Desk;
use crate::bridge::sessions::Sessions;
use crate::bridge::spawner::Child;
use crate::bridge::uuid_set::BoundedUuidSet;
use crate::error::McpError;
use crate::host::post::PostOffice;
use crate::runtime;
use crate::transport::stdio::ExitLot;

/// The native half of `Bridge`, `BridgeSessions` and `BridgeChild`.
#[napi]
pub struct NativeBridge {
    desk: Arc<dyn Desk>,
    post: Arc<PostOffice>,
    calls: Arc<Calls>,
}

#[napi]
impl NativeBridge {
    /// One of a kind (`bridge`, `sessions`, `child`) by its options as JSON text; `ring` is called with letters when
    /// some wait.
    #[napi(constructor, catch_unwind)]
    pub fn new(kind: String, options: String, ring: Function<'_, Post, ()>) -> napi::Result<Self> {
        let (bell, office) = bell(&ring)?;
        let post = Arc::new(PostOffice::new(HashSet::new(), bell));
        let desk = desk(&kind, &options, &post).map_err(|error| to_napi(&error))?;
        let _ = office.set(Arc::clone(&post));
        Ok(Self { desk, post, calls: Arc::default() })
    }

    /// Starts what takes time.
    #[napi(catch_unwind)]
    pub fn submit(&self, id: u32, verb: String, payload: String, flags: u32) {
        let reply = Reply::new(id, Arc::clone(&self.post));
        // Taken in this very step, so that the order of calls is that of messages.
        let taken = Arc::clone(&self.desk).take(&verb, &payload);
        self.calls.start(id, flags & CANCELLABLE != 0, async move {
            match inside(taken).await {
                Ok(answer) => reply.value(answer.into()),
                Err(error) => reply.fail(&error),
            }
        });
    }

    /// Nobody waits for this call any more.
    #[napi(catch_unwind)]
    pub fn cancel(&self, id: u32) {
        self.calls.cancel(id);
    }

    /// Takes the letters that wait.
    #[napi(catch_unwind)]
    pub fn take_letters(&self) -> Post {
        let (letters, more) = self.post.collect();
        pack(letters, more)
    }

    /// Answers a question; `failure` tells that the callback failed, and how.
    #[napi(catch_unwind)]
    pub fn answer(&self, question: u32, answer: Option<String>, failure: Option<String>) {
        super::calls::answer(&self.post, question, answer, failure);
    }

    /// A number that is known without waiting.
    #[napi(catch_unwind)]
    pub fn number(&self, name: String) -> Option<i64> {
        self.desk.number(&name).map(|number| i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl NativeBridge {
    /// What has to be ended when the host exits; from now on nobody is told anything.
    pub(super) fn exit_lot(&self) -> ExitLot {
        self.post.shut();
        self.desk.exit_lot()
    }
}

impl Drop for NativeBridge {
    /// Collected, or its environment has ended: nothing of it stays behind.
    fn drop(&mut self) {
        self.post.shut();
        self.calls.cancel_all();
        self.desk.abandon();
    }
}

fn desk(kind: &str, options: &str, post: &Arc<PostOffice>) -> Result<Arc<dyn Desk>, McpError> {
    let post = Arc::clone(post);
    Ok(match kind {
        "sessions" => Arc::new(Sessions::new(options, post)?),
        "child" => Arc::new(Child::new(options, post)?),
        _ => Arc::new(Bridge::new(options, post)?),
    })
}

/// The native half of `BoundedUuidSet`.
#[napi]
pub struct NativeUuidSet(Mutex<BoundedUuidSet>);

#[napi]
impl NativeUuidSet {
    /// An empty set of at most `capacity` ids.
    #[napi(constructor, catch_unwind)]
    pub fn new(capacity: u32) -> Self {
        Self(Mutex::new(BoundedUuidSet::new(usize::try_from(capacity).unwrap_or(usize::MAX))))
    }

    /// Adds an id; `false` where it was there already.
    #[napi(catch_unwind)]
    pub fn add(&self, id: String) -> bool {
        runtime::lock(&self.0).add(&id)
    }

    /// Whether an id is there.
    #[napi(catch_unwind)]
    pub fn has(&self, id: String) -> bool {
        runtime::lock(&self.0).has(&id)
    }

    /// How many are there.
    #[napi(catch_unwind)]
    pub fn size(&self) -> u32 {
        u32::try_from(runtime::lock(&self.0).len()).unwrap_or(u32::MAX)
    }
}
