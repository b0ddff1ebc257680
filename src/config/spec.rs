//! What the program needs to know of a server, well-formed and with values. (CFG-04)

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::draft::Definition;
use crate::config::scope::{Scope, Voice};
use crate::secret::{Redactor, SafeUrl, Secret, redact_arguments, split_arguments, url_secrets};

/// A server as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// Name as written.
    pub name: Arc<str>,
    /// Scope of its definition.
    pub scope: Scope,
    /// Who wrote the definition.
    pub voice: Voice,
    /// Absolute path of the file; `None` for options.
    pub file: Option<Arc<str>>,
    /// Line of the name, from 1.
    pub line: Option<u32>,
    /// How to reach it.
    pub transport: TransportSpec,
    /// Its own clocks.
    pub timeouts: Timeouts,
    /// Switched off.
    pub disabled: bool,
    /// Its tools are loaded without a search.
    pub always_load: bool,
    /// When to connect; `None` leaves it to the manager.
    pub start: Option<StartPolicy>,
    /// Which era to speak; `None` is `auto`.
    pub protocol: Option<ProtocolChoice>,
    /// Which of its tools exist.
    pub tools: ToolFilter,
    /// TLS settings; `None` leaves them to the manager.
    pub tls: Option<TlsSpec>,
    /// Proxy.
    pub proxy: ProxyChoice,
}

impl ServerSpec {
    /// Whether both describe the same running server, with the same rights; file and line do not matter.
    pub fn same_effect(&self, other: &Self) -> bool {
        let placed = Self { file: self.file.clone(), line: self.line, ..other.clone() };
        *self == placed
    }

    /// As [`ServerSpec::same_effect`], whether it is switched on or off.
    pub fn same_but_switch(&self, other: &Self) -> bool {
        self.same_effect(&Self { disabled: self.disabled, ..other.clone() })
    }

    /// An editor: only some of its tools are taken over. (POL-10)
    pub fn is_ide(&self) -> bool {
        matches!(self.transport, TransportSpec::SseIde(_) | TransportSpec::WsIde(_))
    }

    /// Takes the secrets of this definition out of free text. (SEC-03)
    pub fn redactor(&self) -> Redactor {
        let mut values: Vec<&str> = Vec::new();
        match &self.transport {
            TransportSpec::Stdio(stdio) => {
                values.extend(stdio.env.values().map(|value| value.expose().as_str()));
                collect_arguments(&stdio.args, &mut values);
            }
            TransportSpec::Http(remote) | TransportSpec::Sse(remote) | TransportSpec::WebSocket(remote) => {
                values.extend(remote.headers.values().map(|value| value.expose().as_str()));
                values.extend(remote.url.secrets());
                if let Some(HelperCommand(words)) = &remote.headers_helper {
                    collect_arguments(words, &mut values);
                }
                if let OAuthChoice::Custom(fields) = &remote.oauth {
                    collect_secrets(fields.expose(), &mut values);
                }
            }
            TransportSpec::SseIde(ide) | TransportSpec::WsIde(ide) => {
                values.extend(ide.auth_token.as_ref().map(|token| token.expose().as_str()));
                values.extend(ide.url.secrets());
            }
            TransportSpec::ConnectorProxy(connector) => values.extend(connector.url.secrets()),
            TransportSpec::Sdk { .. } => {}
        }
        if let ProxyChoice::Url(url) = &self.proxy {
            values.extend(url.secrets());
        }
        if let Some(key) = self.tls.as_ref().and_then(|tls| tls.key.as_ref()) {
            values.push(key.expose());
        }
        Redactor::new(values)
    }
}

fn collect_arguments<'a>(arguments: &'a [String], values: &mut Vec<&'a str>) {
    values.extend(split_arguments(arguments).into_iter().map(|parts| parts.secret));
    values
        .extend(arguments.iter().filter(|argument| argument.contains(':')).flat_map(|one| url_secrets(one)));
}

fn collect_secrets<'a>(fields: &'a Definition, values: &mut Vec<&'a str>) {
    for (key, value) in fields {
        match value {
            serde_json::Value::String(text) if OAUTH_SECRETS.contains(&key.as_str()) => values.push(text),
            serde_json::Value::Object(inner) => collect_secrets(inner, values),
            _ => {}
        }
    }
}

/// Fields of `oauth`, at any depth, whose text is a secret.
const OAUTH_SECRETS: [&str; 4] = ["clientSecret", "privateKeyPem", "idToken", "assertion"];

/// How to reach a server.
#[derive(Clone, Debug, PartialEq)]
pub enum TransportSpec {
    /// A child process.
    Stdio(StdioSpec),
    /// Streamable HTTP.
    Http(RemoteSpec),
    /// HTTP with server-sent events, the older way.
    Sse(RemoteSpec),
    /// WebSocket.
    WebSocket(RemoteSpec),
    /// An editor over server-sent events.
    SseIde(IdeSpec),
    /// An editor over WebSocket.
    WsIde(IdeSpec),
    /// In this process.
    Sdk {
        /// Name under which the host handed the server over.
        name: String,
    },
    /// A connector behind the account's proxy.
    ConnectorProxy(ConnectorSpec),
}

impl TransportSpec {
    /// The part that servers behind a configured URL have in common.
    pub fn remote(&self) -> Option<&RemoteSpec> {
        match self {
            TransportSpec::Http(remote) | TransportSpec::Sse(remote) | TransportSpec::WebSocket(remote) => {
                Some(remote)
            }
            _ => None,
        }
    }

    /// The `type` as files write it.
    pub fn kind(&self) -> &'static str {
        match self {
            TransportSpec::Stdio(_) => "stdio",
            TransportSpec::Http(_) => "http",
            TransportSpec::Sse(_) => "sse",
            TransportSpec::WebSocket(_) => "ws",
            TransportSpec::SseIde(_) => "sse-ide",
            TransportSpec::WsIde(_) => "ws-ide",
            TransportSpec::Sdk { .. } => "sdk",
            TransportSpec::ConnectorProxy(_) => "claudeai-proxy",
        }
    }
}

/// A child process.
#[derive(Clone, PartialEq)]
pub struct StdioSpec {
    /// Program.
    pub command: String,
    /// Arguments, byte for byte.
    pub args: Vec<String>,
    /// Variables on top of the base environment.
    pub env: BTreeMap<String, Secret<String>>,
    /// Working directory as written.
    pub cwd: Option<String>,
    /// Variables of the host that it gets too.
    pub inherit_env: InheritEnv,
}

impl fmt::Debug for StdioSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioSpec")
            .field("command", &self.command)
            .field("args", &redact_arguments(&self.args))
            .field("env", &self.env)
            .field("cwd", &self.cwd)
            .field("inherit_env", &self.inherit_env)
            .finish()
    }
}

/// Which variables of the host a child gets beyond the base environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InheritEnv {
    /// Those named.
    Named(Vec<String>),
    /// All of them.
    All,
}

/// A server behind a URL.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteSpec {
    /// Where it is; absolute, without user name and password.
    pub url: SafeUrl,
    /// Headers of every request, names as written.
    pub headers: BTreeMap<String, Secret<String>>,
    /// A command whose output gives more headers.
    pub headers_helper: Option<HelperCommand>,
    /// How to log in.
    pub oauth: OAuthChoice,
}

/// A command whose output gives headers: program and arguments.
#[derive(Clone, PartialEq, Eq)]
pub struct HelperCommand(pub Vec<String>);

impl fmt::Debug for HelperCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HelperCommand").field(&redact_arguments(&self.0)).finish()
    }
}

/// How to log in at a server.
#[derive(Clone, Debug, PartialEq)]
pub enum OAuthChoice {
    /// By discovery.
    Discovered,
    /// Never.
    Off,
    /// With these settings.
    Custom(Secret<Definition>),
}

/// An editor.
#[derive(Clone, Debug, PartialEq)]
pub struct IdeSpec {
    /// Where it listens.
    pub url: SafeUrl,
    /// Its name for people.
    pub ide_name: String,
    /// Its token.
    pub auth_token: Option<Secret<String>>,
    /// It runs on the Windows side of this machine.
    pub running_in_windows: bool,
}

/// A connector behind the account's proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectorSpec {
    /// Where the proxy is.
    pub url: SafeUrl,
    /// Identifier of the connector.
    pub id: String,
    /// The server behind the proxy, where the account's list names it: duplicates and deny entries go by it too.
    pub original: Option<SafeUrl>,
}

/// Clocks of one server; `None` leaves the clock to the manager. (PRO-06)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Making the connection, handshake included.
    pub connect: Option<Duration>,
    /// A request other than a tool call.
    pub request: Option<Duration>,
    /// Silence of a tool call.
    pub tool_idle: Option<Duration>,
    /// The hard maximum of any request.
    pub total: Option<Duration>,
}

/// When to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StartPolicy {
    /// At once.
    Eager,
    /// At the first use.
    Lazy,
    /// At once, and readiness waits for it.
    Required,
}

/// Which era of the protocol to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolChoice {
    /// Found out.
    Auto,
    /// The handshake era.
    Legacy,
    /// The stateless era.
    Modern,
}

/// Which tools of a server exist; `*` in a pattern stands for any text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Only these, if given.
    pub include: Option<Vec<String>>,
    /// Never these.
    pub exclude: Vec<String>,
}

impl ToolFilter {
    /// Whether the tool of a wire name exists for the host.
    pub fn admits(&self, wire_name: &str) -> bool {
        let named = |patterns: &[String]| {
            patterns.iter().any(|pattern| crate::name::pattern::fits(pattern, wire_name))
        };
        self.include.as_deref().is_none_or(named) && !named(&self.exclude)
    }
}

/// TLS settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSpec {
    /// Additional roots: paths or PEM texts.
    pub ca: Vec<String>,
    /// Client certificate: path or PEM text.
    pub cert: Option<String>,
    /// Its key: path or PEM text.
    pub key: Option<Secret<String>>,
    /// Accept any certificate.
    pub insecure_skip_verify: bool,
}

/// Which proxy to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxyChoice {
    /// The manager's.
    #[default]
    Inherited,
    /// None.
    Off,
    /// This one; may carry a user name and password.
    Url(SafeUrl),
}
