/** Each refusal names its layer and its rule (POL-11); policy has no way around it (POL-03 to POL-05, H14). */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { isServerAllowed, type McpManagerOptions, type PolicyEntry, type ServerConfig } from '..';
import { caught, eventually, faulty, temporaryDirectory, withManager } from './harness';

/** Home and organisation of one test. */
function world(policy: object = {}) {
  const base = temporaryDirectory();
  const at = (path: string) => join(base, path);
  for (const directory of ['home', 'managed', 'project']) mkdirSync(at(directory));
  const write = (path: string, content: unknown) => writeFileSync(at(path), JSON.stringify(content));
  write('managed/managed-settings.json', policy);
  const options: McpManagerOptions = {
    cwd: at('project'),
    config: { homeDir: at('home'), managedDir: at('managed'), projectRoot: at('project') },
    stateDir: false,
  };
  return { at, write, options };
}

describe('POL-11 layer and rule', () => {
  test('policy', async () => {
    const refused = { code: 'POLICY_DENIED', layer: 'policy' };
    const denied = world({ deniedMcpServers: [{ serverName: 's' }] });
    await withManager({ ...denied.options, servers: { s: faulty() } }, async (manager) => {
      const rule = '{"serverName":"s"}';
      expect(await caught(manager.callTool('mcp__s__echo'))).toMatchObject({ ...refused, rule });
      expect(manager.configReport().servers).toMatchObject([{ fate: 'denied', by: rule }]);
    });
    const closed = world({ allowedMcpServers: [] });
    await withManager({ ...closed.options, servers: { s: faulty() } }, async (manager) => {
      const rule = 'allowedMcpServers';
      expect(await caught(manager.connect('s'))).toMatchObject({ ...refused, rule });
      expect(await caught(manager.addServer('t', faulty()))).toMatchObject({ ...refused, rule });
      expect(manager.configReport().servers).toMatchObject([{ fate: 'not-allowed', by: rule }]);
    });
    const own = world();
    own.write('managed/managed-mcp.json', { mcpServers: {} });
    await withManager({ ...own.options, servers: { s: faulty() } }, async (manager) => {
      const rule = 'managed-mcp.json';
      expect(await caught(manager.connect('s'))).toMatchObject({ ...refused, rule });
      const refusal = { code: 'ENTERPRISE_EXCLUSIVE', layer: 'policy', rule };
      expect(await caught(manager.addServer('t', faulty()))).toMatchObject(refusal);
      expect(await caught(manager.removeServer('s'))).toMatchObject(refusal);
    });
  });

  test('rules, people and hooks, in this order behind policy', async () => {
    const denial = { code: 'PERMISSION_DENIED' };
    const permissions = { deny: ['mcp__s__argv'], ask: ['mcp__s__cwd'], allow: ['mcp__s__pids'] };
    const servers = { s: faulty() };
    await withManager({ servers, permissions }, async (manager) => {
      const call = (tool: string) => caught(manager.callTool(`mcp__s__${tool}`));
      expect(await call('argv')).toMatchObject({ ...denial, layer: 'rule', rule: 'mcp__s__argv' });
      const asks = { code: 'PERMISSION_REQUIRED', layer: 'user' };
      expect(await call('cwd')).toMatchObject({ ...asks, rule: 'mcp__s__cwd' });
      expect(await call('echo')).toMatchObject({ ...asks, rule: 'onPermission' });
    });
    const answers = [() => ({ behavior: 'deny' as const }), () => Promise.reject(new Error('x'))];
    for (const onPermission of answers) {
      await withManager({ servers, permissions, onPermission }, async (manager) => {
        const call = (tool: string) => caught(manager.callTool(`mcp__s__${tool}`));
        expect(await call('cwd')).toMatchObject({ ...denial, layer: 'user', rule: 'mcp__s__cwd' });
        expect(await call('echo')).toMatchObject({ ...denial, layer: 'user', rule: 'onPermission' });
      });
    }
    const hooks = { preToolUse: () => ({ deny: 'no' }) };
    await withManager({ servers, permissions, hooks }, async (manager) => {
      const refused = { ...denial, layer: 'hook', rule: 'hooks.preToolUse' };
      expect(await caught(manager.callTool('mcp__s__pids'))).toMatchObject(refused);
    });
  });
});

describe('policy cannot be dodged', () => {
  const denies = (entry: PolicyEntry, config: ServerConfig, name = 's') => {
    const { allowed, by } = isServerAllowed(name, config, { deniedMcpServers: [entry] });
    return !allowed && JSON.stringify(by) === JSON.stringify(entry);
  };

  test.each([
    ['upper case', 'HTTPS://BAD.Example/x'],
    ['default port', 'https://bad.example:443/x'],
    ['trailing dot', 'https://bad.example./x'],
    ['percent-encoding', 'https://bad%2Eexample/%61'],
    ['dots', 'https://bad.example/x/../y'],
    ['backslashes', 'https:\\\\bad.example\\x'],
    ['full width', 'https://ｂad.example/'],
    ['a soft hyphen', 'https://b\u00ADad.example/'],
    ['no slashes', 'https:bad.example'],
  ])('POL-05 %s', (_, url) => {
    expect(denies({ serverUrl: 'https://bad.example/*' }, { type: 'http', url })).toBe(true);
  });

  test('POL-05 punycode, IPv6 and numbers', () => {
    const same: [string, string[]][] = [
      ['https://bücher.example/*', ['https://xn--bcher-kva.example/', 'https://BÜCHER.example/']],
      ['http://[::1]/*', ['http://[0:0:0:0:0:0:0:1]/', 'http://[::0001]:80/']],
      ['http://127.0.0.1:*/*', ['http://2130706433:8/', 'http://0x7f.1/', 'http://[::ffff:127.0.0.1]:9/']],
    ];
    for (const [serverUrl, urls] of same)
      for (const url of urls) expect(denies({ serverUrl }, { type: 'sse', url }), url).toBe(true);
  });

  test('POL-05 a name and password in front of the host lead nowhere', async () => {
    const config = { type: 'http' as const, url: 'https://good.example@bad.example/' };
    const verdict = isServerAllowed('s', config, {
      allowedMcpServers: [{ serverUrl: 'https://good.example/*' }],
    });
    expect(verdict.allowed).toBe(false);
    await withManager({ servers: { s: config } }, async (manager) => {
      expect((await manager.load()).servers).toMatchObject([{ fate: 'invalid' }]);
    });
  });

  test.each([
    ['an absolute path', '/usr/bin/npx', ['-y', 'evil']],
    ['env', 'env', ['X=1', 'npx', '-y', 'evil']],
    ['sh -c', 'sh', ['-c', 'cd / && exec npx -y evil']],
    ['cmd /c', 'cmd.exe', ['/d', '/c', 'npx.cmd', '-y', 'evil']],
    ['one in another', 'env', ['sh', '-c', 'cmd /c npx -y evil']],
  ])('POL-04 %s', (_, command, args) => {
    expect(denies({ serverCommand: ['npx', '-y', 'evil'] }, { command, args })).toBe(true);
  });

  test('POL-03 another spelling of the name', () => {
    for (const name of ['EVIL', 'evil ', 'ｅvil', 'ev\u200Bil'])
      expect(denies({ serverName: 'evil' }, { command: 'x' }, name), name).toBe(true);
  });

  test('POL-04 H14 a link, another scope, a run-time addition, a reconnect', async () => {
    const { at, write, options } = world();
    const { args = [] } = faulty();
    symlinkSync(process.execPath, at('harmless'));
    const disguised = { command: 'env', args: ['X=1', at('harmless'), ...args] };
    write('home/.claude.json', { mcpServers: { file: disguised, free: faulty('--', 'free') } });
    await withManager({ ...options, servers: { option: disguised } }, async (manager) => {
      await manager.connect();
      const names = ['file', 'option', 'free'];
      expect(names.map((name) => manager.status(name)?.state)).toEqual(Array(3).fill('connected'));
      // The organisation's word comes while they run.
      const entry = { serverCommand: [process.execPath, ...args] };
      write('managed/managed-settings.json', { deniedMcpServers: [entry] });
      expect((await manager.reload()).removed).toEqual(['file', 'option']);
      const refused = { code: 'POLICY_DENIED', layer: 'policy', rule: JSON.stringify(entry) };
      for (const call of [
        () => manager.reconnect('file'),
        () => manager.restart('option'),
        () => manager.connect('file'),
        () => manager.callTool('mcp__option__echo'),
        () => manager.addServer('late', disguised),
        () => manager.addServer('late', disguised, { scope: 'plugin' }),
        () => manager.addServer('free', disguised, { override: true }),
        () => manager.setServerEnabled('file', true),
      ])
        expect(await caught(call()), String(call)).toMatchObject(refused);
      await eventually(() => manager.status('free')?.state === 'connected');
    });
  });
});
