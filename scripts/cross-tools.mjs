// What building for other platforms takes beyond Node and cargo: zig as compiler and linker, the standard library of each
// target, MinGW. Everything comes from package registries and goes into .setup/cross.

import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import { mustRun, run, stateFolder, Trouble } from './project.mjs';
import { findPython } from './toolchain.mjs';

export const crossFolder = join(stateFolder, 'cross');
/** zig is the C compiler and the linker, cargo-zigbuild makes cargo use it. */
const ZIG_PACKAGES = ['ziglang==0.15.2', 'cargo-zigbuild==0.24.1'];

/** A piece that cannot be had on this machine: what needs it is passed over, with this as the reason. */
export class Missing extends Error {}

/** Runs a program and reports its failure as a missing piece. */
export async function obtain(what, command, args, options = { output: 'stderr' }) {
  const { code, text } = await run(command, args, options);
  if (code !== 0) throw new Missing(`${what}: \`${command} ${args[0]}\` ended with code ${code}`);
  return text;
}

/** A folder of Python packages, made once per set of packages. Returns where its programs are. */
export async function pythonTools(name, packages) {
  const folder = join(crossFolder, [name, ...packages].join('+').replaceAll('==', '-'));
  const programs = join(folder, process.platform === 'win32' ? 'Scripts' : 'bin');
  const stamp = join(folder, 'complete');
  if (existsSync(stamp)) return programs;
  const python = await findPython();
  if (!python) throw new Missing('Python 3.10 or newer with venv is not installed');
  console.error(`setup: making an environment of Python (${name})`);
  mkdirSync(crossFolder, { recursive: true });
  await obtain('Python', python, ['-m', 'venv', '--clear', folder]);
  const install = ['-m', 'pip', 'install', '--quiet', ...packages];
  if (packages.length > 0) await obtain('PyPI', join(programs, 'python'), install);
  writeFileSync(stamp, '');
  return programs;
}

/** The environment in which `cargo zigbuild` works. */
export async function zigEnvironment() {
  const programs = await pythonTools('zig', ZIG_PACKAGES);
  return { PATH: `${programs}${delimiter}${process.env.PATH}` };
}

/**
 * Makes the standard library of a target available. Returns the arguments and the environment with which cargo finds it:
 * none if rustup has it; else cargo compiles it, from the sources that are installed (`rustup component add rust-src`) or
 * with the compiler and the sources of Debian.
 */
export async function standardLibrary(target) {
  const sysroot = (await mustRun('rustc', ['--print', 'sysroot'], { output: 'capture' })).text.trim();
  if (existsSync(join(sysroot, 'lib', 'rustlib', target, 'lib'))) return { args: [], env: {} };
  const { code } = await run('rustup', ['target', 'add', target], { output: 'quiet' });
  if (code === 0) return { args: [], env: {} };
  const args = ['-Z', 'build-std=std,panic_unwind'];
  const env = { RUSTC_BOOTSTRAP: '1' };
  if (existsSync(join(sysroot, 'lib', 'rustlib', 'src', 'rust', 'library', 'Cargo.lock')))
    return { args, env };
  return { args, env: { ...env, ...(await debianRust()) } };
}

/** Debian builds Firefox with a Rust that is new enough for us, in its security updates. */
async function debianRust() {
  if (process.platform !== 'linux') throw new Missing('no standard library: rustup does not have it');
  const { debianFiles } = await import('./debian.mjs');
  const names = ['rustc-web', 'libstd-rust-web-1.96', 'libstd-rust-web-dev', 'rust-web-src', 'libllvm22'];
  const files = await debianFiles(process.arch, names, 'debian-security bookworm-security');
  const libraries = join(
    files,
    'usr',
    'lib',
    process.arch === 'arm64' ? 'aarch64-linux-gnu' : 'x86_64-linux-gnu',
  );
  return { RUSTC: join(files, 'usr', 'bin', 'rustc'), LD_LIBRARY_PATH: libraries };
}

/** Where MinGW's compiler is, as the environment for cargo; Debian's package is gcc-mingw-w64-x86-64. */
export async function mingwEnvironment() {
  const compiler = 'x86_64-w64-mingw32-gcc';
  const { code } = await run(compiler, ['--version'], { output: 'quiet' });
  if (code !== 0) throw new Missing(`${compiler} is not installed (Debian: gcc-mingw-w64-x86-64)`);
  return { LIBNODE_PATH: await emptyNodeLibrary(compiler) };
}

/** napi-build wants a libnode.dll to link with; with `dyn-symbols` nothing of it is used. */
async function emptyNodeLibrary(compiler) {
  const folder = join(crossFolder, 'libnode');
  const library = join(folder, 'libnode.dll');
  if (existsSync(library)) return folder;
  mkdirSync(folder, { recursive: true });
  const source = join(folder, 'libnode.c');
  writeFileSync(source, '__declspec(dllexport) int switchboard_unused(void) { return 0; }\n');
  const { code } = await run(compiler, ['-shared', '-o', library, source]);
  if (code !== 0) throw new Trouble('MinGW cannot link a library');
  return folder;
}
