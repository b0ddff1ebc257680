/**
 * In-process servers (SDK-01, F-072): the same expectations for v1 and v2 of the official TypeScript SDK, then what a
 * server of one's own may do wrong.
 */
import { Server as ServerV1 } from '@modelcontextprotocol/sdk/server/index.js';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { McpServer as McpServerV2, Server as ServerV2 } from '@modelcontextprotocol/server';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { McpManager, type JsonObject, type SdkServer, type SdkTransport } from '..';
import {
  caught,
  eventually,
  faulty,
  jsonOf,
  nextEvent,
  pause,
  runNode,
  textOf,
  withManager,
} from './harness';

type Message = { id?: number; method?: string; params?: { name?: string; arguments?: JsonObject } };
type Result = Record<string, unknown>;

/** What the tests need of a server, whichever version of the SDK made it. */
interface Subject {
  server: SdkServer & { close(): Promise<void> };
  /** Signals of the calls to `wait` that were cancelled. */
  cancelled: () => number;
  /** Adds a tool; the SDK tells that the list has changed. */
  grow: () => void;
  roots: () => Promise<unknown>;
}

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });

function v1(): Subject {
  const mcp = new McpServerV1(
    { name: 'one', version: '1.0.0' },
    { capabilities: { tools: { listChanged: true } } },
  );
  let cancelled = 0;
  mcp.registerTool('echo', { description: 'Says it again', inputSchema: { a: z.number() } }, ({ a }) =>
    text(JSON.stringify({ a })),
  );
  mcp.registerTool('steps', {}, async (extra) => {
    const token = extra._meta!.progressToken!;
    for (const progress of [1, 2, 3]) {
      await extra.sendNotification({
        method: 'notifications/progress',
        params: { progressToken: token, progress, total: 3 },
      });
    }
    return text('done');
  });
  mcp.registerTool('wait', {}, (extra) => {
    extra.signal.addEventListener('abort', () => (cancelled += 1));
    return new Promise(() => {});
  });
  mcp.registerTool('fail', {}, () => {
    throw new Error('no luck');
  });
  return {
    server: mcp,
    cancelled: () => cancelled,
    grow: () => void mcp.registerTool('late', {}, () => text('late')),
    roots: () => mcp.server.listRoots(),
  };
}

function v2(): Subject {
  const mcp = new McpServerV2(
    { name: 'two', version: '2.0.0' },
    { capabilities: { tools: { listChanged: true } } },
  );
  let cancelled = 0;
  mcp.registerTool(
    'echo',
    { description: 'Says it again', inputSchema: z.object({ a: z.number() }) },
    ({ a }) => text(JSON.stringify({ a })),
  );
  mcp.registerTool('steps', {}, async (context) => {
    const token = context.mcpReq._meta!.progressToken!;
    for (const progress of [1, 2, 3]) {
      await context.mcpReq.notify({
        method: 'notifications/progress',
        params: { progressToken: token, progress, total: 3 },
      });
    }
    return text('done');
  });
  mcp.registerTool('wait', {}, (context) => {
    context.mcpReq.signal.addEventListener('abort', () => (cancelled += 1));
    return new Promise(() => {});
  });
  mcp.registerTool('fail', {}, () => {
    throw new Error('no luck');
  });
  return {
    server: mcp,
    cancelled: () => cancelled,
    grow: () => void mcp.registerTool('late', {}, () => text('late')),
    roots: () => mcp.server.listRoots(),
  };
}

describe.each([
  ['v1', v1],
  ['v2', v2],
])('SDK-01 a server of the official SDK %s', (_, make) => {
  test('is listed and called like any other', async () => {
    await withManager({}, async (manager) => {
      const { server } = make();
      const status = await manager.addSdkServer('s', server);
      expect(status).toMatchObject({
        name: 's',
        state: 'connected',
        scope: 'dynamic',
        type: 'sdk',
        toolCount: 4,
      });
      const names = (await manager.listTools()).map(({ name }) => name);
      expect(names).toContain('mcp__s__echo');
      expect(jsonOf(await manager.callTool('mcp__s__echo', { a: 7 }))).toEqual({ a: 7 });
      expect(await manager.ping('s')).toBeGreaterThanOrEqual(0);
      expect(await caught(manager.callTool('mcp__s__fail'))).toMatchObject({
        code: 'TOOL_ERROR',
        server: 's',
      });
      expect(jsonOf(await manager.callTool('mcp__s__echo', { a: 8 }))).toEqual({ a: 8 });
    });
  });

  test('reports progress', async () => {
    await withManager({}, async (manager) => {
      await manager.addSdkServer('s', make().server);
      const seen: number[] = [];
      const result = await manager.callTool(
        'mcp__s__steps',
        {},
        { onProgress: ({ progress }) => seen.push(progress) },
      );
      expect(textOf(result)).toBe('done');
      expect(seen).toEqual([1, 2, 3]);
    });
  });

  test('learns of a cancellation', async () => {
    await withManager({}, async (manager) => {
      const { server, cancelled } = make();
      await manager.addSdkServer('s', server);
      const controller = new AbortController();
      const call = caught(manager.callTool('mcp__s__wait', {}, { signal: controller.signal }));
      await pause(100);
      controller.abort();
      expect((await call).name).toBe('AbortError');
      await eventually(() => cancelled() === 1);
      expect(await caught(manager.callTool('mcp__s__wait', {}, { timeoutMs: 100 }))).toMatchObject({
        code: 'TIMEOUT',
      });
      await eventually(() => cancelled() === 2);
    });
  });

  test('tells of a changed list', async () => {
    await withManager({}, async (manager) => {
      const { server, grow } = make();
      await manager.addSdkServer('s', server);
      const changed = nextEvent(manager, 'toolsChanged');
      grow();
      await changed;
      const names = (await manager.listTools()).map(({ name }) => name);
      expect(names).toContain('mcp__s__late');
    });
  });

  test('may ask for the roots', async () => {
    await withManager({ roots: ['file:///here'] }, async (manager) => {
      const { server, roots } = make();
      await manager.addSdkServer('s', server);
      expect(await roots()).toMatchObject({ roots: [{ uri: 'file:///here' }] });
    });
  });

  test('is connected anew after reconnect, restart, disconnect and its own close', async () => {
    await withManager({ retry: { initialDelayMs: 20 } }, async (manager) => {
      const { server } = make();
      const works = async (a: number) =>
        expect(jsonOf(await manager.callTool('mcp__s__echo', { a }))).toEqual({ a });
      await manager.addSdkServer('s', server);
      await manager.reconnect('s');
      await works(1);
      await manager.restart('s');
      await works(2);
      await manager.disconnect('s');
      await works(3);
      const lost = nextEvent(manager, 'status', ({ state }) => state !== 'connected');
      await server.close();
      expect((await lost).code).toBe('CONNECTION_LOST');
      await works(4);
    });
  });

  test('is free again when it is removed and when the manager is closed', async () => {
    const { server } = make();
    const manager = new McpManager({ config: false });
    await manager.addSdkServer('s', server);
    await manager.removeServer('s');
    expect(manager.status('s')).toBeUndefined();
    expect((await manager.addSdkServer('t', server)).state).toBe('connected');
    await manager.close();
    await withManager({}, async (other) => {
      expect((await other.addSdkServer('s', server)).state).toBe('connected');
    });
  });
});

describe('rules hold for in-process servers too', () => {
  test('POL-08 permission is asked, and a refusal reaches no server', async () => {
    const { server } = v1();
    let asked = 0;
    const manager = new McpManager({
      config: false,
      permissions: { deny: ['mcp__s__wait'] },
      onPermission: () => {
        asked += 1;
        return { behavior: 'deny' };
      },
    });
    await manager.addSdkServer('s', server);
    expect((await caught(manager.callTool('mcp__s__echo', { a: 1 }))).code).toBe('PERMISSION_DENIED');
    expect((await caught(manager.callTool('mcp__s__wait'))).code).toBe('PERMISSION_DENIED');
    expect(asked).toBe(1);
    await manager.close();
  });

  test('NAM-07 reserved names are allowed, taken ones are not', async () => {
    await withManager({}, async (manager) => {
      expect((await manager.addSdkServer('computer-use', v1().server)).state).toBe('connected');
      const again = await caught(manager.addSdkServer('computer-use', v1().server));
      expect(again.code).toBe('SERVER_EXISTS');
      expect(textOf(await manager.callTool('mcp__computer-use__steps'))).toBe('done');
    });
  });

  test('an entry of type sdk is invalid until its instance is handed over', async () => {
    await withManager(
      { servers: { s: { type: 'sdk', name: 's', tools: { include: ['echo'] } } } },
      async (manager) => {
        const report = await manager.load();
        expect(JSON.stringify(report.errors)).toContain('SDK_INSTANCE_MISSING');
        expect((await caught(manager.connect('s'))).code).toBe('CONFIG_INVALID');
        expect((await manager.addSdkServer('s', v1().server)).state).toBe('connected');
      },
    );
  });

  test('options of the server count: tools, timeouts, disabled', async () => {
    await withManager({}, async (manager) => {
      await manager.addSdkServer('a', v1().server, { tools: { include: ['wait'] }, toolTimeoutMs: 80 });
      expect((await manager.listTools()).map(({ name }) => name)).toEqual(['mcp__a__wait']);
      expect((await caught(manager.callTool('mcp__a__wait'))).code).toBe('TIMEOUT');
      expect((await manager.addSdkServer('b', v1().server, { disabled: true })).state).toBe('disabled');
      const wrong = await caught(manager.addSdkServer('c', v1().server, { toolTimeoutMs: 'x' as never }));
      expect(wrong.code).toBe('CONFIG_INVALID');
    });
  });

  test.each([[undefined], [null], ['x'], [{}], [{ connect: 1 }]])('%j is no server', async (value) => {
    const manager = new McpManager({ config: false });
    const error = await caught(manager.addSdkServer('s', value as never));
    expect(error).toBeInstanceOf(TypeError);
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', parameter: 'server' });
    await manager.close();
  });

  test('one instance serves one name', async () => {
    await withManager({}, async (manager) => {
      const { server } = v1();
      await manager.addSdkServer('a', server);
      const second = await manager.addSdkServer('b', server);
      expect(second).toMatchObject({ code: 'CONNECT_FAILED' });
      expect(second.reason).toContain('Already connected');
      expect(manager.status('a')?.state).toBe('connected');
    });
  });
});

/** Low-level servers whose tool `odd` answers with whatever it is told, past every check of the SDK. */
const rawServers: [string, (odd: () => unknown) => SdkServer][] = [
  [
    'v1',
    (odd) => {
      const server = new ServerV1({ name: 'raw', version: '1' }, { capabilities: { tools: {} } });
      const inputSchema = { type: 'object' as const };
      server.setRequestHandler(ListToolsRequestSchema, () => ({
        tools: ['odd', 'even'].map((name) => ({ name, inputSchema })),
      }));
      server.setRequestHandler(CallToolRequestSchema, ({ params }) =>
        params.name === 'odd' ? (odd() as never) : text('even'),
      );
      return server;
    },
  ],
  [
    'v2',
    (odd) => {
      const server = new ServerV2({ name: 'raw', version: '2' }, { capabilities: { tools: {} } });
      const inputSchema = { type: 'object' as const };
      server.setRequestHandler('tools/list', () => ({
        tools: ['odd', 'even'].map((name) => ({ name, inputSchema })),
      }));
      server.setRequestHandler('tools/call', ({ params }) =>
        params.name === 'odd' ? (odd() as never) : text('even'),
      );
      return server;
    },
  ],
  ['own', (odd) => new OwnServer({ odd: () => odd() as Result, even: () => text('even') })],
];

/** A server written by hand: answers at once, checks nothing. */
class OwnServer implements SdkServer {
  transport: SdkTransport | undefined;
  connects = 0;
  closes = 0;
  received: Message[] = [];

  constructor(readonly tools: Record<string, (args: JsonObject) => Result | Promise<Result>>) {}

  async connect(transport: SdkTransport): Promise<void> {
    this.connects += 1;
    this.transport = transport;
    Object.assign(transport, {
      onmessage: (message: Message) => this.take(message),
      onclose: () => (this.closes += 1),
    });
    await transport.start();
  }

  take(message: Message): void {
    this.received.push(message);
    if (message.id === undefined || message.method === undefined) return;
    const reply = (result: unknown) => this.transport!.send({ jsonrpc: '2.0', id: message.id, result });
    if (message.method === 'initialize') {
      void reply({
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'own', version: '1' },
      });
    } else if (message.method === 'tools/list') {
      const tools = Object.keys(this.tools).map((name) => ({ name, inputSchema: { type: 'object' } }));
      void reply({ tools });
    } else if (message.method === 'tools/call') {
      const result = this.tools[message.params!.name!](message.params!.arguments ?? {});
      void Promise.resolve(result)
        .then(reply)
        .catch(() => {});
    } else {
      void reply({});
    }
  }
}

describe.each(rawServers)('F-072 a raw server (%s) that answers with', (_, make) => {
  const cycle: Record<string, unknown> = { content: [] };
  cycle['self'] = cycle;
  const odd: [string, () => unknown][] = [
    ['a BigInt', () => ({ content: [{ type: 'text', text: 10n }] })],
    ['a function', () => ({ content: [{ type: 'text', text: () => 'x' }] })],
    ['a function inside', () => ({ content: [], structuredContent: { f: () => 1 } })],
    ['a symbol', () => ({ content: [{ type: 'text', text: Symbol('x') }] })],
    ['a cycle', () => cycle],
    [
      'a getter that throws',
      () => ({
        content: [],
        get structuredContent() {
          throw new Error('not today');
        },
      }),
    ],
    ['an exception', () => raise(new Error('broken'))],
    ['an exception without text', () => raise(Object.create(null))],
    ['nothing', () => undefined],
  ];

  test.each(odd)('%s fails that call alone', async (_name, answer) => {
    await withManager({}, async (manager) => {
      await manager.addSdkServer('s', make(answer));
      const [error, fine] = await Promise.all([
        caught(manager.callTool('mcp__s__odd', {}, { timeoutMs: 5000 })),
        manager.callTool('mcp__s__even'),
      ]);
      expect(textOf(fine)).toBe('even');
      expect(['MESSAGE_INVALID', 'RESULT_INVALID', 'RPC_ERROR', 'TOOL_ERROR']).toContain(error.code);
      expect(textOf(await manager.callTool('mcp__s__even'))).toBe('even');
      expect(manager.status('s')?.state).toBe('connected');
    });
  });
});

function raise(error: unknown): never {
  throw error;
}

describe('F-072 a server of one’s own', () => {
  test('messages arrive as objects, not as copies of text', async () => {
    await withManager({}, async (manager) => {
      const server = new OwnServer({ echo: (args) => text(JSON.stringify(args)) });
      await manager.addSdkServer('s', server);
      const args = { text: 'é\u2028"\\', list: [1, 2.5, null], __proto__: { x: 1 } };
      expect(jsonOf(await manager.callTool('mcp__s__echo', args))).toEqual({
        text: 'é\u2028"\\',
        list: [1, 2.5, null],
      });
      expect(server.received.every((message) => typeof message === 'object')).toBe(true);
      expect(server.connects).toBe(1);
    });
  });

  test('that blocks the thread times out, and only its call', async () => {
    await withManager({}, async (manager) => {
      const block = () => {
        const end = Date.now() + 400;
        while (Date.now() < end);
        return text('late');
      };
      await manager.addSdkServer('s', new OwnServer({ block, quick: () => text('quick') }));
      const [error, quick] = await Promise.all([
        caught(manager.callTool('mcp__s__block', {}, { timeoutMs: 100 })),
        manager.callTool('mcp__s__quick'),
      ]);
      expect(error.code).toBe('TIMEOUT');
      expect(textOf(quick)).toBe('quick');
    });
  });

  test.each<[string, SdkServer, string]>([
    ['throws', { connect: () => raise(new Error('not me')) }, 'not me'],
    ['rejects', { connect: () => Promise.reject(new Error('not now')) }, 'not now'],
  ])('that %s when it is connected says why', async (_name, server, why) => {
    await withManager({}, async (manager) => {
      const status = await manager.addSdkServer('s', server);
      expect(status.code).toBe('CONNECT_FAILED');
      expect(status.reason).toContain(why);
      const error = await caught(manager.reconnect('s'));
      expect(error).toMatchObject({ name: 'McpConnectionError', code: 'CONNECT_FAILED', server: 's' });
    });
  });

  test('CONNECT_TIMEOUT that never becomes ready', async () => {
    await withManager({ connectTimeoutMs: 200 }, async (manager) => {
      const status = await manager.addSdkServer('s', { connect: () => new Promise(() => {}) });
      expect(status.code).toBe('CONNECT_TIMEOUT');
    });
  });

  test('MESSAGE_TOO_LARGE above maxMessageBytes; large and not ASCII below it', async () => {
    await withManager({ maxMessageBytes: 2_000_000 }, async (manager) => {
      const server = new OwnServer({ make: ({ size }) => text('é'.repeat(Number(size))) });
      await manager.addSdkServer('s', server);
      expect(textOf(await manager.callTool('mcp__s__make', { size: 500_000 }))).toBe('é'.repeat(500_000));
      expect((await caught(manager.callTool('mcp__s__make', { size: 1_500_000 }))).code).toBe(
        'MESSAGE_TOO_LARGE',
      );
      expect(textOf(await manager.callTool('mcp__s__make', { size: 1 }))).toBe('é');
      const sent = 'ß'.repeat(300_000);
      await manager.callTool('mcp__s__make', { size: 1, sent });
      expect(server.received.at(-1)!.params!.arguments!['sent']).toBe(sent);
    });
  });

  test('onclose is called once, and send fails afterwards', async () => {
    const server = new OwnServer({});
    const manager = new McpManager({ config: false });
    await manager.addSdkServer('s', server);
    await manager.close();
    expect([server.connects, server.closes]).toEqual([1, 1]);
    expect((await caught(server.transport!.send({}))).message).toContain('closed');
    await server.transport!.close();
    expect(server.closes).toBe(1);
  });

  test('a hundred calls at once are each answered', async () => {
    await withManager({}, async (manager) => {
      await manager.addSdkServer('s', new OwnServer({ echo: (args) => text(JSON.stringify(args)) }));
      const calls = Array.from({ length: 100 }, (_, n) => manager.callTool('mcp__s__echo', { n }));
      expect((await Promise.all(calls)).map((result) => jsonOf(result).n)).toEqual(calls.map((_, n) => n));
    });
  });

  test('is told of the end of a manager that was forgotten', async () => {
    const source = `
      const { McpManager } = require('./index.js');
      const { McpServer } = require('@modelcontextprotocol/sdk/server/mcp.js');
      const server = new McpServer({ name: 's', version: '1' });
      server.registerTool('t', {}, async () => ({ content: [] }));
      server.server.onclose = () => { console.log('closed'); process.exit(); };
      const add = async () => void (await new McpManager({ config: false }).addSdkServer('s', server));
      add().then(() => setInterval(gc, 50));
    `;
    expect(await runNode(['--expose-gc', '-e', source], 15_000)).toMatchObject({
      code: 0,
      stdout: 'closed\n',
    });
  });

  test('LIF-08 never keeps the process alive by itself', async () => {
    const source = `
      const { McpManager } = require('./index.js');
      const { McpServer } = require('@modelcontextprotocol/sdk/server/mcp.js');
      const server = new McpServer({ name: 's', version: '1' });
      server.registerTool('t', {}, async () => ({ content: [{ type: 'text', text: 'answered' }] }));
      const manager = new McpManager({ config: false, permissions: { allow: ['mcp__*'] } });
      manager.addSdkServer('s', server).then(() => manager.callTool('mcp__s__t')).then((result) => {
        console.log(result.content[0].text);
      });
    `;
    const ended = await runNode(['-e', source], 15_000);
    expect(ended).toMatchObject({ code: 0, stdout: 'answered\n', stderr: '' });
  });
});

describe('NAM-06 sdkToolPrefix: false', () => {
  const named = (...tools: string[]) => {
    const mcp = new McpServerV1({ name: 'named', version: '1' });
    for (const name of tools) mcp.registerTool(name, {}, () => text(`${tools.join()} ${name}`));
    return mcp;
  };

  test('tools of in-process servers keep their names, those of others do not', async () => {
    const options = { sdkToolPrefix: false, servers: { s: faulty() }, permissions: {} };
    const asked: string[] = [];
    const onPermission = ({ fullName, tool }: { fullName: string; tool: string }) => {
      asked.push(`${fullName} ${tool}`);
      return { behavior: 'allow' as const };
    };
    await withManager({ ...options, permissions: { allow: ['Write'] }, onPermission }, async (manager) => {
      await manager.addSdkServer('own', named('Write', 'read file', 'mcp__s__echo'));
      const tools = (await manager.listTools()).filter(({ mcpInfo }) => mcpInfo.serverName === 'own');
      expect(tools.map(({ name, mcpInfo }) => [name, mcpInfo.toolName])).toEqual([
        ['Write', 'Write'],
        ['mcp__own__mcp__s__echo', 'mcp__s__echo'],
        ['read_file', 'read file'],
      ]);
      const result = await manager.callTool('Write');
      expect(result).toMatchObject({ server: 'own', tool: 'Write', fullName: 'mcp__own__Write' });
      await manager.callTool('mcp__own__Write');
      await manager.callTool({ server: 'own', tool: 'read file' });
      expect(asked, 'an allow rule for a built-in covers no tool of a server').toEqual([
        'mcp__own__Write Write',
        'mcp__own__Write Write',
        'mcp__own__read_file read file',
      ]);
      expect((await manager.listTools({ server: 's' }))[0].name).toMatch(/^mcp__s__/);
      expect(jsonOf(await manager.callTool('mcp__s__echo', { text: 'x' }))).toEqual({ text: 'x' });
    });
    await withManager({ ...options, permissions: { deny: ['mcp__own__Write'] } }, async (manager) => {
      await manager.addSdkServer('own', named('Write'));
      expect(await manager.listTools({ server: 'own' })).toEqual([]);
      expect(await caught(manager.callTool('Write'))).toMatchObject({
        code: 'PERMISSION_DENIED',
        layer: 'rule',
      });
    });
  });

  test('NAM-04 of two with one name the second keeps its full name, and both are told', async () => {
    await withManager({ sdkToolPrefix: false }, async (manager) => {
      const found: string[] = [];
      manager.on('diagnostic', ({ code, message }) => {
        if (code === 'NAME_COLLISION') found.push(message);
      });
      await manager.addSdkServer('b', named('same'));
      await manager.addSdkServer('a', named('same', 'a_only'));
      const names = (await manager.listTools()).map(({ name }) => name);
      expect(names.sort()).toEqual(['a_only', 'mcp__b__same', 'same']);
      expect(textOf(await manager.callTool('same'))).toBe('same,a_only same');
      await eventually(() => found.length > 0);
      expect(found[0]).toContain('mcp__a__same');
      expect(found[0]).toContain('mcp__b__same');
    });
  });

  test('the variable CLAUDE_AGENT_SDK_MCP_NO_PREFIX does the same; the option wins', async () => {
    const { stdout } = await runNode([
      '-e',
      `const { McpManager } = require('.');
       const { McpServer } = require('@modelcontextprotocol/sdk/server/mcp.js');
       (async () => {
         const names = [];
         for (const [value, sdkToolPrefix] of [['1'], ['true', true], ['0'], ['false'], ['', false]]) {
           process.env.CLAUDE_AGENT_SDK_MCP_NO_PREFIX = value;
           const manager = new McpManager({ config: false, sdkToolPrefix });
           const server = new McpServer({ name: 'x', version: '1' });
           server.registerTool('t', {}, () => ({ content: [] }));
           await manager.addSdkServer('s', server);
           names.push((await manager.listTools())[0].name);
           await manager.close();
         }
         console.log(names.join());
       })();`,
    ]);
    expect(stdout.trim()).toBe('t,mcp__s__t,mcp__s__t,mcp__s__t,t');
  });
});
