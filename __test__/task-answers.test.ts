/** Which answers to a call are tasks, and which only look like one (mcp:TASK-*, mcp:TASKL-*). */
import { describe, expect, test } from 'vitest';
import { caught, textOf, withManager } from './harness';
import { programmed } from './programmed-server';

const TASKS = `capabilities = { tools: {}, extensions: { [META + 'tasks']: {} } };
  on['tools/list'] = () => ({ resultType: 'complete', tools: [tool('work', { execution: { taskSupport: 'required' } })] });`;
const ISSUE = "task: { taskId: 'JIRA-7', status: 'working' }";

test('mcp:TASK-02 mcp:TASK-04 a result with a member of that name is the result', async () => {
  const { config, noted } = programmed(
    '2026-07-28',
    `${TASKS} on['tools/call'] = () => ({ resultType: 'complete', ...text('an issue'), ${ISSUE} });`,
  );
  await withManager({ servers: { s: config } }, async (manager) => {
    expect(textOf(await manager.callTool('mcp__s__work'))).toBe('an issue');
    expect(textOf(await (await manager.startTool('mcp__s__work')).result())).toBe('an issue');
    expect(noted('tasks/get')).toEqual([]);
    const calls = noted('tools/call').map(({ params }) => params?.['task']);
    expect(calls, 'mcp:TOOL-22 what a tool says of tasks belongs to the other era').toEqual([
      undefined,
      undefined,
    ]);
  });
});

const UNREADABLE = ["taskId: 't1'", "taskId: 7, status: 'working'", "taskId: '', status: 'working'"];

test.each(UNREADABLE)(
  'mcp:BASE-15 mcp:TASK-02 R8 a task {%s} is an error, no empty success',
  async (members) => {
    const { config } = programmed(
      '2026-07-28',
      `${TASKS} on['tools/call'] = () => ({ resultType: 'task', ${members} });`,
    );
    await withManager({ servers: { s: config } }, async (manager) => {
      expect(await caught(manager.callTool('mcp__s__work'))).toMatchObject({
        code: 'RESULT_INVALID',
        server: 's',
      });
      const started = manager.startTool('mcp__s__work').then((task) => task.result());
      expect(await caught(started)).toMatchObject({ code: 'RESULT_INVALID', server: 's' });
    });
  },
);

test('mcp:TASK-02 a task whose server ends right behind its answer is not taken for its result', async () => {
  const { config } = programmed(
    '2026-07-28',
    `${TASKS} on['tools/call'] = ({ id }) => {
       const result = { resultType: 'task', taskId: 't1', status: 'working', createdAt: 'x', lastUpdatedAt: 'x', ttlMs: null };
       fs.writeSync(1, JSON.stringify({ jsonrpc: '2.0', id, result }) + '\\n');
       process.exit(1);
     };`,
  );
  const options = { servers: { s: config }, reconnect: { maxAttempts: 1 } };
  await withManager(options, async (manager) => {
    const error = await caught(manager.callTool('mcp__s__work', {}, { maxTotalTimeoutMs: 2000 }));
    expect(error).toMatchObject({ server: 's', code: expect.any(String) });
  });
});

test('mcp:TASK-20 mcp:TASK-10 mcp:TASK-12 questions before a task are answered by a retry, those of the task by an update', async () => {
  const form = `{ method: 'elicitation/create', params: { message: 'Who?',
    requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } } }`;
  const { config, noted } = programmed(
    '2026-07-28',
    `${TASKS}
     let answered;
     const task = (status, more) => ({ taskId: 't', status, createdAt: 'x', lastUpdatedAt: 'x', ttlMs: null, pollIntervalMs: 100, ...more });
     on['tools/call'] = ({ params }) => params.inputResponses === undefined
       ? { resultType: 'input_required', inputRequests: { before: ${form} }, requestState: 'r' }
       : { resultType: 'task', ...task('working') };
     on['tasks/get'] = () => ({ resultType: 'complete', ...(answered === undefined
       ? task('input_required', { inputRequests: { within: ${form} } })
       : task('completed', { result: text(answered) })) });
     on['tasks/update'] = ({ params }) => { answered = params.inputResponses; return { resultType: 'complete' }; };`,
  );
  const asked: string[] = [];
  const onElicitation = ({ server }: { server: string }) => {
    asked.push(server);
    return { action: 'accept' as const, content: { name: `n${asked.length}` } };
  };
  await withManager({ servers: { s: config }, onElicitation }, async (manager) => {
    const result = textOf(await manager.callTool('mcp__s__work'));
    expect(JSON.parse(result)).toEqual({ within: { action: 'accept', content: { name: 'n2' } } });
    expect(asked).toEqual(['s', 's']);
    const [, retry] = noted('tools/call');
    expect(retry.params).toMatchObject({
      inputResponses: { before: { action: 'accept', content: { name: 'n1' } } },
      requestState: 'r',
    });
    for (const { params } of [...noted('tasks/get'), ...noted('tasks/update')]) {
      expect(params).not.toHaveProperty('requestState');
      expect(params?.['taskId']).toBe('t');
    }
  });
});

describe('handshake era', () => {
  test('mcp:TASKL-04 a tool that says nothing of tasks is never one, and does not hold up startTool', async () => {
    const { config, noted } = programmed(
      '2025-11-25',
      `capabilities = { tools: {}, tasks: { cancel: {}, requests: { tools: { call: {} } } } };
       on['tools/list'] = () => ({ tools: [tool('plain')] });
       on['tools/call'] = ({ id }) => void setTimeout(() => say({ id, result: { ...text('an issue'), ${ISSUE} } }), 1500);`,
    );
    await withManager({ servers: { s: config } }, async (manager) => {
      await manager.connect();
      const begin = Date.now();
      const task = await manager.startTool('mcp__s__plain');
      expect(Date.now() - begin).toBeLessThan(1000);
      expect(textOf(await task.result())).toBe('an issue');
      expect(noted('tools/call').map(({ params }) => params?.['task'])).toEqual([undefined]);
      expect(noted('tasks/get')).toEqual([]);
    });
  });

  test.each(UNREADABLE)(
    'mcp:BASE-15 mcp:TASKL-06 a task {%s} is an error, no empty success',
    async (members) => {
      const { config } = programmed(
        '2025-11-25',
        `capabilities = { tools: {}, tasks: { cancel: {}, requests: { tools: { call: {} } } } };
       on['tools/list'] = () => ({ tools: [tool('work', { execution: { taskSupport: 'required' } })] });
       on['tools/call'] = () => ({ task: { ${members} } });`,
      );
      await withManager({ servers: { s: config } }, async (manager) => {
        expect(await caught(manager.callTool('mcp__s__work'))).toMatchObject({
          code: 'RESULT_INVALID',
          server: 's',
        });
      });
    },
  );
});
