'use strict';
// The exit of this environment: what its native halves have started ends together, in about a second however much it
// is (STD-04).

const native = require('../binding.js');

/** Native halves that may own processes: of managers, and of what serves sessions. */
const managers = new Set();
const children = new Set();

process.on('exit', () => {
  if (managers.size + children.size > 0) native.closeNow([...managers], [...children]);
});

module.exports = { managers, children };
