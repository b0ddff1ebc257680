// What programs that embed the package rely on: Node-API and nothing else, any number of contexts, Electron's ways.
import { execFileSync, fork } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import vm from 'node:vm';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { eventually, faulty, isAlive, root, runNode, temporaryDirectory } from './harness';

const require = createRequire(import.meta.url);
const { platformTriple } = require('../lib/platform.js') as { platformTriple(): string };
const addon = join(root, `mcp-switchboard.${platformTriple()}.node`);

/** Names in a table of dynamic symbols of an ELF file: those it defines, and those it wants. */
function dynamicSymbols(file: string) {
  const bytes = readFileSync(file);
  const [sections, size, count] = [
    Number(bytes.readBigUInt64LE(40)),
    bytes.readUInt16LE(58),
    bytes.readUInt16LE(60),
  ];
  const header = (index: number) => {
    const at = sections + index * size;
    const big = (offset: number) => Number(bytes.readBigUInt64LE(at + offset));
    return {
      type: bytes.readUInt32LE(at + 4),
      offset: big(24),
      size: big(32),
      link: bytes.readUInt32LE(at + 40),
    };
  };
  const DYNSYM = 11;
  const table = Array.from({ length: count }, (_, index) => header(index)).find(
    ({ type }) => type === DYNSYM,
  )!;
  const names = header(table.link).offset;
  const defined: string[] = [];
  const wanted: string[] = [];
  for (let at = table.offset; at < table.offset + table.size; at += 24) {
    const start = names + bytes.readUInt32LE(at);
    const name = bytes.toString('latin1', start, bytes.indexOf(0, start));
    if (name !== '') (bytes.readUInt16LE(at + 6) === 0 ? wanted : defined).push(name);
  }
  return { defined, wanted };
}

describe('USE-05 N5 Node-API only', () => {
  it.runIf(process.platform === 'linux')(
    'exports one symbol and wants none of V8, of Node or of libuv',
    () => {
      const { defined, wanted } = dynamicSymbols(addon);
      expect(
        defined.filter(
          (name) => !/^napi_register_module_v1$|^node_api_module_get_api_version_v1$/.test(name),
        ),
      ).toEqual([]);
      expect(wanted.length).toBeGreaterThan(10);
      // Node's own symbols are looked up when it is loaded; a name of C++ would tie it to one version of V8.
      expect(
        wanted.filter(
          (name) => /^_ZN|^v8|^uv_|^node_(?!api_)/.test(name) && !/^_ZN.*17h[0-9a-f]{16}E$/.test(name),
        ),
      ).toEqual([]);
    },
  );

  it('is loaded by many contexts at the same time, each with its own class', async () => {
    const source = `
      const { parentPort } = require('node:worker_threads');
      const { McpManager, buildToolName } = require(${JSON.stringify(root)});
      const manager = new McpManager({ config: false });
      manager.callTool('mcp__x__y').catch(async ({ code }) => {
        await manager.close();
        parentPort.postMessage([code, buildToolName('a', 'b')]);
      });`;
    const said = await Promise.all(
      Array.from({ length: 6 }, () => {
        const worker = new Worker(source, { eval: true });
        return new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
      }),
    );
    expect(said).toEqual(Array.from({ length: 6 }, () => ['SERVER_UNKNOWN', 'mcp__a__b']));
  });

  it('works in a vm context whose global object has nothing of Node', async () => {
    // What a program with contexts does: it runs the modules there and gives them `require` and the functions they name.
    const load = (context: vm.Context, cache: Map<string, { exports: unknown }>, file: string): unknown => {
      const known = cache.get(file);
      if (known) return known.exports;
      const module = { exports: {} as unknown };
      cache.set(file, module);
      const own = createRequire(file);
      const wrapped = `(function (exports, require, module, __filename, __dirname, process, Buffer, setImmediate, setInterval, clearInterval, setTimeout, clearTimeout, AbortController, AbortSignal, URL) {${readFileSync(file, 'utf8')}\n})`;
      const inner = (name: string) => {
        const path = own.resolve(name);
        return path.startsWith(root) && path.endsWith('.js') ? load(context, cache, path) : own(name);
      };
      vm.runInContext(wrapped, context, { filename: file })(
        module.exports,
        inner,
        module,
        file,
        join(file, '..'),
        process,
        Buffer,
        setImmediate,
        setInterval,
        clearInterval,
        setTimeout,
        clearTimeout,
        AbortController,
        AbortSignal,
        URL,
      );
      return module.exports;
    };
    const packages = [1, 2].map(
      () => load(vm.createContext({}), new Map(), join(root, 'index.js')) as typeof import('..'),
    );
    expect(packages[0].McpManager).not.toBe(packages[1].McpManager);
    for (const { McpManager, McpError } of packages) {
      const manager = new McpManager({
        config: false,
        permissions: { allow: ['mcp__*'] },
        servers: { s: faulty() },
      });
      const { content } = await manager.callTool('mcp__s__echo', { text: 'from a context' });
      expect(JSON.stringify(content)).toContain('from a context');
      await expect(manager.callTool('mcp__x__y')).rejects.toBeInstanceOf(McpError);
      await manager.close();
    }
  });

  it('puts nothing on the global object', async () => {
    const source = `
      const before = Object.getOwnPropertyNames(globalThis);
      const { McpManager } = require('mcp-switchboard');
      new McpManager({ config: false }).close().then(() => {
        console.log(JSON.stringify(Object.getOwnPropertyNames(globalThis).filter((name) => !before.includes(name))));
      });`;
    expect((await runNode(['-e', source])).stdout).toBe('[]\n');
  });
});

/** The sample with the package installed beside it, as a program that was built. */
function installElectronSample() {
  const folder = temporaryDirectory();
  cpSync(join(root, 'examples', 'electron'), folder, { recursive: true });
  const main = join(folder, 'node_modules', 'mcp-switchboard');
  const platform = join(folder, 'node_modules', '@mcp-switchboard', platformTriple());
  mkdirSync(platform, { recursive: true });
  const { files } = require('../package.json') as { files: string[] };
  for (const name of ['package.json', 'lib', ...files.filter((file) => /^\w+\.js$/.test(file))])
    cpSync(join(root, name), join(main, name), { recursive: true });
  cpSync(join(root, 'npm', platformTriple(), 'package.json'), join(platform, 'package.json'));
  cpSync(addon, join(platform, `mcp-switchboard.${platformTriple()}.node`));
  return folder;
}

/** Stands for Electron: as much of it as the sample uses, on a forked process of plain Node. Says yes to every question. */
const ELECTRON = `
const { fork } = require('node:child_process');
const { EventEmitter } = require('node:events');
const app = Object.assign(new EventEmitter(), {
  whenReady: async () => {},
  getPath: (name) => process.env['SAMPLE_' + name.toUpperCase()],
  quit() {
    let prevented = false;
    app.emit('before-quit', { preventDefault: () => (prevented = true) });
    if (!prevented) process.disconnect();
  },
});
const handlers = new Map();
const sent = [];
class BrowserWindow {
  static getAllWindows() { return [{ webContents: { send: (...message) => sent.push(message) } }]; }
  async loadFile(file) { require('node:fs').accessSync(file); }
}
const dialog = { asked: [], async showMessageBox(question) { this.asked.push(question.message); return { response: 1 }; } };
const utilityProcess = {
  fork(file) {
    const child = fork(file);
    child.postMessage = (message) => child.send(message);
    return child;
  },
};
module.exports = { app, BrowserWindow, dialog, ipcMain: { handle: (name, run) => handlers.set(name, run) }, utilityProcess };
process.on('message', async ({ call, input, quit }) => {
  if (quit) return app.quit();
  if (call === 'sent') return process.send({ sent, asked: dialog.asked });
  try {
    process.send({ result: await handlers.get(call)({}, ...input) });
  } catch (error) {
    process.send({ error: error.code ?? error.message });
  }
});
`;

describe('USE-05 the Electron sample, under plain Node', () => {
  it('keeps the package and its binary outside of the archive', () => {
    const { build } = JSON.parse(readFileSync(join(root, 'examples', 'electron', 'package.json'), 'utf8'));
    expect(build.asarUnpack).toEqual([
      '**/node_modules/mcp-switchboard/**',
      '**/node_modules/@mcp-switchboard/**',
    ]);
  });

  it('loads with ELECTRON_RUN_AS_NODE and process.versions.electron set', () => {
    const source = `
      Object.defineProperty(process.versions, 'electron', { value: '45.0.0', enumerable: true });
      process.type = 'utility';
      const { McpManager } = require('mcp-switchboard');
      new McpManager({ config: false }).close().then(() => console.log('closed'));`;
    const env = { ...process.env, ELECTRON_RUN_AS_NODE: '1' };
    const folder = installElectronSample();
    expect(execFileSync(process.execPath, ['-e', source], { cwd: folder, env, encoding: 'utf8' })).toBe(
      'closed\n',
    );
  });

  it('main process and host: opens servers, asks, calls a tool, tells errors, and leaves nothing behind', async () => {
    const folder = installElectronSample();
    const electron = join(folder, 'node_modules', 'electron');
    mkdirSync(electron, { recursive: true });
    writeFileSync(join(electron, 'index.js'), ELECTRON);
    // The sample starts its server with npx; here it is the one of the development dependencies.
    const file = join(folder, 'main.js');
    const server = require.resolve('@modelcontextprotocol/server-filesystem/dist/index.js');
    const text = readFileSync(file, 'utf8');
    expect(text).toContain("command: 'npx', args: ['-y', '@modelcontextprotocol/server-filesystem', folder]");
    writeFileSync(
      file,
      text.replace(
        "command: 'npx', args: ['-y', '@modelcontextprotocol/server-filesystem', folder]",
        `command: ${JSON.stringify(process.execPath)}, args: [${JSON.stringify(server)}, folder]`,
      ),
    );
    const documents = join(folder, 'documents');
    mkdirSync(documents);
    writeFileSync(join(documents, 'note.txt'), 'a note');
    const env = {
      ...process.env,
      ELECTRON_RUN_AS_NODE: '1',
      SAMPLE_DOCUMENTS: documents,
      SAMPLE_USERDATA: join(folder, 'data'),
    };
    const main = fork(file, [], { cwd: folder, env, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const ask = (message: object) =>
      new Promise<any>((resolve) => {
        main.once('message', resolve);
        main.send(message);
      });
    try {
      const seen = await eventually(
        async () => {
          const { result } = await ask({ call: 'tools', input: [] });
          return result?.length > 0 && result;
        },
        20_000,
        'the list of tools',
      );
      expect((seen as { name: string }[]).map(({ name }) => name)).toContain('mcp__files__read_text_file');
      const read = {
        call: 'call',
        input: ['mcp__files__read_text_file', { path: join(documents, 'note.txt') }],
      };
      expect((await ask(read)).result[0].text).toBe('a note');
      expect((await ask({ call: 'call', input: ['mcp__nobody__x', {}] })).error).toBe('SERVER_UNKNOWN');
      const { sent, asked } = await ask({ call: 'sent' });
      expect(asked).toEqual(['Let mcp__files__read_text_file run?']);
      expect(JSON.stringify(sent)).toContain('"connected"');
      const children = descendants(main.pid!);
      expect(children.length).toBeGreaterThan(0);
      const ended = new Promise((resolve) => main.once('exit', resolve));
      main.send({ quit: true });
      expect(await ended).toBe(0);
      for (const pid of children) await eventually(() => !isAlive(pid), 5000, `the end of ${pid}`);
    } finally {
      main.kill('SIGKILL');
    }
  }, 60_000);
});

/** Process ids below one, as `/proc` tells them; none where there is no `/proc`. */
function descendants(pid: number): number[] {
  if (!existsSync('/proc/self/stat')) return [pid];
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
    } catch {
      // It has ended meanwhile.
    }
  }
  const below = (parent: number): number[] =>
    [...parents].filter(([, up]) => up === parent).flatMap(([child]) => [child, ...below(child)]);
  return below(pid);
}
