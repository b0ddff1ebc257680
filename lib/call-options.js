'use strict';
// The options of a call as the native half takes them, with the trace context of the host.

const check = require('./check.js');
const { describe } = require('./errors.js');
const trace = require('./trace-context.js');
const { callingView } = require('./view.js');

class CallOptions {
  #traceContext;
  #report;

  /**
   * @param {(() => object | undefined) | undefined} traceContext gives the trace context of whoever calls
   * @param {(message: string) => void} report hears of one that cannot be used: the call goes on without it
   */
  constructor(traceContext, report) {
    this.#traceContext = traceContext;
    this.#report = report;
  }

  /** Limits of a call. */
  limits(options) {
    return { ...this.limitsBefore(options), meta: this.#meta(options?.meta) };
  }

  /** Limits of what precedes a call: nothing of it belongs to a trace. */
  limitsBefore(options) {
    const { timeoutMs, maxTotalTimeoutMs, app } = options ?? {};
    return { timeoutMs, maxTotalTimeoutMs, app, view: callingView(options) };
  }

  /** The same as JSON text; nothing where none is given. */
  text(options) {
    if (options === undefined && this.#traceContext === undefined) return undefined;
    const limits = this.limits(options);
    if (Object.values(limits).every((value) => value === undefined)) return undefined;
    return check.json(limits, 'options');
  }

  #meta(meta) {
    if (this.#traceContext === undefined || meta?.traceparent !== undefined) return meta;
    try {
      const context = this.#traceContext();
      if (context === undefined || context === null) return meta;
      const why = unusable(context);
      if (why === undefined) return trace.withTrace(meta, context);
      this.#report(`traceContext: ${why}; the call goes without it`);
    } catch (error) {
      this.#report(`traceContext failed, the call goes without it: ${describe(error)}`);
    }
    return meta;
  }
}

/** Why an answer of `traceContext` cannot be used. */
function unusable(context) {
  if (typeof context.then === 'function') return 'it has to answer at once, not with a promise';
  if (!check.isObject(context)) return 'expected an object';
  const wrong = trace.fault(context);
  return wrong && `${wrong.name} is not ${wrong.expected}`;
}

module.exports = { CallOptions };
