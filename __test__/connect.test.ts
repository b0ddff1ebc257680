import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { McpManagerOptions, StdioServerConfig } from '..';
import {
  caught,
  eventually,
  faulty,
  gone,
  isAlive,
  jsonOf,
  nextEvent,
  notes,
  pause,
  temporaryDirectory,
  toolsOf,
  withFaulty,
  withManager,
} from './harness';

const ONCE: McpManagerOptions = { retry: { attempts: 1, initialDelayMs: 10, maxDelayMs: 10 } };

const good: StdioServerConfig = { ...faulty(), connectTimeoutMs: 30_000 };

/** Connects a faulty server beside a good one; the good one must not notice. Gives the error of the faulty one. */
function besideGood(bad: StdioServerConfig, options: McpManagerOptions = {}) {
  return withManager({ ...ONCE, ...options, servers: { good, bad } }, async (manager) => {
    const [error] = await Promise.all([caught(manager.connect('bad')), manager.connect('good')]);
    expect(manager.status('good')?.state).toBe('connected');
    expect(jsonOf(await manager.callTool('mcp__good__echo', { a: 1 }))).toEqual({ a: 1 });
    expect(error.server).toBe('bad');
    return { error, status: manager.status('bad')! };
  });
}

describe('servers that do not come up', () => {
  test('CONNECT_TIMEOUT F-004 A12: never answers; its process is gone', async () => {
    const file = join(temporaryDirectory(), 'notes');
    const begin = Date.now();
    await withManager(
      {
        ...ONCE,
        connectTimeoutMs: 500,
        servers: { bad: faulty('--silent', '--ignore-eof', '--notes', file) },
      },
      async (manager) => {
        const started = nextEvent(manager, 'status', ({ pid }) => pid !== undefined, 2000).catch(
          () => undefined,
        );
        const error = await caught(manager.connect('bad'));
        expect(error).toMatchObject({
          code: 'CONNECT_TIMEOUT',
          name: 'McpConnectionError',
          server: 'bad',
          retryable: true,
        });
        expect(Date.now() - begin).toBeLessThan(3000);
        const pid = (await started)?.pid;
        if (pid !== undefined) await gone(pid, 3000);
      },
    );
    // Cancelling the handshake is forbidden (PRO-07, F7).
    expect(notes(file).map(({ method }) => method)).toContain('initialize');
    expect(notes(file).map(({ method }) => method)).not.toContain('notifications/cancelled');
  });

  test('CONNECT_TIMEOUT does not touch the others', async () => {
    const { error } = await besideGood(faulty('--silent'), { connectTimeoutMs: 500 });
    expect(error.code).toBe('CONNECT_TIMEOUT');
  });

  test('PRO-06 connectTimeoutMs of the server wins over that of the manager', async () => {
    await withManager(
      {
        ...ONCE,
        connectTimeoutMs: 60_000,
        servers: { bad: { ...faulty('--silent'), connectTimeoutMs: 200 } },
      },
      async (manager) => {
        expect((await caught(manager.connect('bad'))).code).toBe('CONNECT_TIMEOUT');
      },
    );
  });

  test('SERVER_EXITED STD-06 F-024: exits at once; exit code and last lines are told', async () => {
    const { error, status } = await besideGood(faulty('--exit', '3'));
    expect(error).toMatchObject({
      code: 'SERVER_EXITED',
      exit: { code: 3, signal: null },
      stderrTail: ['cannot open the database', 'see the manual', 'giving up'],
    });
    expect(error.message).toContain('3');
    expect(status).toMatchObject({ exit: { code: 3, signal: null } });
    expect(status.stderrTail).toContain('giving up');
  });

  test('SPAWN_FAILED STD-06: not there; the searched PATH is told', async () => {
    const { error, status } = await besideGood({
      command: 'no-such-command-anywhere',
      env: { PATH: '/only/this/path' },
    });
    expect(error).toMatchObject({ code: 'SPAWN_FAILED', name: 'McpConnectionError' });
    expect(error.message).toContain('no-such-command-anywhere');
    expect(error.message).toContain('/only/this/path');
    expect(status).toMatchObject({ state: 'failed', code: 'SPAWN_FAILED' });
  });

  test('SPAWN_FAILED STD-06 F-022: not executable', async () => {
    const path = join(temporaryDirectory(), 'script');
    writeFileSync(path, '#!/bin/sh\n');
    chmodSync(path, 0o644);
    const { error } = await besideGood({ command: path });
    expect(error.code).toBe('SPAWN_FAILED');
    expect(error.message).toMatch(/execut|permission/i);
  });

  test('SPAWN_FAILED F-023: a directory', async () => {
    const { error } = await besideGood({ command: temporaryDirectory() });
    expect(error.code).toBe('SPAWN_FAILED');
  });

  test('SPAWN_FAILED B8: the working directory is missing', async () => {
    const { error } = await besideGood({ ...faulty(), cwd: '/no/such/directory' });
    expect(error.code).toBe('SPAWN_FAILED');
    expect(error.message).toContain('/no/such/directory');
  });

  test('mcp:LIFE-04 VERSION_UNSUPPORTED PRO-02 D6: both sides are named', async () => {
    const file = join(temporaryDirectory(), 'notes');
    const { error, status } = await besideGood(faulty('--bad-version', '--notes', file));
    expect(notes(file).map(({ method }) => method)).toEqual(['initialize']);
    expect(error.code).toBe('VERSION_UNSUPPORTED');
    expect(error.message).toContain('1999-01-01');
    expect(error.message).toContain('2025-11-25');
    expect(status.state).toBe('failed');
  });

  test('the handshake is refused', async () => {
    const { error } = await besideGood(faulty('--initialize-error'));
    expect(error.code).not.toBe('INTERNAL');
    expect(error.message).toContain('not today');
  });

  test('the result of the handshake is no result', async () => {
    for (const result of ['7', 'null', '"x"', '[]', '{}', '{"protocolVersion":7}']) {
      const { error } = await besideGood(faulty('--initialize-result', result), { connectTimeoutMs: 2000 });
      expect(
        ['MESSAGE_INVALID', 'VERSION_UNSUPPORTED', 'CONNECT_FAILED'],
        `${result}: ${error.code}`,
      ).toContain(error.code);
    }
  });

  test('C2 C7 only noise: the timeout shows it', async () => {
    const { error } = await besideGood(faulty('--content-length'), { connectTimeoutMs: 2000 });
    expect(error.code).toBe('CONNECT_TIMEOUT');
    expect(`${String(error.firstBytes)} ${error.message}`).toContain('Content-Length');
  });

  test('LIF-04 a passing failure is tried again, then RETRIES_EXHAUSTED', async () => {
    await withManager(
      { retry: { attempts: 2, initialDelayMs: 20, maxDelayMs: 20 }, servers: { bad: faulty('--exit', '1') } },
      async (manager) => {
        const states: string[] = [];
        manager.on('status', ({ name, state }) => name === 'bad' && states.push(state));
        await manager.connect();
        await eventually(() => manager.status('bad')?.state === 'failed', 5000, 'giving up');
        expect(manager.status('bad')).toMatchObject({ code: 'RETRIES_EXHAUSTED' });
        await eventually(() => states.at(-1) === 'failed', 5000, 'the event of giving up');
      },
    );
  });

  test('LIF-04 while a server waits for its next try, its status says when', async () => {
    await withManager(
      { retry: { attempts: 5, initialDelayMs: 5000 }, servers: { bad: faulty('--exit', '1') } },
      async (manager) => {
        const [status] = await manager.connect();
        expect(status).toMatchObject({
          state: 'pending',
          code: 'SERVER_EXITED',
          maxAttempts: expect.any(Number),
        });
        expect(status.nextRetryAt).toBeGreaterThan(Date.now());
        expect(status.reason).toBeTruthy();
      },
    );
  });

  test('LIF-03 L1 connect() waits for no silent server longer than its limit, and says what came of each', async () => {
    const servers = {
      a: good,
      b: faulty('--silent'),
      c: { command: '/no/such/command' },
      d: faulty('--exit', '1'),
    };
    await withManager({ ...ONCE, connectTimeoutMs: 600, servers }, async (manager) => {
      const ready = nextEvent(manager, 'status', ({ name, state }) => name === 'a' && state === 'connected');
      const statuses = await manager.connect();
      await ready;
      expect(statuses.map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd']);
      expect(statuses[0].state).toBe('connected');
      expect(statuses[1].code).toBe('CONNECT_TIMEOUT');
      expect(statuses[2]).toMatchObject({ state: 'failed', code: 'SPAWN_FAILED' });
    });
  });

  test('LIF-03 only a required server that fails makes connect() reject', async () => {
    await withManager(
      { ...ONCE, servers: { a: faulty(), b: { command: '/no/such/command', start: 'required' } } },
      async (manager) => {
        expect(await caught(manager.connect())).toMatchObject({ code: 'SPAWN_FAILED', server: 'b' });
        expect(manager.status('a')?.state).toBe('connected');
      },
    );
  });

  test('LIF-03 D9 L1 a server whose lists never come does not hold connect()', async () => {
    await withFaulty(['--list-silent'], async (manager) => {
      const statuses = await Promise.race([manager.connect(), pause(5000)]);
      expect(statuses).toMatchObject([{ state: 'connected' }]);
    });
  });

  test('LIF-03 ready() gives up waiting in time', async () => {
    await withManager(
      { ...ONCE, connectTimeoutMs: 5000, servers: { a: faulty(), b: faulty('--silent') } },
      async (manager) => {
        const connecting = manager.connect().catch(() => undefined);
        const first = await manager.ready({ servers: ['a'] });
        expect(first.find(({ name }) => name === 'a')?.state).toBe('connected');
        const begin = Date.now();
        const all = await manager.ready({ timeoutMs: 200 });
        expect(Date.now() - begin).toBeLessThan(2000);
        expect(all.find(({ name }) => name === 'b')?.state).toBe('pending');
        await manager.close();
        await connecting;
      },
    );
  });
});

describe('servers that come up in spite of it', () => {
  test('mcp:STDIO-07 C1 C6 F-013 F-014 STD-03 banners, blank lines, ANSI, a BOM, CRLF, half a batch, a message cut inside an emoji', async () => {
    await withFaulty(['--banner'], async (manager) => {
      const warned = nextEvent(
        manager,
        'diagnostic',
        ({ server, level }) => server === 's' && level === 'warning',
      );
      await manager.connect('s');
      expect(manager.status('s')).toMatchObject({ state: 'connected', instructions: 'Be kind 🙂' });
      expect((await warned).message).toContain('Starting the server');
      const answers = await Promise.all(
        ['🙂', 'a🙂b', 'plain'].map((text) => manager.callTool('mcp__s__echo', { text })),
      );
      expect(answers.map((answer) => jsonOf(answer).text)).toEqual(['🙂', 'a🙂b', 'plain']);
    });
  });

  test.each(['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'])(
    'mcp:LIFE-04 PRO-02 D6 the server picks %s',
    async (revision) => {
      await withFaulty(['--old-version', revision], async (manager) => {
        await manager.connect('s');
        expect(manager.status('s')).toMatchObject({ protocolVersion: revision, era: 'legacy' });
        expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
      });
    },
  );

  test('mcp:LIFE-02 mcp:LIFE-05 mcp:LIFE-06 mcp:STDIO-01 PRO-02 PRO-03 D1 the first message is initialize, and nothing precedes initialized', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(
      ['--strict-first', '--notes', file],
      async (manager) => {
        await manager.connect('s');
        expect(
          notes(file)
            .slice(0, 2)
            .map(({ method }) => method),
        ).toEqual(['initialize', 'notifications/initialized']);
        expect(notes(file)[0].params).toMatchObject({
          protocolVersion: '2025-11-25',
          clientInfo: { name: expect.any(String), version: expect.any(String) },
        });
      },
      { clientInfo: { name: 'test-host', version: '9.9' } },
    );
    expect(notes(file)[0].params).toMatchObject({ clientInfo: { name: 'test-host', version: '9.9' } });
  });

  test('PRO-04 PRO-01 requests of the server are answered, those for what we did not declare refused', async () => {
    const cwd = temporaryDirectory();
    await withFaulty(
      ['--requests'],
      async (manager) => {
        await manager.connect('s');
        const answers = await eventually(async () => {
          const seen = jsonOf(await manager.callTool('mcp__s__answers'));
          return Object.keys(seen).length === 5 ? seen : undefined;
        });
        expect(answers.ping).toEqual({});
        expect(answers[0]).toEqual({});
        expect(answers.unknown.code).toBe(-32601);
        expect(answers.sampling.code).toBe(-32601);
        expect(answers.roots.roots).toHaveLength(1);
        expect(answers.roots.roots[0].uri).toBe(`file://${cwd}`);
      },
      { cwd },
    );
  });

  test('STD-07 C4 F-010 a flood on standard error without a line end', async () => {
    await withFaulty(['--flood-stderr', '64'], async (manager) => {
      await manager.connect('s');
      const before = process.memoryUsage().rss;
      for (let round = 0; round < 20; round += 1) await manager.callTool('mcp__s__echo', { round });
      expect(process.memoryUsage().rss - before).toBeLessThan(128 * 1024 * 1024);
      const tail = (manager.status('s')?.stderrTail ?? []).join('\n');
      expect(Buffer.byteLength(tail)).toBeLessThanOrEqual(70 * 1024);
    });
  });

  test('mcp:STDIO-02 STD-01 lines of standard error are log events', async () => {
    await withFaulty([], async (manager) => {
      const line = nextEvent(manager, 'log', ({ source }) => source === 'stderr');
      await manager.callTool('mcp__s__stderr', { text: 'hello\u200B there' });
      expect(await line).toMatchObject({ server: 's', source: 'stderr', data: 'hello there' });
    });
  });

  test('STD-02 B6 only the safe list and what the definition names reaches the server', async () => {
    process.env.SECRET_TOKEN_OF_HOST = 'leak';
    process.env.NAMED_BY_DEFINITION = 'passed on';
    const config = { ...faulty(), env: { OWN: 'yes' }, inheritEnv: ['NAMED_BY_DEFINITION'] };
    await withManager({ servers: { s: config } }, async (manager) => {
      const environment = jsonOf(await manager.callTool('mcp__s__environment')) as Record<string, string>;
      expect(environment).toMatchObject({
        OWN: 'yes',
        NAMED_BY_DEFINITION: 'passed on',
        PATH: process.env.PATH,
      });
      expect(environment).not.toHaveProperty('SECRET_TOKEN_OF_HOST');
      const safe =
        /^(HOME|LOGNAME|PATH|SHELL|TERM|USER|LANG|LC_.*|TMPDIR|TZ|OWN|NAMED_BY_DEFINITION|__CF_USER_TEXT_ENCODING|(MCP_)?SWITCHBOARD.*|.*SWITCHBOARD.*)$/;
      expect(Object.keys(environment).filter((name) => !safe.test(name))).toEqual([]);
    });
    delete process.env.SECRET_TOKEN_OF_HOST;
    delete process.env.NAMED_BY_DEFINITION;
  });

  test('B5 arguments arrive byte for byte', async () => {
    const args = ['a b', '"q"', "'", '%PATH%', '&', '^', '', '🙂', 'line\nbreak', '$HOME', '`x`', '*', '\\'];
    await withManager({ servers: { s: faulty('--', ...args) } }, async (manager) => {
      expect(jsonOf(await manager.callTool('mcp__s__argv'))).toEqual(args);
    });
  });

  test('STD-01 the working directory is that of the definition, else that of the manager', async () => {
    const cwd = temporaryDirectory();
    mkdirSync(join(cwd, 'inner'));
    await withManager(
      { cwd, servers: { a: faulty(), b: { ...faulty(), cwd: join(cwd, 'inner') } } },
      async (manager) => {
        expect(await manager.callTool('mcp__a__cwd').then(({ content }) => content[0])).toMatchObject({
          text: cwd,
        });
        expect(await manager.callTool('mcp__b__cwd').then(({ content }) => content[0])).toMatchObject({
          text: join(cwd, 'inner'),
        });
      },
    );
  });

  test('D9 connected, but the tool list failed: the status says so, and it is tried again', async () => {
    await withFaulty(['--list-error'], async (manager) => {
      await manager.connect('s');
      const status = await eventually(() =>
        manager.status('s')?.listErrors?.length ? manager.status('s') : undefined,
      );
      expect(status.state).toBe('connected');
      expect(status.listErrors).toMatchObject([{ list: 'tools', code: 'RPC_ERROR' }]);
      expect(status.listErrors?.[0].message).toContain('the list is on fire');
    });
    await withFaulty(['--list-error-once'], async (manager) => {
      await manager.connect('s');
      await eventually(async () => (await manager.listTools()).length > 0, 4000, 'a list of tools');
    });
  });

  test('LIF-03 a call before connect() connects its server', async () => {
    await withFaulty([], async (manager) => {
      expect((await manager.callTool('mcp__s__echo')).server).toBe('s');
      expect(manager.status('s')?.state).toBe('connected');
    });
  });

  test('LIF-02 concurrent callers share one connection', async () => {
    await withFaulty([], async (manager) => {
      const statuses = await Promise.all([
        manager.connect('s'),
        manager.connect('s'),
        manager.connect().then(([status]) => status),
      ]);
      expect(new Set(statuses.map(({ pid }) => pid)).size).toBe(1);
      expect(isAlive(statuses[0].pid!)).toBe(true);
    });
  });

  test('LIF-01 status events tell from, to and when', async () => {
    await withFaulty([], async (manager) => {
      const seen: { from?: string | undefined; state: string; time: number }[] = [];
      manager.on('status', ({ from, state, time }) => seen.push({ from, state, time }));
      await manager.connect('s');
      await eventually(() => seen.some(({ state }) => state === 'connected'));
      const change = seen.find(({ state }) => state === 'connected')!;
      expect(change.from).toBe('pending');
      expect(Math.abs(Date.now() - change.time)).toBeLessThan(5000);
    });
  });

  test('TOL-02 broken tools are left out with a warning, the others stay', async () => {
    await withFaulty(['--bad-tools'], async (manager) => {
      const warnings: string[] = [];
      manager.on('diagnostic', ({ level, message }) => level === 'warning' && warnings.push(message));
      const tools = await toolsOf(manager);
      const names = tools.map(({ mcpInfo }) => mcpInfo.toolName);
      expect(names).toContain('echo');
      expect(names).not.toContain('schema-is-text');
      expect(names).not.toContain('schema-is-array');
      await eventually(() => warnings.some((message) => message.includes('schema-is-text')));
      const typeless = tools.find(({ mcpInfo }) => mcpInfo.toolName === 'typeless')!;
      expect(typeless.inputSchema).toEqual({ type: 'object', properties: { n: { type: 'number' } } });
      expect(typeless.rawInputSchema).toEqual({ properties: { n: { type: 'number' } } });
      const cleaned = tools.find(({ description }) => description.startsWith('Seen'))!;
      expect(cleaned.description).toBe('Seen text[2J');
      expect(jsonOf(await manager.callTool('mcp__s__typeless', { n: 1 }))).toEqual({ n: 1 });
    });
  });

  test('TOL-01 hints become properties', async () => {
    await withFaulty([], async (manager) => {
      const tools = new Map((await toolsOf(manager)).map((tool) => [tool.mcpInfo.toolName, tool]));
      expect(tools.get('reader')).toMatchObject({
        isMcp: true,
        isReadOnly: true,
        isConcurrencySafe: true,
        isDestructive: false,
        isOpenWorld: false,
      });
      expect(tools.get('writer')).toMatchObject({
        isReadOnly: false,
        isConcurrencySafe: false,
        isDestructive: false,
        isOpenWorld: true,
      });
      expect(tools.get('plain_writer')).toMatchObject({
        title: 'Plain writer',
        description: '',
        isReadOnly: false,
        isDestructive: true,
        searchHint: 'pen',
        alwaysLoad: true,
      });
      expect(tools.get('structured')?.outputSchema).toMatchObject({ type: 'object' });
      expect(tools.get('echo')).toMatchObject({ isDestructive: true, alwaysLoad: false, annotations: {} });
    });
  });

  test('CFG-04 tools.include and tools.exclude choose', async () => {
    const servers = {
      a: { ...faulty(), tools: { include: ['echo', 'sleep'] } },
      b: { ...faulty(), tools: { exclude: ['echo'] } },
    };
    await withManager({ servers }, async (manager) => {
      const names = (server: string) =>
        toolsOf(manager, server).then((tools) => tools.map(({ mcpInfo }) => mcpInfo.toolName));
      expect((await names('a')).sort()).toEqual(['echo', 'sleep']);
      expect(await names('b')).not.toContain('echo');
      expect(await caught(manager.callTool('mcp__b__echo'))).toMatchObject({ code: 'TOOL_UNKNOWN' });
    });
  });
});
