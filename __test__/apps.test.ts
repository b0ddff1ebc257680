/** MCP Apps (BEY-12, mcp:APP-*) with a server of the official SDK: what it says of views reaches the host, and who may call what is held to. */
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { describe, expect, test, vi } from 'vitest';
import type { McpManager, McpManagerOptions, SdkServer, Tool } from '..';
import { caught, textOf, withManager } from './harness';

const UI = 'ui://maps/view.html';
const VIEW = 'text/html;profile=mcp-app';
const CSP = { connectDomains: ['https://tiles.example'] };

function maps(): McpServer {
  const server = new McpServer({ name: 'maps', version: '1.0.0' });
  const add = (name: string, meta?: Record<string, unknown>) =>
    server.registerTool(name, { description: `Does ${name}`, _meta: meta }, () => ({
      content: [{ type: 'text', text: name }],
      _meta: { 'maps/zoom': 3, ui: { state: 'x\u200b' } },
    }));
  add('show', { ui: { resourceUri: UI }, 'maps/own': { a: [1] } });
  add('old', { 'ui/resourceUri': UI });
  add('set_zoom', { ui: { visibility: ['app'] } });
  add('ask', { ui: { visibility: ['model'] } });
  add('plain');
  const meta = { ui: { csp: CSP, prefersBorder: true } };
  server.registerResource('view', UI, { mimeType: VIEW, _meta: meta }, () => ({
    contents: [{ uri: UI, mimeType: VIEW, text: '<p>map</p>', _meta: meta }],
  }));
  server.registerResource('page', 'ui://maps/page.html', {}, () => ({
    contents: [{ uri: 'ui://maps/page.html', mimeType: 'text/html', text: '<p>page</p>' }],
  }));
  return server;
}

const withMaps = <T>(
  options: McpManagerOptions,
  body: (manager: McpManager, server: McpServer) => Promise<T>,
): Promise<T> =>
  withManager(options, async (manager) => {
    const server = maps();
    await manager.addSdkServer('maps', server as unknown as SdkServer);
    return body(manager, server);
  });

const names = (tools: Tool[]) =>
  tools
    .map(({ mcpInfo }) => mcpInfo.toolName)
    .filter((name) => !name.startsWith('mcp_'))
    .sort();
const call = (manager: McpManager, tool: string, app?: string) =>
  manager.callTool({ server: 'maps', tool }, {}, { app });

describe('what servers say of views', () => {
  test('mcp:APP-02 mcp:APP-06 of tools, also in the older form', async () => {
    await withMaps({}, async (manager) => {
      const tools = new Map((await manager.listTools()).map((tool) => [tool.mcpInfo.toolName, tool]));
      expect(tools.get('show')).toMatchObject({
        meta: { ui: { resourceUri: UI }, 'maps/own': { a: [1] } },
        ui: { resourceUri: UI, visibility: ['model', 'app'] },
      });
      expect(tools.get('old')?.ui).toEqual({ resourceUri: UI, visibility: ['model', 'app'] });
      expect(tools.get('plain')).not.toHaveProperty('ui');
    });
  });

  test('mcp:APP-05 mcp:APP-06 of resources, of their contents and of results', async () => {
    await withMaps({}, async (manager) => {
      const view = (await manager.listResources()).find(({ uri }) => uri === UI);
      expect(view).toMatchObject({ mimeType: VIEW, meta: { ui: { csp: CSP, prefersBorder: true } } });
      expect(await manager.readResource('maps', UI)).toEqual([
        {
          uri: UI,
          mimeType: VIEW,
          text: '<p>map</p>',
          meta: { ui: { csp: CSP, prefersBorder: true } },
          server: 'maps',
        },
      ]);
      // For the view, so nothing of it is cleaned.
      expect((await call(manager, 'show')).meta).toEqual({ 'maps/zoom': 3, ui: { state: 'x\u200b' } });
    });
  });

  test('mcp:APP-01 mcp:EXT-01 a host that renders views says so, no other does', async () => {
    const declared = (server: McpServer) =>
      (server.server.getClientCapabilities() as { extensions?: object } | undefined)?.extensions;
    await withMaps({}, async (_, server) => expect(declared(server)).toBeUndefined());
    await withMaps({ apps: true }, async (_, server) =>
      expect(declared(server)).toEqual({ 'io.modelcontextprotocol/ui': { mimeTypes: [VIEW] } }),
    );
  });

  test('mcp:APP-02 a view of another type is refused where views are rendered', async () => {
    await withMaps({ apps: true }, async (manager) => {
      expect((await manager.readResource('maps', UI))[0].text).toBe('<p>map</p>');
      const error = await caught(manager.readResource('maps', 'ui://maps/page.html'));
      expect(error).toMatchObject({ code: 'RESULT_INVALID', message: expect.stringContaining('text/html') });
    });
    await withMaps({}, async (manager) => {
      expect((await manager.readResource('maps', 'ui://maps/page.html'))[0].text).toBe('<p>page</p>');
    });
  });
});

describe('who may call', () => {
  test('mcp:APP-03 what is for apps alone is not offered to a model, and not called for it', async () => {
    await withMaps({}, async (manager) => {
      expect(names(await manager.listTools())).toEqual(['ask', 'old', 'plain', 'show']);
      expect(names(await manager.searchTools('set_zoom'))).toEqual([]);
      expect(names(await manager.searchTools('select:mcp__maps__set_zoom'))).toEqual([]);
      for (const attempt of [
        call(manager, 'set_zoom'),
        manager.callTool('mcp__maps__set_zoom'),
        manager.request('maps', 'tools/call', { name: 'set_zoom' }),
      ]) {
        expect(await caught(attempt)).toMatchObject({
          code: 'PERMISSION_DENIED',
          rule: '_meta.ui.visibility',
        });
      }
    });
  });

  test('mcp:APP-04 an app calls what its own server offers to it, and nothing else', async () => {
    await withMaps({}, async (manager) => {
      await manager.addSdkServer('other', maps() as unknown as SdkServer);
      expect(names(await manager.listTools({ server: 'maps', app: true }))).toEqual([
        'old',
        'plain',
        'set_zoom',
        'show',
      ]);
      expect(textOf(await call(manager, 'set_zoom', 'maps'))).toBe('set_zoom');
      expect(textOf(await call(manager, 'plain', 'maps'))).toBe('plain');
      for (const [tool, app] of [
        ['ask', 'maps'],
        ['set_zoom', 'other'],
        ['plain', 'other'],
      ]) {
        expect(await caught(call(manager, tool, app)), `${tool} for ${app}`).toMatchObject({
          code: 'PERMISSION_DENIED',
          server: 'maps',
        });
      }
    });
  });

  test('mcp:APP-07 a call of an app passes permission as ever', async () => {
    const onPermission = vi.fn<NonNullable<McpManagerOptions['onPermission']>>(() => ({ behavior: 'deny' }));
    await withMaps({ permissions: {}, onPermission }, async (manager) => {
      expect(await caught(call(manager, 'set_zoom', 'maps'))).toMatchObject({ code: 'PERMISSION_DENIED' });
      expect(onPermission).toHaveBeenCalledTimes(1);
    });
  });
});
