/**
 * Servers that answer badly (issue 3, "bad input"): whatever comes, the call settles with a typed error that shows what
 * was seen, the next call works, and other servers go on.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocketServer } from 'ws';
import type { McpManager, McpManagerOptions, ServerConfig } from '..';
import { labServer } from './fixtures/peers/sdk-v1.mjs';
import { caught, fixture, textOf, withManager, type AnyError } from './harness';

interface Message {
  id?: number;
  method?: string;
  params?: { name?: string };
}
type Era = 'legacy' | 'modern';

const TOOLS = ['bad', 'good'].map((name) => ({ name, inputSchema: { type: 'object' } }));

/** What a server without faults answers. */
function goodAnswer({ id, method = '' }: Message, era: Era): object {
  const cached = { resultType: 'complete', ttlMs: 60_000, cacheScope: 'public' };
  const extra = era === 'modern' ? cached : {};
  const capabilities = { tools: {} };
  const results: Record<Era, Record<string, object>> = {
    legacy: {
      initialize: {
        protocolVersion: '2025-11-25',
        capabilities,
        serverInfo: { name: 'by-hand', version: '1' },
      },
    },
    modern: { 'server/discover': { supportedVersions: ['2026-07-28'], capabilities, ...extra } },
  };
  const shared: Record<string, object> = {
    'tools/list': { tools: TOOLS, ...extra },
    'tools/call': { content: [{ type: 'text', text: 'good' }], ...extra },
  };
  const result = results[era][method] ?? shared[method];
  const error = { code: -32601, message: 'Method not found' };
  return result === undefined ? { jsonrpc: '2.0', id, error } : { jsonrpc: '2.0', id, result };
}

/** What becomes of a call of the tool `bad` behind a URL. */
type Answer = (response: ServerResponse, id: number) => void;

/** A server behind a URL that answers one tool badly. */
async function webServer(era: Era, bad: Answer): Promise<ServerConfig> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (request.method !== 'POST') return void response.writeHead(405).end();
      const message = JSON.parse(Buffer.concat(chunks).toString()) as Message;
      if (message.id === undefined) return void response.writeHead(202).end();
      if (message.params?.name === 'bad') return bad(response, message.id);
      response.writeHead(200, JSON_TYPE).end(JSON.stringify(goodAnswer(message, era)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp` };
}

/** Bytes of a bad message; `id` is that of the request. */
type Raw = (id: number) => string | Buffer;

/** A server of the older way over HTTP; `post` may answer the POST of the bad call itself, else `raw` is an event. */
async function sseServer(raw: Raw | undefined, post?: Answer): Promise<ServerConfig> {
  let events: ServerResponse | undefined;
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      events = response.writeHead(200, EVENTS);
      return void events.write('event: endpoint\ndata: /post\n\n');
    }
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const message = JSON.parse(Buffer.concat(chunks).toString()) as Message;
      const isBad = message.params?.name === 'bad';
      if (isBad && post !== undefined) return post(response, message.id!);
      response.writeHead(202).end();
      if (message.id === undefined) return;
      const text = isBad && raw ? raw(message.id) : JSON.stringify(goodAnswer(message, 'legacy'));
      events!.write(Buffer.concat([Buffer.from('data: '), Buffer.from(text), Buffer.from('\n\n')]));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { type: 'sse', url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/sse` };
}

/** A server behind a WebSocket that answers one tool badly. */
async function socketServer(raw: Raw): Promise<ServerConfig> {
  const sockets = new WebSocketServer({ port: 0, host: '127.0.0.1', handleProtocols: () => 'mcp' });
  await new Promise((resolve) => sockets.once('listening', resolve));
  onTestFinished(() => {
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
  });
  sockets.on('connection', (socket) => {
    socket.on('message', (data) => {
      const message = JSON.parse(String(data)) as Message;
      if (message.id === undefined) return;
      if (message.params?.name === 'bad') socket.send(raw(message.id), { binary: false });
      else socket.send(JSON.stringify(goodAnswer(message, 'legacy')));
    });
  });
  return { type: 'ws', url: `ws://127.0.0.1:${(sockets.address() as AddressInfo).port}` };
}

/** A process that answers one tool with `bytes`, in which `"$ID"` stands for the id. */
function processServer(bytes: Buffer): ServerConfig {
  return {
    command: process.execPath,
    args: [fixture('says.mjs')],
    env: { SAYS: bytes.toString('base64'), TOOLS: JSON.stringify(TOOLS) },
  };
}

/**
 * The error of the bad call; a good call of another server beside it, and one of the same server after it, work. A
 * server that asks for a login waits for a person instead (LIF-04).
 */
async function failure(
  s: ServerConfig,
  { timeoutMs = 10_000, ...options }: McpManagerOptions & { timeoutMs?: number } = {},
): Promise<AnyError> {
  const retry = { initialDelayMs: 20, maxDelayMs: 100 };
  return withManager({ retry, ...options, servers: { s } }, async (manager) => {
    await manager.addSdkServer('other', labServer());
    await manager.connect('s');
    const [error] = await Promise.all([
      caught(manager.callTool('mcp__s__bad', {}, { timeoutMs })),
      goOn(manager, 'mcp__other__echo', { text: 'good' }),
    ]);
    if (error.code === 'AUTH_REQUIRED') expect(manager.status('s')?.state).toBe('needs-auth');
    else await goOn(manager, 'mcp__s__good');
    await goOn(manager, 'mcp__other__echo', { text: 'good' });
    expect(error['server']).toBe('s');
    return error;
  });
}

async function goOn(manager: McpManager, tool: string, args: object = {}): Promise<void> {
  expect(textOf(await manager.callTool(tool, args))).toBe('good');
}

const JSON_TYPE = { 'content-type': 'application/json' };
const EVENTS = { 'content-type': 'text/event-stream' };
const OK = '"result":{"content":[]}';
const NOT_UTF8 = Buffer.from('{"jsonrpc":"2.0","id":"$ID","result":{"content":"\u0000"}}');
NOT_UTF8[NOT_UTF8.indexOf(0)] = 0xff;

/** No message at all, or none that says which request it answers. */
const UNRELATED: [string, string][] = [
  ['what is not JSON', '{oops'],
  ['a log line', 'listening on port 3000'],
  ['a number', '5'],
  ['null', 'null'],
  ['a text', '"text"'],
  ['an empty batch', '[]'],
  ['a batch of rubbish', '[1,{}]'],
  ['no version', `{"id":"$ID",${OK}}`],
  ['another version', `{"jsonrpc":"1.0","id":"$ID",${OK}}`],
  ['half a message', '{"jsonrpc":"2.0","id":"$ID","result":{"content":['],
  ['a message and a half', `{"jsonrpc":"2.0","id":"$ID",${OK}} trailing`],
  ['a member twice', `{"jsonrpc":"2.0","id":7,"id":"$ID",${OK}}`],
  ['the id of nobody', `{"jsonrpc":"2.0","id":987654,${OK}}`],
  ['an id beyond all numbers', `{"jsonrpc":"2.0","id":1e999,${OK}}`],
  ['the id null', `{"jsonrpc":"2.0","id":null,${OK}}`],
  ['no id', `{"jsonrpc":"2.0",${OK}}`],
];

const answers = (members: string) => `{"jsonrpc":"2.0","id":"$ID"${members}}`;

/** An answer to our request that is none. */
const CONTRADICTORY: [string, string, string][] = [
  ['neither result nor error', answers(''), 'MESSAGE_INVALID'],
  ['result and error', answers(`,${OK},"error":{"code":1,"message":"x"}`), 'MESSAGE_INVALID'],
  ['the result null', answers(',"result":null'), 'MESSAGE_INVALID'],
  ['the error null', answers(',"error":null'), 'MESSAGE_INVALID'],
  ['a text as error', answers(',"error":"broken"'), 'MESSAGE_INVALID'],
  ['an error without code', answers(',"error":{"message":"x"}'), 'MESSAGE_INVALID'],
  ['a text as code', answers(',"error":{"code":"x","message":"x"}'), 'MESSAGE_INVALID'],
  ['a fraction as code', answers(',"error":{"code":1.5,"message":"x"}'), 'MESSAGE_INVALID'],
  ['a number as result', answers(',"result":5'), 'RESULT_INVALID'],
  ['a list as result', answers(',"result":[]'), 'RESULT_INVALID'],
  [
    'a result of ten thousand levels',
    answers(`,"result":{"content":${'['.repeat(10_000)}${']'.repeat(10_000)}}`),
    'RESULT_INVALID',
  ],
];

const withId =
  (text: string): Raw =>
  (id) =>
    text.replace('"$ID"', String(id));

/** The beginning of a bad message, as it is shown. */
const shownOf = (text: string) => text.replace(/"\$ID".*/, '');

describe.each<Era>(['legacy', 'modern'])('Streamable HTTP, %s era', (era) => {
  const call = async (bad: Answer, options?: Parameters<typeof failure>[1]) =>
    failure(await webServer(era, bad), options);

  const statuses = [
    300, 304, 305, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417,
    418, 421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 499, 500, 501, 502, 503, 504, 505, 507, 508, 511,
    520, 599, 999,
  ];
  const codes: Record<number, string> = { 401: 'AUTH_REQUIRED', 407: 'PROXY_FAILED' };

  test.each(statuses)('HTTP-03 E19 status %i', async (status) => {
    const body = status === 304 ? '' : '<h1>What went wrong</h1>';
    const headers = { 'content-type': 'text/html', 'retry-after': '0' };
    const error = await call((response) => response.writeHead(status, headers).end(body));
    expect(error.code).toBe(codes[status] ?? 'HTTP_STATUS');
    if (status !== 401) {
      expect(error['status']).toBe(status);
      expect(error['firstBytes']).toBe(body || undefined);
    }
    if (status !== 407) expect(error.message).toContain(String(status));
  });

  test.each([
    ['text/html', '<h1>Please log in</h1>'],
    ['text/plain', 'all is well'],
    ['image/png', '\u0089PNG'],
    ['application/xml', '<ok/>'],
    ['application/octet-stream', '{}'],
    ['application/json', '<h1>Please log in</h1>'],
  ])('HTTP-01 wrong content as %s', async (type, body) => {
    const error = await call((response) => response.writeHead(200, { 'content-type': type }).end(body));
    expect(error).toMatchObject({ code: 'MESSAGE_INVALID', status: 200, delivered: 'unknown' });
    expect(error['firstBytes']).toContain(body.slice(1));
  });

  test.each<[string, number]>([
    ['204', 204],
    ['205', 205],
    ['202', 202],
    ['an empty 200', 200],
  ])('HTTP-01 %s is no answer', async (_, status) => {
    const error = await call((response) => response.writeHead(status).end());
    expect(error).toMatchObject({ code: 'MESSAGE_INVALID', status });
  });

  const broken =
    (head: Record<string, string | number>, part: string): Answer =>
    (response) => {
      response.writeHead(200, head).write(part);
      setTimeout(() => response.destroy(), 20);
    };
  const packed = gzipSync(Buffer.alloc(50 << 20, 32));
  const small = { maxMessageBytes: 100_000 };
  const flood = 'x'.repeat(1 << 20);

  test.each<[string, Answer, string]>([
    ['at its length', broken({ ...JSON_TYPE, 'content-length': 1000 }, '{"json'), 'CONNECTION_LOST'],
    ['in chunks', broken(JSON_TYPE, '{"json'), 'CONNECTION_LOST'],
    ['inside an event', broken(EVENTS, 'data: {"json'), 'CONNECTION_LOST'],
    ['before the event', (response) => response.writeHead(200, EVENTS).end(': hello\n\n'), 'CONNECTION_LOST'],
    ['before the head', (response) => void response.destroy(), 'CONNECTION_LOST'],
    ['by another protocol', (response) => void response.socket!.end('220 mail\r\n'), 'CONNECTION_LOST'],
  ])('F-040 a body cut %s', async (_, bad, code) => {
    expect(await call(bad)).toMatchObject({ code, delivered: 'unknown' });
  });

  test.each<[string, Answer]>([
    ['a body', (response) => response.writeHead(200, JSON_TYPE).end(flood)],
    [
      'a body that is announced',
      (response) => void response.writeHead(200, { ...JSON_TYPE, 'content-length': 1 << 30 }).write('{'),
    ],
    ['an event', (response) => response.writeHead(200, EVENTS).end(`data: ${flood}\n\n`)],
    ['a line without end', (response) => void response.writeHead(200, EVENTS).write(`: ${flood}`)],
  ])('E13 %s above maxMessageBytes', async (_, bad) => {
    expect(await call(bad, small)).toMatchObject({ code: 'MESSAGE_TOO_LARGE' });
  });

  test('E13 a page above maxMessageBytes with status 500', async () => {
    const error = await call((response) => response.writeHead(500).end(flood), small);
    expect(error).toMatchObject({ code: 'HTTP_STATUS', status: 500 });
    expect(String(error['firstBytes']).length).toBeLessThanOrEqual(2048);
  });

  test.each<[string, Answer]>([
    ['JSON', (response) => response.writeHead(200, { ...JSON_TYPE, 'content-encoding': 'gzip' }).end(packed)],
    ['events', (response) => response.writeHead(200, { ...EVENTS, 'content-encoding': 'gzip' }).end(packed)],
    [
      'JSON by another way',
      (response) =>
        response
          .writeHead(200, { ...JSON_TYPE, 'content-encoding': 'br' })
          .end(brotliCompressSync(Buffer.alloc(1 << 20, 32))),
    ],
  ])('B-103 a gzip bomb as %s is never unpacked', async (_, bad) => {
    const error = await call(bad);
    expect(error).toMatchObject({ code: 'MESSAGE_INVALID', status: 200 });
    expect(error.message).toContain('compressed');
  });

  test('B-103 packed bytes of an error are not shown', async () => {
    const error = await call((response) =>
      response.writeHead(500, { 'content-encoding': 'gzip' }).end(packed),
    );
    expect(error).toMatchObject({ code: 'HTTP_STATUS', status: 500 });
    expect(error['firstBytes']).toBeUndefined();
  });

  const drip =
    (begin: (response: ServerResponse) => void, drop: (response: ServerResponse) => void): Answer =>
    (response) => {
      begin(response);
      const timer = setInterval(() => drop(response), 20);
      response.on('close', () => clearInterval(timer));
    };
  const dripping: [string, Answer][] = [
    ['no head at all', () => {}],
    [
      'a head',
      drip(
        (response) => void response.socket!.write('HTTP/1.1 200 OK\r\n'),
        (response) => void response.socket!.write('X: y\r\n'),
      ),
    ],
    [
      'JSON',
      drip(
        (response) => response.writeHead(200, JSON_TYPE),
        (response) => response.write(' '),
      ),
    ],
    [
      'comments',
      drip(
        (response) => response.writeHead(200, EVENTS),
        (response) => response.write(': x\n\n'),
      ),
    ],
  ];

  test.each(dripping)('F-055 B-098 a slow drip of %s ends at the clock of the call', async (_, bad) => {
    expect(await call(bad, { timeoutMs: 400 })).toMatchObject({ code: 'TIMEOUT', kind: 'idle' });
  });

  test('F-055 a page with status 500 that never ends', async () => {
    const error = await call(
      drip(
        (response) => response.writeHead(500, { 'content-type': 'text/html' }).write('<h1>Oh'),
        (response) => response.write(' '),
      ),
      { timeoutMs: 25_000 },
    );
    expect(error).toMatchObject({ code: 'HTTP_STATUS', status: 500, firstBytes: '<h1>Oh' });
  });

  test.each(UNRELATED)('PRO-01 %s as JSON', async (_, text) => {
    const error = await call((response, id) => response.writeHead(200, JSON_TYPE).end(withId(text)(id)));
    expect(error).toMatchObject({ code: 'MESSAGE_INVALID', status: 200, delivered: 'unknown' });
    expect(error['firstBytes']).toContain(shownOf(text));
  });

  test.each(UNRELATED)('PRO-01 %s as the only event', async (name, text) => {
    const error = await call((response, id) =>
      response.writeHead(200, EVENTS).end(`data: ${String(withId(text)(id))}\n\n`),
    );
    expect(error).toMatchObject({ code: 'CONNECTION_LOST', delivered: 'unknown' });
    // A message to somebody else is one.
    if (!/\bid\b/.test(name)) expect(error['firstBytes']).toContain(shownOf(text));
  });

  test.each(CONTRADICTORY)('PRO-01 %s', async (_, text, code) => {
    const answer = withId(text);
    const error = await call((response, id) => response.writeHead(200, JSON_TYPE).end(answer(id)));
    expect(error.code).toBe(code);
    if (code === 'MESSAGE_INVALID') expect(error['firstBytes']).toContain(shownOf(text));
    const asEvent = await call((response, id) =>
      response.writeHead(200, EVENTS).end(`data: ${String(answer(id))}\n\n`),
    );
    expect(asEvent.code).toBe(code);
  });

  test('PRO-01 what is not UTF-8', async () => {
    const error = await call((response) => response.writeHead(200, JSON_TYPE).end(NOT_UTF8));
    expect(error).toMatchObject({ code: 'MESSAGE_INVALID', status: 200 });
  });
});

describe('the older way over HTTP', () => {
  test.each([400, 401, 403, 404, 405, 410, 413, 415, 429, 500, 502, 503, 504])(
    'E7 status %i to a POST',
    async (status) => {
      const headers = { 'content-type': 'text/plain', 'retry-after': '0' };
      const post: Answer = (response) => response.writeHead(status, headers).end('what went wrong');
      const error = await failure(await sseServer(undefined, post));
      expect(error.code).toBe(status === 401 ? 'AUTH_REQUIRED' : 'HTTP_STATUS');
      expect(error.message).toContain(String(status));
      if (status !== 401) expect(error).toMatchObject({ status, firstBytes: 'what went wrong' });
    },
  );

  test('E13 an event above maxMessageBytes', async () => {
    const error = await failure(await sseServer(() => 'x'.repeat(1 << 20)), {
      maxMessageBytes: 100_000,
      timeoutMs: 1000,
    });
    expect(['MESSAGE_TOO_LARGE', 'TIMEOUT']).toContain(error.code);
  });

  test.each<[string, string, string]>([
    ['another host', 'http://elsewhere.example/post', 'ENDPOINT_ORIGIN_MISMATCH'],
    ['another port', 'http://127.0.0.1:9/post', 'ENDPOINT_ORIGIN_MISMATCH'],
    ['another scheme', 'https://127.0.0.1/post', 'ENDPOINT_ORIGIN_MISMATCH'],
    ['the same by its second name', '//localhost/post', 'ENDPOINT_ORIGIN_MISMATCH'],
    ['no web at all', 'file:///etc/passwd', 'ENDPOINT_ORIGIN_MISMATCH'],
  ])('SSE-01 B-101 an endpoint at %s is refused, and the other servers go on', async (_, endpoint, code) => {
    let posts = 0;
    const server = createServer((request, response) => {
      if (request.method === 'POST') posts += 1;
      response.writeHead(200, EVENTS).write(`event: endpoint\ndata: ${endpoint}\n\n`);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/sse`;
    await withManager({ servers: { s: { type: 'sse', url } } }, async (manager) => {
      await manager.addSdkServer('other', labServer());
      expect(await caught(manager.connect('s'))).toMatchObject({ code, server: 's' });
      expect(manager.status('s')).toMatchObject({ state: 'failed', code });
      expect(posts).toBe(0);
      await goOn(manager, 'mcp__other__echo', { text: 'good' });
    });
  });
});

/** Over a shared channel nobody can tell which call an unrelated message was for: its clock decides. */
describe.each<[string, (raw: Raw, text: string) => Promise<ServerConfig>]>([
  ['standard output', async (_, text) => processServer(Buffer.from(text))],
  ['a WebSocket', (raw) => socketServer(raw)],
  ['the older way over HTTP', (raw) => sseServer(raw)],
])('over %s', (_name, reach) => {
  test.each(UNRELATED)('PRO-01 C1 %s is no answer', async (_, text) => {
    const error = await failure(await reach(withId(text), text), { timeoutMs: 400 });
    expect(error).toMatchObject({ code: 'TIMEOUT', kind: 'idle' });
  });

  test.each(CONTRADICTORY)('PRO-01 %s settles the call', async (_, text, code) => {
    const error = await failure(await reach(withId(text), text));
    expect(error.code).toBe(code);
    if (code === 'MESSAGE_INVALID') expect(error['firstBytes']).toContain(shownOf(text));
  });
});

describe('bytes that are no text', () => {
  test('PRO-01 in a WebSocket end the connection, which comes back', async () => {
    const error = await failure(await socketServer(() => NOT_UTF8));
    expect(error).toMatchObject({ code: 'CONNECTION_LOST', delivered: 'unknown' });
  });

  test('C6 on standard output are no message', async () => {
    const error = await failure(processServer(NOT_UTF8), { timeoutMs: 400 });
    expect(['TIMEOUT', 'MESSAGE_INVALID']).toContain(error.code);
  });
});

describe('while a server is connected', () => {
  test.each<[string, Answer, string]>([
    ['drips its answer', () => {}, 'CONNECT_TIMEOUT'],
    [
      'sends a page',
      (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>'),
      'MESSAGE_INVALID',
    ],
    ['breaks off', (response) => void response.destroy(), 'CONNECTION_LOST'],
  ])('F-004 one that %s holds up nobody', async (_, first, code) => {
    const server = createServer((_request, response) => first(response, 0));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    const options = { connectTimeoutMs: 500, retry: { initialDelayMs: 20_000 } };
    await withManager({ ...options, servers: { s: { url } } }, async (manager) => {
      const error = caught(manager.connect('s'));
      await manager.addSdkServer('other', labServer());
      await goOn(manager, 'mcp__other__echo', { text: 'good' });
      expect(await error).toMatchObject({ code, server: 's' });
      await goOn(manager, 'mcp__other__echo', { text: 'good' });
    });
  });
});
