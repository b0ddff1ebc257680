'use strict';

const { entriesOf } = require('../entries.js');
const { CommandError, UsageError } = require('../errors.js');
const { withManager } = require('../host.js');

const SCOPES = ['local', 'project', 'user'];

module.exports = {
  name: 'remove',
  summary: 'take a server out of the configuration',
  usage: ['SERVER'],
  about: ['The scope has to be named where several have a server of that name.'],
  positionals: [1, 1],
  options: {
    scope: { type: 'string', value: 'SCOPE', choices: SCOPES, help: 'which files it is taken out of' },
  },
  run: (context) =>
    withManager(context, {}, async (manager) => {
      const [name] = context.positionals;
      const { out, signal } = context;
      const { scope, file } = chosen(entriesOf(manager, name), name, context.values.scope);
      await manager.removeServer(name, { persist: scope, signal });
      out.answer({ name, scope, file }, () => [`removed ${name} from ${file ?? scope}`]);
    }),
};

/** The one definition that is meant. */
function chosen(entries, name, scope) {
  const there = entries.map((entry) => entry.scope);
  const mine = entries.filter(
    (entry) => SCOPES.includes(entry.scope) && (scope ?? entry.scope) === entry.scope,
  );
  if (mine.length === 0) {
    const message = `${name} is of scope ${there.join(', ')}, and is not to be removed from ${scope ?? 'here'}`;
    throw new CommandError('SERVER_UNKNOWN', message, { server: name });
  }
  if (new Set(mine.map((entry) => entry.scope)).size > 1)
    throw new UsageError(`remove: ${name} is of scope ${there.join(' and ')}; say which with --scope`);
  return mine[0];
}
