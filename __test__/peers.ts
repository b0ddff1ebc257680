/** Servers of the official SDKs that are no npm packages: where they come from. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fixture, root } from './harness';
import type { Command } from './laboratory';

/** Installing or building takes minutes at worst. */
const LIMIT = 10 * 60_000;

/** Runs a program to its end; what it said is in the error if it fails. */
function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, { cwd: root, encoding: 'utf8', timeout: LIMIT, stdio: 'pipe' });
}

/** A Python that is new enough for the SDK, if there is one. */
export function findPython(): string | undefined {
  return ['python3', 'python'].find((candidate) => {
    const { status } = spawnSync(candidate, ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))']);
    return status === 0;
  });
}

/** The version that is tested against. */
const MCP = 'mcp==2.3.0';

/** A Python with the SDK in a virtual environment of its own, made at the first use. */
function pythonWithMcp(): string {
  const folder = join(root, '.setup', 'python');
  const python = join(folder, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python');
  const stamp = join(folder, 'installed');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === MCP) return python;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(root, '.setup'), { recursive: true });
  run(findPython()!, '-m', 'venv', folder);
  run(python, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-input', MCP);
  writeFileSync(stamp, MCP);
  return python;
}

/** The laboratory server in Python. */
export function pythonServer(how: 'stdio' | 'http') {
  return (): Command => [pythonWithMcp(), fixture('peers', 'python_server.py'), how];
}

/** The laboratory server in Rust; cargo, which `npm test` has run before, knows whether it has to be built. */
export function rmcpServer(how: 'stdio' | 'http') {
  return (): Command => [(rmcpProgram ??= buildRmcpServer()), how];
}

let rmcpProgram: string | undefined;

function buildRmcpServer(): string {
  const cargo = process.env['CARGO'] ?? 'cargo';
  const example = ['--no-default-features', '--example', 'rmcp-server'];
  const said = run(cargo, 'build', '--quiet', '--message-format', 'json', ...example);
  const built = said
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as { target?: { name: string }; executable?: string | null })
    .find(({ target, executable }) => target?.name === 'rmcp-server' && executable);
  if (!built?.executable) throw new Error('cargo built no rmcp-server');
  return built.executable;
}
