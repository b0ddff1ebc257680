//! The port to the program that embeds us: what it is told and what it may be asked.
//!
//! Owns the trait and its implementation over a mailbox; what JavaScript does with a letter is the face's
//! business. Capabilities are declared from what the host can answer, never more.

pub mod mailbox;
pub mod post;

use crate::error::McpError;
use crate::transport::BoxFuture;
use crate::transport::in_process::Script;

/// Something the host may want to know. `body` is the JSON text of the event's argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEvent {
    /// Name of the event in the public contract.
    pub name: &'static str,
    /// JSON text.
    pub body: String,
    /// Events of one key replace each other while they wait: only the latest matters.
    pub key: Option<String>,
}

/// What a person (or the host's own code) is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuestionKind {
    /// May this tool be called? (POL-08)
    Permission,
    /// A form, or a visit to an address (ELI-01, ELI-02).
    Elicitation,
    /// A hook in front of such a question: it may answer, change or refuse it (ELI-03).
    ElicitationHook,
    /// A hook behind such a question: it may record or change the answer (ELI-03).
    ElicitationResultHook,
    /// The words of a model (PRO-12).
    Sampling,
    /// May this server of the repository run? (POL-01)
    Approval,
    /// The hook before a tool call. (POL-12)
    PreToolUse,
    /// A visit to an authorization server. (OAU-02)
    AuthorizationUrl,
    /// The token of the host's account. (CFG-14, PXY-01)
    ConnectorToken,
    /// A record of the host's token store. (OAU-03)
    StoreGet,
    /// Keeps one.
    StoreSet,
    /// Removes one.
    StoreDelete,
    /// Takes the store's lock.
    StoreLock,
    /// Gives it back.
    StoreUnlock,
}

impl QuestionKind {
    /// Every kind.
    pub const ALL: &'static [QuestionKind] = &[
        QuestionKind::Permission,
        QuestionKind::Elicitation,
        QuestionKind::ElicitationHook,
        QuestionKind::ElicitationResultHook,
        QuestionKind::Sampling,
        QuestionKind::Approval,
        QuestionKind::PreToolUse,
        QuestionKind::AuthorizationUrl,
        QuestionKind::ConnectorToken,
        QuestionKind::StoreGet,
        QuestionKind::StoreSet,
        QuestionKind::StoreDelete,
        QuestionKind::StoreLock,
        QuestionKind::StoreUnlock,
    ];

    /// Name of the host's callback.
    pub fn callback(self) -> &'static str {
        match self {
            QuestionKind::Permission => "onPermission",
            QuestionKind::Elicitation => "onElicitation",
            QuestionKind::ElicitationHook => "hooks.elicitation",
            QuestionKind::ElicitationResultHook => "hooks.elicitationResult",
            QuestionKind::Sampling => "onSampling",
            QuestionKind::Approval => "onApproval",
            QuestionKind::PreToolUse => "hooks.preToolUse",
            QuestionKind::AuthorizationUrl => "onAuthorizationUrl",
            QuestionKind::ConnectorToken => "getConnectorToken",
            QuestionKind::StoreGet => "tokenStore.get",
            QuestionKind::StoreSet => "tokenStore.set",
            QuestionKind::StoreDelete => "tokenStore.delete",
            QuestionKind::StoreLock => "tokenStore.lock",
            QuestionKind::StoreUnlock => "tokenStore.unlock",
        }
    }
}

/// The embedding program, where in-process servers live too.
pub trait Host: Script {
    /// Tells the host; never blocks.
    fn emit(&self, event: HostEvent);
    /// Writes down what happened with a server, where there is an audit log. (SEC-07)
    fn note(&self, _kind: &'static str, _server: &str, _details: serde_json::Value) {}
    /// Whether there is a callback for such questions.
    fn can_answer(&self, kind: QuestionKind) -> bool;
    /// Asks the host; the answer is JSON text. Dropping the future withdraws the question.
    fn ask(&self, kind: QuestionKind, body: String) -> BoxFuture<'_, Result<String, McpError>>;
}
