/**
 * The case files that cargo resolves (`cfg_07_case_files_resolve_as_they_say`), here as real files read by a manager: the
 * same words have to come out of `configReport()` and `status()`.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import type { ConfigOptions, JsonObject, McpManagerOptions, PermissionRules, Policy, ServerConfig } from '..';
import { fixture, temporaryDirectory, withManager } from './harness';

interface Layer {
  scope: string;
  file?: string;
  text?: string;
  shape?: string;
  voice?: string;
  overriding?: boolean;
  options?: Record<string, ServerConfig>;
}

interface Case {
  proves: string[];
  layers: Layer[];
  environment?: Record<string, string>;
  approvals?: { rejected: string[]; approved: Record<string, JsonObject | null> };
  host?: Policy & { permissions?: PermissionRules };
  relays?: string[];
  switches?: Record<string, boolean>;
  sdkInstances?: string[];
  expect: {
    servers: JsonObject[];
    entries: JsonObject[];
    errors: JsonObject[];
    warnings: JsonObject[];
    hides?: string[];
    moreEntries?: boolean;
    moreErrors?: boolean;
  };
}

/** Where the directories of the case files are on this machine. */
function places(base: string, cwd: string) {
  const real: Record<string, string> = {
    '/home': join(base, 'home'),
    '/etc/claude-code': join(base, 'managed'),
  };
  const [, project] = /^(\/[^/]+)/.exec(cwd) ?? ['', '/project'];
  real[project] = join(base, 'project');
  return (path: string) => {
    const root = Object.keys(real).find((one) => path === one || path.startsWith(`${one}/`));
    return root === undefined ? path : real[root] + path.slice(root.length);
  };
}

/** Why a case cannot be laid out in files, if so. */
function unfit({ layers, sdkInstances }: Case): string | undefined {
  if (layers.some(({ scope }) => scope === 'connector')) return 'connectors come from an account';
  if (layers.some(({ overriding }) => overriding)) return 'an addition that changes nothing is an error';
  return sdkInstances === undefined ? undefined : 'it holds an in-process server';
}

async function lay(
  one: Case,
  base: string,
): Promise<{ options: McpManagerOptions; at: (path: string) => string }> {
  const walked = one.layers
    .filter(({ file }) => file?.endsWith('/.mcp.json'))
    .map(({ file }) => dirname(file!));
  const cwd = walked.sort((a, b) => b.length - a.length)[0] ?? '/p';
  const at = places(base, cwd);
  for (const path of ['/home', '/etc/claude-code', cwd]) mkdirSync(at(path), { recursive: true });
  const write = (path: string, text: string) => {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  };
  const project = join(base, 'project');
  const config: ConfigOptions = {
    homeDir: at('/home'),
    managedDir: at('/etc/claude-code'),
    projectRoot: project,
    env: one.environment ?? {},
    relayUrlTemplates: one.relays ?? [],
  };
  const { permissions, ...policy } = one.host ?? {};
  const options: McpManagerOptions = {
    cwd: at(cwd),
    config,
    policy,
    permissions,
    stateDir: join(base, 'state'),
  };
  // What is not tracked is the person's own.
  execFileSync('git', ['init', '-q'], { cwd: project });
  if (one.approvals === undefined) options.onApproval = () => 'approved';
  else await approve(one, at, options, write);
  for (const { file, text, shape, options: servers } of one.layers) {
    if (servers !== undefined && shape === 'builtin') config.builtinServers = servers;
    else if (servers !== undefined) options.servers = servers;
    else write(at(file!), text!);
  }
  const foreign = one.layers.filter(({ scope, voice }) => scope === 'local' && voice === 'repository');
  for (const { file } of foreign) execFileSync('git', ['add', '-f', at(file!)], { cwd: project });
  return { options, at };
}

/** Puts down what was approved and rejected before. */
async function approve(
  { approvals, layers }: Case,
  at: (path: string) => string,
  options: McpManagerOptions,
  write: (path: string, text: string) => void,
): Promise<void> {
  const { approved, rejected } = approvals!;
  const seen = Object.entries(approved).filter(([, definition]) => definition !== null);
  const file = layers.find(({ scope }) => scope === 'project')?.file;
  if (seen.length > 0) {
    write(at(file!), JSON.stringify({ mcpServers: Object.fromEntries(seen) }));
    await withManager({ ...options, onApproval: () => 'approved' }, (manager) => manager.load());
  }
  const names = Object.keys(approved).filter((name) => approved[name] === null);
  if (names.length + rejected.length === 0) return;
  const lists = { enabledMcpjsonServers: names, disabledMcpjsonServers: rejected };
  write(at('/home/.claude/settings.json'), JSON.stringify(lists));
}

/** Every expected item has its own match; nothing is left over unless `open`. */
function compare(
  what: string,
  found: object[],
  expected: JsonObject[],
  at: (path: string) => string,
  open = false,
) {
  const rest = [...found] as Record<string, unknown>[];
  for (const item of expected) {
    const { says, ...facts } = item as JsonObject & { says?: string[] };
    if (typeof facts.file === 'string') facts.file = at(facts.file);
    if (typeof facts.by === 'string') facts.by = facts.by.replace(/\/[\w./-]+/, at);
    const fits = (one: Record<string, unknown>) =>
      Object.entries(facts).every(([key, value]) => JSON.stringify(one[key]) === JSON.stringify(value)) &&
      (says ?? []).every((word) => String(one.message).includes(word));
    const place = rest.findIndex(fits);
    expect(
      place,
      `no ${what} fits ${JSON.stringify(facts)}; left: ${JSON.stringify(rest, null, 1)}`,
    ).not.toBe(-1);
    rest.splice(place, 1);
  }
  if (!open) expect(rest, `unexpected ${what}`).toEqual([]);
}

const cases = readdirSync(fixture('config')).map((name) => {
  const one = JSON.parse(readFileSync(fixture('config', name), 'utf8')) as Case;
  return [name.replace('.json', ''), one] as const;
});

test('CFG-07 most case files can be laid out', () => {
  expect(cases.filter(([, one]) => unfit(one) === undefined).length).toBeGreaterThanOrEqual(18);
});

for (const [name, one] of cases.filter(([, each]) => unfit(each) === undefined)) {
  test(`CFG-07 ${one.proves.join(' ')} ${name}`, async () => {
    const { options, at } = await lay(one, temporaryDirectory());
    await withManager({ ...options, permissions: options.permissions ?? {} }, async (manager) => {
      const report = await manager.load();
      const { servers, entries, errors, warnings, hides, moreEntries, moreErrors } = one.expect;
      const statuses = manager.status().map((each) => ({ ...each, disabled: each.state === 'disabled' }));
      const shown = servers.map((server) => {
        const { name: own, scope, type, disabled } = server;
        return JSON.parse(JSON.stringify({ name: own, scope, type, disabled })) as JsonObject;
      });
      compare('server', statuses, shown, at);
      compare('entry', report.servers, entries, at, moreEntries);
      compare('error', report.errors, errors, at, moreErrors);
      // That a local file is not trusted is told by whoever reads it.
      const told = report.warnings.filter(({ code }) => code !== 'LOCAL_FILE_NOT_TRUSTED');
      compare('warning', told, warnings, at);
      for (const hidden of hides ?? []) expect(JSON.stringify(report), hidden).not.toContain(hidden);
    });
  });
}
