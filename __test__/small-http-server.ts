/** A server of the handshake era over Streamable HTTP that counts its sessions and does what a test tells it. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** One request as it came. */
export interface Arrived {
  verb: string;
  /** Path of the URL. */
  path: string;
  session?: string;
  id?: number;
  method?: string;
  params?: { arguments?: Record<string, unknown> };
}

/** A running server; `answer` may be replaced at any time. */
export interface SmallServer {
  url: string;
  arrived: Arrived[];
  sessions: number;
  /** Takes a request over by returning `true`. */
  answer: (request: Arrived, response: ServerResponse) => boolean | void;
  /** How often a method was asked. */
  count(method: string): number;
  /** Ends every connection without a word. */
  cut(): void;
  /** Takes no connection any more and ends those on which no test is answering. */
  vanish(): void;
}

const RESULTS: Record<string, unknown> = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {}, prompts: {}, resources: {} },
    serverInfo: { name: 'small', version: '1' },
  },
  'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
  'prompts/list': { prompts: [{ name: 'hello' }] },
  'resources/list': { resources: [] },
  'tools/call': { content: [{ type: 'text', text: 'hello' }] },
  'prompts/get': { messages: [{ role: 'user', content: { type: 'text', text: 'hello' } }] },
  'resources/read': { contents: [{ uri: 'a://b', text: 'hello' }] },
};

/** Answers a request with a result. */
export function reply(response: ServerResponse, id: number, result: unknown, headers = {}): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
}

/** Starts a server; it ends with the test. */
export async function smallServer(): Promise<SmallServer> {
  const sockets = new Set<Socket>();
  const taken = new Set<Socket>();
  const small: SmallServer = {
    url: '',
    arrived: [],
    sessions: 0,
    answer: () => false,
    count: (method) => small.arrived.filter((one) => one.method === method).length,
    vanish: () => {
      server.close();
      // Not only the idle ones: some may never have carried a request.
      for (const socket of sockets) if (!taken.has(socket)) socket.destroy();
    },
    cut: () => sockets.forEach((socket) => socket.destroy()),
  };
  const handle = (request: IncomingMessage, body: string, response: ServerResponse): void => {
    const message = body ? (JSON.parse(body) as Partial<Arrived>) : {};
    const session = request.headers['mcp-session-id'] as string | undefined;
    const one: Arrived = { ...message, verb: request.method ?? '', path: request.url ?? '', session };
    small.arrived.push(one);
    if (small.answer(one, response)) {
      if (!response.writableEnded) taken.add(request.socket);
      return;
    }
    if (one.verb !== 'POST') return void response.writeHead(405).end();
    if (one.id === undefined) return void response.writeHead(202).end();
    if (one.method !== 'initialize') return reply(response, one.id, RESULTS[one.method ?? ''] ?? {});
    small.sessions += 1;
    reply(response, one.id, RESULTS.initialize, { 'mcp-session-id': `session-${small.sessions}` });
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => handle(request, Buffer.concat(chunks).toString(), response));
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    small.cut();
    server.close();
  });
  small.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  return small;
}
