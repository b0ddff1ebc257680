/** Editors over server-sent events and WebSocket (IDE-01, POL-10). */
import { describe, expect, test } from 'vitest';
import type { McpManagerOptions, SseIdeServerConfig, WsIdeServerConfig } from '..';
import { caught, textOf, withManager } from './harness';
import { ssePeer, wsPeer } from './remote-peers';

const TOOLS = ['executeCode', 'getDiagnostics', 'openDiff', 'close_tab'];
const HEADER = 'x-claude-code-ide-authorization';
const FAST: McpManagerOptions = { retry: { attempts: 0 } };

async function editors() {
  const [sse, ws] = [await ssePeer({ tools: TOOLS }), await wsPeer({ tools: TOOLS })];
  const first: SseIdeServerConfig = {
    type: 'sse-ide',
    url: sse.url,
    ideName: 'One',
    authToken: 'first-editor-token',
  };
  const second: WsIdeServerConfig = {
    type: 'ws-ide',
    url: ws.url,
    ideName: 'Two',
    authToken: 'second-editor-token',
  };
  return { sse, ws, first, second };
}

describe('editors', () => {
  test('POL-10 IDE-01 B-060 only two tools of each are taken over, and the token goes with every request', async () => {
    const { sse, ws, first, second } = await editors();
    await withManager({ ...FAST, servers: { ide: first, ide_2: second } }, async (manager) => {
      await manager.connect();
      const names = (await manager.listTools()).map(({ name }) => name).sort();
      expect(names).toEqual([
        'mcp__ide_2__executeCode',
        'mcp__ide_2__getDiagnostics',
        'mcp__ide__executeCode',
        'mcp__ide__getDiagnostics',
      ]);
      for (const [server, transport] of [
        ['ide', 'sse'],
        ['ide_2', 'ws'],
      ]) {
        expect(manager.status(server)).toMatchObject({ state: 'connected', transport });
        expect(textOf(await manager.callTool(`mcp__${server}__getDiagnostics`))).toBe(
          'hello from getDiagnostics',
        );
        expect(await caught(manager.callTool({ server, tool: 'openDiff' }))).toMatchObject({
          code: 'PERMISSION_DENIED',
          layer: 'ide',
          rule: 'ideAllowedTools',
        });
      }
      expect(JSON.stringify([manager.status(), manager.configReport()])).not.toContain('editor-token');
    });
    for (const { headers } of sse.seen) expect(headers[HEADER]).toBe('first-editor-token');
    expect(ws.upgrades[0].headers[HEADER]).toBe('second-editor-token');
    expect(sse.seen.some(({ message }) => message?.params?.name === 'openDiff')).toBe(false);
  });

  test('POL-10 ideAllowedTools says which', async () => {
    const { first } = await editors();
    const options = { ...FAST, servers: { ide: first }, ideAllowedTools: ['openDiff'] };
    await withManager(options, async (manager) => {
      await manager.connect();
      expect((await manager.listTools()).map(({ name }) => name)).toEqual(['mcp__ide__openDiff']);
    });
  });

  test('IDE-01 the option `ide` is an editor named ide, or ide_2 beside another', async () => {
    const { first, second } = await editors();
    await withManager({ ...FAST, ide: first }, async (manager) => {
      await manager.connect();
      expect(manager.status().map(({ name, state }) => [name, state])).toEqual([['ide', 'connected']]);
    });
    await withManager({ ...FAST, ide: second, servers: { ide: first } }, async (manager) => {
      await manager.connect();
      expect(manager.status().map(({ name, type, state }) => [name, type, state])).toEqual([
        ['ide', 'sse-ide', 'connected'],
        ['ide_2', 'ws-ide', 'connected'],
      ]);
    });
    await withManager({ ...FAST, ide: false }, async (manager) => {
      await manager.connect();
      expect(manager.status()).toEqual([]);
    });
  });

  test('IDE-01 an editor elsewhere is refused unless the allow list names its URL', async () => {
    // TEST-NET-1: nobody is there, and nobody is asked.
    const servers = {
      ide: { type: 'ws-ide', url: 'ws://192.0.2.1:9/', ideName: 'Far', authToken: 'far-editor-token' },
    } as Record<string, WsIdeServerConfig>;
    await withManager({ ...FAST, servers }, async (manager) => {
      const error = await caught(manager.connect('ide'));
      expect(error).toMatchObject({ code: 'URL_REFUSED', server: 'ide' });
      expect(error.message).toContain('allowedMcpServers');
      expect(error.message).not.toContain('far-editor-token');
    });
    await withManager({ ...FAST, servers, policy: { allowedMcpServers: ['ide'] } }, async (manager) => {
      expect(await caught(manager.connect('ide'))).toMatchObject({ code: 'URL_REFUSED' });
    });
    const policy = { allowedMcpServers: [{ serverUrl: 'ws://192.0.2.1:*/*' }] };
    const options = { ...FAST, servers, policy, connectTimeoutMs: 300 };
    await withManager(options, async (manager) => {
      const error = await caught(manager.connect('ide'));
      expect(error.code).not.toBe('URL_REFUSED');
    });
  });
});
