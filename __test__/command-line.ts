/** The command-line tool as a process of its own, in a project and with a home directory of its own. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { ServerConfig } from '..';
import { fixture, root, temporaryDirectory } from './harness';

const TOOL = join(root, 'bin', 'mcp-switchboard.js');

/** How the tool ended. */
export interface Said {
  code: number | null;
  signal: string | null;
  stdout: string;
  stderr: string;
}

/** How it is run. */
export interface How {
  /** What standard input holds; it is empty otherwise. */
  input?: string;
  /** Its streams say that they are terminals. */
  terminal?: boolean;
  env?: Record<string, string>;
  /** Is told of the running process. */
  meanwhile?: (child: ChildProcess, seen: () => Said) => void | Promise<void>;
}

export class CommandLine {
  readonly project = temporaryDirectory();
  readonly home = temporaryDirectory();

  constructor() {
    // The walk for `.mcp.json` and the project end here.
    mkdirSync(join(this.project, '.git'));
  }

  /** Servers of the user's own files, which need no approval. */
  user(servers: Record<string, ServerConfig>, settings: object = {}): this {
    writeFileSync(join(this.home, '.claude.json'), JSON.stringify({ mcpServers: servers }));
    mkdirSync(join(this.home, '.claude'), { recursive: true });
    writeFileSync(join(this.home, '.claude', 'settings.json'), JSON.stringify(settings));
    return this;
  }

  /** Servers that the project brings. */
  brings(servers: Record<string, ServerConfig>): this {
    writeFileSync(join(this.project, '.mcp.json'), JSON.stringify({ mcpServers: servers }));
    return this;
  }

  read(...path: string[]): string {
    return readFileSync(join(...path), 'utf8');
  }

  async run(args: string[], how: How = {}): Promise<Said> {
    const preload = how.terminal ? ['--require', fixture('terminal.cjs')] : [];
    const { NO_COLOR: _, FORCE_COLOR: __, ...inherited } = process.env;
    const env = { ...inherited, HOME: this.home, USERPROFILE: this.home, ...how.env };
    const child = spawn(process.execPath, [...preload, TOOL, ...args], { cwd: this.project, env });
    onTestFinished(() => void child.kill('SIGKILL'));
    const said: Said = { code: null, signal: null, stdout: '', stderr: '' };
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (said.stdout += chunk));
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (said.stderr += chunk));
    child.stdin.on('error', () => {});
    if (how.meanwhile === undefined) child.stdin.end(how.input ?? '');
    const ended = new Promise<Said>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) => resolve({ ...said, code, signal }));
    });
    await how.meanwhile?.(child, () => said);
    return ended;
  }

  /** The one JSON document that the tool says with `--json`. */
  async json(args: string[], how: How = {}): Promise<{ code: number | null; value: any; stderr: string }> {
    const { code, stdout, stderr } = await this.run([...args, '--json'], how);
    return { code, value: JSON.parse(stdout), stderr };
  }
}
