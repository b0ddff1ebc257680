import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { caught, eventually, realServer, temporaryDirectory, textOf, withManager } from './harness';

const everything = () => ({
  servers: { everything: realServer('@modelcontextprotocol/server-everything', 'stdio') },
});

describe('server-everything', () => {
  test('TOL-01 CAL-03 tools, results, images', async () => {
    await withManager(everything(), async (manager) => {
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
        toolCount: expect.any(Number),
      });
    });
  });

  test('PRO-08 progress of a long call', async () => {
    await withManager(everything(), async (manager) => {
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
    await withManager(everything(), async (manager) => {
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

  test('PRM-01 RES-01 prompts and resources', async () => {
    await withManager(everything(), async (manager) => {
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
    ...everything().servers,
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
