/** How connections and managers end: side by side, as soon as the most urgent wish has it, and for the reason they were ended. */
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { McpManager, type McpManagerOptions, type ServerConfig } from '..';
import {
  DEFAULTS,
  caught,
  eventually,
  faulty,
  gone,
  isAlive,
  pause,
  runHost,
  temporaryDirectory,
  withManager,
} from './harness';
import { servers, world } from './project';

const posix = process.platform !== 'win32';

/** Deaf to the end of its input and to every signal but SIGKILL. */
const deaf = (name = 's'): ServerConfig => faulty('--ignore-eof', '--ignore-term', '--', name);

/** Slow enough that what was hastened is told from what was not. */
const SLOW = { graceMs: 3000, termMs: 1000, fastIntMs: 100, fastTermMs: 200 };

/** How long something takes, in ms, and what came of it. */
async function timed<T>(work: Promise<T>): Promise<{ ms: number; value: T }> {
  const begin = performance.now();
  const value = await work;
  return { ms: performance.now() - begin, value };
}

const open = (options: McpManagerOptions) => {
  const manager = new McpManager({ ...DEFAULTS, shutdown: SLOW, ...options });
  onTestFinished(() => manager.close({ mode: 'fast' }));
  return manager;
};

describe.runIf(posix)('many at the same time', () => {
  test('LIF-06 F-061 what a reload removes ends side by side, and holds nobody else up for longer', async () => {
    const { options, write } = world();
    const names = ['a', 'b', 'c', 'd'];
    write('home/.claude.json', servers(Object.fromEntries(names.map((name) => [name, deaf(name)]))));
    await withManager({ ...options, shutdown: { graceMs: 700, termMs: 300 } }, async (manager) => {
      await manager.connect();
      const pids = manager.status().map(({ pid }) => pid!);
      write('home/.claude.json', servers({}));
      const reloaded = timed(manager.reload());
      await pause(100);
      const added = await timed(manager.addServer('late', faulty()));
      expect((await reloaded).value.removed).toEqual(names);
      expect((await reloaded).ms).toBeLessThan(3000);
      expect(added).toMatchObject({ value: { state: 'connected' } });
      expect(pids.filter(isAlive)).toEqual([]);
    });
  }, 30_000);

  test('LIF-06 STD-04 close() waits for no reload: it hastens what that one ends', async () => {
    const { options, write } = world();
    write('home/.claude.json', servers({ a: deaf('a'), b: deaf('b') }));
    const manager = open(options);
    await manager.connect();
    const pids = manager.status().map(({ pid }) => pid!);
    write('home/.claude.json', servers({}));
    const reloaded = manager.reload().catch(() => {});
    await pause(300);
    expect((await timed(manager.close({ mode: 'fast' }))).ms).toBeLessThan(2000);
    expect(pids.filter(isAlive)).toEqual([]);
    await reloaded;
  }, 30_000);

  test('F-020 STD-04 the exit of a program ends the servers of all its managers together', async () => {
    const ended = await runHost('exits-with-managers.mjs', ['5']);
    const { pids, ms } = JSON.parse(ended.stdout) as { pids: number[]; ms: number };
    expect(pids).toHaveLength(5);
    await Promise.all(pids.map((pid) => gone(pid, 1000)));
    expect(ms).toBeLessThan(2500);
  }, 30_000);
});

describe.runIf(posix)('the most urgent wish counts', () => {
  test.each<[string, (manager: McpManager) => Promise<unknown>]>([
    ['close()', (manager) => manager.close()],
    ['disconnect()', (manager) => manager.disconnect('s')],
    ['setServerEnabled()', (manager) => manager.setServerEnabled('s', false)],
    ['removeServer()', (manager) => manager.removeServer('s')],
    ['reconnect()', (manager) => manager.reconnect('s')],
  ])('STD-04 LIF-06 a fast close() hastens the end that %s has begun', async (_, begin) => {
    const manager = open({ servers: { s: deaf() } });
    await manager.connect();
    const { pid } = manager.status('s')!;
    const begun = begin(manager).catch(() => {});
    await pause(100);
    expect((await timed(manager.close({ mode: 'fast' }))).ms).toBeLessThan(2000);
    expect(isAlive(pid!)).toBe(false);
    await begun;
  });

  test('LIF-06 a signal ends the wait for close(), not the closing', async () => {
    const manager = open({ servers: { s: deaf() }, shutdown: { graceMs: 600, termMs: 200 } });
    await manager.connect();
    const { pid } = manager.status('s')!;
    const controller = new AbortController();
    const closing = timed(caught(manager.close({ signal: controller.signal })));
    setTimeout(() => controller.abort(), 100);
    expect((await closing).value.name).toBe('AbortError');
    expect((await closing).ms).toBeLessThan(500);
    expect((await caught(manager.close({ signal: AbortSignal.abort() }))).name).toBe('AbortError');
    expect(isAlive(pid!)).toBe(true);
    await gone(pid!, 3000);
    await manager.close();
    expect((await caught(manager.close({ signal: 7 as never }))).code).toBe('INVALID_ARGUMENT');
  });

  test('LIF-06 BEY-03 a login shell that hangs holds no close() up, and is ended', async () => {
    const directory = temporaryDirectory();
    const [shell, mark] = [join(directory, 'shell'), join(directory, 'mark')];
    writeFileSync(shell, `#!/bin/sh\necho $$ > ${mark}\nexec sleep 1000\n`);
    chmodSync(shell, 0o755);
    const original = process.env.SHELL;
    process.env.SHELL = shell;
    onTestFinished(() => {
      if (original === undefined) delete process.env.SHELL;
      else process.env.SHELL = original;
    });
    const manager = open({ shellEnv: 'auto', servers: { s: faulty() } });
    const connecting = manager.connect().catch(() => {});
    await eventually(() => existsSync(mark) && readFileSync(mark, 'utf8').endsWith('\n'));
    expect((await timed(manager.close({ mode: 'fast' }))).ms).toBeLessThan(2000);
    await gone(Number(readFileSync(mark, 'utf8')), 1000);
    await connecting;
  });
});

describe('starting over', () => {
  test('LIF-04 reconnect() while connecting gives up the attempt under way', async () => {
    const directory = temporaryDirectory();
    const silent = join(directory, 'silent');
    writeFileSync(silent, '');
    const program = `
      const silent = require('fs').existsSync(${JSON.stringify(silent)});
      require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method } = JSON.parse(line);
        if (silent || id === undefined) return;
        const serverInfo = { name: 's', version: '1' };
        const result = method === 'initialize' ? { protocolVersion: '2025-06-18', capabilities: {}, serverInfo } : {};
        console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
      });`;
    const config = { command: process.execPath, args: ['-e', program] };
    await withManager({ connectTimeoutMs: 20_000, servers: { s: config } }, async (manager) => {
      const first = manager.connect('s');
      await pause(500);
      rmSync(silent);
      const again = await timed(manager.reconnect('s'));
      expect(again.value.status.state).toBe('connected');
      expect(again.ms).toBeLessThan(8000);
      // Who waited for the first attempt has what it was waited for.
      expect((await first).state).toBe('connected');
    });
  }, 30_000);

  test.runIf(posix)('A3 LIF-04 no process runs beside the one that it follows', async () => {
    await withManager({ servers: { s: deaf() } }, async (manager) => {
      await manager.connect();
      const { pid } = manager.status('s')!;
      let together = false;
      manager.on('status', (status) => {
        if (status.state === 'connected') together ||= isAlive(pid!);
      });
      const { status } = await manager.reconnect('s');
      expect(status.pid).not.toBe(pid);
      expect([together, isAlive(pid!)]).toEqual([false, false]);
    });
  });
});

describe('why it ended', () => {
  test('CAL-02 a call that waits for a server which is removed: lost and not delivered, the manager lives', async () => {
    await withManager({ servers: { other: faulty() } }, async (manager) => {
      await manager.addServer('s', faulty('--silent'), { connect: false });
      const call = caught(manager.callTool({ server: 's', tool: 'echo' }));
      await pause(200);
      await manager.removeServer('s');
      expect(await call).toMatchObject({ code: 'CONNECTION_LOST', server: 's', delivered: 'no' });
    });
  });

  test('CAL-02 a call whose server is replaced while a person thinks: lost and not delivered', async () => {
    let answer: (() => void) | undefined;
    const onPermission = () =>
      new Promise<{ behavior: 'allow' }>((resolve) => (answer = () => resolve({ behavior: 'allow' })));
    await withManager({ permissions: {}, onPermission }, async (manager) => {
      await manager.addServer('s', faulty());
      const call = caught(manager.callTool({ server: 's', tool: 'echo' }));
      await eventually(() => answer !== undefined);
      await manager.addServer('s', faulty('--', 'other'), { override: true });
      answer!();
      expect(await call).toMatchObject({ code: 'CONNECTION_LOST', server: 's', delivered: 'no' });
    });
  });
});

describe('what is told', () => {
  test('LIF-01 a change of state is an event, whatever a server says meanwhile', async () => {
    const retry = { initialDelayMs: 20_000 };
    await withManager({ servers: { s: faulty() }, retry }, async (manager) => {
      await manager.connect();
      const changes: string[] = [];
      manager.on('status', ({ from, state }) => changes.push(`${from}>${state}`));
      const line = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}';
      await manager.callTool('mcp__s__echo');
      const flood = manager.callTool('mcp__s__flood', { line, count: 5000 }).catch(() => {});
      const death = manager.callTool('mcp__s__die').catch(() => {});
      await pause(5);
      const end = Date.now() + 1500;
      while (Date.now() < end);
      await Promise.all([flood, death]);
      await eventually(() => changes.length > 0);
      expect(changes[0]).toBe('connected>pending');
    });
  }, 20_000);

  test('SEC-01 the last words of a server hold nothing that cannot be seen', async () => {
    const program = String.raw`process.stderr.write('bad \u202Eevil\u202C \u{E0041}\u200Bhidden\n', () => process.exit(3))`;
    const config = { command: process.execPath, args: ['-e', program] };
    await withManager({ servers: { s: config }, retry: { attempts: 0 } }, async (manager) => {
      const error = await caught(manager.connect('s'));
      expect(error.stderrTail).toEqual(['bad evil hidden']);
      expect(error.message).toMatch(/bad evil hidden$/);
      expect(manager.status('s')).toMatchObject({ stderrTail: ['bad evil hidden'], reason: error.message });
    });
  });
});
