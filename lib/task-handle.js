'use strict';
// A call in the background as callers hold it. What becomes of it is decided by the native half; here it is told, and
// the result is kept once it is there.

const { EventEmitter } = require('node:events');

/** Method of a handle: takes what the native half says of it. Nobody outside can name it. */
const TELL = Symbol('tell');

class TaskHandle extends EventEmitter {
  #seen;
  #run;
  #result;

  /**
   * @param {object} seen its description by the native half
   * @param {{ result: Function, cancel: Function }} run what the manager does for it
   */
  constructor(seen, run) {
    super();
    this.#seen = seen;
    this.#run = run;
  }

  get taskId() {
    return this.#seen.taskId;
  }

  get server() {
    return this.#seen.server;
  }

  get tool() {
    return this.#seen.tool;
  }

  get fullName() {
    return this.#seen.fullName;
  }

  get status() {
    return this.#seen.status;
  }

  get statusMessage() {
    return this.#seen.statusMessage;
  }

  get immediateResponse() {
    return this.#seen.immediateResponse;
  }

  async result(options) {
    if (this.#result === undefined) {
      const outcome = await this.#run.result(this.#seen.handle, options);
      // Whoever comes first has the hook run; a result is there once.
      this.#result ??= this.#run.finish(outcome);
    }
    return this.#result;
  }

  async cancel() {
    if (!this.#seen.done) await this.#run.cancel(this.#seen.handle);
  }

  [TELL](seen) {
    const { status, statusMessage, taskId } = this.#seen;
    this.#seen = { ...seen, immediateResponse: seen.immediateResponse ?? this.#seen.immediateResponse };
    if (seen.status !== status || seen.statusMessage !== statusMessage || seen.taskId !== taskId) {
      this.emit('status', seen.status);
    }
  }
}

module.exports = { TaskHandle, TELL };
