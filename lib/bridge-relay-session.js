'use strict';
// One session as the reference relay keeps it: who serves it, what was sent in either direction, and which numbers
// that had. Decides everything and does no I/O; docs/bridge-protocol.md is the protocol.

const { EventEmitter } = require('node:events');
const { isObject } = require('./values.js');

/** Instances whose session another one has taken over that are remembered. */
const REMEMBERED = 64;
/** Longest time that a timer can wait. */
const LONGEST_MS = 2 ** 31 - 1;

/** The answer to a request that is refused, by its HTTP status. */
class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const superseded = () => new Refusal(409, 'superseded', 'another instance serves this session');
const forgotten = () =>
  new Refusal(410, 'unregistered', 'this instance is not registered, or its lease has ended');
const inArchive = () => new Refusal(404, 'archived', 'this session is archived');
const tooLarge = (most) => new Refusal(413, 'too_large', `a message is larger than ${most} bytes`);
const malformed = (what) => new Refusal(400, 'malformed', what);

/** A message as it travels. What cannot be written down is found out here, and never waits in a log. */
function written(message) {
  const text = JSON.stringify(message);
  return text?.startsWith('{') ? text : undefined;
}

/** Messages of one direction, numbered from 1, of which the last so many are kept. */
class Log {
  #kept = [];
  #first = 1;

  get last() {
    return this.#first + this.#kept.length - 1;
  }

  get size() {
    return this.#kept.length;
  }

  /** The lowest number that can still be had. */
  get first() {
    return this.#first;
  }

  add(message) {
    this.#kept.push(message);
    return this.last;
  }

  get(number) {
    return this.#kept[number - this.#first];
  }

  /** Gives what waits other numbers, from this one on. */
  renumber(first) {
    this.#first = first;
  }

  /** Forgets everything up to a number. */
  forget(number) {
    const count = Math.min(Math.max(number - this.#first + 1, 0), this.#kept.length);
    this.#kept.splice(0, count);
    this.#first += count;
  }
}

/**
 * Events: `message` (message, number) for each message of the agent, `state` ('online' | 'offline') for whether an
 * agent serves the session.
 */
class RelaySession extends EventEmitter {
  #toAgent = new Log();
  #fromAgent = new Log();
  #epoch = 0;
  #owner;
  /** Whether an agent has said where it stands. */
  #placed = false;
  #past = new Set();
  #readers = new Set();
  #lease;
  #options;

  /** @param {{ leaseMs: number, maxMessageBytes: number, maxRetained: number }} options */
  constructor(id, options) {
    super();
    this.setMaxListeners(0);
    this.id = id;
    this.archived = false;
    this.title = undefined;
    this.metadata = undefined;
    this.createdAt = new Date().toISOString();
    this.#options = options;
  }

  /** Whether an agent serves the session now. */
  get online() {
    return this.#owner !== undefined && this.#owner.alive;
  }

  /** The epoch of the registration. */
  get epoch() {
    return this.#epoch;
  }

  /** Number of the last message of the agent. */
  get received() {
    return this.#fromAgent.last;
  }

  /** What REST says of the session. */
  toJSON() {
    const { id, title, metadata, createdAt, archived, online } = this;
    return { id, title, metadata, createdAt, archived, online };
  }

  // ── for whoever controls the agent ─────────────────────────────────────────────────────────────────────
  /** Sends the agent a message, now or when it comes back; gives its number. */
  send(message) {
    const text = written(message);
    if (text === undefined) throw new TypeError('message: expected an object');
    return this.#sendAll([text]);
  }

  /** Sends several, or none of them where one cannot be sent; gives the number of the last. */
  sendAll(messages) {
    const texts = messages.map(written);
    if (texts.includes(undefined)) throw malformed('messages: expected objects');
    return this.#sendAll(texts);
  }

  #sendAll(texts) {
    if (this.archived) throw inArchive();
    const { maxRetained, maxMessageBytes } = this.#options;
    if (texts.some((text) => Buffer.byteLength(text) > maxMessageBytes)) throw tooLarge(maxMessageBytes);
    const excess = this.#toAgent.size + texts.length - maxRetained;
    // The first version acknowledges nothing, so only age tells what is not needed any more.
    if (excess > 0 && (this.#owner?.version !== 'v1' || texts.length > maxRetained))
      throw new Refusal(429, 'full', `at most ${maxRetained} messages wait for the agent`);
    if (excess > 0) this.#toAgent.forget(this.#toAgent.first + excess - 1);
    for (const text of texts) this.#toAgent.add(text);
    for (const reader of this.#readers) reader.pump();
    return this.#toAgent.last;
  }

  /** A message of the agent by its number, where it is still kept. */
  message(number) {
    return this.#fromAgent.get(number);
  }

  /** The lowest number that can still be had. */
  get firstKept() {
    return this.#fromAgent.first;
  }

  // ── for the agent ──────────────────────────────────────────────────────────────────────────────────────
  /** Makes an instance the one that serves the session. */
  register({ instance, epoch = 0, next = 1, from = 1, heartbeatMs = 20_000 }) {
    if (this.archived) throw inArchive();
    if (typeof instance !== 'string' || instance === '') throw malformed('instance: expected a string');
    for (const number of [epoch, next, from, heartbeatMs])
      if (!Number.isSafeInteger(number) || number < 0) throw malformed('expected whole numbers from 0 on');
    const other = this.#owner !== undefined && this.#owner.instance !== instance;
    // Who has been here before does not take the session back.
    if (this.#past.has(instance) || (epoch > 0 && other)) throw superseded();
    if (other) this.#supersede();
    this.#recall(from);
    const acknowledged =
      other || this.#owner === undefined ? Math.max(next - 1, 0) : this.#owner.acknowledged;
    this.#epoch = Math.max(this.#epoch, epoch) + 1;
    this.#owner = { instance, version: 'v2', acknowledged, heartbeatMs, alive: false };
    this.#endReaders('registered anew');
    this.#touch();
    return { epoch: this.#epoch, acknowledged, leaseMs: this.#leaseMs };
  }

  /** Gives the session up. */
  unregister(claim) {
    this.#check(claim);
    this.#endReaders('given up');
    this.#rest();
  }

  /** Takes messages of the agent: each once, in order. */
  write({ instance, epoch, first, messages }) {
    if (!Array.isArray(messages) || !Number.isSafeInteger(first))
      throw malformed('expected first and messages');
    if (!messages.every(isObject)) throw malformed('messages: expected objects');
    this.#check({ instance, epoch, first });
    const known = this.#owner.acknowledged + 1 - first;
    // A negative number means a hole: nothing is taken, and the answer tells what is wanted.
    for (const message of known < 0 ? [] : messages.slice(known)) {
      this.#owner.acknowledged += 1;
      this.#fromAgent.add(message);
      if (this.#fromAgent.size > this.#options.maxRetained) this.#fromAgent.forget(this.#fromAgent.first);
      this.emit('message', message, this.#fromAgent.last);
    }
    return { acknowledged: this.#owner.acknowledged };
  }

  /** A sign of life. */
  beat({ instance, epoch, sequence }) {
    this.#check({ instance, epoch });
    this.acknowledge(sequence);
    return { leaseMs: this.#leaseMs };
  }

  /** The agent has taken everything up to a number. */
  acknowledge(number) {
    if (Number.isSafeInteger(number)) this.#toAgent.forget(Math.min(number, this.#toAgent.last));
  }

  /**
   * Adds a reader of what is sent to the agent; gives how often it wants a sign of life, in ms.
   * @param {{ next: number, room: () => boolean, write: (number, epoch, text) => void, end: (why, taken) => void }} reader
   */
  read({ instance, epoch }, reader) {
    this.#check({ instance, epoch });
    // One stream at a time: whoever opens another has lost the first.
    this.#endReaders('replaced');
    return this.#add(reader);
  }

  /** The same in the first version, where opening the stream is what registers. */
  readV1({ instance }, reader) {
    this.#claimV1(instance, true);
    this.#recall(reader.next);
    this.#endReaders('replaced');
    this.#touch();
    const joined = this.#add(reader);
    // Its stream is the only sign of life there is.
    const leave = () => joined.leave() && this.#rest();
    return { ...joined, leave };
  }

  #add(reader) {
    const pump = () => {
      if (reader.next < this.#toAgent.first) reader.next = this.#toAgent.first;
      while (reader.next <= this.#toAgent.last && reader.room()) {
        reader.write(
          reader.next,
          this.#owner.version === 'v1' ? 0 : this.#epoch,
          this.#toAgent.get(reader.next),
        );
        reader.next += 1;
      }
    };
    const entry = { pump, end: reader.end };
    this.#readers.add(entry);
    pump();
    return {
      pump,
      leave: () => this.#readers.delete(entry),
      aliveMs: Math.min(Math.max(this.#owner.heartbeatMs, 10), 15_000),
    };
  }

  /** Numbers are for ever: a relay that has lost its memory goes on where the agent stands. */
  #recall(from) {
    const lost = !this.#placed && from > 1;
    if (lost || from > this.#toAgent.last + 1) this.#toAgent.renumber(from);
    this.#placed = true;
  }

  #claimV1(instance, opens, first = 1) {
    if (this.archived) throw inArchive();
    if (typeof instance !== 'string' || instance === '') throw malformed('instance: expected a string');
    if (this.#past.has(instance)) throw superseded();
    if (this.#owner?.instance === instance) return;
    if (this.#owner !== undefined) {
      if (!opens) throw superseded();
      this.#supersede();
    }
    this.#owner = {
      instance,
      version: 'v1',
      acknowledged: opens ? undefined : first - 1,
      heartbeatMs: 15_000,
      alive: false,
    };
  }

  #check({ instance, epoch, first }) {
    if (epoch === 0 && this.#owner?.version !== 'v2') {
      this.#claimV1(instance, false, first);
      // The first request that writes says where it begins.
      this.#owner.acknowledged ??= first - 1;
      return;
    }
    if (this.#past.has(instance)) throw superseded();
    if (this.#owner === undefined) throw forgotten();
    if (this.#owner.instance !== instance || epoch !== this.#epoch) throw superseded();
    if (!this.#owner.alive) throw forgotten();
    this.#touch();
  }

  #supersede() {
    this.#past.add(this.#owner.instance);
    if (this.#past.size > REMEMBERED) this.#past.delete(this.#past.values().next().value);
    this.#endReaders('taken over', true);
  }

  #endReaders(why, taken = false) {
    for (const reader of this.#readers) reader.end(why, taken);
    this.#readers.clear();
  }

  get #leaseMs() {
    return Math.min(Math.max(this.#options.leaseMs ?? 0, this.#owner.heartbeatMs * 3), LONGEST_MS);
  }

  /** The lease begins anew; without a sign of life it ends. */
  #touch() {
    clearTimeout(this.#lease);
    if (this.#owner.version === 'v2') {
      this.#lease = setTimeout(() => this.#rest(), this.#leaseMs);
      this.#lease.unref();
    }
    if (this.#owner.alive) return;
    this.#owner.alive = true;
    this.emit('state', 'online');
  }

  #rest() {
    clearTimeout(this.#lease);
    if (!this.online) return;
    this.#owner.alive = false;
    this.emit('state', 'offline');
  }

  /** Nobody serves it any more, and nobody will. */
  archive() {
    this.archived = true;
    this.#endReaders('archived');
    this.#rest();
  }

  /** It may be served again. */
  resume() {
    this.archived = false;
  }

  /** The relay ends. */
  end() {
    this.#endReaders('the relay ends');
    clearTimeout(this.#lease);
  }
}

module.exports = { Refusal, RelaySession, malformed, tooLarge };
