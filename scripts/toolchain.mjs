// The programs that the scripts stand on: this Node, cargo and npm. Finds them and says in a sentence what is missing.

import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

import { run, stateFolder, Trouble } from './project.mjs';

const NODE_MINIMUM = [20, 17];
const RUST_MINIMUM = [1, 89];
/** Version that is installed for tools which this Node is too old for; there is a package of it for every platform. */
const NEW_NODE = '22.23.2';

function atLeast([major, minor], [wantedMajor, wantedMinor]) {
  return major > wantedMajor || (major === wantedMajor && minor >= wantedMinor);
}

/** Ends the script with a sentence when this Node is too old. */
export function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (atLeast([major, minor], NODE_MINIMUM)) return;
  throw new Trouble(
    `Node ${NODE_MINIMUM.join('.')} or newer is needed; this is Node ${process.versions.node}`,
  );
}

/** The cargo to use; ends the script with a sentence when there is none or it is too old. */
export async function checkRust() {
  const wanted = RUST_MINIMUM.join('.');
  const found = await findCargo();
  if (!found)
    throw new Trouble(`no working cargo was found: install Rust ${wanted} or newer (https://rustup.rs)`);
  if (!atLeast([found.major, found.minor], RUST_MINIMUM)) {
    throw new Trouble(
      `Rust ${wanted} or newer is needed; found ${found.major}.${found.minor} (try \`rustup update\`)`,
    );
  }
  return found.cargo;
}

/** A Python that can make environments, if there is one. */
export async function findPython() {
  const wanted = 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))';
  for (const candidate of ['python3', 'python']) {
    if ((await run(candidate, ['-c', wanted], { output: 'quiet' })).code === 0) return candidate;
  }
  return undefined;
}

/** npm as a program that can be started without a shell on every platform. */
export function findNpm() {
  const node = dirname(process.execPath);
  const candidates = [
    process.env.npm_execpath,
    join(node, 'node_modules', 'npm', 'bin', 'npm-cli.js'),
    join(node, '..', 'lib', 'node_modules', 'npm', 'bin', 'npm-cli.js'),
  ];
  const script = candidates.find((file) => file?.endsWith('npm-cli.js') && existsSync(file));
  return script ? [process.execPath, script] : ['npm'];
}

/**
 * A Node that can run the conformance suite: this one if it is new enough, else one from the npm registry, kept with the
 * state of the scripts. The package of the platform is taken as it is, since the one named `node` needs its install script.
 */
export async function findNewNode() {
  const [major] = process.versions.node.split('.').map(Number);
  if (major >= Number.parseInt(NEW_NODE)) return process.execPath;
  const { name, program } = nodePackage(process.platform, process.arch);
  const folder = join(stateFolder, `node-${NEW_NODE}`);
  const file = join(folder, 'node_modules', name, program);
  if (existsSync(file)) return file;
  console.error(`setup: installing Node ${NEW_NODE} beside this one`);
  mkdirSync(folder, { recursive: true });
  const [command, ...prefix] = findNpm();
  const flags = ['--prefix', folder, '--no-save', '--no-package-lock', '--ignore-scripts', '--no-audit'];
  const { code } = await run(
    command,
    [...prefix, 'install', ...flags, '--no-fund', '--loglevel=error', `${name}@${NEW_NODE}`],
    { output: 'stderr' },
  );
  if (code !== 0 || !existsSync(file))
    throw new Trouble(`Node ${NEW_NODE} did not install; run this with Node 22 or newer instead`);
  return file;
}

/** The package that holds nothing but Node for a platform, and where the program is in it. */
export function nodePackage(platform, arch) {
  const system = platform === 'win32' ? 'win' : platform;
  const prefix = platform === 'darwin' && arch === 'arm64' ? 'node-bin' : 'node';
  const program = platform === 'win32' ? join('bin', 'node.exe') : join('bin', 'node');
  return { name: `${prefix}-${system}-${arch}`, program };
}

/** The cargo to use: `CARGO`, the one on the PATH, or the one rustup puts in the home folder. */
async function findCargo() {
  const suffix = process.platform === 'win32' ? '.exe' : '';
  const cargoHome = process.env.CARGO_HOME ?? join(homedir(), '.cargo');
  for (const candidate of [process.env.CARGO, 'cargo', join(cargoHome, 'bin', `cargo${suffix}`)]) {
    if (!candidate) continue;
    const { code, text } = await run(candidate, ['--version'], { output: 'quiet' });
    const version = /^cargo (\d+)\.(\d+)/.exec(text);
    if (code === 0 && version)
      return { cargo: candidate, major: Number(version[1]), minor: Number(version[2]) };
  }
  return undefined;
}
