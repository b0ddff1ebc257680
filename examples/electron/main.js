'use strict';
// The main process: starts the host, passes questions to the person, and ends the host before the program ends.

const { join } = require('node:path');
const { app, BrowserWindow, dialog, ipcMain, utilityProcess } = require('electron');

let host;
let nextId = 1;
const open = new Map();

function tellHost(message) {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a process has no origin
  host.postMessage(message);
}

function call(method, params = {}) {
  if (host === undefined) return Promise.reject(new Error('the host of MCP servers is not running'));
  const id = nextId;
  nextId += 1;
  return new Promise((resolve, reject) => {
    open.set(id, { resolve, reject });
    tellHost({ id, method, params });
  });
}

async function askPerson({ question, fullName, input }) {
  const { response } = await dialog.showMessageBox({
    type: 'question',
    message: `Let ${fullName} run?`,
    detail: JSON.stringify(input, undefined, 2),
    buttons: ['Refuse', 'Run'],
    defaultId: 0,
    cancelId: 0,
  });
  if (host !== undefined) tellHost({ question, answer: response === 1 });
}

function receive(message) {
  if (message.question !== undefined) return void askPerson(message);
  if (message.status !== undefined) {
    for (const window of BrowserWindow.getAllWindows()) window.webContents.send('status', message.status);
    return;
  }
  const { resolve, reject } = open.get(message.id);
  open.delete(message.id);
  if (message.error === undefined) resolve(message.result);
  else reject(Object.assign(new Error(message.error.message), { code: message.error.code }));
}

/** What was open when the host ended is answered, too. */
function hostEnded(code) {
  for (const { reject } of open.values())
    reject(new Error(`the host of MCP servers ended with code ${code}`));
  open.clear();
  host = undefined;
}

async function start() {
  host = utilityProcess.fork(join(__dirname, 'host.js'), [], { serviceName: 'MCP servers' });
  host.on('message', receive);
  host.once('exit', hostEnded);
  ipcMain.handle('tools', () => call('tools'));
  ipcMain.handle('call', (_, tool, input) => call('call', { tool, input }));
  const folder = app.getPath('documents');
  const files = { command: 'npx', args: ['-y', '@modelcontextprotocol/server-filesystem', folder] };
  const opened = call('open', { servers: { files }, folder, stateDir: join(app.getPath('userData'), 'mcp') });
  const window = new BrowserWindow({ webPreferences: { preload: join(__dirname, 'preload.js') } });
  await window.loadFile(join(__dirname, 'index.html'));
  await opened;
}

app.whenReady().then(start, undefined);
app.on('window-all-closed', () => app.quit());
// Servers end with the host however it ends; asked to close, they can finish what they do.
app.on('before-quit', (event) => {
  if (host === undefined) return;
  event.preventDefault();
  host.once('exit', () => app.quit());
  call('close').catch(() => {});
});
