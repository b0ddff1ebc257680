'use strict';

const { definitionOf } = require('../definition.js');
const { withManager } = require('../host.js');
const { quoted, target } = require('../words.js');

module.exports = {
  name: 'add',
  summary: 'add a server to the configuration',
  usage: ['SERVER [--env NAME=VALUE…] -- COMMAND [ARGUMENT…]', "SERVER --url URL [--header 'NAME: VALUE'…]"],
  about: [
    'Writes the definition into a file of the scope, comments and order of the file untouched: `local` is for you in this',
    'project, `project` goes into .mcp.json for everybody who works on it, `user` is for you everywhere. Starts nothing.',
    'Values may hold ${NAME}, which is filled in from the environment when the server is used: keep secrets there.',
  ],
  positionals: [1, 1],
  rest: 'the command and its arguments',
  options: {
    scope: {
      type: 'string',
      value: 'SCOPE',
      choices: ['local', 'project', 'user'],
      help: 'where it is kept (local)',
    },
    url: { type: 'string', value: 'URL', help: 'address of a server over the network' },
    transport: {
      type: 'string',
      value: 'KIND',
      choices: ['http', 'sse', 'ws'],
      help: 'how it is spoken to (by the URL)',
    },
    header: {
      type: 'string',
      value: 'HEADER',
      multiple: true,
      help: 'header of every request, NAME: VALUE; repeatable',
    },
    env: { type: 'string', value: 'NAME=VALUE', multiple: true, help: 'variable of the server; repeatable' },
    'server-cwd': { type: 'string', value: 'DIR', help: 'working directory of the server' },
  },
  examples: [
    'mcp-switchboard add files -- npx -y @modelcontextprotocol/server-filesystem .',
    "mcp-switchboard add search --url https://mcp.example.com/mcp --header 'Authorization: Bearer ${TOKEN}'",
  ],
  run: (context) => {
    const [name] = context.positionals;
    const { scope = 'local' } = context.values;
    const config = definitionOf(context.values, context.rest);
    return withManager(context, {}, async (manager) => {
      const { out, signal } = context;
      await manager.addServer(name, config, { persist: scope, connect: false, signal });
      const entry = manager.configReport().servers.find((one) => one.name === name && one.scope === scope);
      out.answer({ name, scope, file: entry?.file, config: entry?.config }, () => [
        `added ${name} (${target(entry?.config ?? {})}) to ${entry?.file ?? scope}`,
      ]);
      if (!out.json) out.note(`try it: mcp-switchboard tools ${quoted(name)}`);
    });
  },
};
