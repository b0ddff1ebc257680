/** A recorded session over Streamable HTTP, cut at every byte of it (HTTP-02, F-041). */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { caught, textOf, withManager } from './harness';

interface Message {
  id?: number;
  method?: string;
  params?: { arguments?: { cut?: number }; _meta?: { progressToken?: number } };
}

const serverInfo = { name: 'recorded', version: '1' };
const results: Record<string, object> = {
  initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo },
  'tools/list': { tools: [{ name: 'recorded', inputSchema: { type: 'object' } }] },
};

/** The events of one call; ids name the call and the place, as `000007/2`. */
function recorded(id: number, progressToken: number | undefined): string[] {
  const call = String(id).padStart(6, '0');
  const report = (progress: number) => ({
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken, progress, message: 'é 🙂' },
  });
  const answer = { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'whole é 🙂' }] } };
  const events = [report(1), report(2), answer].map(
    (message, place) => `id: ${call}/${place + 1}\r\ndata: ${JSON.stringify(message)}\r\n\r\n`,
  );
  return [`id: ${call}/0\nretry: 10\ndata:\n\n`, `: a comment\n\n`, ...events];
}

test('F-041 HTTP-02 every message comes once and whole, and the call completes, wherever its stream is cut', async () => {
  const EVENTS = { 'content-type': 'text/event-stream' };
  const sessions = new Map<number, string[]>();
  const resumed: string[] = [];

  function begin(response: ServerResponse, { id, params }: Message): void {
    const events = recorded(id!, params?._meta?.progressToken);
    sessions.set(id!, events);
    const bytes = Buffer.from(events.join('')).subarray(0, params?.arguments?.cut);
    response.writeHead(200, EVENTS);
    response.flushHeaders();
    response.write(bytes, () => setTimeout(() => response.destroy(), 5));
  }

  /** What lies after the event that was the last to arrive whole. */
  function resume(request: IncomingMessage, response: ServerResponse): void {
    const last = String(request.headers['last-event-id'] ?? '');
    const [id, place] = last.split('/').map(Number);
    const events = sessions.get(id);
    if (events === undefined) return void response.writeHead(405).end();
    resumed.push(last);
    response.writeHead(200, EVENTS).end(events.slice(2 + place).join(''));
  }

  const server = createServer((request, response) => {
    if (request.method === 'GET') return resume(request, response);
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (request.method !== 'POST') return void response.writeHead(405).end();
      const message = JSON.parse(Buffer.concat(chunks).toString()) as Message;
      if (message.method === 'tools/call') return begin(response, message);
      if (message.id === undefined) return void response.writeHead(202).end();
      const { id, method = '' } = message;
      const error = { code: -32601, message: 'Method not found' };
      const answer = results[method] ? { result: results[method] } : { error };
      const status = results[method] ? 200 : 400;
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;

  await withManager({ servers: { s: { url } } }, async (manager) => {
    await manager.connect('s');
    const call = async (cut: number) => {
      const seen: number[] = [];
      const onProgress = ({ progress }: { progress: number }) => void seen.push(progress);
      const result = await manager.callTool('mcp__s__recorded', { cut }, { onProgress });
      return { text: textOf(result), seen };
    };
    const whole = { text: 'whole é 🙂', seen: [1, 2] };
    expect(await call(1 << 20)).toEqual(whole);
    const [first] = recorded(1, 1);
    // Numbers of later calls are longer than those of this one.
    const length = Buffer.byteLength(recorded(1, 1).join('')) + 20;
    expect(length).toBeGreaterThan(400);

    // Without an id there is nothing to go on from. A success in between keeps the circuit closed (LIF-05).
    for (let cut = 0; cut < first.length; cut += 1) {
      expect(await caught(call(cut))).toMatchObject({ code: 'CONNECTION_LOST', delivered: 'unknown' });
      expect(await call(1 << 20)).toEqual(whole);
    }
    const cuts = Array.from({ length: length - first.length }, (_, place) => first.length + place);
    for (let from = 0; from < cuts.length; from += 50) {
      const some = cuts.slice(from, from + 50);
      expect(await Promise.all(some.map(call))).toEqual(some.map(() => whole));
    }
    expect(new Set(resumed.map((last) => last.split('/')[1]))).toEqual(new Set(['0', '1', '2']));
  });
});
