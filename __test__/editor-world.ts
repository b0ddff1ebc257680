/**
 * An editor for the tests: a server of the official SDK behind a WebSocket or an event stream on the loopback interface,
 * which asks for its token as editors do, and the lock file it leaves in a home directory of the tests' own.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Server as McpServer } from '@modelcontextprotocol/sdk/server/index.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  CallToolRequestSchema,
  JSONRPCMessageSchema,
  ListToolsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { onTestFinished } from 'vitest';
import { WebSocketServer, type WebSocket } from 'ws';
import { temporaryDirectory } from './harness';

const HEADER = 'x-claude-code-ide-authorization';
const TOOLS = ['getDiagnostics', 'executeCode', 'openDiff', 'close_tab'];

/** A home directory and a project in it. */
export interface Place {
  home: string;
  project: string;
  /** Writes a lock file; gives its path. */
  lock: (name: string | number, content: object | string) => string;
}

export function place(): Place {
  const home = temporaryDirectory();
  const [project, ide] = [join(home, 'project'), join(home, '.claude', 'ide')];
  mkdirSync(project);
  mkdirSync(ide, { recursive: true });
  const lock = (name: string | number, content: object | string) => {
    const path = join(ide, `${name}.lock`);
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
    return path;
  };
  return { home, project, lock };
}

export interface Call {
  name: string;
  arguments?: Record<string, unknown>;
}

export interface Editor {
  port: number;
  token: string;
  /** What stands in its lock file. */
  content: { transport?: 'ws' | 'sse'; workspaceFolders: string[]; [member: string]: unknown };
  /** Calls of tools that came in. */
  calls: Call[];
  /** Clients that were let in. */
  clients: () => number;
  /** Requests without the right token. */
  refused: () => number;
  /** Ends it; its lock file goes with it unless it crashes. */
  stop: (how?: 'crash') => Promise<void>;
}

let serial = 0;

/** Starts an editor that has the project open, and writes its lock file. */
export async function editor(
  at: Place,
  kind: 'ws' | 'sse',
  options: { name?: string; folders?: string[]; token?: string; lock?: false | object } = {},
): Promise<Editor> {
  const token = `secret-of-editor-${++serial}`;
  const calls: Call[] = [];
  let [clients, refused] = [0, 0];
  const admitted = (request: IncomingMessage) => {
    const good = request.headers[HEADER] === token;
    if (!good) refused++;
    return good;
  };
  const serve = async (transport: Transport) => {
    clients++;
    await protocol(calls).connect(transport);
  };
  const server = kind === 'sse' ? sseServer(admitted, serve) : createServer();
  const sockets = kind === 'ws' ? webSockets(server, admitted, serve) : undefined;
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  const content: Editor['content'] = {
    pid: process.pid,
    workspaceFolders: options.folders ?? [at.project],
    ideName: options.name ?? 'Test Editor',
    transport: kind,
    runningInWindows: false,
    authToken: options.token ?? token,
  };
  const path = options.lock === false ? undefined : at.lock(port, { ...content, ...options.lock });
  let stopped: Promise<void> | undefined;
  const stop = (how?: 'crash') => {
    if (path !== undefined && how !== 'crash') rmSync(path, { force: true });
    for (const socket of sockets?.clients ?? []) socket.terminate();
    server.closeAllConnections();
    return (stopped ??= new Promise((resolve) => server.close(() => resolve())));
  };
  onTestFinished(() => stop());
  return { port, token, content, calls, clients: () => clients, refused: () => refused, stop };
}

function protocol(calls: Call[]): McpServer {
  const server = new McpServer({ name: 'editor', version: '1' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: TOOLS.map((name) => ({ name, inputSchema: { type: 'object' as const } })),
  }));
  server.setRequestHandler(CallToolRequestSchema, ({ params: { name, arguments: given } }) => {
    calls.push({ name, arguments: given });
    const text = name === 'executeCode' ? `ran ${String(given?.code)}` : diagnostics(given?.uri);
    return { content: [{ type: 'text', text }] };
  });
  return server;
}

function diagnostics(uri: unknown): string {
  return JSON.stringify([{ uri, diagnostics: [{ message: "';' expected", severity: 'Error' }] }]);
}

function sseServer(
  admitted: (request: IncomingMessage) => boolean,
  serve: (transport: Transport) => Promise<void>,
): Server {
  const sessions = new Map<string, SSEServerTransport>();
  return createServer((request, response) => {
    if (!admitted(request)) return void response.writeHead(401).end();
    const url = new URL(request.url!, 'http://127.0.0.1');
    if (request.method === 'POST' && url.pathname === '/messages') {
      const session = sessions.get(url.searchParams.get('sessionId') ?? '');
      return void (session ? session.handlePostMessage(request, response) : response.writeHead(404).end());
    }
    if (request.method !== 'GET' || url.pathname !== '/sse') return void response.writeHead(405).end();
    const session = new SSEServerTransport('/messages', response);
    sessions.set(session.sessionId, session);
    void serve(session);
  });
}

function webSockets(
  server: Server,
  admitted: (request: IncomingMessage) => boolean,
  serve: (transport: Transport) => Promise<void>,
): WebSocketServer {
  const sockets = new WebSocketServer({
    server,
    handleProtocols: () => 'mcp',
    verifyClient: ({ req }: { req: IncomingMessage }) => admitted(req),
  });
  sockets.on('connection', (socket) => void serve(socketTransport(socket)));
  return sockets;
}

function socketTransport(socket: WebSocket): Transport {
  const transport: Transport = {
    start: () => Promise.resolve(),
    send: (message) => {
      socket.send(JSON.stringify(message));
      return Promise.resolve();
    },
    close: () => {
      socket.close();
      return Promise.resolve();
    },
  };
  socket.on('message', (data: Buffer) =>
    transport.onmessage?.(JSONRPCMessageSchema.parse(JSON.parse(data.toString()))),
  );
  socket.on('close', () => transport.onclose?.());
  socket.on('error', () => {});
  return transport;
}
