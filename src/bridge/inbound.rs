//! From a message to whoever it is for (BRG-02): permission answers at once, control requests in a lane of their own
//! (an interrupt passes it), user messages one after the other.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::control::{self, DISABLED, ENABLE_LOCALLY, Refused, Subtype};
use super::ids;
use super::message::{self, Inbound, Passage};
use super::session::Shared;
use crate::diagnostic::Diagnostic;
use crate::runtime::lock;

/// Control requests that may wait for the host.
pub(super) const CONTROLS: usize = 64;

/// A control request that is to be carried out.
pub(super) struct Control {
    subtype: Subtype,
    request_id: String,
    request: String,
}

/// Where messages wait for the host.
pub(super) struct Lanes {
    /// A full lane makes the reader wait, and by that the other end.
    pub(super) users: mpsc::Sender<String>,
    /// A full lane refuses.
    pub(super) controls: mpsc::Sender<Control>,
}

impl Shared {
    /// Routes one message.
    pub(super) async fn take(self: &Arc<Self>, sequence: u64, text: &str, lanes: &Lanes) {
        match message::classify(text) {
            Inbound::Permission { request_id, response } => {
                self.take_permission(request_id.as_deref(), response);
            }
            Inbound::Control { request_id, request } => self.take_control(request_id, request, lanes),
            Inbound::User { uuid } => self.take_user(sequence, uuid.as_deref(), text, lanes).await,
            Inbound::Unusable(why) => {
                self.callbacks.tell(&Diagnostic::warning(
                    "BRIDGE_MESSAGE_IGNORED",
                    format!("the other end sent {why}"),
                ));
            }
        }
    }

    fn refuse(&self, refused: Option<&str>, code: &str, why: &str) {
        self.reply(message::refusal(&ids::uuid(), refused, code, why));
    }

    fn take_permission(self: &Arc<Self>, request_id: Option<&str>, response: &str) {
        if self.options.outbound_only {
            return self.refuse(request_id, DISABLED, ENABLE_LOCALLY);
        }
        let asked = request_id.and_then(|id| lock(&self.core).questions.remove(id));
        if let Some(asked) = asked {
            let _ = asked.send(Ok(response.to_owned()));
        } else if self.callbacks.has("onPermissionResponse") {
            let response = response.to_owned();
            self.spawn(|shared| async move {
                shared.callbacks.ask_and_tell("onPermissionResponse", &response).await;
            });
        } else {
            let message = "the other end answered a permission question that nobody waits for";
            self.callbacks.tell(&Diagnostic::warning("BRIDGE_MESSAGE_IGNORED", message));
        }
    }

    fn take_control(self: &Arc<Self>, request_id: String, request: &str, lanes: &Lanes) {
        let host_answers = self.callbacks.has("onControlRequest");
        let control = match control::decide(request, self.options.outbound_only, host_answers) {
            Ok(subtype) => Control { subtype, request_id, request: request.to_owned() },
            Err(refused) => return self.answer(&request_id, &Err(refused)),
        };
        if control.subtype == Subtype::Interrupt {
            // Nobody waits for what comes of it.
            self.answer(&control.request_id, &Ok("{}".to_owned()));
            self.spawn(|shared| async move {
                shared.callbacks.ask_and_tell("onControlRequest", &control.request).await;
            });
            return;
        }
        if let Err(full) = lanes.controls.try_send(control) {
            let message = format!("{CONTROLS} control requests wait for the session already");
            self.answer(&full.into_inner().request_id, &Err(Refused { code: "busy", message }));
        }
    }

    fn answer(&self, request_id: &str, outcome: &Result<String, Refused>) {
        self.reply(control::reply(&ids::uuid(), request_id, outcome));
    }

    async fn take_user(&self, sequence: u64, uuid: Option<&str>, text: &str, lanes: &Lanes) {
        if self.options.outbound_only {
            return self.refuse(uuid, DISABLED, ENABLE_LOCALLY);
        }
        if !self.callbacks.has("onUserMessage") {
            return self.refuse(uuid, "unsupported", "this session takes no messages");
        }
        {
            let mut core = lock(&self.core);
            if core.filters.judge(uuid) != Passage::Deliver {
                return;
            }
            core.untaken.push_back(sequence);
        }
        // The lane ends with the bridge only.
        let _ = lanes.users.send(text.to_owned()).await;
    }

    /// Hands user messages on, one after the other.
    pub(super) async fn hand_users_on(&self, mut waiting: mpsc::Receiver<String>) {
        while let Some(text) = waiting.recv().await {
            self.callbacks.ask_and_tell("onUserMessage", &text).await;
            lock(&self.core).untaken.pop_front();
        }
    }

    /// Has the host carry out control requests, one after the other.
    pub(super) async fn hand_controls_on(&self, mut waiting: mpsc::Receiver<Control>) {
        while let Some(Control { subtype, request_id, request }) = waiting.recv().await {
            let asked = if self.callbacks.has("onControlRequest") {
                self.callbacks.ask("onControlRequest", &request).await
            } else {
                Ok("null".to_owned())
            };
            let outcome = match asked {
                Ok(answer) => control::judge_answer(subtype, &answer, std::process::id()),
                Err(why) => {
                    self.callbacks.tell(&Diagnostic::error("BRIDGE_CALLBACK_FAILED", why.clone()));
                    Err(Refused { code: "failed", message: why })
                }
            };
            self.answer(&request_id, &outcome);
        }
    }
}
