// No client at all: JSON lines over the pipes of a child process, nothing checked, nothing kept apart. What any Node
// program has to spend for an answer of a stdio server on this machine: the floor beside which ratios are read.

import { spawn } from 'node:child_process';

export async function connect(command) {
  const server = spawn(command, { stdio: ['pipe', 'pipe', 'inherit'] });
  const open = new Map();
  let id = 0;
  let parts = [];
  server.stdout.setEncoding('utf8').on('data', (text) => {
    const lines = text.split('\n');
    if (lines.length > 1) {
      lines[0] = parts.join('') + lines[0];
      parts = [];
    }
    parts.push(lines.pop());
    for (const line of lines) {
      const message = JSON.parse(line);
      open.get(message.id)(message.result);
      open.delete(message.id);
    }
  });
  const send = (message) => server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const request = (method, params) =>
    new Promise((resolve) => {
      open.set(++id, resolve);
      send({ id, method, params });
    });
  await request('initialize', {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'bench', version: '1.0.0' },
  });
  send({ method: 'notifications/initialized' });
  return {
    package: 'bare pipes of Node',
    version: process.version,
    call: (name, args) => request('tools/call', { name, arguments: args }),
    close: () => server.kill(),
  };
}
