/** The two tools that a server with resources gets for models (TOL-06), and who may call them (POL-09). */
import { expect, test } from 'vitest';
import type { McpManagerOptions } from '..';
import { caught, faulty, jsonOf, textOf, withManager } from './harness';

const LIST = 'mcp__s__mcp_list_resources';
const READ = 'mcp__s__mcp_read_resource';
/** Nothing is allowed, nobody can be asked. */
const strict: McpManagerOptions = { permissions: {}, servers: { s: faulty() } };
const without = (...flags: string[]) => faulty('--capabilities', '{"tools":{}}', ...flags);
const ours = (tools: { name: string }[]) =>
  tools.map(({ name }) => name).filter((name) => name.includes('resource'));

test('TOL-06 POL-09 a server with resources has both, allowed without a rule; one without has none', async () => {
  await withManager({ ...strict, servers: { s: faulty(), plain: without() } }, async (manager) => {
    const tools = await manager.listTools();
    expect(ours(tools)).toEqual([LIST, READ]);
    expect(tools.find(({ name }) => name === READ)).toMatchObject({
      mcpInfo: { serverName: 's', toolName: 'mcp_read_resource' },
      isMcp: true,
      isReadOnly: true,
      isConcurrencySafe: true,
      inputSchema: { required: ['uri'] },
    });
    const listed = jsonOf(await manager.callTool(LIST));
    expect(listed).toEqual(await manager.listResources({ server: 's' }));
    const result = await manager.callTool(READ, { uri: 'test://text' });
    expect(result).toMatchObject({ server: 's', tool: 'mcp_read_resource', fullName: READ, isError: false });
    expect(result.content).toEqual([{ type: 'text', text: 'plain text ½ ﬁ' }]);
    expect(textOf(await manager.callTool(READ, { uri: 'test://blob' }))).toMatch(
      /^test:\/\/blob \(image\/png, \d+ bytes\) is saved in .+/,
    );
    for (const args of [{}, { uri: 5 }]) {
      expect(await caught(manager.callTool(READ, args))).toMatchObject({
        code: 'INPUT_INVALID',
        server: 's',
      });
    }
    expect(await caught(manager.callTool(READ, { uri: 'test://nowhere' }))).toMatchObject({
      code: 'RPC_ERROR',
    });
    const raw = await manager.request('s', 'tools/call', {
      name: 'mcp_read_resource',
      arguments: { uri: 'test://text' },
    });
    expect(raw).toEqual({ content: [{ type: 'text', text: 'plain text ½ ﬁ' }] });
  });
});

test('TOL-06 other servers: one by name, all with a star, and nothing that rules keep back', async () => {
  const options: McpManagerOptions = {
    servers: { s: faulty(), t: faulty(), shut: faulty(), plain: without() },
    permissions: { ask: ['mcp__shut__mcp_list_resources'] },
  };
  await withManager(options, async (manager) => {
    await manager.connect();
    const of = async (server: string) =>
      jsonOf(await manager.callTool(LIST, { server })).map((one: { server: string }) => one.server);
    expect(new Set(await of('*'))).toEqual(new Set(['s', 't']));
    expect(new Set(await of('t'))).toEqual(new Set(['t']));
    expect(await caught(of('shut'))).toMatchObject({
      code: 'PERMISSION_DENIED',
      layer: 'rule',
      rule: 'mcp__shut__mcp_list_resources',
    });
    expect(await caught(of('plain'))).toMatchObject({ code: 'TOOL_UNKNOWN' });
    expect(await caught(of('nowhere'))).toMatchObject({ code: 'SERVER_UNKNOWN' });
    const view = manager.view({ servers: ['s', 'plain'], permissions: {} });
    const seen = jsonOf(await view.callTool(LIST, { server: '*' })) as { server: string }[];
    expect(new Set(seen.map(({ server }) => server))).toEqual(new Set(['s']));
    expect(await caught(view.callTool(LIST, { server: 't' }))).toMatchObject({ code: 'SERVER_UNKNOWN' });
  });
});

test('POL-09 deny and ask rules hold', async () => {
  const onPermission = () => ({ behavior: 'deny' as const });
  const permissions = { deny: [READ], ask: [LIST] };
  await withManager({ ...strict, permissions, onPermission }, async (manager) => {
    expect(ours(await manager.listTools())).toEqual([LIST]);
    expect(await caught(manager.callTool(READ, { uri: 'test://text' }))).toMatchObject({
      code: 'PERMISSION_DENIED',
      layer: 'rule',
      rule: READ,
    });
    expect(await caught(manager.callTool(LIST))).toMatchObject({ code: 'PERMISSION_DENIED', layer: 'user' });
  });
});

test('TOL-06 tools.include and exclude hold', async () => {
  const server = { ...faulty(), tools: { exclude: ['mcp_read_*'] } };
  await withManager({ ...strict, servers: { s: server } }, async (manager) => {
    expect(ours(await manager.listTools())).toEqual([LIST]);
  });
});

test("TOL-06 a server's own tool of that name keeps the name, ours gets a suffix", async () => {
  await withManager({ servers: { s: faulty() } }, async (manager) => {
    await manager.callTool('mcp__s__add-tool', { name: 'mcp_list_resources' });
    const tools = await manager.listTools();
    expect(ours(tools).sort()).toEqual([LIST, `${LIST}_2`, READ]);
    expect(jsonOf(await manager.callTool(`${LIST}_2`))).toHaveLength(3);
    // Its own tool knows nothing of resources.
    const own = await manager.callTool(LIST, {}, { toolErrors: 'return' }).catch((error) => error);
    expect(own).not.toMatchObject({
      content: [{ type: 'text', text: expect.stringContaining('test://text') }],
    });
  });
});
