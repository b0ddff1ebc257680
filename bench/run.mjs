// The benchmark: the same workloads on this package and on the official clients, as a table of ratios. README.md beside
// this file says what is measured and how to read it. Ends with code 1 only when something could not be measured or a
// result was not the expected one; no figure is ever a failure.

import { writeFileSync } from 'node:fs';
import os from 'node:os';
import { parseArgs } from 'node:util';

import { PeerProcess } from './peer-process.mjs';
import { makeReport, OURS, RIVALS } from './report.mjs';
import { buildServer, measureDecisions, measureStart } from './server.mjs';
import { renderDecisions, renderTable } from './table.mjs';
import { workload, WORKLOADS } from './workloads.mjs';

const ROUNDS = 11;
const QUICK_ROUNDS = 3;
/** Rounds before the first measured one, for compilers and caches of every peer. */
const WARM_UP_ROUNDS = 2;
const PEERS = [OURS, ...RIVALS];

const USAGE = `node bench/run.mjs [options]

  --quick             ${QUICK_ROUNDS} rounds instead of ${ROUNDS}
  --rounds N          N rounds
  --json FILE         also writes all samples, medians and ratios to FILE
  --peers A,B         only these of ${PEERS.join(', ')}
  --workloads A,B     only these of ${WORKLOADS.map(({ id }) => id).join(', ')}
  --server FILE       this echo server instead of one built by cargo
  --decisions         only what has no peer: the core's own decisions, and fifty servers starting together
  --help`;

function readOptions() {
  const text = { type: 'string' };
  const flag = { type: 'boolean', default: false };
  const { values } = parseArgs({
    options: {
      quick: flag,
      help: flag,
      rounds: text,
      json: text,
      peers: text,
      workloads: text,
      server: text,
      decisions: flag,
    },
  });
  const rounds = Number(values.rounds ?? (values.quick ? QUICK_ROUNDS : ROUNDS));
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new Error('--rounds must be a whole number of at least 1');
  const peers = values.peers?.split(',') ?? PEERS;
  const unknown = peers.find((peer) => !PEERS.includes(peer));
  if (unknown !== undefined) throw new Error(`there is no peer "${unknown}"; there are ${PEERS.join(', ')}`);
  return { ...values, rounds, peers, workloads: values.workloads?.split(',').map(workload) ?? WORKLOADS };
}

async function startPeers(ids, server) {
  const peers = ids.map((id) => new PeerProcess(id));
  try {
    for (const peer of peers) await peer.connect(server);
    return peers;
  } catch (error) {
    await Promise.all(peers.map((peer) => peer.close()));
    throw error;
  }
}

/** Every round asks every peer in turn, beginning with another one each time. */
async function takeSamples(peers, { workloads, rounds }) {
  const taking = ({ over }) => peers.filter((peer) => peer.transports.includes(over));
  const samples = new Map(
    workloads.map((each) => [each.id, new Map(taking(each).map((peer) => [peer.id, []]))]),
  );
  for (let round = -WARM_UP_ROUNDS; round < rounds; round++) {
    showProgress(round < 0 ? 'warming up' : `round ${round + 1} of ${rounds}`);
    for (const [position, each] of workloads.entries()) {
      for (const peer of rotated(taking(each), round + WARM_UP_ROUNDS + position)) {
        const sample = await peer.measure(each);
        if (round >= 0) samples.get(each.id).get(peer.id).push(sample);
      }
    }
  }
  showProgress('');
  return samples;
}

function rotated(list, by) {
  const start = by % list.length;
  return [...list.slice(start), ...list.slice(0, start)];
}

function showProgress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

function describeMachine() {
  return {
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
    cores: os.availableParallelism(),
    processor: os.cpus()[0]?.model.trim() ?? 'unknown',
    loadAverage: os.loadavg()[0],
  };
}

function heading(machine, peers, { rounds }) {
  const { node, platform, cores, processor, loadAverage } = machine;
  const busy = loadAverage > cores / 2 ? ' The machine was busy: read with care.' : '';
  return [
    `Node ${node}, ${platform}, ${cores} cores (${processor}), load ${loadAverage.toFixed(1)} at the start.${busy}`,
    `${peers.map((peer) => `${peer.package} ${peer.version}`).join(', ')}.`,
    `Medians of ${rounds} rounds; every result was compared with the expected one.`,
  ].join('\n');
}

async function main() {
  const options = readOptions();
  if (options.help) {
    console.log(USAGE);
    return;
  }
  const server = options.server ?? buildServer();
  const decisions = [...measureDecisions(), ...measureStart(server)];
  console.log(`${renderDecisions(decisions)}\n`);
  if (options.decisions) return;
  const date = new Date().toISOString();
  const machine = describeMachine();
  const peers = await startPeers(options.peers, server);
  try {
    const samples = await takeSamples(peers, options);
    const report = makeReport(options.workloads, samples);
    console.log(`${heading(machine, peers, options)}\n\n${renderTable(report, options.peers)}`);
    if (options.json) {
      const versions = Object.fromEntries(
        peers.map((peer) => [peer.id, { package: peer.package, version: peer.version }]),
      );
      const all = { date, machine, rounds: options.rounds, peers: versions, report, decisions };
      writeFileSync(options.json, `${JSON.stringify(all, null, 2)}\n`);
    }
  } finally {
    await Promise.all(peers.map((peer) => peer.close()));
  }
}

try {
  await main();
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
}
