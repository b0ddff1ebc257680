'use strict';
// Trace context of W3C: what may stand in `_meta` of a request (mcp:META-08). Pure functions.

const { isObject } = require('./values.js');

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$/;
const STATE_KEY = /^[a-z0-9][a-z0-9_\-*/@]{0,255}$/;
const STATE_VALUE = /^[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const MOST_STATES = 32;
const BAGGAGE =
  /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+[ \t]*=[ \t]*[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*([ \t]*;[\x20-\x2b\x2d-\x7e\t]*)?$/;
const LONGEST_BAGGAGE = 8192;

const members = (text) => text.split(',').map((member) => member.trim());

function isTraceparent(text) {
  // The first version is exactly that long.
  return TRACEPARENT.test(text) && (text.length === 55 || !text.startsWith('00'));
}

function isTracestate(text) {
  const states = members(text).filter((member) => member !== '');
  const keys = states.map((member) => member.slice(0, Math.max(0, member.indexOf('='))));
  const sound = states.every(
    (member, index) => STATE_KEY.test(keys[index]) && STATE_VALUE.test(member.slice(keys[index].length + 1)),
  );
  return sound && states.length <= MOST_STATES && new Set(keys).size === keys.length;
}

function isBaggage(text) {
  return text.length <= LONGEST_BAGGAGE && members(text).every((member) => BAGGAGE.test(member));
}

const FIELDS = [
  ['traceparent', isTraceparent, 'a traceparent of W3C Trace Context'],
  ['tracestate', isTracestate, 'a tracestate of W3C Trace Context'],
  ['baggage', isBaggage, 'W3C Baggage'],
];

/** The first field that is not what W3C says: its name and what was expected; nothing where all are sound. */
function fault(fields) {
  if (!isObject(fields)) return undefined;
  for (const [name, isSound, expected] of FIELDS) {
    const value = fields[name];
    if (value !== undefined && !(typeof value === 'string' && isSound(value))) return { name, expected };
  }
  return undefined;
}

/**
 * `meta` of a call with the trace context of the host, unless the caller gave one.
 * @param {object | undefined} meta
 * @param {unknown} context what `traceContext` returned
 */
function withTrace(meta, context) {
  const own = FIELDS.filter(([name]) => typeof context[name] === 'string');
  const found = Object.fromEntries(own.map(([name]) => [name, context[name]]));
  return { ...found, ...meta };
}

module.exports = { fault, withTrace };
