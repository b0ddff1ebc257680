// `npm run build:platforms [-- [--profile NAME] TRIPLE…]`: the published binaries, as far as this machine can make them,
// each into its package under npm/. Linux by zig from anywhere; macOS and Windows on their own systems, so that nothing
// but package registries is needed. `win32-x64-gnu` is no published platform: a Windows build by MinGW, for smoke tests.
//
// --profile builds them in another profile than `release`, to try something out; those are not to be published.
// Ends with a table; a platform that was asked for by name and could not be built is a failure.

import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { gzipSync } from 'node:zlib';

import { builtLibrary, profileOf } from './build.mjs';
import { crossFolder, mingwEnvironment, Missing, standardLibrary, zigEnvironment } from './cross-tools.mjs';
import { withLock } from './lock.mjs';
import { root, run, runScript, stateFolder, Trouble } from './project.mjs';
import { GLIBC_BUILT, packageFolder, TARGETS, unfit } from './targets.mjs';
import { checkNode, checkRust } from './toolchain.mjs';

const { describeBinary } = createRequire(import.meta.url)('../lib/addon-file.js');

/** A Windows build that Wine can run; never published, so built quickly. */
export const SMOKE_TARGET = {
  triple: 'win32-x64-gnu',
  rust: 'x86_64-pc-windows-gnu',
  build: 'mingw',
  profile: 'dev',
  os: 'win32',
  cpu: 'x64',
  main: 'mcp-switchboard.win32-x64-msvc.node',
};

/** Where the binary of a target ends up. */
export function binaryFile(target) {
  const folder = target === SMOKE_TARGET ? join(crossFolder, target.triple) : packageFolder(target);
  return join(folder, target.main);
}

/** How cargo is called for a target: subcommand, name of the target, environment. */
async function recipe(target) {
  const { build, rust, libc, os } = target;
  if (build === 'mingw') return { command: 'build', env: await mingwEnvironment() };
  if (build === 'host') {
    if (process.platform !== os) throw new Missing(`builds on ${os} only`);
    // The C runtime is part of the binary: users need not install Visual C++.
    if (os === 'win32') return { command: 'build', env: { RUSTFLAGS: '-C target-feature=+crt-static' } };
    return { command: 'build', env: { MACOSX_DEPLOYMENT_TARGET: '11.0' } };
  }
  const env = await zigEnvironment();
  if (libc === 'glibc') return { command: 'zigbuild', name: `${rust}.${GLIBC_BUILT}`, env };
  // Node has loaded musl already; an add-on must not bring its own.
  return { command: 'zigbuild', env: { ...env, RUSTFLAGS: '-C target-feature=-crt-static' } };
}

/** Builds one target as it is published and returns its row of the table. */
async function buildTarget(cargo, target, profile) {
  const { rust } = target;
  const { command, name = rust, env } = await recipe(target);
  const library = await standardLibrary(rust);
  const started = performance.now();
  const args = [
    command,
    '--lib',
    `--profile=${target.profile ?? profile}`,
    '--target',
    name,
    ...library.args,
  ];
  const { code, text } = await run(cargo, [...args, '--message-format=json-render-diagnostics'], {
    output: 'capture',
    env: { ...env, ...library.env },
  });
  if (code !== 0) throw new Trouble(`\`cargo ${args.join(' ')}\` ended with code ${code}`);
  const file = binaryFile(target);
  mkdirSync(join(file, '..'), { recursive: true });
  copyFileSync(builtLibrary(text), file);
  if (target !== SMOKE_TARGET)
    copyFileSync(join(root, 'THIRD-PARTY-LICENSES.txt'), join(file, '..', 'THIRD-PARTY-LICENSES.txt'));
  return { target: target.triple, result: 'built', ...measures(target, file), seconds: seconds(started) };
}

/** Size and needs of a built binary; one that does not keep what its name promises is refused. */
function measures(target, file) {
  const bytes = readFileSync(file);
  const problem = unfit(target, bytes);
  if (problem) throw new Trouble(`${file} ${problem}`);
  const { glibc, libc } = describeBinary(bytes);
  const megabytes = (size) => (size / 1e6).toFixed(2);
  return {
    MB: megabytes(bytes.length),
    'MB gzip': megabytes(gzipSync(bytes).length),
    needs: glibc ? `glibc ${glibc}` : (libc ?? ''),
  };
}

function seconds(started) {
  return Math.round((performance.now() - started) / 1000);
}

/** The targets of that name, or all. */
export function chosenTargets(names) {
  const all = [...TARGETS, SMOKE_TARGET];
  const unknown = names.filter((name) => !all.some(({ triple }) => triple === name));
  if (unknown.length > 0)
    throw new Trouble(`unknown: ${unknown.join(', ')}; known: ${all.map(({ triple }) => triple).join(', ')}`);
  return names.length === 0 ? all : all.filter(({ triple }) => names.includes(triple));
}

await runScript(import.meta, async (args) => {
  const profile = profileOf(args, 'release');
  const names = args.filter((arg, n) => arg !== '--profile' && args[n - 1] !== '--profile');
  const targets = chosenTargets(names);
  checkNode();
  const cargo = await checkRust();
  const rows = [];
  await withLock(
    'platforms',
    async () => {
      for (const target of targets) {
        console.error(`build: ${target.triple}`);
        rows.push(await buildTarget(cargo, target, profile).catch((error) => notBuilt(target, error)));
      }
    },
    { folder: stateFolder },
  );
  console.table(rows);
  const failed = rows.filter(({ result }) => result === 'FAILED' || (names.length > 0 && result !== 'built'));
  return failed.length > 0 ? 1 : 0;
});

function notBuilt({ triple }, error) {
  if (error instanceof Missing) return { target: triple, result: `skipped: ${error.message}` };
  if (!(error instanceof Trouble)) throw error;
  console.error(`error: ${error.message}`);
  return { target: triple, result: 'FAILED' };
}
