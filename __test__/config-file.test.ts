import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { McpManager, type StdioServerConfig } from '..';
import { DEFAULTS, caught, faulty, jsonOf, temporaryDirectory, withManager } from './harness';

/** Options that read files below `cwd` only, with `.mcp.json` of this content, whose servers the host approves. */
function project(content: string, name = '.mcp.json') {
  const cwd = temporaryDirectory();
  writeFileSync(join(cwd, name), content);
  const nowhere = join(cwd, 'nowhere');
  const config = { projectRoot: cwd, homeDir: nowhere, managedDir: nowhere };
  return { cwd, config, stateDir: false, onApproval: () => 'approved' as const } as const;
}

const entry = JSON.stringify({ command: process.execPath, args: faulty().args });

describe('.mcp.json', () => {
  test('CFG-03 a syntax error names file, line and column, and the servers of the options still run', async () => {
    const options = project('{\n  "mcpServers": {\n    "a": { "command": nope }\n  }\n}\n');
    await withManager({ ...options, servers: { s: faulty() } }, async (manager) => {
      await manager.connect();
      const { errors } = manager.configReport();
      expect(errors).toHaveLength(1);
      expect(errors[0]).toMatchObject({ level: 'error', file: join(options.cwd, '.mcp.json'), line: 3 });
      expect(errors[0].column).toBeGreaterThan(0);
      expect(manager.status('s')?.state).toBe('connected');
      expect(jsonOf(await manager.callTool('mcp__s__echo', { text: 'x' }))).toEqual({ text: 'x' });
    });
  });

  test('CFG-03 an unfinished file is an error of that file, not of load()', async () => {
    const options = project('{ "mcpServers": { "a": {');
    await withManager(options, async (manager) => {
      const report = await manager.load();
      expect(report.errors[0]).toMatchObject({ file: join(options.cwd, '.mcp.json'), line: 1 });
      expect(report.servers).toEqual([]);
    });
  });

  test('CFG-03 comments, trailing commas and a BOM are read', async () => {
    const text = `\uFEFF// servers\n{ /* here */ "mcpServers": { "a": ${entry.slice(0, -1)}, }, }, }\n`;
    await withManager(project(text), async (manager) => {
      const report = await manager.load();
      expect(report.errors).toEqual([]);
      expect(report.servers).toMatchObject([{ name: 'a', scope: 'project', line: 2 }]);
    });
  });

  test('CFG-03 a key given twice: the last wins, with a warning', async () => {
    const text = `{ "mcpServers": { "a": { "command": "first" },\n "a": { "command": "second" } } }`;
    await withManager(project(text), async (manager) => {
      const report = await manager.load();
      expect(report.servers.map(({ config }) => config.command)).toEqual(['second']);
      expect(report.warnings.some(({ message, line }) => message.includes('"a"') || line === 2)).toBe(true);
    });
  });

  test("CFG-03 VS Code's shape is read", async () => {
    await withManager(project(`{ "servers": { "a": ${entry} }, "inputs": [] }`), async (manager) => {
      expect((await manager.load()).servers.map(({ name }) => name)).toEqual(['a']);
    });
  });

  test('CFG-04 a wrong type is an error with a JSON pointer and stops that entry only', async () => {
    const text = `{ "mcpServers": { "bad": { "command": 7 }, "worse": { "command": "x", "args": "y" }, "good": ${entry} } }`;
    await withManager(project(text), async (manager) => {
      const report = await manager.load();
      const pointers = report.errors.map(({ pointer }) => pointer);
      expect(pointers.some((pointer) => pointer?.endsWith('/bad/command'))).toBe(true);
      expect(pointers.some((pointer) => pointer?.endsWith('/worse/args'))).toBe(true);
      const fates = Object.fromEntries(report.servers.map(({ name, fate }) => [name, fate]));
      expect(fates.bad).toBe('invalid');
      expect(fates.worse).toBe('invalid');
      expect(fates.good).not.toBe('invalid');
    });
  });

  test('CFG-04 an unknown field is a warning', async () => {
    const text = `{ "mcpServers": { "a": { "command": "x", "comand": "y" } } }`;
    await withManager(project(text), async (manager) => {
      const report = await manager.load();
      expect(
        report.warnings.some(
          ({ message, pointer }) => message.includes('comand') || pointer?.includes('comand'),
        ),
      ).toBe(true);
      expect(report.errors).toEqual([]);
    });
  });

  test('CFG-09 SEC-03 the report shows no secret', async () => {
    const text = `{ "mcpServers": { "a": { "command": "x", "env": { "API_KEY": "sk-very-secret" } } } }`;
    await withManager(project(text), async (manager) => {
      expect(JSON.stringify(await manager.load())).not.toContain('sk-very-secret');
    });
  });

  test('CFG-09 SEC-03 the error of a server shows no secret of its environment', async () => {
    const config = { ...faulty('--exit', '3'), env: { API_KEY: 'sk-very-secret' } };
    await withManager({ servers: { s: config }, retry: { attempts: 1 } }, async (manager) => {
      const error = await manager.connect('s').then(
        () => undefined,
        (reason: unknown) => reason as Error,
      );
      expect(JSON.stringify([error, error?.message, manager.status(), manager.configReport()])).not.toContain(
        'sk-very-secret',
      );
    });
  });

  test.skipIf(process.getuid?.() === 0)(
    'CFG-02 an unreadable file is reported (skipped for root, who may read everything)',
    async () => {
      const options = project('{}');
      chmodSync(join(options.cwd, '.mcp.json'), 0);
      await withManager(options, async (manager) => {
        expect((await manager.load()).warnings[0]).toMatchObject({ code: 'CONFIG_UNREADABLE' });
      });
    },
  );

  test('CFG-03 config: false reads nothing', async () => {
    const { cwd } = project(`{ "mcpServers": { "a": ${entry} } }`);
    await withManager({ cwd, config: false }, async (manager) => {
      expect(await manager.load()).toEqual({ servers: [], errors: [], warnings: [] });
    });
  });

  test('CFG-03 no file is no error', async () => {
    const cwd = temporaryDirectory();
    await withManager({ cwd, config: { projectRoot: cwd, homeDir: cwd } }, async (manager) => {
      expect((await manager.load()).errors).toEqual([]);
    });
  });
});

describe('servers of the options', () => {
  test('CFG-05 variables are filled in', async () => {
    process.env.SWITCHBOARD_TEST = 'from outside';
    const config = {
      ...faulty('--', '${SWITCHBOARD_TEST}', '${SWITCHBOARD_NONE:-fallback}'),
      env: { GIVEN: 'x-${SWITCHBOARD_TEST}' },
    };
    await withManager({ servers: { s: config } }, async (manager) => {
      expect(jsonOf(await manager.callTool('mcp__s__argv'))).toEqual(['from outside', 'fallback']);
      expect(jsonOf(await manager.callTool('mcp__s__environment')).GIVEN).toBe('x-from outside');
    });
    delete process.env.SWITCHBOARD_TEST;
  });

  test('CFG-05 a missing variable is a warning; the server is still offered', async () => {
    await withManager({ servers: { s: faulty('--', '${SWITCHBOARD_NONE}') } }, async (manager) => {
      expect(jsonOf(await manager.callTool('mcp__s__argv'))).toEqual(['${SWITCHBOARD_NONE}']);
      expect(
        manager
          .configReport()
          .warnings.some(({ message, server }) => message.includes('SWITCHBOARD_NONE') && server === 's'),
      ).toBe(true);
    });
  });

  test('CFG-04 an invalid entry is reported, its neighbour runs', async () => {
    // A program without types may hand over anything.
    const servers = { bad: { args: ['x'] }, s: faulty() } as unknown as Record<string, { command: string }>;
    const manager = new McpManager({ ...DEFAULTS, servers });
    try {
      await manager.connect();
      expect(manager.configReport().servers.find(({ name }) => name === 'bad')?.fate).toBe('invalid');
      expect(manager.status('s')?.state).toBe('connected');
    } finally {
      await manager.close();
    }
  });

  test('I9 R13 servers named like properties of an object', async () => {
    const servers = Object.fromEntries(
      ['toString', 'hasOwnProperty', 'then'].map((name) => [name, faulty()]),
    );
    await withManager({ servers }, async (manager) => {
      await manager.connect();
      expect(manager.status().map(({ name, state }) => [name, state])).toEqual([
        ['hasOwnProperty', 'connected'],
        ['then', 'connected'],
        ['toString', 'connected'],
      ]);
      const result = await manager.callTool({ server: 'toString', tool: 'constructor' });
      expect(result.server).toBe('toString');
      expect(manager.status('valueOf')).toBeUndefined();
    });
  });

  test.each(['__proto__', 'constructor', 'prototype', '', '  '])(
    'B-023 %j is no name of a server',
    async (name) => {
      const servers = JSON.parse(`{${JSON.stringify(name)}:${entry},"s":${entry}}`) as Record<
        string,
        StdioServerConfig
      >;
      await withManager({ servers }, async (manager) => {
        await manager.connect();
        expect(manager.status().map((status) => status.name)).toEqual(['s']);
        expect(manager.configReport().servers.find((found) => found.name === name)?.fate).toBe('invalid');
        expect(['CONFIG_INVALID', 'INVALID_ARGUMENT']).toContain(
          (await caught(manager.addServer(name, faulty()))).code,
        );
      });
    },
  );

  test('CFG-13 a disabled server is listed and never started', async () => {
    await withManager({ servers: { s: { ...faulty(), disabled: true } } }, async (manager) => {
      await manager.connect();
      expect(manager.status('s')).toMatchObject({ state: 'disabled' });
      expect(manager.status('s')?.pid).toBeUndefined();
      await expect(manager.callTool('mcp__s__echo')).rejects.toMatchObject({
        code: 'SERVER_DISABLED',
        server: 's',
      });
      expect((await manager.setServerEnabled('s', true)).state).toBe('connected');
      expect((await manager.callTool('mcp__s__echo')).isError).toBe(false);
      expect((await manager.setServerEnabled('s', false)).state).toBe('disabled');
    });
  });
});

describe('adding and removing', () => {
  test('CFG-11 addServer connects and gives the status', async () => {
    await withManager({}, async (manager) => {
      expect(await manager.addServer('s', faulty())).toMatchObject({
        name: 's',
        state: 'connected',
        scope: 'dynamic',
        type: 'stdio',
      });
      await manager.removeServer('s');
      expect(manager.status('s')).toBeUndefined();
      await expect(manager.callTool('mcp__s__echo')).rejects.toMatchObject({ code: 'SERVER_UNKNOWN' });
    });
  });

  test('CFG-11 LIF-03 addServer resolves when connecting fails, and rejects on a wrong definition', async () => {
    await withManager({}, async (manager) => {
      expect(await manager.addServer('gone', { command: '/no/such/command' })).toMatchObject({
        state: 'failed',
        code: 'SPAWN_FAILED',
      });
      const wrong = { command: 7 } as unknown as { command: string };
      const error = await manager.addServer('wrong', wrong).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      expect(error).toMatchObject({ code: 'CONFIG_INVALID', name: 'McpConfigError' });
      expect((error as { diagnostics: { pointer?: string }[] }).diagnostics[0].pointer).toContain('command');
    });
  });

  test('CFG-11 connect: false only adds', async () => {
    await withManager({}, async (manager) => {
      const status = await manager.addServer('s', faulty(), { connect: false });
      expect(status.state).toBe('pending');
      expect(status.pid).toBeUndefined();
    });
  });
});
