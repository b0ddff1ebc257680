'use strict';
// The JavaScript end of in-process servers: what `server.connect(transport)` gets, and which channel belongs to which
// server. Messages are handed to a server as objects; its own come back as JSON text.

const { describe, McpConfigError } = require('./errors.js');

const INTERNAL_ERROR = -32603;
/** What an `SdkServers` keeps for itself of a transport; a server sees the public members alone. */
const links = new WeakMap();

/** One connection of a server; the `Transport` of the official SDK. */
class SdkTransport {
  onmessage = undefined;
  onclose = undefined;
  onerror = undefined;
  sessionId = undefined;

  /** Called by the server when it is ready for messages. */
  async start() {
    links.get(this).start();
  }

  /** Takes a message of the server. Rejects when it cannot be written as JSON, or after the end. */
  async send(message) {
    links.get(this).send(message);
  }

  /** Called by the server to end the connection. */
  async close() {
    links.get(this).close();
  }
}

/** The inner half of a transport. Holds the native half weakly: a server must not keep a forgotten manager alive. */
class Link {
  transport = new SdkTransport();
  reference = new WeakRef(this);
  #native;
  #channel;
  #early = [];
  #started = false;
  #ended = false;
  #onEnd;

  constructor(native, channel, onEnd) {
    this.#native = native;
    this.#channel = channel;
    this.#onEnd = onEnd;
    links.set(this.transport, this);
  }

  start() {
    if (this.#started) return;
    this.#started = true;
    for (const message of this.#early.splice(0)) this.#hand(message);
  }

  /** A message for the server; those that come before it has started wait. */
  deliver(message) {
    if (this.#ended) return;
    if (this.#started) this.#hand(message);
    else this.#early.push(message);
  }

  /** A server that throws has failed one request, not its connection (F-072). */
  #hand(message) {
    const fail = (error) => {
      if (message.method !== undefined && message.id !== undefined) {
        const answer = {
          jsonrpc: '2.0',
          id: message.id,
          error: { code: INTERNAL_ERROR, message: words(error) },
        };
        this.#native.deref()?.sdkMessage(this.#channel, JSON.stringify(answer));
      }
      this.#tell('onerror', error);
    };
    try {
      const handled = this.transport.onmessage?.(message);
      if (typeof handled?.then === 'function') handled.then(undefined, fail);
    } catch (error) {
      fail(error);
    }
  }

  send(message) {
    const native = this.#native.deref();
    if (this.#ended || native === undefined) throw new Error('the transport is closed');
    let text;
    try {
      text = toJson(message);
    } catch (error) {
      const answer = message?.method === undefined && Number.isSafeInteger(message?.id);
      native.sdkUnwritable(this.#channel, answer ? message.id : undefined, words(error));
      throw error;
    }
    native.sdkMessage(this.#channel, text);
  }

  /** Ends from the server's side; `failure` says why it did not connect, `code` that it never will as it is. */
  close(failure, code) {
    if (this.#ended) return;
    this.#native.deref()?.sdkClosed(this.#channel, failure, code);
    this.end();
  }

  /** The connection has ended: the server is told, once. */
  end() {
    if (this.#ended) return;
    this.#ended = true;
    this.#early = [];
    this.#onEnd(this);
    this.#tell('onclose');
  }

  #tell(callback, argument) {
    try {
      this.transport[callback]?.(argument);
    } catch (error) {
      process.nextTick(() => {
        throw error;
      });
    }
  }
}

/** The in-process servers of one manager. */
class SdkServers {
  #native;
  #instances = new Map();
  #links = new Map();
  #byServer = new Map();
  /** Weak references to open transports, for the time after the manager: they end with it. */
  orphans = new Set();

  constructor(native) {
    this.#native = new WeakRef(native);
  }

  get(name) {
    return this.#instances.get(name);
  }

  set(name, server) {
    if (server === undefined) this.#instances.delete(name);
    else this.#instances.set(name, server);
  }

  /** A letter of kind `sdk`. */
  receive({ channel, open, instance, message, close }) {
    if (open !== undefined) void this.#connect(channel, open, instance);
    else if (close === true) this.#links.get(channel)?.end();
    else this.#links.get(channel)?.deliver(message);
  }

  async #connect(channel, name, instance) {
    // A server has one connection at a time: the earlier one may still be on its way out.
    this.#byServer.get(name)?.end();
    const link = new Link(this.#native, channel, (ended) => {
      this.orphans.delete(ended.reference);
      this.#links.delete(channel);
      if (this.#byServer.get(name) === ended) this.#byServer.delete(name);
    });
    this.orphans.add(link.reference);
    this.#links.set(channel, link);
    this.#byServer.set(name, link);
    try {
      const server = this.#instances.get(name) ?? this.#instances.get(instance);
      if (server === undefined) throw new Error('no server of that name was handed over');
      await server.connect(link.transport);
      link.start();
    } catch (error) {
      link.close(words(error), error instanceof McpConfigError ? error.code : undefined);
    }
  }
}

/** Ends the transports that a forgotten manager left behind. */
function endOrphans(orphans) {
  for (const reference of orphans) reference.deref()?.end();
}

/** JSON text of a message; throws for whatever would not arrive as it was sent. */
function toJson(message) {
  if (typeof message !== 'object' || message === null) throw new TypeError('a message is an object');
  const text = JSON.stringify(message);
  // Only now: what could be written has an end.
  refuseCode(message);
  return text;
}

/** What a server threw, in one line, whatever it was. */
function words(error) {
  try {
    return describe(error);
  } catch {
    return 'something that has no text';
  }
}

/** Functions and symbols would vanish without a word. */
function refuseCode(value) {
  if (typeof value === 'function' || typeof value === 'symbol') {
    throw new TypeError(`JSON cannot hold a ${typeof value}`);
  }
  if (typeof value !== 'object' || value === null || typeof value.toJSON === 'function') return;
  for (const inner of Array.isArray(value) ? value : Object.values(value)) refuseCode(inner);
}

module.exports = { SdkServers, endOrphans };
