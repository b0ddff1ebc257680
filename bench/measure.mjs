// One measurement of one peer on one workload, in this process: time, CPU, longest block of the JS thread. Owns clocks
// and windows. Payloads are checked after the clocks have stopped.

import { performance } from 'node:perf_hooks';

import { checkPayload, takePayload } from './workloads.mjs';

/**
 * Times a round of calls.
 * @returns {Promise<{ calls: number, wallMs: number, cpuMs: number, blockMs?: number }>} wall and CPU time of the whole
 *   round; CPU counts all threads of this process, not the server's. Blocks are watched in a call of their own.
 */
export async function measure(connection, workload) {
  const timed = await timeRound(connection, workload);
  if (workload.block) timed.blockMs = await longestBlock(connection, workload);
  return timed;
}

async function timeRound(connection, workload) {
  const { calls, inFlight } = workload;
  const payloads = Array.from({ length: calls });
  let next = 0;
  const caller = async () => {
    while (next < calls) {
      const index = next++;
      payloads[index] = await callOnce(connection, workload, index);
    }
  };
  collectGarbage();
  const cpuAtStart = process.cpuUsage();
  const start = performance.now();
  await Promise.all(Array.from({ length: inFlight }, caller));
  const wallMs = performance.now() - start;
  const { user, system } = process.cpuUsage(cpuAtStart);
  payloads.forEach((payload, index) => check(payload, workload, index));
  return { calls, wallMs, cpuMs: (user + system) / 1000 };
}

/** The longest time in which no other callback of this thread could run, while one call is made. */
async function longestBlock(connection, workload) {
  collectGarbage();
  const watch = watchThread();
  await nextTurn();
  watch.restart();
  const payload = await callOnce(connection, workload, 0);
  const longest = watch.stop();
  check(payload, workload, 0);
  return longest;
}

/** Comes back in every turn of the event loop and keeps the longest time between two of them. */
export function watchThread() {
  let longest = 0;
  let last = performance.now();
  const look = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  };
  let turn = setImmediate(function again() {
    look();
    turn = setImmediate(again);
  });
  return {
    restart() {
      last = performance.now();
      longest = 0;
    },
    stop() {
      look();
      clearImmediate(turn);
      return longest;
    },
  };
}

async function callOnce(connection, workload, index) {
  const { tool, args } = workload.request(index);
  return takePayload(await connection.call(tool, args));
}

function check(payload, workload, index) {
  checkPayload(payload, workload.expected(index), `${workload.id}, call ${index}`);
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** What an earlier window left behind is not this window's to clean up (workers run with --expose-gc). */
function collectGarbage() {
  globalThis.gc?.();
}
