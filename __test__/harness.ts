/**
 * What the tests share: descriptions of the faulty server, managers that must leave nothing behind, waiting with a
 * deadline, processes seen through `/proc`. Owns no expectations about the package beyond "no process is left".
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished } from 'vitest';
import {
  McpManager,
  type McpManagerEvents,
  type McpManagerOptions,
  type StdioServerConfig,
  type ToolResult,
} from '..';

const here = dirname(fileURLToPath(import.meta.url));

/** The package's root directory. */
export const root = dirname(here);

/** Path of a file below `fixtures/`, or of a server of the zoo. */
export function fixture(...path: string[]): string {
  const own = join(here, 'fixtures', ...path);
  return existsSync(own) ? own : join(root, 'zoo', 'servers', ...path);
}

const FAULTY = fixture('faulty-server.mjs');

/** The faulty server with these flags (listed at the top of `zoo/servers/faulty-server.mjs`). */
export function faulty(...flags: string[]): StdioServerConfig {
  return { command: process.execPath, args: [FAULTY, ...flags] };
}

/** A real server from `node_modules`, by its package name. */
export function realServer(name: string, ...args: string[]): StdioServerConfig {
  const manifest = createRequire(import.meta.url).resolve(`${name}/package.json`);
  const { bin } = JSON.parse(readFileSync(manifest, 'utf8')) as { bin: string | Record<string, string> };
  const path = typeof bin === 'string' ? bin : Object.values(bin)[0];
  return { command: process.execPath, args: [join(dirname(manifest), path), ...args] };
}

/** A port nobody listens on now. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts the "everything" server with a transport, for one test; gives its port once it listens. */
export async function everythingServer(
  transport: 'streamableHttp' | 'sse',
): Promise<{ port: number; stop: () => void }> {
  const started = await startEverything(transport);
  onTestFinished(started.stop);
  return started;
}

/** The same until `stop` is called. */
export async function startEverything(
  transport: 'streamableHttp' | 'sse',
): Promise<{ port: number; stop: () => void }> {
  const manifest = createRequire(import.meta.url).resolve(
    '@modelcontextprotocol/server-everything/package.json',
  );
  const port = await freePort();
  const child = spawn(process.execPath, [join(dirname(manifest), 'dist', 'index.js'), transport], {
    env: { ...process.env, PORT: String(port) },
    stdio: 'ignore',
  });
  const stop = () => void child.kill('SIGKILL');
  await eventually(async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/nowhere`).catch(() => undefined);
    return answer?.status === 404;
  }, 20_000);
  return { port, stop };
}

/** What a test gets unless it says otherwise: no files are read, every tool is allowed, nothing is cut, servers stop soon. */
export const DEFAULTS: McpManagerOptions = {
  config: false,
  maxOutputTokens: 0,
  permissions: { allow: ['mcp__*'] },
  shutdown: { graceMs: 500, termMs: 300, fastIntMs: 100, fastTermMs: 200 },
};

/** Runs `body` with a manager, closes it, and fails when a process it reported is still there. */
export async function withManager<T>(
  options: McpManagerOptions,
  body: (manager: McpManager) => Promise<T>,
): Promise<T> {
  const manager = new McpManager({ ...DEFAULTS, ...options });
  const pids = new Set<number>();
  manager.on('status', ({ pid }) => {
    if (pid !== undefined) pids.add(pid);
  });
  try {
    return await body(manager);
  } finally {
    for (const { pid } of manager.status()) if (pid !== undefined) pids.add(pid);
    await manager.close();
    for (const pid of pids) await gone(pid, 1000);
  }
}

/** A manager with one faulty server named `s`. */
export function withFaulty<T>(
  flags: string[],
  body: (manager: McpManager) => Promise<T>,
  options: McpManagerOptions = {},
): Promise<T> {
  return withManager({ ...options, servers: { s: faulty(...flags) } }, body);
}

/** A directory that is removed when the test ends. Its real path. */
export function temporaryDirectory(): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'switchboard-')));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Whether a process runs; one that only waits to be reaped does not. */
export function isAlive(pid: number): boolean {
  if (process.platform === 'linux') {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      return !['Z', 'X'].includes(stat.slice(stat.lastIndexOf(')') + 2)[0]);
    } catch {
      return false;
    }
  }
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Waits until `check` gives something other than `undefined` or `false`; fails after `ms`. */
export async function eventually<T>(
  check: () => T | Promise<T>,
  ms = 3000,
  what = 'what was waited for',
): Promise<NonNullable<T>> {
  const end = Date.now() + ms;
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false && value !== null) return value as NonNullable<T>;
    if (Date.now() > end) throw new Error(`${what} did not happen within ${ms} ms`);
    await pause(15);
  }
}

/** Waits until a process is gone. */
export async function gone(pid: number, ms = 3000): Promise<void> {
  await eventually(() => !isAlive(pid), ms, `the end of process ${pid}`);
}

/** Waits. */
export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The next event of that name for which `wanted` holds; rejects after `ms`. */
export function nextEvent<K extends keyof McpManagerEvents>(
  manager: McpManager,
  name: K,
  wanted: (payload: McpManagerEvents[K][0]) => boolean = () => true,
  ms = 3000,
): Promise<McpManagerEvents[K][0]> {
  return new Promise((resolve, reject) => {
    // The emitter's own overloads cannot follow a generic name.
    const emitter = manager as unknown as {
      on(name: string, listener: (payload: McpManagerEvents[K][0]) => void): void;
      off(name: string, listener: (payload: McpManagerEvents[K][0]) => void): void;
    };
    const timer = setTimeout(() => {
      emitter.off(name, listener);
      reject(new Error(`no '${name}' event as wanted within ${ms} ms`));
    }, ms);
    const listener = (payload: McpManagerEvents[K][0]): void => {
      if (!wanted(payload)) return;
      clearTimeout(timer);
      emitter.off(name, listener);
      resolve(payload);
    };
    emitter.on(name, listener);
  });
}

/** Any error of the package, with all it may carry. */
export type AnyError = Error &
  Record<string, unknown> & {
    code?: string;
    server?: string;
    stderrTail?: string[];
    exit?: { code: number | null; signal: string | null };
    suggestions?: string[];
    result?: ToolResult;
  };

/** The error a promise rejects with; fails when it resolves. */
export async function caught(promise: Promise<unknown>): Promise<AnyError> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    return error as AnyError;
  }
  throw new Error(`expected a rejection, got ${JSON.stringify(value)?.slice(0, 300)}`);
}

/** The error a function throws; fails when it returns. */
export function thrown(body: () => unknown): AnyError {
  let value: unknown;
  try {
    value = body();
  } catch (error) {
    return error as AnyError;
  }
  throw new Error(`expected an exception, got ${JSON.stringify(value)}`);
}

/** Text of the first block. */
export function textOf(result: ToolResult): string {
  const block = result.content[0];
  expect(block?.type).toBe('text');
  return block.type === 'text' ? block.text : '';
}

/** Watches how long the event loop stands still; the function it gives ends that and tells the longest time, in ms. */
export function watchEventLoop(): () => number {
  let worst = 0;
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    worst = Math.max(worst, now - last - 10);
    last = now;
  }, 10);
  return () => {
    clearInterval(timer);
    return worst;
  };
}

/** The first block's text, parsed. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the shape is the fixture's and differs per tool
export const jsonOf = (result: ToolResult): any => JSON.parse(textOf(result));

/** A message as the faulty server noted it. */
export interface Noted {
  id?: number | string;
  method?: string;
  params?: {
    name?: string;
    arguments?: unknown;
    requestId?: number | string;
    _meta?: Record<string, unknown>;
    [key: string]: unknown;
  };
  result?: unknown;
}

/** Messages noted by `--notes FILE`, in order. */
export function notes(file: string): Noted[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Noted);
}

/** What became of a Node.js program. */
export interface Ended {
  code: number | null;
  signal: string | null;
  stdout: string;
  stderr: string;
  ms: number;
}

/** Runs a program of `fixtures/hosts/` to its end; kills it after `limitMs`. */
export function runHost(file: string, args: string[] = [], limitMs = 20_000): Promise<Ended> {
  return runNode([fixture('hosts', file), ...args], limitMs);
}

/** Runs Node.js with these arguments in the package's root. */
export function runNode(args: string[], limitMs = 20_000): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const begin = Date.now();
    const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (stdout += chunk));
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk));
    const timer = setTimeout(() => child.kill('SIGKILL'), limitMs);
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      clearTimeout(timer);
      // A server left behind may hold the pipes; the program's own end is what counts.
      setTimeout(() => resolve({ code, signal, stdout, stderr, ms: Date.now() - begin }), 50);
    });
  });
}

/** The tools a manager lists once every server had its first try. */
export async function toolsOf(manager: McpManager, server?: string): ReturnType<McpManager['listTools']> {
  await manager.connect();
  return manager.listTools(server === undefined ? {} : { server });
}
