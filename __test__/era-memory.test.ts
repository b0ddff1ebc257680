/** What was found out about a server outlives the process (PRO-03, LIF-09). */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Diagnostic, McpManagerOptions, ServerConfig } from '..';
import { eventually, runHost, temporaryDirectory, withManager } from './harness';
import { httpPeer, ssePeer } from './remote-peers';

/** Connects once, in this process. */
async function once(options: McpManagerOptions): Promise<string | undefined> {
  return withManager({ retry: { attempts: 0 }, ...options }, async (manager) => {
    await manager.connect('s');
    expect(manager.status('s')!.state).toBe('connected');
    return manager.status('s')!.transport;
  });
}

const file = 'era-verdicts.json';

describe('verdicts', () => {
  test('PRO-03 a second process sends no second probe', async () => {
    const peer = await httpPeer();
    const stateDir = join(temporaryDirectory(), 'state');
    const s: ServerConfig = { type: 'http', url: `${peer.url}?token=very-secret-token` };
    await once({ stateDir, servers: { s } });
    expect(peer.asked('server/discover')).toBe(1);
    const { stdout } = await runHost('connect-once.mjs', [JSON.stringify({ stateDir, servers: { s } })]);
    expect(JSON.parse(stdout)).toMatchObject({ state: 'connected', era: 'legacy' });
    expect(peer.asked('initialize')).toBe(2);
    expect(peer.asked('server/discover')).toBe(1);
    // Another account is another server.
    await once({ stateDir, servers: { s: { type: 'http', url: `${peer.url}?token=another-token` } } });
    expect(peer.asked('server/discover')).toBe(2);
    const kept = readFileSync(join(stateDir, file), 'utf8');
    expect(Object.keys((JSON.parse(kept) as { servers: object }).servers)).toHaveLength(2);
    expect(kept).not.toMatch(/token|127\.0\.0\.1/);
    for (const name of readdirSync(stateDir)) expect(statSync(join(stateDir, name)).mode & 0o077).toBe(0);
  });

  test.each([{ stateDir: false as const }, {}])('LIF-09 in memory only: %j', async (options) => {
    const peer = await httpPeer();
    const s: ServerConfig = { type: 'http', url: peer.url };
    await once({ ...options, servers: { s } });
    await once({ ...options, servers: { s } });
    expect(peer.asked('server/discover')).toBe(2);
  });

  test('PRO-03 a reconnect of the same process asks no second time', async () => {
    const peer = await httpPeer();
    await withManager({ servers: { s: { type: 'http', url: peer.url } } }, async (manager) => {
      await manager.connect('s');
      await manager.reconnect('s');
    });
    expect(peer.asked('server/discover')).toBe(1);
  });

  test('mcp:ERA-11 E18 the older way is remembered, shown, and given up when contradicted', async () => {
    const stateDir = join(temporaryDirectory(), 'state');
    const peer = await ssePeer();
    const older: ServerConfig = { type: 'http', url: peer.url };
    const posts = () => peer.seen.filter(({ http, path }) => http === 'POST' && path === '/sse').length;
    expect(await once({ stateDir, servers: { s: older } })).toBe('sse');
    const before = posts();
    expect(before).toBeGreaterThan(0);
    expect(await once({ stateDir, servers: { s: older } })).toBe('sse');
    expect(posts()).toBe(before);
    peer.renew();
    expect(await once({ stateDir, servers: { s: older } })).toBe('http');
    expect(await once({ stateDir, servers: { s: older } })).toBe('http');
  });

  test('LIF-09 a broken file is put aside, a newer one left alone', async () => {
    const stateDir = temporaryDirectory();
    const peer = await httpPeer();
    const servers: Record<string, ServerConfig> = { s: { type: 'http', url: peer.url } };
    writeFileSync(join(stateDir, file), '{"version":1');
    await once({ stateDir, servers });
    expect(readFileSync(join(stateDir, `${file}.corrupt`), 'utf8')).toBe('{"version":1');
    await once({ stateDir, servers });
    expect(peer.asked('server/discover')).toBe(1);
    const newer = '{"version":99,"servers":{"a":1}}';
    writeFileSync(join(stateDir, file), newer);
    await once({ stateDir, servers });
    expect(peer.asked('server/discover')).toBe(2);
    expect(readFileSync(join(stateDir, file), 'utf8')).toBe(newer);
  });

  test('Q8 STATE_NOT_WRITTEN: a directory that cannot be is told once, and servers work all the same', async () => {
    const place = join(temporaryDirectory(), 'a-file');
    writeFileSync(place, 'no directory');
    const [one, two] = [await httpPeer(), await httpPeer()];
    const servers: Record<string, ServerConfig> = {
      one: { type: 'http', url: one.url },
      two: { type: 'http', url: two.url },
    };
    await withManager({ servers, stateDir: join(place, 'state') }, async (manager) => {
      const told: Diagnostic[] = [];
      manager.on('diagnostic', (each) => each.code === 'STATE_NOT_WRITTEN' && told.push(each));
      const statuses = await manager.connect();
      expect(statuses.map(({ state }) => state)).toEqual(['connected', 'connected']);
      await eventually(() => told.length > 0);
      await manager.reconnect('one');
      expect((await manager.callTool('mcp__two__echo')).isError).toBe(false);
      expect(told).toHaveLength(1);
      expect(told[0]).toMatchObject({ level: 'warning', message: expect.stringContaining('not remembered') });
      expect(readFileSync(place, 'utf8')).toBe('no directory');
    });
  });
});
