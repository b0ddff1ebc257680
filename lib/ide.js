'use strict';
// Editors for whoever asks without a manager of their own: a manager that reads and starts nothing looks for them.

const check = require('./check.js');

/** The manager's method that looks. Nobody outside can name it. */
const EDITORS = Symbol('editors');

/** `discoverIde`, with the managers of this package. */
function ideFinder(McpManager) {
  return async function discoverIde(options = {}) {
    check.object(options, 'options');
    const { cwd, homeDir, configDir, env } = options;
    for (const [name, value] of Object.entries({ cwd, homeDir, configDir }))
      check.optionalString(value, `options.${name}`);
    check.optionalObject(env, 'options.env');
    const set = env && Object.fromEntries(Object.entries(env).filter(([, one]) => typeof one === 'string'));
    const manager = new McpManager({ cwd, config: { homeDir, configDir }, stateDir: false });
    try {
      return await manager[EDITORS]({ env: set });
    } finally {
      await manager.close({ mode: 'fast' });
    }
  };
}

module.exports = { EDITORS, ideFinder };
