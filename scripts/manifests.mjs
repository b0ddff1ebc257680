// One version, one table of platforms: writes what follows from them into package.json, package-lock.json, Cargo.toml,
// the lock files of cargo and npm/*.
//
//   node scripts/manifests.mjs [--version X.Y.Z] [--check]
//
// --check writes nothing and fails when something is out of date. `npm run release:version -- X.Y.Z` sets the version.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { readIfThere, root, runScript, Trouble } from './project.mjs';
import { currentVersion, TARGETS } from './targets.mjs';

const VERSION = /^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/;

/** Every file that depends on the version or the table, with the text that it should have. */
export function manifests(version, read) {
  const files = new Map([
    ['package.json', json(mainManifest(JSON.parse(read('package.json')), version))],
    ['package-lock.json', json(lockFile(JSON.parse(read('package-lock.json')), version))],
    ['Cargo.toml', replaceOnce(read('Cargo.toml'), /^(\[package\]\n(?:.+\n)*?version = )".*"/m, version)],
    ['Cargo.lock', crateInLock(read('Cargo.lock'), version)],
    ['fuzz/Cargo.lock', crateInLock(read('fuzz/Cargo.lock'), version)],
  ]);
  const { repository } = JSON.parse(read('package.json'));
  for (const target of TARGETS) {
    files.set(`npm/${target.triple}/package.json`, json(platformManifest(target, version, repository)));
    files.set(`npm/${target.triple}/README.md`, readme(target));
    files.set(`npm/${target.triple}/LICENSE`, read('LICENSE'));
  }
  return files;
}

function json(value) {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

/** Exact versions: a binary serves the JavaScript of its own release only. */
function optionalDependencies(version) {
  return Object.fromEntries(TARGETS.map(({ name }) => [name, version]));
}

function mainManifest(manifest, version) {
  return { ...manifest, version, optionalDependencies: optionalDependencies(version) };
}

/**
 * npm cannot resolve packages that are not published yet and would leave them out; `npm ci` then refuses the lock file.
 * With these entries it passes over what it does not find, since optional packages may fail.
 */
function lockFile(lock, version) {
  const { '': main, ...rest } = lock.packages;
  const entries = TARGETS.map(({ name, os, cpu, libc }) => [
    `node_modules/${name}`,
    { version, cpu: [cpu], ...(libc ? { libc: [libc] } : {}), license: 'MIT', optional: true, os: [os] },
  ]);
  const packages = Object.entries({ ...rest, ...Object.fromEntries(entries) });
  const { name, devDependencies, engines, license, ...others } = main;
  const wishes = { devDependencies, engines, optionalDependencies: optionalDependencies(version) };
  const first = {
    name,
    version,
    license,
    ...wishes,
    ...others,
    optionalDependencies: wishes.optionalDependencies,
  };
  return {
    ...lock,
    version,
    packages: {
      '': first,
      ...Object.fromEntries(packages.sort(([left], [right]) => left.localeCompare(right, 'en'))),
    },
  };
}

function platformManifest({ name, title, main, os, cpu, libc }, version, repository) {
  return {
    name,
    version,
    description: `The native add-on of mcp-switchboard for ${title}`,
    license: 'MIT',
    // Provenance wants it in every package.
    ...(repository ? { repository } : {}),
    main,
    files: [main, 'THIRD-PARTY-LICENSES.txt'],
    engines: { node: '>=20.17' },
    os: [os],
    cpu: [cpu],
    ...(libc ? { libc: [libc] } : {}),
  };
}

function readme({ name, title, rust }) {
  return `# ${name}

The native add-on of [mcp-switchboard](https://www.npmjs.com/package/mcp-switchboard) for ${title} (Rust target
\`${rust}\`). npm picks it by itself; there is no reason to install it directly.
`;
}

function crateInLock(text, version) {
  return replaceOnce(text, /^(name = "mcp-switchboard"\nversion = )".*"/m, version);
}

function replaceOnce(text, pattern, version) {
  if (!pattern.test(text)) throw new Trouble(`no version found by ${pattern}`);
  return text.replace(pattern, `$1"${version}"`);
}

await runScript(import.meta, (args) => {
  const at = args.indexOf('--version');
  const version = at < 0 ? currentVersion() : args[at + 1];
  if (!VERSION.test(version ?? ''))
    throw new Trouble('--version needs a version, such as 1.2.3 or 1.2.3-beta.1');
  const read = (name) => readFileSync(join(root, name), 'utf8').replaceAll('\r\n', '\n');
  const stale = [...manifests(version, read)].filter(
    ([name, text]) => readIfThere(join(root, name))?.toString().replaceAll('\r\n', '\n') !== text,
  );
  if (stale.length === 0) return;
  const names = stale.map(([name]) => name).join(', ');
  if (args.includes('--check')) throw new Trouble(`out of date: ${names} (run \`npm run format\`)`);
  for (const [name, text] of stale) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
  console.error(`manifests: wrote ${names}`);
});
