'use strict';
// Arguments of a call, from the words of the command line: one JSON object, `key=value` pairs that the schema gives types
// to, or standard input.

const { UsageError } = require('./errors.js');

const MAX_INPUT_BYTES = 64 << 20;
const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

/** Whether the schema of the tool is needed to understand the words. */
const needsSchema = (words) => words.length > 0 && words[0] !== '-' && !words[0].trimStart().startsWith('{');

/** @param schema What `needsSchema` wants; without it values stay texts. */
async function argumentsOf(words, schema, stdin, signal) {
  if (words.length === 0) return {};
  if (needsSchema(words)) return fromPairs(words, schema);
  if (words.length > 1) {
    throw new UsageError(`arguments are one JSON object, \`-\`, or key=value pairs, not a mixture of them`);
  }
  const piped = words[0] === '-';
  return fromJson(piped ? await readAll(stdin, signal) : words[0], piped ? 'standard input' : 'the argument');
}

function fromJson(text, where) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${where} is not JSON: ${error.message}`);
  }
  if (!isObject(value)) throw new UsageError(`${where} has to be a JSON object, not ${kindOf(value)}`);
  return value;
}

async function readAll(stdin, signal) {
  const chunks = [];
  let bytes = 0;
  const stop = () => stdin.destroy(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  try {
    for await (const chunk of stdin) {
      bytes += chunk.length;
      if (bytes > MAX_INPUT_BYTES) throw new UsageError('standard input is larger than 64 MiB');
      chunks.push(chunk);
    }
  } finally {
    signal.removeEventListener('abort', stop);
  }
  // Some shells put a byte order mark in front.
  return Buffer.concat(chunks)
    .toString('utf8')
    .replace(/^\uFEFF/, '');
}

/** `key=value` by `key=value`; a key that comes again adds to a list. */
function fromPairs(words, schema) {
  const given = new Map();
  for (const word of words) {
    const at = word.indexOf('=');
    if (at < 1) throw new UsageError(`${JSON.stringify(word)} is no key=value`);
    const key = word.slice(0, at);
    given.set(key, [...(given.get(key) ?? []), word.slice(at + 1)]);
  }
  const values = [...given].map(([key, texts]) => [key, valueOf(key, texts, schema)]);
  const missing = [schema?.required ?? []].flat().filter((key) => !given.has(key));
  if (missing.length > 0) throw new UsageError(`the tool needs ${missing.join(', ')} as well`);
  return Object.fromEntries(values);
}

function valueOf(key, texts, schema) {
  if (schema === undefined) return texts.at(-1);
  const place = propertyOf(key, schema);
  const types = typesOf(place, schema);
  if (types.has('array') && (texts.length > 1 || !texts[0].trimStart().startsWith('['))) {
    const items = typesOf(isObject(place.items) ? place.items : {}, schema);
    return texts.map((text) => typed(key, text, items));
  }
  if (texts.length > 1) throw new UsageError(`${key} is given ${texts.length} times, and it is no list`);
  return typed(key, texts[0], types);
}

function propertyOf(key, schema) {
  const properties = isObject(schema.properties) ? schema.properties : {};
  if (Object.hasOwn(properties, key)) return isObject(properties[key]) ? properties[key] : {};
  const known = Object.keys(properties);
  // A schema that names no properties says nothing about them.
  if (known.length === 0 && schema.additionalProperties !== false) return {};
  throw new UsageError(
    `the tool has no argument ${JSON.stringify(key)}; it has ${known.join(', ') || 'none'} (JSON sends anything)`,
  );
}

/** Types that a place of the schema may have; empty where it does not say. */
function typesOf(place, root, depth = 0) {
  if (!isObject(place) || depth > 8) return new Set();
  if (typeof place.$ref === 'string') return typesOf(referred(place.$ref, root), root, depth + 1);
  if (place.type !== undefined) return new Set([place.type].flat());
  const values = place.enum ?? (Object.hasOwn(place, 'const') ? [place.const] : undefined);
  if (Array.isArray(values)) return new Set(values.map(kindOf));
  const choices = place.anyOf ?? place.oneOf ?? place.allOf;
  if (!Array.isArray(choices)) return new Set();
  return new Set(choices.flatMap((choice) => [...typesOf(choice, root, depth + 1)]));
}

function referred(reference, root) {
  const parts = reference.replace(/^#\/?/, '').split('/').filter(Boolean);
  return parts.reduce(
    (place, part) => (isObject(place) && Object.hasOwn(place, part) ? place[part] : undefined),
    root,
  );
}

function kindOf(value) {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

/** How a text becomes a value of a type; `undefined` where it cannot. The narrowest comes first, text last. */
const READERS = {
  boolean: (text) => ({ true: true, false: false })[text],
  integer: (text) =>
    /^[+-]?\d+$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined,
  number: (text) => (text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : undefined),
  null: (text) => (text === 'null' ? null : undefined),
  object: (text) => jsonOf(text, isObject),
  array: (text) => jsonOf(text, Array.isArray),
  string: (text) => text,
};

function typed(key, text, types) {
  if (types.size === 0) return text;
  for (const [type, read] of Object.entries(READERS)) {
    const value = types.has(type) ? read(text) : undefined;
    if (value !== undefined) return value;
  }
  throw new UsageError(`${key} has to be ${[...types].join(' or ')}, not ${JSON.stringify(text)}`);
}

function jsonOf(text, fits) {
  try {
    const value = JSON.parse(text);
    return fits(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

module.exports = { argumentsOf, needsSchema };
