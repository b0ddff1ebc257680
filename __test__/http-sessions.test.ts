/** Streamable HTTP of the handshake era at its odd corners: headers, bodies, streams, sessions (mcp:HTTPL). */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import type { McpManager, McpManagerOptions } from '..';
import { caught, eventually, pause, textOf, withManager } from './harness';
import { reply, smallServer, type Arrived, type SmallServer } from './small-http-server';

const JSON_TYPE = { 'content-type': 'application/json' };
const EVENTS = { 'content-type': 'text/event-stream' };

const resultText = (id: number | undefined, text = 'hello') =>
  JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text }] } });

async function withSmall(
  body: (manager: McpManager, small: SmallServer) => Promise<void>,
  answer: SmallServer['answer'] = () => false,
  options: McpManagerOptions = {},
): Promise<SmallServer> {
  const small = await smallServer();
  small.answer = answer;
  await withManager({ ...options, servers: { s: { type: 'http', url: small.url } } }, async (manager) => {
    await manager.connect('s');
    await body(manager, small);
  });
  return small;
}

/** Answers calls in a way of its own. */
const toCalls =
  (answer: (one: Arrived, response: ServerResponse) => void): SmallServer['answer'] =>
  (one, response) => {
    if (one.method !== 'tools/call') return false;
    answer(one, response);
    return true;
  };

const call = (manager: McpManager) => manager.callTool('mcp__s__echo', {}, { timeoutMs: 8000 });

test('mcp:HTTPL-01 mcp:HTTPL-03 mcp:HTTPL-10 mcp:HTTPL-14 mcp:HTTPL-15 mcp:LIFE-10 mcp:HTTP-14 mcp:HTTP-15 what each request says', async () => {
  const seen: { verb: string; method?: string; headers: IncomingHttpHeaders }[] = [];
  const small = await withSmall(
    async (manager) => {
      await call(manager);
      await manager.ping('s');
      await pause(300);
    },
    ({ verb, method }, response, { headers }) => {
      seen.push({ verb, method, headers });
      response.setHeader('set-cookie', 'sticky=1');
      return false;
    },
  );
  const begin = seen.findIndex(({ method }) => method === 'initialize');
  const [hello, ...later] = seen.slice(begin);
  expect(hello!.headers).not.toHaveProperty('mcp-session-id');
  expect(hello!.headers).not.toHaveProperty('mcp-protocol-version');
  expect(later.map(({ verb }) => verb)).toEqual(expect.arrayContaining(['POST', 'GET', 'DELETE']));
  expect(later.map(({ method }) => method)).toContain('notifications/initialized');
  for (const { headers } of later)
    expect(headers).toMatchObject({ 'mcp-session-id': 'session-1', 'mcp-protocol-version': '2025-11-25' });
  for (const { verb, headers } of seen) {
    expect(headers).not.toHaveProperty('origin');
    expect(headers).not.toHaveProperty('cookie');
    if (verb === 'POST') expect(headers['content-type']).toBe('application/json');
  }
  // Refused with 405, the stream is not asked for again.
  expect(small.arrived.filter(({ verb }) => verb === 'GET')).toHaveLength(1);
  expect(small.arrived.every((one) => !Array.isArray(one))).toBe(true);
});

test.each<[string, number, string, string?]>([
  ['202 without a body', 202, ''],
  ['204', 204, ''],
  ['200 without a body', 200, ''],
  ['200 with a page', 200, '<html>', 'text/html'],
  ['200 with JSON', 200, 'null', 'application/json'],
])('mcp:HTTPL-04 a notification that is answered with %s is sent', async (_, status, body, type) => {
  await withSmall(
    async (manager) => expect(textOf(await call(manager))).toBe('hello'),
    ({ method }, response) => {
      if (!method?.startsWith('notifications/')) return false;
      response.writeHead(status, type === undefined ? {} : { 'content-type': type }).end(body);
      return true;
    },
  );
});

describe('answers', () => {
  const error = (id: unknown) =>
    JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32050, message: 'no' } });
  type Write = (id: number, response: ServerResponse) => void;
  const json =
    (text: (id: number) => string, type = 'application/json', status = 200): Write =>
    (id, response) =>
      void response.writeHead(status, { 'content-type': type }).end(text(id));
  const events = (text: (id: number) => string): Write => json(text, 'text/event-stream');

  test.each<[string, Write, string]>([
    [
      'mcp:HTTPL-05 a type in capitals with parameters',
      json(resultText, 'Application/JSON; charset="UTF-8"'),
      'hello',
    ],
    ['mcp:HTTPL-05 a status of 201', json(resultText, 'application/json', 201), 'hello'],
    ['mcp:HTTPL-05 a page', json(resultText, 'text/html'), 'MESSAGE_INVALID'],
    ['mcp:BASE-01 a byte order mark before JSON', json((id) => `\ufeff${resultText(id)}`), 'hello'],
    [
      'mcp:BASE-01 bytes that are no text',
      (_, response) => void response.writeHead(200, JSON_TYPE).end(Buffer.from([0x7b, 0xff, 0x7d])),
      'MESSAGE_INVALID',
    ],
    ['mcp:BASE-10 a batch with a bad member', json((id) => `[{"foo":1},${resultText(id)}]`), 'hello'],
    ['mcp:BASE-10 a batch in an event', events((id) => `data: [${resultText(id)},7]\n\n`), 'hello'],
    ['mcp:BASE-07 the id as a text', json((id) => resultText(String(id) as never)), 'MESSAGE_INVALID'],
    ['mcp:BASE-07 another id', json((id) => resultText(id + 1)), 'MESSAGE_INVALID'],
    ['mcp:BASE-08 an error without id', json(() => error(undefined)), 'RPC_ERROR'],
    ['mcp:BASE-08 an error with id null', json(() => error(null)), 'RPC_ERROR'],
    ['mcp:BASE-08 such an error in an event', events(() => `data: ${error(null)}\n\n`), 'RPC_ERROR'],
    [
      'mcp:BASE-08 such an error with status 400',
      json(() => error(undefined), 'application/json', 400),
      'RPC_ERROR',
    ],
    [
      'mcp:BASE-08 such an error behind a byte order mark',
      json(() => `\ufeff${error(null)}`, 'application/json', 400),
      'RPC_ERROR',
    ],
    [
      'mcp:HTTP-14 such an error with status 403',
      json(() => error(undefined), 'application/json', 403),
      'HTTP_STATUS',
    ],
    ['no body', json(() => '', 'application/json', 202), 'MESSAGE_INVALID'],
    [
      'mcp:HTTP-11 comments, CRLF, a field without colon',
      events((id) => `: x\r\n\r\nid\r\ndata:${resultText(id)}\r\n\r\n`),
      'hello',
    ],
    ['CR alone ends lines', events((id) => `data: ${resultText(id)}\r\r`), 'hello'],
    ['a byte order mark before events', events((id) => `\ufeffdata: ${resultText(id)}\n\n`), 'hello'],
    [
      'data of several lines',
      events((id) => `data: ${resultText(id).replace('"result"', '\ndata: "result"')}\n\n`),
      'hello',
    ],
    [
      'events of other names',
      events((id) => `event: ping\ndata: {}\n\ndata: ${resultText(id)}\n\n`),
      'hello',
    ],
    [
      'mcp:HTTPL-23 an event that is not ended',
      events((id) => `data: ${resultText(id)}\n`),
      'CONNECTION_LOST',
    ],
    ['mcp:HTTPL-23 a stream without an event', events(() => ''), 'CONNECTION_LOST'],
  ])('%s', async (_, write, outcome) => {
    await withSmall(
      async (manager) => {
        const settled = await call(manager).then(textOf, (one: { code: string }) => one.code);
        expect(settled).toBe(outcome);
        expect(manager.status('s')?.state).toBe('connected');
      },
      toCalls(({ id }, response) => write(id!, response)),
    );
  });

  test('mcp:BASE-01 a character may be cut anywhere', async () => {
    const trickle = toCalls(({ id }, response) => {
      const bytes = Buffer.from(`data: ${resultText(id, 'é🙂世')}\r\n\r\n`);
      response.writeHead(200, EVENTS);
      let at = 0;
      const timer = setInterval(() => {
        if (at < bytes.length) return void response.write(bytes.subarray(at, (at += 1)));
        clearInterval(timer);
        response.end();
      }, 1);
    });
    await withSmall(async (manager) => expect(textOf(await call(manager))).toBe('é🙂世'), trickle);
  });

  test('mcp:HTTPL-06 a question of the server on the stream is answered in a request of its own', async () => {
    let open: { id: number; response: ServerResponse } | undefined;
    const answers: Arrived[] = [];
    const small = await withSmall(
      async (manager) => expect(textOf(await call(manager))).toBe('asked'),
      (one, response) => {
        if (one.method === 'tools/call') {
          open = { id: one.id!, response };
          response.writeHead(200, EVENTS).write('data: {"jsonrpc":"2.0","id":"r","method":"roots/list"}\n\n');
          return true;
        }
        if (one.verb !== 'POST' || one.method !== undefined) return false;
        answers.push(one);
        response.writeHead(202).end();
        open!.response.end(`data: ${resultText(open!.id, 'asked')}\n\n`);
        return true;
      },
    );
    expect(answers).toMatchObject([{ id: 'r', session: 'session-1' }]);
    expect(small.count('tools/call')).toBe(1);
  });

  test('mcp:HTTPL-11 several streams at once: each answer to its call, each message once', async () => {
    const open: [number, ServerResponse][] = [];
    let listening: ServerResponse | undefined;
    await withSmall(
      async (manager) => {
        const logs: unknown[] = [];
        manager.on('log', ({ source, data }) => source === 'protocol' && logs.push(data));
        await eventually(() => listening);
        const calls = [1, 2, 3].map(() => call(manager));
        await eventually(() => open.length === 3);
        const log = (data: number) =>
          `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":${data}}}\n\n`;
        listening!.write(log(0));
        for (const [id, response] of open.toReversed())
          response.end(`${log(id)}data: ${resultText(id, `call ${id}`)}\n\n`);
        const said = (await Promise.all(calls)).map(textOf).toSorted();
        expect(said).toEqual(open.map(([id]) => `call ${id}`).toSorted());
        await eventually(() => logs.length === 4);
        expect(logs.toSorted()).toEqual([0, ...open.map(([id]) => id)].toSorted());
      },
      (one, response) => {
        if (one.verb === 'GET') listening = response.writeHead(200, EVENTS);
        else if (one.method === 'tools/call') open.push([one.id!, response.writeHead(200, EVENTS)]);
        else return false;
        response.flushHeaders();
        return true;
      },
    );
  });
});

describe('polling', () => {
  test('mcp:HTTPL-07 mcp:HTTPL-20 mcp:HTTPL-21 mcp:HTTPL-22 mcp:HTTPL-23 a server that ends its streams is polled until the answer is there, at its pace', async () => {
    let id = 0;
    const polls: { last: string; at: number }[] = [];
    const small = await withSmall(
      async (manager) => expect(textOf(await call(manager))).toBe('late'),
      (one, response, { headers }) => {
        const last = headers['last-event-id'];
        if (one.method === 'tools/call') {
          id = one.id!;
          polls.push({ last: 'none', at: Date.now() });
          response.writeHead(200, EVENTS).end('id: p0\nretry: 200\ndata:\n\n');
        } else if (one.verb === 'GET' && typeof last === 'string') {
          polls.push({ last, at: Date.now() });
          const ready = polls.length > 10;
          response
            .writeHead(200, EVENTS)
            .end(ready ? `data: ${resultText(id, 'late')}\n\n` : `id: p${polls.length - 1}\ndata:\n\n`);
        } else return false;
        return true;
      },
    );
    expect(polls.map(({ last }) => last)).toEqual(['none', ...polls.slice(1).map((_, place) => `p${place}`)]);
    expect(polls).toHaveLength(11);
    for (const [place, { at }] of polls.slice(1).entries())
      expect(at - polls[place]!.at).toBeGreaterThanOrEqual(195);
    expect(small.count('tools/call')).toBe(1);
    expect(small.count('notifications/cancelled')).toBe(0);
  }, 20_000);

  test('mcp:HTTPL-23 polls that bring nothing end, and the call fails', async () => {
    let polls = 0;
    await withSmall(
      async (manager) => {
        const limits = { timeoutMs: 30_000 };
        expect(await caught(manager.callTool('mcp__s__echo', {}, limits))).toMatchObject({
          code: 'CONNECTION_LOST',
          delivered: 'unknown',
        });
        expect(polls).toBe(5);
      },
      (one, response, { headers }) => {
        if (one.method === 'tools/call') response.writeHead(200, EVENTS).end('id: p\nretry: 100\ndata:\n\n');
        else if (one.verb === 'GET' && headers['last-event-id'] === 'p') {
          polls += 1;
          response.writeHead(200, EVENTS).end();
        } else return false;
        return true;
      },
    );
  }, 40_000);
});

describe('sessions', () => {
  test('mcp:HTTPL-17 mcp:LIFE-14 a stream of the session that is not found again: a new one begins, its lists are read anew', async () => {
    let streams = 0;
    await withSmall(
      async (manager, small) => {
        await eventually(() => small.sessions === 2, 8000);
        await eventually(() => manager.status('s')?.state === 'connected');
        expect((await manager.listTools()).map(({ mcpInfo }) => mcpInfo.toolName)).toContain('later');
        const hellos = small.arrived.filter(({ method }) => method === 'initialize');
        for (const { session } of hellos) expect(session).toBeUndefined();
      },
      (one, response) => {
        if (one.verb === 'GET') {
          streams += 1;
          if (streams === 2) response.writeHead(404).end();
          else response.writeHead(200, EVENTS).write('retry: 100\nid: 1\ndata:\n\n');
          if (streams === 1) response.end();
          return true;
        }
        if (one.method !== 'tools/list' || one.session !== 'session-2') return false;
        reply(response, one.id!, { tools: [{ name: 'later', inputSchema: { type: 'object' } }] });
        return true;
      },
    );
  }, 15_000);

  test('mcp:HDR-07 mcp:LIFE-13 an introduction on a stream that stays open, its session in capitals', async () => {
    const small = await withSmall(
      async (manager) => {
        expect(textOf(await call(manager))).toBe('hello');
        expect(manager.status('s')).toMatchObject({ protocolVersion: '2025-06-18', instructions: 'Be kind' });
      },
      (one, response) => {
        if (one.method !== 'initialize') return false;
        const result = {
          protocolVersion: '2025-06-18',
          capabilities: { tools: {} },
          serverInfo: { name: 's', version: '1' },
          instructions: 'Be kind',
        };
        response.writeHead(200, { ...EVENTS, 'MCP-SESSION-ID': 'AbC' });
        response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', id: one.id, result })}\n\n`);
        return true;
      },
    );
    const begin = small.arrived.findIndex(({ method }) => method === 'initialize');
    for (const { session } of small.arrived.slice(begin + 1)) expect(session).toBe('AbC');
  });

  test('mcp:HTTPL-19 a 404 or 400 where there is no session is a plain failure', async () => {
    for (const status of [400, 404]) {
      const small = await withSmall(
        async (manager) => {
          expect(await caught(call(manager))).toMatchObject({ code: 'HTTP_STATUS', status });
          expect(manager.status('s')?.state).toBe('connected');
        },
        (one, response) => {
          if (one.method === 'initialize') {
            const serverInfo = { name: 'none', version: '1' };
            reply(response, one.id!, {
              protocolVersion: '2025-11-25',
              capabilities: { tools: {} },
              serverInfo,
            });
            return true;
          }
          if (one.method !== 'tools/call') return false;
          response.writeHead(status).end();
          return true;
        },
      );
      expect(small.count('initialize')).toBe(1);
      expect(small.arrived.some(({ session }) => session !== undefined)).toBe(false);
    }
  });

  test.each([
    ['with a space', 'a b'],
    ['without a character', ''],
    ['beyond ASCII', 'é'],
    ['that is very long', 'x'.repeat(5000)],
  ])('mcp:HTTPL-16 an id %s is refused, and shown nowhere', async (_, id) => {
    const small = await smallServer();
    small.answer = (one, response) => {
      if (one.method !== 'initialize') return false;
      const serverInfo = { name: 's', version: '1' };
      reply(
        response,
        one.id!,
        { protocolVersion: '2025-11-25', capabilities: {}, serverInfo },
        { 'mcp-session-id': id },
      );
      return true;
    };
    const s = { type: 'http' as const, url: small.url };
    await withManager({ servers: { s }, retry: { attempts: 1 } }, async (manager) => {
      const error = await caught(manager.connect('s'));
      expect(error.code).toBe('MESSAGE_INVALID');
      if (id.length > 4) expect(error.message).not.toContain(id);
    });
    expect(small.arrived.some(({ session }) => session !== undefined)).toBe(false);
  });
});

describe('the older way', () => {
  test.each([400, 404, 405])(
    'mcp:SSE-03 mcp:SSE-06 mcp:ERA-11 POST first; %i leads to its stream',
    async (status) => {
      let stream: ServerResponse | undefined;
      const posts: string[] = [];
      const small = await withSmall(
        async (manager) => {
          expect(textOf(await call(manager))).toBe('hello');
          expect(manager.status('s')).toMatchObject({ transport: 'sse', era: 'legacy' });
        },
        (one, response) => {
          if (one.verb === 'GET') {
            stream = response.writeHead(200, EVENTS);
            stream.write('event: endpoint\r\ndata: ../post?session=1\r\n\r\n');
          } else if (one.path.startsWith('/post')) {
            posts.push(one.method ?? '');
            response.writeHead(202).end();
            const serverInfo = { name: 'old', version: '1' };
            const introduction = { protocolVersion: '2024-11-05', capabilities: { tools: {} }, serverInfo };
            const results: Record<string, unknown> = {
              initialize: introduction,
              'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
              'tools/call': { content: [{ type: 'text', text: 'hello' }] },
            };
            const answer = { jsonrpc: '2.0', id: one.id, result: results[one.method ?? ''] ?? {} };
            if (one.id !== undefined) stream!.write(`event: message\ndata: ${JSON.stringify(answer)}\n\n`);
          } else response.writeHead(status).end();
          return true;
        },
      );
      expect(small.arrived[0]!.verb).toBe('POST');
      expect(posts).toEqual(
        expect.arrayContaining(['initialize', 'notifications/initialized', 'tools/call']),
      );
    },
  );
});
