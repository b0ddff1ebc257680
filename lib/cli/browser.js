'use strict';
// Opens an address in the person's browser, without a shell in between.

const { spawn } = require('node:child_process');

const OPENERS = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

function openBrowser(url) {
  const [program, ...args] = OPENERS[process.platform] ?? ['xdg-open'];
  const child = spawn(program, [...args, url], { stdio: 'ignore', detached: true });
  // The address was printed: whoever has no browser here can still go there.
  child.on('error', () => {});
  child.unref();
}

module.exports = { openBrowser };
