/** The base protocol at its odd corners: ids, errors, batches, cursors, signs of life (mcp:BASE, CAN, PAGE, PING, PROG). */
import { describe, expect, test } from 'vitest';
import type { McpManager } from '..';
import { caught, eventually, nextEvent, pause, textOf, withManager } from './harness';
import { result, said, scriptedServer, statelessServer, type ScriptedServer } from './scripted-server';

/** Runs `body` while a server is connected; gives the codes of what it did wrong. */
async function withScripted(
  server: ScriptedServer,
  body: (manager: McpManager) => Promise<void>,
): Promise<string[]> {
  const told: string[] = [];
  await withManager({ servers: { s: server.config } }, async (manager) => {
    manager.on('diagnostic', ({ code }) => told.push(code));
    await manager.connect('s');
    await body(manager);
  });
  return told;
}

const call = (manager: McpManager) => manager.callTool('mcp__s__t', {}, { timeoutMs: 5000 });
const callLines = (...lines: string[]) => ({ 'tools/call': { lines } });
const fine = result(said('fine'));

describe('what goes out', () => {
  test('mcp:BASE-01 mcp:BASE-02 mcp:BASE-03 mcp:BASE-04 mcp:BASE-05 mcp:BASE-11 mcp:STDIO-04 one object a line, 2.0, with an id of its own', async () => {
    for (const server of [scriptedServer(), statelessServer()]) {
      await withScripted(server, async (manager) => {
        await Promise.all(Array.from({ length: 20 }, () => call(manager)));
        await manager.request('s', 'x/unknown', { _meta: { id: null }, text: 'é\u2028🙂\n' });
        await manager.reconnect('s');
        await call(manager);
      });
      const heard = server.heard() as unknown as Record<string, unknown>[];
      expect(heard.length).toBeGreaterThan(22);
      for (const message of heard) expect(message).toMatchObject({ jsonrpc: '2.0' });
      // Each process is greeted with the first id.
      const begins = heard.flatMap(({ id }, place) => (id === 0 ? [place] : []));
      expect(begins).toHaveLength(2);
      const requests = heard.slice(begins[0], begins[1]).filter(({ id }) => id !== undefined);
      const ids = requests.map(({ id }) => id);
      for (const id of ids) expect(Number.isSafeInteger(id)).toBe(true);
      expect(new Set(ids).size).toBe(ids.length);
    }
  });

  test('mcp:BASE-06 a notification has no id, and one that arrives is not answered', async () => {
    const server = scriptedServer({
      answers: callLines(
        '{"jsonrpc":"2.0","method":"notifications/unknown"}',
        '{"jsonrpc":"2.0","method":"ping"}',
        '{"jsonrpc":"2.0","id":null,"method":"ping"}',
        '{"jsonrpc":"2.0","id":"after","method":"ping"}',
        fine,
      ),
    });
    await withScripted(server, async (manager) => {
      await call(manager);
      await eventually(() => server.answers().length > 0);
    });
    expect(server.answers()).toEqual([{ jsonrpc: '2.0', id: 'after', result: {} }]);
    const notified = server.heard().filter(({ method }) => method?.startsWith('notifications/'));
    expect(notified.length).toBeGreaterThan(0);
    for (const message of notified) expect(message).not.toHaveProperty('id');
  });
});

describe('batches', () => {
  test('mcp:BASE-10 each member is answered, and one that is no message costs the others nothing', async () => {
    const server = scriptedServer({
      protocolVersion: '2025-03-26',
      answers: callLines(
        `[{"jsonrpc":"2.0","id":"p","method":"ping"},7,{"jsonrpc":"2.0","id":"x","method":"x/y"},{"foo":1},${fine}]`,
      ),
    });
    const told = await withScripted(server, async (manager) => {
      expect(textOf(await call(manager))).toBe('fine');
      await eventually(() => server.answers().length === 2);
    });
    expect(server.answers()).toMatchObject([
      { id: 'p', result: {} },
      { id: 'x', error: { code: -32601 } },
    ]);
    expect(told).toContain('STDOUT_NOISE');
  });
});

describe('errors', () => {
  test.each([
    ['a lone surrogate in the message', '{"code":-32050,"message":"a\\ud83db","data":{"why":[1]}}'],
    ['a message that is null', '{"code":-32050,"message":null,"data":{"why":[1]}}'],
    ['a code with a fraction of zero', '{"code":-32050.0,"message":"m","data":{"why":[1]}}'],
    ['no message', '{"code":-32050,"data":{"why":[1]}}'],
  ])('mcp:BASE-09 %s: code and data stay', async (_, error) => {
    const server = scriptedServer({ answers: callLines(`{"jsonrpc":"2.0","id":$ID,"error":${error}}`) });
    await withScripted(server, async (manager) => {
      expect(await caught(call(manager))).toMatchObject({
        code: 'RPC_ERROR',
        rpcCode: -32050,
        data: { why: [1] },
      });
    });
  });

  test('mcp:BASE-18 what this host says itself is told apart from what the server answers', async () => {
    const refusal = '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32001,"message":"Request timed out"}}';
    const server = scriptedServer({ answers: { 'tools/call': [{ lines: [refusal] }, { lines: [] }] } });
    await withScripted(server, async (manager) => {
      expect(await caught(call(manager))).toMatchObject({ code: 'RPC_ERROR', rpcCode: -32001 });
      const own = await caught(manager.callTool('mcp__s__t', {}, { timeoutMs: 200 }));
      expect(own.code).toBe('TIMEOUT');
      expect(own.rpcCode).toBeUndefined();
      const unsent = await caught(manager.request('s', 'prompts/list', {}));
      expect(unsent.code).toBe('CAPABILITY_MISSING');
      expect(unsent.rpcCode).toBeUndefined();
    });
  });

  test('mcp:BASE-17 refusals of the server’s requests have codes that the specification has', async () => {
    const asks = ['x/y', 'tasks/get', 'tools/list', 'sampling/createMessage', 'elicitation/create'];
    const lines = asks.map((method) => `{"jsonrpc":"2.0","id":"${method}","method":"${method}","params":7}`);
    const server = scriptedServer({ answers: callLines(...lines, fine) });
    await withScripted(server, async (manager) => {
      await call(manager);
      await eventually(() => server.answers().length === asks.length);
    });
    const codes = server.answers().map((answer) => (answer as { error?: { code: number } }).error?.code);
    for (const code of codes) expect([-32600, -32601, -32602, -32603]).toContain(code);
  });
});

test('mcp:STDIO-16 a process has no login: what it refuses is an error, its credentials are its environment', async () => {
  const refusal =
    '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32001,"message":"401 Unauthorized","data":{"status":401,"wwwAuthenticate":["Bearer"]}}}';
  const server = scriptedServer({ answers: callLines(refusal) });
  let visits = 0;
  const onAuthorizationUrl = () => void (visits += 1);
  await withManager({ servers: { s: server.config }, onAuthorizationUrl }, async (manager) => {
    await manager.connect('s');
    expect((await caught(call(manager))).code).toBe('RPC_ERROR');
    expect(manager.status('s')?.state).toBe('connected');
    expect(await caught(manager.authenticate('s'))).toMatchObject({ code: 'AUTH_FAILED', server: 's' });
    expect(visits).toBe(0);
  });
});

describe('_meta', () => {
  test.each([
    ['a space', 'a b'],
    ['a dash at its end', 'name-'],
    ['no letter before the dot', 'com.1x/name'],
    ['an empty label', 'com..example/name'],
    ['an empty prefix', '/name'],
    ['two slashes', 'a/b/c'],
    ['a dash at the end of a label', 'com-.example/name'],
    ['what is not ASCII', 'é'],
  ])('mcp:META-09 mcp:META-11 a key of the host with %s is refused, and nothing sent', async (_, key) => {
    const server = scriptedServer();
    await withScripted(server, async (manager) => {
      const refusal = { name: 'TypeError', code: 'INVALID_ARGUMENT' };
      const meta = { [key]: 1 };
      expect(await caught(manager.callTool('mcp__s__t', {}, { meta }))).toMatchObject(refusal);
      expect(await caught(manager.request('s', 'x/y', { _meta: meta }))).toMatchObject(refusal);
      const good = {
        name: 1,
        'com.example.mcp/a-b_c.1': 2,
        'x/': 3,
        '': 4,
        'io.modelcontextprotocol/logLevel': 5,
      };
      await manager.callTool('mcp__s__t', {}, { meta: good });
    });
    const calls = server.heard().filter(({ method }) => method === 'tools/call');
    expect(calls.map(({ params }) => params?._meta)).toEqual([
      { name: 1, 'com.example.mcp/a-b_c.1': 2, 'x/': 3, '': 4, progressToken: calls[0]!.id },
    ]);
    expect(server.heard().map(({ method }) => method)).not.toContain('x/y');
  });

  test('mcp:META-12 values of any kind at the keys of the protocol are kept, and believed nothing of', async () => {
    const _meta = {
      'io.modelcontextprotocol/serverInfo': 7,
      'io.modelcontextprotocol/subscriptionId': { a: 1 },
      'io.modelcontextprotocol/related-task': [],
      progressToken: {},
    };
    const server = scriptedServer({ answers: { 'tools/call': { result: { ...said('fine'), _meta } } } });
    await withScripted(server, async (manager) => expect((await call(manager)).meta).toEqual(_meta));
    const complete = { resultType: 'complete', ...said('fine'), _meta };
    const stateless = statelessServer({ answers: { 'tools/call': { result: complete } } });
    await withScripted(stateless, async (manager) => expect((await call(manager)).meta).toEqual(_meta));
  });
});

describe('the stateless era', () => {
  test('mcp:BASE-12 mcp:STDIO-05 a request of the server is told of, and never answered', async () => {
    const asks = ['ping', 'roots/list', 'elicitation/create', 'sampling/createMessage', 'x/y'];
    const lines = asks.map((method) => `{"jsonrpc":"2.0","id":"${method}","method":"${method}"}`);
    const server = statelessServer({
      answers: callLines(...lines, result({ resultType: 'complete', ...said('fine') })),
    });
    let asked = 0;
    const onElicitation = () => {
      asked += 1;
      return { action: 'cancel' as const };
    };
    await withManager({ servers: { s: server.config }, onElicitation }, async (manager) => {
      const told: string[] = [];
      manager.on('diagnostic', ({ code }) => told.push(code));
      await manager.connect('s');
      expect(textOf(await call(manager))).toBe('fine');
      await call(manager);
      expect(told.filter((code) => code === 'REQUEST_REFUSED')).toHaveLength(2 * asks.length);
    });
    expect(server.answers()).toEqual([]);
    expect(asked).toBe(0);
  });

  test.each([
    ['complete', { resultType: 'complete', ...said('fine') }, 'fine'],
    ['absent', said('fine'), 'fine'],
    ['unknown', { resultType: 'weird', ...said('no') }, 'RESULT_INVALID'],
    ['of another case', { resultType: 'Complete', ...said('no') }, 'RESULT_INVALID'],
    ['no string', { resultType: 7, ...said('no') }, 'RESULT_INVALID'],
    ['that of an extension not agreed on', { resultType: 'task', taskId: '1' }, 'RESULT_INVALID'],
    ['a question without anything asked', { resultType: 'input_required' }, 'RESULT_INVALID'],
  ])('mcp:BASE-13 mcp:BASE-14 mcp:BASE-15 mcp:ERA-22 resultType: %s', async (_, wire, outcome) => {
    const server = statelessServer({ answers: { 'tools/call': { result: wire } } });
    await withScripted(server, async (manager) => {
      const settled = await call(manager).then(textOf, (error: { code: string }) => error.code);
      expect(settled).toBe(outcome);
    });
  });

  test.each(['weird', 'input_required', 'task'])(
    'mcp:BASE-15 discovery that is answered with resultType %s is no discovery',
    async (resultType) => {
      const discovery = { resultType, supportedVersions: ['2026-07-28'], capabilities: { tools: {} } };
      const server = statelessServer({ answers: { 'server/discover': { result: discovery } } });
      await withManager({ servers: { s: server.config }, retry: { attempts: 1 } }, async (manager) => {
        expect((await caught(manager.connect('s'))).server).toBe('s');
        expect(manager.status('s')?.era).toBeUndefined();
      });
    },
  );

  test('mcp:BASE-14 a server of the handshake era has no resultType, whatever it calls so', async () => {
    const wire = { resultType: 'weird', ...said('fine') };
    await withScripted(scriptedServer({ answers: { 'tools/call': { result: wire } } }), async (manager) => {
      expect(textOf(await call(manager))).toBe('fine');
    });
  });
});

describe('cursors', () => {
  const page = (name: string, next: string) =>
    `{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"${name}","inputSchema":{"type":"object"}}]${next}}}`;
  const names = async (manager: McpManager) =>
    (await manager.listTools()).map(({ mcpInfo }) => mcpInfo.toolName);

  test.each([
    ['empty', '""'],
    ['with a lone surrogate', String.raw`"\ud83d"`],
    ['with escapes and what nobody sees', String.raw`"\u0000\u200b\/\"é"`],
    ['that looks like a number', '"7"'],
    ['named twice', '"old","nextCursor":"new"'],
  ])('mcp:PAGE-01 mcp:PAGE-02 mcp:PAGE-03 a cursor %s goes back as it came', async (_, cursor) => {
    const server = scriptedServer({
      answers: {
        'tools/list': [{ lines: [page('a', `,"nextCursor":${cursor}`)] }, { lines: [page('b', '')] }],
      },
    });
    await withScripted(server, async (manager) => expect(await names(manager)).toEqual(['a', 'b']));
    const sent = server.heard().filter(({ method }) => method === 'tools/list');
    const expected = (JSON.parse(`{"nextCursor":${cursor}}`) as { nextCursor: string }).nextCursor;
    expect(sent.map(({ params }) => params?.cursor)).toEqual([undefined, expected]);
  });

  test.each(['', ',"nextCursor":null'])('mcp:PAGE-02 mcp:PAGE-04 the end of a list: %s', async (next) => {
    const server = scriptedServer({ answers: { 'tools/list': { lines: [page('a', next)] } } });
    await withScripted(server, async (manager) => expect(await names(manager)).toEqual(['a']));
    expect(server.heard().filter(({ method }) => method === 'tools/list')).toHaveLength(1);
  });

  test('mcp:PAGE-07 a cursor that is refused: once more from the first page', async () => {
    const refusal = '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"Invalid cursor"}}';
    const [first, second] = [page('a', ',"nextCursor":"1"'), page('b', '')];
    const server = scriptedServer({
      answers: { 'tools/list': [first, refusal, first, second].map((line) => ({ lines: [line] })) },
    });
    await withScripted(server, async (manager) => expect(await names(manager)).toEqual(['a', 'b']));
    const sent = server.heard().filter(({ method }) => method === 'tools/list');
    expect(sent.map(({ params }) => params?.cursor)).toEqual([undefined, '1', undefined, '1']);
  });

  test('mcp:PAGE-05 a new conversation begins with the first page', async () => {
    const server = scriptedServer({
      answers: {
        'tools/list': [page('a', ',"nextCursor":"1"'), page('b', '')].map((line) => ({ lines: [line] })),
      },
    });
    await withScripted(server, async (manager) => {
      await manager.listTools();
      await manager.reconnect('s');
    });
    const sent = server.heard().filter(({ method }) => method === 'tools/list');
    expect(sent[2]?.params?.cursor).toBeUndefined();
    expect(sent.length).toBeGreaterThan(2);
  });
});

describe('signs of life', () => {
  const report = (params: string) => `{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`;

  test('mcp:PROG-02 a report counts whatever stands beside token and number', async () => {
    const server = scriptedServer({
      answers: callLines(
        report('{"progressToken":$ID.0,"progress":0.5}'),
        report('{"progressToken":$ID,"progress":1,"total":"many","message":7}'),
        report('{"progressToken":$ID,"progress":2,"message":"a\\ud83db"}'),
        report('{"progressToken":$ID,"progress":"3"}'),
        report('{"progressToken":"$ID","progress":4}'),
        report('{"progressToken":$ID,"progress":1e999}'),
        report('{"progressToken":987654,"progress":5}'),
        report('{"progress":6}'),
        report('null'),
        fine,
      ),
    });
    await withScripted(server, async (manager) => {
      const seen: unknown[] = [];
      await manager.callTool('mcp__s__t', {}, { onProgress: (one) => void seen.push(one) });
      expect(seen).toMatchObject([{ progress: 0.5 }, { progress: 1 }, { progress: 2, message: 'a\ufffdb' }]);
    });
  });

  test('mcp:PROG-05 a flood of reports costs neither the answer nor memory, and the last one counts', async () => {
    const reports = { line: report('{"progressToken":$ID,"progress":$N}'), times: 50_000 };
    const server = scriptedServer({ answers: { 'tools/call': { lines: [reports, fine] } } });
    await withScripted(server, async (manager) => {
      const seen: number[] = [];
      const onProgress = ({ progress }: { progress: number }) => void seen.push(progress);
      expect(textOf(await manager.callTool('mcp__s__t', {}, { onProgress }))).toBe('fine');
      expect(seen).toEqual([...seen].sort((a, b) => a - b));
      expect(seen.at(-1)).toBe(49_999);
    });
  }, 30_000);

  test('mcp:PING-01 mcp:LIFE-07 a ping is answered before the handshake ends, and while the server is at work', async () => {
    const introduction = {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {}, logging: {} },
      serverInfo: { name: 's', version: '1' },
    };
    const server = scriptedServer({
      answers: {
        initialize: {
          lines: [
            '{"jsonrpc":"2.0","id":"early","method":"ping"}',
            '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"early"}}',
            result(introduction),
          ],
        },
        'tools/call': { lines: ['{"jsonrpc":"2.0","id":"late","method":"ping"}'] },
      },
    });
    await withManager({ servers: { s: server.config } }, async (manager) => {
      const log = nextEvent(manager, 'log', ({ source }) => source === 'protocol', 10_000);
      await manager.connect('s');
      expect(await log).toMatchObject({ data: 'early' });
      const open = caught(manager.callTool('mcp__s__t', {}, { timeoutMs: 2000 }));
      await eventually(() => server.answers().length === 2);
      expect(server.answers()).toMatchObject([
        { id: 'early', result: {} },
        { id: 'late', result: {} },
      ]);
      await open;
    });
  });
});

describe('cancelling', () => {
  test('mcp:CAN-01 mcp:CAN-02 mcp:CAN-03 mcp:CAN-07 mcp:CAN-08 mcp:STDIO-09 only what is open is cancelled, with a reason; what comes late is dropped', async () => {
    const server = scriptedServer({ answers: { 'tools/call': [{ result: said('1') }, { lines: [] }] } });
    const told = await withScripted(server, async (manager) => {
      const done = new AbortController();
      await manager.callTool('mcp__s__t', {}, { signal: done.signal });
      done.abort();
      const controller = new AbortController();
      const aborted = caught(manager.callTool('mcp__s__t', {}, { signal: controller.signal }));
      await eventually(() => server.heard().filter(({ method }) => method === 'tools/call').length === 2);
      controller.abort();
      await aborted;
      expect((await caught(manager.callTool('mcp__s__t', {}, { timeoutMs: 100 }))).code).toBe('TIMEOUT');
      await manager.ping('s');
    });
    const heard = server.heard();
    const calls = heard.filter(({ method }) => method === 'tools/call').map(({ id }) => id);
    const cancelled = heard.filter(({ method }) => method === 'notifications/cancelled');
    expect(cancelled.map(({ params }) => params?.requestId)).toEqual([calls[1], calls[2]]);
    for (const { params } of cancelled) expect(params?.reason).toEqual(expect.any(String));
    expect(told).not.toContain('STRAY_RESPONSE');
  });

  test('mcp:CAN-04 a cancellation of nothing, and one that cannot be read, are nothing', async () => {
    const cancelled = (params: string) =>
      `{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`;
    const odd = ['{"requestId":"never"}', '{"requestId":null}', '{"requestId":{}}', '{}', '[]', 'null', '7'];
    // The id of our own request is none of the server's.
    const server = scriptedServer({
      answers: callLines(...odd.map(cancelled), cancelled('{"requestId":$ID}'), fine),
    });
    const told = await withScripted(server, async (manager) =>
      expect(textOf(await call(manager))).toBe('fine'),
    );
    expect(told).toEqual([]);
  });

  test('mcp:CAN-05 a question that the server takes back is withdrawn and not answered', async () => {
    const ask =
      '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}}';
    const back = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}';
    const server = scriptedServer({
      answers: { 'tools/call': [{ lines: [ask, fine] }, { lines: [back, fine] }] },
    });
    let withdrawn = false;
    const onElicitation = ({ signal }: { signal: AbortSignal }) =>
      new Promise<{ action: 'cancel' }>((resolve) => {
        signal.addEventListener('abort', () => {
          withdrawn = true;
          resolve({ action: 'cancel' });
        });
      });
    await withManager({ servers: { s: server.config }, onElicitation }, async (manager) => {
      await manager.connect('s');
      await call(manager);
      await call(manager);
      await eventually(() => withdrawn);
      await pause(50);
      expect(server.answers()).toEqual([]);
    });
  });

  test('mcp:CAN-12 mcp:LIFE-09 a handshake that takes too long is not cancelled; the process ends', async () => {
    const server = scriptedServer({ answers: { initialize: { lines: [] } } });
    const s = { ...server.config, connectTimeoutMs: 400 };
    await withManager({ servers: { s }, retry: { attempts: 1 } }, async (manager) => {
      expect((await caught(manager.connect('s'))).code).toBe('CONNECT_TIMEOUT');
    });
    expect(server.heard().map(({ method }) => method)).toEqual(['initialize']);
  });
});
