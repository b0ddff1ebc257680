// Everything a fresh clone needs: checks Node and Rust, installs the packages of the lock file and builds the add-on.
// Quick when nothing changed. All it says goes to standard error, so that the output of what follows stays clean.
//
//   node scripts/setup.mjs [--profile local|release|dev]

import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { buildAddon, profileOf } from './build.mjs';
import { alone } from './lock.mjs';
import { hashFiles, readIfThere, root, run, runScript, stateFolder, Trouble } from './project.mjs';
import { checkNode, checkRust, findNpm } from './toolchain.mjs';

/** Installs what package-lock.json says, unless exactly that was installed before. */
export async function installPackages() {
  const stamp = join(stateFolder, 'packages');
  const wanted = `${process.platform}-${process.arch} ${hashFiles('package.json', 'package-lock.json')}\n`;
  const installed = existsSync(join(root, 'node_modules', '.package-lock.json'));
  if (installed && readIfThere(stamp)?.toString() === wanted) return;
  console.error('setup: installing packages');
  const [command, ...prefix] = findNpm();
  const flags = [
    '--include=dev',
    '--include=optional',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  ];
  const { code } = await run(command, [...prefix, 'ci', ...flags], { output: 'stderr' });
  if (code !== 0)
    throw new Trouble(`\`npm ci\` ended with code ${code}; the packages come from the npm registry`);
  mkdirSync(stateFolder, { recursive: true });
  writeFileSync(stamp, wanted);
}

/** All of the set-up. */
export async function setup(profile = 'local') {
  checkNode();
  const cargo = await checkRust();
  await alone(async () => {
    await installPackages();
    await buildAddon(cargo, profile);
  });
  return cargo;
}

await runScript(import.meta, async (args) => {
  await setup(profileOf(args, 'local'));
});
