'use strict';
// The options of a call as the native half takes them.

const check = require('./check.js');
const { VIEW } = require('./view.js');

/** Limits of a call; nothing where none is given. */
function limits(options) {
  const { timeoutMs, maxTotalTimeoutMs, meta, app, [VIEW]: view } = options ?? {};
  return { timeoutMs, maxTotalTimeoutMs, meta, app, view };
}

function callLimits(options) {
  if (options === undefined) return undefined;
  const { timeoutMs, maxTotalTimeoutMs, meta, app, [VIEW]: view } = options;
  if (
    timeoutMs === undefined &&
    maxTotalTimeoutMs === undefined &&
    meta === undefined &&
    app === undefined &&
    view === undefined
  ) {
    return undefined;
  }
  return check.json({ timeoutMs, maxTotalTimeoutMs, meta, app, view }, 'options');
}

module.exports = { callLimits, limits };
