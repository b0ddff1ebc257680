//! The native half of `McpManager`.

use std::sync::Arc;

use napi::bindgen_prelude::{Either, Function};
use napi_derive::napi;

use super::calls::{CANCELLABLE, Calls, Reply, inside};
use super::letters::{Post, bell, pack};
use super::to_napi;
use crate::client::progress::ProgressSink;
use crate::host::mailbox::Letter;
use crate::manager::Manager;
use crate::manager::finding::ToolTarget;
use crate::manager::span::{Listeners, Span};
use crate::manager::verb_payloads::call_options;
use crate::runtime;
use crate::transport::CloseMode;
use crate::transport::in_process::Script;
use crate::transport::stdio::ExitLot;

/// The native half of `McpManager`.
#[napi]
pub struct NativeManager {
    manager: Arc<Manager>,
    calls: Arc<Calls>,
}

#[napi]
impl NativeManager {
    /// A manager by its options as JSON text; `ring` is called with letters when some wait.
    #[napi(constructor, catch_unwind)]
    pub fn new(options: String, ring: Function<'_, Post, ()>) -> napi::Result<Self> {
        let (bell, office) = bell(&ring)?;
        let manager = Manager::new(&options, bell).map_err(|error| to_napi(&error))?;
        // Empty until now: nothing can have rung with letters before the manager existed.
        let _ = office.set(Arc::clone(manager.post()));
        Ok(Self { manager, calls: Arc::default() })
    }

    /// Starts a tool call. `tool` is a full name, or the wire name when `server` is given.
    #[napi(catch_unwind)]
    pub fn call_tool(
        &self,
        id: u32,
        server: Option<String>,
        tool: String,
        arguments: String,
        options: Option<String>,
        flags: u32,
    ) {
        let target = match server {
            Some(server) => ToolTarget::Pair { server, tool },
            None => ToolTarget::Full(tool),
        };
        let reply = Reply::new(id, Arc::clone(self.manager.post()));
        let options = match call_options(options.as_deref(), self.listeners(id, flags)) {
            Ok(options) => options,
            Err(error) => return reply.fail(&error),
        };
        let manager = Arc::clone(&self.manager);
        self.calls.start(id, flags & CANCELLABLE != 0, async move {
            match manager.call_tool(&target, arguments, options).await {
                Ok(outcome) => reply.tool(outcome),
                Err(error) => reply.fail(&error),
            }
        });
    }

    /// Starts any other verb.
    #[napi(catch_unwind)]
    pub fn submit(&self, id: u32, verb: String, payload: String, flags: u32) {
        let reply = Reply::new(id, Arc::clone(self.manager.post()));
        let listeners = self.listeners(id, flags);
        let manager = Arc::clone(&self.manager);
        self.calls.start(id, flags & CANCELLABLE != 0, async move {
            // Everything but a tool call may use clocks and tasks from its first step on.
            match inside(async move { manager.run(&verb, &payload, listeners).await }).await {
                Ok(answer) => reply.value(answer),
                Err(error) => reply.fail(&error),
            }
        });
    }

    /// Waits for the result of a call in the background.
    #[napi(catch_unwind)]
    pub fn task_result(&self, id: u32, handle: u32, flags: u32) {
        let reply = Reply::new(id, Arc::clone(self.manager.post()));
        let manager = Arc::clone(&self.manager);
        self.calls.start(id, flags & CANCELLABLE != 0, async move {
            match manager.task_result(handle).await {
                Ok(outcome) => reply.tool(outcome),
                Err(error) => reply.fail(&error),
            }
        });
    }

    /// What is known of a call in the background: JSON text.
    #[napi(catch_unwind)]
    pub fn task_state(&self, handle: u32) -> Option<String> {
        self.manager.task_state(handle)
    }

    /// Nobody will ask for this call in the background again; it goes on.
    #[napi(catch_unwind)]
    pub fn forget_task(&self, handle: u32) {
        self.manager.forget_task(handle);
    }

    /// Nobody waits for this call any more.
    #[napi(catch_unwind)]
    pub fn cancel(&self, id: u32) {
        self.calls.cancel(id);
    }

    /// Takes the letters that wait.
    #[napi(catch_unwind)]
    pub fn take_letters(&self) -> Post {
        let (letters, more) = self.manager.post().collect();
        pack(letters, more)
    }

    /// Looks for an answer that is expected at once and takes the letters there are: a delivery, or `true` when
    /// there is none yet, or `false` when looking any longer is not worth it.
    #[napi(catch_unwind)]
    pub fn look(&self) -> Either<bool, Post> {
        let post = self.manager.post();
        post.hold();
        let again = runtime::look();
        let (letters, more) = post.collect();
        if letters.is_empty() && !more { Either::A(again) } else { Either::B(pack(letters, more)) }
    }

    /// Answers a question; `failure` tells that the callback failed, and how.
    #[napi(catch_unwind)]
    pub fn answer(&self, question: u32, answer: Option<String>, failure: Option<String>) {
        super::calls::answer(self.manager.post(), question, answer, failure);
    }

    /// A message of an in-process server: JSON text.
    #[napi(catch_unwind)]
    pub fn sdk_message(&self, channel: u32, message: String) {
        if let Some(transport) = self.manager.post().channels().get(channel) {
            transport.take(message);
        }
    }

    /// An in-process server said something that JSON cannot hold, in answer to the request `id` if that is
    /// given.
    #[napi(catch_unwind)]
    pub fn sdk_unwritable(&self, channel: u32, id: Option<i64>, why: String) {
        if let Some(transport) = self.manager.post().channels().get(channel) {
            transport.take_unwritable(id.and_then(|id| u64::try_from(id).ok()), &why);
        }
    }

    /// An in-process server has closed its end; `failure` tells why it did not connect, `code` which fault of its
    /// configuration that was.
    #[napi(catch_unwind)]
    pub fn sdk_closed(&self, channel: u32, failure: Option<String>, code: Option<String>) {
        if let Some(transport) = self.manager.post().channels().get(channel) {
            transport.take_end(failure.as_deref(), code.as_deref());
        }
    }

    /// JSON text of all statuses, or of one server's.
    #[napi(catch_unwind)]
    pub fn status(&self, server: Option<String>) -> Option<String> {
        self.manager.status_json(server.as_deref())
    }

    /// JSON text of the configuration report.
    #[napi(catch_unwind)]
    pub fn config_report(&self) -> String {
        self.manager.report_json()
    }

    /// Opens a view by its options as JSON text; the number stands for it.
    #[napi(catch_unwind)]
    pub fn open_view(&self, options: String) -> napi::Result<u32> {
        self.manager.open_view(&options).map_err(|error| to_napi(&error))
    }

    /// Forgets a view.
    #[napi(catch_unwind)]
    pub fn close_view(&self, view: u32) {
        self.manager.close_view(view);
    }

    fn listeners(&self, id: u32, flags: u32) -> Listeners {
        let span = (flags & WANTS_SPAN != 0).then(|| Span::start(self.manager.post()));
        Listeners { progress: self.progress(id, flags), span }
    }

    fn progress(&self, id: u32, flags: u32) -> Option<ProgressSink> {
        if flags & WANTS_PROGRESS == 0 {
            return None;
        }
        let post = Arc::clone(self.manager.post());
        Some(Arc::new(move |progress| {
            if let Ok(value) = serde_json::to_string(&progress) {
                let body = format!("{{\"kind\":\"progress\",\"id\":{id},\"value\":{value}}}");
                post.deliver(Letter::Progress { call: id, body });
            }
        }))
    }
}

impl NativeManager {
    /// What has to be ended when the host exits; from now on nobody is told anything.
    pub(super) fn exit_lot(&self) -> ExitLot {
        self.manager.post().shut();
        self.manager.exit_lot()
    }

    /// The last moment of the host.
    pub(super) fn leave_now(&self) {
        self.manager.leave_now();
    }
}

/// The caller wants to hear of progress.
const WANTS_PROGRESS: u32 = 2;
/// Somebody hears of the ends of calls.
const WANTS_SPAN: u32 = 4;

impl Drop for NativeManager {
    /// Collected, or its environment has ended: nothing of it stays behind.
    fn drop(&mut self) {
        self.manager.post().shut();
        self.calls.cancel_all();
        let manager = Arc::clone(&self.manager);
        runtime::spawn(async move { manager.close(CloseMode::Fast).await });
    }
}
