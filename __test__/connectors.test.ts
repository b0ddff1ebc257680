/** The connectors of an account: the list, the token, the proxy in front of them; against a server of our own. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { McpManager, McpManagerOptions } from '..';
import { eventually, faulty, temporaryDirectory, textOf, withManager } from './harness';

interface Seen {
  path: string;
  authorization: string | undefined;
  method?: string;
}

type List = (url: URL, token: string | undefined, response: ServerResponse) => unknown;

/** An account: `list` answers the list; behind `/proxy/` is a server of the handshake era for whoever has a token in `good`. */
async function account(list: List, good = new Set(['t1'])) {
  const seen: Seen[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const url = new URL(request.url ?? '/', 'http://x');
      const { authorization } = request.headers;
      const message = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
      seen.push({ path: url.pathname + url.search, authorization, method: message?.method });
      const token = authorization?.replace(/^Bearer /, '');
      const json = (value: unknown, status = 200) =>
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
      if (url.pathname.endsWith('/v1/mcp_servers')) {
        const answer = list(url, token, response);
        if (answer !== undefined) json(answer);
        return;
      }
      if (!good.has(token ?? '')) return void response.writeHead(401).end();
      if (request.method !== 'POST') return void response.writeHead(405).end();
      if (message?.id === undefined) return void response.writeHead(202).end();
      const results: Record<string, unknown> = {
        initialize: {
          protocolVersion: '2025-06-18',
          capabilities: { tools: {} },
          serverInfo: { name: 'c', version: '1' },
        },
        'tools/list': { tools: [{ name: 'whoami', inputSchema: { type: 'object' } }] },
        'tools/call': { content: [{ type: 'text', text: `${url.pathname} ${token}` }] },
      };
      const result = results[message.method];
      if (result === undefined)
        return void json({ jsonrpc: '2.0', id: message.id, error: { code: -32601, message: 'no' } }, 400);
      json({ jsonrpc: '2.0', id: message.id, result });
    });
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const options: McpManagerOptions = {
    config: {
      homeDir: '/nonexistent',
      managedDir: '/nonexistent',
      projectRoot: '/nonexistent',
      connectorBaseUrl: `${base}/api/`,
      connectorProxyUrlTemplate: `${base}/proxy/{server_id}`,
    },
    cwd: temporaryDirectory(),
    stateDir: false,
  };
  return { base, seen, good, options };
}

const one = { data: [{ id: 'a', name: 'One', url: 'https://one.test/mcp' }], has_more: false };
const codes = (manager: McpManager) => manager.configReport().warnings.map(({ code }) => code);

test('CFG-14 every page is read; each entry is a server behind the proxy', async () => {
  const pages: Record<string, unknown> = {
    '': { data: [{ id: 'a/b', name: 'One', url: 'https://one.test' }], has_more: true, next_page: 'p&2' },
    'p&2': {
      data: [{ id: 'c', name: 'One', url: 'https://two.test' }, { id: 7 }],
      has_more: true,
      next_page: 3,
    },
    '3': { data: [{ id: 'd', name: 'Three', url: 'https://mine.test/' }], has_more: true, next_page: 'p&2' },
  };
  const { base, options, seen } = await account((url) => pages[url.searchParams.get('page') ?? '']);
  const asked: boolean[] = [];
  const getConnectorToken = ({ forceRefresh }: { forceRefresh: boolean }) => {
    asked.push(forceRefresh);
    return 't1';
  };
  const mine = { type: 'http' as const, url: 'https://mine.test/', disabled: false, start: 'lazy' as const };
  await withManager({ ...options, getConnectorToken, servers: { mine } }, async (manager) => {
    const report = await manager.load();
    const entries = report.servers.filter(({ scope }) => scope === 'connector');
    expect(entries.map(({ name, fate, by, config }) => [name, fate, by, config.url])).toEqual([
      ['One', 'active', undefined, `${base}/proxy/a%2Fb`],
      ['One (2)', 'active', undefined, `${base}/proxy/c`],
      ['Three', 'duplicate', 'mine', `${base}/proxy/d`],
    ]);
    expect(entries[0].config).toMatchObject({
      type: 'claudeai-proxy',
      id: 'a/b',
      originalUrl: 'https://one.test',
    });
    expect(codes(manager)).toEqual(['CONNECTORS_MALFORMED']);
    expect(textOf(await manager.callTool({ server: 'One', tool: 'whoami' }))).toBe('/proxy/a%2Fb t1');
    expect(asked).toEqual([false]);
    expect(seen.filter(({ path }) => path.startsWith('/api')).map(({ path }) => path)).toEqual([
      '/api/v1/mcp_servers',
      '/api/v1/mcp_servers?page=p%262',
      '/api/v1/mcp_servers?page=3',
    ]);
    expect(JSON.stringify(manager.configReport())).not.toContain('t1"');
  });
});

test('PXY-01 a refused token is had anew once, for the list and behind the proxy', async () => {
  const good = new Set(['t2']);
  const { options } = await account((_, token, response) => {
    if (good.has(token ?? '')) return one;
    response.writeHead(401).end();
    return undefined;
  }, good);
  let number = 0;
  const asked: boolean[] = [];
  const getConnectorToken = async ({ forceRefresh }: { forceRefresh: boolean }) => {
    asked.push(forceRefresh);
    if (number < 5) number += 1;
    return `t${number}`;
  };
  await withManager({ ...options, getConnectorToken }, async (manager) => {
    expect((await manager.connect()).map(({ name, state }) => [name, state])).toEqual([['One', 'connected']]);
    expect(asked).toEqual([false, true]);
    good.delete('t2');
    good.add('t3');
    const calls = await Promise.all([1, 2, 3].map(() => manager.callTool('mcp__One__whoami')));
    expect(calls.map(textOf)).toEqual(Array(3).fill('/proxy/a t3'));
    expect(asked, 'three that were refused ask once').toEqual([false, true, true]);
    good.clear();
    number = 5;
    await manager.callTool('mcp__One__whoami').catch(() => {});
    await expect(manager.callTool('mcp__One__whoami')).rejects.toMatchObject({ code: 'AUTH_REQUIRED' });
  });
});

const refusals: [string, () => string | null | Promise<string>, number, string][] = [
  ['no token', () => null, 200, 'CONNECTORS_NO_ACCESS'],
  ['getConnectorToken throws', () => Promise.reject(new Error('x')), 200, 'CONNECTORS_UNAVAILABLE'],
  ['wrong scope', () => 't1', 403, 'CONNECTORS_NO_ACCESS'],
  ['refused for good', () => 't1', 401, 'CONNECTORS_NO_ACCESS'],
  ['a broken server', () => 't1', 500, 'CONNECTORS_UNAVAILABLE'],
  ['a redirect', () => 't1', 302, 'CONNECTORS_UNAVAILABLE'],
  ['no list', () => 't1', 204, 'CONNECTORS_UNAVAILABLE'],
];

test.each(refusals)(
  'CFG-14 %s: no connectors, a reason, no error',
  async (_, getConnectorToken, status, code) => {
    const { options } = await account((_url, _token, response) => {
      if (status === 200) return one;
      response.writeHead(status, { location: 'http://127.0.0.1:1/' }).end();
      return undefined;
    });
    const servers = { s: faulty() };
    await withManager({ ...options, getConnectorToken, servers }, async (manager) => {
      expect((await manager.connect()).map(({ name, state }) => [name, state])).toEqual([['s', 'connected']]);
      expect(codes(manager)).toEqual([code]);
      expect(manager.configReport().errors).toEqual([]);
    });
  },
);

test('CFG-14 a getConnectorToken that fails takes no connector away', async () => {
  const good = new Set(['t1']);
  const { options } = await account((_, token, response) => {
    if (good.has(token ?? '')) return one;
    response.writeHead(401).end();
    return undefined;
  }, good);
  const getConnectorToken = ({ forceRefresh }: { forceRefresh: boolean }) => {
    if (forceRefresh) throw new Error('the network is down');
    return 't1';
  };
  await withManager({ ...options, getConnectorToken }, async (manager) => {
    await manager.load();
    good.clear();
    await manager.reload();
    await eventually(() => codes(manager).includes('CONNECTORS_UNAVAILABLE'));
    expect(manager.configReport().servers).toMatchObject([{ name: 'One', fate: 'active' }]);
  });
});

test('CFG-14 a slow list delays nobody, and comes by itself', async () => {
  let answer: ServerResponse | undefined;
  const { options } = await account((_url, _token, response) => void (answer = response));
  const servers = { s: faulty() };
  await withManager({ ...options, getConnectorToken: () => 't1', servers }, async (manager) => {
    const started = manager.connect();
    await eventually(() => manager.status('s')?.state === 'connected');
    await started;
    expect(manager.status().map(({ name }) => name)).toEqual(['s']);
    await eventually(() => answer);
    answer?.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(one));
    await eventually(() => manager.status('One')?.state === 'connected');
  });
});

test('CFG-14 no answer within five seconds is a reason; the list of a later reload counts', async () => {
  let ready = false;
  const { options } = await account(() => (ready ? one : undefined));
  await withManager({ ...options, getConnectorToken: () => 't1' }, async (manager) => {
    await manager.load();
    await eventually(() => codes(manager).includes('CONNECTORS_UNAVAILABLE'), 20_000);
    ready = true;
    expect(await manager.reload()).toEqual({ added: ['One'], removed: [], changed: [] });
    expect(codes(manager)).toEqual([]);
  });
}, 30_000);

test('CFG-14 H14 policy sees the server behind the proxy, and a file of the organisation alone counts', async () => {
  const { options } = await account(() => one);
  const policy = { deniedMcpServers: [{ serverUrl: 'https://one.test/*' }] };
  await withManager({ ...options, getConnectorToken: () => 't1', policy }, async (manager) => {
    const { servers } = await manager.load();
    expect(servers).toMatchObject([
      { name: 'One', fate: 'denied', by: '{"serverUrl":"https://one.test/*"}' },
    ]);
    await expect(manager.connect('One')).rejects.toMatchObject({ code: 'POLICY_DENIED' });
  });
});

test('CFG-14 options that make no list are told', async () => {
  const { options, seen } = await account(() => one);
  const config = { ...(options.config as object), connectorProxyUrlTemplate: 'https://p.test/' };
  await withManager({ ...options, config, getConnectorToken: () => 't1' }, async (manager) => {
    await manager.load();
    expect(codes(manager)).toEqual(['CONNECTORS_UNAVAILABLE']);
    expect(seen).toEqual([]);
  });
  await withManager({ ...options, getConnectorToken: undefined }, async (manager) => {
    await manager.load();
    expect(codes(manager)).toEqual(['CONNECTORS_NO_ACCESS']);
  });
});
