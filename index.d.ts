/**
 * mcp-switchboard: the host side of the Model Context Protocol.
 *
 * All durations are milliseconds, all sizes bytes. Every asynchronous method of the manager takes
 * `{ signal?: AbortSignal }` in its last options argument: when the signal aborts, the promise rejects at once with
 * `signal.reason`. Arguments of a wrong type throw (or reject with) a plain `TypeError` whose `code` is
 * `INVALID_ARGUMENT` and whose message names the parameter. `_meta` of the protocol is `meta` here.
 */
import { EventEmitter } from 'node:events';

// ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
/** A JSON object. */
export type JsonObject = { [key: string]: Json };

// ── Server configuration (one entry of `mcpServers`) ────────────────────────────────────────────────────

/** What every kind of server may say about itself; each value wins over the manager's option of the same name. */
export interface CommonServerConfig {
  /** Limit for starting the server and its handshake, in ms. Default: the manager's `connectTimeoutMs`. */
  connectTimeoutMs?: number;
  /** Limit for every request but tool calls, in ms. Default: the manager's `requestTimeoutMs`. */
  requestTimeoutMs?: number;
  /** Longest silence of a tool call, in ms; progress of that call starts it anew. Default: the manager's `toolTimeoutMs`. */
  toolTimeoutMs?: number;
  /** Hard limit of one request, progress or not, in ms. Default: the manager's `maxTotalTimeoutMs`. */
  maxTotalTimeoutMs?: number;
  /** `true`: the server is listed with state `disabled` and never started. Default `false`. */
  disabled?: boolean;
  /** `true`: every tool of this server has `alwaysLoad: true`. Default `false`. */
  alwaysLoad?: boolean;
  /**
   * Which era of the protocol is spoken: the handshake of 2025-11-25 and before, or the stateless one of 2026-07-28.
   * `auto` finds out: a process is greeted with the handshake and asked for the other era if it refuses; behind a URL it
   * is the other way round. A server that does not speak the era asked for fails with `VERSION_UNSUPPORTED`, and so does
   * `modern` with `type: 'sse'`, which has the handshake alone. Default `auto`.
   */
  protocol?: 'auto' | 'legacy' | 'modern';
  /** When the server is started. Default: the manager's `start`. */
  start?: 'eager' | 'lazy' | 'required';
  /** Which of the server's own tool names are taken over: `include` first, then `exclude`. Default: all. */
  tools?: {
    /** Only these tools. */
    include?: string[];
    /** All but these tools. */
    exclude?: string[];
  };
  /** Trust of a server behind a URL. Default: the manager's `tls`. */
  tls?: TlsOptions;
  /** Proxy of a server behind a URL, or `false` for none. Default: the manager's `proxy`. */
  proxy?: string | false;
}

/** Whom to trust beyond the system's authorities and those of `NODE_EXTRA_CA_CERTS`. */
export interface TlsOptions {
  /** Further authorities: paths of PEM files or PEM texts. */
  ca?: string | string[];
  /** Client certificate: path or PEM text. */
  cert?: string;
  /** Its key: path or PEM text. Default: looked for in `cert`. */
  key?: string;
  /** `true` accepts every certificate; the status then says `tlsVerified: false`. Default `false`. */
  insecureSkipVerify?: boolean;
}

/**
 * How to log in at a server over HTTP. Nothing of it is needed for servers that describe themselves; see
 * `docs/authentication.md`.
 */
export interface OAuthConfig {
  /** Id of a client that was registered beforehand. Default: a metadata document, else a registration by this package. */
  clientId?: string;
  /** Its secret; never shown. */
  clientSecret?: string;
  /** `https` URL of a client id metadata document; used where the authorization server takes such. */
  clientMetadataUrl?: string;
  /** Scopes to ask for. Default: those of the server's refusal, else those of its metadata, else none. */
  scopes?: string[];
  /** What is sent as `resource`; `false` sends nothing. Default: what the server's metadata says, verbatim. */
  resource?: string | false;
  /** Issuer that the authorization server's metadata has to name. Default: the one that the server names. */
  expectedIssuer?: string;
  /** Where the authorization server's metadata is. Default: the well-known places. */
  authServerMetadataUrl?: string;
  /** Go on where the metadata does not say that PKCE is known. Default `false`. */
  allowUnadvertisedPkce?: boolean;
  /** Host of the redirect URI: `127.0.0.1`, `::1` or `localhost`. Default `127.0.0.1`, then `localhost` where that is refused. */
  callbackHost?: string;
  /** Port of the redirect URI. Default: a free one. A port that is taken is `AUTH_FAILED`. */
  callbackPort?: number;
  /** Path of the redirect URI. Default `/callback`. */
  callbackPath?: string;
  /** A whole redirect URI instead; nothing listens then, and the answer comes through `onAuthorizationUrl` or `completeAuthorization`. */
  redirectUri?: string;
  /** Bind tokens to a key of this client (DPoP, RFC 9449). Default `false`. */
  dpop?: boolean;
  /** The client logs in by itself; `clientId` is needed. */
  clientCredentials?:
    | { method: 'basic' | 'post' }
    | {
        method: 'private_key_jwt';
        /** PKCS#8 key as PEM text. */
        privateKeyPem: string;
        /** `ES256`, `ES384`, `EdDSA`, `RS256`, `RS384`, `RS512`, `PS256`, `PS384` or `PS512`. */
        algorithm: string;
      };
  /** The enterprise's identity provider vouches for the person; `clientId` is needed. */
  enterpriseManaged?: {
    /** Issuer of the identity token. A token that is a JWT of another issuer is sent to nobody: `AUTH_ISSUER_MISMATCH`. */
    idpIssuer: string;
    /** Where the identity token is exchanged. */
    idpTokenEndpoint: string;
    /** Client id at the identity provider. */
    idpClientId: string;
    /** Identity token of the person. */
    idToken: string;
  };
  /** A workload's own token vouches for it; `clientId` is needed. */
  workloadIdentity?: {
    /** The workload's JWT, for the authorization server's issuer. */
    assertion: string;
  };
}

/** What servers behind a URL have in common. */
export interface RemoteServerConfig extends CommonServerConfig {
  /** URL without user name and password: `https://` or `http://`, of a WebSocket `wss://` or `ws://`. */
  url: string;
  /**
   * Headers of every request, of a WebSocket those of its upgrade; their values never show in reports, logs and errors.
   * With `Authorization` no login starts.
   */
  headers?: Record<string, string>;
  /**
   * Command whose output, a JSON object of strings, gives further headers; they win over `headers`. An array, or a text
   * that is split by quoting rules only; no shell is involved. It runs for each connection (10 s at most, with the
   * server's name and URL in `CLAUDE_CODE_MCP_SERVER_NAME` and `CLAUDE_CODE_MCP_SERVER_URL`) and once more when the
   * server answers with 401 or 403. Its output never shows. A failure: `AUTH_FAILED`.
   */
  headersHelper?: string | string[];
  /**
   * How to log in where a request is answered with 401; `false` never does. Default: by what the server says of itself,
   * a WebSocket's at the `https` address of its URL.
   */
  oauth?: OAuthConfig | false;
}

/** A server over Streamable HTTP; where that is refused, over the older event stream (see `transport` of the status). */
export interface HttpServerConfig extends RemoteServerConfig {
  /** May be left out when `url` is there. */
  type?: 'http' | 'streamable-http';
}

/** A server over HTTP with server-sent events, the way of 2024-11-05. */
export interface SseServerConfig extends RemoteServerConfig {
  /** Kind of transport. */
  type: 'sse';
}

/** A server that runs as a child process and speaks over its standard input and output. */
export interface StdioServerConfig extends CommonServerConfig {
  /** May be left out when `command` is there. */
  type?: 'stdio';
  /** Program to start, without a shell; looked up in `PATH`. */
  command: string;
  /** Its arguments, handed over byte for byte. Default none. */
  args?: string[];
  /** Environment variables on top of the platform's safe list; nothing else of this process is passed on. */
  env?: Record<string, string>;
  /** Working directory of the server. Default: the manager's `cwd`. */
  cwd?: string;
  /** Names of variables of this process that are passed on, or `'all'`. Default none. */
  inheritEnv?: string[] | 'all';
}

/** A server behind a WebSocket: sub-protocol `mcp`, one message per text frame. */
export interface WebSocketServerConfig extends RemoteServerConfig {
  /** Kind of transport. */
  type: 'ws';
}

/** An editor with an event stream. */
export interface SseIdeServerConfig extends CommonServerConfig {
  /** Kind of transport. */
  type: 'sse-ide';
  /** `http://` or `https://` URL of the event stream. */
  url: string;
  /** Name of the editor, for people. */
  ideName: string;
  /** Sent as `X-Claude-Code-Ide-Authorization`. */
  authToken?: string;
  /** The editor runs on the Windows side of this machine. Default `false`. */
  ideRunningInWindows?: boolean;
}

/** An editor that listens on a WebSocket. */
export interface WsIdeServerConfig extends CommonServerConfig {
  /** Kind of transport. */
  type: 'ws-ide';
  /** `ws://` or `wss://` URL. */
  url: string;
  /** Name of the editor, for people. */
  ideName: string;
  /** Sent as `X-Claude-Code-Ide-Authorization`. */
  authToken?: string;
  /** The editor runs on the Windows side of this machine. Default `false`. */
  ideRunningInWindows?: boolean;
}

/** A server in this program; see {@link McpManager.addSdkServer}. Without an instance of that name it is invalid. */
export interface SdkServerConfig extends CommonServerConfig {
  /** Kind of transport. */
  type: 'sdk';
  /** Name under which the instance is handed over. */
  name: string;
}

/** A connector of the host's account, reached through the account's proxy. Usually brought by the account's list (`connectorBaseUrl`). */
export interface ConnectorProxyConfig extends CommonServerConfig {
  /** The account's proxy. */
  type: 'claudeai-proxy';
  /** Where the proxy is. Every request carries the token of `getConnectorToken`; after a 401 it is asked for anew, once. */
  url: string;
  /** Identifier of the connector. */
  id: string;
  /** The server behind the proxy, where it is known: policy and the search for duplicates go by it too. */
  originalUrl?: string;
}

/** One entry of `mcpServers`. */
export type ServerConfig =
  | StdioServerConfig
  | HttpServerConfig
  | SseServerConfig
  | WebSocketServerConfig
  | SseIdeServerConfig
  | WsIdeServerConfig
  | SdkServerConfig
  | ConnectorProxyConfig;

// ── In-process servers ──────────────────────────────────────────────────────────────────────────────────

/** What an in-process server is connected to: the `Transport` of the official TypeScript SDK. */
export interface SdkTransport {
  /** Called by the server when it is ready for messages; those that came earlier follow. */
  start(): Promise<void>;
  /**
   * Takes a message of the server. Rejects after the end, and when JSON cannot hold the message (a cycle, a `BigInt`,
   * a function): then the request it answers fails with `MESSAGE_INVALID`, and no other.
   */
  send(message: object): Promise<void>;
  /** Ends the connection from the server's side; the manager connects anew. */
  close(): Promise<void>;
  /** Set by the server: takes messages of the manager, as objects. */
  onmessage?: (message: never) => void;
  /** Set by the server: hears of its own failures in `onmessage`. */
  onerror?: (error: Error) => void;
  /** Set by the server: the connection has ended, whoever ended it. Called once. */
  onclose?: () => void;
  /** Not used. */
  sessionId?: string;
}

/** An in-process server: `McpServer` and `Server` of the official TypeScript SDK (v1 and v2), or anything with the same pairing. */
export interface SdkServer {
  /** Connects to a transport; called anew for each connection, after the earlier one has been closed. */
  connect(transport: SdkTransport): Promise<void>;
}

/** Where a definition comes from, weakest first; on the same name the later one wins. */
export type Scope =
  'connector' | 'plugin' | 'dynamic' | 'user' | 'project' | 'local' | 'managed' | 'enterprise';

// ── Options ─────────────────────────────────────────────────────────────────────────────────────────────

/** Options of {@link McpManager}. All are optional. */
export interface McpManagerOptions {
  /** Where `.mcp.json` is looked for, the default working directory of servers, and the default root. Default `process.cwd()`. */
  cwd?: string;
  /** How the manager introduces itself to servers. Default: name and version of this package. */
  clientInfo?: {
    /** Name of the program. */
    name: string;
    /** Its version. */
    version: string;
    /** Its name for people. */
    title?: string;
  };
  /** Servers of scope `dynamic`, known from the start. Default none. */
  servers?: Record<string, ServerConfig>;
  /** Which files are read; `false` reads none. Default: those of the organisation, the user and the project (docs/configuration.md). */
  config?: false | ConfigOptions;
  /** Which servers may connect, together with what configuration files say. Default: all. */
  policy?: Policy;
  /** Rules that decide about tool calls before anybody is asked. Default none, so every call is asked about. */
  permissions?: PermissionRules;
  /** Directories (paths or `file:` URIs) told to servers that ask for roots. Default `[cwd]`. */
  roots?: string[];
  /** Where state (approvals, which era and which way servers speak, for a week) and outputs live; `false`: in memory only. Default `false` with `config: false`, else a directory of the user. */
  stateDir?: string | false;
  /**
   * When servers are started: with `connect()` (`eager`), also failing `connect()` when one fails (`required`), or at
   * the first use (`lazy`): a call, `connect(name)`, `ready({ servers })`, or a list of that server alone. What a `lazy`
   * server offered when it last ran is kept in `stateDir`; `listTools()` and `listPrompts()` show it before it runs.
   * Default `eager`.
   */
  start?: 'eager' | 'lazy' | 'required';
  /**
   * `auto`: local servers get the environment of the person's login shell (read once, with a time limit; never on
   * Windows) in place of this program's, as far as servers get it at all; a server's own `env` wins. For programs started
   * from a desktop icon, whose `PATH` is short. Default `false`.
   */
  shellEnv?: 'auto' | false;
  /** What becomes of servers' standard error: `log` events and `stderrTail` (`capture`), or this process's own (`inherit`). Default `capture`. */
  stderr?: 'capture' | 'inherit';
  /**
   * Asked before a tool runs that no rule allows or denies. Throwing, an unknown answer, or no answer within
   * `permissionTimeoutMs` counts as a refusal. Without it such calls reject with `PERMISSION_REQUIRED`.
   */
  onPermission?: (request: PermissionRequest) => PermissionAnswer | Promise<PermissionAnswer>;
  /**
   * Asked when a server has a question for a person: a form to fill in, or an address to visit. Without it (and without
   * `hooks.elicitation`) servers are told that nobody answers. Throwing, or an answer that does not fit the form, counts
   * as `cancel`. The clocks of open calls stand still meanwhile.
   */
  onElicitation?: (request: ElicitationRequest) => ElicitationAnswer | Promise<ElicitationAnswer>;
  /**
   * Asked when a server wants a model's words. The answer is a `CreateMessageResult` of the protocol. Throwing refuses.
   * Without it servers are told that the host has no model for them.
   */
  onSampling?: (request: SamplingRequest) => JsonObject | Promise<JsonObject>;
  /**
   * Told where a person may log in when a server wants that; logins then start by themselves, at most three in five
   * minutes and server. Without it such servers are `needs-auth` and nothing opens. The clocks of open calls stand still
   * meanwhile; a login waits ten minutes.
   */
  onAuthorizationUrl?: OnAuthorizationUrl;
  /**
   * Where logins are kept. `auto`, the default: in files of `stateDir` (mode 0600), sealed with a key in the system's
   * keychain, or plain where no keychain can be used; `keychain`: the same, but in memory instead of plain; `file`: plain,
   * and no keychain is asked; `memory`; or the host's own. Without `stateDir` in memory. The keychain is asked when a login
   * is first needed, for at most three seconds. `ServerStatus.tokenStorage` says which it is, the diagnostic
   * `KEYCHAIN_UNAVAILABLE` why it is not the keychain.
   */
  tokenStore?: 'auto' | 'keychain' | 'file' | 'memory' | TokenStore;
  /**
   * How long it is remembered in `stateDir` that a server asked for a login that nobody has given, in ms: `connect()` leaves
   * such a server at `needs-auth` without asking it again, unless it is `required` or `onAuthorizationUrl` is there.
   * `connect(name)`, `reconnect` and `authenticate` always ask, and so does a changed definition. Default 900 000 (15 min); 0
   * remembers nothing.
   */
  loginMemoryMs?: number;
  /** Rounds of questions that a server may ask within one request. Default 10. Above it: `ELICITATION_LIMIT`. */
  maxInputRounds?: number;
  /**
   * Forms of servers that seem to ask for a secret (a password, a token, a one-time code), which forms must not: `ask`
   * hands them to `onElicitation` with `sensitive: true`, `decline` declines them unasked. Default `ask`.
   */
  secretForms?: 'ask' | 'decline';
  /**
   * Waits, in ms, before a request that asked for a visit to an address is repeated; the server's notice that the visit
   * has ended cuts a wait short. At most three count. Default `[2000, 15000, 60000]`. After the last: `ELICITATION_LIMIT`.
   */
  urlElicitationDelaysMs?: number[];
  /** Limit of the question which era of the protocol a server speaks, in ms. Default 10 000. */
  probeTimeoutMs?: number;
  /**
   * Asked about a server that a file of the repository brings, before anything of it runs. The answer is kept in
   * `stateDir` and holds for exactly that definition. `pending`, throwing, or no answer within `permissionTimeoutMs`
   * leaves the server waiting; a question that was given up by a `signal` is asked again. Without it such servers wait for
   * {@link McpManager.approveServer}.
   */
  onApproval?: (
    request: ApprovalRequest,
  ) => 'approved' | 'rejected' | 'pending' | Promise<'approved' | 'rejected' | 'pending'>;
  /**
   * The bearer token of the host's account (scope `user:mcp_servers`), for the list of connectors and the proxy in front
   * of them; `null`: there is none. Asked once and kept; asked again with `forceRefresh` after a server has refused it.
   */
  getConnectorToken?: (request: {
    /** A server has refused the last token: another one is needed. */
    forceRefresh: boolean;
    /** Aborts when the token is no longer wanted. */
    signal: AbortSignal;
  }) => string | null | Promise<string | null>;
  /** Code around tool calls and around questions to people, for automation, refusal and records. */
  hooks?: Hooks;
  /**
   * The trace context of whoever calls right now, asked once for each call that takes `CallOptions`, in the caller's own
   * asynchronous context (docs/tracing.md). It goes out in `_meta` of the request, unless the call's `meta` has a
   * `traceparent` of its own. One that is not what W3C says is left out, with the diagnostic `TRACE_CONTEXT_INVALID`.
   */
  traceContext?: () => TraceContext | undefined;
  /**
   * An editor to connect to: it becomes the server `ide`, or the next free one of `ide_2`, `ide_3` … beside others of that
   * name. Editors are on this machine; elsewhere they are refused (`URL_REFUSED`) unless an `allowedMcpServers` entry with
   * `serverUrl` covers them. `'discover'` takes the first one that {@link discoverIde} finds for `cwd`, when the configuration
   * is read and again when there is none, or none any more: see docs/ide.md. No editor is no error; what came of the search
   * is told as diagnostics (`IDE_FOUND`, `IDE_NOT_FOUND`, `IDE_LOCK_INVALID` …). Default `false`.
   */
  ide?: SseIdeServerConfig | WsIdeServerConfig | 'discover' | false;
  /** Tools of editors (`sse-ide`, `ws-ide`) that are taken over; the others do not exist. Default `['executeCode', 'getDiagnostics']`. */
  ideAllowedTools?: string[];
  /** Whether changed configuration files are read again by themselves. Default `false`: only by `reload()`. */
  watchConfig?: boolean;
  /** Where the audit log goes: a file (one JSON object a line) or a function. Default: there is none. */
  auditLog?: string | ((event: AuditEvent) => void);
  /**
   * Whether the audit log also has the arguments of calls: without the server's own secrets, the values of names such as
   * `password` or `apiKey`, and what is secret in URLs; above 64 KiB only their size. Default `false`.
   */
  auditArguments?: boolean;
  /**
   * The official registry of MCP servers, for `official` in the status: `fetch` asks for it in the background when the
   * configuration is read (kept in `stateDir` for a day; a failure is the diagnostic `OFFICIAL_REGISTRY_UNAVAILABLE`),
   * `{ url }` asks another one in the same way, `{ servers }` is what `fetchOfficialRegistry` gave. Default `false`.
   */
  officialRegistry?: 'fetch' | { url: string } | { servers: JsonObject[] } | false;
  /**
   * A file to write every message of every server to, without secrets, for `replayServer` (docs/recording.md): JSON lines,
   * readable by the owner alone. A recording that stands there already stays in front of the new one; a file that is no
   * recording is left alone. What cannot be written is told by the diagnostics `RECORDING_FAILED` and `RECORDING_INCOMPLETE`.
   * Default: nothing is recorded.
   */
  recordTo?: string;
  /** Longest wait for `onPermission`, `onApproval` and `hooks.preToolUse`, in ms; the clocks of the call stand still meanwhile. Default 600 000 (10 min). */
  permissionTimeoutMs?: number;
  /** Limit for starting a server and its handshake, in ms. Default 30 000, or `MCP_TIMEOUT` of the environment. On expiry: `CONNECT_TIMEOUT`. */
  connectTimeoutMs?: number;
  /** Limit for every request but tool calls, in ms. Default 60 000. On expiry: `TIMEOUT`, kind `request`. */
  requestTimeoutMs?: number;
  /** Longest silence of a tool call, in ms. Default 600 000, or `MCP_TOOL_TIMEOUT` of the environment. On expiry: `TIMEOUT`, kind `idle`. */
  toolTimeoutMs?: number;
  /** Hard limit of one request, progress or not, in ms. Default 86 400 000 (24 h) for tool calls, ten times the request limit for the rest. On expiry: `TIMEOUT`, kind `total`. */
  maxTotalTimeoutMs?: number;
  /** Largest message read from a server, in bytes. Default 67 108 864 (64 MiB). Above it: `MESSAGE_TOO_LARGE`. */
  maxMessageBytes?: number;
  /** Bytes that may wait for a server that does not read. Default 67 108 864 (64 MiB). Above it: `TRANSPORT_BACKPRESSURE`. */
  maxQueuedBytes?: number;
  /** Longest full tool name; longer ones are shortened with a stable hash. Default 64. */
  maxToolNameLength?: number;
  /**
   * Whether tools of in-process servers are offered as `mcp__server__tool` like all others. `false`: under their own names,
   * even where the host has a built-in of that name. Permission rules, questions and results speak of the full name all
   * the same, and the full name can be called too. Default `true`, or `false` with `CLAUDE_AGENT_SDK_MCP_NO_PREFIX` set
   * to anything but `0`, `false`, `no` or `off`.
   */
  sdkToolPrefix?: boolean;
  /** Whether a result with `isError` rejects with `TOOL_ERROR` or is returned like any other. Default `throw`. */
  toolErrors?: 'throw' | 'return';
  /**
   * How many local servers are started at the same time. Others wait for their turn, without any clock running; a
   * server that says nothing for 3 s gives its turn to the next and goes on. Default `max(3, 2 × cores)`.
   */
  localConcurrency?: number;
  /** The same for servers behind a URL. Default 20. */
  remoteConcurrency?: number;
  /** How many calls of one {@link McpManager.callTools} run side by side, where the call does not say. Default 10. */
  toolConcurrency?: number;
  /** How long tool, prompt and resource lists are kept, in ms; a change notice drops them earlier. Servers of the stateless era say so themselves. Default 20 000. */
  catalogTtlMs?: number;
  /**
   * Most tools that one list for a model should have: a longer one is the diagnostic `TOOLS_CROWDED`, which names the
   * servers that crowd it; nothing is left out. Default 128, the tightest of the large model APIs; 0 means that nobody counts.
   */
  toolBudget?: number;
  /** Names of tools that the built-in tables do not know, or know wrongly; in any case style. */
  classification?: ToolClasses;
  /**
   * Definitions of tools are pinned when a rule first allows them or a call first passes. `warn` (default): a change is
   * the event `toolDefinitionChanged`, and remembered answers for the tool are dropped. `ask`: allow rules stand still
   * too, until a call was answered with `allow` or `approveTool` was called. `off`: nothing is pinned.
   */
  pinTools?: 'warn' | 'ask' | 'off';
  /**
   * The host renders the views of MCP Apps (`io.modelcontextprotocol/ui`): servers are told, and a `ui://` resource of
   * another type than `text/html;profile=mcp-app` is `RESULT_INVALID`. Default `false`.
   */
  apps?: boolean;
  /** Most pages of one list. Default 1000. Above it: `LIST_LIMIT`. */
  maxListPages?: number;
  /** Most items of one list. Default 50 000. Above it: `LIST_LIMIT`. */
  maxListItems?: number;
  /** How text of results is cleaned: invisible characters only, as strictly as definitions, or not at all. Default `invisible`. */
  sanitizeResults?: 'strict' | 'invisible' | 'off';
  /** Whether `structuredContent` that does not match the tool's `outputSchema` rejects with `RESULT_INVALID`; otherwise it is a diagnostic. Default `false`. */
  strictOutput?: boolean;
  /** Whether arguments are checked against the tool's `inputSchema` before anything is sent (JSON Schema 2020-12 and older drafts); a mismatch is `INPUT_INVALID`. Default `false`. */
  validateInput?: boolean;
  /** Most tokens of a tool result: four bytes count as one, an image as at most 1 600. Default 25 000, environment `MAX_MCP_OUTPUT_TOKENS`; 0 means no limit. From 10 000 on there is a diagnostic `OUTPUT_LARGE`. */
  maxOutputTokens?: number;
  /**
   * Most tokens that a tool may claim for its own results, where it says in `_meta` that they are long by nature
   * (`anthropic/maxResultSizeChars`, four characters a token). A claim only ever raises `maxOutputTokens`, and no further
   * than this; 0 means that none counts. Default 125 000.
   */
  maxToolOutputTokens?: number;
  /**
   * Longest base64 of an image that stays in a result, in bytes; a longer one is a file, and the diagnostic
   * `IMAGE_TOO_LARGE`. `hooks.postToolUse` may put a smaller image in its place. Default 5 242 880 (5 MiB), the tightest of
   * the large model APIs; 0 means no limit.
   */
  maxImageBytes?: number;
  /** What becomes of a larger result: its whole goes to a file in `outputDir` and its beginning stays, or only its beginning stays, or the call rejects with `RESULT_TOO_LARGE`. `structuredContent` is left out whole. Default `file`. */
  onLargeOutput?: 'file' | 'truncate' | 'error';
  /** Where binary content and large results are saved (0700, files 0600). Default: `outputs` in `stateDir`, else a private temporary directory. */
  outputDir?: string;
  /**
   * How long files in `outputDir` are kept: each at most `maxAgeMs`, and of all together at most `maxBytes`, the oldest
   * going first. Looked after whenever a file is saved. Only files that this package saved and nobody changed are
   * removed, none of the last hour for their size, none through a link. `false` keeps all. Default: 7 days, 1 GiB.
   */
  outputRetention?:
    | false
    | {
        /** Longest age of a file, in ms. Default 7 days. */
        maxAgeMs?: number;
        /** Most bytes of all files. Default 1 GiB. */
        maxBytes?: number;
      };
  /** Time given to a stopping server, step by step. */
  shutdown?: {
    /** From the end of its input to SIGTERM, in ms. Default 2000. */
    graceMs?: number;
    /** From SIGTERM to SIGKILL, in ms. Default 2000. */
    termMs?: number;
    /** Fast mode: from SIGINT to SIGTERM, in ms. Default 500. */
    fastIntMs?: number;
    /** Fast mode: from SIGINT to SIGKILL, in ms. Default 1000. */
    fastTermMs?: number;
  };
  /** When servers behind a WebSocket have to show that they live. */
  ws?: {
    /** From one ping to the next, in ms. Default 30 000. */
    pingIntervalMs?: number;
    /** Longest silence after a ping, in ms; then the connection is lost. Default 10 000. */
    pongTimeoutMs?: number;
  };
  /** How often and when a lost server is tried again. */
  retry?: {
    /** New tries after a failed one before the state is `failed`. Default 5. */
    attempts?: number;
    /** Wait before the first new try, in ms; it doubles from there, ± 25 %. Default 1000. */
    initialDelayMs?: number;
    /** Longest wait, in ms. Default 30 000. */
    maxDelayMs?: number;
  };
  /** Servers over HTTP, Streamable or legacy SSE. */
  http?: {
    /** Tries in a row to go on with an answer whose stream was cut. Default 5. */
    maxResumptions?: number;
    /** A connection of the handshake era that has been quiet for so long is pinged, in ms. Default 30 000. */
    pingIntervalMs?: number;
    /** Longest silence after a ping, in ms; then the connection is lost and made anew. Default 10 000. */
    pongTimeoutMs?: number;
  };
  /** Trust of servers that set none of their own. Default: the system's authorities and `NODE_EXTRA_CA_CERTS`. */
  tls?: TlsOptions;
  /** Proxy, or `false` for none. Default: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`. */
  proxy?: string | false;
  /** `true`: live connections keep this process alive. Default `false`: only calls in flight do. */
  keepAlive?: boolean;
  /** Names that no outside server may have (compared normalised and without case). Default `['claude-in-chrome', 'computer-use', 'ide']`. */
  reservedServerNames?: string[];
}

/** Where configuration files are looked for. */
export interface ConfigOptions {
  /** Name of the configuration directory in the home directory and the project. Default `.claude`. */
  configDir?: string;
  /** The home directory. Default that of the user. */
  homeDir?: string;
  /** Directory of the organisation's files. Default: the platform's place for them. */
  managedDir?: string;
  /** The project's directory: the walk from `cwd` upwards ends here. Default: the nearest ancestor with `.git`, else `cwd`; the walk then ends at the root. */
  projectRoot?: string;
  /** Variables for `${VAR}` in configuration files. Default `process.env`. */
  env?: Record<string, string | undefined>;
  /** Only servers of the organisation's `managed-mcp.json` may exist, whatever it says itself. Default `false`. */
  enterpriseExclusive?: boolean;
  /** URLs with `{url}` behind which the same server may stand; used by policy and to find duplicates. Default none. */
  relayUrlTemplates?: string[];
  /**
   * Where the account's list of connectors is: `GET {connectorBaseUrl}/v1/mcp_servers`, page by page, with the token of
   * `getConnectorToken`. Each becomes a server of scope `connector`. Nobody waits for it longer than a second; it comes
   * by itself within five. Why there is none stands in the report's `warnings` (`CONNECTORS_NO_ACCESS`,
   * `CONNECTORS_UNAVAILABLE`). Default: there is no list.
   */
  connectorBaseUrl?: string;
  /** URL of a connector behind the account's proxy, with `{server_id}` in the place of its identifier. */
  connectorProxyUrlTemplate?: string;
  /** Servers the host brings; off unless named in `enabledMcpServers` or switched on. Default none. */
  builtinServers?: Record<string, ServerConfig>;
}

/** An entry of a policy: a name (with `*`), a whole command, or a URL (with `*`). */
export type PolicyEntry =
  string | { serverName: string } | { serverCommand: string[] } | { serverUrl: string };

/** Which servers may connect. Deny wins. Malformed entries are diagnostics and never widen what is allowed. */
export interface Policy {
  /** Only these; an empty list allows none. Default: all. */
  allowedMcpServers?: PolicyEntry[];
  /** Never these. Default none. */
  deniedMcpServers?: PolicyEntry[];
}

/** Functions called around tool calls. */
export interface Hooks {
  /** Before permission is decided: may change the arguments or refuse the call. Throwing refuses it: `PERMISSION_DENIED`, layer `hook`. */
  preToolUse?: (call: {
    server: string;
    tool: string;
    fullName: string;
    input: JsonObject;
  }) => void | { input?: JsonObject; deny?: string } | Promise<void | { input?: JsonObject; deny?: string }>;
  /** After the result arrived: may replace parts of it. Throwing is a diagnostic and changes nothing. */
  postToolUse?: (call: {
    server: string;
    tool: string;
    fullName: string;
    input: JsonObject;
    result: ToolResult;
  }) => void | { result?: Partial<ToolResult> } | Promise<void | { result?: Partial<ToolResult> }>;
  /** Runs before `onElicitation`: may answer in its place, or change the question's words and form. Returning nothing leaves it as it is. */
  elicitation?: (
    request: ElicitationRequest,
  ) =>
    | void
    | ElicitationAnswer
    | { request: ElicitationRequest }
    | Promise<void | ElicitationAnswer | { request: ElicitationRequest }>;
  /** Runs after the answer: may record it, or give another one. */
  elicitationResult?: (
    request: ElicitationRequest,
    answer: ElicitationAnswer,
  ) => void | ElicitationAnswer | Promise<void | ElicitationAnswer>;
}

/**
 * Permission rules. Each holds full tool names: exact (`mcp__github__get_issue`), a prefix (`mcp__github__get_*`), a
 * server (`mcp__github` or `mcp__github__*`) or all (`mcp__*`). `deny` wins over `ask`, `ask` over `allow`.
 */
export interface PermissionRules {
  /** Calls that run without a question. */
  allow?: string[];
  /** Calls that are always asked about. */
  ask?: string[];
  /** Calls that never run: `PERMISSION_DENIED`, layer `rule`. */
  deny?: string[];
}

// ── Callbacks' payloads ─────────────────────────────────────────────────────────────────────────────────

/** The question put to `onElicitation`. */
export type ElicitationRequest =
  | {
      /** A form. */
      mode: 'form';
      /** Name of the server that asks. */
      server: string;
      /** What it asks, for people. */
      message: string;
      /** JSON Schema of the form: a flat object of texts, numbers, booleans and choices. */
      requestedSchema: JsonObject;
      /** There where the form seems to ask for a secret, by name, title, description or format of a field. */
      sensitive?: true;
      /** Aborts when the answer is no longer wanted. */
      signal: AbortSignal;
    }
  | {
      /** An address to visit. It is never fetched or opened by this package. */
      mode: 'url';
      /** Name of the server that asks. */
      server: string;
      /** Why, for people. */
      message: string;
      /** The whole address; `https`, or `http` on this machine. */
      url: string;
      /** Its host in ASCII (punycode), with the port where it is not the usual one. */
      host: string;
      /** Why to look twice: `punycode` is a host whose letters may not be what they look like, `address` one without a name. */
      warnings?: { code: 'punycode' | 'address'; message: string }[];
      /** The server's name for this visit. */
      elicitationId?: string;
      /** Aborts when the answer is no longer wanted. */
      signal: AbortSignal;
    };

/** The answer of `onElicitation`. `content` belongs to forms; fields left out take the form's defaults. */
export type ElicitationAnswer =
  { action: 'accept'; content?: JsonObject } | { action: 'decline' } | { action: 'cancel' };

/** The question put to `onSampling`. */
export interface SamplingRequest {
  /** Name of the server that asks. */
  server: string;
  /** Parameters of `sampling/createMessage`: messages, limits, preferences; `tools` and `toolChoice` as sent. */
  params: JsonObject;
  /** Aborts when the answer is no longer wanted. */
  signal: AbortSignal;
}

/** What names of tools say, each list in any case style; what stands here wins over the built-in tables. */
export interface ToolClasses {
  /** Tools that search. */
  search?: string[];
  /** Tools that read. */
  read?: string[];
  /** Tools whose name says nothing. */
  unknown?: string[];
}

/** The question put to `onPermission`. */
export interface PermissionRequest {
  /** Name of the server. */
  server: string;
  /** The server's own name of the tool. */
  tool: string;
  /** The tool's full name. */
  fullName: string;
  /** Arguments of the call. */
  input: JsonObject;
  /** The tool's description, if the tool is known. */
  description?: string;
  /** What the server says about the tool; a hint, not a promise. */
  annotations: ToolAnnotations;
  /** What the tool's name suggests. */
  classification: 'search' | 'read' | 'unknown';
  /** Why it is asked: the rule, that there is none, or that the definition has changed. */
  reason: string;
  /** The definition that was approved, where the tool has another one now (`pinTools: 'ask'`). */
  changedSince?: JsonObject;
  /** Aborts when the answer is no longer wanted: the call was cancelled, timed out, or the manager closed. */
  signal: AbortSignal;
}

/** The answer of `onPermission`. */
export type PermissionAnswer =
  | {
      /** The call runs. */
      behavior: 'allow';
      /** Runs with these arguments instead. */
      updatedInput?: JsonObject;
      /** Also for later calls of the same tool. Default: this call only. */
      remember?: 'session' | 'local' | 'user';
    }
  | {
      /** The call rejects with `PERMISSION_DENIED`, layer `user`. */
      behavior: 'deny';
      /** Reason, shown in the error. */
      message?: string;
      /** The host wants to stop what it is doing altogether. */
      interrupt?: boolean;
    };

/** The question put to `onApproval`. */
export interface ApprovalRequest {
  /** Name of the server. */
  server: string;
  /** The file that brings it; where a link leads, not the link. */
  file: string;
  /** Whether that file lies outside the project. */
  outsideProject: boolean;
  /** The definition as written, variables not filled in. */
  config: ServerConfig;
  /** The definition that was approved earlier, where it has changed since. */
  changedSince?: ServerConfig;
  /**
   * What to know before approving: `unpinned` packages, `loaderVariable`s, `dangerous` commands (rights of others, removal,
   * shell code, the network, places of secrets; mcp:SEC-11; of a `headersHelper` too), variables (`PATH`, registries,
   * proxies, certificates) and unchecked TLS, `variable`s of this machine that go in, by reference or `inheritEnv`. The whole `config` is what runs, with the rights of this program.
   */
  warnings: { code: 'unpinned' | 'loaderVariable' | 'dangerous' | 'variable'; message: string }[];
  /** Aborts when the answer is no longer wanted. */
  signal: AbortSignal;
}

/** A line of the audit log. */
export interface AuditEvent {
  /** When, as RFC 3339 in UTC. */
  time: string;
  /** What it is about. */
  kind: 'connect' | 'disconnect' | 'permission' | 'call' | 'elicitation' | 'auth' | 'config';
  /** Name of the server. */
  server: string;
  /**
   * More, by kind; never secrets, and arguments only with `auditArguments`.
   *
   * `auth` has an `event`: `needsAuth`, `loginStarted`, `loginFinished` and `tokenRenewed` (with `issuer` and the `scope`
   * that was asked for), `loginFailed` and `renewalFailed` (with an error's `code`), `stepUp` (with the `scope` that the
   * server asks for), `loggedOut`. (SEC-07)
   */
  [detail: string]: Json | undefined;
}

// ── Status ──────────────────────────────────────────────────────────────────────────────────────────────

/** State of a server's connection. `pending` covers not yet started, being connected, and waiting for the next try. */
export type ConnectionState = 'connected' | 'failed' | 'needs-auth' | 'pending' | 'disabled';

/** A snapshot of one server. */
export interface ServerStatus {
  /** Name of the server. */
  name: string;
  /** Its state. */
  state: ConnectionState;
  /** Where its definition comes from. */
  scope: Scope;
  /** Kind of its transport, as configured. */
  type: NonNullable<ServerConfig['type']>;
  /** Why it is in this state, for people. */
  reason?: string;
  /** Error code that belongs to `reason`. */
  code?: string;
  /** Number of the present or last try, from 1. */
  attempt?: number;
  /** How many tries there will be. */
  maxAttempts?: number;
  /** When the next try is due, in ms since the epoch. */
  nextRetryAt?: number;
  /** Process id of a running server. */
  pid?: number;
  /** Protocol revision that was agreed on, for example `2025-11-25`. */
  protocolVersion?: string;
  /** Protocol era that is spoken: with handshake (`legacy`) or stateless (`modern`). */
  era?: 'legacy' | 'modern';
  /** How the server introduced itself; unverified. */
  serverInfo?: {
    /** Name it gave. */
    name: string;
    /** Version it gave. */
    version: string;
  };
  /** The server's instructions for the model, cleaned. */
  instructions?: string;
  /** Capabilities the server declared. */
  capabilities?: JsonObject;
  /** Number of tools in the present list. */
  toolCount?: number;
  /** Number of prompts in the present list. */
  promptCount?: number;
  /** Number of resources in the present list. */
  resourceCount?: number;
  /** Last lines of the server's standard error. */
  stderrTail?: string[];
  /**
   * Whether it is in the official registry (`officialRegistry`). Missing while that is not known, and for servers of this
   * program, editors and connectors.
   */
  official?: boolean;
  /** How the server's last process ended. */
  exit?: {
    /** Exit code, or `null` when a signal ended it. */
    code: number | null;
    /** Name of the signal, or `null`. */
    signal: string | null;
  };
  /** Transport in use. */
  transport?: 'stdio' | 'http' | 'sse' | 'ws' | 'sdk';
  /** HTTP status of the answer that made the connection fail. */
  httpStatus?: number;
  /** `false`: any certificate is accepted (`tls.insecureSkipVerify`). */
  tlsVerified?: boolean;
  /**
   * Where the login at this server is kept, while there is one: `keychain` is a file sealed with a key from there, `file` a
   * plain one.
   */
  tokenStorage?: 'keychain' | 'file' | 'memory' | 'host';
  /** First bytes of output that is not of the protocol. */
  firstBytes?: string;
  /** What a person can do about it. */
  hint?: string;
  /** Lists that could not be fetched from a connected server. */
  listErrors?: {
    /** Which list. */
    list: 'tools' | 'prompts' | 'resources' | 'templates' | 'skills';
    /** Error code. */
    code: string;
    /** Reason, for people. */
    message: string;
  }[];
  /** When the server was last heard of, in ms since the epoch. */
  lastContactAt?: number;
}

/** What `doctor()` has found. */
export interface DoctorReport {
  /** Whether every server and the configuration are as they should be; a server nobody used yet is. */
  healthy: boolean;
  /** Version of this package. */
  version: string;
  /** Version of Node. */
  node: string;
  /** Operating system and processor, for example `linux-x64`. */
  platform: string;
  /** When this was, in ms since the epoch. */
  time: number;
  /** One finding per server in use. */
  servers: {
    /** Name of the server. */
    server: string;
    /** Its state. */
    state: ConnectionState;
    /** Whether nothing is wrong with it. */
    healthy: boolean;
    /** Why not. */
    cause?: Pick<ServerStatus, 'code'> & {
      /** In words. */
      message?: string;
    };
    /** What the cause was seen by. */
    evidence?: Pick<
      ServerStatus,
      'stderrTail' | 'exit' | 'httpStatus' | 'firstBytes' | 'listErrors' | 'lastContactAt'
    >;
    /** The next try. */
    next?: Pick<ServerStatus, 'attempt' | 'maxAttempts'> & {
      /** When it is due, in ms since the epoch. */
      at?: number;
    };
    /** What a person can do. */
    advice?: string;
  }[];
  /** The configuration. */
  configuration: Pick<ConfigReport, 'errors' | 'warnings'> & {
    /** Definitions that are not in use, and why. */
    unused: (Pick<ConfigEntry, 'scope' | 'file' | 'line' | 'fate' | 'by' | 'reason'> & {
      /** Name of the server. */
      server: string;
    })[];
  };
}

/** What became of every server definition ever seen. */
export interface ConfigReport {
  /** One entry per definition. */
  servers: ConfigEntry[];
  /** What kept a file or an entry from being used. */
  errors: Diagnostic[];
  /** What was odd but did not stop anything. */
  warnings: Diagnostic[];
}

/** One server definition and its fate. */
export interface ConfigEntry {
  /** Name of the server. */
  name: string;
  /** Where the definition comes from. */
  scope: Scope;
  /** File it stands in. */
  file?: string;
  /** Line in that file, from 1. */
  line?: number;
  /** The definition, secrets redacted. */
  config: JsonObject;
  /** What became of it; only `active` ones are connections. */
  fate:
    | 'active'
    | 'pending-approval'
    | 'rejected'
    | 'disabled'
    | 'shadowed'
    | 'duplicate'
    | 'denied'
    | 'not-allowed'
    | 'reserved'
    | 'enterprise-exclusive'
    | 'invalid';
  /** The server or rule that decided. */
  by?: string;
  /** Why, for people. */
  reason?: string;
  /** The definition that was approved, where it differs from the present one. */
  approved?: JsonObject;
}

/** Something worth telling that is not an error of a call. */
export interface Diagnostic {
  /** How serious it is. */
  level: 'error' | 'warning' | 'info';
  /** Stable code. */
  code: string;
  /** Text for people. */
  message: string;
  /** Server concerned. */
  server?: string;
  /** File concerned. */
  file?: string;
  /** Line in the file, from 1. */
  line?: number;
  /** Column in the line, from 1. */
  column?: number;
  /** JSON pointer to the value concerned. */
  pointer?: string;
  /** With `TOOLS_CROWDED`: the servers without whose tools the list would be short enough, the fullest first. */
  crowding?: {
    /** Name of the server. */
    server: string;
    /** How many tools of it are listed. */
    tools: number;
  }[];
  /** With `INVISIBLE_REMOVED`: how many characters that nobody sees were removed from what the server said. */
  removed?: number;
}

// ── Tools, prompts, resources ───────────────────────────────────────────────────────────────────────────

/** What a server says about its tool: hints, not promises. */
export interface ToolAnnotations {
  /** Name for people. */
  title?: string;
  /** Changes nothing. */
  readOnlyHint?: boolean;
  /** May destroy something. */
  destructiveHint?: boolean;
  /** Repeating it changes nothing more. */
  idempotentHint?: boolean;
  /** Reaches beyond the machine. */
  openWorldHint?: boolean;
}

/** A tool of a connected server. */
export interface Tool {
  /** Full name, `mcp__<server>__<tool>`: what `callTool` takes. The same in every run. */
  name: string;
  /** Name for people. */
  title?: string;
  /** Description for the model, cleaned; empty when there is none. */
  description: string;
  /** JSON schema of the arguments; always of type `object`. */
  inputSchema: JsonObject;
  /** The schema as the server sent it, where `inputSchema` had to differ. */
  rawInputSchema?: JsonObject;
  /** JSON schema of `structuredContent`. */
  outputSchema?: JsonObject;
  /** Always `true`. */
  isMcp: true;
  /** Where the tool comes from. */
  mcpInfo: {
    /** Name of the server as configured. */
    serverName: string;
    /** The server's own name of the tool. */
    toolName: string;
  };
  /** Changes nothing, says the server. Default `false`. */
  isReadOnly: boolean;
  /** May run beside other calls: read-only, or named like a search or a read. */
  isConcurrencySafe: boolean;
  /** May destroy something. Default `true` unless read-only. */
  isDestructive: boolean;
  /** Reaches beyond the machine. Default `true`. */
  isOpenWorld: boolean;
  /** Words to find it by. */
  searchHint?: string;
  /** Wants to be shown to the model at all times. */
  alwaysLoad: boolean;
  /** What its name suggests. */
  classification: 'search' | 'read' | 'unknown';
  /** The server's annotations. */
  annotations: ToolAnnotations;
  /** `_meta` of the tool, cleaned. */
  meta?: JsonObject;
  /** What `_meta` says of the tool's view (MCP Apps), its older form included. */
  ui?: {
    /** A `ui://` resource: read it with `readResource`; it need not be listed. */
    resourceUri?: string;
    /** Who may call the tool: the model, the server's own app, or both. */
    visibility: ('model' | 'app')[];
  };
  /** Icons of the tool: `https` without a user name, or PNG, JPEG and WebP by `data:`. Never fetched here. */
  icons?: JsonObject[];
}

/** One piece of content. Binary content that is no image and no audio is saved as a file. */
export type ContentBlock =
  | {
      /** Text. */
      type: 'text';
      /** The text, cleaned as `sanitizeResults` says. */
      text: string;
      /** Annotations of the protocol. */
      annotations?: JsonObject;
    }
  | {
      /** A picture. */
      type: 'image';
      /** Base64. */
      data: string;
      /** Its type. */
      mimeType: string;
      /** Annotations of the protocol. */
      annotations?: JsonObject;
    }
  | {
      /** A sound. */
      type: 'audio';
      /** Base64. */
      data: string;
      /** Its type. */
      mimeType: string;
      /** Annotations of the protocol. */
      annotations?: JsonObject;
    }
  | {
      /** A saved file. */
      type: 'file';
      /** Absolute path. */
      path: string;
      /** Its type. */
      mimeType?: string;
      /** URI of the resource it was. */
      uri?: string;
      /** Size in bytes. */
      bytes: number;
    }
  | {
      /** A pointer to a resource; read it with `readResource`. */
      type: 'resource_link';
      /** URI of the resource. */
      uri: string;
      /** Its name. */
      name: string;
      /** Its name for people. */
      title?: string;
      /** Its description. */
      description?: string;
      /** Its type. */
      mimeType?: string;
      /** Its size in bytes. */
      size?: number;
    }
  | {
      /** A kind this version does not know. */
      type: 'unknown';
      /** The block as it came. */
      raw: JsonObject;
    };

/** Result of a tool call. */
export interface ToolResult {
  /** Name of the server. */
  server: string;
  /** The server's own name of the tool. */
  tool: string;
  /** The tool's full name. */
  fullName: string;
  /**
   * What it answered; may be empty. Images that no model interface takes (SVG, or bytes of another format) are files;
   * an empty one is a text that says so.
   */
  content: ContentBlock[];
  /**
   * Its structured answer. Base64 that stands in `content` as well is named in its place (`[base64 of content[0]]`).
   * One that does not match the tool's `outputSchema` stays, with a `diagnostic` `OUTPUT_SCHEMA_MISMATCH`; with
   * `strictOutput` it is the error `RESULT_INVALID`, whose `data` has the result.
   */
  structuredContent?: Json;
  /** Whether the tool says that it failed. */
  isError: boolean;
  /** `_meta` of the result. */
  meta?: JsonObject;
  /** Present when the result was above `maxOutputTokens`; the last block of `content` says so too. */
  truncated?: {
    /** Estimated size, in tokens. */
    tokens: number;
    /** The limit, in tokens. */
    limit: number;
    /** File with the whole. */
    path?: string;
  };
  /** From the call to the result, in ms. */
  elapsedMs: number;
  /**
   * The result as it came over the wire; of one above `maxOutputTokens` what is left. Where `content` had to be made
   * anew, base64 above 64 KiB that is in `content` or in a file stands empty here.
   */
  readonly raw: JsonObject;
}

/** A prompt of a connected server. */
export interface Prompt {
  /** Full name, `mcp__<server>__<prompt>`: what `getPrompt` takes. */
  name: string;
  /** The server's own name of the prompt. */
  promptName: string;
  /** Name of the server. */
  server: string;
  /** Always `'prompt'`. */
  type: 'prompt';
  /** Always `'mcp'`. */
  source: 'mcp';
  /** Name for people. */
  title?: string;
  /** Description. */
  description?: string;
  /** Its arguments, in the order positional ones are given. */
  arguments: {
    /** Name of the argument. */
    name: string;
    /** Description. */
    description?: string;
    /** Whether it must be given. Default `false`. */
    required?: boolean;
  }[];
}

/** A prompt, filled in. */
export interface PromptResult {
  /** Description. */
  description?: string;
  /** The messages. */
  messages: {
    /** Who speaks. */
    role: 'user' | 'assistant';
    /** What is said. */
    content: ContentBlock;
  }[];
}

/** A resource of a connected server. */
export interface Resource {
  /** `_meta` of the server, cleaned. */
  meta?: JsonObject;
  /** Its URI. */
  uri: string;
  /** Its name. */
  name: string;
  /** Its name for people. */
  title?: string;
  /** Description. */
  description?: string;
  /** Its type. */
  mimeType?: string;
  /** Its size in bytes. */
  size?: number;
  /** Annotations of the protocol. */
  annotations?: JsonObject;
  /** Name of the server. */
  server: string;
}

/** A family of resources of a connected server. */
export interface ResourceTemplate {
  /** RFC 6570 template of their URIs. */
  uriTemplate: string;
  /** Its name. */
  name: string;
  /** Its name for people. */
  title?: string;
  /** Description. */
  description?: string;
  /** Their type. */
  mimeType?: string;
  /** Name of the server. */
  server: string;
}

/** A skill that a server offers: a directory with a `SKILL.md`. Its texts are the server's, and never to be trusted. */
export interface Skill {
  /** Its name; other servers may have one of the same name. */
  name: string;
  /** When to use it, as the server says; cleaned. */
  description: string;
  /** Name of the server. With `uri` it is what the skill is known by. */
  server: string;
  /** URI of its `SKILL.md`. */
  uri: string;
  /** The server makes its files as it likes: there are no digests, and an approval must not be kept. */
  dynamic: boolean;
  /** Bytes of all its files. Absent where `dynamic`, or where it is too large to be loaded. */
  bytes?: number;
  /** Stands for exactly these files: what an approval that is kept should be bound to. Absent as `bytes` is. */
  fingerprint?: string;
  /** The frontmatter of its `SKILL.md` as listed, cleaned. Fields such as `allowed-tools` grant nothing. */
  frontmatter: JsonObject;
  /** Other skills of this name that are known. */
  sharesNameWith?: {
    /** Name of their server. */
    server: string;
    /** Their URI. */
    uri: string;
  }[];
}

/** A file of a skill. */
export interface SkillFile {
  /** Path below the skill's directory, as `read` takes it. */
  path: string;
  /** Its URI. */
  uri: string;
  /** Its size in bytes. */
  size: number;
}

/** A skill whose `SKILL.md` is what its server listed. */
export interface LoadedSkill {
  /** The skill. */
  skill: Skill;
  /** Its files; empty where it is dynamic. None but `SKILL.md` was read yet. */
  files: SkillFile[];
  /** The whole `SKILL.md`, cleaned as results are. */
  text: string;
  /**
   * Reads a text file of the skill from its server and compares it with the entry that was loaded.
   * @param path Below the skill's directory, wherever it was found; or a URI of the skill.
   * @throws McpCallError `SKILL_REFUSED` for a file that is not listed, differs, or is not text.
   * @throws McpServerError `SKILL_UNKNOWN` where the skill has to be loaded again.
   */
  read(path: string, options?: CallOptions): Promise<string>;
  /** The same for any file, as bytes. */
  readBytes(path: string, options?: CallOptions): Promise<Uint8Array>;
}

/** Content of a resource. A blob is a saved file (`path`), or bytes with `readResource(…, { blobs: 'buffer' })`. */
export interface ResourceContent {
  /** URI of the content. */
  uri: string;
  /** Its type. */
  mimeType?: string;
  /** Text content. */
  text?: string;
  /** Absolute path of the saved blob. */
  path?: string;
  /** Bytes of the blob. */
  data?: Uint8Array;
  /** Size of the blob in bytes. */
  bytes?: number;
  /** `_meta` of this content as the server sent it, for whoever shows it; a view's `ui.csp` and `ui.permissions` stand here. */
  meta?: JsonObject;
  /** Name of the server. */
  server: string;
}

/** Options of a single call. */
export interface CallOptions {
  /** Cancels: the promise rejects at once with `signal.reason`, the server is told, a late answer is dropped. */
  signal?: AbortSignal;
  /** Limit of this call, in ms: of silence for a tool call, of the whole for the rest. Default: the server's. */
  timeoutMs?: number;
  /** Hard limit of this call, in ms. Default: the server's. */
  maxTotalTimeoutMs?: number;
  /** Called with each progress report of this very call; never after it settled. */
  onProgress?: (p: {
    /** How far it is; grows with each report, and may begin anew after a question of the server was answered. */
    progress: number;
    /** How far it goes, if known. */
    total?: number;
    /** What it is doing. */
    message?: string;
  }) => void;
  /** Overrides the manager's `toolErrors` for this call. */
  toolErrors?: 'throw' | 'return';
  /**
   * Merged into `_meta` of the request; keys of the protocol cannot be overridden. Keys have the form `[prefix/]name` of
   * the specification, `traceparent`, `tracestate` and `baggage` are what W3C says: else TypeError `INVALID_ARGUMENT`.
   */
  meta?: JsonObject;
  /**
   * Name of the server whose app (MCP Apps) makes a tool call: it reaches only tools that this very server offers to
   * apps. Without it a call counts as a model's, and tools that are meant for apps alone are `PERMISSION_DENIED`.
   */
  app?: string;
}

/** Options of a call in the background. */
export interface TaskOptions extends CallOptions {
  /** How long the server should keep the task and its result, in ms, where it lets the caller choose. Default: its own choice. */
  ttlMs?: number;
}

/**
 * A call in the background: {@link McpManager.startTool}. It goes on when nobody waits for it and over reconnects, and keeps
 * no process alive; waiting for {@link TaskHandle.result} does, as any call.
 */
export interface TaskHandle {
  /**
   * The server's id of the task, with which {@link McpManager.resumeTask} finds it again, from another process too. It begins
   * with `local-` where the call runs in this process, because the server has no tasks; such a call ends with the process.
   */
  readonly taskId: string;
  /** Name of the server. */
  readonly server: string;
  /** The server's own name of the tool; empty where a resumed task was given none. */
  readonly tool: string;
  /** Full name of the tool; empty where a resumed task was given none. */
  readonly fullName: string;
  /** `working`, `input_required` (a question of it waits for an answer), `completed`, `failed` or `cancelled`; the last three are final. */
  readonly status: string;
  /** What the server says of the status, for people, cleaned. */
  readonly statusMessage?: string;
  /** What the server says that a model may be given at once, cleaned. */
  readonly immediateResponse?: string;
  /**
   * Waits for the end; as often as wanted. `signal` ends the wait, not the task.
   * @throws McpCallError `TASK_CANCELLED`; `TASK_LOST` when the server no longer knows it; both with `data.taskId`.
   * @throws McpTimeoutError `TIMEOUT` by the limits given to {@link McpManager.startTool}; an answer about the task is a sign of life. The server is told.
   * @throws Whatever {@link McpManager.callTool} does.
   */
  result(options?: { signal?: AbortSignal }): Promise<ToolResult>;
  /** Asks the server to stop, and waits for the end, at most about 10 s; then it is `cancelled`, unless it has ended otherwise. */
  cancel(): Promise<void>;
  /** Each change of `status` or `statusMessage`; of several in one go, the last. */
  on(event: 'status', listener: (status: string) => void): this;
  /** As `on`, for one change. */
  once(event: 'status', listener: (status: string) => void): this;
  /** Ends the listening. */
  off(event: 'status', listener: (status: string) => void): this;
}

/** A task that a server knows of: {@link McpManager.listTasks}. */
export interface TaskSummary {
  /** Name of the server. */
  server: string;
  /** Its id. */
  taskId: string;
  /** As {@link TaskHandle.status}. */
  status: string;
  /** What the server says of the status, cleaned. */
  statusMessage?: string;
  /** How long the server keeps it, in ms from its beginning. */
  ttlMs?: number;
}

// ── The manager ─────────────────────────────────────────────────────────────────────────────────────────

/**
 * Is told where a person may log in, and gives nothing (somebody opens a browser; the loopback listener or
 * `completeAuthorization` finishes) or the URL the person was sent back to. The URL is `https`, or `http` on this machine;
 * open it without a shell.
 */
export type OnAuthorizationUrl = (request: {
  /** Name of the server. */
  server: string;
  /** Where to log in. */
  url: string;
  /** Aborted when the login is over. */
  signal: AbortSignal;
}) => void | string | Promise<void | string>;

/**
 * Where logins are kept. Keys are opaque; values are secrets. A function that takes longer than 75 s fails
 * (`AUTH_STORE_FAILED`). A value of a later version of this package is never overwritten.
 */
export interface TokenStore {
  /** The value of a key, or `null`. */
  get(key: string): Promise<string | null> | string | null;
  /** Keeps a value. */
  set(key: string, value: string): Promise<void> | void;
  /** Removes a value; one that is not there is no error. */
  delete(key: string): Promise<void> | void;
  /** Runs `body` while nobody else, in any process, runs one for this key. Without it only this process is kept in order. */
  lock?<T>(key: string, body: () => Promise<T>): Promise<T>;
}

/** Trace context of W3C, as it stands in `_meta` of requests. */
export interface TraceContext {
  /** `00-<trace id>-<span id>-<flags>`. */
  traceparent: string;
  /** State of tracing systems. */
  tracestate?: string;
  /** W3C Baggage. Servers read it: nothing secret belongs there. */
  baggage?: string;
}

/** One call, from the caller's wish to its end: what a span of a tracing system is made of. */
export interface CallEvent {
  /** Method of the protocol: `tools/call` of `callTool`, `callTools` and `startTool`; `prompts/get`; `resources/read`; that of `request`. */
  method: string;
  /** The server; missing where the name led to none. */
  server?: string;
  /** The server's own name of the tool, or what the caller wrote where there is no such tool. */
  tool?: string;
  /** Full name of the tool. */
  fullName?: string;
  /** Name of the prompt. */
  prompt?: string;
  /** URI of the resource, without secrets. */
  uri?: string;
  /** When it began, in ms since the epoch. */
  startedAt: number;
  /** How long it took, permission and waiting included, in ms. */
  durationMs: number;
  /** `toolError`: the tool reports a failure in its result. `cancelled`: nobody waited any more. */
  outcome: 'ok' | 'toolError' | 'error' | 'cancelled';
  /** Code of the error, with the outcome `error`. */
  code?: string;
  /** Code of the server's JSON-RPC error. */
  rpcCode?: number;
  /** How often the request was sent: 0 where it was refused before, more than 1 after a lost connection, a login or a round of questions. */
  attempts: number;
  /** Bytes of the requests. */
  bytesSent: number;
  /** Bytes of the results. */
  bytesReceived: number;
  /** Trace id of the trace context that was sent. */
  traceId?: string;
  /** Span id of the trace context that was sent. */
  spanId?: string;
}

/** Events of {@link McpManager} and what their listeners get. */
export interface McpManagerEvents {
  /** A server changed its state. `time` is in ms since the epoch. */
  status: [ServerStatus & { from?: ConnectionState; time: number }];
  /** A server's tools changed; the next `listTools` gives the new ones. */
  toolsChanged: [{ server: string }];
  /** A server's prompts changed. */
  promptsChanged: [{ server: string }];
  /** A server's resources changed. */
  resourcesChanged: [{ server: string }];
  /** A subscribed resource changed, or may have while its server could not tell (after a reconnect). */
  resourceUpdated: [{ server: string; uri: string }];
  /** A line of a server's standard error, or a log message of the protocol. */
  log: [{ server: string; source: 'stderr' | 'protocol'; level: string; logger?: string; data: Json }];
  /** Something worth telling that is not an error of a call. */
  diagnostic: [Diagnostic];
  /** A server waits for a login. */
  authRequired: [{ server: string; reason: string }];
  /**
   * The definition of a tool is not the one that was approved, or its server gave it another name: both as the server
   * sends them, cleaned. What was remembered for the tool is dropped.
   */
  toolDefinitionChanged: [{ server: string; tool: string; before: JsonObject; after: JsonObject }];
  /** A tool call has been running for another 30 s. */
  callProgress: [{ server: string; tool: string; elapsedMs: number }];
  /** A call of this program has ended (docs/tracing.md); nothing is gathered while nobody listens. */
  call: [CallEvent];
  /** The configuration in force changed: by a reload, a watched file, an approval, an added or removed server. */
  configChanged: [{ added: string[]; removed: string[]; changed: string[] }];
}

/**
 * Owns all connections of a host: reads configuration, starts servers, routes calls, asks for permission.
 *
 * Every method that names a server rejects with `SERVER_UNKNOWN` (with `suggestions`) when there is none of that name,
 * `SERVER_DISABLED` when it is switched off, and `MANAGER_CLOSED` after `close()`. Methods that need a connection make
 * it, and reject with the reason when it cannot be made: `SPAWN_FAILED`, `SERVER_EXITED`, `CONNECT_TIMEOUT`,
 * `CONNECT_FAILED`, `VERSION_UNSUPPORTED`, `RETRIES_EXHAUSTED`.
 */
export class McpManager extends EventEmitter<McpManagerEvents> implements AsyncDisposable {
  /**
   * Makes a manager. Nothing is read and nothing is started yet.
   * @throws TypeError `INVALID_ARGUMENT` when an option has the wrong type.
   */
  constructor(options?: McpManagerOptions);

  // configuration

  /** Reads the configuration and asks `onApproval`; starts nothing. A broken file is an entry in `errors`, never a rejection. */
  load(options?: { signal?: AbortSignal }): Promise<ConfigReport>;
  /**
   * Reads the configuration again: restarts servers whose definition changed, closes those that are gone, connects new
   * ones if the manager is connected. A file that cannot be read any more keeps its last good state. A `signal` here and
   * with other changes of the configuration ends the wait alone; the change is still done whole.
   */
  reload(options?: {
    signal?: AbortSignal;
  }): Promise<{ added: string[]; removed: string[]; changed: string[] }>;
  /** What became of every server definition seen so far. */
  configReport(): ConfigReport;
  /**
   * Adds a server and, unless `connect` is `false`, connects it. Resolves with the status also when connecting failed.
   * @throws McpConfigError `CONFIG_INVALID`, `RESERVED_NAME`, `ENTERPRISE_EXCLUSIVE`, `SERVER_EXISTS` when the same or
   *   a stronger scope has the name, `CONFIG_WRITE_FAILED`. McpServerError `POLICY_DENIED`.
   */
  addServer(
    name: string,
    config: ServerConfig,
    options?: {
      /** Scope of the new server. Default `dynamic`. */
      scope?: 'dynamic' | 'plugin';
      /** Who brings it, for reports. */
      source?: string;
      /** Puts it above every other scope of that name but `enterprise`. Default `false`. */
      override?: boolean;
      /** Keeps it in a file of that scope, comments and order of the file untouched. Default: nowhere. */
      persist?: 'local' | 'project' | 'user';
      /** Connects at once. Default `true`. */
      connect?: boolean;
      /** Stops waiting. */
      signal?: AbortSignal;
    },
  ): Promise<ServerStatus>;
  /**
   * Adds a server that lives in this program: no process, no socket, and names, permission and limits as for any other.
   * Its scope is `dynamic`, its type `sdk`; reserved names are allowed. Resolves with the status also when connecting
   * failed. The server never keeps the process alive by itself, and is connected anew after `reconnect()`, `restart()`
   * and its own `close()`. An entry `{ type: 'sdk', name }` of a file or of `servers` uses the instance of that name.
   * A `connect` of it that rejects with an `McpConfigError` fails at once; any other failure is tried again.
   * @throws McpConfigError `CONFIG_INVALID`, `SERVER_EXISTS`.
   */
  addSdkServer(
    name: string,
    server: SdkServer,
    options?: CommonServerConfig & {
      /** Stops waiting. */
      signal?: AbortSignal;
    },
  ): Promise<ServerStatus>;
  /**
   * Closes a server and forgets it; its calls in flight reject. With `persist` it is taken out of the files of that scope.
   * @throws McpConfigError `CONFIG_INVALID` for a server of a file without `persist`, `ENTERPRISE_EXCLUSIVE`,
   *   `CONFIG_WRITE_FAILED`, also where no file of that scope has it.
   */
  removeServer(
    name: string,
    options?: { persist?: 'local' | 'project' | 'user'; signal?: AbortSignal },
  ): Promise<void>;
  /**
   * Approves a server of the repository exactly as it is defined now; it connects if the manager is connected.
   * @throws McpServerError `SERVER_REJECTED` when a file rejects it by name. McpConfigError `CONFIG_WRITE_FAILED`.
   */
  approveServer(name: string, options?: { signal?: AbortSignal }): Promise<void>;
  /** Rejects a server of the repository, whatever its definition becomes; it closes. */
  rejectServer(name: string, options?: { signal?: AbortSignal }): Promise<void>;
  /**
   * Switches a server on (and connects it) or off (and closes it); with `persist` also for later runs.
   * @throws McpConfigError `CONFIG_WRITE_FAILED`: the switch holds for this run only, say because another file still
   *   switches the server off; the message names it.
   */
  setServerEnabled(
    name: string,
    enabled: boolean,
    options?: { persist?: boolean; signal?: AbortSignal },
  ): Promise<ServerStatus>;
  /**
   * A view for a sub-agent: the same connections, fewer servers and tools, its own rules and callback. Patterns in
   * `tools` are about full names or the server's own names. With `permissions` its own rules decide, without it those of
   * the manager; what the manager denies or asks about stays so.
   */
  view(options: {
    /** Servers that exist in it. Default all. */
    servers?: string[];
    /** Tools that exist in it. Default all. */
    tools?: { include?: string[]; exclude?: string[] };
    /** Rules of its own. Default those of the manager. */
    permissions?: PermissionRules;
    /** Asked in place of the manager's. */
    onPermission?: McpManagerOptions['onPermission'];
    /**
     * Asked in place of the manager's what servers want to know during calls of this view. Servers are told that questions
     * are answered only where the manager has `onElicitation` or `hooks.elicitation` itself.
     */
    onElicitation?: McpManagerOptions['onElicitation'];
  }): McpView;

  // life of connections

  /**
   * Loads the configuration if nobody did and connects all servers but the `lazy` ones: remote first, then local, side
   * by side as far as `remoteConcurrency` and `localConcurrency` allow. Each is of use as soon as it is there. Resolves
   * when each has ended its first attempt, whatever came of it.
   * @throws The error of a server with `start: 'required'` that did not connect.
   */
  connect(options?: { signal?: AbortSignal }): Promise<ServerStatus[]>;
  /** Connects one server; rejects when it did not connect. Concurrent callers share one attempt. */
  connect(server: string, options?: { signal?: AbortSignal }): Promise<ServerStatus>;
  /**
   * Connects the named servers (default: all but the `lazy` ones), waits until they have ended their first attempt or
   * `timeoutMs` has passed, then gives the status of all. What is late goes on connecting.
   * @throws Without `servers`: the error of a server with `start: 'required'` that did not connect in time.
   */
  ready(options?: {
    /** Servers to wait for. Default all. */
    servers?: string[];
    /** Longest wait, in ms. Default: no limit of its own. */
    timeoutMs?: number;
    /** Stops waiting. */
    signal?: AbortSignal;
  }): Promise<ServerStatus[]>;
  /** Connects anew at once, whatever the state was, and fetches all lists. */
  reconnect(
    server: string,
    options?: { signal?: AbortSignal },
  ): Promise<{ status: ServerStatus; tools: Tool[]; prompts: Prompt[]; resources: Resource[] }>;
  /** Drops everything known of the server, closes it, starts it again and fetches its tools. */
  restart(server: string, options?: { signal?: AbortSignal }): Promise<ServerStatus>;
  /** Closes one server; it stays configured, and its next use connects it again. */
  disconnect(server: string, options?: { signal?: AbortSignal }): Promise<void>;
  /**
   * Closes everything, in bounded time; nothing is left running. Calls in flight reject with `MANAGER_CLOSED`. May be
   * called any number of times, also from a listener; asking for `fast` hastens an end that is under way.
   */
  close(options?: {
    /** `graceful`: end of input, SIGTERM, SIGKILL. `fast`: SIGINT, SIGTERM, SIGKILL within a second. Default `graceful`. */
    mode?: 'graceful' | 'fast';
    /** Stops waiting; closing goes on. */
    signal?: AbortSignal;
  }): Promise<void>;
  /** The same as `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
  /** A snapshot of all servers, sorted by name. Never starts anything. */
  status(): ServerStatus[];
  /** A snapshot of one server, `undefined` when there is none of that name. */
  status(server: string): ServerStatus | undefined;
  /**
   * What is wrong with which server, on what evidence, what happens next and what a person can do, with what the
   * configuration was not used for: one JSON value for a person or a bug report, without secrets. Starts nothing. (BEY-05)
   */
  doctor(): DoctorReport;
  /** Round trip to the server, in ms. */
  ping(server: string, options?: { signal?: AbortSignal }): Promise<number>;

  // tools

  /**
   * Tools of all connected servers, or of one; sorted by name, the same order in every run. One failing server never
   * hides the others'. A list of all for a model above `toolBudget` is the diagnostic `TOOLS_CROWDED`.
   */
  listTools(options?: {
    /** Only this server's. */
    server?: string;
    /** Only those that belong into the model's context now: marked `alwaysLoad`, by the tool or its server, or found by {@link McpManager.searchTools} or called before in this manager or view. Default `false`. */
    loaded?: boolean;
    /** Those that servers offer to their own apps, in place of those for the model. Default `false`. */
    app?: boolean;
    /**
     * `arrival`: as they first came into this list (of all, or of the loaded ones) of this manager or view. What comes
     * late stands at the end, and what comes back where it was, so that what a model was told stays a beginning of what
     * it is told. Default `name`.
     */
    order?: 'name' | 'arrival';
    /** Stops waiting. */
    signal?: AbortSignal;
  }): Promise<Tool[]>;
  /**
   * Finds tools by words in their names, titles, descriptions, hints and parameter names, best first (BM25). `+word`
   * must occur; `select:a,b` gives exactly these tools by full name. What is found joins the loaded tools.
   * @param query At most 32 words count. Nothing is found for an empty one.
   */
  searchTools(
    query: string,
    options?: {
      /** Most tools. Default 10; `select:` gives all that exist. */
      limit?: number;
      /** Stops waiting. */
      signal?: AbortSignal;
    },
  ): Promise<Tool[]>;
  /**
   * Confirms a tool as its server defines it now, after `toolDefinitionChanged`; rules hold for it again.
   * @throws McpServerError `TOOL_UNKNOWN`.
   */
  approveTool(server: string, tool: string, options?: { signal?: AbortSignal }): Promise<void>;
  /**
   * Runs a tool: permission first, then the call. A call that may have run is never repeated.
   * @param tool Full name, or the server's name and the server's own name of the tool.
   * @param args Arguments. Default `{}`.
   * @throws McpServerError `SERVER_UNKNOWN`, `TOOL_UNKNOWN`, with `suggestions`.
   * @throws McpPermissionError `PERMISSION_DENIED`, `PERMISSION_REQUIRED`.
   * @throws McpToolCallError `TOOL_ERROR` with the whole `result`, unless `toolErrors` is `return`.
   * @throws McpTimeoutError `TIMEOUT`, kind `idle` or `total`; the server is told.
   * @throws McpConnectionError `SERVER_EXITED`, `CONNECTION_LOST`, `MESSAGE_TOO_LARGE`, `MESSAGE_INVALID`, `TRANSPORT_BACKPRESSURE`, `MANAGER_CLOSED`.
   * @throws McpRpcError `RPC_ERROR`, `CAPABILITY_MISSING`.
   * @throws McpCallError `RESULT_INVALID`.
   */
  callTool(
    tool: string | { server: string; tool: string },
    args?: object,
    options?: CallOptions,
  ): Promise<ToolResult>;
  /** Runs several calls: concurrency-safe ones side by side (at most `concurrency`, default `toolConcurrency`), the others one after another. Results in the order of the calls. */
  callTools(
    calls: {
      /** Full name of the tool. */
      tool: string;
      /** Arguments. Default `{}`. */
      args?: object;
    }[],
    options?: CallOptions & { concurrency?: number },
  ): Promise<PromiseSettledResult<ToolResult>[]>;

  /**
   * Calls a tool in the background: as a task where the server has such (2025-11-25, and the extension of 2026-07-28), else as
   * a call of this process. Permission, hooks and limits are those of {@link callTool}; `signal` counts until the handle is
   * there, `onProgress` until the end. A server that takes longer than 5 s to begin gets a handle of ours meanwhile.
   * @throws As {@link callTool}, for what fails before the call has begun.
   * @throws McpCallError `LIST_LIMIT` for more than 1,000 that somebody holds.
   */
  startTool(
    tool: string | { server: string; tool: string },
    args?: object,
    options?: TaskOptions,
  ): Promise<TaskHandle>;
  /**
   * Follows a task that was started before, perhaps by another process. `tool` (full or own name) says what the result is a
   * result of, so that it is checked as such. The limits are those of a new call.
   * @throws McpCallError `TASK_LOST` when the server does not know it.
   * @throws McpRpcError `CAPABILITY_MISSING` when the server has no tasks.
   */
  resumeTask(server: string, taskId: string, options?: CallOptions & { tool?: string }): Promise<TaskHandle>;
  /**
   * The tasks that a server of 2025-11-25 knows of.
   * @throws McpRpcError `CAPABILITY_MISSING` when it does not list them; no server of 2026-07-28 does.
   */
  listTasks(server: string, options?: { signal?: AbortSignal }): Promise<TaskSummary[]>;

  // prompts

  /** Prompts of all connected servers, or of one. */
  listPrompts(options?: { server?: string; signal?: AbortSignal }): Promise<Prompt[]>;
  /**
   * Fills in a prompt.
   * @param name Full name of the prompt.
   * @param args By name, or in the prompt's order (extra ones join the last).
   * @throws McpServerError `PROMPT_UNKNOWN`. @throws McpCallError `INPUT_INVALID` naming required arguments that are missing.
   */
  getPrompt(
    name: string,
    args?: Record<string, string> | string[],
    options?: CallOptions,
  ): Promise<PromptResult>;
  /** The same from a line such as `/mcp__server__prompt first "second one"`, quoted as in a shell. */
  runSlashCommand(line: string, options?: CallOptions): Promise<PromptResult>;

  // resources

  /** Resources of all connected servers, or of one. */
  listResources(options?: { server?: string; signal?: AbortSignal }): Promise<Resource[]>;
  /** Resource templates of all connected servers, or of one. */
  listResourceTemplates(options?: { server?: string; signal?: AbortSignal }): Promise<ResourceTemplate[]>;
  /** Reads a resource. Blobs are saved in `outputDir` under a safe name, mode 0600, or handed over as bytes. */
  readResource(
    server: string,
    uri: string,
    options?: CallOptions & {
      /** What becomes of a blob. Default `file`. */
      blobs?: 'file' | 'buffer';
    },
  ): Promise<ResourceContent[]>;

  // skills

  /** Skills of all connected servers, or of one. No file is read; broken entries are diagnostics (`SKILL_INVALID`). */
  listSkills(options?: { server?: string; signal?: AbortSignal }): Promise<Skill[]>;
  /**
   * Loads a skill: reads its `SKILL.md` and compares size, SHA-256 and every field of the frontmatter with the entry;
   * where they differ the server is asked once for a newer entry.
   * @param name Its name, or its URI, which need not be listed.
   * @throws McpCallError `SKILL_REFUSED`; `data.reason` is `size`, `digest`, `frontmatter` (then `data.differences`
   * names the fields), `limit` (more than 512 files or 16 MiB), `unlisted`, `binary` or `answer`.
   * @throws McpServerError `SKILL_UNKNOWN`. @throws McpRpcError `CAPABILITY_MISSING`.
   */
  loadSkill(server: string, name: string, options?: CallOptions): Promise<LoadedSkill>;

  /** Asks for `resourceUpdated` events of a resource; kept across reconnects. @throws McpRpcError `CAPABILITY_MISSING`. */
  subscribeResource(server: string, uri: string, options?: { signal?: AbortSignal }): Promise<void>;
  /** Ends a subscription. @throws McpRpcError `CAPABILITY_MISSING`. */
  unsubscribeResource(server: string, uri: string, options?: { signal?: AbortSignal }): Promise<void>;

  // the rest of the protocol

  /** Suggestions for an argument of a prompt or a resource template. @throws McpRpcError `CAPABILITY_MISSING`. */
  complete(
    server: string,
    ref: { type: 'ref/prompt'; name: string } | { type: 'ref/resource'; uri: string },
    argument: { name: string; value: string },
    context?: { arguments?: Record<string, string> },
    options?: { signal?: AbortSignal },
  ): Promise<{ values: string[]; total?: number; hasMore?: boolean }>;
  /** Sets from which level on the server sends log messages. @throws McpRpcError `CAPABILITY_MISSING`. */
  setLogLevel(server: string, level: string, options?: { signal?: AbortSignal }): Promise<void>;
  /** Replaces the roots and tells every connected server. */
  setRoots(roots: string[], options?: { signal?: AbortSignal }): Promise<void>;
  /**
   * Has a person log in at a server, then connects; one that needs no login is only connected. Without any
   * `onAuthorizationUrl` it rejects with `AUTH_REQUIRED`, whose `authorizationUrl` is where to log in; the login then
   * waits ten minutes for `completeAuthorization`. With one, a login that waits already is ended, and whoever waited for
   * it hears so (`AUTH_FAILED`); `options.onAuthorizationUrl` is asked instead of the manager's.
   * @throws McpAuthError `AUTH_REQUIRED`, `AUTH_FAILED`, `AUTH_ISSUER_MISMATCH`, `AUTH_STORE_FAILED`; McpConnectionError `URL_REFUSED`.
   */
  authenticate(
    server: string,
    options?: { onAuthorizationUrl?: OnAuthorizationUrl; signal?: AbortSignal },
  ): Promise<ServerStatus>;
  /**
   * Finishes the login that waits with the URL that the person was sent back to. A URL of another login is refused and
   * the login goes on waiting. @throws McpAuthError `AUTH_FAILED`, `AUTH_ISSUER_MISMATCH`.
   */
  completeAuthorization(
    server: string,
    redirectUrl: string,
    options?: { signal?: AbortSignal },
  ): Promise<ServerStatus>;
  /** Forgets the login at a server, gives its tokens back where the server takes them, and lets the connection go. @throws McpAuthError `AUTH_STORE_FAILED`. */
  logout(server: string, options?: { signal?: AbortSignal }): Promise<void>;
  /** Any request of the protocol, raw. `tools/call` passes permission as ever. @throws McpRpcError `RPC_ERROR`, `CAPABILITY_MISSING`. */
  request(server: string, method: string, params?: object, options?: CallOptions): Promise<JsonObject>;
}

/** What a sub-agent gets: {@link McpManager.view}. */
export type McpView = Pick<
  McpManager,
  | 'listTools'
  | 'searchTools'
  | 'callTool'
  | 'callTools'
  | 'startTool'
  | 'listPrompts'
  | 'getPrompt'
  | 'listResources'
  | 'readResource'
  | 'status'
>;

// ── Errors: `code` is the contract ───────────────────────────────────────────────────────────────────────

/**
 * Every error of this package. `code` is the contract; classes are for convenience:
 *
 * McpConfigError          CONFIG_INVALID CONFIG_UNREADABLE CONFIG_WRITE_FAILED SERVER_EXISTS RESERVED_NAME ENTERPRISE_EXCLUSIVE RECORDING_INVALID UNSAFE_ARGUMENT
 * McpServerError          SERVER_UNKNOWN SERVER_DISABLED SERVER_NOT_APPROVED SERVER_REJECTED POLICY_DENIED TOOL_UNKNOWN PROMPT_UNKNOWN SKILL_UNKNOWN SDK_INSTANCE_MISSING
 * McpConnectionError      SPAWN_FAILED CONNECT_FAILED CONNECT_TIMEOUT CONNECTION_LOST SERVER_EXITED CIRCUIT_OPEN RETRIES_EXHAUSTED TRANSPORT_BACKPRESSURE
 *                         MESSAGE_TOO_LARGE MESSAGE_INVALID ENDPOINT_ORIGIN_MISMATCH REDIRECT_REFUSED URL_REFUSED HTTP_STATUS TLS_FAILED PROXY_FAILED VERSION_UNSUPPORTED MANAGER_CLOSED
 * McpSessionExpiredError  SESSION_EXPIRED
 * McpRpcError             RPC_ERROR CAPABILITY_MISSING
 * McpToolCallError        TOOL_ERROR
 * McpCallError            INPUT_INVALID RESULT_INVALID RESULT_TOO_LARGE SKILL_REFUSED LIST_LIMIT TASK_CANCELLED TASK_LOST
 * McpTimeoutError         TIMEOUT
 * McpPermissionError      PERMISSION_DENIED PERMISSION_REQUIRED
 * McpAuthError            AUTH_REQUIRED AUTH_FAILED AUTH_ISSUER_MISMATCH AUTH_SCOPE_INSUFFICIENT AUTH_STORE_FAILED
 * McpElicitationError     ELICITATION_DECLINED ELICITATION_LIMIT
 * McpBridgeError          BRIDGE_CLOSED BRIDGE_AUTH_FAILED BRIDGE_PROTOCOL BRIDGE_EPOCH BRIDGE_DISABLED
 * McpError                INTERNAL SANITIZE_UNSTABLE
 * TypeError               INVALID_ARGUMENT (as `code` on a plain TypeError)
 */
export class McpError extends Error {
  /** Stable code of the table above. */
  readonly code: string;
  /** Server concerned. */
  readonly server?: string;
  /** `data` of a JSON-RPC error, or whatever else belongs to the code. */
  readonly data?: Json;
  /** How many characters that nobody sees were removed from the server's words, if any were. */
  readonly removed?: number;
  /** Whether the same request may succeed later without anybody changing anything. */
  readonly retryable: boolean;
  /** How many times the request was made. */
  readonly attempts?: number;
  /** From the call to the error, in ms. */
  readonly elapsedMs?: number;
}
/** A configuration file or a server definition cannot be used. */
export class McpConfigError extends McpError {
  /** What is wrong, and where. */
  readonly diagnostics: Diagnostic[];
}
/** A server, tool or prompt is not there or may not be used. */
export class McpServerError extends McpError {
  /** The rule that forbids it. */
  readonly rule?: string;
  /** Names that look like the unknown one. */
  readonly suggestions?: string[];
}
/** A connection could not be made or was lost. */
export class McpConnectionError extends McpError {
  /** Whether the request reached the server: not sent, refused by it, or possibly run. */
  readonly delivered?: 'no' | 'refused' | 'unknown';
  /** Last lines of the server's standard error. */
  readonly stderrTail?: string[];
  /** How the server's process ended. */
  readonly exit?: { code: number | null; signal: string | null };
  /** HTTP status. */
  readonly status?: number;
  /** First bytes of an answer that is not of the protocol. */
  readonly firstBytes?: string;
  /** How far it had come on the network: resolving the name, connecting, the proxy's turn, TLS, waiting for the answer, reading it. */
  readonly phase?: 'dns' | 'connect' | 'proxy' | 'tls' | 'headers' | 'body';
  /** When the next try is due, in ms since the epoch. */
  readonly nextRetryAt?: number;
}
/** The server no longer knows the session. */
export class McpSessionExpiredError extends McpConnectionError {}
/** The server answered with a JSON-RPC error, or cannot do what was asked. */
export class McpRpcError extends McpError {
  /** Code of the JSON-RPC error. */
  readonly rpcCode?: number;
}
/** The tool reported a failure in its result. */
export class McpToolCallError extends McpError {
  /** The whole result, all content kept. */
  readonly result: ToolResult;
}
/** Arguments, result or list do not fit what was agreed. */
export class McpCallError extends McpError {}
/** The server did not answer in time. */
export class McpTimeoutError extends McpError {
  /** Which clock ran out. */
  readonly kind: 'connect' | 'request' | 'idle' | 'total';
  /** From the call to the error, in ms. */
  readonly elapsedMs: number;
}
/** The call was refused before anything was sent. */
export class McpPermissionError extends McpError {
  /** Who refused. */
  readonly layer: 'policy' | 'ide' | 'rule' | 'user' | 'hook';
  /** The rule that refused. */
  readonly rule?: string;
}
/** The server asks for a login, or the login failed. */
export class McpAuthError extends McpError {
  /** Where a person can log in; then `completeAuthorization()` finishes the login. */
  readonly authorizationUrl?: string;
  /** Scope that is missing. */
  readonly requiredScope?: string;
}
/** A question of the server was not answered. */
export class McpElicitationError extends McpError {}
/** The bridge failed. */
export class McpBridgeError extends McpError {}

// ── Bridge: an agent's session, driven from outside ─────────────────────────────────────────────────────

/** What a {@link Bridge} emits. */
export interface BridgeEvents {
  /**
   * The connection: `connecting`, `connected`, `reconnecting` (with the cause), `closed` (with the cause, unless `close()`
   * was called). Nothing follows `closed`.
   */
  state: [{ state: 'connecting' | 'connected' | 'reconnecting' | 'closed'; reason?: string }];
  /**
   * Something worth telling: `BRIDGE_CALLBACK_FAILED` (a function of yours threw or hung), `BRIDGE_GAP`,
   * `BRIDGE_MESSAGES_LOST`, `BRIDGE_REPEATED`, `BRIDGE_STALE` (numbers that are not as they should be),
   * `BRIDGE_MESSAGE_IGNORED`, `BRIDGE_MESSAGE_TOO_LARGE`, `BRIDGE_REPLY_DROPPED`, `BRIDGE_TOKEN_NOT_RENEWED`.
   */
  diagnostic: [Diagnostic];
}

/** What a host knows of an account; see {@link getBridgeDisabledReason}. */
export interface BridgeAccount {
  /** Name of the subscription; `null` or missing without one. */
  subscription?: string | null;
  /** Scopes of the login; one of them has to be `profile` or end with `:profile`. */
  scopes?: string[];
  /** Id of the organisation. */
  organizationUuid?: string | null;
  /** Whether remote control is switched on for the account. */
  featureEnabled?: boolean;
}

/** A control request from outside. The list is closed; nothing in it changes servers, approvals or policy. */
export interface BridgeControlRequest {
  /**
   * `initialize`: give `commands`, `output_style`, `models`, `account`, `pid`; what is missing gets a default.
   * `set_model`: `model`, a name or `null`. `set_max_thinking_tokens`: `max_thinking_tokens`, a number or `null`.
   * `set_permission_mode`: `mode`; answer `{ ok: true }` or `{ ok: false, error }`, anything else refuses.
   * `interrupt`: stop now; it passes whatever waits, and its answer is not waited for.
   */
  subtype: 'initialize' | 'set_model' | 'set_max_thinking_tokens' | 'set_permission_mode' | 'interrupt';
  /** Whatever belongs to the subtype. */
  [key: string]: Json;
}

/** The answer to a control request: JSON, members that are `undefined` left out. */
export interface BridgeControlAnswer {
  /** `false` refuses; `true` is what lets a permission mode through. */
  ok?: boolean;
  /** Why it is refused. */
  error?: string;
  /** Whatever belongs to the subtype. */
  [key: string]: Json | undefined;
}

/** Where a relay has its things below `baseUrl`; `{session}` stands for the session's id. */
export interface BridgePaths {
  /** Registration (v2). Default `/v2/sessions/{session}/register`. */
  register?: string;
  /** What is sent to the agent. Default `/v2/sessions/{session}/stream`, in v1 `/v1/…`. */
  stream?: string;
  /** What the agent sends. Default `/v2/sessions/{session}/messages`, in v1 `/v1/…`. */
  messages?: string;
  /** Signs of life (v2). Default `/v2/sessions/{session}/heartbeat`. */
  heartbeat?: string;
  /** Sessions as such. Default `/v2/sessions`. */
  sessions?: string;
}

/** Options of a {@link Bridge}. */
export interface BridgeOptions {
  /** Base URL of the relay: `https`, or `http` to this machine. */
  baseUrl: string;
  /** The session, an id without white space of at most 256 bytes. */
  sessionId: string;
  /** `v1`: WebSocket to read, HTTP to write. `v2` (default): server-sent events to read, HTTP to write, with epochs. */
  version?: 'v1' | 'v2';
  /** Only send: whatever would change the session is refused, `initialize` is answered. Default `false`. */
  outboundOnly?: boolean;
  /**
   * Gives the token of this bridge; `forceRefresh` after a 401 and before a JWT expires. `null` ends the bridge with
   * `BRIDGE_AUTH_FAILED`; a function that throws or hangs is asked again.
   */
  getAuthToken: (request: { forceRefresh: boolean }) => string | null | Promise<string | null>;
  /**
   * Takes what a person says, one message after the other: the next comes when this one's promise settles, or after
   * `callbackTimeoutMs`. Settle when the message is taken, not when its turn is over. Without it such messages are refused.
   */
  onUserMessage?: (message: JsonObject) => void | Promise<void>;
  /** Carries out a control request; what it gives is the answer. `{ ok: false, error }` and an exception refuse. */
  onControlRequest?: (
    request: BridgeControlRequest,
  ) => BridgeControlAnswer | void | Promise<BridgeControlAnswer | void>;
  /** Takes answers to permission questions that no `askPermission` waits for. */
  onPermissionResponse?: (response: JsonObject) => void | Promise<void>;
  /** Ids of messages that each of the two filters remembers. Default 2048. */
  dedupeCapacity?: number;
  /** From one sign of life to the next, in ms. Default 20 000. The relay counts as dead after three without any. */
  heartbeatMs?: number;
  /** Messages that may wait in either direction. Default 1024 (and 64 MiB to be sent). Above it: `TRANSPORT_BACKPRESSURE`. */
  maxQueuedMessages?: number;
  /**
   * Largest message in bytes, in either direction. Default 16 777 216 (16 MiB). Above it: `MESSAGE_TOO_LARGE`; one from
   * the other end is skipped with `BRIDGE_MESSAGE_TOO_LARGE`, and an answer of ours is replaced by an error.
   */
  maxMessageBytes?: number;
  /** Longest wait for a function of yours, in ms. Default 30 000. */
  callbackTimeoutMs?: number;
  /** Longest wait for the first connection and for a single request, in ms. Default 30 000. */
  connectTimeoutMs?: number;
  /** Longest time without a connection before the bridge gives up, in ms. Default 600 000 (10 min). */
  reconnectTimeoutMs?: number;
  /** Sequence number where an earlier bridge of the session stopped (its `sequence`). Default 0. */
  sequence?: number;
  /** What is known of the account: `connect()` rejects with `BRIDGE_DISABLED` where it may not be controlled. */
  account?: BridgeAccount;
  /** Paths of another relay. */
  paths?: BridgePaths;
  /** Whether a connected bridge keeps the process alive. Default `false`: only what is pending does. */
  keepAlive?: boolean;
}

/**
 * An agent's session, driven from outside through a relay ([docs/bridge-protocol.md](docs/bridge-protocol.md)); the
 * relay itself is `mcp-switchboard/bridge-relay`. Nothing is lost, nothing doubled and the order kept while connections
 * come and go. It ends once: by `close()`, `BRIDGE_AUTH_FAILED`, `BRIDGE_EPOCH`, `BRIDGE_PROTOCOL`, or `BRIDGE_CLOSED`
 * when the relay stays away; then everything that waits rejects. Like a manager, it holds the process only while
 * something is pending; a connected one is not collected.
 */
export class Bridge extends EventEmitter<BridgeEvents> implements AsyncDisposable {
  /** Opens nothing yet. @throws TypeError `INVALID_ARGUMENT`. */
  constructor(options: BridgeOptions);
  /**
   * Connects; later calls wait for the same connection. A failure ends the bridge, but for `BRIDGE_DISABLED`.
   * @throws McpBridgeError `BRIDGE_DISABLED`, `BRIDGE_AUTH_FAILED`, `BRIDGE_EPOCH`, `BRIDGE_PROTOCOL`, `BRIDGE_CLOSED`
   * (after `connectTimeoutMs`; `cause` says what was in the way).
   */
  connect(): Promise<void>;
  /**
   * Queues a message, also before `connect()` (it must carry a `uuid`, or gets one); resolves when the other end has
   * acknowledged it.
   * @throws McpConnectionError `TRANSPORT_BACKPRESSURE`, `MESSAGE_TOO_LARGE`; McpBridgeError whatever ended the bridge.
   */
  send(message: JsonObject): Promise<void>;
  /**
   * Asks whoever controls the session for a permission (`control_request` with the subtype `can_use_tool` and the
   * members of `request`); resolves with the `response`. Aborting takes the question back.
   * @throws McpBridgeError `BRIDGE_DISABLED` with `outboundOnly`, or whatever ended the bridge.
   */
  askPermission(request: JsonObject, options?: { signal?: AbortSignal }): Promise<JsonObject>;
  /** Sequence number up to which everything has reached this program; see `options.sequence`. */
  readonly sequence: number;
  /** Epoch of the registration; 0 before the first, and in v1. */
  readonly epoch: number;
  /** Gives queued messages two seconds to arrive, also while it connects; then gives the session up and ends. Never rejects. */
  close(): Promise<void>;
  /** `close()`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Options of {@link BridgeSessions}. */
export interface BridgeSessionsOptions {
  /** Base URL of the relay: `https`, or `http` to this machine. */
  baseUrl: string;
  /** Gives tokens, as in {@link BridgeOptions}; processes that serve a session ask here, too. */
  getAuthToken: BridgeOptions['getAuthToken'];
  /** Attempts at one request, 1 to 20. Default 4; between them 0.5 s, 1 s, 2 s, or what the relay asks for. */
  maxAttempts?: number;
  /** Longest wait for a function of yours, in ms. Default 30 000. */
  callbackTimeoutMs?: number;
  /** Longest wait for a single request, in ms. Default 30 000. */
  connectTimeoutMs?: number;
  /** Paths of another relay; only `sessions` is used. */
  paths?: BridgePaths;
}

/** A session, in the words of the relay. */
export interface BridgeSession {
  /** Its id. */
  id: string;
  /** Whatever else the relay says. */
  [key: string]: Json;
}

/** How the process that serves a session is started; as a local server is, without a shell. */
export interface BridgeChildOptions {
  /** The program: searched in `PATH`, or a path. */
  command: string;
  /** Arguments. Default none. */
  args?: string[];
  /** Variables beside the inherited ones. */
  env?: Record<string, string>;
  /** Working directory. Default that of this process. */
  cwd?: string;
  /** Variables that are inherited beside a short safe list, by name, or `all`. */
  inheritEnv?: string[] | 'all';
  /** Version of the transport that the process is told to use. Default `v2`. */
  version?: 'v1' | 'v2';
  /** Time between the end of its input and SIGTERM, in ms; as long again until SIGKILL, 2 s at most. Default 2000. */
  graceMs?: number;
}

/** How a process ended. */
export interface BridgeChildExit {
  /** Exit code; `null` where a signal ended it. */
  code: number | null;
  /** Name of the signal. */
  signal: string | null;
  /** Last lines of its standard error. */
  stderrTail: string[];
}

/** What a {@link BridgeChild} emits. */
export interface BridgeChildEvents {
  /** The process told something (`servedSession().send`). */
  message: [message: JsonObject];
  /** A line of its standard error. */
  stderr: [line: string];
  /** A line of its standard output that is no message, the first 200 bytes. */
  output: [line: string];
  /** It has ended. */
  exit: [exit: BridgeChildExit];
  /** Something worth telling: `EVENTS_DROPPED` when it said more than this program took. */
  diagnostic: [Diagnostic];
}

/**
 * A process that serves a session, made by {@link BridgeSessions.spawn}. It has a process group of its own and ends with
 * this process, however that ends. It does not keep this process alive; `exited()` does.
 */
export interface BridgeChild extends EventEmitter<BridgeChildEvents>, AsyncDisposable {
  /** The session. */
  readonly sessionId: string;
  /** Number of the process. */
  readonly pid: number;
  /** How it ended; `undefined` while it runs. */
  readonly exit: BridgeChildExit | undefined;
  /** Waits for its end. */
  exited(): Promise<BridgeChildExit>;
  /**
   * Queues a message for it (`message` of `servedSession()`), in order.
   * @throws McpConnectionError `SERVER_EXITED`, `TRANSPORT_BACKPRESSURE` where it does not read and 16 MiB wait already;
   * McpBridgeError `BRIDGE_CLOSED` after `close()`.
   */
  send(message: JsonObject): Promise<void>;
  /** Ends it and all that it started: end of its input, SIGTERM, SIGKILL; `fast` begins with SIGINT. Never rejects. */
  close(options?: { mode?: 'graceful' | 'fast' }): Promise<void>;
}

/** Sessions of a relay as such, over REST, and the processes that serve them. */
export class BridgeSessions {
  /** @throws TypeError `INVALID_ARGUMENT`. */
  constructor(options: BridgeSessionsOptions);
  /**
   * Makes a session; an attempt that is repeated makes no second one (`Idempotency-Key`).
   * @throws McpBridgeError `BRIDGE_AUTH_FAILED`, `BRIDGE_PROTOCOL` (with `status`); McpConnectionError when every attempt
   * failed (`attempts`).
   */
  create(options?: { title?: string; metadata?: JsonObject; signal?: AbortSignal }): Promise<BridgeSession>;
  /** Takes a session up again that was archived or left. @throws as `create`. */
  resume(sessionId: string, options?: { signal?: AbortSignal }): Promise<BridgeSession>;
  /** Puts a session away: nobody serves it until it is resumed. @throws as `create`. */
  archive(sessionId: string, options?: { signal?: AbortSignal }): Promise<BridgeSession>;
  /**
   * Starts the process that serves a session and resolves when it runs. It finds address and session with
   * {@link servedSession}, and asks for tokens over its standard streams: none is in its environment or arguments.
   * @throws McpConnectionError `SPAWN_FAILED`, `CONNECT_FAILED`; `server` is the session.
   */
  spawn(sessionId: string, options: BridgeChildOptions): Promise<BridgeChild>;
}

/** What a process that serves a session was told. */
export interface ServedSession extends EventEmitter<{ message: [message: JsonObject]; end: [] }> {
  /** Base URL of the relay, for {@link BridgeOptions}. */
  readonly baseUrl: string;
  /** The session, for {@link BridgeOptions}. */
  readonly sessionId: string;
  /** Version of the transport, for {@link BridgeOptions}. */
  readonly version: 'v1' | 'v2';
  /** Asks the host for a token, for {@link BridgeOptions}. */
  readonly getAuthToken: (request: { forceRefresh: boolean }) => Promise<string | null>;
  /** Tells the host something. */
  send(message: JsonObject): void;
}

/**
 * The session that this process was started to serve ({@link BridgeSessions.spawn}); `null` where it was not. Standard
 * input and output belong to it. `message` comes from the host, `end` when the host wants the process to end.
 */
export function servedSession(): ServedSession | null;

/** The last so many ids, in constant memory: a ring buffer, first in, first out, every step O(1). */
export class BoundedUuidSet {
  /** @throws TypeError `INVALID_ARGUMENT` for a capacity that is no whole number of at least 1. */
  constructor(capacity: number);
  /** Adds an id; `false` where it was there already. The oldest goes when there is no room. */
  add(id: string): boolean;
  /** Whether an id is there. */
  has(id: string): boolean;
  /** How many are there. */
  readonly size: number;
}

/**
 * Why an account may not be controlled remotely, by the first layer that says so (subscription, profile scope,
 * organisation, feature); `null` where it may. Every fact is yours.
 */
export function getBridgeDisabledReason(account: BridgeAccount): string | null;

// ── Pure functions (no I/O, usable without a manager) ───────────────────────────────────────────────────

/** Turns every character outside `[A-Za-z0-9_-]` into `_`. @throws TypeError `INVALID_ARGUMENT`. */
export function normalizeName(name: string): string;
/** `mcp__<server>__<tool>`, both parts normalised; runs of `_` in the server part shrink to one. @throws TypeError `INVALID_ARGUMENT`. */
export function buildToolName(server: string, tool: string): string;
/** Splits at the first `__` after `mcp__`; `null` when it is no such name. @throws TypeError `INVALID_ARGUMENT`. */
export function parseToolName(fullName: string): { server: string; tool: string } | null;
/**
 * Removes characters that people cannot see, from strings, keys and values, at any depth; the argument stays as it is.
 * `strict` (the default) also normalises to NFKC, `invisible` leaves all visible text alone.
 * @throws McpError `SANITIZE_UNSTABLE`.
 */
export function sanitizeUnicode<T>(value: T, mode?: 'strict' | 'invisible'): T;
/**
 * What a tool's own name suggests, by two tables gathered from public servers.
 * @param names What you know better. @throws TypeError `INVALID_ARGUMENT`.
 */
export function classifyTool(name: string, names?: ToolClasses): 'search' | 'read' | 'unknown';
/** Fills in `${VAR}` and `${VAR:-default}`; `missing` names variables that are not set and have no default. `$${` is a literal `${`. */
export function expandEnv(
  text: string,
  env: Record<string, string | undefined>,
): { value: string; missing: string[] };
/** What rules say about a tool; `passthrough` means that none matches. A string is read with `parseToolName`. */
export function decidePermission(
  tool: string | { server: string; tool: string },
  rules: PermissionRules,
): { decision: 'allow' | 'ask' | 'deny' | 'passthrough'; rule?: string };
/** How a command is run on Windows: batch files through `cmd /c`, arguments quoted. @throws McpConfigError `UNSAFE_ARGUMENT` when an argument cannot be quoted safely. */
export function windowsCommand(command: string, args: string[]): { command: string; args: string[] };
/** Whether a policy lets a server connect, and which entry decides. A definition that is not valid may not. */
export function isServerAllowed(
  name: string,
  config: ServerConfig,
  policy: Policy,
): { allowed: boolean; by?: PolicyEntry; reason: string };
/**
 * The servers of another product's file in our form; reads only. What has no counterpart is a warning. References such as
 * `${env:X}` become `${X}`, `${input:id}` becomes `${INPUT_ID}`. `auto` looks at the content and the path.
 * @throws McpConfigError `CONFIG_UNREADABLE`, `CONFIG_INVALID`. TypeError `INVALID_ARGUMENT` for an unknown format.
 */
export function importConfig(
  path: string,
  format?:
    | 'auto'
    | 'claude-desktop'
    | 'claude-code'
    | 'vscode'
    | 'cursor'
    | 'windsurf'
    | 'zed'
    | 'codex'
    | 'gemini'
    | 'opencode',
): Promise<{ servers: Record<string, ServerConfig>; warnings: Diagnostic[] }>;
/** What makes two definitions the same server: `stdio:` and command and arguments, or `url:` and the URL; `null` in-process. */
export function serverSignature(config: ServerConfig): string | null;
/** Groups calls in their order: neighbours that are safe side by side share a group, every other call is alone. */
export function partitionCalls<T extends { tool: string }>(
  calls: T[],
  isConcurrencySafe: (tool: string) => boolean,
): T[][];
/**
 * What the API of a model, or a library in front of such, asks of tools. `anthropic`: `{name, description, input_schema}`;
 * `openai` (Chat Completions): `{type: 'function', function: {…}}`; `openai-responses`: `{type: 'function', name, …, strict:
 * false}`; `gemini`: `{name, description, parameters}` with the keywords its API knows; `ai-sdk` (Vercel AI SDK): `{name,
 * description, inputSchema}`; `langchain`: `{name, description, schema}`. A profile of your own gives the shape of
 * `anthropic`.
 */
export type ModelProfile =
  | 'anthropic'
  | 'openai'
  | 'openai-responses'
  | 'gemini'
  | 'ai-sdk'
  | 'langchain'
  | {
      /** Longest name; at least 16. */
      maxNameLength: number;
      /** What names may consist of. */
      nameCharset: RegExp;
      /** Whether `anyOf`, `oneOf` and `allOf` may stand at the root. */
      rootUnions: boolean;
      /** Whether `$ref` and `$defs` may stay. */
      refs: boolean;
    };
/**
 * Tools in the form that the API of a model takes. Names that do not fit are cleaned and end with a hash, the same in
 * every run; `resolve` gives the full name for `callTool`. Schemas are repaired (references put in, a choice at the root
 * merged into one object so that arguments stay as they are, missing `type` and `properties` filled); a tool whose schema
 * is beyond repair is left out as `quarantined`. `changes` lists all of that.
 * @throws TypeError `INVALID_ARGUMENT`.
 */
export function toModelTools<P extends ModelProfile>(tools: Tool[], profile: P): ModelTools<P>;
/** What {@link toModelTools} makes. */
export interface ModelTools<P extends ModelProfile = ModelProfile> {
  /** For the request to the model, in the order given. */
  tools: ModelToolShapes[P extends keyof ModelToolShapes ? P : 'anthropic'][];
  /** The full name behind a name that the model uses; `undefined` for one that was not given. */
  resolve(name: string): string | undefined;
  /** Everything that differs from the tools as they were given. */
  changes: ModelToolChange[];
}
/** A schema of arguments, as models take it. */
export type ModelSchema = JsonObject & { type: 'object'; properties?: JsonObject; required?: string[] };
/** The tools of {@link toModelTools}, by profile. */
export interface ModelToolShapes {
  /** An entry of `tools` of the Messages API. */
  anthropic: { name: string; description: string; input_schema: ModelSchema };
  /** An entry of `tools` of Chat Completions. */
  openai: {
    type: 'function';
    function: { name: string; description: string; parameters: ModelSchema };
  };
  /** An entry of `tools` of Responses. */
  'openai-responses': {
    type: 'function';
    name: string;
    description: string;
    parameters: ModelSchema;
    strict: false;
  };
  /** A function declaration. */
  gemini: { name: string; description: string; parameters: ModelSchema };
  /** What `tool()` or `dynamicTool()` takes, with `jsonSchema(inputSchema)`. */
  'ai-sdk': { name: string; description: string; inputSchema: ModelSchema };
  /** Fields of `tool()`. */
  langchain: { name: string; description: string; schema: ModelSchema };
}
/** One difference between a tool and what the model gets. */
export interface ModelToolChange {
  /** Full name of the tool. */
  tool: string;
  /** `quarantined` tools are left out. */
  kind: 'renamed' | 'repaired' | 'quarantined';
  /** The new name, what was repaired, or why it is left out. */
  detail: string;
}
/**
 * The editors that have a directory open, as definitions for the option `ide` or `addServer`, the best first; at most 8.
 *
 * 1. The editor whose terminal this is: `CLAUDE_CODE_IDE_MCP_URL`, then `CLAUDE_CODE_SSE_PORT` (`env`, default
 *    `process.env`). A lock file of the same port adds its name and token.
 * 2. Editors with a lock file `<homeDir>/<configDir>/ide/<port>.lock` and a workspace folder that holds `cwd`, links
 *    followed: the deepest folder first, of equal ones the file that was written last.
 *
 * Left out: editors whose process has ended or whose port nobody answers; lock files that are damaged, larger than 64 KiB
 * or another user's; all but the 64 youngest. What is odd about a file or a variable is never an error: a manager with
 * `ide: 'discover'` tells it as a diagnostic. Nothing is sent to an editor. The definitions hold its token. See docs/ide.md.
 * @throws TypeError `INVALID_ARGUMENT`.
 */
export function discoverIde(options?: {
  /** The directory that has to be open. Default: that of this process. */
  cwd?: string;
  /** Default: the user's. */
  homeDir?: string;
  /** Name of the configuration directory in it. Default `.claude`. */
  configDir?: string;
  /** Variables in place of `process.env`. */
  env?: Record<string, string | undefined>;
}): Promise<(SseIdeServerConfig | WsIdeServerConfig)[]>;

/** Where {@link fetchOfficialRegistry} looks, and how. */
export interface OfficialRegistryOptions {
  /**
   * Address of the list; `limit` and `version` are added to its query where they are missing. `https`, or `http` on this
   * machine. Default that of the official registry.
   */
  url?: string;
  /** Where the list is kept; `false` for nowhere. Default the state directory of a manager without options. */
  cacheDir?: string | false;
  /** How old the kept list may be, in ms. Default 86 400 000 (a day). */
  maxAgeMs?: number;
  /** Stops waiting. */
  signal?: AbortSignal;
  /** Trust. */
  tls?: TlsOptions;
  /** Proxy; `false` for none. Default that of the environment. */
  proxy?: string | false;
}
/** The official registry. */
export interface OfficialRegistry {
  /** Its entries as it gives them: `{ server, _meta }` with a `server.json` inside. */
  servers: JsonObject[];
  /** Whether all of them stood on disk: young enough, unchanged, or because the registry could not be had. */
  fromCache: boolean;
  /** When the registry last answered, in ms since the epoch. */
  fetchedAt: number;
}
/**
 * Fetches the official registry of MCP servers, page by page: at most 1000 pages, 64 MiB and two minutes. What is kept is
 * asked for again with its ETags when it is older than `maxAgeMs`; when the registry cannot be had, it has to do.
 * @throws TypeError `INVALID_ARGUMENT`. McpConnectionError `URL_REFUSED`; without a kept list also `CONNECT_FAILED`,
 *   `HTTP_STATUS`, `MESSAGE_INVALID`, `REDIRECT_REFUSED` …; McpCallError `LIST_LIMIT`.
 */
export function fetchOfficialRegistry(options?: OfficialRegistryOptions): Promise<OfficialRegistry>;
/**
 * Whether a server is in the registry: the package that its command runs (`npx`, `bunx`, `pnpm dlx`, `uvx`, `pipx run`,
 * `docker run` …), whatever its version, or its URL. A package that is fetched from another index (`--registry`,
 * `--index-url`, their variables) is not. It says who published a server, not that it is harmless.
 * @throws TypeError `INVALID_ARGUMENT`.
 */
export function isOfficial(config: ServerConfig, registry: { servers: JsonObject[] }): boolean;
/** How a recording is replayed. */
export interface ReplayOptions {
  /** Which server of the recording; may be left out where it has only one. */
  server?: string;
  /** `recorded` keeps the pauses of the recording. Default `none`: answers come at once. */
  timings?: 'none' | 'recorded';
}
/**
 * An in-process server that answers from a recording made with `recordTo` (docs/recording.md): for `addSdkServer`, or for
 * a client of the official SDK. Requests are matched by method and parameters; equal ones are answered in the order of the
 * recording, then with the last answer again. What was not recorded is answered with JSON-RPC error −32000.
 *
 * The file is read when it is connected. `connect` rejects with `McpConfigError` `RECORDING_INVALID`, which names file and
 * line; through a manager that is the cause of a `CONNECT_FAILED`.
 * @throws TypeError `INVALID_ARGUMENT`.
 */
export function replayServer(file: string, options?: ReplayOptions): SdkServer;
/**
 * The result of a tool, or what the call rejected with, as an API takes it back: the model's calls go to
 * `callTool(resolve(name) ?? name, args)`, and what becomes of them goes here. Nothing is dropped silently: what the shape has no place for
 * is named in words, listed in `changes`, and handed back in `left`.
 * @throws TypeError `INVALID_ARGUMENT`.
 */
export function toModelResult<P extends keyof ModelResultMessages>(
  outcome: ToolResult | Error,
  profile: P,
  call: ModelCall,
): ModelResult<P>;
/** The call that a result belongs to, and what its model takes. */
export interface ModelCall {
  /** The model's id of the call: `id`, `tool_call_id`, `call_id` or `toolCallId`. */
  id: string;
  /** The tool's name as the model knows it. Needed for `gemini` and `ai-sdk`. */
  name?: string;
  /** Whether the model looks at images. Default `true`; Chat Completions of OpenAI take none in results in any case. */
  images?: boolean;
  /** Whether the model listens to sounds; `gemini` and `ai-sdk` have a place for them. Default `false`. */
  audio?: boolean;
}
/** What {@link toModelResult} makes. */
export interface ModelResult<P extends keyof ModelResultMessages = keyof ModelResultMessages> {
  /** For the next request to the model. */
  message: ModelResultMessages[P];
  /** Everything that the message does not say as the server said it. */
  changes: ModelResultChange[];
  /** Images and sounds that the message only names. */
  left: ContentBlock[];
}
/** One difference between a result and what the model gets. */
export interface ModelResultChange {
  /** Index in `content`; absent where it is about the whole. */
  block?: number;
  /**
   * `described`: named in words, all facts kept; `left`: not in the message; `merged`: said once, not twice; `added`: words that
   * are not the server's; `truncated`: the result was above `maxOutputTokens` and had been cut before.
   */
  kind: 'described' | 'left' | 'merged' | 'added' | 'truncated';
  /** What exactly. */
  detail: string;
}
/** Text for a model. */
export type ModelText = { type: 'text'; text: string };
/** The messages of {@link toModelResult}, by profile. */
export interface ModelResultMessages {
  /** A block for the next `user` message. */
  anthropic: {
    type: 'tool_result';
    tool_use_id: string;
    content: (
      | ModelText
      | {
          type: 'image';
          source: {
            type: 'base64';
            media_type: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp';
            data: string;
          };
        }
    )[];
    is_error?: true;
  };
  /** A message of Chat Completions. */
  openai: { role: 'tool'; tool_call_id: string; content: string };
  /** An item of `input`. */
  'openai-responses': {
    type: 'function_call_output';
    call_id: string;
    output:
      | string
      | ({ type: 'input_text'; text: string } | { type: 'input_image'; detail: 'auto'; image_url: string })[];
  };
  /** A part for the next `user` content. Images stand in `parts`, which Gemini 3 and newer take. */
  gemini: {
    functionResponse: {
      id: string;
      name: string;
      /** `output`, or `error` where the tool failed: text, or `structuredContent` where there is no text. */
      response: { [key: string]: Json };
      parts?: { inlineData: { mimeType: string; data: string } }[];
    };
  };
  /** A part of a `tool` message; its `output` is what `toModelOutput` gives. */
  'ai-sdk': {
    type: 'tool-result';
    toolCallId: string;
    toolName: string;
    output:
      | { type: 'text' | 'error-text'; value: string }
      | {
          type: 'content';
          value: (ModelText | { type: 'image-data' | 'file-data'; data: string; mediaType: string })[];
        };
  };
  /** Fields of a `ToolMessage`. */
  langchain: {
    type: 'tool';
    tool_call_id: string;
    name?: string;
    status: 'success' | 'error';
    content: string | (ModelText | { type: 'image_url'; image_url: { url: string } })[];
  };
}
/** Version of this package. */
export const version: string;
