'use strict';

const { resolve } = require('node:path');
const { importConfig, McpManager } = require('../../../index.js');
const { CommandError } = require('../errors.js');
const { factsOf, oneLine } = require('../failure.js');
const { withManager } = require('../host.js');
const { columns, target } = require('../words.js');

const FAILED = 1;
const FORMATS = [
  'auto',
  'claude-desktop',
  'claude-code',
  'vscode',
  'cursor',
  'windsurf',
  'zed',
  'codex',
  'gemini',
  'opencode',
];

module.exports = {
  name: 'import',
  summary: 'take over the servers of another product’s file',
  usage: ['FILE [SERVER…]'],
  about: [
    'Shows what the file has in the form of this package, secrets redacted, with a warning for everything that has no',
    'counterpart. Nothing is written without --scope; with it, servers whose names are taken are left out and told.',
  ],
  positionals: [1, Infinity],
  options: {
    format: { type: 'string', value: 'FORMAT', choices: FORMATS, help: 'whose file it is (auto)' },
    scope: {
      type: 'string',
      value: 'SCOPE',
      choices: ['local', 'project', 'user'],
      help: 'write the servers there',
    },
  },
  run: (context) => run(context),
};

async function run(context) {
  const { values, positionals, out } = context;
  const [file, ...wanted] = positionals;
  const { servers, warnings } = await importConfig(resolve(values.cwd ?? '.', file), values.format);
  const chosen = only(servers, wanted, file);
  for (const { message } of warnings) out.warning(message);
  const { added, problems } =
    values.scope === undefined ? { added: [], problems: [] } : await write(chosen, context);
  const shown = await withoutSecrets(chosen);
  out.answer({ servers: shown, warnings, added, problems }, () => lines(shown, added, values.scope));
  if (values.scope === undefined && !out.json)
    out.note('nothing was written; --scope local, project or user does');
  return problems.length > 0 ? FAILED : undefined;
}

function only(servers, wanted, file) {
  const unknown = wanted.filter((name) => !Object.hasOwn(servers, name));
  if (unknown.length > 0) {
    throw new CommandError('SERVER_UNKNOWN', `${file} has no server ${unknown.join(', ')}`, {
      server: unknown[0],
      hint: `it has ${Object.keys(servers).join(', ') || 'none'}`,
    });
  }
  const entries = Object.entries(servers).filter(([name]) => wanted.length === 0 || wanted.includes(name));
  return Object.fromEntries(entries);
}

/** The definitions as reports show them. */
async function withoutSecrets(servers) {
  const manager = new McpManager({ config: false, servers });
  const report = await manager.load();
  await manager.close();
  return Object.fromEntries(report.servers.map(({ name, config }) => [name, config]));
}

async function write(servers, context) {
  const { values, out, signal } = context;
  return withManager(context, {}, async (manager) => {
    const [added, problems] = [[], []];
    for (const [name, config] of Object.entries(servers)) {
      try {
        await manager.addServer(name, config, { persist: values.scope, connect: false, signal });
        added.push(name);
      } catch (error) {
        signal.throwIfAborted();
        const facts = factsOf(error);
        problems.push({ server: name, ...facts });
        out.error(`${name}: ${oneLine(facts)}`);
      }
    }
    return { added, problems };
  });
}

function lines(servers, added, scope) {
  if (scope !== undefined) return added.map((name) => `added ${name} (${target(servers[name])})`);
  return columns(Object.entries(servers).map(([name, config]) => [name, target(config)]));
}
