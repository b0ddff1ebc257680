'use strict';
// Opens an address in the person's browser, without a shell in between. The program is one of the system's or of an absolute
// place of PATH, never one that lies in the working directory (B-012).

const { spawn } = require('node:child_process');
const { accessSync, constants } = require('node:fs');
const path = require('node:path');

/** The program and what goes before the address; nothing where there is no program. */
function opener() {
  if (process.platform === 'darwin') return ['/usr/bin/open'];
  if (process.platform === 'win32') {
    const system = path.join(process.env.SystemRoot ?? 'C:\\Windows', 'System32');
    return [path.join(system, 'rundll32.exe'), 'url.dll,FileProtocolHandler'];
  }
  const places = (process.env.PATH ?? '').split(':').filter((place) => place.startsWith('/'));
  const program = places.map((place) => path.join(place, 'xdg-open')).find(isProgram);
  return program && [program];
}

function isProgram(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function openBrowser(url) {
  const [program, ...args] = opener() ?? [];
  // The address was printed: whoever has no browser here can still go there.
  if (!program) return;
  const child = spawn(program, [...args, url], { stdio: 'ignore', detached: true });
  child.on('error', () => {});
  child.unref();
}

module.exports = { openBrowser };
