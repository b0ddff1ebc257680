// What the JavaScript of an installed server says without being run: names of tools, and the environment variables it
// asks for. A second choice: a server that starts tells its tools itself.

import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

const LARGEST_FILE = 16 * 1024 * 1024;

/** Texts of the package's own JavaScript files, without the packages it depends on, in a stable order. */
export function* scriptsOf(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true }).sort((a, b) =>
    a.name < b.name ? -1 : 1,
  )) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && entry.name !== 'node_modules') yield* scriptsOf(path);
    if (entry.isFile() && /\.[cm]?js$/.test(entry.name) && statSync(path).size <= LARGEST_FILE) {
      yield readFileSync(path, 'utf8');
    }
  }
}

/** `server.tool("name"`, `registerTool("name"` and their like. */
const REGISTERED = /\b(?:tool|[rR]egisterTool|addTool|defineTool)\(\s*(["'`])([A-Za-z][\w-]{1,63})\1\s*,/g;
/** An object with a name and a description ... */
const DESCRIBED = /\bname:\s*(["'`])([A-Za-z][\w-]{1,63})\1,\s*(?:title:[^,]{1,120},\s*)?description:/g;
/** ... that has a schema of its input before the next such object begins. */
const SCHEMA = /\b(?:inputSchema|input_schema|parameters|schema|annotations)\b/;
const REACH = 6_000;

/**
 * Names of the tools that a script registers. Only names of several words count: a single word is as likely to be a
 * prompt or an argument.
 */
export function toolNamesIn(text) {
  const names = new Set();
  for (const [, , name] of text.matchAll(REGISTERED)) names.add(name);
  const described = [...text.matchAll(DESCRIBED)];
  described.forEach((match, index) => {
    const from = match.index + match[0].length;
    const end = Math.min(described[index + 1]?.index ?? text.length, from + REACH);
    if (SCHEMA.test(text.slice(from, end))) names.add(match[2]);
  });
  return [...names].filter((name) => /[a-z][-_A-Z]/.test(name));
}

/**
 * Harmless values for the keys, accounts and addresses that a script reads from its environment, so that a server which
 * only checks that they are set does start. Nothing listens at the address.
 */
export function dummyEnvironment(text) {
  const env = {};
  for (const [, name] of text.matchAll(/\benv(?:\.|\[["'])([A-Z][A-Z0-9_]{2,60})\b/g)) {
    if (/^(NODE|NPM|HTTPS?|NO|ALL|FORCE|CI|DEBUG|LOG)(_|$)|PROXY|HTTP_|OAUTH|TELEMETRY|SENTRY_DSN/.test(name))
      continue;
    if (
      /(KEY|TOKEN|SECRET|PASSWORD|PASS|PAT|ID|USER|USERNAME|EMAIL|ACCOUNT|ORG|ORGANIZATION|WORKSPACE|TEAM|PROJECT)$/.test(
        name,
      )
    ) {
      env[name] = 'dummy';
    } else if (/(URL|URI|HOST|ENDPOINT|INSTANCE|SITE|DOMAIN)$/.test(name)) {
      env[name] = 'http://127.0.0.1:9';
    }
  }
  return env;
}
