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
