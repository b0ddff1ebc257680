// What the smoke programs share: the package, the servers they use, and how they say what they saw. Runs in every
// runtime, so it uses nothing but modules of Node that all of them have.

import { createRequire } from 'node:module';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** By its path: a checkout is no installed package. */
export const switchboard = await import('../../index.js');

/** The Node that servers run under, whatever the host runs under. */
const node = process.env.SMOKE_NODE ?? process.execPath;
/** Address of a server behind Streamable HTTP. */
export const url = process.env.SMOKE_URL;

const everythingServer = require.resolve('@modelcontextprotocol/server-everything/dist/index.js');

export const everything = { command: node, args: [everythingServer, 'stdio'] };

/** The faulty server with flags (listed at the top of `zoo/servers/faulty-server.mjs`). */
export const faulty = (...flags) => ({
  command: node,
  args: [here('../../zoo/servers/faulty-server.mjs'), ...flags],
});

/** Nothing of this machine is read, every tool may run, servers stop soon. */
export const OPTIONS = {
  config: false,
  stateDir: false,
  connectTimeoutMs: 60_000,
  permissions: { allow: ['mcp__*'] },
  shutdown: { graceMs: 500, termMs: 300, fastIntMs: 100, fastTermMs: 200 },
};

/** A line that the script which started this program reads. */
export const say = (fact) => process.stdout.write(`${JSON.stringify(fact)}\n`);

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Whether a process is there. Deno lets nobody ask without `--allow-run`. */
export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    if (error.code === 'ESRCH') return false;
    throw error;
  }
}
