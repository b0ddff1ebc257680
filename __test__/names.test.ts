import { describe, expect, test } from 'vitest';
import { buildToolName, normalizeName, parseToolName } from '..';
import {
  faulty,
  jsonOf,
  nextEvent,
  temporaryDirectory,
  notes,
  toolsOf,
  withFaulty,
  withManager,
} from './harness';
import { join } from 'node:path';

describe('building and splitting names', () => {
  test.each([
    ['files', 'read', 'mcp__files__read'],
    ['my server', 'a.b', 'mcp__my_server__a_b'],
    ['my__srv', 'tool', 'mcp__my_srv__tool'],
    ['my____srv', 'a__b', 'mcp__my_srv__a__b'],
    ['a..b', 't', 'mcp__a_b__t'],
    ['日本', 'x', 'mcp____x'],
    ['a-b', 'c-d', 'mcp__a-b__c-d'],
    ['srv', 'naïve', 'mcp__srv__na_ve'],
  ])('NAM-01 %j + %j → %s', (server, tool, full) => {
    if (server === '日本') expect(buildToolName(server, tool)).toMatch(/^mcp__[A-Za-z0-9_-]+$/);
    else expect(buildToolName(server, tool)).toBe(full);
  });

  test('NAM-01 normalizeName changes only what is outside its alphabet, character by character', () => {
    expect(normalizeName('a b.c/d:e-f_g9')).toBe('a_b_c_d_e-f_g9');
    expect(normalizeName('')).toBe('');
    expect(normalizeName('é')).toBe('_');
  });

  test.each([
    ['mcp__a__b', { server: 'a', tool: 'b' }],
    ['mcp__a__b__c', { server: 'a', tool: 'b__c' }],
    ['mcp__a_b__c', { server: 'a_b', tool: 'c' }],
    ['mcp__constructor____proto__', { server: 'constructor', tool: '__proto__' }],
  ])('NAM-02 %s splits at the first separator', (full, parts) => {
    expect(parseToolName(full)).toEqual(parts);
  });

  test.each(['', 'read', 'mcp__', 'mcp__a', 'mcp_a__b', 'MCP__a__b', 'xmcp__a__b'])(
    'NAM-02 %j is no such name',
    (full) => {
      expect(parseToolName(full)).toBeNull();
    },
  );

  test('NAM-01 NAM-02 the way back gives the parts', () => {
    for (const server of ['a', 'my__srv', 'x y', '_a_', 'a_']) {
      for (const tool of ['t', 'a__b', '_t', '__t']) {
        const parts = parseToolName(buildToolName(server, tool));
        expect(parts, `${server} + ${tool}`).not.toBeNull();
        expect(parts?.server).not.toContain('__');
      }
    }
  });
});

describe('names of listed tools', () => {
  const AWKWARD = [
    'a.b',
    'a b',
    'with space',
    'GET:/x',
    '日本',
    'naïve',
    'b__c',
    'constructor',
    '__proto__',
    'toString',
    'hasOwnProperty',
  ];

  test('NAM-03 J2 I9 mcp:TOOL-05 every awkward name is listed and callable, and the wire gets the original', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      const tools = await toolsOf(manager);
      for (const name of [...AWKWARD, 'x'.repeat(100)]) {
        const tool = tools.find(({ mcpInfo }) => mcpInfo.toolName === name);
        expect(tool, name).toBeDefined();
        expect(tool!.name).toMatch(/^mcp__s__[A-Za-z0-9_-]+$/);
        expect(jsonOf(await manager.callTool(tool!.name)).name).toBe(name);
        expect(jsonOf(await manager.callTool({ server: 's', tool: name })).name).toBe(name);
      }
      const wire = notes(file)
        .filter(({ method }) => method === 'tools/call')
        .map(({ params }) => params?.name);
      expect(new Set(wire)).toEqual(new Set([...AWKWARD, 'x'.repeat(100)]));
    });
  });

  test('NAM-04 colliding names stay apart: the first by content keeps the plain name, a warning names both', async () => {
    await withFaulty([], async (manager) => {
      const warning = nextEvent(
        manager,
        'diagnostic',
        ({ code, message }) => code === 'NAME_COLLISION' && message.includes('a.b'),
      );
      const tools = await toolsOf(manager);
      const [space, dot] = ['a b', 'a.b'].map(
        (wire) => tools.find(({ mcpInfo }) => mcpInfo.toolName === wire)!.name,
      );
      expect(space).toBe('mcp__s__a_b');
      expect(dot).toMatch(/^mcp__s__a_b_[0-9a-f]+$/);
      const { level, message } = await warning;
      expect(level).toBe('warning');
      expect(message).toContain('a b');
    });
  });

  test('NAM-04 mcp:TOOL-06 two servers that normalise alike stay apart', async () => {
    await withManager(
      { servers: { 'a b': faulty('--name', 'one'), 'a.b': faulty('--name', 'two') } },
      async (manager) => {
        await manager.connect();
        const names = (await toolsOf(manager))
          .filter(({ mcpInfo }) => mcpInfo.toolName === 'echo')
          .map(({ name, mcpInfo }) => [mcpInfo.serverName, name]);
        expect(names).toHaveLength(2);
        expect(new Set(names.map(([, name]) => name)).size).toBe(2);
        for (const [server, name] of names) expect((await manager.callTool(name)).server).toBe(server);
      },
    );
  });

  test('NAM-05 B-058 long names are cut to the limit, distinct, and callable', async () => {
    await withFaulty([], async (manager) => {
      const tools = await toolsOf(manager);
      for (const { name } of tools) expect(name.length, name).toBeLessThanOrEqual(64);
      const long = tools.filter(({ mcpInfo }) => mcpInfo.toolName.length === 100);
      expect(long).toHaveLength(2);
      expect(long[0].name).not.toBe(long[1].name);
      for (const tool of long) {
        expect(tool.name).toMatch(/^mcp__s__x+_[0-9a-f]{8}$/);
        expect(jsonOf(await manager.callTool(tool.name)).name).toBe(tool.mcpInfo.toolName);
      }
    });
  });

  test('NAM-05 maxToolNameLength is an option', async () => {
    await withFaulty(
      [],
      async (manager) => {
        const names = (await toolsOf(manager)).map(({ name }) => name);
        expect(Math.max(...names.map(({ length }) => length))).toBeLessThanOrEqual(40);
        expect(new Set(names).size).toBe(names.length);
      },
      { maxToolNameLength: 40 },
    );
  });

  test('NAM-04 NAM-05 L6 names and their order are the same in two managers', async () => {
    const listed = () =>
      withFaulty([], async (manager) =>
        (await toolsOf(manager)).map(({ name, mcpInfo }) => `${name} ${mcpInfo.toolName}`),
      );
    expect(await listed()).toEqual(await listed());
  });

  test('NAM-04 J4 the same wire name twice: the first stays, the rest are reported', async () => {
    await withFaulty(['--bad-tools'], async (manager) => {
      const reported = nextEvent(manager, 'diagnostic', ({ message }) => message.includes('echo'));
      const echoes = (await toolsOf(manager)).filter(({ mcpInfo }) => mcpInfo.toolName === 'echo');
      expect(echoes.map(({ description }) => description)).toEqual(['Returns its arguments']);
      expect((await reported).server).toBe('s');
    });
  });

  test.each(['ide', 'IDE', 'Claude-in-Chrome', 'computer-use'])(
    'NAM-07 the reserved name %s is refused',
    async (name) => {
      await withManager({}, async (manager) => {
        await expect(manager.addServer(name, faulty())).rejects.toMatchObject({
          code: 'RESERVED_NAME',
          name: 'McpConfigError',
        });
        expect(manager.status(name)).toBeUndefined();
      });
    },
  );

  test('NAM-07 reservedServerNames replaces the list', async () => {
    await withManager({ reservedServerNames: ['mine'] }, async (manager) => {
      await expect(manager.addServer('Mine', faulty())).rejects.toMatchObject({ code: 'RESERVED_NAME' });
      expect((await manager.addServer('ide', faulty())).state).toBe('connected');
    });
  });
});
