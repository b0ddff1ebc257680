/** Servers behind URLs, through the public interface: real ones, and small ones that misbehave. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { caught, eventually, everythingServer, freePort, textOf, withManager } from './harness';

interface Seen {
  method: string;
  headers: IncomingMessage['headers'];
  message?: { id?: number; method?: string };
}

/** A server of the handshake era that answers by hand; `answer` may take a request over. */
async function byHand(
  answer: (seen: Seen, response: ServerResponse) => boolean | void,
): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const message = body ? (JSON.parse(body) as Seen['message']) : undefined;
      const one: Seen = { method: request.method ?? '', headers: request.headers, message };
      seen.push(one);
      if (answer(one, response)) return;
      if (request.method !== 'POST') return void response.writeHead(405).end();
      if (message?.id === undefined) return void response.writeHead(202).end();
      reply(response, message.id, results[message.method ?? ''] ?? {});
    });
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, seen };
}

function reply(response: ServerResponse, id: number, result: unknown, headers: Record<string, string> = {}) {
  response.writeHead(200, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
}

const results: Record<string, unknown> = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'by-hand', version: '1' },
  },
  'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
  'tools/call': { content: [{ type: 'text', text: 'hello' }] },
};

describe('real servers', () => {
  test('HTTP-04 E18 falls back to the older way and says so', async () => {
    const { port, stop } = await everythingServer('sse');
    const servers = { e: { type: 'http' as const, url: `http://127.0.0.1:${port}/sse` } };
    await withManager({ servers }, async (manager) => {
      await manager.connect();
      expect(manager.status('e')).toMatchObject({ state: 'connected', type: 'http', transport: 'sse' });
      expect(textOf(await manager.callTool('mcp__e__echo', { message: 'still' }))).toContain('still');
      // SSE-02: the stream is the session.
      stop();
      await eventually(() => manager.status('e')?.state !== 'connected');
    });
  });
});

describe('small servers', () => {
  test('mcp:HTTPL-17 HTTP-03 CAL-01 a lost session is renewed once and the refused call repeated', async () => {
    let sessions = 0;
    const { url, seen } = await byHand((one, response) => {
      if (one.message?.method === 'initialize') {
        sessions += 1;
        reply(response, one.message.id!, results.initialize, { 'mcp-session-id': `session-${sessions}` });
        return true;
      }
      if (one.message?.method === 'tools/call' && one.headers['mcp-session-id'] === 'session-1') {
        response.writeHead(404).end();
        return true;
      }
    });
    await withManager({ servers: { s: { url } } }, async (manager) => {
      await manager.connect();
      const calls = await Promise.all([1, 2, 3].map(() => manager.callTool('mcp__s__echo', {})));
      expect(calls.map((result) => textOf(result))).toEqual(['hello', 'hello', 'hello']);
      expect(sessions).toBe(2);
    });
    const handshakes = seen.filter(({ message }) => message?.method === 'initialize');
    expect(handshakes.map(({ headers }) => headers['mcp-session-id'])).toEqual([undefined, undefined]);
    expect(seen.at(-1)).toMatchObject({ method: 'DELETE', headers: { 'mcp-session-id': 'session-2' } });
  });

  test('E19 the status of a failure carries its evidence', async () => {
    const { url } = await byHand((_, response) => {
      response.writeHead(403, { 'content-type': 'text/html' }).end('<h1>Forbidden</h1>');
      return true;
    });
    await withManager({ servers: { s: { url } } }, async (manager) => {
      await manager.connect().catch(() => undefined);
      expect(manager.status('s')).toMatchObject({
        state: 'failed',
        code: 'HTTP_STATUS',
        httpStatus: 403,
        firstBytes: '<h1>Forbidden</h1>',
      });
    });
  });

  test('HTTP-03 a challenge asks for a login', async () => {
    const { url } = await byHand((_, response) => {
      response.writeHead(401, { 'www-authenticate': 'Bearer realm="x"' }).end();
      return true;
    });
    await withManager({ servers: { s: { url } } }, async (manager) => {
      await manager.connect().catch(() => undefined);
      expect(manager.status('s')).toMatchObject({
        state: 'needs-auth',
        code: 'AUTH_REQUIRED',
        httpStatus: 401,
      });
    });
  });

  test('E17 a server that is busy at first is reached', async () => {
    let asked = 0;
    const { url } = await byHand((_, response) => {
      asked += 1;
      if (asked > 2) return false;
      response.writeHead(503, { 'retry-after': '0' }).end();
      return true;
    });
    await withManager({ servers: { s: { url } }, retry: { initialDelayMs: 50 } }, async (manager) => {
      await manager.connect().catch(() => undefined);
      await eventually(() => manager.status('s')?.state === 'connected');
    });
  });

  test('D11 F-070 a closed port is no reason for the older way', async () => {
    const port = await freePort();
    const servers = { s: { url: `http://127.0.0.1:${port}/mcp` } };
    await withManager({ servers, retry: { attempts: 0 } }, async (manager) => {
      await manager.connect().catch(() => undefined);
      const status = manager.status('s');
      expect(status).toMatchObject({ state: 'failed', transport: 'http' });
      expect(status?.reason).toContain('refused');
    });
  });

  test('mcp:HTTPL-08 PRO-07 a cancelled call is told to the server', async () => {
    const { url, seen } = await byHand((one) => one.message?.method === 'tools/call');
    await withManager({ servers: { s: { url } } }, async (manager) => {
      await manager.connect();
      const error = await caught(manager.callTool('mcp__s__echo', {}, { signal: AbortSignal.timeout(100) }));
      expect(error.name).toBe('TimeoutError');
      await eventually(() => seen.some(({ message }) => message?.method === 'notifications/cancelled'));
    });
  });
});
