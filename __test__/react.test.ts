/** USE-02: the React entry, in a real React, over a real manager with real servers. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Component, createElement as h, memo, type FunctionComponent, type ReactNode } from 'react';
import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { McpConnectionProvider, useMcpReconnect, useMcpServers, useMcpToggle } from 'mcp-switchboard/react';
import { McpManager, type ServerStatus } from '..';
import { DEFAULTS, caught, eventually, faulty, fixture, pause, root, runNode, withManager } from './harness';

// The lightest renderer that runs effects without a document; it is deprecated, and brings no types.
const { create } = createRequire(import.meta.url)('react-test-renderer') as {
  create(element: ReactNode): { toJSON(): unknown; update(element: ReactNode): void; unmount(): void };
};

type Hooks = {
  servers: readonly ServerStatus[];
  reconnect: ReturnType<typeof useMcpReconnect>;
  toggle: ReturnType<typeof useMcpToggle>;
};

/** A component that shows the servers, and what its hooks gave in each rendering. */
function watcher() {
  const seen: Hooks[] = [];
  const Watcher: FunctionComponent = () => {
    const hooks = { servers: useMcpServers(), reconnect: useMcpReconnect(), toggle: useMcpToggle() };
    seen.push(hooks);
    return h('p', null, hooks.servers.map(({ name, state }) => `${name} ${state}`).join(', '));
  };
  return { Watcher, seen, last: () => seen.at(-1)! };
}

const EVENTS = ['status', 'configChanged', 'toolsChanged', 'promptsChanged', 'resourcesChanged'] as const;

/** How many of ours listen to each event; the harness listens to one of them as well. */
const listening = (manager: McpManager) =>
  EVENTS.map((event) => manager.listenerCount(event) - (event === 'status' ? 1 : 0));
const all = (manager: McpManager, count: number) => () => listening(manager).every((one) => one === count);

/** Shows the error of what is inside instead. */
class Boundary extends Component<
  { children?: ReactNode; caught: (error: Error) => void },
  { failed: boolean }
> {
  state = { failed: false };
  static getDerivedStateFromError = () => ({ failed: true });
  componentDidCatch(error: Error) {
    this.props.caught(error);
  }
  render() {
    return this.state.failed ? h('p', null, 'failed') : this.props.children;
  }
}

function rendered(element: ReactNode) {
  const tree = create(element);
  onTestFinished(() => tree.unmount());
  const text = () => JSON.stringify(tree.toJSON());
  return {
    tree,
    shows: (words: string) => eventually(() => text().includes(words), 5000, `"${words}"`),
  };
}

const inside = (manager: McpManager, ...children: ReactNode[]) =>
  h(McpConnectionProvider, { manager }, ...children);

/** What React complains of, but for its renderer's age and the errors that a test wants. */
const complaints: string[] = [];
const EXPECTED = /react-test-renderer is deprecated|The above error occurred|error boundary/;

beforeEach(() => {
  complaints.length = 0;
  vi.spyOn(console, 'error').mockImplementation((...words: unknown[]) => {
    const text = words.join(' ');
    if (!EXPECTED.test(text)) complaints.push(text);
  });
});

afterEach(() => {
  vi.restoreAllMocks();
  if (complaints.length > 0) throw new Error(complaints.join('\n'));
});

describe('USE-02 the hooks', () => {
  test('USE-02 servers come, change and go in the tree; reconnect and toggle do what they say', async () => {
    await withManager({ servers: { a: faulty(), b: faulty() } }, async (manager) => {
      await manager.load();
      const { Watcher, last, seen } = watcher();
      const { shows } = rendered(inside(manager, h(Watcher)));
      await shows('a pending, b pending');
      await manager.connect();
      await shows('a connected, b connected');

      const { status, tools, prompts, resources } = await last().reconnect('a');
      expect(status).toMatchObject({ name: 'a', state: 'connected' });
      expect([tools, prompts, resources].map((list) => list.length > 0)).toEqual([true, true, true]);

      expect((await last().toggle('b')).state).toBe('disabled');
      await shows('b disabled');
      expect(await manager.listTools({ server: 'a' })).not.toEqual([]);
      expect((await manager.listTools()).filter(({ mcpInfo }) => mcpInfo.serverName === 'b')).toEqual([]);
      expect((await last().toggle('b')).state).not.toBe('disabled');
      await shows('b connected');
      await last().toggle('b', false);
      await last().toggle('b', false);
      await shows('b disabled');

      await manager.addServer('c', faulty());
      await shows('c connected');
      await manager.removeServer('c');
      await eventually(() => last().servers.length === 2);
      expect((await caught(last().toggle('nobody'))).code).toBe('SERVER_UNKNOWN');
      for (const hooks of seen) {
        expect(hooks.reconnect).toBe(seen[0].reconnect);
        expect(hooks.toggle).toBe(seen[0].toggle);
      }
    });
  });

  test('USE-02 B 12.1.3 outside of the provider each throws, and says what is missing', async () => {
    for (const [name, hook] of Object.entries({ useMcpServers, useMcpReconnect, useMcpToggle })) {
      const Lost: FunctionComponent = () => void hook() as unknown as ReactNode;
      const errors: Error[] = [];
      const { shows } = rendered(h(Boundary, { caught: (error) => errors.push(error) }, h(Lost)));
      await shows('failed');
      expect(errors[0].message).toBe(`${name}() works inside of <McpConnectionProvider manager={…}> only`);
    }
  });

  test('USE-02 a provider without a manager is refused', async () => {
    const errors: Error[] = [];
    const provider = h(McpConnectionProvider, { manager: {} as McpManager });
    const { shows } = rendered(h(Boundary, { caught: (error) => errors.push(error) }, provider));
    await shows('failed');
    expect(errors[0]).toMatchObject({ code: 'INVALID_ARGUMENT', parameter: 'manager' });
  });

  test('USE-02 all components see the same, and the same objects until something changes', async () => {
    await withManager({ servers: { a: faulty(), b: faulty() } }, async (manager) => {
      const [one, two] = [watcher(), watcher()];
      const rows: string[] = [];
      const Row = memo(({ status }: { status: ServerStatus }) => {
        rows.push(`${status.name} ${status.state}`);
        return null;
      });
      const List: FunctionComponent = () =>
        useMcpServers().map((status) => h(Row, { key: status.name, status }));
      const { shows, tree } = rendered(inside(manager, h(one.Watcher), h(two.Watcher), h(List)));
      await manager.connect();
      await shows('a connected, b connected');
      // Lists are counted once they were read, which is no event of its own.
      await Promise.all([manager.listTools(), manager.listPrompts(), manager.listResources()]);
      await one.last().toggle('a', true);
      await eventually(() => one.last().servers.every(({ toolCount }) => toolCount !== undefined));
      expect(one.last().servers).toBe(two.last().servers);

      const before = one.last().servers;
      await manager.ping('a');
      tree.update(inside(manager, h(one.Watcher), h(two.Watcher), h(List)));
      await pause(50);
      expect(one.last().servers).toBe(before);

      rows.length = 0;
      await one.last().toggle('b', false);
      await shows('b disabled');
      expect(one.last().servers[0]).toBe(before[0]);
      expect(rows.filter((row) => row.startsWith('a'))).toEqual([]);
      expect(rows).toContain('b disabled');
    });
  });

  test('USE-02 a status that changes while components render is read once in a turn', async () => {
    let reads = 0;
    const status = () => [{ name: 'a', state: 'pending', attempt: ++reads }];
    const manager = Object.assign(new EventEmitter(), { status }) as unknown as McpManager;
    const [one, two] = [watcher(), watcher()];
    const { shows } = rendered(inside(manager, h(one.Watcher), h(two.Watcher)));
    await shows('a pending');
    expect(one.last().servers).toBe(two.last().servers);
  });

  test('USE-02 listens to the manager once, and not at all when nobody is there', async () => {
    await withManager({ servers: { a: faulty() } }, async (manager) => {
      await manager.load();
      const many = Array.from({ length: 30 }, () => watcher());
      const tree = (count: number) =>
        h(
          'div',
          null,
          inside(manager, ...many.slice(0, count).map(({ Watcher }, key) => h(Watcher, { key }))),
          inside(manager),
        );
      const { tree: renderer, shows } = rendered(tree(30));
      await shows('a pending');
      await eventually(all(manager, 1));
      renderer.update(tree(1));
      await pause(50);
      expect(listening(manager)).toEqual(EVENTS.map(() => 1));
      renderer.update(tree(0));
      await eventually(all(manager, 0));
      await manager.connect();
      renderer.update(tree(1));
      await shows('a connected');
      renderer.unmount();
      await eventually(all(manager, 0));
    });
  });

  test('USE-02 another manager takes the place of the first; the nearer provider counts', async () => {
    await withManager({ servers: { a: faulty() } }, async (first) => {
      await withManager({ servers: { z: faulty() } }, async (second) => {
        await Promise.all([first.load(), second.load()]);
        const { Watcher } = watcher();
        const { shows, tree } = rendered(inside(first, h(Watcher)));
        await shows('a pending');
        tree.update(inside(second, h(Watcher)));
        await shows('z pending');
        await eventually(all(first, 0));
        await second.connect();
        await shows('z connected');
        tree.update(inside(second, inside(first, h(Watcher))));
        await shows('a pending');
      });
    });
  });

  test('USE-02 a manager that was closed does no harm', async () => {
    const manager = new McpManager({ ...DEFAULTS, servers: { a: faulty() } });
    await manager.connect();
    const { Watcher, last } = watcher();
    const { shows } = rendered(inside(manager, h(Watcher)));
    await shows('a connected');
    await manager.close();
    expect((await caught(last().reconnect('a'))).code).toBe('MANAGER_CLOSED');
    await eventually(() => last().servers.length === 0);
  });
});

describe('USE-02 the entry', () => {
  test('USE-02 one module for import and require, without React and without the native part', async () => {
    const source = `
      import Module, { createRequire } from 'node:module';
      const load = Module._load;
      Module._load = function (name, ...rest) {
        if (name === 'react') throw Object.assign(new Error('none'), { code: 'MODULE_NOT_FOUND' });
        return load.call(this, name, ...rest);
      };
      const required = createRequire(${JSON.stringify(join(root, 'x.js'))})('mcp-switchboard/react');
      const imported = await import('mcp-switchboard/react');
      const names = Object.keys(required).sort();
      let message;
      try { imported.useMcpServers(); } catch (error) { message = error.message; }
      const native = Object.keys(createRequire(import.meta.url).cache).filter((file) => file.endsWith('.node'));
      console.log(JSON.stringify([names, names.every((name) => required[name] === imported[name]), message, native]));`;
    const ended = await runNode(['--input-type=module', '-e', source]);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(ended.stdout)).toEqual([
      ['McpConnectionProvider', 'useMcpReconnect', 'useMcpServers', 'useMcpToggle'],
      true,
      'mcp-switchboard/react needs the package "react", 18 or newer; install it in your program',
      [],
    ]);
  });

  test('USE-02 the program of docs/react.md', async () => {
    const ended = await runNode([fixture('react', 'program.cjs'), ...faulty().args!]);
    expect(ended).toMatchObject({ code: 0 });
    expect(ended.stdout).toMatch(/^React \d+: pending, connected, disabled, connected\n$/);
  });
});
