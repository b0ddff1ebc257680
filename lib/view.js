'use strict';
// A view of a manager for a sub-agent: the same connections, fewer servers and tools. Which tools exist and run is
// decided by the native half; prompts and resources are filtered by their server here.

const errors = require('./errors.js');

/** Option of the manager's methods: the view that calls. Nobody outside can name it. */
const VIEW = Symbol('view');
/** Member of a view: its number at the native half. */
const NUMBER = Symbol('number');

class McpView {
  #manager;
  #id;
  #servers;

  constructor(manager, id, servers) {
    this.#manager = manager;
    this.#id = id;
    this.#servers = servers === undefined ? undefined : new Set(servers);
  }

  get [NUMBER]() {
    return this.#id;
  }

  listTools(options) {
    return this.#manager.listTools(this.#mine(options));
  }

  searchTools(query, options) {
    return this.#manager.searchTools(query, this.#mine(options));
  }

  callTool(tool, args, options) {
    return this.#manager.callTool(tool, args, this.#mine(options));
  }

  callTools(calls, options) {
    return this.#manager.callTools(calls, this.#mine(options));
  }

  startTool(tool, args, options) {
    return this.#manager.startTool(tool, args, this.#mine(options));
  }

  async listPrompts(options) {
    this.#check(options?.server);
    return (await this.#manager.listPrompts(options)).filter(({ server }) => this.#has(server));
  }

  async getPrompt(name, args, options) {
    const known = (await this.listPrompts({ signal: options?.signal })).some(
      (prompt) => prompt.name === name,
    );
    if (!known) throw unknown('PROMPT_UNKNOWN', `this view has no prompt "${name}"`);
    return this.#manager.getPrompt(name, args, this.#mine(options));
  }

  async listResources(options) {
    this.#check(options?.server);
    return (await this.#manager.listResources(options)).filter(({ server }) => this.#has(server));
  }

  async readResource(server, uri, options) {
    this.#check(server);
    return this.#manager.readResource(server, uri, this.#mine(options));
  }

  status(server) {
    if (server !== undefined) return this.#has(server) ? this.#manager.status(server) : undefined;
    return this.#manager.status().filter(({ name }) => this.#has(name));
  }

  #has(server) {
    return this.#servers === undefined || this.#servers.has(server);
  }

  #check(server) {
    if (server !== undefined && !this.#has(server))
      throw unknown('SERVER_UNKNOWN', 'this view has no such server', server);
  }

  /** Options that hold the view: whoever holds them, for as long as a call is open, keeps it from being forgotten. */
  #mine(options) {
    return { ...options, [VIEW]: this };
  }
}

/** The number of the view that calls; nothing where none does. */
function callingView(options) {
  return options?.[VIEW]?.[NUMBER];
}

function unknown(code, message, server) {
  return errors.fromWire({ class: 'McpServerError', code, message, server, retryable: false }, unknown);
}

module.exports = { McpView, callingView };
