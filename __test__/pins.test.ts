import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import * as entry from '..';
import { root } from './harness';

/** The contract. Adding a line here is a decision, changing one is a breaking change. */
const CODES: Record<string, string[]> = {
  McpConfigError: [
    'CONFIG_INVALID',
    'CONFIG_UNREADABLE',
    'CONFIG_WRITE_FAILED',
    'SERVER_EXISTS',
    'RESERVED_NAME',
    'ENTERPRISE_EXCLUSIVE',
    'RECORDING_INVALID',
    'UNSAFE_ARGUMENT',
  ],
  McpServerError: [
    'SERVER_UNKNOWN',
    'SERVER_DISABLED',
    'SERVER_NOT_APPROVED',
    'SERVER_REJECTED',
    'POLICY_DENIED',
    'TOOL_UNKNOWN',
    'PROMPT_UNKNOWN',
    'SKILL_UNKNOWN',
    'SDK_INSTANCE_MISSING',
  ],
  McpConnectionError: [
    'SPAWN_FAILED',
    'CONNECT_FAILED',
    'CONNECT_TIMEOUT',
    'CONNECTION_LOST',
    'SERVER_EXITED',
    'CIRCUIT_OPEN',
    'RETRIES_EXHAUSTED',
    'TRANSPORT_BACKPRESSURE',
    'MESSAGE_TOO_LARGE',
    'MESSAGE_INVALID',
    'ENDPOINT_ORIGIN_MISMATCH',
    'REDIRECT_REFUSED',
    'URL_REFUSED',
    'HTTP_STATUS',
    'TLS_FAILED',
    'PROXY_FAILED',
    'VERSION_UNSUPPORTED',
    'MANAGER_CLOSED',
  ],
  McpSessionExpiredError: ['SESSION_EXPIRED'],
  McpRpcError: ['RPC_ERROR', 'CAPABILITY_MISSING'],
  McpToolCallError: ['TOOL_ERROR'],
  McpCallError: [
    'INPUT_INVALID',
    'RESULT_INVALID',
    'RESULT_TOO_LARGE',
    'SKILL_REFUSED',
    'LIST_LIMIT',
    'TASK_CANCELLED',
    'TASK_LOST',
  ],
  McpTimeoutError: ['TIMEOUT'],
  McpPermissionError: ['PERMISSION_DENIED', 'PERMISSION_REQUIRED'],
  McpAuthError: [
    'AUTH_REQUIRED',
    'AUTH_FAILED',
    'AUTH_ISSUER_MISMATCH',
    'AUTH_SCOPE_INSUFFICIENT',
    'AUTH_STORE_FAILED',
  ],
  McpElicitationError: ['ELICITATION_DECLINED', 'ELICITATION_LIMIT'],
  McpBridgeError: [
    'BRIDGE_CLOSED',
    'BRIDGE_AUTH_FAILED',
    'BRIDGE_PROTOCOL',
    'BRIDGE_EPOCH',
    'BRIDGE_DISABLED',
  ],
  McpError: ['INTERNAL', 'SANITIZE_UNSTABLE'],
  TypeError: ['INVALID_ARGUMENT'],
};

const EVENTS = [
  'status',
  'toolsChanged',
  'promptsChanged',
  'resourcesChanged',
  'resourceUpdated',
  'log',
  'diagnostic',
  'authRequired',
  'toolDefinitionChanged',
  'callProgress',
  'call',
  'configChanged',
];

const METHODS = [
  'load',
  'configReport',
  'reload',
  'addServer',
  'addSdkServer',
  'removeServer',
  'approveServer',
  'rejectServer',
  'setServerEnabled',
  'view',
  'connect',
  'ready',
  'reconnect',
  'restart',
  'disconnect',
  'close',
  'status',
  'doctor',
  'ping',
  'listTools',
  'searchTools',
  'approveTool',
  'callTool',
  'callTools',
  'startTool',
  'resumeTask',
  'listTasks',
  'listPrompts',
  'getPrompt',
  'runSlashCommand',
  'listResources',
  'listResourceTemplates',
  'readResource',
  'listSkills',
  'loadSkill',
  'subscribeResource',
  'unsubscribeResource',
  'complete',
  'setLogLevel',
  'setRoots',
  'authenticate',
  'completeAuthorization',
  'logout',
  'request',
];

const FUNCTIONS = [
  'normalizeName',
  'buildToolName',
  'parseToolName',
  'sanitizeUnicode',
  'classifyTool',
  'expandEnv',
  'decidePermission',
  'windowsCommand',
  'partitionCalls',
  'importConfig',
  'fetchOfficialRegistry',
  'discoverIde',
  'isOfficial',
  'replayServer',
  'isServerAllowed',
  'serverSignature',
  'toModelResult',
  'toModelTools',
  'Bridge',
  'BridgeSessions',
  'servedSession',
  'BoundedUuidSet',
  'getBridgeDisabledReason',
];

const declarations = readFileSync(join(root, 'index.d.ts'), 'utf8');
const exported = Object.keys(entry)
  .filter((name) => name !== 'default')
  .sort();

describe('pins', () => {
  test('USE-01 the exports', () => {
    const classes = Object.keys(CODES).filter((name) => name !== 'TypeError');
    expect(exported).toEqual(['McpManager', 'version', ...classes, ...FUNCTIONS].sort());
  });

  test('USE-01 everything exported is declared, everything declared is exported', () => {
    const declared = [
      ...declarations.matchAll(/^export (?:declare )?(?:abstract )?(?:class|function|const) (\w+)/gm),
    ].map(([, name]) => name);
    expect([...new Set(declared)].sort()).toEqual(exported);
  });

  test('USE-01 the codes: one table in the sources, the same in the declarations', () => {
    const source = readFileSync(join(root, 'src', 'error.rs'), 'utf8');
    const rows = [...source.matchAll(/^\s*\w+ "([A-Z_]+)" "(\w+)" (?:true|false) "/gm)];
    const fromSource: Record<string, string[]> = {};
    for (const [, code, className] of rows) (fromSource[className] ??= []).push(code);
    expect(fromSource).toEqual(CODES);

    const fromDeclarations: Record<string, string[]> = {};
    let current = '';
    for (const line of declarations.split('\n')) {
      const [, className, codes] =
        /^ \* (?:(Mcp\w*Error|TypeError) )?\s+([A-Z][A-Z_]+(?: [A-Z][A-Z_]+)*)(?: \(.*)?$/.exec(line) ?? [];
      if (codes === undefined) continue;
      current = className ?? current;
      (fromDeclarations[current] ??= []).push(...codes.split(' '));
    }
    expect(fromDeclarations).toEqual(CODES);
  });

  test('USE-01 the events', () => {
    const body = /interface McpManagerEvents \{([\s\S]*?)\n\}/.exec(declarations)?.[1] ?? '';
    expect([...body.matchAll(/^ {2}(\w+): \[/gm)].map(([, name]) => name)).toEqual(EVENTS);
  });

  test('USE-01 the methods', () => {
    for (const name of METHODS)
      expect(Object.getOwnPropertyDescriptor(entry.McpManager.prototype, name)?.value, name).toBeTypeOf(
        'function',
      );
    expect(entry.McpManager.prototype[Symbol.asyncDispose]).toBeTypeOf('function');
    const own = Object.getOwnPropertyNames(entry.McpManager.prototype).filter(
      (name) => name !== 'constructor',
    );
    expect(own.sort()).toEqual([...METHODS].sort());
  });

  test('USE-01 the classes of errors', () => {
    const classes = entry as unknown as Record<string, new (...args: never[]) => Error>;
    for (const name of Object.keys(CODES).filter((className) => className.startsWith('Mcp'))) {
      expect(classes[name].prototype, name).toBeInstanceOf(name === 'McpError' ? Error : entry.McpError);
      expect(classes[name].name).toBe(name);
    }
    expect(entry.McpSessionExpiredError.prototype).toBeInstanceOf(entry.McpConnectionError);
  });

  test('USE-01 every declared member has a comment', () => {
    const lines = declarations.split('\n');
    const bare = lines.filter((line, at) => {
      const isMember =
        /^\s+(?:readonly )?(?:\[?[\w.]+\]?)\??(?:\(|: )/.test(line) && !/^\s*(?:\*|\/\*|\/\/|\|)/.test(line);
      const isTop = /^export (?:class|interface|type|function|const)/.test(line);
      if (!isMember && !isTop) return false;
      const before = lines[at - 1].trim();
      return !before.endsWith('*/');
    });
    // Parameters that stand on lines of their own are told apart by their indentation.
    expect(
      bare
        .filter((line) => /^(?: {2}\S|export)/.test(line))
        .filter(
          (line) =>
            !/^ {2}(?:tool|rules|server|options|name|config|policy|request|path|format|text|env|calls|isConcurrencySafe|outcome|profile|call)\??:/.test(
              line,
            ),
        ),
    ).toEqual([]);
  });
});
