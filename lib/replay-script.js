'use strict';
// From the lines of a recording to a script: what a server says to each message of its client. Pure functions.

const { isObject } = require('./check.js');

/** What stands in a recording in the place of a secret. */
const REDACTED = '[REDACTED]';
const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId';
/** Requests that are the same whatever they carry: who asks may be another program than then. */
const GREETINGS = new Set(['initialize', 'server/discover']);
/** Members of `_meta` that belong to the protocol, and differ from run to run. */
const OF_PROTOCOL = /^(progressToken|traceparent|tracestate|baggage|io\.modelcontextprotocol\/.*)$/;
/** Characters of parameters that an error shows. */
const SHOWN = 300;

/** JSON text that is the same for equal values, whatever the order of their keys. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? 'null';
  const members = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`);
  return `{${members.join(',')}}`;
}

/** What of a message's parameters tells it from others of its method. */
function essence({ method, params }) {
  if (GREETINGS.has(method) || !isObject(params)) return {};
  const { _meta: meta, ...rest } = params;
  const own = Object.entries(isObject(meta) ? meta : {}).filter(([key]) => !OF_PROTOCOL.test(key));
  return own.length === 0 ? rest : { ...rest, _meta: Object.fromEntries(own) };
}

/** Whether a value is what was recorded, where any text may stand for a secret. */
function fits(recorded, value) {
  if (typeof recorded === 'string' && recorded.includes(REDACTED)) {
    if (recorded === REDACTED) return true;
    return typeof value === 'string' && fitsText(recorded.split(REDACTED), value);
  }
  if (Array.isArray(recorded)) {
    if (!Array.isArray(value) || value.length !== recorded.length) return false;
    return recorded.every((one, index) => fits(one, value[index]));
  }
  if (!isObject(recorded)) return recorded === value;
  if (!isObject(value)) return false;
  const keys = Object.keys(recorded);
  const same = keys.length === Object.keys(value).filter((key) => value[key] !== undefined).length;
  return same && keys.every((key) => Object.hasOwn(value, key) && fits(recorded[key], value[key]));
}

function fitsText(pieces, text) {
  const [first, last] = [pieces[0], pieces.at(-1)];
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const piece of pieces.slice(1, -1)) {
    const found = text.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}

/** Reads the lines of one server, one after the other. */
class Reader {
  /** What the client said, in its order, with what the server said because of it. */
  exchanges = [];
  /** What the server said before anything was said to it. */
  opening = [];
  #requests = new Map();
  #questions = new Map();
  #open = new Set();
  #last;
  #generation;

  read({ direction, generation, message, at, event, id, code }) {
    if (generation !== this.#generation) {
      this.#generation = generation;
      this.#last = undefined;
      this.#requests.clear();
      this.#questions.clear();
      this.#open.clear();
    }
    if (event !== undefined) this.#became(event, id, code);
    else if (direction === 'out') this.#sent(message, at);
    else this.#received(message, at);
  }

  #became(event, id, code) {
    const exchange = this.#requests.get(id);
    if (exchange === undefined) return;
    if (event === 'givenUp') exchange.givenUp = true;
    if (event === 'failed') exchange.failed = code;
    this.#open.delete(exchange);
  }

  #sent(message, at) {
    if (message.method === undefined) {
      const asked = this.#questions.get(message.id);
      // What the server said after this answer waited for it.
      asked?.steps.push({ kind: 'await', id: message.id, at });
      return;
    }
    const exchange = { message, at, steps: [], answered: false, givenUp: false, failed: undefined };
    this.exchanges.push(exchange);
    this.#last = exchange;
    if (message.id === undefined) return;
    this.#requests.set(message.id, exchange);
    if (message.method !== 'subscriptions/listen') this.#open.add(exchange);
  }

  #received(message, at) {
    if (message.method === undefined) {
      const exchange = this.#requests.get(message.id);
      if (exchange === undefined) return;
      exchange.steps.push({ kind: 'answer', message, at });
      exchange.answered = true;
      this.#open.delete(exchange);
      return;
    }
    const owner = this.#ownerOf(message);
    if (owner === undefined) {
      this.opening.push(message);
      return;
    }
    owner.steps.push({ kind: message.id === undefined ? 'tell' : 'ask', message, at });
    if (message.id !== undefined) this.#questions.set(message.id, owner);
  }

  /** Because of what a server says something unasked: the request it names, the youngest open one, the last message. */
  #ownerOf({ method, params }) {
    if (method === 'notifications/cancelled') {
      const cancelled = this.#questions.get(params?.requestId) ?? this.#requests.get(params?.requestId);
      if (cancelled !== undefined) return cancelled;
    }
    const named = params?.progressToken ?? params?._meta?.[SUBSCRIPTION];
    const request = this.#requests.get(named) ?? this.#requests.get(Number(named));
    return request ?? [...this.#open].at(-1) ?? this.#last;
  }
}

/** What is said to equal messages, in the order of the recording; the last of it again and again. */
class Group {
  #next = 0;
  #exchanges = [];

  constructor({ message }) {
    this.method = message.method;
    this.params = essence(message);
    this.isPattern = canonical(this.params).includes(REDACTED);
  }

  add(exchange) {
    this.#exchanges.push(exchange);
  }

  take() {
    // A request that failed on its way was sent again, or would have been.
    const answered = this.#exchanges.filter((one) => one.answered || one.message.id === undefined);
    const exchanges = answered.length > 0 ? answered : this.#exchanges;
    const exchange = exchanges[Math.min(this.#next, exchanges.length - 1)];
    this.#next += 1;
    return exchange;
  }
}

/** The script of one server; keeps count of what was replayed. */
class Script {
  #groups = new Map();

  constructor(lines) {
    const reader = new Reader();
    for (const line of lines) reader.read(line);
    this.opening = reader.opening;
    for (const exchange of reader.exchanges) {
      const key = keyOf(exchange.message);
      if (!this.#groups.has(key)) this.#groups.set(key, new Group(exchange));
      this.#groups.get(key).add(exchange);
    }
  }

  /** What was recorded for a message of the client; nothing where that was never said. */
  find(message) {
    const exact = this.#groups.get(keyOf(message));
    if (exact !== undefined) return exact.take();
    const params = essence(message);
    for (const group of this.#groups.values()) {
      const alike = group.isPattern && group.method === message.method;
      if (alike && fits(group.params, params)) return group.take();
    }
    return undefined;
  }

  /** The error that answers a request which was not recorded. */
  unknown(message) {
    const params = essence(message);
    const recorded = [...this.#groups.values()];
    const same = recorded.filter(({ method }) => method === message.method);
    const asked = `${message.method} ${shown(params)} was not recorded`;
    const data = { method: message.method, params, nearest: null };
    if (same.length === 0) {
      const methods = [...new Set(recorded.map(({ method }) => method))].join(', ');
      return {
        message: `${asked}: the recording has ${methods === '' ? 'no request' : `only ${methods}`}`,
        data,
      };
    }
    const wanted = facts(params, '');
    const score = (group) => facts(group.params, '').filter((fact) => wanted.includes(fact)).length;
    const nearest = same.map((group) => [score(group), group]).reduce((a, b) => (b[0] > a[0] ? b : a))[1];
    data.nearest = nearest.params;
    return { message: `${asked}; the nearest that was: ${shown(nearest.params)}`, data };
  }
}

function keyOf(message) {
  return `${message.method} ${canonical(essence(message))}`;
}

function shown(params) {
  const text = canonical(params);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}

/** The scalars of a value with their paths. */
function facts(value, path) {
  if (typeof value !== 'object' || value === null) return [`${path}=${JSON.stringify(value)}`];
  return Object.entries(value).flatMap(([key, inner]) => facts(inner, `${path}/${key}`));
}

module.exports = { SUBSCRIPTION, Script };
