/** Lists of tools as models get them: how long they are, in which order, how much their tools may answer. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Diagnostic, ServerConfig } from '..';
import { fixture, pause, temporaryDirectory, withFaulty, withManager } from './harness';

/** A server with so many tools. */
function offering(count: number, more: object = {}): ServerConfig {
  const state = join(temporaryDirectory(), 'tools.json');
  const tools = Array.from({ length: count }, (_, n) => ({
    name: `tool-${String(n).padStart(3, '0')}`,
    inputSchema: { type: 'object' },
    ...more,
  }));
  writeFileSync(state, JSON.stringify(tools));
  return { command: process.execPath, args: [fixture('changing-server.mjs'), state, '/dev/null'] };
}

test('J9 a list above toolBudget names the servers that crowd it, once, and has every tool', async () => {
  const servers = { small: offering(20), big: offering(300), middle: offering(120) };
  await withManager({ servers }, async (manager) => {
    const told: Diagnostic[] = [];
    manager.on('diagnostic', (one) => one.code === 'TOOLS_CROWDED' && told.push(one));
    await manager.connect();
    for (let n = 0; n < 3; n += 1) expect(await manager.listTools()).toHaveLength(440);
    await pause(50);
    expect(told).toHaveLength(1);
    expect(told[0]).toMatchObject({
      level: 'warning',
      crowding: [
        { server: 'big', tools: 300 },
        { server: 'middle', tools: 120 },
      ],
      message: expect.stringMatching(/440 tools.*128.*big \(300\), middle \(120\).*searchTools/),
    });
    // What a model needs is found, and only that is shown.
    await manager.searchTools('select:mcp__big__tool-007');
    expect((await manager.listTools({ loaded: true })).map(({ name }) => name)).toEqual([
      'mcp__big__tool-007',
    ]);
    await manager.listTools({ server: 'big' });
    await pause(50);
    expect(told).toHaveLength(1);
  });
});

test('J9 toolBudget is an option; 0 counts nothing; a view is told of its own list', async () => {
  const servers = { a: offering(6), b: offering(2) };
  const toldWith = (toolBudget: number, chosen?: string[]) =>
    withManager({ servers, toolBudget }, async (manager) => {
      const told: Diagnostic[] = [];
      manager.on('diagnostic', (one) => one.code === 'TOOLS_CROWDED' && told.push(one));
      await manager.connect();
      await (chosen === undefined ? manager : manager.view({ servers: chosen })).listTools();
      await pause(50);
      return told.map(({ crowding }) => crowding);
    });
  expect(await toldWith(8)).toEqual([]);
  expect(await toldWith(7)).toEqual([[{ server: 'a', tools: 6 }]]);
  expect(await toldWith(0)).toEqual([]);
  expect(await toldWith(1, ['b'])).toEqual([[{ server: 'b', tools: 2 }]]);
});

test('L7 by arrival: a server that comes late changes nothing before its own tools', async () => {
  const servers = { m: offering(3), z: offering(2) };
  await withManager({ servers }, async (manager) => {
    await manager.connect();
    const names = async (options = {}) =>
      (await manager.listTools({ order: 'arrival', ...options })).map(({ name }) => name);
    const before = await names();
    expect(before).toHaveLength(5);
    await manager.addServer('a', offering(2));
    const after = await names();
    expect(after.slice(0, 5)).toEqual(before);
    expect(after.slice(5)).toEqual(['mcp__a__tool-000', 'mcp__a__tool-001']);
    // By name it would stand first.
    expect((await manager.listTools()).map(({ name }) => name)).toEqual([...after].sort());
    await manager.disconnect('m');
    expect(await names()).toEqual(after.filter((name) => !name.startsWith('mcp__m__')));
    await manager.connect('m');
    expect(await names()).toEqual(after);
    // What is found joins the loaded ones at their end.
    await manager.searchTools('select:mcp__z__tool-001');
    await names({ loaded: true });
    await manager.searchTools('select:mcp__a__tool-000');
    expect(await names({ loaded: true })).toEqual(['mcp__z__tool-001', 'mcp__a__tool-000']);
    // Another model has another list.
    const view = manager.view({});
    expect((await view.listTools({ order: 'arrival' })).map(({ name }) => name)).toEqual([...after].sort());
  });
});

test('L7 a late server is one event with its summary, not one per tool', async () => {
  await withManager({ servers: { m: offering(1) } }, async (manager) => {
    await manager.connect();
    const changed: string[] = [];
    manager.on('toolsChanged', ({ server }) => changed.push(server));
    await manager.addServer('late', offering(200));
    await manager.listTools();
    await pause(100);
    expect(changed.filter((server) => server === 'late').length).toBeLessThanOrEqual(1);
    expect(changed.filter((server) => server === 'm')).toEqual([]);
    expect(manager.status('late')).toMatchObject({ state: 'connected', toolCount: 200 });
  });
});

test('K12 a tool may claim a larger result, up to the ceiling; others are cut as ever', async () => {
  const claiming = (characters: unknown) => ({ _meta: { 'anthropic/maxResultSizeChars': characters } });
  const script = `
    const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
    const tools = JSON.parse(process.env.TOOLS);
    require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method } = JSON.parse(line);
      if (id === undefined) return;
      if (method === 'initialize') send({ id, result: { protocolVersion: '2025-11-25',
        capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } } });
      else if (method === 'tools/list') send({ id, result: { tools } });
      else send({ id, result: { content: [{ type: 'text', text: 'x'.repeat(60000) }] } });
    });`;
  const tools = [
    { name: 'plain', inputSchema: { type: 'object' } },
    { name: 'claims', inputSchema: { type: 'object' }, ...claiming(80_000) },
    { name: 'small', inputSchema: { type: 'object' }, ...claiming(4) },
    { name: 'odd', inputSchema: { type: 'object' }, ...claiming('many') },
  ];
  const s = { command: process.execPath, args: ['-e', script], env: { TOOLS: JSON.stringify(tools) } };
  const cut = (options: object) =>
    withManager(
      { servers: { s }, maxOutputTokens: 5_000, onLargeOutput: 'truncate', ...options },
      async (manager) => {
        await manager.connect();
        const limits: Record<string, number | undefined> = {};
        for (const { name } of tools)
          limits[name] = (await manager.callTool({ server: 's', tool: name })).truncated?.limit;
        return limits;
      },
    );
  expect(await cut({})).toEqual({ plain: 5_000, claims: undefined, small: 5_000, odd: 5_000 });
  expect(await cut({ maxToolOutputTokens: 10_000 })).toMatchObject({ plain: 5_000, claims: 10_000 });
  expect(await cut({ maxToolOutputTokens: 0 })).toMatchObject({ claims: 5_000 });
});

test('K3 an image above maxImageBytes is a file; a hook may put a smaller one in its place', async () => {
  const outputDir = temporaryDirectory();
  const head = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
  const screenshot = Buffer.concat([head, Buffer.alloc(200_000, 1)]);
  const image = { type: 'image', data: screenshot.toString('base64'), mimeType: 'image/png' };
  const result = { content: [{ type: 'text', text: 'a screenshot' }, image] };
  const small = { ...image, data: head.toString('base64') } as const;
  await withFaulty(
    [],
    async (manager) => {
      const told: string[] = [];
      manager.on('diagnostic', ({ code }) => told.push(code));
      const { content } = await manager.callTool('mcp__s__raw-result', { result });
      expect(content.map(({ type }) => type)).toEqual(['text', 'file']);
      const [, saved] = content;
      if (saved.type !== 'file') throw new Error('no file');
      expect(readFileSync(saved.path).equals(screenshot)).toBe(true);
      await pause(20);
      expect(told).toContain('IMAGE_TOO_LARGE');
    },
    { outputDir, maxImageBytes: 100_000 },
  );
  await withFaulty(
    [],
    async (manager) => {
      const { content } = await manager.callTool('mcp__s__raw-result', { result });
      expect(content[1]).toEqual({ type: 'image', data: small.data, mimeType: 'image/png' });
    },
    {
      outputDir,
      maxImageBytes: 100_000,
      hooks: {
        postToolUse: ({ result: { content } }) => ({
          result: {
            content: content.map((block) =>
              block.type === 'file' ? { type: 'image', data: small.data, mimeType: 'image/png' } : block,
            ),
          },
        }),
      },
    },
  );
  for (const maxImageBytes of [0, undefined])
    await withFaulty(
      [],
      async (manager) => {
        const { content } = await manager.callTool('mcp__s__raw-result', { result });
        expect(content[1]).toEqual(image);
      },
      { outputDir, maxImageBytes },
    );
});

test('the list is sorted by name, of one server and of all, in every run', async () => {
  const state = join(temporaryDirectory(), 'tools.json');
  const tools = ['zeta', 'alpha', 'Beta', 'alpha2'].map((name) => ({
    name,
    inputSchema: { type: 'object' },
  }));
  writeFileSync(state, JSON.stringify(tools));
  const odd: ServerConfig = {
    command: process.execPath,
    args: [fixture('changing-server.mjs'), state, '/dev/null'],
  };
  await withManager({ servers: { z: odd, a: odd } }, async (manager) => {
    await manager.connect();
    const sorted = ['Beta', 'alpha', 'alpha2', 'zeta'];
    const names = async (server?: string) => (await manager.listTools({ server })).map(({ name }) => name);
    expect(await names('z')).toEqual(sorted.map((name) => `mcp__z__${name}`));
    expect(await names()).toEqual(
      ['a', 'z'].flatMap((server) => sorted.map((name) => `mcp__${server}__${name}`)),
    );
  });
});
