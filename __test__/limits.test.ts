/** Large messages on every transport: what is one byte too long, and what a blob of 40 MiB costs. */
import { createServer, type ServerResponse } from 'node:http';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocketServer } from 'ws';
import type { McpManager, SdkTransport, ServerConfig } from '..';
import { replyTo } from '../zoo/servers/bulk-server.mjs';
import { caught, fixture, runNode, textOf, withManager } from './harness';
import { httpPeer, listen } from './remote-peers';

const LIMIT = 100_000;
/** A server over HTTP or the older stream says a little more than the message itself; the message counts. */
type Peer = () => Promise<ServerConfig>;

const reply = (message: unknown) => replyTo(message as Parameters<typeof replyTo>[0]) as string | undefined;

const streamable =
  (events: boolean): Peer =>
  async () => {
    const { url } = await httpPeer(({ http, message }, response) => {
      if (http !== 'POST') return false;
      const text = reply(message);
      if (text === undefined) response.writeHead(202).end();
      else if (events)
        response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${text}\n\n`);
      else response.writeHead(200, { 'content-type': 'application/json' }).end(text);
      return true;
    });
    return { type: 'http', url };
  };

const older: Peer = async () => {
  let stream: ServerResponse | undefined;
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      stream = response;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      return void response.write('event: endpoint\ndata: /messages\n\n');
    }
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = reply(JSON.parse(Buffer.concat(chunks).toString()));
      if (text !== undefined) stream?.write(`data: ${text}\n\n`);
      response.writeHead(202).end();
    });
  });
  return { type: 'sse', url: `http://127.0.0.1:${await listen(server)}/sse` };
};

const socket: Peer = async () => {
  const server = createServer();
  const sockets = new WebSocketServer({ server, handleProtocols: () => 'mcp' });
  sockets.on('connection', (one) => {
    onTestFinished(() => one.terminate());
    one.on('error', () => {});
    one.on('message', (data) => {
      const text = reply(JSON.parse(String(data)));
      if (text !== undefined) one.send(text);
    });
  });
  return { type: 'ws', url: `ws://127.0.0.1:${await listen(server)}/` };
};

const PEERS: [string, Peer | undefined][] = [
  ['stdio', async () => ({ command: process.execPath, args: [fixture('bulk-server.mjs'), 'stdio'] })],
  ['http, JSON', streamable(false)],
  ['http, events', streamable(true)],
  ['sse', older],
  ['ws', socket],
  ['sdk', undefined],
];

describe('maxMessageBytes', () => {
  test.each(PEERS)(
    'STD-03 E13 one byte over is MESSAGE_TOO_LARGE, the connection stays usable: %s',
    async (_, peer) => {
      const servers: Record<string, ServerConfig> = {};
      if (peer) servers.s = { ...(await peer()), protocol: 'legacy' };
      const retry = { initialDelayMs: 50, maxDelayMs: 100 };
      await withManager({ servers, maxMessageBytes: LIMIT, retry }, async (manager: McpManager) => {
        if (peer === undefined) await manager.addSdkServer('s', inside());
        await manager.connect('s');
        const sized = (bytes: number) => manager.callTool('mcp__s__sized', { bytes });
        const length = async (bytes: number) => textOf(await sized(bytes)).length;
        const small = await length(1_000);
        expect(small).toBeGreaterThan(800);
        // The number of a request is part of its answer; here all have one digit or two.
        expect(await length(LIMIT)).toBeGreaterThan(LIMIT - 200);
        const error = await caught(sized(LIMIT + 1));
        expect(error).toMatchObject({ code: 'MESSAGE_TOO_LARGE', server: 's' });
        expect(error.message).toContain(String(LIMIT));
        expect(await length(1_000)).toBeGreaterThan(800);
        expect(await length(LIMIT)).toBeGreaterThan(LIMIT - 200);
        expect(manager.status('s')).toMatchObject({ state: 'connected' });
      });
    },
  );
});

/** The same server inside this process. */
function inside() {
  return {
    async connect(transport: SdkTransport) {
      Object.assign(transport, {
        onmessage(message: never) {
          const text = reply(message);
          if (text !== undefined) void transport.send(JSON.parse(text) as object);
        },
      });
      await transport.start();
    },
  };
}

describe('a blob of 40 MiB', () => {
  const MIB = 1 << 20;

  test.runIf(process.platform === 'linux').each(['stdio', 'http'])(
    'BEY-14 RES-01 K11 reaches the disk, never a string, and memory comes back: %s',
    async (how) => {
      const program = fixture('hosts', 'large-blob.mjs');
      const { code, stdout, stderr } = await runNode(['--expose-gc', program, how], 110_000);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const { before, after, heldBefore, most, files } = JSON.parse(stdout) as {
        before: number;
        after: number;
        heldBefore: number;
        most: number;
        files: { bytes: number; size: number; raw?: number }[];
      };
      expect(files).toHaveLength(8);
      for (const { bytes, size, raw = 0 } of files) {
        expect([bytes, size]).toEqual([40 * MIB, 40 * MIB]);
        expect(raw).toBeLessThan(1_000);
      }
      // The base64 of the blob alone would be 53 MiB.
      expect(most - heldBefore).toBeLessThan(25 * MIB);
      expect(after - before).toBeLessThan(60 * MIB);
    },
    120_000,
  );
});
