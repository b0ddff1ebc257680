'use strict';
// Where the tool writes: the answer goes to standard output, as text or as one JSON document; everything else (progress,
// warnings, questions) to standard error. Colours only where the stream is a terminal and nobody set NO_COLOR. What a
// server wrote never steers a terminal.

const { visible } = require('./words.js');

/** Between two lines of progress where they cannot overwrite each other. */
const PROGRESS_MS = 1000;
const ESCAPE = '\u001B[';
const CLEAR_LINE = `\r${ESCAPE}K`;
const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 };
const PLAIN = 0;
const OWN_CODES = new Set([PLAIN, ...Object.values(STYLES)].map((code) => `${ESCAPE}${code}m`));

/** Exit code where the answer could not be written. */
const FAILED = 1;

class Output {
  /** Why standard output cannot be written. */
  failure;
  #stdout;
  #stderr;
  #quiet;
  #shownAt = 0;
  /** A line of progress stands on the terminal. */
  #standing = false;

  constructor({ stdout, stderr, json, quiet }) {
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.json = json;
    this.#quiet = quiet;
    stdout.on('error', (error) => this.#lost(error));
    stderr.on('error', () => {});
  }

  /** The answer did not arrive. Whoever reads may have seen enough, as `head` has; a full disk is a failure. */
  #lost(error) {
    if (error.code === 'EPIPE' || this.failure !== undefined) return;
    this.failure = error;
    this.error(`OUTPUT_FAILED: standard output: ${error.message}`);
    process.exitCode = FAILED;
  }

  /** Whether a person can be asked: questions go to standard error, answers come from standard input. */
  get canAsk() {
    return this.#stderr.isTTY === true;
  }

  /** The command's answer: the value as JSON, or the lines that `lines` makes of it. */
  answer(value, lines) {
    if (this.json) this.document(value);
    else this.text(lines().join('\n'));
  }

  document(value) {
    this.#clear();
    this.#stdout.write(`${JSON.stringify(value, null, 2)}\n`);
  }

  text(text) {
    this.#clear();
    if (text !== '') this.#stdout.write(`${harmless(text)}\n`);
  }

  /** Text of a tool: as it is, but for terminals. */
  content(text) {
    this.#clear();
    const shown = this.#stdout.isTTY ? visible(text) : text;
    this.#stdout.write(shown.endsWith('\n') ? shown : `${shown}\n`);
  }

  /** Something worth knowing beside the answer. */
  note(text) {
    if (!this.#quiet) this.#aside(text);
  }

  warning(text) {
    this.#aside(`${paint(this.#stderr, 'warning', 'yellow')} ${text}`);
  }

  error(text) {
    this.#aside(`${paint(this.#stderr, 'error', 'red')} ${text}`);
  }

  /** A text that a person has to see before going on, `--quiet` or not. */
  ask(text) {
    this.#aside(text);
  }

  /** How far a long work is. On a terminal one line that changes, elsewhere a line a second at most. */
  progress(text) {
    if (this.#quiet) return;
    const line = visible(text).replace(/\s+/g, ' ');
    if (this.#stderr.isTTY && process.env.TERM !== 'dumb') {
      this.#standing = true;
      this.#stderr.write(`${CLEAR_LINE}${line.slice(0, Math.max(10, (this.#stderr.columns || 80) - 1))}`);
      return;
    }
    if (Date.now() - this.#shownAt < PROGRESS_MS) return;
    this.#shownAt = Date.now();
    this.#stderr.write(`${line}\n`);
  }

  /** A word of the answer in a style. */
  paint(text, style) {
    return paint(this.#stdout, text, style);
  }

  #aside(text) {
    this.#clear();
    this.#stderr.write(`${harmless(text)}\n`);
  }

  #clear() {
    if (!this.#standing) return;
    this.#standing = false;
    this.#stderr.write(CLEAR_LINE);
  }
}

function paint(stream, text, style) {
  const { NO_COLOR, TERM } = process.env;
  if (!stream.isTTY || style === undefined || (NO_COLOR ?? '') !== '' || TERM === 'dumb') return text;
  return `${ESCAPE}${STYLES[style]}m${text}${ESCAPE}${PLAIN}m`;
}

/** The text without what a terminal obeys, but for the colours above. */
function harmless(text) {
  const [first, ...rest] = text.split(ESCAPE);
  const kept = rest.map((part) => {
    const code = `${ESCAPE}${part.slice(0, part.indexOf('m') + 1)}`;
    return OWN_CODES.has(code)
      ? `${code}${visible(`${ESCAPE}${part}`.slice(code.length))}`
      : visible(`${ESCAPE}${part}`);
  });
  return [visible(first), ...kept].join('');
}

module.exports = { Output };
