// The package managers, each with the way to install a package in a blank folder and to run a program there.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { findNpm } from '../toolchain.mjs';
import { MARK } from './readme.mjs';
import { installBun, installDeno, installTools } from './tools.mjs';

const MANAGERS = { pnpm: '12.21.0', yarn: '1.22.22', '@yarnpkg/cli-dist': '4.18.1' };
const OLDER = { pnpm: '10.34.8' };
const node = process.execPath;

/** What a manager installs that does not know the C library of a package. */
const BOTH_LIBCS = [`linux-${process.arch}-gnu`, `linux-${process.arch}-musl`];

/** A program of an installed manager that Node runs. */
const script = async (set, versions, ...path) => {
  const place = await installTools(set, versions);
  return [node, join(place, 'node_modules', ...path)];
};

function manifest(folder) {
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify({ name: MARK, private: true })}\n`);
}

/** A release must not be a day old to be tried here; the loopback registry speaks plain HTTP. */
function yarnSettings(folder, registry, linker) {
  const lines = [
    `nodeLinker: ${linker}`,
    `npmRegistryServer: ${JSON.stringify(registry)}`,
    'unsafeHttpWhitelist: ["127.0.0.1"]',
    'npmMinimalAgeGate: 0',
    'enableTelemetry: false',
    'enableGlobalCache: false',
    'enableImmutableInstalls: false',
    // Without it only CommonJS finds packages, unless the project itself is an ES module.
    'pnpEnableEsmLoader: true',
  ];
  writeFileSync(join(folder, '.yarnrc.yml'), `${lines.join('\n')}\n`);
}

function yarn4(name, linker) {
  const command = () => script('managers', MANAGERS, '@yarnpkg', 'cli-dist', 'bin', 'yarn.js');
  return {
    name,
    command,
    begin(folder, registry) {
      manifest(folder);
      writeFileSync(join(folder, 'yarn.lock'), '');
      yarnSettings(folder, registry, linker);
    },
    install: (yarn, wanted) => [...yarn, 'add', wanted],
    run: linker === 'pnp' ? (yarn, file) => [...yarn, 'node', file] : undefined,
  };
}

/**
 * `command` is how the manager is started, `begin` what has to lie in the folder, `install` the command that installs,
 * `run` the one that runs a file (with Node, if it has none), `extra` what it may install beside the right binary.
 */
export const PACKAGE_MANAGERS = [
  {
    name: 'npm',
    command: async () => findNpm(),
    install: (npm, wanted) => [...npm, 'install', wanted],
  },
  {
    name: 'pnpm 12',
    command: () => script('managers', MANAGERS, 'pnpm', 'bin', 'pnpm.mjs'),
    install: (pnpm, wanted) => [...pnpm, 'add', wanted],
  },
  {
    name: 'pnpm 10',
    command: () => script('pnpm-10', OLDER, 'pnpm', 'bin', 'pnpm.cjs'),
    install: (pnpm, wanted) => [...pnpm, 'add', wanted],
  },
  {
    name: 'yarn 1',
    command: () => script('managers', MANAGERS, 'yarn', 'bin', 'yarn.js'),
    install: (yarn, wanted) => [...yarn, 'add', wanted, '--non-interactive'],
    extra: BOTH_LIBCS,
  },
  yarn4('yarn 4', 'node-modules'),
  yarn4('yarn 4 PnP', 'pnp'),
  {
    name: 'bun',
    command: async () => [await installBun()],
    install: (bun, wanted) => [...bun, 'add', wanted],
    run: (bun, file) => [...bun, file],
  },
  {
    name: 'deno',
    command: async () => [await installDeno()],
    begin(folder) {
      manifest(folder);
      const settings = { nodeModulesDir: 'auto', minimumDependencyAge: 0 };
      writeFileSync(join(folder, 'deno.json'), JSON.stringify(settings));
    },
    install: (deno, wanted) => [...deno, 'add', `npm:${wanted}`],
    run: (deno, file) => [...deno, 'run', '--allow-ffi', '--allow-env', '--allow-read', file],
    extra: BOTH_LIBCS,
  },
].map((manager) => ({
  begin: (folder) => manifest(folder),
  run: (_, file) => [node, file],
  extra: [],
  ...Object.fromEntries(Object.entries(manager).filter(([, value]) => value !== undefined)),
}));
