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
      const mine = chosen(entriesOf(manager, name), name, context.values.scope);
      const [{ scope }] = mine;
      await manager.removeServer(name, { persist: scope, signal });
      const { gone, left } = outcome(mine, manager.configReport().servers);
      for (const file of left) out.warning(`${name} is in ${file} too, and stays there`);
      out.answer({ name, scope, file: gone[0] }, () => [`removed ${name} from ${gone.join(', ')}`]);
    }),
};

/** Files that had the definitions: those that do not any more, and those that still do. */
function outcome(mine, present) {
  const { name, scope } = mine[0];
  const now = present.filter((entry) => entry.name === name && entry.scope === scope);
  const stays = (file) => now.some((entry) => entry.file === file);
  const files = [...new Set(mine.map(({ file }) => file))];
  const [gone, left] = [files.filter((file) => !stays(file)), files.filter(stays)];
  if (gone.length > 0) return { gone, left };
  throw new CommandError('CONFIG_WRITE_FAILED', `${name} is still in ${left.join(', ')}`, {
    server: name,
    hint: 'take it out of that file by hand',
  });
}

/** The definitions that are meant, all of one scope. */
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
  return mine;
}
