// The loader of the native add-on: where it looks, and what it says when nothing fits, one cause at a time (case N1).
// The files are real: copies of the add-on of this platform, cut, patched or renamed.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

type BinaryFacts = { format?: string; platform?: string; arch?: string; libc?: string; complete: boolean };

const root = join(__dirname, '..');
const load = createRequire(__filename);
const { libcOfMaps, platformTriple } = load('../lib/platform.js') as {
  libcOfMaps(maps: string): string | undefined;
  platformTriple(): string;
};
const { describeBinary } = load('../lib/addon-file.js') as { describeBinary(bytes: Buffer): BinaryFacts };
const { diagnose } = load('../lib/addon-error.js') as {
  diagnose(facts: object): { reason: string; sentence: string; fix: string };
};
const { version } = load('../package.json') as { version: string };
const triple = platformTriple();
const [platform, arch] = triple.split('-');
const binary = `mcp-switchboard.${triple}.node`;
const otherLibc = triple.endsWith('musl') ? 'gnu' : 'musl';
const linux = platform === 'linux';
const glibc = triple.endsWith('-gnu');
/** A runtime starts in well under this even on a busy machine. */
const LIMIT_MS = 60_000;

let folder: string;
let installed: string;

/** A package as npm would install it, without any binary. */
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'switchboard loader '));
  installed = join(folder, 'node_modules', 'mcp-switchboard');
  mkdirSync(installed, { recursive: true });
  cpSync(join(root, 'lib'), join(installed, 'lib'), { recursive: true });
  for (const file of ['index.js', 'binding.js', 'package.json'])
    copyFileSync(join(root, file), join(installed, file));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** What a program sees that loads the package: the version, or the error. `before` runs first. */
function outcome({ env = {}, before = '', runtime = [process.execPath], flags = [] as string[] } = {}) {
  const script = join(folder, 'program.cjs');
  writeFileSync(
    script,
    `${before}
     let seen;
     try { seen = { version: require('mcp-switchboard').version }; }
     catch ({ message, code, reason, cause }) { seen = { message, code, reason, cause: String(cause) }; }
     console.log(JSON.stringify(seen)); process.exit(0);`,
  );
  const [command, ...args] = runtime;
  const { stdout, stderr } = spawnSync(command, [...args, ...flags, script], {
    encoding: 'utf8',
    cwd: folder,
    env: { ...process.env, MCP_SWITCHBOARD_BINARY: '', ...env },
  });
  if (stdout === '') throw new Error(`nothing was said: ${stderr}`);
  return JSON.parse(stdout) as { version?: string; message: string; code?: string; reason?: string };
}

/** The sentence that names the cause, and what is below it. */
function told(seen: ReturnType<typeof outcome>) {
  const [first, ...rest] = (seen.message ?? '').split('\n');
  expect(seen).toMatchObject({ code: 'ADDON_UNAVAILABLE' });
  expect(first).toMatch(/^mcp-switchboard cannot load its native add-on: .+\.$/);
  expect(rest.filter((line) => line.startsWith('  looked for: '))).not.toEqual([]);
  expect(rest.at(-2)).toMatch(/^ {2}found: .+; this process is .+, Node \d/);
  expect(rest.at(-1)).toMatch(/^ {2}to fix: .+\.$/);
  return {
    reason: seen.reason,
    sentence: first,
    lookedFor: rest.slice(0, -2),
    found: rest.at(-2),
    fix: rest.at(-1),
  };
}

function packageFolder(name: string) {
  return join(folder, 'node_modules', '@mcp-switchboard', name);
}

/** Installs a platform package with these bytes as its add-on; without bytes, the file is missing. */
function installPackage(name: string, bytes?: Buffer) {
  const file = join(packageFolder(name), `mcp-switchboard.${name}.node`);
  cpSync(join(root, 'npm', name, 'package.json'), join(packageFolder(name), 'package.json'));
  if (bytes) writeFileSync(file, bytes);
  return file;
}

const addon = () => readFileSync(join(root, binary));

/** Replaces every occurrence of some text by other text of the same length. */
function patched(bytes: Buffer, from: string, to: string) {
  expect(to).toHaveLength(from.length);
  const copy = Buffer.from(bytes);
  for (let at = copy.indexOf(from); at >= 0; at = copy.indexOf(from, at + 1)) copy.write(to, at, 'latin1');
  expect(copy.equals(bytes)).toBe(false);
  return copy;
}

function withMachine(bytes: Buffer, machine: number) {
  const copy = Buffer.from(bytes);
  copy.writeUInt16LE(machine, 18);
  return copy;
}

function lockFile(name: string, text: string) {
  writeFileSync(join(folder, name), text);
}

describe('no binary is there', () => {
  it('N1 --omit=optional: nothing was installed although the lock file has it', () => {
    lockFile(
      'package-lock.json',
      `{"node_modules/mcp-switchboard":{},"node_modules/@mcp-switchboard/${triple}":{}}`,
    );
    const { reason, sentence, lookedFor, found, fix } = told(outcome());
    expect(reason).toBe('omitted');
    expect(sentence).toContain(
      `@mcp-switchboard/${triple} was left out of the install, as with \`--omit=optional\``,
    );
    expect(lookedFor[0]).toContain(`${binary}: not found`);
    expect(lookedFor[1]).toContain(`@mcp-switchboard/${triple}: not installed`);
    expect(found).toContain(`no platform packages; this process is ${triple}`);
    expect(fix).toContain('--include=optional');
    expect(fix).toContain('MCP_SWITCHBOARD_BINARY');
  });

  it.each([
    [
      'package-lock.json',
      `{"node_modules/mcp-switchboard":{"optionalDependencies":{"@mcp-switchboard/${triple}":"1"}}}`,
    ],
    [
      'pnpm-lock.yaml',
      `  mcp-switchboard@1:\n    optionalDependencies:\n      '@mcp-switchboard/${triple}': 1\n`,
    ],
    ['yarn.lock', `mcp-switchboard@1:\n  optionalDependencies:\n    "@mcp-switchboard/${triple}" "1"\n`],
  ])('N1 npm/cli#4828: a %s made on another platform', (name, text) => {
    lockFile(name, text);
    const { reason, sentence, fix } = told(outcome());
    expect(reason).toBe('foreign-lock-file');
    expect(sentence).toContain(
      `${name} was made on another platform: it does not have @mcp-switchboard/${triple}`,
    );
    expect(fix).toContain('delete it and node_modules');
  });

  it('N1 a folder that was installed for another platform', () => {
    installPackage(platform === 'win32' ? 'darwin-arm64' : 'win32-x64-msvc', Buffer.from('MZ'));
    const { reason, sentence, found } = told(outcome());
    expect(reason).toBe('foreign-modules');
    expect(sentence).toContain('node_modules was installed for another platform: it holds');
    expect(found).toMatch(/found: (darwin-arm64|win32-x64-msvc);/);
  });

  it.runIf(linux)('N3 a package for the other C library', () => {
    installPackage(`linux-${arch}-${otherLibc}`, addon());
    const { reason, sentence, fix } = told(outcome());
    expect(reason).toBe('wrong-libc');
    expect(sentence).toMatch(
      /holds the add-on for (musl|glibc) \(linux-.*\), but this process runs on (glibc|musl)\./,
    );
    expect(fix).toContain('inside the image or system');
  });

  it('N6 a package whose file was deleted', () => {
    const file = installPackage(triple);
    const { reason, sentence, fix } = told(outcome());
    expect(reason).toBe('missing');
    expect(sentence).toContain(`@mcp-switchboard/${triple} is installed, but its file ${file} was deleted`);
    expect(fix).toContain('delete node_modules and install again');
  });

  it('N3 a platform for which nothing is published', () => {
    const before = `Object.defineProperty(process, 'platform', { value: 'freebsd' });`;
    const { reason, sentence, fix } = told(outcome({ before }));
    expect(reason).toBe('unsupported-platform');
    expect(sentence).toContain(`no add-on is published for freebsd-${process.arch}`);
    expect(fix).toContain('linux-x64-musl');
    expect(fix).toContain('build from source');
  });

  it('tells a source checkout to build', () => {
    writeFileSync(join(installed, 'Cargo.toml'), '');
    const { reason, fix } = told(outcome());
    expect(reason).toBe('not-built');
    expect(fix).toContain('npm run build');
  });
});

describe('a binary is there and does not load', () => {
  it.each([
    ['cut short', () => addon().subarray(0, 100_000), /is damaged: it ends too early \(100000 bytes\)/],
    ['cut within its head', () => addon().subarray(0, 30), /is damaged: it ends too early \(30 bytes\)/],
    ['something else', () => Buffer.from('<html>'), /is damaged: it is no shared library/],
    ['empty', () => Buffer.alloc(0), /is damaged: it is no shared library/],
  ])('N1 corrupt: %s', (_, bytes, expected) => {
    const file = installPackage(triple, bytes());
    const { reason, sentence, fix } = told(outcome());
    expect(reason).toBe('corrupt');
    expect(sentence).toContain(file);
    expect(sentence).toMatch(expected);
    expect(fix).toContain('npm cache verify');
  });

  it.runIf(linux)('another processor', () => {
    installPackage(triple, withMachine(addon(), arch === 'x64' ? 183 : 62));
    const { reason, sentence } = told(outcome());
    expect(reason).toBe('wrong-platform');
    expect(sentence).toContain(
      `is built for linux-${arch === 'x64' ? 'arm64' : 'x64'}, but this process is linux-${arch}`,
    );
  });

  it('another system', () => {
    const foreign = Buffer.alloc(512);
    if (platform === 'darwin')
      withMachine(Buffer.concat([Buffer.from('\x7fELF\x02\x01'), foreign]), 62).copy(foreign);
    else foreign.writeUInt32LE(0xfeedfacf, 0);
    installPackage(triple, foreign);
    const { reason, sentence } = told(outcome());
    expect(reason).toBe('wrong-platform');
    expect(sentence).toContain(`but this process is ${platform}-${arch}`);
  });

  it.runIf(glibc)('N3 the right name, but linked with musl', () => {
    installPackage(triple, patched(addon(), 'libc.so.6\0', 'libc.so\0\0\0'));
    const { reason, sentence } = told(outcome());
    expect(reason).toBe('wrong-libc');
    expect(sentence).toContain('is built for musl, but this process runs on glibc');
  });

  it.runIf(
    glibc && existsSync(join(root, 'npm', `linux-${arch}-musl`, `mcp-switchboard.linux-${arch}-musl.node`)),
  )('N3 the real build for musl', () => {
    const name = `linux-${arch}-musl`;
    installPackage(triple, readFileSync(join(root, 'npm', name, `mcp-switchboard.${name}.node`)));
    expect(told(outcome())).toMatchObject({ reason: 'wrong-libc' });
  });

  it.runIf(glibc)('N3 glibc is too old', () => {
    const newest = (describeBinary(addon()) as { glibc?: string }).glibc as string;
    const future = `2.${'9'.repeat(newest.length - 2)}`;
    const file = installPackage(triple, patched(addon(), `GLIBC_${newest}\0`, `GLIBC_${future}\0`));
    const { reason, sentence, found, fix } = told(outcome());
    expect(reason).toBe('old-glibc');
    expect(sentence).toMatch(new RegExp(`: .* needs glibc ${future}, but this system has 2\\.\\d+\\.$`));
    expect(sentence).toContain(file);
    expect(found).toMatch(/with glibc 2\.\d+/);
    expect(fix).toContain('newer system');
    // A runtime without a report knows the cause all the same.
    const bare = told(outcome({ before: `Object.defineProperty(process, 'report', { value: undefined });` }));
    expect(bare.sentence).toContain(`needs glibc ${future}, but this system has an older one`);
  });

  it('binary and JavaScript are of different versions', () => {
    const other = version.replace(/^\d+/, (major) => String((Number(major) + 1) % 10));
    const manifest = readFileSync(join(installed, 'package.json'), 'utf8');
    writeFileSync(
      join(installed, 'package.json'),
      manifest.replace(`"version": "${version}"`, `"version": "${other}"`),
    );
    installPackage(triple, addon());
    const { reason, sentence } = told(outcome());
    expect(reason).toBe('version-mismatch');
    expect(sentence).toContain(
      `@mcp-switchboard/${triple} is version ${version}, but the JavaScript around it is version ${other}`,
    );
  });

  it('keeps the error of the system as its cause', () => {
    installPackage(triple, Buffer.from('no library'));
    expect(outcome()).toMatchObject({ cause: expect.stringMatching(/^Error: .+/) });
  });

  const facts = {
    triple: 'linux-x64-gnu',
    glibc: '2.36',
    published: ['linux-x64-gnu'],
    installed: ['linux-x64-gnu'],
    attempts: [
      {
        file: '/there.node',
        binary: { format: 'elf', platform: 'linux', arch: 'x64', libc: 'gnu', glibc: '2.17', complete: true },
        error: undefined as Error | undefined,
      },
    ],
  };

  it.each([
    ['/there.node: failed to map segment from shared object: Operation not permitted', 'refused', /noexec/],
    ['dlopen(/there.node): code signature not valid for use in process', 'refused', /quarantine/],
    ['libgcc_s.so.1: cannot open shared object file', 'load-failed', /build from source/],
  ])('%s', (message, reason, fix) => {
    const [attempt] = facts.attempts;
    const found = diagnose({ ...facts, attempts: [{ ...attempt, error: new Error(message) }] });
    expect(found).toMatchObject({ reason, sentence: expect.stringContaining(message) });
    expect(found.fix).toMatch(fix);
  });
});

describe('search order', () => {
  it('takes the platform package', () => {
    installPackage(triple, addon());
    expect(outcome()).toEqual({ version });
  });

  it('takes a file beside the loader before the package', () => {
    installPackage(triple, Buffer.from('broken'));
    copyFileSync(join(root, binary), join(installed, binary));
    expect(outcome()).toEqual({ version });
  });

  it('passes over a file beside the loader that does not load', () => {
    writeFileSync(join(installed, binary), 'broken');
    installPackage(triple, addon());
    expect(outcome()).toEqual({ version });
  });

  it('lets MCP_SWITCHBOARD_BINARY win', () => {
    const own = join(folder, 'own.node');
    copyFileSync(join(root, binary), own);
    expect(outcome({ env: { MCP_SWITCHBOARD_BINARY: own } })).toEqual({ version });
  });

  it.each([
    ['does not exist', undefined, 'missing', 'the file that MCP_SWITCHBOARD_BINARY names'],
    ['is damaged', 'broken', 'corrupt', 'own.node is damaged'],
  ])('does not hide a MCP_SWITCHBOARD_BINARY that %s behind the package', (_, content, reason, words) => {
    installPackage(triple, addon());
    const own = join(folder, 'own.node');
    if (content) writeFileSync(own, content);
    const seen = told(outcome({ env: { MCP_SWITCHBOARD_BINARY: own } }));
    expect(seen.reason).toBe(reason);
    expect(seen.sentence).toContain(words);
    expect(seen.fix).toContain('or unset it');
  });

  it('N4 has a literal require for every platform package', () => {
    const source = readFileSync(join(root, 'binding.js'), 'utf8');
    const required = [...source.matchAll(/require\('@mcp-switchboard\/([^']+)'\)/g)].map(([, name]) => name);
    expect(required.toSorted()).toEqual(readdirSync(join(root, 'npm')).toSorted());
  });
});

describe(
  'platform of this process',
  () => {
    it.each([
      ['7f00 r-xp 00000000 fe:00 12   /usr/lib/x86_64-linux-gnu/libc.so.6', 'gnu'],
      ['7f00 r-xp 00000000 fe:00 12   /usr/lib/x86_64-linux-gnu/libc-2.28.so', 'gnu'],
      ['7f00 r-xp 00000000 fe:00 12   /lib/ld-musl-x86_64.so.1', 'musl'],
      ['7f00 r-xp 00000000 fe:00 12   /usr/lib/x86_64-linux-musl/libc.so', 'musl'],
      ['7f00 r-xp 00000000 fe:00 12   /usr/bin/node', undefined],
      ['', undefined],
    ])('N3 %j is %s', (maps, expected) => {
      expect(libcOfMaps(`5500 r--p 00000000 fe:00 1   /usr/bin/node\n${maps}\n`)).toBe(expected);
    });

    it.each([
      ['process.report is absent', `Object.defineProperty(process, 'report', { value: undefined });`],
      [
        'the map of the process cannot be read',
        `require('node:fs').readFileSync = ((read) => (file, ...rest) => {
       if (file === '/proc/self/maps') throw new Error('no');
       return read(file, ...rest); })(require('node:fs').readFileSync);`,
      ],
    ])('loads when %s', (_, before) => {
      installPackage(triple, addon());
      expect(outcome({ before })).toEqual({ version });
    });

    it('N9 loads in a worker thread, and tells its cause there too', () => {
      const worker = `const { isMainThread, Worker } = require('node:worker_threads');
      if (isMainThread) { new Worker(__filename); return; }`;
      installPackage(triple, addon());
      expect(outcome({ before: worker })).toEqual({ version });
      rmSync(packageFolder(triple), { recursive: true });
      expect(told(outcome({ before: worker }))).toMatchObject({ reason: 'omitted' });
    });
  },
  LIMIT_MS,
);

describe('heads of libraries', () => {
  it('knows the add-on of this platform', () => {
    const facts = describeBinary(addon());
    expect(facts).toMatchObject({ platform, arch, complete: true });
    if (linux) expect(facts.libc).toBe(triple.split('-')[2]);
  });

  it('N1 is never thrown off by damage', () => {
    const whole = addon();
    for (let n = 0; n < 500; n += 1) {
      const size = (n * 7919) % 4096;
      const bytes = Buffer.from(
        whole.subarray(0, n % 3 === 0 ? size : whole.length > 65_536 ? 65_536 : whole.length),
      );
      for (let k = 0; k < 8 && bytes.length > 0; k += 1)
        bytes[(n * 31 + k * 977) % bytes.length] = (n * 17 + k) % 256;
      expect(describeBinary(bytes)).toHaveProperty('complete');
    }
  });
});
