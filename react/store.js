'use strict';
// What the hooks look at: the status of a manager's servers, the same objects until something has changed, so that all
// components of one rendering see the same and those whose server stayed as it was need not render.

/** Whatever changes a line of `status()`. */
const EVENTS = ['status', 'configChanged', 'toolsChanged', 'promptsChanged', 'resourcesChanged'];

/** One store per manager, however many providers there are. */
const stores = new WeakMap();

function storeOf(manager) {
  if (typeof manager?.status !== 'function' || typeof manager.on !== 'function') {
    throw Object.assign(new TypeError('manager must be an McpManager'), {
      code: 'INVALID_ARGUMENT',
      parameter: 'manager',
    });
  }
  if (!stores.has(manager)) stores.set(manager, new Store(manager));
  return stores.get(manager);
}

class Store {
  #manager;
  #listeners = new Set();
  #servers = [];
  #stale = true;
  #changed = () => {
    this.#stale = true;
    for (const { notify } of this.#listeners) notify();
  };

  constructor(manager) {
    this.#manager = manager;
  }

  /** Listens to the manager while anybody listens here. */
  subscribe = (notify) => {
    const listener = { notify };
    if (this.#listeners.size === 0) {
      for (const event of EVENTS) this.#manager.on(event, this.#changed);
      // Much may have happened while nobody listened.
      this.#stale = true;
    }
    this.#listeners.add(listener);
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      for (const event of EVENTS) this.#manager.off(event, this.#changed);
    };
  };

  servers = () => {
    if (this.#stale) {
      this.#servers = kept(this.#servers, this.#manager.status());
      this.#stale = false;
      // While nobody listens no event says that it is out of date. Within a turn it stays the same: React compares.
      if (this.#listeners.size === 0) queueMicrotask(() => (this.#stale = true));
    }
    return this.#servers;
  };

  reconnect = (server, options) => this.#looking(this.#manager.reconnect(server, options));

  /** Switches to the other state, or to the one that is given. */
  toggle = async (server, enabled, options) => {
    const wanted = enabled ?? this.#manager.status(server)?.state === 'disabled';
    return this.#looking(this.#manager.setServerEnabled(server, wanted, options));
  };

  /** Looks at the servers anew when the work is done: a manager that has closed, say, tells nobody. */
  async #looking(work) {
    try {
      return await work;
    } finally {
      this.#changed();
    }
  }
}

/** The new list, with the old objects for servers that are as they were; the old list where all are. */
function kept(before, now) {
  const known = new Map(before.map((status) => [status.name, status]));
  const list = now.map((status) => {
    const old = known.get(status.name);
    return old !== undefined && facts(old) === facts(status) ? old : status;
  });
  return list.length === before.length && list.every((status, at) => status === before[at]) ? before : list;
}

/** Without the proof of life, which every answer renews and no event tells of. */
function facts(status) {
  return JSON.stringify({ ...status, lastContactAt: undefined });
}

module.exports = { storeOf };
