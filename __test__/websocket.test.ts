/** Servers behind a WebSocket (WS-01, WS-02, F-053, F-068), against a server made with the `ws` package. */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server as HttpServer } from 'node:http';
import {
  connect as tcpConnect,
  createServer as createTcpServer,
  type AddressInfo,
  type Socket,
} from 'node:net';
import { createServer as createTlsServer } from 'node:https';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocketServer, type WebSocket } from 'ws';
import type { JsonObject, McpManager, McpManagerOptions, WebSocketServerConfig } from '..';
import { caught, eventually, fixture, jsonOf, nextEvent, pause, textOf, withManager } from './harness';

interface Message {
  id?: number | string;
  method?: string;
  params?: { name?: string; arguments?: JsonObject; requestId?: number; _meta?: { progressToken: number } };
  result?: unknown;
}

type Tool = (args: JsonObject, message: Message, socket: WebSocket) => unknown;

/** A server that speaks MCP over WebSocket; what it does is written into `tools`. */
class Peer {
  port = 0;
  upgrades: IncomingMessage[] = [];
  sockets: WebSocket[] = [];
  received: Message[] = [];
  closes: number[] = [];
  tools: Record<string, Tool> = {
    echo: (args) => text(JSON.stringify(args)),
    make: ({ size }) => text('é'.repeat(Number(size))),
  };

  constructor(
    readonly http: HttpServer,
    readonly options: { protocol?: string | false; autoPong?: boolean } = {},
  ) {}

  async start(): Promise<this> {
    const { protocol = 'mcp', autoPong = true } = this.options;
    const server = new WebSocketServer({
      server: this.http,
      autoPong,
      handleProtocols: () => protocol as string,
      maxPayload: 64 * 1024 * 1024,
    });
    server.on('connection', (socket, request) => {
      this.upgrades.push(request);
      this.sockets.push(socket);
      socket.on('message', (data, binary) => {
        if (binary) throw new Error('messages are text');
        void this.take(JSON.parse(String(data)) as Message, socket);
      });
      socket.on('close', (code) => this.closes.push(code));
      socket.on('error', () => {});
    });
    await new Promise<void>((resolve) => this.http.listen(0, '127.0.0.1', resolve));
    this.port = (this.http.address() as AddressInfo).port;
    onTestFinished(() => this.stop());
    return this;
  }

  stop(): void {
    for (const socket of this.sockets) socket.terminate();
    this.http.closeAllConnections();
    this.http.close();
  }

  get last(): WebSocket {
    return this.sockets.at(-1)!;
  }

  send(message: JsonObject): void {
    this.last.send(JSON.stringify({ jsonrpc: '2.0', ...message }));
  }

  async take(message: Message, socket: WebSocket): Promise<void> {
    this.received.push(message);
    const { id, method } = message;
    if (id === undefined || method === undefined) return;
    const reply = (result: unknown) => socket.send(JSON.stringify({ jsonrpc: '2.0', id, result }));
    if (method === 'initialize') {
      const serverInfo = { name: 'peer', version: '1' };
      reply({ protocolVersion: '2025-11-25', capabilities: { tools: { listChanged: true } }, serverInfo });
    } else if (method === 'tools/list') {
      reply({ tools: Object.keys(this.tools).map((name) => ({ name, inputSchema: { type: 'object' } })) });
    } else if (method === 'tools/call') {
      const result = await this.tools[message.params!.name!](
        message.params!.arguments ?? {},
        message,
        socket,
      );
      if (result !== undefined) reply(result);
    } else {
      reply({});
    }
  }
}

const text = (value: string) => ({ content: [{ type: 'text', text: value }] });
const peer = (options?: Peer['options']) => new Peer(createServer(), options).start();
const FAST: McpManagerOptions = { retry: { initialDelayMs: 20, maxDelayMs: 50 } };

/** A manager with the peer as its server `s`. */
function withPeer<T>(
  { port }: Peer,
  body: (manager: McpManager) => Promise<T>,
  options: McpManagerOptions = {},
  config: Partial<WebSocketServerConfig> = {},
): Promise<T> {
  const s = { type: 'ws', url: `ws://127.0.0.1:${port}/mcp?x=1`, ...config } as WebSocketServerConfig;
  return withManager({ ...FAST, ...options, servers: { s } }, async (manager) => {
    await manager.connect();
    return body(manager);
  });
}

describe('WS-01 a server behind a WebSocket', () => {
  test('mcp:CUST-01 mcp:CUST-07 is listed and called; the upgrade carries protocol, headers, path and query', async () => {
    const server = await peer();
    await withPeer(
      server,
      async (manager) => {
        expect(manager.status('s')).toMatchObject({ state: 'connected', type: 'ws', toolCount: 2 });
        expect(jsonOf(await manager.callTool('mcp__s__echo', { a: 'ü' }))).toEqual({ a: 'ü' });
        const [{ url, headers }] = server.upgrades;
        expect(url).toBe('/mcp?x=1');
        expect(headers).toMatchObject({
          'sec-websocket-protocol': 'mcp',
          'sec-websocket-version': '13',
          authorization: 'Bearer abcdefgh',
          host: `127.0.0.1:${server.port}`,
        });
        expect(await manager.ping('s')).toBeGreaterThanOrEqual(0);
      },
      {},
      { headers: { Authorization: 'Bearer abcdefgh' } },
    );
    await eventually(() => server.closes.length === 1);
    expect(server.closes).toEqual([1000]);
  });

  test('that selects no sub-protocol is accepted', async () => {
    const server = await peer({ protocol: false });
    await withPeer(server, async (manager) => {
      expect(server.last.protocol).toBe('');
      expect(jsonOf(await manager.callTool('mcp__s__echo', { a: 1 }))).toEqual({ a: 1 });
    });
  });

  test('that selects another sub-protocol is not', async () => {
    const server = await peer({ protocol: 'graphql' });
    await withPeer(server, async (manager) => {
      expect(manager.status('s')).toMatchObject({ code: 'CONNECT_FAILED' });
      expect(manager.status('s')!.reason).toContain('graphql');
    });
  });

  test('mcp:CUST-05 reports progress, and learns of a cancellation', async () => {
    const server = await peer();
    server.tools['steps'] = (_, { params }, socket) => {
      for (const progress of [1, 2]) {
        const notice = { progressToken: params!._meta!.progressToken, progress };
        socket.send(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params: notice }));
      }
      return text('done');
    };
    server.tools['wait'] = () => undefined;
    await withPeer(server, async (manager) => {
      const seen: number[] = [];
      await manager.callTool('mcp__s__steps', {}, { onProgress: ({ progress }) => seen.push(progress) });
      expect(seen).toEqual([1, 2]);
      const controller = new AbortController();
      const call = caught(manager.callTool('mcp__s__wait', {}, { signal: controller.signal }));
      await eventually(() => server.received.at(-1)!.params?.name === 'wait');
      const { id } = server.received.at(-1)!;
      controller.abort();
      expect((await call).name).toBe('AbortError');
      const cancel = await eventually(() =>
        server.received.find(({ method }) => method === 'notifications/cancelled'),
      );
      expect(cancel.params!.requestId).toBe(id);
    });
  });

  test('may notify and ask', async () => {
    const server = await peer();
    await withPeer(
      server,
      async (manager) => {
        const changed = nextEvent(manager, 'toolsChanged');
        server.tools['late'] = () => text('late');
        server.send({ method: 'notifications/tools/list_changed' });
        await changed;
        expect((await manager.listTools()).map(({ name }) => name)).toContain('mcp__s__late');
        server.send({ id: 'r1', method: 'roots/list' });
        const answer = await eventually(() => server.received.find(({ id }) => id === 'r1'));
        expect(answer.result).toEqual({ roots: [{ uri: 'file:///here' }] });
      },
      { roots: ['file:///here'] },
    );
  });

  test('large messages go both ways; MESSAGE_TOO_LARGE above the limit, and it comes back', async () => {
    const server = await peer();
    await withPeer(
      server,
      async (manager) => {
        const big = 'ß'.repeat(1_000_000);
        expect(jsonOf(await manager.callTool('mcp__s__echo', { big })).big).toBe(big);
        const error = await caught(manager.callTool('mcp__s__make', { size: 3_000_000 }));
        expect(error).toMatchObject({ code: 'MESSAGE_TOO_LARGE', server: 's' });
        expect(textOf(await manager.callTool('mcp__s__make', { size: 2 }))).toBe('éé');
        expect(server.sockets.length).toBe(2);
      },
      { maxMessageBytes: 4_000_000 },
    );
  });

  test('F-068 mcp:CUST-07 a text in a thousand frames is one message', async () => {
    const server = await peer();
    server.tools['pieces'] = (_, { id }, socket) => {
      const whole = JSON.stringify({ jsonrpc: '2.0', id, result: text('é'.repeat(5000)) });
      const bytes = Buffer.from(whole);
      const size = Math.ceil(bytes.length / 1000);
      for (let at = 0; at < bytes.length; at += size) {
        socket.send(bytes.subarray(at, at + size), { binary: false, fin: at + size >= bytes.length });
      }
    };
    await withPeer(server, async (manager) => {
      expect(textOf(await manager.callTool('mcp__s__pieces'))).toBe('é'.repeat(5000));
    });
  });

  test('binary frames are refused: an answer fails its call, anything else is reported', async () => {
    const server = await peer();
    server.tools['binary'] = (_, { id }, socket) => {
      socket.send(Buffer.from('nonsense'));
      socket.send(Buffer.from(JSON.stringify({ jsonrpc: '2.0', id, result: text('x') })));
    };
    await withPeer(server, async (manager) => {
      const noise = nextEvent(manager, 'diagnostic', ({ message }) => message.includes('binary'));
      expect((await caught(manager.callTool('mcp__s__binary'))).code).toBe('MESSAGE_INVALID');
      await noise;
      expect(jsonOf(await manager.callTool('mcp__s__echo', { a: 1 }))).toEqual({ a: 1 });
      expect(server.sockets.length).toBe(1);
    });
  });

  test('ws-ide sends its token in its own header', async () => {
    const server = await peer();
    const ide = {
      type: 'ws-ide',
      url: `ws://127.0.0.1:${server.port}`,
      ideName: 'Editor',
      authToken: 'secret-token',
    } as const;
    await withManager({ ...FAST, servers: { ide } }, async (manager) => {
      await manager.connect();
      expect(manager.status('ide')).toMatchObject({ state: 'connected', type: 'ws-ide' });
      expect(server.upgrades[0].headers['x-claude-code-ide-authorization']).toBe('secret-token');
    });
  });
});

describe('F-068 the end of a connection', () => {
  const calm: McpManagerOptions = { retry: { initialDelayMs: 200, maxDelayMs: 200 } };

  test.each([1001, 1008, 1011, 1012, 1013, 4001])('code %i is reported, and it comes back', async (code) => {
    const server = await peer();
    server.tools['end'] = (_args, _message, socket) => socket.close(code, 'because');
    await withPeer(
      server,
      async (manager) => {
        const error = await caught(manager.callTool('mcp__s__end'));
        expect(error).toMatchObject({
          code: 'CONNECTION_LOST',
          server: 's',
          delivered: 'unknown',
          retryable: true,
        });
        expect(error.message).toContain(String(code));
        expect(error.message).toContain('because');
        expect(error['data']).toEqual({ closeCode: code, closeReason: 'because' });
        expect(jsonOf(await manager.callTool('mcp__s__echo', { a: 1 }))).toEqual({ a: 1 });
        expect(server.sockets.length).toBe(2);
      },
      calm,
    );
  });

  test('1006 without a goodbye', async () => {
    const server = await peer();
    server.tools['die'] = (_args, _message, socket) => socket.terminate();
    await withPeer(
      server,
      async (manager) => {
        const lost = nextEvent(manager, 'status', ({ state }) => state === 'pending');
        const error = await caught(manager.callTool('mcp__s__die'));
        expect(error).toMatchObject({ code: 'CONNECTION_LOST' });
        expect(error['data']).toMatchObject({ closeCode: 1006 });
        expect(await lost).toMatchObject({ code: 'CONNECTION_LOST' });
        await nextEvent(manager, 'status', ({ state }) => state === 'connected');
      },
      calm,
    );
  });

  test('closing takes 2 s at most when the server neither answers nor hangs up', async () => {
    const server = await peer();
    let begin = 0;
    await withPeer(server, async () => {
      (server.last as unknown as { _socket: Socket })._socket.pause();
      begin = Date.now();
    });
    expect(Date.now() - begin).toBeLessThan(2000);
  });

  test('WS-01 F-058 a server that answers no ping is given up', async () => {
    const server = await peer({ autoPong: false });
    await withPeer(
      server,
      async (manager) => {
        const lost = await nextEvent(manager, 'status', ({ state }) => state === 'pending');
        expect(lost.reason).toContain('pongTimeoutMs');
        await nextEvent(manager, 'status', ({ state }) => state === 'connected');
      },
      { ws: { pingIntervalMs: 100, pongTimeoutMs: 100 } },
    );
  });

  test('a server that answers pings stays', async () => {
    const server = await peer();
    let pings = 0;
    await withPeer(
      server,
      async (manager) => {
        server.last.on('ping', () => (pings += 1));
        await pause(500);
        expect(manager.status('s')!.state).toBe('connected');
        expect(server.sockets.length).toBe(1);
        expect(pings).toBeGreaterThan(2);
      },
      { ws: { pingIntervalMs: 50, pongTimeoutMs: 50 } },
    );
  });

  test('STD-07 a server that does not read costs a bounded queue', async () => {
    const server = await peer();
    await withPeer(
      server,
      async (manager) => {
        (server.last as unknown as { _socket: Socket })._socket.pause();
        const blob = 'x'.repeat(1_000_000);
        const calls = Array.from({ length: 40 }, () =>
          caught(manager.callTool('mcp__s__echo', { blob }, { timeoutMs: 1500 })),
        );
        const codes = (await Promise.all(calls)).map(({ code }) => code);
        expect(new Set(codes)).toEqual(new Set(['TRANSPORT_BACKPRESSURE', 'TIMEOUT']));
      },
      { maxQueuedBytes: 2_000_000 },
    );
  });
});

describe('servers that refuse the upgrade', () => {
  /** The status of a server whose HTTP side answers the upgrade like this. */
  async function refused(status: number, body: string, headers: Record<string, string> = {}) {
    const http = createServer((_, response) => response.writeHead(status, headers).end(body));
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void http.close());
    const { port } = http.address() as AddressInfo;
    const s = { type: 'ws', url: `ws://127.0.0.1:${port}/` } as const;
    return withManager({ retry: { initialDelayMs: 5000 }, servers: { s } }, async (manager) => {
      await manager.connect();
      return manager.status('s')!;
    });
  }

  test('401 is AUTH_REQUIRED', async () => {
    expect(await refused(401, 'who are you')).toMatchObject({
      state: 'needs-auth',
      code: 'AUTH_REQUIRED',
      httpStatus: 401,
      firstBytes: 'who are you',
    });
  });

  test('404 is HTTP_STATUS for good, with the first bytes', async () => {
    expect(await refused(404, 'nothing here')).toMatchObject({
      state: 'failed',
      code: 'HTTP_STATUS',
      httpStatus: 404,
      firstBytes: 'nothing here',
    });
  });

  test('503 passes', async () => {
    expect(await refused(503, '')).toMatchObject({ state: 'pending', code: 'HTTP_STATUS', httpStatus: 503 });
  });

  test('what is no HTTP says so', async () => {
    const tcp = createTcpServer((socket) => socket.on('error', () => {}).end('SSH-2.0-x\r\n'));
    await new Promise<void>((resolve) => tcp.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void tcp.close());
    const s = { type: 'ws', url: `ws://127.0.0.1:${(tcp.address() as AddressInfo).port}` } as const;
    await withManager({ retry: { initialDelayMs: 5000 }, servers: { s } }, async (manager) => {
      await manager.connect();
      expect(manager.status('s')).toMatchObject({ code: 'CONNECT_FAILED', firstBytes: 'SSH-2.0-x' });
    });
  });

  test('CONNECT_TIMEOUT for silence; CONNECT_FAILED where nobody listens', async () => {
    const tcp = createTcpServer((socket) => socket.on('error', () => {}).resume());
    await new Promise<void>((resolve) => tcp.listen(0, '127.0.0.1', resolve));
    const { port } = tcp.address() as AddressInfo;
    const s = { type: 'ws', url: `ws://localhost:${port}`, connectTimeoutMs: 300 } as const;
    await withManager({ retry: { initialDelayMs: 5000 }, servers: { s } }, async (manager) => {
      await manager.connect();
      expect(manager.status('s')!.code).toBe('CONNECT_TIMEOUT');
      await new Promise((resolve) => tcp.close(resolve));
      expect((await caught(manager.reconnect('s'))).code).toBe('CONNECT_FAILED');
    });
  });
});

describe('WS-02 F-053 through a proxy', () => {
  /** A proxy that opens tunnels, or answers as told. It notes the heads it received. */
  async function proxy(answer?: (socket: Socket) => void) {
    const heads: string[] = [];
    const server = createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', (data) => {
        heads.push(String(data));
        if (answer !== undefined) return answer(socket);
        const [, host, port] = /^CONNECT ([^:]+):(\d+) /.exec(String(data))!;
        const far = tcpConnect(Number(port), host, () => {
          socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
          socket.pipe(far).pipe(socket);
        });
        far.on('error', () => socket.destroy());
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    return { heads, url: `http://us%40er:pass-word@127.0.0.1:${(server.address() as AddressInfo).port}` };
  }

  test('the tunnel is opened with the login', async () => {
    const [server, { heads, url }] = await Promise.all([peer(), proxy()]);
    await withPeer(
      server,
      async (manager) => {
        expect(jsonOf(await manager.callTool('mcp__s__echo', { a: 1 }))).toEqual({ a: 1 });
        expect(heads[0]).toContain(`CONNECT 127.0.0.1:${server.port} HTTP/1.1\r\n`);
        expect(heads[0]).toContain(
          `Proxy-Authorization: Basic ${Buffer.from('us@er:pass-word').toString('base64')}`,
        );
        expect(JSON.stringify(server.upgrades[0].headers)).not.toContain('roxy');
      },
      {},
      { proxy: url } as object,
    );
  });

  test.each<[string, (socket: Socket) => void, string]>([
    ['407', (socket) => socket.end('HTTP/1.1 407 Login\r\n\r\n'), '407'],
    ['502', (socket) => socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'), '502'],
    ['a hang', () => {}, 'within'],
    ['a head without end', (socket) => socket.write(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(17_000)}`), 'longer'],
    ['a close', (socket) => socket.destroy(), 'closed'],
    ['no HTTP', (socket) => socket.end('220 mail\r\n'), 'HTTP'],
  ])('%s is PROXY_FAILED without the password', async (_name, answer, word) => {
    const { url } = await proxy(answer);
    const s = {
      type: 'ws',
      url: 'ws://server.example/',
      proxy: url,
      connectTimeoutMs: 1000,
    } as WebSocketServerConfig;
    await withManager({ retry: { initialDelayMs: 5000 }, servers: { s } }, async (manager) => {
      const error = await caught(manager.connect('s'));
      expect(error).toMatchObject({ code: 'PROXY_FAILED', server: 's' });
      expect(error.message).toMatch(new RegExp(`${word}|broke`));
      expect(JSON.stringify([error, error.message, manager.status(), manager.configReport()])).not.toContain(
        'pass-word',
      );
    });
  });
});

describe('wss', () => {
  test('TLS_FAILED for a certificate nobody vouches for; works when told not to look, or whom to trust', async () => {
    // A self-signed certificate of a key that protects nothing.
    const cert = readFileSync(fixture('tls', 'localhost-cert.pem'), 'utf8');
    const key = readFileSync(fixture('tls', 'localhost-key.pem'), 'utf8');
    const server = await new Peer(createTlsServer({ cert, key }) as unknown as HttpServer).start();
    const url = `wss://localhost:${server.port}/`;
    const connected = async (tls: object) => {
      const s = { type: 'ws', url, tls } as WebSocketServerConfig;
      return withManager({ ...FAST, servers: { s } }, async (manager) => {
        await manager.connect();
        const status = manager.status('s')!;
        if (status.state === 'connected') {
          expect(jsonOf(await manager.callTool('mcp__s__echo', { a: 1 }))).toEqual({ a: 1 });
        }
        return status;
      });
    };
    expect(await connected({})).toMatchObject({ state: 'failed', code: 'TLS_FAILED' });
    expect(await connected({ insecureSkipVerify: true })).toMatchObject({ state: 'connected' });
    // Elsewhere the system's own rules limit how long a certificate may be valid.
    if (process.platform === 'linux')
      expect(await connected({ ca: cert })).toMatchObject({ state: 'connected' });
  });
});
