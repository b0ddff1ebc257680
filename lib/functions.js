'use strict';
// Pure functions: usable without a manager, no I/O.

const native = require('../binding.js');
const check = require('./check.js');
const results = require('./model-results.js');
const { PROFILES } = require('./model-profiles.js');
const models = require('./model-tools.js');
const { guard } = require('./errors.js');

function normalizeName(name) {
  text(name, 'name');
  return native.normalizeName(name);
}

function buildToolName(server, tool) {
  text(server, 'server');
  text(tool, 'tool');
  return native.buildToolName(server, tool);
}

function parseToolName(fullName) {
  text(fullName, 'fullName');
  return native.parseToolName(fullName);
}

function sanitizeUnicode(value, mode = 'strict') {
  check.optionalChoice(mode, ['strict', 'invisible'], 'mode');
  if (value === undefined) return value;
  const json = check.json(value, 'value');
  const cleaned = guard(() => native.cleanJson(json, mode === 'strict'), sanitizeUnicode);
  return cleaned === null ? value : JSON.parse(cleaned);
}

function classifyTool(name, names) {
  text(name, 'name');
  if (names === undefined) return native.classifyTool(name);
  check.classification(names, 'names');
  return native.classifyTool(name, JSON.stringify(names));
}

function expandEnv(source, env) {
  text(source, 'text');
  check.object(env, 'env');
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => typeof value === 'string'));
  return native.expandEnv(source, set);
}

function decidePermission(tool, rules) {
  if (typeof tool !== 'string') check.toolPair(tool);
  check.object(rules, 'rules');
  const json = check.json(rules, 'rules');
  const [server, name] = typeof tool === 'string' ? [undefined, tool] : [tool.server, tool.tool];
  const { decision, rule } = guard(() => native.decidePermission(server, name, json), decidePermission);
  return rule === undefined || rule === null ? { decision } : { decision, rule };
}

function windowsCommand(command, args) {
  check.string(command, 'command');
  check.strings(args, 'args');
  return guard(() => native.windowsCommand(command, args), windowsCommand);
}

function partitionCalls(calls, isConcurrencySafe) {
  check.calls(calls);
  if (typeof isConcurrencySafe !== 'function')
    throw check.invalid('isConcurrencySafe', 'a function', isConcurrencySafe);
  const batches = [];
  let open = false;
  for (const call of calls) {
    const safe = isConcurrencySafe(call.tool) === true;
    if (safe && open) batches.at(-1).push(call);
    else batches.push([call]);
    open = safe;
  }
  return batches;
}

function toModelTools(tools, profile) {
  check.toolList(tools);
  if (typeof profile === 'string') check.optionalChoice(profile, Object.keys(PROFILES), 'profile');
  else check.modelProfile(profile);
  return models.toModelTools(tools, profile);
}

function toModelResult(outcome, profile, call) {
  if (!(outcome instanceof Error)) {
    if (!Array.isArray(outcome?.content))
      throw check.invalid('outcome', 'a result of a tool or an error', outcome);
    outcome.content.forEach((block, index) => check.object(block, `outcome.content[${index}]`));
  }
  check.string(profile, 'profile');
  check.optionalChoice(profile, Object.keys(results.RESULTS), 'profile');
  check.object(call, 'call');
  check.string(call.id, 'call.id');
  if (results.RESULTS[profile].named) check.string(call.name, 'call.name');
  else check.optionalString(call.name, 'call.name');
  check.optionalBoolean(call.images, 'call.images');
  check.optionalBoolean(call.audio, 'call.audio');
  return results.toModelResult(outcome, profile, call);
}

function isServerAllowed(name, config, policy) {
  check.string(name, 'name');
  check.object(config, 'config');
  check.object(policy, 'policy');
  const texts = [check.json(config, 'config'), check.json(policy, 'policy')];
  const { allowed, by, reason } = guard(() => native.isServerAllowed(name, ...texts), isServerAllowed);
  return by === undefined || by === null ? { allowed, reason } : { allowed, by: JSON.parse(by), reason };
}

async function importConfig(path, format = 'auto') {
  check.string(path, 'path');
  check.string(format, 'format');
  return JSON.parse(guard(() => native.importConfig(path, format), importConfig));
}

function serverSignature(config) {
  check.object(config, 'config');
  return guard(() => native.serverSignature(check.json(config, 'config')), serverSignature);
}

function text(value, parameter) {
  if (typeof value !== 'string') throw check.invalid(parameter, 'a string', value);
}

module.exports = {
  buildToolName,
  classifyTool,
  decidePermission,
  expandEnv,
  importConfig,
  isServerAllowed,
  normalizeName,
  parseToolName,
  partitionCalls,
  sanitizeUnicode,
  serverSignature,
  toModelResult,
  toModelTools,
  windowsCommand,
};
