// `npm test`: the set-up, then every test there is: cargo without Node, the types, and vitest through the add-on.
// All of it runs even when a part fails; the last lines name what failed and give the totals. Arguments go to vitest (`npm test -- name`)
// and then only vitest runs.

import { rmSync } from 'node:fs';
import { join, relative } from 'node:path';

import { packageScript, readIfThere, root, run, runScript, stateFolder } from './project.mjs';
import { setup } from './setup.mjs';

/** Counts of one part; a part that ended badly, or ran no test at all, counts as a failure even if it names none. */
function tally(name, code, { passed, failed, skipped = 0, failures = [] }) {
  const endedBadly = code !== 0 || passed + failed === 0;
  return { name, passed, failed: endedBadly && failed === 0 ? 1 : failed, skipped, failures };
}

/** The core alone, as anybody can build it without Node. */
async function cargoTests(cargo) {
  const { code, text } = await run(cargo, ['test', '--no-default-features', '--no-fail-fast'], {
    output: 'tee',
  });
  const totals = [...text.matchAll(/^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored/gm)];
  const sum = (group) => totals.reduce((count, match) => count + Number(match[group]), 0);
  const failures = [...text.matchAll(/^test (.*) \.\.\. FAILED$/gm)].map(([, test]) => test);
  return tally('cargo', code, { passed: sum(1), failed: sum(2), skipped: sum(3), failures });
}

/** The declarations that users see (checked in full, without `skipLibCheck`), then the tests that use them. */
async function typeTests() {
  const compiler = packageScript('typescript', 'tsc');
  const projects = ['tsconfig.json', '__test__/tsconfig.json'];
  const failures = [];
  for (const project of projects) {
    const { code } = await run(process.execPath, [compiler, '-p', project]);
    if (code !== 0) failures.push(project);
  }
  const passed = projects.length - failures.length;
  return tally('types', failures.length, { passed, failed: failures.length, failures });
}

async function vitestTests(filters) {
  const report = join(stateFolder, 'vitest.json');
  rmSync(report, { force: true });
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const { code } = await run(process.execPath, [packageScript('vitest'), 'run', ...reporters, ...filters]);
  const totals = JSON.parse(readIfThere(report)?.toString() ?? '{}');
  const { numPassedTests: passed = 0, numFailedTests: failed = 0, numPendingTests: skipped = 0 } = totals;
  const failures = (totals.testResults ?? []).filter(({ status }) => status === 'failed').flatMap(failuresOf);
  // A run that found no test is a failure, however it ended.
  return tally('vitest', passed > 0 ? code : code || 1, { passed, failed, skipped, failures });
}

/** What failed in a file: its tests, or the file as a whole (one that cannot be loaded has no test). */
function failuresOf({ name, assertionResults }) {
  const file = relative(root, name);
  const failed = assertionResults.filter(({ status }) => status === 'failed');
  return failed.length > 0 ? failed.map(({ fullName }) => `${file} ${fullName}`) : [file];
}

await runScript(import.meta, async (filters) => {
  const cargo = await setup('local');
  const parts = filters.length > 0 ? [] : [await cargoTests(cargo), await typeTests()];
  parts.push(await vitestTests(filters));

  const sum = (key) => parts.reduce((count, part) => count + part[key], 0);
  console.log('');
  for (const { name, failures } of parts) {
    for (const failure of failures) console.log(`FAILED ${name}: ${failure}`);
  }
  for (const { name, passed, failed, skipped } of parts) {
    console.log(
      `${name.padEnd(7)} ${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`,
    );
  }
  console.log(`${sum('passed')} passed, ${sum('failed')} failed`);
  return sum('failed') > 0 ? 1 : 0;
});
