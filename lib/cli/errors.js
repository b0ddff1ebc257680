'use strict';
// Errors of the command-line tool itself; everything else that fails is an error of the API.

/** What was typed makes no sense; nothing was done. */
class UsageError extends Error {
  code = 'USAGE';
}

/** A signal ended the command. */
class Interrupted extends Error {
  code = 'INTERRUPTED';

  constructor(signal) {
    super(`stopped by ${signal}; everything that was started has been closed`);
    this.signal = signal;
  }
}

/** What the command was for did not come about, though no call of the API failed. */
class CommandError extends Error {
  constructor(code, message, facts = {}) {
    super(message);
    this.code = code;
    Object.assign(this, facts);
  }
}

module.exports = { CommandError, Interrupted, UsageError };
