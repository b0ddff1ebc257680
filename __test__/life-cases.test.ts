/** Cases of servers' lives that belong to no other file: many hosts and agents, reloads, faults at random. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { describe, expect, test } from 'vitest';
import { McpManager, type ServerConfig } from '..';
import {
  DEFAULTS,
  caught,
  eventually,
  faulty,
  fixture,
  gone,
  isAlive,
  jsonOf,
  pause,
  temporaryDirectory,
  textOf,
  withManager,
} from './harness';
import { fates, servers, world } from './project';

const node = (script: string, ...args: string[]): ServerConfig => ({
  command: process.execPath,
  args: [fixture(script), ...args],
});

describe('who owns a connection', () => {
  test('A7 LIF-06 fifty sessions of one host, opened and closed: each close() leaves nothing of its own', async () => {
    for (let round = 0; round < 5; round += 1) {
      const managers = Array.from(
        { length: 10 },
        () =>
          new McpManager({
            ...DEFAULTS,
            servers: { s: { command: '/bin/sh', args: [fixture('tiny-server.sh')] } },
          }),
      );
      const pids = await Promise.all(managers.map(async (manager) => (await manager.connect('s')).pid!));
      expect(new Set(pids).size).toBe(10);
      expect(pids.every(isAlive)).toBe(true);
      await managers[0].close();
      // Its own is gone when close() resolves, those of the others are not.
      expect(pids.map(isAlive)).toEqual([false, ...pids.slice(1).map(() => true)]);
      await Promise.all(managers.slice(1).map((manager) => manager.close()));
      expect(pids.filter(isAlive)).toEqual([]);
    }
  }, 60_000);

  // The case shares connections between managers too; CFG-10 gives each configured server its own. Agents share by view().
  test('mcp:STDIO-14 A14 BEY-01 fifty sub-agents share one process, which none of them starts or ends', async () => {
    await withManager({ servers: { s: faulty() } }, async (manager) => {
      await manager.connect();
      const { pid } = manager.status('s')!;
      const views = Array.from({ length: 50 }, () => manager.view({ servers: ['s'] }));
      const answers = await Promise.all(views.map((view) => view.callTool('mcp__s__pids')));
      expect(new Set(answers.map((answer) => jsonOf(answer).pid))).toEqual(new Set([pid]));
      views.length = 0;
      await pause(50);
      expect(manager.status('s')).toMatchObject({ state: 'connected', pid });
    });
  });

  test('A14 A11 looking at servers through many views starts none that is lazy, and one use starts it once', async () => {
    const lazy = { ...faulty(), start: 'lazy' as const };
    await withManager({ servers: { s: lazy } }, async (manager) => {
      await manager.connect();
      const views = Array.from({ length: 20 }, () => manager.view({}));
      views.forEach((view) => view.status());
      expect(manager.status('s')?.pid).toBeUndefined();
      const answers = await Promise.all(views.map((view) => view.callTool('mcp__s__pids')));
      expect(new Set(answers.map((answer) => jsonOf(answer).pid)).size).toBe(1);
    });
  });
});

describe('what arrives late or never', () => {
  test('F-003 half a line, silence, the rest: one answer, whole, and none of the others is lost', async () => {
    await withManager({ servers: { s: node('halves-server.mjs') } }, async (manager) => {
      await manager.connect();
      const slow = manager.callTool('mcp__s__halves', { ms: 700, text: 'é'.repeat(50) });
      await pause(100);
      const others = Array.from({ length: 50 }, (_, n) =>
        manager.callTool('mcp__s__whole', { text: `number ${n}` }),
      );
      expect(textOf(await slow)).toBe('é'.repeat(50));
      expect((await Promise.all(others)).map(textOf)).toEqual(others.map((_, n) => `number ${n}`));
    });
  });

  test('F-031 a server that takes all its tools back lets a running call end', async () => {
    const server = new McpServer({ name: 'fickle', version: '1' });
    let finish: () => void = () => {};
    let begun: () => void = () => {};
    const running = new Promise<void>((resolve) => (begun = resolve));
    const ended = new Promise<void>((resolve) => (finish = resolve));
    const tool = server.registerTool('work', {}, async () => {
      begun();
      await ended;
      return { content: [{ type: 'text', text: 'done' }] };
    });
    await withManager({}, async (manager) => {
      await manager.addSdkServer('s', server);
      expect(await manager.listTools()).toHaveLength(1);
      const call = manager.callTool('mcp__s__work');
      await running;
      tool.remove();
      await eventually(async () => (await manager.listTools()).length === 0);
      finish();
      expect(textOf(await call)).toBe('done');
      expect((await caught(manager.callTool('mcp__s__work'))).code).toBe('TOOL_UNKNOWN');
    });
  });

  test('F-031 fifty thousand tools are listed; one more is a limit that is told, and calls go on', async () => {
    const state = join(temporaryDirectory(), 'tools.json');
    const tools = Array.from({ length: 50_000 }, (_, n) => ({
      name: `tool-${n}`,
      inputSchema: { type: 'object' },
    }));
    writeFileSync(state, JSON.stringify(tools));
    const s = node('changing-server.mjs', state, '/dev/null');
    await withManager({ servers: { s }, catalogTtlMs: 1 }, async (manager) => {
      await manager.connect();
      expect(await manager.listTools()).toHaveLength(50_000);
      writeFileSync(state, JSON.stringify([...tools, { name: 'one-more', inputSchema: { type: 'object' } }]));
      await pause(50);
      // The last good list stays (J17).
      expect(await manager.listTools({ server: 's' })).toHaveLength(50_000);
      await eventually(() => manager.status('s')?.listErrors?.some(({ code }) => code === 'LIST_LIMIT'));
      expect(manager.status('s')?.state).toBe('connected');
      expect(textOf(await manager.callTool('mcp__s__tool-7'))).toBe('tool-7');
    });
  }, 60_000);
});

describe('a changed configuration', () => {
  test('F-061 CFG-12 calls run on: the same server keeps them, the changed one restarts once, the removed one ends', async () => {
    const { options, write } = world();
    const three = { same: faulty(), changed: faulty(), removed: faulty() };
    write('home/.claude.json', servers(three));
    await withManager(options, async (manager) => {
      await manager.connect();
      const pids = Object.fromEntries(manager.status().map(({ name, pid }) => [name, pid!]));
      const starts: string[] = [];
      manager.on('status', ({ name, state }) => state === 'connected' && starts.push(name));
      const calls = Object.keys(three).map((server) =>
        manager.callTool({ server, tool: 'sleep' }, { ms: 1500, server }).then(
          (answer) => [server, jsonOf(answer).server as string],
          (error: unknown) => [server, (error as { code: string }).code],
        ),
      );
      await pause(200);
      write('home/.claude.json', servers({ same: three.same, changed: faulty('--', 'other') }));
      expect(await manager.reload()).toEqual({ added: [], removed: ['removed'], changed: ['changed'] });
      await gone(pids.removed, 6000);
      expect(fates(manager.configReport().servers)).toMatchObject({ same: 'active', changed: 'active' });
      const outcomes = Object.fromEntries((await Promise.all(calls)) as [string, string][]);
      expect(outcomes.same).toBe('same');
      for (const server of ['changed', 'removed'])
        expect(outcomes[server], server).toMatch(/^[A-Z_]+$|^changed$|^removed$/);
      await eventually(() => manager.status('changed')?.state === 'connected', 5000);
      expect(manager.status('same')?.pid).toBe(pids.same);
      expect(manager.status('changed')?.pid).not.toBe(pids.changed);
      expect(starts).toEqual(['changed']);
    });
  }, 30_000);
});

describe('faults at random', () => {
  /** Numbers of a linear congruence: the same seed gives the same run. */
  const random = (seed: number) => () => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31;

  test.each([1, 20_261_201])(
    'F-073 Q1 seed %i: twenty servers, everything settles, nothing grows',
    async (seed) => {
      const next = random(seed);
      const all = Object.fromEntries(
        Array.from({ length: 20 }, (_, n) => [
          `s${n}`,
          n % 2 === 0 ? { command: '/bin/sh', args: [fixture('tiny-server.sh')] } : faulty(),
        ]),
      );
      const retry = { initialDelayMs: 20, maxDelayMs: 100, attempts: 50 };
      await withManager({ servers: all, retry }, async (manager) => {
        await manager.connect();
        const names = Object.keys(all);
        const rounds = async (count: number) => {
          for (let round = 0; round < count; round += 1) {
            const deeds = Array.from({ length: 20 }, () => {
              const server = names[Math.floor(next() * names.length)];
              const call = (tool: string, args = {}) =>
                manager.callTool({ server, tool }, args, { timeoutMs: 5000 });
              const deed = next();
              if (deed < 0.7) return call('echo');
              if (deed < 0.76) return manager.restart(server);
              if (deed < 0.82) return manager.disconnect(server);
              if (deed < 0.88) return call('die');
              const controller = new AbortController();
              setTimeout(() => controller.abort(), next() * 20);
              return manager.callTool({ server, tool: 'echo' }, {}, { signal: controller.signal });
            });
            const settled = await Promise.allSettled(deeds);
            for (const one of settled)
              if (one.status === 'rejected')
                expect(one.reason.code ?? one.reason.name, String(one.reason)).not.toBe('INTERNAL');
          }
        };
        const measure = async () => {
          await Promise.all(names.map((name) => manager.connect(name).catch(() => undefined)));
          const status = readFileSync('/proc/self/status', 'utf8');
          const number = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]);
          return { threads: number('Threads'), kilobytes: number('VmRSS') };
        };
        await rounds(10);
        const before = process.platform === 'linux' ? await measure() : undefined;
        await rounds(30);
        if (before !== undefined) {
          const after = await measure();
          expect(after.threads).toBeLessThanOrEqual(before.threads + 4);
          expect(after.kilobytes).toBeLessThan(before.kilobytes * 1.5);
        }
        const states = await Promise.all(
          names.map(async (name) => (await manager.reconnect(name)).status.state),
        );
        expect(new Set(states)).toEqual(new Set(['connected']));
      });
    },
    120_000,
  );
});
