// The manifests: what a user installs and what a fresh clone needs.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';

import { chosenLicenses } from '../scripts/licenses.mjs';
import { manifests } from '../scripts/manifests.mjs';
import { guarded, notFromHere } from '../scripts/publish.mjs';
import { GLIBC_CEILING, packageFolder, TARGETS, unfit } from '../scripts/targets.mjs';

const root = join(__dirname, '..');
const load = createRequire(__filename);
const { platformTriple } = load('../lib/platform.js') as { platformTriple(): string };
const { compareVersions, describeBinary } = load('../lib/addon-file.js') as {
  compareVersions(left: string, right: string): number;
  describeBinary(bytes: Buffer): { glibc?: string };
};
const text = (...path: string[]) => readFileSync(join(root, ...path), 'utf8');
const manifest = JSON.parse(text('package.json'));

describe('package.json', () => {
  it('brings nothing but itself: no dependencies and no install scripts', () => {
    expect(manifest.dependencies).toBeUndefined();
    const hooks = /^(pre|post)?(install|prepare|publish|pack)$|^dependencies$/;
    expect(Object.keys(manifest.scripts).filter((name) => hooks.test(name))).toEqual([]);
  });

  it('has the commands that others rely on', () => {
    const commands = ['build', 'build:debug', 'start', 'test', 'bench', 'lint', 'format'];
    expect(Object.keys(manifest.scripts)).toEqual(expect.arrayContaining(commands));
  });

  it('USE-05 wishes for every platform package, in exactly its own version', () => {
    const wanted = Object.fromEntries(TARGETS.map(({ name }) => [name, manifest.version]));
    expect(manifest.optionalDependencies).toEqual(wanted);
  });

  it('has one version and one table of platforms, and everything else follows', () => {
    for (const [name, expected] of manifests(manifest.version, text)) expect(text(name), name).toBe(expected);
    const next = manifests('9.8.7-beta.1', text);
    expect(next.size).toBe(5 + 3 * TARGETS.length);
    for (const [name, content] of next) {
      if (/README|LICENSE/.test(name)) continue;
      expect(content, name).toMatch(/"?version"?(: | = )"9\.8\.7-beta\.1"/);
    }
    expect(next.get('package.json')?.match(/9\.8\.7-beta\.1/g)).toHaveLength(1 + TARGETS.length);
  });

  it('pins what it is developed with', () => {
    const loose = Object.values(manifest.devDependencies as Record<string, string>).filter(
      (range) => !/^\d/.test(range),
    );
    expect(loose).toEqual([]);
  });

  it('packs exactly what the package needs at run time, and nothing that is built here', () => {
    const parts = ['bin', 'lib', 'react', 'zoo'].flatMap(filesBelow);
    const documents = readdirSync(join(root, 'docs')).map((name) => `docs/${name}`);
    const legal = ['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md', 'THIRD-PARTY-LICENSES.txt'];
    const data = ['package.json', 'schema/mcp-config.schema.json'];
    const { names, size } = packed(root);
    const code = ['binding.js', 'bridge-relay.d.ts', 'index.d.ts', 'index.js'];
    expect(names).toEqual([...code, ...data, ...documents, ...legal, ...parts].toSorted());
    expect(parts.filter((name) => !/\.(m?js|d\.ts)$/.test(name))).toEqual([]);
    expect(documents.filter((name) => !name.endsWith('.md'))).toEqual([]);
    expect(size).toBeLessThan(300_000);
  });
});

/** Every file below a folder, as `npm pack` names it. */
function filesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).replaceAll('\\', '/'));
}

/** What `npm pack` would put into the package of a folder, and how large it would be, packed. */
function packed(folder: string) {
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
  const output = execFileSync(npm, ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    shell: process.platform === 'win32',
  });
  const [{ files, size }] = JSON.parse(output) as [{ files: { path: string }[]; size: number }];
  return { names: files.map(({ path }) => path).toSorted(), size };
}

describe('publishing', () => {
  const tagged = {
    GITHUB_ACTIONS: 'true',
    GITHUB_REF: 'refs/tags/v1.2.3',
    GITHUB_REPOSITORY: 'somebody/something',
  };
  const released = {
    version: '1.2.3',
    repository: { url: 'git+https://github.com/somebody/something.git' },
  };

  it('is refused to everybody but the release workflow at the tag of the version', () => {
    expect(notFromHere(tagged, released)).toBeUndefined();
    expect(notFromHere(tagged, { ...released, version: '1.2.4' })).toContain('the tag has to be v1.2.4');
    expect(notFromHere({ ...tagged, GITHUB_REF: 'refs/heads/main' }, released)).toContain('v1.2.3');
    expect(notFromHere({}, released)).toContain('release workflow only');
    expect(notFromHere(tagged, { version: '1.2.3', repository: undefined })).toContain(
      '`repository` in package.json',
    );
    expect(notFromHere({ ...tagged, GITHUB_REPOSITORY: 'a/fork' }, released)).toContain('has to name a/fork');
  });

  it('is refused to a bare `npm publish`, unless the registry is on this machine', () => {
    expect(manifest.scripts.prepublishOnly).toBe('node scripts/publish.mjs --guard');
    expect(guarded({ npm_config_registry: 'https://registry.npmjs.org/' }, '1.2.3')).toContain(
      'never by hand',
    );
    expect(guarded({ npm_config_registry: 'http://localhost.example.org/' }, '1.2.3')).toContain(
      'never by hand',
    );
    expect(guarded({ npm_config_registry: 'http://127.0.0.1:4873/' }, '1.2.3')).toBeUndefined();
    expect(guarded({ MCP_SWITCHBOARD_PUBLISH: '1.2.3' }, '1.2.3')).toBeUndefined();
    expect(guarded({ MCP_SWITCHBOARD_PUBLISH: 'yes' }, '1.2.3')).toContain('never by hand');
  });
});

describe('published binaries', () => {
  const target = (triple: string) => TARGETS.find((each) => each.triple === triple)!;
  const binary = (each: (typeof TARGETS)[number]) => join(packageFolder(each), each.main);

  /** Whatever `npm run build:platforms` has built; in the release workflow that is the file that gets published. */
  describe.each(TARGETS.map(({ triple }) => triple))('%s', (triple) => {
    const built = existsSync(binary(target(triple)));
    it.runIf(built)(`N3 is for its platform and needs no glibc newer than ${GLIBC_CEILING}`, () => {
      expect(unfit(target(triple), readFileSync(binary(target(triple))))).toBeUndefined();
    });
  });

  it('are refused when they are for something else', () => {
    const elf = Buffer.alloc(64);
    elf.write('\x7fELF\x02\x01', 'latin1');
    elf.writeUInt16LE(183, 18);
    expect(unfit(target('linux-x64-gnu'), elf)).toBe('is built for linux-arm64');
    expect(unfit(target('linux-arm64-gnu'), elf)).toBe('is linked with undefined');
    expect(unfit(target('darwin-x64'), elf)).toBe('is built for linux-arm64');
    expect(unfit(target('linux-x64-gnu'), Buffer.from('no'))).toBe('is damaged');
  });

  const addon = join(root, `mcp-switchboard.${platformTriple()}.node`);
  const readelf = spawnSync('readelf', ['--version-info', '--wide', addon], { encoding: 'utf8' });

  it.runIf(readelf.status === 0)('N3 are read as readelf reads them', () => {
    const theirs = [...readelf.stdout.matchAll(/Name: GLIBC_([\d.]+) /g)].map(([, version]) => version);
    const newest = theirs.sort(compareVersions).at(-1);
    expect(describeBinary(readFileSync(addon)).glibc).toBe(newest);
    if (!newest || platformTriple() !== 'linux-x64-gnu') return;
    const tooNew = `2.${'9'.repeat(newest.length - 2)}`;
    const changed = readFileSync(addon, 'latin1').replaceAll(`GLIBC_${newest}\0`, `GLIBC_${tooNew}\0`);
    const spoilt = Buffer.from(changed, 'latin1');
    expect(unfit(target('linux-x64-gnu'), spoilt)).toBe(
      `needs glibc ${tooNew}, but ${GLIBC_CEILING} is the promise`,
    );
  });
});

describe('licences of linked crates', () => {
  it.each([
    ['MIT OR Apache-2.0', ['MIT']],
    ['Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT', ['MIT']],
    ['Unlicense/MIT', ['MIT']],
    ['(MIT OR Apache-2.0) AND Unicode-3.0', ['MIT', 'Unicode-3.0']],
    ['Apache-2.0 AND ISC', ['Apache-2.0', 'ISC']],
  ])('%s is taken as %j', (expression, chosen) => {
    expect(chosenLicenses(expression)).toEqual(chosen);
  });

  it.each(['GPL-3.0', 'MIT AND GPL-3.0', 'LGPL-2.1 OR MPL-2.0'])('%s is refused', (expression) => {
    expect(() => chosenLicenses(expression)).toThrow('not among those that we accept');
  });

  it('are in the file that is shipped, every crate with a text', () => {
    const [, ...sections] = text('THIRD-PARTY-LICENSES.txt').split(/\n-{80}\n(?=[a-z])/);
    const index = [...text('THIRD-PARTY-LICENSES.txt').matchAll(/^([\w-]+ \d[^:\s]*): [A-Z]/gm)].map(
      ([, name]) => name,
    );
    expect(index.length).toBeGreaterThan(100);
    for (const name of ['ring', 'rustls', 'tokio', 'napi', 'windows-sys', 'security-framework'])
      expect(
        index.some((each) => each.startsWith(`${name} `)),
        name,
      ).toBe(true);
    const heads = sections.map((section) => section.split('\n', 1)[0]).join(', ');
    expect(index.filter((name) => !heads.includes(name))).toEqual([]);
    expect(index.filter((name) => /^(napi-build|proptest|rmcp|serde_derive) /.test(name))).toEqual([]);
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
  it('USE-05 are the eight published ones', () => {
    const triples = [
      'darwin-arm64',
      'darwin-x64',
      'linux-arm64-gnu',
      'linux-arm64-musl',
      'linux-x64-gnu',
      'linux-x64-musl',
      'win32-arm64-msvc',
      'win32-x64-msvc',
    ];
    expect(TARGETS.map(({ triple }) => triple).toSorted()).toEqual(triples);
    expect(readdirSync(join(root, 'npm')).toSorted()).toEqual(triples);
  });

  it.each(TARGETS.map(({ triple }) => triple))('%s is chosen by its own platform only', (triple) => {
    const [platform, arch, abi = ''] = triple.split('-');
    const libcs: Record<string, string[]> = { gnu: ['glibc'], musl: ['musl'] };
    const { name, version, main, files, os, cpu, libc, license, scripts, dependencies } = JSON.parse(
      text('npm', triple, 'package.json'),
    );
    expect({ name, version, os, cpu, license }).toEqual({
      name: `@mcp-switchboard/${triple}`,
      version: manifest.version,
      os: [platform],
      cpu: [arch],
      license: 'MIT',
    });
    expect(libc).toEqual(libcs[abi]);
    expect(files).toEqual([main, 'THIRD-PARTY-LICENSES.txt']);
    expect(main).toBe(`mcp-switchboard.${triple}.node`);
    expect(scripts ?? dependencies).toBeUndefined();
  });

  it('pack nothing but the binary and what the law and npm want', () => {
    const { names } = packed(join(root, 'npm', 'linux-x64-gnu'));
    // The binary and the licences are there once it was built for publishing.
    const built = new Set(['THIRD-PARTY-LICENSES.txt', 'mcp-switchboard.linux-x64-gnu.node']);
    expect(names.filter((name) => !built.has(name))).toEqual(['LICENSE', 'README.md', 'package.json']);
  });
});
