import { describe, expect, test } from 'vitest';
import * as everything from '..';
import { McpManager, type McpManagerOptions } from '..';
import { caught, eventually, faulty, thrown, withFaulty, withManager } from './harness';

// A program without types may hand over anything.
const anything = <T>(value: unknown): T => value as T;

function expectInvalid(error: unknown, parameter: string) {
  expect(error).toBeInstanceOf(TypeError);
  expect(error).toMatchObject({ name: 'TypeError', code: 'INVALID_ARGUMENT' });
  expect((error as Error).message).toContain(parameter);
}

describe('the constructor', () => {
  const wrong: [string, unknown][] = [
    ['cwd', 7],
    ['servers', 'x'],
    ['servers', []],
    ['permissions', 'mcp__*'],
    ['roots', 'x'],
    ['roots', [1]],
    // mcp:ROOT-03 what is no directory of this machine is no root.
    ['roots', ['https://a.example/x']],
    ['tls', 'strict'],
    ['retry', 'often'],
    ['connectTimeoutMs', '500'],
    ['connectTimeoutMs', -1],
    ['requestTimeoutMs', Number.NaN],
    ['toolTimeoutMs', Number.POSITIVE_INFINITY],
    ['maxTotalTimeoutMs', {}],
    ['permissionTimeoutMs', '1'],
    ['maxMessageBytes', -5],
    ['maxQueuedBytes', 'lots'],
    ['maxToolNameLength', 'x'],
    ['toolErrors', 'maybe'],
    ['sanitizeResults', 'yes'],
    ['stderr', 'file'],
    ['start', 'now'],
    ['onPermission', 'allow'],
    ['keepAlive', 'yes'],
    ['recordTo', ''],
    ['toolConcurrency', 0],
    ['strictOutput', 1],
    ['clientInfo', 'me'],
    ['reservedServerNames', 'ide'],
    ['localConcurrency', 0],
    ['remoteConcurrency', 'all'],
    ['shellEnv', 'always'],
    ['http', 5],
    ['shutdown', 5],
    ['retry', 'often'],
    ['outputDir', 5],
    ['config', 'yes'],
  ];
  test.each(wrong)('INVALID_ARGUMENT names the option %s (%j)', (option, value) => {
    const options = anything<McpManagerOptions>({ config: false, [option]: value });
    expectInvalid(
      thrown(() => new McpManager(options)),
      option,
    );
  });

  test.each([[null], [7], ['x']])('INVALID_ARGUMENT: options %j', (options) => {
    expectInvalid(
      thrown(() => new McpManager(anything<McpManagerOptions>(options))),
      'options',
    );
  });
});

describe('methods', () => {
  type Wrong = [string, string, (manager: McpManager) => unknown];
  const wrong: Wrong[] = [
    ['callTool', 'tool', (manager) => manager.callTool(anything(7))],
    ['callTool', 'tool', (manager) => manager.callTool(anything({ server: 's' }))],
    ['callTool', 'tool', (manager) => manager.callTool(anything(undefined))],
    ['callTool', 'args', (manager) => manager.callTool('mcp__s__echo', anything('x'))],
    ['callTool', 'args', (manager) => manager.callTool('mcp__s__echo', [])],
    ['callTool', 'args', (manager) => manager.callTool('mcp__s__echo', anything(null))],
    ['callTool', 'options', (manager) => manager.callTool('mcp__s__echo', {}, anything(5))],
    ['callTool', 'signal', (manager) => manager.callTool('mcp__s__echo', {}, anything({ signal: {} }))],
    [
      'callTool',
      'timeoutMs',
      (manager) => manager.callTool('mcp__s__echo', {}, anything({ timeoutMs: '5' })),
    ],
    ['callTool', 'timeoutMs', (manager) => manager.callTool('mcp__s__echo', {}, { timeoutMs: -5 })],
    [
      'callTool',
      'onProgress',
      (manager) => manager.callTool('mcp__s__echo', {}, anything({ onProgress: true })),
    ],
    ['callTool', 'meta', (manager) => manager.callTool('mcp__s__echo', {}, anything({ meta: 'x' }))],
    ['callTools', 'calls', (manager) => manager.callTools(anything('x'))],
    ...[0, 'many', Number.NaN].map((concurrency): Wrong => [
      'callTools',
      'options.concurrency',
      (manager) => manager.callTools([{ tool: 'mcp__s__echo' }], anything({ concurrency })),
    ]),
    ...[{ type: 'prompt', name: 'x' }, { type: 'ref/prompt' }, { type: 'ref/resource', name: 'x' }].map(
      (ref): Wrong => [
        'complete',
        'ref',
        (manager) => manager.complete('s', anything(ref), { name: 'a', value: '' }),
      ],
    ),
    [
      'complete',
      'argument.value',
      (manager) => manager.complete('s', { type: 'ref/prompt', name: 'x' }, anything({ name: 'a' })),
    ],
    ['connect', 'server', (manager) => manager.connect(anything(7))],
    ['addServer', 'name', (manager) => manager.addServer(anything(7), faulty())],
    ['addServer', 'config', (manager) => manager.addServer('x', anything('y'))],
    ['removeServer', 'name', (manager) => manager.removeServer(anything(undefined))],
    ['setServerEnabled', 'enabled', (manager) => manager.setServerEnabled('s', anything('yes'))],
    ['readResource', 'uri', (manager) => manager.readResource('s', anything(7))],
    ['getPrompt', 'name', (manager) => manager.getPrompt(anything(7))],
    ['getPrompt', 'args', (manager) => manager.getPrompt('mcp__s__greet', anything(7))],
    ['runSlashCommand', 'line', (manager) => manager.runSlashCommand(anything(7))],
    ['setRoots', 'roots', (manager) => manager.setRoots(anything('x'))],
    ['setRoots', 'roots', (manager) => manager.setRoots(['/here', 'https://a.example/x'])],
    ['setLogLevel', 'level', (manager) => manager.setLogLevel('s', anything(7))],
    ['request', 'method', (manager) => manager.request('s', anything(7))],
    ['close', 'mode', (manager) => manager.close(anything({ mode: 'softly' }))],
    ['status', 'server', (manager) => manager.status(anything(7))],
  ];
  test.each(wrong)('INVALID_ARGUMENT %s names %s (%#)', async (_, parameter, body) => {
    await withFaulty([], async (manager) => {
      const error = await caught(Promise.resolve().then(() => body(manager)));
      expectInvalid(error, parameter);
    });
  });

  test('Q9 F-072 arguments that are no JSON: a TypeError, and the manager lives', async () => {
    await withFaulty([], async (manager) => {
      const cyclic: Record<string, unknown> = {};
      cyclic.self = cyclic;
      expectInvalid(await caught(manager.callTool('mcp__s__echo', cyclic)), 'args');
      expectInvalid(await caught(manager.callTool('mcp__s__echo', { n: 1n })), 'args');
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
    });
  });

  test('B-087 arguments nested 200,000 deep: an error, no crash', async () => {
    await withFaulty([], async (manager) => {
      let deep: object = {};
      for (let level = 0; level < 200_000; level += 1) deep = { deep };
      const error = await caught(manager.callTool('mcp__s__echo', deep));
      expect(error.code).toBe('INVALID_ARGUMENT');
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
    });
  });

  test('B-087 arguments nested 129 deep are refused, 100 deep are sent', async () => {
    await withFaulty([], async (manager) => {
      const nested = (levels: number) =>
        JSON.parse('{"a":'.repeat(levels) + '1' + '}'.repeat(levels)) as object;
      expect((await manager.callTool('mcp__s__echo', nested(100))).isError).toBe(false);
      expect((await caught(manager.callTool('mcp__s__echo', nested(140)))).code).toBe('INVALID_ARGUMENT');
    });
  });
});

describe('unknown names', () => {
  test('SERVER_UNKNOWN with suggestions', async () => {
    await withFaulty([], async (manager) => {
      await manager.addServer('github', faulty(), { connect: false });
      for (const attempt of [
        manager.callTool('mcp__githb__echo'),
        manager.callTool({ server: 'githb', tool: 'echo' }),
        manager.connect('githb'),
        manager.ping('githb'),
        manager.restart('githb'),
      ]) {
        const error = await caught(attempt);
        expect(error).toMatchObject({ code: 'SERVER_UNKNOWN', name: 'McpServerError' });
        expect(error.suggestions?.some((name) => name.includes('github'))).toBe(true);
      }
      expect(manager.status('githb')).toBeUndefined();
    });
  });

  test('TOOL_UNKNOWN with suggestions, and nothing is sent', async () => {
    await withFaulty([], async (manager) => {
      const error = await caught(manager.callTool('mcp__s__ecko'));
      expect(error).toMatchObject({ code: 'TOOL_UNKNOWN', name: 'McpServerError', server: 's' });
      expect(error.suggestions).toContain('mcp__s__echo');
      expect((await caught(manager.callTool({ server: 's', tool: 'ecko' }))).code).toBe('TOOL_UNKNOWN');
      expect(
        JSON.parse(
          (await manager.callTool('mcp__s__received')).content
            .map((block) => (block.type === 'text' ? block.text : ''))
            .join(''),
        ).filter((method: string) => method === 'tools/call'),
      ).toHaveLength(1);
    });
  });

  test.each(['', 'echo', 'mcp__', '__proto__', 'constructor', 'mcp____proto____x', 'x'.repeat(100_000)])(
    'a name that is none: %#',
    async (name) => {
      await withFaulty([], async (manager) => {
        const error = await caught(manager.callTool(name));
        expect(['SERVER_UNKNOWN', 'TOOL_UNKNOWN', 'INVALID_ARGUMENT']).toContain(error.code);
        expect(error.message.length).toBeLessThan(2000);
      });
    },
  );
});

describe('pure functions', () => {
  const wrong: [string, string, () => unknown][] = [
    ['normalizeName', 'name', () => everything.normalizeName(anything(7))],
    ['buildToolName', 'server', () => everything.buildToolName(anything(undefined), 'x')],
    ['buildToolName', 'tool', () => everything.buildToolName('x', anything(null))],
    ['parseToolName', 'fullName', () => everything.parseToolName(anything({}))],
    ['sanitizeUnicode', 'mode', () => everything.sanitizeUnicode('x', anything('loose'))],
    ['classifyTool', 'name', () => everything.classifyTool(anything([]))],
    ['expandEnv', 'text', () => everything.expandEnv(anything(1), {})],
    ['expandEnv', 'env', () => everything.expandEnv('x', anything(null))],
    ['decidePermission', 'tool', () => everything.decidePermission(anything(1), {})],
    ['decidePermission', 'rules', () => everything.decidePermission('mcp__a__b', anything('x'))],
    ['windowsCommand', 'command', () => everything.windowsCommand(anything(1), [])],
    ['windowsCommand', 'args', () => everything.windowsCommand('x', anything('y'))],
    [
      'partitionCalls',
      'calls',
      () => everything.partitionCalls(anything<{ tool: string }[]>('x'), () => true),
    ],
    ['partitionCalls', 'isConcurrencySafe', () => everything.partitionCalls([], anything(true))],
  ];
  test.each(wrong)('INVALID_ARGUMENT %s names %s', (_, parameter, body) => {
    expectInvalid(thrown(body), parameter);
  });

  test('lone surrogates and long texts do no harm', () => {
    expect(typeof everything.sanitizeUnicode('\uD800 x')).toBe('string');
    expect(everything.normalizeName('\uD83D')).toMatch(/^_+$/);
    expect(everything.sanitizeUnicode('x'.repeat(1 << 20))).toHaveLength(1 << 20);
  });
});

test('a function under a name that has none is told of: it would never be called', async () => {
  const misspelt = {
    onPermision: () => true,
    hooks: { preTooluse: () => ({}), postToolUse: () => undefined },
  };
  const told: string[] = [];
  await withManager(anything<McpManagerOptions>(misspelt), async (manager) => {
    manager.on('diagnostic', ({ code, message }) => code === 'UNKNOWN_OPTION' && told.push(message));
    await manager.connect();
    await eventually(() => told.length >= 2);
  });
  expect(told).toEqual([
    expect.stringContaining('"onPermision"'),
    expect.stringContaining('"hooks.preTooluse"'),
  ]);
});

test('wrong options are named in words of the caller', () => {
  const error = thrown(() => new McpManager(anything({ tls: 'strict' }))) as Error;
  expect(error.message).toBe('options.tls: invalid type: string "strict", expected an object');
});
