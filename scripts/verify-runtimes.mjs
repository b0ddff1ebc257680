// `npm run verify:runtimes`: the smoke programs of `__test__/smoke/` under every runtime that the package promises: Node
// 20, 22, 24 and 26, Bun and Deno, on the main thread and in worker threads; and under Node on musl and on arm64 when an
// add-on for it lies in this checkout; then the sample extension in a real extension host (`verify:vscode`). Ends 0 when all
// of it holds; prints tables.
//
//   node scripts/verify-runtimes.mjs [--prebuilt] [--profile NAME] [--skip vscode] [NAME…]
//
// --prebuilt     takes the add-on that is there instead of building one
// --skip vscode  leaves out the extension host, which needs Chromium and a C++ compiler
// NAME           only runtimes whose name begins so (`node`, `bun`, `node-24`, `vscode`)

import { join } from 'node:path';

import { root, runScript, Trouble } from './project.mjs';
import {
  eventually,
  howItEnded,
  isAlive,
  runProgram,
  startProgram,
  tail,
  temporaryFolder,
} from './verify/programs.mjs';
import { freePort, publishedWorld } from './verify/registry.mjs';
import { Report } from './verify/report.mjs';
import { foreignRuntimes } from './verify/foreign-runtimes.mjs';
import { prepare } from './verify/prepare.mjs';
import { installBun, installDeno, installNode, NODES } from './verify/tools.mjs';
import { VSCODE, vscodeSteps } from './verify/vscode.mjs';

const smoke = (name) => join(root, '__test__', 'smoke', name);
const SUITE_DEADLINE_MS = 300_000;
const PROGRAM_DEADLINE_MS = 120_000;
/** What the package needs to be allowed in Deno (docs/embedding.md). */
const DENO_FLAGS = ['--no-prompt', '--allow-ffi', '--allow-env', '--allow-read'];
/** How long a server may outlive its host; a machine under load is slow. */
const GONE_MS = 10_000;

/** Every runtime by name: how it is had, as the beginning of a command, and what its environment needs. */
function runtimes() {
  const nodes = Object.keys(NODES).map((line) => ({
    name: `node-${line}`,
    command: async () => [await installNode(line)],
  }));
  return [
    ...nodes,
    { name: 'bun', command: async () => [await installBun()] },
    {
      name: 'deno',
      command: async () => [await installDeno(), 'run', ...DENO_FLAGS],
      // The suite asks whether processes are alive; the package does not.
      suiteFlags: ['--allow-run'],
    },
    ...foreignRuntimes(),
  ];
}

/** A real server behind Streamable HTTP; gives its address. */
async function httpServer() {
  const port = await freePort();
  const file = join(root, 'node_modules', '@modelcontextprotocol', 'server-everything', 'dist', 'index.js');
  const env = { ...process.env, PORT: String(port) };
  const { output } = startProgram([process.execPath, file, 'streamableHttp'], { cwd: root, env });
  const url = `http://127.0.0.1:${port}/mcp`;
  const answers = () =>
    fetch(url).then(
      () => true,
      () => false,
    );
  await eventually(answers, 60_000, `the start of the HTTP server (it said: ${output.text})`);
  return url;
}

/** The facts that a smoke program said. */
function facts({ stdout }) {
  return stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
}

function expectEnd(ended, codes, deadlineMs) {
  if (!ended.late && ended.signal === null && codes.includes(ended.code)) return;
  throw new Error(`${howItEnded(ended, deadlineMs)}, expected code ${codes.join(' or ')}\n${tail(ended)}`);
}

/** The suite: every check was done and held, and the program ended by itself. */
async function suite(run, args) {
  const ended = await run(smoke('main.mjs'), args, SUITE_DEADLINE_MS);
  const seen = facts(ended);
  const failed = seen.filter(({ error }) => error !== undefined);
  if (failed.length > 0) throw new Error(failed.map(({ check, error }) => `${check}: ${error}`).join('\n'));
  expectEnd(ended, [0], SUITE_DEADLINE_MS);
  const wanted = seen.find(({ checks }) => checks !== undefined)?.checks ?? [];
  const missing = wanted.filter((name) => !seen.some(({ check }) => check === name));
  if (wanted.length === 0) throw new Error(`the suite named no checks\n${tail(ended)}`);
  if (missing.length > 0) throw new Error(`these checks said nothing: ${missing.join('; ')}\n${tail(ended)}`);
}

/** A host that ends in some way: with the right code, without a crash, and its server ends, too. */
async function ends(run, way, codes) {
  const ended = await run(smoke('ends.mjs'), [way], PROGRAM_DEADLINE_MS);
  expectEnd(ended, codes, PROGRAM_DEADLINE_MS);
  const said = facts(ended);
  await allGone([said.find(({ pid }) => pid !== undefined)?.pid]);
  if (way === 'pending' && !said.some(({ answered }) => answered)) throw new Error('the call had no answer');
}

async function workersEnd(run) {
  const ended = await run(smoke('workers.mjs'), [], PROGRAM_DEADLINE_MS);
  expectEnd(ended, [0], PROGRAM_DEADLINE_MS);
  const said = facts(ended);
  if (!said.some(({ alive }) => alive)) throw new Error(`the main thread did not live on\n${tail(ended)}`);
  await allGone(said.find(({ pids }) => pids !== undefined).pids);
}

async function allGone(pids) {
  for (const pid of pids) {
    if (!Number.isInteger(pid)) throw new Error('the program named no server');
    await eventually(() => !isAlive(pid), GONE_MS, `the end of server ${pid}`);
  }
}

async function verify(report, runtime, url) {
  const command = await report.step(runtime.name, 'there', runtime.command);
  if (command === undefined) return;
  const env = { ...process.env, SMOKE_NODE: process.execPath, SMOKE_URL: url, NO_COLOR: '1', ...runtime.env };
  const runner = (flags) => (file, args, deadlineMs) =>
    runProgram([...command, ...flags, file, ...args], { cwd: root, env, deadlineMs });
  const [run, runSuite] = [runner([]), runner(runtime.suiteFlags ?? [])];
  const step = (column, body) => report.step(runtime.name, column, body);
  await step('suite', () => suite(runSuite, []));
  await step('in a worker', () => suite(runSuite, ['worker']));
  await step('workers end', () => workersEnd(run));
  await step('natural end', () => ends(run, 'idle', [0]));
  await step('open call', () => ends(run, 'pending', [0]));
  await step('exit()', () => ends(run, 'exit', [7]));
  await step('throw', () => ends(run, 'throw', [1]));
}

async function vscode(report, skip) {
  report.table('before VS Code');
  const world = skip.includes(VSCODE) ? {} : await publishedWorld(report, temporaryFolder('vscode'));
  if (world !== undefined) await vscodeSteps(report, world, skip);
}

await runScript(import.meta, async (args) => {
  const { names, skip } = await prepare(args);
  const wanted = (name) => names.length === 0 || names.some((begin) => name.startsWith(begin));
  const chosen = runtimes().filter(({ name }) => wanted(name));
  if (chosen.length === 0 && !wanted(VSCODE))
    throw new Trouble(`there is no runtime named ${names.join(', ')}`);
  const report = new Report('runtime');
  const url = chosen.length > 0 ? await httpServer() : '';
  for (const runtime of chosen) await verify(report, runtime, url);
  if (wanted(VSCODE)) await vscode(report, skip);
  return report.end();
});
