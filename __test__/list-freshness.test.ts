/** How long lists count as fresh by the server's own word (mcp:CACHE). */
import { describe, expect, test } from 'vitest';
import type { McpManager, McpManagerOptions } from '..';
import { eventually, nextEvent, pause, withManager } from './harness';
import {
  result,
  said,
  scriptedServer,
  statelessServer,
  TOOLS,
  type Answer,
  type ScriptedServer,
} from './scripted-server';

const page = (hint: object, more: object = {}) => ({
  result: { resultType: 'complete', ...TOOLS, ...hint, ...more },
});
const lists = (server: ScriptedServer) =>
  server.heard().filter(({ method }) => method === 'tools/list').length;

async function reading(
  answers: Answer | Answer[],
  body: (manager: McpManager, server: ScriptedServer) => Promise<void>,
  options: McpManagerOptions = {},
): Promise<void> {
  const server = statelessServer({ answers: { 'tools/list': answers } });
  await withManager({ ...options, servers: { s: server.config } }, async (manager) => {
    await manager.connect('s');
    await body(manager, server);
  });
}

describe('ttlMs', () => {
  test.each<[string, object, number]>([
    ['mcp:CACHE-01 a minute', { ttlMs: 60_000, cacheScope: 'private' }, 1],
    ['mcp:CACHE-06 a minute, without a scope', { ttlMs: 60_000 }, 1],
    ['mcp:CACHE-06 a minute, with a scope nobody knows', { ttlMs: 60_000, cacheScope: 'galaxy' }, 1],
    ['mcp:CACHE-04 zero', { ttlMs: 0, cacheScope: 'private' }, 4],
    ['mcp:CACHE-04 absent', {}, 4],
    ['mcp:CACHE-04 negative', { ttlMs: -60_000 }, 4],
    ['mcp:CACHE-01 a text', { ttlMs: '60000' }, 4],
    ['mcp:CACHE-01 null', { ttlMs: null }, 4],
    ['mcp:CACHE-01 an object', { ttlMs: { ms: 60_000 } }, 4],
  ])('%s', async (_, hint, expected) => {
    await reading(page(hint), async (manager, server) => {
      await eventually(() => lists(server) === 1);
      for (let turn = 0; turn < 3; turn += 1)
        expect((await manager.listTools({ server: 's' }))[0]!.name).toBe('mcp__s__t');
      expect(lists(server)).toBe(expected);
    });
  });

  test('mcp:CACHE-03 mcp:CACHE-08 stale after its time, and then read by whoever asks next, never by a clock', async () => {
    await reading(page({ ttlMs: 300 }), async (manager, server) => {
      await manager.listTools();
      const before = lists(server);
      await pause(900);
      expect(lists(server)).toBe(before);
      await manager.listTools();
      expect(lists(server)).toBe(before + 1);
    });
  });

  test('mcp:CACHE-12 pages of different times: the list is read as a whole when the first is over', async () => {
    const pages = [page({ ttlMs: 60_000 }, { nextCursor: '1' }), page({ ttlMs: 300 }, { tools: [] })];
    await reading([...pages, ...pages, ...pages], async (manager, server) => {
      await manager.listTools();
      expect(lists(server)).toBe(2);
      await pause(400);
      await manager.listTools();
      expect(lists(server)).toBe(4);
    });
  });
});

test('mcp:CACHE-02 a result is served for nothing else: each list and each resource is its own', async () => {
  const hint = { resultType: 'complete', ttlMs: 60_000, cacheScope: 'public' };
  const contents = (text: string) => ({ result: { ...hint, contents: [{ uri: `a://${text}`, text }] } });
  const server = statelessServer({
    capabilities: { tools: {}, prompts: {}, resources: {} },
    answers: {
      'tools/list': { result: { ...hint, ...TOOLS } },
      'prompts/list': { result: { ...hint, prompts: [{ name: 'p' }] } },
      'resources/list': { result: { ...hint, resources: [{ uri: 'a://r', name: 'r' }] } },
      'resources/templates/list': { result: { ...hint, resourceTemplates: [] } },
      'resources/read': [contents('one'), contents('two')],
    },
  });
  await withManager({ servers: { s: server.config } }, async (manager) => {
    await manager.connect('s');
    expect((await manager.listPrompts()).map(({ promptName }) => promptName)).toEqual(['p']);
    expect((await manager.listResources({ server: 's' })).map(({ uri }) => uri)).toEqual(['a://r']);
    expect(await manager.readResource('s', 'a://one')).toMatchObject([{ text: 'one' }]);
    expect(await manager.readResource('s', 'a://two')).toMatchObject([{ text: 'two' }]);
  });
});

test('mcp:CACHE-07 a change that is told makes the list stale within its time', async () => {
  const subscribed = (text: string) =>
    `{"jsonrpc":"2.0","method":"${text}","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$ID},"notifications":{"toolsListChanged":true}}}`;
  const server = statelessServer({
    capabilities: { tools: { listChanged: true } },
    answers: {
      'tools/list': [
        page({ ttlMs: 60_000 }),
        page({ ttlMs: 60_000 }, { tools: [{ name: 'new', inputSchema: { type: 'object' } }] }),
      ],
      'subscriptions/listen': {
        lines: [
          subscribed('notifications/subscriptions/acknowledged'),
          subscribed('notifications/tools/list_changed'),
        ],
      },
    },
  });
  await withManager({ servers: { s: server.config } }, async (manager) => {
    await manager.connect('s');
    await eventually(async () => (await manager.listTools()).some(({ name }) => name === 'mcp__s__new'));
  });
});

test('mcp:CACHE-11 what cannot be read anew is served as it was', async () => {
  const refusal = { lines: ['{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"no"}}'] };
  await reading([page({ ttlMs: 0 }), refusal], async (manager) => {
    expect((await manager.listTools())[0]!.name).toBe('mcp__s__t');
  });
});

test('mcp:CACHE-13 questions and what follows them are asked anew each time', async () => {
  const hint = { ttlMs: 60_000, cacheScope: 'public' };
  const asks = { result: { resultType: 'input_required', requestState: 's', ...hint } };
  const done = { result: { resultType: 'complete', ...hint, contents: [{ uri: 'a://b', text: 'x' }] } };
  const server = statelessServer({
    capabilities: { resources: {} },
    answers: {
      'resources/list': { result: { resultType: 'complete', resources: [] } },
      'resources/templates/list': { result: { resultType: 'complete', resourceTemplates: [] } },
      'resources/read': [asks, done, asks, done],
    },
  });
  await withManager({ servers: { s: server.config } }, async (manager) => {
    await manager.connect('s');
    await manager.readResource('s', 'a://b');
    await manager.readResource('s', 'a://b');
  });
  const reads = server.heard().filter(({ method }) => method === 'resources/read');
  expect(reads.map(({ params }) => params?.requestState)).toEqual([undefined, 's', undefined, 's']);
});

test('mcp:CACHE-14 a server that reorders its tools changes neither order of the list', async () => {
  const pageOf = (names: string[]) =>
    page({ ttlMs: 0 }, { tools: names.map((name) => ({ name, inputSchema: { type: 'object' } })) });
  const first = ['zeta', 'alpha', 'Mid', 'beta'];
  await reading([pageOf(first), pageOf(first.toReversed())], async (manager, server) => {
    const listed = async (order: 'name' | 'arrival') =>
      (await manager.listTools({ server: 's', order })).map(({ mcpInfo }) => mcpInfo.toolName);
    const before = [await listed('name'), await listed('arrival')];
    expect(before[0]).toEqual(first.toSorted());
    expect(before[1]!.toSorted()).toEqual(before[0]);
    expect([await listed('name'), await listed('arrival')]).toEqual(before);
    expect(lists(server)).toBeGreaterThan(1);
  });
});

test('mcp:CACHE-15 a server of the handshake era gives no hints: what it calls so counts for nothing', async () => {
  const server = scriptedServer({
    capabilities: { tools: { listChanged: true } },
    answers: {
      'tools/list': { result: { ...TOOLS, ttlMs: 0 } },
      'tools/call': {
        lines: ['{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}', result(said('grown'))],
      },
    },
  });
  await withManager({ servers: { s: server.config }, catalogTtlMs: 60_000 }, async (manager) => {
    await manager.connect('s');
    for (let turn = 0; turn < 3; turn += 1) await manager.listTools();
    expect(lists(server)).toBe(1);
    const changed = nextEvent(manager, 'toolsChanged');
    await manager.callTool('mcp__s__t');
    await changed;
    await manager.listTools();
    expect(lists(server)).toBe(2);
    await manager.reconnect('s');
    await manager.listTools();
    expect(lists(server)).toBe(3);
  });
});
