// The sample extension (examples/vscode-extension) in a real extension host: packed as a VSIX for this platform with the
// package from the loopback registry, installed into code-server, and worked with through Chromium as a person would.

import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { readIfThere, root, stateFolder } from '../project.mjs';
import { findNpm } from '../toolchain.mjs';
import { entriesOf, eventually, isAlive, mustRunProgram, startProgram } from './programs.mjs';
import { freePort } from './registry.mjs';
import { NotHere } from './report.mjs';
import { installNode, installTools, NODES, TOOL_NODE } from './tools.mjs';

const { platformTriple } = createRequire(import.meta.url)('../../lib/platform.js');

const CODE_SERVER = '4.139.1';
const TOOLS = { 'playwright-core': '1.65.1', '@vscode/vsce': '4.1.0' };
/** Modules of the editor that have to be compiled for this machine. */
const COMPILED = ['@vscode/spdlog', '@vscode/native-watchdog'];
const INSTALL_MS = 600_000;
const PACK_MS = 180_000;
/** How long a person, played by a script, waits for something to appear. */
const WAIT_MS = 60_000;
const GONE_MS = 15_000;

const SCREENSHOT = join(stateFolder, 'vscode.png');

/** What `--skip` and the names of runtimes call all of this. */
export const VSCODE = 'vscode';

/** All steps; `world` is what verify-install.mjs makes too. */
export async function vscodeSteps(report, world, skip) {
  report.table('VS Code');
  const step = (name, body) => report.step(name, 'done', body);
  if (skip.includes(VSCODE)) return report.skip('all of it', 'done', 'asked to skip it');
  const browser = await step('a browser', async () => findBrowser());
  const editor = await step('code-server', installEditor);
  const tools = await step('vsce and playwright-core', () => installTools('vscode-tools', TOOLS));
  if (!browser || !editor || !tools) return undefined;
  const vsix = await step('pack a VSIX for this platform', () => pack(world, editor, tools));
  if (!vsix) return undefined;
  const place = join(world.folder, 'vscode');
  if (!(await step('install it', () => installExtensions(world, place, editor, vsix)))) return undefined;
  return work(report, { world, place, editor, browser, tools });
}

function findBrowser() {
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome'];
  const places = (process.env.PATH ?? '').split(delimiter);
  const all = names.flatMap((name) => places.map((place) => join(place, name)));
  const found = [process.env.CHROMIUM, ...all].find((file) => file && existsSync(file));
  if (found) return found;
  throw new Error(
    `no Chromium was found: install one, name it in CHROMIUM, or leave this out with --skip ${VSCODE}`,
  );
}

/** The editor with its modules compiled; gives the command that starts it. */
async function installEditor() {
  if (process.platform === 'win32') throw new NotHere('code-server does not run on Windows');
  const node = await installNode(TOOL_NODE);
  const place = await installTools('code-server', { 'code-server': CODE_SERVER });
  const editor = join(place, 'node_modules', 'code-server');
  const code = join(editor, 'lib', 'vscode');
  const stamp = join(place, 'compiled');
  if (readIfThere(stamp)?.toString() !== NODES[TOOL_NODE]) {
    const [, script] = findNpm();
    const npm = script === undefined ? ['npm'] : [node, script];
    const PATH = [dirname(node), process.env.PATH].join(delimiter);
    const env = { ...process.env, PATH, npm_config_nodedir: dirname(dirname(node)) };
    const options = { cwd: code, env, deadlineMs: INSTALL_MS };
    await mustRunProgram(
      [...npm, 'install', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund'],
      options,
    );
    await mustRunProgram([...npm, 'rebuild', ...COMPILED], options);
    writeFileSync(stamp, NODES[TOOL_NODE]);
  }
  return { node, command: [node, join(editor, 'out', 'node', 'entry.js')] };
}

/** As docs/embedding.md says it: install for one platform, then pack with the target's name. */
async function pack(world, { node }, tools) {
  const place = join(world.folder, 'extension');
  cpSync(join(root, 'examples', 'vscode-extension'), place, { recursive: true });
  const probe = join(world.folder, 'probe');
  cpSync(join(root, '__test__', 'vscode-probe'), probe, { recursive: true });
  const env = { ...world.env, PATH: [dirname(node), world.env.PATH].join(delimiter) };
  await mustRunProgram([...findNpm(), 'install', '--ignore-scripts'], {
    cwd: place,
    env,
    deadlineMs: PACK_MS,
  });
  const [system, arch, abi] = platformTriple().split('-');
  const target = abi === 'musl' ? `alpine-${arch}` : `${system}-${arch}`;
  const program = join(tools, 'node_modules', '@vscode', 'vsce', 'vsce');
  const vsce = async (cwd, vsix, ...args) => {
    const flags = ['--allow-missing-repository', '--skip-license', '--out', vsix, ...args];
    await mustRunProgram([node, program, 'package', ...flags], { cwd, env, deadlineMs: PACK_MS });
    return vsix;
  };
  return [
    await vsce(place, join(world.folder, 'sample.vsix'), '--target', target),
    await vsce(probe, join(world.folder, 'probe.vsix')),
  ];
}

async function installExtensions(world, place, { command }, files) {
  const extensions = join(place, 'extensions');
  mkdirSync(extensions, { recursive: true });
  const flags = ['--user-data-dir', join(place, 'data'), '--extensions-dir', extensions];
  const options = { cwd: place, env: editorEnvironment(world, place, command), deadlineMs: PACK_MS };
  for (const file of files)
    await mustRunProgram([...command, ...flags, '--install-extension', file], options);
  const sample = entriesOf(extensions).find((name) => name.startsWith('mcp-switchboard-examples.'));
  if (sample === undefined) throw new Error(`not among the extensions: ${entriesOf(extensions).join(', ')}`);
  const binary = join(extensions, sample, 'node_modules', '@mcp-switchboard', platformTriple());
  if (!existsSync(binary)) throw new Error(`the VSIX holds no ${platformTriple()} package`);
  return sample;
}

/** The extension host has Node's own variables from the editor, and the file where the probe writes. */
function editorEnvironment(world, place, [node]) {
  const PATH = [dirname(node), world.env.PATH].join(delimiter);
  const PROBE_REPORT = join(place, 'report.jsonl');
  return { ...world.env, PATH, PROBE_REPORT, XDG_CONFIG_HOME: join(place, 'config'), SHELL: '/bin/sh' };
}

/** A project whose .mcp.json brings one server. */
function workspace(place) {
  const folder = join(place, 'project');
  mkdirSync(folder, { recursive: true });
  const lab = {
    command: process.execPath,
    args: [join(root, 'zoo', 'servers', 'faulty-server.mjs'), '--ignore-eof'],
  };
  writeFileSync(join(folder, '.mcp.json'), JSON.stringify({ mcpServers: { lab } }));
  return folder;
}

function facts(place) {
  const text = readIfThere(join(place, 'report.jsonl'))?.toString() ?? '';
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

/** The fact of that step, as soon as the probe has written it. */
function factOf(place, step) {
  return eventually(
    () => {
      const seen = facts(place);
      const failed = seen.find((fact) => fact.step === 'failed');
      if (failed) throw new Error(`the probe failed: ${failed.error}`);
      return seen.find((fact) => fact.step === step);
    },
    WAIT_MS,
    `"${step}" in the extension host`,
  );
}

async function work(report, { world, place, editor, browser, tools }) {
  const step = (name, body) => report.step(name, 'done', body);
  const port = await freePort();
  const flags = ['--user-data-dir', join(place, 'data'), '--extensions-dir', join(place, 'extensions')];
  const quiet = ['--disable-telemetry', '--disable-update-check', '--disable-getting-started-override'];
  const args = ['--auth', 'none', '--bind-addr', `127.0.0.1:${port}`, ...flags, ...quiet];
  const env = editorEnvironment(world, place, editor.command);
  const server = startProgram([...editor.command, ...args], { cwd: place, env });
  const require = createRequire(join(tools, 'package.json'));
  const playwright = await import(pathToFileURL(require.resolve('playwright-core')).href);
  const { chromium } = playwright.default ?? playwright;
  const chrome = await step('start editor and browser', async () => {
    const url = `http://127.0.0.1:${port}/`;
    const answers = () => fetch(url).then(({ ok }) => ok, () => false); // prettier-ignore
    await eventually(answers, WAIT_MS, `the start of code-server (it said: ${server.output.text})`);
    return chromium.launch({
      executablePath: browser,
      args: ['--no-sandbox', '--disable-gpu'],
      timeout: WAIT_MS,
    });
  });
  if (chrome === undefined) return;
  try {
    const page = await chrome.newPage();
    page.setDefaultTimeout(WAIT_MS);
    const folder = workspace(place);
    const by = (role) => (name) => page.getByRole(role, { name, exact: true }).first().click();
    const click = {
      button: by('button'),
      text: (text) => page.getByText(text, { exact: true }).first().click(),
    };
    await page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(folder)}`);
    const held = async (name, body) => {
      if (await step(name, body)) return;
      await page.screenshot({ path: SCREENSHOT });
      throw new Error(`nothing was tried after "${name}"; what the editor showed is in ${SCREENSHOT}`);
    };
    await asPerson({ step: held, place, click });
  } catch (error) {
    return void (await step('all the rest', () => Promise.reject(error)));
  } finally {
    await chrome.close();
    server.stop();
  }
  await step('its server ends with the editor', async () => {
    const { pid } = await factOf(place, 'connected again');
    await eventually(() => !isAlive(pid), GONE_MS, `the end of server ${pid}`);
  });
}

/** The steps, in order; each gives something true. The page is what the person sees, the facts are the probe's. */
async function asPerson({ step, place, click }) {
  await step('activated, in Restricted Mode', async () => {
    const { manager, status } = await factOf(place, 'restricted');
    if (manager || !/restricted/.test(status)) throw new Error(`it did not hold back: ${status}`);
    return true;
  });
  await step('the workspace is trusted', async () => {
    await click.text('Manage');
    await click.button('Trust');
    return factOf(place, 'trusted');
  });
  await step('its server is approved and connects', async () => {
    await click.button('Start');
    const { status, tools, pid } = await factOf(place, 'connected');
    if (!/1\/1/.test(status) || !(tools > 0) || !isAlive(pid))
      throw new Error(`status ${status}, ${tools} tools`);
    return true;
  });
  await step('a tool runs with permission', async () => {
    await click.button('Always');
    const { text } = await factOf(place, 'called');
    if (text !== 'from the extension host') throw new Error(`it answered ${text}`);
    return true;
  });
  await step('the window reloads amid 100 calls', async () => {
    await factOf(place, 'reloading');
    const { pid } = await factOf(place, 'connected');
    await eventually(() => !isAlive(pid), GONE_MS, `the end of server ${pid}`);
    const activated = () => facts(place).filter((fact) => fact.step === 'activated').length === 2;
    return eventually(activated, WAIT_MS, 'a new host');
  });
  await step('it works in the new host', async () => {
    await click.button('Run');
    const { text } = await factOf(place, 'connected again');
    if (text !== 'after the restart') throw new Error(`it answered ${text}`);
    return true;
  });
}
