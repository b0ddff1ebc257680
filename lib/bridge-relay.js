'use strict';
// The reference relay: the other end of a bridge, for anyone to host (docs/bridge-protocol.md). Node alone, no add-on.
// This file is HTTP: routes, bodies, streams; lib/bridge-relay-session.js decides.

const { randomUUID } = require('node:crypto');
const { EventEmitter } = require('node:events');
const { createServer } = require('node:http');
const { Guard } = require('./bridge-relay-guard.js');
const { Refusal, RelaySession, malformed, tooLarge } = require('./bridge-relay-session.js');
const { SpeakingSocket, letGo } = require('./bridge-relay-socket.js');
const check = require('./check.js');

/** Beside the messages a body holds a few words. */
const AROUND = 1024 * 1024;
/** Sub-protocol of the first version's WebSocket. */
const PROTOCOL = 'mcp-switchboard.bridge';
/** How often a stream for controllers shows that it lives. */
const ALIVE_MS = 15_000;
const IDS = /^[^\s\p{Cc}]{1,256}$/u;
const of = (version, name) => new RegExp(`^/${version}/sessions/([^/]+)/${name}$`);

function checkOptions(options) {
  check.object(options, 'options');
  const { allowedOrigins, allowedHosts, limitFailures } = options;
  check.optionalStrings(allowedOrigins, 'options.allowedOrigins');
  check.optionalStrings(allowedHosts, 'options.allowedHosts');
  check.optionalBoolean(limitFailures, 'options.limitFailures');
  check.optionalMillis(options.leaseMs, 'options.leaseMs');
  for (const name of ['maxMessageBytes', 'maxRetained', 'maxSessions'])
    check.optionalCount(options[name], `options.${name}`);
}

/** Events: `session` (session) for each new one, `message` (session, message, number) for each message of an agent. */
class BridgeRelay extends EventEmitter {
  /** Method, path, who may, what answers. */
  static #ROUTES = [
    ['POST', of('v2', 'register'), 'agent', (relay, call) => relay.#register(call)],
    ['DELETE', of('v2', 'register'), 'agent', (relay, call) => relay.#unregister(call)],
    ['GET', of('v2', 'stream'), 'agent', (relay, call) => relay.#stream(call)],
    ['POST', of('v2', 'messages'), 'agent', (relay, call) => relay.#write(call)],
    ['POST', of('v2', 'heartbeat'), 'agent', (relay, call) => relay.#beat(call)],
    ['POST', of('v1', 'messages'), 'agent', (relay, call) => relay.#writeV1(call)],
    ['POST', /^\/v[12]\/sessions$/, 'agent', (relay, call) => relay.#create(call)],
    ['POST', of('v[12]', 'resume'), 'agent', (relay, call) => relay.#resume(call)],
    ['POST', of('v[12]', 'archive'), 'agent', (relay, call) => relay.#archive(call)],
    ['POST', of('control', 'messages'), 'controller', (relay, call) => relay.#control(call)],
    ['GET', of('control', 'stream'), 'controller', (relay, call) => relay.#watch(call)],
  ];

  #guard;
  #options;
  #sessions = new Map();
  #created = new Map();
  /** Those that listen. */
  #servers = new Set();
  #ends = new Set();
  /** Sockets of upgrades, whatever became of those: the server does not know them any more. */
  #upgraded = new Set();

  constructor(options = {}) {
    checkOptions(options);
    super();
    this.#guard = new Guard(options);
    const { leaseMs, maxMessageBytes = 16 * 1024 * 1024, maxRetained = 10_000, maxSessions = 1000 } = options;
    this.#options = { leaseMs, maxMessageBytes, maxRetained, maxSessions };
  }

  /** Listens, at one more address where it does already; gives the URL. */
  async listen(port = 0, host = '127.0.0.1') {
    if (!Number.isInteger(port) || port < 0 || port > 65_535)
      throw check.invalid('port', 'a whole number from 0 to 65535', port);
    check.string(host, 'host');
    const server = createServer((request, response) => void this.handle(request, response));
    server.on('upgrade', (request, socket, head) => void this.handleUpgrade(request, socket, head));
    await new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, host, resolve);
    });
    this.#servers.add(server);
    const address = server.address();
    const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
    return { url: `http://${name}:${address.port}`, port: address.port };
  }

  /** Ends everything. */
  async close() {
    for (const session of this.#sessions.values()) session.end();
    for (const end of this.#ends) end();
    for (const socket of this.#upgraded) letGo(socket);
    const servers = [...this.#servers];
    this.#servers.clear();
    await Promise.all(
      servers.map((server) => {
        const closed = new Promise((resolve) => server.close(resolve));
        server.closeAllConnections();
        return closed;
      }),
    );
  }

  /** The session of an id, which is made where there is none. */
  session(id) {
    const known = this.#sessions.get(id);
    if (known !== undefined) return known;
    if (typeof id !== 'string' || !IDS.test(id)) throw malformed('the id of the session cannot be one');
    if (this.#sessions.size >= this.#options.maxSessions)
      throw new Refusal(429, 'full', `there are ${this.#options.maxSessions} sessions already`);
    const session = new RelaySession(id, this.#options);
    session.on('message', (message, number) => this.emit('message', session, message, number));
    this.#sessions.set(id, session);
    this.emit('session', session);
    return session;
  }

  /** Every session there is. */
  get sessions() {
    return [...this.#sessions.values()];
  }

  /** Answers one HTTP request, for a server of your own. */
  async handle(request, response) {
    response.on('error', () => {});
    try {
      const { role, id, url, run } = this.#route(request);
      const refused = await this.#guard.judge(request, role, id);
      // Nothing of the body is read for somebody who may not speak, and every refusal looks the same.
      if (refused !== undefined) throw new Refusal(refused, 'unauthorized', 'not authorized');
      // Whoever left meanwhile does not leave again.
      if (response.destroyed) return;
      const answer = await run(this, { id, url, request, response });
      if (answer !== undefined) reply(response, 200, answer);
    } catch (error) {
      if (response.headersSent || response.destroyed) return void response.destroy();
      const known = error instanceof Refusal;
      const { status, code, message } = known
        ? error
        : { status: 500, code: 'internal', message: 'the relay failed' };
      if (status === 429) response.setHeader('Retry-After', '1');
      // The rest of the body is not wanted.
      if (!request.complete) response.setHeader('Connection', 'close');
      reply(response, status, { error: { code, message } });
    }
  }

  /** Answers one upgrade to a WebSocket. */
  async handleUpgrade(request, socket, head) {
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#upgraded.delete(socket));
    this.#upgraded.add(socket);
    try {
      const url = new URL(request.url, 'http://relay');
      const match = /^\/v1\/sessions\/([^/]+)\/stream$/.exec(url.pathname);
      if (match === null || !/^websocket$/i.test(request.headers.upgrade ?? ''))
        throw new Refusal(404, 'unknown', 'there is nothing here');
      const id = decode(match[1]);
      const refused = await this.#guard.judge(request, 'agent', id);
      if (refused !== undefined) throw new Refusal(refused, 'unauthorized', 'not authorized');
      if (socket.destroyed || socket.writableEnded) return;
      this.#streamV1(this.session(id), url.searchParams, request, socket, head);
    } catch (error) {
      const { status = 500, code = 'internal', message } = error;
      const body = JSON.stringify({
        error: { code, message: error instanceof Refusal ? message : 'the relay failed' },
      });
      letGo(
        socket,
        `HTTP/1.1 ${status} Refused\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      );
    }
  }

  #route(request) {
    const url = new URL(request.url, 'http://relay');
    for (const [method, path, role, run] of BridgeRelay.#ROUTES) {
      const match = path.exec(url.pathname);
      if (match !== null && method === request.method)
        return { role, id: match[1] === undefined ? undefined : decode(match[1]), url, run };
    }
    throw new Refusal(404, 'unknown', 'there is nothing here');
  }

  // ── for agents ─────────────────────────────────────────────────────────────────────────────────────────
  async #register({ id, request }) {
    return this.session(id).register(await this.#body(request));
  }

  async #unregister({ id, url }) {
    const { instance, epoch } = Object.fromEntries(url.searchParams);
    this.session(id).unregister({ instance, epoch: Number(epoch) });
    return {};
  }

  async #write({ id, request }) {
    return this.session(id).write(await this.#body(request));
  }

  async #writeV1({ id, request }) {
    return this.session(id).write({ ...(await this.#body(request)), epoch: 0 });
  }

  async #beat({ id, request }) {
    return this.session(id).beat(await this.#body(request));
  }

  async #stream({ id, url, response }) {
    const { instance, epoch, from } = Object.fromEntries(url.searchParams);
    const events = openEvents(response);
    const reader = {
      next: numberOf(from),
      room: () => events.room,
      write: (sequence, current, text) =>
        events.say(
          `event: message\nid: ${sequence}\ndata: {"epoch":${current},"sequence":${sequence},"message":${text}}\n\n`,
        ),
      end: () => response.end(),
    };
    const { pump, leave, aliveMs } = this.session(id).read({ instance, epoch: Number(epoch) }, reader);
    events.live(pump, leave, aliveMs);
  }

  #streamV1(session, query, request, socket, head) {
    const next = numberOf(query.get('from') ?? undefined);
    let joined;
    let leave = () => {};
    const speaking = new SpeakingSocket(request, socket, head, PROTOCOL, {
      onRoom: () => joined?.pump(),
      onEnd: () => leave(),
    });
    const say = (method, params) => speaking.say(`{"jsonrpc":"2.0","method":"${method}","params":${params}}`);
    const reader = {
      next,
      room: () => speaking.room,
      write: (sequence, epoch, text) =>
        say('bridge/message', `{"epoch":${epoch},"sequence":${sequence},"message":${text}}`),
      end: (why, taken) => speaking.close(taken ? 4409 : 1001, why),
    };
    try {
      // The first word tells the agent that the connection stands.
      say('bridge/alive', '{}');
      joined = session.readV1({ instance: query.get('instance') }, reader);
    } catch (error) {
      speaking.close(error.status === 409 ? 4409 : 1008, error.message);
      return;
    }
    const alive = setInterval(() => speaking.room && say('bridge/alive', '{}'), joined.aliveMs);
    alive.unref();
    leave = () => {
      clearInterval(alive);
      joined.leave();
    };
  }

  // ── sessions as such ───────────────────────────────────────────────────────────────────────────────────
  async #create({ request }) {
    const key = request.headers['idempotency-key'];
    const { title, metadata } = (await this.#body(request)) ?? {};
    const known = key === undefined ? undefined : this.#created.get(key);
    // Sent twice, made once.
    if (known !== undefined) return known.toJSON();
    const session = this.session(`session_${randomUUID()}`);
    Object.assign(session, { title, metadata });
    if (key !== undefined) {
      this.#created.set(key, session);
      if (this.#created.size > this.#options.maxSessions)
        this.#created.delete(this.#created.keys().next().value);
    }
    return session.toJSON();
  }

  async #resume({ id }) {
    const session = this.#known(id);
    session.resume();
    return session.toJSON();
  }

  async #archive({ id }) {
    const session = this.#known(id);
    session.archive();
    return session.toJSON();
  }

  #known(id) {
    const session = this.#sessions.get(id);
    if (session === undefined) throw new Refusal(404, 'unknown_session', 'there is no session of this id');
    return session;
  }

  // ── for controllers ────────────────────────────────────────────────────────────────────────────────────
  async #control({ id, request }) {
    const { messages } = await this.#body(request);
    if (!Array.isArray(messages)) throw malformed('messages: expected an array');
    return { sequence: this.session(id).sendAll(messages) };
  }

  async #watch({ id, url, response }) {
    const session = this.session(id);
    const events = openEvents(response);
    let next = Math.max(numberOf(url.searchParams.get('from') ?? undefined), session.firstKept);
    let told;
    const pump = () => {
      const state = session.online ? 'online' : 'offline';
      if (told !== state && events.room) {
        told = state;
        events.say(`event: state\ndata: ${JSON.stringify({ state })}\n\n`);
      }
      for (; next <= session.received && events.room; next += 1) {
        const message = session.message(next);
        if (message === undefined) continue;
        events.say(`event: message\nid: ${next}\ndata: ${JSON.stringify({ sequence: next, message })}\n\n`);
      }
    };
    session.on('message', pump).on('state', pump);
    const end = () => response.end();
    this.#ends.add(end);
    const leave = () => {
      this.#ends.delete(end);
      session.off('message', pump).off('state', pump);
    };
    pump();
    events.live(pump, leave, ALIVE_MS);
  }

  /** The JSON of a body, within its bound. */
  async #body(request) {
    const { maxMessageBytes } = this.#options;
    const most = maxMessageBytes + AROUND;
    const chunks = [];
    let size = 0;
    if (Number(request.headers['content-length']) > most) throw bodyTooLarge(most);
    for await (const chunk of request) {
      size += chunk.length;
      if (size > most) throw bodyTooLarge(most);
      chunks.push(chunk);
    }
    const value = objectOf(Buffer.concat(chunks));
    const above = (message) => Buffer.byteLength(JSON.stringify(message)) > maxMessageBytes;
    // Only a body of that size can hold such a message.
    if (size > maxMessageBytes && Array.isArray(value.messages) && value.messages.some(above))
      throw tooLarge(maxMessageBytes);
    return value;
  }
}

const bodyTooLarge = (most) => new Refusal(413, 'too_large', `the body is larger than ${most} bytes`);

function objectOf(bytes) {
  try {
    const value = JSON.parse(bytes.toString('utf8'));
    if (check.isObject(value)) return value;
  } catch {
    // Told below.
  }
  throw malformed('the body is no JSON object');
}

/** The number that a stream is to begin with. */
function numberOf(text = '1') {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0) throw malformed('from: expected a whole number from 0 on');
  return number;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    throw malformed('the path cannot be read');
  }
}

function reply(response, status, value) {
  const body = JSON.stringify(value);
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(body);
}

/** Server-sent events; the head leaves with the first word, so that a refusal can still be one. */
function openEvents(response) {
  const begin = () => {
    if (response.headersSent) return;
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
  };
  return {
    get room() {
      return !response.writableEnded && !response.destroyed && !response.writableNeedDrain;
    },
    say(text) {
      begin();
      if (!response.writableEnded) response.write(text);
    },
    live(pump, leave, aliveMs) {
      this.say('event: alive\ndata: {}\n\n');
      // What waits to be read is a sign of life already.
      const alive = setInterval(() => this.room && this.say('event: alive\ndata: {}\n\n'), aliveMs);
      alive.unref();
      response.on('drain', pump);
      response.on('close', () => {
        clearInterval(alive);
        leave();
      });
    },
  };
}

module.exports = { BridgeRelay, RelaySession };
