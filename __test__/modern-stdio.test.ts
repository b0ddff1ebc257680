import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type {
  ElicitationRequest,
  McpManager,
  McpManagerOptions,
  SamplingRequest,
  StdioServerConfig,
} from '..';
import {
  caught,
  eventually,
  fixture,
  jsonOf,
  nextEvent,
  notes,
  pause,
  temporaryDirectory,
  textOf,
  withManager,
} from './harness';

const modern = (...flags: string[]): StdioServerConfig => ({
  command: process.execPath,
  args: [fixture('modern-server.mjs'), ...flags],
});

function withModern<T>(
  flags: string[],
  body: (manager: McpManager) => Promise<T>,
  options: McpManagerOptions = {},
): Promise<T> {
  return withManager({ ...options, servers: { s: modern(...flags) } }, async (manager) => {
    await manager.connect('s');
    return body(manager);
  });
}

describe('the stateless era over standard input and output', () => {
  test('mcp:LIFE-13 PRO-03 auto greets with the handshake and asks for the other era on the same process', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withModern(['--notes', file], async (manager) => {
      const status = manager.status('s');
      expect(status).toMatchObject({
        state: 'connected',
        era: 'modern',
        protocolVersion: '2026-07-28',
        serverInfo: { name: 'modern', version: '1.0.0' },
        instructions: 'Be kind',
      });
      expect(status?.capabilities).toMatchObject({ tools: { listChanged: true } });
      const methods = notes(file).map(({ method }) => method);
      expect(methods.slice(0, 2)).toEqual(['initialize', 'server/discover']);
      expect(methods).not.toContain('notifications/initialized');
      // The verdict is remembered: the next process is asked for the stateless era at once.
      await manager.restart('s');
      const again = notes(file).map(({ method }) => method);
      expect(again.filter((method) => method === 'initialize')).toHaveLength(1);
      expect(manager.status('s')?.era).toBe('modern');
    });
  });

  test('PRO-03 a server of both eras is spoken to in the handshake era, or as told', async () => {
    await withModern(['--dual'], async (manager) => {
      expect(manager.status('s')).toMatchObject({ era: 'legacy', protocolVersion: '2025-11-25' });
    });
    await withManager({ servers: { s: { ...modern('--dual'), protocol: 'modern' } } }, async (manager) => {
      await manager.connect('s');
      expect(manager.status('s')?.era).toBe('modern');
    });
  });

  test('mcp:ERA-16 mcp:ERA-18 a pinned era fails cleanly', async () => {
    await withManager({ servers: { s: { ...modern('--deaf'), protocol: 'modern' } } }, async (manager) => {
      expect(await caught(manager.connect('s'))).toMatchObject({ code: 'VERSION_UNSUPPORTED', server: 's' });
    });
    await withManager({ servers: { s: { ...modern(), protocol: 'legacy' } } }, async (manager) => {
      const error = await caught(manager.connect('s'));
      expect(error).toMatchObject({ code: 'CONNECT_FAILED', rpcCode: -32022 });
      expect(JSON.stringify(error.data)).toContain('2026-07-28');
    });
  });

  test('lists, calls, raw requests, resources, ping', async () => {
    await withModern([], async (manager) => {
      expect((await manager.listTools()).map(({ name }) => name)).toContain('mcp__s__echo');
      expect(textOf(await manager.callTool('mcp__s__echo', { text: 'ﬁ e\u0301' }))).toBe('ﬁ e\u0301');
      expect(await manager.readResource('s', 'test://a')).toMatchObject([{ uri: 'test://a', text: 'A' }]);
      expect(
        await manager.request('s', 'tools/call', { name: 'echo', arguments: { text: 'raw' } }),
      ).toMatchObject({
        content: [{ type: 'text', text: 'raw' }],
      });
      expect(await manager.ping('s')).toBeGreaterThan(0);
      expect(await caught(manager.request('s', 'resources/subscribe', { uri: 'test://a' }))).toMatchObject({
        code: 'CAPABILITY_MISSING',
      });
    });
  });

  test('mcp:META-10 mcp:META-05 mcp:META-14 every request says what the host can do, and callers cannot say otherwise', async () => {
    const key = 'io.modelcontextprotocol/';
    const meta = async (manager: McpManager): Promise<Record<string, unknown>> =>
      jsonOf(
        await manager.callTool('mcp__s__meta', {}, { meta: { [`${key}protocolVersion`]: '1999', own: 1 } }),
      );
    await withModern([], async (manager) => {
      const sent = await meta(manager);
      expect(sent[`${key}protocolVersion`]).toBe('2026-07-28');
      expect(sent[`${key}clientCapabilities`]).toEqual({ roots: {} });
      expect(sent.own).toBe(1);
    });
    const people = { onElicitation: () => ({ action: 'cancel' }) as const, onSampling: () => ({}) };
    await withModern(
      [],
      async (manager) => {
        expect((await meta(manager))[`${key}clientCapabilities`]).toEqual({
          roots: {},
          elicitation: { form: {}, url: {} },
          sampling: { tools: {} },
        });
      },
      people,
    );
  });

  test('TOL-03 lists are kept as long as the server says', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withModern(
      ['--notes', file],
      async (manager) => {
        for (let round = 0; round < 5; round += 1) {
          await manager.listTools();
          await pause(10);
        }
        expect(notes(file).filter(({ method }) => method === 'tools/list')).toHaveLength(1);
      },
      { catalogTtlMs: 1 },
    );
  });

  test('PRO-07, PRO-08 progress and cancellation', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withModern(['--notes', file], async (manager) => {
      const seen: number[] = [];
      const result = await manager.callTool(
        'mcp__s__slow',
        {},
        { onProgress: ({ progress }) => seen.push(progress) },
      );
      expect(textOf(result)).toBe('done');
      expect(seen).toEqual([1, 2, 3]);
      const abort = new AbortController();
      const call = manager.callTool('mcp__s__slow', {}, { signal: abort.signal });
      await pause(20);
      abort.abort(new Error('enough'));
      expect((await caught(call)).message).toBe('enough');
      const cancelled = await eventually(() =>
        notes(file).find(({ method }) => method === 'notifications/cancelled'),
      );
      const slow = notes(file).filter(({ params }) => params?.name === 'slow');
      expect(cancelled.params?.requestId).toBe(slow[1].id);
    });
  });

  test('PRO-11 mcp:META-06 mcp:LOG-02 the log level travels with requests', async () => {
    await withModern([], async (manager) => {
      expect(textOf(await manager.callTool('mcp__s__log'))).toBe('silent');
      await manager.setLogLevel('s', 'info');
      const heard = nextEvent(manager, 'log', ({ source }) => source === 'protocol');
      expect(textOf(await manager.callTool('mcp__s__log'))).toBe('info');
      expect(await heard).toMatchObject({ server: 's', level: 'warning', data: 'careful' });
      expect(await caught(manager.setLogLevel('s', 'loud'))).toMatchObject({ code: 'INVALID_ARGUMENT' });
    });
  });
});

describe('questions inside a call', () => {
  test('ELI-01 a form, with defaults, and the state echoed', async () => {
    const asked: ElicitationRequest[] = [];
    const onElicitation = (request: ElicitationRequest) => {
      asked.push(request);
      return { action: 'accept', content: { name: 'Ada' } } as const;
    };
    await withModern(
      [],
      async (manager) => {
        const answers = jsonOf(await manager.callTool('mcp__s__ask'));
        expect(answers).toEqual({
          answers: { who: { action: 'accept', content: { name: 'Ada', age: 30 } } },
          state: 'opaque ==',
        });
        expect(asked[0]).toMatchObject({ server: 's', mode: 'form', message: 'Who are you?' });
        expect(asked[0].signal).toBeInstanceOf(AbortSignal);
      },
      { onElicitation },
    );
  });

  test('ELI-02 an address is offered and never fetched', async () => {
    let asked: ElicitationRequest | undefined;
    await withModern(
      ['--url'],
      async (manager) => {
        expect(jsonOf(await manager.callTool('mcp__s__ask')).answers).toEqual({ who: { action: 'accept' } });
        expect(asked).toMatchObject({
          mode: 'url',
          url: 'https://login.example/start',
          host: 'login.example',
        });
      },
      {
        onElicitation: (request) => {
          asked = request;
          return { action: 'accept' };
        },
      },
    );
  });

  test('ELI-03 hooks answer and record', async () => {
    const recorded: unknown[] = [];
    await withModern(
      [],
      async (manager) => {
        const { answers } = jsonOf(await manager.callTool('mcp__s__ask'));
        expect(answers.who).toEqual({ action: 'accept', content: { name: 'CI', age: 30 } });
        expect(recorded).toEqual([['Who are you?', 'accept']]);
      },
      {
        hooks: {
          elicitation: () => ({ action: 'accept', content: { name: 'CI' } }),
          elicitationResult: (request, answer) => {
            recorded.push([request.message, answer.action]);
          },
        },
      },
    );
  });

  test('ELI-04 an aborted call aborts its question', async () => {
    const abort = new AbortController();
    let withdrawn = false;
    await withModern(
      [],
      async (manager) => {
        const call = manager.callTool('mcp__s__ask', {}, { signal: abort.signal });
        expect((await caught(call)).name).toBe('AbortError');
        await eventually(() => withdrawn);
      },
      {
        onElicitation: ({ signal }) =>
          new Promise((resolve) => {
            signal.addEventListener('abort', () => {
              withdrawn = true;
              resolve({ action: 'cancel' });
            });
            abort.abort();
          }),
      },
    );
  });

  test('ELI-04 close() ends a call that waits for a person', async () => {
    let signal: AbortSignal | undefined;
    await withModern(
      [],
      async (manager) => {
        const call = caught(manager.callTool('mcp__s__ask'));
        await eventually(() => signal);
        await manager.close();
        expect(await call).toMatchObject({ code: 'MANAGER_CLOSED', server: 's' });
        await eventually(() => signal?.aborted);
      },
      {
        onElicitation: (request) => {
          signal = request.signal;
          return new Promise(() => {});
        },
      },
    );
  });

  test('F9 the clock of a call stands still while a person decides', async () => {
    const onElicitation = async () => {
      await pause(600);
      return { action: 'decline' } as const;
    };
    await withModern(
      [],
      async (manager) => {
        const result = await manager.callTool('mcp__s__ask', {}, { timeoutMs: 200 });
        expect(jsonOf(result).answers).toEqual({ who: { action: 'decline' } });
      },
      { onElicitation },
    );
  });

  test('M1 nobody to ask, a callback that throws, an answer that does not fit', async () => {
    await withModern([], async (manager) => {
      expect(jsonOf(await manager.callTool('mcp__s__ask')).answers).toEqual({ who: { action: 'cancel' } });
      expect(await caught(manager.callTool('mcp__s__ask_model'))).toMatchObject({
        code: 'ELICITATION_DECLINED',
      });
    });
    for (const onElicitation of [
      () => {
        throw new Error('broken');
      },
      () => ({ action: 'accept', content: { name: 7 } }) as never,
      () => undefined as never,
    ]) {
      await withModern(
        [],
        async (manager) => {
          expect(jsonOf(await manager.callTool('mcp__s__ask')).answers).toEqual({
            who: { action: 'cancel' },
          });
        },
        { onElicitation },
      );
    }
  });

  test('mcp:MRTR-13 a server that never stops asking', async () => {
    await withModern(
      [],
      async (manager) => {
        expect(await caught(manager.callTool('mcp__s__ask_forever'))).toMatchObject({
          name: 'McpElicitationError',
          code: 'ELICITATION_LIMIT',
          server: 's',
        });
      },
      { maxInputRounds: 3 },
    );
  });

  test('PRO-12 a model for a server', async () => {
    const asked: SamplingRequest[] = [];
    const onSampling = (request: SamplingRequest) => {
      asked.push(request);
      return { role: 'assistant', model: 'm', content: { type: 'text', text: 'yo' } };
    };
    await withModern(
      [],
      async (manager) => {
        expect(jsonOf(await manager.callTool('mcp__s__ask_model')).model).toBe('m');
        expect(asked[0]).toMatchObject({ server: 's', params: { maxTokens: 5 } });
      },
      { onSampling },
    );
  });
});

describe('listening', () => {
  test('mcp:SUB-01 mcp:SUB-06 changes of lists are heard over one stream', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withModern(['--notes', file], async (manager) => {
      await eventually(() => notes(file).some(({ method }) => method === 'subscriptions/listen'));
      const changed = nextEvent(manager, 'toolsChanged');
      await manager.callTool('mcp__s__grow');
      expect(await changed).toMatchObject({ server: 's' });
      expect((await manager.listTools()).map(({ name }) => name)).toContain('mcp__s__late');
      const listen = notes(file).find(({ method }) => method === 'subscriptions/listen');
      expect(listen?.params?.notifications).toEqual({ toolsListChanged: true, resourcesListChanged: true });
    });
  });

  test('RES-02, mcp:STDIO-11 mcp:SUB-05 mcp:SUB-11 a subscription, its end, and its return after a restart', async () => {
    const file = join(temporaryDirectory(), 'notes');
    const streams = (): string[][] =>
      notes(file)
        .filter(({ method }) => method === 'subscriptions/listen')
        .map(
          ({ params }) =>
            (params?.notifications as { resourceSubscriptions?: string[] } | undefined)
              ?.resourceSubscriptions ?? [],
        );
    await withModern(['--notes', file], async (manager) => {
      await manager.subscribeResource('s', 'test://a');
      const updated = nextEvent(manager, 'resourceUpdated');
      await manager.callTool('mcp__s__touch', { uri: 'test://a' });
      expect(await updated).toMatchObject({ server: 's', uri: 'test://a' });
      expect(streams()).toEqual([[], ['test://a']]);
      // The old stream ends after the new one has begun.
      await eventually(() => notes(file).some(({ method }) => method === 'notifications/cancelled'));
      await manager.restart('s');
      await eventually(() => streams().length === 3);
      expect(streams()[2]).toEqual(['test://a']);
      await manager.unsubscribeResource('s', 'test://a');
      await eventually(() => streams().length === 4);
      expect(streams()[3]).toEqual([]);
    });
  });

  test('D5, mcp:SUB-17 a server that does not listen is left alone, and stays connected', async () => {
    const file = join(temporaryDirectory(), 'notes');
    for (const flag of ['--no-listen', '--drop-listen']) {
      await withModern(['--notes', file, flag], async (manager) => {
        await pause(300);
        expect(manager.status('s')?.state).toBe('connected');
        expect(textOf(await manager.callTool('mcp__s__echo', { text: 'still here' }))).toBe('still here');
      });
    }
    expect(notes(file).filter(({ method }) => method === 'subscriptions/listen')).toHaveLength(2);
    await withModern(['--no-listen'], async (manager) => {
      expect(await caught(manager.subscribeResource('s', 'test://a'))).toMatchObject({ server: 's' });
    });
  });
});
