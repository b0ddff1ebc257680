/** Where logins are kept, with a keychain that works, one that is missing, locked, or never answers. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Diagnostic, McpManager, McpManagerOptions } from '..';
import { authorizationWorld, type World } from './authorization-world';
import { eventually, pause, temporaryDirectory, watchEventLoop, withManager } from './harness';
import { type Mode, secretService, type SecretService } from './secret-service';

const onLinux = process.platform === 'linux';

/** Managers find this bus and no other until the test ends. */
function useBus(address: string): void {
  const before = process.env['DBUS_SESSION_BUS_ADDRESS'];
  process.env['DBUS_SESSION_BUS_ADDRESS'] = address;
  onTestFinished(() => void (process.env['DBUS_SESSION_BUS_ADDRESS'] = before));
}

async function keychain(mode: Mode = 'open'): Promise<SecretService> {
  const service = await secretService(mode);
  useBus(service.address);
  return service;
}

const NOBODY = 'unix:path=/nonexistent/bus';

/** A manager of a world; `told` gathers its diagnostics. */
async function inWorld(
  world: World,
  options: McpManagerOptions,
  body: (manager: McpManager, told: Diagnostic[]) => Promise<void>,
): Promise<Diagnostic[]> {
  const told: Diagnostic[] = [];
  const servers = { w: { type: 'http' as const, url: world.url } };
  await withManager(
    { onAuthorizationUrl: (request) => world.visit(request), ...options, servers },
    async (manager) => {
      manager.on('diagnostic', (one) => void told.push(one));
      await body(manager, told);
    },
  );
  return told;
}

const codes = (told: Diagnostic[]) => told.map(({ level, code }) => `${level} ${code}`);
const call = (manager: McpManager) => manager.callTool('mcp__w__echo', {});
const logins = (world: World) => world.at('/authorize').length;

/** Everything in the directory of logins, as one text. */
function kept(stateDir: string): string {
  const folder = join(stateDir, 'tokens');
  if (!existsSync(folder)) return '';
  return readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), 'utf8'))
    .join('\n');
}

function recordIn(stateDir: string): string {
  const folder = join(stateDir, 'tokens');
  return join(
    folder,
    readdirSync(folder).find((name) => name.endsWith('.json'))!,
  );
}

const secretsIn = (text: string, world: World, service?: SecretService) =>
  [...world.secrets, ...(service?.items.values() ?? [])].filter((secret) => text.includes(secret));

describe.runIf(onLinux)('a keychain that works', () => {
  test('OAU-03 A-17 SEC-03 seals logins with a key of its own, and is asked for nothing before', async () => {
    const service = await keychain();
    const world = await authorizationWorld({ life: 1, rotate: true });
    const stateDir = temporaryDirectory();
    const told = await inWorld(world, { stateDir }, async (manager) => {
      manager.status();
      expect(service.connections).toBe(0);
      expect(await manager.connect('w')).toMatchObject({ state: 'connected', tokenStorage: 'keychain' });
      await pause(1_100);
      await call(manager);
      expect(world.refreshes).toBeGreaterThan(0);
    });
    expect(service.items.size).toBe(1);
    expect(secretsIn(kept(stateDir), world, service)).toEqual([]);
    expect(secretsIn(JSON.stringify(told), world, service)).toEqual([]);
    await eventually(() => service.open.size === 0);
    // Another process has the login, and needs nobody for it.
    service.calls.length = 0;
    await inWorld(world, { stateDir, tokenStore: 'keychain' }, async (manager) => {
      expect(await manager.connect('w')).toMatchObject({ tokenStorage: 'keychain' });
    });
    expect(logins(world)).toBe(1);
    expect(service.calls).toEqual(['OpenSession', 'SearchItems', 'GetSecrets']);
  });

  test('OAU-03 a plain login is sealed as soon as there is one, and told of', async () => {
    const world = await authorizationWorld();
    const stateDir = temporaryDirectory();
    useBus(NOBODY);
    await inWorld(world, { stateDir }, async (manager) => {
      expect(await manager.connect('w')).toMatchObject({ tokenStorage: 'file' });
    });
    expect(secretsIn(kept(stateDir), world)).not.toEqual([]);
    const service = await keychain();
    const told = await inWorld(world, { stateDir }, async (manager) => {
      expect(await manager.connect('w')).toMatchObject({ tokenStorage: 'keychain' });
    });
    expect(codes(told)).toEqual(['info LOGIN_SEALED']);
    expect(secretsIn(kept(stateDir), world, service)).toEqual([]);
    expect(logins(world)).toBe(1);
  });

  test('OAU-03 a login whose key is gone is moved aside, told of, and needs a new one', async () => {
    const service = await keychain();
    const world = await authorizationWorld();
    const stateDir = temporaryDirectory();
    const options: McpManagerOptions = { stateDir, onAuthorizationUrl: undefined };
    await inWorld(world, { stateDir }, async (manager) => void (await manager.connect('w')));
    service.items.clear();
    const told = await inWorld(world, options, async (manager) => {
      await manager.connect('w').catch(() => {});
      expect(manager.status('w')).toMatchObject({ state: 'needs-auth' });
    });
    expect(codes(told)).toContain('warning LOGIN_UNREADABLE');
    const unreadable = told.find(({ code }) => code === 'LOGIN_UNREADABLE')!;
    expect(unreadable.server).toBe('w');
    expect(existsSync(unreadable.file!)).toBe(true);
    await inWorld(world, { stateDir }, async (manager) => {
      expect(await manager.connect('w')).toMatchObject({ tokenStorage: 'keychain' });
    });
  });

  test('B-147 a logout empties the store, and a login that is left is of the one who logged in again', async () => {
    await keychain();
    const world = await authorizationWorld();
    const stateDir = temporaryDirectory();
    await inWorld(world, { stateDir }, async (manager) => {
      await manager.connect('w');
      await manager.logout('w');
    });
    expect(readdirSync(join(stateDir, 'tokens')).filter((name) => name.endsWith('.json'))).toEqual([]);
  });
});

describe.runIf(onLinux)('a keychain that does not', () => {
  const modes: [Mode, RegExp][] = [
    ['absent', /there is none/],
    ['locked', /it is locked/],
    ['deaf', /does not answer in time/],
    ['silent', /does not answer in time/],
  ];

  test.each(modes)(
    'F-065 G18 A-17 %s: the start is not held up, the mode is visible, calls go on',
    async (mode, why) => {
      const service = await keychain(mode);
      const world = await authorizationWorld();
      const stateDir = temporaryDirectory();
      // An earlier login, so that the start needs the store.
      await inWorld(world, { stateDir, tokenStore: 'file' }, async (manager) => {
        expect(await manager.connect('w')).toMatchObject({ tokenStorage: 'file' });
      });
      expect(service.connections).toBe(0);
      const stopWatching = watchEventLoop();
      const start = performance.now();
      const told = await inWorld(world, { stateDir }, async (manager) => {
        expect(await manager.connect('w')).toMatchObject({ state: 'connected', tokenStorage: 'file' });
        expect(performance.now() - start).toBeLessThan(5_000);
        await call(manager);
      });
      expect(stopWatching()).toBeLessThan(1_000);
      expect(codes(told)).toEqual(['info KEYCHAIN_UNAVAILABLE']);
      expect(told[0].message).toMatch(why);
      expect(logins(world)).toBe(1);
      expect(service.connections).toBe(1);
      await eventually(() => service.open.size === 0);
    },
  );

  test.each(modes)('F-065 %s with "keychain": memory, never a plain file', async (mode, why) => {
    await keychain(mode);
    const world = await authorizationWorld();
    const stateDir = temporaryDirectory();
    const start = performance.now();
    const told = await inWorld(world, { stateDir, tokenStore: 'keychain' }, async (manager) => {
      expect(await manager.connect('w')).toMatchObject({ state: 'connected', tokenStorage: 'memory' });
      expect(performance.now() - start).toBeLessThan(5_000);
      await call(manager);
    });
    expect(codes(told)).toEqual(['warning KEYCHAIN_UNAVAILABLE']);
    expect(told[0].message).toMatch(why);
    expect(secretsIn(kept(stateDir), world)).toEqual([]);
  });

  test('G18 OAU-03 no bus at all', async () => {
    useBus(NOBODY);
    const world = await authorizationWorld();
    const told = await inWorld(world, { stateDir: temporaryDirectory() }, async (manager) => {
      expect(await manager.connect('w')).toMatchObject({ state: 'connected', tokenStorage: 'file' });
    });
    expect(codes(told)).toEqual(['info KEYCHAIN_UNAVAILABLE']);
  });

  test('Q8 OAU-03 a sealed login is left alone while the keychain is locked, and found again', async () => {
    const service = await keychain();
    const world = await authorizationWorld();
    const stateDir = temporaryDirectory();
    await inWorld(world, { stateDir }, async (manager) => void (await manager.connect('w')));
    const file = recordIn(stateDir);
    const sealed = readFileSync(file, 'utf8');
    service.mode = 'locked';
    const told = await inWorld(world, { stateDir }, async (manager) => {
      expect(await manager.connect('w')).toMatchObject({ state: 'connected', tokenStorage: 'memory' });
    });
    expect(codes(told)).toEqual(['info KEYCHAIN_UNAVAILABLE', 'warning LOGIN_OUT_OF_REACH']);
    expect(readFileSync(file, 'utf8')).toBe(sealed);
    expect(logins(world)).toBe(2);
    service.mode = 'open';
    await inWorld(world, { stateDir, onAuthorizationUrl: undefined }, async (manager) => {
      expect(await manager.connect('w')).toMatchObject({ state: 'connected', tokenStorage: 'keychain' });
    });
  });
});

test('OAU-03 Q8 a login of a later version is left alone, a broken one moved aside; both are told of', async () => {
  useBus(NOBODY);
  const world = await authorizationWorld();
  const stateDir = temporaryDirectory();
  const options: McpManagerOptions = { stateDir, tokenStore: 'file' };
  await inWorld(world, options, async (manager) => void (await manager.connect('w')));
  const file = recordIn(stateDir);
  const later = JSON.stringify({ version: 99, accessToken: 'of-a-later-version' });
  writeFileSync(file, later);
  const told = await inWorld(world, options, async (manager) => {
    expect(await manager.connect('w')).toMatchObject({ state: 'connected', tokenStorage: 'memory' });
  });
  expect(codes(told)).toEqual(['warning LOGIN_OUT_OF_REACH']);
  expect(readFileSync(file, 'utf8')).toBe(later);
  writeFileSync(file, 'half a rec');
  const again = await inWorld(world, options, async (manager) => {
    expect(await manager.connect('w')).toMatchObject({ state: 'connected', tokenStorage: 'file' });
  });
  expect(codes(again)).toEqual(['warning LOGIN_UNREADABLE']);
  expect(readFileSync(again[0].file!, 'utf8')).toBe('half a rec');
  expect(JSON.stringify([told, again])).not.toContain('of-a-later-version');
});

test('OAU-03 "keychain" without a state directory says where logins are instead', async () => {
  useBus(NOBODY);
  const world = await authorizationWorld();
  const told = await inWorld(world, { stateDir: false, tokenStore: 'keychain' }, async (manager) => {
    expect(await manager.connect('w')).toMatchObject({ tokenStorage: 'memory' });
  });
  expect(codes(told)).toEqual(['warning KEYCHAIN_UNAVAILABLE']);
});
