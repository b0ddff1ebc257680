import { EventEmitter } from 'node:events';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ToolResult } from '..';
import {
  caught,
  eventually,
  faulty,
  jsonOf,
  nextEvent,
  notes,
  pause,
  temporaryDirectory,
  textOf,
  withFaulty,
  withManager,
} from './harness';

const cancelled = (file: string) => notes(file).filter(({ method }) => method === 'notifications/cancelled');

describe('answers', () => {
  test('NAM-03 by full name, and by server and tool', async () => {
    await withFaulty([], async (manager) => {
      for (const tool of ['mcp__s__echo', { server: 's', tool: 'echo' }]) {
        const result = await manager.callTool(tool, { text: 'hi' });
        expect(result).toMatchObject({
          server: 's',
          tool: 'echo',
          fullName: 'mcp__s__echo',
          isError: false,
          content: [{ type: 'text', text: '{"text":"hi"}' }],
        });
        expect(result.elapsedMs).toBeGreaterThanOrEqual(0);
        expect(result.raw).toMatchObject({ content: [{ type: 'text', text: '{"text":"hi"}' }] });
      }
    });
  });

  test('B-075 arguments reach the server as they are', async () => {
    await withFaulty([], async (manager) => {
      const args = {
        text: 'ﬁle.txt e\u0301 \u200B \u{E0041}',
        __proto__x: 1,
        deep: [[[{ a: null }]]],
        empty: {},
        big: 1e300,
        'key\u200B': true,
      };
      expect(
        JSON.parse(textOf(await manager.callTool('mcp__s__echo', args, {})).replaceAll('\u200B', '')),
      ).toBeDefined();
      const file = join(temporaryDirectory(), 'notes');
      await manager.addServer('t', faulty('--notes', file));
      await manager.callTool('mcp__t__echo', args);
      expect(notes(file).find(({ method }) => method === 'tools/call')?.params?.arguments).toEqual(args);
    });
  });

  test('SEC-04 I9 arguments named like properties of an object', async () => {
    await withFaulty([], async (manager) => {
      const args = JSON.parse('{"__proto__":{"a":1},"constructor":2,"toString":3}') as object;
      expect(textOf(await manager.callTool('mcp__s__echo', args))).toBe(
        '{"__proto__":{"a":1},"constructor":2,"toString":3}',
      );
    });
  });

  test('no arguments are an empty object', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      await manager.callTool('mcp__s__echo');
      expect(notes(file).find(({ method }) => method === 'tools/call')?.params?.arguments).toEqual({});
    });
  });

  test('mcp:META-14 meta is merged, the progress token stays ours', async () => {
    await withFaulty([], async (manager) => {
      const result = await manager.callTool(
        'mcp__s__echo',
        {},
        { meta: { 'com.example/trace': 'x', progressToken: 'mine' } },
      );
      const seen = result.meta?.seen as Record<string, unknown>;
      expect(seen['com.example/trace']).toBe('x');
      expect(seen.progressToken).not.toBe('mine');
    });
  });

  test('PRO-01 an answer whose id is text of the same digits is not ours', async () => {
    await withFaulty(['--string-ids'], async (manager) => {
      const told = nextEvent(manager, 'diagnostic', ({ server }) => server === 's');
      expect(jsonOf(await manager.callTool('mcp__s__echo', { a: 1 }))).toEqual({ a: 1 });
      await told;
    });
  });

  test('PRO-01 B-088 the first answer counts, the second is reported', async () => {
    await withFaulty(['--duplicate-replies'], async (manager) => {
      const told = nextEvent(manager, 'diagnostic', ({ server }) => server === 's');
      const results = await Promise.all(
        Array.from({ length: 50 }, (_, n) => manager.callTool('mcp__s__echo', { n })),
      );
      expect(results.map((result) => jsonOf(result).n)).toEqual(Array.from({ length: 50 }, (_, n) => n));
      await told;
    });
  });

  test.each([
    ['keys of another case', '{"jsonrpc":"2.0","ID":$ID,"Result":{"content":[]}}'],
    ['another letter s', '{"jsonrpc":"2.0","id":$ID,"re\u017Fult":{"content":[]}}'],
    [
      'two objects on one line',
      '{"jsonrpc":"2.0","id":$ID,"result":{}}{"jsonrpc":"2.0","id":$ID,"result":{}}',
    ],
    ['text in front', 'log: {"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}'],
    ['no version', '{"id":$ID,"result":{"content":[{"type":"text","text":"no version"}]}}'],
  ])('B-091 F-014 never taken for an answer: %s', async (_, line) => {
    await withFaulty([], async (manager) => {
      const result = await manager
        .callTool(
          'mcp__s__raw-lines',
          {
            lines: [
              line,
              '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"the real one"}]}}',
            ],
          },
          { timeoutMs: 3000 },
        )
        .catch((error: unknown) => error as Error & { code: string });
      // Either the bad line is skipped, or the call fails with a code; never the bad line's content.
      if ('content' in result) expect(textOf(result)).toBe('the real one');
      else expect(result.code).toBe('MESSAGE_INVALID');
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
    });
  });

  test('mcp:BASE-07 result and error at once settle the call, and nothing else', async () => {
    await withFaulty([], async (manager) => {
      const both = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]},"error":{"code":1,"message":"x"}}';
      await Promise.allSettled([
        manager.callTool('mcp__s__raw-lines', { lines: [both] }, { timeoutMs: 1000 }),
      ]);
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
    });
  });
});

describe('failures of a tool', () => {
  test('CAL-02 K9 mcp:TOOL-09 TOOL_ERROR carries the whole result', async () => {
    await withFaulty([], async (manager) => {
      const error = await caught(manager.callTool('mcp__s__fail'));
      expect(error).toMatchObject({ code: 'TOOL_ERROR', name: 'McpToolCallError', server: 's' });
      expect(error.result).toMatchObject({
        isError: true,
        tool: 'fail',
        content: ['one', 'two', 'three'].map((text) => ({ type: 'text', text })),
      });
    });
  });

  test("CAL-02 toolErrors: 'return', of the manager and of the call", async () => {
    const failed = (result: ToolResult) =>
      expect(result).toMatchObject({
        isError: true,
        content: [{ text: 'one' }, { text: 'two' }, { text: 'three' }],
      });
    await withFaulty([], async (manager) =>
      failed(await manager.callTool('mcp__s__fail', {}, { toolErrors: 'return' })),
    );
    await withFaulty(
      [],
      async (manager) => {
        failed(await manager.callTool('mcp__s__fail'));
        expect((await caught(manager.callTool('mcp__s__fail', {}, { toolErrors: 'throw' }))).code).toBe(
          'TOOL_ERROR',
        );
      },
      { toolErrors: 'return' },
    );
  });

  test('J10 an error result is not checked against outputSchema', async () => {
    await withFaulty(
      [],
      async (manager) => {
        const wire = {
          isError: true,
          content: [{ type: 'text', text: 'real reason' }],
          structuredContent: { wrong: 1 },
        };
        expect(
          (await caught(manager.callTool('mcp__s__raw-result', { result: wire }))).result?.content,
        ).toEqual([{ type: 'text', text: 'real reason' }]);
      },
      { strictOutput: true },
    );
  });

  test('mcp:BASE-09 mcp:TOOL-10 RPC_ERROR keeps code and data, its text is cleaned', async () => {
    await withFaulty([], async (manager) => {
      const error = await caught(manager.callTool('mcp__s__rpc-error'));
      expect(error).toMatchObject({
        code: 'RPC_ERROR',
        name: 'McpRpcError',
        rpcCode: -32050,
        data: { why: ['x'] },
        server: 's',
      });
      expect(error.message).toContain('no luck');
    });
  });

  test('mcp:BASE-16 −32001 over stdio is just an error', async () => {
    await withFaulty([], async (manager) => {
      const line = '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32001,"message":"x"}}';
      expect(await caught(manager.callTool('mcp__s__raw-lines', { lines: [line] }))).toMatchObject({
        code: 'RPC_ERROR',
        rpcCode: -32001,
      });
    });
  });

  test('USE-01 the stack of an error shows who called', async () => {
    await withFaulty([], async (manager) => {
      async function theCallerByName() {
        await manager.callTool('mcp__s__fail');
      }
      expect((await caught(theCallerByName())).stack).toContain('theCallerByName');
    });
  });
});

describe('progress', () => {
  test('PRO-08 F2 reports arrive in order, and none after the answer', async () => {
    await withFaulty([], async (manager) => {
      const seen: { progress: number; total?: number; message?: string }[] = [];
      const result = await manager.callTool(
        'mcp__s__progress',
        { steps: 4, delayMs: 30 },
        { onProgress: (report) => seen.push(report) },
      );
      const count = seen.length;
      expect(jsonOf(result)).toEqual({ hadToken: true });
      expect(seen[0]).toMatchObject({
        progress: expect.any(Number),
        total: 4,
        message: expect.stringMatching(/^step/),
      });
      expect(seen.at(-1)?.progress).toBe(4);
      expect(seen.map(({ progress }) => progress)).toEqual(
        seen.map(({ progress }) => progress).sort((a, b) => a - b),
      );
      await pause(100);
      expect(seen).toHaveLength(count);
    });
  });

  test('PRO-06 F2 a progress token is sent without onProgress too', async () => {
    await withFaulty([], async (manager) => {
      expect(jsonOf(await manager.callTool('mcp__s__progress', { steps: 1 }))).toEqual({ hadToken: true });
    });
  });

  test('PRO-08 reports of one call never reach another', async () => {
    await withFaulty([], async (manager) => {
      const other: unknown[] = [];
      await Promise.all([
        manager.callTool('mcp__s__progress', { steps: 5, delayMs: 10 }, { onProgress: () => undefined }),
        manager.callTool('mcp__s__sleep', { ms: 120 }, { onProgress: (report) => other.push(report) }),
      ]);
      expect(other).toEqual([]);
    });
  });
});

describe('cancelling', () => {
  test('PRO-07 F6 A13 one of many: only that one rejects, with the reason, and the server is told once', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      await manager.connect('s');
      const controllers = Array.from({ length: 20 }, () => new AbortController());
      const calls = controllers.map(({ signal }, n) =>
        manager.callTool('mcp__s__sleep', { ms: 1500, n }, { signal }),
      );
      await eventually(() => notes(file).filter(({ method }) => method === 'tools/call').length === 20);
      const reason = new Error('changed my mind');
      const begin = Date.now();
      controllers[7].abort(reason);
      expect(await caught(calls[7])).toBe(reason);
      expect(Date.now() - begin).toBeLessThan(1000);
      const settled = await Promise.allSettled(calls);
      expect(settled.map(({ status }) => status)).toEqual(
        Array.from({ length: 20 }, (_, n) => (n === 7 ? 'rejected' : 'fulfilled')),
      );
      const told = cancelled(file);
      expect(told).toHaveLength(1);
      const sent = notes(file).find(
        ({ method, params }) =>
          method === 'tools/call' && (params?.arguments as { n: number } | undefined)?.n === 7,
      );
      expect(told[0].params?.requestId).toBe(sent?.id);
      expect(JSON.stringify(told[0])).not.toContain('changed my mind');
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
      expect(manager.status('s')?.state).toBe('connected');
    });
  });

  test.each([
    ['undefined', undefined],
    ['null', null],
    ['a text', 'why'],
    ['zero', 0],
  ])('F8 the reason may be anything: %s', async (_, reason) => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const controller = new AbortController();
      const call = manager.callTool('mcp__s__sleep', { ms: 5000 }, { signal: controller.signal });
      setTimeout(() => controller.abort(reason), 30);
      const error: unknown = await call.then(
        () => 'resolved',
        (caughtReason: unknown) => caughtReason,
      );
      expect(error).toBe(controller.signal.reason);
    });
  });

  test('PRO-07 a signal that is aborted already: nothing is sent', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      await manager.connect('s');
      const reason = new Error('too late');
      expect(await caught(manager.callTool('mcp__s__echo', {}, { signal: AbortSignal.abort(reason) }))).toBe(
        reason,
      );
      await manager.callTool('mcp__s__echo', { last: true });
      expect(notes(file).filter(({ method }) => method === 'tools/call')).toHaveLength(1);
      expect(cancelled(file)).toEqual([]);
    });
  });

  test('PRO-07 F-029 aborting after the answer tells nobody', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      await manager.connect();
      const controller = new AbortController();
      await manager.callTool('mcp__s__echo', {}, { signal: controller.signal });
      controller.abort();
      await manager.callTool('mcp__s__echo');
      expect(cancelled(file)).toEqual([]);
    });
  });

  test('PRO-07 F-005 a late answer is dropped quietly', async () => {
    await withFaulty(['--late'], async (manager) => {
      await manager.connect();
      const controller = new AbortController();
      const call = manager.callTool('mcp__s__sleep', { ms: 150 }, { signal: controller.signal });
      setTimeout(() => controller.abort(), 50);
      expect((await caught(call)).name).toBe('AbortError');
      const loud: unknown[] = [];
      manager.on('diagnostic', (diagnostic) => diagnostic.level !== 'info' && loud.push(diagnostic));
      await pause(250);
      expect(loud).toEqual([]);
      expect(jsonOf(await manager.callTool('mcp__s__echo', { a: 1 }))).toEqual({ a: 1 });
    });
  });

  test('PRO-07 AbortSignal.timeout rejects with its own error', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const error = await caught(
        manager.callTool('mcp__s__sleep', { ms: 5000 }, { signal: AbortSignal.timeout(60) }),
      );
      expect(error.name).toBe('TimeoutError');
      expect(error).toBeInstanceOf(DOMException);
    });
  });

  test('PRO-07 no listener stays on a signal that is used again and again', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const { signal } = new AbortController();
      for (let round = 0; round < 20; round += 1) await manager.callTool('mcp__s__echo', {}, { signal });
      expect(EventEmitter.getEventListeners(signal, 'abort')).toHaveLength(0);
    });
  });

  test('PRO-07 every asynchronous method takes a signal', async () => {
    await withFaulty(['--list-silent'], async (manager) => {
      const reason = new Error('enough');
      const options = { signal: AbortSignal.abort(reason) };
      const attempts: Promise<unknown>[] = [
        manager.connect('s', options),
        manager.ready(options),
        manager.ping('s', options),
        manager.listTools(options),
        manager.listPrompts(options),
        manager.listResources(options),
        manager.listResourceTemplates(options),
        manager.reconnect('s', options),
        manager.restart('s', options),
        manager.readResource('s', 'test://text', options),
        manager.getPrompt('mcp__s__plain', {}, options),
        manager.subscribeResource('s', 'test://text', options),
        manager.setLogLevel('s', 'info', options),
        manager.request('s', 'ping', {}, options),
        manager.complete(
          's',
          { type: 'ref/prompt', name: 'greet' },
          { name: 'name', value: '' },
          {},
          options,
        ),
        manager.runSlashCommand('/mcp__s__plain', options),
      ];
      for (const attempt of attempts) expect(await caught(attempt)).toBe(reason);
    });
  });
});

describe('clocks', () => {
  test('PRO-06 F-005 mcp:TOOL-18 silence: TIMEOUT of kind idle, the server is told once, the rest goes on', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--late', '--notes', file], async (manager) => {
      await manager.connect('s');
      const other = manager.callTool('mcp__s__sleep', { ms: 500 });
      const error = await caught(manager.callTool('mcp__s__sleep', { ms: 400 }, { timeoutMs: 150 }));
      expect(error).toMatchObject({
        code: 'TIMEOUT',
        name: 'McpTimeoutError',
        kind: 'idle',
        server: 's',
        retryable: true,
      });
      expect(error.elapsedMs).toBeGreaterThanOrEqual(140);
      expect(error.elapsedMs).toBeLessThan(2000);
      expect((await other).isError).toBe(false);
      expect(cancelled(file)).toHaveLength(1);
      expect(manager.status('s')?.state).toBe('connected');
    });
  });

  test('PRO-06 F1 toolTimeoutMs of manager and server', async () => {
    await withManager(
      { toolTimeoutMs: 100, servers: { a: faulty(), b: { ...faulty(), toolTimeoutMs: 5000 } } },
      async (manager) => {
        await manager.connect();
        expect(await caught(manager.callTool('mcp__a__sleep', { ms: 600 }))).toMatchObject({
          code: 'TIMEOUT',
          kind: 'idle',
        });
        expect((await manager.callTool('mcp__b__sleep', { ms: 300 })).isError).toBe(false);
      },
    );
  });

  test('mcp:CAN-10 PRO-06 F2 progress starts the idle clock anew, also without onProgress', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const result = await manager.callTool(
        'mcp__s__progress',
        { steps: 8, delayMs: 200 },
        { timeoutMs: 1000 },
      );
      expect(result.isError).toBe(false);
      expect(result.elapsedMs).toBeGreaterThan(1200);
    });
  });

  test('PRO-06 C5 progress of one call does not help another', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const busy = manager.callTool('mcp__s__progress', { steps: 12, delayMs: 100 }, { timeoutMs: 800 });
      expect(await caught(manager.callTool('mcp__s__sleep', { ms: 5000 }, { timeoutMs: 800 }))).toMatchObject(
        { code: 'TIMEOUT', kind: 'idle' },
      );
      expect((await busy).isError).toBe(false);
    });
  });

  test('mcp:CAN-11 PRO-06 the total limit holds in spite of progress', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      await manager.connect();
      const error = await caught(
        manager.callTool(
          'mcp__s__progress',
          { steps: 100, delayMs: 40 },
          { timeoutMs: 300, maxTotalTimeoutMs: 500 },
        ),
      );
      expect(error).toMatchObject({ code: 'TIMEOUT', kind: 'total' });
      await eventually(() => cancelled(file).length === 1);
    });
  });

  test('PRO-06 C5 an answer to one call leaves the clock of another alone', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const begin = Date.now();
      const stuck = caught(manager.callTool('mcp__s__sleep', { ms: 5000 }, { timeoutMs: 300 }));
      for (let round = 0; round < 5; round += 1) {
        await manager.callTool('mcp__s__echo');
        await pause(40);
      }
      expect((await stuck).code).toBe('TIMEOUT');
      expect(Date.now() - begin).toBeLessThan(1500);
    });
  });

  test('PRO-06 requestTimeoutMs: kind request', async () => {
    await withFaulty(
      ['--no-stdin-read'],
      async (manager) => {
        await manager.connect('s');
        await caught(manager.callTool('mcp__s__echo', {}, { timeoutMs: 100 }));
        expect(await caught(manager.ping('s'))).toMatchObject({ code: 'TIMEOUT', kind: 'request' });
      },
      { requestTimeoutMs: 300 },
    );
  });

  test('F8 abort and timeout are told apart', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const controller = new AbortController();
      const [aborted, late] = [
        manager.callTool('mcp__s__sleep', { ms: 5000 }, { signal: controller.signal }),
        manager.callTool('mcp__s__sleep', { ms: 5000 }, { timeoutMs: 100 }),
      ];
      late.catch(() => controller.abort());
      expect((await caught(late)).code).toBe('TIMEOUT');
      expect((await caught(aborted)).code).not.toBe('TIMEOUT');
    });
  });
});

describe('back-pressure and limits', () => {
  test('STD-07 F-008 a server that does not read: the queue has an end, the rest of the world goes on', async () => {
    await withManager(
      { maxQueuedBytes: 1 << 20, servers: { bad: faulty('--no-stdin-read'), good: faulty() } },
      async (manager) => {
        await manager.connect();
        const text = 'x'.repeat(100_000);
        const before = process.memoryUsage().rss;
        const calls = Array.from({ length: 100 }, () =>
          manager.callTool('mcp__bad__echo', { text }, { timeoutMs: 1500 }).then(
            () => 'answered',
            (error: { code: string }) => error.code,
          ),
        );
        const begin = Date.now();
        expect(jsonOf(await manager.callTool('mcp__good__echo', { a: 1 }))).toEqual({ a: 1 });
        expect(Date.now() - begin).toBeLessThan(1500);
        const codes = await Promise.all(calls);
        expect(new Set(codes)).toEqual(new Set(['TIMEOUT', 'TRANSPORT_BACKPRESSURE']));
        expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
      },
    );
  });

  test('STD-03 F-011 B-085 a line above maxMessageBytes fails with a code, the process stays', async () => {
    await withManager(
      { maxMessageBytes: 1 << 20, servers: { s: faulty(), other: faulty() } },
      async (manager) => {
        const error = await caught(manager.callTool('mcp__s__big', { bytes: 3 << 20 }, { timeoutMs: 5000 }));
        expect(['MESSAGE_TOO_LARGE', 'CONNECTION_LOST']).toContain(error.code);
        expect(error.code).toBe('MESSAGE_TOO_LARGE');
        expect((await manager.callTool('mcp__other__echo')).isError).toBe(false);
        expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
      },
    );
  });

  test('STD-03 a long line below the limit arrives whole', async () => {
    await withFaulty([], async (manager) => {
      const text = textOf(await manager.callTool('mcp__s__big', { bytes: 8 << 20 }));
      expect(text.length).toBe(8 << 20);
    });
  });
});

describe('callTools', () => {
  test('TOL-07 safe calls side by side, others one after another, results in order', async () => {
    await withFaulty([], async (manager) => {
      const calls = ['reader', 'reader', 'reader', 'writer', 'writer'].map((tool, n) => ({
        tool: `mcp__s__${tool}`,
        args: { ms: 80, n },
      }));
      const begin = Date.now();
      const results = await manager.callTools(calls);
      expect(
        results.map((result) => (result.status === 'fulfilled' ? jsonOf(result.value).n : result.reason)),
      ).toEqual([0, 1, 2, 3, 4]);
      expect(Date.now() - begin).toBeGreaterThanOrEqual(230);
      expect(textOf(await manager.callTool('mcp__s__peak'))).toBe('3');
    });
  });

  test('TOL-07 concurrency is a limit', async () => {
    await withFaulty([], async (manager) => {
      await manager.callTools(
        Array.from({ length: 8 }, () => ({ tool: 'mcp__s__reader', args: { ms: 30 } })),
        { concurrency: 2 },
      );
      expect(textOf(await manager.callTool('mcp__s__peak'))).toBe('2');
    });
  });

  test('TOL-07 one failing call does not stop the rest', async () => {
    await withFaulty([], async (manager) => {
      const results = await manager.callTools([
        { tool: 'mcp__s__echo' },
        { tool: 'mcp__s__fail' },
        { tool: 'mcp__s__nope' },
        { tool: 'mcp__s__echo' },
      ]);
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled']);
      expect(await manager.callTools([])).toEqual([]);
    });
  });
});
