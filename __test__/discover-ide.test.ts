/** Editors that are found: lock files and variables, the way to their tools, and editors that come and go (IDE-01, BRG-08). */
import { spawnSync } from 'node:child_process';
import { chownSync, mkdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { discoverIde, type Diagnostic, type McpManager, type McpManagerOptions } from '..';
import { editor, place, type Place } from './editor-world';
import { caught, eventually, freePort, textOf, withManager } from './harness';

// The tests may themselves run in the terminal of an editor.
delete process.env.CLAUDE_CODE_IDE_MCP_URL;
delete process.env.CLAUDE_CODE_SSE_PORT;

const look = ({ home, project }: Place, env: Record<string, string | undefined> = {}) =>
  discoverIde({ cwd: project, homeDir: home, env });

/** A process number that nobody has. */
function deadProcess(): number {
  return spawnSync(process.execPath, ['-e', '']).pid;
}

/** Runs `body` with a manager that finds its editor; what it told of is there too. */
function withDiscovery(
  { home, project }: Place,
  body: (manager: McpManager, told: Diagnostic[]) => Promise<void>,
  options: McpManagerOptions = {},
): Promise<void> {
  const discovering: McpManagerOptions = {
    ide: 'discover',
    cwd: project,
    config: { homeDir: home, managedDir: join(home, 'nobody') },
    stateDir: false,
    retry: { attempts: 0 },
    ...options,
  };
  return withManager(discovering, async (manager) => {
    const told: Diagnostic[] = [];
    manager.on('diagnostic', (finding) => told.push(finding));
    await body(manager, told);
  });
}

const codes = (told: Diagnostic[]) => told.map(({ code }) => code);

describe('discoverIde', () => {
  test('IDE-01 what a lock file says becomes a definition', async () => {
    const at = place();
    const ws = await editor(at, 'ws', { name: 'Some\u200b Editor' });
    expect(await look(at)).toEqual([
      { type: 'ws-ide', url: `ws://127.0.0.1:${ws.port}`, ideName: 'Some Editor', authToken: ws.token },
    ]);
    await ws.stop();
    const sse = await editor(at, 'sse', { lock: { transport: undefined, ideName: '' } });
    expect(await look(at)).toEqual([
      { type: 'sse-ide', url: `http://127.0.0.1:${sse.port}/sse`, ideName: 'IDE', authToken: sse.token },
    ]);
  });

  test('IDE-01 the deepest folder first, then the youngest file; folders elsewhere do not count', async () => {
    const at = place();
    const cwd = join(at.project, 'packages', 'one');
    mkdirSync(cwd, { recursive: true });
    const old = await editor(at, 'ws', { name: 'old' });
    await editor(at, 'ws', { name: 'young' });
    await editor(at, 'ws', { name: 'deep', folders: [at.home, join(at.project, 'packages')] });
    await editor(at, 'ws', {
      name: 'sibling',
      folders: [`${at.project}s`, join(at.project, 'packages', 'on')],
    });
    await editor(at, 'ws', { name: 'below', folders: [join(cwd, 'src')] });
    await editor(at, 'ws', { name: 'relative', folders: ['.', ''] });
    utimesSync(join(at.home, '.claude', 'ide', `${old.port}.lock`), 1, 1);
    const names = (await discoverIde({ cwd, homeDir: at.home, env: {} })).map(({ ideName }) => ideName);
    expect(names).toEqual(['deep', 'young', 'old']);
  });

  test('IDE-01 a workspace behind a link, and a working directory behind one', async () => {
    const at = place();
    const link = join(at.home, 'link');
    symlinkSync(at.project, link);
    await editor(at, 'ws', { name: 'link', folders: [link] });
    expect(await look(at)).toHaveLength(1);
    const real = await editor(at, 'ws', { name: 'real' });
    expect(await discoverIde({ cwd: link, homeDir: at.home, env: {} })).toHaveLength(2);
    await real.stop();
    expect(await discoverIde({ cwd: link, homeDir: at.home, env: {} })).toHaveLength(1);
  });

  test('IDE-01 an editor whose process has ended, or whose port nobody answers, is none', async () => {
    const at = place();
    await editor(at, 'ws', { lock: { pid: deadProcess() } });
    at.lock(await freePort(), { pid: process.pid, workspaceFolders: [at.project] });
    expect(await look(at)).toEqual([]);
    const alive = await editor(at, 'ws', { lock: { pid: undefined } });
    expect(await look(at)).toMatchObject([{ authToken: alive.token }]);
  });

  test('IDE-01 the terminal’s own editor comes first, with the token of its lock file', async () => {
    const at = place();
    const here = await editor(at, 'ws', { name: 'here' });
    const own = await editor(at, 'sse', { name: 'own', folders: ['/elsewhere'] });
    const bare = await editor(at, 'sse', { lock: false });
    const names = async (env: Record<string, string>) => (await look(at, env)).map(({ ideName }) => ideName);
    expect(await names({ CLAUDE_CODE_SSE_PORT: `${own.port}` })).toEqual(['own', 'here']);
    expect(await names({ CLAUDE_CODE_SSE_PORT: `${here.port}` })).toEqual(['here']);
    expect(await look(at, { CLAUDE_CODE_SSE_PORT: `${bare.port}` })).toMatchObject([
      { type: 'sse-ide', url: `http://127.0.0.1:${bare.port}/sse`, ideName: 'IDE' },
      { ideName: 'here' },
    ]);
    const url = `http://localhost:${own.port}/sse`;
    expect(
      await look(at, { CLAUDE_CODE_IDE_MCP_URL: url, CLAUDE_CODE_SSE_PORT: `${own.port}` }),
    ).toMatchObject([{ type: 'sse-ide', url, ideName: 'own', authToken: own.token }, { ideName: 'here' }]);
    // Stale or wrong variables lead nowhere, and keep nobody from the rest.
    for (const stale of [`${await freePort()}`, 'x', '0'])
      expect(await names({ CLAUDE_CODE_SSE_PORT: stale }), stale).toEqual(['here']);
    for (const wrong of ['file:///etc', 'nonsense', `ws://127.0.0.1:${await freePort()}`])
      expect(await names({ CLAUDE_CODE_IDE_MCP_URL: wrong }), wrong).toEqual(['here']);
    // An editor elsewhere gets no token of ours.
    const far = 'ws://192.0.2.1:1/';
    const [first] = await look(at, { CLAUDE_CODE_IDE_MCP_URL: far });
    expect(first).toEqual({ type: 'ws-ide', url: far, ideName: 'IDE' });
  });

  test('IDE-01 odd files are passed over, whatever they are', async () => {
    const at = place();
    const ide = join(at.home, '.claude', 'ide');
    const good = await editor(at, 'ws');
    at.lock('1001', '{"workspaceFolders": [');
    at.lock('1002', '[]');
    at.lock('1003', { workspaceFolders: at.project });
    at.lock('1004', { workspaceFolders: [at.project], transport: 'smoke' });
    at.lock('1005', `{"workspaceFolders":["${at.project}"],"x":"${'x'.repeat(70_000)}"}`);
    at.lock('1006', '\u0000\ufffd');
    at.lock('name', { workspaceFolders: [at.project] });
    at.lock('70000', { workspaceFolders: [at.project] });
    writeFileSync(join(ide, '1007.txt'), 'no lock');
    mkdirSync(join(ide, '1008.lock'));
    symlinkSync('/dev/zero', join(ide, '1009.lock'));
    symlinkSync(join(ide, '1010.lock'), join(ide, '1010.lock'));
    if (process.platform !== 'win32') spawnSync('mkfifo', [join(ide, '1011.lock')]);
    expect(await look(at)).toMatchObject([{ authToken: good.token }]);
    for (const homeDir of [join(at.home, 'none'), join(ide, '1001.lock')])
      expect(await discoverIde({ cwd: at.project, homeDir, env: {} })).toEqual([]);
    expect(await discoverIde({ cwd: join(at.home, 'gone'), homeDir: at.home, env: {} })).toEqual([]);
  });

  test('IDE-01 a byte order mark and a home directory with another configDir', async () => {
    const at = place();
    const { port, content } = await editor(at, 'ws', { lock: false });
    mkdirSync(join(at.home, '.other', 'ide'), { recursive: true });
    writeFileSync(join(at.home, '.other', 'ide', `${port}.lock`), `\ufeff${JSON.stringify(content)}`);
    expect(await look(at)).toEqual([]);
    const options = { cwd: at.project, homeDir: at.home, env: {} };
    expect(await discoverIde({ ...options, configDir: '.other' })).toHaveLength(1);
  });

  test.runIf(process.getuid?.() === 0)('IDE-01 a lock file of another user is not believed', async () => {
    const at = place();
    const { port } = await editor(at, 'ws');
    chownSync(join(at.home, '.claude', 'ide', `${port}.lock`), 12_345, 12_345);
    expect(await look(at)).toEqual([]);
    await withDiscovery(at, async (manager, told) => {
      await manager.load();
      const finding = await eventually(() => told.find(({ code }) => code === 'IDE_LOCK_INVALID'));
      expect(finding).toMatchObject({ level: 'warning', message: expect.stringContaining('another user') });
      expect(finding.file).toContain(`${port}.lock`);
    });
  });

  test('IDE-01 nothing is sent to an editor that is only looked for', async () => {
    const at = place();
    const one = await editor(at, 'ws');
    await look(at);
    expect([one.clients(), one.refused()]).toEqual([0, 0]);
  });

  test('IDE-01 arguments that are none', async () => {
    for (const wrong of [null, { cwd: 1 }, { homeDir: true }, { env: 'x' }, { configDir: '../x' }])
      await expect(discoverIde(wrong as never), JSON.stringify(wrong)).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      });
  });
});

describe.each(['ws', 'sse'] as const)('the option ide: discover, %s', (kind) => {
  test('BRG-08 discovery, connection, getDiagnostics and executeCode, through hooks and permission', async () => {
    const at = place();
    const { token, calls, content } = await editor(at, kind);
    const asked: string[] = [];
    const seen: unknown[] = [];
    const options: McpManagerOptions = {
      permissions: { allow: ['mcp__ide__getDiagnostics'] },
      onPermission: ({ fullName }) => {
        asked.push(fullName);
        return { behavior: 'allow' };
      },
      hooks: {
        preToolUse: ({ tool, input }) => {
          seen.push(['before', tool, input]);
          if (input.code === 'rm()') return { deny: 'not this' };
          return tool === 'executeCode' ? { input: { code: `${String(input.code)};` } } : undefined;
        },
        postToolUse: ({ tool, result }) => void seen.push(['after', tool, textOf(result)]),
      },
    };
    const run = async (manager: McpManager, told: Diagnostic[]) => {
      await manager.connect();
      expect(manager.status('ide')).toMatchObject({ type: content.transport + '-ide', state: 'connected' });
      const uri = `file://${at.project}/a.ts`;
      const found = textOf(await manager.callTool('mcp__ide__getDiagnostics', { uri }));
      expect(JSON.parse(found)).toMatchObject([{ uri, diagnostics: [{ message: "';' expected" }] }]);
      expect(asked).toEqual([]);
      expect(textOf(await manager.callTool('mcp__ide__executeCode', { code: '1 + 1' }))).toBe('ran 1 + 1;');
      expect(asked).toEqual(['mcp__ide__executeCode']);
      const refused = await caught(manager.callTool('mcp__ide__executeCode', { code: 'rm()' }));
      expect(refused).toMatchObject({ code: 'PERMISSION_DENIED', layer: 'hook' });
      const other = await caught(manager.callTool({ server: 'ide', tool: 'openDiff' }));
      expect(other).toMatchObject({ code: 'PERMISSION_DENIED', layer: 'ide' });
      expect(calls).toEqual([
        { name: 'getDiagnostics', arguments: { uri } },
        { name: 'executeCode', arguments: { code: '1 + 1;' } },
      ]);
      expect(seen).toEqual([
        ['before', 'getDiagnostics', { uri }],
        ['after', 'getDiagnostics', found],
        ['before', 'executeCode', { code: '1 + 1' }],
        ['after', 'executeCode', 'ran 1 + 1;'],
        ['before', 'executeCode', { code: 'rm()' }],
      ]);
      const note = await eventually(() => told.find(({ code }) => code === 'IDE_FOUND'));
      expect(note).toMatchObject({ level: 'info', server: 'ide' });
      expect(note.message).toContain('"Test Editor"');
      const shown = JSON.stringify([told, manager.status(), manager.configReport(), await manager.doctor()]);
      expect(shown).not.toContain(token);
    };
    await withDiscovery(at, run, options);
  });

  test('BRG-08 a rule that denies is the end of it', async () => {
    const at = place();
    const { calls } = await editor(at, kind);
    const permissions = { allow: ['mcp__ide'], deny: ['mcp__ide__executeCode'] };
    const run = async (manager: McpManager) => {
      await manager.connect();
      const error = await caught(manager.callTool('mcp__ide__executeCode', { code: '1' }));
      expect(error).toMatchObject({ code: 'PERMISSION_DENIED', layer: 'rule' });
      expect(calls).toEqual([]);
    };
    await withDiscovery(at, run, { permissions });
  });

  test('BRG-08 an editor that is started again on another port, with another token', async () => {
    const at = place();
    const first = await editor(at, kind);
    await withDiscovery(at, async (manager) => {
      await manager.connect();
      await first.stop();
      const second = await editor(at, kind);
      await eventually(() => second.clients() === 1 && manager.status('ide')?.state === 'connected', 15_000);
      expect(textOf(await manager.callTool('mcp__ide__executeCode', { code: '2' }))).toBe('ran 2');
      expect([first.calls.length, second.calls.length]).toEqual([0, 1]);
    });
  });

  test('BRG-08 reconnect finds the new editor at once', async () => {
    const at = place();
    const first = await editor(at, kind);
    await withDiscovery(at, async (manager) => {
      await manager.connect();
      await first.stop('crash');
      await eventually(() => manager.status('ide')?.state !== 'connected');
      const second = await editor(at, kind);
      const { status, tools } = await manager.reconnect('ide');
      expect(status.state).toBe('connected');
      expect(tools.map(({ name }) => name).sort()).toEqual([
        'mcp__ide__executeCode',
        'mcp__ide__getDiagnostics',
      ]);
      expect(second.clients()).toBe(1);
    });
  });

  test('BRG-08 a wrong token is refused, shown as what it is, and never shown itself', async () => {
    const at = place();
    const wrong = await editor(at, kind, { token: 'secret-that-is-wrong' });
    await withDiscovery(at, async (manager, told) => {
      await manager.connect();
      expect(manager.status('ide')?.state).not.toBe('connected');
      const error = await caught(manager.connect('ide'));
      expect(error.status).toBe(401);
      expect(JSON.stringify([told, manager.status(), error.message, error.stack])).not.toContain(
        'secret-that',
      );
      expect(wrong.clients()).toBe(0);
      expect(wrong.refused()).toBeGreaterThan(0);
    });
  });
});

describe('the option ide: discover', () => {
  test('BRG-08 no editor is no error; one that comes later is found by itself', async () => {
    const at = place();
    await withDiscovery(at, async (manager, told) => {
      await manager.connect();
      expect(manager.status()).toEqual([]);
      expect(manager.configReport().errors).toEqual([]);
      await eventually(() => codes(told).includes('IDE_NOT_FOUND'));
      expect(told).toMatchObject([{ level: 'info' }]);
      const changes: object[] = [];
      manager.on('configChanged', (change) => changes.push(change));
      await editor(at, 'ws');
      await eventually(() => manager.status('ide')?.state === 'connected', 15_000);
      expect(changes).toEqual([{ added: ['ide'], removed: [], changed: [] }]);
    });
  });

  test('BRG-08 connect by name and reload look again', async () => {
    const at = place();
    await withDiscovery(at, async (manager) => {
      expect(await caught(manager.connect('ide'))).toMatchObject({ code: 'SERVER_UNKNOWN' });
      await manager.connect();
      const first = await editor(at, 'ws');
      expect(await manager.connect('ide')).toMatchObject({ state: 'connected' });
      await first.stop();
      await eventually(() => manager.status('ide')?.state === 'failed');
      expect(await manager.reload()).toMatchObject({ removed: ['ide'] });
      expect(manager.status()).toEqual([]);
      await editor(at, 'ws');
      expect(await manager.reload()).toMatchObject({ added: ['ide'] });
      await eventually(() => manager.status('ide')?.state === 'connected');
    });
  });

  test('BRG-08 of two editors one is used, and stays although the other becomes the younger one', async () => {
    const at = place();
    const one = await editor(at, 'ws', { name: 'one' });
    const two = await editor(at, 'sse', { name: 'two' });
    utimesSync(join(at.home, '.claude', 'ide', `${one.port}.lock`), 1, 1);
    await withDiscovery(at, async (manager, told) => {
      await manager.connect();
      expect(manager.status().map(({ name, type }) => [name, type])).toEqual([['ide', 'sse-ide']]);
      const note = await eventually(() => told.find(({ code }) => code === 'IDE_FOUND'));
      expect(note.message).toContain('another one has it open too');
      utimesSync(join(at.home, '.claude', 'ide', `${two.port}.lock`), 0, 0);
      expect(await manager.reload()).toEqual({ added: [], removed: [], changed: [] });
      expect([one.clients(), two.clients()]).toEqual([0, 1]);
      await two.stop();
      await eventually(() => one.clients() === 1 && manager.status('ide')?.state === 'connected', 15_000);
    });
  });

  test('BRG-08 NAM-07 beside a server named ide it is ide_2; policy holds for it; removed, it stays away', async () => {
    const at = place();
    const one = await editor(at, 'ws');
    const given = await editor(at, 'sse', { folders: ['/elsewhere'] });
    const [definition] = await discoverIde({
      homeDir: at.home,
      cwd: at.project,
      env: { CLAUDE_CODE_SSE_PORT: `${given.port}` },
    });
    const check = async (manager: McpManager) => {
      await manager.connect();
      expect(manager.status().map(({ name, state }) => [name, state])).toEqual([
        ['ide', 'connected'],
        ['ide_2', 'connected'],
      ]);
      await manager.removeServer('ide_2');
      await manager.reload();
      expect(manager.status().map(({ name }) => name)).toEqual(['ide']);
    };
    await withDiscovery(at, check, { servers: { ide: definition } });
    const denied = async (manager: McpManager) => {
      const before = one.clients();
      expect(await caught(manager.connect('ide'))).toMatchObject({ code: 'POLICY_DENIED' });
      expect(one.clients()).toBe(before);
    };
    await withDiscovery(at, denied, { policy: { deniedMcpServers: [{ serverUrl: 'ws://127.0.0.1:*' }] } });
  });

  test('BRG-08 IDE-01 an editor on the Windows side, seen from a distribution beside it', async () => {
    const at = place();
    const share = (path: string) => `\\\\wsl$\\Ubuntu${path.replaceAll('/', '\\')}`;
    const lock = { runningInWindows: true, pid: deadProcess() };
    const { calls } = await editor(at, 'ws', { folders: ['C:\\else', share(at.project)], lock });
    process.env.WSL_DISTRO_NAME = 'Ubuntu';
    try {
      expect(await look(at, { WSL_DISTRO_NAME: 'Debian' })).toEqual([]);
      expect(await look(at, { WSL_DISTRO_NAME: 'Ubuntu' })).toMatchObject([{ ideRunningInWindows: true }]);
      await withDiscovery(at, async (manager) => {
        await manager.connect();
        for (const [uri, there] of [
          ['file:///mnt/c/a/b.ts', 'file:///c:/a/b.ts'],
          [`file://${at.project}/a.ts`, `file://wsl.localhost/Ubuntu${at.project}/a.ts`],
        ]) {
          const found = textOf(await manager.callTool('mcp__ide__getDiagnostics', { uri }));
          expect(calls.pop()).toEqual({ name: 'getDiagnostics', arguments: { uri: there } });
          expect(JSON.parse(found)).toMatchObject([{ uri }]);
        }
        const uri = 'file:///mnt/c/a/b.ts';
        const there = { name: 'getDiagnostics', arguments: { uri: 'file:///c:/a/b.ts' } };
        const inBackground = await manager.startTool('mcp__ide__getDiagnostics', { uri });
        expect(JSON.parse(textOf(await inBackground.result()))).toMatchObject([{ uri }]);
        expect(calls.pop()).toEqual(there);
        const params = { name: 'getDiagnostics', arguments: { uri } };
        const raw = (await manager.request('ide', 'tools/call', params)) as { content: [{ text: string }] };
        expect(JSON.parse(raw.content[0].text)).toMatchObject([{ uri }]);
        expect(calls.pop()).toEqual(there);
        await manager.callTool('mcp__ide__executeCode', { code: "open('/mnt/c/a')" });
        expect(calls.pop()?.arguments).toEqual({ code: "open('/mnt/c/a')" });
      });
    } finally {
      delete process.env.WSL_DISTRO_NAME;
    }
  });

  test('BRG-08 an editor that a variable puts on another machine is refused', async () => {
    const at = place();
    process.env.CLAUDE_CODE_IDE_MCP_URL = 'ws://192.0.2.1:9/';
    try {
      await withDiscovery(at, async (manager) => {
        expect(await caught(manager.connect('ide'))).toMatchObject({ code: 'URL_REFUSED' });
      });
    } finally {
      delete process.env.CLAUDE_CODE_IDE_MCP_URL;
    }
  });

  test('BRG-08 with config: false the home directory of the user is looked into', async () => {
    const at = place();
    await editor(at, 'ws');
    const home = process.env.HOME;
    process.env.HOME = at.home;
    try {
      await withDiscovery(
        at,
        async (manager) => {
          await manager.connect();
          expect(manager.status('ide')?.state).toBe('connected');
        },
        { config: false },
      );
    } finally {
      process.env.HOME = home;
    }
  });

  test('BRG-08 a broken lock file is told of once, with its place', async () => {
    const at = place();
    const path = at.lock(1001, '{"authToken":"secret-of-nobody",');
    await withDiscovery(at, async (manager, told) => {
      await manager.load();
      await manager.reload();
      await eventually(() => codes(told).includes('IDE_LOCK_INVALID'));
      expect(told.filter(({ code }) => code === 'IDE_LOCK_INVALID')).toMatchObject([{ file: path }]);
      expect(JSON.stringify(told)).not.toContain('secret-of-nobody');
    });
  });
});
