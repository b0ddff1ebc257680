// Programs that the `verify` scripts need and nobody else does: other Nodes, other runtimes, package managers, bundlers.
// Each is installed into `.setup/verify/` from the registry that npm is set to, in one pinned version, without running
// install scripts; nothing of it becomes a dependency of the package.

import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { withLock } from '../lock.mjs';
import { readIfThere, run, stateFolder, Trouble } from '../project.mjs';
import { findNpm, nodePackage } from '../toolchain.mjs';

/** Node versions under which the package has to work: the newest of each line when this was written. */
export const NODES = { 20: '20.20.2', 22: '22.23.5', 24: '24.22.3', 26: '26.12.1' };
/** The Node for tools that this one may be too old for. */
export const TOOL_NODE = 24;
export const BUN = '1.4.5';
export const DENO = '2.9.6';

const folder = join(stateFolder, 'verify');

/**
 * Installs packages in a folder of their own and gives that folder's path. Done once for each set of versions.
 * @param {string} name of the folder
 * @param {Record<string, string>} dependencies name and exact version of each
 * @param {Record<string, string>} [overrides] versions of what those depend on
 */
export function installTools(name, dependencies, overrides = {}) {
  const place = join(folder, name);
  const manifest = `${JSON.stringify({ private: true, dependencies, overrides }, undefined, 2)}\n`;
  const stamp = join(place, 'installed');
  const done = () => readIfThere(stamp)?.toString() === manifest;
  return withLock('verify', async () => {
    if (done()) return place;
    console.error(`setup: installing ${name} (${Object.values(dependencies).join(', ')})`);
    rmSync(place, { recursive: true, force: true });
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, 'package.json'), manifest);
    const [command, ...prefix] = findNpm();
    const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock', '--loglevel=error'];
    const args = [...prefix, 'install', '--prefix', place, ...flags];
    const { code } = await run(command, args, { output: 'stderr' });
    if (code !== 0) throw new Trouble(`${name} did not install: npm ended with code ${code}`);
    writeFileSync(stamp, manifest);
    return place;
  });
}

/** The Node of a line (20, 22, …), as a path. */
export async function installNode(line) {
  const { name, program } = nodePackage(process.platform, process.arch);
  return installProgram(`node-${line}`, name, NODES[line], program);
}

const ARCHES = { x64: 'x64', arm64: 'aarch64' };
const suffix = process.platform === 'win32' ? '.exe' : '';

export async function installBun() {
  const system = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@oven/bun-${system}-${ARCHES[process.arch]}${isMusl() ? '-musl' : ''}`;
  return installProgram('bun', name, BUN, join('bin', `bun${suffix}`));
}

export async function installDeno() {
  if (isMusl()) throw new Trouble('there is no Deno for musl');
  const libc = process.platform === 'linux' ? '-glibc' : '';
  const name = `@deno/${process.platform}-${process.arch}${libc}`;
  return installProgram('deno', name, DENO, `deno${suffix}`);
}

function isMusl() {
  return process.platform === 'linux' && !process.report.getReport().header.glibcVersionRuntime;
}

async function installProgram(name, packageName, version, program) {
  const place = await installTools(name, { [packageName]: version });
  const file = join(place, 'node_modules', packageName, program);
  if (!existsSync(file)) throw new Trouble(`${packageName}@${version} has no ${program}`);
  return file;
}
