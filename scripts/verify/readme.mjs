// The lines with which the README begins, as programs. They are read from the README itself, so that what people copy is
// what is tried; `askUser`, which they leave to the reader, says yes. They read the package.json of the folder they run in.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { root, Trouble } from '../project.mjs';

/** Stands in the package.json of every folder in which the lines run. */
export const MARK = 'blank-folder-of-verify-install';

/** What a run of the lines must have printed. */
export const EXPECTED = [/mcp__files__read_text_file/, new RegExp(`read: [^]*${MARK}`)];

/** The first example of the README: its import, and the rest. */
function lines() {
  const text = readFileSync(join(root, 'README.md'), 'utf8');
  const code = /```js\n([^]*?)```/.exec(text)?.[1];
  const [first, ...rest] = (code ?? '').split('\n');
  if (first === IMPORT) return { first, body: rest.join('\n').trim() };
  throw new Trouble(`the first example of README.md does not begin with \`${IMPORT}\``);
}

const IMPORT = "import { McpManager } from 'mcp-switchboard';";
const SHOW = 'const [block] = result.content;\nconsole.log(`read: ${block.text}`);\n';

/** As an ES module. */
export function asModule() {
  const { first, body } = lines();
  return `${first}\n\nconst askUser = async () => true;\n${body}\n${SHOW}`;
}

/** As a CommonJS module. */
export function asCommonJs() {
  const { body } = lines();
  const first = "const { McpManager } = require('mcp-switchboard');";
  return `${first}\n\nconst askUser = async () => true;\nvoid (async () => {\n${body}\n${SHOW}})();\n`;
}

const DECLARATION =
  'declare function askUser(tool: string, input: Record<string, unknown>): Promise<boolean>;';

/** As an ES module whose top level does not wait, so that it can become CommonJS. */
export function asFunction() {
  const { first, body } = lines();
  return `${first}\n\nconst askUser = async () => true;\nasync function main() {\n${body}\n${SHOW}}\nvoid main();\n`;
}

/** For the compiler, as a module whose top level may wait. */
export function asTypeScript() {
  const { first, body } = lines();
  return `${first}\n\n${DECLARATION}\n${body}\nexport const text: string = result.content.map((block) => block.type).join();\n`;
}

/** For the compiler, as a module that becomes CommonJS. */
export function asCommonJsTypeScript() {
  const { first, body } = lines();
  return `${first}\n\n${DECLARATION}\nexport async function main(): Promise<void> {\n${body}\nresult.fullName satisfies string;\n}\n`;
}
