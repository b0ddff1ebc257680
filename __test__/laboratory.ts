/**
 * One set of scripts for every kind of server there is: whatever the transport, the era and the SDK, the package behaves
 * the same. The servers are those of `fixtures/peers/lab.md`; `matrix.test.ts` and `peers.test.ts` have the tables.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ElicitationAnswer, McpManager, McpManagerOptions, SdkServer, ServerConfig } from '..';
import { caught, eventually, pause, textOf, withManager } from './harness';

/** A command and its arguments. */
export type Command = [command: string, ...args: string[]];

/** One line of a table. */
export interface Row {
  /** Of the transport that is used, as the status has it. */
  transport: 'stdio' | 'http' | 'sse' | 'ws' | 'sdk';
  /** Which era the conversation ends in. */
  era: 'legacy' | 'modern';
  /** Who made the server. */
  peer: string;
  /** What the definition asks for. Default `auto`. */
  protocol?: 'auto' | 'legacy' | 'modern';
  /** The server as a process of the manager's. Each kind of server has one of these three. */
  stdio?: () => Command;
  /** The server as a process of its own, which says `listening PORT`; the port follows the arguments. */
  network?: () => Command;
  /** The server inside this process. */
  inside?: () => SdkServer;
}

/** A server of its own, which can die and come back on the same port. */
export class Daemon {
  port = 0;
  #child: ChildProcess | undefined;

  constructor(readonly command: Command) {}

  async start(): Promise<void> {
    const [command, ...args] = this.command;
    const child = spawn(command, [...args, String(this.port)], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#child = child;
    this.port = await new Promise<number>((resolve, reject) => {
      let said = '';
      child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
        said += chunk;
        const [, port] = /^listening (\d+)$/m.exec(said) ?? [];
        if (port !== undefined) resolve(Number(port));
      });
      child.once('error', reject);
      child.once('exit', (code) => reject(new Error(`the server ended with code ${code}`)));
    });
  }

  /** Starts it again once it is dead. */
  async revive(): Promise<void> {
    await eventually(() => this.#child?.exitCode !== null, 5000, 'the end of the server');
    await this.start();
  }

  stop(): void {
    this.#child?.kill('SIGKILL');
  }
}

const URL_OF: Partial<Record<Row['transport'], (port: number) => ServerConfig>> = {
  http: (port) => ({ type: 'http', url: `http://127.0.0.1:${port}/mcp` }),
  sse: (port) => ({ type: 'sse', url: `http://127.0.0.1:${port}/mcp` }),
  ws: (port) => ({ type: 'ws', url: `ws://127.0.0.1:${port}/mcp` }),
};

/** A server may have to be built or installed first. */
const PREPARATION_MS = 15 * 60_000;

/** More than a mebibyte on every wire, and not ASCII. */
const LARGE = '½ö'.repeat(300_000);

/** All scripts for one row. */
export function judge(row: Row): void {
  const { transport, era, peer, protocol = 'auto' } = row;
  const eraName = era === 'modern' ? 'stateless' : 'handshake';

  describe(`${transport} × ${eraName} × ${peer}`, () => {
    let daemon: Daemon | undefined;
    let stdio: Command | undefined;

    beforeAll(async () => {
      stdio = row.stdio?.();
      daemon = row.network && new Daemon(row.network());
      await daemon?.start();
    }, PREPARATION_MS);
    afterAll(() => daemon?.stop());

    function definition(): ServerConfig | undefined {
      if (daemon !== undefined) return { ...URL_OF[transport]!(daemon.port), protocol };
      if (stdio === undefined) return undefined;
      const [command, ...args] = stdio;
      return { command, args, protocol };
    }

    function withServer<T>(body: (manager: McpManager) => Promise<T>, options: McpManagerOptions = {}) {
      const s = definition();
      // However long a daemon takes to be back: tries do not run out.
      const retry = { attempts: 1_000, initialDelayMs: 50, maxDelayMs: 200 };
      return withManager({ retry, ...options, servers: s ? { s } : {} }, async (manager) => {
        if (row.inside) await manager.addSdkServer('s', row.inside(), { protocol });
        await manager.connect('s');
        return body(manager);
      });
    }

    const echo = async (manager: McpManager, text: string) =>
      expect(textOf(await manager.callTool('mcp__s__echo', { text }))).toBe(text);

    test('list: in the right era, with all its tools', async () => {
      await withServer(async (manager) => {
        expect(manager.status('s')).toMatchObject({ state: 'connected', era, transport });
        const names = (await manager.listTools()).map(({ mcpInfo }) => mcpInfo.toolName);
        expect(names).toEqual(
          expect.arrayContaining(['echo', 'fail', 'steps', 'wait', 'grow', 'ask', 'die']),
        );
      });
    });

    test('mcp:BASE-21 mcp:STDIO-08 call: answers, failures of tools, errors, fifty at once', async () => {
      await withServer(async (manager) => {
        await echo(manager, 'ﬁ e\u0301 🙂\u2028"\\');
        expect(await caught(manager.callTool('mcp__s__fail'))).toMatchObject({
          code: 'TOOL_ERROR',
          server: 's',
          result: { content: [{ type: 'text', text: 'no luck' }] },
        });
        expect(await caught(manager.request('s', 'x/nothing', {}))).toMatchObject({
          code: 'RPC_ERROR',
          rpcCode: -32601,
        });
        await Promise.all(Array.from({ length: 50 }, (_, number) => echo(manager, `number ${number}`)));
      });
    });

    test('PRO-08 progress: in order, and before the answer', async () => {
      await withServer(async (manager) => {
        const seen: unknown[] = [];
        const onProgress = ({ progress, total }: { progress: number; total?: number }) =>
          void seen.push([progress, total]);
        expect(textOf(await manager.callTool('mcp__s__steps', {}, { onProgress }))).toBe('done');
        expect(seen).toEqual([
          [1, 3],
          [2, 3],
          [3, 3],
        ]);
      });
    });

    test('PRO-07 cancel: the caller hears at once, the server hears too, the connection stays', async () => {
      await withServer(async (manager) => {
        const cancelled = async () => Number(textOf(await manager.callTool('mcp__s__cancelled')));
        const before = await cancelled();
        const controller = new AbortController();
        const onProgress = () => controller.abort(new Error('enough'));
        const call = manager.callTool('mcp__s__wait', {}, { signal: controller.signal, onProgress });
        expect((await caught(call)).message).toBe('enough');
        await eventually(async () => (await cancelled()) === before + 1);
        expect(await caught(manager.callTool('mcp__s__wait', {}, { timeoutMs: 300 }))).toMatchObject({
          code: 'TIMEOUT',
          kind: 'idle',
        });
        await eventually(async () => (await cancelled()) === before + 2);
        expect(manager.status('s')).toMatchObject({ state: 'connected' });
      });
    });

    test('server notification: a changed list is heard and fetched', async () => {
      await withServer(async (manager) => {
        let heard = false;
        manager.on('toolsChanged', () => (heard = true));
        // What is said before the server has a stream to say it on is lost: nobody can hear that.
        const name = await eventually(async () => {
          const late = textOf(await manager.callTool('mcp__s__grow'));
          return (await eventually(() => heard, 500).catch(() => false)) && late;
        }, 5000);
        await eventually(async () =>
          (await manager.listTools()).some(({ mcpInfo }) => mcpInfo.toolName === name),
        );
        expect(heard).toBe(true);
      });
    });

    test('ELI-01 server request: a form inside a call', async () => {
      const asked: unknown[] = [];
      const onElicitation: McpManagerOptions['onElicitation'] = ({ server, mode, message }) => {
        asked.push({ server, mode, message });
        return { action: 'accept', content: { name: 'Ada' } };
      };
      await withServer(
        async (manager) => {
          expect(textOf(await manager.callTool('mcp__s__ask'))).toBe('hello Ada');
          expect(asked).toEqual([{ server: 's', mode: 'form', message: 'Who are you?' }]);
        },
        { onElicitation },
      );
    });

    test('PRO-06 timeouts: of silence and in all, of the call and of the server; the server hears', async () => {
      await withServer(async (manager) => {
        const cancelled = async () => Number(textOf(await manager.callTool('mcp__s__cancelled')));
        const before = await cancelled();
        const silent = await caught(manager.callTool('mcp__s__wait', {}, { timeoutMs: 300 }));
        expect(silent).toMatchObject({ code: 'TIMEOUT', kind: 'idle', server: 's' });
        const limits = { timeoutMs: 60_000, maxTotalTimeoutMs: 300 };
        const total = await caught(manager.callTool('mcp__s__wait', {}, limits));
        expect(total).toMatchObject({ code: 'TIMEOUT', kind: 'total', server: 's' });
        await eventually(async () => (await cancelled()) === before + 2);
        // Nothing of it is left: the same connection goes on.
        await echo(manager, 'after two timeouts');
      });
    });

    test('PRO-07 cancel: one of many, with a reason of its own, and before it has begun', async () => {
      await withServer(async (manager) => {
        const controller = new AbortController();
        const calls = [1, 2, 3].map(() =>
          caught(manager.callTool('mcp__s__wait', {}, { signal: controller.signal })),
        );
        const beside = manager.callTool('mcp__s__echo', { text: 'beside' });
        controller.abort({ why: 'enough' });
        expect(await Promise.all(calls)).toEqual([1, 2, 3].map(() => ({ why: 'enough' })));
        expect(textOf(await beside)).toBe('beside');
        const never = manager.callTool('mcp__s__echo', { text: 'x' }, { signal: AbortSignal.abort('no') });
        await expect(never).rejects.toBe('no');
      });
    });

    test('ELI-01 M1 a form that is declined, cancelled, answered wrongly or by nobody', async () => {
      let answer: ElicitationAnswer = { action: 'decline' };
      await withServer(
        async (manager) => {
          expect(textOf(await manager.callTool('mcp__s__ask'))).toBe('decline');
          answer = { action: 'cancel' };
          expect(textOf(await manager.callTool('mcp__s__ask'))).toBe('cancel');
          answer = { action: 'accept', content: { name: 7 } };
          expect(textOf(await manager.callTool('mcp__s__ask'))).toBe('cancel');
        },
        { onElicitation: () => answer },
      );
      await withServer(async (manager) => {
        // Whether the server asks all the same, and what it makes of the answer, is the server's business.
        const begin = Date.now();
        const outcome = await manager
          .callTool('mcp__s__ask')
          .then(textOf, (error: { code: string }) => error.code);
        expect(['cancel', 'TOOL_ERROR', 'RPC_ERROR', 'CAPABILITY_MISSING']).toContain(outcome);
        expect(Date.now() - begin).toBeLessThan(10_000);
      });
    });

    test('F9 ELI-04 people have time; several questions are kept apart; who gives up is not asked on', async () => {
      const open: { signal: AbortSignal; answer: (name: string) => void }[] = [];
      const onElicitation: McpManagerOptions['onElicitation'] = ({ signal }) =>
        new Promise((resolve) => {
          const answer = (name: string) => resolve({ action: 'accept', content: { name } });
          open.push({ signal, answer });
        });
      await withServer(
        async (manager) => {
          const limits = { timeoutMs: 400, maxTotalTimeoutMs: 800 };
          const calls = [1, 2].map(() => manager.callTool('mcp__s__ask', {}, limits));
          await eventually(() => open.length === 2, 10_000);
          await pause(1200);
          open[1]!.answer('Bea');
          open[0]!.answer('Ada');
          const said = (await Promise.all(calls)).map(textOf);
          expect(said.sort()).toEqual(['hello Ada', 'hello Bea']);

          const controller = new AbortController();
          const given = caught(manager.callTool('mcp__s__ask', {}, { signal: controller.signal }));
          await eventually(() => open.length === 3, 10_000);
          controller.abort(new Error('enough'));
          expect((await given).message).toBe('enough');
          await eventually(() => open[2]!.signal.aborted);
          await echo(manager, 'after a question that nobody answered');
        },
        { onElicitation },
      );
    });

    test('ELI-03 M6 a hook answers in the place of people', async () => {
      const seen: unknown[] = [];
      await withServer(
        async (manager) => {
          expect(textOf(await manager.callTool('mcp__s__ask'))).toBe('hello Robot');
          expect(seen).toEqual([{ action: 'accept', content: { name: 'Robot' } }]);
        },
        {
          hooks: {
            elicitation: () => ({ action: 'accept', content: { name: 'Robot' } }),
            elicitationResult: (_, answer) => void seen.push(answer),
          },
        },
      );
    });

    test('BEY-13 a call in the background, and one that is given up', async () => {
      await withServer(async (manager) => {
        const seen: number[] = [];
        const onProgress = ({ progress }: { progress: number }) => void seen.push(progress);
        const steps = await manager.startTool('mcp__s__steps', {}, { onProgress });
        expect(textOf(await steps.result())).toBe('done');
        expect(steps.status).toBe('completed');
        expect(seen.at(-1)).toBe(3);
        const waiting = await manager.startTool('mcp__s__wait');
        expect(waiting.status).toBe('working');
        await waiting.cancel();
        expect((await caught(waiting.result())).code).toBe('TASK_CANCELLED');
      });
    });

    test('large message: both ways, small ones beside it', async () => {
      await withServer(async (manager) => {
        await Promise.all([echo(manager, LARGE), echo(manager, 'small'), echo(manager, LARGE)]);
      });
    });

    test('LIF-06 close: calls in flight reject, nothing hangs', async () => {
      await withServer(async (manager) => {
        const begun = new Promise<void>((resolve) => {
          void caught(manager.callTool('mcp__s__wait', {}, { onProgress: () => resolve() }));
        });
        await begun;
        const call = caught(manager.callTool('mcp__s__wait'));
        await manager.close();
        expect(await call).toMatchObject({ code: 'MANAGER_CLOSED' });
      });
    });

    test('LIF-06 reconnect: on request, and by the next use after disconnect()', async () => {
      await withServer(async (manager) => {
        const { status, tools } = await manager.reconnect('s');
        expect(status).toMatchObject({ state: 'connected', era });
        expect(tools.length).toBeGreaterThanOrEqual(8);
        await echo(manager, 'reconnected');
        await manager.disconnect('s');
        expect(manager.status('s')).toMatchObject({ state: 'pending' });
        await echo(manager, 'used again');
        expect(manager.status('s')).toMatchObject({ state: 'connected', era });
      });
    });

    test('CAL-02 reconnect: a server that dies fails its call once and comes back by itself', async () => {
      await withServer(async (manager) => {
        const error = await caught(manager.callTool('mcp__s__die'));
        expect(['SERVER_EXITED', 'CONNECTION_LOST']).toContain(error.code);
        expect(error).toMatchObject({ server: 's', delivered: 'unknown' });
        await daemon?.revive();
        await eventually(async () => {
          const said = await manager.callTool('mcp__s__echo', { text: 'back' }).catch(() => undefined);
          return said !== undefined && textOf(said) === 'back';
        }, 10_000);
        expect(manager.status('s')).toMatchObject({ state: 'connected', era });
      });
    });
  });
}
