/** Calls in the background (BEY-13): tasks of both eras, and calls of this process where a server has none. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { McpManager, McpManagerOptions, ServerConfig, StdioServerConfig, TaskHandle } from '..';
import {
  caught,
  eventually,
  faulty,
  fixture,
  nextEvent,
  notes,
  pause,
  runHost,
  temporaryDirectory,
  textOf,
  withManager,
} from './harness';

type Era = 'legacy' | 'modern';
const TASKS = 'io.modelcontextprotocol/tasks';
const RELATED = 'io.modelcontextprotocol/related-task';

function taskServer(era: Era, ...flags: string[]): StdioServerConfig {
  return { command: process.execPath, args: [fixture('task-server.mjs'), era, ...flags] };
}

function withTasks<T>(
  era: Era,
  flags: string[],
  body: (manager: McpManager) => Promise<T>,
  options: McpManagerOptions = {},
): Promise<T> {
  return withManager({ ...options, servers: { s: taskServer(era, ...flags) } }, body);
}

/** The same server behind HTTP, on a port that stays when it comes back. */
async function httpTaskServer(era: Era, ...flags: string[]) {
  let port = 0;
  let child: ReturnType<typeof spawn>;
  const start = async () => {
    child = spawn(process.execPath, [fixture('task-server.mjs'), era, '--http', String(port), ...flags], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const chunk: Buffer = await new Promise((resolve) => child.stdout!.once('data', resolve));
    port = Number(/listening (\d+)/.exec(String(chunk))?.[1]);
  };
  const stop = () => {
    child.kill('SIGKILL');
    return new Promise((resolve) => child.once('exit', resolve));
  };
  await start();
  onTestFinished(() => void child.kill('SIGKILL'));
  const config: ServerConfig = { type: 'http', url: `http://127.0.0.1:${port}/mcp` };
  return { config, start, stop };
}

/** Every status that a handle tells from now on. */
function statusesOf(task: TaskHandle): string[] {
  const seen: string[] = [];
  task.on('status', (status) => seen.push(status));
  return seen;
}

const answers: McpManagerOptions = {
  onElicitation: (request) => {
    if (request.mode !== 'form') return { action: 'cancel' };
    const [field] = Object.keys(request.requestedSchema['properties'] as object);
    return { action: 'accept', content: { [field]: field === 'name' ? 'Ada' : 'London' } };
  },
};

describe.each<Era>(['legacy', 'modern'])('%s', (era) => {
  test('BEY-13 PRO-11 a call in the background: handle, statuses, result, as often as wanted', async () => {
    await withTasks(era, [], async (manager) => {
      const task = await manager.startTool('mcp__s__optional', { say: 'found' });
      expect(task).toMatchObject({
        server: 's',
        tool: 'optional',
        fullName: 'mcp__s__optional',
        status: 'working',
        taskId: expect.stringMatching(/^task-/),
      });
      const seen = statusesOf(task);
      const result = await task.result();
      expect(textOf(result)).toBe('found');
      expect(result).toMatchObject({ server: 's', tool: 'optional', fullName: 'mcp__s__optional' });
      expect(await task.result()).toBe(result);
      expect(task.status).toBe('completed');
      expect(seen.at(-1)).toBe('completed');
      if (era === 'legacy') expect(task.immediateResponse, 'TASKL-17').toBe('It will take a while');
      await task.cancel();
      expect(task.status, 'what has ended stays as it is').toBe('completed');
    });
  });

  test('mcp:TASKL-05 mcp:TASK-21 mcp:TASK-02 mcp:TASKL-18 a plain call waits for the end of a task', async () => {
    await withTasks(era, [], async (manager) => {
      expect(textOf(await manager.callTool('mcp__s__required', { say: 'waited for' }))).toBe('waited for');
      expect(await caught(manager.callTool('mcp__s__required', { how: 'fail' }))).toMatchObject({
        code: 'TOOL_ERROR',
        result: { content: [{ type: 'text', text: 'no luck' }] },
      });
      expect(await caught(manager.callTool('mcp__s__required', { how: 'error' }))).toMatchObject({
        code: 'RPC_ERROR',
        rpcCode: -32050,
        server: 's',
        data: { why: 'x' },
      });
    });
  });

  test('ELI-01 mcp:TASKL-08 mcp:TASK-09 questions inside a task, two at once, each answered once', async () => {
    await withTasks(
      era,
      [],
      async (manager) => {
        const task = await manager.startTool('mcp__s__optional', { how: 'ask-two' });
        const seen = statusesOf(task);
        expect(textOf(await task.result())).toBe('Ada of London');
        expect(seen).toContain('input_required');
        expect(textOf(await manager.callTool('mcp__s__required', { how: 'ask' }))).toBe('Ada');
      },
      answers,
    );
  });

  test('F9 PRO-06 the clocks of a task stand still while a person thinks', async () => {
    const slow: McpManagerOptions = {
      onElicitation: async () => {
        await pause(1500);
        return { action: 'accept', content: { name: 'Ada' } };
      },
    };
    await withTasks(
      era,
      [],
      async (manager) => {
        const call = manager.callTool('mcp__s__required', { how: 'ask' }, { maxTotalTimeoutMs: 1200 });
        expect(textOf(await call)).toBe('Ada');
      },
      slow,
    );
  });

  test('ELI-04 a question of a task that is cancelled is withdrawn', async () => {
    let withdrawn = false;
    const options: McpManagerOptions = {
      onElicitation: ({ signal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            withdrawn = true;
            resolve({ action: 'cancel' });
          });
        }),
    };
    await withTasks(
      era,
      [],
      async (manager) => {
        const task = await manager.startTool('mcp__s__optional', { how: 'ask' });
        await eventually(() => task.status === 'input_required');
        await pause(300);
        await task.cancel();
        expect(task.status).toBe('cancelled');
        await eventually(() => withdrawn);
      },
      options,
    );
  });

  test('mcp:TASKL-13 mcp:TASK-13 cancelling tells the server by the id of the task, and by nothing else', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withTasks(era, ['--notes', file], async (manager) => {
      const task = await manager.startTool('mcp__s__optional', { how: 'never' });
      const waiting = caught(task.result());
      await task.cancel();
      expect(task.status).toBe('cancelled');
      expect(await waiting).toMatchObject({
        code: 'TASK_CANCELLED',
        server: 's',
        data: { taskId: task.taskId },
      });
      const told = notes(file);
      expect(
        told.filter(({ method }) => method === 'tasks/cancel').map(({ params }) => params?.taskId),
      ).toEqual([task.taskId]);
      const calls = new Set(told.filter(({ method }) => method === 'tools/call').map(({ id }) => id));
      const taken = told.filter(({ method }) => method === 'notifications/cancelled');
      expect(taken.filter(({ params }) => calls.has(params?.requestId))).toEqual([]);
    });
  });

  test('PRO-07 mcp:CAN-06 a plain call that is aborted cancels its task', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withTasks(era, ['--notes', file], async (manager) => {
      await manager.connect();
      const signal = AbortSignal.timeout(400);
      const error = await caught(manager.callTool('mcp__s__required', { how: 'never' }, { signal }));
      expect(error.name).toBe('TimeoutError');
      await eventually(() => notes(file).some(({ method }) => method === 'tasks/cancel'));
    });
  });

  test('PRO-06 the total limit ends a task; the server is told', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withTasks(era, ['--notes', file], async (manager) => {
      const task = await manager.startTool('mcp__s__optional', { how: 'never' }, { maxTotalTimeoutMs: 700 });
      expect(await caught(task.result())).toMatchObject({ code: 'TIMEOUT', kind: 'total' });
      expect(task.status).toBe('failed');
      await eventually(() => notes(file).some(({ method }) => method === 'tasks/cancel'));
    });
  });

  test('mcp:TASKL-07 mcp:TASK-06 the interval that the server wants is kept', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withTasks(era, ['--notes', file, '--poll', '700'], async (manager) => {
      await (await manager.startTool('mcp__s__optional', { steps: 10, ms: 200 })).result();
      const asked = notes(file).filter(({ method }) => method === 'tasks/get').length;
      expect(asked).toBeGreaterThan(0);
      expect(asked).toBeLessThanOrEqual(4);
    });
  });

  test('BEY-13 a server that dies takes its tasks along, which is said', async () => {
    await withTasks(
      era,
      [],
      async (manager) => {
        const task = await manager.startTool('mcp__s__optional', { how: 'die' });
        expect(await caught(task.result())).toMatchObject({
          code: 'TASK_LOST',
          server: 's',
          data: { taskId: task.taskId },
        });
        expect(task.status).toBe('failed');
      },
      { retry: { initialDelayMs: 20 } },
    );
  });

  test('BEY-13 CAL-02 a server that never comes back fails its tasks, typed', async () => {
    await withTasks(era, [], async (manager) => {
      const task = await manager.startTool('mcp__s__optional', { how: 'never' });
      const waiting = caught(task.result());
      await manager.removeServer('s');
      expect(await waiting).toMatchObject({ code: 'CONNECTION_LOST', data: { taskId: task.taskId } });
      expect(task.status).toBe('failed');
    });
  });

  test('LIF-06 close(): nobody waits for a task any longer', async () => {
    await withTasks(era, [], async (manager) => {
      const task = await manager.startTool('mcp__s__optional', { how: 'never' });
      const waiting = caught(task.result());
      await manager.close();
      expect((await waiting).code).toBe('MANAGER_CLOSED');
      expect(task.status).toBe('failed');
    });
  });

  test('mcp:TASK-07 mcp:TASKL-07 a task is picked up by another manager, questions and all', async () => {
    const store = join(temporaryDirectory(), 'tasks.json');
    const server = await httpTaskServer(era, '--store', store);
    const id = await withManager({ servers: { s: server.config } }, async (manager) => {
      const task = await manager.startTool('mcp__s__optional', { steps: 10, ms: 100, say: 'kept' });
      return task.taskId;
    });
    await withManager({ servers: { s: server.config } }, async (manager) => {
      const task = await manager.resumeTask('s', id, { tool: 'optional' });
      expect(await manager.resumeTask('s', id), 'one handle for one task').toBe(task);
      expect(task).toMatchObject({ status: 'working', tool: 'optional', fullName: 'mcp__s__optional' });
      expect(textOf(await task.result())).toBe('kept');
      const late = await manager.resumeTask('s', id);
      expect(textOf(await late.result()), 'one that has ended already').toBe('kept');
      expect(await caught(manager.resumeTask('s', 'nobody'))).toMatchObject({
        code: 'TASK_LOST',
        server: 's',
      });
    });
  });

  test('BEY-13 a task outlives a restart of a server that keeps it', async () => {
    const store = join(temporaryDirectory(), 'tasks.json');
    const server = await httpTaskServer(era, '--store', store);
    const retry = { attempts: 100, initialDelayMs: 20, maxDelayMs: 100 };
    await withManager({ servers: { s: server.config }, retry }, async (manager) => {
      const task = await manager.startTool('mcp__s__optional', { steps: 2, ms: 100, say: 'still here' });
      await eventually(async () => (await manager.resumeTask('s', task.taskId)).status === 'completed');
      const again = await manager.startTool('mcp__s__optional', { how: 'never' });
      const waiting = caught(again.result());
      await server.stop();
      await server.start();
      await pause(500);
      expect(again.status).toBe('working');
      await again.cancel();
      expect((await waiting).code).toBe('TASK_CANCELLED');
    });
  });

  test('POL-07 a call in the background needs the same permission', async () => {
    await withTasks(
      era,
      [],
      async (manager) => {
        const error = await caught(manager.startTool('mcp__s__optional', {}));
        expect(error).toMatchObject({ code: 'PERMISSION_DENIED', rule: 'mcp__s__optional' });
      },
      { permissions: { allow: ['mcp__*'], deny: ['mcp__s__optional'] } },
    );
  });

  test('POL-12 hooks see a call in the background once', async () => {
    let seen = 0;
    const options: McpManagerOptions = {
      hooks: {
        preToolUse: () => ({ input: { say: 'rewritten' } }),
        postToolUse: ({ result, input }) => {
          seen += 1;
          expect(input).toEqual({ say: 'rewritten' });
          return { result: { content: [{ type: 'text', text: `${textOf(result)} twice` }] } };
        },
      },
    };
    await withTasks(
      era,
      [],
      async (manager) => {
        const task = await manager.startTool('mcp__s__optional', { say: 'x' });
        const [first, second] = await Promise.all([task.result(), task.result()]);
        expect([textOf(first), textOf(second), seen]).toEqual(['rewritten twice', 'rewritten twice', 1]);
      },
      options,
    );
  });

  describe('oddities', () => {
    test('a status that goes backwards, and one that nobody knows', async () => {
      await withTasks(era, [], async (manager) => {
        const odd = nextEvent(manager, 'diagnostic', ({ code }) => code === 'TASK_ODD');
        const [backwards, unknown] = await Promise.all([
          manager.startTool('mcp__s__optional', { how: 'backwards', steps: 6 }),
          manager.startTool('mcp__s__optional', { how: 'odd', ms: 400 }),
        ]);
        expect(textOf(await backwards.result())).toBe('done');
        expect(textOf(await unknown.result())).toBe('done');
        expect((await odd).message).toContain(unknown.taskId);
      });
    });

    test('a task that is gone at its end, and one without a result', async () => {
      await withTasks(era, [], async (manager) => {
        const gone = await manager.startTool('mcp__s__optional', { how: 'forget' });
        expect((await caught(gone.result())).code).toBe('TASK_LOST');
        const empty = await manager.startTool('mcp__s__optional', { how: 'empty' });
        expect((await caught(empty.result())).code).toBe(era === 'modern' ? 'RESULT_INVALID' : 'TASK_LOST');
      });
    });

    test('mcp:TASK-14 a task whose time is over', async () => {
      await withTasks(era, ['--ttl', '300'], async (manager) => {
        const task = await manager.startTool('mcp__s__optional', { how: 'never' });
        const error = await caught(task.result());
        expect(error).toMatchObject({ code: 'TASK_LOST', cause: { code: 'RPC_ERROR', rpcCode: -32602 } });
        expect(error.message).toContain('300 ms');
      });
    });
  });

  test('BEY-13 a tool without tasks runs in the background of this process', async () => {
    await withTasks(era, [], async (manager) => {
      const task = await manager.startTool('mcp__s__forbidden', { ms: 200, say: 'here' });
      expect(textOf(await task.result())).toBe('here');
      expect(task).toMatchObject({
        status: 'completed',
        taskId: expect.stringMatching(/^local-[0-9a-f]{32}$/),
      });
    });
  });
});

describe('where the server has no tasks', () => {
  test('BEY-13 the handle is there at once, progress goes on, the call can be cancelled', async () => {
    await withManager({ servers: { s: faulty() } }, async (manager) => {
      const seen: number[] = [];
      const task = await manager.startTool(
        'mcp__s__progress',
        { steps: 4, delayMs: 60 },
        { onProgress: ({ progress }) => void seen.push(progress) },
      );
      expect(task.status).toBe('working');
      const told = statusesOf(task);
      await task.result();
      expect(seen).toEqual([1, 2, 3, 4]);
      expect(told).toEqual(['completed']);

      const long = await manager.startTool('mcp__s__sleep', { ms: 60_000 });
      expect(await caught(long.result({ signal: AbortSignal.timeout(50) }))).toMatchObject({
        name: 'TimeoutError',
      });
      expect(long.status, 'a wait was ended, not the task').toBe('working');
      await long.cancel();
      expect(long.status).toBe('cancelled');
      expect((await caught(long.result())).code).toBe('TASK_CANCELLED');

      const failing = await manager.startTool('mcp__s__fail');
      expect((await caught(failing.result())).code).toBe('TOOL_ERROR');
      expect(failing.status).toBe('failed');
      const dying = await manager.startTool('mcp__s__die');
      expect((await caught(dying.result())).code).toBe('SERVER_EXITED');
      expect((await caught(manager.resumeTask('s', 'local-1'))).code).toBe('TASK_LOST');
      expect((await caught(manager.resumeTask('s', 'task-1'))).code).toBe('CAPABILITY_MISSING');
      expect((await caught(manager.listTasks('s'))).code, 'PRO-05').toBe('CAPABILITY_MISSING');
    });
  });

  test('BEY-13 progress is told in full, although the end is known before it was read', async () => {
    await withManager({ servers: { s: faulty() } }, async (manager) => {
      await manager.connect();
      const seen: number[] = [];
      const onProgress = ({ progress }: { progress: number }) => void seen.push(progress);
      // The program is busy just when the handle has come: until the call has ended.
      const { signal } = new AbortController();
      signal.removeEventListener = () =>
        void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
      const args = { steps: 2, delayMs: 50 };
      const task = await manager.startTool('mcp__s__progress', args, { onProgress, signal });
      expect(task.status).toBe('completed');
      await task.result();
      expect(seen).toEqual([1, 2]);
    });
  });

  test('LIF-08 a call in the background keeps no process alive', async () => {
    const { code, stdout, ms } = await runHost('background-task.mjs');
    expect([code, stdout.trim()]).toEqual([0, 'working']);
    expect(ms).toBeLessThan(15_000);
  });
});

describe('handshake era', () => {
  test('PRO-11 mcp:TASKL-14 tasks/list, page by page', async () => {
    await withTasks('legacy', [], async (manager) => {
      const started = [];
      for (let index = 0; index < 5; index += 1)
        started.push(await manager.startTool('mcp__s__optional', {}));
      await Promise.all(started.map((task) => task.result()));
      const listed = await manager.listTasks('s');
      expect(new Set(listed.map(({ taskId }) => taskId))).toEqual(
        new Set(started.map(({ taskId }) => taskId)),
      );
      expect(listed[0]).toMatchObject({ server: 's', status: 'completed' });
    });
  });

  test('PRO-05 what a server does not declare is not asked of it', async () => {
    await withTasks('legacy', ['--no-list', '--no-cancel'], async (manager) => {
      expect((await caught(manager.listTasks('s'))).code).toBe('CAPABILITY_MISSING');
      expect((await caught(manager.request('s', 'tasks/cancel', { taskId: 'x' }))).code).toBe(
        'CAPABILITY_MISSING',
      );
      const told = nextEvent(manager, 'diagnostic', ({ code }) => code === 'TASK_NOT_CANCELLED');
      const task = await manager.startTool('mcp__s__optional', { how: 'never' });
      await task.cancel();
      expect(task.status).toBe('cancelled');
      await told;
    });
  });

  test('mcp:TASKL-03 no augmentation where the server takes no calls as tasks, whatever the tool says', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withTasks('legacy', ['--no-tool-tasks', '--notes', file], async (manager) => {
      expect(textOf(await manager.callTool('mcp__s__required'))).toBe('plain');
      expect(textOf(await (await manager.startTool('mcp__s__required')).result())).toBe('plain');
      const calls = notes(file).filter(({ method }) => method === 'tools/call');
      expect(calls.map(({ params }) => params?.task)).toEqual([undefined, undefined]);
    });
  });

  test('mcp:TASKL-02 mcp:TASKL-04 the wished time to live is sent; a plain call of an optional tool is no task', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withTasks('legacy', ['--notes', file], async (manager) => {
      await (await manager.startTool('mcp__s__optional', {}, { ttlMs: 5000 })).result();
      await manager.callTool('mcp__s__optional');
      const calls = notes(file).filter(({ method }) => method === 'tools/call');
      expect(calls.map(({ params }) => params?.task)).toEqual([{ ttl: 5000 }, undefined]);
    });
  });

  test('mcp:TASKL-12 the progress token of a task is good until its end', async () => {
    await withTasks('legacy', [], async (manager) => {
      const seen: unknown[] = [];
      const onProgress = ({ progress, total }: { progress: number; total?: number }) =>
        void seen.push([progress, total]);
      const task = await manager.startTool('mcp__s__optional', { steps: 3 }, { onProgress });
      await task.result();
      expect(seen).toEqual([
        [1, 3],
        [2, 3],
        [3, 3],
      ]);
      seen.length = 0;
      await manager.callTool('mcp__s__required', { steps: 3 }, { onProgress });
      expect(seen).toHaveLength(3);
    });
  });

  test('mcp:TASKL-09 status notifications make it sooner, and are not needed', async () => {
    await withTasks('legacy', ['--poll', '30000'], async (manager) => {
      const begin = Date.now();
      await manager.callTool('mcp__s__required', { news: true });
      expect(Date.now() - begin).toBeLessThan(15_000);
    });
  });

  test('mcp:TASKL-10 answers to questions of a task name it', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withTasks(
      'legacy',
      ['--notes', file],
      async (manager) => {
        const task = await manager.startTool('mcp__s__optional', { how: 'ask' });
        await task.result();
        const answer = notes(file).find(({ result }) => (result as { action?: string })?.action === 'accept');
        expect(answer?.result).toEqual({
          action: 'accept',
          content: { name: 'Ada' },
          _meta: { [RELATED]: { taskId: task.taskId } },
        });
      },
      answers,
    );
  });

  test('a result that is there before the task has ended is taken', async () => {
    await withTasks('legacy', [], async (manager) => {
      const task = await manager.startTool('mcp__s__optional', { how: 'early' });
      expect(textOf(await task.result())).toBe('done');
      expect(task.status).toBe('completed');
    });
  });

  test('mcp:TASKL-13 a server that does not stop a task: the end counts, or ten seconds', async () => {
    await withTasks('legacy', [], async (manager) => {
      const task = await manager.startTool('mcp__s__optional', {
        how: 'deaf',
        steps: 2,
        ms: 300,
        say: 'anyway',
      });
      await task.cancel();
      expect(task.status, 'it has ended by itself meanwhile').toBe('completed');
      expect(textOf(await task.result())).toBe('anyway');
      const long = await manager.startTool('mcp__s__optional', { how: 'deaf', steps: 300, ms: 100 });
      await long.cancel();
      expect(long.status).toBe('cancelled');
    });
  }, 30_000);

  test('mcp:TASKL-06 request() leaves a task to whoever writes requests by hand', async () => {
    await withTasks('legacy', [], async (manager) => {
      const created = await manager.request('s', 'tools/call', { name: 'optional', arguments: {}, task: {} });
      expect(created).toMatchObject({ task: { status: 'working' } });
    });
  });
});

describe('tasks extension', () => {
  test('mcp:ERA-23 mcp:TASK-01 mcp:TASK-17 mcp:EXT-03 it is declared on every request where the server has it', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withTasks('modern', ['--notes', file], async (manager) => {
      await manager.callTool('mcp__s__required');
      const declared = notes(file)
        .filter(
          ({ method, id }) => id !== undefined && method !== 'initialize' && method !== 'server/discover',
        )
        .map(
          ({ params }) =>
            (
              params?._meta?.['io.modelcontextprotocol/clientCapabilities'] as
                { extensions?: object } | undefined
            )?.extensions,
        );
      expect(declared.length).toBeGreaterThan(2);
      for (const one of declared) expect(one).toEqual({ 'io.modelcontextprotocol/tasks': {} });
    });
  });

  test('mcp:TASK-16 mcp:HDR-04 the id of the task stands in Mcp-Name', async () => {
    const file = join(temporaryDirectory(), 'notes');
    const server = await httpTaskServer('modern', '--notes', file);
    await withManager({ ...answers, servers: { s: server.config } }, async (manager) => {
      const task = await manager.startTool('mcp__s__optional', { how: 'ask' });
      await task.result();
      const last = await manager.startTool('mcp__s__optional', { how: 'never' });
      await last.cancel();
      const asked = (notes(file) as { method?: string; headers?: Record<string, string> }[])
        .filter(({ method }) => method?.startsWith('tasks/'))
        .map(({ method, headers }) => [method, headers?.['mcp-name']]);
      expect(new Set(asked.map(([method]) => method))).toEqual(
        new Set(['tasks/get', 'tasks/update', 'tasks/cancel']),
      );
      for (const [, name] of asked) expect([task.taskId, last.taskId]).toContain(name);
    });
  });

  test('mcp:TASK-15 mcp:TASK-17 mcp:SUB-02 a server that tells of tasks is asked seldom, and its news are taken at once', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withTasks('modern', ['--listen', 'tells', '--poll', '100', '--notes', file], async (manager) => {
      const task = await manager.startTool('mcp__s__required', { steps: 30, ms: 100 });
      const told = new Set<string | undefined>();
      task.on('status', () => told.add(task.statusMessage));
      const sent = (method: string) => notes(file).filter((one) => one.method === method);
      const listening = await eventually(() => sent('subscriptions/listen')[0]);
      expect(listening.params).toMatchObject({
        notifications: { taskIds: [task.taskId] },
        _meta: { 'io.modelcontextprotocol/clientCapabilities': { extensions: { [TASKS]: {} } } },
      });
      expect(textOf(await task.result())).toBe('done');
      // Three seconds of asking every 100 ms would be thirty questions beside the news.
      const news = told.size;
      expect(news).toBeGreaterThan(10);
      expect(sent('tasks/get').length).toBeLessThanOrEqual(31 + 6);
    });
  }, 20_000);

  test('mcp:TASK-15 a quiet task is not asked about while the server has promised to tell', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withTasks(
      'modern',
      ['--listen', 'tells', '--poll', '100', '--notes', file],
      async (manager) => {
        const task = await manager.startTool('mcp__s__required', { steps: 1, ms: 3000 });
        expect(textOf(await task.result())).toBe('done');
        expect(notes(file).filter(({ method }) => method === 'tasks/get').length).toBeLessThan(12);
        // Several at once share a stream, and questions reach people through it too.
        const more = [1, 2, 3].map(() =>
          manager.startTool('mcp__s__required', { steps: 1, ms: 1500, how: 'ask' }),
        );
        const results = await Promise.all((await Promise.all(more)).map((one) => one.result()));
        expect(results.map(textOf)).toEqual(['Ada', 'Ada', 'Ada']);
        const listens = notes(file).filter(({ method }) => method === 'subscriptions/listen');
        expect(listens.length).toBeLessThanOrEqual(3);
        expect(listens.at(-1)?.params?.notifications).toMatchObject({ taskIds: { length: 3 } });
      },
      answers,
    );
  }, 30_000);

  test.each(['nothing', 'ends', undefined])(
    'mcp:TASK-15 mcp:SUB-03 mcp:SUB-17 a server whose listening is %s is asked as ever',
    async (what) => {
      const file = join(temporaryDirectory(), 'notes');
      const flags = ['--poll', '100', '--notes', file, ...(what === undefined ? [] : ['--listen', what])];
      await withTasks('modern', flags, async (manager) => {
        const diagnostics: string[] = [];
        manager.on('diagnostic', ({ code }) => diagnostics.push(code));
        const task = await manager.startTool('mcp__s__required', { steps: 1, ms: 2500 });
        expect(textOf(await task.result())).toBe('done');
        const count = (method: string) => notes(file).filter((one) => one.method === method).length;
        expect(count('tasks/get')).toBeGreaterThan(8);
        expect(count('subscriptions/listen')).toBeGreaterThanOrEqual(1);
        expect(count('subscriptions/listen')).toBeLessThan(4);
        expect(diagnostics).toEqual([]);
      });
    },
    20_000,
  );

  test('mcp:TASK-15 mcp:TASK-06 over HTTP too', async () => {
    const { config } = await httpTaskServer('modern', '--listen', 'tells', '--poll', '100');
    await withManager({ ...answers, servers: { s: config } }, async (manager) => {
      const task = await manager.startTool('mcp__s__required', { steps: 1, ms: 2000, how: 'ask' });
      expect(textOf(await task.result())).toBe('Ada');
    });
  }, 20_000);

  test('mcp:TASK-11 a question is put once, however often it is seen', async () => {
    const file = join(temporaryDirectory(), 'notes');
    let asked = 0;
    const options: McpManagerOptions = {
      onElicitation: async () => {
        asked += 1;
        await pause(600);
        return { action: 'accept', content: { name: 'Ada' } };
      },
    };
    await withTasks(
      'modern',
      ['--notes', file, '--poll', '100'],
      async (manager) => {
        expect(textOf(await manager.callTool('mcp__s__required', { how: 'ask' }))).toBe('Ada');
        expect(asked).toBe(1);
        expect(notes(file).filter(({ method }) => method === 'tasks/update')).toHaveLength(1);
      },
      options,
    );
  });
});
