'use strict';
// Questions to the person at the terminal.

const { createInterface } = require('node:readline/promises');

/** Whether there is one: it has to read what we write and to be read from. */
const present = ({ stdin, out }) => stdin.isTTY === true && out.canAsk;

/** A line that the person typed; empty where the input has ended (Ctrl+D). */
async function line({ stdin, signal }, question) {
  // The terminal edits the line itself, and Ctrl+C stays a signal.
  const reader = createInterface({ input: stdin, output: process.stderr, terminal: false });
  const ended = new Promise((resolve) => reader.once('close', resolve));
  // At the end of its input some versions of Node leave a question open, others refuse it.
  const asked = reader.question(question, { signal }).catch((error) => {
    if (signal.aborted) throw error;
  });
  try {
    const answer = await Promise.race([asked, ended]);
    if (answer === undefined) process.stderr.write('\n');
    return answer?.trim() ?? '';
  } finally {
    reader.close();
  }
}

/** Whether the person says yes; everything else is no. */
async function confirmed(context, question) {
  return /^y(es)?$/i.test(await line(context, `${question} [y/N] `));
}

module.exports = { confirmed, line, present };
