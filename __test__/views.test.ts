/** Questions to people through a view of its own (BEY-01), in both eras. */
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { expect, test } from 'vitest';
import type { ElicitationRequest, McpManager } from '..';
import { fixture, jsonOf, runNode, textOf, withManager } from './harness';

const modern = { command: process.execPath, args: [fixture('modern-server.mjs')] };
const named = (name: string) => () => ({ action: 'accept' as const, content: { name } });

/** A server of the handshake era that asks for a name inside its call, when `gate` lets it. */
function asker(gate: () => Promise<void> = async () => {}): McpServer {
  const server = new McpServer({ name: 'asker', version: '1' });
  server.registerTool('ask', {}, async () => {
    await gate();
    const requestedSchema = {
      type: 'object' as const,
      properties: { name: { type: 'string' as const } },
      required: ['name'],
    };
    const { content } = await server.server.elicitInput({ message: 'Who?', requestedSchema });
    return { content: [{ type: 'text', text: String(content?.name) }] };
  });
  return server;
}

test('BEY-01 a view answers the questions of its own calls, the manager those of its own', async () => {
  await withManager({ servers: { s: modern }, onElicitation: named('manager') }, async (manager) => {
    await manager.addSdkServer('old', asker());
    const asked: ElicitationRequest[] = [];
    const onElicitation = (request: ElicitationRequest) => {
      asked.push(request);
      return named('view')();
    };
    const [view, plain] = [manager.view({ onElicitation }), manager.view({})];
    const modernName = async (of: Pick<McpManager, 'callTool'>) =>
      jsonOf(await of.callTool('mcp__s__ask')).answers.who.content.name;
    const oldName = async (of: Pick<McpManager, 'callTool'>) => textOf(await of.callTool('mcp__old__ask'));
    expect(await Promise.all([modernName(view), modernName(manager), modernName(plain)])).toEqual([
      'view',
      'manager',
      'manager',
    ]);
    expect([await oldName(view), await oldName(manager), await oldName(plain)]).toEqual([
      'view',
      'manager',
      'manager',
    ]);
    expect(asked.map(({ server, mode }) => [server, mode])).toEqual([
      ['s', 'form'],
      ['old', 'form'],
    ]);
    expect(asked[0].signal).toBeInstanceOf(AbortSignal);
  });
});

test('BEY-01 where the protocol does not say whose call a question belongs to, the manager is asked', async () => {
  let waiting = 0;
  let open: () => void = () => {};
  const both = new Promise<void>((resolve) => (open = resolve));
  const gate = () => {
    waiting += 1;
    if (waiting === 2) open();
    return both;
  };
  await withManager({ onElicitation: named('manager') }, async (manager) => {
    await manager.addSdkServer('old', asker(gate));
    const view = manager.view({ onElicitation: named('view') });
    const calls = await Promise.all([view, manager].map((of) => of.callTool('mcp__old__ask')));
    expect(calls.map(textOf)[0]).toBe('manager');
  });
});

test('BEY-01 a view that nobody holds answers the questions of its calls until they have ended', async () => {
  const source = `
    const { McpManager } = require('./index.js');
    const { McpServer } = require('@modelcontextprotocol/sdk/server/mcp.js');
    const { setTimeout: delay } = require('node:timers/promises');
    const server = new McpServer({ name: 's', version: '1' });
    server.registerTool('ask', {}, async () => {
      await delay(300);
      const { action } = await server.server.elicitInput({
        message: 'Yes?',
        requestedSchema: { type: 'object', properties: {} },
      });
      return { content: [{ type: 'text', text: action }] };
    });
    const main = async () => {
      const manager = new McpManager({ config: false, onElicitation: () => ({ action: 'decline' }) });
      await manager.addSdkServer('s', server);
      setInterval(gc, 20).unref();
      const own = () =>
        manager.view({
          onPermission: async () => (await delay(100), { behavior: 'allow' }),
          onElicitation: () => ({ action: 'accept', content: {} }),
        });
      const calls = [1, 2, 3].map(() => ({ tool: 'mcp__s__ask' }));
      const settled = await own().callTools(calls);
      const handle = await own().startTool('mcp__s__ask');
      settled.push({ value: await handle.result() });
      console.log(settled.map(({ value, reason }) => reason?.message ?? value.content[0].text).join());
      await manager.close();
    };
    main();
  `;
  expect(await runNode(['--expose-gc', '-e', source])).toMatchObject({
    code: 0,
    stdout: 'accept,accept,accept,accept\n',
    stderr: '',
  });
});
