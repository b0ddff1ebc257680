// `npm run verify:install`: what people get who install this package, tried on this machine alone. Publishes the main and
// the platform packages into a registry on loopback, then installs them in blank folders with every package manager,
// without Rust, and uses them in every way that the documents promise. Ends 0 when all of it holds; prints tables.
//
//   node scripts/verify-install.mjs [--prebuilt] [--profile NAME] [NAME…]
//
// --prebuilt  takes the add-on that is there instead of building one
// NAME        only what begins so: package managers (`npm`, `yarn`), `types`, `package`, `bundlers`,
//             `react`

import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { runScript, Trouble } from './project.mjs';
import { TARGETS } from './targets.mjs';
import { bundlerSteps, checkerSteps, expectOutput, typeSteps } from './verify/consumers.mjs';
import { PACKAGE_MANAGERS } from './verify/managers.mjs';
import { prepare } from './verify/prepare.mjs';
import { mustRunProgram, temporaryFolder } from './verify/programs.mjs';
import { asCommonJs, asModule } from './verify/readme.mjs';
import { reactSteps } from './verify/react.mjs';
import { publishedWorld } from './verify/registry.mjs';
import { Report } from './verify/report.mjs';

const { platformTriple } = createRequire(import.meta.url)('../lib/platform.js');

const INSTALL_MS = 300_000;
const RUN_MS = 180_000;

/** Prints which platform packages the installed package would find, and whether it has a binary of its own. */
const LOOK = `
const { createRequire } = require('node:module');
const { existsSync, readdirSync } = require('node:fs');
const { dirname } = require('node:path');
const main = require.resolve('mcp-switchboard');
const beside = createRequire(main);
const platforms = ${JSON.stringify(TARGETS.map(({ triple }) => triple))};
const found = platforms.filter((triple) => {
  try {
    return existsSync(beside.resolve('@mcp-switchboard/' + triple + '/package.json'));
  } catch {
    return false;
  }
});
const own = readdirSync(dirname(main)).filter((name) => name.endsWith('.node'));
console.log(JSON.stringify({ found, own }));
`;

async function binaries(run, extra) {
  const { stdout } = await run('look.cjs');
  const { found, own } = JSON.parse(stdout.trim().split('\n').at(-1));
  if (own.length > 0) throw new Error(`the main package brings ${own.join(', ')}`);
  const mine = platformTriple();
  if (!found.includes(mine))
    throw new Error(`${mine} was not installed; there is ${found.join(', ') || 'none'}`);
  const needless = found.filter((triple) => triple !== mine && !extra.includes(triple));
  if (needless.length > 0)
    throw new Error(`binaries of other platforms were installed: ${needless.join(', ')}`);
}

async function tryManager(report, manager, { folder, env, registry, wanted }) {
  const { name } = manager;
  const place = join(folder, name.replaceAll(' ', '-'));
  mkdirSync(place, { recursive: true });
  manager.begin(place, registry);
  const command = await report.step(name, 'install', async () => {
    const start = await manager.command();
    await mustRunProgram(manager.install(start, wanted), { cwd: place, env, deadlineMs: INSTALL_MS });
    return start;
  });
  if (command === undefined) return;
  const files = {
    'look.cjs': LOOK,
    'readme.mjs': asModule(),
    'readme.cjs': asCommonJs(),
  };
  for (const [file, text] of Object.entries(files)) writeFileSync(join(place, file), text);
  const run = (file) =>
    mustRunProgram(manager.run(command, join(place, file)), { cwd: place, env, deadlineMs: RUN_MS });
  await report.step(name, 'one binary', () => binaries(run, manager.extra));
  await report.step(name, 'ES module', async () => expectOutput(await run('readme.mjs')));
  await report.step(name, 'CommonJS', async () => expectOutput(await run('readme.cjs')));
}

/** What is tried after the package managers. */
const OTHERS = { types: typeSteps, package: checkerSteps, bundlers: bundlerSteps, react: reactSteps };

await runScript(import.meta, async (args) => {
  const { names } = await prepare(args);
  const wanted = (name) => names.length === 0 || names.some((begin) => name.startsWith(begin));
  const managers = PACKAGE_MANAGERS.filter(({ name }) => wanted(name));
  const others = Object.entries(OTHERS).filter(([name]) => wanted(name));
  if (managers.length + others.length === 0) throw new Trouble(`there is nothing named ${names.join(', ')}`);

  const report = new Report('before');
  const world = await publishedWorld(report, temporaryFolder('install'));
  if (world === undefined) return report.end();
  report.table('package manager');
  for (const manager of managers) await tryManager(report, manager, world);
  for (const [, steps] of others) await steps(report, world);
  return report.end();
});
