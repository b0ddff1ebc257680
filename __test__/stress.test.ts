import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { McpManager } from '..';
import { DEFAULTS, faulty, gone, isAlive, jsonOf, runHost, watchEventLoop, withFaulty } from './harness';

const openFiles = () => (process.platform === 'linux' ? readdirSync('/proc/self/fd').length : 0);

describe('many at once', () => {
  test('Q1 F-027 ten thousand calls, answered in random order: each settles once, with its own answer', async () => {
    const count = 10_000;
    await withFaulty(['--reorder', '500'], async (manager) => {
      await manager.connect();
      let settled = 0;
      const answers = await Promise.all(
        Array.from({ length: count }, (_, n) =>
          manager.callTool('mcp__s__echo', { n, text: `payload ${n}` }).finally(() => {
            settled += 1;
          }),
        ),
      );
      expect(settled).toBe(count);
      answers.forEach((answer, n) => expect(jsonOf(answer)).toEqual({ n, text: `payload ${n}` }));
    });
  }, 60_000);

  test('F-029 cancelling and answering at the same moment: one settlement each', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const outcomes = await Promise.all(
        Array.from({ length: 500 }, async (_, n) => {
          const controller = new AbortController();
          const reason = new Error(`reason ${n}`);
          const call = manager.callTool('mcp__s__sleep', { ms: 10, n }, { signal: controller.signal });
          setTimeout(() => controller.abort(reason), 8 + (n % 8));
          return call.then(
            (answer) => jsonOf(answer).n === n,
            (error: unknown) => error === reason,
          );
        }),
      );
      expect(outcomes.every(Boolean)).toBe(true);
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
    });
  }, 30_000);

  test('F-027 the event loop stays free', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const longestBlock = watchEventLoop();
      for (let round = 0; round < 20; round += 1) {
        await Promise.all(Array.from({ length: 200 }, (_, n) => manager.callTool('mcp__s__echo', { n })));
      }
      expect(longestBlock()).toBeLessThan(1000);
    });
  }, 30_000);

  test('F-025 thirty managers, one after another: no file and no process is left', async () => {
    const round = async () => {
      const manager = new McpManager({ ...DEFAULTS, servers: { s: faulty() } });
      const { pid } = await manager.connect('s');
      await manager.callTool('mcp__s__echo');
      await manager.close();
      expect(isAlive(pid!)).toBe(false);
    };
    for (let warm = 0; warm < 5; warm += 1) await round();
    const before = openFiles();
    for (let n = 0; n < 25; n += 1) await round();
    expect(openFiles()).toBeLessThanOrEqual(before + 3);
  }, 60_000);

  test('Q10 several managers at the same time know nothing of each other', async () => {
    const managers = Array.from(
      { length: 5 },
      () => new McpManager({ ...DEFAULTS, servers: { s: faulty() } }),
    );
    try {
      const statuses = await Promise.all(managers.map((manager) => manager.connect('s')));
      expect(new Set(statuses.map(({ pid }) => pid)).size).toBe(5);
      await managers[0].close();
      expect((await managers[1].callTool('mcp__s__echo')).isError).toBe(false);
    } finally {
      await Promise.all(managers.map((manager) => manager.close()));
    }
  });
});

describe('hosts that end badly', () => {
  test('F-020 process.exit(3) with 100 calls pending, again and again', async () => {
    for (let round = 0; round < 5; round += 1) {
      const ended = await runHost('exit-with-calls.mjs');
      expect(ended).toMatchObject({ code: 3, signal: null });
      const exiting = Number(/exiting at (\d+)/.exec(ended.stderr)?.[1]);
      expect(ended.stderr.replace(/exiting at \d+\n/, '')).toBe('');
      expect(exiting).toBeGreaterThan(0);
      await gone(Number(ended.stdout.trim()), 2000);
    }
  }, 60_000);

  test('Q10 worker threads may be the only ones that use the package, one after the other', async () => {
    const ended = await runHost('workers-alone.mjs', [], 55_000);
    expect(ended).toMatchObject({ code: 0, signal: null, stdout: 'done\n', stderr: '' });
  }, 60_000);

  test('Q10 N9 twenty worker threads terminated with calls in flight: the process and the add-on live on', async () => {
    const ended = await runHost('workers.mjs', ['20'], 55_000);
    expect(ended).toMatchObject({ code: 0, signal: null, stderr: '' });
    const [pids, word] = ended.stdout.trim().split('\n');
    expect(word).toBe('alive');
    expect(JSON.parse(pids)).toHaveLength(20);
    for (const pid of JSON.parse(pids) as number[]) await gone(pid, 2000);
  }, 60_000);
});
