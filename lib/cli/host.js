'use strict';
// The manager of one command: made with the options that every command has, closed however the command ends.

const { McpManager, version } = require('../../index.js');
const { adviceFor, factsOf, oneLine } = require('./failure.js');

/** A wait that is longer than this is worth a word. */
const LONG_MS = 1000;
/** How long servers may take to end by themselves: there is always somebody who waits for the prompt. */
const GRACE_MS = 500;

/** Runs `body` with a manager that has read the configuration; nothing is started by that. */
async function withManager({ values, signal }, options, body) {
  const { timeoutMs } = values;
  const limits =
    timeoutMs === undefined
      ? {}
      : { connectTimeoutMs: timeoutMs, requestTimeoutMs: timeoutMs, toolTimeoutMs: timeoutMs };
  const manager = new McpManager({
    cwd: values.cwd,
    config: { configDir: values['config-dir'] },
    clientInfo: { name: 'mcp-switchboard', version },
    // Somebody waits in front of it: the first failure is the answer.
    retry: { attempts: 0 },
    shutdown: { graceMs: GRACE_MS },
    ...limits,
    ...options,
  });
  try {
    await manager.load({ signal });
    const result = await body(manager);
    signal.throwIfAborted();
    return result;
  } catch (error) {
    throw withHint(error, manager);
  } finally {
    await manager.close({ mode: signal.aborted ? 'fast' : 'graceful' });
  }
}

/** The error, with what the status of its server says that a person can do where the tool has no advice of its own. */
function withHint(error, manager) {
  if (error?.server === undefined || error.hint !== undefined || adviceFor(error) !== undefined) return error;
  const { hint, code } = manager.status(error.server) ?? {};
  // That one is for programs: which method tries again.
  if (code === 'RETRIES_EXHAUSTED') return error;
  return hint === undefined ? error : Object.assign(error, { hint });
}

/**
 * Connects one server, or all that may run, and tells whom it waits for. Of all, those that do not answer are problems;
 * one that was asked for is an error.
 */
async function reach(manager, server, { signal, out }) {
  const begin = Date.now();
  const timer = setInterval(() => {
    const missing = manager
      .status()
      .filter(
        ({ name, state, code }) => (server ?? name) === name && state === 'pending' && code === undefined,
      )
      .map(({ name }) => name);
    const seconds = Math.round((Date.now() - begin) / 1000);
    if (missing.length > 0) out.progress(`connecting ${missing.join(', ')} (${seconds} s)`);
  }, LONG_MS);
  try {
    if (server !== undefined) {
      await manager.connect(server, { signal });
      return [];
    }
    await connectAll(manager, signal);
  } finally {
    clearInterval(timer);
  }
  const problems = problemsOf(manager);
  for (const problem of problems) out.warning(`${problem.server}: ${oneLine(problem)}`);
  return problems;
}

/** Connects the `lazy` ones too: whoever asks about all servers wants to know about them now. */
async function connectAll(manager, signal) {
  try {
    await manager.connect({ signal });
  } catch (error) {
    signal.throwIfAborted();
    // One that is `required` is told by its status, as any other is.
    const failed = manager.status().find(({ name }) => name === error.server);
    if (failed === undefined || failed.state === 'connected') throw error;
  }
  const waiting = manager.status().filter(({ state, code }) => state === 'pending' && code === undefined);
  await manager.ready({ servers: waiting.map(({ name }) => name), signal });
}

/** Servers that gave nothing, or not everything, and what to do about each. */
function problemsOf(manager) {
  const failed = manager
    .status()
    .flatMap(({ name: server, state, code, reason, hint, listErrors = [] }) => [
      ...(code === undefined ? [] : [{ server, state, code, message: reason ?? state, hint }]),
      ...listErrors.map((one) => ({ server, state, code: one.code, message: one.message })),
    ]);
  const waiting = manager
    .configReport()
    .servers.filter(({ fate }) => fate === 'pending-approval')
    .map(({ name: server, reason }) => ({
      server,
      code: 'SERVER_NOT_APPROVED',
      message: reason,
    }));
  return [...failed, ...waiting].map(factsOf);
}

module.exports = { problemsOf, reach, withManager };
