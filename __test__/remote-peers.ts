/**
 * Small servers behind URLs for the tests: answers by hand over HTTP, the older event stream and WebSocket, with TLS
 * where wanted, and a proxy. They count what comes in and expect nothing.
 */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect as tcpConnect, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { WebSocketServer } from 'ws';
import { root } from './harness';

/** A message of the protocol. */
export interface Message {
  jsonrpc?: string;
  id?: number | string;
  method?: string;
  params?: { name?: string };
}

/** An authority of the tests' own and a certificate of it for `localhost` and 127.0.0.1; they guard nothing. */
const certificates = join(root, 'src', 'transport', 'http', 'tests', 'certificates');
export const AUTHORITY = join(certificates, 'authority.pem');
const pem = (name: string): string => readFileSync(join(certificates, name), 'utf8');

/** What any of these servers answers; `undefined` for what needs no answer. */
export function answerTo({ id, method, params }: Message, tools: string[] = ['echo']): object | undefined {
  if (id === undefined || method === undefined) return undefined;
  const reply = (result: object) => ({ jsonrpc: '2.0', id, result });
  switch (method) {
    case 'initialize':
      return reply({
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'small', version: '1' },
      });
    case 'tools/list':
      return reply({ tools: tools.map((name) => ({ name, inputSchema: { type: 'object' } })) });
    case 'tools/call':
      return reply({ content: [{ type: 'text', text: `hello from ${params?.name}` }] });
    case 'ping':
      return reply({});
    default:
      return { jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } };
  }
}

/** Listens on the loopback interface until the test ends; gives the port. */
export async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** A request as it came in. */
export interface Seen {
  http: string;
  path: string;
  headers: IncomingMessage['headers'];
  message?: Message;
}

/** A server of the handshake era over HTTP; `answer` may take a request over. */
export async function httpPeer(
  answer: (seen: Seen, response: ServerResponse) => boolean | void = () => {},
  options: { tls?: boolean; tools?: string[] } = {},
): Promise<{ port: number; origin: string; url: string; seen: Seen[]; asked: (method: string) => number }> {
  const seen: Seen[] = [];
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const one: Seen = { http: request.method!, path: request.url!, headers: request.headers };
      if (body) one.message = JSON.parse(body) as Message;
      seen.push(one);
      if (answer(one, response)) return;
      if (one.http !== 'POST') return void response.writeHead(405).end();
      const result = answerTo(one.message!, options.tools);
      if (result === undefined) return void response.writeHead(202).end();
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(result));
    });
  };
  const server = options.tls
    ? (createTlsServer({ cert: pem('server.pem'), key: pem('leaf-key.pem') }, onRequest) as unknown as Server)
    : createServer(onRequest);
  const port = await listen(server);
  const origin = `${options.tls ? 'https' : 'http'}://127.0.0.1:${port}`;
  const asked = (method: string) => seen.filter(({ message }) => message?.method === method).length;
  return { port, origin, url: `${origin}/mcp`, seen, asked };
}

/** A server of the older event stream at `/sse`; `endpoint` is what it names. */
export async function ssePeer(
  options: { tools?: string[]; endpoint?: string; retry?: number } = {},
): Promise<{
  url: string;
  seen: Seen[];
  asked: (method: string) => number;
  /** Cuts the stream. */
  cut: () => void;
  /** From now on it speaks Streamable HTTP. */
  renew: () => void;
}> {
  let renewed = false;
  let stream: ServerResponse | undefined;
  const peer = await httpPeer(
    (one, response) => {
      if (renewed) return false;
      if (one.http === 'GET') {
        stream = response;
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        if (options.retry !== undefined) response.write(`retry: ${options.retry}\n\n`);
        response.write(`event: endpoint\ndata: ${options.endpoint ?? '/messages'}\n\n`);
        return true;
      }
      // Servers of that time know no messages at the place of their stream.
      if (!one.path.startsWith('/messages')) {
        response.writeHead(405).end();
        return true;
      }
      const result = answerTo(one.message!, options.tools);
      if (result !== undefined) stream?.write(`data: ${JSON.stringify(result)}\n\n`);
      response.writeHead(202).end();
      return true;
    },
    { tools: options.tools },
  );
  return {
    url: `${peer.origin}/sse`,
    seen: peer.seen,
    asked: peer.asked,
    cut: () => stream?.destroy(),
    renew: () => {
      renewed = true;
    },
  };
}

/** A server over WebSocket. */
export async function wsPeer(
  options: { tls?: boolean; tools?: string[] } = {},
): Promise<{ port: number; url: string; upgrades: IncomingMessage[] }> {
  const server = options.tls
    ? (createTlsServer({ cert: pem('server.pem'), key: pem('leaf-key.pem') }) as unknown as Server)
    : createServer();
  const upgrades: IncomingMessage[] = [];
  const sockets = new WebSocketServer({ server, handleProtocols: () => 'mcp' });
  sockets.on('connection', (socket, request) => {
    upgrades.push(request);
    onTestFinished(() => socket.terminate());
    socket.on('message', (data) => {
      const result = answerTo(JSON.parse(String(data)) as Message, options.tools);
      if (result !== undefined) socket.send(JSON.stringify(result));
    });
    socket.on('error', () => {});
  });
  const port = await listen(server);
  return { port, url: `${options.tls ? 'wss' : 'ws'}://127.0.0.1:${port}/`, upgrades };
}

/** A proxy that opens tunnels for whoever knows the password. */
export async function connectProxy(
  login: string,
): Promise<{ port: number; tunnels: string[]; refused: number[] }> {
  const tunnels: string[] = [];
  const refused: number[] = [];
  const server = createServer((_, response) => void response.writeHead(400).end());
  const expected = `Basic ${Buffer.from(login).toString('base64')}`;
  server.on('connect', (request, client, head) => {
    client.on('error', () => {});
    if (request.headers['proxy-authorization'] !== expected) {
      refused.push(407);
      return void client.end('HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n');
    }
    tunnels.push(request.url!);
    const [host, port] = request.url!.split(':');
    const target = tcpConnect(Number(port), host, () => {
      client.write('HTTP/1.1 200 Go on\r\n\r\n');
      target.write(head);
      target.pipe(client).pipe(target);
    });
    target.on('error', () => client.destroy());
    onTestFinished(() => {
      target.destroy();
      client.destroy();
    });
  });
  return { port: await listen(server), tunnels, refused };
}
