// `npm run verify:vscode`: the sample extension in a real extension host, without the other runtimes. Needs Chromium, a C++
// compiler and Python for two modules of the editor. Ends 0 when all of it holds.
//
//   node scripts/verify-vscode.mjs [--prebuilt] [--profile NAME] [--skip vscode]

import { runScript } from './project.mjs';
import { prepare } from './verify/prepare.mjs';
import { temporaryFolder } from './verify/programs.mjs';
import { Report } from './verify/report.mjs';
import { publishedWorld } from './verify/registry.mjs';
import { VSCODE, vscodeSteps } from './verify/vscode.mjs';

await runScript(import.meta, async (args) => {
  const { skip } = await prepare(args);
  const report = new Report('before');
  const world = skip.includes(VSCODE) ? {} : await publishedWorld(report, temporaryFolder('vscode'));
  if (world !== undefined) await vscodeSteps(report, world, skip);
  return report.end();
});
