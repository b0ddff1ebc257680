import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { McpManagerOptions, ServerConfig } from '..';
import {
  caught,
  eventually,
  everythingServer,
  nextEvent,
  realServer,
  temporaryDirectory,
  textOf,
  withManager,
} from './harness';

const everything = (): { everything: ServerConfig } => ({
  everything: realServer('@modelcontextprotocol/server-everything', 'stdio'),
});

/** The reference server over each of its transports. */
const TRANSPORTS: [string, () => Promise<{ everything: ServerConfig }>][] = [
  ['stdio', async () => everything()],
  [
    'http',
    async () => {
      const { port } = await everythingServer('streamableHttp');
      return { everything: { type: 'http', url: `http://127.0.0.1:${port}/mcp` } };
    },
  ],
  [
    'sse',
    async () => {
      const { port } = await everythingServer('sse');
      return { everything: { type: 'sse', url: `http://127.0.0.1:${port}/sse` } };
    },
  ],
];

describe.each(TRANSPORTS)('server-everything over %s', (transport, start) => {
  test('TOL-01 CAL-03 tools, results, images', async () => {
    await withManager({ servers: await start() }, async (manager) => {
      await manager.connect();
      const tools = await manager.listTools();
      const own = (name: string) => tools.find(({ mcpInfo }) => mcpInfo.toolName === name);
      expect(own('echo')).toMatchObject({ name: 'mcp__everything__echo', isMcp: true });
      expect(textOf(await manager.callTool('mcp__everything__echo', { message: 'hello' }))).toContain(
        'hello',
      );
      const picture = tools.find(
        ({ mcpInfo }) => /image/.test(mcpInfo.toolName) && !/annot|resource/.test(mcpInfo.toolName),
      );
      expect(picture).toBeDefined();
      expect((await manager.callTool(picture!.name)).content.some(({ type }) => type === 'image')).toBe(true);
      expect(manager.status('everything')).toMatchObject({
        state: 'connected',
        era: 'legacy',
        transport,
        toolCount: expect.any(Number),
      });
    });
  });

  test('PRO-08 progress of a long call', async () => {
    await withManager({ servers: await start() }, async (manager) => {
      await manager.connect();
      const tool = (await manager.listTools()).find(({ mcpInfo }) => /long.?running/i.test(mcpInfo.toolName));
      expect(tool).toBeDefined();
      const seen: number[] = [];
      await manager.callTool(
        tool!.name,
        { duration: 1, steps: 4 },
        { onProgress: ({ progress }) => seen.push(progress) },
      );
      expect(seen.length).toBeGreaterThanOrEqual(3);
      expect(seen).toEqual([...seen].sort((a, b) => a - b));
    });
  });

  test('PRO-07 cancelling a long call leaves the connection alone', async () => {
    await withManager({ servers: await start() }, async (manager) => {
      await manager.connect();
      const tool = (await manager.listTools()).find(({ mcpInfo }) => /long.?running/i.test(mcpInfo.toolName));
      const error = await caught(
        manager.callTool(tool!.name, { duration: 30, steps: 30 }, { signal: AbortSignal.timeout(200) }),
      );
      expect(error.name).toBe('TimeoutError');
      expect(textOf(await manager.callTool('mcp__everything__echo', { message: 'still there' }))).toContain(
        'still there',
      );
    });
  });

  test('RES-02 a subscription is heard of until it ends', async () => {
    await withManager({ servers: await start() }, async (manager) => {
      await manager.connect();
      const [{ uri }] = await manager.listResources();
      await manager.subscribeResource('everything', uri);
      const toggle = 'mcp__everything__toggle-subscriber-updates';
      const updated = nextEvent(manager, 'resourceUpdated', undefined, 15_000);
      await manager.callTool(toggle);
      expect(await updated).toMatchObject({ server: 'everything', uri });
      await manager.callTool(toggle);
      await manager.unsubscribeResource('everything', uri);
    });
  });

  test('ELI-01 PRO-12 PRO-10 it asks for a form, a model and the roots', async () => {
    const asked: string[] = [];
    const options: McpManagerOptions = {
      roots: ['file:///here'],
      onElicitation: () => {
        asked.push('form');
        return { action: 'decline' };
      },
      onSampling: () => {
        asked.push('model');
        return { role: 'assistant', model: 'm', content: { type: 'text', text: 'words of a model' } };
      },
    };
    await withManager({ ...options, servers: await start() }, async (manager) => {
      await manager.connect();
      // These tools are there only once the server knows what the host can do.
      const tool = (pattern: RegExp) =>
        eventually(async () =>
          (await manager.listTools()).find(({ mcpInfo }) => pattern.test(mcpInfo.toolName)),
        );
      const sampling = await manager.callTool((await tool(/trigger-sampling-request$/)).name, {
        prompt: 'Say something',
      });
      expect(JSON.stringify(sampling)).toContain('words of a model');
      await manager.callTool((await tool(/trigger-elicitation-request$/)).name);
      expect(JSON.stringify(await manager.callTool((await tool(/roots/)).name))).toContain('file:///here');
      expect(asked).toEqual(['model', 'form']);
    });
  });

  test('PRM-01 RES-01 prompts and resources', async () => {
    await withManager({ servers: await start() }, async (manager) => {
      await manager.connect();
      const prompts = await manager.listPrompts();
      const plain = prompts.find((prompt) => prompt.arguments.every(({ required }) => required !== true));
      expect(plain).toBeDefined();
      expect((await manager.getPrompt(plain!.name)).messages.length).toBeGreaterThan(0);
      const resources = await manager.listResources();
      expect(resources.length).toBeGreaterThan(0);
      expect((await manager.readResource('everything', resources[0].uri)).length).toBeGreaterThan(0);
      expect((await manager.listResourceTemplates()).length).toBeGreaterThan(0);
    });
  });
});

describe('server-filesystem', () => {
  test('CAL-03 PRO-10 reads and writes below its roots, refuses the rest', async () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, 'note.txt'), 'first ½ ﬁ');
    await withManager(
      {
        roots: [directory],
        servers: { fs: realServer('@modelcontextprotocol/server-filesystem', directory) },
      },
      async (manager) => {
        await manager.connect();
        const read = (await manager.listTools()).find(
          ({ mcpInfo }) => mcpInfo.toolName === 'read_text_file',
        ) ?? { name: 'mcp__fs__read_file' };
        expect(textOf(await manager.callTool(read.name, { path: join(directory, 'note.txt') }))).toContain(
          'first ½ ﬁ',
        );
        await manager.callTool('mcp__fs__write_file', {
          path: join(directory, 'new.txt'),
          content: 'written',
        });
        expect(readFileSync(join(directory, 'new.txt'), 'utf8')).toBe('written');
        expect((await caught(manager.callTool(read.name, { path: '/etc/passwd' }))).code).toBe('TOOL_ERROR');
      },
    );
  });
});

describe('server-memory', () => {
  test('TOL-07 structured content, several calls', async () => {
    const path = join(temporaryDirectory(), 'memory.jsonl');
    const config = { ...realServer('@modelcontextprotocol/server-memory'), env: { MEMORY_FILE_PATH: path } };
    await withManager({ servers: { memory: config } }, async (manager) => {
      await manager.connect();
      await manager.callTool('mcp__memory__create_entities', {
        entities: [{ name: 'Switch', entityType: 'thing', observations: ['clicks'] }],
      });
      const found = await manager.callTools(
        ['Switch', 'nothing'].map((query) => ({ tool: 'mcp__memory__search_nodes', args: { query } })),
      );
      expect(found.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
      expect(JSON.stringify(found[0])).toContain('clicks');
      expect(JSON.stringify(found[1])).not.toContain('clicks');
    });
    await eventually(() => readFileSync(path, 'utf8').includes('Switch'));
  });
});

test('LIF-03 all three at once beside one that is not there', async () => {
  const servers = {
    ...everything(),
    fs: realServer('@modelcontextprotocol/server-filesystem', temporaryDirectory()),
    memory: {
      ...realServer('@modelcontextprotocol/server-memory'),
      env: { MEMORY_FILE_PATH: join(temporaryDirectory(), 'm.jsonl') },
    },
    missing: { command: 'no-such-command-anywhere' },
  };
  await withManager({ servers }, async (manager) => {
    const statuses = await manager.connect();
    expect(Object.fromEntries(statuses.map(({ name, state }) => [name, state]))).toEqual({
      everything: 'connected',
      fs: 'connected',
      memory: 'connected',
      missing: 'failed',
    });
    expect(new Set((await manager.listTools()).map(({ mcpInfo }) => mcpInfo.serverName))).toEqual(
      new Set(['everything', 'fs', 'memory']),
    );
  });
});
