// Nodes of other platforms that this machine can run, by emulation where it has to be: there is one for each platform
// whose add-on lies in `npm/<triple>/` (`npm run build:platforms`).

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { Missing } from '../cross-tools.mjs';
import { nodeFor } from '../foreign-nodes.mjs';
import { packageFolder, TARGETS } from '../targets.mjs';
import { NotHere } from './report.mjs';

const { platformTriple } = createRequire(import.meta.url)('../../lib/platform.js');

/** Platforms whose smoke run is part of `verify:runtimes`; the others are `verify:platforms`' own. */
const LINUX = TARGETS.filter(({ os, triple }) => os === 'linux' && triple !== platformTriple());

/** As runtimes of verify-runtimes.mjs. */
export function foreignRuntimes() {
  if (process.platform !== 'linux') return [];
  return LINUX.map((target) => {
    const binary = join(packageFolder(target), target.main);
    return {
      name: target.triple,
      env: { MCP_SWITCHBOARD_BINARY: binary },
      async command() {
        if (!existsSync(binary)) throw new NotHere(`not built (npm run build:platforms -- ${target.triple})`);
        try {
          return (await nodeFor(target)).command;
        } catch (error) {
          if (error instanceof Missing) throw new NotHere(error.message);
          throw error;
        }
      },
    };
  });
}
