'use strict';

const { withManager } = require('../host.js');
const { columns, short, target } = require('../words.js');

const STYLES = { active: 'green', 'pending-approval': 'yellow', invalid: 'red' };

module.exports = {
  name: 'list',
  summary: 'list every server of the configuration and what becomes of it',
  usage: [''],
  about: ['Starts nothing; `doctor` connects the servers and says how they are.'],
  run: (context) =>
    withManager(context, {}, (manager) => {
      const { out } = context;
      const report = manager.configReport();
      const { servers, errors, warnings } = report;
      for (const { level, message, file, line } of [...errors, ...warnings]) {
        const place = file === undefined ? '' : `${file}${line === undefined ? '' : `:${line}`}: `;
        if (level === 'error') out.error(`${place}${message}`);
        else out.warning(`${place}${message}`);
      }
      out.answer(report, () => {
        if (servers.length === 0) return ['no servers; `mcp-switchboard add` adds one'];
        const rows = servers.map(({ name, scope, fate, config }) => [
          name,
          scope,
          fate,
          short(target(config)),
        ]);
        return columns(rows, (cell, at, line) =>
          at === 2 ? out.paint(cell, STYLES[servers[line].fate] ?? 'dim') : cell,
        );
      });
    }),
};
