/** The five clocks (PRO-06): each phase has its own limit, on every transport, and people's time counts for none. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { McpManager, McpManagerEvents, McpManagerOptions, ServerConfig } from '..';
import { caught, faulty, pause, textOf, withManager } from './harness';
import { programmed } from './programmed-server';

interface Message {
  id?: number;
  method?: string;
  params?: Record<string, unknown>;
}

const VERSION = '2026-07-28';
const LEGACY: Record<string, object> = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {}, prompts: {} },
    serverInfo: { name: 'slow', version: '1' },
  },
  'tools/list': { tools: [{ name: 'wait', inputSchema: { type: 'object' } }] },
  'prompts/list': { prompts: [{ name: 'p' }] },
  'tools/call': { content: [{ type: 'text', text: 'there' }] },
  'prompts/get': { messages: [] },
};
const MODERN: Record<string, object> = {
  ...LEGACY,
  'server/discover': { supportedVersions: [VERSION], capabilities: { tools: {}, prompts: {} } },
};

/** A server behind HTTP that never answers one method; `begins` sends the head of the answer at least. */
async function hangsAt(method: string, era: 'legacy' | 'modern', begins: boolean): Promise<ServerConfig> {
  const answers = era === 'modern' ? MODERN : LEGACY;
  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const message = JSON.parse(Buffer.concat(chunks).toString()) as Message;
    if (message.id === undefined) return void response.writeHead(202).end();
    if (message.method === method) {
      if (begins) response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      return;
    }
    const result = { resultType: 'complete', ...answers[message.method ?? ''] };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }));
  };
  const server = createServer((request, response) => void serve(request, response)).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { type: 'http', url: `http://127.0.0.1:${port}/mcp`, protocol: era };
}

const LIMITS: McpManagerOptions = {
  connectTimeoutMs: 900,
  requestTimeoutMs: 700,
  toolTimeoutMs: 500,
  probeTimeoutMs: 900,
  retry: { attempts: 1 },
};

describe.each(['legacy', 'modern'] as const)('F3 over HTTP, %s', (era) => {
  const first = era === 'modern' ? 'server/discover' : 'initialize';

  describe.each([
    ['before the head of the answer', false],
    ['behind the head of the answer', true],
  ])('silent %s', (_, begins) => {
    async function failure(method: string, use: (manager: McpManager) => Promise<unknown>) {
      const s = await hangsAt(method, era, begins);
      return withManager({ ...LIMITS, servers: { s } }, async (manager) => {
        const begin = Date.now();
        const error = await caught(use(manager));
        expect(Date.now() - begin).toBeLessThan(10_000);
        return error;
      });
    }

    test('connect', async () => {
      const error = await failure(first, (manager) => manager.connect('s'));
      expect(error).toMatchObject({ code: 'CONNECT_TIMEOUT', kind: 'connect', server: 's' });
    });

    test('list', async () => {
      const error = await failure('tools/list', (manager) => manager.listTools({ server: 's' }));
      expect(error).toMatchObject({ code: 'TIMEOUT', kind: 'request', server: 's' });
    });

    test('request', async () => {
      const error = await failure('prompts/get', (manager) => manager.getPrompt('mcp__s__p'));
      expect(error).toMatchObject({ code: 'TIMEOUT', kind: 'request', server: 's' });
      expect(error['elapsedMs']).toBeGreaterThanOrEqual(690);
    });

    test('call: silence, and in all', async () => {
      const silent = await failure('tools/call', (manager) => manager.callTool('mcp__s__wait'));
      expect(silent).toMatchObject({ code: 'TIMEOUT', kind: 'idle', server: 's' });
      const total = await failure('tools/call', (manager) =>
        manager.callTool('mcp__s__wait', {}, { maxTotalTimeoutMs: 300 }),
      );
      expect(total).toMatchObject({ code: 'TIMEOUT', kind: 'total', server: 's' });
    });
  });
});

describe('F1 F3 over standard streams: the manager, the server, the call', () => {
  test('the nearest limit counts', async () => {
    const servers = { a: faulty(), b: { ...faulty(), toolTimeoutMs: 60_000 } };
    await withManager({ toolTimeoutMs: 300, servers }, async (manager) => {
      const error = await caught(manager.callTool('mcp__a__sleep', { ms: 5000 }));
      expect(error).toMatchObject({ code: 'TIMEOUT', kind: 'idle', server: 'a' });
      expect(textOf(await manager.callTool('mcp__b__sleep', { ms: 900 }))).toContain('900');
      expect(textOf(await manager.callTool('mcp__a__sleep', { ms: 900 }, { timeoutMs: 60_000 }))).toContain(
        '900',
      );
      const short = await caught(manager.callTool('mcp__b__sleep', { ms: 5000 }, { timeoutMs: 200 }));
      expect(short).toMatchObject({ code: 'TIMEOUT', kind: 'idle', server: 'b' });
    });
  });

  test('F2 progress keeps a call alive though nobody listens to it; the hard limit stays', async () => {
    await withManager({ toolTimeoutMs: 700, servers: { s: faulty() } }, async (manager) => {
      const steady = { steps: 8, delayMs: 250 };
      expect(textOf(await manager.callTool('mcp__s__progress', steady))).toContain('true');
      const error = await caught(
        manager.callTool('mcp__s__progress', { steps: 1000, delayMs: 100 }, { maxTotalTimeoutMs: 1500 }),
      );
      expect(error).toMatchObject({ code: 'TIMEOUT', kind: 'total' });
    });
  });

  test('F9 the time of a person who decides counts for no clock', async () => {
    const options: McpManagerOptions = {
      permissions: {},
      toolTimeoutMs: 500,
      maxTotalTimeoutMs: 900,
      onPermission: async () => {
        await pause(1500);
        return { behavior: 'allow' };
      },
    };
    await withManager({ ...options, servers: { s: faulty() } }, async (manager) => {
      expect(textOf(await manager.callTool('mcp__s__echo', { text: 'patient' }))).toContain('patient');
    });
  });

  test('F11 a slow call holds up no other call of the same server', async () => {
    await withManager({ servers: { s: faulty() } }, async (manager) => {
      const order: string[] = [];
      const slow = manager.callTool('mcp__s__sleep', { ms: 1000 }).then(() => order.push('slow'));
      for (let index = 0; index < 20; index += 1) await manager.callTool('mcp__s__echo', { index });
      order.push('others');
      await slow;
      expect(order).toEqual(['others', 'slow']);
    });
  });

  test('CAL-01 a call that takes long is told of every 30 s', async () => {
    await withManager({ servers: { s: faulty() } }, async (manager) => {
      const told: McpManagerEvents['callProgress'][0][] = [];
      manager.on('callProgress', (event) => told.push(event));
      await manager.callTool('mcp__s__sleep', { ms: 33_000 });
      expect(told).toEqual([{ server: 's', tool: 'sleep', elapsedMs: expect.any(Number) }]);
      expect(told[0]!.elapsedMs).toBeGreaterThanOrEqual(29_900);
    });
  }, 90_000);
});

describe('lists that do not come any more', () => {
  const ABOUT = ['tools', 'prompts', 'resources'];
  /** A server that answers no list once its tool was asked to hang. */
  const hanging = () =>
    programmed(
      '2025-11-25',
      `capabilities = { tools: { listChanged: true }, prompts: { listChanged: true }, resources: { listChanged: true } };
       let hangs = false;
       const unless = (result) => () => (hangs ? undefined : result);
       on['tools/list'] = unless({ tools: [tool('t', { annotations: { readOnlyHint: true } })] });
       on['prompts/list'] = unless({ prompts: [{ name: 'p' }] });
       on['resources/list'] = unless({ resources: [{ uri: 'a:b' }] });
       on['resources/templates/list'] = unless({ resourceTemplates: [] });
       on['tools/call'] = ({ params }) => {
         if (params.arguments.hang) {
           hangs = true;
           for (const list of ${JSON.stringify(ABOUT)}) say({ method: 'notifications/' + list + '/list_changed' });
         }
         return text('there');
       };`,
    ).config;
  const healthy = () =>
    programmed(
      '2025-11-25',
      `on['tools/list'] = () => ({ tools: [tool('t')] });
    on['tools/call'] = () => text('there');`,
    ).config;
  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    const begin = Date.now();
    await work();
    return Date.now() - begin;
  };

  test('PRO-06 F3 the limits of a call hold for the list that it needs', async () => {
    await withManager({ servers: { s: hanging() }, requestTimeoutMs: 1500 }, async (manager) => {
      await manager.callTool('mcp__s__t', { hang: true });
      const limits = { timeoutMs: 600, maxTotalTimeoutMs: 600 };
      const known = await timed(async () => {
        expect(textOf(await manager.callTool('mcp__s__t', {}, limits))).toBe('there');
      });
      expect(known, 'half for the list, half for the call').toBeLessThan(900);
      const unknown = await timed(async () => {
        expect(await caught(manager.callTool('mcp__s__nope', {}, limits))).toMatchObject({ code: 'TIMEOUT' });
        expect(await caught(manager.getPrompt('mcp__s__nope', {}, limits))).toMatchObject({
          code: 'TIMEOUT',
        });
      });
      expect(unknown).toBeLessThan(1600);
      const patient = await timed(async () => {
        const error = await caught(manager.callTool('mcp__s__nope'));
        expect(error, 'whether there is one is not known').toMatchObject({ code: 'TIMEOUT', server: 's' });
      });
      expect(patient, 'read once').toBeLessThan(2500);
    });
  });

  test('LIF-03 RES-01 F11 servers that hang are waited for side by side', async () => {
    const servers = { a: hanging(), b: hanging(), c: hanging() };
    await withManager({ servers, requestTimeoutMs: 800 }, async (manager) => {
      await Promise.all(
        Object.keys(servers).map((name) => manager.callTool(`mcp__${name}__t`, { hang: true })),
      );
      for (const list of [
        () => manager.listResources(),
        () => manager.listResourceTemplates(),
        () => manager.listPrompts(),
      ]) {
        expect(await timed(list)).toBeLessThan(1600);
      }
    });
  });

  test('TOL-07 F11 callTools asks no server that none of the calls names', async () => {
    await withManager(
      { servers: { s: hanging(), good: healthy() }, requestTimeoutMs: 3000 },
      async (manager) => {
        await manager.connect();
        await manager.callTool('mcp__s__t', { hang: true });
        const took = await timed(async () => {
          const settled = await manager.callTools([{ tool: 'mcp__good__t' }, { tool: 'mcp__good__t' }]);
          expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
        });
        expect(took).toBeLessThan(1000);
      },
    );
  });
});
