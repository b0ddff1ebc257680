/** Commands that give headers (OAU-04), through the public interface. */
import { mkdirSync, readFileSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { McpManagerOptions, ServerConfig } from '..';
import { caught, temporaryDirectory, textOf, withManager } from './harness';
import { httpPeer, wsPeer } from './remote-peers';

const FAST: McpManagerOptions = { retry: { attempts: 0 } };

/** A command that prints `token-1`, `token-2` … in a header, and how often it ran. */
function counting(): { command: string[]; runs: () => number } {
  const file = join(temporaryDirectory(), 'runs');
  const script = [
    "const fs = require('node:fs');",
    `fs.appendFileSync(${JSON.stringify(file)}, 'x');`,
    `const n = fs.readFileSync(${JSON.stringify(file)}, 'utf8').length;`,
    "console.log(JSON.stringify({ Authorization: 'Bearer token-' + n, 'X-For': process.env.CLAUDE_CODE_MCP_SERVER_NAME }));",
  ].join(' ');
  return {
    command: [process.execPath, '-e', script],
    runs: () => (existsSync(file) ? readFileSync(file, 'utf8').length : 0),
  };
}

describe('headersHelper', () => {
  test('OAU-04 G17 runs per connection, and again when the server refuses', async () => {
    let good = 'Bearer token-1';
    const peer = await httpPeer(({ headers }, response) => {
      if (headers.authorization === good) return false;
      response.writeHead(401).end(`unknown: ${headers.authorization}`);
      return true;
    });
    const { command, runs } = counting();
    const s: ServerConfig = {
      type: 'http',
      url: peer.url,
      headersHelper: command,
      headers: { 'X-Static': 'yes' },
    };
    await withManager({ ...FAST, servers: { s } }, async (manager) => {
      await manager.connect('s');
      expect(runs()).toBe(1);
      good = 'Bearer token-2';
      expect(textOf(await manager.callTool('mcp__s__echo'))).toBe('hello from echo');
      expect(runs()).toBe(2);
      good = 'Bearer token-3';
      await manager.reconnect('s');
      expect(manager.status('s')!.state).toBe('connected');
      expect(runs()).toBe(3);
      good = 'nobody has it';
      const error = await caught(manager.callTool('mcp__s__echo'));
      expect(error).toMatchObject({ code: 'AUTH_REQUIRED', server: 's' });
      expect(runs()).toBe(4);
      const shown = JSON.stringify([error, error.message, manager.status(), manager.configReport()]);
      expect(shown).not.toMatch(/token-\d/);
    });
    for (const { headers } of peer.seen) expect(headers).toMatchObject({ 'x-static': 'yes', 'x-for': 's' });
  });

  test('OAU-04 the upgrade of a WebSocket carries them', async () => {
    const peer = await wsPeer();
    const { command } = counting();
    const s = {
      type: 'ws',
      url: peer.url,
      headersHelper: command,
      headers: { authorization: 'configured' },
    } as ServerConfig;
    await withManager({ ...FAST, servers: { s } }, async (manager) => {
      await manager.connect('s');
      expect(manager.status('s')!.state).toBe('connected');
    });
    expect(peer.upgrades.map(({ headers }) => headers.authorization)).toEqual(['Bearer token-1']);
  });

  test('OAU-04 I4 a text is split by quoting rules only, and a failure shows nothing of the output', async () => {
    const peer = await httpPeer();
    const node = JSON.stringify(process.execPath);
    const shows = (script: string) => ({
      type: 'http' as const,
      url: peer.url,
      headersHelper: `${node} -e '${script}' $HOME`,
    });
    await withManager(
      { ...FAST, servers: { s: shows('console.log(JSON.stringify({ "X-Word": process.argv[1] }))') } },
      async (manager) => {
        await manager.connect('s');
      },
    );
    expect(peer.seen[0].headers['x-word']).toBe('$HOME');
    for (const script of [
      'console.log("very-secret")',
      'console.log("{}"); console.error("very-secret"); process.exit(3)',
    ])
      await withManager({ ...FAST, servers: { s: shows(script) } }, async (manager) => {
        const error = await caught(manager.connect('s'));
        expect(error).toMatchObject({ code: 'AUTH_FAILED', server: 's' });
        expect(JSON.stringify([error, error.message, manager.status()])).not.toContain('very-secret');
      });
    await withManager(
      { ...FAST, servers: { s: { ...shows('x'), headersHelper: '"open' } } },
      async (manager) => {
        const { servers } = await manager.load();
        expect(servers).toMatchObject([{ name: 's', fate: 'invalid' }]);
      },
    );
  });

  test('OAU-04 I4 POL-01 nothing of a project runs before it was approved', async () => {
    const home = temporaryDirectory();
    const project = join(home, 'project');
    mkdirSync(project);
    const peer = await httpPeer();
    const { command, runs } = counting();
    const s = { type: 'http', url: peer.url, headersHelper: command };
    writeFileSync(join(project, '.mcp.json'), JSON.stringify({ mcpServers: { s } }));
    const options: McpManagerOptions = {
      ...FAST,
      cwd: project,
      stateDir: false,
      config: { homeDir: home, managedDir: join(home, 'managed'), projectRoot: project },
    };
    await withManager(options, async (manager) => {
      await manager.connect();
      expect(await caught(manager.connect('s'))).toMatchObject({ code: 'SERVER_NOT_APPROVED' });
      expect(runs()).toBe(0);
      await manager.approveServer('s');
      await manager.connect('s');
      expect(manager.status('s')!.state).toBe('connected');
      expect(runs()).toBe(1);
    });
  });
});
