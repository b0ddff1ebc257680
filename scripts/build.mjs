// Builds the native add-on and puts it beside binding.js under the name of this platform.
//
//   node scripts/build.mjs [--profile local|release|dev]

import { copyFileSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';

import { alone } from './lock.mjs';
import { readIfThere, root, run, runScript, Trouble } from './project.mjs';
import { checkNode, checkRust } from './toolchain.mjs';

const { platformTriple } = createRequire(import.meta.url)('../lib/platform.js');
const PROFILES = ['local', 'release', 'dev'];

/** The profile named by `--profile`, or the default. */
export function profileOf(args, fallback) {
  const at = args.indexOf('--profile');
  const profile = at < 0 ? fallback : args[at + 1];
  if (PROFILES.includes(profile)) return profile;
  throw new Trouble(`--profile must be one of ${PROFILES.join(', ')}`);
}

/** Builds with cargo (quick when nothing changed) and installs the result. */
export async function buildAddon(cargo, profile) {
  const args = ['build', '--lib', '--profile', profile, '--message-format=json-render-diagnostics'];
  const { code, text } = await run(cargo, args, { output: 'capture' });
  if (code !== 0) throw new Trouble(`\`cargo build\` ended with code ${code}`);
  const library = builtLibrary(text);
  const target = join(root, `mcp-switchboard.${platformTriple()}.node`);
  if (replaceIfChanged(library, target)) console.error(`build: ${basename(target)} (${profile})`);
  return target;
}

/** Cargo itself says where it put the library: its target folder may be configured anywhere. */
export function builtLibrary(messages) {
  const files = messages
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
    .filter(({ reason, target }) => reason === 'compiler-artifact' && target.name === 'mcp_switchboard')
    .flatMap(({ filenames }) => filenames);
  const library = files.find((file) => /\.(so|dylib|dll)$/.test(file));
  if (library) return library;
  throw new Trouble('cargo built no library that Node could load');
}

/** Other processes may have the old file open or may be about to open it: it is replaced whole, by renaming. */
function replaceIfChanged(source, target) {
  if (readIfThere(target)?.equals(readFileSync(source))) return false;
  const fresh = `${target}.${process.pid}.tmp`;
  copyFileSync(source, fresh);
  try {
    renameSync(fresh, target);
  } catch (error) {
    // Windows does not replace a library that is loaded, but lets it be renamed.
    if (process.platform !== 'win32') throw error;
    rmSync(`${target}.old`, { force: true });
    renameSync(target, `${target}.old`);
    renameSync(fresh, target);
  }
  return true;
}

await runScript(import.meta, async (args) => {
  const profile = profileOf(args, 'release');
  checkNode();
  const cargo = await checkRust();
  await alone(() => buildAddon(cargo, profile));
});
