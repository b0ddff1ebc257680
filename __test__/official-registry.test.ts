/** The official registry: fetched page by page, kept on disk, and shown in the status (SEC-05). */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { fetchOfficialRegistry, isOfficial, type Diagnostic, type JsonObject, type ServerConfig } from '..';
import { caught, eventually, faulty, freePort, temporaryDirectory, withManager } from './harness';
import { connectProxy, listen } from './remote-peers';

const entry = (name: string, server: JsonObject = {}): JsonObject => ({
  server: { name, version: '1.0.0', ...server },
  _meta: { 'io.modelcontextprotocol.registry/official': { status: 'active', isLatest: true } },
});
const npm = (identifier: string) =>
  entry(`com.example/${identifier}`, {
    packages: [{ registryType: 'npm', identifier, version: '1.0.0', transport: { type: 'stdio' } }],
  });
const PAGES = [
  [npm('one'), npm('two')],
  [npm('three')],
  [entry('com.example/r', { remotes: [{ type: 'streamable-http', url: 'https://r.test/mcp' }] })],
];

/** A registry on this machine; `answer` may take a request over. */
async function registry(
  answer: (request: IncomingMessage, response: ServerResponse, page: number) => boolean | void = () => {},
) {
  const seen: { query: URLSearchParams; etag?: string; status?: number }[] = [];
  const pages = [...PAGES];
  const port = await listen(
    createServer((request, response) => {
      const { searchParams } = new URL(request.url!, 'http://x');
      const cursor = searchParams.get('cursor');
      const page = cursor === null ? 0 : Number(cursor.split('&')[1]);
      const one = { query: searchParams, etag: request.headers['if-none-match'] };
      seen.push(one);
      if (answer(request, response, page) === true) return;
      const body = JSON.stringify({
        servers: pages[page],
        metadata: { count: pages[page].length, nextCursor: page + 1 < pages.length ? `p&${page + 1}` : null },
      });
      const etag = `"${page}-${body.length}"`;
      if (one.etag === etag) return void response.writeHead(304).end();
      response.writeHead(200, { 'content-type': 'application/json', etag }).end(body);
    }),
  );
  return { url: `http://127.0.0.1:${port}/v0/servers`, seen, pages };
}

const offline = async () => `http://127.0.0.1:${await freePort()}/v0/servers`;
const onlyFile = (directory: string) => {
  const files = readdirSync(directory).filter((name) => name.startsWith('official-registry'));
  expect(files).toHaveLength(1);
  return join(directory, files[0]);
};

describe('fetchOfficialRegistry', () => {
  test('SEC-05 all pages, by their cursors', async () => {
    const { url, seen } = await registry();
    const cacheDir = temporaryDirectory();
    const before = Date.now();
    const { servers, fromCache, fetchedAt } = await fetchOfficialRegistry({ url, cacheDir });
    expect(servers).toEqual(PAGES.flat());
    expect(fromCache).toBe(false);
    expect(fetchedAt).toBeGreaterThanOrEqual(before);
    expect(seen.map(({ query }) => query.get('cursor'))).toEqual([null, 'p&1', 'p&2']);
    expect(seen[0].query.get('version')).toBe('latest');
    if (process.platform !== 'win32') expect(statSync(onlyFile(cacheDir)).mode & 0o777).toBe(0o600);
  });

  test('SEC-05 kept on disk: young, unchanged, changed, and offline', async () => {
    const { url, seen, pages } = await registry();
    const cacheDir = temporaryDirectory();
    await fetchOfficialRegistry({ url, cacheDir });
    expect(await fetchOfficialRegistry({ url, cacheDir })).toMatchObject({
      fromCache: true,
      servers: PAGES.flat(),
    });
    expect(seen).toHaveLength(3);

    expect(await fetchOfficialRegistry({ url, cacheDir, maxAgeMs: 0 })).toMatchObject({ fromCache: true });
    expect(seen.slice(3).every(({ etag }) => etag !== undefined)).toBe(true);
    expect(seen).toHaveLength(6);

    pages[1] = [npm('changed'), npm('more')];
    const changed = await fetchOfficialRegistry({ url, cacheDir, maxAgeMs: 0 });
    expect(changed.fromCache).toBe(false);
    expect(changed.servers).toEqual(pages.flat());
    expect(await fetchOfficialRegistry({ url, cacheDir: false })).toMatchObject({ fromCache: false });

    // Another address has its own file.
    const elsewhere = await caught(fetchOfficialRegistry({ url: await offline(), cacheDir }));
    expect(elsewhere).toMatchObject({ code: 'CONNECT_FAILED', retryable: true });
  });

  test('SEC-05 when the registry cannot be had, what is kept has to do', async () => {
    let trouble: ((response: ServerResponse) => void) | undefined;
    const { url } = await registry((_, response) => {
      trouble?.(response);
      return trouble !== undefined;
    });
    const cacheDir = temporaryDirectory();
    const { fetchedAt } = await fetchOfficialRegistry({ url, cacheDir });
    for (const make of [
      (response: ServerResponse) => void response.writeHead(503).end(),
      (response: ServerResponse) => void response.writeHead(200).end('<html>'),
      (response: ServerResponse) => void response.writeHead(302, { location: 'https://evil.test/' }).end(),
      (response: ServerResponse) => void response.destroy(),
    ]) {
      trouble = make;
      const kept = await fetchOfficialRegistry({ url, cacheDir, maxAgeMs: 0 });
      expect(kept.fetchedAt).toBe(fetchedAt);
    }
    trouble = (response) => void response.writeHead(503).end();
    expect(await caught(fetchOfficialRegistry({ url, cacheDir: false }))).toMatchObject({
      code: 'HTTP_STATUS',
      status: 503,
    });
  });

  test('SEC-05 a damaged file is fetched again', async () => {
    const { url, seen } = await registry();
    const cacheDir = temporaryDirectory();
    await fetchOfficialRegistry({ url, cacheDir });
    const file = onlyFile(cacheDir);
    const whole = readFileSync(file, 'utf8');
    for (const damaged of [whole.slice(0, 100), '', '[]', whole.replace(url, 'http://other')]) {
      writeFileSync(file, damaged);
      expect(await fetchOfficialRegistry({ url, cacheDir })).toMatchObject({
        fromCache: false,
        servers: PAGES.flat(),
      });
    }
    expect(seen).toHaveLength(15);
    expect(seen.every(({ etag }) => etag === undefined)).toBe(true);
  });

  test('SEC-05 BEY-07 bounds, addresses, redirects, and the end of patience', async () => {
    const endless = await registry((_, response) => {
      response.end(JSON.stringify({ servers: [], metadata: { nextCursor: 'p&0' } }));
      return true;
    });
    expect(await caught(fetchOfficialRegistry({ url: endless.url, cacheDir: false }))).toMatchObject({
      code: 'LIST_LIMIT',
    });
    const large = await registry((_, response) => {
      response.end(JSON.stringify({ servers: ['x'.repeat(9 * 1024 * 1024)] }));
      return true;
    });
    expect(await caught(fetchOfficialRegistry({ url: large.url, cacheDir: false }))).toMatchObject({
      code: 'LIST_LIMIT',
    });
    const away = await registry((_, response) => {
      response.writeHead(302, { location: 'http://169.254.169.254/' }).end();
      return true;
    });
    expect(await caught(fetchOfficialRegistry({ url: away.url, cacheDir: false }))).toMatchObject({
      code: 'REDIRECT_REFUSED',
    });
    const moved = await registry((request, response) => {
      if (request.url!.startsWith('/new')) return false;
      response.writeHead(307, { location: request.url!.replace('/v0', '/new') }).end();
      return true;
    });
    const { servers } = await fetchOfficialRegistry({ url: moved.url, cacheDir: false });
    expect(servers).toEqual(PAGES.flat());
    for (const url of [
      'http://a.test/',
      'file:///x',
      'no URL',
      'https://me:pw@a.test/',
      'https://10.0.0.1x/',
    ]) {
      const error = await caught(fetchOfficialRegistry({ url, cacheDir: false }));
      expect(['URL_REFUSED', 'CONNECT_FAILED'], url).toContain(error.code);
      expect(error.message).not.toContain('pw@');
    }
    const silent = await registry(() => true);
    const signal = AbortSignal.timeout(100);
    expect(await caught(fetchOfficialRegistry({ url: silent.url, cacheDir: false, signal }))).toMatchObject({
      name: 'TimeoutError',
    });
    for (const options of [{ url: 7 }, { maxAgeMs: -1 }, { cacheDir: '' }, { signal: {} }, 7]) {
      expect(await caught(fetchOfficialRegistry(options as never))).toMatchObject({
        code: 'INVALID_ARGUMENT',
      });
    }
  }, 30_000);

  test('SEC-05 PRX-01 through a proxy, like everything else', async () => {
    const proxy = await connectProxy('me:pw');
    const error = await caught(
      fetchOfficialRegistry({
        url: 'https://registry.invalid/v0/servers',
        cacheDir: false,
        proxy: `http://me:pw@127.0.0.1:${proxy.port}`,
      }),
    );
    expect(error.name).toMatch(/^Mcp/);
    expect(proxy.tunnels).toEqual(['registry.invalid:443']);
  });
});

describe('isOfficial', () => {
  test('SEC-05 by package and by URL', () => {
    const listed = { servers: PAGES.flat() };
    for (const [config, expected] of [
      [{ command: 'npx', args: ['-y', 'one@2'] }, true],
      [{ command: 'npx', args: ['-y', 'other'] }, false],
      [{ command: 'npx', args: ['-y', 'one'], env: { npm_config_registry: 'https://x.test' } }, false],
      [{ type: 'http', url: 'https://r.test/mcp/' }, true],
      [{ url: 'https://r.test/other' }, false],
      [{ type: 'sdk', name: 'one' }, false],
    ] as [ServerConfig, boolean][]) {
      expect(isOfficial(config, listed), JSON.stringify(config)).toBe(expected);
    }
    listed.servers.push(npm('other'));
    expect(isOfficial({ command: 'npx', args: ['other'] }, listed)).toBe(true);
    expect(() => isOfficial({ command: 'x' }, {} as never)).toThrow(/registry.servers/);
  });
});

describe('the status', () => {
  test('SEC-05 with a registry of the host, and without one', async () => {
    const servers: Record<string, ServerConfig> = {
      listed: { command: 'npx', args: ['-y', 'one'], disabled: true },
      other: { ...faulty(), disabled: true },
      remote: { type: 'http', url: 'https://r.test/mcp', disabled: true },
      inside: { type: 'sdk', name: 'x', disabled: true },
    };
    const official = (statuses: { name: string; official?: boolean }[]) =>
      Object.fromEntries(statuses.map((one) => [one.name, one.official]));
    await withManager({ servers, officialRegistry: { servers: PAGES.flat() } }, async (manager) => {
      await manager.load();
      expect(official(manager.status())).toEqual({
        listed: true,
        other: false,
        remote: true,
        inside: undefined,
      });
    });
    await withManager({ servers }, async (manager) => {
      await manager.load();
      expect(Object.values(official(manager.status())).every((one) => one === undefined)).toBe(true);
    });
    for (const officialRegistry of ['x', {}, { servers: 7 }, 7]) {
      const made = withManager({ officialRegistry: officialRegistry as never }, async () => {});
      expect(await caught(made)).toMatchObject({ code: 'INVALID_ARGUMENT' });
    }
  });

  test('SEC-05 fetched in the background, and kept for the next time', async () => {
    const { url, seen } = await registry();
    const stateDir = temporaryDirectory();
    for (const round of [1, 2]) {
      const servers: Record<string, ServerConfig> = { s: { command: 'npx', args: ['one'], disabled: true } };
      await withManager({ servers, stateDir, officialRegistry: { url } }, async (manager) => {
        await manager.load();
        await eventually(() => manager.status('s')!.official === true, 10_000);
      });
      expect(seen, `round ${round}`).toHaveLength(3);
    }
  });

  test('SEC-05 fetched in the background: nobody waits, a failure is told', async () => {
    const told: Diagnostic[] = [];
    // Whatever the network of this machine is like: the proxy is not there.
    const proxy = `http://127.0.0.1:${await freePort()}`;
    await withManager({ servers: { s: faulty() }, officialRegistry: 'fetch', proxy }, async (manager) => {
      manager.on('diagnostic', (one) => told.push(one));
      await manager.connect();
      expect(manager.status('s')).toMatchObject({ state: 'connected' });
      expect(manager.status('s')!.official).toBeUndefined();
      await eventually(() => told.some(({ code }) => code === 'OFFICIAL_REGISTRY_UNAVAILABLE'), 20_000);
    });
  }, 30_000);
});
