// Worker threads that end while their calls are in flight: terminated from outside, or by their own `process.exit()`.
// Says the process ids of their servers, then that the main thread still can make a call.

import process from 'node:process';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

import { faulty, OPTIONS, pause, say, switchboard } from './world.mjs';

const { McpManager } = switchboard;
const ROUNDS = 4;
const AT_ONCE = 3;

async function work() {
  const manager = new McpManager({ ...OPTIONS, servers: { s: faulty('--ignore-eof') } });
  manager.on('status', () => {});
  const { pid } = await manager.connect('s');
  const callback = { onProgress: () => {} };
  for (let n = 0; n < 50; n += 1) manager.callTool('mcp__s__sleep', { ms: n * 5 }, callback).catch(() => {});
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port of worker_threads has no origin
  parentPort.postMessage(pid);
  if (workerData.exits) setTimeout(() => process.exit(0), 10);
}

/** Starts a worker and ends it in mid-flight; gives the process id of its server. */
async function round(n) {
  const exits = n % 3 === 2;
  const worker = new Worker(new URL(import.meta.url), { workerData: { exits } });
  const pid = await new Promise((resolve, reject) => {
    worker.once('message', resolve).once('error', reject);
  });
  if (exits) {
    await new Promise((resolve) => worker.once('exit', resolve));
  } else {
    await pause(n % 10);
    await worker.terminate();
  }
  return pid;
}

if (isMainThread) {
  const mine = new McpManager({ ...OPTIONS, servers: { s: faulty() } });
  await mine.connect('s');
  const pids = [];
  for (let first = 0; first < ROUNDS * AT_ONCE; first += AT_ONCE) {
    // The main thread has calls of its own in flight meanwhile.
    const own = Array.from({ length: 20 }, (_, n) => mine.callTool('mcp__s__sleep', { ms: n * 5 }));
    pids.push(...(await Promise.all(Array.from({ length: AT_ONCE }, (_, n) => round(first + n)))));
    await Promise.all(own);
  }
  say({ pids });
  await mine.callTool('mcp__s__echo');
  await mine.close();
  say({ alive: true });
} else {
  await work();
}
