'use strict';
// Reads a recording (docs/recording.md): the lines of one server, checked. Of several recordings in one file the last
// counts.

const { createReadStream } = require('node:fs');
const { stat } = require('node:fs/promises');
const { createInterface } = require('node:readline');
const { isObject } = require('./check.js');
const { McpConfigError } = require('./errors.js');

const FORMAT = 'mcp-switchboard-recording';
const VERSION = 1;
/** Largest file that is read, in bytes. */
const LARGEST = 512 * 1024 * 1024;

/** The one error of a recording that cannot be used. */
function unusable(file, why, line) {
  const place = line === undefined ? '' : `, line ${line}`;
  const message = `the recording ${file}${place}: ${why}`;
  const found = { level: 'error', code: 'RECORDING_INVALID', message, file };
  if (line !== undefined) found.line = line;
  return new McpConfigError(message, { code: 'RECORDING_INVALID', diagnostics: [found] });
}

/** What is wrong with a line; nothing when it is sound. */
function fault(line, first) {
  if (!isObject(line)) return 'expected a JSON object';
  if (line.format !== undefined) {
    if (line.format !== FORMAT) return 'this is no recording of mcp-switchboard';
    return line.version === VERSION
      ? undefined
      : `format version ${JSON.stringify(line.version)} is not known`;
  }
  if (first) return `expected a header with "format": "${FORMAT}"`;
  if (typeof line.event === 'string') return undefined;
  if (line.direction !== 'in' && line.direction !== 'out') return 'expected the direction "in" or "out"';
  if (typeof line.server !== 'string') return 'expected the name of a server';
  if (typeof line.at !== 'number') return 'expected a time in "at"';
  return isObject(line.message) ? undefined : 'expected a message';
}

/** Lines of the last recording of a file, headers left out. */
async function linesOf(file) {
  const { size } = await stat(file).catch((error) => {
    throw unusable(file, error.message);
  });
  if (size > LARGEST) throw unusable(file, `${size} bytes are more than can be replayed (${LARGEST})`);
  let lines = [];
  let number = 0;
  // Only the last line of a recording may be cut off: by a crash, or because it is being written.
  let cut;
  const input = createReadStream(file, 'utf8');
  const failed = new Promise((_, reject) => {
    input.once('error', (error) => reject(unusable(file, error.message)));
  });
  failed.catch(() => {});
  const read = async () => {
    for await (const text of createInterface({ input, crlfDelay: Infinity })) {
      number += 1;
      let line;
      try {
        line = JSON.parse(text);
      } catch (error) {
        if (cut !== undefined) throw unusable(file, cut.why, cut.number);
        cut = { why: `damaged: ${error.message}`, number };
        continue;
      }
      const why = fault(line, number === 1);
      if (cut !== undefined && line?.format !== FORMAT) throw unusable(file, cut.why, cut.number);
      if (why !== undefined) throw unusable(file, why, number);
      if (line.format === FORMAT) lines = [];
      else lines.push(line);
      cut = undefined;
    }
  };
  try {
    await Promise.race([read(), failed]);
  } finally {
    input.destroy();
  }
  if (number === 0) throw unusable(file, 'the file is empty');
  if (cut?.number === 1) throw unusable(file, cut.why, 1);
  return lines;
}

/**
 * The lines of one server, in their order.
 * @param {string} file
 * @param {string | undefined} server may be left out where the recording has one server
 */
async function readRecording(file, server) {
  const lines = await linesOf(file);
  const names = [...new Set(lines.flatMap((line) => (line.server === undefined ? [] : [line.server])))];
  const shown = names.map((name) => JSON.stringify(name)).join(', ');
  if (server === undefined && names.length > 1) {
    throw unusable(file, `it has several servers, name one of them (option "server"): ${shown}`);
  }
  const wanted = server ?? names[0];
  if (!names.includes(wanted)) {
    const what = wanted === undefined ? 'it has no server' : `it has no server ${JSON.stringify(wanted)}`;
    throw unusable(file, names.length === 0 ? what : `${what}; it has ${shown}`);
  }
  return lines.filter((line) => line.server === wanted);
}

module.exports = { readRecording };
