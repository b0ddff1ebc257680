// `npm run conformance`: the set-up, then the official conformance suite against __test__/conformance/client.mjs.
// Every scenario runs alone, at every revision it knows, judged more strictly than by the suite (see
// conformance-verdict.mjs); then the suite's own mode, in which scenarios run side by side, is printed beside it.
// The last line counts the runs one by one.
//
//   node scripts/conformance.mjs [--no-auth] [NAME…]
//
// NAME is the beginning of a scenario's name; with names the suite's own mode is left out, since it knows none.

import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { delimiter, dirname, join, relative, sep } from 'node:path';

import { choose, count, EXTENSION, judge, label, readList } from './conformance-verdict.mjs';
import { packageScript, readIfThere, root, run, runScript, stateFolder, Trouble } from './project.mjs';
import { setup } from './setup.mjs';
import { findNewNode } from './toolchain.mjs';

const client = 'node __test__/conformance/client.mjs';
const expectedFailures = join(root, '__test__', 'conformance', 'expected-failures.json');
const results = join(stateFolder, 'conformance');
/** Leaves all but the protocol itself out. */
const NO_AUTH = '--no-auth';
/** Measures milliseconds, so a busy machine may fail it once. */
const TIMED = 'sse-retry';

/** What the suite's own mode is called with; all of it for the extensions, because no smaller one holds every one of them. */
const SUITES = {
  '2025-11-25': ['--requirements', '2025-11-25'],
  '2026-07-28': ['--requirements', '2026-07-28'],
  '2025-03-26': ['--suite', 'backcompat'],
  [EXTENSION]: ['--suite', 'all'],
};

/** The suite as a function from arguments to exit code and text; `node` in its commands is the Node of this script. */
function suiteRunner(node) {
  const program = packageScript('@modelcontextprotocol/conformance', 'conformance');
  const PATH = [dirname(process.execPath), process.env.PATH].join(delimiter);
  return (...args) => run(node, [program, ...args], { output: 'quiet', env: { PATH } });
}

/** What the suite left in a folder, by name of scenario. */
function readResults(folder) {
  const files = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith(`${sep}checks.json`));
  return new Map(
    files.map((file) => {
      const place = join(folder, dirname(file));
      const name = relative(folder, place)
        .split(sep)
        .join('/')
        .replace(/-\d{4}-\d\d-\d\dT[-\d]+Z$/, '');
      const text = (part) => readIfThere(join(place, part))?.toString() ?? '';
      return [
        name,
        {
          checks: JSON.parse(text('checks.json')),
          spoken: text('stdout.txt').split('\n', 1)[0],
          complaint: text('stderr.txt'),
        },
      ];
    }),
  );
}

function freshFolder(name) {
  const folder = join(results, name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return folder;
}

/** Runs one scenario alone. */
async function runAlone(suite, one) {
  const folder = freshFolder(join('alone', label(one).replaceAll('/', '-')));
  const scenario = ['--scenario', one.name];
  if (one.revision !== EXTENSION) scenario.push('--spec-version', one.revision);
  const { code } = await suite('client', '--command', client, ...scenario, '-o', folder);
  const { checks, spoken = '', complaint = '' } = readResults(folder).get(one.name) ?? {};
  return { run: one, verdict: judge(checks, code), spoken, complaint };
}

async function runOneByOne(suite, runs) {
  const all = [];
  for (const one of runs) {
    let result = await runAlone(suite, one);
    if (!result.verdict.passed && one.name === TIMED) {
      console.error(`${label(one)}: once more, in case the machine was busy`);
      result = await runAlone(suite, one);
    }
    console.error(`${result.verdict.passed ? 'ok    ' : 'FAILED'} ${label(one)}`);
    all.push(result);
  }
  return all;
}

/** Runs what belongs to the wanted runs side by side, as the suite likes it; gives verdicts by label. */
async function runTogether(suite, runs) {
  const verdicts = new Map();
  for (const [revision, args] of Object.entries(SUITES)) {
    if (!runs.some((one) => one.revision === revision)) continue;
    console.error(`suite mode: ${args.join(' ')}`);
    const folder = freshFolder(join('suite', revision));
    await suite('client', '--command', client, ...args, '-o', folder);
    for (const [name, { checks }] of readResults(folder))
      verdicts.set(label({ name, revision }), judge(checks));
  }
  return verdicts;
}

function printTable(alone, together) {
  const cell = (verdict) => (verdict === undefined ? '-' : verdict.passed ? 'passed' : 'FAILED');
  const rows = alone.map(({ run: one, verdict, spoken }) => [
    one.name,
    one.revision,
    cell(verdict),
    `${verdict.succeeded}/${verdict.checked}`,
    cell(together.get(label(one))),
    spoken,
  ]);
  const table = [['scenario', 'revision', 'alone', 'checks', 'in suite', 'spoken'], ...rows];
  const widths = table[0].map((_, column) => Math.max(...table.map((row) => row[column].length)));
  console.log('');
  for (const row of table) {
    console.log(
      row
        .map((text, column) => text.padEnd(widths[column]))
        .join('  ')
        .trimEnd(),
    );
  }
}

function printFailures(alone) {
  for (const { run: one, verdict, complaint } of alone.filter((result) => !result.verdict.passed)) {
    console.log(`\n${label(one)}`);
    for (const reason of verdict.reasons.slice(0, 5)) console.log(`  ${reason}`);
    for (const line of complaint.split('\n').slice(0, 5)) if (line) console.log(`  | ${line}`);
  }
}

await runScript(import.meta, async (args) => {
  const unknown = args.find((arg) => arg.startsWith('-') && arg !== NO_AUTH);
  if (unknown) throw new Trouble(`unknown option ${unknown}; there is ${NO_AUTH}`);
  const names = args.filter((arg) => !arg.startsWith('-'));
  await setup('local');
  const suite = suiteRunner(await findNewNode());

  const { text } = await suite('list', '--client');
  const runs = choose(readList(text), { auth: !args.includes(NO_AUTH), names });
  if (runs.length === 0) throw new Trouble('the suite has no such scenario');
  const alone = await runOneByOne(suite, runs);
  const together = names.length > 0 ? new Map() : await runTogether(suite, runs);

  printTable(alone, together);
  printFailures(alone);
  const { passed, failed, stale } = count(alone, JSON.parse(readIfThere(expectedFailures)));
  for (const one of stale) console.log(`\n${one} has passed: take it off the expected failures`);
  const suitePassed = alone.filter(({ run: one }) => together.get(label(one))?.passed).length;
  const suiteRuns = alone.filter(({ run: one }) => together.has(label(one))).length;
  if (suiteRuns > 0) console.log(`\nin suite mode ${suitePassed} of ${suiteRuns} passed`);
  console.log(`${passed} passed, ${failed} failed`);
  return failed > 0 ? 1 : 0;
});
