// `npm run verify:platforms [-- TRIPLE…]`: runs what `npm run build:platforms` built, each platform as npm would install it
// and on its own system or an emulation of it. What cannot be run here is named with the reason. The variable
// PLATFORM_RUNTIME, a command as JSON, puts another runtime in the place of Node (Electron, in the workflow).

import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { binaryFile, chosenTargets, SMOKE_TARGET } from './build-platforms.mjs';
import { Missing } from './cross-tools.mjs';
import { nodeFor } from './foreign-nodes.mjs';
import { root, run, runScript, Trouble } from './project.mjs';
import { currentVersion, packageFolder, TARGETS } from './targets.mjs';
import { checkNode } from './toolchain.mjs';

/** Emulated processors on a busy machine are slow. */
const LIMIT_MS = 300_000;
const OTHER_RUNTIME = process.env.PLATFORM_RUNTIME;
const FIXTURES = join(root, '__test__', 'fixtures');

/** The package and its platform package, as they lie in node_modules, beside the program that uses them. */
function install(target, folder) {
  const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const main = join(folder, 'node_modules', 'mcp-switchboard');
  for (const name of ['package.json', 'lib', ...files.filter((each) => /^\w+\.js$/.test(each))])
    cpSync(join(root, name), join(main, name), { recursive: true });
  // The Windows build for Wine stands in for the one that users get.
  const published = target === SMOKE_TARGET ? TARGETS.find(({ main: name }) => name === target.main) : target;
  const platform = join(folder, 'node_modules', published.name);
  mkdirSync(platform, { recursive: true });
  copyFileSync(join(packageFolder(published), 'package.json'), join(platform, 'package.json'));
  copyFileSync(binaryFile(target), join(platform, target.main));
  cpSync(join(FIXTURES, 'platform'), folder, { recursive: true });
  cpSync(join(FIXTURES, 'tls'), folder, { recursive: true });
}

/** What the program has to say on a platform. */
function expected({ cpu }) {
  const text = `grüße on ${cpu}`;
  return { version: currentVersion(), arch: cpu, clean: 'ab', https: text, streams: text };
}

async function verify(target) {
  if (!existsSync(binaryFile(target))) throw new Missing('not built here');
  const { command, env } = OTHER_RUNTIME ? { command: JSON.parse(OTHER_RUNTIME) } : await nodeFor(target);
  const folder = mkdtempSync(join(tmpdir(), 'switchboard-platform-'));
  try {
    install(target, folder);
    const [program, ...args] = [...command, join(folder, 'program.cjs')];
    // A server's command has to name the emulator too; Windows and Electron find themselves.
    const emulated = target.os !== 'win32' && !OTHER_RUNTIME;
    const server = { PLATFORM_SERVER_NODE: emulated ? JSON.stringify(command) : '' };
    const { code } = await run(program, args, {
      output: 'stderr',
      env: { ...env, ...server },
      cwd: folder,
      timeoutMs: LIMIT_MS,
    });
    if (code !== 0) throw new Trouble(`the program ended with code ${code}`);
    const said = JSON.parse(readFileSync(join(folder, 'said.json'), 'utf8'));
    const wrong = Object.entries(expected(target)).filter(([key, value]) => said[key] !== value);
    if (wrong.length > 0) throw new Trouble(wrong.map(([key]) => `${key}: ${said[key]}`).join('; '));
    return { target: target.triple, result: 'works', Node: said.node };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

await runScript(import.meta, async (names) => {
  checkNode();
  const targets = chosenTargets(names);
  const rows = [];
  for (const target of targets) {
    console.error(`verify: ${target.triple}`);
    rows.push(
      await verify(target).catch((error) => {
        if (error instanceof Missing) return { target: target.triple, result: `skipped: ${error.message}` };
        if (!(error instanceof Trouble)) throw error;
        return { target: target.triple, result: `FAILED: ${error.message}` };
      }),
    );
  }
  console.table(rows);
  const works = rows.filter(({ result }) => result === 'works');
  const failed = rows.filter(
    ({ result }) => result.startsWith('FAILED') || (names.length > 0 && result !== 'works'),
  );
  return failed.length > 0 || works.length === 0 ? 1 : 0;
});
