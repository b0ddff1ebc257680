'use strict';
// Remote control of an agent's session: the face of src/bridge/. As with the manager, calls are numbered, answers and
// events come back as letters, and nothing is decided here.

const { EventEmitter } = require('node:events');
const native = require('../binding.js');
const check = require('./check.js');
const checkBridge = require('./check-bridge.js');
const errors = require('./errors.js');
const { contained } = require('./letters.js');

/** Functions of the options that the native half may call. */
const CALLBACKS = ['getAuthToken', 'onUserMessage', 'onControlRequest', 'onPermissionResponse'];
/** Longest timer Node knows: it only keeps the process alive while something is pending. */
const FOREVER = 2 ** 31 - 1;

/** Bridges that were connected and have not ended: whoever waits for messages need not hold them. */
const connected = new Set();
/** Bridges with open calls. */
const busy = new Set();
/** What a forgotten bridge leaves behind. */
const collected = new FinalizationRegistry(clearInterval);

class Bridge extends EventEmitter {
  #native;
  #callbacks;
  #open = new Map();
  #nextId = 1;
  #timer;
  #keepAlive;
  #connected;

  constructor(options) {
    checkBridge.options(options);
    super();
    this.#callbacks = options;
    this.#keepAlive = options.keepAlive === true;
    const callbacks = CALLBACKS.filter((name) => options[name] !== undefined);
    const text = check.json({ ...options, callbacks }, 'options');
    const self = new WeakRef(this);
    const ring = (delivery) => self.deref()?.#take(delivery);
    this.#native = errors.guard(() => new native.NativeBridge(text, ring), Bridge);
    this.#timer = setInterval(() => {}, FOREVER);
    this.#timer.unref();
    collected.register(this, this.#timer, this.#timer);
  }

  /** Sequence number up to which everything has reached the host. */
  get sequence() {
    return this.#native.sequence();
  }

  /** Epoch of the registration. */
  get epoch() {
    return this.#native.epoch();
  }

  async connect() {
    this.#connected ??= this.#connect();
    await this.#connected;
  }

  async #connect() {
    connected.add(this);
    try {
      await this.#ask('connect', '', this.connect);
      if (this.#keepAlive && connected.has(this)) this.#timer.ref();
    } catch (error) {
      connected.delete(this);
      // An account that may not is none of the bridge's fault: it may try again.
      if (error.code === 'BRIDGE_DISABLED') this.#connected = undefined;
      throw error;
    }
  }

  async send(message) {
    check.object(message, 'message');
    await this.#ask('send', check.json(message, 'message'), this.send);
  }

  async askPermission(request, options) {
    check.object(request, 'request');
    check.optionalObject(options, 'options');
    return this.#ask('askPermission', check.json(request, 'request'), this.askPermission, options?.signal);
  }

  async close() {
    await this.#ask('close', '', this.close);
    this.#end();
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.close();
  }

  #end() {
    connected.delete(this);
    clearInterval(this.#timer);
    collected.unregister(this.#timer);
  }

  // ── letters ────────────────────────────────────────────────────────────────────────────────────────────
  async #ask(verb, payload, caller, signal) {
    if (signal !== undefined) check.signal(signal);
    const letter = await new Promise((resolve, reject) => {
      if (signal?.aborted) return void reject(signal.reason);
      const id = this.#nextId;
      this.#nextId = id === 0xffffffff ? 1 : id + 1;
      const abort = () => {
        this.#settle(id);
        this.#native.cancel(id);
        reject(signal.reason);
      };
      signal?.addEventListener('abort', abort, { once: true });
      const release = () => signal?.removeEventListener('abort', abort);
      this.#open.set(id, { resolve, release });
      busy.add(this);
      this.#timer.ref();
      this.#native.submit(id, verb, payload, signal !== undefined);
    });
    if (letter.error !== undefined) throw errors.fromWire(letter.error, caller);
    return letter.value;
  }

  /** Nobody waits for this call any more; gives who did. */
  #settle(id) {
    const call = this.#open.get(id);
    if (call === undefined) return undefined;
    this.#open.delete(id);
    call.release();
    if (this.#open.size === 0) {
      busy.delete(this);
      if (!(this.#keepAlive && connected.has(this))) this.#timer.unref();
    }
    return call;
  }

  #take(delivery) {
    if (typeof delivery === 'string') {
      for (const letter of JSON.parse(delivery)) this.#receive(letter);
      return;
    }
    for (const part of delivery.parts) {
      if (typeof part === 'string') for (const letter of JSON.parse(part)) this.#receive(letter);
      else this.#receive(JSON.parse(part.letter));
    }
    // The rest comes with the next turn, so that a flood never holds the event loop for long.
    if (delivery.more) setImmediate(() => this.#take(this.#native.takeLetters()));
  }

  #receive(letter) {
    switch (letter.kind) {
      case 'value':
      case 'error':
        this.#settle(letter.id)?.resolve(letter);
        return;
      case 'event':
        if (letter.name === 'state' && letter.value.state === 'closed') this.#end();
        if (this.listenerCount(letter.name) > 0)
          contained(`a listener of '${letter.name}'`, () => this.emit(letter.name, letter.value));
        return;
      case 'question':
        void this.#answer(letter);
    }
  }

  async #answer({ question, callback, body }) {
    try {
      const answer = await this.#callbacks[callback](body);
      this.#native.answer(question, JSON.stringify(answer) ?? 'null', undefined);
    } catch (error) {
      this.#native.answer(question, undefined, errors.describe(error));
    }
  }
}

/** The last so many ids: a ring buffer, first in, first out, every step O(1). */
class BoundedUuidSet {
  #native;

  constructor(capacity) {
    check.count(capacity, 'capacity');
    this.#native = new native.NativeUuidSet(Math.min(capacity, 0xffffffff));
  }

  add(id) {
    check.string(id, 'id');
    return this.#native.add(id);
  }

  has(id) {
    check.string(id, 'id');
    return this.#native.has(id);
  }

  get size() {
    return this.#native.size();
  }
}

function getBridgeDisabledReason(account) {
  checkBridge.account(account, 'account');
  return errors.guard(() => native.bridgeDisabledReason(JSON.stringify(account)), getBridgeDisabledReason);
}

module.exports = { BoundedUuidSet, Bridge, getBridgeDisabledReason };
