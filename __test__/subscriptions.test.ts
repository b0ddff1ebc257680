/** What becomes of subscriptions when the one who tells of changes comes and goes (mcp:SUB-*). */
import { expect, test } from 'vitest';
import { eventually, nextEvent, pause, withManager } from './harness';
import { programmed } from './programmed-server';

/** Agrees to everything at first; `later` says what it agrees to when it is there for the second time. */
const listening = (later: string) =>
  programmed(
    '2026-07-28',
    `capabilities = { tools: { listChanged: true }, resources: { subscribe: true } };
     on['tools/list'] = () => ({ resultType: 'complete', tools: [tool('cut')], ttlMs: 60000 });
     on['resources/list'] = () => ({ resultType: 'complete', resources: [], ttlMs: 60000 });
     let streams = 0, last;
     on['subscriptions/listen'] = ({ id, params }) => {
       streams += 1;
       last = id;
       let notifications = params.notifications;
       if (boots > 1) notifications = ${later};
       say({ method: 'notifications/subscriptions/acknowledged', params: { notifications,
         _meta: { [META + 'subscriptionId']: id } } });
     };
     on['tools/call'] = () => {
       say({ id: last, error: { code: -32000, message: 'overloaded' } });
       return { resultType: 'complete', ...text('cut') };
     };`,
  );

test('mcp:SUB-11 mcp:SUB-12 what may have changed while nobody listened counts as changed', async () => {
  const { config, noted } = listening('notifications');
  await withManager({ servers: { s: config } }, async (manager) => {
    await manager.connect('s');
    await manager.subscribeResource('s', 'test://a');
    const heard: string[] = [];
    manager.on('resourceUpdated', ({ uri }) => heard.push(uri));
    await pause(100);
    expect(heard, 'nothing was missed yet').toEqual([]);
    const updated = nextEvent(manager, 'resourceUpdated', ({ uri }) => uri === 'test://a', 10_000);
    await manager.restart('s');
    await updated;
    expect(noted('subscriptions/listen').at(-1)?.params?.notifications).toMatchObject({
      resourceSubscriptions: ['test://a'],
    });
    await pause(100);
    expect(heard).toEqual(['test://a']);
  });
});

test('mcp:SUB-03 a subscription that a server does not take up again is told', async () => {
  const { config } = listening('{ toolsListChanged: true }');
  await withManager({ servers: { s: config } }, async (manager) => {
    await manager.connect('s');
    await manager.subscribeResource('s', 'test://a');
    const lost = nextEvent(manager, 'diagnostic', ({ code }) => code === 'SUBSCRIPTION_LOST', 10_000);
    await manager.restart('s');
    expect(await lost).toMatchObject({ server: 's', message: expect.stringContaining('test://a') });
  });
});

test('mcp:SUB-12 of a server that refuses to listen any more, the lists count as changed', async () => {
  const { config } = listening('notifications');
  await withManager({ servers: { s: config } }, async (manager) => {
    await manager.connect('s');
    await manager.subscribeResource('s', 'test://a');
    const told: string[] = [];
    manager.on('diagnostic', ({ code }) => told.push(code));
    const changed = nextEvent(manager, 'toolsChanged');
    await manager.callTool('mcp__s__cut');
    await changed;
    await eventually(() => told.includes('LISTEN_ENDED'));
    expect(told).toContain('SUBSCRIPTION_LOST');
  });
});

test('mcp:SUB-13 mcp:SUB-14 a part of a resource is told of; what has no place on a stream harms nothing', async () => {
  const { config } = programmed(
    '2026-07-28',
    `capabilities = { tools: { listChanged: true }, resources: { subscribe: true } };
     on['tools/list'] = () => ({ resultType: 'complete', tools: [] });
     on['subscriptions/listen'] = ({ id, params }) => {
       const _meta = { [META + 'subscriptionId']: id };
       say({ method: 'notifications/subscriptions/acknowledged', params: { notifications: params.notifications, _meta } });
       if (!params.notifications.resourceSubscriptions) return;
       say({ method: 'notifications/progress', params: { progressToken: id, progress: 1, _meta } });
       say({ method: 'notifications/resources/updated', params: { uri: 'test://a/part', _meta } });
       say({ method: 'notifications/resources/updated', params: { uri: 'test://foreign',
         _meta: { [META + 'subscriptionId']: 4711 } } });
     };`,
  );
  await withManager({ servers: { s: config } }, async (manager) => {
    await manager.connect('s');
    const heard: string[] = [];
    manager.on('resourceUpdated', ({ uri }) => heard.push(uri));
    await manager.subscribeResource('s', 'test://a');
    await eventually(() => heard.length > 0);
    await pause(50);
    expect(heard).toEqual(['test://a/part']);
    expect(manager.status('s')?.state).toBe('connected');
  });
});

test('mcp:SUB-12 mcp:SUB-16 the handshake era: a subscription that is made anew may have missed something', async () => {
  const { config, noted } = programmed(
    '2025-11-25',
    `capabilities = { resources: { subscribe: true } };
     on['resources/list'] = () => ({ resources: [] });
     on['resources/subscribe'] = () => ({});`,
  );
  await withManager({ servers: { s: config } }, async (manager) => {
    await manager.connect('s');
    const heard: string[] = [];
    manager.on('resourceUpdated', ({ uri }) => heard.push(uri));
    await manager.subscribeResource('s', 'test://a');
    await manager.restart('s');
    await eventually(() => heard.length > 0);
    expect(heard).toEqual(['test://a']);
    expect(noted('resources/subscribe')).toHaveLength(2);
  });
});
