//! The one public error of the crate and the table of its codes.
//!
//! Owns: codes, their classes in JavaScript, the sentence that documents each, and the facts an error
//! carries. Every layer converts its own failures into [`McpError`]; nothing above branches on text.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

/// What every fallible function of the crate returns.
pub type Result<T, E = McpError> = std::result::Result<T, E>;

macro_rules! error_codes {
    ($($variant:ident $text:literal $class:literal $retryable:literal $sentence:literal;)*) => {
        /// Stable code of an error: the contract with callers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = $sentence] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the table.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// The code as JavaScript sees it.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$variant => $text,)* }
            }

            /// Name of the JavaScript class that carries the code.
            pub fn class(self) -> &'static str {
                match self { $(ErrorCode::$variant => $class,)* }
            }

            /// Whether the same request may succeed later without anybody changing anything.
            pub fn retryable(self) -> bool {
                match self { $(ErrorCode::$variant => $retryable,)* }
            }

            /// One sentence for people.
            pub fn sentence(self) -> &'static str {
                match self { $(ErrorCode::$variant => $sentence,)* }
            }
        }
    };
}

error_codes! {
    ConfigInvalid "CONFIG_INVALID" "McpConfigError" false "A server definition or a configuration file is malformed";
    ConfigUnreadable "CONFIG_UNREADABLE" "McpConfigError" false "A configuration file exists but cannot be read";
    ConfigWriteFailed "CONFIG_WRITE_FAILED" "McpConfigError" false "A configuration file could not be written";
    ServerExists "SERVER_EXISTS" "McpConfigError" false "The name belongs to a server of a stronger scope";
    ReservedName "RESERVED_NAME" "McpConfigError" false "The server name is reserved";
    EnterpriseExclusive "ENTERPRISE_EXCLUSIVE" "McpConfigError" false "Only the servers of the enterprise file may exist";
    RecordingInvalid "RECORDING_INVALID" "McpConfigError" false "A recording cannot be read, is damaged, or has no such server";
    UnsafeArgument "UNSAFE_ARGUMENT" "McpConfigError" false "An argument cannot be passed to a Windows batch file safely";
    ServerUnknown "SERVER_UNKNOWN" "McpServerError" false "No server of that name is configured";
    ServerDisabled "SERVER_DISABLED" "McpServerError" false "The server is switched off";
    ServerNotApproved "SERVER_NOT_APPROVED" "McpServerError" false "The server of a project file waits for approval";
    ServerRejected "SERVER_REJECTED" "McpServerError" false "The server of a project file was rejected";
    PolicyDenied "POLICY_DENIED" "McpServerError" false "The organisation's policy forbids the server";
    ToolUnknown "TOOL_UNKNOWN" "McpServerError" false "The server offers no tool of that name";
    PromptUnknown "PROMPT_UNKNOWN" "McpServerError" false "No server offers a prompt of that name";
    SkillUnknown "SKILL_UNKNOWN" "McpServerError" false "The server has no skill of that name or URI, or several, or it was not loaded";
    SdkInstanceMissing "SDK_INSTANCE_MISSING" "McpServerError" false "An in-process server was named but never handed over";
    SpawnFailed "SPAWN_FAILED" "McpConnectionError" false "The server's command could not be started";
    ConnectFailed "CONNECT_FAILED" "McpConnectionError" true "The connection could not be made";
    ConnectTimeout "CONNECT_TIMEOUT" "McpConnectionError" true "The server did not finish its handshake in time";
    ConnectionLost "CONNECTION_LOST" "McpConnectionError" true "The connection ended while the request was open";
    ServerExited "SERVER_EXITED" "McpConnectionError" true "The server process ended";
    CircuitOpen "CIRCUIT_OPEN" "McpConnectionError" true "The server failed repeatedly and is left alone for a while";
    RetriesExhausted "RETRIES_EXHAUSTED" "McpConnectionError" true "The server could not be reached in several attempts";
    TransportBackpressure "TRANSPORT_BACKPRESSURE" "McpConnectionError" true "The server does not read its input and the queue is full";
    MessageTooLarge "MESSAGE_TOO_LARGE" "McpConnectionError" false "A message is larger than maxMessageBytes";
    MessageInvalid "MESSAGE_INVALID" "McpConnectionError" false "The server's answer is not a valid message of the protocol";
    EndpointOriginMismatch "ENDPOINT_ORIGIN_MISMATCH" "McpConnectionError" false "The server named an endpoint on another origin";
    RedirectRefused "REDIRECT_REFUSED" "McpConnectionError" false "A redirect would leave the server's origin";
    UrlRefused "URL_REFUSED" "McpConnectionError" false "A URL from the server is not one that may be used";
    HttpStatus "HTTP_STATUS" "McpConnectionError" false "The server answered with an HTTP error";
    TlsFailed "TLS_FAILED" "McpConnectionError" false "The TLS handshake failed";
    ProxyFailed "PROXY_FAILED" "McpConnectionError" true "The proxy refused or failed";
    VersionUnsupported "VERSION_UNSUPPORTED" "McpConnectionError" false "Client and server share no protocol version";
    ManagerClosed "MANAGER_CLOSED" "McpConnectionError" false "The manager was closed";
    SessionExpired "SESSION_EXPIRED" "McpSessionExpiredError" true "The server no longer knows the session";
    RpcError "RPC_ERROR" "McpRpcError" false "The server answered with a JSON-RPC error";
    CapabilityMissing "CAPABILITY_MISSING" "McpRpcError" false "The server does not declare the capability the request needs";
    ToolError "TOOL_ERROR" "McpToolCallError" false "The tool reported a failure in its result";
    InputInvalid "INPUT_INVALID" "McpCallError" false "The arguments do not match the tool's input schema";
    ResultInvalid "RESULT_INVALID" "McpCallError" false "The result does not match what the protocol or the tool's output schema says";
    ResultTooLarge "RESULT_TOO_LARGE" "McpCallError" false "The result is larger than the output limit";
    SkillRefused "SKILL_REFUSED" "McpCallError" false "A skill or a file of it is not what its server listed, or is larger than a skill may be";
    ListLimit "LIST_LIMIT" "McpCallError" false "A list has more pages or items than allowed, or its cursor repeats";
    TaskCancelled "TASK_CANCELLED" "McpCallError" false "The task was cancelled";
    TaskLost "TASK_LOST" "McpCallError" false "The server no longer knows the task: it has restarted, or kept it long enough";
    Timeout "TIMEOUT" "McpTimeoutError" true "The server did not answer in time";
    PermissionDenied "PERMISSION_DENIED" "McpPermissionError" false "The call was refused";
    PermissionRequired "PERMISSION_REQUIRED" "McpPermissionError" false "The call needs a permission that nobody can give";
    AuthRequired "AUTH_REQUIRED" "McpAuthError" false "The server asks for a login";
    AuthFailed "AUTH_FAILED" "McpAuthError" false "The login failed";
    AuthIssuerMismatch "AUTH_ISSUER_MISMATCH" "McpAuthError" false "The authorization server is not the expected one";
    AuthScopeInsufficient "AUTH_SCOPE_INSUFFICIENT" "McpAuthError" false "The token lacks a scope";
    AuthStoreFailed "AUTH_STORE_FAILED" "McpAuthError" false "The token store failed";
    ElicitationDeclined "ELICITATION_DECLINED" "McpElicitationError" false "A question of the server was declined";
    ElicitationLimit "ELICITATION_LIMIT" "McpElicitationError" false "The server asks too many questions";
    BridgeClosed "BRIDGE_CLOSED" "McpBridgeError" false "The bridge is closed";
    BridgeAuthFailed "BRIDGE_AUTH_FAILED" "McpBridgeError" false "The bridge's token was refused";
    BridgeProtocol "BRIDGE_PROTOCOL" "McpBridgeError" false "The bridge's peer broke the protocol";
    BridgeEpoch "BRIDGE_EPOCH" "McpBridgeError" false "Another instance took the session over";
    BridgeDisabled "BRIDGE_DISABLED" "McpBridgeError" false "Remote control is not enabled";
    Internal "INTERNAL" "McpError" false "A defect of this package";
    SanitizeUnstable "SANITIZE_UNSTABLE" "McpError" false "A text does not become stable under Unicode cleaning";
    InvalidArgument "INVALID_ARGUMENT" "TypeError" false "An argument of the call has the wrong type or value";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is known about a request that failed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// No byte of it was sent.
    No,
    /// The server said that it did not process it.
    Refused,
    /// It may have run.
    Unknown,
}

/// Which clock ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeoutKind {
    /// Making the connection, handshake included.
    Connect,
    /// A request other than a tool call.
    Request,
    /// Silence of a tool call.
    Idle,
    /// The hard maximum of any request.
    Total,
}

/// A stretch of an exchange over the network (F-055).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Resolving the name.
    Dns,
    /// Making the TCP connection.
    Connect,
    /// Having a proxy open the way.
    Proxy,
    /// Agreeing on encryption.
    Tls,
    /// Waiting for the head of the answer.
    Headers,
    /// Reading the body of the answer.
    Body,
}

impl Phase {
    /// What is done meanwhile, for people.
    pub fn doing(self) -> &'static str {
        match self {
            Phase::Dns => "resolving the name",
            Phase::Connect => "making the connection",
            Phase::Proxy => "waiting for the proxy",
            Phase::Tls => "agreeing on encryption",
            Phase::Headers => "waiting for the head of the answer",
            Phase::Body => "reading the body of the answer",
        }
    }
}

/// Which of the four permission layers (or the hook in front) refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PermissionLayer {
    /// The organisation's policy.
    Policy,
    /// The allowlist of IDE tools.
    Ide,
    /// A permission rule.
    Rule,
    /// The person (or the host's callback) said no, or nobody could be asked.
    User,
    /// The host's `preToolUse` hook.
    Hook,
}

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExitFact {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Name of the signal (`SIGKILL`), if one ended it.
    pub signal: Option<String>,
}

/// Facts of an error beside code, server and message; each becomes a property in JavaScript.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Code of the JSON-RPC error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rpc_code: Option<i64>,
    /// `data` of the JSON-RPC error, or whatever else belongs to the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Arc<RawValue>>,
    /// How many characters that nobody sees were removed from the server's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<usize>,
    /// Whether the request may have run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered: Option<Delivery>,
    /// Last lines of the server's standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<Vec<String>>,
    /// How the server's process ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitFact>,
    /// HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// First bytes of an answer that is not of the protocol, cleaned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_bytes: Option<String>,
    /// When the next attempt is due, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<u64>,
    /// How far the exchange had come when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The pause before reconnecting that the server asked for.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
    /// Which clock ran out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<TimeoutKind>,
    /// Which permission layer refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<PermissionLayer>,
    /// The rule that refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Names that look like the unknown one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<Vec<String>>,
    /// Requests made for this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Milliseconds from the call to the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// The mapped tool result of an `isError` answer, as JSON text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Arc<RawValue>>,
    /// Diagnostics of a configuration error, as JSON text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnostics: Option<Arc<RawValue>>,
    /// Where a person may log in; it holds no secret of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_url: Option<String>,
    /// The scopes that a request would have needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_scope: Option<String>,
    /// Name of the parameter of an `INVALID_ARGUMENT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
}

#[derive(Clone, Debug)]
struct Parts {
    code: ErrorCode,
    server: Option<Arc<str>>,
    message: String,
    facts: Facts,
    cause: Option<McpError>,
}

/// An error with its stable code, the server it concerns and the facts a caller may need.
///
/// Message style: what failed, what was seen, what to do; one line, no trailing dot, no secret.
#[derive(Clone, Debug)]
pub struct McpError(Box<Parts>);

impl McpError {
    /// An error with a message for people.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            code,
            server: None,
            message: message.into(),
            facts: Facts::default(),
            cause: None,
        }))
    }

    /// Names the server the error concerns; the first name stays.
    #[must_use]
    pub fn on(mut self, server: &str) -> Self {
        if self.0.server.is_none() {
            self.0.server = Some(Arc::from(server));
        }
        self
    }

    /// Adds facts.
    #[must_use]
    pub fn with(mut self, fill: impl FnOnce(&mut Facts)) -> Self {
        fill(&mut self.0.facts);
        self
    }

    /// Keeps the error that led to this one.
    #[must_use]
    pub fn caused_by(mut self, cause: McpError) -> Self {
        self.0.cause = Some(cause);
        self
    }

    /// Passes every free text of the error, and of what led to it, through `change`; JSON through `change_json`.
    #[must_use]
    pub fn map_texts(
        mut self,
        change: &dyn Fn(&str) -> String,
        change_json: &dyn Fn(&str) -> String,
    ) -> Self {
        self.0.message = change(&self.0.message);
        let facts = &mut self.0.facts;
        for text in facts.stderr_tail.iter_mut().flatten().chain(&mut facts.first_bytes) {
            *text = change(text);
        }
        if let Some(data) = &facts.data {
            facts.data = RawValue::from_string(change_json(data.get())).ok().map(Arc::from);
        }
        self.0.cause = self.0.cause.take().map(|cause| cause.map_texts(change, change_json));
        self
    }

    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// The server concerned.
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    /// The message for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The facts.
    pub fn facts(&self) -> &Facts {
        &self.0.facts
    }

    /// JSON text of the error as it crosses to JavaScript:
    /// `{class, code, message, server?, retryable, cause?, …facts}`.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&Wire::from(self)).unwrap_or_else(|_| {
            r#"{"class":"McpError","code":"INTERNAL","message":"an error could not be written","retryable":false}"#
                .to_owned()
        })
    }
}

#[derive(Serialize)]
struct Wire<'a> {
    class: &'static str,
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    retryable: bool,
    #[serde(flatten)]
    facts: &'a Facts,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Box<Wire<'a>>>,
}

impl<'a> From<&'a McpError> for Wire<'a> {
    fn from(error: &'a McpError) -> Self {
        let parts = &error.0;
        Wire {
            class: parts.code.class(),
            code: parts.code.as_str(),
            message: &parts.message,
            server: parts.server.as_deref(),
            retryable: parts.code.retryable(),
            facts: &parts.facts,
            cause: parts.cause.as_ref().map(|cause| Box::new(Wire::from(cause))),
        }
    }
}

impl fmt::Display for McpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.server {
            Some(server) => write!(f, "{} ({}): {}", self.0.code, server, self.0.message),
            None => write!(f, "{}: {}", self.0.code, self.0.message),
        }
    }
}

impl std::error::Error for McpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_ref().map(|cause| cause as &(dyn std::error::Error + 'static))
    }
}
