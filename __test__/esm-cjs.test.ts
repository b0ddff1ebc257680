import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { root, runNode } from './harness';

const NAMES =
  'McpManager, McpError, McpConfigError, McpToolCallError, McpTimeoutError, normalizeName, buildToolName, parseToolName, sanitizeUnicode, classifyTool, expandEnv, decidePermission, windowsCommand, partitionCalls, version';
const USE =
  'const manager = new McpManager({ config: false }); manager.close().then(() => console.log(JSON.stringify([typeof McpError, buildToolName("a", "b"), version])));';

describe('loading', () => {
  test('USE-01 ESM: named imports, by path and by name', async () => {
    for (const specifier of [pathToFileURL(join(root, 'index.js')).href, 'mcp-switchboard']) {
      const ended = await runNode([
        '--input-type=module',
        '-e',
        `import { ${NAMES} } from ${JSON.stringify(specifier)}; ${USE}`,
      ]);
      expect(ended).toMatchObject({ code: 0, stderr: '' });
      expect(JSON.parse(ended.stdout)).toEqual([
        'function',
        'mcp__a__b',
        expect.stringMatching(/^\d+\.\d+\.\d+/),
      ]);
    }
  });

  test('USE-01 CommonJS: require, by path and by name', async () => {
    for (const specifier of [root, 'mcp-switchboard']) {
      const ended = await runNode([
        '-e',
        `const { ${NAMES} } = require(${JSON.stringify(specifier)}); ${USE}`,
      ]);
      expect(ended).toMatchObject({ code: 0, stderr: '' });
      expect(JSON.parse(ended.stdout)[1]).toBe('mcp__a__b');
    }
  });

  test('USE-01 ESM and CommonJS share one class', async () => {
    const source = `import { McpManager } from 'mcp-switchboard'; import { createRequire } from 'node:module'; console.log(createRequire(${JSON.stringify(join(root, 'x.js'))})('mcp-switchboard').McpManager === McpManager);`;
    expect((await runNode(['--input-type=module', '-e', source])).stdout).toBe('true\n');
  });

  test('N9 two copies of the package in one process', async () => {
    const source = `
      const first = require('mcp-switchboard');
      for (const key of Object.keys(require.cache)) if (!key.endsWith('.node')) delete require.cache[key];
      const second = require('mcp-switchboard');
      const managers = [new first.McpManager({ config: false }), new second.McpManager({ config: false })];
      Promise.all(managers.map((manager) => manager.callTool('mcp__x__y').catch((error) => [error.code, error instanceof first.McpError, error instanceof second.McpError])))
        .then(async (seen) => { await Promise.all(managers.map((manager) => manager.close())); console.log(JSON.stringify([first !== second, seen.map(([code]) => code)])); });`;
    const ended = await runNode(['-e', source]);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(ended.stdout)).toEqual([true, ['SERVER_UNKNOWN', 'SERVER_UNKNOWN']]);
  });

  test('loading alone starts nothing and ends by itself', async () => {
    const ended = await runNode(['-e', "require('mcp-switchboard')"], 5000);
    expect(ended).toMatchObject({ code: 0, signal: null, stdout: '', stderr: '' });
  });
});
