/** Which servers start when, how many at once, and what is known of those that have not run yet. */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { StdioServerConfig } from '..';
import {
  caught,
  eventually,
  faulty,
  fixture,
  notes,
  pause,
  temporaryDirectory,
  textOf,
  watchEventLoop,
  withManager,
} from './harness';

/** A small server of its own kind, with these variables. */
const tiny = (env: Record<string, string> = {}): StdioServerConfig => ({
  command: '/bin/sh',
  args: [fixture('tiny-server.sh')],
  env,
});

const names = (tools: { name: string }[]) => tools.map(({ name }) => name);

describe('lazy servers', () => {
  test('LIF-09 do not start with connect(); a call starts one', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withManager(
      { servers: { s: { ...faulty('--notes', file), start: 'lazy' }, t: tiny() } },
      async (manager) => {
        await manager.connect();
        expect(names(await manager.listTools())).toEqual(['mcp__t__echo']);
        expect(manager.status('s')).toMatchObject({ state: 'pending' });
        expect(notes(file)).toEqual([]);
        expect(textOf(await manager.callTool('mcp__s__echo', { a: 1 }))).toBe('{"a":1}');
        expect(manager.status('s')?.state).toBe('connected');
      },
    );
  });

  test('LIF-09 are listed from the last run before they run, in another manager', async () => {
    const stateDir = join(temporaryDirectory(), 'state');
    const file = join(temporaryDirectory(), 'notes');
    const servers = { s: { ...faulty('--notes', file), start: 'lazy' as const } };
    const first = await withManager({ stateDir, servers }, async (manager) => {
      const tools = names(await manager.listTools({ server: 's' }));
      await eventually(() => manager.status('s')?.promptCount !== undefined);
      return tools;
    });
    expect(first).toContain('mcp__s__echo');
    const before = notes(file).length;
    await withManager({ stateDir, servers }, async (manager) => {
      await manager.connect();
      expect(names(await manager.listTools())).toEqual(first);
      expect(names(await manager.listTools({ server: 's' }))).toEqual(first);
      expect((await manager.listPrompts()).length).toBeGreaterThan(0);
      expect(manager.status('s')?.state).toBe('pending');
      expect(notes(file).length).toBe(before);
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
      expect(notes(file).length).toBeGreaterThan(before);
    });
  });

  test('LIF-09 CFG-10 a changed definition has no list; nothing of its secrets is on disk', async () => {
    const stateDir = join(temporaryDirectory(), 'state');
    const server = (token: string) => ({ s: { ...tiny({ TOKEN: token }), start: 'lazy' as const } });
    await withManager({ stateDir, servers: server('one-token') }, async (manager) => {
      await manager.listTools({ server: 's' });
      await manager.disconnect('s');
      // Listed as it was, though it no longer runs.
      expect(names(await manager.listTools())).toEqual(['mcp__s__echo']);
      expect(manager.status('s')?.state).toBe('pending');
    });
    for (const file of readdirSync(stateDir))
      expect(readFileSync(join(stateDir, file), 'utf8')).not.toContain('one-token');
    await withManager({ stateDir, servers: server('another-token') }, async (manager) => {
      expect(await manager.listTools()).toEqual([]);
    });
    await withManager({ stateDir, servers: server('one-token') }, async (manager) => {
      expect(names(await manager.listTools())).toEqual(['mcp__s__echo']);
    });
  });

  test('LIF-09 the manager sets the default, a server wins; addServer starts no late one', async () => {
    await withManager(
      { start: 'lazy', servers: { late: tiny(), early: { ...tiny(), start: 'eager' } } },
      async (manager) => {
        await manager.connect();
        expect(manager.status('early')?.state).toBe('connected');
        expect(manager.status('late')?.state).toBe('pending');
        expect((await manager.addServer('more', tiny())).state).toBe('pending');
        await pause(100);
        expect(manager.status('more')?.pid).toBeUndefined();
        expect((await manager.connect('more')).state).toBe('connected');
      },
    );
  });
});

describe('required servers and ready()', () => {
  test('LIF-03 L3 connect() rejects only for a required server; the others are there', async () => {
    const bad: StdioServerConfig = { command: '/no/such/command' };
    await withManager({ servers: { bad, good: tiny() } }, async (manager) => {
      expect((await manager.connect()).map(({ state }) => state)).toEqual(['failed', 'connected']);
    });
    await withManager({ servers: { bad: { ...bad, start: 'required' }, good: tiny() } }, async (manager) => {
      expect(await caught(manager.connect())).toMatchObject({ code: 'SPAWN_FAILED', server: 'bad' });
      expect(manager.status('good')?.state).toBe('connected');
    });
  });

  test('LIF-03 L1 ready() waits for those that are named, or for a while', async () => {
    await withManager({ servers: { hangs: tiny({ HANG: '1' }), a: tiny(), b: tiny() } }, async (manager) => {
      const begin = Date.now();
      const statuses = await manager.ready({ servers: ['a', 'b'] });
      expect(statuses.map(({ name, state }) => [name, state])).toEqual([
        ['a', 'connected'],
        ['b', 'connected'],
        ['hangs', 'pending'],
      ]);
      expect((await manager.ready({ timeoutMs: 200 })).find(({ name }) => name === 'hangs')?.state).toBe(
        'pending',
      );
      expect(Date.now() - begin).toBeLessThan(10_000);
      expect((await caught(manager.ready({ servers: ['nobody'] }))).code).toBe('SERVER_UNKNOWN');
    });
  });
});

describe('pools', () => {
  test('LIF-03 L2 no more than localConcurrency start at the same time', async () => {
    const file = join(temporaryDirectory(), 'notes');
    const servers = Object.fromEntries(
      Array.from({ length: 12 }, (_, n) => [`s${n}`, tiny({ NOTES: file, DELAY: '0.2' })]),
    );
    await withManager({ servers, localConcurrency: 3 }, async (manager) => {
      const statuses = await manager.connect();
      expect(statuses.every(({ state }) => state === 'connected')).toBe(true);
      let [running, most] = [0, 0];
      for (const sign of readFileSync(file, 'utf8').trim().split('\n')) {
        running += sign === '+' ? 1 : -1;
        most = Math.max(most, running);
      }
      expect(running).toBe(0);
      expect(most).toBeGreaterThan(1);
      // The note is written a moment before the answer arrives and gives the slot back.
      expect(most).toBeLessThanOrEqual(4);
    });
  }, 20_000);

  test('LIF-03 L1 fifty together, ten fail, five hang: nobody waits for them, the order is stable', async () => {
    const servers: Record<string, StdioServerConfig> = {};
    for (let n = 0; n < 50; n += 1) {
      const name = `s${String(n).padStart(2, '0')}`;
      if (n % 10 === 0) servers[name] = tiny({ HANG: '1' });
      else if (n % 5 === 1) servers[name] = { command: '/no/such/command' };
      else servers[name] = tiny();
    }
    await withManager({ servers, localConcurrency: 8, connectTimeoutMs: 6000 }, async (manager) => {
      const longestBlock = watchEventLoop();
      const begin = Date.now();
      const all = manager.connect();
      const good = Object.keys(servers).filter((_, n) => n % 10 !== 0 && n % 5 !== 1);
      await eventually(
        () => good.every((name) => manager.status(name)?.state === 'connected'),
        5500,
        'the good ones, while the others hang',
      );
      const statuses = await all;
      const took = Date.now() - begin;
      const worst = longestBlock();
      expect(statuses.map(({ name }) => name)).toEqual(Object.keys(servers).sort());
      expect(statuses.filter(({ state }) => state === 'connected')).toHaveLength(35);
      expect(statuses.filter(({ state }) => state === 'failed')).toHaveLength(10);
      expect(statuses.filter(({ code }) => code === 'CONNECT_TIMEOUT')).toHaveLength(5);
      expect(took).toBeGreaterThan(5500);
      expect(took).toBeLessThan(12_000);
      expect(worst).toBeLessThan(1000);
    });
  }, 30_000);
});
