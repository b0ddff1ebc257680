'use strict';
// An in-process server that answers from a recording (BEY-08): anything that speaks the `Transport` of the official SDK
// can talk to it.

const { setTimeout: delay } = require('node:timers/promises');
const check = require('./check.js');
const { readRecording } = require('./recording-file.js');
const { SUBSCRIPTION, Script } = require('./replay-script.js');

/** The code of a JSON-RPC error that a server defines itself: the recording has no answer. */
const NOT_RECORDED = -32000;

/** One connection to the server. */
class Conversation {
  #script;
  #transport;
  #timed;
  #ended = new AbortController();
  /** Requests that are being answered, by id. */
  #runs = new Map();
  /** Questions of the server that wait for an answer, by the id that they have here. */
  #waiting = new Map();
  #nextQuestion = 1;

  constructor(script, transport, timed) {
    this.#script = script;
    this.#transport = transport;
    this.#timed = timed;
  }

  async start() {
    Object.assign(this.#transport, {
      onmessage: (message) => this.#take(message),
      onclose: () => this.#end(),
    });
    await this.#transport.start();
    for (const message of this.#script.opening) this.#send(message);
  }

  #end() {
    this.#ended.abort();
    for (const resolve of this.#waiting.values()) resolve();
  }

  #take(message) {
    if (message.method === undefined) {
      this.#waiting.get(message.id)?.();
      this.#waiting.delete(message.id);
      return;
    }
    if (message.method === 'notifications/cancelled') {
      this.#runs.get(message.params?.requestId)?.abort();
      return;
    }
    const exchange = this.#script.find(message);
    if (exchange !== undefined) void this.#play(exchange, message);
    else if (message.id !== undefined) this.#refuse(message);
  }

  #refuse({ id, ...message }) {
    // Whether this very server lives is no matter of the recording.
    if (message.method === 'ping') return this.#send({ jsonrpc: '2.0', id, result: {} });
    this.#fail(id, this.#script.unknown(message));
  }

  #fail(id, { message, data }) {
    this.#send({ jsonrpc: '2.0', id, error: { code: NOT_RECORDED, message, data } });
  }

  /** Says what was said then, in that order. */
  async #play(exchange, message) {
    const run = new AbortController();
    if (message.id !== undefined) this.#runs.set(message.id, run);
    const signal = AbortSignal.any([run.signal, this.#ended.signal]);
    const names = new Names(exchange.message, message);
    let at = exchange.at;
    try {
      for (const step of exchange.steps) {
        // Whoever waits for an answer keeps the process alive; what a server says unasked does not.
        if (this.#timed) await delay(Math.max(0, step.at - at), undefined, { signal, ref: false });
        at = step.at;
        if (step.kind === 'await') await this.#answerTo(names.question(step.id), signal);
        if (signal.aborted) return;
        this.#say(step, names);
      }
      this.#unanswered(exchange, message);
    } catch {
      // Given up, or the transport has ended: nobody listens.
    } finally {
      if (this.#runs.get(message.id) === run) this.#runs.delete(message.id);
    }
  }

  #say(step, names) {
    if (step.kind === 'await') return;
    if (step.kind === 'ask') {
      const id = `replay-${this.#nextQuestion++}`;
      names.asked(step.message.id, id);
      this.#waiting.set(id, () => {});
      this.#send({ ...step.message, id });
      return;
    }
    const message = names.translate(step.message);
    if (message !== undefined) this.#send(message);
  }

  /** Waits until a question of this server is answered; at once where it was already. */
  #answerTo(id, signal) {
    if (!this.#waiting.has(id)) return undefined;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      signal.addEventListener('abort', resolve, { once: true });
    });
  }

  /** A request that had no answer then. One that nobody waited for, or that stays open, has none here either. */
  #unanswered(exchange, { id, method }) {
    const silent = exchange.answered || exchange.givenUp || method === 'subscriptions/listen';
    if (id === undefined || silent) return;
    const why = exchange.failed === undefined ? '' : ` (it failed with ${exchange.failed})`;
    const message = `${method} was recorded without an answer${why}`;
    this.#fail(id, { message, data: { method, code: exchange.failed ?? null } });
  }

  #send(message) {
    if (this.#ended.signal.aborted) return;
    // A transport that takes nothing any more tells so itself.
    Promise.resolve(this.#transport.send(message)).catch(() => {});
  }
}

/** Ids as they were recorded, and as they are now. */
class Names {
  #then;
  #now;
  #questions = new Map();

  constructor(then, now) {
    this.#then = then;
    this.#now = now;
  }

  asked(then, now) {
    this.#questions.set(then, now);
  }

  question(then) {
    return this.#questions.get(then);
  }

  /** A message as it is said now; nothing where its receiver does not exist. */
  translate(message) {
    if (message.method === undefined) {
      const { result } = message;
      return { ...message, id: this.#now.id, ...(check.isObject(result) && { result: this.#meta(result) }) };
    }
    if (!check.isObject(message.params)) return message;
    const params = this.#meta(message.params);
    if (message.method === 'notifications/cancelled') {
      return { ...message, params: { ...params, requestId: this.#request(params.requestId) } };
    }
    if (message.method !== 'notifications/progress') return { ...message, params };
    if (params.progressToken !== this.#then.params?._meta?.progressToken) return { ...message, params };
    const progressToken = this.#now.params?._meta?.progressToken;
    return progressToken === undefined ? undefined : { ...message, params: { ...params, progressToken } };
  }

  /** A server takes back a question of its own, or ends a stream that the client asked for. */
  #request(then) {
    return this.question(then) ?? (then === this.#then.id ? this.#now.id : then);
  }

  /** The stream that a message belongs to is named after the request that opened it. */
  #meta(holder) {
    const stream = holder._meta?.[SUBSCRIPTION];
    if (stream === undefined || String(stream) !== String(this.#then.id)) return holder;
    const now = typeof stream === 'string' ? String(this.#now.id) : this.#now.id;
    return { ...holder, _meta: { ...holder._meta, [SUBSCRIPTION]: now } };
  }
}

class ReplayServer {
  #file;
  #options;
  #script;

  constructor(file, options) {
    this.#file = file;
    this.#options = options;
  }

  /** Reads the recording, the first time, and answers from it. Rejects with `RECORDING_INVALID`. */
  async connect(transport) {
    const { server, timings } = this.#options;
    this.#script ??= this.#read(server);
    await new Conversation(await this.#script, transport, timings === 'recorded').start();
  }

  async #read(server) {
    try {
      return new Script(await readRecording(this.#file, server));
    } catch (error) {
      // The next connection reads it again: it may have been mended.
      this.#script = undefined;
      throw error;
    }
  }
}

function replayServer(file, options = {}) {
  check.string(file, 'file');
  check.object(options, 'options');
  check.optionalString(options.server, 'options.server');
  check.optionalChoice(options.timings, ['none', 'recorded'], 'options.timings');
  return new ReplayServer(file, options);
}

module.exports = { replayServer };
