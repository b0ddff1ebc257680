// The programs that the scripts stand on: this Node, cargo and npm. Finds them and says in a sentence what is missing.

import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

import { run, Trouble } from './project.mjs';

const NODE_MINIMUM = [20, 17];
const RUST_MINIMUM = [1, 89];

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
