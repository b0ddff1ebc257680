// `node bench/start.mjs SERVER`: fifty servers start together, ten cannot, five never answer (LIF-03). A program of its
// own, so that nothing else runs on its JS thread; prints figures of the same shape as bench-decisions.

import { performance } from 'node:perf_hooks';

import { McpManager } from '../index.js';
import { watchThread } from './measure.mjs';

const ROUNDS = 5;
/** How long the silent ones are waited for: the slowest start there is, ms. */
const CONNECT_TIMEOUT_MS = 3_000;

function servers(program) {
  const silent = { command: 'sleep', args: ['60'] };
  const kind = (n) => (n % 10 === 0 ? silent : { command: n % 5 === 1 ? '/no/such/program' : program });
  return Object.fromEntries(
    Array.from({ length: 50 }, (_, n) => [`s${String(n).padStart(2, '0')}`, kind(n)]),
  );
}

async function startOnce(program) {
  const manager = new McpManager({
    servers: servers(program),
    config: false,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    // More slots than silent servers: with fewer, the last of these begins when the first have given up theirs.
    localConcurrency: 8,
  });
  const watch = watchThread();
  const begin = performance.now();
  const statuses = await manager.connect();
  const wallMs = performance.now() - begin;
  const blockMs = watch.stop();
  const connected = statuses.filter(({ state }) => state === 'connected').length;
  await manager.close({ mode: 'fast' });
  if (connected !== 35) throw new Error(`35 servers were to connect, ${connected} did`);
  return { wallMs, blockMs };
}

const samples = [];
for (let round = 0; round < ROUNDS; round++) samples.push(await startOnce(process.argv[2]));
const middle = (values) => values.sort((left, right) => left - right)[ROUNDS >> 1];
const figure = (id, title, ms, target) =>
  console.log(JSON.stringify({ id, title, micros: ms * 1000, target: target * 1000 }));
figure(
  'start-50-block',
  '50 servers start together: longest block of the JS thread',
  middle(samples.map(({ blockMs }) => blockMs)),
  20,
);
figure(
  'start-50-total',
  `50 servers start together, the slowest taking ${CONNECT_TIMEOUT_MS / 1000} s: all of it`,
  middle(samples.map(({ wallMs }) => wallMs)),
  CONNECT_TIMEOUT_MS * 1.1,
);
