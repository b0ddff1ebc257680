/** The output limit and the check of arguments, through the public API. */
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { McpManagerOptions } from '..';
import { caught, nextEvent, temporaryDirectory, textOf, withFaulty } from './harness';

const LIMITED: McpManagerOptions = { maxOutputTokens: 2_000 };

describe('CAL-04 results above maxOutputTokens', () => {
  test('the whole goes to a file, its beginning and the path stay', async () => {
    const outputDir = temporaryDirectory();
    await withFaulty(
      [],
      async (manager) => {
        const told = nextEvent(manager, 'diagnostic', ({ code }) => code === 'OUTPUT_TRUNCATED');
        const result = await manager.callTool('mcp__s__big', { bytes: 500_000 });
        expect(result.truncated).toEqual({ tokens: 125_000, limit: 2_000, path: expect.any(String) });
        const path = result.truncated!.path!;
        expect(dirname(path)).toBe(outputDir);
        expect(readFileSync(path, 'utf8')).toBe('x'.repeat(500_000));
        if (process.platform !== 'win32') expect(statSync(path).mode & 0o777).toBe(0o600);
        expect(result.content).toHaveLength(2);
        expect(textOf(result)).toMatch(/^x{2000}/);
        expect(result.content[1]).toMatchObject({ type: 'text', text: expect.stringContaining(path) });
        expect(JSON.stringify(result.raw).length).toBeLessThan(4_000);
        await told;
      },
      { ...LIMITED, outputDir },
    );
  });

  test('by default in the state directory', async () => {
    const stateDir = temporaryDirectory();
    await withFaulty(
      [],
      async (manager) => {
        const { truncated } = await manager.callTool('mcp__s__big', { bytes: 10_000 });
        expect(readdirSync(`${stateDir}/outputs`)).toEqual([expect.stringMatching(/^mcp_s_big.*\.txt$/)]);
        expect(existsSync(truncated!.path!)).toBe(true);
      },
      { ...LIMITED, stateDir },
    );
  });

  test('cut without a file, or refused', async () => {
    await withFaulty(
      [],
      async (manager) => {
        const result = await manager.callTool('mcp__s__big', { bytes: 10_000 });
        expect(result.truncated).toEqual({ tokens: 2_500, limit: 2_000 });
        expect(textOf(result)).toMatch(/^x{8000}(?!x)/);
      },
      { ...LIMITED, onLargeOutput: 'truncate' },
    );
    await withFaulty(
      [],
      async (manager) => {
        expect(await caught(manager.callTool('mcp__s__big', { bytes: 10_000 }))).toMatchObject({
          code: 'RESULT_TOO_LARGE',
          server: 's',
          message: expect.stringContaining('2500 tokens'),
        });
        expect((await manager.callTool('mcp__s__echo', { n: 1 })).truncated).toBeUndefined();
      },
      { ...LIMITED, onLargeOutput: 'error' },
    );
  });

  test('the environment sets it, the option wins, 0 lifts it', async () => {
    const before = process.env.MAX_MCP_OUTPUT_TOKENS;
    process.env.MAX_MCP_OUTPUT_TOKENS = '1000';
    try {
      const truncatedWith = (options: McpManagerOptions) =>
        withFaulty(
          [],
          async (manager) => (await manager.callTool('mcp__s__big', { bytes: 10_000 })).truncated,
          { onLargeOutput: 'truncate', ...options },
        );
      expect(await truncatedWith({ maxOutputTokens: undefined })).toMatchObject({ limit: 1_000 });
      expect(await truncatedWith({ maxOutputTokens: 2_000 })).toMatchObject({ limit: 2_000 });
      expect(await truncatedWith({ maxOutputTokens: 0 })).toBeUndefined();
    } finally {
      if (before === undefined) delete process.env.MAX_MCP_OUTPUT_TOKENS;
      else process.env.MAX_MCP_OUTPUT_TOKENS = before;
    }
  });

  test('K1 K4 five megabytes of text and an image of six: a short text and two files, no block broken', async () => {
    const outputDir = temporaryDirectory();
    await withFaulty(
      [],
      async (manager) => {
        const png = Buffer.concat([
          Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'),
          Buffer.alloc(6 << 20, 1),
        ]);
        const image = { type: 'image', data: png.toString('base64'), mimeType: 'image/png' };
        const text = { type: 'text', text: 'long '.repeat(1 << 20) };
        const result = await manager.callTool('mcp__s__raw-result', { result: { content: [text, image] } });
        expect(JSON.stringify(result.content).length).toBeLessThan(20_000);
        expect(result.content.map(({ type }) => type)).toEqual(['text', 'file', 'text']);
        const [, saved] = result.content;
        if (saved.type !== 'file') throw new Error('no file');
        expect(saved.mimeType).toBe('image/png');
        expect(readFileSync(saved.path).equals(png)).toBe(true);
        const whole = JSON.parse(readFileSync(result.truncated!.path!, 'utf8')) as { content: object[] };
        expect(whole.content).toEqual([text, saved]);
      },
      { ...LIMITED, outputDir },
    );
  });

  test('K11 a thousand large results that are kept weigh what is left of them', async () => {
    const outputDir = temporaryDirectory();
    await withFaulty(
      [],
      async (manager) => {
        const kept = [];
        const size = 200_000;
        await manager.callTool('mcp__s__big', { bytes: size });
        const before = process.memoryUsage().rss;
        for (let round = 0; round < 50; round += 1) {
          const calls = Array.from({ length: 20 }, () => manager.callTool('mcp__s__big', { bytes: size }));
          kept.push(...(await Promise.all(calls)));
        }
        expect(kept.reduce((sum, result) => sum + JSON.stringify(result).length, 0)).toBeLessThan(10 << 20);
        // The whole of all of them is 200 MB, and stands in files.
        expect(process.memoryUsage().rss - before).toBeLessThan(120 << 20);
        expect(readdirSync(outputDir).length).toBe(1_001);
        expect(statSync(kept[999].truncated!.path!).size).toBe(size);
      },
      { ...LIMITED, outputDir, outputRetention: false },
    );
  }, 60_000);

  test('a failure above the limit stays a failure', async () => {
    await withFaulty(
      [],
      async (manager) => {
        const result = { content: [{ type: 'text', text: 'y'.repeat(20_000) }], isError: true };
        const error = await caught(manager.callTool('mcp__s__raw-result', { result }));
        expect(error).toMatchObject({ code: 'TOOL_ERROR', result: { truncated: { limit: 2_000 } } });
      },
      { ...LIMITED, onLargeOutput: 'truncate' },
    );
  });
});

describe('CAL-05 validateInput', () => {
  test('arguments that do not match the schema are not sent', async () => {
    await withFaulty(
      [],
      async (manager) => {
        expect(await caught(manager.callTool('mcp__s__sleep', { ms: 'long' }))).toMatchObject({
          name: 'McpCallError',
          code: 'INPUT_INVALID',
          server: 's',
          message: expect.stringMatching(/mcp__s__sleep.*\/ms/),
        });
        expect(await caught(manager.callTool('mcp__s__sleep'))).toMatchObject({ code: 'INPUT_INVALID' });
        expect(textOf(await manager.callTool('mcp__s__received'))).not.toContain('sleep');
        await manager.callTool('mcp__s__sleep', { ms: 1 });
      },
      { validateInput: true },
    );
  });

  test('off by default: the server decides', async () => {
    await withFaulty([], async (manager) => {
      await manager.callTool('mcp__s__echo', { text: 5 });
    });
  });
});
