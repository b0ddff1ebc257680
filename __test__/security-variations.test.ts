/** Variations of known attacks that belong to no other file: the kind of each case, not its instance. */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { McpManagerOptions, ServerConfig } from '..';
import { authorizationWorld, inWorld, json, trap } from './authorization-world';
import { caught, eventually, fixture, pause, root, temporaryDirectory, withManager } from './harness';
import { canary, fates, servers, world as project } from './project';
import { reply, smallServer } from './small-http-server';

const inputSchema = { type: 'object' };

/** A server whose tools are these; a call answers with the name of the tool. */
function offering(tools: object[]): ServerConfig {
  const state = join(temporaryDirectory(), 'tools.json');
  writeFileSync(state, JSON.stringify(tools));
  return { command: process.execPath, args: [fixture('changing-server.mjs'), state, '/dev/null'] };
}

/** Asks whoever approves once, and approves. */
function approving(options: McpManagerOptions) {
  const asked: { warnings: { code: string; message: string }[] }[] = [];
  const onApproval: McpManagerOptions['onApproval'] = (request) => {
    asked.push(request);
    return 'approved';
  };
  return { asked, options: { ...options, onApproval } };
}

describe('approval', () => {
  const local = { command: 'true', args: ['x', '-c'] };
  const remote = { type: 'http', url: 'http://127.0.0.1:9/a' };
  test.each([
    ['env', local, { env: { A: '1' } }],
    ['cwd', local, { cwd: '/' }],
    ['inheritEnv', local, { inheritEnv: ['FOO'] }],
    ['the order of args', local, { args: ['-c', 'x'] }],
    ['url', remote, { url: 'http://127.0.0.1:9/b' }],
    ['headers', remote, { headers: { X: '${HOME}' } }],
    ['headersHelper', remote, { headersHelper: ['sh', '-c', 'id'] }],
    ['oauth', remote, { oauth: { expectedIssuer: 'https://evil.test' } }],
    ['tls', remote, { tls: { rejectUnauthorized: false } }],
    ['type', remote, { type: 'sse' }],
  ])('B-003 who approved one definition is asked about another %s', async (_, before, change) => {
    const { options: own, write } = project({ 'project/.mcp.json': servers({ s: before }) });
    const { asked, options } = approving(own);
    const load = () => withManager(options, async (manager) => void (await manager.load()));
    await load();
    await load();
    expect(asked.length).toBe(1);
    write('project/.mcp.json', servers({ s: { ...before, ...change } }));
    await load();
    expect(asked.length).toBe(2);
  });

  test.each([
    'ld_audit',
    'DYLD_FRAMEWORK_PATH',
    'DOTNET_STARTUP_HOOKS',
    'npm_config_node_options',
    'BUN_OPTIONS',
    '_JAVA_OPTIONS',
    'PYTHONBREAKPOINT',
    'GIT_EXTERNAL_DIFF',
    'PROMPT_COMMAND',
    'OPENSSL_CONF',
  ])('B-016 %s loads code: no blanket approval covers it, and it is named', async (name) => {
    const s = { ...canary('/dev/null'), env: { [name]: './evil' } };
    const { options: own } = project({
      'project/.mcp.json': servers({ s }),
      'home/.claude/settings.json': { enableAllProjectMcpServers: true },
    });
    await withManager(own, async (manager) => {
      expect(fates((await manager.load()).servers)).toEqual({ s: 'pending-approval' });
    });
    const { asked, options } = approving(own);
    await withManager(options, async (manager) => void (await manager.load()));
    expect(asked[0].warnings.find(({ code }) => code === 'loaderVariable')?.message).toContain(name);
  });

  test.each([
    ['PATH', 'which program'],
    ['npm_config_registry', 'fetch from'],
    ['HTTPS_PROXY', 'fetch from'],
    ['SSL_CERT_FILE', 'trust'],
  ])('B-016 mcp:SEC-11 %s is pointed out', async (name, what) => {
    const s = { ...canary('/dev/null'), env: { [name]: '/x' } };
    const { asked, options } = approving(project({ 'project/.mcp.json': servers({ s }) }).options);
    await withManager(options, async (manager) => void (await manager.load()));
    const said = asked[0].warnings.filter(({ code }) => code === 'dangerous').map(({ message }) => message);
    expect(said.join()).toContain(name);
    expect(said.join()).toContain(what);
  });

  test.skipIf(process.platform === 'win32').each(['', '.', './', '../project', 'bin/..'])(
    'B-012 a program of the project does not run because of %j in a PATH',
    async (place) => {
      const { options, at, write } = project({ 'project/bin/x': '' });
      writeFileSync(at('project/tool-of-mine'), `#!/bin/sh\ntouch ${at('canary')}\n`);
      chmodSync(at('project/tool-of-mine'), 0o755);
      const before = process.env.PATH;
      onTestFinished(() => void (process.env.PATH = before));
      for (const path of [`${place}:${before}`, `${before}:${place}`]) {
        for (const [host, env] of [
          [path, undefined],
          [before, { PATH: path }],
        ]) {
          process.env.PATH = host as string;
          write('project/.mcp.json', servers({ s: { command: 'tool-of-mine', env } }));
          await withManager({ ...options, onApproval: () => 'approved' }, async (manager) => {
            await manager.load();
            expect(await caught(manager.connect('s'))).toMatchObject({ code: 'SPAWN_FAILED' });
          });
        }
      }
      expect(readdirSync(at('.'))).not.toContain('canary');
    },
  );

  test('B-021 a broken file costs no server of another one', async () => {
    for (const text of [
      '['.repeat(100_000),
      '{"mcpServers":'.repeat(10_000),
      `{"mcpServers":{"a":${'['.repeat(5000)}${']'.repeat(5000)}}}`,
      '{"mcpServers":{"a":{"command":"x"',
      '\u0000',
      '\ufeff{"mcpServers":{}}',
      '{"mcpServers":{"a":{"command":"\\ud800"}}}',
      'null',
      '[]',
      '{"mcpServers":[]}',
      '{"mcpServers":{"a":null,"b":5,"c":"x","d":[]}}',
      '{"mcpServers":{"a":{"command":5,"args":"x"},"b":{"command":"x","args":[{}]}}}',
    ]) {
      const { options, at } = project({ 'home/.claude.json': servers({ good: canary('/dev/null') }) });
      writeFileSync(at('project/.mcp.json'), text);
      await withManager({ ...options, onApproval: () => 'approved' }, async (manager) => {
        const { servers: found } = await manager.load();
        expect(fates(found), text.slice(0, 40)).toMatchObject({ good: 'active' });
        expect(found.filter(({ name, fate }) => name !== 'good' && fate === 'active')).toEqual([]);
      });
    }
  });

  test('B-023 names that every object has are servers like others, or none', async () => {
    const { options, at } = project();
    writeFileSync(
      at('project/.mcp.json'),
      `{"mcpServers":{"__proto__":{"command":"x"},"toString":{"command":"true"},
        "s":{"command":"true","env":{"__proto__":"1","constructor":"2"}}}}`,
    );
    await withManager({ ...options, onApproval: () => 'approved' }, async (manager) => {
      const fate = new Map((await manager.load()).servers.map((entry) => [entry.name, entry.fate]));
      expect([...fate].sort()).toEqual([
        ['__proto__', 'invalid'],
        ['s', 'active'],
        ['toString', 'active'],
      ]);
      expect(manager.status('toString')).toMatchObject({ name: 'toString' });
      for (const name of ['valueOf', '__proto__', 'constructor'])
        expect(manager.status(name)).toBeUndefined();
      expect(({} as { command?: string }).command).toBeUndefined();
    });
  });
});

describe('where a server leads', () => {
  test('B-042 policy is asked about the path of a redirect, too', async () => {
    const hits: string[] = [];
    const server = createServer((request, response) => {
      hits.push(request.url ?? '');
      response.writeHead(307, { location: '/secret/mcp' }).end();
    }).listen(0, '127.0.0.1');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    await eventually(() => server.address() !== null);
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const s = { type: 'http' as const, url: `${origin}/mcp`, oauth: false as const };
    const policy = { deniedMcpServers: [{ serverUrl: `${origin}/secret/*` }] };
    await withManager({ servers: { s }, policy }, async (manager) => {
      expect(await caught(manager.connect('s'))).toMatchObject({ code: 'POLICY_DENIED' });
    });
    expect(hits.length).toBeGreaterThan(0);
    expect(hits.filter((path) => path.startsWith('/secret'))).toEqual([]);
  });

  test('B-101 an endpoint of an event stream is elsewhere in any spelling', async () => {
    const target = await trap();
    const { port } = new URL(target.origin);
    for (const endpoint of [
      `\\\\127.0.0.1:${port}\\x`,
      `/\\127.0.0.1:${port}/x`,
      `http:///127.0.0.1:${port}/x`,
      `http://127.0.0.1.:${port}/`,
      `http://2130706433:${port}/`,
      `ht\ttp://127.0.0.1:${port}/`,
      'data:text/plain,x',
    ]) {
      const posts: string[] = [];
      const server = createServer((request, response) => {
        if (request.method === 'POST') posts.push(request.url ?? '');
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(`event: endpoint\ndata: ${endpoint}\n\n`);
      }).listen(0, '127.0.0.1');
      onTestFinished(() => {
        server.closeAllConnections();
        server.close();
      });
      await eventually(() => server.address() !== null);
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/sse`;
      await withManager({ servers: { s: { type: 'sse', url } } }, async (manager) => {
        const { code } = await caught(manager.connect('s'));
        expect(['ENDPOINT_ORIGIN_MISMATCH', 'URL_REFUSED'], endpoint).toContain(code);
      });
      expect(posts, endpoint).toEqual([]);
    }
    expect(target.hits).toEqual([]);
  });

  test('B-155 an address that parsers read differently is offered as it will be opened', async () => {
    const small = await smallServer();
    let url = '';
    small.answer = ({ id, method }, response) => {
      if (method !== 'tools/call') return;
      const data = { elicitations: [{ mode: 'url', url, elicitationId: 'e', message: 'go' }] };
      const error = { code: -32042, message: 'visit', data };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, error }));
      return true;
    };
    const offered: string[] = [];
    const onElicitation: McpManagerOptions['onElicitation'] = (request) => {
      if (request.mode === 'url') offered.push(request.url);
      return { action: 'decline' };
    };
    const s = { type: 'http' as const, url: small.url };
    await withManager({ servers: { s }, onElicitation }, async (manager) => {
      await manager.connect();
      const [{ name }] = await manager.listTools();
      for (const [asked, expected] of [
        ['https:evil.test', 'https://evil.test/'],
        ['https:///evil.test/x', 'https://evil.test/x'],
        ['https://0x7f.1/', 'https://127.0.0.1/'],
        ['https://good%2Etest/', 'https://good.test/'],
        ['https://good.test\\@evil.test/', 'https://good.test/@evil.test/'],
        ['https://good.test/as?is=1', 'https://good.test/as?is=1'],
      ]) {
        url = asked;
        expect((await caught(manager.callTool(name))).code, asked).toBe('ELICITATION_DECLINED');
        expect(offered.pop(), asked).toBe(expected);
      }
    });
  });

  test.runIf(process.platform === 'linux')(
    'B-120 mcp:AUTH-50 mcp:SEC-21 the command-line tool hands an address over as one argument, to no shell',
    async () => {
      const directory = temporaryDirectory();
      const heard = join(directory, 'heard');
      writeFileSync(join(directory, 'xdg-open'), `#!/bin/sh\nprintf '%s\\n' "$#" "$@" > ${heard}\n`);
      chmodSync(join(directory, 'xdg-open'), 0o755);
      const before = process.env.PATH;
      onTestFinished(() => void (process.env.PATH = before));
      process.env.PATH = `${directory}:${before}`;
      const { openBrowser } = createRequire(import.meta.url)(join(root, 'lib/cli/browser.js')) as {
        openBrowser(url: string): void;
      };
      const url = `https://as.test/$(touch ${directory}/canary)"&touch ${directory}/canary;'|x`;
      openBrowser(url);
      await eventually(() => existsSync(heard) && readFileSync(heard, 'utf8').endsWith('x\n'));
      expect(readFileSync(heard, 'utf8')).toBe(`1\n${url}\n`);
      expect(readdirSync(directory)).not.toContain('canary');
    },
  );

  test.runIf(process.platform === 'linux')('B-012 no program of the project opens it', async () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, 'xdg-open'), '#!/bin/sh\ntouch canary\n');
    chmodSync(join(directory, 'xdg-open'), 0o755);
    const program = join(root, 'lib/cli/browser.js');
    for (const first of ['', '.'])
      execFileSync(
        process.execPath,
        ['-e', 'require(process.argv[1]).openBrowser("https://as.test/")', program],
        { cwd: directory, env: { PATH: `${first}:/nowhere` } },
      );
    await pause(300);
    expect(readdirSync(directory)).toEqual(['xdg-open']);
  });
});

describe('answers of authorization servers', () => {
  test('B-103 a document that was compressed all the same is no document, and no bomb', async () => {
    const bomb = gzipSync(Buffer.alloc(64 << 20, 0x20));
    const world = await authorizationWorld({
      takeOver: (hit, response) => {
        if (!hit.path.startsWith('/.well-known')) return false;
        response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(bomb);
        return true;
      },
    });
    await inWorld(world, async (manager) => {
      const error = await caught(manager.connect('w'));
      expect(error).toMatchObject({ code: 'AUTH_FAILED' });
      expect(error.message).toContain('no JSON object');
    });
  });

  test.each([
    ['a refresh token with a header in it', { access_token: 'a', refresh_token: 'r\r\nX-Evil: y' }, true],
    ['scopes that are none', { access_token: 'a', scope: 'x\r\ny "z' }, true],
    ['a life without end', { access_token: 'a', expires_in: '1e999' }, true],
    ['a list of types', { access_token: 'a', token_type: ['Bearer'] }, false],
    ['a token of no letters', { access_token: 'ü' }, false],
    ['a token that is an object', { access_token: { a: 'a' } }, false],
    ['an error full of escapes', { error: 'x\u001b[31m\n\u202e', error_description: '\u202e\u0007' }, false],
  ])('B-141 %s harms nothing', async (_, body, passes) => {
    const world = await authorizationWorld({
      takeOver: (hit, response) => (hit.path === '/token' ? json(response, 200, body) : false),
    });
    world.tokens.add('a');
    await inWorld(world, async (manager) => {
      const outcome = await manager.connect('w').then(
        ({ state }) => state,
        ({ code, message }: { code: string; message: string }) => {
          expect(message).not.toMatch(/[\p{Cc}\u202e]/u);
          return code;
        },
      );
      expect(outcome).toBe(passes ? 'connected' : 'AUTH_FAILED');
      for (const { headers } of [...world.hits, ...world.mcpHits])
        expect(headers).not.toHaveProperty('x-evil');
    });
  });
});

describe('what a server says', () => {
  const dirty = 'a\u001b[2Jb\u001b]8;;http://x\u0007c\u009bd\u202ee\u{e0041}f\u200bg\rh';

  test('B-068 B-070 mcp:SEC-33 nothing that a model or a person reads holds escapes or what nobody sees', async () => {
    const small = await smallServer();
    const results: Record<string, object> = {
      initialize: {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {}, prompts: {}, resources: {} },
        instructions: dirty,
        serverInfo: { name: dirty, version: dirty, title: dirty },
      },
      'tools/list': {
        tools: [
          {
            name: 't',
            title: dirty,
            description: dirty,
            inputSchema: { ...inputSchema, title: dirty, properties: { p: { description: dirty } } },
            annotations: { title: dirty },
          },
        ],
      },
      'prompts/list': {
        prompts: [
          { name: 'p', title: dirty, description: dirty, arguments: [{ name: 'a', description: dirty }] },
        ],
      },
      'resources/list': { resources: [{ uri: 'x://y', name: dirty, title: dirty, description: dirty }] },
    };
    small.answer = ({ id, method }, response) => {
      if (id === undefined) return;
      if (method === 'tools/call') {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -1, message: dirty } }));
        return true;
      }
      if (results[method ?? ''] === undefined) return;
      reply(response, id, results[method ?? '']);
      return true;
    };
    await withManager({ servers: { s: { type: 'http', url: small.url } } }, async (manager) => {
      const said: unknown[] = [];
      for (const name of ['status', 'diagnostic'] as const)
        manager.on(name, (event: object) => said.push(event));
      await manager.connect();
      said.push(await manager.listTools(), await manager.listPrompts(), await manager.listResources());
      const error = await caught(manager.callTool('mcp__s__t'));
      said.push(manager.status(), manager.doctor(), error.message, String(error.stack));
      const text = JSON.stringify(said).replaceAll('\\n', '');
      expect(text).toContain('http://xcdefg');
      expect(text.match(/.{0,40}(\\u00[01]|\\r|\u009b|\u202e|\u200b|\u{e0041}).{0,20}/gu)).toBeNull();
    });
  });

  test('B-057 B-053 a look-alike is not called under the permission of what it looks like', async () => {
    const names = ['Delete', 'd\u200belete', 'ｄelete', 'delete '];
    const s = offering(names.map((name) => ({ name, inputSchema })));
    const permissions = { allow: ['mcp__s__delete'], deny: [] };
    await withManager({ servers: { s }, permissions }, async (manager) => {
      await manager.connect();
      const called: string[] = [];
      for (const { name, mcpInfo } of await manager.listTools()) {
        if (name !== 'mcp__s__delete') {
          expect((await caught(manager.callTool(name))).code, name).toBe('PERMISSION_REQUIRED');
        } else called.push(mcpInfo.toolName);
      }
      // One of them may have the plain name, where no tool is written so; never two.
      expect(called.length).toBeLessThanOrEqual(1);
    });
  });

  test('B-110 SEC-04 keys that reach prototypes elsewhere are data at most', async () => {
    const small = await smallServer();
    const evil = '{"__proto__":{"isAdmin":true},"x":1}';
    const raw: Record<string, string> = {
      'tools/list': `{"tools":[{"name":"t","inputSchema":{"type":"object","properties":${evil}},"_meta":${evil},
        "annotations":${evil}}],"_meta":${evil}}`,
      'tools/call': `{"content":[{"type":"text","text":"x","_meta":${evil},"__proto__":{"isAdmin":true}}],
        "structuredContent":{"deep":[${evil}]},"_meta":${evil}}`,
    };
    small.answer = ({ id, method }, response) => {
      const result = raw[method ?? ''];
      if (result === undefined) return;
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
      return true;
    };
    const walk = (value: unknown): number => {
      if (typeof value !== 'object' || value === null) return 0;
      expect([Object.prototype, Array.prototype]).toContain(Object.getPrototypeOf(value));
      const keys = Object.getOwnPropertyNames(value).filter((key) => key !== '__proto__');
      return keys.reduce((sum, key) => sum + walk((value as Record<string, unknown>)[key]), 1);
    };
    await withManager({ servers: { s: { type: 'http', url: small.url } } }, async (manager) => {
      await manager.connect();
      expect(walk(await manager.listTools())).toBeGreaterThan(5);
      const { content, structuredContent } = await manager.callTool('mcp__s__t');
      expect(walk([content, structuredContent])).toBeGreaterThan(5);
      walk(manager.status());
      expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
    });
  });
});
