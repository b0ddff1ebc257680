'use strict';

const { buildToolName, parseToolName } = require('../../../index.js');
const { resultText } = require('../blocks.js');
const { reach, withManager } = require('../host.js');
const { argumentsOf, needsSchema } = require('../input.js');
const terminal = require('../terminal.js');
const { short } = require('../words.js');

const FAILED = 1;

module.exports = {
  name: 'call',
  summary: 'call a tool and print its result',
  usage: ['TOOL [KEY=VALUE…]', "TOOL '{…}'", 'TOOL -'],
  about: [
    'TOOL is a full name (mcp__server__tool), or with --server the server’s own name of it. Values take the types of the',
    'tool’s schema; a key that comes again makes a list; - reads JSON from standard input.',
    '',
    'Rules of the configuration decide first: what they deny never runs. Where they allow nothing, you are asked on the',
    'terminal; without one, --yes answers. A result that says that the tool failed is printed, and the exit code is 1.',
  ],
  positionals: [1, Infinity],
  options: {
    server: { type: 'string', value: 'SERVER', help: 'TOOL is this server’s own name of the tool' },
    yes: { type: 'boolean', short: 'y', help: 'answer yes where no rule denies the call' },
  },
  examples: [
    'mcp-switchboard call mcp__files__read_text_file path=README.md',
    `mcp-switchboard call mcp__files__read_text_file '{"path": "README.md"}' --json`,
    'echo \'{"path": "README.md"}\' | mcp-switchboard call --server files read_text_file - --yes',
  ],
  run: (context) => {
    // Pairs are checked here, and a tool that is not listed has no schema here: its refusal is what counts then.
    const validateInput = !needsSchema(context.positionals.slice(1));
    return withManager(context, { ...permission(context), validateInput }, (manager) =>
      run(manager, context),
    );
  },
};

async function run(manager, context) {
  const { values, out, signal, stdin } = context;
  const [name, ...words] = context.positionals;
  const tool = values.server === undefined ? name : { server: values.server, tool: name };
  const schema = needsSchema(words) ? await schemaOf(manager, tool, context) : undefined;
  const args = await argumentsOf(words, schema, stdin, signal);
  const result = await manager.callTool(tool, args, {
    signal,
    toolErrors: 'return',
    timeoutMs: values.timeoutMs,
    onProgress: (progress) => out.progress(progressText(name, progress)),
  });
  if (out.json) out.document(result);
  else out.content(resultText(result));
  if (!result.isError) return undefined;
  if (!out.json) out.error(`TOOL_ERROR: ${result.fullName} says that it failed`);
  return FAILED;
}

/** The schema of a tool's arguments; `undefined` where there is no such tool, which the call will say better. */
async function schemaOf(manager, tool, context) {
  const { signal } = context;
  const names = typeof tool === 'string' ? serversOf(manager, tool) : [tool.server];
  for (const server of names) {
    await reach(manager, server, context);
    const found = (await manager.listTools({ server, signal })).find(
      ({ name, mcpInfo }) => name === tool || mcpInfo.toolName === tool.tool,
    );
    if (found !== undefined) return found.inputSchema;
  }
  return undefined;
}

/** Servers whose tools may have a full name that begins like this one. */
function serversOf(manager, fullName) {
  const wanted = parseToolName(fullName)?.server;
  const names = manager.status().map(({ name }) => name);
  const likely = names.filter((name) => parseToolName(buildToolName(name, 'x')).server === wanted);
  // The names of two servers may have been alike before one of them got a suffix.
  return likely.length > 0
    ? likely
    : names.filter((name) => wanted?.startsWith(buildToolName(name, '').slice(5, -2)));
}

function progressText(name, { progress, total, message }) {
  const done = total === undefined ? String(progress) : `${progress} of ${total}`;
  return `${name}: ${done}${message === undefined ? '' : ` ${message}`}`;
}

/** Who answers where rules leave it open. Without anybody the API refuses: `PERMISSION_REQUIRED`. */
function permission(context) {
  if (context.values.yes) return { onPermission: () => ({ behavior: 'allow' }) };
  if (!terminal.present(context)) return {};
  return {
    onPermission: async ({ fullName, input, description, reason, annotations }) => {
      const { out } = context;
      out.ask(`${fullName} ${JSON.stringify(input)}`);
      if (description) out.ask(`  ${short(description)}`);
      if (annotations.destructiveHint) out.ask('  may destroy something');
      out.ask(`  asked because ${reason}`);
      const yes = await terminal.confirmed(context, 'Run it?');
      return yes ? { behavior: 'allow' } : { behavior: 'deny', message: 'you said no' };
    },
  };
}
