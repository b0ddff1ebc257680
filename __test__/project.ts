/** Home, organisation and project directories of a test, with every file of the real machine out of sight. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ConfigEntry, McpManagerOptions } from '..';
import { temporaryDirectory } from './harness';

/** The directories of one test, with these files in them; `options` make a manager read there. */
export function world(files: Record<string, unknown> = {}) {
  const base = temporaryDirectory();
  const at = (path: string) => join(base, path);
  for (const directory of ['home', 'managed', 'project']) mkdirSync(at(directory));
  const write = (path: string, content: unknown) => {
    mkdirSync(dirname(at(path)), { recursive: true });
    writeFileSync(at(path), typeof content === 'string' ? content : JSON.stringify(content));
  };
  for (const [path, content] of Object.entries(files)) write(path, content);
  const options: McpManagerOptions = {
    cwd: at('project'),
    config: { homeDir: at('home'), managedDir: at('managed'), projectRoot: at('project') },
    stateDir: at('home/state'),
  };
  return { at, write, options, json: (path: string) => JSON.parse(readFileSync(at(path), 'utf8')) };
}

/** A file of servers. */
export const servers = (mcpServers: Record<string, unknown>) => ({ mcpServers });

/** What became of each server, by name. */
export const fates = (entries: ConfigEntry[]) =>
  Object.fromEntries(entries.map(({ name, fate }) => [name, fate]));

/** A "server" that leaves a file where it ran. */
export const canary = (path: string) => ({ command: 'sh', args: ['-c', `touch ${path}`] });
