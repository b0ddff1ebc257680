'use strict';
// Looks at the sample extension from inside the same extension host and writes what it sees, one JSON object a line, to
// the file that PROBE_REPORT names. It lives twice: the first time it reloads the window, and with it the extension host, in the middle of calls.

const { appendFileSync, existsSync, readFileSync } = require('node:fs');
const process = require('node:process');
const vscode = require('vscode');

const FILE = process.env.PROBE_REPORT;
const SAMPLE = 'mcp-switchboard-examples.switchboard-sample';
const LIMIT_MS = 120_000;

const tell = (fact) => appendFileSync(FILE, `${JSON.stringify(fact)}\n`);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function eventually(check, what) {
  for (const end = Date.now() + LIMIT_MS; Date.now() < end; await pause(50)) {
    const value = check();
    if (value) return value;
  }
  throw new Error(`${what} did not happen`);
}

const connected = (api) =>
  eventually(() => {
    const servers = api.manager()?.status() ?? [];
    return servers.length > 0 && servers.every(({ state }) => state === 'connected') && servers;
  }, 'the connection of all servers');

async function callTool(api, text) {
  const { content } = await api.manager().callTool('mcp__lab__echo', { text });
  return JSON.parse(content[0].text).text;
}

async function firstLife(api) {
  if (!vscode.workspace.isTrusted) {
    tell({ step: 'restricted', manager: api.manager() !== undefined, status: api.statusText() });
    await eventually(() => vscode.workspace.isTrusted, 'the trust of the workspace');
  }
  tell({ step: 'trusted' });
  const [{ pid }] = await connected(api);
  const { length: tools } = await api.manager().listTools();
  tell({ step: 'connected', pid, tools, status: api.statusText() });
  tell({ step: 'called', text: await callTool(api, 'from the extension host') });
  for (let n = 0; n < 100; n += 1)
    api
      .manager()
      .callTool('mcp__lab__sleep', { ms: 60_000 })
      .catch(() => {});
  await pause(200);
  tell({ step: 'reloading' });
  // It ends this extension host, so it has no answer here.
  vscode.commands.executeCommand('workbench.action.reloadWindow').then(undefined, () => {});
}

async function secondLife(api) {
  const [{ pid }] = await connected(api);
  tell({ step: 'connected again', pid, text: await callTool(api, 'after the restart') });
}

async function activate() {
  if (FILE === undefined) return;
  const before = existsSync(FILE) ? readFileSync(FILE, 'utf8') : '';
  try {
    const sample = vscode.extensions.getExtension(SAMPLE);
    const api = await sample.activate();
    const { node, modules } = process.versions;
    tell({ step: 'activated', pid: process.pid, host: { node, modules, vscode: vscode.version } });
    await (before.includes('reloading') ? secondLife(api) : firstLife(api));
  } catch (error) {
    tell({ step: 'failed', error: String(error?.stack ?? error) });
  }
}

module.exports = { activate };
