// Rejects `async fn` inside a `#[napi] impl`: when a worker ends with such a call in flight, Node frees the object
// that the future still borrows. Methods clone what they need and return a promise instead.

import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

import { root, runScript } from './project.mjs';

/** What is no code in Rust: comments (block comments nest, one level is enough here), strings and characters. */
const NOT_CODE =
  /\/\/[^\n]*|\/\*(?:[^*/]|\*(?!\/)|\/(?!\*)|\/\*(?:[^*]|\*(?!\/))*\*\/)*\*\/|b?r(#*)"[\s\S]*?"\1|"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\\n]|\\[^\n]{1,9}?)'/g;

/** The source with everything that is no code blanked out; line breaks stay, so line numbers do too. */
function codeOnly(source) {
  return source.replace(NOT_CODE, (text) => text.replace(/[^\n]/g, ' '));
}

/** The index just after the brace that closes the one at `open`. */
function endOfBlock(code, open) {
  let depth = 0;
  for (let at = open; at < code.length; at += 1) {
    if (code[at] === '{') depth += 1;
    else if (code[at] === '}' && (depth -= 1) === 0) return at + 1;
  }
  return code.length;
}

/** Line numbers of every `async fn` in a `#[napi] impl` of one source text. */
export function asyncMethods(source) {
  const code = codeOnly(source);
  const lines = [];
  for (const match of code.matchAll(/#\[napi\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:unsafe\s+)?impl\b[^{;]*\{/g)) {
    const open = match.index + match[0].length - 1;
    const body = code.slice(open, endOfBlock(code, open));
    for (const method of body.matchAll(/\basync\s+(?:unsafe\s+)?fn\b/g)) {
      lines.push(code.slice(0, open + method.index).split('\n').length);
    }
  }
  return lines;
}

await runScript(import.meta, () => {
  const source = join(root, 'src');
  const files = readdirSync(source, { recursive: true }).filter((name) => name.endsWith('.rs'));
  const found = files.flatMap((name) => {
    const file = join(source, name);
    return asyncMethods(readFileSync(file, 'utf8')).map((line) => `${relative(root, file)}:${line}`);
  });
  for (const place of found)
    console.error(`${place}: async method of a native class; return a promise instead`);
  return found.length > 0 ? 1 : 0;
});
