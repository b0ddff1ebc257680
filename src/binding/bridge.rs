//! The native half of `Bridge` and of its set of ids.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use napi::bindgen_prelude::Function;
use napi_derive::napi;

use super::calls::{Calls, Reply, inside};
use super::letters::{Post, bell, pack};
use super::to_napi;
use crate::bridge::Bridge;
use crate::bridge::uuid_set::BoundedUuidSet;
use crate::error::{ErrorCode, McpError};
use crate::host::post::PostOffice;
use crate::runtime;

/// The native half of `Bridge`.
#[napi]
pub struct NativeBridge {
    bridge: Arc<Bridge>,
    post: Arc<PostOffice>,
    calls: Arc<Calls>,
}

#[napi]
impl NativeBridge {
    /// A bridge by its options as JSON text; `ring` is called with letters when some wait.
    #[napi(constructor, catch_unwind)]
    pub fn new(options: String, ring: Function<'_, Post, ()>) -> napi::Result<Self> {
        let (bell, office) = bell(&ring)?;
        let post = Arc::new(PostOffice::new(HashSet::new(), bell));
        let bridge = Bridge::new(&options, Arc::clone(&post)).map_err(|error| to_napi(&error))?;
        let _ = office.set(Arc::clone(&post));
        Ok(Self { bridge: Arc::new(bridge), post, calls: Arc::default() })
    }

    /// Starts what takes time: `connect`, `send`, `askPermission`, `close`.
    #[napi(catch_unwind)]
    pub fn submit(&self, id: u32, verb: String, payload: String, cancellable: bool) {
        let reply = Reply::new(id, Arc::clone(&self.post));
        let bridge = Arc::clone(&self.bridge);
        let nothing = |done: Result<(), McpError>| done.map(|()| "null".to_owned());
        match verb.as_str() {
            // Queued in this very step, so that the order of calls is that of messages.
            "send" => {
                let sent = bridge.send(&payload);
                self.start(id, cancellable, reply, async move { nothing(sent.await) });
            }
            "askPermission" => {
                let asked = bridge.ask_permission(&payload);
                self.start(id, cancellable, reply, asked);
            }
            "connect" => {
                let connected = inside(async move { bridge.connect().await });
                self.start(id, cancellable, reply, async move { nothing(connected.await) });
            }
            "close" => {
                let closed = inside(async move {
                    bridge.close().await;
                    Ok(())
                });
                self.start(id, cancellable, reply, async move { nothing(closed.await) });
            }
            _ => reply.fail(&McpError::new(ErrorCode::Internal, format!("a bridge cannot {verb}"))),
        }
    }

    fn start(
        &self,
        id: u32,
        cancellable: bool,
        reply: Reply,
        work: impl Future<Output = Result<String, McpError>> + Send + 'static,
    ) {
        self.calls.start(id, cancellable, async move {
            match work.await {
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

    /// Sequence number up to which everything has reached the host.
    #[napi(catch_unwind)]
    pub fn sequence(&self) -> i64 {
        i64::try_from(self.bridge.sequence()).unwrap_or(i64::MAX)
    }

    /// The epoch of the registration.
    #[napi(catch_unwind)]
    pub fn epoch(&self) -> i64 {
        i64::try_from(self.bridge.epoch()).unwrap_or(i64::MAX)
    }
}

impl Drop for NativeBridge {
    /// Collected, or its environment has ended: nothing of it stays behind.
    fn drop(&mut self) {
        self.post.shut();
        self.calls.cancel_all();
        self.bridge.abandon();
    }
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
