'use strict';
// The calls of a manager in the background: one handle for each, found again by its number, forgotten when nobody holds
// it. What becomes of a call is decided by the native half.

const check = require('./check.js');
const errors = require('./errors.js');
const { contained } = require('./letters.js');
const { TaskHandle, TELL } = require('./task-handle.js');

/** Handles that nobody holds any more. */
const forgotten = new FinalizationRegistry((forget) => forget());

class BackgroundCalls {
  #calls;
  #cancel;
  /** Handles of calls that have not ended, by number: their listeners hear of the end. */
  #running = new Map();
  /** All handles that somebody may still hold, by number. */
  #handles = new Map();

  /**
   * @param {import('./native-calls.js').NativeCalls} calls of the manager
   * @param {(handle: number) => Promise<void>} cancel gives one up
   */
  constructor(calls, cancel) {
    this.#calls = calls;
    this.#cancel = cancel;
  }

  /**
   * The one handle of a call.
   * @param {object} seen its description by the native half
   * @param {(outcome: object, caller: Function) => Promise<object>} finish makes the result of what came
   */
  handle(seen, finish) {
    const number = seen.handle;
    const known = this.#handles.get(number)?.deref();
    if (known !== undefined) return known;
    const half = this.#calls.native;
    const handle = new TaskHandle(seen, {
      result: (id, options) => this.#result(id, options),
      finish: (outcome) => {
        // Kept here from now on.
        half.forgetTask(number);
        return finish(outcome, handle.result);
      },
      cancel: this.#cancel,
    });
    const weak = new WeakRef(handle);
    this.#handles.set(number, weak);
    if (!seen.done) this.#running.set(number, handle);
    // What was told before anybody listened.
    const now = half.taskState(number);
    if (now !== null) this.told(JSON.parse(now));
    const [handles, calls] = [this.#handles, new WeakRef(this.#calls)];
    forgotten.register(handle, () => {
      if (handles.get(number) !== weak) return;
      handles.delete(number);
      half.forgetTask(number);
      calls.deref()?.over(number);
    });
    return handle;
  }

  /** What has become of one. That it has ended may be heard before the last of its progress. */
  told(seen) {
    const handle = this.#handles.get(seen.handle)?.deref();
    if (seen.done) this.#running.delete(seen.handle);
    if (handle !== undefined) contained("a listener of a task's 'status'", () => handle[TELL](seen));
  }

  async #result(handle, options) {
    check.optionalObject(options, 'options');
    const start = (id, flags) => this.#calls.native.taskResult(id, handle, flags);
    const outcome = await this.#calls.send(options, start);
    this.#calls.over(handle);
    if (outcome.error !== undefined) throw errors.fromWire(outcome.error, this.#result);
    return outcome;
  }
}

module.exports = { BackgroundCalls };
