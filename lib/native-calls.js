'use strict';
// Calls to a native half: numbered, answered by letters, written together at the end of a turn. Keeps the process and
// whoever waits alive while calls are open; letters that answer no call go to whoever is told.

const native = require('../binding.js');
const check = require('./check.js');
const errors = require('./errors.js');
const { contained, fill } = require('./letters.js');

const CANCELLABLE = 1;
const WANTS_PROGRESS = 2;
/** Letters are taken in turns, so that a flood never holds the event loop for long. */
const nextTurn = setImmediate;
const endOfTurn = Promise.resolve();
/** Longest timer Node knows: it only keeps the process alive. */
const FOREVER = 2 ** 31 - 1;

/** What a timer that only keeps the process alive does: a function that holds nothing. */
const nothing = () => {};

/** Those with open calls: nothing else may hold them while a caller waits. */
const busy = new Set();
/** What a forgotten one leaves behind. */
const collected = new FinalizationRegistry(clearInterval);

class NativeCalls {
  #native;
  #tell;
  #open = new Map();
  /** Who hears of progress after a call has got its answer, by number of the call. */
  #goingOn = new Map();
  #nextId = 1;
  #timer;
  #held = false;
  #flushDue = false;
  #endTurn = () => {
    this.#flushDue = false;
    if (!native.endTurn() || this.#looking || this.#native.look === undefined) return;
    this.#looking = true;
    nextTurn(this.#look);
  };
  #looking = false;
  /** An answer that comes within microseconds is looked for turn by turn, which is sooner than any waking up. */
  #look = () => {
    const found = this.#native.look();
    this.#looking = found !== false;
    if (found === false) return;
    nextTurn(this.#look);
    if (found !== true) this.#take(found);
  };

  /**
   * @param {(ring: Function) => object} make makes the native half
   * @param {(letter: object) => void} tell takes letters that answer no call
   * @param {Function} caller where errors of making it seem to come from
   */
  constructor(make, tell, caller) {
    this.#tell = tell;
    const ring = NativeCalls.#ring(this);
    this.#native = errors.guard(() => make(ring), caller);
    this.#timer = setInterval(nothing, FOREVER);
    this.#timer.unref();
    collected.register(this, this.#timer);
  }

  /**
   * What takes deliveries. Weakly, and made here where it holds nothing else: a forgotten one can be collected together
   * with its native half.
   */
  static #ring(calls) {
    const self = new WeakRef(calls);
    return (delivery) => self.deref()?.#take(delivery);
  }

  get native() {
    return this.#native;
  }

  /** Whether the process is kept alive although nothing is open. */
  set held(held) {
    this.#held = held;
    this.#hold();
  }

  /** A call by the name of what is wanted, with its payload as text and flags of its own; its value or its error. */
  async ask(verb, text, caller, options, { goesOn, flags = 0 } = {}) {
    const submit = (id, own) => this.#native.submit(id, verb, text, own | flags);
    const letter = await this.send(options, submit, goesOn);
    if (letter.error !== undefined) throw errors.fromWire(letter.error, caller);
    return letter.value;
  }

  /**
   * Numbers a call, starts it, and waits for its letter; `signal` ends the wait at once. One that `goesOn` in the
   * background is heard of after its letter too, until it is `over`.
   */
  send(options, start, goesOn = false) {
    const { signal, onProgress } = options ?? {};
    if (signal !== undefined) check.signal(signal);
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return void reject(signal.reason);
      const id = this.#nextId;
      this.#nextId = id === 0xffffffff ? 1 : id + 1;
      // The options stay with the call: a view that calls must not be forgotten before it has its answer.
      const call = { resolve, onProgress, goesOn, options, release: undefined };
      if (signal !== undefined) {
        const abort = () => {
          if (!this.#open.has(id)) return;
          this.#settle(id, call);
          this.#native.cancel(id);
          this.#flushSoon();
          reject(signal.reason);
        };
        signal.addEventListener('abort', abort, { once: true });
        call.release = () => signal.removeEventListener('abort', abort);
      }
      if (this.#open.size === 0) {
        this.#timer.ref();
        busy.add(this);
      }
      this.#open.set(id, call);
      try {
        start(id, (signal === undefined ? 0 : CANCELLABLE) | (onProgress === undefined ? 0 : WANTS_PROGRESS));
      } catch (error) {
        this.#settle(id, call);
        throw error;
      }
      this.#flushSoon();
    });
  }

  /** What went on in the background under this handle has told all its progress, or nobody listens any more. */
  over(handle) {
    for (const [id, call] of this.#goingOn) if (call.handle === handle) this.#goingOn.delete(id);
  }

  #hold() {
    if (this.#held || this.#open.size > 0) this.#timer.ref();
    else this.#timer.unref();
  }

  /** At the end of the turn everything that it has sent is written together. */
  #flushSoon() {
    if (this.#flushDue) return;
    this.#flushDue = true;
    // A reaction of a promise: the cheapest of what runs before the turn ends.
    endOfTurn.then(this.#endTurn);
  }

  #settle(id, call) {
    this.#open.delete(id);
    call.release?.();
    if (this.#open.size > 0) return;
    busy.delete(this);
    this.#hold();
  }

  /** Takes a delivery: the JSON text of an array of letters, or letters with large parts beside them. */
  #take(delivery) {
    if (typeof delivery === 'string') {
      for (const letter of JSON.parse(delivery)) this.#receive(letter);
      return;
    }
    for (const part of delivery.parts) {
      if (typeof part === 'string') for (const letter of JSON.parse(part)) this.#receive(letter);
      else this.#receive(JSON.parse(part.letter), part);
    }
    // The rest comes with the next turn, so that a flood never holds the event loop for long.
    if (delivery.more) nextTurn(() => this.#take(this.#native.takeLetters()));
  }

  #receive(letter, part) {
    switch (letter.kind) {
      case 'tool':
      case 'value':
      case 'error': {
        const call = this.#open.get(letter.id);
        if (call === undefined) return;
        this.#settle(letter.id, call);
        if (part !== undefined) fill(letter, part);
        if (call.goesOn && letter.kind === 'value' && call.onProgress !== undefined) {
          this.#goingOn.set(letter.id, { handle: letter.value.handle, onProgress: call.onProgress });
        }
        call.resolve(letter);
        return;
      }
      case 'progress': {
        const call = this.#open.get(letter.id) ?? this.#goingOn.get(letter.id);
        if (call?.onProgress !== undefined) contained('onProgress', () => call.onProgress(letter.value));
        return;
      }
      default:
        this.#tell(letter);
    }
  }
}

module.exports = { NativeCalls };
