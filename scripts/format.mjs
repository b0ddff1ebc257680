// `npm run format`: rewrites what the formatters and generators own.

import { alone } from './lock.mjs';
import { mustRun, packageScript, runScript } from './project.mjs';
import { installPackages } from './setup.mjs';
import { checkNode, checkRust } from './toolchain.mjs';

await runScript(import.meta, async () => {
  checkNode();
  const cargo = await checkRust();
  await alone(installPackages);
  await mustRun(cargo, ['fmt']);
  await mustRun(process.execPath, [packageScript('prettier'), '--write', '--log-level=warn', '.']);
  for (const generator of ['errors-doc', 'manifests', 'licenses'])
    await mustRun(process.execPath, [`scripts/${generator}.mjs`]);
});
