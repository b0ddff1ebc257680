// docs/errors.md from the table in src/error.rs, the one place where codes are defined.
//
//   node scripts/errors-doc.mjs [--check]     --check writes nothing and fails when the document is out of date

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { readIfThere, root, runScript, Trouble } from './project.mjs';

const TABLE = /^error_codes! \{$([\s\S]*?)^\}$/m;
const ROW = /^\s*\w+\s+"(\w+)"\s+"(\w+)"\s+(true|false)\s+"((?:[^"\\]|\\.)*)";$/gm;

const INTRODUCTION = `# Error codes

Generated from the table in \`src/error.rs\` by \`npm run format\`; do not edit.

Every error of this package has a \`code\`. The code is the contract: it stays the same between versions, while
messages are for people and may change. \`retryable\` on the error says whether the same request may succeed later
without anybody changing anything.
`;

/** The rows of the table: code, class, whether it may be tried again, and the sentence. */
export function errorTable(source) {
  const [, body] = TABLE.exec(source) ?? [];
  const rows = [...(body ?? '').matchAll(ROW)].map(([, code, className, retryable, sentence]) => {
    return { code, className, retryable: retryable === 'true', sentence: sentence.replace(/\\(.)/g, '$1') };
  });
  const expected = (body ?? '').split('\n').filter((line) => line.trim() !== '').length;
  if (rows.length === 0 || rows.length !== expected)
    throw new Trouble('the table in src/error.rs has another shape');
  return rows;
}

function section(className, rows) {
  const note = className === 'TypeError' ? ' (a plain `TypeError` with this `code`)' : '';
  const lines = rows.map(({ code, retryable, sentence }) => {
    return `| \`${code}\` | ${sentence.replaceAll('|', '\\|')} | ${retryable ? 'yes' : 'no'} |`;
  });
  return `\n## ${className}${note}\n\n| Code | Meaning | Retryable |\n| --- | --- | --- |\n${lines.join('\n')}\n`;
}

/** The whole document. */
export function errorsDocument(source) {
  const rows = errorTable(source);
  const classes = [...new Set(rows.map(({ className }) => className))];
  const sections = classes.map((name) =>
    section(
      name,
      rows.filter(({ className }) => className === name),
    ),
  );
  return INTRODUCTION + sections.join('');
}

await runScript(import.meta, (args) => {
  const file = join(root, 'docs', 'errors.md');
  const text = errorsDocument(readFileSync(join(root, 'src', 'error.rs'), 'utf8'));
  if (readIfThere(file)?.toString() === text) return;
  if (args.includes('--check')) throw new Trouble('docs/errors.md is out of date: run `npm run format`');
  mkdirSync(join(root, 'docs'), { recursive: true });
  writeFileSync(file, text);
});
