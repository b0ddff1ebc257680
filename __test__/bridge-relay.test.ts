/** The reference relay by itself (B-190, B-192, B-195), and bridges against relays that break the protocol. */
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect as tcpConnect, type AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { JsonObject } from '..';
import { BridgeRelay } from 'mcp-switchboard/bridge-relay';
import { bridgeFor, relayFor, TOKENS } from './bridge-world';
import { caught, eventually, thrown } from './harness';

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

/** One request with exactly these headers; `fetch` would not send some of them. */
function ask(
  url: string,
  {
    method = 'POST',
    headers = {},
    body = '',
  }: { method?: string; headers?: Record<string, string>; body?: string },
): Promise<{ status: number; headers: IncomingMessage['headers']; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(url, { method, headers }, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode!, headers: response.headers, text }));
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

describe('the relay', () => {
  test('wants to know who may', () => {
    const { AGENT: agent, CONTROLLER: controller } = {} as Record<string, never>;
    for (const options of [{}, { tokens: {} }, { tokens: { agent, controller } }, { tokens: { agent: '' } }])
      expect(
        thrown(() => new BridgeRelay(options)),
        JSON.stringify(options),
      ).toMatchObject({
        code: 'INVALID_ARGUMENT',
      });
    for (const wrong of [{ leaseMs: 'a' }, { maxSessions: 0 }, { allowedOrigins: 'x' }, { authorize: 1 }])
      expect(thrown(() => new BridgeRelay({ tokens: TOKENS, ...wrong } as never))).toMatchObject({
        code: 'INVALID_ARGUMENT',
        parameter: `options.${Object.keys(wrong)[0]}`,
      });
  });

  test('close() ends every address it listens at, also where one was taken', async () => {
    const relay = new BridgeRelay({ tokens: TOKENS });
    const first = await relay.listen();
    const second = await relay.listen();
    expect((await caught(relay.listen(first.port))).code).toBe('EADDRINUSE');
    expect((await caught(relay.listen(-1))).code).toBe('INVALID_ARGUMENT');
    await relay.close();
    for (const { url } of [first, second])
      expect((await caught(ask(url, {}))).code, url).toBe('ECONNREFUSED');
    const { url } = await relay.listen();
    expect((await ask(url, {})).status).toBe(404);
    await relay.close();
  });

  test('B-190 pages of a browser and foreign names are refused, token or not; nothing is allowed across origins', async () => {
    const { url } = await relayFor();
    const path = `${url}/v2/sessions/s/register`;
    const body = JSON.stringify({ instance: 'i' });
    for (const headers of <Record<string, string>[]>[
      { Origin: 'https://evil.test' },
      { Origin: 'null' },
      { Host: 'evil.test' },
      { Host: 'evil.test', Origin: 'https://evil.test' },
    ])
      expect((await ask(path, { headers: { ...bearer(TOKENS.agent), ...headers }, body })).status).toBe(403);
    expect((await ask(path, { body })).status).toBe(401);
    const preflight = await ask(path, { method: 'OPTIONS', headers: { Origin: 'https://evil.test' } });
    expect([preflight.status, preflight.headers['access-control-allow-origin']]).toEqual([404, undefined]);
    expect((await ask(path, { headers: bearer(TOKENS.agent), body })).status).toBe(200);
    const upgrade = { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Key': 'x', Origin: 'null' };
    const refused = await ask(`${url}/v1/sessions/s/stream?instance=i`, {
      method: 'GET',
      headers: { ...upgrade, ...bearer(TOKENS.agent) },
    });
    expect(refused.status).toBe(403);
  });

  test('B-192 guesses are limited from the tenth on, and all refusals look the same', async () => {
    const { url } = await relayFor();
    const answers: { status: number; text: string }[] = [];
    for (let n = 0; n < 20; n += 1)
      answers.push(await ask(`${url}/v2/sessions/s/register`, { headers: bearer(`guess-${n}`), body: '{}' }));
    expect(answers.map(({ status }) => status)).toEqual([...Array(10).fill(401), ...Array(10).fill(429)]);
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(
      (await ask(`${url}/v2/sessions/s/register`, { headers: bearer(TOKENS.agent), body: '{}' })).status,
    ).toBe(429);
  });

  test('B-192 guesses side by side are limited like those one after the other', async () => {
    const asked: (() => void)[] = [];
    const authorize = () =>
      new Promise<boolean>((resolve) => {
        const right = asked.length === 15;
        asked.push(() => resolve(right));
      });
    const { url } = await relayFor({ authorize });
    const guesses = Array.from({ length: 20 }, (_, n) =>
      ask(`${url}/v2/sessions/s/register`, { headers: bearer(`guess-${n}`), body: '{"instance":"i"}' }),
    );
    await eventually(() => asked.length === 20);
    for (const answer of asked) answer();
    const all = (await Promise.all(guesses)).map(({ status }) => status);
    expect(all.filter((status) => status === 401)).toHaveLength(10);
    expect(all.filter((status) => status === 429)).toHaveLength(10);
  });

  test('each role has its own token', async () => {
    const { url } = await relayFor();
    const control = `${url}/control/sessions/s/messages`;
    const body = JSON.stringify({ messages: [{ type: 'user' }] });
    expect((await ask(control, { headers: bearer(TOKENS.agent), body })).status).toBe(401);
    const sent = await ask(control, { headers: bearer(TOKENS.controller), body });
    expect([sent.status, sent.text]).toEqual([200, '{"sequence":1}']);
  });

  test('B-195 nothing is read for somebody who may not, and not more than the bound for others', async () => {
    const { port } = await relayFor({ maxMessageBytes: 1000 });
    /** Sends a head, and a body without end once that is wanted; gives the status and how much was taken. */
    const post = async (...headers: string[]) => {
      const socket = tcpConnect(port, '127.0.0.1');
      onTestFinished(() => void socket.destroy());
      let [answer, open] = ['', true];
      socket.on('data', (bytes) => (answer += String(bytes)));
      socket.on('close', () => (open = false));
      socket.on('error', () => (open = false));
      socket.write(
        ['POST /v2/sessions/s/messages HTTP/1.1', 'Host: localhost', ...headers, '', ''].join('\r\n'),
      );
      const endless = headers.some((line) => line.startsWith('Transfer-Encoding'));
      while (open && answer === '' && endless) {
        socket.write(`10000\r\n${'x'.repeat(0x10000)}\r\n`);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      await eventually(() => !open, 10_000);
      return { status: answer.slice(9, 12), written: socket.bytesWritten };
    };
    const huge = `Content-Length: ${100 * 1024 * 1024}`;
    const token = `Authorization: Bearer ${TOKENS.agent}`;
    expect((await post(huge)).status).toBe('401');
    expect((await post(huge, token)).status).toBe('413');
    const endless = await post('Transfer-Encoding: chunked', token);
    expect(['413', '']).toContain(endless.status);
    expect(endless.written).toBeLessThan(20 * 1024 * 1024);
  });

  test('controllers follow an agent over HTTP alone', async () => {
    const { url } = await relayFor();
    const { bridge, users } = bridgeFor({ baseUrl: url, sessionId: 's' });
    await bridge.connect();
    await bridge.send({ type: 'assistant', n: 1 });
    const controller = new AbortController();
    onTestFinished(() => controller.abort());
    const stream = await fetch(`${url}/control/sessions/s/stream?from=1`, {
      headers: bearer(TOKENS.controller),
      signal: controller.signal,
    });
    let text = '';
    void (async () => {
      for await (const chunk of stream.body!) text += new TextDecoder().decode(chunk);
    })().catch(() => {});
    await bridge.send({ type: 'assistant', n: 2 });
    await eventually(() => text.includes('"n":2'));
    expect(text).toContain('"n":1');
    expect(text).toContain('{"state":"online"}');
    const said = { messages: [{ type: 'user', uuid: 'u', text: 'hello' }] };
    await ask(`${url}/control/sessions/s/messages`, {
      headers: bearer(TOKENS.controller),
      body: JSON.stringify(said),
    });
    await eventually(() => users.length === 1);
    await bridge.close();
    await eventually(() => text.includes('{"state":"offline"}'));
  });

  /** Posts JSON for a role; gives status and answer. */
  const post = async (url: string, role: 'agent' | 'controller', value: unknown) => {
    const { status, text } = await ask(url, { headers: bearer(TOKENS[role]), body: JSON.stringify(value) });
    return { status, value: JSON.parse(text) };
  };

  /** A socket that speaks HTTP by hand and stays open on its side, whatever the other does. */
  const byHand = (port: number, ...head: string[]) => {
    const socket = tcpConnect({ port, host: '127.0.0.1', allowHalfOpen: true });
    onTestFinished(() => void socket.destroy());
    const seen = { text: '', closed: false };
    socket.on('data', (bytes) => (seen.text += String(bytes)));
    socket.on('error', () => {});
    socket.on('close', () => (seen.closed = true));
    socket.write([...head, 'Host: localhost', '', ''].join('\r\n'));
    return { socket, seen };
  };
  const UPGRADE = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: x'];
  const token = `Authorization: Bearer ${TOKENS.agent}`;

  test('BRG-01 who leaves while authorize thinks leaves nothing behind', async () => {
    const asked: (() => void)[] = [];
    const authorize = () => new Promise<boolean>((resolve) => void asked.push(() => resolve(true)));
    const { relay, port } = await relayFor({ authorize });
    const session = relay.session('s');
    const before = [session.listenerCount('message'), session.listenerCount('state')];
    const { socket } = byHand(port, 'GET /control/sessions/s/stream HTTP/1.1', token);
    await eventually(() => asked.length === 1);
    socket.destroy();
    await new Promise((resolve) => setTimeout(resolve, 100));
    asked[0]();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect([session.listenerCount('message'), session.listenerCount('state')]).toEqual(before);
  });

  test('BRG-01 a peer that keeps its half open keeps no descriptor, and close() waits for none', async () => {
    const { relay, port } = await relayFor({
      authorize: ({ token: given }) => given === TOKENS.agent || (given === 'slow' && new Promise(() => {})),
    });
    const refused = byHand(port, 'GET /v1/sessions/s/stream HTTP/1.1', ...UPGRADE);
    await eventually(() => refused.seen.text.startsWith('HTTP/1.1 401'));
    // What is written to it once it is gone is answered with a reset.
    const gone = () => {
      refused.socket.write('x');
      return refused.seen.closed;
    };
    await eventually(gone, 5_000);
    const served = byHand(port, 'GET /v1/sessions/s/stream?instance=i HTTP/1.1', ...UPGRADE, token);
    byHand(port, 'GET /v1/sessions/s/stream?instance=j HTTP/1.1', ...UPGRADE, 'Authorization: Bearer slow');
    await eventually(() => served.seen.text.startsWith('HTTP/1.1 101'));
    await eventually(() => relay.session('s').online);
    const begun = Date.now();
    await relay.close();
    expect(Date.now() - begun).toBeLessThan(5_000);
  });

  test('BRG-05 what an agent has read is kept until its heartbeat says that it was taken', async () => {
    const { relay, url } = await relayFor();
    const session = relay.session('s');
    const call = (path: string, value: object) => post(`${url}/v2/sessions/s/${path}`, 'agent', value);
    const { value } = await call('register', { instance: 'a', from: 1 });
    for (let n = 1; n <= 5; n += 1) session.send({ type: 'user', n });
    await call('heartbeat', { instance: 'a', epoch: value.epoch, sequence: 2 });
    expect((await call('register', { instance: 'a', epoch: value.epoch, from: 6 })).status).toBe(200);
    const next = await call('register', { instance: 'b', from: 3 });
    const stream = await fetch(`${url}/v2/sessions/s/stream?instance=b&epoch=${next.value.epoch}&from=3`, {
      headers: bearer(TOKENS.agent),
    });
    let text = '';
    for await (const chunk of stream.body!) {
      text += new TextDecoder().decode(chunk);
      if (text.includes('"n":5')) break;
    }
    expect(text.match(/^id: \d+$/gm)).toEqual(['id: 3', 'id: 4', 'id: 5']);
  });

  test('BRG-01 an agent of version 1 is gone with its socket, and cannot write to an archived session', async () => {
    const { relay, url, port } = await relayFor();
    const session = relay.session('s');
    const states: string[] = [];
    session.on('state', (state) => states.push(state));
    const write = (instance: string, id = 's') =>
      post(`${url}/v1/sessions/${id}/messages`, 'agent', { instance, first: 1, messages: [{ n: 1 }] });
    const open = () => byHand(port, 'GET /v1/sessions/s/stream?instance=i HTTP/1.1', ...UPGRADE, token);
    const first = open();
    await eventually(() => session.online);
    first.socket.destroy();
    await eventually(() => !session.online);
    const second = open();
    await eventually(() => session.online);
    // The same instance opens another one: that is no absence.
    open();
    await eventually(() => second.seen.text.includes('replaced'));
    second.socket.destroy();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(states).toEqual(['online', 'offline', 'online']);
    expect((await write('i')).status).toBe(200);
    await post(`${url}/v1/sessions/s/archive`, 'agent', {});
    expect([(await write('i')).status, session.received, session.online]).toEqual([404, 1, false]);
    relay.session('unserved');
    await post(`${url}/v1/sessions/unserved/archive`, 'agent', {});
    expect([(await write('i', 'unserved')).status, relay.session('unserved').online]).toEqual([404, false]);
  });

  test('B-195 no message above the bound is taken, in either direction', async () => {
    const { relay, url } = await relayFor({ maxMessageBytes: 1000 });
    const session = relay.session('s');
    const { value } = await post(`${url}/v2/sessions/s/register`, 'agent', { instance: 'a' });
    const sized = (bytes: number) => ({ x: 'x'.repeat(bytes - 8) });
    const from = (path: string, message: object) => {
      const body = { instance: 'a', epoch: value.epoch, first: session.received + 1, messages: [message] };
      return post(`${url}/v2/sessions/s/${path}`, 'agent', body);
    };
    const to = (message: object) =>
      post(`${url}/control/sessions/s/messages`, 'controller', { messages: [message] });
    expect([(await from('messages', sized(1000))).status, (await to(sized(1000))).status]).toEqual([
      200, 200,
    ]);
    expect([(await from('messages', sized(1001))).status, (await to(sized(1001))).status]).toEqual([
      413, 413,
    ]);
    expect(() => session.send(sized(1001))).toThrow('1000 bytes');
    expect([session.received, session.send({})]).toEqual([1, 2]);
    const many = { instance: 'a', epoch: value.epoch, first: 2, messages: [sized(900), sized(900)] };
    expect((await post(`${url}/v2/sessions/s/messages`, 'agent', many)).status).toBe(200);
  });

  test('BRG-01 messages of a controller are taken all or not at all; what cannot be written down is refused', async () => {
    const { relay, url } = await relayFor({ maxRetained: 3 });
    const send = (...messages: unknown[]) =>
      post(`${url}/control/sessions/s/messages`, 'controller', { messages });
    for (const wrong of [7, null, 'text', []])
      expect((await send({ type: 'user' }, wrong)).value.error.code, String(wrong)).toBe('malformed');
    expect((await send({ n: 1 }, { n: 2 })).value).toEqual({ sequence: 2 });
    expect((await send({ n: 3 }, { n: 4 })).status).toBe(429);
    expect((await send({ n: 3 })).value).toEqual({ sequence: 3 });
    const session = relay.session('t');
    expect(() => session.send({ n: 1n } as never)).toThrow(TypeError);
    expect(session.send({ n: 1 })).toBe(1);
    const wrong = await ask(`${url}/control/sessions/t/stream?from=1.5`, {
      method: 'GET',
      headers: bearer(TOKENS.controller),
    });
    expect(wrong.status).toBe(400);
  });
});

/** A relay that does what a test says: `on` answers by path, what it does not answer is answered well. */
async function faultyRelay(
  on: (path: string, response: ServerResponse, body: any, count: number) => boolean | void,
) {
  const counts = new Map<string, number>();
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const path = new URL(request.url!, 'http://x').pathname.split('/').at(-1)!;
    const count = (counts.get(path) ?? 0) + 1;
    counts.set(path, count);
    const body = text === '' ? {} : (JSON.parse(text) as JsonObject);
    if (on(path, response, body, count) === true) return;
    if (path === 'stream') {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.write('event: alive\ndata: {}\n\n');
      return;
    }
    const { first, messages } = body as { first: number; messages: unknown[] };
    const answer =
      path === 'register'
        ? { epoch: count, acknowledged: 0, leaseMs: 60_000 }
        : path === 'messages'
          ? { acknowledged: first + messages.length - 1 }
          : {};
    response.end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, counts };
}

/** Answers; says that it did. */
function answered(
  response: ServerResponse,
  status: number,
  text = '',
  headers: Record<string, string> = {},
): true {
  response.writeHead(status, headers).end(text);
  return true;
}

const event = (epoch: number, sequence: number, message: JsonObject) =>
  `event: message\nid: ${sequence}\ndata: ${JSON.stringify({ epoch, sequence, message })}\n\n`;
const user = (text: string): JsonObject => ({ type: 'user', uuid: text, text });

/** Writes these events into each stream that is opened. */
const streaming =
  (texts: (count: number) => string[]) => (path: string, response: ServerResponse, _: any, count: number) => {
    if (path !== 'stream') return false;
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write('event: alive\ndata: {}\n\n');
    for (const text of texts(count)) response.write(text);
    return true;
  };

describe('relays that break the protocol', () => {
  test.each<[string, Parameters<typeof faultyRelay>[0]]>([
    ['a message without envelope', streaming(() => ['event: message\ndata: {"hello":1}\n\n'])],
    ['a message that is no JSON', streaming(() => ['event: message\ndata: nonsense\n\n'])],
    [
      'an acknowledgement that cannot be',
      (path, response) => path === 'messages' && answered(response, 200, '{"acknowledged":99}'),
    ],
    ['an answer that is none', (path, response) => path === 'messages' && answered(response, 200, '<html>')],
    [
      'a redirect',
      (path, response) =>
        path === 'messages' && answered(response, 307, '', { Location: 'http://127.0.0.1:9/' }),
    ],
  ])('BRG-05 %s ends the bridge with BRIDGE_PROTOCOL', async (_name, on) => {
    const { url } = await faultyRelay(on);
    const { bridge, states } = bridgeFor({ baseUrl: url });
    await bridge.connect();
    void bridge.send({ type: 'x' }).catch(() => {});
    await eventually(() => states.at(-1) === 'closed', 10_000);
    expect((await caught(bridge.send({ type: 'y' }))).code).toBe('BRIDGE_PROTOCOL');
  });

  test('BRG-05 gaps and repeats are noticed: asked for again, then told as lost', async () => {
    const all = [1, 2, 5, 2, 6].map((number) => event(1, number, user(`m${number}`)));
    const { url, counts } = await faultyRelay(streaming(() => all));
    const { bridge, users, diagnostics } = bridgeFor({ baseUrl: url });
    await bridge.connect();
    await eventually(() => users.length === 4, 10_000);
    expect(users.map(({ text }) => text)).toEqual(['m1', 'm2', 'm5', 'm6']);
    expect(counts.get('stream')).toBe(2);
    expect(diagnostics.map(({ code }) => code)).toEqual([
      'BRIDGE_GAP',
      'BRIDGE_REPEATED',
      'BRIDGE_MESSAGES_LOST',
    ]);
    expect(diagnostics[2].message).toMatch(/^2 messages/);
    expect(bridge.sequence).toBe(6);
  });

  test('BRG-05 what a stale epoch sends is dropped, and comes again under the current one', async () => {
    const { url } = await faultyRelay(
      streaming(() => [event(0, 1, user('late')), event(1, 1, user('current')), event(0, 2, user('late'))]),
    );
    const { bridge, users, diagnostics } = bridgeFor({ baseUrl: url });
    await bridge.connect();
    await eventually(() => users.length === 1);
    expect(users.map(({ text }) => text)).toEqual(['current']);
    await eventually(() => diagnostics.length === 1);
    expect(diagnostics[0].code).toBe('BRIDGE_STALE');
  });

  test('BRG-05 a forgotten registration (410) is made anew; nothing is sent twice', async () => {
    const taken: number[] = [];
    const { url, counts } = await faultyRelay((path, response, body, count) => {
      if (path !== 'messages') return false;
      if (count === 1) return answered(response, 410);
      taken.push(...body.messages.map(({ n }: { n: number }) => n));
      return false;
    });
    const { bridge } = bridgeFor({ baseUrl: url });
    await bridge.connect();
    await Promise.all([1, 2, 3].map((n) => bridge.send({ type: 'x', n })));
    expect(taken).toEqual([1, 2, 3]);
    expect([counts.get('register'), bridge.epoch]).toEqual([2, 2]);
  });

  test('BRG-05 413: fewer at a time; one that is too large fails alone', async () => {
    const taken: number[] = [];
    const { url } = await faultyRelay((path, response, body) => {
      if (path !== 'messages') return false;
      if (body.messages.length > 1 || body.messages[0].n === 2) return answered(response, 413);
      taken.push(body.messages[0].n);
      return false;
    });
    const { bridge } = bridgeFor({ baseUrl: url });
    const sent = [1, 2, 3].map((n) =>
      bridge.send({ type: 'x', n }).then(
        () => 'sent',
        (error) => error.code,
      ),
    );
    await bridge.connect();
    expect(await Promise.all(sent)).toEqual(['sent', 'MESSAGE_TOO_LARGE', 'sent']);
    expect(taken).toEqual([1, 3]);
  });

  test('BRG-05 a relay that falls silent is left and found again', async () => {
    const { url, counts } = await faultyRelay(() => false);
    const { bridge, states } = bridgeFor({ baseUrl: url, heartbeatMs: 100 });
    await bridge.connect();
    await eventually(() => (counts.get('stream') ?? 0) >= 2, 10_000);
    expect(states).toContain('reconnecting');
    expect(counts.get('heartbeat')).toBeGreaterThan(0);
  });

  test('B-195 a message above the bound is dropped and told, what follows comes', async () => {
    const { url } = await faultyRelay(
      streaming(() => [event(1, 1, { ...user('big'), pad: 'x'.repeat(5000) }), event(1, 2, user('small'))]),
    );
    const { bridge, users, diagnostics } = bridgeFor({ baseUrl: url, maxMessageBytes: 1000 });
    await bridge.connect();
    await eventually(() => users.length === 1);
    expect(users[0].text).toBe('small');
    expect(diagnostics.map(({ code }) => code)).toEqual(['BRIDGE_MESSAGE_TOO_LARGE']);
  });

  test('a busy relay (503) is asked again, after the pause it wants', async () => {
    const { url, counts } = await faultyRelay(
      (path, response, _, count) =>
        path === 'messages' && count < 3 && answered(response, 503, '', { 'Retry-After': '0' }),
    );
    const { bridge } = bridgeFor({ baseUrl: url });
    await bridge.connect();
    await bridge.send({ type: 'x' });
    expect(counts.get('messages')).toBe(3);
  });

  test('a relay may repeat the token it was given: it is not shown', async () => {
    const { url } = await faultyRelay(
      (path, response) => path === 'register' && answered(response, 400, `no: ${TOKENS.agent}`),
    );
    const { bridge, reasons } = bridgeFor({ baseUrl: url });
    const error = await caught(bridge.connect());
    expect(error.code).toBe('BRIDGE_PROTOCOL');
    expect(JSON.stringify([error.message, error, reasons])).not.toContain(TOKENS.agent);
    expect(error.message).toContain('REDACTED');
  });
});
