'use strict';
// Calls to a native half other than the manager's: numbered, answered by letters; its questions go to functions of the
// host, its events to whoever is told. Keeps the process alive while calls are open.

const errors = require('./errors.js');

/** Longest timer Node knows: it only keeps the process alive. */
const FOREVER = 2 ** 31 - 1;

/** Those with open calls: nothing else may hold them while a caller waits. */
const busy = new Set();
/** What a forgotten one leaves behind. */
const collected = new FinalizationRegistry(clearInterval);

class NativeCalls {
  #native;
  #functions;
  #tell;
  #open = new Map();
  #nextId = 1;
  #timer;
  #held = false;

  /**
   * @param {(ring: Function) => object} make makes the native half
   * @param {Record<string, Function>} functions what its questions go to, by name
   * @param {(name: string, value: unknown) => void} tell takes its events
   */
  constructor(make, functions, tell, caller) {
    this.#functions = functions;
    this.#tell = tell;
    // Weakly, so that a forgotten one can be collected together with its native half.
    const self = new WeakRef(this);
    this.#native = errors.guard(() => make((delivery) => self.deref()?.#take(delivery)), caller);
    this.#timer = setInterval(() => {}, FOREVER);
    this.#timer.unref();
    collected.register(this, this.#timer, this.#timer);
  }

  get native() {
    return this.#native;
  }

  /** Whether the process is kept alive although nothing is open. */
  set held(held) {
    this.#held = held;
    this.#hold();
  }

  #hold() {
    if (this.#held || this.#open.size > 0) this.#timer.ref();
    else this.#timer.unref();
  }

  /** Nothing of it is needed any more; calls that are open still settle. */
  end() {
    this.#held = false;
    this.#hold();
  }

  /** Starts a call and waits for its letter; aborting `signal` ends the wait at once. */
  async ask(verb, payload, caller, signal) {
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
      this.#open.set(id, { resolve, release: () => signal?.removeEventListener('abort', abort) });
      busy.add(this);
      this.#hold();
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
    if (this.#open.size === 0) busy.delete(this);
    this.#hold();
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
        this.#tell(letter.name, letter.value);
        return;
      case 'question':
        void this.#answer(letter);
    }
  }

  async #answer({ question, callback, body }) {
    try {
      const answer = await this.#functions[callback](body);
      this.#native.answer(question, JSON.stringify(answer) ?? 'null', undefined);
    } catch (error) {
      this.#native.answer(question, undefined, errors.describe(error));
    }
  }
}

module.exports = { NativeCalls };
