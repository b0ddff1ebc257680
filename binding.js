'use strict';
// Finds and loads the native add-on of this platform. Owns the search order and the message when nothing fits;
// knows nothing of what the add-on does. The `require` strings below are literal so that bundlers see them.

const { existsSync, readdirSync } = require('node:fs');
const { join, resolve } = require('node:path');

const { platformTriple } = require('./lib/platform.js');

/** What was tried so far, in order, each with the reason why it did not serve. */
const attempts = [];
const triple = platformTriple();

function failed(place, error) {
  const absent = error.code === 'MODULE_NOT_FOUND';
  attempts.push({ place, reason: absent ? 'not found' : String(error.message).split('\n')[0], error });
  return undefined;
}

function fromFile(file) {
  try {
    if (!existsSync(file)) throw Object.assign(new Error(`${file} not found`), { code: 'MODULE_NOT_FOUND' });
    return require(file);
  } catch (error) {
    return failed(file, error);
  }
}

/** The package that npm installs beside this one for the platform. */
function fromPackage() {
  try {
    switch (triple) {
      case 'darwin-arm64':
        return require('@mcp-switchboard/darwin-arm64');
      case 'darwin-x64':
        return require('@mcp-switchboard/darwin-x64');
      case 'linux-arm64-gnu':
        return require('@mcp-switchboard/linux-arm64-gnu');
      case 'linux-arm64-musl':
        return require('@mcp-switchboard/linux-arm64-musl');
      case 'linux-x64-gnu':
        return require('@mcp-switchboard/linux-x64-gnu');
      case 'linux-x64-musl':
        return require('@mcp-switchboard/linux-x64-musl');
      case 'win32-arm64-msvc':
        return require('@mcp-switchboard/win32-arm64-msvc');
      case 'win32-x64-msvc':
        return require('@mcp-switchboard/win32-x64-msvc');
      default:
        throw new Error('no binary is published for this platform');
    }
  } catch (error) {
    return failed(`@mcp-switchboard/${triple}`, error);
  }
}

/** Every platform package that is installed; one of another platform is the trace of a foreign lock file. */
function installedPackages() {
  for (const modules of [join(__dirname, 'node_modules'), resolve(__dirname, '..')]) {
    const scope = join(modules, '@mcp-switchboard');
    if (existsSync(scope)) return readdirSync(scope).filter((name) => !name.startsWith('.'));
  }
  return [];
}

function remedy(found, override) {
  if (override) return 'Point MCP_SWITCHBOARD_BINARY at an add-on built for this platform, or unset it.';
  if (existsSync(join(__dirname, 'Cargo.toml'))) {
    return 'This is a source checkout: run `npm run build` (needs Rust).';
  }
  const ownBuild = 'Or build from source and set MCP_SWITCHBOARD_BINARY to the file.';
  if (found.includes(triple)) return `The platform package is installed but does not load here. ${ownBuild}`;
  const foreign =
    found.length > 0
      ? 'The lock file or node_modules come from another platform: delete both and install again.'
      : 'If package-lock.json was made on another platform, delete it and node_modules first (npm/cli#4828).';
  return `Install again without \`--omit=optional\` (or \`--no-optional\`). ${foreign} ${ownBuild}`;
}

function notFound(override) {
  const found = installedPackages();
  const lines = [
    `mcp-switchboard: no native add-on for ${triple} (Node ${process.versions.node}) could be loaded`,
    ...attempts.map(({ place, reason }) => `  tried ${place}: ${reason}`),
    `  installed platform packages: ${found.join(', ') || 'none'}`,
    `  ${remedy(found, override)}`,
  ];
  return new Error(lines.join('\n'), { cause: attempts.at(-1)?.error });
}

function load() {
  const override = process.env.MCP_SWITCHBOARD_BINARY;
  const binding = override
    ? fromFile(resolve(override))
    : (fromFile(join(__dirname, `mcp-switchboard.${triple}.node`)) ?? fromPackage());
  if (binding === undefined) throw notFound(override);
  return binding;
}

module.exports = load();
