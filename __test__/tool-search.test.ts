/** TOL-05: tools that are found by words, and those that stand in the model's context. */
import { describe, expect, test } from 'vitest';
import type { McpManager } from '..';
import { faulty, realServer, withManager } from './harness';
import { programmed } from './programmed-server';

const servers = {
  everything: realServer('@modelcontextprotocol/server-everything'),
  memory: realServer('@modelcontextprotocol/server-memory'),
};

const names = (tools: { name: string }[]) => tools.map(({ name }) => name);
const loaded = async (manager: McpManager) => names(await manager.listTools({ loaded: true }));

describe('TOL-05 searchTools', () => {
  test('ranks real tools by words, required words and exact picks', async () => {
    await withManager({ servers }, async (manager) => {
      await manager.connect();
      const find = async (query: string, limit?: number) =>
        names(await manager.searchTools(query, { limit }));
      expect((await find('create entities'))[0]).toBe('mcp__memory__create_entities');
      expect((await find('knowledge graph', 3)).every((name) => name.startsWith('mcp__memory__'))).toBe(true);
      expect(await find('knowledge graph', 3)).toHaveLength(3);
      expect((await find('ech'))[0]).toBe('mcp__everything__echo');
      const deleting = await find('+delete relations');
      expect(deleting.length).toBeGreaterThan(1);
      for (const name of deleting) expect(name).toContain('delete');
      expect(await find('select:mcp__memory__read_graph, mcp__everything__echo,mcp__none__x')).toEqual([
        'mcp__memory__read_graph',
        'mcp__everything__echo',
      ]);
      expect(await find('')).toEqual([]);
      expect(await find('zzzzqqqq')).toEqual([]);
    });
  });

  test('NAM-01 NAM-05 a tool is found by its own name, whatever is left of it in the full one', async () => {
    const long = 'very_long_prefix_that_takes_all_of_the_space_there_is_in_a_name_create_invoice';
    const { config } = programmed(
      '2025-11-25',
      `on['tools/list'] = () => ({ tools: [tool('查询天气'), tool('${long}'), tool('other')] });`,
    );
    await withManager({ servers: { s: config } }, async (manager) => {
      await manager.connect();
      const found = async (query: string) =>
        (await manager.searchTools(query)).map(({ mcpInfo }) => mcpInfo.toolName);
      expect(await found('天气')).toEqual(['查询天气']);
      expect(await found('create invoice')).toEqual([long]);
      expect(await found('other')).toEqual(['other']);
    });
  });

  test('what is found or called joins the loaded tools, for each view by itself', async () => {
    await withManager({ servers }, async (manager) => {
      await manager.connect();
      expect(await loaded(manager)).toEqual([]);
      await manager.searchTools('select:mcp__memory__read_graph');
      await manager.callTool('mcp__everything__echo', { message: 'x' });
      expect(await loaded(manager)).toEqual(['mcp__everything__echo', 'mcp__memory__read_graph']);
      const view = manager.view({ servers: ['memory'] });
      expect(await view.listTools({ loaded: true })).toEqual([]);
      expect(names(await view.searchTools('echo'))).toEqual([]);
      expect(names(await view.searchTools('read graph', { limit: 1 }))).toEqual(['mcp__memory__read_graph']);
      expect(names(await view.listTools({ loaded: true }))).toEqual(['mcp__memory__read_graph']);
    });
  });

  test('alwaysLoad of a server loads its tools; denied tools are never found', async () => {
    const options = {
      servers: { s: { ...faulty(), alwaysLoad: true }, t: faulty() },
      permissions: { allow: ['mcp__*'], deny: ['mcp__t__echo'] },
    };
    await withManager(options, async (manager) => {
      await manager.connect();
      const own = names(await manager.listTools({ server: 's' }));
      const marked = (await manager.listTools({ server: 't' })).filter(({ alwaysLoad }) => alwaysLoad);
      expect(marked).not.toEqual([]);
      expect(await loaded(manager)).toEqual([...own, ...names(marked)]);
      expect(names(await manager.searchTools('echo'))).toEqual(['mcp__s__echo']);
      expect(await manager.searchTools('select:mcp__t__echo')).toEqual([]);
    });
  });

  test('wrong arguments name their parameter', async () => {
    await withManager({ servers: {} }, async (manager) => {
      const wrong = (promise: Promise<unknown>, parameter: string) =>
        expect(promise).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', parameter });
      await wrong(manager.searchTools(5 as never), 'query');
      await wrong(manager.searchTools('x', { limit: 0 }), 'options.limit');
      await wrong(manager.listTools({ loaded: 'yes' as never }), 'options.loaded');
    });
  });
});
