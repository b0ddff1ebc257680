/** Logins that several processes share, and logins that outlive the process that made them. */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { McpManager } from '..';
import { authorizationWorld, json, type Hit, type TakeOver, type World } from './authorization-world';
import { caught, eventually, pause, root, temporaryDirectory, withManager } from './harness';
import { secretService } from './secret-service';

const FIVE = 5;
/** No keychain. */
const NOBODY = 'unix:path=/nonexistent/bus';
/** Seconds that a token counts. */
const LIFE = 2;

const PROGRAM = `
const [root, stateDir, url, seconds] = process.argv.slice(2);
const { McpManager } = require(root);
(async () => {
  const manager = new McpManager({
    config: false, stateDir, permissions: { allow: ['mcp__*'] }, servers: { w: { type: 'http', url } },
  });
  const status = await manager.connect('w');
  process.stdout.write(status.tokenStorage);
  let calls = 0;
  for (const end = Date.now() + seconds * 1000; Date.now() < end; calls++) {
    await manager.callTool('mcp__w__echo', {});
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await manager.close();
  process.stdout.write(' ' + (calls > seconds));
})().catch((error) => { console.error(error); process.exitCode = 1; });`;

interface Process {
  end: Promise<{ code: number | null; signal: string | null; said: string; complained: string }>;
  kill(): void;
}

function start(world: World, stateDir: string, seconds: number, address: string): Process {
  const program = join(stateDir, 'program.cjs');
  writeFileSync(program, PROGRAM);
  const child = spawn(process.execPath, [program, root, stateDir, world.url, String(seconds)], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, DBUS_SESSION_BUS_ADDRESS: address },
  });
  let said = '';
  let complained = '';
  child.stdout.on('data', (chunk) => (said += chunk));
  child.stderr.on('data', (chunk) => (complained += chunk));
  return {
    end: new Promise((resolve) => {
      child.once('close', (code, signal) => resolve({ code, signal, said, complained }));
    }),
    kill: () => void child.kill('SIGKILL'),
  };
}

async function logIn(world: World, stateDir: string): Promise<void> {
  await withManager(
    {
      stateDir,
      servers: { w: { type: 'http', url: world.url } },
      onAuthorizationUrl: (request) => world.visit(request),
    },
    async (manager) => void (await manager.connect('w')),
  );
}

async function fiveShare(seconds: number, address: string, storage: string): Promise<void> {
  const world = await authorizationWorld({ life: LIFE, rotate: true });
  const stateDir = temporaryDirectory();
  const began = Date.now();
  await logIn(world, stateDir);
  const processes = Array.from({ length: FIVE }, () => start(world, stateDir, seconds, address));
  const ends = await Promise.all(processes.map(({ end }) => end));
  const elapsed = (Date.now() - began) / 1000;
  const good = { code: 0, signal: null, said: `${storage} true`, complained: '' };
  expect(ends).toEqual(Array.from({ length: FIVE }, () => good));
  expect(world.killed).toBe(0);
  expect(world.at('/authorize').length).toBe(1);
  // Tokens are renewed when a tenth of their life is left, and each of them once, whoever does it.
  expect(world.refreshes).toBeGreaterThan(elapsed / LIFE / 3);
  expect(world.refreshes).toBeLessThanOrEqual(Math.ceil(elapsed / (LIFE * 0.9)));
  await eventually(() => world.tokens.size === 0);
  expect(world.refreshes).toBeLessThan(world.expiries);
}

test('A-1 G8 OAU-01 five processes share a rotating login for 60 s: one refresh per expiry, no login, no family killed', async () => {
  await fiveShare(60, NOBODY, 'file');
}, 180_000);

test.runIf(process.platform === 'linux')(
  'A-1 A-17 the same with a login that is sealed with a key of the keychain',
  async () => {
    const { address, items } = await secretService();
    await fiveShare(10, address, 'keychain');
    expect(items.size).toBe(1);
  },
  90_000,
);

/** Refreshes a token as the server would, but keeps the answer from whoever asked. */
function swallowed(world: World, { body, headers }: Hit): Promise<unknown> {
  const { authorization } = headers;
  return fetch(`${world.issuer}/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...(authorization && { authorization }) },
    body,
  });
}

const isRefresh = (hit: Hit) => hit.form.get('grant_type') === 'refresh_token';

test.each([
  ['before the server rotated: nobody notices', false],
  ['after the server rotated: one login', true],
])(
  'F-067 who is killed in the middle of a refresh holds nobody up; %s',
  async (_, rotates) => {
    let hold = true;
    let held = false;
    const world: World = await authorizationWorld({
      life: LIFE,
      rotate: true,
      takeOver: async (hit) => {
        if (!hold || held || !isRefresh(hit)) return false;
        held = true;
        if (rotates) await swallowed(world, hit);
        while (hold) await pause(20);
        return true;
      },
    });
    const stateDir = temporaryDirectory();
    await logIn(world, stateDir);
    const killed = start(world, stateDir, 30, NOBODY);
    await eventually(() => held && world.refreshes === Number(rotates), 20_000);
    killed.kill();
    expect((await killed.end).signal).toBe('SIGKILL');
    hold = false;
    const began = Date.now();
    await logIn(world, stateDir);
    expect(Date.now() - began).toBeLessThan(5_000);
    expect(world.at('/authorize').length).toBe(rotates ? 2 : 1);
    expect(world.killed).toBe(Number(rotates));
  },
  60_000,
);

test.each([
  ['never reached the server: asked once more later', false],
  ['came after the server had rotated: a person is asked, once', true],
])('A-2 the answer to a refresh is lost, %s', async (_, rotates) => {
  let lose = false;
  let inner = false;
  const world: World = await authorizationWorld({
    rotate: true,
    takeOver: async (hit, response) => {
      if (!lose || inner || !isRefresh(hit)) return false;
      if (rotates) {
        lose = false;
        inner = true;
        await swallowed(world, hit);
        inner = false;
      }
      response.socket?.destroy();
      return true;
    },
  });
  const stateDir = temporaryDirectory();
  await logIn(world, stateDir);
  const file = join(
    stateDir,
    'tokens',
    readdirSync(join(stateDir, 'tokens')).find((name) => name.endsWith('.json'))!,
  );
  const record = readFileSync(file, 'utf8');
  await withManager({ stateDir, servers: { w: { type: 'http', url: world.url } } }, async (manager) => {
    const call = () => manager.callTool('mcp__w__echo', {});
    await manager.connect('w');
    world.tokens.clear();
    lose = true;
    const refreshes = () => world.hits.filter(isRefresh).length;
    const error = await caught(call());
    if (rotates) {
      expect(error.code).toBe('AUTH_REQUIRED');
      const before = refreshes();
      expect((await caught(call())).code).toBe('AUTH_REQUIRED');
      expect(refreshes()).toBe(before);
    } else {
      expect(refreshes()).toBe(2);
      expect(readFileSync(file, 'utf8')).toBe(record);
      lose = false;
      await call();
    }
    expect(world.at('/authorize').length).toBe(1);
  });
});

test('G10 A-1 who loses a race in a store without a lock takes what the winner saved, and wipes nothing', async () => {
  const world = await authorizationWorld();
  const kept = new Map<string, string>();
  let stale: string | null = null;
  const store = {
    get: (key: string) => kept.get(key) ?? null,
    set: (key: string, value: string) => void kept.set(key, value),
    delete: (key: string) => void kept.delete(key),
  };
  // Reads once more what stood there before the other one saved.
  const late = {
    ...store,
    get: (key: string) => {
      const found = stale ?? store.get(key);
      stale = null;
      return found;
    },
  };
  const servers = { w: { type: 'http' as const, url: world.url } };
  const options = { servers, onAuthorizationUrl: (request: { url: string }) => world.visit(request) };
  await withManager({ ...options, tokenStore: store }, async (winner) => {
    await winner.connect('w');
    await withManager({ ...options, tokenStore: late }, async (loser) => {
      await loser.connect('w');
      const [before] = kept.values();
      const { refreshToken } = JSON.parse(before) as { refreshToken: string };
      world.tokens.clear();
      await winner.callTool('mcp__w__echo', {});
      const [after] = kept.values();
      expect(after).not.toBe(before);
      world.options.takeOver = (hit, response) =>
        hit.form.get('refresh_token') === refreshToken
          ? json(response, 400, { error: 'invalid_grant' })
          : false;
      stale = before;
      await loser.callTool('mcp__w__echo', {});
      expect([...kept.values()]).toEqual([after]);
      expect(world.hits.filter((hit) => hit.form.get('refresh_token') === refreshToken).length).toBe(2);
      expect(world.at('/authorize').length).toBe(1);
    });
  });
});

test.each<[string, (manager: McpManager, abort: () => void) => unknown]>([
  ['a logout that is aborted', (_, abort) => abort()],
  ['a manager that is closed', (manager) => manager.close()],
])('OAU-03 %s while it waits for the lock of the host lets it go as soon as it has it', async (_, giveUp) => {
  const world = await authorizationWorld();
  const kept = new Map<string, string>();
  let last: Promise<unknown> = Promise.resolve();
  const open = { waiting: 0, held: 0 };
  const lock = <T>(_key: string, body: () => Promise<T>): Promise<T> => {
    open.waiting++;
    const turn = last.then(() => {
      open.waiting--;
      open.held++;
      return body().finally(() => open.held--);
    });
    last = turn.catch(() => {});
    return turn;
  };
  const tokenStore = {
    get: (key: string) => kept.get(key) ?? null,
    set: (key: string, value: string) => void kept.set(key, value),
    delete: (key: string) => void kept.delete(key),
    lock,
  };
  const options = { tokenStore, servers: { w: { type: 'http' as const, url: world.url } } };
  await withManager(options, async (manager) => {
    let letGo = () => {};
    void lock('somebody else', () => new Promise<void>((resolve) => (letGo = resolve)));
    await eventually(() => open.held === 1);
    const controller = new AbortController();
    const leaving = caught(manager.logout('w', { signal: controller.signal }));
    await eventually(() => open.waiting === 1);
    await giveUp(manager, () => controller.abort());
    await leaving;
    letGo();
    await eventually(() => open.waiting === 0 && open.held === 0);
  });
  await withManager(options, (manager) => manager.logout('w'));
});

test.each([
  ['is used after a restart', 0, 1],
  ['that has ended is asked for anew', 1, 2],
])('A-15 the secret of a registration %s', async (_, ends, registrations) => {
  const world = await authorizationWorld({
    takeOver: (hit, response) => {
      if (hit.path !== '/register') return false;
      const asked = JSON.parse(hit.body) as Record<string, unknown>;
      return json(response, 201, {
        ...asked,
        client_id: 'known-client',
        client_secret: 'known-secret',
        client_secret_expires_at: ends,
        token_endpoint_auth_method: 'client_secret_basic',
      });
    },
  });
  const stateDir = temporaryDirectory();
  await logIn(world, stateDir);
  world.tokens.clear();
  if (ends) world.options.takeOver = refusingRefreshes(world.options.takeOver!);
  await logIn(world, stateDir);
  expect(world.at('/register').length).toBe(registrations);
  expect(world.at('/authorize').length).toBe(registrations);
  const basic = `Basic ${Buffer.from('known-client:known-secret').toString('base64')}`;
  expect(world.at('/token').map(({ headers }) => headers.authorization)).toEqual(
    world.at('/token').map(() => basic),
  );
});

function refusingRefreshes(other: TakeOver): TakeOver {
  return (hit, response) =>
    isRefresh(hit) ? json(response, 400, { error: 'invalid_grant' }) : other(hit, response);
}
