// The project on disk: where it lies and how its scripts run other programs. Used by every other script here; needs
// nothing but Node.

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Absolute path of the checkout, without a trailing separator. */
export const root = fileURLToPath(new URL('..', import.meta.url)).replace(/[/\\]$/, '');
/** Stamps, the lock and reports of the scripts; never committed. */
export const stateFolder = join(root, '.setup');

/** A failure that is told in one sentence, without a stack. */
export class Trouble extends Error {}

/**
 * When the module of `meta` is the program that Node was started with: runs `main` with the arguments and turns its
 * result into an exit code, its failure into a sentence.
 */
export async function runScript(meta, main) {
  const [, program] = process.argv;
  if (!program || realpathSync(program) !== realpathSync(fileURLToPath(meta.url))) return;
  try {
    process.exitCode = (await main(process.argv.slice(2))) ?? 0;
  } catch (error) {
    console.error(error instanceof Trouble ? `error: ${error.message}` : error);
    process.exitCode = 1;
  }
}

/** For each way to run a program: where its standard output and its standard error go. */
const STREAMS = {
  inherit: ['inherit', 'inherit'],
  stderr: [2, 'inherit'],
  capture: ['pipe', 'inherit'],
  quiet: ['pipe', 'ignore'],
  tee: ['pipe', 'inherit'],
};

/**
 * Runs a program without a shell, in the root of the checkout unless `cwd` says otherwise. Standard output is returned as `text` with `output`
 * 'capture', 'quiet' (which hides standard error) and 'tee' (which also shows it); 'stderr' sends it there.
 * After `timeoutMs` (default: never) it is told to end.
 * @returns {Promise<{ code: number, text: string }>} code 127 when the program does not exist
 */
export function run(command, args, { output = 'inherit', env = {}, cwd = root, timeoutMs } = {}) {
  return new Promise((done, fail) => {
    const stdio = ['ignore', ...STREAMS[output]];
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio, timeout: timeoutMs });
    let text = '';
    child.stdout?.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
      if (output === 'tee') process.stdout.write(chunk);
    });
    child.once('error', (error) => (error.code === 'ENOENT' ? done({ code: 127, text }) : fail(error)));
    child.once('close', (code) => done({ code: code ?? 1, text }));
  });
}

/** Like `run`, but a non-zero exit ends the script with a sentence. */
export async function mustRun(command, args, options) {
  const result = await run(command, args, options);
  if (result.code !== 0)
    throw new Trouble(`\`${[command, ...args].join(' ')}\` ended with code ${result.code}`);
  return result;
}

/** The script behind a command of an installed package: Node runs it without a shell on every platform. */
export function packageScript(name, command = name) {
  const folder = join(root, 'node_modules', name);
  const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return join(folder, typeof bin === 'string' ? bin : bin[command]);
}

/** SHA-256 of some files of the checkout, in hexadecimal. */
export function hashFiles(...names) {
  const hash = createHash('sha256');
  for (const name of names)
    hash
      .update(name)
      .update('\0')
      .update(readFileSync(join(root, name)))
      .update('\0');
  return hash.digest('hex');
}

/** Reads a file, or nothing if there is none. */
export function readIfThere(file) {
  try {
    return readFileSync(file);
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
    throw error;
  }
}
