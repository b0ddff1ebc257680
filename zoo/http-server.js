'use strict';
// A small server of the handshake era over Streamable HTTP on loopback. It is correct, counts what arrives, and lets a
// function take requests over.

const { createServer } = require('node:http');

const RESULTS = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {}, prompts: {}, resources: {} },
    serverInfo: { name: 'small', version: '1' },
  },
  'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
  'prompts/list': { prompts: [{ name: 'hello' }] },
  'resources/list': { resources: [] },
  'resources/templates/list': { resourceTemplates: [] },
  'tools/call': { content: [{ type: 'text', text: 'hello' }] },
  'prompts/get': { messages: [{ role: 'user', content: { type: 'text', text: 'hello' } }] },
  'resources/read': { contents: [{ uri: 'a://b', text: 'hello' }] },
};

/** Answers a request with a result. */
function reply(response, id, result, headers = {}) {
  response.writeHead(200, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
}

class SmallServer {
  url = '';
  /** Every request as it came: `{ verb, path, session, id, method, params }`. */
  arrived = [];
  sessions = 0;
  /** Takes a request over by returning `true`; may be replaced at any time. */
  answer = () => false;
  #sockets = new Set();
  /** Sockets on which an answer is still being given. */
  #taken = new Set();
  #server = createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => this.#handle(request, Buffer.concat(chunks).toString(), response));
  });

  async listen() {
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    await new Promise((resolve, reject) => {
      this.#server.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    this.url = `http://127.0.0.1:${this.#server.address().port}/mcp`;
    return this;
  }

  /** How often a method was asked. */
  count(method) {
    return this.arrived.filter((one) => one.method === method).length;
  }

  /** Ends every connection without a word. */
  cut() {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Takes no connection any more and ends those on which nothing is being answered. */
  vanish() {
    this.#server.close();
    // Not only the idle ones: some may never have carried a request.
    for (const socket of this.#sockets) if (!this.#taken.has(socket)) socket.destroy();
  }

  /** Ends for good. */
  async close() {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.cut();
    await closed;
  }

  #handle(request, body, response) {
    const message = body ? JSON.parse(body) : {};
    const session = request.headers['mcp-session-id'];
    const one = { ...message, verb: request.method ?? '', path: request.url ?? '', session };
    this.arrived.push(one);
    if (this.answer(one, response, request)) {
      if (!response.writableEnded) this.#taken.add(request.socket);
      return;
    }
    if (one.verb !== 'POST') return void response.writeHead(405).end();
    if (one.id === undefined) return void response.writeHead(202).end();
    if (one.method !== 'initialize') return reply(response, one.id, RESULTS[one.method ?? ''] ?? {});
    this.sessions += 1;
    reply(response, one.id, RESULTS.initialize, { 'mcp-session-id': `session-${this.sessions}` });
  }
}

/** Starts a server. */
const smallServer = () => new SmallServer().listen();

module.exports = { reply, smallServer };
