/** Streamable HTTP of the stateless era: what each request says, and answers at their odd corners (mcp:HTTP, HDR, META). */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import type { McpManager, McpManagerOptions } from '..';
import { caught, eventually, temporaryDirectory, textOf, withManager } from './harness';
import { smallServer, type Arrived, type SmallServer } from './small-http-server';

const JSON_TYPE = { 'content-type': 'application/json' };
const EVENTS = { 'content-type': 'text/event-stream' };
const KEY = 'io.modelcontextprotocol/';

const argument = (type: string, header: string) => ({ type, 'x-mcp-header': header });
const region = argument('string', 'Region');
const tool = (name: string, properties: object, more: object = {}) => ({
  name,
  inputSchema: { type: 'object', properties, ...more },
});
const TOOLS = [
  tool('t', {
    region,
    count: argument('integer', 'Count'),
    dry: argument('boolean', 'Dry-Run'),
    deep: { type: 'object', properties: { 'a.b': argument('string', 'Deep') } },
    list: { type: 'array', items: { type: 'object', properties: { region: { type: 'string' } } } },
  }),
  tool('wéird tool', {}),
  tool('number', { a: argument('number', 'A') }),
  tool('twice', { a: argument('string', 'A'), b: argument('string', 'a') }),
  tool('behind', { a: { $ref: '#/$defs/a' } }, { $defs: { a: region } }),
  tool('within', { a: { type: 'array', items: region } }),
];
const complete = { resultType: 'complete', ttlMs: 60_000, cacheScope: 'private' };
const RESULTS: Record<string, object> = {
  'server/discover': {
    supportedVersions: ['2026-07-28'],
    capabilities: { tools: {}, prompts: {}, resources: {} },
  },
  'prompts/list': { prompts: [{ name: 'hello' }] },
  'resources/list': { resources: [] },
  'resources/templates/list': { resourceTemplates: [] },
  'tools/call': { content: [{ type: 'text', text: 'hello' }] },
  'prompts/get': { messages: [] },
  'resources/read': { contents: [{ uri: 'a://b', text: 'hello' }] },
};

interface Post {
  verb: string;
  method: string;
  id: number;
  headers: IncomingHttpHeaders;
  params: { name?: string; cursor?: string; _meta: Record<string, unknown> };
}

const answer = (response: ServerResponse, id: number | undefined, members: object, status = 200) =>
  void response.writeHead(status, JSON_TYPE).end(JSON.stringify({ jsonrpc: '2.0', id, ...members }));

/** A server of the stateless era, whose list of tools has two pages; what came to it. */
async function withStateless(
  body: (manager: McpManager, posts: Post[]) => Promise<void>,
  own: (one: Arrived, response: ServerResponse) => boolean | void = () => false,
  options: McpManagerOptions = {},
): Promise<Post[]> {
  const small = await smallServer();
  const posts: Post[] = [];
  const react: SmallServer['answer'] = (one, response, { headers }) => {
    posts.push({ ...one, headers } as unknown as Post);
    response.setHeader('mcp-session-id', 'not-of-this-era');
    if (own(one, response)) return true;
    const { cursor } = (one.params ?? {}) as { cursor?: string };
    const tools = cursor === undefined ? TOOLS.slice(0, 2) : TOOLS.slice(2);
    const pages = { tools, ...(cursor === undefined && { nextCursor: '' }) };
    const result = one.method === 'tools/list' ? pages : RESULTS[one.method ?? ''];
    if (result !== undefined) answer(response, one.id, { result: { ...complete, ...result } });
    else answer(response, one.id, { error: { code: -32601, message: 'Method not found' } }, 404);
    return true;
  };
  small.answer = react;
  await withManager({ ...options, servers: { s: { type: 'http', url: small.url } } }, async (manager) => {
    await manager.connect('s');
    await body(manager, posts);
  });
  return posts;
}

const call = (manager: McpManager, args: Record<string, unknown> = {}) =>
  manager.callTool('mcp__s__t', args as never, { timeoutMs: 8000 });
const calls = (posts: Post[]) => posts.filter(({ method }) => method === 'tools/call');

test('mcp:META-02 mcp:META-03 mcp:META-04 mcp:META-07 mcp:HDR-01 mcp:HDR-02 mcp:HDR-05 mcp:HTTP-01 mcp:HTTP-02 mcp:HTTP-03 mcp:HTTP-05 mcp:HTTP-10 mcp:ERA-01 mcp:ERA-07 mcp:ERA-24 every request says all of it', async () => {
  const posts = await withStateless(async (manager) => {
    await call(manager);
    await manager.readResource('s', 'a://b');
    await manager.getPrompt('mcp__s__hello');
    await manager.ping('s');
    expect((await caught(manager.request('s', 'x/y'))).rpcCode).toBe(-32601);
  });
  expect(posts.filter(({ method }) => method === 'tools/list').map(({ params }) => params.cursor)).toEqual([
    undefined,
    '',
  ]);
  expect(posts[0]!.method).toBe('server/discover');
  expect(posts.map(({ method }) => method)).not.toContain('initialize');
  expect(new Set(posts.map(({ id }) => id)).size).toBe(posts.length);
  for (const { verb, method, id, headers, params } of posts) {
    expect(verb).toBe('POST');
    expect(headers).toMatchObject({
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
    });
    expect(headers['mcp-session-id']).toBeUndefined();
    expect(headers['last-event-id']).toBeUndefined();
    const { _meta } = params;
    expect(_meta[`${KEY}protocolVersion`]).toBe(headers['mcp-protocol-version']);
    expect(_meta[`${KEY}clientCapabilities`]).toEqual({ roots: {} });
    expect(_meta[`${KEY}clientInfo`]).toEqual({
      name: expect.any(String) as string,
      version: expect.any(String) as string,
    });
    expect(_meta.progressToken).toBe(id);
    // Its own keys have the protocol's prefix, or are those that have none.
    for (const key of Object.keys(_meta))
      expect(key).toMatch(/^(io\.modelcontextprotocol\/\w+|progressToken)$/);
  }
});

describe('mirrored arguments', () => {
  const sent = (headers: IncomingHttpHeaders) =>
    Object.fromEntries(
      Object.entries(headers).flatMap(([name, value]) =>
        name.startsWith('mcp-param-') ? [[name.slice(10), value]] : [],
      ),
    );

  test.each<[string, Record<string, unknown>, Record<string, string>]>([
    [
      'plain',
      { region: 'us-west1', count: 42, dry: false },
      { region: 'us-west1', count: '42', 'dry-run': 'false' },
    ],
    ['mcp:HDR-16 not ASCII', { region: 'Hello, 世界' }, { region: '=?base64?SGVsbG8sIOS4lueVjA==?=' }],
    ['mcp:HDR-16 padded', { region: ' padded ' }, { region: '=?base64?IHBhZGRlZCA=?=' }],
    ['mcp:HDR-16 with line ends', { region: 'a\r\nX: 1' }, { region: '=?base64?YQ0KWDogMQ==?=' }],
    ['mcp:HDR-16 as if encoded', { region: '=?base64?x?=' }, { region: '=?base64?PT9iYXNlNjQ/eD89?=' }],
    ['mcp:HDR-17 markers of another case', { region: '=?BASE64?x?=' }, { region: '=?BASE64?x?=' }],
    ['mcp:HDR-18 empty', { region: '' }, { region: '=?base64??=' }],
    ['mcp:HDR-19 null and absent', { region: null, count: undefined }, {}],
    [
      'mcp:HDR-20 elsewhere of the same name',
      { list: [{ region: 'no' }], 'a.b': 'no', 'deep.a.b': 'no' },
      {},
    ],
    ['mcp:HDR-20 at its place', { deep: { 'a.b': 'x' } }, { deep: 'x' }],
    ['mcp:HDR-21 of another type', { region: { a: 1 }, count: '7', dry: 'true', deep: 'x' }, {}],
    ['mcp:HDR-12 beyond the exact integers', { count: 2 ** 53 }, {}],
    ['mcp:HDR-12 the largest', { count: 2 ** 53 - 1 }, { count: '9007199254740991' }],
    ['mcp:HDR-21 no integer', { count: 1.5 }, {}],
  ])('%s', async (_, args, expected) => {
    const posts = await withStateless(async (manager) => {
      await call(manager, args);
    });
    expect(calls(posts).map(({ headers }) => sent(headers))).toEqual([expected]);
  });

  test('mcp:HDR-06 mcp:HDR-25 a name that is no header value, and a request of the host’s own', async () => {
    const posts = await withStateless(async (manager) => {
      const weird = (await manager.listTools()).find(({ mcpInfo }) => mcpInfo.toolName === 'wéird tool');
      await manager.callTool(weird!.name);
      await manager.request('s', 'tools/call', { name: 't', arguments: { region: 'raw' } });
      await manager.readResource('s', 'a://b/é').catch(() => undefined);
    });
    const named = posts.filter(({ headers }) => headers['mcp-name'] !== undefined);
    expect(named.map(({ headers }) => headers['mcp-name'])).toEqual([
      `=?base64?${Buffer.from('wéird tool').toString('base64')}?=`,
      't',
      `=?base64?${Buffer.from('a://b/é').toString('base64')}?=`,
    ]);
    expect(sent(named[1]!.headers)).toEqual({ region: 'raw' });
  });

  test('mcp:HDR-10 mcp:HDR-11 mcp:HDR-13 mcp:HDR-14 mcp:HDR-15 mcp:TOOL-23 a tool with bad annotations is left out, with its name and the reason', async () => {
    const told: string[] = [];
    const small = await smallServer();
    small.answer = (one, response) => {
      const result = one.method === 'tools/list' ? { tools: TOOLS } : RESULTS[one.method ?? ''];
      if (result !== undefined) answer(response, one.id, { result: { ...complete, ...result } });
      return result !== undefined;
    };
    const s = { type: 'http' as const, url: small.url };
    await withManager({ servers: { s } }, async (manager) => {
      manager.on('diagnostic', ({ code, message }) => code === 'TOOL_INVALID' && told.push(message));
      await manager.connect('s');
      const names = (await manager.listTools()).map(({ mcpInfo }) => mcpInfo.toolName);
      expect(names).toEqual(expect.arrayContaining(['t', 'wéird tool']));
      for (const name of ['number', 'twice', 'behind', 'within']) {
        expect(names).not.toContain(name);
        expect(told.filter((one) => one.includes(`'${name}'`))).toHaveLength(1);
      }
    });
  });

  test('mcp:HDR-22 mcp:HDR-23 no tool is called before this conversation has had its schema', async () => {
    const stateDir = temporaryDirectory();
    const small = await smallServer();
    let header = 'Region';
    const seen: [string, Record<string, unknown>][] = [];
    small.answer = (one, response, { headers }) => {
      seen.push([one.method ?? '', sent(headers)]);
      const tools = [tool('t', { region: argument('string', header) })];
      const result = one.method === 'tools/list' ? { tools } : RESULTS[one.method ?? ''];
      if (result !== undefined) answer(response, one.id, { result: { ...complete, ...result } });
      return result !== undefined;
    };
    const servers = { s: { type: 'http' as const, url: small.url, start: 'lazy' as const } };
    for (const expected of ['region', 'zone']) {
      seen.length = 0;
      // What is known of the last run is older than the server.
      await withManager({ servers, stateDir }, async (manager) => {
        await manager.callTool('mcp__s__t', { region: 'x' });
        expect((await caught(manager.request('s', 'tools/call', { name: 'unlisted' }))).code).toBe(
          'TOOL_UNKNOWN',
        );
      });
      const methods = seen.map(([method]) => method);
      expect(methods.indexOf('tools/list')).toBeLessThan(methods.indexOf('tools/call'));
      expect(seen.filter(([method]) => method === 'tools/call')).toEqual([
        ['tools/call', { [expected]: 'x' }],
      ]);
      header = 'Zone';
    }
  });
});

describe('answers', () => {
  type Write = (id: number, response: ServerResponse) => void;
  const text = (id: number) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id,
      result: { ...complete, content: [{ type: 'text', text: 'fine' }] },
    });
  const events =
    (data: (id: number) => string): Write =>
    (id, response) =>
      void response.writeHead(200, EVENTS).end(data(id));
  const error =
    (status: number, code: number, data?: object): Write =>
    (id, response) =>
      answer(response, id, { error: { code, message: 'no', data } }, status);
  const plain =
    (status: number): Write =>
    (_, response) =>
      void response.writeHead(status, { 'content-type': 'text/html' }).end('<html>');
  const ping = 'data: {"jsonrpc":"2.0","id":"p","method":"ping"}\n\n';

  test.each<[string, Write, object]>([
    [
      'mcp:HTTP-06 mcp:HTTP-11 comments and notifications before the answer',
      events(
        (id) => `: keep\n\ndata: {"jsonrpc":"2.0","method":"notifications/x"}\n\n:\n\ndata: ${text(id)}\n\n`,
      ),
      {},
    ],
    ['mcp:BASE-12 a request of the server', events((id) => `${ping}data: ${text(id)}\n\n`), {}],
    [
      'mcp:HTTP-09 mcp:HTTP-10 a stream that breaks, ids or not',
      events(() => 'id: 1\nretry: 1\ndata:\n\n'),
      { code: 'CONNECTION_LOST', delivered: 'unknown' },
    ],
    ['mcp:HTTP-12 −32601 with status 404', error(404, -32601), { code: 'RPC_ERROR', rpcCode: -32601 }],
    [
      'mcp:HTTP-12 −32602 with status 400',
      error(400, -32602, { why: 1 }),
      { code: 'RPC_ERROR', rpcCode: -32602, data: { why: 1 } },
    ],
    [
      'mcp:HTTP-12 −32021 with status 400',
      error(400, -32021, { requiredCapabilities: { elicitation: { url: {} } } }),
      { code: 'CAPABILITY_MISSING', message: expect.stringContaining('elicitation.url') as string },
    ],
    [
      'mcp:HTTP-12 −32022 with status 400',
      error(400, -32022, { supported: ['2027-01-01'] }),
      { code: 'VERSION_UNSUPPORTED', message: expect.stringContaining('2027-01-01') as string },
    ],
    ['a page with status 404', plain(404), { code: 'HTTP_STATUS', status: 404 }],
    [
      'mcp:HTTP-13 413',
      plain(413),
      { code: 'HTTP_STATUS', message: expect.stringContaining('message is too large') as string },
    ],
    [
      'mcp:HTTP-13 431',
      plain(431),
      { code: 'HTTP_STATUS', message: expect.stringContaining('headers are too large') as string },
    ],
  ])('%s', async (_, write, outcome) => {
    const posts = await withStateless(
      async (manager) => {
        const settled = await call(manager).then(
          (result) => ({ text: textOf(result) }),
          (one: Error) => one,
        );
        expect(settled).toMatchObject('code' in outcome ? outcome : { text: 'fine' });
        expect(manager.status('s')).toMatchObject({ state: 'connected', era: 'modern' });
      },
      (one, response) => {
        if (one.method === 'tools/call') write(one.id!, response);
        return one.method === 'tools/call';
      },
    );
    expect(calls(posts)).toHaveLength(1);
    expect(posts.every(({ verb, method }) => verb === 'POST' && method !== undefined)).toBe(true);
  });

  test('mcp:HTTP-09 a call that a broken stream lost is the host’s to repeat: a request of its own, with an id of its own', async () => {
    let turn = 0;
    const posts = await withStateless(
      async (manager) => {
        const lost = await caught(call(manager));
        expect(lost).toMatchObject({ code: 'CONNECTION_LOST', delivered: 'unknown' });
        expect(textOf(await call(manager))).toBe('fine');
      },
      (one, response) => {
        if (one.method !== 'tools/call') return false;
        turn += 1;
        response.writeHead(200, EVENTS).end(turn === 1 ? 'id: 1\n\n: cut\n\n' : `data: ${text(one.id!)}\n\n`);
        return true;
      },
    );
    const ids = calls(posts).map(({ id }) => id);
    expect(ids).toHaveLength(2);
    expect(ids[0]).not.toBe(ids[1]);
    for (const { headers } of posts) expect(headers['last-event-id']).toBeUndefined();
  });

  test('mcp:CAN-08 mcp:CAN-09 a timeout of one call closes its stream, and says nothing', async () => {
    let closed = 0;
    const posts = await withStateless(
      async (manager) => {
        expect((await caught(manager.callTool('mcp__s__t', {}, { timeoutMs: 200 }))).code).toBe('TIMEOUT');
        await eventually(() => closed === 1);
      },
      (one, response) => {
        if (one.method !== 'tools/call') return false;
        response.writeHead(200, EVENTS).flushHeaders();
        response.once('close', () => (closed += 1));
        return true;
      },
    );
    expect(posts.map(({ method }) => method)).not.toContain('notifications/cancelled');
  });
});
