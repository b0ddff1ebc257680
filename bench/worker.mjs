// The process of one peer: connects once over each transport, then measures what it is told to, over IPC. A process of
// its own gives each peer its own heap, its own threads and a CPU count that holds nothing of the others.

import { measure } from './measure.mjs';
import { startHttpServer } from './server.mjs';
import { workload } from './workloads.mjs';

/** By transport. A peer that does not know HTTP has one connection only. */
const connections = {};
let httpServer;

const ORDERS = {
  async connect({ peer, server }) {
    const { connect, connectHttp } = await import(`./peers/${peer}.mjs`);
    connections.stdio = await connect(server);
    if (connectHttp) {
      httpServer = await startHttpServer(server);
      connections.http = await connectHttp(httpServer.url);
    }
    const { package: name, version } = connections.stdio;
    return { package: name, version, transports: Object.keys(connections) };
  },
  measure({ workload: id }) {
    const wanted = workload(id);
    return measure(connections[wanted.over], wanted);
  },
  async close() {
    for (const connection of Object.values(connections)) await connection.close();
    httpServer?.stop();
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
