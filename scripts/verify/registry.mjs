// A registry of one's own on loopback (Verdaccio), and the packages of this checkout published into it. It passes reads
// of other packages on to the registry that npm is set to, and takes packages of this project from nobody but us.
// Nothing can be published elsewhere: programs run with a home folder, a user configuration and an environment made
// here, which hold no credentials but a dummy token for the loopback address.

import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { delimiter, dirname, join } from 'node:path';

import { root, run, Trouble } from '../project.mjs';
import { packageFolder, TARGETS } from '../targets.mjs';
import { findNpm } from '../toolchain.mjs';
import { eventually, mustRunProgram, pathWithoutRust, runProgram, startProgram } from './programs.mjs';
import { installNode, installTools, TOOL_NODE } from './tools.mjs';

const VERDACCIO = '6.10.4';
/** What Verdaccio asks for as `node-fetch@cjs`, a tag that not every mirror has. */
const OVERRIDES = { 'node-fetch': '2.7.0' };
const START_MS = 60_000;
const PUBLISH_MS = 120_000;

/** The registry that npm is set to here: where packages of others come from. */
async function usualRegistry() {
  const [command, ...prefix] = findNpm();
  const { code, text } = await run(command, [...prefix, 'config', 'get', 'registry'], { output: 'quiet' });
  const url = text.trim();
  if (code !== 0 || !/^https?:/.test(url)) throw new Trouble('npm does not say which registry it uses');
  return url;
}

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Starts the registry with its storage below `folder`; it ends with the script. Gives its address. */
async function startRegistry(folder) {
  const tools = await installTools('registry', { verdaccio: VERDACCIO }, OVERRIDES);
  const place = join(folder, 'registry');
  mkdirSync(place, { recursive: true });
  const ours = '{ access: $all, publish: $all, unpublish: $all }';
  const config = [
    `storage: ${JSON.stringify(join(place, 'storage'))}`,
    'max_body_size: 200mb',
    'uplinks:',
    `  usual: { url: ${JSON.stringify(await usualRegistry())}, timeout: 60s, max_fails: 20, fail_timeout: 1s }`,
    'packages:',
    `  'mcp-switchboard': ${ours}`,
    `  '@mcp-switchboard/*': ${ours}`,
    "  '**': { access: $all, proxy: usual }",
    'web: { enable: false }',
    'log: { type: stdout, format: pretty, level: warn }',
    '',
  ].join('\n');
  writeFileSync(join(place, 'config.yaml'), config);
  const port = await freePort();
  const program = join(tools, 'node_modules', 'verdaccio', 'bin', 'verdaccio');
  const args = ['--config', join(place, 'config.yaml'), '--listen', `127.0.0.1:${port}`];
  const { output } = startProgram([await installNode(TOOL_NODE), program, ...args], { cwd: place });
  const url = `http://127.0.0.1:${port}/`;
  const answers = () =>
    fetch(`${url}-/ping`).then(
      ({ ok }) => ok,
      () => false,
    );
  await eventually(answers, START_MS, `the start of the registry (it said: ${output.text})`);
  return url;
}

/**
 * The environment of somebody who has nothing but Node: a home folder of its own, the loopback registry, no Rust. Nothing
 * else of this process's environment is passed on.
 */
function blankEnvironment(folder, registry) {
  const home = join(folder, 'home');
  const temporary = join(folder, 'temporary');
  for (const place of [home, temporary]) mkdirSync(place, { recursive: true });
  const token = `//${new URL(registry).host}/:_authToken=nobody`;
  writeFileSync(
    join(home, '.npmrc'),
    `registry=${registry}\n${token}\nupdate-notifier=false\nfund=false\naudit=false\n`,
  );
  const path = [dirname(process.execPath), ...pathWithoutRust()].join(delimiter);
  const windows = ['SystemRoot', 'ComSpec', 'PATHEXT'].filter((name) => process.env[name] !== undefined);
  return {
    ...Object.fromEntries(windows.map((name) => [name, process.env[name]])),
    PATH: path,
    HOME: home,
    USERPROFILE: home,
    TMPDIR: temporary,
    TEMP: temporary,
    NO_COLOR: '1',
    npm_config_registry: registry,
    npm_config_userconfig: join(home, '.npmrc'),
    npm_config_cache: join(home, '.npm'),
  };
}

/** Packs and publishes the platform packages, then the main one. Gives the version and the main package, packed and not. */
async function publishAll(folder, registry, env) {
  const npm = async (cwd, ...args) =>
    mustRunProgram([...findNpm(), ...args], { cwd, env, deadlineMs: PUBLISH_MS });
  const { stdout } = await npm(root, 'config', 'get', 'registry');
  if (stdout.trim() !== registry)
    throw new Trouble(`npm would publish to ${stdout.trim()}, not to ${registry}`);

  const staged = join(folder, 'staged');
  const platforms = TARGETS.map((target) => stagePlatform(staged, target));
  const main = await stageMain(staged, npm);
  for (const place of [...platforms, main]) {
    const manifest = JSON.parse(readFileSync(join(place, 'package.json'), 'utf8'));
    if (manifest.publishConfig !== undefined)
      throw new Trouble(`${manifest.name} names a registry of its own`);
    await npm(place, 'publish', '--ignore-scripts', '--registry', registry, '--tag', 'latest');
  }
  await npm(main, 'pack', '--ignore-scripts', '--pack-destination', staged);
  const tarball = readdirSync(staged).find((name) => /^mcp-switchboard-[\d.].*\.tgz$/.test(name));
  const { version } = JSON.parse(readFileSync(join(main, 'package.json'), 'utf8'));
  return { version, folder: main, tarball: join(staged, tarball) };
}

/** A platform package with its binary; one that was not built here gets a file that no platform could load. */
function stagePlatform(staged, target) {
  const source = packageFolder(target);
  const place = join(staged, 'npm', target.triple);
  cpSync(source, place, { recursive: true });
  const built = [join(root, target.main), join(source, target.main)].find((file) => existsSync(file));
  if (built !== undefined) copyFileSync(built, join(place, target.main));
  else writeFileSync(join(place, target.main), 'not built on this machine\n');
  return place;
}

/** The files of the main package as `npm pack` chooses them, in a folder without the checkout around it. */
async function stageMain(staged, npm) {
  const { stdout } = await npm(root, 'pack', '--ignore-scripts', '--json', '--dry-run');
  const [{ files }] = JSON.parse(stdout);
  const place = join(staged, 'main');
  for (const { path } of files) {
    mkdirSync(dirname(join(place, path)), { recursive: true });
    copyFileSync(join(root, path), join(place, path));
  }
  return place;
}

/**
 * Registry, blank environment and published packages as steps of a report; nothing when one of them failed.
 * @returns {Promise<{ folder, env, registry, packed, wanted } | undefined>} `wanted` is what to ask a package manager for
 */
export async function publishedWorld(report, folder) {
  const registry = await report.step('a registry on loopback', 'done', () => startRegistry(folder));
  if (registry === undefined) return undefined;
  const env = blankEnvironment(folder, registry);
  await report.step('no Rust in PATH', 'done', () => noRust(env, folder));
  const packed = await report.step('publish all packages', 'done', () => publishAll(folder, registry, env));
  if (packed === undefined) return undefined;
  return { folder, env, registry, packed, wanted: `mcp-switchboard@${packed.version}` };
}

async function noRust(env, cwd) {
  for (const program of ['cargo', 'rustc']) {
    const { code } = await runProgram([program, '--version'], { cwd, env, deadlineMs: 20_000 });
    if (code !== 127) throw new Error(`${program} can be found`);
  }
}
