// The loader of the native add-on: what it says when nothing fits (case N1) and where it looks.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const root = join(__dirname, '..');
const { platformTriple } = createRequire(__filename)('../lib/platform.js') as { platformTriple(): string };
const triple = platformTriple();

let folder: string;
let loader: string;

/** A package as npm would install it, without any binary. */
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'switchboard loader '));
  const installed = join(folder, 'node_modules', 'mcp-switchboard');
  mkdirSync(join(installed, 'lib'), { recursive: true });
  for (const file of ['binding.js', 'lib/platform.js', 'package.json']) {
    copyFileSync(join(root, file), join(installed, file));
  }
  loader = join(installed, 'binding.js');
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

function load(env: Record<string, string> = {}) {
  const script = 'console.log(JSON.stringify(require(process.argv[1])))';
  const childEnv = { ...process.env, MCP_SWITCHBOARD_BINARY: '', ...env };
  return spawnSync(process.execPath, ['-e', script, loader], { encoding: 'utf8', env: childEnv });
}

function installPlatformPackage(name: string, source: string) {
  const target = join(folder, 'node_modules', '@mcp-switchboard', name);
  mkdirSync(target, { recursive: true });
  writeFileSync(join(target, 'index.js'), source);
}

describe('without a binary', () => {
  it('N1 lists what was looked for, what was found and how to mend it', () => {
    const { status, stderr } = load();
    expect(status).not.toBe(0);
    expect(stderr).toContain(`no native add-on for ${triple}`);
    expect(stderr).toContain(`mcp-switchboard.${triple}.node: not found`);
    expect(stderr).toContain(`@mcp-switchboard/${triple}: not found`);
    expect(stderr).toContain('installed platform packages: none');
    expect(stderr).toContain('--omit=optional');
    expect(stderr).toContain('MCP_SWITCHBOARD_BINARY');
  });

  it('N1 names the packages that a lock file of another platform brought', () => {
    installPlatformPackage('sunos-sparc', '');
    const { stderr } = load();
    expect(stderr).toContain('installed platform packages: sunos-sparc');
    expect(stderr).toContain('come from another platform');
  });

  it('does not blame the lock file when the right package is there but does not load', () => {
    installPlatformPackage(triple, 'throw new Error("version GLIBC_9.99 not found\\nmore");');
    const { stderr } = load();
    expect(stderr).toContain(`tried @mcp-switchboard/${triple}: version GLIBC_9.99 not found\n`);
    expect(stderr).toContain('installed but does not load');
    expect(stderr).not.toContain('another platform');
  });

  it('says why a file that is there does not load', () => {
    writeFileSync(join(loader, '..', `mcp-switchboard.${triple}.node`), 'no library');
    const { status, stderr } = load();
    expect(status).not.toBe(0);
    expect(stderr).toMatch(new RegExp(`tried .*mcp-switchboard\\.${triple}\\.node: (?!not found).+`));
  });

  it('tells the source checkout to build', () => {
    writeFileSync(join(loader, '..', 'Cargo.toml'), '');
    expect(load().stderr).toContain('npm run build');
  });
});

describe('search order', () => {
  it('takes the platform package', () => {
    installPlatformPackage(triple, 'module.exports = { from: "package" };');
    expect(load()).toMatchObject({ status: 0, stdout: '{"from":"package"}\n' });
  });

  it('lets MCP_SWITCHBOARD_BINARY win', () => {
    installPlatformPackage(triple, 'module.exports = { from: "package" };');
    const own = join(folder, 'own.js');
    writeFileSync(own, 'module.exports = { from: "own" };');
    expect(load({ MCP_SWITCHBOARD_BINARY: own })).toMatchObject({ status: 0, stdout: '{"from":"own"}\n' });
  });

  it('does not hide a wrong MCP_SWITCHBOARD_BINARY behind another binary', () => {
    installPlatformPackage(triple, 'module.exports = { from: "package" };');
    const { status, stderr } = load({ MCP_SWITCHBOARD_BINARY: join(folder, 'absent.node') });
    expect(status).not.toBe(0);
    expect(stderr).toContain('absent.node: not found');
  });

  it('has a literal require for every platform package (case N4)', async () => {
    const { readFile } = await import('node:fs/promises');
    const source = await readFile(join(root, 'binding.js'), 'utf8');
    const required = [...source.matchAll(/require\('@mcp-switchboard\/([^']+)'\)/g)].map(([, name]) => name);
    expect(required.toSorted()).toEqual(readdirSync(join(root, 'npm')).toSorted());
  });
});
