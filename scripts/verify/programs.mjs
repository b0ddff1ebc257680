// Running other programs for the `verify` scripts: each in a process group of its own, with a deadline, and none of them
// outlives the script, however it ends.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

/** How much of the output of a failed program is shown. */
const TAIL_LINES = 25;

const running = new Set();
const folders = new Set();

process.on('exit', () => {
  for (const child of running) killGroup(child);
  for (const folder of folders) removeFolder(folder);
});
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
]) {
  process.once(signal, () => process.exit(code));
}

function killGroup(child) {
  try {
    if (process.platform === 'win32') {
      spawnSync('taskkill', ['/pid', String(child.pid), '/t', '/f'], { stdio: 'ignore' });
    } else {
      process.kill(-child.pid, 'SIGKILL');
    }
  } catch {
    // Gone already.
  }
}

function removeFolder(folder) {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
}

/** A folder that is gone when the script ends. Its real path. */
export function temporaryFolder(name) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), `switchboard-${name}-`)));
  folders.add(folder);
  return folder;
}

/**
 * Runs a program to its end.
 * @returns {Promise<{ code: number | null, signal: string | null, stdout: string, stderr: string, late: boolean }>}
 *   `late` when it was killed at its deadline; `code` 127 when there is no such program
 */
export async function runProgram([command, ...args], { cwd, env = process.env, deadlineMs }) {
  const child = start([command, ...args], { cwd, env });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (chunk) => (stdout += chunk));
  child.stderr.setEncoding('utf8').on('data', (chunk) => (stderr += chunk));
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    killGroup(child);
  }, deadlineMs);
  const ended = await new Promise((resolve) => {
    child.once('error', (error) => resolve({ code: 127, signal: null, error }));
    // Not `close`: a process that was left behind may hold the pipes.
    child.once('exit', (code, signal) => setTimeout(resolve, 50, { code, signal }));
  });
  clearTimeout(timer);
  if (ended.error) stderr += String(ended.error);
  return { code: ended.code, signal: ended.signal, stdout, stderr, late };
}

/** Like `runProgram`, but anything other than exit code 0 is an error with the end of the output. */
export async function mustRunProgram(command, options) {
  const ended = await runProgram(command, options);
  if (ended.code === 0 && !ended.late) return ended;
  throw new Error(`\`${command.join(' ')}\` ${howItEnded(ended, options.deadlineMs)}\n${tail(ended)}`);
}

/** Starts a program that goes on in the background until `stop()` or the end of the script, which it does not hold up. */
export function startProgram(command, options) {
  const child = start(command, options);
  const output = { text: '' };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk) => (output.text += chunk));
    stream.unref();
  }
  child.unref();
  child.once('error', (error) => (output.text += String(error)));
  return { child, output, stop: () => killGroup(child) };
}

function start([command, ...args], { cwd, env = process.env }) {
  const detached = process.platform !== 'win32';
  const child = spawn(command, args, { cwd, env, detached, stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  child.once('error', () => running.delete(child));
  // What it has left behind in its group ends with it.
  child.once('exit', () => {
    running.delete(child);
    killGroup(child);
  });
  return child;
}

export function howItEnded({ code, signal, late }, deadlineMs) {
  if (late) return `was not done within ${Math.round(deadlineMs / 1000)} s`;
  return signal === null ? `ended with code ${code}` : `was killed by ${signal}`;
}

export function tail({ stdout, stderr }) {
  const lines = `${stdout}\n${stderr}`.split('\n').filter((line) => line.trim() !== '');
  return lines
    .slice(-TAIL_LINES)
    .map((line) => `    | ${line.slice(0, 400)}`)
    .join('\n');
}

/** Waits until `check` gives something; fails after `ms`. */
export async function eventually(check, ms, what) {
  for (const end = Date.now() + ms; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what} did not happen within ${ms} ms`);
  }
}

/** Whether a process runs; one that only waits to be reaped does not. */
export function isAlive(pid) {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  if (process.platform !== 'linux') return true;
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return !['Z', 'X'].includes(stat.slice(stat.lastIndexOf(')') + 2)[0]);
  } catch {
    return false;
  }
}

/** PATH without the folders in which a program of Rust lies. */
export function pathWithoutRust() {
  const holdsRust = (folder) => ['cargo', 'rustc', 'rustup'].some((name) => existsSync(join(folder, name)));
  return (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '' && existsSync(folder) && !holdsRust(folder));
}

/** Names of the entries of a folder, none if it does not exist. */
export function entriesOf(folder) {
  return existsSync(folder) ? readdirSync(folder) : [];
}
