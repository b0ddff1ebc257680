'use strict';
// The host of MCP servers, in a utility process: what it does never holds up a window. The main process speaks to it by
// messages `{ id, method, params }` and gets `{ id, result }` or `{ id, error }`; questions go the other way.

const { McpManager } = require('mcp-switchboard');

/** Electron's port in a utility process; plain Node has the channel of a forked process instead. */
const port = process.parentPort ?? {
  on: (event, listener) => process.on(event, (data) => listener({ data })),
  postMessage: (data) => process.send(data),
};

const questions = new Map();
let manager;
let nextQuestion = 1;

/** Puts a question to the person, by way of the main process. */
function ask(question) {
  const number = nextQuestion;
  nextQuestion += 1;
  return new Promise((resolve) => {
    questions.set(number, resolve);
    port.postMessage({ question: number, ...question });
  });
}

const METHODS = {
  async open({ servers, folder, stateDir }) {
    manager = new McpManager({
      cwd: folder,
      servers,
      config: false,
      stateDir,
      // A program that was started from an icon has a short PATH.
      shellEnv: 'auto',
      onPermission: async ({ fullName, input, signal }) => {
        const answer = await Promise.race([
          ask({ fullName, input }),
          new Promise((resolve) => signal.addEventListener('abort', () => resolve(false), { once: true })),
        ]);
        return answer === true ? { behavior: 'allow' } : { behavior: 'deny', message: 'the person said no' };
      },
    });
    manager.on('status', ({ name, state, reason }) => port.postMessage({ status: { name, state, reason } }));
    await manager.connect();
    return manager.status().map(({ name, state }) => ({ name, state }));
  },
  tools: async () => (await manager.listTools()).map(({ name, description }) => ({ name, description })),
  async call({ tool, input }) {
    const { content } = await manager.callTool(tool, input);
    return content;
  },
  async close() {
    await manager?.close({ mode: 'fast' });
  },
};

port.on('message', async ({ data }) => {
  if (data.answer !== undefined) {
    questions.get(data.question)?.(data.answer);
    questions.delete(data.question);
    return;
  }
  try {
    port.postMessage({ id: data.id, result: (await METHODS[data.method](data.params)) ?? null });
  } catch (error) {
    // An Error loses its properties on the way; `code` is what a program goes by.
    port.postMessage({ id: data.id, error: { code: error.code, message: error.message } });
  }
  if (data.method === 'close') setImmediate(() => process.exit(0));
});
