// Where the programs of the benchmark are: built by cargo, quick when nothing changed.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Builds the echo server at release speed and returns its path. */
export const buildServer = () => build('bench-echo-server');

/** Figures of the core's own decisions: `{id, title, micros, target}`. */
export function measureDecisions() {
  return figuresOf('bench-decisions', build('bench-decisions'), []);
}

/** Figures of fifty servers that start together, of the same shape. */
export function measureStart(server) {
  return figuresOf('bench/start.mjs', process.execPath, [join(root, 'bench', 'start.mjs'), server]);
}

function figuresOf(name, command, args) {
  const { status, stdout } = spawnSync(command, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) throw new Error(`${name} ended with code ${status}`);
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

function build(program) {
  const args = ['build', '--profile', 'local', '--bin', program];
  const { status, stdout, error } = spawnSync(
    'cargo',
    [...args, '--message-format=json-render-diagnostics'],
    {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
      maxBuffer: 64 * 1024 * 1024,
    },
  );
  if (error)
    throw new Error(`cargo could not be started (${error.code}); build the server and pass --server`);
  if (status !== 0) throw new Error(`\`cargo ${args.join(' ')}\` ended with code ${status}`);
  return executableOf(stdout, program);
}

/** Cargo says itself where it put the program: its target folder may be configured anywhere. */
function executableOf(messages, program) {
  for (const line of messages.split('\n')) {
    if (!line.startsWith('{')) continue;
    const { reason, target, executable } = JSON.parse(line);
    if (reason === 'compiler-artifact' && target.name === program && executable) return executable;
  }
  throw new Error(`cargo named no program ${program}`);
}

/** Starts the same program behind HTTP; it ends with this process. */
export async function startHttpServer(program) {
  const server = spawn(program, ['--http'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = await once(server.stdout.setEncoding('utf8'), 'data');
  return { url: line.trim(), stop: () => server.kill() };
}
