import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync, symlinkSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  McpManager,
  importConfig,
  isServerAllowed,
  serverSignature,
  type ApprovalRequest,
  type McpManagerOptions,
} from '..';
import { DEFAULTS, eventually, faulty, jsonOf, root, withManager } from './harness';
import { canary, fates, servers, world } from './project';

describe('approval', () => {
  test('POL-01 I1 B-001 R1 a server of the repository waits, and nothing of it runs', async () => {
    const { at, options, write } = world();
    write(
      'project/.mcp.json',
      servers({ evil: canary(at('canary')), web: { type: 'http', url: 'http://127.0.0.1:9/${NOPE}' } }),
    );
    await withManager({ ...options, servers: { s: faulty() } }, async (manager) => {
      await manager.connect();
      expect(fates(manager.configReport().servers)).toEqual({
        evil: 'pending-approval',
        s: 'active',
        web: 'pending-approval',
      });
      expect(manager.configReport().warnings).toEqual([]);
      await expect(manager.connect('evil')).rejects.toMatchObject({
        code: 'SERVER_NOT_APPROVED',
        server: 'evil',
      });
      await expect(manager.callTool('mcp__evil__x')).rejects.toMatchObject({ code: 'SERVER_NOT_APPROVED' });
      expect(manager.status('evil')).toBeUndefined();
      expect(existsSync(at('canary'))).toBe(false);
    });
  });

  test('POL-02 B-003 approved, then changed: waits again and shows both', async () => {
    const { at, options, write } = world();
    write('project/.mcp.json', servers({ s: faulty('--', 'one') }));
    await withManager(options, async (manager) => {
      await manager.connect();
      await manager.approveServer('s');
      await eventually(() => manager.status('s')?.state === 'connected');
      write('project/.mcp.json', servers({ s: { ...faulty('--', 'one'), alwaysLoad: true } }));
      expect((await manager.reload()).removed).toEqual([]);
      write('project/.mcp.json', servers({ s: canary(at('canary')) }));
      expect((await manager.reload()).removed).toEqual(['s']);
      const [entry] = manager.configReport().servers;
      expect(entry).toMatchObject({
        fate: 'pending-approval',
        reason: 'CHANGED_SINCE_APPROVAL',
        config: { command: 'sh' },
      });
      expect(entry.approved?.command).toBe(process.execPath);
      expect(existsSync(at('canary'))).toBe(false);
    });
    // Another manager knows it too: the approval stands in the state directory.
    write('project/.mcp.json', servers({ s: faulty('--', 'one') }));
    await withManager(options, async (manager) => {
      expect(fates((await manager.load()).servers)).toEqual({ s: 'active' });
      await manager.rejectServer('s');
      await expect(manager.connect('s')).rejects.toMatchObject({ code: 'SERVER_REJECTED' });
    });
    expect(statSync(at('home/state')).mode & 0o777).toBe(0o700);
  });

  test('POL-01 onApproval is asked once, sees the definition as written, and its answer is kept', async () => {
    const { at, options, write } = world();
    const definition = {
      command: 'npx',
      args: ['-y', 'pkg'],
      env: { K: '${SECRET}', NODE_OPTIONS: '--require ./x.js' },
    };
    write('project/.mcp.json', servers({ a: faulty(), b: definition, c: faulty() }));
    const asked: ApprovalRequest[] = [];
    const onApproval = (request: ApprovalRequest) => {
      asked.push(request);
      return request.server === 'a'
        ? ('approved' as const)
        : request.server === 'b'
          ? ('rejected' as const)
          : ('pending' as const);
    };
    await withManager({ ...options, onApproval }, async (manager) => {
      const statuses = await manager.connect();
      expect(statuses.map(({ name, state }) => [name, state])).toEqual([['a', 'connected']]);
      await manager.load();
      await manager.reload();
      expect(fates(manager.configReport().servers)).toEqual({
        a: 'active',
        b: 'rejected',
        c: 'pending-approval',
      });
    });
    expect(asked.map(({ server }) => server).sort()).toEqual(['a', 'b', 'c']);
    const request = asked.find(({ server }) => server === 'b');
    expect(request).toMatchObject({
      file: at('project/.mcp.json'),
      outsideProject: false,
      config: definition,
    });
    expect(request?.warnings.map(({ code }) => code)).toEqual(['unpinned', 'loaderVariable', 'variable']);
    await withManager(
      { ...options, onApproval: () => expect.fail('the answer was kept') as never },
      async (manager) => {
        write('project/.mcp.json', servers({ a: faulty(), b: definition }));
        expect(fates((await manager.load()).servers)).toEqual({ a: 'active', b: 'rejected' });
      },
    );
  });

  test('POL-01 an onApproval that throws leaves the server waiting, and nobody else', async () => {
    const { options, write } = world();
    write('project/.mcp.json', servers({ a: faulty() }));
    const onApproval = () => {
      throw new Error('no');
    };
    await withManager({ ...options, onApproval, servers: { s: faulty() } }, async (manager) => {
      expect((await manager.connect()).map(({ name, state }) => [name, state])).toEqual([['s', 'connected']]);
    });
  });

  test('POL-02 a name in enabledMcpjsonServers approves what is first seen under it', async () => {
    const { options, write } = world({ 'home/.claude/settings.json': { enabledMcpjsonServers: ['a'] } });
    write('project/.mcp.json', servers({ a: { command: 'before' } }));
    await withManager(options, async (manager) => {
      expect(fates((await manager.load()).servers)).toEqual({ a: 'active' });
      write('project/.mcp.json', servers({ a: { command: 'after' } }));
      await manager.reload();
      expect(manager.configReport().servers).toMatchObject([
        { fate: 'pending-approval', reason: 'CHANGED_SINCE_APPROVAL', approved: { command: 'before' } },
      ]);
    });
  });

  test('CFG-01 a cloned repository with settings of all kinds gains nothing', async () => {
    const { at, options, write } = world({ 'home/.claude.json': servers({ mine: faulty() }) });
    const claims = {
      enableAllProjectMcpServers: true,
      enabledMcpjsonServers: ['evil'],
      permissions: { allow: ['mcp__*'] },
      disabledMcpServers: ['mine'],
      deniedMcpServers: ['mine'],
    };
    write('project/.mcp.json', servers({ evil: canary(at('canary')) }));
    write('project/.claude/settings.json', claims);
    write('project/.claude/settings.local.json', { ...claims, mcpServers: { evil2: canary(at('canary')) } });
    const git = (...args: string[]) => execFileSync('git', args, { cwd: at('project'), stdio: 'ignore' });
    git('init', '-q');
    git('add', '-A', '-f');
    await withManager({ ...options, permissions: {} }, async (manager) => {
      await manager.connect();
      expect(fates(manager.configReport().servers)).toEqual({
        evil: 'pending-approval',
        evil2: 'pending-approval',
        mine: 'active',
      });
      await expect(manager.callTool('mcp__mine__echo', { text: 'x' })).rejects.toMatchObject({
        code: 'PERMISSION_REQUIRED',
      });
      expect(existsSync(at('canary'))).toBe(false);
    });
    git('rm', '-q', '--cached', '.claude/settings.local.json');
    await withManager(options, async (manager) => {
      expect(fates((await manager.load()).servers), 'the same file, not tracked by git').toEqual({
        evil: 'active',
        evil2: 'active',
        mine: 'denied',
      });
    });
  });

  test('B-008 a link is shown as what it is and never written through', async () => {
    const { at, options, write } = world();
    write('outside.json', servers({ a: faulty() }));
    symlinkSync(at('outside.json'), at('project/.mcp.json'));
    const before = readFileSync(at('outside.json'), 'utf8');
    const asked: ApprovalRequest[] = [];
    const onApproval = (request: ApprovalRequest) => {
      asked.push(request);
      return 'pending' as const;
    };
    await withManager({ ...options, onApproval }, async (manager) => {
      await manager.load();
      expect(asked).toMatchObject([{ file: at('outside.json'), outsideProject: true }]);
      await manager.addServer('b', faulty(), { persist: 'project', connect: false });
    });
    expect(readFileSync(at('outside.json'), 'utf8')).toBe(before);
  });
});

describe('policy', () => {
  test('POL-03 B-025 denied through every door, with the same code', async () => {
    const { options } = world({
      'managed/managed-settings.json': { deniedMcpServers: [{ serverName: 'x' }] },
      'home/.claude.json': servers({ x: faulty() }),
    });
    await withManager({ ...options, servers: { X: faulty() } }, async (manager) => {
      await manager.connect();
      expect(manager.status()).toEqual([]);
      for (const call of [
        () => manager.connect('x'),
        () => manager.callTool('mcp__x__echo'),
        () => manager.reconnect('X'),
        () => manager.addServer('x', faulty()),
        () => manager.addServer('x', faulty(), { scope: 'plugin' }),
        () => manager.addServer('x', faulty(), { override: true }),
        () => manager.addServer('x', faulty(), { persist: 'user' }),
        () => manager.setServerEnabled('x', true),
      ]) {
        await expect(call(), String(call)).rejects.toMatchObject({
          code: 'POLICY_DENIED',
          rule: '{"serverName":"x"}',
        });
      }
    });
  });

  test('POL-04 a link to a denied command is seen through', async () => {
    const { at, options } = world();
    symlinkSync(process.execPath, at('harmless'));
    const command = { ...faulty(), command: at('harmless') };
    const policy = { deniedMcpServers: [{ serverCommand: [process.execPath, ...(faulty().args ?? [])] }] };
    await withManager({ ...options, policy, servers: { s: command } }, async (manager) => {
      expect(fates((await manager.load()).servers)).toEqual({ s: 'denied' });
    });
  });

  test('POL-03 the seed example of allow and deny lists, as a pure function', () => {
    const policy = {
      allowedMcpServers: [
        { serverName: 'github*' },
        { serverCommand: ['npx', '-y', '@modelcontextprotocol/server-filesystem'] },
        { serverUrl: 'https://*.example.com/*' },
      ],
      deniedMcpServers: [{ serverUrl: 'https://bad.example.com/*' }, 'legacy'],
    };
    const filesystem = { command: 'npx', args: ['-y', '@modelcontextprotocol/server-filesystem'] };
    expect(isServerAllowed('files', filesystem, policy)).toMatchObject({
      allowed: true,
      by: policy.allowedMcpServers[1],
    });
    expect(isServerAllowed('github', { command: 'gh' }, policy).allowed, 'a name no longer suffices').toBe(
      false,
    );
    expect(isServerAllowed('legacy', filesystem, policy)).toMatchObject({ allowed: false, by: 'legacy' });
    expect(isServerAllowed('s', filesystem, { allowedMcpServers: [] }).allowed).toBe(false);
    expect(isServerAllowed('s', filesystem, {})).toMatchObject({ allowed: true });
    expect(isServerAllowed('s', filesystem, {}).by).toBeUndefined();
    expect(() => isServerAllowed('s', 5 as never, {})).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
    );
    expect(serverSignature(filesystem)).toBe('stdio:["npx","-y","@modelcontextprotocol/server-filesystem"]');
    expect(serverSignature({ type: 'http', url: 'https://a.test/x' } as never)).toBe('url:https://a.test/x');
    expect(serverSignature({ type: 'sdk', name: 'x' } as never)).toBeNull();
  });

  test('CFG-08 only the servers of the organisation', async () => {
    const { options } = world({
      'managed/managed-mcp.json': servers({ corp: faulty() }),
      'home/.claude.json': servers({ mine: faulty() }),
    });
    await withManager(options, async (manager) => {
      expect(fates((await manager.load()).servers)).toEqual({ corp: 'active', mine: 'enterprise-exclusive' });
      await expect(manager.addServer('x', faulty())).rejects.toMatchObject({ code: 'ENTERPRISE_EXCLUSIVE' });
      await expect(manager.removeServer('corp')).rejects.toMatchObject({ code: 'ENTERPRISE_EXCLUSIVE' });
    });
  });

  test('CFG-08 a broken file of the organisation lets nobody else in', async () => {
    const { options } = world({
      'managed/managed-mcp.json': '{ "mcpServers": ',
      'home/.claude.json': servers({ mine: faulty() }),
    });
    await withManager(options, async (manager) => {
      expect(fates((await manager.load()).servers)).toEqual({ mine: 'enterprise-exclusive' });
    });
  });
});

describe('changes at run time', () => {
  test('CFG-12 H16 reload restarts what changed and leaves the rest alone', async () => {
    const { options, write } = world();
    write('home/.claude.json', servers({ a: faulty(), b: faulty('--', 'one'), c: faulty() }));
    await withManager(options, async (manager) => {
      await manager.connect();
      const before = manager.status('a')?.pid;
      const changes: unknown[] = [];
      manager.on('configChanged', (change) => changes.push(change));
      write(
        'home/.claude.json',
        `// new\n${JSON.stringify(servers({ a: faulty(), b: faulty('--', 'two'), d: faulty() }))}`,
      );
      const difference = { added: ['d'], removed: ['c'], changed: ['b'] };
      expect(await manager.reload()).toEqual(difference);
      await eventually(() => manager.status().every(({ state }) => state === 'connected'));
      expect(manager.status('a')?.pid).toBe(before);
      expect(jsonOf(await manager.callTool('mcp__b__argv'))).toEqual(['two']);
      expect(manager.status('c')).toBeUndefined();
      await eventually(() => changes.length === 1);
      expect(changes).toEqual([difference]);
      write('home/.claude.json', '{ "mcpServers": { broken');
      expect(await manager.reload()).toEqual({ added: [], removed: [], changed: [] });
      expect(manager.configReport().errors).toMatchObject([{ code: 'CONFIG_INVALID' }]);
      expect(manager.status('a')?.pid).toBe(before);
    });
  });

  test('CFG-12 POL-03 files that cannot be read any more keep their last good state', async () => {
    const { options, write } = world({
      'home/.claude.json': servers({ a: faulty() }),
      'managed/managed-settings.json': { deniedMcpServers: ['bad'] },
    });
    const tooLarge = (value: object) => JSON.stringify(value) + ' '.repeat(5 << 20);
    await withManager({ ...options, servers: { bad: faulty() } }, async (manager) => {
      await manager.connect();
      write('home/.claude.json', tooLarge({}));
      write('managed/managed-settings.json', tooLarge({}));
      expect(await manager.reload()).toEqual({ added: [], removed: [], changed: [] });
      expect(manager.status('a')?.state).toBe('connected');
      expect(fates(manager.configReport().servers)).toEqual({ a: 'active', bad: 'denied' });
      expect(manager.configReport().errors).toHaveLength(2);
    });
    await withManager({ ...options, servers: { bad: faulty() } }, async (manager) => {
      expect(fates((await manager.load()).servers), 'without a last good state').toEqual({
        bad: 'not-allowed',
      });
    });
  });

  test('CFG-12 watchConfig notices a change by itself', async () => {
    const { options, write } = world();
    await withManager({ ...options, watchConfig: true }, async (manager) => {
      await manager.connect();
      write('home/.claude.json', servers({ a: faulty() }));
      await eventually(() => manager.status('a')?.state === 'connected', 5000);
    });
  });

  test('CFG-11 persist keeps comments, order and unknown keys', async () => {
    const { at, options, write, json } = world();
    write(
      'home/.claude.json',
      '{\n  // mine\n  "other": [1, 2], // kept\n  "mcpServers": {\n    "z": { "command": "x", "disabled": true },\n  },\n}\n',
    );
    await withManager(options, async (manager) => {
      expect(await manager.addServer('u', faulty(), { persist: 'user' })).toMatchObject({
        scope: 'user',
        state: 'connected',
      });
      expect(await manager.addServer('l', faulty(), { persist: 'local' })).toMatchObject({
        scope: 'local',
        state: 'connected',
      });
      expect(await manager.addServer('p', faulty(), { persist: 'project' })).toMatchObject({
        scope: 'project',
        state: 'connected',
      });
      await expect(manager.addServer('u', faulty(), { persist: 'user' })).rejects.toMatchObject({
        code: 'SERVER_EXISTS',
      });
      await expect(
        manager.addServer('bad', { command: 7 } as never, { persist: 'user' }),
      ).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
    });
    const text = readFileSync(at('home/.claude.json'), 'utf8');
    for (const part of [
      '// mine',
      '"other": [1, 2], // kept',
      '"z": { "command": "x", "disabled": true },',
    ]) {
      expect(text).toContain(part);
    }
    expect(text).not.toContain('bad');
    expect(Object.keys(json('project/.claude/settings.local.json').mcpServers)).toEqual(['l']);
    await withManager(options, async (manager) => {
      expect(fates((await manager.load()).servers)).toEqual({
        l: 'active',
        p: 'active',
        u: 'active',
        z: 'disabled',
      });
      await manager.removeServer('u', { persist: 'user' });
      await manager.removeServer('l', { persist: 'local' });
      await manager.removeServer('p', { persist: 'project' });
      expect(manager.status().map(({ name }) => name)).toEqual(['z']);
      await expect(manager.removeServer('z')).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
    });
    expect(readdirSync(at('home')).filter((name) => /tmp|lock/.test(name))).toEqual([]);
  });

  test('CFG-13 setServerEnabled persists', async () => {
    const { options, write } = world();
    write('home/.claude.json', servers({ s: faulty() }));
    await withManager(options, async (manager) => {
      await manager.setServerEnabled('s', false, { persist: true });
    });
    await withManager(options, async (manager) => {
      expect(fates((await manager.load()).servers)).toEqual({ s: 'disabled' });
      expect((await manager.setServerEnabled('s', true, { persist: true })).state).toBe('connected');
    });
    await withManager(options, async (manager) => {
      expect(fates((await manager.load()).servers)).toEqual({ s: 'active' });
    });
  });

  test('CFG-13 a local file that came with the repository is never made trusted by a change of ours', async () => {
    const { at, options, write, json } = world({ 'home/.claude.json': servers({ s: faulty() }) });
    const tracked = { permissions: { allow: ['mcp__*'] } };
    write('project/.claude/settings.local.json', tracked);
    await withManager({ ...options, permissions: {} }, async (manager) => {
      await manager.setServerEnabled('s', false, { persist: true });
      await manager.setServerEnabled('s', true);
      await manager.reload();
      await expect(manager.callTool('mcp__s__echo', { text: 'x' })).rejects.toMatchObject({
        code: 'PERMISSION_REQUIRED',
      });
    });
    expect(json('project/.claude/settings.local.json')).toEqual(tracked);
    expect(json('home/.claude.json').projects[at('project')].disabledMcpServers).toEqual(['s']);
  });

  test('CFG-11 override stands above every file', async () => {
    const { options } = world({ 'home/.claude.json': servers({ s: faulty('--', 'file') }) });
    await withManager(options, async (manager) => {
      await expect(manager.addServer('s', faulty())).rejects.toMatchObject({ code: 'SERVER_EXISTS' });
      await manager.addServer('s', faulty('--', 'run-time'), { override: true });
      expect(jsonOf(await manager.callTool('mcp__s__argv'))).toEqual(['run-time']);
      await manager.removeServer('s');
      expect(jsonOf(await manager.callTool('mcp__s__argv'))).toEqual(['file']);
    });
  });

  test('H17 two processes edit one file 200 times each and lose nothing', async () => {
    const { at, write } = world({ 'home/.claude.json': servers({}) });
    const script = `
      const { McpManager } = require(${JSON.stringify(root)});
      (async () => {
        const manager = new McpManager({ cwd: ${JSON.stringify(at('project'))}, stateDir: false,
          config: { homeDir: ${JSON.stringify(at('home'))}, managedDir: ${JSON.stringify(at('managed'))}, projectRoot: ${JSON.stringify(at('project'))} } });
        for (let n = 0; n < 200; n++)
          await manager.addServer(process.argv[2] + n, { command: 'x', disabled: true }, { persist: 'user', connect: false });
        await manager.close();
      })();`;
    write('edit.cjs', script);
    const run = (name: string) =>
      new Promise((resolve) =>
        spawn(process.execPath, [at('edit.cjs'), name], { stdio: 'inherit' }).on('exit', resolve),
      );
    expect(await Promise.all([run('a'), run('b')])).toEqual([0, 0]);
    const { mcpServers } = JSON.parse(readFileSync(at('home/.claude.json'), 'utf8'));
    expect(Object.keys(mcpServers)).toHaveLength(400);
  }, 120_000);
});

describe('hooks and permission', () => {
  test('POL-12 preToolUse changes or refuses, postToolUse replaces', async () => {
    const seen: unknown[] = [];
    const options: McpManagerOptions = {
      servers: { s: faulty() },
      hooks: {
        preToolUse: ({ server, tool, fullName, input }) => {
          seen.push([server, tool, fullName, input]);
          if (input.text === 'refuse') return { deny: 'not this' };
          if (input.text === 'throw') throw new Error('broken');
          if (input.text === 'odd') return 'odd' as never;
          return input.text === 'change' ? { input: { text: 'changed' } } : undefined;
        },
        postToolUse: ({ input, result }) => {
          if (input.text === 'changed')
            return { result: { content: [{ type: 'text', text: `after ${result.content.length}` }] } };
          if (input.text === 'post throws') throw new Error('broken');
          return undefined;
        },
      },
    };
    await withManager(options, async (manager) => {
      const found: string[] = [];
      manager.on('diagnostic', ({ code }) => found.push(code));
      expect(jsonOf(await manager.callTool('mcp__s__echo', { text: 'plain' }))).toEqual({ text: 'plain' });
      expect(seen).toEqual([['s', 'echo', 'mcp__s__echo', { text: 'plain' }]]);
      expect((await manager.callTool('mcp__s__echo', { text: 'change' })).content).toEqual([
        { type: 'text', text: 'after 1' },
      ]);
      expect(jsonOf(await manager.callTool('mcp__s__echo', { text: 'post throws' }))).toEqual({
        text: 'post throws',
      });
      expect(found).toContain('HOOK_FAILED');
      const raw = (text: string) => manager.request('s', 'tools/call', { name: 'echo', arguments: { text } });
      expect(await raw('change'), 'the hook behind a raw call').toMatchObject({
        content: [{ type: 'text', text: 'after 1' }],
      });
      expect(await raw('plain')).toMatchObject({ content: [{ type: 'text', text: '{"text":"plain"}' }] });
      for (const text of ['refuse', 'throw', 'odd']) {
        const refused = { code: 'PERMISSION_DENIED', layer: 'hook' };
        await expect(manager.callTool('mcp__s__echo', { text }), text).rejects.toMatchObject(refused);
        await expect(raw(text), `${text}, raw`).rejects.toMatchObject(refused);
      }
    });
  });

  test('POL-08 remember writes an allow rule that later managers honour', async () => {
    const { options, json } = world({ 'home/.claude.json': servers({ s: faulty() }) });
    for (const [remember, tool, file] of [
      ['user', 'echo', 'home/.claude/settings.json'],
      ['local', 'argv', 'project/.claude/settings.local.json'],
    ] as const) {
      const onPermission = () => ({ behavior: 'allow' as const, remember });
      await withManager({ ...options, permissions: {}, onPermission }, async (manager) => {
        await manager.callTool(`mcp__s__${tool}`, { text: 'x' });
      });
      expect(json(file).permissions.allow).toEqual([`mcp__s__${tool}`]);
    }
    await withManager({ ...options, permissions: {} }, async (manager) => {
      await manager.callTool('mcp__s__echo', { text: 'x' });
      await manager.callTool('mcp__s__argv');
      await expect(manager.callTool('mcp__s__environment')).rejects.toMatchObject({
        code: 'PERMISSION_REQUIRED',
      });
    });
  });

  test('POL-07 rules of files count; those of the repository only for its own servers, and never to allow', async () => {
    const { options, write } = world({
      'home/.claude.json': servers({ mine: faulty() }),
      'home/.claude/settings.json': {
        enableAllProjectMcpServers: true,
        permissions: { allow: ['mcp__mine', 'mcp__theirs'], deny: ['mcp__mine__argv'] },
      },
    });
    write('project/.mcp.json', servers({ theirs: faulty() }));
    write('project/.claude/settings.json', {
      permissions: { allow: ['mcp__mine__environment'], deny: ['mcp__mine__echo', 'mcp__theirs__echo'] },
    });
    await withManager({ ...options, permissions: {} }, async (manager) => {
      await manager.connect();
      await manager.callTool('mcp__mine__echo', { text: 'x' });
      const denied = (rule: string) => ({ code: 'PERMISSION_DENIED', layer: 'rule', rule });
      await expect(manager.callTool('mcp__theirs__echo', { text: 'x' })).rejects.toMatchObject(
        denied('mcp__theirs__echo'),
      );
      await expect(manager.callTool('mcp__mine__argv')).rejects.toMatchObject(denied('mcp__mine__argv'));
      const names = (await manager.listTools()).map(({ name }) => name);
      expect(names).toContain('mcp__mine__echo');
      expect(names).not.toContain('mcp__theirs__echo');
      expect(names).not.toContain('mcp__mine__argv');
    });
  });

  test('SEC-07 the audit log, as a file and as a function', async () => {
    const { at, options } = world();
    const events: { kind: string; server: string }[] = [];
    for (const auditLog of [
      at('audit.jsonl'),
      (event: { kind: string; server: string }) => void events.push(event),
    ]) {
      await withManager({ ...options, auditLog, servers: { s: faulty() } }, async (manager) => {
        await manager.callTool('mcp__s__echo', { text: 'sk-very-secret' });
      });
    }
    const lines = readFileSync(at('audit.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(statSync(at('audit.jsonl')).mode & 0o777).toBe(0o600);
    for (const list of [lines, events]) {
      expect(list.map(({ kind }) => kind)).toEqual(expect.arrayContaining(['connect', 'permission', 'call']));
      expect(list.find(({ kind }) => kind === 'call')).toMatchObject({
        server: 's',
        tool: 'echo',
        outcome: 'ok',
      });
      expect(JSON.stringify(list)).not.toContain('sk-very-secret');
    }
  });
});

describe('view()', () => {
  test('BEY-01 fewer servers and tools, own rules and callback, same connections', async () => {
    const options: McpManagerOptions = {
      ...DEFAULTS,
      servers: { a: faulty(), b: faulty() },
      permissions: { allow: ['mcp__a', 'mcp__b'], deny: ['mcp__a__environment'], ask: ['mcp__a__argv'] },
      onPermission: () => ({ behavior: 'deny', message: 'the manager says no' }),
    };
    await withManager(options, async (manager) => {
      await manager.connect();
      const asked: string[] = [];
      const view = manager.view({
        servers: ['a'],
        tools: { exclude: ['mcp__a__cwd'] },
        permissions: { allow: ['mcp__a__echo', 'mcp__a__environment', 'mcp__a__argv'] },
        onPermission: ({ tool }) => {
          asked.push(tool);
          return { behavior: 'allow' };
        },
      });
      const names = (await view.listTools()).map(({ name }) => name);
      expect(names).toContain('mcp__a__echo');
      expect(names.filter((name) => !name.startsWith('mcp__a__'))).toEqual([]);
      expect(names).not.toContain('mcp__a__environment');
      expect(names).not.toContain('mcp__a__cwd');
      expect(view.status().map(({ name }) => name)).toEqual(['a']);
      expect(view.status('b')).toBeUndefined();
      expect(jsonOf(await view.callTool('mcp__a__echo', { text: 'x' }))).toEqual({ text: 'x' });
      expect(asked).toEqual([]);
      await view.callTool('mcp__a__argv');
      expect(asked, 'what the manager asks about is asked, of the view').toEqual(['argv']);
      await expect(manager.callTool('mcp__a__argv')).rejects.toMatchObject({
        code: 'PERMISSION_DENIED',
        layer: 'user',
      });
      await expect(view.callTool('mcp__a__environment')).rejects.toMatchObject({
        code: 'PERMISSION_DENIED',
        layer: 'rule',
      });
      for (const tool of ['mcp__b__echo', 'mcp__a__cwd', { server: 'b', tool: 'echo' }]) {
        await expect(view.callTool(tool), JSON.stringify(tool)).rejects.toMatchObject({
          code: 'TOOL_UNKNOWN',
        });
      }
      await expect(view.listTools({ server: 'b' })).rejects.toMatchObject({ code: 'SERVER_UNKNOWN' });
      await expect(view.readResource('b', 'x:y')).rejects.toMatchObject({ code: 'SERVER_UNKNOWN' });
      expect(manager.status('a')?.pid).toBe(view.status('a')?.pid);
      const plain = manager.view({});
      expect(jsonOf(await plain.callTool('mcp__b__echo', { text: 'y' })), 'rules of the manager').toEqual({
        text: 'y',
      });
    });
  });
});

test('CFG-09 the report names file and line of everything ever seen', async () => {
  const { at, options } = world({
    'home/.claude.json': '{\n  "mcpServers": {\n    "a": { "command": "x" } } }',
  });
  const manager = new McpManager({ ...DEFAULTS, ...options, servers: { a: { command: 'dynamic' } } });
  const { servers: entries } = await manager.load();
  expect(entries).toMatchObject([
    { name: 'a', scope: 'user', file: at('home/.claude.json'), line: 3, fate: 'active' },
    { name: 'a', scope: 'dynamic', fate: 'shadowed' },
  ]);
  await manager.close();
});

test('H10 CFG-10 two servers that differ in their environment alone are two servers', async () => {
  const { options, write } = world();
  const as = (WHO: string) => ({ ...faulty(), env: { WHO } });
  write('home/.claude.json', servers({ first: as('one'), second: as('two') }));
  await withManager(options, async (manager) => {
    await manager.connect();
    expect(fates(manager.configReport().servers)).toEqual({ first: 'active', second: 'active' });
    for (const [server, who] of Object.entries({ first: 'one', second: 'two' }))
      expect(jsonOf(await manager.callTool({ server, tool: 'environment' })).WHO).toBe(who);
  });
});

test('CFG-15 importConfig gives our form and writes nothing', async () => {
  const { at, write } = world();
  write(
    'mcp.json',
    '{ // c\n "servers": { "a": { "url": "https://a.test", "headers": { "X": "${env:T}" } } } }',
  );
  expect(await importConfig(at('mcp.json'))).toEqual({
    servers: { a: { type: 'http', url: 'https://a.test', headers: { X: '${T}' } } },
    warnings: [],
  });
  await expect(importConfig(at('none.json'))).rejects.toMatchObject({
    code: 'CONFIG_UNREADABLE',
    name: 'McpConfigError',
  });
  await expect(importConfig(at('mcp.json'), 'other' as never)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
});
