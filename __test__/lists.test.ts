import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  caught,
  eventually,
  faulty,
  nextEvent,
  notes,
  pause,
  temporaryDirectory,
  withFaulty,
  withManager,
} from './harness';

describe('pages', () => {
  test('PRO-09 J13 J15 mcp:PRM-03 every list is read to its end, an empty cursor is a cursor', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--pages', '--notes', file], async (manager) => {
      await manager.connect('s');
      const tools = (await manager.listTools()).map(({ mcpInfo }) => mcpInfo.toolName);
      expect(tools).toEqual(expect.arrayContaining(['echo', 'tool-of-page-2', 'tool-of-page-3']));
      expect((await manager.listPrompts()).map(({ promptName }) => promptName)).toEqual(
        expect.arrayContaining(['greet', 'prompt-of-page-2', 'prompt-of-page-3']),
      );
      expect((await manager.listResources()).map(({ uri }) => uri)).toEqual(
        expect.arrayContaining(['test://text', 'test://page-2', 'test://page-3']),
      );
      expect((await manager.listResourceTemplates()).map(({ uriTemplate }) => uriTemplate)).toEqual(
        expect.arrayContaining(['test://item/{id}', 'test://page-2/{x}', 'test://page-3/{x}']),
      );
      for (const method of ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list']) {
        const cursors = notes(file)
          .filter((note) => note.method === method)
          .map(({ params }) => params?.cursor);
        expect(cursors.slice(0, 3), method).toEqual([undefined, '', 'third']);
      }
      expect((await manager.callTool({ server: 's', tool: 'echo' })).isError).toBe(false);
    });
  });

  test('mcp:PAGE-06 PRO-09 J14 LIST_LIMIT: a cursor that repeats', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withManager(
      { servers: { s: faulty('--cursor-loop', '--notes', file), good: faulty() } },
      async (manager) => {
        await manager.connect();
        expect(await caught(manager.listTools({ server: 's' }))).toMatchObject({
          code: 'LIST_LIMIT',
          name: 'McpCallError',
          server: 's',
        });
        expect(await caught(manager.listResources({ server: 's' }))).toMatchObject({ code: 'LIST_LIMIT' });
        expect(manager.status('s')?.listErrors?.map(({ code }) => code)).toContain('LIST_LIMIT');
        expect((await manager.listTools()).some(({ name }) => name === 'mcp__good__echo')).toBe(true);
        expect(notes(file).filter(({ method }) => method === 'tools/list').length).toBeLessThan(20);
      },
    );
  });

  test('mcp:PAGE-06 PRO-09 F-030 LIST_LIMIT: pages without end', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(
      ['--cursor-endless', '--notes', file],
      async (manager) => {
        await manager.connect();
        expect(await caught(manager.listPrompts({ server: 's' }))).toMatchObject({ code: 'LIST_LIMIT' });
        expect(notes(file).filter(({ method }) => method === 'prompts/list').length).toBeLessThanOrEqual(20);
      },
      { maxListPages: 5 },
    );
  });

  test('PRO-09 LIST_LIMIT: more items than maxListItems', async () => {
    await withFaulty(
      [],
      async (manager) => {
        await manager.connect();
        expect(await caught(manager.listTools({ server: 's' }))).toMatchObject({ code: 'LIST_LIMIT' });
      },
      { maxListItems: 10 },
    );
  });
});

describe('the kept list', () => {
  const fetched = (file: string) => notes(file).filter(({ method }) => method === 'tools/list').length;

  test('TOL-03 readers share one fetch, and the next ones the kept list', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      await manager.connect();
      await Promise.all(Array.from({ length: 20 }, () => manager.listTools()));
      await manager.listTools();
      expect(fetched(file)).toBe(1);
    });
  });

  test('TOL-03 after its time it is fetched again', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(
      ['--notes', file],
      async (manager) => {
        await manager.connect();
        await manager.listTools();
        const before = fetched(file);
        await pause(150);
        await manager.listTools();
        await eventually(() => fetched(file) > before);
      },
      { catalogTtlMs: 50 },
    );
  });

  test('TOL-03 mcp:TOOL-19 list_changed: an event, and the next list has the new tool', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      await manager.listTools();
      const changed = nextEvent(manager, 'toolsChanged');
      await manager.callTool('mcp__s__add-tool', { name: 'brand-new' });
      expect(await changed).toEqual({ server: 's' });
      await eventually(async () =>
        (await manager.listTools()).some(({ mcpInfo }) => mcpInfo.toolName === 'brand-new'),
      );
      expect((await manager.callTool('mcp__s__brand-new')).isError).toBe(false);
    });
  });

  test('TOL-03 prompts and resources have their events', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const events = Promise.all([
        nextEvent(manager, 'promptsChanged'),
        nextEvent(manager, 'resourcesChanged'),
      ]);
      await manager.callTool('mcp__s__notify', { method: 'notifications/prompts/list_changed' });
      await manager.callTool('mcp__s__notify', { method: 'notifications/resources/list_changed' });
      expect(await events).toEqual([{ server: 's' }, { server: 's' }]);
    });
  });

  test('F-030 mcp:TOOL-19 ten thousand list_changed cause few fetches', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      await manager.connect();
      let events = 0;
      manager.on('toolsChanged', () => (events += 1));
      const line = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
      await manager.callTool('mcp__s__flood', { line, count: 10_000 });
      await pause(300);
      await manager.listTools();
      expect(events).toBeGreaterThan(0);
      expect(fetched(file)).toBeLessThan(30);
    });
  });

  test('TOL-03 tools of a server that is not connected leave the list at once; a call still finds it', async () => {
    await withManager({ servers: { s: faulty(), t: faulty() } }, async (manager) => {
      await manager.connect();
      await manager.setServerEnabled('t', false);
      expect(new Set((await manager.listTools()).map(({ mcpInfo }) => mcpInfo.serverName))).toEqual(
        new Set(['s']),
      );
      await manager.setServerEnabled('t', true);
      expect(new Set((await manager.listTools()).map(({ mcpInfo }) => mcpInfo.serverName))).toEqual(
        new Set(['s', 't']),
      );
    });
  });

  test('mcp:CACHE-11 J17 D9 an error on refresh keeps the last good list, and the status says so', async () => {
    await withFaulty(
      ['--list-error-later'],
      async (manager) => {
        await manager.connect();
        const before = await manager.listTools();
        expect(before.some(({ name }) => name === 'mcp__s__echo')).toBe(true);
        await pause(100);
        expect((await manager.listTools()).map(({ name }) => name)).toEqual(before.map(({ name }) => name));
        await eventually(() => manager.status('s')?.listErrors?.some(({ list }) => list === 'tools'));
        expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
      },
      { catalogTtlMs: 50 },
    );
  });

  test('PRO-05 a server that declares nothing: empty lists, no request (D8 asks for an option to try all the same)', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--capabilities', '{}', '--notes', file], async (manager) => {
      await manager.connect();
      expect(await manager.listTools()).toEqual([]);
      expect(await manager.listPrompts()).toEqual([]);
      expect(await manager.listResources()).toEqual([]);
      // Written by then, but perhaps not yet noted by the other side.
      await eventually(() => notes(file).length > 1);
      expect(notes(file).map(({ method }) => method)).toEqual(['initialize', 'notifications/initialized']);
    });
  });

  test('L6 a caller that changes its list changes nobody else’s', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const mine = await manager.listTools();
      const count = mine.length;
      mine.length = 0;
      expect(await manager.listTools()).toHaveLength(count);
    });
  });
});
