'use strict';
// Sessions of a relay, and the processes that serve them. Requests, retries and processes are the native half's.

const { EventEmitter } = require('node:events');
const check = require('./check.js');
const { bridgeCalls } = require('./bridge-calls.js');
const checkBridge = require('./check-bridge.js');
const exit = require('./exit.js');
const { contained } = require('./letters.js');

/** Processes that run: nobody has to hold them, and none outlives this one. */
const running = new Set();

class BridgeSessions {
  #options;
  #calls;

  constructor(options) {
    checkBridge.sessionsOptions(options);
    this.#options = options;
    const own = { ...options, callbacks: ['getAuthToken'] };
    this.#calls = bridgeCalls('sessions', own, options, () => {}, BridgeSessions);
  }

  async create(options) {
    check.optionalObject(options, 'options');
    const { title, metadata, signal } = options ?? {};
    check.optionalString(title, 'options.title');
    check.optionalObject(metadata, 'options.metadata');
    return this.#ask('create', { title, metadata }, signal, this.create);
  }

  async resume(sessionId, options) {
    check.string(sessionId, 'sessionId');
    check.optionalObject(options, 'options');
    return this.#ask('resume', { sessionId }, options?.signal, this.resume);
  }

  async archive(sessionId, options) {
    check.string(sessionId, 'sessionId');
    check.optionalObject(options, 'options');
    return this.#ask('archive', { sessionId }, options?.signal, this.archive);
  }

  async spawn(sessionId, options) {
    check.string(sessionId, 'sessionId');
    checkBridge.childOptions(options);
    const { baseUrl, getAuthToken, callbackTimeoutMs } = this.#options;
    const child = new BridgeChild({ callbackTimeoutMs, ...options, baseUrl, sessionId }, getAuthToken);
    await child[START](this.spawn);
    return child;
  }

  #ask(verb, payload, signal, caller) {
    if (signal !== undefined) check.signal(signal);
    return this.#calls.ask(verb, check.json(payload, 'options'), caller, { signal });
  }
}

/** Method that starts the process. Nobody outside can name it. */
const START = Symbol('start');

class BridgeChild extends EventEmitter {
  #calls;
  #pid;
  #exit;
  #exited;
  #resolveExit;

  constructor(options, getAuthToken) {
    super();
    this.sessionId = options.sessionId;
    const own = { ...options, callbacks: ['getAuthToken'] };
    const tell = (name, value) => this.#tell(name, value);
    this.#calls = bridgeCalls('child', own, { getAuthToken }, tell, BridgeChild);
    this.#exited = new Promise((resolve) => (this.#resolveExit = resolve));
  }

  async [START](caller) {
    running.add(this);
    exit.children.add(this.#calls.native);
    try {
      this.#pid = await this.#calls.ask('start', '', caller);
    } catch (error) {
      this.#gone();
      throw error;
    }
  }

  get pid() {
    return this.#pid;
  }

  get exit() {
    return this.#exit;
  }

  async send(message) {
    check.object(message, 'message');
    await this.#calls.ask('send', check.json(message, 'message'), this.send);
  }

  /** Waits for the end of the process; the host stays alive for it. */
  async exited() {
    this.#calls.held = this.#exit === undefined;
    return this.#exited;
  }

  async close(options) {
    check.optionalObject(options, 'options');
    check.optionalChoice(options?.mode, ['graceful', 'fast'], 'options.mode');
    await this.#calls.ask('close', options?.mode ?? 'graceful', this.close);
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.close();
  }

  #gone() {
    running.delete(this);
    exit.children.delete(this.#calls.native);
  }

  #tell(name, value) {
    if (name === 'exit') {
      this.#exit = value;
      this.#gone();
      this.#calls.held = false;
      this.#resolveExit(value);
    }
    if (this.listenerCount(name) > 0) contained(`a listener of '${name}'`, () => this.emit(name, value));
  }
}

module.exports = { BridgeSessions };
