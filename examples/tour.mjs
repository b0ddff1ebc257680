// A tour of mcp-switchboard with three real servers, started from the .mcp.json beside this file as any user would.
// It uses only the public API, works in a temporary folder, and leaves neither files nor processes behind.
//
//   npm start

import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { McpManager } from 'mcp-switchboard';

import { bytes, columns, heading, note, Progress, table } from './print.mjs';

/** Nothing here may hang: whatever is still going on after this long is cancelled. */
const limit = AbortSignal.timeout(90_000);
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'switchboard-tour-')));
// .mcp.json names the folder as ${TOUR_FOLDER}.
process.env.TOUR_FOLDER = folder;
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
process.once('SIGINT', () => process.exit(130));

const manager = new McpManager({
  cwd: import.meta.dirname,
  // Only the .mcp.json beside this file: no other project's and none of your own servers.
  config: { projectRoot: import.meta.dirname, homeDir: folder, managedDir: join(folder, 'managed') },
  stateDir: false,
  roots: [folder],
  connectTimeoutMs: 60_000,
  validateInput: true,
  // Servers of a project file start only when somebody agrees. A real program would ask its user.
  onApproval: () => 'approved',
  permissions: {
    allow: ['mcp__everything', 'mcp__memory', 'mcp__filesystem__write_file', 'mcp__filesystem__read_*'],
    deny: ['mcp__everything__get-env'],
  },
  // Asked for every call that no rule decides.
  onPermission: ({ fullName }) => ({
    behavior: 'deny',
    message: `the tour does not want ${fullName} to run`,
  }),
});

/** Every process that a server was seen to run as. */
const pids = new Set();
manager.on('status', ({ pid }) => pid && pids.add(pid));

/** Connects everything and shows what is there. */
async function servers() {
  heading('Servers');
  await manager.connect();
  const status = await manager.ready({ timeoutMs: 60_000, signal: limit });
  for (const { pid } of status) if (pid) pids.add(pid);
  const rows = status.map(({ name, state, serverInfo, protocolVersion, toolCount, pid, reason }) => {
    const version = serverInfo ? `${serverInfo.name} ${serverInfo.version}` : (reason ?? '');
    return [name, state, version, protocolVersion ?? '', String(toolCount ?? ''), String(pid ?? '')];
  });
  table(['server', 'state', 'version', 'protocol', 'tools', 'pid'], rows);
  const missing = status.filter(({ state }) => state !== 'connected');
  if (missing.length > 0) throw new Error(`not connected: ${missing.map(({ name }) => name).join(', ')}`);
}

async function tools() {
  const list = await manager.listTools({ signal: limit });
  heading(`Tools: ${list.length}, under their full names`);
  columns(list.map(({ name }) => name));
}

/** One line for each block of a result. */
function show({ fullName, content, elapsedMs }) {
  note(`${fullName} (${Math.round(elapsedMs)} ms)`);
  for (const block of content) {
    if (block.type === 'text') note(`  ${block.text.trim().split('\n')[0]}`);
    else if (block.type === 'image')
      note(`  ${block.mimeType}, ${bytes(Buffer.from(block.data, 'base64').length)}`);
    else note(`  ${block.type}`);
  }
}

async function calls() {
  heading('Calls');
  show(await manager.callTool('mcp__everything__echo', { message: 'hello, switchboard' }, { signal: limit }));

  const progress = new Progress('mcp__everything__trigger-long-running-operation');
  const operation = await manager.callTool(
    'mcp__everything__trigger-long-running-operation',
    { duration: 2, steps: 5 },
    { signal: limit, onProgress: (update) => progress.update(update) },
  );
  progress.end();
  show(operation);

  show(await manager.callTool('mcp__everything__get-tiny-image', {}, { signal: limit }));

  const path = join(folder, 'note.txt');
  const content = 'Written by one call, read by the next: naïve café ✓';
  show(await manager.callTool('mcp__filesystem__write_file', { path, content }, { signal: limit }));
  const read = await manager.callTool('mcp__filesystem__read_text_file', { path }, { signal: limit });
  show(read);
  if (read.content[0]?.text !== content) throw new Error('the file came back changed');

  const entities = [{ name: 'switchboard', entityType: 'package', observations: ['connects many servers'] }];
  await manager.callTool('mcp__memory__create_entities', { entities }, { signal: limit });
  const found = await manager.callTool('mcp__memory__search_nodes', { query: 'many' }, { signal: limit });
  note(`${found.fullName}: ${found.structuredContent.entities.map(({ name }) => name).join(', ')}`);
}

async function resourcesAndPrompts() {
  heading('A resource and a prompt');
  const [resource] = await manager.readResource('everything', 'demo://resource/dynamic/text/1', {
    signal: limit,
  });
  note(`${resource.uri} (${resource.mimeType})`);
  note(`  ${resource.text}`);

  const place = { city: 'Lisbon', state: 'Portugal' };
  const prompt = await manager.getPrompt('mcp__everything__args-prompt', place, { signal: limit });
  note('mcp__everything__args-prompt');
  for (const { role, content } of prompt.messages) note(`  ${role}: ${content.text}`);
}

/** Makes a call that has to fail, and shows how. */
async function refused(what, tool, args) {
  const error = await manager.callTool(tool, args, { signal: limit }).then(
    () => undefined,
    (reason) => reason,
  );
  if (error === undefined) throw new Error(`${tool} should have been refused`);
  note(`${what}: ${tool}`);
  note(`  ${error.name} ${error.code}`);
  note(`  ${error.message.split('\n')[0]}`);
}

async function refusals() {
  heading('What goes wrong, and how it looks');
  const source = join(folder, 'note.txt');
  await refused('refused by onPermission', 'mcp__filesystem__move_file', {
    source,
    destination: `${source}.bak`,
  });
  await refused('refused by a rule', 'mcp__everything__get-env', {});
  await refused('wrong argument', 'mcp__everything__echo', { message: 42 });
  await refused('misspelt tool', 'mcp__everything__ecco', { message: 'hello' });
}

function exists(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** A server runs in a process group of its own (not on Windows), so this sees what it started, too. */
function isAlive(pid) {
  return exists(pid) || (process.platform !== 'win32' && exists(-pid));
}

async function end() {
  await manager.close();
  const left = [...pids].filter(isAlive);
  heading('End');
  note(
    `${pids.size} server processes were started, ${left.length === 0 ? 'none is left' : `left: ${left.join(', ')}`}`,
  );
  if (left.length > 0) process.exitCode = 1;
}

try {
  await servers();
  await tools();
  await calls();
  await resourcesAndPrompts();
  await refusals();
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await end();
}
