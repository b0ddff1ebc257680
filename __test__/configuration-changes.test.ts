/** Changes of the configuration while a manager runs: aborted ones, approvals, what is written to files. */
import { describe, expect, test } from 'vitest';
import type { ApprovalRequest } from '..';
import { caught, eventually, faulty, gone, jsonOf, withManager } from './harness';
import { fates, servers, world } from './project';

describe('an aborted change', () => {
  test('CFG-12 LIF-06 is done whole: nothing outlives the manager', async () => {
    const stubborn = (name: string) => faulty('--ignore-eof', '--ignore-term', '--', name);
    const { options, write } = world({
      'home/.claude.json': servers({ a: stubborn('1'), b: stubborn('1') }),
    });
    const pids: number[] = [];
    await withManager(options, async (manager) => {
      const before = await manager.connect();
      pids.push(...before.map(({ pid }) => pid ?? 0));
      write('home/.claude.json', servers({ a: faulty('--', '2'), b: faulty('--', '2'), c: faulty() }));
      const changes: object[] = [];
      manager.on('configChanged', (change) => changes.push(change));
      await expect(manager.reload({ signal: AbortSignal.timeout(100) })).rejects.toMatchObject({
        name: 'TimeoutError',
      });
      await eventually(() => changes.length > 0, 20_000);
      expect(changes).toEqual([{ added: ['c'], removed: [], changed: ['a', 'b'] }]);
    });
    for (const pid of pids) await gone(pid, 1000);
  }, 40_000);
});

describe('questions for approval', () => {
  test('POL-01 an answer counts at once, whoever else is still being thought about', async () => {
    const { options, write } = world();
    write('project/.mcp.json', servers({ a: faulty(), b: faulty() }));
    let think = () => {};
    const later = new Promise<'pending'>((resolve) => (think = () => resolve('pending')));
    const onApproval = ({ server }: ApprovalRequest) => (server === 'a' ? ('approved' as const) : later);
    await withManager({ ...options, onApproval }, async (manager) => {
      const connecting = manager.connect();
      await eventually(() => manager.status('a')?.state === 'connected');
      const error = await caught(manager.connect('typo'));
      expect(error.code).toBe('SERVER_UNKNOWN');
      expect(fates(manager.configReport().servers)).toEqual({ a: 'active', b: 'pending-approval' });
      think();
      await connecting;
    });
  });

  test('POL-01 a question that was given up is asked again', async () => {
    const { options, write } = world();
    write('project/.mcp.json', servers({ a: faulty() }));
    let asked = 0;
    const onApproval = () => {
      asked += 1;
      return asked === 1 ? new Promise<never>(() => {}) : ('approved' as const);
    };
    await withManager({ ...options, onApproval }, async (manager) => {
      await expect(manager.load({ signal: AbortSignal.timeout(100) })).rejects.toMatchObject({
        name: 'TimeoutError',
      });
      await manager.connect();
      expect(asked).toBe(2);
      expect(manager.status('a')?.state).toBe('connected');
    });
  });
});

test('POL-08 a view forgets what was allowed to a server that was replaced', async () => {
  const { options, write } = world({ 'home/.claude.json': servers({ s: faulty('--', 'one') }) });
  await withManager({ ...options, permissions: {} }, async (manager) => {
    await manager.connect();
    let asked = 0;
    const view = manager.view({
      onPermission: () => {
        asked += 1;
        return { behavior: 'allow', remember: 'session' };
      },
    });
    for (let n = 0; n < 2; n++) expect(jsonOf(await view.callTool('mcp__s__argv'))).toEqual(['one']);
    expect(asked).toBe(1);
    write('home/.claude.json', servers({ s: faulty('--', 'two') }));
    await manager.reload();
    await eventually(() => manager.status('s')?.state === 'connected');
    expect(jsonOf(await view.callTool('mcp__s__argv'))).toEqual(['two']);
    expect(asked).toBe(2);
  });
});

describe('what is kept in files', () => {
  test('CFG-11 a server leaves every file of its scope, in either shape, or the call rejects', async () => {
    const { at, options, write, json } = world();
    write('project/.mcp.json', { servers: { a: faulty() } });
    write('project/inner/.mcp.json', servers({ b: faulty(), both: faulty() }));
    await withManager(
      { ...options, cwd: at('project/inner'), onApproval: () => 'approved' },
      async (manager) => {
        await manager.load();
        await expect(manager.removeServer('a', { persist: 'user' })).rejects.toMatchObject({
          code: 'CONFIG_WRITE_FAILED',
          message: expect.stringContaining(at('project/.mcp.json')),
        });
        for (const name of ['a', 'b']) await manager.removeServer(name, { persist: 'project' });
        expect(fates(manager.configReport().servers)).toEqual({ both: 'active' });
      },
    );
    expect(json('project/.mcp.json')).toEqual({ servers: {} });
    expect(Object.keys(json('project/inner/.mcp.json').mcpServers)).toEqual(['both']);
  });

  test('CFG-13 switching on for good rejects where a file still switches off', async () => {
    const { at, options } = world({
      'home/.claude/settings.json': { disabledMcpServers: ['listed'] },
      'home/.claude.json': servers({ listed: faulty(), defined: { ...faulty(), disabled: true } }),
    });
    await withManager(options, async (manager) => {
      for (const [name, file] of [
        ['listed', 'home/.claude/settings.json'],
        ['defined', 'home/.claude.json'],
      ]) {
        await expect(manager.setServerEnabled(name, true, { persist: true })).rejects.toMatchObject({
          code: 'CONFIG_WRITE_FAILED',
          server: name,
          message: expect.stringContaining(at(file)),
        });
        expect(manager.status(name)?.state).toBe('connected');
        await manager.setServerEnabled(name, false, { persist: true });
      }
    });
  });

  test('CFG-11 override with persist stands above a stronger file for this run', async () => {
    const { options, write, json } = world();
    write('project/.mcp.json', servers({ s: faulty('--', 'project') }));
    await withManager({ ...options, onApproval: () => 'approved' }, async (manager) => {
      await manager.load();
      await manager.addServer('s', faulty('--', 'mine'), { override: true, persist: 'user' });
      expect(jsonOf(await manager.callTool('mcp__s__argv'))).toEqual(['mine']);
      await manager.addServer('t', faulty(), { override: true, persist: 'user' });
      expect(manager.status('t')?.scope).toBe('user');
    });
    expect(Object.keys(json('home/.claude.json').mcpServers)).toEqual(['s', 't']);
  });
});

describe('names', () => {
  test('POL-10 the editor of the options takes no name that a file has', async () => {
    const ide = (ideName: string) => ({ type: 'ws-ide' as const, url: 'ws://127.0.0.1:1/', ideName });
    const { options } = world({ 'home/.claude.json': servers({ ide: ide('File') }) });
    await withManager({ ...options, ide: ide('Option') }, async (manager) => {
      const { servers: entries } = await manager.load();
      expect(entries.map(({ name, scope, fate }) => [name, scope, fate])).toEqual([
        ['ide', 'user', 'active'],
        ['ide_2', 'dynamic', 'active'],
      ]);
    });
  });

  test('NAM-05 a cut name of an earlier run leads to its server before anything was listed', async () => {
    const name = 's'.repeat(60);
    const options = { servers: { [name]: faulty() } };
    const full = await withManager(options, async (manager) => {
      await manager.connect();
      return (await manager.listTools()).find(({ mcpInfo }) => mcpInfo.toolName === 'cwd')?.name ?? '';
    });
    expect(full.length).toBeLessThanOrEqual(64);
    await withManager(options, async (manager) => {
      expect((await manager.callTool(full)).isError).toBe(false);
    });
  });
});
