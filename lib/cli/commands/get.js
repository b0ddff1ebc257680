'use strict';

const { withManager } = require('../host.js');
const { entriesOf } = require('../entries.js');

module.exports = {
  name: 'get',
  summary: 'show the definitions of a server, without their secrets, and what becomes of each',
  usage: ['SERVER'],
  about: ['Starts nothing.'],
  positionals: [1, 1],
  run: (context) =>
    withManager(context, {}, (manager) => {
      const [name] = context.positionals;
      const entries = entriesOf(manager, name);
      context.out.answer({ name, definitions: entries, status: manager.status(name) }, () =>
        entries.flatMap((entry, at) => [...(at > 0 ? [''] : []), ...lines(entry, context.out)]),
      );
    }),
};

function lines({ name, scope, file, line, fate, by, reason, config, approved }, out) {
  const place = file === undefined ? '' : ` in ${file}${line === undefined ? '' : `:${line}`}`;
  return [
    `${out.paint(name, 'bold')}: scope ${scope}${place}`,
    `${fate}${by === undefined ? '' : ` by ${by}`}${reason === undefined ? '' : ` (${reason})`}`,
    JSON.stringify(config, null, 2),
    ...(approved === undefined ? [] : ['approved was:', JSON.stringify(approved, null, 2)]),
  ];
}
