// What is asked of every peer and what must come back. Owns sizes, requests and expected payloads; measures nothing.
//
// The payloads are made here a second time, by the same rules as in echo_server.rs, so that an answer that was cut,
// mixed up or cleaned too eagerly is found out.

import { isDeepStrictEqual } from 'node:util';

const SMALL_TEXT = 100 * 1024;
const LARGE_TEXT = 8 * 1024 * 1024;
const ROWS = 20_000;

const LINES = {
  ascii: 'a "line" like any other, with its number in front of it, of plain ASCII characters.',
  cjk: '工具的回答可以很长、也可以全部是汉字、可是一个字都不能少。',
};
const COLOURS = ['red', 'green', 'blue'];

/**
 * A workload makes `calls` calls a round `over` a transport, at most `inFlight` at a time. `request(index)` is the call, `expected(index)`
 * its payload. `block` asks for the longest block of the JS thread as well.
 * @typedef {object} Workload
 * @property {string} id
 * @property {string} title
 * @property {'stdio' | 'http'} over
 * @property {number} calls
 * @property {number} inFlight
 * @property {boolean} block
 * @property {(index: number) => { tool: string, args: object }} request
 * @property {(index: number) => Payload} expected
 *
 * @typedef {{ text: string, rows?: object[] }} Payload
 */

/** What a workload is unless it says otherwise. */
const DEFAULTS = { over: 'stdio', inFlight: 1, block: false };

/** @type {Workload[]} */
export const WORKLOADS = [
  echoes({ id: 'sequential', title: 'small calls, one after another', calls: 2_000 }),
  echoes({ id: 'in-flight-64', title: 'small calls, 64 in flight', calls: 6_400, inFlight: 64 }),
  texts({ id: 'text-100k-ascii', title: '100 KB text, ASCII', calls: 50, bytes: SMALL_TEXT, kind: 'ascii' }),
  texts({ id: 'text-100k-cjk', title: '100 KB text, CJK', calls: 50, bytes: SMALL_TEXT, kind: 'cjk' }),
  texts({
    id: 'text-8m-ascii',
    title: '8 MB text, ASCII',
    calls: 2,
    bytes: LARGE_TEXT,
    kind: 'ascii',
    block: true,
  }),
  texts({
    id: 'text-8m-cjk',
    title: '8 MB text, CJK',
    calls: 2,
    bytes: LARGE_TEXT,
    kind: 'cjk',
    block: true,
  }),
  structured({ id: 'rows-20k', title: 'structured content, 20,000 rows', calls: 3, count: ROWS }),
  echoes({
    id: 'http-sequential',
    title: 'HTTP, small calls, one after another',
    over: 'http',
    calls: 500,
  }),
  echoes({
    id: 'http-in-flight-64',
    title: 'HTTP, small calls, 64 in flight',
    over: 'http',
    calls: 1_280,
    inFlight: 64,
  }),
];

/** The workload with this id. */
export function workload(id) {
  const found = WORKLOADS.find((candidate) => candidate.id === id);
  if (found) return found;
  throw new Error(`there is no workload "${id}"; there are ${WORKLOADS.map((known) => known.id).join(', ')}`);
}

function echoes(fields) {
  // Every message differs, so that an answer given to the wrong call is noticed.
  const message = (index) => `message ${index} of a round`;
  return {
    ...DEFAULTS,
    ...fields,
    request: (index) => ({ tool: 'echo', args: { message: message(index) } }),
    expected: (index) => ({ text: message(index) }),
  };
}

function texts({ bytes, kind, ...fields }) {
  const expected = once(() => ({ text: numberedLines(kind, bytes) }));
  return {
    ...DEFAULTS,
    ...fields,
    request: () => ({ tool: 'text', args: { bytes, kind } }),
    expected,
  };
}

function structured({ count, ...fields }) {
  const expected = once(() => ({
    text: `${count} rows`,
    rows: Array.from({ length: count }, (_, id) => row(id)),
  }));
  return {
    ...DEFAULTS,
    block: true,
    ...fields,
    request: () => ({ tool: 'rows', args: { count } }),
    expected,
  };
}

function once(make) {
  let made;
  return () => (made ??= make());
}

/** Numbered lines while a whole one fits, then dots, so that the UTF-8 length is exactly `bytes`. */
function numberedLines(kind, bytes) {
  const lineBytes = Buffer.byteLength(`00000000 ${LINES[kind]}\n`);
  const count = Math.floor(bytes / lineBytes);
  const lines = Array.from(
    { length: count },
    (_, number) => `${String(number).padStart(8, '0')} ${LINES[kind]}\n`,
  );
  return lines.join('') + '.'.repeat(bytes - count * lineBytes);
}

function row(id) {
  return {
    id,
    name: `row ${id}`,
    value: id * 0.25,
    tags: [id % 2 === 0 ? 'even' : 'odd', COLOURS[id % COLOURS.length]],
  };
}

/**
 * The payload of a result as its user would read it. Everything is read once here, inside the measured window: a peer
 * that decodes only when asked is not given the work for nothing.
 * @returns {Payload & { read: number }}
 */
export function takePayload(result) {
  const { content, structuredContent, isError } = result;
  if (isError) throw new Error(`the tool failed: ${content?.[0]?.text}`);
  if (content.length !== 1) throw new Error(`one content block was expected, ${content.length} came`);
  const { text } = content[0];
  const rows = structuredContent?.rows;
  return { text, rows, read: text.charCodeAt(text.length - 1) + readRows(rows) };
}

function readRows(rows = []) {
  let read = 0;
  for (const { id, name, value, tags } of rows) read += id + name.length + value + tags.length;
  return read;
}

/** Throws unless a payload is exactly the expected one. */
export function checkPayload({ text, rows }, expected, call) {
  if (text !== expected.text) {
    throw new Error(
      `${call}: the text differs (${text.length} characters, expected ${expected.text.length})`,
    );
  }
  if (!isDeepStrictEqual(rows, expected.rows)) throw new Error(`${call}: the structured content differs`);
}
