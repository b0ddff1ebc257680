/** Cases of servers behind URLs that belong to no other file, by their ids. */
import { createServer } from 'node:http';
import type { Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocketServer } from 'ws';
import type { ServerConfig } from '..';
import { caught, eventually, pause, textOf, withManager } from './harness';
import { answerTo, httpPeer, listen, type Message } from './remote-peers';

const http = (url: string): ServerConfig => ({ type: 'http', url });

test('E9 the long stream has a connection of its own: requests never queue behind it', async () => {
  const streams = new Set<Socket>();
  let behind = 0;
  const peer = await httpPeer((one, response) => {
    if (streams.has(response.req.socket)) behind += 1;
    if (one.http !== 'GET') return false;
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': open\n\n');
    streams.add(response.req.socket);
    return true;
  });
  await withManager({ servers: { s: http(peer.url) } }, async (manager) => {
    await manager.connect();
    await eventually(() => streams.size > 0);
    const calls = Array.from({ length: 20 }, () => manager.callTool('mcp__s__echo', {}, { timeoutMs: 5000 }));
    expect((await Promise.all(calls)).every(({ isError }) => !isError)).toBe(true);
    expect(behind).toBe(0);
  });
});

test('E20 LIF-04 discovery that is never found is given up, visibly, and not tried for ever', async () => {
  const peer = await httpPeer((one, response) => {
    // Everything but the endpoint itself is missing, the well-known places too.
    if (one.path === '/mcp') response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
    else response.writeHead(404).end();
    return true;
  });
  await withManager({ servers: { s: http(peer.url) } }, async (manager) => {
    await manager.connect();
    expect(manager.status('s')).toMatchObject({ state: 'needs-auth', hint: expect.any(String) });
    const before = peer.seen.length;
    await pause(1500);
    expect(peer.seen.length).toBe(before);
  });
  const gone = await httpPeer((_, response) => {
    response.writeHead(404).end('<h1>nothing here</h1>');
    return true;
  });
  await withManager({ servers: { s: http(gone.url) } }, async (manager) => {
    await manager.connect();
    expect(manager.status('s')).toMatchObject({ state: 'failed', httpStatus: 404 });
    await caught(manager.callTool('mcp__s__echo'));
    const before = gone.seen.length;
    for (let n = 0; n < 20; n += 1)
      expect(await caught(manager.callTool('mcp__s__echo'))).toMatchObject({
        nextRetryAt: expect.any(Number),
      });
    expect(gone.seen.length).toBe(before);
  });
});

test('B-096 a hundred thousand pings, then the answer: it arrives, and memory stays', async () => {
  const server = createServer();
  const sockets = new WebSocketServer({ server, handleProtocols: () => 'mcp' });
  sockets.on('connection', (socket) => {
    onTestFinished(() => socket.terminate());
    socket.on('error', () => {});
    socket.on('message', async (data) => {
      const message = JSON.parse(String(data)) as Message;
      const answer = answerTo(message);
      if (message.method === 'tools/call') {
        for (let n = 0; n < 100_000; n += 1) {
          socket.ping('x'.repeat(100));
          if (n % 5_000 === 0) await pause(1);
        }
      }
      if (answer !== undefined) socket.send(JSON.stringify(answer));
    });
  });
  const port = await listen(server);
  const s: ServerConfig = { type: 'ws', url: `ws://127.0.0.1:${port}/` };
  const other = await httpPeer();
  await withManager({ servers: { s, other: http(other.url) } }, async (manager) => {
    await manager.connect();
    const before = process.memoryUsage().rss;
    const flooded = manager.callTool('mcp__s__echo');
    expect((await manager.callTool('mcp__other__echo', {}, { timeoutMs: 10_000 })).isError).toBe(false);
    expect(textOf(await flooded)).toBe('hello from echo');
    expect(process.memoryUsage().rss - before).toBeLessThan(150 << 20);
    expect(manager.status('s')?.state).toBe('connected');
  });
}, 60_000);
