'use strict';
// Finds and loads the native add-on of this platform. Owns the search order; why nothing fitted is told by
// lib/addon-error.js. The `require` strings below are literal so that bundlers and packagers see them.

const { existsSync } = require('node:fs');
const { join, resolve } = require('node:path');

const { version } = require('./package.json');
const { fileOfPackage, refuseCut } = require('./lib/addon-file.js');
const { platformTriple } = require('./lib/platform.js');

/** What was tried so far, in order, each with what went wrong. */
const attempts = [];
const triple = platformTriple();

function attempt(place, file, get) {
  try {
    if (file && process.platform === 'linux') refuseCut(file);
    const addon = get();
    const found = typeof addon.nativeVersion === 'function' ? addon.nativeVersion() : 'unknown';
    if (found === version) return addon;
    attempts.push({ place, file, version: found });
  } catch (error) {
    attempts.push({ place, file, error });
  }
  return undefined;
}

function fromFile(file) {
  if (existsSync(file)) return attempt(file, file, () => require(file));
  attempts.push({ place: file, file });
  return undefined;
}

/** The package that npm installs beside this one for the platform. */
function fromPackage() {
  return attempt(`@mcp-switchboard/${triple}`, fileOfPackage(__dirname, triple), () => {
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
        throw new Error('nothing is published for this platform');
    }
  });
}

function load() {
  const override = process.env.MCP_SWITCHBOARD_BINARY;
  const addon = override
    ? fromFile(resolve(override))
    : (fromFile(join(__dirname, `mcp-switchboard.${triple}.node`)) ?? fromPackage());
  if (addon !== undefined) return addon;
  throw require('./lib/addon-error.js').addonError({ attempts, triple, override, folder: __dirname });
}

module.exports = load();
