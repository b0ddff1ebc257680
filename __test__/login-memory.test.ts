/** Servers that asked for a login which nobody has given are not asked again at every start (L5). */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { McpManagerOptions, ServerConfig } from '..';
import { authorizationWorld, inWorld } from './authorization-world';
import { caught, nextEvent, temporaryDirectory, withManager } from './harness';
import { httpPeer } from './remote-peers';

const file = 'login-wishes.json';

/** A server that wants a login from everybody. */
const closed = () =>
  httpPeer((_, response) => {
    response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
    return true;
  });

const started = (servers: Record<string, ServerConfig>, options: McpManagerOptions) =>
  withManager({ ...options, servers }, async (manager) => {
    await manager.connect();
    return manager.status();
  });

test('L5 ten servers that answered 401 are left alone by the next start, which says why', async () => {
  const peers = await Promise.all(Array.from({ length: 10 }, closed));
  const servers = Object.fromEntries(
    peers.map(({ url }, n) => [`s${n}`, { type: 'http', url: `${url}?n=${n}` } as ServerConfig]),
  );
  const stateDir = join(temporaryDirectory(), 'state');
  const asked = () => peers.map(({ seen }) => seen.length);
  await started(servers, { stateDir });
  const before = asked();
  expect(before.every((count) => count > 0)).toBe(true);
  const again = await started(servers, { stateDir });
  expect(asked()).toEqual(before);
  for (const status of again)
    expect(status).toMatchObject({
      state: 'needs-auth',
      code: 'AUTH_REQUIRED',
      reason: expect.stringMatching(/asked for a login 0 min ago.*authenticate/),
      hint: expect.any(String),
    });
  // Nothing that says which servers these are.
  expect(readFileSync(join(stateDir, file), 'utf8')).not.toMatch(/127\.0\.0\.1|mcp/);
  // Another definition is another server; without a memory, or where it is not wanted, each start asks.
  await started({ s0: { ...servers.s0, headers: { 'X-New': '1' } } as ServerConfig }, { stateDir });
  expect(asked()[0]).toBeGreaterThan(before[0]);
  for (const options of [{ stateDir: false as const }, { stateDir, loginMemoryMs: 0 }]) {
    const count = asked()[1];
    await started({ s1: servers.s1 }, options);
    expect(asked()[1]).toBeGreaterThan(count);
  }
});

test('L5 whoever names the server asks it; so does a required one, and one with a login of its own way', async () => {
  const peer = await closed();
  const s: ServerConfig = { type: 'http', url: peer.url };
  const stateDir = join(temporaryDirectory(), 'state');
  await started({ s }, { stateDir });
  const count = () => peer.seen.length;
  await withManager({ stateDir, servers: { s } }, async (manager) => {
    await manager.connect();
    const before = count();
    expect((await caught(manager.connect('s'))).code).toBe('AUTH_REQUIRED');
    expect(count()).toBeGreaterThan(before);
    const between = count();
    await manager.reconnect('s').catch(() => undefined);
    expect(count()).toBeGreaterThan(between);
  });
  const before = count();
  await withManager({ stateDir, servers: { s: { ...s, start: 'required' } } }, async (manager) => {
    expect((await caught(manager.connect())).code).toBe('AUTH_REQUIRED');
  });
  expect(count()).toBeGreaterThan(before);
  const unasked = count();
  await started(
    { s: { ...s, headersHelper: [process.execPath, '-e', 'console.log("{}")'] } as ServerConfig },
    { stateDir },
  );
  expect(count()).toBeGreaterThan(unasked);
});

test('L5 a login is remembered at once, and the host that starts logins by itself asks as ever', async () => {
  const world = await authorizationWorld();
  const stateDir = join(temporaryDirectory(), 'state');
  await inWorld(
    world,
    async (manager) => {
      const told = nextEvent(manager, 'authRequired');
      await manager.connect();
      await told;
      expect(manager.status('w')?.state).toBe('needs-auth');
    },
    { stateDir, onAuthorizationUrl: undefined },
  );
  expect(existsSync(join(stateDir, file))).toBe(true);
  // With `onAuthorizationUrl` the start logs in in spite of what is remembered.
  await inWorld(
    world,
    async (manager) => {
      await manager.connect();
      expect(manager.status('w')?.state).toBe('connected');
    },
    { stateDir },
  );
  await inWorld(
    world,
    async (manager) => {
      await manager.connect();
      expect(manager.status('w')?.state).toBe('connected');
    },
    { stateDir, onAuthorizationUrl: undefined },
  );
});

test('L5 a file of a later version is left alone, a broken one is no harm', async () => {
  const peer = await closed();
  const stateDir = temporaryDirectory();
  const servers: Record<string, ServerConfig> = { s: { type: 'http', url: peer.url } };
  const newer = '{"version":99,"servers":{"a":1}}';
  writeFileSync(join(stateDir, file), newer);
  await started(servers, { stateDir });
  await started(servers, { stateDir });
  expect(readFileSync(join(stateDir, file), 'utf8')).toBe(newer);
  writeFileSync(join(stateDir, file), '{"version":1,');
  await started(servers, { stateDir });
  const before = peer.seen.length;
  await started(servers, { stateDir });
  expect(peer.seen.length).toBe(before);
});
