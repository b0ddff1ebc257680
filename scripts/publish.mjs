// Publishes a release: the platform packages first, the main package last, so that nobody ever installs a main package
// without its binary. A release that broke off goes on where it stopped.
//
//   node scripts/publish.mjs             checks everything and says what would be published
//   node scripts/publish.mjs --publish   publishes; only in the release workflow, from the tag of this version
//   node scripts/publish.mjs --guard     what `npm publish` in the checkout runs: refuses every other way

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { mustRun, root, run, runScript, Trouble } from './project.mjs';
import { currentVersion, packageFolder, TARGETS, unfit } from './targets.mjs';
import { findNpm } from './toolchain.mjs';

/** Set for the npm that this script starts; nothing else sets it. */
const PERMIT = 'MCP_SWITCHBOARD_PUBLISH';

/** Why a release may not go out from here, or nothing. */
export function notFromHere(env, { version, repository }) {
  if (env.GITHUB_ACTIONS !== 'true') return 'a release goes out from the release workflow only';
  if (env.GITHUB_REF !== `refs/tags/v${version}`)
    return `the tag has to be v${version}; this run is of ${env.GITHUB_REF ?? 'no tag'}`;
  // npm compares the two before it accepts the provenance.
  if (!env.GITHUB_REPOSITORY || !repository?.url?.endsWith(`github.com/${env.GITHUB_REPOSITORY}.git`))
    return `\`repository\` in package.json has to name ${env.GITHUB_REPOSITORY ?? 'the repository'}`;
  return undefined;
}

/** Why `npm publish` in the checkout is refused, or nothing: a registry on this machine may be tried out. */
export function guarded(env, version) {
  if (env[PERMIT] === version) return undefined;
  if (/^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(\/|$)/.test(env.npm_config_registry ?? ''))
    return undefined;
  return 'releases are published by the release workflow (CONTRIBUTING.md), never by hand';
}

function checkBinaries() {
  const problems = TARGETS.flatMap((target) => {
    const file = join(packageFolder(target), target.main);
    if (!existsSync(file)) return [`${target.triple}: no binary`];
    if (!existsSync(join(packageFolder(target), 'THIRD-PARTY-LICENSES.txt')))
      return [`${target.triple}: no licences`];
    const problem = unfit(target, readFileSync(file));
    return problem ? [`${target.triple}: the binary ${problem}`] : [];
  });
  if (problems.length > 0) throw new Trouble(`not ready to publish: ${problems.join('; ')}`);
}

async function publish({ name, folder }, version) {
  const [command, ...prefix] = findNpm();
  const found = await run(command, [...prefix, 'view', `${name}@${version}`, 'version'], { output: 'quiet' });
  if (found.code === 0 && found.text.trim() === version) {
    console.log(`${name}@${version} is published already`);
    return;
  }
  const tag = version.includes('-') ? ['--tag', 'next'] : [];
  const args = ['publish', folder, '--provenance', '--access', 'public', ...tag];
  await mustRun(command, [...prefix, ...args], { env: { [PERMIT]: version } });
}

await runScript(import.meta, async (args) => {
  const version = currentVersion();
  if (args.includes('--guard')) {
    const refusal = guarded(process.env, version);
    if (refusal) throw new Trouble(refusal);
    return;
  }
  await mustRun(process.execPath, ['scripts/manifests.mjs', '--check']);
  checkBinaries();
  const packages = TARGETS.map((target) => ({ name: target.name, folder: packageFolder(target) }));
  packages.push({ name: 'mcp-switchboard', folder: root });
  for (const { name } of packages) console.log(`${name}@${version}`);
  if (!args.includes('--publish')) return;
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const refusal = notFromHere(process.env, manifest);
  if (refusal) throw new Trouble(refusal);
  for (const each of packages) await publish(each, version);
});
