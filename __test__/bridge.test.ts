/** Remote control (BRG-01 to BRG-07) against the reference relay, over real sockets. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { BridgeRelay } from 'mcp-switchboard/bridge-relay';
import { BoundedUuidSet, getBridgeDisabledReason, type JsonObject } from '..';
import { bridgeFor, cuttingProxy, relayFor, TOKENS } from './bridge-world';
import { caught, eventually } from './harness';

const user = (text: string, uuid: string = crypto.randomUUID()): JsonObject => ({
  type: 'user',
  uuid,
  message: { role: 'user', content: text },
});
const control = (request: JsonObject, request_id: string = crypto.randomUUID()): JsonObject => ({
  type: 'control_request',
  request_id,
  request,
});

/** What the agent sent, as the relay has it. */
const received = (relay: Awaited<ReturnType<typeof relayFor>>['relay']) => {
  const messages: any[] = [];
  relay.on('message', (_session, message) => messages.push(message));
  return messages;
};

describe.each(['v1', 'v2'] as const)('%s', (version) => {
  test('BRG-01 messages go both ways, in order, and are acknowledged', async () => {
    const { relay, url } = await relayFor();
    const { bridge, states, users, diagnostics } = bridgeFor({ baseUrl: url, version });
    const messages = received(relay);
    const early = bridge.send({ type: 'assistant', text: 'queued before' });
    await bridge.connect();
    await early;
    await Promise.all(Array.from({ length: 250 }, (_, n) => bridge.send({ type: 'assistant', n })));
    expect(messages.slice(1).map(({ n }) => n)).toEqual(Array.from({ length: 250 }, (_, n) => n));
    expect(new Set(messages.map(({ uuid }) => uuid)).size).toBe(251);
    for (let n = 0; n < 250; n += 1) relay.session('s1').send(user(String(n)));
    await eventually(() => users.length === 250);
    expect(users.map((message: any) => Number(message.message.content))).toEqual(
      Array.from({ length: 250 }, (_, n) => n),
    );
    expect(bridge.sequence).toBe(250);
    expect(bridge.epoch).toBe(version === 'v1' ? 0 : 1);
    expect(states).toEqual(['connecting', 'connected']);
    await bridge.close();
    expect(states).toEqual(['connecting', 'connected', 'closed']);
    expect((await caught(bridge.connect())).code).toBe('BRIDGE_CLOSED');
    expect(diagnostics).toEqual([]);
    expect((await caught(bridge.send({ type: 'x' }))).code).toBe('BRIDGE_CLOSED');
  });

  test('BRG-05 nothing is lost, nothing doubled, order kept when connections are cut at random bytes', async () => {
    const { relay, port } = await relayFor();
    const proxy = await cuttingProxy(port, version === 'v1' ? 7 : 11, 2500);
    const { bridge, users, states } = bridgeFor({
      baseUrl: proxy.url,
      version,
      heartbeatMs: 300,
      connectTimeoutMs: 60_000,
    });
    const messages = received(relay);
    await bridge.connect();
    const COUNT = 120;
    const sent: Promise<void>[] = [];
    for (let n = 0; n < COUNT; n += 1) {
      sent.push(bridge.send({ type: 'assistant', n, padding: 'x'.repeat((n * 37) % 400) }));
      relay.session('s1').send(user(String(n)));
      if (n % 4 === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await eventually(() => proxy.cuts() >= 8, 30_000, 'cuts');
    proxy.stop();
    proxy.cutAll();
    await Promise.all(sent);
    await eventually(() => users.length >= COUNT, 45_000, 'every user message');
    const all = Array.from({ length: COUNT }, (_, n) => n);
    expect(messages.map(({ n }) => n)).toEqual(all);
    expect(users.map((message: any) => Number(message.message.content))).toEqual(all);
    expect(states).toContain('reconnecting');
    // The last one counts once the host has taken it.
    await eventually(() => bridge.sequence === COUNT);
  }, 120_000);

  test('BRG-05 a relay that restarted without memory goes on where both stand', async () => {
    const first = await relayFor();
    const { bridge, users } = bridgeFor({ baseUrl: first.url, version, heartbeatMs: 100 });
    await bridge.connect();
    await bridge.send({ type: 'x', n: 1 });
    for (const text of ['a', 'b']) first.relay.session('s1').send(user(text));
    await eventually(() => users.length === 2);
    await first.relay.close();
    const second = new BridgeRelay({ tokens: TOKENS });
    const messages = received(second);
    for (const text of ['c', 'd', 'e']) second.session('s1').send(user(text));
    await second.listen(first.port);
    onTestFinished(() => second.close());
    await bridge.send({ type: 'x', n: 2 });
    await eventually(() => users.length === 5, 20_000);
    expect(users.map((message: any) => message.message.content)).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(messages.map(({ n }) => n)).toEqual([2]);
    await eventually(() => bridge.sequence === 5);
  }, 60_000);

  test('BRG-02 a slow host makes the relay wait; nothing is dropped', async () => {
    const { relay, url } = await relayFor();
    const seen: number[] = [];
    const { bridge } = bridgeFor({
      baseUrl: url,
      version,
      maxQueuedMessages: 4,
      onUserMessage: async (message: any) => {
        seen.push(Number(message.message.content));
        if (seen.length % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      },
    });
    for (let n = 0; n < 3000; n += 1) relay.session('s1').send(user(String(n)));
    await bridge.connect();
    await eventually(() => seen.length >= 3000, 60_000);
    expect(seen).toEqual(Array.from({ length: 3000 }, (_, n) => n));
  }, 90_000);

  test('BRG-05 a second instance takes the session over: BRIDGE_EPOCH ends the first', async () => {
    const { relay, url } = await relayFor();
    const first = bridgeFor({ baseUrl: url, version, heartbeatMs: 200 });
    await first.bridge.connect();
    const second = bridgeFor({ baseUrl: url, version });
    await second.bridge.connect();
    await eventually(() => first.states.at(-1) === 'closed', 10_000);
    expect((await caught(first.bridge.send({ type: 'x' }))).code).toBe('BRIDGE_EPOCH');
    relay.session('s1').send(user('for the second'));
    await eventually(() => second.users.length === 1);
    expect(first.users).toEqual([]);
    await second.bridge.send({ type: 'still here' });
    expect(second.states).toEqual(['connecting', 'connected']);
  });

  test('BRG-06 401: refreshed once through this bridge’s function, else BRIDGE_AUTH_FAILED; no token is shown', async () => {
    const { url } = await relayFor();
    const calls: boolean[] = [];
    const good = bridgeFor({
      baseUrl: url,
      version,
      getAuthToken: ({ forceRefresh }) => {
        calls.push(forceRefresh);
        return forceRefresh ? TOKENS.agent : 'stale-secret-token';
      },
    });
    await good.bridge.connect();
    await good.bridge.send({ type: 'x' });
    expect(calls).toEqual([false, true]);
    const refused: boolean[] = [];
    const bad = bridgeFor({
      baseUrl: url,
      version,
      sessionId: 's2',
      getAuthToken: ({ forceRefresh }) => {
        refused.push(forceRefresh);
        return 'wrong-secret-token';
      },
    });
    const waiting = caught(bad.bridge.send({ type: 'never sent' }));
    const error = await caught(bad.bridge.connect());
    expect(error).toMatchObject({ name: 'McpBridgeError', code: 'BRIDGE_AUTH_FAILED', retryable: false });
    expect((await waiting).code).toBe('BRIDGE_AUTH_FAILED');
    expect(refused).toEqual([false, true]);
    expect(bad.states).toEqual(['connecting', 'closed']);
    expect(JSON.stringify([error, error.message, bad.reasons, bad.diagnostics])).not.toContain('secret');
  });

  test('BRG-05 the relay is away for a while and comes back without memory of the connection', async () => {
    const { relay, port } = await relayFor();
    const proxy = await cuttingProxy(port, 3, 100);
    proxy.stop();
    const { bridge, states, users } = bridgeFor({ baseUrl: proxy.url, version, heartbeatMs: 200 });
    await bridge.connect();
    proxy.cutAll();
    relay.session('s1').send(user('meanwhile'));
    await bridge.send({ type: 'x' });
    await eventually(() => users.length === 1, 10_000);
    await eventually(() => states.at(-1) === 'connected', 10_000);
    expect(states).toEqual(['connecting', 'connected', 'reconnecting', 'connected']);
  });
});

describe('control requests', () => {
  /** A session whose replies are kept by the id of their request. */
  async function controlled(options: Parameters<typeof bridgeFor>[0] extends infer O ? Partial<O> : never) {
    const { relay, url } = await relayFor();
    const messages = received(relay);
    const world = bridgeFor({ ...options, baseUrl: url });
    await world.bridge.connect();
    const session = relay.session('s1');
    const ask = async (request: JsonObject) => {
      const id = crypto.randomUUID();
      session.send(control(request, id));
      const reply = await eventually(
        () => messages.find((message) => message.response?.request_id === id),
        10_000,
      );
      expect(reply.type).toBe('control_response');
      return reply.response;
    };
    return { ...world, session, messages, ask };
  }

  test('BRG-03 each subtype is answered, what is unknown with an error', async () => {
    const asked: any[] = [];
    const { ask } = await controlled({
      onControlRequest: (request) => {
        asked.push(request);
        if (request.subtype === 'initialize') return { commands: ['/x'], models: ['m1'] };
        if (request.subtype === 'set_permission_mode')
          return request.mode === 'plan' ? { ok: true } : { ok: false, error: 'policy forbids it' };
        if (request.subtype === 'set_model') throw new Error('no such model');
        return undefined;
      },
    });
    expect(await ask({ subtype: 'initialize' })).toMatchObject({
      subtype: 'success',
      response: { commands: ['/x'], models: ['m1'], output_style: 'default', account: {}, pid: process.pid },
    });
    expect(await ask({ subtype: 'set_permission_mode', mode: 'plan' })).toMatchObject({ subtype: 'success' });
    expect(await ask({ subtype: 'set_permission_mode', mode: 'yolo' })).toMatchObject({
      subtype: 'error',
      code: 'refused',
      error: 'policy forbids it',
    });
    expect(await ask({ subtype: 'set_model', model: 'x' })).toMatchObject({
      subtype: 'error',
      code: 'failed',
    });
    expect(await ask({ subtype: 'set_max_thinking_tokens', max_thinking_tokens: 5 })).toMatchObject({
      subtype: 'success',
    });
    expect(asked.map(({ subtype }) => subtype)).toEqual([
      'initialize',
      'set_permission_mode',
      'set_permission_mode',
      'set_model',
      'set_max_thinking_tokens',
    ]);
    expect(await ask({ subtype: 'format_disk' })).toMatchObject({
      subtype: 'error',
      code: 'unknown_subtype',
    });
    expect(asked).toHaveLength(5);
  });

  test('BRG-03 an interrupt passes what waits and acts at once', async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    let interrupted = false;
    const { ask, session } = await controlled({
      onUserMessage: () => held,
      onControlRequest: async ({ subtype }) => {
        if (subtype === 'interrupt') interrupted = true;
        else await held;
      },
    });
    session.send(user('slow'));
    session.send(control({ subtype: 'set_model', model: 'slow' }));
    expect(await ask({ subtype: 'interrupt' })).toMatchObject({ subtype: 'success' });
    await eventually(() => interrupted);
    release();
  });

  test('B-193 nothing that is configured, approved or allowed is changed from outside', async () => {
    const asked: unknown[] = [];
    const { ask } = await controlled({ onControlRequest: (request) => void asked.push(request) });
    for (const subtype of ['addServer', 'approve', 'setPolicy'])
      expect(await ask({ subtype, command: 'evil' })).toMatchObject({ code: 'needs_local_confirmation' });
    expect(asked).toEqual([]);
  });

  test('BRG-04 outbound-only: whatever changes state is refused, initialize still answers', async () => {
    const asked: string[] = [];
    const { ask, session, messages, users, bridge } = await controlled({
      outboundOnly: true,
      onControlRequest: ({ subtype }) => void asked.push(subtype),
      onPermissionResponse: () => void asked.push('permission'),
    });
    for (const request of <JsonObject[]>[
      { subtype: 'set_model', model: 'm' },
      { subtype: 'set_max_thinking_tokens' },
      { subtype: 'set_permission_mode', mode: 'm' },
      { subtype: 'interrupt' },
    ]) {
      const reply = await ask(request);
      expect(reply).toMatchObject({ subtype: 'error', code: 'remote_control_disabled' });
      expect(reply.error).toMatch(/remote control must be enabled where the session runs/);
    }
    expect(await ask({ subtype: 'initialize' })).toMatchObject({ subtype: 'success' });
    session.send(user('do it', 'u-1'));
    session.send({ type: 'control_response', response: { request_id: 'q', behavior: 'allow' } });
    await eventually(() => messages.filter(({ type }) => type === 'refusal').length === 2);
    expect(messages.find(({ refused }) => refused === 'u-1')).toMatchObject({
      code: 'remote_control_disabled',
    });
    expect([asked, users]).toEqual([['initialize'], []]);
    expect((await caught(bridge.askPermission({ tool: 'x' }))).code).toBe('BRIDGE_DISABLED');
    await bridge.send({ type: 'assistant', text: 'still sends' });
  });

  test('BRG-02 a permission answer goes straight to the question that waits for it', async () => {
    const stray: JsonObject[] = [];
    const { bridge, session, messages } = await controlled({
      onUserMessage: () => new Promise(() => {}),
      onPermissionResponse: (response) => void stray.push(response),
      callbackTimeoutMs: 60_000,
    });
    session.send(user('holds the lane up'));
    const answer = bridge.askPermission({ tool_name: 'write', input: { path: 'x' } });
    const question = await eventually(() => messages.find(({ type }) => type === 'control_request'));
    expect(question.request).toEqual({ subtype: 'can_use_tool', tool_name: 'write', input: { path: 'x' } });
    const response = { request_id: question.request_id, subtype: 'success', response: { behavior: 'allow' } };
    session.send({ type: 'control_response', response });
    expect(await answer).toEqual(response);
    session.send({ type: 'control_response', response });
    await eventually(() => stray.length === 1);
    expect(stray).toEqual([response]);
    const controller = new AbortController();
    const given = caught(bridge.askPermission({ tool_name: 'read' }, { signal: controller.signal }));
    const second = await eventually(() => messages.find(({ request }) => request?.tool_name === 'read'));
    controller.abort(new Error('answered here'));
    expect((await given).message).toBe('answered here');
    const cancel = await eventually(() => messages.find(({ type }) => type === 'control_cancel_request'));
    expect(cancel.request_id).toBe(second.request_id);
  });

  test('BRG-02 echoes and redeliveries of user messages are dropped', async () => {
    const { bridge, session, users } = await controlled({});
    await bridge.send(user('typed here', 'own'));
    for (const message of [user('typed here', 'own'), user('a', 'a'), user('a', 'a'), user('b', 'b')])
      session.send(message);
    await eventually(() => users.some(({ uuid }) => uuid === 'b'));
    expect(users.map(({ uuid }) => uuid)).toEqual(['a', 'b']);
  });
});

describe('what goes wrong', () => {
  test('BRG-05 a host whose functions throw or hang is told, and the next message comes', async () => {
    const { relay, url } = await relayFor();
    const seen: string[] = [];
    const { bridge, diagnostics } = bridgeFor({
      baseUrl: url,
      callbackTimeoutMs: 300,
      onUserMessage: (message: any) => {
        const text = message.message.content;
        seen.push(text);
        if (text === 'throws') throw new Error('host broke');
        if (text === 'hangs') return new Promise(() => {});
        return undefined;
      },
    });
    await bridge.connect();
    for (const text of ['throws', 'hangs', 'fine']) relay.session('s1').send(user(text));
    await eventually(() => seen.length === 3, 10_000);
    expect(seen).toEqual(['throws', 'hangs', 'fine']);
    await eventually(() => bridge.sequence === 3);
    expect(diagnostics.map(({ code }) => code)).toEqual(['BRIDGE_CALLBACK_FAILED', 'BRIDGE_CALLBACK_FAILED']);
    expect(diagnostics[0].message).toContain('host broke');
    expect(diagnostics[1].message).toContain('callbackTimeoutMs');
  });

  test('BRG-06 a token is renewed before it expires', async () => {
    const jwt = (seconds: number) =>
      ['{}', JSON.stringify({ exp: Math.floor(Date.now() / 1000) + seconds }), 'signature']
        .map((part) => Buffer.from(part).toString('base64url'))
        .join('.');
    let current = '';
    const tokens = new Set<string>();
    const { url } = await relayFor({ authorize: ({ token }) => token === current });
    const forced: boolean[] = [];
    const { bridge } = bridgeFor({
      baseUrl: url,
      heartbeatMs: 200,
      getAuthToken: ({ forceRefresh }) => {
        forced.push(forceRefresh);
        current = jwt(forceRefresh ? 3600 : 2);
        tokens.add(current);
        return current;
      },
    });
    await bridge.connect();
    await eventually(() => forced.length === 2, 10_000, 'renewal');
    await bridge.send({ type: 'x' });
    expect(forced).toEqual([false, true]);
    expect(tokens.size).toBe(2);
  });

  test('BRG-06 a getAuthToken that throws or hangs is asked again; null is a no', async () => {
    const { url } = await relayFor();
    let asked = 0;
    const patient = bridgeFor({
      baseUrl: url,
      callbackTimeoutMs: 200,
      getAuthToken: () => {
        asked += 1;
        if (asked === 1) throw new Error('offline');
        return asked === 2 ? new Promise(() => {}) : TOKENS.agent;
      },
    });
    await patient.bridge.connect();
    expect(asked).toBe(3);
    const { bridge } = bridgeFor({ baseUrl: url, sessionId: 's2', getAuthToken: () => null });
    expect((await caught(bridge.connect())).code).toBe('BRIDGE_AUTH_FAILED');
    const never = bridgeFor({
      baseUrl: url,
      sessionId: 's3',
      connectTimeoutMs: 300,
      getAuthToken: () => Promise.reject(new Error('still offline')),
    });
    const error = await caught(never.bridge.connect());
    expect([error.code, error.message]).toEqual(['BRIDGE_CLOSED', expect.stringContaining('still offline')]);
  });

  test('BRG-06 each bridge has its own token', async () => {
    const seen: string[] = [];
    const { url } = await relayFor({
      authorize: ({ token, sessionId }) => {
        seen.push(`${sessionId} ${token}`);
        return token === `token-of-${sessionId}`;
      },
    });
    await Promise.all(
      ['a', 'b', 'c'].map(async (sessionId) => {
        const { bridge } = bridgeFor({
          baseUrl: url,
          sessionId,
          getAuthToken: () => `token-of-${sessionId}`,
        });
        await bridge.connect();
        await bridge.send({ type: 'x' });
      }),
    );
    expect(seen.every((line) => line === `${line[0]} token-of-${line[0]}`)).toBe(true);
  });

  test('BRG-07 an account that may not be controlled does not connect', async () => {
    const { url } = await relayFor();
    const { bridge, states } = bridgeFor({ baseUrl: url, account: { subscription: null } });
    const error = await caught(bridge.connect());
    expect(error).toMatchObject({ code: 'BRIDGE_DISABLED', message: getBridgeDisabledReason({}) });
    expect(states).toEqual([]);
  });

  test('nobody listens: connect fails within its time, and everything that waits with it', async () => {
    const { bridge, states } = bridgeFor({ baseUrl: 'http://127.0.0.1:9', connectTimeoutMs: 600 });
    const waiting = caught(bridge.send({ type: 'x' }));
    const error = await caught(bridge.connect());
    expect(error).toMatchObject({ code: 'BRIDGE_CLOSED', cause: { code: 'CONNECT_FAILED' } });
    expect((await waiting).code).toBe('BRIDGE_CLOSED');
    expect(states).toEqual(['connecting', 'closed']);
  });

  test('a full queue refuses, a message too large too', async () => {
    const { url } = await relayFor();
    const { bridge } = bridgeFor({ baseUrl: url, maxQueuedMessages: 2, maxMessageBytes: 1000 });
    const waiting = [bridge.send({ n: 1 }), bridge.send({ n: 2 })];
    expect((await caught(bridge.send({ n: 3 }))).code).toBe('TRANSPORT_BACKPRESSURE');
    await bridge.connect();
    await Promise.all(waiting);
    expect((await caught(bridge.send({ text: 'x'.repeat(1000) }))).code).toBe('MESSAGE_TOO_LARGE');
    await bridge.send({ n: 4 });
  });

  test('close settles what waits', async () => {
    const { bridge } = bridgeFor({ baseUrl: 'http://127.0.0.1:9' });
    const all = [bridge.connect(), bridge.send({ n: 1 }), bridge.askPermission({ tool_name: 'x' })].map((p) =>
      caught(p),
    );
    await Promise.all([bridge.close(), bridge.close()]);
    for (const error of await Promise.all(all)) expect(error.code).toBe('BRIDGE_CLOSED');
  });
});

describe('pure', () => {
  test('BRG-02 BoundedUuidSet keeps the last so many ids', () => {
    const set = new BoundedUuidSet(2);
    expect([set.add('a'), set.add('a'), set.add('b'), set.add('c')]).toEqual([true, false, true, true]);
    expect([set.has('a'), set.has('b'), set.has('c'), set.size]).toEqual([false, true, true, 2]);
    expect(() => new BoundedUuidSet(0)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
  });

  test('BRG-07 getBridgeDisabledReason gives the first failing layer', () => {
    const full = {
      subscription: 'team',
      scopes: ['user:profile'],
      organizationUuid: 'o',
      featureEnabled: true,
    };
    expect(getBridgeDisabledReason(full)).toBeNull();
    expect(getBridgeDisabledReason({ ...full, subscription: null, scopes: [] })).toMatch(/subscription/);
    expect(getBridgeDisabledReason({ ...full, scopes: [], organizationUuid: null })).toMatch(/profile/);
    expect(getBridgeDisabledReason({ ...full, organizationUuid: null, featureEnabled: false })).toMatch(
      /organisation/,
    );
    expect(getBridgeDisabledReason({ ...full, featureEnabled: false })).toMatch(/not switched on/);
  });
});
