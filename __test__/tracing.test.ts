/** Trace context in `_meta`, and one event for each call (BEY-10, mcp:META-08). */
import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, test } from 'vitest';
import type { CallEvent, Diagnostic, JsonObject, McpManager, McpManagerOptions } from '..';
import { caught, eventually, faulty, fixture, withManager } from './harness';
import { httpPeer } from './remote-peers';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const parent = (span: string, trace = TRACE) => `00-${trace}-${span}-01`;
const A = parent('00f067aa0ba902b7');
const B = parent('00f067aa0ba902b8');

/** A manager with a server over HTTP; gives `_meta` of each request that came to it. */
async function traced(
  options: McpManagerOptions,
  body: (manager: McpManager) => Promise<unknown>,
): Promise<{ metas: (method: string) => JsonObject[]; told: Diagnostic[] }> {
  const peer = await httpPeer();
  const told: Diagnostic[] = [];
  await withManager({ servers: { s: { type: 'http', url: peer.url } }, ...options }, async (manager) => {
    manager.on('diagnostic', (one) => told.push(one));
    await body(manager);
  });
  const metas = (method: string) =>
    peer.seen
      .filter(({ message }) => message?.method === method)
      .map(({ message }) => (message!.params as { _meta: JsonObject })._meta);
  return { metas, told };
}

describe('trace context', () => {
  test('BEY-10 it is asked for each call, in the context of whoever calls', async () => {
    const store = new AsyncLocalStorage<string>();
    const { metas, told } = await traced(
      { traceContext: () => ({ traceparent: store.getStore()!, tracestate: 'a=1,b@c=2', baggage: 'k=v' }) },
      (manager) =>
        Promise.all([
          store.run(A, () => manager.callTool('mcp__s__echo', {})),
          store.run(B, () => manager.callTool('mcp__s__echo', {}, { meta: { own: 1 } })),
        ]),
    );
    const sent = metas('tools/call').sort((a, b) => (a['traceparent']! < b['traceparent']! ? -1 : 1));
    expect(sent).toMatchObject([
      { traceparent: A, tracestate: 'a=1,b@c=2', baggage: 'k=v' },
      { traceparent: B, own: 1 },
    ]);
    expect(told).toEqual([]);
  });

  test('BEY-10 every kind of call that has options carries it, a raw one too; its own wins', async () => {
    const { metas } = await traced({ traceContext: () => ({ traceparent: A }) }, async (manager) => {
      await caught(manager.readResource('s', 'file:///x'));
      await caught(manager.request('s', 'x/y', { a: 1 }));
      await caught(manager.request('s', 'x/y', { a: 1 }, { meta: { traceparent: B } }));
      await manager.request('s', 'tools/call', { name: 'echo', _meta: { traceparent: B } });
      await (await manager.startTool('mcp__s__echo', {})).result();
      await manager.view({}).callTool('mcp__s__echo', {});
    });
    expect(metas('resources/read')).toEqual([]);
    expect(metas('x/y').map((meta) => meta['traceparent'])).toEqual([A, B]);
    expect(metas('tools/call').map((meta) => meta['traceparent'])).toEqual([B, A, A]);
  });

  test('mcp:META-08 BEY-10 what W3C does not know is not sent', async () => {
    const wrong: JsonObject[] = [
      { traceparent: 'x' },
      { traceparent: parent('0000000000000000') },
      { traceparent: parent('00f067aa0ba902b7', '0'.repeat(32)) },
      { traceparent: A.toUpperCase() },
      { traceparent: `${A}-more` },
      { traceparent: `ff${A.slice(2)}` },
      { traceparent: A, tracestate: 'A=1' },
      { traceparent: A, tracestate: 'a=1,a=2' },
      { traceparent: A, tracestate: 'no value' },
      { traceparent: A, baggage: 'sp ace=1' },
      { traceparent: A, baggage: `k=${'v'.repeat(8192)}` },
      { traceparent: 7 },
    ];
    const answers: unknown[] = [...wrong, Promise.resolve({ traceparent: A }), 7];
    const right = { traceparent: `01${A.slice(2)}-more`, tracestate: '', baggage: 'a=1;p=q , b=%20' };
    const count = answers.length;
    const { metas, told } = await traced(
      { traceContext: (() => answers.shift()) as never },
      async (manager) => {
        for (let call = 0; call < count; call += 1) await manager.callTool('mcp__s__echo', {});
        for (const meta of wrong) {
          const error = await caught(manager.callTool('mcp__s__echo', {}, { meta }));
          expect(error, JSON.stringify(meta)).toMatchObject({ name: 'TypeError', code: 'INVALID_ARGUMENT' });
          expect(await caught(manager.request('s', 'x/y', { _meta: meta }))).toMatchObject({
            code: 'INVALID_ARGUMENT',
          });
        }
        await manager.callTool('mcp__s__echo', {}, { meta: right });
      },
    );
    const sent = metas('tools/call');
    expect(sent).toHaveLength(count + 1);
    expect(sent.at(-1)).toMatchObject(right);
    for (const meta of sent.slice(0, -1)) expect(Object.keys(meta)).toEqual(['progressToken']);
    expect(told.map(({ code }) => code)).toEqual(
      Array.from({ length: count }, () => 'TRACE_CONTEXT_INVALID'),
    );
  });

  test('BEY-10 a function that fails fails no call', async () => {
    const { metas, told } = await traced(
      {
        traceContext: () => {
          throw new Error('no tracer');
        },
      },
      (manager) => manager.callTool('mcp__s__echo', {}),
    );
    expect(metas('tools/call')).toHaveLength(1);
    expect(told).toMatchObject([
      { code: 'TRACE_CONTEXT_INVALID', message: expect.stringContaining('no tracer') },
    ]);
  });

  test('BEY-10 mcp:META-08 in the stateless era as well', async () => {
    const s = { command: process.execPath, args: [fixture('modern-server.mjs')] };
    await withManager({ servers: { s }, traceContext: () => ({ traceparent: A }) }, async (manager) => {
      const events: CallEvent[] = [];
      manager.on('call', (event) => events.push(event));
      await manager.callTool('mcp__s__echo', { text: 'a' });
      expect(manager.status('s')!.era).toBe('modern');
      await eventually(() => events.length === 1);
      expect(events[0]).toMatchObject({ outcome: 'ok', traceId: TRACE, spanId: '00f067aa0ba902b7' });
    });
  });
});

describe('one event for each call', () => {
  const gathered = async (
    body: (manager: McpManager) => Promise<unknown>,
    options: McpManagerOptions = {},
  ): Promise<CallEvent[]> => {
    const events: CallEvent[] = [];
    await withManager({ servers: { s: faulty() }, ...options }, async (manager) => {
      manager.on('call', (event) => events.push(event));
      await body(manager);
    });
    return events;
  };

  test('BEY-10 results, failures of tools, errors, refusals, cancelled calls', async () => {
    const before = Date.now();
    const events = await gathered(
      async (manager) => {
        await manager.callTool('mcp__s__echo', { text: 'a' }, { meta: { traceparent: A } });
        await caught(manager.callTool('mcp__s__fail'));
        await caught(manager.callTool('mcp__s__sleep', { ms: 60_000 }, { timeoutMs: 50 }));
        await caught(manager.callTool('mcp__s__environment'));
        await caught(manager.callTool('mcp__s__nothing'));
        await caught(manager.callTool({ server: 'nobody', tool: 'x' }));
        await caught(manager.callTool('mcp__s__sleep', { ms: 60_000 }, { signal: AbortSignal.timeout(50) }));
        await caught(manager.request('s', 'x/nothing', {}));
        await caught(manager.getPrompt('mcp__s__nothing'));
        await caught(manager.readResource('s', 'https://me:pw@a.test/?token=t'));
        await manager.request('s', 'tools/call', { name: 'echo', arguments: { text: 'a' } });
        await (await manager.startTool('mcp__s__echo', { text: 'a' })).result();
      },
      { permissions: { allow: ['mcp__*'], deny: ['mcp__s__environment'] } },
    );
    const short = events.map(({ method, tool, outcome, code, attempts }) => [
      method,
      tool,
      outcome,
      code,
      attempts,
    ]);
    expect(short).toEqual([
      ['tools/call', 'echo', 'ok', undefined, 1],
      ['tools/call', 'fail', 'toolError', undefined, 1],
      ['tools/call', 'sleep', 'error', 'TIMEOUT', 1],
      ['tools/call', 'environment', 'error', 'PERMISSION_DENIED', 0],
      ['tools/call', 'mcp__s__nothing', 'error', 'TOOL_UNKNOWN', 0],
      ['tools/call', 'x', 'error', 'SERVER_UNKNOWN', 0],
      ['tools/call', 'sleep', 'cancelled', undefined, 1],
      ['x/nothing', undefined, 'error', 'RPC_ERROR', 1],
      ['prompts/get', undefined, 'error', 'PROMPT_UNKNOWN', 0],
      ['resources/read', undefined, 'error', expect.any(String), expect.any(Number)],
      ['tools/call', 'echo', 'ok', undefined, 1],
      ['tools/call', 'echo', 'ok', undefined, 1],
    ]);
    const [echo, , , , , , , raw, prompt, resource] = events;
    expect(echo).toMatchObject({
      server: 's',
      fullName: 'mcp__s__echo',
      traceId: TRACE,
      spanId: '00f067aa0ba902b7',
    });
    expect(echo.bytesSent).toBeGreaterThan(50);
    expect(echo.bytesReceived).toBeGreaterThan(10);
    expect(echo.durationMs).toBeGreaterThan(0);
    expect(echo.startedAt).toBeGreaterThanOrEqual(before);
    expect(raw.rpcCode).toBe(-32601);
    expect(prompt.prompt).toBe('mcp__s__nothing');
    expect(resource.uri).toBe('https://[REDACTED]@a.test/?token=[REDACTED]');
  });

  test('BEY-10 repetitions are counted: questions of the stateless era are rounds', async () => {
    const s = { command: process.execPath, args: [fixture('modern-server.mjs')] };
    const events = await gathered((manager) => manager.callTool('mcp__s__ask'), {
      servers: { s },
      onElicitation: () => ({ action: 'accept', content: { name: 'Ada' } }),
    });
    expect(events).toMatchObject([{ tool: 'ask', outcome: 'ok', attempts: 2 }]);
  });

  test('BEY-10 nothing is told while nobody listens', async () => {
    await withManager({ servers: { s: faulty() } }, async (manager) => {
      await manager.callTool('mcp__s__echo', { text: 'a' });
      const events: CallEvent[] = [];
      const listener = (event: CallEvent) => void events.push(event);
      manager.on('call', listener);
      await manager.callTool('mcp__s__echo', { text: 'b' });
      expect(events).toHaveLength(1);
      manager.off('call', listener);
      await manager.callTool('mcp__s__echo', { text: 'c' });
      expect(events).toHaveLength(1);
    });
  });
});
