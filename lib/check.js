'use strict';
// Argument checks of the public interface: one clear TypeError with `code: 'INVALID_ARGUMENT'` and the parameter's
// name.

const { isObject } = require('./values.js');
const trace = require('./trace-context.js');

function invalid(parameter, expected, given) {
  const error = new TypeError(`${parameter}: expected ${expected}, got ${kindOf(given)}`);
  error.code = 'INVALID_ARGUMENT';
  error.parameter = parameter;
  Error.captureStackTrace(error, invalid);
  return error;
}

function kindOf(value) {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'string') return value === '' ? 'an empty string' : 'a string';
  if (typeof value === 'number') return `the number ${value}`;
  if (value === undefined) return 'nothing';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

function string(value, parameter) {
  if (typeof value !== 'string' || value === '') throw invalid(parameter, 'a non-empty string', value);
}

function strings(value, parameter) {
  if (!Array.isArray(value)) throw invalid(parameter, 'an array of strings', value);
  value.forEach((item, index) => {
    if (typeof item !== 'string') throw invalid(`${parameter}[${index}]`, 'a string', item);
  });
}

/** Directories: paths or `file:` URIs (mcp:ROOT-03). */
function roots(value, parameter) {
  strings(value, parameter);
  const other = value.find((root) => /^[a-z][a-z0-9+.-]+:\/\//i.test(root) && !/^file:/i.test(root));
  if (other !== undefined) throw invalid(parameter, 'paths or file: URIs', other);
}

function boolean(value, parameter) {
  if (typeof value !== 'boolean') throw invalid(parameter, 'a boolean', value);
}

function optionalBoolean(value, parameter) {
  if (value !== undefined) boolean(value, parameter);
}

function optionalString(value, parameter) {
  if (value !== undefined) string(value, parameter);
}

function optionalStrings(value, parameter) {
  if (value !== undefined) strings(value, parameter);
}

function object(value, parameter) {
  if (!isObject(value)) throw invalid(parameter, 'an object', value);
}

/** What a completion is for. */
function reference(ref) {
  object(ref, 'ref');
  if (ref.type !== 'ref/prompt' && ref.type !== 'ref/resource')
    throw invalid('ref.type', "'ref/prompt' or 'ref/resource'", ref.type);
  if (ref.type === 'ref/prompt') string(ref.name, 'ref.name');
  else string(ref.uri, 'ref.uri');
}

function optionalObject(value, parameter) {
  if (value !== undefined) object(value, parameter);
}

function optionalFunction(value, parameter) {
  if (value !== undefined && typeof value !== 'function') throw invalid(parameter, 'a function', value);
}

function optionalChoice(value, choices, parameter) {
  if (value !== undefined && !choices.includes(value)) {
    const error = invalid(parameter, choices.map((choice) => `'${choice}'`).join(' or '), value);
    throw error;
  }
}

function optionalCount(value, parameter) {
  if (value !== undefined && !(Number.isInteger(value) && value >= 1)) {
    throw invalid(parameter, 'a whole number of at least 1', value);
  }
}

function count(value, parameter) {
  if (value === undefined) throw invalid(parameter, 'a whole number of at least 1', value);
  optionalCount(value, parameter);
}

function optionalMillis(value, parameter) {
  if (value === undefined) return;
  if (typeof value !== 'number' || !(value >= 0) || value === Infinity) {
    throw invalid(parameter, 'a time in milliseconds', value);
  }
}

/** Names of tools that search, read, or say nothing. */
function classification(value, parameter) {
  object(value, parameter);
  for (const [list, names] of Object.entries(value)) {
    if (!['search', 'read', 'unknown'].includes(list))
      throw invalid(`${parameter}.${list}`, 'one of search, read and unknown', names);
    optionalStrings(names, `${parameter}.${list}`);
  }
}

function signal(value) {
  if (
    !isObject(value) ||
    typeof value.addEventListener !== 'function' ||
    typeof value.aborted !== 'boolean'
  ) {
    throw invalid('options.signal', 'an AbortSignal', value);
  }
}

/** A server with the pairing of the official SDK. */
function sdkServer(value) {
  if (typeof value !== 'object' || value === null || typeof value.connect !== 'function') {
    throw invalid('server', 'a server with connect(transport)', value);
  }
}

function options(value) {
  object(value, 'options');
  for (const name of [
    'onPermission',
    'onElicitation',
    'onSampling',
    'onApproval',
    'onAuthorizationUrl',
    'getConnectorToken',
    'traceContext',
  ]) {
    optionalFunction(value[name], `options.${name}`);
  }
  if (isObject(value.tokenStore)) {
    for (const name of ['get', 'set', 'delete', 'lock']) {
      optionalFunction(value.tokenStore[name], `options.tokenStore.${name}`);
    }
  }
  if (value.classification !== undefined) classification(value.classification, 'options.classification');
  optionalObject(value.hooks, 'options.hooks');
  for (const name of ['elicitation', 'elicitationResult']) {
    optionalFunction(value.hooks?.[name], `options.hooks.${name}`);
  }
  optionalChoice(value.toolErrors, ['throw', 'return'], 'options.toolErrors');
  if (value.roots !== undefined) roots(value.roots, 'options.roots');
  optionalBoolean(value.apps, 'options.apps');
  optionalString(value.recordTo, 'options.recordTo');
  optionalObject(value.hooks, 'options.hooks');
  for (const [name, hook] of Object.entries(value.hooks ?? {}))
    optionalFunction(hook, `options.hooks.${name}`);
}

/** Options of a view as the native half takes them. */
function view(value) {
  object(value, 'options');
  optionalStrings(value.servers, 'options.servers');
  optionalObject(value.tools, 'options.tools');
  optionalStrings(value.tools?.include, 'options.tools.include');
  optionalStrings(value.tools?.exclude, 'options.tools.exclude');
  optionalObject(value.permissions, 'options.permissions');
  for (const list of ['allow', 'ask', 'deny'])
    optionalStrings(value.permissions?.[list], `options.permissions.${list}`);
  optionalFunction(value.onPermission, 'options.onPermission');
  optionalFunction(value.onElicitation, 'options.onElicitation');
  const { servers, tools, permissions } = value;
  const callbacks = ['onPermission', 'onElicitation'].filter((name) => value[name] !== undefined);
  return { servers, tools, permissions, callbacks };
}

function callOptions(value) {
  object(value, 'options');
  optionalMillis(value.timeoutMs, 'options.timeoutMs');
  optionalMillis(value.maxTotalTimeoutMs, 'options.maxTotalTimeoutMs');
  optionalFunction(value.onProgress, 'options.onProgress');
  optionalChoice(value.toolErrors, ['throw', 'return'], 'options.toolErrors');
  meta(value.meta, 'options.meta');
  optionalString(value.app, 'options.app');
  if (value.signal !== undefined) signal(value.signal);
}

const META_LABEL = /^[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?$/;
const META_NAME = /^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$/;

/** Whether `[prefix/]name` is a key that `_meta` may have (mcp:META-09). */
function isMetaKey(key) {
  const slash = key.indexOf('/');
  const labels = slash < 0 ? [] : key.slice(0, slash).split('.');
  return labels.every((label) => META_LABEL.test(label)) && META_NAME.test(key.slice(slash + 1));
}

/** Keys are those of the protocol's syntax; trace context is sent as W3C says, or not at all (mcp:META-08). */
function meta(value, parameter) {
  optionalObject(value, parameter);
  for (const key of Object.keys(value ?? {}))
    if (!isMetaKey(key)) throw invalid(parameter, 'keys of the form [prefix/]name', key);
  const wrong = trace.fault(value);
  if (wrong !== undefined) throw invalid(`${parameter}.${wrong.name}`, wrong.expected, value[wrong.name]);
}

/** Parameters of a request. */
function params(value) {
  optionalObject(value, 'params');
  meta(value?._meta, 'params._meta');
}

function toolPair(value) {
  if (!isObject(value)) throw invalid('tool', 'a name or {server, tool}', value);
  string(value.server, 'tool.server');
  string(value.tool, 'tool.tool');
}

function calls(value) {
  if (!Array.isArray(value)) throw invalid('calls', 'an array of {tool, args}', value);
  value.forEach((call, index) => {
    object(call, `calls[${index}]`);
    string(call.tool, `calls[${index}].tool`);
    optionalObject(call.args, `calls[${index}].args`);
  });
}

/** Arguments of a prompt: by order, or by name; every value is a string (mcp:PRM-01). */
function toolList(value) {
  if (!Array.isArray(value)) throw invalid('tools', 'an array of tools', value);
  value.forEach((tool, index) => {
    object(tool, `tools[${index}]`);
    string(tool.name, `tools[${index}].name`);
  });
}

function modelProfile(value) {
  object(value, 'profile');
  const { maxNameLength, nameCharset } = value;
  if (!Number.isInteger(maxNameLength) || maxNameLength < 16) {
    throw invalid('profile.maxNameLength', 'a whole number of at least 16', maxNameLength);
  }
  if (!(nameCharset instanceof RegExp)) {
    throw invalid('profile.nameCharset', 'a regular expression', nameCharset);
  }
  boolean(value.rootUnions, 'profile.rootUnions');
  boolean(value.refs, 'profile.refs');
}

function promptArguments(value) {
  if (value === undefined) return { named: [] };
  if (Array.isArray(value)) {
    strings(value, 'args');
    return { positional: value };
  }
  object(value, 'args');
  const named = Object.entries(value).filter(([, text]) => text !== undefined);
  for (const [name, text] of named) {
    if (typeof text !== 'string') throw invalid(`args.${name}`, 'a string', text);
  }
  return { named };
}

/** JSON text of a value; what has none (a cycle, a BigInt, nesting without end) is the caller's mistake. */
function json(value, parameter) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    const error = new TypeError(`${parameter}: cannot be written as JSON: ${cause.message.split('\n')[0]}`, {
      cause,
    });
    error.code = 'INVALID_ARGUMENT';
    error.parameter = parameter;
    throw error;
  }
  if (text === undefined) throw invalid(parameter, 'a value that JSON can hold', value);
  return text;
}

module.exports = {
  boolean,
  callOptions,
  calls,
  classification,
  count,
  invalid,
  isObject,
  json,
  modelProfile,
  object,
  optionalBoolean,
  optionalChoice,
  optionalCount,
  optionalFunction,
  optionalMillis,
  optionalObject,
  optionalString,
  optionalStrings,
  options,
  params,
  promptArguments,
  reference,
  roots,
  sdkServer,
  signal,
  string,
  strings,
  toolList,
  toolPair,
  view,
};
