/** Trust, detours, redirects and policy on the way to servers behind URLs, end to end. */
import { describe, expect, test } from 'vitest';
import type { McpManagerOptions, ServerConfig } from '..';
import { caught, eventually, textOf, withManager } from './harness';
import { AUTHORITY, connectProxy, httpPeer, ssePeer, wsPeer } from './remote-peers';

const FAST: McpManagerOptions = { retry: { attempts: 0 } };

describe('a private authority behind a proxy', () => {
  test.each(['http', 'ws'] as const)('TLS-01 PRX-01 WS-02 %s', async (type) => {
    const peer = type === 'ws' ? await wsPeer({ tls: true }) : await httpPeer(undefined, { tls: true });
    const proxy = await connectProxy('me:pass-word');
    const through = (login: string, tls?: object) =>
      ({ type, url: peer.url, tls, proxy: `http://${login}@127.0.0.1:${proxy.port}` }) as ServerConfig;
    await withManager(
      { ...FAST, servers: { s: through('me:pass-word', { ca: AUTHORITY }) } },
      async (manager) => {
        await manager.connect('s');
        expect(textOf(await manager.callTool('mcp__s__echo'))).toBe('hello from echo');
        expect(manager.status('s')).not.toHaveProperty('tlsVerified');
      },
    );
    expect(new Set(proxy.tunnels)).toEqual(new Set([`127.0.0.1:${peer.port}`]));
    await withManager({ ...FAST, servers: { s: through('me:pass-word') } }, async (manager) => {
      expect(await caught(manager.connect('s'))).toMatchObject({ code: 'TLS_FAILED', phase: 'tls' });
    });
    await withManager(
      { ...FAST, servers: { s: through('me:wrong-word', { ca: AUTHORITY }) } },
      async (manager) => {
        const error = await caught(manager.connect('s'));
        expect(error).toMatchObject({
          code: expect.stringMatching(/PROXY_FAILED|RETRIES_EXHAUSTED/),
          phase: 'proxy',
        });
        expect(JSON.stringify([error, error.message, manager.status()])).not.toContain('wrong-word');
      },
    );
    expect(proxy.refused.length).toBeGreaterThan(0);
    await withManager(
      { ...FAST, servers: { s: through('me:pass-word', { insecureSkipVerify: true }) } },
      async (manager) => {
        await manager.connect('s');
        expect(manager.status('s')).toMatchObject({ state: 'connected', tlsVerified: false });
      },
    );
  });

  test('TLS-01 a file of NODE_EXTRA_CA_CERTS that counts for nothing is told', async () => {
    const before = process.env.NODE_EXTRA_CA_CERTS;
    process.env.NODE_EXTRA_CA_CERTS = '/no/such/roots.pem';
    try {
      const peer = await httpPeer(undefined, { tls: true });
      const told: string[] = [];
      const s: ServerConfig = { type: 'http', url: peer.url, tls: { ca: AUTHORITY } };
      await withManager({ ...FAST, servers: { s } }, async (manager) => {
        manager.on(
          'diagnostic',
          ({ code, message }) => code === 'EXTRA_ROOTS_UNUSABLE' && told.push(message),
        );
        await manager.connect('s');
        expect(manager.status('s')!.state).toBe('connected');
        await manager.reconnect('s');
      });
      expect(told).toHaveLength(1);
      expect(told[0]).toContain('/no/such/roots.pem');
    } finally {
      if (before === undefined) delete process.env.NODE_EXTRA_CA_CERTS;
      else process.env.NODE_EXTRA_CA_CERTS = before;
    }
  });
});

describe('redirects', () => {
  test.each([301, 307, 308])('HTTP-03 a %i to another origin carries nothing and fails', async (status) => {
    const other = await httpPeer();
    const peer = await httpPeer((_, response) => {
      response.writeHead(status, { location: other.url }).end();
      return true;
    });
    const headers = { Authorization: 'Bearer very-secret-token', 'X-Key': 'another-secret' };
    await withManager(
      { ...FAST, servers: { s: { type: 'http', url: peer.url, headers } } },
      async (manager) => {
        const error = await caught(manager.connect('s'));
        expect(error).toMatchObject({ code: 'REDIRECT_REFUSED', delivered: 'refused' });
        expect(error.message).toContain(other.origin);
      },
    );
    expect(other.seen).toEqual([]);
    expect(peer.seen[0].headers.authorization).toBe('Bearer very-secret-token');
  });

  test('POL-05 B-042 a redirect out of the permitted set is refused', async () => {
    const peer = await httpPeer((one, response) => {
      if (one.path !== '/mcp') return false;
      response.writeHead(307, { location: '/elsewhere?token=very-secret-token' }).end();
      return true;
    });
    const servers: Record<string, ServerConfig> = { s: { type: 'http', url: peer.url } };
    const policy = { allowedMcpServers: [{ serverUrl: `${peer.origin}/mcp` }] };
    await withManager({ ...FAST, servers, policy }, async (manager) => {
      const error = await caught(manager.connect('s'));
      expect(error).toMatchObject({ code: 'POLICY_DENIED', layer: 'policy' });
      expect(error.message).toContain('/elsewhere');
      expect(JSON.stringify([error, error.message, manager.status()])).not.toContain('very-secret-token');
    });
    expect(peer.seen.every(({ path }) => path === '/mcp')).toBe(true);
    await withManager(
      { ...FAST, servers, policy: { deniedMcpServers: [{ serverUrl: '*://*:*/elsewhere*' }] } },
      async (manager) => {
        expect(await caught(manager.connect('s'))).toMatchObject({ code: 'POLICY_DENIED', layer: 'policy' });
      },
    );
    await withManager({ ...FAST, servers }, async (manager) => {
      await manager.connect('s');
      expect(manager.status('s')!.state).toBe('connected');
    });
  });

  test('POL-05 an SSE endpoint out of the permitted set is refused', async () => {
    const peer = await ssePeer({ endpoint: '/messages?key=very-secret-token' });
    const servers: Record<string, ServerConfig> = { s: { type: 'sse', url: peer.url } };
    const policy = { allowedMcpServers: [{ serverUrl: peer.url }] };
    await withManager({ ...FAST, servers, policy }, async (manager) => {
      const error = await caught(manager.connect('s'));
      expect(error).toMatchObject({ code: 'POLICY_DENIED', layer: 'policy' });
      expect(error.message).toContain('/messages');
      expect(JSON.stringify([error, error.message, manager.status()])).not.toContain('very-secret-token');
    });
    expect(peer.seen.filter(({ http }) => http === 'POST')).toEqual([]);
  });
});

describe('event streams', () => {
  test('SSE-02 the pause a server asks for comes before the next connection', async () => {
    const peer = await ssePeer({ retry: 1200 });
    const servers: Record<string, ServerConfig> = { s: { type: 'sse', url: peer.url } };
    await withManager({ retry: { initialDelayMs: 20, maxDelayMs: 50 }, servers }, async (manager) => {
      await manager.connect('s');
      const begin = Date.now();
      peer.cut();
      await eventually(() => peer.asked('initialize') === 2, 10_000);
      expect(Date.now() - begin).toBeGreaterThanOrEqual(1100);
      await eventually(() => manager.status('s')!.state === 'connected', 10_000);
      expect(textOf(await manager.callTool('mcp__s__echo'))).toBe('hello from echo');
    });
  });
});

describe('limits', () => {
  test('F-055 a stretch that takes too long names itself', async () => {
    const silent = await httpPeer(() => true);
    const servers: Record<string, ServerConfig> = {
      head: { type: 'http', url: silent.url, connectTimeoutMs: 600 },
      tls: { type: 'http', url: silent.url.replace('http:', 'https:'), connectTimeoutMs: 600 },
    };
    await withManager({ ...FAST, servers }, async (manager) => {
      const [head, tls] = await Promise.all([
        caught(manager.connect('head')),
        caught(manager.connect('tls')),
      ]);
      expect(head.phase).toBe('headers');
      expect(head.message).toContain('waiting for the head of the answer');
      // The server answers TLS with an HTTP error, or with nothing.
      expect(tls.phase).toBe('tls');
    });
  });

  test('SEC-04 more headers than anybody needs are no answer', async () => {
    const peer = await httpPeer((_, response) => {
      for (let n = 0; n < 500; n += 1) response.setHeader(`x-${n}`, 'x');
      return false;
    });
    await withManager({ ...FAST, servers: { s: { type: 'http', url: peer.url } } }, async (manager) => {
      const error = await caught(manager.connect('s'));
      expect(error.message).toContain('128 headers');
    });
  });
});
