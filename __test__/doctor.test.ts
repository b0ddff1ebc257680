/** Status that says why, and the same as one JSON value. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { McpManager, type McpManagerOptions } from '..';
import { DEFAULTS, faulty, freePort, pause, temporaryDirectory, withManager } from './harness';
import { smallServer } from './small-http-server';

const ONCE: McpManagerOptions = { retry: { attempts: 0 } };

describe('BEY-05 why a server is not there', () => {
  test('BEY-05 cause, evidence, next try and advice, alike in status() and doctor()', async () => {
    const small = await smallServer();
    const at: Record<string, (response: import('node:http').ServerResponse) => void> = {
      html: (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Welcome</h1>'),
      login: (response) => response.writeHead(401).end(),
      wrong: (response) => response.writeHead(404).end('nothing here'),
      broken: (response) => response.writeHead(503).end('later'),
    };
    small.answer = (one, response) => {
      const answer = at[String(one.path).slice(1)];
      answer?.(response);
      return answer !== undefined;
    };
    const url = (path: string) => ({ type: 'http' as const, url: new URL(path, small.url).href });
    const exits = { command: process.execPath, args: ['-e', 'console.error("no key"); process.exit(7)'] };
    const servers = {
      missing: { command: 'no-such-command-of-anybody' },
      exits,
      refused: { type: 'http' as const, url: `http://127.0.0.1:${await freePort()}/mcp` },
      html: url('/html'),
      login: url('/login'),
      wrong: url('/wrong'),
      broken: url('/broken'),
      fine: faulty(),
    };
    await withManager({ ...ONCE, servers }, async (manager) => {
      await manager.connect();
      const report = manager.doctor();
      expect(JSON.parse(JSON.stringify(report))).toEqual(report);
      expect(report.healthy).toBe(false);
      const of = (name: string) => report.servers.find(({ server }) => server === name)!;
      expect(report.servers.map(({ server }) => server).sort()).toEqual(Object.keys(servers).sort());
      for (const [name, evidence] of [
        ['missing', undefined],
        ['exits', { exit: { code: 7, signal: null }, stderrTail: ['no key'] }],
        ['refused', undefined],
        ['html', { firstBytes: expect.stringContaining('Welcome') }],
        ['login', {}],
        ['wrong', { httpStatus: 404, firstBytes: 'nothing here' }],
        ['broken', { httpStatus: 503 }],
      ] as const) {
        const found = of(name);
        const status = manager.status(name)!;
        expect(found, name).toMatchObject({ healthy: false, state: status.state });
        expect(found.cause, name).toEqual({ code: status.code, message: status.reason });
        expect(status.code, name).toMatch(/^[A-Z_]+$/);
        expect(status.reason!.length, name).toBeGreaterThan(10);
        expect(found.advice, name).toBe(status.hint);
        expect(found.advice!.length, name).toBeGreaterThan(10);
        if (evidence) expect({ ...found.evidence }, name).toMatchObject(evidence);
        if (status.state === 'failed') expect(found.next?.at, name).toBeGreaterThan(Date.now());
      }
      expect(of('login').state).toBe('needs-auth');
      expect(of('fine')).toEqual({ server: 'fine', state: 'connected', healthy: true });
    });
  }, 30_000);

  test('BEY-05 D9 connected, yet a list failed', async () => {
    const small = await smallServer();
    small.answer = (one, response) => {
      if (one.method !== 'tools/list') return false;
      response.writeHead(500).end('no tools today');
      return true;
    };
    await withManager({ servers: { s: { type: 'http', url: small.url } } }, async (manager) => {
      await manager.connect();
      const [found] = manager.doctor().servers;
      expect(found).toMatchObject({ state: 'connected', healthy: false });
      expect(found.evidence?.listErrors?.[0]).toMatchObject({ list: 'tools', code: 'HTTP_STATUS' });
      expect(found.advice).toContain('listErrors');
    });
  });

  test('BEY-05 a wait for the next try says when and which', async () => {
    const port = await freePort();
    const options = { retry: { attempts: 3, initialDelayMs: 60_000 } };
    const server = { type: 'http' as const, url: `http://127.0.0.1:${port}/mcp` };
    await withManager({ ...options, servers: { s: server } }, async (manager) => {
      await manager.connect();
      const [found] = manager.doctor().servers;
      expect(found).toMatchObject({ state: 'pending', healthy: false, next: { maxAttempts: 4 } });
      expect(found.next!.at!).toBeGreaterThan(Date.now());
    });
  });

  test('BEY-05 what the configuration was not used for', async () => {
    const project = temporaryDirectory();
    writeFileSync(
      join(project, '.mcp.json'),
      '{"mcpServers": {"a": {"command": "x"}, "b": {"type": "nonsense"}}}',
    );
    const home = join(project, 'home');
    mkdirSync(home);
    const manager = new McpManager({
      ...DEFAULTS,
      cwd: project,
      config: { homeDir: home, managedDir: join(project, 'managed'), projectRoot: project },
      stateDir: false,
    });
    await manager.load();
    const { configuration } = manager.doctor();
    expect(configuration.unused).toContainEqual(
      expect.objectContaining({ server: 'a', fate: 'pending-approval', file: join(project, '.mcp.json') }),
    );
    writeFileSync(join(project, '.mcp.json'), '{"mcpServers": ');
    await manager.reload();
    const broken = manager.doctor();
    expect(broken.healthy).toBe(false);
    expect(broken.configuration.errors[0]).toMatchObject({ file: join(project, '.mcp.json') });
    await manager.close();
  });

  test('BEY-05 nothing is started by asking', async () => {
    await withManager({ servers: { s: faulty() } }, async (manager) => {
      await manager.load();
      expect(manager.doctor()).toMatchObject({ healthy: true, servers: [{ server: 's', state: 'pending' }] });
      await pause(200);
      expect(manager.status('s')).toMatchObject({ state: 'pending' });
      expect(manager.status('s')?.pid).toBeUndefined();
    });
  });
});
