// `npm run bench`: the set-up, the echo server that the benchmarks measure against, then the benchmarks.
// Arguments go to bench/run.mjs.

import { alone } from './lock.mjs';
import { mustRun, run, runScript } from './project.mjs';
import { setup } from './setup.mjs';

await runScript(import.meta, async (args) => {
  const cargo = await setup('local');
  const echoServer = [
    'build',
    '--profile',
    'local',
    '--no-default-features',
    '--example',
    'bench-echo-server',
  ];
  await alone(() => mustRun(cargo, echoServer, { output: 'stderr' }));
  const { code } = await run(process.execPath, ['bench/run.mjs', ...args]);
  return code;
});
