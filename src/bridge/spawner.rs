//! The process that serves a session (BRG-09): started, spoken to, ended, never left behind.
//!
//! It is owned as a local server is (`transport::stdio`: own process group, ends with the host however that ends), and
//! spoken to over its standard streams, in JSON-RPC lines. It asks for tokens there: none is in its environment or
//! arguments, where others could read it.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;

use super::callbacks::Callbacks;
use super::desk::{Answer, Desk, nothing, unknown};
use super::message::quoted;
use super::options::{Version, base_url, callback_limit, check_session, from_json, invalid, time};
use crate::environment::Environment;
use crate::error::{ErrorCode, ExitFact, McpError};
use crate::host::post::PostOffice;
use crate::json_scan;
use crate::jsonrpc::{Incoming, RawText, write};
use crate::runtime;
use crate::transport::stdio::channel::{self, ChannelLimits, StdioTransport};
use crate::transport::stdio::{
    CloseMode, ExitLot, Inherit, ServerProcess, ShutdownTimes, StdioRecipe, close_all_now,
};
use crate::transport::{Receiver, Transport};

/// What tells the process which session it serves.
const VARIABLE: &str = "MCP_SWITCHBOARD_BRIDGE";
/// Bounds of what is said between the two.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// How long the end of a process may take to show after it was ended.
const TOLD: Duration = Duration::from_secs(1);
/// Code for a request that there is not (JSON-RPC).
const METHOD_UNKNOWN: i64 = -32_601;
/// Code for a token that there is not.
const NO_TOKEN: i64 = -32_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    base_url: String,
    session_id: String,
    #[serde(default)]
    version: Version,
    #[serde(default)]
    callbacks: HashSet<String>,
    callback_timeout_ms: Option<f64>,
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    #[serde(default)]
    inherit_env: RawInherit,
    grace_ms: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(untagged)]
enum RawInherit {
    #[default]
    Safe,
    Named(Vec<String>),
    Word(String),
}

/// A process that serves a session, from before its start.
pub struct Child {
    recipe: StdioRecipe,
    environment: Environment,
    callbacks: Callbacks,
    times: ShutdownTimes,
    running: OnceLock<Running>,
}

struct Running {
    transport: Arc<StdioTransport>,
    process: Arc<ServerProcess>,
    /// The host was told of the end.
    told: watch::Receiver<bool>,
}

impl Child {
    /// By its options (JSON text); nothing is started yet. Call it on a thread that may read the environment.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`.
    pub fn new(options: &str, post: Arc<PostOffice>) -> Result<Self, McpError> {
        let raw: Raw = from_json(options)?;
        base_url(&raw.base_url)?;
        check_session("sessionId", &raw.session_id)?;
        let session = json!({ "baseUrl": raw.base_url.trim(), "sessionId": raw.session_id, "version": raw.version.name() });
        let mut env: Vec<(String, String)> = raw.env.into_iter().collect();
        env.push((VARIABLE.to_owned(), session.to_string()));
        let environment = Environment::capture();
        let recipe = StdioRecipe {
            server: raw.session_id,
            command: raw.command,
            args: raw.args,
            env,
            cwd: raw.cwd,
            default_cwd: environment.cwd.clone(),
            inherit: match raw.inherit_env {
                RawInherit::Safe => Inherit::Safe,
                RawInherit::Named(names) => Inherit::Named(names),
                RawInherit::Word(word) if word == "all" => Inherit::All,
                RawInherit::Word(_) => {
                    return Err(invalid("options.inheritEnv", "expected an array of names or \"all\""));
                }
            },
            inherit_stderr: false,
        };
        let patience = callback_limit(raw.callback_timeout_ms)?;
        let grace = time("graceMs", raw.grace_ms, 2_000.0, 0.0)?;
        let times =
            ShutdownTimes { grace, term: grace.min(Duration::from_secs(2)), ..ShutdownTimes::default() };
        let callbacks = Callbacks::new(post, raw.callbacks, patience);
        Ok(Self { recipe, environment, callbacks, times, running: OnceLock::new() })
    }

    /// Starts the process, inside of the runtime; gives its number.
    fn start(&self) -> Result<String, McpError> {
        let ear = Arc::new(Ear { callbacks: self.callbacks.clone(), transport: OnceLock::new() });
        let limits = ChannelLimits { message: MOST_BYTES, queued: MOST_BYTES, shutdown: self.times };
        let transport =
            channel::open(&self.recipe, &self.environment, limits, Arc::clone(&ear) as Arc<dyn Receiver>)?;
        let _ = ear.transport.set(Arc::downgrade(&transport));
        let process = transport
            .process()
            .ok_or_else(|| McpError::new(ErrorCode::Internal, "a process without a process"))?;
        let pid = process.pid();
        let callbacks = self.callbacks.clone();
        let watched = Arc::clone(&process);
        let (tell, told) = watch::channel(false);
        runtime::spawn(async move {
            let ExitFact { code, signal } = watched.exited().await;
            let tail = watched.stderr_tail();
            callbacks.emit("exit", json!({ "code": code, "signal": signal, "stderrTail": tail }).to_string());
            tell.send_replace(true);
        });
        let _ = self.running.set(Running { transport, process, told });
        Ok(pid.to_string())
    }

    fn running(&self) -> Result<&Running, McpError> {
        self.running
            .get()
            .ok_or_else(|| McpError::new(ErrorCode::BridgeClosed, "the process was not started"))
    }

    /// Queues a message (JSON text of an object) for a process that may be slow to read, in this very step.
    fn send(&self, message: &str) -> Result<(), McpError> {
        let running = self.running()?;
        if let Some(exit) = running.process.exit() {
            let how = channel::describe_exit(&exit);
            let error = McpError::new(ErrorCode::ServerExited, format!("the process of the session {how}"));
            return Err(error.with(|facts| facts.exit = Some(exit)));
        }
        running.transport.push(write::notification("bridge/message", Some(message)))
    }

    async fn close(&self, mode: CloseMode) {
        if let Some(running) = self.running.get() {
            let reason = McpError::new(ErrorCode::BridgeClosed, "the session's process was ended");
            running.transport.close(mode, reason).await;
            // Its end comes first, then the answer to whoever wanted it.
            let mut told = running.told.clone();
            let _ = tokio::time::timeout(TOLD, told.wait_for(|told| *told)).await;
        }
    }
}

impl Desk for Child {
    fn take(self: Arc<Self>, verb: &str, payload: &str) -> Answer {
        match verb {
            "start" => Box::pin(async move { self.start() }),
            "send" => {
                let sent = self.send(payload);
                Box::pin(async move { sent.map(|()| nothing()) })
            }
            "close" => {
                let mode = if payload == "fast" { CloseMode::Fast } else { CloseMode::Graceful };
                Box::pin(async move {
                    self.close(mode).await;
                    Ok(nothing())
                })
            }
            _ => unknown(verb),
        }
    }

    fn number(&self, _name: &str) -> Option<u64> {
        None
    }

    fn abandon(&self) {
        let _ = close_all_now([self.exit_lot()]);
    }

    fn exit_lot(&self) -> ExitLot {
        let processes = self.running.get().map(|running| Arc::clone(&running.process)).into_iter().collect();
        ExitLot { processes, times: self.times }
    }
}

/// Hears the process.
struct Ear {
    callbacks: Callbacks,
    transport: OnceLock<Weak<StdioTransport>>,
}

impl Ear {
    /// Answers a request for a token.
    fn give_token(&self, id: String, params: Option<RawText>) {
        let Some(transport) = self.transport.get().and_then(Weak::upgrade) else { return };
        let callbacks = self.callbacks.clone();
        runtime::spawn(async move {
            let params = params.map(RawText::into_string).unwrap_or_default();
            let force = json_scan::pick(&params, ["forceRefresh"]) == [Some("true")];
            let argument = format!(r#"{{"forceRefresh":{force}}}"#);
            let frame = match callbacks.ask("getAuthToken", &argument).await {
                Ok(token) => write::result(&id, &format!(r#"{{"token":{token}}}"#)),
                Err(why) => write::error(&id, NO_TOKEN, &why),
            };
            // A process that has ended needs none.
            let _ = transport.send(frame).await;
        });
    }
}

impl Receiver for Ear {
    fn message(&self, message: Incoming) {
        match message {
            Incoming::Request { id, method, params } if method == "bridge/token" => {
                self.give_token(id, params);
            }
            Incoming::Request { id, method, .. } => {
                if let Some(transport) = self.transport.get().and_then(Weak::upgrade) {
                    let frame = write::error(&id, METHOD_UNKNOWN, &format!("there is no {method}"));
                    runtime::spawn(async move { transport.send(frame).await });
                }
            }
            Incoming::Notification { method, params: Some(params) } if method == "bridge/message" => {
                self.callbacks.emit("message", params.into_string());
            }
            Incoming::Notification { .. } | Incoming::Response { .. } | Incoming::Unreadable { .. } => {}
        }
    }

    fn answered(&self, _id: u64) {}

    fn noise(&self, excerpt: &str, _why: &str) {
        self.callbacks.emit("output", quoted(excerpt));
    }

    fn stray(&self, _id: Option<u64>) {}

    fn stderr(&self, line: &str) {
        self.callbacks.emit("stderr", quoted(line));
    }

    fn closed(&self, _error: McpError) {}
}
