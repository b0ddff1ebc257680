/** BEY-09: the zoo, which ships; and this package as one of the hosts that are tested against it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import * as zoo from 'mcp-switchboard/zoo';
import { McpManager, type McpManagerOptions } from '..';
import { caught, DEFAULTS, gone, root, runNode, thrown } from './harness';

/** What becomes of connecting, and of a call of the first tool; a code, or what was answered. */
const EXPECTED: Record<string, [connected: string, called?: string]> = {
  correct: ['connected', 'answered'],
  silent: ['CONNECT_TIMEOUT'],
  exits: ['SERVER_EXITED'],
  page: ['MESSAGE_INVALID'],
  'http-answer': ['MESSAGE_INVALID'],
  noise: ['connected', 'answered'],
  banner: ['connected', 'answered'],
  'content-length': ['CONNECT_TIMEOUT'],
  'string-ids': ['connected', 'answered'],
  'duplicate-replies': ['connected', 'answered'],
  reorder: ['connected', 'answered'],
  late: ['connected', 'answered'],
  'half-answer': ['connected', 'SERVER_EXITED'],
  halves: ['connected', 'answered'],
  huge: ['connected', 'answered'],
  'stops-reading': ['connected', 'TIMEOUT'],
  'closes-output': ['connected', 'CONNECTION_LOST'],
  'ignores-end': ['connected', 'answered'],
  'ignores-signals': ['connected', 'answered'],
  grandchild: ['connected', 'answered'],
  'flood-of-errors': ['connected', 'answered'],
  'old-version': ['connected', 'answered'],
  'unknown-version': ['VERSION_UNSUPPORTED'],
  'refuses-handshake': ['CONNECT_FAILED'],
  'strict-first': ['connected', 'answered'],
  'probe-silent': ['connected', 'answered'],
  asks: ['connected', 'answered'],
  'list-fails': ['connected', 'RPC_ERROR'],
  'list-fails-later': ['connected', 'answered'],
  'list-silent': ['connected', 'TIMEOUT'],
  'same-cursor': ['connected', 'LIST_LIMIT'],
  'endless-pages': ['connected', 'LIST_LIMIT'],
  'bad-tools': ['connected', 'answered'],
  'hidden-words': ['connected', 'answered'],
  'rug-pull': ['connected', 'answered'],
  stateless: ['connected', 'answered'],
  'stateless-deaf': ['connected', 'answered'],
  tasks: ['connected', 'answered'],
  'stateless-tasks': ['connected', 'answered'],
  'http-page': ['MESSAGE_INVALID'],
  'http-not-found': ['HTTP_STATUS'],
  'http-busy': ['CONNECT_TIMEOUT'],
  'http-login': ['AUTH_REQUIRED'],
  'http-redirects-away': ['REDIRECT_REFUSED'],
  'http-silent': ['CONNECT_TIMEOUT'],
  'http-call-silent': ['connected', 'TIMEOUT'],
  'http-call-chatter': ['connected', 'TIMEOUT'],
  'http-call-cut': ['connected', 'CONNECTION_LOST'],
  'http-endless-event': ['connected', 'MESSAGE_TOO_LARGE'],
  'http-wrong-id': ['connected', 'MESSAGE_INVALID'],
  'http-forgets': ['connected', 'SESSION_EXPIRED'],
};

/** Starts well above what a busy machine takes; what never comes is given up soon. */
const LIMITS: McpManagerOptions = {
  ...DEFAULTS,
  retry: { attempts: 0 },
  maxMessageBytes: 4 << 20,
  maxListPages: 20,
  probeTimeoutMs: 1000,
};
const SHORT: McpManagerOptions = { connectTimeoutMs: 2000, requestTimeoutMs: 2000, toolTimeoutMs: 2000 };

/** The code of an error; of the reason, where the one try was not repeated. */
const codeOf = ({ code, attempts, cause }: Awaited<ReturnType<typeof caught>>): string =>
  code === 'RETRIES_EXHAUSTED' && attempts === 1 && cause instanceof Error
    ? String((cause as Error & { code?: string }).code)
    : String(code);

async function visit(manager: McpManager): Promise<[string, string?]> {
  try {
    await manager.connect('s');
  } catch (error) {
    return [codeOf(error as never)];
  }
  try {
    const tools = await manager.listTools({ server: 's' });
    const tool = tools.find(({ mcpInfo }) => /^(echo|result)$/.test(mcpInfo.toolName)) ?? tools[0];
    // Whatever its name, all of them take one of these.
    await manager.callTool(tool.name, { text: 'x', ms: 20, bytes: 500, steps: 1 }, { toolErrors: 'return' });
    return ['connected', 'answered'];
  } catch (error) {
    return ['connected', codeOf(error as never)];
  }
}

describe('BEY-09 this host and the zoo', () => {
  test.concurrent.each(zoo.list().map(({ name, transport }) => [name, transport] as const))(
    'BEY-09 %s',
    async (name, transport) => {
      const behind = transport === 'http' ? await zoo.start(name) : undefined;
      const config = behind === undefined ? zoo.command(name) : { type: 'http' as const, url: behind.url };
      const wanted = EXPECTED[name];
      const waits = /TIMEOUT/.test(wanted.join());
      const manager = new McpManager({ ...LIMITS, ...(waits && SHORT), servers: { s: config } });
      const pids = new Set<number>();
      manager.on('status', ({ pid }) => pid !== undefined && pids.add(pid));
      try {
        expect(await visit(manager)).toEqual(wanted);
        if (behind !== undefined) expect(behind.requests().length).toBeGreaterThan(0);
      } finally {
        await manager.close();
        await behind?.close();
      }
      for (const pid of pids) await gone(pid);
    },
    30_000,
  );

  test('BEY-09 the rug-pull is told', async () => {
    const manager = new McpManager({ ...LIMITS, servers: { s: zoo.command('rug-pull') } });
    try {
      await manager.connect('s');
      const changed = new Promise((resolve) => manager.once('toolDefinitionChanged', resolve));
      const noticed = new Promise((resolve) => manager.once('toolsChanged', resolve));
      await manager.callTool('mcp__s__count');
      await noticed;
      await manager.listTools({ server: 's' });
      expect(await changed).toMatchObject({
        server: 's',
        tool: 'count',
        after: { description: expect.stringContaining('password') },
      });
    } finally {
      await manager.close();
    }
  });
});

describe('BEY-09 the entry', () => {
  test('BEY-09 every animal has a name of its own, what it does and a rule, as docs/zoo.md says', () => {
    const animals = zoo.list();
    expect(animals.map(({ name }) => name).sort()).toEqual(Object.keys(EXPECTED).sort());
    const rows = readFileSync(join(root, 'docs', 'zoo.md'), 'utf8').split('\n');
    for (const { name, does, rule } of animals)
      expect(rows, name).toContain(`| \`${name}\` | ${does} | ${rule} |`);
    expect(rows.filter((row) => row.startsWith('| `'))).toHaveLength(animals.length);
  });

  test('BEY-09 a wrong name says which there are', () => {
    for (const [call, words] of [
      [() => zoo.command('sillent'), /"sillent".*silent, /],
      [() => zoo.command('http-page'), /start\(\)/],
    ] as const)
      expect(thrown(call)).toMatchObject({
        code: 'INVALID_ARGUMENT',
        parameter: 'name',
        message: expect.stringMatching(words),
      });
  });

  test('BEY-09 start() refuses a program, and gives a server that ends', async () => {
    expect(await caught(zoo.start('silent'))).toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('command()'),
    });
    const server = await zoo.start('http-page');
    expect(new URL(server.url).hostname).toBe('127.0.0.1');
    expect((await fetch(server.url)).headers.get('content-type')).toBe('text/html');
    expect(server.requests()).toEqual([{ verb: 'GET', path: '/mcp', method: undefined }]);
    await server.close();
    await expect(fetch(server.url)).rejects.toThrow('fetch failed');
  });

  test('BEY-09 one module for import and require, without the native part, and nothing keeps the process', async () => {
    const source = `
      import { createRequire } from 'node:module';
      import * as zoo from 'mcp-switchboard/zoo';
      const require = createRequire(${JSON.stringify(join(root, 'x.js'))});
      const same = require('mcp-switchboard/zoo').list === zoo.list;
      const native = Object.keys(require.cache).filter((file) => file.endsWith('.node'));
      await (await zoo.start('http-page')).close();
      console.log(JSON.stringify([same, native, Object.keys(zoo.command('silent'))]));`;
    const ended = await runNode(['--input-type=module', '-e', source]);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(ended.stdout)).toEqual([true, [], ['command', 'args']]);
  });
});
