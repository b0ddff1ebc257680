import { readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  caught,
  eventually,
  faulty,
  nextEvent,
  notes,
  pause,
  temporaryDirectory,
  withFaulty,
  withManager,
} from './harness';
import { httpPeer } from './remote-peers';

describe('resources', () => {
  test('RES-01 mcp:RES-01 mcp:RES-02 mcp:RES-07 the list, and templates', async () => {
    await withFaulty([], async (manager) => {
      await manager.connect();
      const resources = await manager.listResources();
      expect(resources.find(({ name }) => name === 'text')).toEqual({
        uri: 'test://text',
        name: 'text',
        title: 'A text',
        description: 'Some text',
        mimeType: 'text/plain',
        size: 5,
        annotations: { priority: 1 },
        server: 's',
      });
      expect(resources).toHaveLength(3);
      expect(await manager.listResourceTemplates()).toEqual([
        {
          uriTemplate: 'test://item/{id}',
          name: 'item',
          title: 'Item',
          description: 'One item',
          mimeType: 'text/plain',
          server: 's',
        },
      ]);
    });
  });

  test('RES-01 one failing server never hides the lists of the others', async () => {
    await withManager(
      {
        retry: { attempts: 1 },
        servers: {
          good: faulty(),
          bad: { ...faulty('--silent'), connectTimeoutMs: 400 },
          loop: faulty('--cursor-loop'),
          gone: { command: '/no/such/command' },
        },
      },
      async (manager) => {
        await manager.connect();
        expect((await manager.listResources()).filter(({ server }) => server === 'good')).toHaveLength(3);
        expect((await manager.listTools()).some(({ name }) => name === 'mcp__good__echo')).toBe(true);
        expect((await manager.listPrompts()).some(({ server }) => server === 'good')).toBe(true);
      },
    );
  });

  test('RES-01 SEC-02 text is returned, invisible characters gone', async () => {
    await withFaulty([], async (manager) => {
      expect(await manager.readResource('s', 'test://text')).toEqual([
        { uri: 'test://text', mimeType: 'text/plain', text: 'plain text ½ ﬁ', server: 's' },
      ]);
      expect(await manager.readResource('s', 'test://item/42')).toMatchObject([{ text: '42' }]);
    });
  });

  test('RES-01 R15 a blob becomes a file with a safe name, never the same twice', async () => {
    const outputDir = temporaryDirectory();
    await withFaulty(
      [],
      async (manager) => {
        const [first] = await manager.readResource('s', 'test://blob');
        const [second] = await manager.readResource('s', 'test://blob');
        expect(first).toMatchObject({ uri: 'test://blob', mimeType: 'image/png', server: 's' });
        expect(dirname(first.path!)).toBe(outputDir);
        expect(first.path).toMatch(/\.png$/);
        expect(readFileSync(first.path!).subarray(1, 4).toString()).toBe('PNG');
        expect(first.bytes).toBe(readFileSync(first.path!).length);
        expect(second.path).not.toBe(first.path);
        if (process.platform !== 'win32') expect(statSync(first.path!).mode & 0o777).toBe(0o600);

        const [outside] = await manager.readResource('s', 'test://../../../etc/passwd');
        expect(dirname(outside.path!)).toBe(outputDir);
      },
      { outputDir },
    );
  });

  test("RES-01 blobs: 'buffer' gives the bytes", async () => {
    await withFaulty([], async (manager) => {
      const [content] = await manager.readResource('s', 'test://blob', { blobs: 'buffer' });
      expect(content.data).toBeInstanceOf(Uint8Array);
      expect(Buffer.from(content.data!).subarray(1, 4).toString()).toBe('PNG');
      expect(content.path).toBeUndefined();
      expect(content.bytes).toBe(content.data!.byteLength);
    });
  });

  test('mcp:RES-04 mcp:TOOL-14 URIs go as they are, listed or not, and no two are taken for one', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      await manager.connect('s');
      const uris = [
        'test://item/%7E',
        'test://item/~',
        'test://item/A/../b',
        'test://item/Ü?q=1#f',
        'test://item/',
      ];
      for (const uri of uris) {
        const [{ text, uri: answered }] = await manager.readResource('s', uri);
        expect([text, answered]).toEqual([uri.slice('test://item/'.length), uri]);
      }
      for (const uri of ['TEST://text', 'test://TEXT', 'test://text/'])
        expect((await caught(manager.readResource('s', uri))).code).toBe('RPC_ERROR');
      const sent = notes(file).filter(({ method }) => method === 'resources/read');
      expect(sent.map(({ params }) => params?.uri)).toEqual([
        ...uris,
        'TEST://text',
        'test://TEXT',
        'test://text/',
      ]);
    });
  });

  test('mcp:RES-06 a changed list makes resources and templates stale', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      await manager.connect('s');
      const lists = async () => {
        await manager.listResources();
        await manager.listResourceTemplates();
        const asked = notes(file).map(({ method }) => method);
        return ['resources/list', 'resources/templates/list'].map(
          (list) => asked.filter((method) => method === list).length,
        );
      };
      const before = await lists();
      expect(await lists()).toEqual(before);
      const changed = nextEvent(manager, 'resourcesChanged');
      await manager.callTool('mcp__s__notify', { method: 'notifications/resources/list_changed' });
      expect(await changed).toEqual({ server: 's' });
      expect(await lists()).toEqual(before.map((count) => count + 1));
    });
  });

  test('RES-02 an update is told under the URI that was subscribed to; others are not made up', async () => {
    await withFaulty([], async (manager) => {
      const heard: string[] = [];
      manager.on('resourceUpdated', ({ uri }) => heard.push(uri));
      await manager.subscribeResource('s', 'test://item/%7E');
      await eventually(() => heard.length > 0);
      await manager.unsubscribeResource('s', 'test://item/%7E');
      await manager.restart('s');
      await pause(100);
      expect(heard).toEqual(['test://item/%7E']);
    });
  });

  test('mcp:RES-09 not found is the error of the server', async () => {
    await withFaulty([], async (manager) => {
      expect(await caught(manager.readResource('s', 'test://nope'))).toMatchObject({
        code: 'RPC_ERROR',
        rpcCode: -32002,
        data: { uri: 'test://nope' },
      });
    });
  });

  test('mcp:RES-08 mcp:RES-09 both codes of not found say what was not, also where the server does not', async () => {
    for (const code of [-32002, -32602]) {
      const { url } = await httpPeer(({ message }, response) => {
        const { id, method } = message ?? {};
        const answer = (body: object) =>
          response
            .writeHead(200, { 'content-type': 'application/json' })
            .end(JSON.stringify({ jsonrpc: '2.0', id, ...body }));
        if (method === 'initialize') {
          const serverInfo = { name: 'x', version: '1' };
          answer({ result: { protocolVersion: '2025-11-25', capabilities: { resources: {} }, serverInfo } });
        } else if (method === 'resources/read') answer({ error: { code, message: 'no' } });
        else return false;
        return true;
      });
      await withManager({ servers: { s: { type: 'http', url, protocol: 'legacy' } } }, async (manager) => {
        expect(await caught(manager.readResource('s', 'x://y'))).toMatchObject({
          code: 'RPC_ERROR',
          rpcCode: code,
          data: { uri: 'x://y' },
        });
      });
    }
  });

  test('PRO-05 CAPABILITY_MISSING without a round trip', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--capabilities', '{"tools":{},"resources":{}}', '--notes', file], async (manager) => {
      await manager.connect('s');
      const before = notes(file).length;
      for (const attempt of [
        manager.subscribeResource('s', 'test://text'),
        manager.setLogLevel('s', 'info'),
        manager.complete('s', { type: 'ref/prompt', name: 'x' }, { name: 'a', value: '' }),
        manager.request('s', 'prompts/get', { name: 'x' }),
      ]) {
        expect(await caught(attempt)).toMatchObject({
          code: 'CAPABILITY_MISSING',
          name: 'McpRpcError',
          server: 's',
        });
      }
      await pause(50);
      const sent = notes(file)
        .slice(before)
        .map(({ method }) => method);
      for (const method of ['resources/subscribe', 'logging/setLevel', 'completion/complete', 'prompts/get'])
        expect(sent).not.toContain(method);
    });
  });

  test('RES-02 mcp:RES-05 mcp:SUB-16 subscriptions, also after a reconnect', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      const updated = nextEvent(manager, 'resourceUpdated');
      await manager.subscribeResource('s', 'test://text');
      expect(await updated).toEqual({ server: 's', uri: 'test://text' });
      const again = nextEvent(manager, 'resourceUpdated');
      await manager.restart('s');
      expect(await again).toEqual({ server: 's', uri: 'test://text' });
      await manager.unsubscribeResource('s', 'test://text');
      expect(notes(file).filter(({ method }) => method === 'resources/subscribe')).toHaveLength(2);
      expect(notes(file).at(-1)?.method).toBe('resources/unsubscribe');
    });
  });
});

describe('the rest of the protocol', () => {
  test('PRO-11 ping, complete, request', async () => {
    await withFaulty([], async (manager) => {
      expect(await manager.ping('s')).toBeGreaterThanOrEqual(0);
      expect(
        await manager.complete('s', { type: 'ref/prompt', name: 'greet' }, { name: 'name', value: 'al' }),
      ).toEqual({ values: ['alpha', 'alpine'], total: 2, hasMore: false });
      expect(await manager.request('s', 'resources/read', { uri: 'test://item/7' })).toEqual({
        contents: [{ uri: 'test://item/7', mimeType: 'text/plain', text: '7' }],
      });
      expect(await caught(manager.request('s', 'x/unknown'))).toMatchObject({
        code: 'RPC_ERROR',
        rpcCode: -32601,
      });
    });
  });

  test('mcp:COMP-01 prompts and templates, with what was chosen before', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(['--notes', file], async (manager) => {
      const ref = { type: 'ref/resource', uri: 'test://item/{id}' } as const;
      const context = { arguments: { owner: 'x' } };
      const { values } = await manager.complete('s', ref, { name: 'id', value: 'b' }, context);
      expect(values).toEqual(['beta']);
      const prompt = { type: 'ref/prompt', name: 'mcp__s__greet' } as const;
      await manager.complete('s', prompt, { name: 'name', value: '' });
      const sent = notes(file).filter(({ method }) => method === 'completion/complete');
      expect(sent.map(({ params }) => params)).toMatchObject([
        { ref, argument: { name: 'id', value: 'b' }, context },
        { ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'name', value: '' } },
      ]);
      expect(sent[1].params).not.toHaveProperty('context');
    });
  });

  test('mcp:HOST-04 instructions are offered under the name of their server', async () => {
    await withFaulty(['--instructions', 'Be brief.'], async (manager) => {
      await manager.connect('s');
      expect(manager.status('s')).toMatchObject({ name: 's', instructions: 'Be brief.' });
    });
  });

  test('PRO-11 SEC-01 mcp:LOG-01 mcp:LOG-03 log messages are events, cleaned', async () => {
    await withFaulty([], async (manager) => {
      const logged = nextEvent(manager, 'log', ({ source }) => source === 'protocol');
      await manager.setLogLevel('s', 'debug');
      expect(await logged).toEqual({
        server: 's',
        source: 'protocol',
        level: 'debug',
        logger: 'faulty',
        data: { text: 'level set' },
      });
    });
  });

  test('PRO-10 M5 mcp:ROOT-04 setRoots tells the server, which may ask again', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(
      ['--notes', file],
      async (manager) => {
        await manager.connect('s');
        expect(notes(file)[0].params?.capabilities).toMatchObject({ roots: { listChanged: true } });
        expect(notes(file)[0].params?.capabilities).not.toHaveProperty('sampling');
        await manager.setRoots(['/somewhere', 'file:///else%20where']);
        await eventually(() =>
          notes(file).some(({ method }) => method === 'notifications/roots/list_changed'),
        );
      },
      { roots: [] },
    );
  });

  test('PRO-10 mcp:ROOT-01 mcp:ROOT-02 mcp:ROOT-03 roots of the options, as file URIs', async () => {
    const file = join(temporaryDirectory(), 'notes');
    await withFaulty(
      ['--requests', '--notes', file],
      async (manager) => {
        await manager.connect('s');
        const answer = await eventually(() =>
          notes(file).find(({ id, method }) => id === 'roots' && method === undefined),
        );
        expect((answer.result as { roots: { uri: string }[] }).roots.map(({ uri }) => uri)).toEqual([
          'file:///a%20b',
          'file:///c',
        ]);
      },
      { roots: ['/a b', 'file:///c'] },
    );
  });
});
