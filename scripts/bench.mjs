// `npm run bench`: the set-up, then the benchmarks (which have cargo build the server they measure against).
// Arguments go to bench/run.mjs.

import { run, runScript } from './project.mjs';
import { setup } from './setup.mjs';

await runScript(import.meta, async (args) => {
  await setup('local');
  const { code } = await run(process.execPath, ['bench/run.mjs', ...args]);
  return code;
});
