/** USE-04: the command-line tool with servers: calls, logins, and how it ends. */
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { authorizationWorld } from './authorization-world';
import { CommandLine } from './command-line';
import { eventually, faulty, gone, notes, pause, realServer, root, temporaryDirectory } from './harness';

const everything = realServer('@modelcontextprotocol/server-everything');
const files = (folder: string) => realServer('@modelcontextprotocol/server-filesystem', folder);
const ESCAPE = '\u001B';
const ALLOWED = { permissions: { allow: ['mcp__*'] } };
const { argumentsOf } = createRequire(import.meta.url)('../lib/cli/input.js') as {
  argumentsOf(words: string[], schema?: object): Promise<object>;
};

describe('tools, prompts and resources', () => {
  test('USE-04 tools of all servers; one that fails is a warning, or the error where it was named', async () => {
    const line = new CommandLine();
    line.user({ fs: files(line.project), broken: faulty('--exit', '3') });
    const [all, text, found, failed] = await Promise.all([
      line.json(['tools']),
      line.run(['tools', 'fs', '--quiet']),
      line.json(['tools', 'fs', '--search', '+directory']),
      line.run(['tools', 'broken']),
    ]);
    expect(all.code).toBe(0);
    const names = all.value.tools.map(({ name }: { name: string }) => name);
    expect(names).toContain('mcp__fs__read_text_file');
    expect(all.value.problems).toMatchObject([{ server: 'broken', hint: expect.any(String) }]);
    expect(all.stderr).toMatch(/^warning broken: \w+: /m);
    expect(text.stdout).toMatch(/^mcp__fs__read_text_file +\S/m);
    expect(text.stderr).toBe('');
    expect(found.value.tools.map(({ name }: { name: string }) => name)).toContain('mcp__fs__list_directory');
    expect(found.value.tools.length).toBeLessThan(names.length);
    expect(failed).toMatchObject({ code: 1, stdout: '' });
    expect(failed.stderr).toMatch(/^error SERVER_EXITED: .*giving up\n( {2}stderr: .*\n)*$/m);
  }, 60_000);

  test('USE-04 call: pairs typed by the schema, JSON, standard input', async () => {
    const line = new CommandLine().user({ e: everything }, ALLOWED);
    const sum = (...args: string[]) => line.run(['call', 'mcp__e__get-sum', ...args]);
    const [pairs, object, piped, marked, echoed, missing, unknown] = await Promise.all([
      sum('a=2', 'b=-3.5', '--quiet'),
      sum('{"a": 2, "b": 5}'),
      line.run(['call', '--server', 'e', 'get-sum', '-'], { input: '{"a":40,"b":2}' }),
      line.run(['call', 'mcp__e__get-sum', '-'], { input: '\uFEFF{"a":40,"b":2}' }),
      line.json(['call', 'mcp__e__echo', 'message=12 = twelve']),
      line.json(['call', 'mcp__e__get-sum', '{"a": 1}']),
      line.json(['call', 'mcp__e__get-sun', 'a=1']),
    ]);
    expect(pairs).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('-1.5') });
    expect(object.stdout).toContain('7');
    expect(piped.stdout).toContain('42');
    expect(marked.stdout).toContain('42');
    expect(echoed.value).toMatchObject({
      isError: false,
      tool: 'echo',
      content: [{ type: 'text', text: 'Echo: 12 = twelve' }],
    });
    expect(missing).toMatchObject({ code: 1, value: { error: { code: 'INPUT_INVALID', server: 'e' } } });
    expect(unknown.value.error).toMatchObject({
      code: 'TOOL_UNKNOWN',
      suggestions: expect.arrayContaining(['mcp__e__get-sum']),
    });
  }, 60_000);

  test('USE-04 arguments that make no sense are not sent', async () => {
    const line = new CommandLine().user({ s: faulty() }, ALLOWED);
    const wrong: [string[], string][] = [
      [['ms=two'], 'number'],
      [['ms=1', 'ms=2'], '2 times'],
      [['c=1'], '"c"'],
      [['ms'], 'key=value'],
      [['ms=1', '-'], 'key=value'],
      [['{"a": 1'], 'not JSON'],
      [['{}', 'ms=1'], 'mixture'],
      [['-'], 'not JSON'],
    ];
    await Promise.all(
      wrong.map(async ([args, word]) => {
        const said = await line.run(['call', 'mcp__s__sleep', ...args]);
        expect(said, args.join(' ')).toMatchObject({ code: 2, stdout: '' });
        expect(said.stderr).toContain(word);
      }),
    );
  });

  test('USE-04 pairs become booleans, lists, objects and what a choice allows', async () => {
    const schema = {
      properties: {
        flag: { type: 'boolean' },
        list: { type: 'array', items: { $ref: '#/$defs/count' } },
        object: { type: 'object' },
        either: { anyOf: [{ type: 'integer' }, { type: 'string' }] },
        text: { type: 'string' },
        none: { type: ['number', 'null'] },
        choice: { enum: [1, 2] },
        any: {},
      },
      $defs: { count: { type: 'integer' } },
    };
    const typed = (...words: string[]) => argumentsOf(words, schema);
    expect(
      await typed('flag=true', 'list=1', 'list=2', 'object={"a":1}', 'either=7', 'text=7', 'none=null'),
    ).toEqual({
      flag: true,
      list: [1, 2],
      object: { a: 1 },
      either: 7,
      text: '7',
      none: null,
    });
    const more = await typed('list=[3]', 'either=seven', 'choice=2', 'any=', 'none=1e3');
    expect(more).toEqual({ list: [3], either: 'seven', choice: 2, any: '', none: 1000 });
    const required = { ...schema, required: ['text', 'flag'] };
    await expect(argumentsOf(['flag=true'], required)).rejects.toThrow('needs text');
    expect(await argumentsOf(['__proto__=x'], {})).toEqual(Object.fromEntries([['__proto__', 'x']]));
    for (const word of ['flag=yes', 'list=1.5', 'object=[]', 'choice=two', 'none=', 'constructor=1'])
      await expect(typed(word), word).rejects.toMatchObject({ code: 'USAGE' });
  });

  test('USE-04 isError prints what the tool says and is exit code 1', async () => {
    const line = new CommandLine().user({ s: faulty() }, ALLOWED);
    const said = await line.run(['call', 'mcp__s__fail']);
    expect(said.code).toBe(1);
    expect(said.stdout.length).toBeGreaterThan(10);
    expect(said.stderr).toMatch(/^error TOOL_ERROR: mcp__s__fail/m);
    const { code, value } = await line.json(['call', 'mcp__s__fail']);
    expect({ code, isError: value.isError, blocks: value.content.length }).toEqual({
      code: 1,
      isError: true,
      blocks: 3,
    });
    const image = await line.run(['call', 'mcp__s__image']);
    expect(image).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/\[image image\/png, \d+ bytes; /),
    });
  }, 60_000);

  test('USE-04 POL-07 rules decide first; a question needs a terminal or --yes', async () => {
    const line = new CommandLine();
    const noted = join(line.project, 'notes');
    line.user(
      { s: faulty('--notes', noted) },
      { permissions: { deny: ['mcp__s__die'], ask: ['mcp__s__echo'] } },
    );
    const calls = () => notes(noted).filter(({ method }) => method === 'tools/call').length;
    for (const how of [[], ['--yes']]) {
      const denied = await line.run(['call', 'mcp__s__die', 'half=true', ...how], {
        terminal: true,
        input: 'y\n',
      });
      expect(denied).toMatchObject({ code: 1, stdout: '' });
      expect(denied.stderr).toMatch(/PERMISSION_DENIED: .*mcp__s__die/);
    }
    const nobody = await line.run(['call', 'mcp__s__echo', 'text=hi']);
    expect(nobody).toMatchObject({ code: 1, stdout: '' });
    expect(nobody.stderr).toMatch(/^error PERMISSION_REQUIRED: .*--yes/m);
    const no = await line.run(['call', 'mcp__s__echo', 'text=hi'], { terminal: true, input: 'no\n' });
    expect(no.code).toBe(1);
    expect(no.stderr).toMatch(/mcp__s__echo \{"text":"hi"\}[^]*Run it\?[^]*PERMISSION_DENIED/);
    expect(calls()).toBe(0);
    const yes = await line.run(['call', 'mcp__s__echo', 'text=hi'], { terminal: true, input: 'y\n' });
    expect(yes).toMatchObject({ code: 0, stdout: '{"text":"hi"}\n' });
    expect((await line.run(['call', 'mcp__s__echo', 'text=hi', '-y'])).code).toBe(0);
    expect(calls()).toBe(2);
    const ended = await line.run(['call', 'mcp__s__echo', 'text=hi'], { terminal: true, input: '' });
    expect(ended).toMatchObject({ code: 1, stdout: '' });
    expect(ended.stderr).toMatch(/Run it\? \[y\/N\] \n.*PERMISSION_DENIED/);
    expect(calls()).toBe(2);
  }, 60_000);

  test('USE-04 progress of a long call goes to standard error, and --quiet keeps it back', async () => {
    const line = new CommandLine().user({ s: faulty() }, ALLOWED);
    const args = ['call', 'mcp__s__progress', 'steps=3', 'delayMs=100'];
    const said = await line.run(args);
    expect(said.code).toBe(0);
    expect(said.stderr).toMatch(/^mcp__s__progress: 1 of 3/);
    expect(said.stdout).not.toContain('of 3');
    expect((await line.run([...args, '--quiet'])).stderr).toBe('');
    const shown = await line.run(args, { terminal: true });
    expect(shown.stderr).toMatch(new RegExp(`3 of 3[^\n]*\r${ESCAPE}\\[K$`));
  }, 60_000);

  test('USE-04 a server that is slow to start is named', async () => {
    const line = new CommandLine().user({ slow: faulty('--silent') });
    const said = await line.run(['tools', 'slow', '--timeout', '2.5']);
    expect(said).toMatchObject({ code: 1, stdout: '' });
    expect(said.stderr).toMatch(/^connecting slow \(1 s\)$/m);
    expect(said.stderr).toMatch(/^error CONNECT_TIMEOUT: .*--timeout/m);
  });

  test('USE-04 prompts and resources: listed, filled in, read', async () => {
    const line = new CommandLine().user({ e: everything });
    const [prompts, filled, missing, resources] = await Promise.all([
      line.run(['prompts', 'e']),
      line.run(['prompts', '--get', 'mcp__e__args-prompt', 'city=Bern']),
      line.json(['prompts', '--get', 'mcp__e__args-prompt']),
      line.json(['resources', 'e']),
    ]);
    expect(prompts.stdout).toMatch(/^mcp__e__args-prompt +city \[state\]/m);
    expect(filled.stdout).toMatch(/^user: .*Bern/);
    expect(missing).toMatchObject({ code: 1, value: { error: { code: 'INPUT_INVALID' } } });
    const { value } = resources;
    expect(value.resources.length).toBeGreaterThan(0);
    expect(value.templates.length).toBeGreaterThan(0);
    const [{ uri }] = value.resources;
    const read = ['resources', 'e', '--read', uri, '--quiet'];
    const [shown, { value: document }] = await Promise.all([line.run(read), line.json(read)]);
    expect(shown).toMatchObject({ code: 0, stderr: '' });
    expect(shown.stdout.length).toBeGreaterThan(10);
    expect(document.contents[0]).toMatchObject({ uri });
  }, 60_000);
});

describe('logins', () => {
  const login = async (line: CommandLine, args: string[], visit: (url: string) => Promise<string | void>) =>
    line.run(['auth', 'w', ...args], {
      meanwhile: async (child, seen) => {
        const url = await eventually(() => /^http\S+$/m.exec(seen().stderr)?.[0], 15_000, 'the address');
        const back = await visit(url);
        child.stdin!.end(typeof back === 'string' ? `\n${back}\n` : '');
      },
    });

  test('USE-04 OAU-02 auth prints the address, waits for the browser, and keeps the login', async () => {
    const world = await authorizationWorld();
    const line = new CommandLine().user({ w: { type: 'http', url: world.url } }, ALLOWED);
    const before = await line.run(['call', 'mcp__w__echo']);
    expect(before.stderr).toMatch(/^error AUTH_REQUIRED: .*mcp-switchboard auth w/);
    const said = await login(line, [], async (url) => {
      const back = await fetch(await world.visit({ url }));
      expect(back.status).toBe(200);
    });
    expect(said.code).toBe(0);
    expect(said.stdout).toMatch(/^logged in at w; the login is kept in a file that is not encrypted\n$/);
    expect(said.stdout + said.stderr).not.toContain('access-');
    expect((await line.run(['call', 'mcp__w__echo'])).code).toBe(0);
    expect((await line.run(['auth', 'w', '--logout'])).stdout).toBe('logged out of w\n');
    expect((await line.json(['call', 'mcp__w__echo'])).value.error.code).toBe('AUTH_REQUIRED');
  }, 60_000);

  test('USE-04 auth --redirect-url takes the address from standard input', async () => {
    const world = await authorizationWorld();
    const line = new CommandLine().user({ w: { type: 'http', url: world.url } });
    const said = await login(line, ['--redirect-url', '--json'], (url) => world.visit({ url }));
    expect(JSON.parse(said.stdout)).toMatchObject({ server: 'w', loggedIn: true, state: 'connected' });
  }, 60_000);
});

describe('how it ends', () => {
  test.skipIf(process.platform === 'win32')(
    'USE-04 SIGINT closes everything that was started',
    async () => {
      const line = new CommandLine();
      const grandchild = join(line.project, 'grandchild');
      line.user({ s: faulty('--grandchild', grandchild, '--ignore-term', '--ignore-eof') }, ALLOWED);
      const noted = () => Number(readFileSync(grandchild, 'utf8'));
      for (const json of [[], ['--json']]) {
        const said = await line.run(['call', 'mcp__s__sleep', 'ms=60000', ...json], {
          meanwhile: async (child) => {
            await eventually(() => existsSync(grandchild), 15_000);
            await pause(300);
            child.kill('SIGINT');
          },
        });
        expect(said.code).toBe(130);
        if (json.length > 0) expect(JSON.parse(said.stdout).error.code).toBe('INTERRUPTED');
        else expect(said.stderr).toMatch(/^error INTERRUPTED: /m);
        await gone(noted());
        rmSync(grandchild);
      }
    },
    60_000,
  );

  test.skipIf(process.platform === 'win32')('USE-04 SIGINT at a question is no answer to it', async () => {
    const line = new CommandLine();
    const noted = join(line.project, 'notes');
    line.user({ s: faulty('--notes', noted) });
    const said = await line.run(['call', 'mcp__s__echo', 'text=hi'], {
      terminal: true,
      meanwhile: async (child, seen) => {
        await eventually(() => seen().stderr.includes('Run it? [y/N] '), 15_000);
        child.kill('SIGINT');
      },
    });
    expect(said).toMatchObject({ code: 130, stdout: '' });
    expect(said.stderr).toMatch(/INTERRUPTED: /);
    expect(notes(noted).filter(({ method }) => method === 'tools/call')).toEqual([]);
  });

  test.skipIf(process.platform === 'win32')('USE-04 a reader that has seen enough is no error', () => {
    const line = new CommandLine().user({ s: faulty() }, ALLOWED);
    const env = { ...process.env, HOME: line.home };
    const tool = `"${process.execPath}" "${join(root, 'bin', 'mcp-switchboard.js')}"`;
    const shell = `{ ${tool} call mcp__s__big bytes=3000000; echo "code $?" >&2; } | head -c 10`;
    const said = spawnSync('/bin/sh', ['-c', shell], { cwd: line.project, env, encoding: 'utf8' });
    expect(said.stdout).toBe('x'.repeat(10));
    expect(said.stderr).toMatch(/^(connecting .*\n)*code 0\n$/);
  });

  test.skipIf(process.platform !== 'linux')('USE-04 an answer that cannot be written is a failure', () => {
    const line = new CommandLine().user({ s: faulty() });
    const env = { ...process.env, HOME: line.home };
    const full = openSync('/dev/full', 'w');
    const args = [join(root, 'bin', 'mcp-switchboard.js'), 'list'];
    const said = spawnSync(process.execPath, args, {
      cwd: line.project,
      env,
      encoding: 'utf8',
      stdio: ['ignore', full, 'pipe'],
    });
    closeSync(full);
    expect(said.status).toBe(1);
    expect(said.stderr).toMatch(/^error OUTPUT_FAILED: .*ENOSPC.*\n$/);
  });

  const script = spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux');
  test.skipIf(!script)(
    'USE-04 a terminal that goes away is SIGHUP, and no crash',
    async () => {
      const line = new CommandLine();
      const noted = join(line.project, 'notes');
      line.user({ s: faulty('--notes', noted) }, ALLOWED);
      const tool = `"${process.execPath}" "${join(root, 'bin', 'mcp-switchboard.js')}"`;
      // The shell hears of the end of its terminal, passes it on, and tells how the tool ended.
      const shell = `trap 'kill -HUP $tool' HUP
        ${tool} call mcp__s__sleep ms=60000 </dev/tty & tool=$!
        wait $tool; wait $tool; echo $? >code`;
      const terminal = spawn('script', ['-qec', shell, '/dev/null'], {
        cwd: line.project,
        env: { ...process.env, HOME: line.home, SHELL: '/bin/sh' },
      });
      await eventually(
        () => existsSync(noted) && notes(noted).some(({ method }) => method === 'tools/call'),
        15_000,
      );
      terminal.kill('SIGKILL');
      const code = join(line.project, 'code');
      await eventually(() => existsSync(code) && readFileSync(code, 'utf8') !== '', 15_000);
      expect(readFileSync(code, 'utf8')).toBe('129\n');
    },
    60_000,
  );

  test('USE-04 what the server said last stands below its error', async () => {
    const line = new CommandLine().user({ s: faulty() }, ALLOWED);
    const said = await line.run(['call', 'mcp__s__die', '--quiet']);
    expect(said.code).toBe(1);
    expect(said.stderr).toMatch(
      /^error SERVER_EXITED: [^\n]*\n {2}stderr: first line of the end\n {2}stderr: last line of the end\n$/,
    );
  });

  test('USE-04 a dumb terminal gets lines', async () => {
    const line = new CommandLine().user({ s: faulty() }, ALLOWED);
    const args = ['call', 'mcp__s__progress', 'steps=3', 'delayMs=100'];
    const said = await line.run(args, { terminal: true, env: { TERM: 'dumb' } });
    expect(said.stderr).toMatch(/^mcp__s__progress: 1 of 3/);
    expect(said.stderr).not.toContain(ESCAPE);
  });

  test('USE-04 BEY-05 doctor says what is wrong and ends with 1, or with 0', async () => {
    const line = new CommandLine().user({ good: faulty(), bad: faulty('--exit', '3') });
    line.brings({ waiting: { command: 'x' } });
    const sick = await line.run(['doctor']);
    expect(sick.code).toBe(1);
    expect(sick.stdout).toMatch(/^good: connected$/m);
    expect(sick.stdout).toMatch(/^bad: failed \w+: /m);
    expect(sick.stdout).toMatch(/^ {2}stderr: giving up$/m);
    expect(sick.stdout).not.toContain('reconnect()');
    expect(sick.stdout).toMatch(/^waiting: pending-approval \(project\)/m);
    expect((await line.json(['doctor'])).value).toMatchObject({ healthy: false });
    line.user({ good: faulty() });
    expect(await line.run(['doctor', '-q'])).toMatchObject({ code: 0, stderr: '' });
  }, 60_000);

  test('USE-04 BEY-05 LIF-09 all servers are all: lazy ones are connected, a required one that fails is a problem', async () => {
    const line = new CommandLine();
    const bad = faulty('--exit', '3');
    line.user({ good: { ...faulty(), start: 'lazy' }, idle: { ...bad, start: 'lazy' } });
    // What a lazy server offered the last time is no answer to how it is now.
    for (const _ of [1, 2]) {
      const { code, value } = await line.json(['doctor']);
      expect(code).toBe(1);
      expect(value.servers).toMatchObject([
        { server: 'good', state: 'connected' },
        { server: 'idle', state: 'failed', healthy: false },
      ]);
    }
    line.user({ good: { ...faulty(), start: 'lazy' }, must: { ...bad, start: 'required' } });
    const [sick, told, tools] = await Promise.all([
      line.run(['doctor']),
      line.json(['doctor']),
      line.json(['tools']),
    ]);
    expect(sick).toMatchObject({ code: 1, stdout: expect.stringMatching(/^good: connected$/m) });
    expect(sick.stdout).toMatch(/^must: failed \w+: /m);
    expect(told.value).toMatchObject({ healthy: false });
    expect(tools).toMatchObject({ code: 0, value: { problems: [{ server: 'must' }] } });
    expect(tools.value.tools.map(({ name }: { name: string }) => name)).toContain('mcp__good__echo');
    const [prompts, resources] = await Promise.all([line.json(['prompts']), line.json(['resources'])]);
    for (const { code, value } of [prompts, resources])
      expect({ code, value }).toMatchObject({ code: 0, value: { problems: [{ server: 'must' }] } });
  }, 60_000);

  test('USE-04 colours on a terminal only, and not with NO_COLOR', async () => {
    const line = new CommandLine().user({ s: { command: 'x' } });
    expect((await line.run(['list'])).stdout).not.toContain(ESCAPE);
    expect((await line.run(['list'], { terminal: true })).stdout).toContain(`${ESCAPE}[32m`);
    expect((await line.run(['list'], { terminal: true, env: { NO_COLOR: '1' } })).stdout).not.toContain(
      ESCAPE,
    );
  });

  test('USE-04 SEC-01 what a server writes cannot steer a terminal', async () => {
    const line = new CommandLine().user({ s: faulty() }, ALLOWED);
    const evil = { result: { content: [{ type: 'text', text: 'a\u001B]0;owned\u0007b\u001B[2Jc' }] } };
    const said = await line.run(['call', 'mcp__s__raw-result', JSON.stringify(evil)], { terminal: true });
    expect(said.code).toBe(0);
    for (const one of [ESCAPE, '\u0007']) expect(said.stdout).not.toContain(one);
    expect(said.stdout).toMatch(/^a.*b.*c\n$/);
  });

  test('USE-04 --cwd and --config-dir choose whose configuration it is', async () => {
    const line = new CommandLine();
    const elsewhere = temporaryDirectory();
    await line.run(['add', 's', '--cwd', elsewhere, '--config-dir', '.other', '--', 'x']);
    expect(JSON.parse(line.read(elsewhere, '.other', 'settings.local.json')).mcpServers.s.command).toBe('x');
    expect((await line.json(['list'])).value.servers).toEqual([]);
    const nowhere = join(elsewhere, 'nowhere');
    expect(await line.run(['add', 's', '--cwd', nowhere, '--', 'x'])).toMatchObject({ code: 2 });
    expect(existsSync(nowhere)).toBe(false);
    expect(await line.run(['list', '--config-dir', '../other'])).toMatchObject({ code: 2 });
  });
});
