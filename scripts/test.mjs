// `npm test`: the set-up, then every test there is: cargo without Node, the types, and vitest through the add-on.
// All of it runs even when a part fails; the last line gives the totals. Arguments go to vitest (`npm test -- name`)
// and then only vitest runs.

import { rmSync } from 'node:fs';
import { join } from 'node:path';

import { packageScript, readIfThere, run, runScript, stateFolder } from './project.mjs';
import { setup } from './setup.mjs';

/** Counts of one part; a part that ended badly, or ran no test at all, counts as a failure even if it names none. */
function tally(name, code, passed, failed, skipped = 0) {
  const endedBadly = code !== 0 || passed + failed === 0;
  return { name, passed, failed: endedBadly && failed === 0 ? 1 : failed, skipped };
}

/** The core alone, as anybody can build it without Node. */
async function cargoTests(cargo) {
  const { code, text } = await run(cargo, ['test', '--no-default-features', '--no-fail-fast'], {
    output: 'tee',
  });
  const totals = [...text.matchAll(/^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored/gm)];
  const sum = (group) => totals.reduce((count, match) => count + Number(match[group]), 0);
  return tally('cargo', code, sum(1), sum(2), sum(3));
}

/** The declarations that users see (checked in full, without `skipLibCheck`), then the tests that use them. */
async function typeTests() {
  const compiler = packageScript('typescript', 'tsc');
  const codes = [];
  for (const project of ['tsconfig.json', '__test__/tsconfig.json']) {
    codes.push((await run(process.execPath, [compiler, '-p', project])).code);
  }
  const passed = codes.filter((code) => code === 0).length;
  return tally('types', Math.max(...codes), passed, codes.length - passed);
}

async function vitestTests(filters) {
  const report = join(stateFolder, 'vitest.json');
  rmSync(report, { force: true });
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const { code } = await run(process.execPath, [packageScript('vitest'), 'run', ...reporters, ...filters]);
  const totals = JSON.parse(readIfThere(report)?.toString() ?? '{}');
  const { numPassedTests = 0, numFailedTests = 0, numPendingTests = 0 } = totals;
  // A run that found no test is a failure, however it ended.
  return tally(
    'vitest',
    numPassedTests > 0 ? code : code || 1,
    numPassedTests,
    numFailedTests,
    numPendingTests,
  );
}

await runScript(import.meta, async (filters) => {
  const cargo = await setup('local');
  const parts = filters.length > 0 ? [] : [await cargoTests(cargo), await typeTests()];
  parts.push(await vitestTests(filters));

  const sum = (key) => parts.reduce((count, part) => count + part[key], 0);
  console.log('');
  for (const { name, passed, failed, skipped } of parts) {
    console.log(
      `${name.padEnd(7)} ${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`,
    );
  }
  console.log(`${sum('passed')} passed, ${sum('failed')} failed`);
  return sum('failed') > 0 ? 1 : 0;
});
