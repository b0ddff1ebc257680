//! Settings of one connection: those of the manager with those of the server on top.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use super::backoff::Backoff;
use super::liveness::Pulse;
use super::pool::StartPools;
use super::predecessors::Predecessors;
use crate::client::input::InputSettings;
use crate::client::open::Introduction;
use crate::client::pages::ListLimits;
use crate::config::policy::Gate;
use crate::config::spec::{ProxyChoice, StartPolicy, Timeouts, TlsSpec};
use crate::deadline::Limits;
use crate::environment::Environment;
use crate::error::TimeoutKind;
use crate::official::Known;
use crate::protocol::classify::Classifier;
use crate::recorder::Recorder;
use crate::transport::authorizer::Authorizer;
use crate::transport::stdio::ShutdownTimes;
use crate::transport::websocket::PingTimes;

/// The clocks of PRO-06; the human one is [`crate::deadline::Deadline::hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Making a connection; default 30 s, environment `MCP_TIMEOUT`.
    pub connect: Duration,
    /// A request; default 60 s.
    pub request: Duration,
    /// Silence of a tool call; default 10 min, environment `MCP_TOOL_TIMEOUT`.
    pub tool_idle: Duration,
    /// Hard maximum, where one was set: default 24 h for tools, ten times the request clock for the rest.
    pub total: Option<Duration>,
}

/// Hard maximum of a tool call.
const TOOL_TOTAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The environment of the login shell, read once for all connections of a manager.
#[derive(Debug, Default)]
pub struct ShellEnvironment(OnceCell<Arc<Environment>>);

impl ShellEnvironment {
    /// The host's environment with the login shell's on top; `report` hears once why there is none.
    pub async fn get(&self, host: &Arc<Environment>, report: impl FnOnce(String)) -> Arc<Environment> {
        let read = async {
            match crate::transport::stdio::login_shell::with_login_shell(host).await {
                Ok(merged) => Arc::new(merged),
                Err(why) => {
                    report(why);
                    Arc::clone(host)
                }
            }
        };
        Arc::clone(self.0.get_or_init(|| read).await)
    }
}

impl Clocks {
    /// Defaults, with what the environment says.
    pub fn from_environment(environment: &Environment) -> Self {
        let millis = |name: &str, default: u64| {
            let set =
                environment.get(name).and_then(|text| text.trim().parse().ok()).filter(|value| *value > 0);
            Duration::from_millis(set.unwrap_or(default))
        };
        Self {
            connect: millis("MCP_TIMEOUT", 30_000),
            request: Duration::from_secs(60),
            tool_idle: millis("MCP_TOOL_TIMEOUT", 600_000),
            total: None,
        }
    }

    /// What a server's own definition sets wins.
    #[must_use]
    pub fn with(self, own: &Timeouts) -> Self {
        Self {
            connect: own.connect.unwrap_or(self.connect),
            request: own.request.unwrap_or(self.request),
            tool_idle: own.tool_idle.unwrap_or(self.tool_idle),
            total: own.total.or(self.total),
        }
    }

    /// Limits of a tool call; `own` and `own_total` are those of the call itself.
    pub fn tool(&self, own: Option<Duration>, own_total: Option<Duration>) -> Limits {
        let idle = own.unwrap_or(self.tool_idle);
        let total = own_total.or(self.total).unwrap_or(TOOL_TOTAL);
        Limits { idle, total, idle_kind: TimeoutKind::Idle }
    }

    /// Limits of any other request.
    pub fn request(&self, own: Option<Duration>, own_total: Option<Duration>) -> Limits {
        let idle = own.unwrap_or(self.request);
        let total = own_total.or(self.total).unwrap_or(idle.saturating_mul(10));
        Limits { idle, total, idle_kind: TimeoutKind::Request }
    }

    /// Limits of an attempt to connect.
    pub fn connecting(&self) -> Limits {
        Limits { idle: self.connect, total: self.connect.saturating_mul(2), idle_kind: TimeoutKind::Connect }
    }
}

/// Everything a connection needs to know beside the server's definition.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// Time limits.
    pub clocks: Clocks,
    /// When to connect; the manager's choice under the server's own.
    pub start: StartPolicy,
    /// How many servers start at the same time, shared by the connections of a manager.
    pub pools: StartPools,
    /// When quiet connections are asked whether they live.
    pub pulse: Pulse,
    /// Retries.
    pub backoff: Backoff,
    /// Bounds of lists.
    pub lists: ListLimits,
    /// How long lists stay fresh; default 20 s.
    pub catalog_ttl: Duration,
    /// What names of tools say; the built-in tables by default (TOL-04).
    pub classifier: Classifier,
    /// Longest message in bytes; default 64 MiB.
    pub max_message: usize,
    /// Bytes that may wait for a server that does not read; default 16 MiB.
    pub max_queued: usize,
    /// Times of the closing steps.
    pub shutdown: ShutdownTimes,
    /// When servers behind a WebSocket have to show that they live.
    pub ping: PingTimes,
    /// What the host says of itself.
    pub introduction: Introduction,
    /// Limits of what servers may ask.
    pub inputs: InputSettings,
    /// Limit of one probe for the era; default 10 s (PRO-03).
    pub probe: Duration,
    /// Environment of the host.
    pub environment: Arc<Environment>,
    /// Whether local servers get the environment of the login shell (BEY-03).
    pub shell_env: Option<Arc<ShellEnvironment>>,
    /// Who kept servers with the same state directory before; `None` without one (A16).
    pub predecessors: Option<Arc<Predecessors>>,
    /// Working directory of servers that name none.
    pub cwd: PathBuf,
    /// Whether standard error of servers goes to the host's own.
    pub inherit_stderr: bool,
    /// Tries to resume a stream that was cut; default 5 (HTTP-02).
    pub max_resumptions: u32,
    /// Trust of servers that set none of their own (TLS-01).
    pub tls: Option<TlsSpec>,
    /// Proxy of servers that name none of their own (PRX-01).
    pub proxy: ProxyChoice,
    /// The host's account, for the connectors behind its proxy (PXY-01).
    pub account: Option<Arc<dyn Authorizer>>,
    /// Who writes down what is said (BEY-08).
    pub recorder: Option<Arc<Recorder>>,
    /// The official registry, where the host wants it in the status (SEC-05).
    pub officials: Option<Arc<Known>>,
    /// The policy that every attempt to connect passes.
    pub gate: Gate,
}
