// Those who use the installed package at build time: the compiler, the checkers of packages, and bundlers with the
// settings that docs/embedding.md gives, read from there.

import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { root, Trouble } from '../project.mjs';
import { findNpm } from '../toolchain.mjs';
import { mustRunProgram } from './programs.mjs';
import { asCommonJsTypeScript, asFunction, asModule, asTypeScript, EXPECTED, MARK } from './readme.mjs';
import { installTools } from './tools.mjs';

const INSTALL_MS = 300_000;
const BUILD_MS = 180_000;
const RUN_MS = 180_000;
const node = process.execPath;

export const COMPILERS = { 'TypeScript 5': '5.9.3', 'TypeScript 6': '6.0.3', 'TypeScript 7': '7.0.2' };
export const NODE_TYPES = '20.19.43';
/** How a program may be compiled: its settings, and the files that they suit. */
const RESOLUTIONS = {
  node16: { module: 'node16', moduleResolution: 'node16', files: ['module.mts', 'common.cts'] },
  nodenext: { module: 'nodenext', moduleResolution: 'nodenext', files: ['module.mts', 'common.cts'] },
  bundler: { module: 'esnext', moduleResolution: 'bundler', files: ['module.mts', 'plain.ts'] },
};

const CHECKERS = { publint: '0.3.25', '@arethetypeswrong/cli': '0.18.5' };
const BUNDLERS = { esbuild: '0.28.2', vite: '8.3.8', webpack: '5.113.0', 'webpack-cli': '7.3.1' };

/** `world`: `{ folder, env, wanted, packed }`, as verify-install.mjs makes it. */
export async function installed(world, name, packages) {
  const place = join(world.folder, name);
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, 'package.json'), '{ "private": true, "type": "module" }\n');
  const command = [...findNpm(), 'install', '--ignore-scripts', world.wanted, ...packages];
  await mustRunProgram(command, { cwd: place, env: world.env, deadlineMs: INSTALL_MS });
  return place;
}

/** Strict, and with every declaration checked. */
export async function typeSteps(report, world) {
  report.table('types');
  for (const [title, version] of Object.entries(COMPILERS)) {
    const name = title.replace(' ', '-').toLowerCase();
    const packages = [`typescript@${version}`, `@types/node@${NODE_TYPES}`];
    const place = await report.step(title, 'install', () => installed(world, name, packages));
    if (place === undefined) continue;
    writeFileSync(join(place, 'module.mts'), asTypeScript());
    writeFileSync(join(place, 'plain.ts'), asTypeScript());
    writeFileSync(join(place, 'common.cts'), asCommonJsTypeScript());
    for (const [resolution, { files, ...settings }] of Object.entries(RESOLUTIONS)) {
      await report.step(title, resolution, () => compile(world, place, settings, files));
    }
  }
}

async function compile(world, place, settings, files) {
  const file = join(place, `tsconfig.${settings.moduleResolution}.json`);
  const fixed = { target: 'es2023', lib: ['es2023', 'esnext.disposable'], types: ['node'], strict: true };
  const compilerOptions = {
    ...fixed,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    noEmit: true,
    ...settings,
  };
  writeFileSync(file, JSON.stringify({ compilerOptions, files }));
  const compiler = join(place, 'node_modules', 'typescript', 'bin', 'tsc');
  await mustRunProgram([node, compiler, '-p', file], { cwd: place, env: world.env, deadlineMs: BUILD_MS });
}

/** What the checkers of packages say of the one that was published. */
export async function checkerSteps(report, world) {
  report.table('the packed package');
  const tools = await installTools('checkers', CHECKERS);
  const check = (title, ...command) =>
    report.step(title, 'clean', () =>
      mustRunProgram([node, ...command], { cwd: world.folder, env: world.env, deadlineMs: BUILD_MS }),
    );
  const program = (...path) => join(tools, 'node_modules', ...path);
  await check('publint', program('publint', 'src', 'cli.js'), 'run', world.packed.folder, '--strict');
  await check('attw', program('@arethetypeswrong', 'cli', 'dist', 'index.js'), world.packed.tarball);
}

const DOCUMENT = join(root, 'docs', 'embedding.md');

/** A settings file as the document shows it: a block of code whose first line is a comment with the file's name. */
function documented(name) {
  const text = readFileSync(DOCUMENT, 'utf8');
  const blocks = [...text.matchAll(/^```js\n\/\/ (\S+)\n([^]*?)^```$/gm)];
  const found = blocks.find(([, title]) => title === name);
  if (found === undefined) throw new Trouble(`docs/embedding.md shows no ${name}`);
  return found[2];
}

const WAYS = [
  { title: 'esbuild', settings: 'esbuild.mjs', output: 'app.mjs', command: ['esbuild.mjs'] },
  {
    title: 'esbuild, all but the binary',
    settings: 'esbuild-all.mjs',
    output: 'extension.cjs',
    command: ['esbuild-all.mjs'],
  },
  {
    title: 'vite',
    settings: 'vite.config.mjs',
    output: 'app.js',
    command: [join('node_modules', 'vite', 'bin', 'vite.js'), 'build', '--logLevel', 'warn'],
  },
  {
    title: 'webpack',
    settings: 'webpack.config.mjs',
    output: 'app.mjs',
    command: [join('node_modules', 'webpack-cli', 'bin', 'cli.js')],
  },
];

/** Builds with each bundler, carries away what is shipped, and runs that. */
export async function bundlerSteps(report, world) {
  report.table('bundler');
  const packages = Object.entries(BUNDLERS).map(([name, version]) => `${name}@${version}`);
  const place = await report.step('all of them', 'install', () => installed(world, 'bundlers', packages));
  if (place === undefined) return;
  mkdirSync(join(place, 'src'));
  writeFileSync(join(place, 'src', 'app.mjs'), asModule());
  writeFileSync(join(place, 'src', 'extension.mjs'), asFunction());
  for (const { title, settings, output, command } of WAYS) {
    const built = await report.step(title, 'build', async () => {
      writeFileSync(join(place, settings), documented(settings));
      // What another bundler made must not pass for this one's.
      rmSync(join(place, 'dist'), { recursive: true, force: true });
      await mustRunProgram([node, ...command], { cwd: place, env: world.env, deadlineMs: BUILD_MS });
      return true;
    });
    if (built) await report.step(title, 'run', () => runShipped(world, place, settings, output));
  }
}

/** The result of a build, with nothing beside it but the package and its binary. */
async function runShipped(world, place, settings, output) {
  const shipped = join(world.folder, 'shipped', settings);
  mkdirSync(join(shipped, 'node_modules'), { recursive: true });
  writeFileSync(join(shipped, 'package.json'), JSON.stringify({ name: MARK, private: true, type: 'module' }));
  cpSync(join(place, 'dist', output), join(shipped, 'dist', output));
  // The bundle that holds the JavaScript part has to do without it.
  const names = output === 'extension.cjs' ? ['@mcp-switchboard'] : ['@mcp-switchboard', 'mcp-switchboard'];
  for (const name of names) {
    cpSync(join(place, 'node_modules', name), join(shipped, 'node_modules', name), { recursive: true });
  }
  const options = { cwd: shipped, env: world.env, deadlineMs: RUN_MS };
  expectOutput(await mustRunProgram([node, join('dist', output)], options));
}

/** The program has printed what the README's lines print. */
export function expectOutput({ stdout, stderr }) {
  for (const pattern of EXPECTED) {
    if (!pattern.test(stdout)) throw new Error(`the output has no ${pattern}:\n${stdout}\n${stderr}`);
  }
}
