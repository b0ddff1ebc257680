//! What a server may ask of the host, fulfilled in one place: forms and addresses for people, a model's words,
//! roots (ELI-01 to 04, PRO-10, PRO-12).
//!
//! Serves the requests of the handshake era, the rounds of the stateless era and the error that asks for a visit.
//! Owns nothing of the wire: JSON text of parameters in, JSON text of results out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};

use super::inbound::{ListKind, ServerListener};
use crate::error::{ErrorCode, McpError};
use crate::host::{Host, QuestionKind};
use crate::json_scan::{self, MAX_DEPTH};
use crate::protocol::capability::ClientFeatures;
use crate::protocol::elicitation::{AskedUrl, FormSchema, asks_for_secret, check_url, warnings};
use crate::protocol::sampling;
use crate::protocol::version::ProtocolVersion;
use crate::runtime::lock;
use crate::unicode::{self, Mode, clean_str_lossy};

/// Limits of what servers may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputSettings {
    /// Rounds of questions for one request; default 10 (mcp:MRTR-13).
    pub max_rounds: u32,
    /// Whether forms that ask for secrets are declined without asking anybody (B-157).
    pub decline_secrets: bool,
    /// Waits before a request that asked for a visit is repeated; default 2, 15, 60 s, at most 3 count (CAL-01).
    pub url_delays: Vec<Duration>,
}

impl Default for InputSettings {
    fn default() -> Self {
        Self {
            max_rounds: 10,
            decline_secrets: false,
            url_delays: [2, 15, 60].map(Duration::from_secs).to_vec(),
        }
    }
}

/// Capabilities that a host of these callbacks can serve, and no other (PRO-04, M1).
pub fn features_of(host: &dyn Host) -> ClientFeatures {
    let people = host.can_answer(QuestionKind::Elicitation) || host.can_answer(QuestionKind::ElicitationHook);
    let model = host.can_answer(QuestionKind::Sampling);
    ClientFeatures {
        roots: true,
        elicitation_form: people,
        elicitation_url: people,
        sampling: model,
        sampling_tools: model,
        tasks: true,
        apps: false,
    }
}

/// Why a request of a server is not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its capability was never declared.
    Undeclared,
    /// The request breaks the rules: how.
    Invalid(String),
    /// An address that may not be offered: why.
    UnsafeUrl(String),
    /// The host said no.
    Rejected(String),
    /// The host gave something that cannot be sent.
    Failed(String),
}

impl Refusal {
    /// The JSON-RPC code of the answer in the handshake era (mcp:SAMP-12, mcp:ELI-04).
    pub fn code(&self) -> i64 {
        match self {
            Refusal::Undeclared => -32601,
            Refusal::Invalid(_) | Refusal::UnsafeUrl(_) => -32602,
            Refusal::Rejected(_) => -1,
            Refusal::Failed(_) => -32603,
        }
    }

    /// What is told, to the server too.
    pub fn message(&self) -> &str {
        match self {
            Refusal::Undeclared => "Method not found",
            Refusal::Invalid(why)
            | Refusal::UnsafeUrl(why)
            | Refusal::Rejected(why)
            | Refusal::Failed(why) => why,
        }
    }
}

/// The answer that ends a question without one.
pub const CANCEL: &str = r#"{"action":"cancel"}"#;

/// Fulfils what one server asks.
pub struct InputDesk {
    server: Arc<str>,
    host: Arc<dyn Host>,
    listener: Arc<dyn ServerListener>,
    features: ClientFeatures,
    settings: InputSettings,
    /// What is spoken, once that is agreed on.
    version: OnceLock<ProtocolVersion>,
    /// Visits whose end is awaited, by `elicitationId`.
    visits: Mutex<HashMap<String, Vec<Arc<Notify>>>>,
    /// Why the conversation has ended, once it has.
    ended: watch::Sender<Option<McpError>>,
    /// Requests that are being fulfilled.
    open: AtomicUsize,
}

impl std::fmt::Debug for InputDesk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InputDesk").field("server", &self.server).finish_non_exhaustive()
    }
}

impl InputDesk {
    /// The desk of one client.
    pub fn new(
        server: Arc<str>,
        host: Arc<dyn Host>,
        listener: Arc<dyn ServerListener>,
        features: ClientFeatures,
        settings: InputSettings,
    ) -> Self {
        Self {
            server,
            host,
            listener,
            features,
            settings,
            version: OnceLock::new(),
            visits: Mutex::default(),
            ended: watch::Sender::new(None),
            open: AtomicUsize::new(0),
        }
    }

    /// What was declared.
    pub fn features(&self) -> ClientFeatures {
        self.features
    }

    /// The revision that both sides speak was agreed on.
    pub fn agreed(&self, version: ProtocolVersion) {
        let _ = self.version.set(version);
    }

    /// Somebody has logged in, with more rights or as somebody else: what the server lists may be other things now
    /// (mcp:TOOL-21).
    pub fn logged_in(&self) {
        for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
            self.listener.list_changed(kind);
        }
    }

    /// The limits.
    pub fn settings(&self) -> &InputSettings {
        &self.settings
    }

    /// The conversation is over: what people were asked is withdrawn (ELI-04). The first reason stays.
    pub fn end(&self, reason: &McpError) {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            if first {
                *ended = Some(reason.clone());
            }
            first
        });
    }

    /// Completes when the conversation is over, with the reason.
    pub async fn ended(&self) -> McpError {
        let mut ended = self.ended.subscribe();
        let reason = ended.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        match reason {
            Some(reason) => reason,
            // Never: the sender lives in this very desk.
            None => std::future::pending().await,
        }
    }

    /// Whether the conversation is over.
    pub fn is_over(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Whether something is being fulfilled.
    pub fn is_busy(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Whether a request of this method may be made at all.
    pub fn serves(&self, method: &str) -> bool {
        match method {
            "elicitation/create" => self.features.elicitation_form || self.features.elicitation_url,
            "sampling/createMessage" => self.features.sampling,
            "roots/list" => self.features.roots,
            _ => false,
        }
    }

    /// Fulfils a request; JSON text of its result. `host` answers in the place of the connection's own. Dropping the future withdraws the question.
    ///
    /// # Errors
    /// Why it is refused.
    pub async fn fulfil(
        &self,
        host: Option<&dyn Host>,
        method: &str,
        params: &str,
    ) -> Result<String, Refusal> {
        if !self.serves(method) {
            return Err(Refusal::Undeclared);
        }
        if json_scan::scan(params).depth > MAX_DEPTH {
            return Err(Refusal::Invalid("the parameters are nested too deeply".to_owned()));
        }
        if let Ok(Some(cleaned)) = unicode::clean_json(params, Mode::Strict) {
            self.listener.hidden("a question", cleaned.characters);
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        let _open = Open(&self.open);
        let host = host.unwrap_or(self.host.as_ref());
        match method {
            "elicitation/create" => self.elicit(host, params).await,
            "sampling/createMessage" => self.sample(params).await,
            _ => Ok(format!("{{\"roots\":{}}}", self.listener.roots())),
        }
    }

    async fn elicit(&self, host: &dyn Host, params: &str) -> Result<String, Refusal> {
        let question = Question::read(params, self.features).inspect_err(|refusal| {
            let details = json!({ "action": "refused", "reason": refusal.message() });
            host.note("elicitation", &self.server, details);
        })?;
        let mut body = question.to_body(&self.server);
        let (mode, place) = (body["mode"].clone(), body["host"].clone());
        let answer = if self.settings.decline_secrets && body.get("sensitive").is_some() {
            json!({ "action": "decline" })
        } else {
            self.answer_to(host, &question, &mut body).await
        };
        let (text, action) = self.checked(&question, &body, &answer);
        host.note("elicitation", &self.server, json!({ "mode": mode, "host": place, "action": action }));
        Ok(text)
    }

    /// Hook, person, hook; `body` becomes what the person is shown.
    async fn answer_to(&self, host: &dyn Host, question: &Question, body: &mut Value) -> Value {
        let mut answer = None;
        if host.can_answer(QuestionKind::ElicitationHook) {
            let said = self.ask(host, QuestionKind::ElicitationHook, body).await;
            if said.as_ref().is_some_and(|said| said.get("action").is_some_and(Value::is_string)) {
                answer = said;
            } else if let Some(changed) = said.as_ref().and_then(|said| said.get("request")) {
                question.change(body, changed);
            }
        }
        if answer.is_none() && host.can_answer(QuestionKind::Elicitation) {
            answer = self.ask(host, QuestionKind::Elicitation, body).await;
        }
        let answer = answer.unwrap_or_else(|| json!({ "action": "cancel" }));
        if !host.can_answer(QuestionKind::ElicitationResultHook) {
            return answer;
        }
        let both = json!({ "request": body, "answer": answer });
        let changed = self.ask(host, QuestionKind::ElicitationResultHook, &both).await;
        changed.filter(|changed| changed.get("action").is_some_and(Value::is_string)).unwrap_or(answer)
    }

    /// Asks the host; a callback that fails is told and counts as no answer.
    async fn ask(&self, host: &dyn Host, kind: QuestionKind, body: &Value) -> Option<Value> {
        match host.ask(kind, body.to_string()).await {
            Ok(text) => serde_json::from_str(&text).ok(),
            // The conversation ends in a moment, and with it whoever waits here: nothing is sent any more.
            Err(error) if error.code() == ErrorCode::ManagerClosed => std::future::pending().await,
            Err(error) => {
                self.listener
                    .misbehaved("CALLBACK_FAILED", format!("{}: {}", kind.callback(), error.message()));
                None
            }
        }
    }

    /// The answer as it may be sent, and its action: content only where a form was accepted, and only content that fits.
    fn checked(&self, question: &Question, body: &Value, answer: &Value) -> (String, &'static str) {
        let action = answer.get("action").and_then(Value::as_str).unwrap_or_default();
        let cancelled = || (CANCEL.to_owned(), "cancel");
        match (action, question) {
            ("accept", Question::Url { .. }) => (json!({ "action": "accept" }).to_string(), "accept"),
            ("accept", Question::Form { form, .. }) => {
                let shown = FormSchema::read(&body["requestedSchema"].to_string());
                match form.complete(answer.get("content"), shown.as_ref().unwrap_or(form)) {
                    Ok(content) => (json!({ "action": "accept", "content": content }).to_string(), "accept"),
                    Err(why) => {
                        let message = format!("an answer was not sent, since it breaks the form: {why}");
                        self.listener.misbehaved("ELICITATION_CONTENT_INVALID", message);
                        cancelled()
                    }
                }
            }
            ("decline", _) => (json!({ "action": "decline" }).to_string(), "decline"),
            _ => cancelled(),
        }
    }

    async fn sample(&self, params: &str) -> Result<String, Refusal> {
        let params = cleaned(params, Mode::Invisible)?;
        let value: Value = serde_json::from_str(&params).map_err(|_| unreadable())?;
        sampling::check_request(&value, self.features.sampling_tools).map_err(Refusal::Invalid)?;
        let body = format!("{{\"server\":{},\"params\":{params}}}", json_scan::quote(&self.server));
        let answer = self
            .host
            .ask(QuestionKind::Sampling, body)
            .await
            .map_err(|_| Refusal::Rejected("User rejected sampling request".to_owned()))?;
        let fits = serde_json::from_str(&answer).map_err(|_| "it is not JSON".to_owned());
        let version = self.version.get().copied().unwrap_or(ProtocolVersion::LEGACY[0]);
        match fits.and_then(|value| sampling::check_answer(&value, version)) {
            Ok(changed) => Ok(changed.map_or(answer, |changed| changed.to_string())),
            Err(why) => {
                let message = format!("the answer of onSampling was not sent: {why}");
                self.listener.misbehaved("SAMPLING_ANSWER_INVALID", message);
                Err(Refusal::Failed("The answer to the sampling request was unusable".to_owned()))
            }
        }
    }

    /// Asks a person to visit an address; whether they agreed.
    ///
    /// # Errors
    /// As [`InputDesk::fulfil`].
    pub async fn visit(&self, host: Option<&dyn Host>, params: &str) -> Result<bool, Refusal> {
        Ok(self.fulfil(host, "elicitation/create", params).await? == r#"{"action":"accept"}"#)
    }

    /// Awaits the news that a visit has ended; register before the person is asked.
    pub fn await_visit(&self, id: &str) -> Visit<'_> {
        let done = Arc::new(Notify::new());
        lock(&self.visits).entry(id.to_owned()).or_default().push(Arc::clone(&done));
        Visit { desk: self, id: id.to_owned(), done }
    }

    /// `notifications/elicitation/complete`; ids that nobody waits for are ignored (mcp:ELI-27).
    pub fn visit_ended(&self, id: &str) {
        if let Some(waiting) = lock(&self.visits).get(id) {
            for done in waiting {
                done.notify_one();
            }
        }
    }
}

/// Counts a request that is being fulfilled.
struct Open<'a>(&'a AtomicUsize);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A visit whose end is awaited.
#[derive(Debug)]
pub struct Visit<'a> {
    desk: &'a InputDesk,
    id: String,
    done: Arc<Notify>,
}

impl Visit<'_> {
    /// Its `elicitationId`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Completes when the server says that the visit has ended.
    pub async fn ended(&self) {
        self.done.notified().await;
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut visits = lock(&self.desk.visits);
        if let Some(waiting) = visits.get_mut(&self.id) {
            waiting.retain(|done| !Arc::ptr_eq(done, &self.done));
            if waiting.is_empty() {
                visits.remove(&self.id);
            }
        }
    }
}

/// A question to a person, checked.
enum Question {
    Form { message: String, schema: Value, form: FormSchema },
    Url { message: String, asked: AskedUrl, id: Option<String> },
}

impl Question {
    fn read(params: &str, features: ClientFeatures) -> Result<Self, Refusal> {
        let names = ["mode", "message", "requestedSchema", "url", "elicitationId"];
        let [mode, message, schema, url, id] = json_scan::pick(params, names);
        let text = |value: Option<&str>| value.and_then(json_scan::decode).map(|text| clean_str_lossy(&text));
        let message = text(message).ok_or_else(|| Refusal::Invalid("message is missing".to_owned()))?;
        match mode.map(json_scan::decode) {
            None => Self::form(message, schema, features),
            Some(Some(mode)) if mode == "form" => Self::form(message, schema, features),
            Some(Some(mode)) if mode == "url" => {
                if !features.elicitation_url {
                    return Err(Refusal::Invalid("the mode url was not declared".to_owned()));
                }
                let url = url.and_then(json_scan::decode);
                let url = url.ok_or_else(|| Refusal::Invalid("url is missing".to_owned()))?;
                let asked = check_url(&url).map_err(Refusal::UnsafeUrl)?;
                let id = id.and_then(json_scan::decode).map(std::borrow::Cow::into_owned);
                Ok(Question::Url { message, asked, id })
            }
            Some(_) => Err(Refusal::Invalid("the mode is not known".to_owned())),
        }
    }

    fn form(message: String, schema: Option<&str>, features: ClientFeatures) -> Result<Self, Refusal> {
        if !features.elicitation_form {
            return Err(Refusal::Invalid("the mode form was not declared".to_owned()));
        }
        let schema = schema.ok_or_else(|| Refusal::Invalid("requestedSchema is missing".to_owned()))?;
        let form = FormSchema::read(schema).map_err(Refusal::Invalid)?;
        // Names and options go back to the server as people saw them: cleaning must not change them (B-077). Where
        // only the strict way would (an ellipsis as one character), what can be seen stays.
        let same =
            |shown: &str| FormSchema::read(shown).is_ok_and(|clean| clean.sent_back() == form.sent_back());
        let strictly = cleaned(schema, Mode::Strict)?;
        let shown = if same(&strictly) { strictly } else { cleaned(schema, Mode::Invisible)? };
        if !same(&shown) {
            return Err(Refusal::Invalid(
                "names or options of the form hold invisible characters".to_owned(),
            ));
        }
        let schema = serde_json::from_str(&shown).map_err(|_| unreadable())?;
        Ok(Question::Form { message, schema, form })
    }

    fn to_body(&self, server: &str) -> Value {
        let mut body = Map::new();
        body.insert("server".to_owned(), server.into());
        match self {
            Question::Form { message, schema, .. } => {
                body.insert("mode".to_owned(), "form".into());
                body.insert("message".to_owned(), message.clone().into());
                body.insert("requestedSchema".to_owned(), schema.clone());
                if asks_for_secret(schema) {
                    body.insert("sensitive".to_owned(), true.into());
                }
            }
            Question::Url { message, asked, id } => {
                body.insert("mode".to_owned(), "url".into());
                body.insert("message".to_owned(), message.clone().into());
                body.insert("url".to_owned(), asked.url.clone().into());
                body.insert("host".to_owned(), asked.host.clone().into());
                let warnings = warnings(asked).into_iter();
                let warnings: Vec<Value> =
                    warnings.map(|(code, message)| json!({ "code": code, "message": message })).collect();
                if !warnings.is_empty() {
                    body.insert("warnings".to_owned(), warnings.into());
                }
                if let Some(id) = id {
                    body.insert("elicitationId".to_owned(), id.clone().into());
                }
            }
        }
        Value::Object(body)
    }

    /// What a hook may change of a question: its words, and the form's defaults and titles. Never who asks or where
    /// it leads.
    fn change(&self, body: &mut Value, changed: &Value) {
        if let Some(message) = changed.get("message").filter(|message| message.is_string()) {
            body["message"] = message.clone();
        }
        if let (Question::Form { .. }, Some(schema)) = (self, changed.get("requestedSchema"))
            && FormSchema::read(&schema.to_string()).is_ok()
        {
            body["requestedSchema"] = schema.clone();
        }
    }
}

/// The text without what cannot be seen.
fn cleaned(text: &str, mode: Mode) -> Result<String, Refusal> {
    match unicode::clean_json(text, mode) {
        Ok(None) => Ok(text.to_owned()),
        Ok(Some(cleaned)) => Ok(cleaned.text),
        Err(_) => Err(unreadable()),
    }
}

fn unreadable() -> Refusal {
    Refusal::Invalid("the parameters are unreadable".to_owned())
}
