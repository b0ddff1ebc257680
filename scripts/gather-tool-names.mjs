// Gathers the two tables of tool names (`src/protocol/data/search-tools.txt` and `read-tools.txt`) from public MCP
// servers. Run by hand, never by CI:
//
//   node scripts/gather-tool-names.mjs [--folder DIR] [--only TEXT] [--install]
//
// 1. Installs every package of `tool-names/servers.json`, in the version named there, into a folder of its own under
//    DIR (default: a temporary one), without its install scripts. What is there already is not installed again.
// 2. Starts each over stdio through this package's own API, with dummy values for the keys and addresses it asks for,
//    and lists its tools. From a server that does not start, the names are read from the package's JavaScript
//    (`tool-names/sources.mjs`); these count as seen in its `sources`.
// 3. Classifies each name by `tool-names/rules.mjs`, with the decisions of a person in `tool-names/review.json`, and
//    writes both tables. A summary goes to standard output; `left-out.txt` in DIR lists every name in no table and why.
//
// The servers get a home of their own and nothing of this process's environment. They are other people's programs: where
// that matters, install them with `--install`, which starts nothing, and then run the script with the same folder where
// there is no network.

import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { root, run, runScript } from './project.mjs';
import { classifySeen } from './tool-names/rules.mjs';
import { dummyEnvironment, scriptsOf, toolNamesIn } from './tool-names/sources.mjs';

const AT_ONCE = 4;
const START_MS = 30_000;
const TABLES = join(root, 'src/protocol/data');
const read = (path) => JSON.parse(readFileSync(path, 'utf8'));

const folderOf = (server, parent) => join(parent, server.package.replaceAll(/[@/]/g, '_'));

/** Does `work` for every item, at most `AT_ONCE` at a time; the results in the order of the items. */
async function eachOf(items, work) {
  const results = [];
  const queue = items.entries();
  const worker = async () => {
    for (const [index, item] of queue) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}

/** Installs a server unless it is there; the folder of its package, or undefined when that fails. */
async function install(server, folder) {
  mkdirSync(folder, { recursive: true });
  const home = join(folder, 'node_modules', server.package);
  const manifest = join(home, 'package.json');
  if (existsSync(manifest) && read(manifest).version === server.version) return home;
  const flags = [
    '--ignore-scripts',
    '--omit=dev',
    '--no-audit',
    '--no-fund',
    '--no-package-lock',
    '--silent',
  ];
  const args = ['install', '--prefix', folder, ...flags, `${server.package}@${server.version}`];
  const { code } = await run('npm', args, { output: 'quiet' });
  return code === 0 ? home : undefined;
}

/** The script that starts the server: the `bin` named in servers.json, else the only or the first one. */
function programOf(server, home) {
  const { bin = {}, name } = read(join(home, 'package.json'));
  if (typeof bin === 'string') return join(home, bin);
  const path = bin[server.bin ?? name.split('/').at(-1)] ?? Object.values(bin)[0];
  return path && join(home, path);
}

/** Starts the server and lists its tools; undefined when it does not start or has none. */
async function listed(server, home, folder) {
  const program = programOf(server, home);
  if (!program) return undefined;
  const own = join(folder, 'home');
  mkdirSync(own, { recursive: true });
  const { McpManager } = createRequire(import.meta.url)(root);
  const dummies = Object.assign({}, ...[...scriptsOf(home)].map(dummyEnvironment));
  // `null` in servers.json: a variable that must stay unset.
  const environment = Object.fromEntries(
    Object.entries({ ...dummies, ...server.env }).filter(([, value]) => value !== null),
  );
  const manager = new McpManager({
    config: false,
    connectTimeoutMs: START_MS,
    servers: {
      s: {
        command: process.execPath,
        args: [program, ...(server.args ?? [])],
        env: { ...environment, HOME: own, USERPROFILE: own },
        cwd: own,
      },
    },
  });
  try {
    await manager.connect();
    const tools = await manager.listTools();
    if (tools.length === 0)
      console.error(`${server.package} lists nothing`, manager.status('s')?.stderrTail?.slice(-3));
    return tools.map(({ mcpInfo, annotations }) => ({ name: mcpInfo.toolName, annotations }));
  } catch (error) {
    console.error(`${server.package}: ${error.message}`);
    return undefined;
  } finally {
    await manager.close();
  }
}

/** What is known of one server: its tools and how they were seen. Kept beside the install for the next run. */
async function look(server, folder) {
  const kept = join(folder, 'seen.json');
  if (existsSync(kept)) {
    const seen = read(kept);
    if (seen.version === server.version) return { ...server, ...seen };
  }
  const home = await install(server, folder);
  if (!home) return { ...server, how: 'not installed', tools: [] };
  let tools = await listed(server, home, folder);
  const how = tools?.length ? 'listed' : 'sources';
  if (how === 'sources') {
    const names = new Set([...scriptsOf(home)].flatMap(toolNamesIn));
    tools = [...names].map((name) => ({ name, annotations: {} }));
  }
  const seen = { version: server.version, how, tools };
  writeFileSync(kept, JSON.stringify(seen));
  console.error(`${server.package}@${server.version}: ${tools.length} ${how}`);
  return { ...server, ...seen };
}

function table(title, entries) {
  const lines = entries.map(
    ({ name, where, how }) => `${name}\t${where}${how === 'sources' ? '\tsources' : ''}`,
  );
  return `${title}${lines.sort().join('\n')}\n`;
}

const heading = (
  what,
) => `# Names of tools that ${what}: name, tab, package@version it was seen in. A third column "sources" means that the name was
# read from the package's JavaScript, not listed by the running server. Written by scripts/gather-tool-names.mjs; names
# left out by hand, with reasons, are in scripts/tool-names/review.json.
`;

await runScript(import.meta, async (args) => {
  const { values } = parseArgs({
    args,
    options: { folder: { type: 'string' }, only: { type: 'string' }, install: { type: 'boolean' } },
  });
  const folder = resolve(values.folder ?? mkdtempSync(join(tmpdir(), 'tool-names-')));
  const servers = read(join(root, 'scripts/tool-names/servers.json')).filter(
    (server) => !values.only || server.package.includes(values.only),
  );
  if (values.install) {
    await eachOf(servers, (server) => install(server, folderOf(server, folder)));
    return 0;
  }
  const seen = await eachOf(servers, (server) => look(server, folderOf(server, folder)));
  const names = classifySeen(seen, read(join(root, 'scripts/tool-names/review.json')));
  const kind = (wanted) => names.filter((entry) => entry.kind === wanted);
  const leftOut = kind(undefined).map(({ name, why, where }) => `${name}\t${why}\t${where}`);
  writeFileSync(join(folder, 'left-out.txt'), `${leftOut.sort().join('\n')}\n`);
  if (!values.only) {
    writeFileSync(join(TABLES, 'search-tools.txt'), table(heading('search'), kind('search')));
    writeFileSync(join(TABLES, 'read-tools.txt'), table(heading('read'), kind('read')));
  }
  const by = (how) => seen.filter((server) => server.how === how).length;
  console.log(
    `servers: ${by('listed')} listed, ${by('sources')} read from sources, ${by('not installed')} not installed`,
  );
  console.log(
    `names: ${kind('search').length} search, ${kind('read').length} read, ${leftOut.length} in no table`,
  );
  console.log(`all of it: ${folder}`);
});
