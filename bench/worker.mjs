// The process of one peer: connects once, then measures what it is told to, over IPC. A process of its own gives each
// peer its own heap, its own threads and a CPU count that holds nothing of the others.

import { measure } from './measure.mjs';
import { workload } from './workloads.mjs';

let connection;

const ORDERS = {
  async connect({ peer, server }) {
    const { connect } = await import(`./peers/${peer}.mjs`);
    connection = await connect(server);
    return { package: connection.package, version: connection.version };
  },
  measure: ({ workload: id }) => measure(connection, workload(id)),
  async close() {
    await connection?.close();
    process.disconnect();
  },
};

// When the benchmark is gone or done, nothing of a peer may keep this process alive.
process.on('disconnect', () => process.exit());

process.on('message', async ({ order, ...details }) => {
  try {
    const answer = await ORDERS[order](details);
    if (process.connected) process.send({ answer });
  } catch (error) {
    process.send({ trouble: error.stack ?? String(error) });
  }
});
