/** What the tests of the bridge share: a relay for one test, bridges that are closed with it, a proxy that cuts. */
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { Bridge, type BridgeOptions, type Diagnostic, type JsonObject } from '..';
import { BridgeRelay, type BridgeRelayOptions } from 'mcp-switchboard/bridge-relay';

export const TOKENS = { agent: 'agent-token-123456', controller: 'controller-token-123456' };

/** A relay that listens for one test. */
export async function relayFor(
  options: BridgeRelayOptions = {},
): Promise<{ relay: BridgeRelay; url: string; port: number }> {
  const given = options.authorize === undefined ? { tokens: TOKENS, ...options } : options;
  const relay = new BridgeRelay(given);
  const { url, port } = await relay.listen();
  onTestFinished(() => relay.close());
  return { relay, url, port };
}

/** A bridge for one test; what it tells is kept. */
export function bridgeFor(options: Partial<BridgeOptions> & { baseUrl: string }): {
  bridge: Bridge;
  states: string[];
  reasons: (string | undefined)[];
  diagnostics: Diagnostic[];
  users: JsonObject[];
} {
  const users: JsonObject[] = [];
  const bridge = new Bridge({
    sessionId: 's1',
    getAuthToken: () => TOKENS.agent,
    onUserMessage: (message) => void users.push(message),
    heartbeatMs: 1000,
    ...options,
  });
  const states: string[] = [];
  const reasons: (string | undefined)[] = [];
  const diagnostics: Diagnostic[] = [];
  bridge.on('state', ({ state, reason }) => {
    states.push(state);
    reasons.push(reason);
  });
  bridge.on('diagnostic', (diagnostic) => diagnostics.push(diagnostic));
  onTestFinished(() => bridge.close());
  return { bridge, states, reasons, diagnostics, users };
}

/** Numbers that look random and are the same in every run. */
export function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A proxy that lets a random number of bytes through each connection and then cuts it, as long as it is told to. */
export async function cuttingProxy(
  target: number,
  seed: number,
  most: number,
): Promise<{ url: string; cuts: () => number; stop: () => void; cutAll: () => void }> {
  const random = dice(seed);
  const sockets = new Set<Socket>();
  let cuts = 0;
  let cutting = true;
  const server = createServer((near) => {
    const far = connect(target, '127.0.0.1');
    let left = 20 + Math.floor(random() * most);
    const end = () => {
      near.destroy();
      far.destroy();
      sockets.delete(near);
    };
    sockets.add(near);
    const pass = (from: Socket, to: Socket) => {
      from.on('data', (bytes) => {
        if (!cutting) return void to.write(bytes);
        const part = bytes.subarray(0, left);
        left -= part.length;
        if (left > 0) return void to.write(part);
        cuts += 1;
        // What was let through still arrives: only the rest is lost.
        to.write(part, () => end());
      });
      from.on('error', end);
      from.on('close', end);
    };
    pass(near, far);
    pass(far, near);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cuts: () => cuts,
    stop: () => (cutting = false),
    cutAll: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
}
