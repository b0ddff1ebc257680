'use strict';

const { reach, withManager } = require('../host.js');
const { columns, short } = require('../words.js');

module.exports = {
  name: 'tools',
  summary: 'list the tools of all servers, or of one',
  usage: ['[SERVER]'],
  about: [
    'Tools that a rule denies are not listed. Of all servers, those that do not answer are warnings (`problems` in',
    'JSON); a server that was named and does not answer is an error.',
  ],
  positionals: [0, 1],
  options: {
    search: { type: 'string', value: 'WORDS', help: 'only tools that fit, best first; +word must occur' },
  },
  examples: ['mcp-switchboard tools github', 'mcp-switchboard tools --search "+issue open" --json'],
  run: (context) =>
    withManager(context, {}, async (manager) => {
      const { values, out, signal } = context;
      const [server] = context.positionals;
      const problems = await reach(manager, server, context);
      const tools = await listed(manager, server, values.search, signal);
      out.answer({ tools, problems }, () =>
        columns(
          tools.map(({ name, description, title }) => [name, short(description || title || '')]),
          (cell, at) => (at === 0 ? out.paint(cell, 'bold') : cell),
        ),
      );
      if (tools.length === 0) out.note('no tools');
    }),
};

async function listed(manager, server, words, signal) {
  if (words === undefined) return manager.listTools({ server, signal });
  const found = await manager.searchTools(words, { limit: 100, signal });
  return server === undefined ? found : found.filter(({ mcpInfo }) => mcpInfo.serverName === server);
}
