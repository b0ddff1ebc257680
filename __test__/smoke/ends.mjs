// Ends in the way that its argument names, with a server running and (but for `idle`) calls open. Says the server's
// process id first.

import process from 'node:process';

import { faulty, OPTIONS, say, switchboard } from './world.mjs';

const { McpManager } = switchboard;
const [, , way] = process.argv;
const stubborn = way === 'pending' || way === 'idle' ? [] : ['--ignore-eof', '--ignore-term'];
const manager = new McpManager({ ...OPTIONS, servers: { s: faulty(...stubborn) } });
const { pid } = await manager.connect('s');
say({ pid });

function openCalls(count) {
  for (let n = 0; n < count; n += 1) manager.callTool('mcp__s__sleep', { ms: 60_000 }).catch(() => {});
}

const WAYS = {
  /** Nothing is open: the program has an end although nobody closed the manager. */
  idle: () => {},
  /** Nothing but the call holds the program. */
  pending: () => {
    manager.callTool('mcp__s__sleep', { ms: 400 }).then(() => say({ answered: true }));
  },
  exit: () => {
    openCalls(100);
    setTimeout(() => process.exit(7), 30);
  },
  throw: () => {
    openCalls(100);
    setTimeout(() => {
      throw new Error('on purpose');
    }, 30);
  },
};
WAYS[way]();
