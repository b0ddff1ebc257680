'use strict';
// Error classes and how they are made from what the native half says. `code` is the contract; classes are for
// convenience. They are branded, so that two copies of the package in one process agree on `instanceof`.

const BRAND = Symbol.for('mcp-switchboard.error');

class McpError extends Error {
  constructor(message, facts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    const { cause: _, ...own } = facts;
    Object.assign(this, own);
    this.retryable = facts.retryable === true;
  }

  get name() {
    return this.constructor.name;
  }

  get [BRAND]() {
    const names = [];
    for (let of = this.constructor; of !== Error && of !== null; of = Object.getPrototypeOf(of))
      names.push(of.name);
    return names;
  }

  static [Symbol.hasInstance](value) {
    return typeof value === 'object' && value !== null && (value[BRAND]?.includes(this.name) ?? false);
  }
}

class McpConfigError extends McpError {
  constructor(message, facts) {
    super(message, facts);
    this.diagnostics ??= [];
  }
}
class McpServerError extends McpError {}
class McpConnectionError extends McpError {}
class McpSessionExpiredError extends McpConnectionError {}
class McpRpcError extends McpError {}
class McpToolCallError extends McpError {}
class McpCallError extends McpError {}
class McpTimeoutError extends McpError {}
class McpPermissionError extends McpError {}
class McpAuthError extends McpError {}
class McpElicitationError extends McpError {}
class McpBridgeError extends McpError {}

const classes = {
  McpError,
  McpConfigError,
  McpServerError,
  McpConnectionError,
  McpSessionExpiredError,
  McpRpcError,
  McpToolCallError,
  McpCallError,
  McpTimeoutError,
  McpPermissionError,
  McpAuthError,
  McpElicitationError,
  McpBridgeError,
};

/** The error that `{class, code, message, …facts}` describes, with the stack of `caller`'s callers. */
function fromWire(wire, caller) {
  const { class: name, message, cause, ...facts } = wire;
  if (cause !== undefined) facts.cause = fromWire(cause, caller);
  const error =
    name === 'TypeError'
      ? Object.assign(new TypeError(message), facts)
      : new (classes[name] ?? McpError)(message, facts);
  Error.captureStackTrace(error, caller);
  return error;
}

/** Runs a synchronous native export; its failures are errors of ours as JSON text. */
function guard(run, caller = guard) {
  try {
    return run();
  } catch (thrown) {
    let wire;
    try {
      wire = JSON.parse(thrown.message);
    } catch {
      throw thrown;
    }
    throw fromWire(wire, caller);
  }
}

/** A tool that reports a failure in its result. */
function toolFailure(result, caller) {
  const said = result.content
    .filter((block) => block.type === 'text')
    .map((block) => block.text)
    .join('\n');
  const short = said.length > 500 ? `${said.slice(0, 500)}…` : said;
  const error = new McpToolCallError(`${result.fullName} failed${short === '' ? '' : `: ${short}`}`, {
    code: 'TOOL_ERROR',
    server: result.server,
    result,
    elapsedMs: result.elapsedMs,
  });
  Error.captureStackTrace(error, caller);
  return error;
}

/** What a failed callback of the host says, in one line. */
function describe(error) {
  const text = error instanceof Error ? error.message : String(error);
  return text.split('\n')[0].slice(0, 500);
}

module.exports = { ...classes, describe, fromWire, guard, toolFailure };
