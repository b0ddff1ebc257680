/**
 * Record and replay (BEY-08): real servers over every transport in both eras are recorded, then a second manager without any
 * server gets the same from the recording; what the file holds, and what it never does.
 */
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import { describe, expect, test, vi } from 'vitest';
import {
  replayServer,
  type Diagnostic,
  type McpManager,
  type McpManagerOptions,
  type ServerConfig,
} from '..';
import { labServer as labServerV1 } from './fixtures/peers/sdk-v1.mjs';
import {
  caught,
  eventually,
  faulty,
  fixture,
  realServer,
  runNode,
  temporaryDirectory,
  textOf,
  thrown,
  withManager,
} from './harness';
import { Daemon } from './laboratory';
import { httpPeer } from './remote-peers';

interface Line {
  format?: string;
  version?: number;
  at?: number;
  server?: string;
  generation?: number;
  direction?: 'in' | 'out';
  event?: string;
  code?: string;
  lost?: number;
  message?: { id?: number; method?: string; params?: Record<string, unknown>; result?: unknown };
}

const linesOf = (file: string): Line[] =>
  readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

const recordingFile = () => join(temporaryDirectory(), 'recording.jsonl');

/** What an agent does with a server, and all that it sees of it. */
type Session = (manager: McpManager) => Promise<unknown>;

/** Records a session, then runs it again without any server: what was seen both times. */
async function recordAndReplay(
  servers: Record<string, ServerConfig>,
  session: Session,
  options: McpManagerOptions = {},
  prepare: (manager: McpManager) => Promise<unknown> = async () => {},
): Promise<{ file: string; seen: unknown; again: unknown }> {
  const file = recordingFile();
  const seen = await withManager({ ...options, servers, recordTo: file }, async (manager) => {
    await prepare(manager);
    await manager.connect();
    return session(manager);
  });
  const names = [...new Set(linesOf(file).flatMap(({ server }) => server ?? []))];
  const again = await withManager(options, async (manager) => {
    for (const server of names) await manager.addSdkServer(server, replayServer(file, { server }));
    return session(manager);
  });
  return { file, seen, again };
}

/** Leaves out what differs in every run: times, and paths of files. */
const stable = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (key, inner) => (['elapsedMs', 'path'].includes(key) ? undefined : inner)),
  );

const audience: McpManagerOptions = {
  roots: ['file:///first'],
  onElicitation: ({ mode }) =>
    mode === 'form' ? { action: 'accept', content: { name: 'Ada' } } : { action: 'accept' },
  onSampling: () => ({ role: 'assistant', model: 'm', content: { type: 'text', text: 'seven words' } }),
};

describe('the same results without servers', () => {
  test('BEY-08 server-everything over stdio: tools, questions, progress, resources, prompts', async () => {
    const E = 'mcp__everything__';
    const session: Session = async (manager) => {
      const progress: number[] = [];
      // Some tools are there only once the server knows what the host can do.
      await eventually(async () =>
        (await manager.listTools()).some(({ name }) => name === `${E}trigger-sampling-request`),
      );
      const tools = (await manager.listTools()).map(({ name }) => name);
      const called = [
        await manager.callTool(`${E}echo`, { message: 'ﬁ ½' }),
        await manager.callTool(`${E}get-sum`, { a: 2, b: 40 }),
        await manager.callTool(`${E}get-sum`, { b: 1, a: 1 }),
        await manager.callTool(`${E}get-tiny-image`),
        await manager.callTool(`${E}get-structured-content`, { location: 'New York' }),
        await manager.callTool(`${E}trigger-elicitation-request`),
        await manager.callTool(`${E}trigger-sampling-request`, { prompt: 'Hello', maxTokens: 7 }),
        await manager.callTool(`${E}get-roots-list`),
        await manager.callTool(
          `${E}trigger-long-running-operation`,
          { duration: 0.3, steps: 3 },
          { onProgress: (report) => void progress.push(report.progress) },
        ),
        await manager.callTool(`${E}simulate-research-query`, { topic: 'bees', ambiguous: false }),
      ];
      const [{ uri }] = await manager.listResources();
      return stable({
        tools,
        called,
        progress,
        read: await manager.readResource('everything', uri),
        prompt: await manager.getPrompt(`${E}args-prompt`, { city: 'Ulm', state: 'BW' }),
        completed: await manager.complete(
          'everything',
          { type: 'ref/prompt', name: `${E}completable-prompt` },
          { name: 'department', value: 'S' },
        ),
        info: manager.status('everything')!.serverInfo,
      });
    };
    const { seen, again } = await recordAndReplay(
      { everything: realServer('@modelcontextprotocol/server-everything', 'stdio') },
      session,
      audience,
    );
    expect(seen).toMatchObject({ progress: [1, 2, 3] });
    expect(JSON.stringify(seen)).toContain('seven words');
    expect(again).toEqual(seen);
  }, 60_000);

  const laboratory: Session = async (manager) => {
    const progress: number[] = [];
    const onProgress = (report: { progress: number }) => void progress.push(report.progress);
    return stable({
      echo: textOf(await manager.callTool('mcp__s__echo', { text: 'a' })),
      other: textOf(await manager.callTool('mcp__s__echo', { text: 'b' })),
      steps: textOf(await manager.callTool('mcp__s__steps', {}, { onProgress })),
      progress,
      failed: (await caught(manager.callTool('mcp__s__fail'))).message,
      error: (await caught(manager.request('s', 'x/nothing', {}))).rpcCode,
      asked: textOf(await manager.callTool('mcp__s__ask')),
      grown: textOf(await manager.callTool('mcp__s__grow')),
      late: await eventually(async () =>
        (await manager.listTools()).map(({ name }) => name).find((name) => name.includes('late')),
      ),
      era: manager.status('s')!.era,
    });
  };
  const v1 = (how: string): [string, ...string[]] => [process.execPath, fixture('peers', 'sdk-v1.mjs'), how];
  const v2 = (how: string, era: string): [string, ...string[]] => [
    process.execPath,
    fixture('peers', 'sdk-v2.mjs'),
    how,
    era,
  ];

  for (const [what, type, era, command] of [
    ['an SDK server over HTTP', 'http', 'legacy', v1('http')],
    ['an SDK server over HTTP', 'http', 'modern', v2('http', 'both')],
    ['an SDK server over the older event stream', 'sse', 'legacy', v1('sse')],
    ['an SDK server over WebSocket', 'ws', 'modern', v2('ws', 'modern')],
  ] as const) {
    test(`BEY-08 ${what}, ${era} era`, async () => {
      const daemon = new Daemon(command);
      await daemon.start();
      const scheme = type === 'ws' ? 'ws' : 'http';
      const s: ServerConfig = { type, url: `${scheme}://127.0.0.1:${daemon.port}/mcp` };
      const { seen, again, file } = await recordAndReplay({ s }, laboratory, audience).finally(() =>
        daemon.stop(),
      );
      expect(seen).toMatchObject({ era, echo: 'a', other: 'b', progress: [1, 2, 3], asked: 'hello Ada' });
      expect(again).toEqual(seen);
      expect(linesOf(file)[1]).toMatchObject({ server: 's', generation: 1, event: 'opened', type });
    }, 60_000);
  }

  test('BEY-08 a local SDK server of the modern era, an in-process one of the other', async () => {
    const [command, ...args] = v2('stdio', 'modern');
    const modern = await recordAndReplay({ s: { command, args } }, laboratory, audience);
    expect(modern.seen).toMatchObject({ era: 'modern', asked: 'hello Ada' });
    expect(modern.again).toEqual(modern.seen);
    const inside = await recordAndReplay({}, laboratory, audience, (manager) =>
      manager.addSdkServer(
        's',
        labServerV1(() => {}),
      ),
    );
    expect(inside.seen).toMatchObject({ era: 'legacy', asked: 'hello Ada' });
    expect(inside.again).toEqual(inside.seen);
  }, 60_000);

  test('BEY-08 a client of the official SDK is served as well', async () => {
    const file = recordingFile();
    await withManager({ recordTo: file, servers: { s: faulty() } }, async (manager) => {
      await manager.callTool('mcp__s__echo', { text: 'a' });
    });
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    await replayServer(file).connect(theirs as never);
    const client = new Client({ name: 'c', version: '1' });
    await client.connect(ours);
    const result = await client.callTool({ name: 'echo', arguments: { text: 'a' } });
    expect(JSON.stringify(result)).toContain('a');
    await client.close();
  });
});

/** A recording of one server by hand. */
function recording(...lines: object[]): string {
  const file = recordingFile();
  const header = { format: 'mcp-switchboard-recording', version: 1, startedAt: '2026-01-01T00:00:00.000Z' };
  const result = {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'r', version: '1' },
  };
  const all = [
    header,
    out({ id: 0, method: 'initialize', params: {} }),
    into({ id: 0, result }),
    out({ id: 1, method: 'tools/list', params: {} }),
    into({ id: 1, result: { tools: [{ name: 't', inputSchema: { type: 'object' } }] } }),
    ...lines,
  ];
  writeFileSync(file, all.map((line) => `${JSON.stringify(line)}\n`).join(''));
  return file;
}
const line = (direction: 'in' | 'out', message: object, at = 1) => ({
  at,
  server: 's',
  generation: 1,
  direction,
  message: { jsonrpc: '2.0', ...message },
});
const out = (message: object, at?: number) => line('out', message, at);
const into = (message: object, at?: number) => line('in', message, at);
const call = (id: number, args: object, at?: number) =>
  out({ id, method: 'tools/call', params: { name: 't', arguments: args, _meta: { progressToken: id } } }, at);
const said = (id: number, text: string, at?: number) =>
  into({ id, result: { content: [{ type: 'text', text }] } }, at);

const replayed = <T>(
  file: string,
  body: (manager: McpManager) => Promise<T>,
  options: Parameters<typeof replayServer>[1] = {},
) =>
  withManager({}, async (manager) => {
    await manager.addSdkServer('s', replayServer(file, options));
    return body(manager);
  });
const ask = async (manager: McpManager, args: object) => textOf(await manager.callTool('mcp__s__t', args));

describe('how requests are matched', () => {
  test('BEY-08 equal requests in the order of the recording, then the last again', async () => {
    const file = recording(
      call(2, { a: 1, b: { c: 1, d: 2 } }),
      said(2, 'first'),
      call(3, { a: 2 }),
      said(3, 'other'),
      call(4, { b: { d: 2, c: 1 }, a: 1 }),
      said(4, 'second'),
    );
    await replayed(file, async (manager) => {
      const texts = [];
      for (let times = 0; times < 4; times += 1) {
        texts.push(await ask(manager, { b: { d: 2, c: 1 }, a: 1 }));
      }
      expect(texts).toEqual(['first', 'second', 'second', 'second']);
      expect(await ask(manager, { a: 2 })).toBe('other');
      await manager.callTool(
        'mcp__s__t',
        { a: 2 },
        { meta: { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' } },
      );
      const own = await caught(manager.callTool('mcp__s__t', { a: 2 }, { meta: { own: 1 } }));
      expect(own).toMatchObject({ code: 'RPC_ERROR' });
    });
  });

  test('BEY-08 what was not recorded is told with the nearest that was', async () => {
    const file = recording(call(2, { a: 1, b: 2 }), said(2, 'x'), call(3, { z: 1 }), said(3, 'y'));
    await replayed(file, async (manager) => {
      const error = await caught(manager.callTool('mcp__s__t', { a: 1, b: 3 }));
      expect(error).toMatchObject({
        code: 'RPC_ERROR',
        rpcCode: -32000,
        data: {
          method: 'tools/call',
          params: { name: 't', arguments: { a: 1, b: 3 } },
          nearest: { name: 't', arguments: { a: 1, b: 2 } },
        },
      });
      expect(error.message).toContain('tools/call {"arguments":{"a":1,"b":3},"name":"t"} was not recorded');
      expect(error.message).toContain('{"arguments":{"a":1,"b":2},"name":"t"}');
      const unknown = await caught(manager.request('s', 'x/y', {}));
      expect(unknown.message).toContain('only initialize, tools/list, tools/call');
      expect(await manager.ping('s')).toBeGreaterThanOrEqual(0);
    });
  });

  test('BEY-08 a request that failed on its way counts when it was never answered', async () => {
    const failed = (id: number) => ({ server: 's', generation: 1, event: 'failed', id, code: 'TIMEOUT' });
    const file = recording(
      call(2, { a: 1 }),
      failed(2),
      call(3, { a: 1 }),
      said(3, 'in the end'),
      call(4, {}),
      failed(4),
    );
    await replayed(file, async (manager) => {
      expect(await ask(manager, { a: 1 })).toBe('in the end');
      expect((await caught(manager.callTool('mcp__s__t', {}))).message).toContain('TIMEOUT');
    });
  });

  test('BEY-08 what was said unasked comes where it came, questions wait for their answers', async () => {
    const log = (data: string) => into({ method: 'notifications/message', params: { level: 'info', data } });
    const file = recording(
      call(2, {}),
      log('before'),
      into({ method: 'notifications/progress', params: { progressToken: 2, progress: 1 } }),
      into({
        id: 'q',
        method: 'elicitation/create',
        params: { message: 'who?', requestedSchema: { type: 'object', properties: {} } },
      }),
      out({ id: 'q', result: { action: 'accept', content: {} } }),
      said(2, 'done'),
      log('after'),
    );
    const order: unknown[] = [];
    const onElicitation = async () => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      order.push('answered');
      return { action: 'accept' as const, content: {} };
    };
    await withManager({ onElicitation }, async (manager) => {
      manager.on('log', ({ data }) => order.push(data));
      await manager.addSdkServer('s', replayServer(file));
      const onProgress = ({ progress }: { progress: number }) => void order.push(progress);
      order.push(textOf(await manager.callTool('mcp__s__t', {}, { onProgress })));
      await eventually(() => order.includes('after'));
    });
    expect(order.indexOf('answered')).toBeLessThan(order.indexOf('done'));
    expect(order).toEqual(expect.arrayContaining(['before', 1, 'answered', 'done', 'after']));
    expect(order.filter((one) => one !== 'before' && one !== 'after')).toEqual([1, 'answered', 'done']);
  });

  test('BEY-08 timings: none unless they are wanted', async () => {
    const file = recording(call(2, {}, 1000), said(2, 'late', 1400));
    for (const [timings, atLeast] of [
      [undefined, 0],
      ['recorded', 395],
    ] as const) {
      await replayed(
        file,
        async (manager) => {
          const { elapsedMs } = await manager.callTool('mcp__s__t', {});
          expect(elapsedMs).toBeGreaterThanOrEqual(atLeast);
        },
        { timings },
      );
    }
  });

  test('BEY-08 LIF-08 what is said unasked later keeps no process alive, a call that waits does', async () => {
    const later = into({ method: 'notifications/tools/list_changed' }, 60_000);
    const ready = out({ method: 'notifications/initialized' });
    const file = recording(call(2, {}), said(2, 'answered', 500), ready, later);
    for (const end of ['manager.close()', 'undefined']) {
      const source = `
        const { McpManager, replayServer } = require('./index.js');
        const manager = new McpManager({ config: false, permissions: { allow: ['mcp__*'] } });
        (async () => {
          await manager.addSdkServer('s', replayServer(${JSON.stringify(file)}, { timings: 'recorded' }));
          console.log((await manager.callTool('mcp__s__t', {})).content[0].text);
          await ${end};
        })();
      `;
      expect(await runNode(['-e', source], 15_000)).toMatchObject({ code: 0, stdout: 'answered\n' });
    }
  });
});

describe('what a file may be', () => {
  const reason = async (file: string, options?: Parameters<typeof replayServer>[1]) => {
    const error = await caught(replayServer(file, options).connect({} as never));
    expect(error).toMatchObject({ name: 'McpConfigError', code: 'RECORDING_INVALID' });
    return error.message;
  };

  test('BEY-08 LIF-04 a last line that was cut off is no fault, a damaged one before it is a lasting one', async () => {
    const file = recording(call(2, {}), said(2, 'x'));
    const whole = readFileSync(file, 'utf8');
    writeFileSync(file, `${whole}{"at":1,"server":"s","direc`);
    expect(await replayed(file, (manager) => ask(manager, {}))).toBe('x');
    const lines = whole.split('\n');
    writeFileSync(file, [...lines.slice(0, 3), lines[3].slice(0, 20), ...lines.slice(4)].join('\n'));
    expect(await reason(file)).toMatch(/recording\.jsonl, line 4: damaged/);
    await withManager({}, async (manager) => {
      const server = replayServer(file);
      const connect = vi.spyOn(server, 'connect');
      const status = await manager.addSdkServer('s', server);
      expect(status).toMatchObject({ state: 'failed', code: 'RECORDING_INVALID' });
      // LIF-04: it is not read again and again.
      expect(connect).toHaveBeenCalledTimes(1);
      const error = await caught(manager.connect('s'));
      expect(error).toMatchObject({ code: 'RECORDING_INVALID', server: 's' });
      expect(error.message).toContain('line 4');
    });
  });

  test('BEY-08 a file that was mended is read by the next connection', async () => {
    const file = recording(call(2, {}), said(2, 'x'));
    const whole = readFileSync(file, 'utf8');
    writeFileSync(file, 'nothing');
    const server = replayServer(file);
    expect((await caught(server.connect({} as never))).code).toBe('RECORDING_INVALID');
    writeFileSync(file, whole);
    await withManager({}, async (manager) => {
      await manager.addSdkServer('s', server);
      expect(await ask(manager, {})).toBe('x');
    });
  });

  test('BEY-08 several servers want a choice; other files are refused', async () => {
    const file = recording({ ...call(2, {}), server: 'other' });
    expect(await reason(file)).toContain('name one of them (option "server"): "s", "other"');
    expect(await reason(file, { server: 'third' })).toContain('no server "third"; it has "s", "other"');
    expect(await reason(join(temporaryDirectory(), 'nowhere'))).toContain('ENOENT');
    const foreign = recordingFile();
    for (const [text, why] of [
      ['', 'empty'],
      ['{"a":1}\n', 'header'],
      ['{"format":"other"}\n', 'no recording'],
      ['{"format":"mcp-switchboard-recording","version":2}\n', 'version 2'],
      ['no JSON\n', 'line 1: damaged'],
    ]) {
      writeFileSync(foreign, text);
      expect(await reason(foreign)).toContain(why);
    }
    for (const options of [{ server: '' }, { timings: 'slow' }, 7]) {
      expect(thrown(() => replayServer(file, options as never))).toMatchObject({ code: 'INVALID_ARGUMENT' });
    }
  });

  test('BEY-08 of several recordings in one file the last counts', async () => {
    const [first, second] = [recording(call(2, {}), said(2, 'old')), recording(call(2, {}), said(2, 'new'))];
    writeFileSync(first, `${readFileSync(first, 'utf8')}{"cut\n${readFileSync(second, 'utf8')}`);
    expect(await replayed(first, (manager) => ask(manager, {}))).toBe('new');
  });
});

describe('what is written', () => {
  test('BEY-08 SEC-03 no secret of a server, in messages of either side', async () => {
    const file = recordingFile();
    const [ofEnvironment, ofHeader, ofArgument] = [
      'env-value-1234',
      'header-value-1234',
      'argument-value-1234',
    ];
    const peer = await httpPeer((seen, response) => {
      if (seen.message?.method !== 'tools/call') return false;
      const words = `your header is ${seen.headers['x-api-key']}, see https://u:pw@a.test/?token=in-url`;
      const result = { content: [{ type: 'text', text: words }] };
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ jsonrpc: '2.0', id: seen.message.id, result }));
      return true;
    });
    const servers: Record<string, ServerConfig> = {
      local: { ...faulty(), env: { SOME_VALUE: ofEnvironment } },
      remote: { type: 'http', url: peer.url, headers: { 'X-Api-Key': ofHeader } },
    };
    const args = { text: `say ${ofEnvironment}`, password: ofArgument, key: 'plain' };
    await withManager({ servers, recordTo: file }, async (manager) => {
      expect(textOf(await manager.callTool('mcp__local__echo', args))).toContain(ofArgument);
      expect(textOf(await manager.callTool('mcp__remote__echo', {}))).toContain(ofHeader);
    });
    const text = readFileSync(file, 'utf8');
    for (const secret of [ofEnvironment, ofHeader, ofArgument, 'u:pw', 'in-url'])
      expect(text).not.toContain(secret);
    expect(text).toContain('"key":"plain"');
    expect(text).toContain('"password":"[REDACTED]"');
    if (process.platform !== 'win32') expect(statSync(file).mode & 0o777).toBe(0o600);
    // And what was hidden does not keep a test from using the real values.
    await withManager({}, async (manager) => {
      await manager.addSdkServer('local', replayServer(file, { server: 'local' }));
      expect(textOf(await manager.callTool('mcp__local__echo', args))).toContain('[REDACTED]');
    });
  });

  test('BEY-08 every message with its direction, server, generation and time', async () => {
    const file = recordingFile();
    await withManager({ servers: { s: faulty() }, recordTo: file }, async (manager) => {
      await manager.callTool('mcp__s__echo', { text: 'a' });
      await manager.reconnect('s');
      await caught(manager.callTool('mcp__s__sleep', { ms: 60_000 }, { timeoutMs: 100 }));
    });
    const [header, ...lines] = linesOf(file);
    expect(header).toMatchObject({ format: 'mcp-switchboard-recording', version: 1 });
    expect(lines.at(-1)).toEqual({ event: 'ended', lost: 0 });
    const messages = lines.filter(({ message }) => message !== undefined);
    expect(messages.map(({ server }) => server)).toEqual(messages.map(() => 's'));
    expect([...new Set(messages.map(({ generation }) => generation))]).toEqual([1, 2]);
    const times = messages.map(({ at }) => at!);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    const echo = messages.find(({ message }) => message!.params?.['name'] === 'echo')!;
    const answer = messages.find(
      ({ direction, message }) => direction === 'in' && message!.id === echo.message!.id,
    )!;
    expect(echo.direction).toBe('out');
    expect(answer.message!.result).toBeTruthy();
    expect(lines.filter(({ event }) => event === 'givenUp' || event === 'failed')).toHaveLength(1);
    expect(lines.filter(({ event }) => event === 'opened')).toHaveLength(2);
  });

  test('BEY-08 a file that cannot be written is told of, and nothing waits for it', async () => {
    const foreign = join(temporaryDirectory(), 'notes.txt');
    writeFileSync(foreign, 'mine');
    for (const recordTo of [foreign, join(temporaryDirectory(), 'no', 'folder', 'r.jsonl')]) {
      const told: Diagnostic[] = [];
      await withManager({ servers: { s: faulty() }, recordTo }, async (manager) => {
        manager.on('diagnostic', (one) => told.push(one));
        expect(textOf(await manager.callTool('mcp__s__echo', { text: 'a' }))).toContain('a');
        await eventually(() => told.some(({ code }) => code === 'RECORDING_FAILED'));
      });
      expect(told.find(({ code }) => code === 'RECORDING_FAILED')!.message).toContain(recordTo);
    }
    expect(readFileSync(foreign, 'utf8')).toBe('mine');
  });
});
