// What a host does on an ordinary day, each thing once. The checks are the same in every runtime.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

import { everything, faulty, isAlive, OPTIONS, pause, switchboard, url } from './world.mjs';

const { McpManager, McpError, McpPermissionError, McpToolCallError, McpConnectionError } = switchboard;
/** A check that takes longer has failed; a busy machine and an emulated processor are slow. */
const LIMIT_MS = 120_000;

async function withManager(options, body) {
  const manager = new McpManager({ ...OPTIONS, ...options });
  try {
    return await body(manager);
  } finally {
    await manager.close();
  }
}

async function rejection(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('expected a rejection');
}

const text = ({ content }) => content[0].text;

/** An in-process server with one tool, made with the official SDK. */
async function sdkServer(tool) {
  const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js');
  const server = new McpServer({ name: 'inside', version: '1.0.0' });
  server.registerTool('greet', { description: 'Greets' }, tool);
  return server;
}

const CHECKS = {
  async 'import and require give one class'() {
    const required = createRequire(import.meta.url)('../../index.js');
    assert.equal(required.McpManager, McpManager);
    assert.match(switchboard.version, /^\d+\.\d+\.\d+/);
    assert.equal(switchboard.buildToolName('a', 'b'), 'mcp__a__b');
  },

  async 'a real server over stdio: a tool, prompts, resources'() {
    await withManager({ servers: { all: everything } }, async (manager) => {
      const { pid, serverInfo } = await manager.connect('all');
      assert.ok(isAlive(pid) && serverInfo.name.length > 0);
      assert.ok((await manager.listTools()).some(({ name }) => name === 'mcp__all__echo'));
      const echo = await manager.callTool('mcp__all__echo', { message: 'naïve ✓ 🎉' });
      assert.match(text(echo), /naïve ✓ 🎉/);
      const prompts = await manager.listPrompts();
      assert.ok(prompts.length > 0);
      const prompt = await manager.getPrompt('mcp__all__args-prompt', { city: 'Lisbon', state: 'Portugal' });
      assert.match(JSON.stringify(prompt.messages), /Lisbon/);
      const [resource] = await manager.readResource('all', 'demo://resource/dynamic/text/1');
      assert.equal(typeof resource.text, 'string');
    });
  },

  async 'a server over HTTP'() {
    await withManager({ servers: { far: { type: 'http', url } } }, async (manager) => {
      await manager.connect('far');
      assert.match(text(await manager.callTool('mcp__far__echo', { message: 'over HTTP' })), /over HTTP/);
      const seen = [];
      const long = { duration: 1, steps: 2 };
      await manager.callTool('mcp__far__trigger-long-running-operation', long, {
        onProgress: (progress) => seen.push(progress),
      });
      assert.ok(seen.length > 0, 'progress came over the event stream');
    });
  },

  async 'an in-process tool'() {
    await withManager({}, async (manager) => {
      const asked = [];
      const server = await sdkServer(async (...args) => {
        asked.push(args.length);
        await pause(5);
        return { content: [{ type: 'text', text: 'hello from inside' }] };
      });
      await manager.addSdkServer('inside', server);
      assert.equal(text(await manager.callTool('mcp__inside__greet')), 'hello from inside');
      assert.equal(asked.length, 1);
    });
  },

  async 'events and progress'() {
    const states = [];
    await withManager({ servers: { all: everything } }, async (manager) => {
      manager.on('status', ({ state }) => states.push(state));
      await manager.connect('all');
      const progress = [];
      const steps = { duration: 1, steps: 3 };
      await manager.callTool('mcp__all__trigger-long-running-operation', steps, {
        onProgress: (update) => progress.push(update.progress),
      });
      assert.deepEqual(
        progress,
        progress.toSorted((a, b) => a - b),
      );
      assert.ok(progress.length > 0, 'progress was reported');
    });
    assert.ok(states.includes('connected'), `states seen: ${states}`);
  },

  async 'a permission callback'() {
    const asked = [];
    const options = {
      servers: { all: everything },
      permissions: {},
      onPermission: async ({ fullName, input }) => {
        asked.push(fullName);
        await pause(5);
        if (fullName.endsWith('get-env')) return { behavior: 'deny', message: 'not that one' };
        return { behavior: 'allow', updatedInput: { ...input, message: 'changed' } };
      },
    };
    await withManager(options, async (manager) => {
      assert.match(text(await manager.callTool('mcp__all__echo', { message: 'original' })), /changed/);
      const error = await rejection(manager.callTool('mcp__all__get-env'));
      assert.ok(error instanceof McpPermissionError, String(error));
      assert.match(error.message, /not that one/);
      assert.deepEqual(asked, ['mcp__all__echo', 'mcp__all__get-env']);
    });
  },

  async 'error classes'() {
    const servers = { s: faulty(), gone: { command: 'no-such-program-as-this' } };
    await withManager({ servers }, async (manager) => {
      const unknown = await rejection(manager.callTool('mcp__nobody__nothing'));
      assert.ok(unknown instanceof McpError && unknown instanceof Error);
      assert.equal(unknown.code, 'SERVER_UNKNOWN');
      assert.match(unknown.stack, /suite\.mjs|callTool/);
      const failed = await rejection(manager.connect('gone'));
      assert.ok(failed instanceof McpConnectionError, String(failed));
      assert.equal(failed.server, 'gone');
      const tool = await rejection(manager.callTool('mcp__s__fail'));
      assert.ok(tool instanceof McpToolCallError, `${tool.name} ${tool.code}`);
      assert.equal(tool.result.isError, true);
      assert.throws(() => new McpManager({ servers: 7 }), TypeError);
    });
  },

  async 'a call that is given up'() {
    await withManager({ servers: { s: faulty() } }, async (manager) => {
      await manager.connect('s');
      const controller = new AbortController();
      const reason = new Error('enough');
      const call = manager.callTool('mcp__s__sleep', { ms: 60_000 }, { signal: controller.signal });
      setTimeout(() => controller.abort(reason), 20);
      assert.equal(await rejection(call), reason);
      assert.equal((await manager.callTool('mcp__s__echo')).isError, false);
    });
  },

  async 'many calls at once and long texts'() {
    await withManager({ servers: { s: faulty() }, maxOutputTokens: 0 }, async (manager) => {
      await manager.connect('s');
      const calls = Array.from({ length: 300 }, (_, n) => manager.callTool('mcp__s__echo', { n }));
      const answers = await Promise.all(calls);
      answers.forEach((answer, n) => assert.equal(JSON.parse(text(answer)).n, n));
      const long = 'Straße 日本 🎌 '.repeat(20_000);
      const answer = await manager.callTool('mcp__s__echo', { text: long });
      assert.equal(JSON.parse(text(answer)).text, long);
    });
  },

  async 'the end of a manager'() {
    const manager = new McpManager({ ...OPTIONS, servers: { s: faulty() } });
    const { pid } = await manager.connect('s');
    const open = manager.callTool('mcp__s__sleep', { ms: 60_000 });
    const ended = rejection(open);
    await pause(20);
    await manager.close();
    assert.ok((await ended) instanceof McpError);
    assert.ok(!isAlive(pid), 'the server has ended');
    assert.ok((await rejection(manager.callTool('mcp__s__echo'))) instanceof McpError);
    await manager.close();
  },
};

function within(limit, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${limit} ms`)), limit);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Runs all checks, one after another. Tells their names first, as `{ checks }`, then each as `{ check, error? }`. */
export async function runSuite(tell) {
  tell({ checks: Object.keys(CHECKS) });
  for (const [check, body] of Object.entries(CHECKS)) {
    try {
      await within(LIMIT_MS, body());
      tell({ check });
    } catch (error) {
      tell({ check, error: String(error?.stack ?? error) });
    }
  }
}
