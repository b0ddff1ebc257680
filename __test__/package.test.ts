// The manifests: what a user installs and what a fresh clone needs.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(__dirname, '..');
const text = (...path: string[]) => readFileSync(join(root, ...path), 'utf8');
const manifest = JSON.parse(text('package.json'));

describe('package.json', () => {
  it('brings nothing but itself: no dependencies and no install scripts', () => {
    expect(manifest.dependencies).toBeUndefined();
    const hooks = /^(pre|post)?(install|prepare|publish|pack)$|^prepublishOnly$|^dependencies$/;
    expect(Object.keys(manifest.scripts).filter((name) => hooks.test(name))).toEqual([]);
  });

  it('has the commands that others rely on', () => {
    const commands = ['build', 'build:debug', 'start', 'test', 'bench', 'lint', 'format'];
    expect(Object.keys(manifest.scripts)).toEqual(expect.arrayContaining(commands));
  });

  it('carries the version of the crate', () => {
    expect(text('Cargo.toml')).toContain(`\nversion = "${manifest.version}"\n`);
  });

  it('pins what it is developed with', () => {
    const loose = Object.values(manifest.devDependencies as Record<string, string>).filter(
      (range) => !/^\d/.test(range),
    );
    expect(loose).toEqual([]);
  });

  it('packs exactly what the package needs at run time, and nothing that is built here', () => {
    const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
    const packed = execFileSync(npm, ['pack', '--dry-run', '--json', '--ignore-scripts'], {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      shell: process.platform === 'win32',
    });
    const [{ files }] = JSON.parse(packed) as [{ files: { path: string }[] }];
    const names = files.map(({ path }) => path);
    const code = names.filter((name) => !name.endsWith('.md') && name !== 'LICENSE').toSorted();
    const parts = readdirSync(join(root, 'lib')).map((name) => `lib/${name}`);
    const data = ['package.json', 'schema/mcp-config.schema.json'];
    expect(code).toEqual(['binding.js', 'index.d.ts', 'index.js', ...data, ...parts].toSorted());
  });
});

describe('package-lock.json', () => {
  it('names no address to fetch a package from, so that the registry is the one of the machine', () => {
    const packages = Object.values(
      JSON.parse(text('package-lock.json')).packages as Record<string, { resolved?: string }>,
    );
    expect(packages.length).toBeGreaterThan(100);
    const elsewhere = packages.filter(({ resolved }) => resolved !== undefined);
    expect(elsewhere).toEqual([]);
  });

  it('serves every platform: no optional package of another one is missing (npm/cli#4828)', () => {
    const packages: Record<string, { optionalDependencies?: Record<string, string> }> = JSON.parse(
      text('package-lock.json'),
    ).packages;
    const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies).filter(
        (name) => !packages[`node_modules/${name}`] && !packages[`${path}/node_modules/${name}`],
      ),
    );
    expect(missing).toEqual([]);
  });
});

describe('platform packages', () => {
  const triples = readdirSync(join(root, 'npm'));

  it('USE-05 are the eight published ones', () => {
    expect(triples.toSorted()).toEqual([
      'darwin-arm64',
      'darwin-x64',
      'linux-arm64-gnu',
      'linux-arm64-musl',
      'linux-x64-gnu',
      'linux-x64-musl',
      'win32-arm64-msvc',
      'win32-x64-msvc',
    ]);
  });

  it.each(triples)('%s is chosen by its own platform only', (triple) => {
    const [platform, arch, abi] = triple.split('-');
    const { name, version, main, files, os, cpu, libc, scripts, dependencies } = JSON.parse(
      text('npm', triple, 'package.json'),
    );
    expect({ name, version, os, cpu }).toEqual({
      name: `@mcp-switchboard/${triple}`,
      version: manifest.version,
      os: [platform],
      cpu: [arch],
    });
    expect(libc).toEqual({ gnu: ['glibc'], musl: ['musl'] }[abi ?? '']);
    expect(files).toEqual([main]);
    expect(main).toBe(`mcp-switchboard.${triple}.node`);
    expect(scripts ?? dependencies).toBeUndefined();
  });
});
