// Which version of a package is installed, found from one of its modules: not every package exports its package.json.

import { existsSync, readFileSync } from 'node:fs';

/** The version in the nearest package.json above `moduleUrl` that names the package. */
export function installedVersion(moduleUrl, name) {
  for (let folder = new URL('.', moduleUrl); ; folder = new URL('..', folder)) {
    const file = new URL('package.json', folder);
    if (existsSync(file)) {
      const manifest = JSON.parse(readFileSync(file, 'utf8'));
      if (manifest.name === name) return manifest.version;
    }
    if (folder.pathname === new URL('..', folder).pathname) throw new Error(`${name} has no package.json`);
  }
}
