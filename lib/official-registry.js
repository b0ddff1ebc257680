'use strict';
// The official registry for whoever asks without a manager. The network is a manager's, which lives for the question.

const native = require('../binding.js');
const check = require('./check.js');
const { guard } = require('./errors.js');

/** The manager's method that asks. Nobody outside can name it. */
const REGISTRY = Symbol('official registry');

/** What was read of a registry's entries, by the array that holds them. */
const known = new WeakMap();

/** `fetchOfficialRegistry`, with the managers of this package. */
function registryFetcher(McpManager) {
  return async function fetchOfficialRegistry(options = {}) {
    check.object(options, 'options');
    const { url, cacheDir, maxAgeMs, signal, tls, proxy } = options;
    check.optionalString(url, 'options.url');
    if (cacheDir !== false) check.optionalString(cacheDir, 'options.cacheDir');
    check.optionalMillis(maxAgeMs, 'options.maxAgeMs');
    if (signal !== undefined) check.signal(signal);
    const manager = new McpManager({ stateDir: cacheDir, tls, proxy });
    try {
      return await manager[REGISTRY]({ url, maxAgeMs }, { signal });
    } finally {
      await manager.close({ mode: 'fast' });
    }
  };
}

function isOfficial(config, registry) {
  check.object(config, 'config');
  check.object(registry, 'registry');
  const { servers } = registry;
  if (!Array.isArray(servers)) throw check.invalid('registry.servers', 'an array', servers);
  let read = known.get(servers);
  if (read?.length !== servers.length) {
    const text = check.json(servers, 'registry.servers');
    read = { length: servers.length, officials: new native.NativeOfficials(text) };
    known.set(servers, read);
  }
  return guard(() => read.officials.covers(check.json(config, 'config')), isOfficial);
}

module.exports = { REGISTRY, isOfficial, registryFetcher };
