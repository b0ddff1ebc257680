// `npm run lint`: everything that a machine can say about the sources without running them.
// All checks run even when one fails; the last lines name those that did.

import { alone } from './lock.mjs';
import { packageScript, run, runScript } from './project.mjs';
import { installPackages } from './setup.mjs';
import { checkNode, checkRust } from './toolchain.mjs';

const node = (...args) => [process.execPath, ...args];

function checks(cargo) {
  const clippy = ['clippy', '--all-targets', '--quiet'];
  return [
    ['lock file of cargo', [cargo, 'metadata', '--locked', '--format-version=1', '--no-deps'], 'capture'],
    ['cargo fmt', [cargo, 'fmt', '--check']],
    ['clippy, core alone', [cargo, ...clippy, '--no-default-features', '--', '-D', 'warnings']],
    ['clippy, with the binding', [cargo, ...clippy, '--', '-D', 'warnings']],
    ['oxlint', node(packageScript('oxlint'), '--deny-warnings')],
    ['prettier', node(packageScript('prettier'), '--check', '--log-level=warn', '.')],
    ['async methods of native classes', node('scripts/source-check.mjs')],
    ['docs/errors.md', node('scripts/errors-doc.mjs', '--check')],
    ['versions and platforms', node('scripts/manifests.mjs', '--check')],
    ['workflows', node('scripts/workflow-check.mjs')],
    ['licences of linked crates', node('scripts/licenses.mjs', '--check')],
  ];
}

await runScript(import.meta, async () => {
  checkNode();
  const cargo = await checkRust();
  await alone(installPackages);
  const failed = [];
  for (const [name, [command, ...args], output] of checks(cargo)) {
    const { code } = await run(command, args, { output });
    console.log(`${code === 0 ? 'ok    ' : 'FAILED'} ${name}`);
    if (code !== 0) failed.push(name);
  }
  if (failed.length === 0) return 0;
  console.error(`lint failed: ${failed.join('; ')} (\`npm run format\` mends what can be mended)`);
  return 1;
});
