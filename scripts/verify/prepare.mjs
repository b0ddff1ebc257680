// What the `verify` scripts need before they begin: packages and an add-on; and their arguments in common.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { profileOf } from '../build.mjs';
import { alone } from '../lock.mjs';
import { root, Trouble } from '../project.mjs';
import { installPackages, setup } from '../setup.mjs';
import { checkNode } from '../toolchain.mjs';

const { platformTriple } = createRequire(import.meta.url)('../../lib/platform.js');

/** The add-on of this platform in this checkout. */
export const addonFile = join(root, `mcp-switchboard.${platformTriple()}.node`);

/**
 * Sets the checkout up. `--prebuilt` takes the add-on that is there, which needs no Rust; else `--profile NAME` says how
 * it is built (`local`). `--skip NAME` may come more than once.
 * @returns {Promise<{ names: string[], skip: string[] }>} what is left of the arguments
 */
export async function prepare(args) {
  const { names, skip, prebuilt, profile } = parse(args);
  if (!prebuilt) {
    await setup(profile);
    return { names, skip };
  }
  checkNode();
  await alone(installPackages);
  if (!existsSync(addonFile)) throw new Trouble(`--prebuilt: there is no ${addonFile}`);
  return { names, skip };
}

function parse(args) {
  const found = { names: [], skip: [], prebuilt: false, profile: profileOf(args, 'local') };
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at];
    if (arg === '--prebuilt') found.prebuilt = true;
    else if (arg === '--profile') at += 1;
    else if (arg === '--skip') found.skip.push(valueOf(args, ++at, '--skip'));
    else if (arg.startsWith('-')) throw new Trouble(`unknown option ${arg}`);
    else found.names.push(arg);
  }
  return found;
}

function valueOf(args, at, option) {
  if (at < args.length && !args[at].startsWith('-')) return args[at];
  throw new Trouble(`${option} needs a name`);
}
