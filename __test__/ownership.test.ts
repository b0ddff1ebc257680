/** Whose processes are whose, and that nothing of them stays, however a host ends. */
import { spawn, type ChildProcess } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, onTestFinished, test } from 'vitest';
import { McpManager, version, type StdioServerConfig } from '..';
import {
  DEFAULTS,
  caught,
  eventually,
  fixture,
  gone,
  isAlive,
  nextEvent,
  pause,
  root,
  runHost,
  runNode,
  temporaryDirectory,
  withManager,
} from './harness';

const linux = process.platform === 'linux';

/** Starts a program of `fixtures/hosts/`; the lines of its output arrive in the list. */
function startHost(file: string, args: string[]): { host: ChildProcess; lines: string[] } {
  const host = spawn(process.execPath, [fixture('hosts', file), ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  onTestFinished(() => void host.kill('SIGKILL'));
  const lines: string[] = [];
  createInterface(host.stdout!).on('line', (line) => lines.push(line));
  return { host, lines };
}

/** Waits until all are gone; kills what is not. */
async function allGone(pids: number[], ms: number): Promise<void> {
  try {
    await Promise.all(pids.map((pid) => gone(pid, ms)));
  } finally {
    for (const pid of pids) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
  }
}

describe.runIf(process.platform !== 'win32')('the end of a host', () => {
  test.each(['abort', 'uncaught', 'rejection', 'exit', 'exit in an exit handler', 'worker'])(
    'STD-05 Q4 F-018 A4 %s: five deaf servers and their grandchildren are gone within 2 s',
    async (way) => {
      const { host, lines } = startHost('waits-for-death.mjs', [temporaryDirectory(), way]);
      const over = way === 'worker' ? eventually(() => lines.includes('terminated'), 20_000) : exited(host);
      await over;
      const pids = JSON.parse(lines[0]) as number[];
      expect(pids).toHaveLength(10);
      await allGone(pids, 2000);
      if (way === 'worker') expect(host.exitCode).toBeNull();
      if (way === 'exit') expect(host.exitCode).toBe(3);
      if (way === 'exit in an exit handler') expect(host.exitCode).toBe(5);
    },
    30_000,
  );

  test.each(['SIGHUP', 'SIGTERM', 'SIGINT', 'SIGKILL'] as const)(
    'STD-05 Q4 F-018 A4 %s: five deaf servers and their grandchildren are gone within 2 s',
    async (signal) => {
      const { host, lines } = startHost('waits-for-death.mjs', [temporaryDirectory()]);
      await eventually(() => lines.length > 0, 20_000);
      const pids = JSON.parse(lines[0]) as number[];
      expect(pids.filter(isAlive)).toHaveLength(10);
      host.kill(signal);
      await exited(host);
      await allGone(pids, 2000);
    },
    30_000,
  );

  test.each(['the same', 'another'])(
    'Q10 two copies of the package in one process, of %s version',
    async (which) => {
      const copy = join(temporaryDirectory(), 'copy');
      mkdirSync(copy);
      for (const entry of readdirSync(root))
        if (['index.js', 'binding.js', 'package.json', 'lib'].includes(entry) || entry.endsWith('.node'))
          cpSync(join(root, entry), join(copy, entry), { recursive: true });
      const second = which === 'another' ? giveAnotherVersion(copy) : version;
      const ended = await runHost('two-copies.mjs', [copy]);
      expect(ended).toMatchObject({ code: 0, signal: null, stderr: '' });
      const { pids, texts, versions } = JSON.parse(ended.stdout) as Record<string, string[]>;
      expect(texts).toEqual(['{"n":0}', '{"n":1}', '{"n":2}']);
      expect(versions).toEqual([version, second]);
      await allGone(pids.map(Number), 2000);
    },
    30_000,
  );
});

/**
 * Makes a copy of the package one of another version, as npm would install it. The binary cannot be had in two versions
 * before there are two: a shim of the platform package says so in its place.
 */
function giveAnotherVersion(copy: string): string {
  const other = version.slice(0, -1) + ((Number(version.at(-1)) + 1) % 10);
  const manifest = readFileSync(join(copy, 'package.json'), 'utf8');
  writeFileSync(
    join(copy, 'package.json'),
    manifest.replace(`"version": "${version}"`, `"version": "${other}"`),
  );
  const binary = readdirSync(copy).find((name) => name.endsWith('.node'))!;
  const [, triple] = binary.split('.');
  const folder = join(copy, 'node_modules', '@mcp-switchboard', triple);
  mkdirSync(folder, { recursive: true });
  renameSync(join(copy, binary), join(folder, binary));
  writeFileSync(join(folder, 'package.json'), '{ "main": "shim.js" }');
  writeFileSync(
    join(folder, 'shim.js'),
    `module.exports = { ...require('./${binary}'), nativeVersion: () => '${other}' };`,
  );
  return other;
}

/** Resolves when a child has ended. */
function exited(host: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (host.exitCode !== null || host.signalCode !== null) resolve();
    else host.once('exit', () => resolve());
  });
}

describe.runIf(linux)('what a dead host has left', () => {
  /** The watchdogs of a host. */
  const watchdogs = (host: number) =>
    readdirSync('/proc').filter((pid) => {
      try {
        const parent = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1];
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        return Number(parent) === host && command.includes('mcp-switchboard-death-link');
      } catch {
        return false;
      }
    });

  test('A16 BEY-02 a host killed together with its watchdog: the next start ends its servers, and nobody else', async () => {
    const stateDir = temporaryDirectory();
    const options = { stateDir };
    const server = {
      command: process.execPath,
      args: [fixture('faulty-server.mjs'), '--ignore-eof', '--ignore-term'],
    };
    const { host, lines } = startHost('runs-container.mjs', [
      JSON.stringify(server),
      JSON.stringify(options),
    ]);
    await eventually(() => lines.includes('ready'), 15_000);
    const left = Number(lines.find((line) => line.startsWith('pid '))?.slice(4));
    expect(isAlive(left)).toBe(true);
    const [watchdog] = watchdogs(host.pid!);
    expect(watchdog).toBeDefined();
    // Stopped first, so that neither sees the end of the other.
    process.kill(Number(watchdog), 'SIGSTOP');
    host.kill('SIGKILL');
    process.kill(Number(watchdog), 'SIGKILL');
    await exited(host);
    onTestFinished(() => {
      if (isAlive(left)) process.kill(left, 'SIGKILL');
    });
    // It would be found by a number or a name, but carries the mark of a host that nobody knows.
    const stranger = spawn(process.execPath, [fixture('faulty-server.mjs'), '--ignore-eof'], {
      stdio: ['pipe', 'ignore', 'ignore'],
      env: { ...process.env, MCP_SWITCHBOARD_PROCESS: `${'0'.repeat(32)}-1` },
    });
    onTestFinished(() => void stranger.kill('SIGKILL'));
    await pause(200);
    expect(isAlive(left)).toBe(true);
    await withManager(
      { ...options, servers: { s: { command: process.execPath, args: [fixture('faulty-server.mjs')] } } },
      async (manager) => {
        const told = nextEvent(manager, 'diagnostic', ({ code }) => code === 'LEFTOVERS_ENDED', 10_000);
        await manager.connect('s');
        expect(isAlive(left)).toBe(false);
        expect((await told).message).toContain(String(left));
        expect(isAlive(stranger.pid!)).toBe(true);
      },
    );
    expect(readdirSync(stateDir).filter((name) => name.startsWith('host-'))).toEqual([]);
  }, 40_000);
});

describe.runIf(linux)('starting and stopping', () => {
  test('F-025 a thousand times: files and threads as before, memory within 10 %', async () => {
    const ended = await runNode(['--expose-gc', fixture('hosts', 'cycles.mjs'), '1000'], 240_000);
    expect(ended).toMatchObject({ code: 0, signal: null });
    type Measured = { files: number; threads: number; kilobytes: number };
    const { before, after } = JSON.parse(ended.stdout) as { before: Measured; after: Measured };
    expect(after.files).toBeLessThanOrEqual(before.files + 2);
    expect(after.threads).toBeLessThanOrEqual(before.threads + 2);
    expect(after.kilobytes).toBeLessThan(before.kilobytes * 1.1);
  }, 250_000);
});

describe.runIf(linux)('containers', () => {
  /** A server in a "container" of the fake engine; where its id is found. */
  function contained(name: 'docker' | 'podman', flags: string[], head: string[] = ['run', '-i', '--rm']) {
    const directory = temporaryDirectory();
    const engine = join(directory, name);
    copyFileSync(fixture('fake-engine.sh'), engine);
    chmodSync(engine, 0o755);
    const log = join(directory, 'log');
    const server: StdioServerConfig = {
      command: engine,
      args: [...head, 'image', process.execPath, fixture('faulty-server.mjs'), ...flags],
      env: { ENGINE_LOG: log },
    };
    const container = () => Number(readFileSync(`${log}.id`, 'utf8'));
    onTestFinished(() => {
      if (existsSync(`${log}.id`) && isAlive(container())) process.kill(container(), 'SIGKILL');
    });
    return { server, container, log: () => readFileSync(log, 'utf8').trim().split('\n') };
  }
  const leftovers = () =>
    readdirSync(tmpdir()).filter((name) => name.startsWith('mcp-switchboard-container-'));

  test.each([
    ['docker', 'is polite', []],
    ['podman', 'is deaf', ['--ignore-eof', '--ignore-term']],
  ] as const)('BEY-02 A9 %s run: the container is stopped when its server %s', async (name, _, flags) => {
    const before = leftovers();
    const { server, container, log } = contained(name, [...flags]);
    await withManager({ servers: { s: server } }, async (manager) => {
      await manager.connect('s');
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
      expect(isAlive(container())).toBe(true);
      await manager.disconnect('s');
      expect(isAlive(container())).toBe(false);
    });
    const [run, stop] = log();
    expect(run).toMatch(/^run --label mcp-switchboard=\S+ --cidfile \S+ -i --rm image /);
    expect(stop).toBe(`stop -t 1 ${container()}`);
    expect(leftovers()).toEqual(before);
  });

  test('BEY-02 A9 an engine behind a program that runs its arguments', async () => {
    const { server, container, log } = contained('docker', ['--ignore-eof', '--ignore-term']);
    const wrapped = { ...server, command: 'env', args: ['MARK=1', server.command, ...server.args!] };
    await withManager({ servers: { s: wrapped } }, async (manager) => {
      await manager.connect('s');
      await manager.disconnect('s');
      expect(isAlive(container())).toBe(false);
    });
    expect(log()).toHaveLength(2);
    expect(log()[1]).toBe(`stop -t 1 ${container()}`);
  });

  test('A8 LIF-08 a client that is deaf to everything keeps neither close() nor the program', async () => {
    const { server, container } = contained('docker', ['--ignore-eof', '--ignore-term']);
    const ended = await runHost('closes-container.mjs', [JSON.stringify(server)]);
    expect(ended).toMatchObject({ code: 0, signal: null });
    const { pid, ms } = JSON.parse(ended.stdout) as { pid: number; ms: number };
    expect(ms).toBeLessThan(7000);
    expect([pid, container()].filter(isAlive)).toEqual([]);
  }, 30_000);

  test('BEY-02 A9 a client that is killed leaves no container', async () => {
    const { server, container } = contained('docker', []);
    const manager = new McpManager({ ...DEFAULTS, servers: { s: server }, retry: { attempts: 0 } });
    onTestFinished(() => manager.close());
    const { pid } = await manager.connect('s');
    process.kill(pid!, 'SIGKILL');
    await gone(container(), 5000);
  });

  test('BEY-02 A9 STD-05 a host that is killed leaves no container', async () => {
    const before = leftovers();
    const { server, container } = contained('docker', ['--ignore-eof', '--ignore-term']);
    const { host, lines } = startHost('runs-container.mjs', [JSON.stringify(server)]);
    await eventually(() => lines.includes('ready'), 15_000);
    expect(isAlive(container())).toBe(true);
    host.kill('SIGKILL');
    await gone(container(), 4000);
    await eventually(() => leftovers().length <= before.length, 3000);
  }, 30_000);
});

describe.runIf(process.platform !== 'win32')('the login shell', () => {
  test('BEY-03 B2 a tool that only the shell finds', async () => {
    const directory = temporaryDirectory();
    const tools = join(directory, 'tools');
    mkdirSync(tools);
    writeFileSync(join(tools, 'only-here'), `#!/bin/sh\n${readFileSync(fixture('tiny-server.sh'), 'utf8')}`);
    chmodSync(join(tools, 'only-here'), 0o755);
    const shell = join(directory, 'shell');
    writeFileSync(shell, `#!/bin/sh\necho noise\nPATH=${tools}:$PATH\nexport PATH\nexec /bin/sh -c "$4"\n`);
    chmodSync(shell, 0o755);
    const original = process.env.SHELL;
    process.env.SHELL = shell;
    onTestFinished(() => {
      if (original === undefined) delete process.env.SHELL;
      else process.env.SHELL = original;
    });
    const servers = { s: { command: 'only-here' }, own: { command: 'only-here', env: { PATH: '/nowhere' } } };
    await withManager({ servers, shellEnv: 'auto' }, async (manager) => {
      expect((await manager.connect()).map(({ name, state }) => [name, state])).toEqual([
        ['own', 'failed'],
        ['s', 'connected'],
      ]);
    });
    await withManager({ servers: { s: servers.s } }, async (manager) => {
      expect((await manager.connect())[0]).toMatchObject({ state: 'failed', code: 'SPAWN_FAILED' });
    });
  });

  test('B3 a command that only a version manager has: its place is named beside the searched path', async () => {
    const home = temporaryDirectory();
    const found = join(home, '.nvm/versions/node/v22.11.0/bin/only-in-nvm');
    mkdirSync(join(found, '..'), { recursive: true });
    writeFileSync(found, '');
    const original = process.env.HOME;
    process.env.HOME = home;
    onTestFinished(() => void (process.env.HOME = original));
    const servers = { s: { command: 'only-in-nvm' }, nowhere: { command: 'in-no-manager' } };
    await withManager({ servers }, async (manager) => {
      const error = await caught(manager.connect('s'));
      expect(error).toMatchObject({
        code: 'SPAWN_FAILED',
        data: {
          reason: 'not-found',
          versionManagers: expect.arrayContaining([{ name: 'nvm', file: found }]),
        },
      });
      expect(error.message).toContain(found);
      expect(error.message).toContain("shellEnv 'auto'");
      expect(error.message).toContain(process.env.PATH!.slice(0, 100));
      const other = await caught(manager.connect('nowhere'));
      expect(other.message).toMatch(/, nor in nvm/);
    });
  });
});
