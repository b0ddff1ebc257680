// A program that reads messages and answers, but not in the protocol: `node wrong-answer-server.mjs KIND [LINE]`.
//
//   http    an HTTP answer to whatever comes first        html    a page
//   line    LINE to whatever comes first                  noise   a server that follows every answer with a page

import { createInterface } from 'node:readline';

const LINES = {
  http: 'HTTP/1.1 400 Bad Request',
  html: '<!DOCTYPE html><html><body>nothing here</body></html>',
  line: process.argv[3],
};
const serverInfo = { name: 'noise', version: '1' };
const results = {
  initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo },
  'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
  'tools/call': { content: [{ type: 'text', text: 'hello' }] },
};

function noise(line) {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  console.log(JSON.stringify({ jsonrpc: '2.0', id, result: results[method] ?? {} }));
  console.log('<html>');
}

const [, , kind] = process.argv;
const lines = createInterface({ input: process.stdin });
if (kind === 'noise') lines.on('line', noise);
else lines.once('line', () => console.log(LINES[kind]));
