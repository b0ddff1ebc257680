// The side of the benchmark that commands a worker: starts it, gives one order at a time, ends it.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const WORKER = fileURLToPath(new URL('worker.mjs', import.meta.url));
/** No single order takes long; a peer that hangs must not hang the benchmark. */
const ORDER_TIMEOUT_MS = 60_000;

export class PeerProcess {
  #child = fork(WORKER, [], { execArgv: ['--expose-gc'] });

  /** @param {string} id the name of a module in peers/ */
  constructor(id) {
    this.id = id;
  }

  /** Connects the peer to its own echo servers; learns the package, its version and its transports. */
  async connect(server) {
    Object.assign(this, await this.#order('connect', { peer: this.id, server }));
  }

  measure(workload) {
    return this.#order('measure', { workload: workload.id });
  }

  /** Closes the connection; a worker that does not end by itself is killed. */
  async close() {
    const child = this.#child;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const killer = setTimeout(() => child.kill('SIGKILL'), 5_000);
    if (child.connected) child.send({ order: 'close' });
    await once(child, 'exit');
    clearTimeout(killer);
  }

  async #order(order, details) {
    const stop = new AbortController();
    const { signal } = stop;
    const timer = setTimeout(() => stop.abort(), ORDER_TIMEOUT_MS);
    try {
      this.#child.send({ order, ...details });
      const answered = once(this.#child, 'message', { signal }).then(([message]) => message);
      const ended = once(this.#child, 'exit', { signal }).then(([code, by]) => ({
        trouble: `ended with ${code ?? by}`,
      }));
      const { answer, trouble } = await Promise.race([answered, ended]);
      if (trouble) throw new Error(`${this.id}: ${trouble}`);
      return answer;
    } catch (error) {
      if (signal.aborted)
        throw new Error(`${this.id}: no answer to "${order}" for ${ORDER_TIMEOUT_MS} ms`, { cause: error });
      throw error;
    } finally {
      clearTimeout(timer);
      stop.abort();
    }
  }
}
