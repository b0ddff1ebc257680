'use strict';
// Remote control of an agent's session: the face of src/bridge/, which decides.

const { EventEmitter } = require('node:events');
const native = require('../binding.js');
const check = require('./check.js');
const { bridgeCalls } = require('./bridge-calls.js');
const checkBridge = require('./check-bridge.js');
const errors = require('./errors.js');
const { contained } = require('./letters.js');

/** Functions of the options that the native half may call. */
const CALLBACKS = ['getAuthToken', 'onUserMessage', 'onControlRequest', 'onPermissionResponse'];

/** Bridges that were connected and have not ended: whoever waits for messages need not hold them. */
const connected = new Set();

class Bridge extends EventEmitter {
  #calls;
  #keepAlive;
  #connected;

  constructor(options) {
    checkBridge.options(options);
    super();
    this.#keepAlive = options.keepAlive === true;
    const callbacks = CALLBACKS.filter((name) => options[name] !== undefined);
    const self = new WeakRef(this);
    const tell = (name, value) => self.deref()?.#tell(name, value);
    this.#calls = bridgeCalls('bridge', { ...options, callbacks }, options, tell, Bridge);
  }

  get sequence() {
    return this.#calls.native.number('sequence');
  }

  get epoch() {
    return this.#calls.native.number('epoch');
  }

  async connect() {
    this.#connected ??= this.#connect();
    await this.#connected;
  }

  async #connect() {
    connected.add(this);
    try {
      await this.#calls.ask('connect', '', this.connect);
      this.#calls.held = this.#keepAlive && connected.has(this);
    } catch (error) {
      connected.delete(this);
      // An account that may not is no end of the bridge: it may try again.
      if (error.code === 'BRIDGE_DISABLED') this.#connected = undefined;
      throw error;
    }
  }

  async send(message) {
    check.object(message, 'message');
    await this.#calls.ask('send', check.json(message, 'message'), this.send);
  }

  async askPermission(request, options) {
    check.object(request, 'request');
    check.optionalObject(options, 'options');
    if (options?.signal !== undefined) check.signal(options.signal);
    const text = check.json(request, 'request');
    return this.#calls.ask('askPermission', text, this.askPermission, { signal: options?.signal });
  }

  async close() {
    await this.#calls.ask('close', '', this.close);
    this.#end();
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.close();
  }

  #tell(name, value) {
    if (name === 'state' && value.state === 'closed') this.#end();
    if (this.listenerCount(name) > 0) contained(`a listener of '${name}'`, () => this.emit(name, value));
  }

  #end() {
    connected.delete(this);
    // Whoever connects it again hears why it has ended.
    this.#connected = undefined;
    this.#calls.held = false;
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
