'use strict';
// Argument checks of the bridge; ranges are the native half's business.

const check = require('./check.js');

const FUNCTIONS = ['onUserMessage', 'onControlRequest', 'onPermissionResponse'];
const COUNTS = ['dedupeCapacity', 'maxQueuedMessages', 'maxMessageBytes'];
const TIMES = ['heartbeatMs', 'callbackTimeoutMs', 'connectTimeoutMs', 'reconnectTimeoutMs'];

/** What the host knows of an account; `null` says the same as nothing. */
function account(value, parameter) {
  check.object(value, parameter);
  for (const name of ['subscription', 'organizationUuid'])
    if (value[name] !== undefined && value[name] !== null && typeof value[name] !== 'string')
      throw check.invalid(`${parameter}.${name}`, 'a string or null', value[name]);
  check.optionalStrings(value.scopes, `${parameter}.scopes`);
  check.optionalBoolean(value.featureEnabled, `${parameter}.featureEnabled`);
}

function options(value) {
  check.object(value, 'options');
  check.string(value.baseUrl, 'options.baseUrl');
  check.string(value.sessionId, 'options.sessionId');
  check.optionalChoice(value.version, ['v1', 'v2'], 'options.version');
  check.optionalBoolean(value.outboundOnly, 'options.outboundOnly');
  check.optionalBoolean(value.keepAlive, 'options.keepAlive');
  if (typeof value.getAuthToken !== 'function')
    throw check.invalid('options.getAuthToken', 'a function', value.getAuthToken);
  for (const name of FUNCTIONS) check.optionalFunction(value[name], `options.${name}`);
  for (const name of COUNTS) check.optionalCount(value[name], `options.${name}`);
  for (const name of TIMES) check.optionalMillis(value[name], `options.${name}`);
  const { sequence } = value;
  if (sequence !== undefined && !(Number.isSafeInteger(sequence) && sequence >= 0))
    throw check.invalid('options.sequence', 'a whole number of at least 0', sequence);
  check.optionalObject(value.paths, 'options.paths');
  for (const [name, path] of Object.entries(value.paths ?? {})) check.string(path, `options.paths.${name}`);
  if (value.account !== undefined) account(value.account, 'options.account');
}

function sessionsOptions(value) {
  check.object(value, 'options');
  check.string(value.baseUrl, 'options.baseUrl');
  if (typeof value.getAuthToken !== 'function')
    throw check.invalid('options.getAuthToken', 'a function', value.getAuthToken);
  check.optionalCount(value.maxAttempts, 'options.maxAttempts');
  for (const name of ['callbackTimeoutMs', 'connectTimeoutMs'])
    check.optionalMillis(value[name], `options.${name}`);
  check.optionalObject(value.paths, 'options.paths');
  for (const [name, path] of Object.entries(value.paths ?? {})) check.string(path, `options.paths.${name}`);
}

function childOptions(value) {
  check.object(value, 'options');
  check.string(value.command, 'options.command');
  check.optionalStrings(value.args, 'options.args');
  check.optionalString(value.cwd, 'options.cwd');
  check.optionalObject(value.env, 'options.env');
  for (const [name, text] of Object.entries(value.env ?? {}))
    if (typeof text !== 'string') throw check.invalid(`options.env.${name}`, 'a string', text);
  if (value.inheritEnv !== 'all') check.optionalStrings(value.inheritEnv, 'options.inheritEnv');
  check.optionalChoice(value.version, ['v1', 'v2'], 'options.version');
  check.optionalMillis(value.graceMs, 'options.graceMs');
}

module.exports = { account, childOptions, options, sessionsOptions };
