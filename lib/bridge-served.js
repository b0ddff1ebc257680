'use strict';
// The other side of `BridgeSessions.spawn`: what a process that serves a session was told. It speaks with its host over
// standard input and output, in JSON-RPC lines; without the add-on, so that any program can do the same.

const { EventEmitter } = require('node:events');
const { createInterface } = require('node:readline');

const VARIABLE = 'MCP_SWITCHBOARD_BRIDGE';

let served;

/** Events: `message` (message) from the host, `end` when it wants the process to end. */
class ServedSession extends EventEmitter {
  #open = new Map();
  #nextId = 1;
  #ended = false;

  constructor({ baseUrl, sessionId, version }) {
    super();
    this.baseUrl = baseUrl;
    this.sessionId = sessionId;
    this.version = version;
    this.getAuthToken = ({ forceRefresh }) => this.#request('bridge/token', { forceRefresh });
    const lines = createInterface({ input: process.stdin });
    lines.on('line', (line) => this.#take(line));
    lines.on('close', () => this.#end());
    // What waits for nothing may end by itself.
    process.stdin.unref?.();
  }

  /** Tells the host something. */
  send(message) {
    this.#write({ method: 'bridge/message', params: message });
  }

  #write(frame) {
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...frame })}\n`);
  }

  #request(method, params) {
    return new Promise((resolve, reject) => {
      if (this.#ended) return void reject(new Error('the host has closed the standard input'));
      const id = this.#nextId;
      this.#nextId += 1;
      this.#open.set(id, { resolve, reject });
      process.stdin.ref?.();
      this.#write({ id, method, params });
    });
  }

  #take(line) {
    let frame;
    try {
      frame = JSON.parse(line);
    } catch {
      return;
    }
    if (frame?.method === 'bridge/message') return void this.emit('message', frame.params);
    const call = this.#open.get(frame?.id);
    if (call === undefined) return;
    this.#open.delete(frame.id);
    if (this.#open.size === 0) process.stdin.unref?.();
    if (frame.error === undefined) call.resolve(frame.result?.token ?? null);
    else call.reject(new Error(frame.error.message));
  }

  #end() {
    this.#ended = true;
    for (const { reject } of this.#open.values()) reject(new Error('the host has closed the standard input'));
    this.#open.clear();
    this.emit('end');
  }
}

/** The session that this process serves; `null` where it was not started to serve one. */
function servedSession() {
  const text = process.env[VARIABLE];
  if (text === undefined) return null;
  served ??= new ServedSession(JSON.parse(text));
  return served;
}

module.exports = { servedSession };
