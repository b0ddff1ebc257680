'use strict';
// The JavaScript face: gives shape to what the native half says, and decides nothing. Texts cross as JSON, calls
// are numbered, answers and events come back as letters (see ARCHITECTURE.md).

const { EventEmitter } = require('node:events');
const native = require('./binding.js');
const { version } = require('./package.json');
const { doctor } = require('./lib/doctor');
const { BackgroundCalls } = require('./lib/background-calls.js');
const { CallOptions } = require('./lib/call-options.js');
const bridge = require('./lib/bridge.js');
const { BridgeSessions } = require('./lib/bridge-sessions.js');
const { servedSession } = require('./lib/bridge-served.js');
const check = require('./lib/check.js');
const errors = require('./lib/errors.js');
const exit = require('./lib/exit.js');
const functions = require('./lib/functions.js');
const { callbacksOf, Questions, strayFunctions } = require('./lib/questions.js');
const { contained } = require('./lib/letters.js');
const { NativeCalls } = require('./lib/native-calls.js');
const { EDITORS, ideFinder } = require('./lib/ide.js');
const { REGISTRY, isOfficial, registryFetcher } = require('./lib/official-registry.js');
const { replayServer } = require('./lib/replay-server.js');
const { SdkServers, endOrphans } = require('./lib/sdk-transport.js');
const { ToolResult } = require('./lib/tool-result.js');
const { McpView, callingView } = require('./lib/view.js');

/** Flag of a call: somebody hears of its end. */
const WANTS_CALLS = 4;

class McpManager extends EventEmitter {
  #native;
  #calls;
  #callbacks;
  #questions = new Questions();
  #callOptions;
  #toolErrors;
  #background;
  #sdk;
  #views = new Map();

  constructor(options = {}) {
    check.options(options);
    super();
    const callbacks = callbacksOf(options);
    this.#callbacks = options;
    this.#callOptions = new CallOptions(options.traceContext, (message) =>
      this.#diagnose('TRACE_CONTEXT_INVALID', message),
    );
    this.#toolErrors = options.toolErrors ?? 'throw';
    const own = { ...options, callbacks, strayFunctions: strayFunctions(options) };
    const text = check.json(own, 'options');
    const make = (ring) => new native.NativeManager(text, ring);
    this.#calls = new NativeCalls(make, (letter) => this.#receive(letter), McpManager);
    this.#calls.held = options.keepAlive === true;
    const half = this.#calls.native;
    this.#native = half;
    this.#background = new BackgroundCalls(this.#calls, (handle) => this.#ask('cancelTask', { handle }));
    this.#sdk = new SdkServers(half);
    // Nothing but the native half: a manager that is forgotten has to be collected.
    exit.managers.add(half);
    collected.register(this, { half, orphans: this.#sdk.orphans }, half);
  }

  // ── configuration ──────────────────────────────────────────────────────────────────────────────────────
  async load(options) {
    return this.#ask('load', {}, options);
  }

  configReport() {
    return JSON.parse(this.#native.configReport());
  }

  async reload(options) {
    return this.#ask('reload', {}, options);
  }

  async addServer(name, config, options) {
    check.string(name, 'name');
    check.object(config, 'config');
    check.optionalObject(options, 'options');
    const { scope, source, override, persist, connect } = options ?? {};
    check.optionalChoice(scope, ['dynamic', 'plugin'], 'options.scope');
    check.optionalString(source, 'options.source');
    check.optionalBoolean(override, 'options.override');
    check.optionalChoice(persist, PERSIST, 'options.persist');
    check.optionalBoolean(connect, 'options.connect');
    const payload = {
      name,
      config,
      plugin: scope === 'plugin',
      source,
      override,
      persist,
      connect: connect !== false,
    };
    return this.#ask('addServer', payload, options);
  }

  async addSdkServer(name, server, options) {
    check.string(name, 'name');
    check.sdkServer(server);
    check.optionalObject(options, 'options');
    const { signal, ...config } = options ?? {};
    const before = this.#sdk.get(name);
    this.#sdk.set(name, server);
    try {
      const payload = { name, config: { ...config, type: 'sdk', name }, connect: true };
      return await this.#ask('addSdkServer', payload, { signal });
    } catch (error) {
      // Given up while it was connecting: it exists all the same.
      if (before !== undefined || this.status(name)?.type !== 'sdk') this.#sdk.set(name, before);
      throw error;
    }
  }

  async removeServer(name, options) {
    check.string(name, 'name');
    check.optionalObject(options, 'options');
    check.optionalChoice(options?.persist, PERSIST, 'options.persist');
    const instance = this.#sdk.get(name);
    await this.#ask('removeServer', { server: name, persist: options?.persist }, options);
    if (this.#sdk.get(name) === instance) this.#sdk.set(name, undefined);
  }

  async approveServer(name, options) {
    check.string(name, 'name');
    await this.#ask('approveServer', { server: name }, options);
  }

  async rejectServer(name, options) {
    check.string(name, 'name');
    await this.#ask('rejectServer', { server: name }, options);
  }

  async setServerEnabled(name, enabled, options) {
    check.string(name, 'name');
    check.boolean(enabled, 'enabled');
    check.optionalObject(options, 'options');
    check.optionalBoolean(options?.persist, 'options.persist');
    return this.#ask('setServerEnabled', { server: name, enabled, persist: options?.persist }, options);
  }

  view(options) {
    const own = check.view(options);
    const id = errors.guard(() => this.#native.openView(JSON.stringify(own)), this.view);
    const { onPermission, onElicitation } = options;
    if (own.callbacks.length > 0) this.#views.set(id, { onPermission, onElicitation });
    const view = new McpView(this, id, own.servers);
    const [half, views] = [this.#native, this.#views];
    forgotten.register(view, () => {
      half.closeView(id);
      views.delete(id);
    });
    return view;
  }

  // ── life of connections ────────────────────────────────────────────────────────────────────────────────
  async connect(server, options) {
    if (server === undefined || (server !== null && typeof server === 'object')) {
      return this.#ask('connectAll', {}, server);
    }
    check.string(server, 'server');
    return this.#ask('connect', { server }, options);
  }

  async ready(options) {
    check.optionalObject(options, 'options');
    const { servers, timeoutMs } = options ?? {};
    if (servers !== undefined) check.strings(servers, 'options.servers');
    check.optionalMillis(timeoutMs, 'options.timeoutMs');
    return this.#ask('ready', { servers, timeoutMs }, options);
  }

  async reconnect(server, options) {
    check.string(server, 'server');
    const status = await this.#ask('connect', { server, fresh: true }, options);
    const [tools, prompts, resources] = await Promise.all([
      this.listTools({ ...options, server }),
      this.listPrompts({ ...options, server }),
      this.listResources({ ...options, server }),
    ]);
    return { status, tools, prompts, resources };
  }

  async restart(server, options) {
    check.string(server, 'server');
    return this.#ask('restart', { server }, options);
  }

  async disconnect(server, options) {
    check.string(server, 'server');
    await this.#ask('disconnect', { server }, options);
  }

  async close(options) {
    check.optionalObject(options, 'options');
    check.optionalChoice(options?.mode, ['graceful', 'fast'], 'options.mode');
    const { mode, signal } = options ?? {};
    if (signal !== undefined) check.signal(signal);
    // Each one asks: a fast end hastens one under way. No signal crosses, since closing goes on without whoever waits.
    const closed = this.#ask('close', { fast: mode === 'fast' }).finally(() => this.#end());
    await untilAborted(closed, signal);
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.close();
  }

  status(server) {
    if (server !== undefined) check.string(server, 'server');
    const text = this.#native.status(server);
    return text === null ? undefined : JSON.parse(text);
  }

  doctor() {
    return doctor(this.status(), this.configReport(), version);
  }

  async ping(server, options) {
    check.string(server, 'server');
    return this.#ask('ping', { server }, options);
  }

  // ── tools ──────────────────────────────────────────────────────────────────────────────────────────────
  async listTools(options) {
    check.optionalObject(options, 'options');
    const { server, loaded, app, order } = options ?? {};
    if (server !== undefined) check.string(server, 'options.server');
    check.optionalBoolean(loaded, 'options.loaded');
    check.optionalBoolean(app, 'options.app');
    check.optionalChoice(order, ['name', 'arrival'], 'options.order');
    return this.#ask('listTools', { server, loaded, app, order }, options);
  }

  async searchTools(query, options) {
    if (typeof query !== 'string') throw check.invalid('query', 'a string', query);
    check.optionalObject(options, 'options');
    check.optionalCount(options?.limit, 'options.limit');
    return this.#ask('searchTools', { query, limit: options?.limit }, options);
  }

  async approveTool(server, tool, options) {
    check.string(server, 'server');
    check.string(tool, 'tool');
    await this.#ask('approveTool', { server, tool }, options);
  }

  async callTool(tool, args, options) {
    const named = typeof tool === 'string';
    if (!named) {
      check.toolPair(tool);
    }
    if (args !== undefined) check.object(args, 'args');
    if (options !== undefined) check.callOptions(options);
    const text = args === undefined ? '{}' : check.json(args, 'args');
    const outcome = await this.#calls.send(options, (id, flags) =>
      this.#native.callTool(
        id,
        named ? undefined : tool.server,
        named ? tool : tool.tool,
        text,
        this.#callOptions.text(options),
        flags | this.#flags(),
      ),
    );
    if (outcome.error !== undefined) throw errors.fromWire(outcome.error, this.callTool);
    const result = await this.#afterToolUse(new ToolResult(outcome), outcome.input ?? args ?? {});
    return this.#judged(result, options, this.callTool);
  }

  /** The result, or the error that a failure of the tool is where that is wanted. */
  #judged(result, options, caller) {
    if (result.isError && (options?.toolErrors ?? this.#toolErrors) === 'throw') {
      throw errors.toolFailure(result, caller);
    }
    return result;
  }

  // ── calls in the background ────────────────────────────────────────────────────────────────────────────
  async startTool(tool, args, options) {
    const named = typeof tool === 'string';
    if (!named) check.toolPair(tool);
    if (args !== undefined) check.object(args, 'args');
    if (options !== undefined) check.callOptions(options);
    check.optionalMillis(options?.ttlMs, 'options.ttlMs');
    const payload = {
      server: named ? undefined : tool.server,
      tool: named ? tool : tool.tool,
      arguments: args ?? {},
      options: this.#callOptions.limits(options),
      ttlMs: options?.ttlMs,
    };
    return this.#handle(await this.#ask('startTool', payload, options, true), args ?? {}, options);
  }

  async resumeTask(server, taskId, options) {
    check.string(server, 'server');
    check.string(taskId, 'taskId');
    if (options !== undefined) check.callOptions(options);
    check.optionalString(options?.tool, 'options.tool');
    const payload = { server, task: taskId, tool: options?.tool, options: this.#callOptions.limits(options) };
    return this.#handle(await this.#ask('resumeTask', payload, options), {}, options);
  }

  async listTasks(server, options) {
    check.string(server, 'server');
    return this.#ask('listTasks', { server }, options);
  }

  #handle(seen, input, options) {
    return this.#background.handle(seen, async (outcome, caller) => {
      const result = await this.#afterToolUse(new ToolResult(outcome), outcome.input ?? input);
      return this.#judged(result, options, caller);
    });
  }

  /** What `hooks.postToolUse` makes of a result; one that throws is reported and ignored (POL-12). */
  async #afterToolUse(result, input) {
    const hook = this.#callbacks.hooks?.postToolUse;
    if (typeof hook !== 'function') return result;
    const { server, tool, fullName } = result;
    try {
      const answer = await hook({ server, tool, fullName, input, result });
      if (check.isObject(answer) && check.isObject(answer.result)) return result.with(answer.result);
    } catch (error) {
      const message = `hooks.postToolUse failed and was ignored: ${errors.describe(error)}`;
      this.#diagnose('HOOK_FAILED', message, { server });
    }
    return result;
  }

  #diagnose(code, message, facts) {
    const finding = { level: 'error', code, message, ...facts };
    contained("a listener of 'diagnostic'", () => this.emit('diagnostic', finding));
  }

  async callTools(calls, options) {
    check.calls(calls);
    if (options !== undefined) check.callOptions(options);
    check.optionalCount(options?.concurrency, 'options.concurrency');
    const tools = [...new Set(calls.map(({ tool }) => tool))];
    const asked = { tools, options: this.#callOptions.limitsBefore(options) };
    const safe = new Set(await this.#ask('safeSideBySide', asked, { signal: options?.signal }));
    const settled = [];
    for (const batch of functions.partitionCalls(calls, (tool) => safe.has(tool))) {
      settled.push(...(await this.#callBatch(batch, options)));
    }
    return settled;
  }

  async #callBatch(batch, options) {
    const width = options?.concurrency ?? this.#callbacks.toolConcurrency ?? 10;
    const settled = new Array(batch.length);
    let next = 0;
    const worker = async () => {
      while (next < batch.length) {
        const at = next++;
        const { tool, args } = batch[at];
        [settled[at]] = await Promise.allSettled([this.callTool(tool, args, options)]);
      }
    };
    await Promise.all(Array.from({ length: Math.min(width, batch.length) }, worker));
    return settled;
  }

  // ── prompts ────────────────────────────────────────────────────────────────────────────────────────────
  async listPrompts(options) {
    return this.#list('listPrompts', options);
  }

  async getPrompt(name, args, options) {
    check.string(name, 'name');
    if (options !== undefined) check.callOptions(options);
    const given = check.promptArguments(args);
    return this.#ask('getPrompt', { name, ...given, options: this.#callOptions.limits(options) }, options);
  }

  async runSlashCommand(line, options) {
    check.string(line, 'line');
    if (options !== undefined) check.callOptions(options);
    return this.#ask('runSlashCommand', { line, options: this.#callOptions.limits(options) }, options);
  }

  // ── resources ──────────────────────────────────────────────────────────────────────────────────────────
  async listResources(options) {
    return this.#list('listResources', options);
  }

  async listResourceTemplates(options) {
    return this.#list('listResourceTemplates', options);
  }

  async readResource(server, uri, options) {
    check.string(server, 'server');
    check.string(uri, 'uri');
    if (options !== undefined) check.callOptions(options);
    check.optionalChoice(options?.blobs, ['file', 'buffer'], 'options.blobs');
    const buffer = options?.blobs === 'buffer';
    const contents = await this.#ask(
      'readResource',
      { server, uri, buffer, options: this.#callOptions.limits(options) },
      options,
    );
    if (buffer) {
      for (const content of contents) {
        if (typeof content.data !== 'string') continue;
        content.data = new Uint8Array(Buffer.from(content.data, 'base64'));
        content.bytes = content.data.length;
      }
    }
    return contents;
  }

  // ── skills ─────────────────────────────────────────────────────────────────────────────────────────────
  async listSkills(options) {
    return this.#list('listSkills', options);
  }

  async loadSkill(server, name, options) {
    check.string(server, 'server');
    check.string(name, 'name');
    if (options !== undefined) check.callOptions(options);
    const [loaded] = await this.#ask(
      'loadSkill',
      { server, name, options: this.#callOptions.limits(options) },
      options,
    );
    const read = async (path, bytes, own) => {
      check.string(path, 'path');
      if (own !== undefined) check.callOptions(own);
      const payload = {
        server,
        skill: loaded.skill.uri,
        path,
        bytes,
        options: this.#callOptions.limits(own),
      };
      return (await this.#ask('readSkillFile', payload, own))[0];
    };
    return {
      ...loaded,
      read: async (path, own) => (await read(path, false, own)).text,
      readBytes: async (path, own) =>
        new Uint8Array(Buffer.from((await read(path, true, own)).data, 'base64')),
    };
  }

  async subscribeResource(server, uri, options) {
    check.string(server, 'server');
    check.string(uri, 'uri');
    await this.#ask('subscribe', { server, uri, subscribe: true }, options);
  }

  async unsubscribeResource(server, uri, options) {
    check.string(server, 'server');
    check.string(uri, 'uri');
    await this.#ask('subscribe', { server, uri, subscribe: false }, options);
  }

  // ── the rest of the protocol ───────────────────────────────────────────────────────────────────────────
  async complete(server, ref, argument, context, options) {
    check.string(server, 'server');
    check.reference(ref);
    check.object(argument, 'argument');
    check.string(argument.name, 'argument.name');
    if (typeof argument.value !== 'string') throw check.invalid('argument.value', 'a string', argument.value);
    check.optionalObject(context, 'context');
    return this.#ask('complete', { server, reference: ref, argument, context }, options);
  }

  async setLogLevel(server, level, options) {
    check.string(server, 'server');
    check.string(level, 'level');
    await this.#ask('setLogLevel', { server, level }, options);
  }

  async setRoots(roots, options) {
    check.roots(roots, 'roots');
    await this.#ask('setRoots', { roots }, options);
  }

  async request(server, method, params, options) {
    check.string(server, 'server');
    check.string(method, 'method');
    check.params(params);
    if (options !== undefined) check.callOptions(options);
    const payload = { server, method, params: params ?? {}, options: this.#callOptions.limits(options) };
    const { result, call } = await this.#ask('request', payload, options);
    if (call === undefined || typeof this.#callbacks.hooks?.postToolUse !== 'function') return result;
    const { input, ...names } = call;
    const seen = new ToolResult({ server, ...names, plain: true, value: result });
    return (await this.#afterToolUse(seen, input)).toWire();
  }

  // ── authorisation ──────────────────────────────────────────────────────────────────────────────────────
  async authenticate(server, options) {
    check.string(server, 'server');
    check.optionalObject(options, 'options');
    const { onAuthorizationUrl } = options ?? {};
    check.optionalFunction(onAuthorizationUrl, 'options.onAuthorizationUrl');
    if (onAuthorizationUrl === undefined) return this.#ask('authenticate', { server }, options);
    return this.#questions.duringLogin(onAuthorizationUrl, (login) =>
      this.#ask('authenticate', { server, login }, options),
    );
  }

  async completeAuthorization(server, redirectUrl, options) {
    check.string(server, 'server');
    check.string(redirectUrl, 'redirectUrl');
    return this.#ask('completeAuthorization', { server, url: redirectUrl }, options);
  }

  async logout(server, options) {
    check.string(server, 'server');
    await this.#ask('logout', { server }, options);
  }

  /** For `discoverIde`. */
  [EDITORS](payload) {
    return this.#ask('discoverIde', payload);
  }

  /** For `fetchOfficialRegistry`. */
  [REGISTRY](payload, options) {
    return this.#ask('officialRegistry', payload, options);
  }

  // ── letters ────────────────────────────────────────────────────────────────────────────────────────────
  #list(verb, options) {
    check.optionalObject(options, 'options');
    if (options?.server !== undefined) check.string(options.server, 'options.server');
    return this.#ask(verb, { server: options?.server }, options);
  }

  async #ask(verb, payload, options, goesOn) {
    check.optionalObject(options, 'options');
    const view = callingView(options);
    const text = check.json(view === undefined ? payload : { ...payload, view }, 'arguments');
    return this.#calls.ask(verb, text, this[verb] ?? this.#ask, options, { goesOn, flags: this.#flags() });
  }

  #flags() {
    return this.listenerCount('call') === 0 ? 0 : WANTS_CALLS;
  }

  /** Letters that answer no call. */
  #receive(letter) {
    switch (letter.kind) {
      case 'event':
        return this.#tell(letter.name, letter.value);
      case 'question': {
        const host = letter.view === null ? this.#callbacks : this.#views.get(letter.view);
        return void this.#questions.put(this.#native, letter, host);
      }
      case 'withdrawn':
        return this.#questions.withdraw(letter.question);
      case 'sdk':
        return this.#sdk.receive(letter);
    }
  }

  #tell(name, value) {
    if (name === 'taskStatus') return this.#background.told(value);
    if (name === 'audit') return contained('auditLog', () => this.#callbacks.auditLog(value));
    if (this.listenerCount(name) > 0) contained(`a listener of '${name}'`, () => this.emit(name, value));
  }

  #end() {
    this.#calls.held = false;
    exit.managers.delete(this.#native);
    collected.unregister(this.#native);
  }
}

/** Waits for something that goes on when a signal ends the wait. */
function untilAborted(promise, signal) {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

/** What a forgotten manager leaves behind in this environment. */
const collected = new FinalizationRegistry(({ half, orphans }) => {
  exit.managers.delete(half);
  endOrphans(orphans);
});

/** Views that nobody holds any more. */
const forgotten = new FinalizationRegistry((forget) => forget());

/** Where a change of the configuration can be kept. */
const PERSIST = ['local', 'project', 'user'];

exports.McpManager = McpManager;
exports.McpError = errors.McpError;
exports.McpConfigError = errors.McpConfigError;
exports.McpServerError = errors.McpServerError;
exports.McpConnectionError = errors.McpConnectionError;
exports.McpSessionExpiredError = errors.McpSessionExpiredError;
exports.McpRpcError = errors.McpRpcError;
exports.McpToolCallError = errors.McpToolCallError;
exports.McpCallError = errors.McpCallError;
exports.McpTimeoutError = errors.McpTimeoutError;
exports.McpPermissionError = errors.McpPermissionError;
exports.McpAuthError = errors.McpAuthError;
exports.McpElicitationError = errors.McpElicitationError;
exports.McpBridgeError = errors.McpBridgeError;
exports.normalizeName = functions.normalizeName;
exports.buildToolName = functions.buildToolName;
exports.parseToolName = functions.parseToolName;
exports.sanitizeUnicode = functions.sanitizeUnicode;
exports.classifyTool = functions.classifyTool;
exports.expandEnv = functions.expandEnv;
exports.decidePermission = functions.decidePermission;
exports.windowsCommand = functions.windowsCommand;
exports.partitionCalls = functions.partitionCalls;
exports.toModelResult = functions.toModelResult;
exports.toModelTools = functions.toModelTools;
exports.importConfig = functions.importConfig;
exports.isServerAllowed = functions.isServerAllowed;
exports.serverSignature = functions.serverSignature;
exports.replayServer = replayServer;
exports.Bridge = bridge.Bridge;
exports.BridgeSessions = BridgeSessions;
exports.servedSession = servedSession;
exports.BoundedUuidSet = bridge.BoundedUuidSet;
exports.getBridgeDisabledReason = bridge.getBridgeDisabledReason;
exports.fetchOfficialRegistry = registryFetcher(McpManager);
exports.discoverIde = ideFinder(McpManager);
exports.isOfficial = isOfficial;
exports.version = version;
