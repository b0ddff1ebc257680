'use strict';
// Standard input, line by line.

const { createInterface } = require('node:readline');
const { UsageError } = require('./errors.js');

/** The first line that is not empty. */
async function firstLine(stdin, signal) {
  const lines = createInterface({ input: stdin, signal });
  try {
    for await (const line of lines) if (line.trim() !== '') return line.trim();
  } finally {
    lines.close();
  }
  signal.throwIfAborted();
  throw new UsageError('standard input ended before the address came');
}

module.exports = { firstLine };
