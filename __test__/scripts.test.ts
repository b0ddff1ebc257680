// The scripts behind `npm start`, `npm test` and `npm run lint`, as far as they decide something.
import { spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { binaryFile, chosenTargets } from '../scripts/build-platforms.mjs';
import { errorTable, errorsDocument } from '../scripts/errors-doc.mjs';
import { withLock } from '../scripts/lock.mjs';
import { asyncMethods } from '../scripts/source-check.mjs';
import { packageFolder, TARGETS } from '../scripts/targets.mjs';
import { offences } from '../scripts/workflow-check.mjs';

describe('source check', () => {
  it.each([
    ['#[napi]\nimpl Manager {\n    pub async fn call(&self) {}\n}', [3]],
    ['#[napi]\n#[cfg(unix)]\nimpl Manager {\n  fn a() { let b = "}"; }\n  async fn b() {}\n}', [5]],
    ['#[napi(js_name = "A")]\nimpl A {\n  // }\n  /* } */\n  #[napi]\n  pub async unsafe fn b() {}\n}', [6]],
    ['impl Plain {\n    async fn call(&self) {}\n}', []],
    ['#[napi]\nimpl A {\n  fn a(&self) { spawn(async move {}) }\n}\nimpl B {\n  async fn b() {}\n}', []],
    ['#[napi]\nimpl A {\n  // async fn in a comment\n  const S: &str = r#"async fn "} "#;\n}', []],
    ["#[napi]\nimpl<'a> A<'a> {\n  fn a(c: char) -> bool { c == '}' }\n  async fn b() {}\n}", [4]],
    ['#[napi]\npub struct A {}\nasync fn free() {}', []],
  ])('finds async methods of native classes in %j', (source, lines) => {
    expect(asyncMethods(source)).toEqual(lines);
  });
});

describe('workflows', () => {
  const folder = join(__dirname, '..', '.github', 'workflows');
  const texts = Object.fromEntries(
    readdirSync(folder).map((name) => [
      name,
      readFileSync(join(folder, name), 'utf8').replaceAll('\r\n', '\n'),
    ]),
  );
  const good = texts['release.yml'];

  it.each(Object.keys(texts))('%s keeps the rules', (name) => {
    expect(offences(texts[name])).toEqual([]);
  });

  it.each([
    ['an action by its tag', /@[0-9a-f]{40} # v\S+/, '@v6', 'not pinned'],
    ['an action without its version', / # v6\.0\.0/, '', 'not pinned'],
    ['no permissions', /permissions:\n {2}contents: read\n/, '', 'permissions are not'],
    ['more permissions', 'contents: read\n', 'contents: read\n  packages: read\n', 'permissions are not'],
    ['rights to write', 'id-token: write', 'contents: write', 'may write more'],
    ['foreign code', 'on:\n', 'on:\n  pull_request_target:\n', 'foreign code'],
    ['a token', 'run: npm test', 'run: npm publish # ${{ secrets.NPM_TOKEN }}', 'uses secrets'],
    ['credentials in the checkout', 'persist-credentials: false', 'fetch-depth: 0', 'keeps its credentials'],
  ])('refuses %s', (_, from, to, expected) => {
    const spoilt = good.replace(from, to);
    expect(spoilt).not.toBe(good);
    expect(offences(spoilt)).toEqual([expect.stringContaining(expected)]);
  });

  it('publishes from a tag only, after everything else, in a guarded environment, the main package last', () => {
    expect(good).toMatch(/^on:\n {2}push:\n {4}tags: \['v\[0-9\]/m);
    expect(good.match(/id-token: write/g)).toHaveLength(1);
    expect(good).toMatch(
      /publish:\n(?: {4}.*\n)*? {4}needs: \[platforms, check\]\n(?: {4}.*\n)*? {4}environment: npm\n/,
    );
    for (const [name, text] of Object.entries(texts))
      if (name !== 'release.yml') expect(text).not.toMatch(/npm publish|publish\.mjs|id-token/);
  });

  it('USE-05 build and test every platform', () => {
    const platforms = texts['platforms.yml'];
    for (const { triple } of TARGETS) {
      expect(platforms.match(new RegExp(`triple: ${triple}, os:`, 'g'))?.length).toBeGreaterThanOrEqual(2);
    }
    expect(platforms.match(/node: \[20, 22, 24, 26\]/g)).toHaveLength(2);
  });
});

describe('builds for platforms', () => {
  it('take all targets or those that are named, and none that is unknown', () => {
    expect(chosenTargets([]).map(({ triple }) => triple)).toEqual([
      ...TARGETS.map(({ triple }) => triple),
      'win32-x64-gnu',
    ]);
    expect(chosenTargets(['linux-x64-musl']).map(({ rust }) => rust)).toEqual(['x86_64-unknown-linux-musl']);
    expect(() => chosenTargets(['linux-x64-musl', 'sunos-sparc'])).toThrow('unknown: sunos-sparc');
  });

  it('never put the Windows build for Wine where it could be published', () => {
    const folders = TARGETS.map((target) => packageFolder(target));
    const [smoke] = chosenTargets(['win32-x64-gnu']);
    expect(folders.filter((folder) => binaryFile(smoke).startsWith(folder))).toEqual([]);
    for (const target of TARGETS) expect(folders).toContain(dirname(binaryFile(target)));
  });
});

const table = (rows: string) => `error_codes! {\n${rows}\n}\n`;

describe('docs/errors.md', () => {
  it('holds every code of the table', () => {
    const source = readFileSync(join(__dirname, '..', 'src', 'error.rs'), 'utf8');
    const document = errorsDocument(source);
    const rows = errorTable(source);
    expect(rows.length).toBeGreaterThan(50);
    for (const { code } of rows) expect(document).toContain(`| \`${code}\` |`);
  });

  it('refuses a table that it does not understand instead of leaving rows out', () => {
    expect(() => errorTable(table('    A "A" "McpError" false "Fine";\n    B => "B";'))).toThrow(
      'another shape',
    );
    expect(() => errorTable('')).toThrow('another shape');
  });

  it('keeps a bar in a sentence from breaking the table', () => {
    expect(errorsDocument(table('    A "A_B" "McpError" true "One | two";'))).toContain(
      'One \\| two | yes |',
    );
  });
});

describe('lock of the set-up', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'switchboard lock '));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const lock = () => join(folder, 'it.lock');
  const leaveLock = (owner: string, ageSeconds = 0) => {
    mkdirSync(lock());
    writeFileSync(join(lock(), 'owner'), owner);
    const then = Date.now() / 1000 - ageSeconds;
    utimesSync(join(lock(), 'owner'), then, then);
  };

  it('lets one in at a time and opens again after a failure', async () => {
    const log: string[] = [];
    const visit = (name: string) =>
      withLock(
        'it',
        async () => {
          log.push(`${name} in`);
          await new Promise((done) => setTimeout(done, 20));
          log.push(`${name} out`);
          if (name === 'a') throw new Error('a failed');
        },
        { folder },
      );
    const [first] = await Promise.allSettled([visit('a'), visit('b'), visit('c')]);
    expect(first.status).toBe('rejected');
    expect(log.length).toBe(6);
    for (let at = 0; at < log.length; at += 2) expect(log[at + 1]).toBe(log[at]!.replace('in', 'out'));
    expect(existsSync(lock())).toBe(false);
  });

  it('is taken over when its owner has died', async () => {
    const { pid } = spawnSync(process.execPath, ['-e', '']);
    leaveLock(String(pid));
    await expect(withLock('it', async () => 'mine', { folder })).resolves.toBe('mine');
  });

  it('is taken over when nobody has touched it for a minute, although the process id lives', async () => {
    leaveLock(String(process.pid), 90);
    await expect(withLock('it', async () => 'mine', { folder })).resolves.toBe('mine');
  });

  it('is respected while its owner lives', async () => {
    leaveLock(String(process.pid));
    let waited = 0;
    const visit = withLock('it', async () => 'late', { folder, onWait: () => (waited += 1) });
    await new Promise((done) => setTimeout(done, 300));
    expect(waited).toBe(1);
    rmSync(lock(), { recursive: true });
    await expect(visit).resolves.toBe('late');
  });

  it('keeps several processes apart that all find a stale lock', async () => {
    const { pid } = spawnSync(process.execPath, ['-e', '']);
    leaveLock(String(pid));
    const module = pathToFileURL(join(__dirname, '..', 'scripts', 'lock.mjs')).href;
    const log = join(folder, 'log');
    const source = `
      import { appendFileSync } from 'node:fs';
      import { withLock } from ${JSON.stringify(module)};
      const [log, folder] = process.argv.slice(-2);
      await withLock('it', async () => {
        appendFileSync(log, 'in\\n');
        await new Promise((done) => setTimeout(done, 30));
        appendFileSync(log, 'out\\n');
      }, { folder });`;
    const visitor = join(folder, 'visitor.mjs');
    writeFileSync(visitor, source);
    const codes = await Promise.all(
      Array.from({ length: 4 }, () => {
        const child = spawn(process.execPath, [visitor, log, folder], { stdio: 'inherit' });
        return new Promise((done) => child.once('close', done));
      }),
    );
    expect(codes).toEqual([0, 0, 0, 0]);
    expect(readFileSync(log, 'utf8')).toBe('in\nout\n'.repeat(4));
  });
});
