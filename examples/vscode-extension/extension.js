'use strict';
// A VS Code extension as a host of MCP servers: those of the workspace's .mcp.json and of the settings. Nothing of a
// workspace runs before the person trusts it (Restricted Mode) and approves each server of its file.

const vscode = require('vscode');
const { McpManager } = require('mcp-switchboard');

/** The manager of this extension host; there is none in Restricted Mode. */
let manager;
let statusItem;

/** Called once by VS Code; what it returns is for other extensions. */
async function activate(context) {
  statusItem = vscode.window.createStatusBarItem('switchboardSample', vscode.StatusBarAlignment.Left);
  statusItem.name = 'MCP servers';
  statusItem.command = 'switchboardSample.status';
  statusItem.show();
  context.subscriptions.push(
    statusItem,
    vscode.commands.registerCommand('switchboardSample.status', showServers),
    vscode.commands.registerCommand('switchboardSample.runTool', runTool),
    vscode.workspace.onDidGrantWorkspaceTrust(() => start(context)),
  );
  if (vscode.workspace.isTrusted) start(context);
  showStatus();
  return { manager: () => manager, statusText: () => statusItem.text };
}

/** VS Code waits a few seconds for this, then ends the extension host; the servers end in either case. */
async function deactivate() {
  await manager?.close({ mode: 'fast' });
}

function start(context) {
  if (manager !== undefined) return;
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const settings = vscode.workspace.getConfiguration('switchboardSample');
  manager = new McpManager({
    clientInfo: { name: 'switchboard-sample', version: context.extension.packageJSON.version },
    cwd: folder,
    servers: settings.get('servers'),
    // Only the workspace's own file; without a folder no file at all.
    config: folder === undefined ? false : { projectRoot: folder, homeDir: context.globalStorageUri.fsPath },
    roots: (vscode.workspace.workspaceFolders ?? []).map(({ uri }) => uri.fsPath),
    stateDir: context.globalStorageUri.fsPath,
    // An editor that was started from an icon has a short PATH.
    shellEnv: 'auto',
    onApproval: askForApproval,
    onPermission: askForPermission,
  });
  manager.on('status', showStatus);
  manager.on('toolsChanged', showStatus);
  // What fails shows in the status of its server.
  manager.connect().then(showStatus, showStatus);
}

async function askForApproval({ server, file, config, warnings }) {
  const command = config.url ?? [config.command, ...(config.args ?? [])].join(' ');
  const detail = [command, `from ${file}`, ...warnings.map(({ message }) => message)].join('\n');
  const question = `Start the MCP server "${server}" of this workspace?`;
  const answer = await vscode.window.showWarningMessage(question, { modal: true, detail }, 'Start', 'Never');
  return { Start: 'approved', Never: 'rejected' }[answer] ?? 'pending';
}

async function askForPermission({ fullName, input }) {
  const detail = JSON.stringify(input, undefined, 2);
  const question = `Let ${fullName} run?`;
  const answer = await vscode.window.showInformationMessage(
    question,
    { modal: true, detail },
    'Run',
    'Always',
  );
  if (answer === undefined) return { behavior: 'deny', message: 'the person said no' };
  return answer === 'Always' ? { behavior: 'allow', remember: 'session' } : { behavior: 'allow' };
}

function showStatus() {
  if (statusItem === undefined) return;
  if (manager === undefined) {
    statusItem.text = '$(shield) MCP: restricted';
    statusItem.tooltip = 'Servers start when you trust this workspace.';
    return;
  }
  const servers = manager.status();
  const connected = servers.filter(({ state }) => state === 'connected').length;
  const broken = servers.some(({ state }) => state === 'failed' || state === 'needs-auth');
  statusItem.text = `$(${broken ? 'warning' : 'plug'}) MCP: ${connected}/${servers.length}`;
  statusItem.tooltip = servers.map(({ name, state, reason }) => `${name}: ${reason ?? state}`).join('\n');
}

async function showServers() {
  const items = (manager?.status() ?? []).map(({ name, state, toolCount, reason }) => ({
    label: name,
    description: toolCount === undefined ? state : `${state}, ${toolCount} tools`,
    detail: reason,
    name,
  }));
  const title = 'MCP servers (choose one to connect it again)';
  const chosen = await vscode.window.showQuickPick(items, { title });
  if (chosen !== undefined) await manager.reconnect(chosen.name);
}

/** Runs a tool that the person picks and shows its answer; arguments are typed as JSON. */
async function runTool() {
  if (manager === undefined) return;
  const tools = await manager.listTools();
  const items = tools.map(({ name, description }) => ({ label: name, detail: description }));
  const chosen = await vscode.window.showQuickPick(items, { title: 'Run an MCP tool', matchOnDetail: true });
  if (chosen === undefined) return;
  const text = await vscode.window.showInputBox({
    title: chosen.label,
    prompt: 'Arguments, as JSON',
    value: '{}',
  });
  if (text === undefined) return;
  const progress = { location: vscode.ProgressLocation.Notification, title: chosen.label, cancellable: true };
  await vscode.window.withProgress(progress, async (_, token) => {
    const controller = new AbortController();
    token.onCancellationRequested(() => controller.abort());
    try {
      const result = await manager.callTool(chosen.label, JSON.parse(text), { signal: controller.signal });
      const content = result.content.map((block) => block.text ?? `[${block.type}]`).join('\n');
      await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content }));
    } catch (error) {
      if (!controller.signal.aborted) void vscode.window.showErrorMessage(String(error.message));
    }
  });
}

module.exports = { activate, deactivate };
