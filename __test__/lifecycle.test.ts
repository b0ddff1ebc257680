import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { McpManager, type McpManagerOptions } from '..';
import {
  DEFAULTS,
  caught,
  eventually,
  faulty,
  fixture,
  gone,
  isAlive,
  jsonOf,
  nextEvent,
  notes,
  pause,
  runHost,
  runNode,
  temporaryDirectory,
  withFaulty,
  withManager,
} from './harness';

/** A manager that the test closes itself. */
const open = (flags: string[], options: McpManagerOptions = {}) =>
  new McpManager({ ...DEFAULTS, ...options, servers: { s: faulty(...flags) } });

describe('closing', () => {
  test('LIF-06 idempotent and re-entrant; nothing is left', async () => {
    const manager = open([]);
    const { pid } = await manager.connect('s');
    manager.on('status', () => void manager.close());
    await Promise.all([manager.close(), manager.close(), manager.close({ mode: 'fast' })]);
    await manager.close();
    await manager[Symbol.asyncDispose]();
    expect(isAlive(pid!)).toBe(false);
  });

  test('LIF-06 before anything was started', async () => {
    const manager = open([]);
    await manager.close();
    expect((await caught(manager.connect())).code).toBe('MANAGER_CLOSED');
  });

  test('LIF-06 calls in flight and later ones reject with MANAGER_CLOSED', async () => {
    const manager = open([]);
    await manager.connect('s');
    const calls = Array.from({ length: 10 }, () => caught(manager.callTool('mcp__s__sleep', { ms: 60_000 })));
    await pause(50);
    await manager.close();
    for (const error of await Promise.all(calls))
      expect(error).toMatchObject({ code: 'MANAGER_CLOSED', name: 'McpConnectionError' });
    for (const attempt of [
      manager.callTool('mcp__s__echo'),
      manager.connect(),
      manager.connect('s'),
      manager.listTools(),
      manager.ping('s'),
      manager.addServer('t', faulty()),
      manager.load(),
      manager.reconnect('s'),
    ]) {
      expect((await caught(attempt)).code).toBe('MANAGER_CLOSED');
    }
    expect(Array.isArray(manager.status())).toBe(true);
  });

  test('LIF-06 while a server is being connected', async () => {
    const manager = open(['--silent', '--ignore-eof']);
    const started = nextEvent(manager, 'status', ({ pid }) => pid !== undefined, 1000).catch(() => undefined);
    const connecting = caught(manager.connect('s'));
    await pause(200);
    const begin = Date.now();
    await manager.close();
    expect(Date.now() - begin).toBeLessThan(3000);
    expect((await connecting).code).toBe('MANAGER_CLOSED');
    const pid = (await started)?.pid;
    if (pid !== undefined) expect(isAlive(pid)).toBe(false);
  });

  test('LIF-06 USE-01 [Symbol.asyncDispose] closes', async () => {
    const manager = open([]);
    const { pid } = await manager.connect('s');
    await manager[Symbol.asyncDispose]();
    expect(isAlive(pid!)).toBe(false);
    expect((await caught(manager.ping('s'))).code).toBe('MANAGER_CLOSED');
  });

  test('mcp:LIFE-12 mcp:STDIO-12 STD-04 a polite server ends by itself at the end of its input', async () => {
    const manager = open([], { shutdown: { graceMs: 10_000, termMs: 10_000 } });
    const { pid } = await manager.connect('s');
    const begin = Date.now();
    await manager.close();
    expect(Date.now() - begin).toBeLessThan(3000);
    expect(isAlive(pid!)).toBe(false);
  });

  test('STD-04 A1 a server deaf to EOF gets SIGTERM', async () => {
    const manager = open(['--ignore-eof'], { shutdown: { graceMs: 200, termMs: 10_000 } });
    const { pid } = await manager.connect('s');
    const begin = Date.now();
    await manager.close();
    expect(Date.now() - begin).toBeLessThan(4000);
    expect(isAlive(pid!)).toBe(false);
  });

  test('mcp:STDIO-12 STD-04 F-017 Q3 a server deaf to everything gets SIGKILL', async () => {
    const manager = open(['--ignore-eof', '--ignore-term'], { shutdown: { graceMs: 200, termMs: 200 } });
    const { pid } = await manager.connect('s');
    const begin = Date.now();
    await manager.close();
    expect(Date.now() - begin).toBeLessThan(4000);
    expect(isAlive(pid!)).toBe(false);
  });

  test('STD-04 the default times end within five seconds', async () => {
    const manager = new McpManager({
      config: false,
      servers: { s: faulty('--ignore-eof', '--ignore-term') },
    });
    const { pid } = await manager.connect('s');
    const begin = Date.now();
    await manager.close();
    const took = Date.now() - begin;
    expect(took).toBeGreaterThan(3500);
    expect(took).toBeLessThan(6500);
    expect(isAlive(pid!)).toBe(false);
  }, 15_000);

  test('STD-04 fast: within about a second', async () => {
    const manager = new McpManager({
      config: false,
      servers: { s: faulty('--ignore-eof', '--ignore-term') },
    });
    const { pid } = await manager.connect('s');
    const begin = Date.now();
    await manager.close({ mode: 'fast' });
    expect(Date.now() - begin).toBeLessThan(2500);
    expect(isAlive(pid!)).toBe(false);
  });

  test.each([
    ['the server ends politely', []],
    ['the server is deaf', ['--ignore-eof', '--ignore-term']],
  ])('mcp:STDIO-17 STD-04 F-015 A2 A6 a grandchild that holds the output dies too: %s', async (_, flags) => {
    const file = join(temporaryDirectory(), 'pid');
    const manager = open([...flags, '--grandchild', file]);
    const { pid } = await manager.connect('s');
    const grandchild = Number(readFileSync(file, 'utf8'));
    expect(isAlive(grandchild)).toBe(true);
    const begin = Date.now();
    await manager.close();
    expect(Date.now() - begin).toBeLessThan(4000);
    expect(isAlive(pid!)).toBe(false);
    await gone(grandchild, 1000);
  });

  test.runIf(process.platform === 'linux')(
    'STD-05 A3 a grandchild that left the group is found by its mark',
    async () => {
      const file = join(temporaryDirectory(), 'pid');
      const manager = open(['--detached-grandchild', '--grandchild', file]);
      await manager.connect('s');
      const grandchild = Number(readFileSync(file, 'utf8'));
      await manager.close();
      await gone(grandchild, 2000).finally(() => isAlive(grandchild) && process.kill(grandchild, 'SIGKILL'));
    },
  );
});

describe('losing a server', () => {
  test('F-001 A17 SERVER_EXITED within 200 ms, with exit and last lines; the next call brings it back', async () => {
    await withFaulty([], async (manager) => {
      const { pid } = await manager.connect('s');
      const others = Array.from({ length: 5 }, () =>
        caught(manager.callTool('mcp__s__sleep', { ms: 60_000 })),
      );
      await pause(50);
      const begin = Date.now();
      const error = await caught(manager.callTool('mcp__s__die'));
      expect(error).toMatchObject({
        code: 'SERVER_EXITED',
        name: 'McpConnectionError',
        server: 's',
        exit: { code: 1, signal: null },
        delivered: 'unknown',
      });
      expect(error.stderrTail).toEqual(['first line of the end', 'last line of the end']);
      for (const other of await Promise.all(others)) expect(other.code).toBe('SERVER_EXITED');
      // 200 ms is the rule; the rest is the process's own time to end on a busy machine.
      expect(Date.now() - begin).toBeLessThan(1000);
      expect(jsonOf(await manager.callTool('mcp__s__echo', { back: true }))).toEqual({ back: true });
      expect(manager.status('s')?.pid).not.toBe(pid);
    });
  });

  test('F-001 half an answer is never parsed', async () => {
    await withFaulty(['--half-then-exit'], async (manager) => {
      await manager.connect('s');
      const error = await caught(manager.callTool('mcp__s__echo'));
      expect(error).toMatchObject({
        code: 'SERVER_EXITED',
        exit: { code: 1 },
        stderrTail: ['about to break'],
      });
    });
  });

  test('CAL-02 a call that may have run is not repeated', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      await manager.connect('s');
      await caught(manager.callTool('mcp__s__die'));
      await manager.callTool('mcp__s__echo');
      expect(
        notes(file).filter(({ method, params }) => method === 'tools/call' && params?.name === 'die'),
      ).toHaveLength(1);
    });
  });

  test('mcp:STDIO-10 LIF-01 LIF-04 lost while connected: pending, then connected again, by itself', async () => {
    await withFaulty(
      [],
      async (manager) => {
        const { pid } = await manager.connect('s');
        const lost = nextEvent(
          manager,
          'status',
          ({ state, from }) => state === 'pending' && from === 'connected',
        );
        process.kill(pid!, 'SIGKILL');
        const status = await lost;
        expect(status).toMatchObject({ code: 'SERVER_EXITED', exit: { code: null, signal: 'SIGKILL' } });
        expect(status.nextRetryAt).toBeGreaterThan(Date.now() - 1000);
        await eventually(() => manager.status('s')?.state === 'connected', 5000);
        expect(manager.status('s')?.pid).not.toBe(pid);
      },
      { retry: { initialDelayMs: 100 } },
    );
  });

  test('mcp:STDIO-13 F-006 the server closes its output but lives: its calls fail, the process is ended', async () => {
    await withFaulty(['--close-stdout', '--ignore-eof'], async (manager) => {
      const { pid } = await manager.connect('s');
      const left = nextEvent(manager, 'status', ({ state }) => state !== 'connected', 3000);
      const error = await caught(manager.callTool('mcp__s__echo'));
      expect(['CONNECTION_LOST', 'SERVER_EXITED']).toContain(error.code);
      await left;
      await gone(pid!, 4000);
    });
  });

  test('Q5 a fault stays inside its server', async () => {
    await withManager({ servers: { bad: faulty(), good: faulty() } }, async (manager) => {
      await manager.connect();
      const slow = manager.callTool('mcp__good__sleep', { ms: 300 });
      await caught(manager.callTool('mcp__bad__die'));
      expect((await slow).isError).toBe(false);
      expect(manager.status('good')?.state).toBe('connected');
    });
  });
});

describe('restart, reconnect, disconnect, switch', () => {
  test('LIF-06 restart: another process, tools fetched anew, calls in flight reject', async () => {
    await withFaulty([], async (manager) => {
      const { pid } = await manager.connect('s');
      const call = caught(manager.callTool('mcp__s__sleep', { ms: 60_000 }));
      await pause(30);
      const status = await manager.restart('s');
      expect(status.state).toBe('connected');
      expect(status.pid).not.toBe(pid);
      expect(['CONNECTION_LOST', 'SERVER_EXITED']).toContain((await call).code);
      await gone(pid!, 3000);
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
    });
  });

  test('LIF-06 reconnect gives status and lists', async () => {
    await withFaulty([], async (manager) => {
      const { status, tools, prompts, resources } = await manager.reconnect('s');
      expect(status.state).toBe('connected');
      expect(tools.some(({ name }) => name === 'mcp__s__echo')).toBe(true);
      expect(prompts.length).toBeGreaterThan(0);
      expect(resources.length).toBeGreaterThan(0);
    });
  });

  test('LIF-04 LIF-06 reconnect starts over at once, whatever the state', async () => {
    await withManager(
      { retry: { attempts: 1 }, servers: { s: { command: '/no/such/command' } } },
      async (manager) => {
        await manager.connect();
        expect(manager.status('s')?.state).toBe('failed');
        expect((await caught(manager.reconnect('s'))).code).toBe('SPAWN_FAILED');
      },
    );
  });

  test('LIF-04 a call to a failed server rejects with the reason', async () => {
    await withManager({ servers: { s: { command: '/no/such/command' } } }, async (manager) => {
      await manager.connect();
      expect(await caught(manager.callTool('mcp__s__echo'))).toMatchObject({
        code: 'SPAWN_FAILED',
        server: 's',
      });
    });
  });

  test('LIF-06 LIF-02 disconnect: pending, the process is gone, the next use brings it back', async () => {
    await withFaulty([], async (manager) => {
      const { pid } = await manager.connect('s');
      await manager.disconnect('s');
      expect(manager.status('s')).toMatchObject({ state: 'pending' });
      expect(isAlive(pid!)).toBe(false);
      await pause(1500);
      expect(manager.status('s')?.state).toBe('pending');
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
      expect(manager.status('s')?.state).toBe('connected');
    });
  });

  test('LIF-01 LIF-06 switching off and on', async () => {
    await withFaulty([], async (manager) => {
      const { pid } = await manager.connect('s');
      expect((await manager.setServerEnabled('s', false)).state).toBe('disabled');
      await gone(pid!, 3000);
      expect((await caught(manager.connect('s'))).code).toBe('SERVER_DISABLED');
      expect((await manager.setServerEnabled('s', true)).state).toBe('connected');
    });
  });

  test('LIF-01 only the transitions of the table', async () => {
    const allowed = new Set([
      'pending>connected',
      'pending>failed',
      'pending>needs-auth',
      'pending>disabled',
      'connected>failed',
      'connected>needs-auth',
      'connected>disabled',
      'connected>pending',
      'failed>pending',
      'failed>disabled',
      'needs-auth>pending',
      'needs-auth>disabled',
      'disabled>pending',
    ]);
    const seen: string[] = [];
    await withManager(
      {
        retry: { attempts: 1, initialDelayMs: 20 },
        servers: { s: faulty(), bad: { command: '/no/such/command' } },
      },
      async (manager) => {
        manager.on(
          'status',
          ({ name, from, state }) =>
            from !== undefined && from !== state && seen.push(`${name} ${from}>${state}`),
        );
        await manager.connect();
        await manager.restart('s');
        await manager.disconnect('s');
        await manager.callTool('mcp__s__echo');
        await manager.setServerEnabled('s', false);
        await manager.setServerEnabled('s', true);
        await caught(manager.callTool('mcp__s__die'));
        await caught(manager.reconnect('bad'));
        await manager.setServerEnabled('bad', false);
      },
    );
    expect(seen.length).toBeGreaterThan(6);
    expect(seen.filter((change) => !allowed.has(change.split(' ')[1]))).toEqual([]);
  });

  test('A11 a status listing starts nothing', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      await manager.load();
      for (let round = 0; round < 10; round += 1)
        expect(manager.status()).toMatchObject([{ name: 's', state: 'pending' }]);
      await pause(100);
      expect(notes(file)).toEqual([]);
    });
  });
});

describe('listeners', () => {
  test('Q9 listeners and an onProgress that throw stop neither answers nor later events', async () => {
    const ended = await runHost('throwing-listeners.mjs');
    expect(ended).toMatchObject({ code: 0, signal: null });
    expect(JSON.parse(ended.stdout)).toEqual({ answers: 20, changes: 3 });
  });

  test('F-059 100,000 notifications while JavaScript is blocked: bounded, and no answer is lost', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      let logs = 0;
      manager.on('log', () => (logs += 1));
      const line =
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"' +
        'x'.repeat(100) +
        '"}}';
      const before = process.memoryUsage().rss;
      const flood = manager.callTool('mcp__s__flood', { line, count: 100_000 });
      const echo = manager.callTool('mcp__s__echo', { a: 1 });
      const end = Date.now() + 1000;
      while (Date.now() < end);
      await flood;
      expect(jsonOf(await echo)).toEqual({ a: 1 });
      await pause(100);
      expect(logs).toBeGreaterThan(0);
      expect(process.memoryUsage().rss - before).toBeLessThan(300 * 1024 * 1024);
    });
  }, 20_000);
});

describe('the end of the host', () => {
  test('STD-05 F-018 killed with SIGKILL: five deaf servers and their grandchildren are gone within 2 s', async () => {
    const directory = temporaryDirectory();
    const host = spawn(process.execPath, [fixture('hosts', 'waits-for-death.mjs'), directory], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const line = await new Promise<string>((resolve, reject) => {
      let text = '';
      host.stdout.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        if (text.includes('\n')) resolve(text);
      });
      host.once('exit', (code) => reject(new Error(`the host ended with ${code}`)));
    });
    const pids = JSON.parse(line) as number[];
    expect(pids).toHaveLength(10);
    expect(pids.every(isAlive)).toBe(true);
    host.kill('SIGKILL');
    try {
      await Promise.all(pids.map((pid) => gone(pid, 2000)));
    } finally {
      for (const pid of pids) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
    }
  }, 20_000);

  test.each(['exit-with-calls.mjs', 'uncaught.mjs'])('STD-05 %s leaves nothing', async (file) => {
    const ended = await runHost(file);
    const pid = Number(ended.stdout.trim());
    expect(pid).toBeGreaterThan(0);
    expect(ended.signal).toBeNull();
    expect(ended.code).toBe(file === 'uncaught.mjs' ? 1 : 3);
    try {
      await gone(pid, 2000);
    } finally {
      if (isAlive(pid)) process.kill(pid, 'SIGKILL');
    }
  });

  test.each([[[]], [['listeners']]])(
    'LIF-08 N9 an idle manager does not keep the process alive %j',
    async (args) => {
      const ended = await runHost('idle.mjs', args, 8000);
      expect(ended).toMatchObject({ code: 0, signal: null, stderr: '' });
      const { pid, text } = JSON.parse(ended.stdout) as { pid: number; text: string };
      expect(JSON.parse(text)).toEqual({ text: 'done' });
      await gone(pid, 2000);
    },
  );

  test('LIF-08 keepAlive: true does', async () => {
    const ended = await runHost('idle.mjs', ['keep-alive'], 2500);
    expect(ended.signal).toBe('SIGKILL');
    await gone((JSON.parse(ended.stdout) as { pid: number }).pid, 3000);
  });

  test('LIF-08 a pending call keeps the process alive', async () => {
    const ended = await runHost('pending-call.mjs', [], 8000);
    expect(ended).toMatchObject({ code: 0, stdout: 'answered\n' });
  });

  test('LIF-08 a call that cannot be written down is over at once', async () => {
    const source = `
      const { McpManager } = require('./index.js');
      const manager = new McpManager({ config: false });
      const options = { meta: { big: 1n }, signal: new AbortController().signal };
      manager.callTool('mcp__s__t', {}, options).catch((error) => console.log(error.code, error.parameter));
    `;
    const ended = await runNode(['-e', source], 8000);
    expect(ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/^INVALID_ARGUMENT /), stderr: '' });
  });

  test('LIF-06 LIF-08 calls after close() are refused before the process ends', async () => {
    const ended = await runHost('after-close.mjs', [], 8000);
    expect(ended).toMatchObject({ code: 0, stdout: 'MANAGER_CLOSED\nMANAGER_CLOSED\n', stderr: '' });
  });
});
