// Runs the suite on the main thread, or (argument `worker`) in a worker thread. One line of JSON for each check. Ends by
// itself, or the runtime is held by something that it should not be held by.

import process from 'node:process';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';

import { runSuite } from './suite.mjs';
import { say } from './world.mjs';

if (!isMainThread) {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port of worker_threads has no origin
  await runSuite((fact) => parentPort.postMessage(fact));
} else if (process.argv[2] === 'worker') {
  const worker = new Worker(new URL(import.meta.url));
  worker.on('message', say);
  worker.on('error', (error) => {
    say({ check: 'the worker itself', error: String(error?.stack ?? error) });
    process.exitCode = 1;
  });
} else {
  await runSuite(say);
}
